"""Checks a wheel and an sdist: `python release/check.py FOLDER` exits with 0, or prints what is wrong and exits with 1.

The wheel built from the sdist must equal the one built from the tree, file by file. The wheel must contain only the
package and its metadata, both must state the package's version, and the sdist must contain what is under version
control.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dvcodec"
LARGEST_WHEEL = 1_100_000
"""Bytes. Only modules are in it; a third are docstrings and comments, which stay: users read them in their editors."""


def one(folder: Path, pattern: str) -> Path:
    """Return the only file with that name."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder}: {len(found)} files {pattern}, expected one")
    return found[0]


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def wheel_of(sdist: Path, folder: Path) -> Path:
    """Build a wheel from an sdist alone."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    root = one(folder, "dvcodec-*")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "again"), str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return one(folder / "again", "*.whl")


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the wheel and the sdist in a folder."""
    wheel, sdist = one(folder, "*.whl"), one(folder, "*.tar.gz")
    match = re.search(r'"(.+)"', (PACKAGE / "_version.py").read_text().partition("__version__")[2])
    version = match[1] if match else "?"
    found = []
    files = members(wheel)
    metadata = f"dvcodec-{version}.dist-info/"
    expected = {
        f"dvcodec/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in files if not name.startswith(metadata)}
    found += [f"{wheel.name}: {name} is not of the package" for name in sorted(inside - expected)]
    found += [f"{wheel.name}: {name} is missing" for name in sorted(expected - inside)]
    wanted = {f"{metadata}{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    if set(files) - inside != wanted:
        found.append(f"{wheel.name}: metadata {sorted(set(files) - inside)}, expected {sorted(wanted)}")
    if not wheel.name.endswith(f"-{version}-py3-none-any.whl"):
        found.append(f"{wheel.name} is not of version {version}, for every system")
    if wheel.stat().st_size > LARGEST_WHEEL:
        found.append(f"{wheel.name}: {wheel.stat().st_size} bytes, expected at most {LARGEST_WHEEL}")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {*listed.split("\0")[:-1], "PKG-INFO"}
    found += [f"{sdist.name}: {name} is missing" for name in sorted(tracked - names)]
    found += [f"{sdist.name}: {name} is not under version control" for name in sorted(names - tracked)]
    with tempfile.TemporaryDirectory() as scratch:
        again = members(wheel_of(sdist, Path(scratch)))
    differ = sorted(name for name in files.keys() | again.keys() if files.get(name) != again.get(name))
    found += [f"{name} differs in the wheel that is made from {sdist.name}" for name in differ]
    if not found:
        sizes = f"{wheel.stat().st_size:,} and {sdist.stat().st_size:,} bytes"
        print(f"{wheel.name}, {len(files)} files, equals the one made from {sdist.name}; {sizes}")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(bool(wrong))
