"""The segments by zapx, those of one version at a time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from samples.zap.parts import SAMPLES, Sample, load_sample
from samples.zap.segments import VERSIONS

load = cache(load_sample)


@pytest.fixture(params=VERSIONS, ids="v{}".format)
def samples(request: pytest.FixtureRequest, vectors: Path) -> list[Sample]:
    return [load(vectors / "zap" / f"{name}.zap") for name in SAMPLES if name.startswith(f"v{request.param}/")]
