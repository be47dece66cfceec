"""Types of the arguments that many functions share, and of the arrays they return."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Path = Union[str, "os.PathLike[str]"]


class SupportsArray(Protocol):
    """NumPy arrays, memory maps, pandas objects, tensors on the CPU."""

    def __array__(self) -> Any: ...


# What one member predicts, (rows, classes) or (rows,).
Matrix = Union[SupportsArray, Sequence[float], Sequence[Sequence[float]]]
# What corestack.fit calls preds: in memory or mapped, and anything.
Arrays = Union[Matrix, Sequence[SupportsArray], Sequence[Sequence[Sequence[float]]], Mapping[str, Matrix], Mapping[str, Path],
               Mapping[str, tuple[SupportsArray, ...]], Sequence[tuple[SupportsArray, ...]]]  # fmt: skip
Predictions = Union[Arrays, Path]
# One number or name for each row.
Column = Union[SupportsArray, Sequence[float], Sequence[str]]
# Regression targets, (rows,) or (rows, outputs).
Targets = Union[SupportsArray, Sequence[float], Sequence[Sequence[float]]]
# What members cost, in their order or by name.
Costs = Union[None, SupportsArray, Sequence[float], Mapping[str, float]]
Memory = Union[None, int, str]
# The value of an option (docs/options.md).
OptionValue = Union[bool, int, float, str, np.generic, Sequence[str], Sequence[float]]
Options = Mapping[str, object]
# Names of classes or outputs.
Names = Union[Sequence[str], Sequence[int]]
