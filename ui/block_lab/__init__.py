"""The block pool page's ways to look at a run: by hand, at other block sizes, under another
allocator. Each is a fragment of its own."""
