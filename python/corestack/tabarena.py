"""A stack as an ensembler of TabArena: predictions of fitted models in, combined predictions out.

>>> from corestack.tabarena import CoreStackEnsembler
>>> EnsembleScorer(repo, metadata, ensembler_cls=CoreStackEnsembler, use_fast_metrics=False)

The class has the methods, attributes and array shapes of `tabarena.simulation.ensemble.AbstractEnsembler`, and needs
neither TabArena nor AutoGluon. use_fast_metrics=False: their fast log loss hands over only the probabilities of the true
class, which no more than linear methods can combine.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._errors import ArgumentError
from ._functions import fit
from ._stack import Stack

# Weighted sums of the predictions themselves.
_LINEAR = ("average", "best-single", "performance-weighted", "greedy", "greedy-top1", "greedy-brier", "minimum-variance")

Predictions = Union[npt.NDArray[Any], list[npt.NDArray[Any]]]


class CoreStackEnsembler:
    """One stack for one task.

    problem_type: "binary", "multiclass" or "regression". metric: TabArena's, kept and not optimised: stacks minimise the log
    loss or the squared error. method: None for a stack by `preset`, or a method of :func:`corestack.compare`, such as
    "greedy" or "average+temperature". options: of the stack, by key (docs/options.md).
    """

    linear = False

    def __init__(
        self,
        *,
        problem_type: str,
        metric: Any = None,
        preset: str = "default",
        method: Optional[str] = None,
        seed: int = 0,
        options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if problem_type not in ("binary", "multiclass", "regression"):
            raise ArgumentError(f"problem_type: '{problem_type}' is not supported; binary, multiclass and regression are")
        self.problem_type, self.metric = problem_type, metric
        self.preset, self.method, self.seed = preset, method, seed
        self.options = {"evaluate.nested": False, "checks": False, **(options or {})}
        self.linear = method in _LINEAR and problem_type != "regression"
        self.n_models_: Optional[int] = None
        self.stack_: Optional[Stack] = None

    def fit(self, *, predictions: Predictions, labels: npt.ArrayLike, time_limit: Optional[float] = None) -> "CoreStackEnsembler":
        """Fit on predictions (models, rows) or (models, rows, classes) of rows with labels. time_limit is not needed."""
        y = np.asarray(labels)
        task = "regression" if self.problem_type == "regression" else "classification"
        y = y.astype(np.float64 if task == "regression" else np.int64)
        given = self._by_name(predictions)
        how: dict[str, Any] = {"preset": self.preset} if self.method is None else {"method": self.method}
        self.stack_ = fit(given, y, task=task, seed=self.seed, options=self.options, **how)
        self.n_models_ = len(given)
        return self

    def predict_proba(self, predictions: Predictions) -> npt.NDArray[Any]:
        """Probabilities (rows, classes), of class 1 of two (rows,), or values (rows,): the shape of one model's predictions."""
        stack, given = self._fitted(), self._by_name(predictions)
        if len(given) != self.n_models_:
            raise ArgumentError(f"predictions: are of {len(given)} models, but the ensemble was fitted on {self.n_models_}")
        if self.linear:  # also in a space of predictions that is no distribution over the classes
            weights = self.model_weights()
            assert weights is not None
            return np.asarray(np.tensordot(weights, np.stack([np.asarray(p, np.float64) for p in given.values()]), 1))
        found = np.asarray(stack.predict(given), dtype=np.float64)
        return found

    def predict(self, predictions: Predictions, *, problem_type: Optional[str] = None) -> npt.NDArray[Any]:
        """Classes, or regression values. problem_type: of the labels, if not that of the fit."""
        found = self.predict_proba(predictions)
        if (problem_type or self.problem_type) == "regression":
            return found
        return np.asarray(found.argmax(axis=1) if found.ndim == 2 else found >= 0.5, dtype=np.int64)

    def model_weights(self) -> Optional[npt.NDArray[np.float64]]:
        """Weight of each model in a linear method; None for others."""
        if not self.linear:
            return None
        weights = self._fitted().weights
        return np.array([weights.get(f"model{k}", 0.0) for k in range(self.n_models_ or 0)])

    def models_used(self) -> npt.NDArray[np.bool_]:
        """Which models a prediction needs."""
        kept = set(self._fitted().kept)
        return np.array([f"model{k}" in kept for k in range(self.n_models_ or 0)])

    def info(self) -> dict[str, Any]:
        """What the fit chose."""
        report = self._fitted().report
        return {"method": self.method or self.preset, "models_kept": report["models_kept"], "seconds": report["seconds"]["total"]}

    def _fitted(self) -> Stack:
        if self.stack_ is None:
            raise ArgumentError("this ensembler is not fitted; call fit first")
        return self.stack_

    @staticmethod
    def _by_name(predictions: Predictions) -> dict[str, npt.NDArray[Any]]:
        return {f"model{k}": np.asarray(p) for k, p in enumerate(predictions)}
