"""What the metadata of several formats share: fields of JSON and Avro, caches, names of data files."""
