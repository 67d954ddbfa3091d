"""Search the data files of a table for rows to delete, in Spark tasks."""
