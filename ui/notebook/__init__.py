"""The notebook on its page: what is in it, found, edited, taken away and brought back."""
