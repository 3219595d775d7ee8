"""The page on quantised caches: memory, error and text of a format, measured on the engine."""
