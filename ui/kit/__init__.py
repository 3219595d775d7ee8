"""The page kit: what every page of the course is made of."""
