"""A snapshot: what its vectors delete, what can be wrong with them, its live rows, and what it changed."""
