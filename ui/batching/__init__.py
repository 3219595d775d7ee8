"""The batching page: who gets a place, who waits, and what both cost."""
