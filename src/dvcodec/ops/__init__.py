"""Operations over any format: `sniff` (what is it), `verify` (is it valid), `convert`, `algebra` and `stats`."""
