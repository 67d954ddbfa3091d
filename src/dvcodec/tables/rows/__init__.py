"""Rows of data files: their columns, bounds and physical positions."""
