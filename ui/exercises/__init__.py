"""The page of exercises: what is asked, what was answered, its link."""
