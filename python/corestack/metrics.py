"""Scores of probabilities against labels, by the names of the fields of cst_metrics.

Each function takes probabilities (rows, classes) and labels (rows,) and returns a float; ``scores`` computes all of them
at once and ``definition`` says in a sentence what one is.
"""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Optional

from . import _library as c
from ._errors import ArgumentError
from ._functions import scored
from ._session import Session

__all__ = [
    "scores", "reliability", "definition", "top1", "nll", "brier", "ece", "ece_mass", "ece_classwise", "ece_debiased", "corp",
]  # fmt: skip


def scores(
    probabilities: Any, y: Any, *, bins: int = 15, classes: Optional[Sequence[str]] = None
) -> dict[str, float]:
    """Every score in full precision, by name. bins: of the calibration errors."""
    p, labels = scored(probabilities, y, classes)
    out = c.Metrics()
    with Session() as s:
        s.check(
            c.lib.cst_metrics_evaluate(
                s.context, p.ctypes.data, p.shape[0], p.shape[1], labels.ctypes.data, bins, ctypes.byref(out)
            )
        )
    return {name: getattr(out, name) for name, _ in c.Metrics._fields_}


def reliability(
    probabilities: Any, y: Any, *, bins: int = 15, classes: Optional[Sequence[str]] = None
) -> list[dict[str, Any]]:
    """The bins that `ece` is made of: lower, upper, confidence, accuracy and count of each.

    Confidence and accuracy, means over the `count` rows, are None where there are none.
    """
    p, labels = scored(probabilities, y, classes)
    with Session() as s:
        # The library says what is wrong with a number of bins that makes no array.
        out = (c.ReliabilityBin * max(int(bins) or 15, 1))()
        s.check(
            c.lib.cst_metrics_reliability(
                s.context, p.ctypes.data, p.shape[0], p.shape[1], labels.ctypes.data, bins, out
            )
        )
    return [
        {
            "lower": b.lower,
            "upper": b.upper,
            "confidence": b.confidence if b.count else None,
            "accuracy": b.accuracy if b.count else None,
            "count": b.count,
        }
        for b in out
    ]


def definition(name: str) -> str:
    """One sentence for a score."""
    text = c.lib.cst_metric_definition(name.encode())
    if text is None:
        raise ArgumentError(f"there is no score '{name}'")
    return str(text.decode())


def top1(probabilities: Any, y: Any) -> float:
    """Fraction of rows whose largest probability is the label's."""
    return scores(probabilities, y)["top1"]


def nll(probabilities: Any, y: Any) -> float:
    """Mean negative log-likelihood, nats."""
    return scores(probabilities, y)["nll"]


def brier(probabilities: Any, y: Any) -> float:
    """Mean over rows of sum_c (p_c - y_c)^2, in [0, 2]."""
    return scores(probabilities, y)["brier"]


def ece(probabilities: Any, y: Any, *, bins: int = 15) -> float:
    """Calibration error of the top label, bins of equal width."""
    return scores(probabilities, y, bins=bins)["ece"]


def ece_mass(probabilities: Any, y: Any, *, bins: int = 15) -> float:
    """Calibration error of the top label, bins of equal counts."""
    return scores(probabilities, y, bins=bins)["ece_mass"]


def ece_classwise(probabilities: Any, y: Any, *, bins: int = 15) -> float:
    """Mean over classes of the calibration error of each class's probability."""
    return scores(probabilities, y, bins=bins)["ece_classwise"]


def ece_debiased(probabilities: Any, y: Any, *, bins: int = 15) -> float:
    """`ece` less the bias it has from finite bins."""
    return scores(probabilities, y, bins=bins)["ece_debiased"]


def corp(probabilities: Any, y: Any) -> float:
    """Miscalibration part of the top label's Brier score, bin-free."""
    return scores(probabilities, y)["corp"]
