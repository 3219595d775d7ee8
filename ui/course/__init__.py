"""The page that shows the whole course: a map of its places, and every word in it."""
