"""The parts of the prefix cache page: studies, what they play, and the way to and from a link."""
