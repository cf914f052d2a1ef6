"""Structs: what compiled code is handed by one address. A struct is an array of one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def struct_type(*fields: str, **others: type) -> np.dtype[Any]:
    """Return the type of a struct: `fields` are int64, `others` are of the types given."""
    return np.dtype([(name, np.int64) for name in fields] + list(others.items()))


def struct(kind: np.dtype[Any], **values: Any) -> NDArray[Any]:
    """Return a struct; fields that are not named are 0. An array stands for its address."""
    made = np.zeros(1, kind)
    for name, value in values.items():
        made[name] = address(value) if isinstance(value, np.ndarray) else value
    return made


def address(array: NDArray[Any]) -> int:
    """Return where an array lies; it must have no gaps."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)
