"""Finds and opens the library that was built from the C sources in `native/` when the package was installed.

It holds every function once for each level of what a processor can; the best one that this processor has is taken when
the library is opened. To compare, or to find a fault, `AFBS_NATIVE_LEVEL=portable` asks for another, and
`AFBS_NATIVE_FILE` for another library.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, Structure, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from afbs.types import UserError

INTERFACE = 3
"""Must be that of the library; see `native/kernels.h`."""
LEVELS = ("portable", "avx2", "avx512")
"""From what every processor can to what the newest can."""
_GIVEN = os.environ.get("AFBS_NATIVE_FILE")
FILE = Path(_GIVEN or Path(__file__).with_name("_kernels.so")).absolute()


class Lenet5Shape(Structure):
    """Of one image, the margin around it and the number of classes."""

    _fields_ = [(name, c_int32) for name in ("channels", "height", "width", "margin", "classes")]


class LayerShape(Structure):
    """Of one image, the margin around it, and the convolution's kernel and outputs."""

    _fields_ = [(name, c_int32) for name in ("channels", "height", "width", "margin", "kernel", "outputs")]


class Kernels(Structure):
    """The functions of one level. Arrays are addresses; `native/kernels.h` says what they hold."""

    _fields_ = [
        ("lenet5_sample", CFUNCTYPE(c_int64, POINTER(Lenet5Shape))),
        ("lenet5_room", CFUNCTYPE(c_int64, POINTER(Lenet5Shape))),
        ("lenet5_lay_out", CFUNCTYPE(None, POINTER(Lenet5Shape), c_void_p, c_int64, c_void_p, c_void_p)),
        (
            "lenet5_lay_out_bytes",
            CFUNCTYPE(None, POINTER(Lenet5Shape), *[c_void_p] * 2, c_int64, *[c_void_p] * 3),
        ),
        (
            "lenet5_gradient",
            CFUNCTYPE(None, POINTER(Lenet5Shape), *[c_void_p] * 5, c_int64, *[c_void_p] * 2),
        ),
        ("lenet5_scores", CFUNCTYPE(None, POINTER(Lenet5Shape), *[c_void_p] * 2, c_int64, *[c_void_p] * 2)),
        ("layer_maxima", CFUNCTYPE(c_int64, POINTER(LayerShape))),
        ("layer_room", CFUNCTYPE(c_int64, POINTER(LayerShape))),
        ("layer_forward", CFUNCTYPE(None, POINTER(LayerShape), c_void_p, c_int64, *[c_void_p] * 5)),
        ("layer_backward", CFUNCTYPE(None, POINTER(LayerShape), *[c_void_p] * 3, c_int64, *[c_void_p] * 5)),
        ("peak", CFUNCTYPE(c_int64, c_int64, c_void_p)),
    ]


def kernels() -> Kernels:
    """The functions of the best level there is here, or of the one that `AFBS_NATIVE_LEVEL` names."""
    level = best()
    if level is None:
        raise UserError(f"The native kernels cannot be used here: {why_not()}.")
    return at_level(level)


def best() -> str | None:
    """The level that `kernels` takes; None if there is none."""
    wanted = os.environ.get("AFBS_NATIVE_LEVEL")
    if wanted is not None and wanted not in LEVELS:
        raise UserError(f"AFBS_NATIVE_LEVEL must be one of {', '.join(LEVELS)}, got {wanted!r}.")
    there = [level for level in levels() if wanted in (None, level)]
    return there[-1] if there else None


@cache
def levels() -> tuple[str, ...]:
    """All that the library has and this processor can."""
    library = _opened()
    return () if library is None else tuple(name for name in LEVELS if _table(library, name))


@cache
def at_level(level: str) -> Kernels:
    """The functions of one of `levels`."""
    found: Kernels = _table(_opened(), level).contents
    return found


def why_not() -> str:
    """The end of a sentence that says why there are no kernels."""
    if _GIVEN and not FILE.is_file():
        return f"AFBS_NATIVE_FILE names {FILE}, and there is no such file"
    if not FILE.exists():
        return "they were not built (afbs was installed without a C compiler, or is used without being installed)"
    if _opened() is None and _GIVEN:
        return f"{FILE}, which AFBS_NATIVE_FILE names, is no library of this version of afbs"
    if _opened() is None:
        return f"{FILE} is of another version; install afbs again"
    return f"AFBS_NATIVE_LEVEL asks for what this processor or library does not have; there is {', '.join(levels())}"


@cache
def _opened() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(FILE))
        library.afbs_level.restype = POINTER(Kernels)
        return library if library.afbs_interface() == INTERFACE else None
    except (OSError, AttributeError):
        return None


def _table(library: Any, level: str) -> Any:
    return library.afbs_level(LEVELS.index(level))
