"""A build backend without dependencies, so that the package can be installed offline."""

from __future__ import annotations

import zipfile
from pathlib import Path

NAME, VERSION = "varset", "0.3"
FOLDER = Path(__file__).parent
METADATA = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[dvcodec.formats]\nvarset = varset:FORMAT\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    info = f"{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as wheel:
        for path in sorted((FOLDER / "src").rglob("*.py")):
            wheel.write(path, path.relative_to(FOLDER / "src").as_posix())
        for file, text in {"METADATA": METADATA, "WHEEL": WHEEL, "entry_points.txt": ENTRY_POINTS}.items():
            wheel.writestr(f"{info}/{file}", text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{one},,\n" for one in [*wheel.namelist(), f"{info}/RECORD"]))
    return name
