"""What tests of the native kernels are run with: every level there is here, or a skip that says why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from afbs.native.library import levels, why_not

needs_kernels = pytest.mark.skipif(not levels(), reason=f"there are no native kernels: {why_not()}")
LEVELS: list[Any] = list(levels()) or [pytest.param("none", marks=needs_kernels)]
