"""The capacity planner: its place, its figures, what else there is, and what can be taken away."""
