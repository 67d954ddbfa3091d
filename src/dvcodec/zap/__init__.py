"""zap: the segments of bleve and scorch."""
