"""Operations over any format: `sniff` (what is it), `verify` (is it sound), `convert`, `algebra` and `stats`."""
