"""Operations on any format: `read` (detect, decode), `verify` (check) and `convert` (also diff, merge, describe)."""
