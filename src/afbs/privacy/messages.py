"""What passes between the halves of a label mechanism: named arrays of numbers, checked before they are used.

Neither side trusts the other's message. Whatever is missing, of another kind or shape, or not finite, is a
`RefusedError`: on the client's side it is the answer, on the server's the reason why this client is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Message: TypeAlias = Mapping[str, NDArray[Any]]
"""Named arrays of numbers and nothing else. What is read may also have come as plain numbers."""
Shape: TypeAlias = tuple[int | None, ...]
"""None stands for any length."""

FARTHEST = 2**53


class RefusedError(Exception):
    """A client will not answer, or its answer cannot be true. The text is the recorded reason; it quotes no data."""


def numbers(message: Message, name: str, shape: Shape | None = None) -> NDArray[np.float64]:
    """Finite numbers of any kind."""
    array = _array(message, name)
    if not np.all(np.isfinite(array)):
        raise RefusedError(f"the {name} is not finite")
    if shape is not None:
        _check_shape(name, array, shape)
    return array.astype(np.float64)


def exact(message: Message, name: str, kind: Any, shape: Shape) -> NDArray[Any]:
    """An array of exactly this kind: bytes, ids or words."""
    array = _array(message, name)
    if array.dtype != kind:
        raise RefusedError(f"the {name} is made of {array.dtype}, not of {np.dtype(kind)}")
    _check_shape(name, array, shape)
    return array


def whole(message: Message, name: str, most: int = FARTHEST) -> int:
    """One whole number from 0 to `most`."""
    array = _array(message, name)
    _check_shape(name, array, ())
    number = array.item()
    if not 0 <= number <= most or number != int(number):
        raise RefusedError(f"the {name} is not a whole number from 0 to {most}")
    return int(number)


def packed(message: Message) -> bytes:
    """A message as bytes, for a wire or a disk. Nothing is pickled, neither here nor where it is read."""
    from safetensors.numpy import save

    return save({name: np.array(_array(message, name), order="C") for name in message})


def unpacked(content: bytes) -> dict[str, NDArray[Any]]:
    """The message again; `RefusedError` if the bytes are none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except (SafetensorError, TypeError, KeyError, ValueError):
        raise RefusedError("what came is no message") from None


def _array(message: Message, name: str) -> NDArray[Any]:
    if not isinstance(message, Mapping):
        raise RefusedError("what came is no message")
    value = message.get(name)
    if value is None:
        raise RefusedError(f"the {name} is missing")
    if isinstance(value, np.ndarray | np.number | int | float):
        array = np.asarray(value)
        if array.dtype.kind in "iuf":
            return array
    raise RefusedError(f"the {name} is not made of numbers")


def _check_shape(name: str, array: NDArray[Any], shape: Shape) -> None:
    if array.shape == shape:
        return
    if len(shape) != array.ndim or any(want not in (None, has) for want, has in zip(shape, array.shape, strict=True)):
        wanted = " × ".join("any" if length is None else str(length) for length in shape) or "a single number"
        raise RefusedError(f"the {name} has the shape {array.shape}, not {wanted}")
