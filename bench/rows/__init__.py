"""The lines of the table of targets: a module a row or a family of them, each with `comparisons`."""
