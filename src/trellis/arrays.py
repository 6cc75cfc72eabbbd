"""The types of NumPy arrays, by what they hold; shapes are documented where the arrays are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

Arrays = dict[str, AnyArray]
"""Arrays by name, as they are stored in files."""
