"""What a machine rounds with: that it is told, and that what is said to make it the same does so."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from afbs.experiment.arithmetic import products, setting

PROGRAM = """
import hashlib
import numpy as np
from afbs.core.vectors import weighted_sum
from afbs.experiment.arithmetic import products

rows = np.random.default_rng(1).standard_normal((10, 5000)).astype(np.float32)
print(products())
print(hashlib.sha256(weighted_sum([0.1 * i for i in range(10)], rows).tobytes()).hexdigest())
"""
OLDEST = "ARMV8" if platform.machine() in ("arm64", "aarch64") else "Nehalem"


def multiplied(processor: str) -> list[str]:
    """The library and a product's digest, in a process of its own as on another processor."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": processor, "OPENBLAS_NUM_THREADS": "1"}
    told = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return told.stdout.split("\n")[:2]


def test_numpy_multiplies_as_on_another_processor_with_the_setting_that_is_told() -> None:
    here = products()
    assert here is not None
    own = multiplied(setting(here).removeprefix("OPENBLAS_CORETYPE="))
    other = multiplied(OLDEST)
    assert (own[0], other[0].lower()) == (here, f"openblas {OLDEST}".lower())
    assert own[1] != other[1]
    assert multiplied(setting(other[0]).removeprefix("OPENBLAS_CORETYPE=")) == other


def test_only_a_library_that_can_be_told_has_a_setting() -> None:
    assert setting("openblas SkylakeX") == "OPENBLAS_CORETYPE=SkylakeX"
    assert setting("mkl 2026.0") == ""
    assert setting(None) == ""
