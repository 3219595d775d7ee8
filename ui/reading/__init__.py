"""Pages that are read: a lesson drawn by itself, with its figures, charts and recorded runs."""
