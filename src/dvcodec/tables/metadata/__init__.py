"""What the metadata of several formats share: fields of JSON and Avro, caches, paths of tables that moved."""
