"""Operations on any format: `sniff` (detect), `verify` (check), `convert`, `algebra` (diff, merge) and `stats`."""
