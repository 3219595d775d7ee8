"""The page of the numbers to know: what is shown, its link, its files."""
