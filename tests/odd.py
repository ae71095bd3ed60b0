"""Values that nobody should write into a setting, and some that one might."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
from hypothesis import strategies as st

_NUMBERS = (0, 1, 2, 3, 7, 299, 300, 301, 10**6, 10**9, 2**31, 2**62, 2**63 - 1, 2**63, 10**30, 10**5000)
_FLOATS = (0.0, 5e-324, 1e-300, 1e-9, 1e-6, 0.001, 0.5, 1.0, 1.5, 20.0, 1e3, 1e9, 1e18, 1e300, math.inf)
_TEXTS = ("", "client", "job", "train_x", "\0", "~nobody", "~", ".", "/", "/dev/null", "x" * 300, "é\n", "%s{}", "C:\\")
_OTHERS: tuple[Any, ...] = (
    True,
    False,
    None,
    b"x",
    [],
    [1],
    [[1]],
    {},
    {"a": 1},
    (1, 2),
    date(2024, 1, 1),
    1j,
    object(),
    np.float64(2.0),
)
ODD = [*_NUMBERS, *(-n for n in _NUMBERS), *_FLOATS, *(-x for x in _FLOATS), math.nan, *_TEXTS, *_OTHERS]
odd = st.one_of(
    st.sampled_from(range(len(ODD))).map(lambda place: ODD[place]),  # by place: some cannot be printed
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.floats(0, 1),
    st.integers(0, 400),
    st.text(max_size=5),
)
