"""dvcodec compared with its peers on the same bytes. `make bench`; whole tables: `make bench-tables`.

    python bench/run.py [ROW ...] [--rounds 7] [--short] [--save RUNS] [--against BASELINE]

Rows are the modules of bench/rows. Peers in other processes (Java, Go, pypaimon) are measured if `make interop` has
built them; otherwise they are left out, by name. `--short` measures only against pyroaring and pyarrow in this process.
With `--against`, lines that fell 40 % below the baseline are measured again, and the run fails if they stay there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # which can make small tables

import rows
from harness import Comparison, Figure, fallen, measure_against
from report import line
from runs import add, load

ROWS = tuple(module.name for module in pkgutil.iter_modules(rows.__path__))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=[], help=f"of {', '.join(ROWS)}; all by custom")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="only peers that guard, with smaller data")
    parser.add_argument("--save", type=Path, help="add the run to this file")
    parser.add_argument("--against", type=Path, help="fail where a guarded ratio fell by more than 40 %")
    parser.add_argument("--baseline", type=Path, help="write the guarded ratios into this file, where lower ones stay")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    baseline = json.loads(given.against.read_text()) if given.against else {}
    figures: list[Figure] = []
    busy = load()
    for name in given.rows or ROWS:
        with ExitStack() as stack:
            for comparison in importlib.import_module(f"rows.{name}").comparisons(stack, short=given.short):
                asked = guarded(comparison) if given.short else comparison
                for figure in measure_against(asked, given.rounds, baseline):
                    figures.append(figure)
                    print(line(figure), flush=True)
    if given.save:
        add(given.save, figures, busy)
    if given.baseline:
        # A busy machine slows the two differently: the lower ratio of an idle and a busy machine guards on both.
        before = json.loads(given.baseline.read_text()) if given.baseline.exists() else {}
        ratios = {figure.key: round(figure.ratio, 3) for figure in figures if figure.guards and figure.ratio}
        lowest = {key: min(ratio, before.get(key, ratio)) for key, ratio in ratios.items()}
        given.baseline.write_text(json.dumps(lowest, indent=1) + "\n")
    if given.against:
        lost = fallen(figures, baseline)
        print(*lost, sep="\n", file=sys.stderr)
        return 1 if lost else 0
    return 0


def guarded(comparison: Comparison) -> Comparison:
    """Keep only the peers that guard; rows without one yield no comparison in a short run."""
    return replace(comparison, peers=tuple(peer for peer in comparison.peers if peer.guards), per_second=None)


if __name__ == "__main__":
    sys.exit(main())
