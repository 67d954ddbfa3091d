"""One of several processes that delete rows of one table: each of its rows in a commit of its own.

    race.py TABLE NAME FIRST STEP STOP

deletes the rows FIRST, FIRST + STEP ... of the data file NAME.
"""

from __future__ import annotations

import random
import sys
import time

from dvcodec import RowSet
from dvcodec.core.errors import CommitConflict
from dvcodec.tables import open_table
from dvcodec.tables.iceberg.commit import committer
from tables.iceberg.deleting import delete


def main(root: str, name: str, first: int, step: int, stop: int) -> None:
    writer = committer(open_table(root))
    lost = 0
    for row in range(first, stop, step):
        while True:
            base = writer.current()
            (path,) = (file.path for file in base.data_files if file.path.endswith(name))
            try:
                delete(writer, {path: RowSet([row])}, base=base)
                break
            except CommitConflict:
                lost += 1
                time.sleep(random.uniform(0, 0.05))
    print(lost)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
