"""What rounds differently from one machine to another: the native kernels, and the library that multiplies for numpy.

Both are chosen by what a processor can. The second adds up a buffer's updates, each level and each make of processor in
an order of its own; `OPENBLAS_CORETYPE`, set before Python begins, takes the kernels of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from afbs.native.library import best


def products() -> str | None:
    """The library of numpy's products and whose kernels it has chosen here, such as `openblas SkylakeX`."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    own = [library for library in libraries if "numpy.libs" in Path(library["filepath"]).parts]
    for library in own or libraries:
        return f"{library['internal_api']} {library.get('architecture') or library.get('version')}"
    return None


def setting(blas: str | None) -> str:
    """What makes another processor multiply in the same way, as a shell takes it before a command; or nothing."""
    library, _, processor = (blas or "").partition(" ")
    return f"OPENBLAS_CORETYPE={processor}" if library == "openblas" else ""


def differences(meta: Mapping[str, Any]) -> list[str]:
    """A sentence for each thing that the machine a run began on rounded with, and that is another here."""
    known = meta.get("machine")
    machine = known if isinstance(known, Mapping) else {}
    found = []
    if machine.get("native", best()) != best():
        then, now = (
            f"native kernels for {level}" if level else "no native kernels" for level in (machine["native"], best())
        )
        found.append(f"The run began with {then}, and here are {now}: its final model may differ in the last bits.")
    if machine.get("blas", products()) != products():
        same = setting(str(machine["blas"]))
        found.append(
            f"numpy multiplied with {machine['blas']} when the run began, and does so with {products()} here: its "
            f"final model may differ in the last bits{f'. With {same} set it is the same' if same else ''}."
        )
    return found
