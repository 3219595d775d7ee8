"""Exercises whose numbers are entered with units, diagnosed, and derived by the sizing library."""
