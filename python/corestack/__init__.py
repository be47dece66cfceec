"""corestack: turns the saved predictions of many models into one small, calibrated ensemble.

>>> stack = corestack.fit(preds, y)          # preds: arrays (rows, classes) of each model on rows it was not trained on
>>> stack.kept                               # the members worth running
>>> p = stack.predict(test_preds)            # calibrated probabilities; values with task="regression"
>>> stack.save("ensemble.cstack")            # for the command line and the C library as well

All computation is the C library's; docs/python.md is the guide, docs/options.md lists every option.
"""
from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import io, metrics, plot
from ._adapter import Adapter, AdapterState
from ._errors import (
    ArgumentError, ArrayTypeError, CancelledError, Error, FileError, FormatError, InputError, InternalError, LimitError,
    MismatchError, NumericError, OutOfMemoryError, UnsupportedError,
)  # fmt: skip
from ._comparisons import ablate, compare, profile, sweep
from ._functions import adapt, bound, cka, evaluate, fit, folds, inspect, methods, option_table, presets, suggest, top_k
from ._library import version as __version__
from ._methods import register, unregister
from ._monitor import Monitor, monitor
from ._report import Report
from ._stack import Stack
from .weights import soup, swa, swag_fit, swag_sample

if TYPE_CHECKING:
    from .sklearn import CoreStackClassifier, CoreStackRegressor
else:

    def __getattr__(name: str) -> Any:
        # scikit-learn is optional: it is imported when first used.
        if name not in ("CoreStackClassifier", "CoreStackRegressor", "sklearn"):
            raise AttributeError(f"module 'corestack' has no attribute '{name}'")
        try:
            module = import_module(".sklearn", __name__)
        except ImportError as error:
            raise AttributeError(
                f"corestack.{name} needs scikit-learn, which cannot be imported ({error}): pip install scikit-learn, or "
                "apt-get install python3-sklearn"
            ) from error
        return module if name == "sklearn" else getattr(module, name)

load = Stack.load

__all__ = [
    "Adapter", "AdapterState", "ArgumentError", "ArrayTypeError", "CancelledError", "CoreStackClassifier",
    "CoreStackRegressor", "Error", "FileError", "FormatError", "InputError", "InternalError", "LimitError", "MismatchError",
    "Monitor", "NumericError", "OutOfMemoryError", "Report", "Stack", "UnsupportedError", "__version__", "ablate", "adapt",
    "bound", "cka", "compare", "evaluate", "fit", "folds", "inspect", "io", "load", "methods", "metrics", "monitor",
    "option_table", "plot", "presets", "profile", "register", "soup", "suggest", "swa", "swag_fit", "swag_sample", "sweep",
    "top_k", "unregister",
]  # fmt: skip

if not TYPE_CHECKING and find_spec("sklearn") is None:
    __all__ = [name for name in __all__ if not name.startswith("CoreStack")]


def __dir__() -> list[str]:
    return __all__ if find_spec("sklearn") is None else [*__all__, "sklearn"]
