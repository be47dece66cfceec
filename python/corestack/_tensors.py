"""Tensors of other libraries as NumPy arrays, without importing those libraries and without copies on the CPU."""
from __future__ import annotations

from typing import Any

import numpy as np

from ._errors import ArrayTypeError


def is_torch(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "numpy") and hasattr(value, "device")


def is_bfloat16(value: Any) -> bool:
    """Whether it is a tensor of the type that NumPy has none for."""
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
