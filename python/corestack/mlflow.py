"""A stack as an MLflow model: the folder that `mlflow.pyfunc.load_model` and `mlflow models serve` read, without MLflow.

>>> corestack.mlflow.save_model(stack, "ensemble")
>>> mlflow.pyfunc.load_model("ensemble").predict({"resnet": p_resnet, "vit": p_vit})
"""
from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._errors import ArgumentError, ArrayTypeError, FileError, UnsupportedError
from ._frames import is_frame
from ._library import version
from ._stack import Stack
from ._types import Array, Path

_DATA = "model.cstack"
_FILES = {
    "MLmodel": """flavors:
  python_function:
    data: {data}
    env:
      conda: conda.yaml
      virtualenv: python_env.yaml
    loader_module: corestack.mlflow
    python_version: {python}
""",
    "conda.yaml": """channels:
- conda-forge
dependencies:
- python={python}
- pip
- pip:
  - corestack=={version}
name: mlflow-env
""",
    "python_env.yaml": """python: {python}
build_dependencies:
- pip
dependencies:
- -r requirements.txt
""",
    "requirements.txt": "corestack=={version}\n",
}


def save_model(stack: Stack, path: Path) -> None:
    """Write the folder of an MLflow model with the flavor python_function. The folder must be new or empty."""
    if stack.task in ("segmentation", "detection"):
        raise UnsupportedError(f"an MLflow model of a {stack.task} is not supported: its predictions are files; use predict()")
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path):
            raise ArgumentError(f"{os.fsdecode(path)}: the folder is not empty; give the path of a new one")
        for name, text in _FILES.items():
            with open(os.path.join(os.fsdecode(path), name), "w", encoding="utf-8") as file:
                file.write(text.format(data=_DATA, python=platform.python_version(), version=version))
    except OSError as error:
        raise FileError(f"{os.fsdecode(path)}: {error.strerror}") from error
    stack.save(os.path.join(os.fsdecode(path), _DATA))


class PyfuncModel:
    """What MLflow calls: members' predictions by name in, predictions of the stack out."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack

    def predict(self, model_input: Any, params: Any = None) -> Array:
        """model_input: a dict of arrays (rows, classes) by member, or a DataFrame with a column for each member, whose cells
        are numbers (two classes: the probability of class 1; regression: the value) or lists of `classes` numbers. Other
        members and columns are ignored. params: none are known."""
        if params:
            raise ArgumentError(f"params: '{next(iter(params))}' is not known; a stack takes none")
        if not is_frame(model_input) and not isinstance(model_input, Mapping):
            raise ArrayTypeError(f"predictions: is a {type(model_input).__name__}; give a dict or a DataFrame with a column for each member")
        given = {name: model_input[name] for name in self.stack.kept if name in model_input}
        return np.asarray(self.stack.predict({name: _column(one, name) if is_frame(model_input) else one for name, one in given.items()}))


def _column(column: Any, name: str) -> Array:
    """A column as an array, (rows,) or (rows, classes)."""
    try:
        return np.array(column.tolist(), np.float32)
    except (TypeError, ValueError) as error:
        raise ArrayTypeError(f"{name}: its cells are neither numbers nor lists of one length: {error}") from None


def _load_pyfunc(path: str) -> PyfuncModel:
    return PyfuncModel(Stack.load(path))
