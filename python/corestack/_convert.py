"""Whatever holds numbers or names as a NumPy array, the same way everywhere, and never silently without what it marks."""
from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import ArrayTypeError, InputError
from ._types import Array


def as_array(value: Any, what: str) -> Array:
    """Arrays, lists, tensors, pandas objects also of nullable types; without a copy where that can be.

    A masked or missing value is an error that names its row. Objects that are all numbers become numbers.
    """
    if type(value) is np.ndarray and value.dtype != object:
        return value
    value = plain(value, what)
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        return _of_frame(value, what)
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        mask = np.broadcast_to(value.mask, value.shape).reshape(len(value) if value.ndim else 1, -1)
        raise InputError(f"{what}: row {int(np.flatnonzero(mask.any(axis=1))[0])} is masked; every value must be present")
    dtype = getattr(value, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype) and hasattr(value, "isna"):
        return _of_extension(value, what)
    try:
        found: Array = np.asarray(value)
    except (TypeError, RuntimeError, ValueError) as error:
        raise ArrayTypeError(f"{what}: cannot be used as an array: {str(error).splitlines()[0]}") from error
    return _of_objects(found, what) if found.dtype == object and found.size else found


def in_c_order(array: Any, kind: npt.DTypeLike) -> Array:
    """As the library takes a pointer: of that type, in C order, and at addresses that the type may have."""
    found: Array = np.ascontiguousarray(array, kind)
    return found if found.flags.aligned else found.copy()


def _of_frame(frame: Any, what: str) -> Array:
    if all(isinstance(kind, np.dtype) and kind != object for kind in frame.dtypes):
        plain: Array = frame.to_numpy()
        return plain
    columns = [as_array(frame.iloc[:, k], f"{what}, column '{name}'") for k, name in enumerate(frame.columns)]
    return np.stack(columns, axis=1)


def _of_extension(value: Any, what: str) -> Array:
    """Of pandas's own types (Int64, boolean, category, ...)."""
    missing = np.flatnonzero(np.asarray(value.isna()))
    if missing.size:
        raise InputError(f"{what}: row {missing[0]} has no value (NA); every value must be present")
    kind = getattr(value.dtype, "numpy_dtype", None)
    found: Array = np.asarray(value) if kind is None else np.asarray(value.to_numpy(dtype=kind))
    return _of_objects(found, what) if found.dtype == object and found.size else found


def _of_objects(found: Array, what: str) -> Array:
    flat = found.ravel().tolist()
    for place, one in enumerate(flat):
        if one is None or type(one).__name__ in ("NAType", "NaTType", "MaskedConstant"):
            raise InputError(f"{what}: row {place * len(found) // len(flat) if found.ndim else 0} has no value ({one}); every value must be present")
    if not all(isinstance(one, (numbers.Real, np.bool_)) for one in flat):
        return found
    try:
        made = np.array(flat).reshape(found.shape)
    except OverflowError:
        return found
    return made if made.dtype.kind in "fiub" else found


def is_torch(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy") and hasattr(value, "device")


def is_bfloat16(value: Any) -> bool:
    """Whether `value` is a bfloat16 tensor, a type NumPy lacks."""
    return is_torch(value) and str(value.dtype) == "torch.bfloat16"


def on_cpu(value: Any, what: str) -> Any:
    """A PyTorch tensor that is on the CPU and out of any graph; its numbers stay where they are."""
    if value.device.type != "cpu":
        raise ArrayTypeError(f"{what}: is a tensor on device '{value.device}'; move it to the CPU with .cpu()")
    return value.detach()


def plain(value: Any, what: str) -> Any:
    """A tensor as an array: PyTorch's on the CPU (bfloat16 becomes float32), or any that speaks DLPack.

    Anything else as it is.
    """
    try:
        if is_torch(value):
            tensor = on_cpu(value, what)
            return (tensor.float() if is_bfloat16(tensor) else tensor).numpy()
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
    except ArrayTypeError:
        raise
    except (TypeError, RuntimeError, ValueError, BufferError) as error:
        raise ArrayTypeError(f"{what}: cannot be used as an array: {str(error).splitlines()[0]}") from error
    return value
