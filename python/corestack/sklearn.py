"""Estimators in scikit-learn's conventions, for scikit-learn 1.2 and later."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, Union, overload

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from ._convert import as_array
from ._errors import ArgumentError, MismatchError
from ._estimators import DTYPES, FEATURE_CHECKS, StackEstimator, codes_among, of_classes, unmasked, validate_data
from ._types import Array

__all__ = ["CoreStackClassifier", "CoreStackRegressor", "FEATURE_CHECKS"]


def __dir__() -> list[str]:
    return __all__


def labelled(y: Any) -> Any:
    """y as an array."""
    if y is None:
        raise ArgumentError("requires y to be passed, but the target y is None")
    found = as_array(y, "y")
    if found.size == 0:
        raise ArgumentError("y: no rows")
    return found


class CoreStackClassifier(ClassifierMixin, StackEstimator):
    """A small calibrated ensemble of classifiers.

    Without `estimators`, X holds predictions on rows that the models were not trained on: (rows, members * classes),
    one member after the other, or (rows, members, classes). For two classes a member may have a single column, the
    probability of class 1. `n_members` is needed if it is not the number of columns divided by the number of classes.

    With `estimators`, [(name, classifier), ...], X holds features: the classifiers predict out of fold, the stack is
    fitted on these predictions, and only the classifiers that it keeps are refitted on all rows.

    y (rows, labels) of 0 and 1, also sparse, is a task of several labels for each row: members have a column for each label,
    `predict_proba` gives independent probabilities (rows, labels), `predict` 1 from one half on.

    Parameters
    ----------
    estimators : list of (name, classifier), or None
        A classifier may be "drop".
    n_members, n_classes : int or None
        Shape of X if it holds predictions; n_classes is that of the labels by default. If X can be divided in several ways,
        probabilities decide, because their rows sum to 1; with logits one of the two must be given.
    classes : list or None
        All classes in the order of the columns, for y that may lack some, e.g. in a fold without a rare class. `classes_`
        is then this list; by default it is the sorted labels of y.
    output : "probability" or "logit"
        Type of the predictions in X, without estimators.
    cv : int, cross-validation generator, iterable or "prefit"
        Folds of the estimators, which must leave rows of every class to train on. "prefit": they are already fitted, on rows
        other than those of X. Without estimators, an integer is the number of folds of the stack, if `fit` is not given folds.
    preset : "default", "compact", "best", "paper" or "prototype"
    method : str or None
        A method of `corestack.compare` to fit instead of a preset, e.g. "hill-climbing" (`corestack.methods()`).
    metric : str or None
        The setting "metric".
    keep_max : int or None
        Largest number of members to keep.
    options : dict or None
        Options of the stack (docs/options.md), e.g. {"cka.threshold": 0.9}.
    nested : bool
        Whether the fit also scores itself on unseen rows, in report_["oof"]; takes about `cv` times as long.
    guard : "warn", "auto" or "off"
        What `predict` and `predict_proba` do with 50 rows and more that look unlike the fit rows ("warn": a warning of the
        logger corestack). With "auto" the average of the members is mixed in, and a row's prediction depends on the others.
    random_state : int or None
        Seed of the stack; None is 0. Estimators have their own.
    n_jobs : int or None
        Threads of the stack; None or -1 is one per core. Results do not depend on it.
    verbose : bool or int
        Whether the fit shows its progress (with tqdm).

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    stack_ : corestack.Stack
    report_ : corestack.Report of the fit
    estimators_ : list of the fitted classifiers that the stack keeps, in the order of stack_.kept
    named_estimators_ : the same by name
    """

    _kind = "classifier"

    def __init__(
        self,
        estimators: Optional[Sequence[tuple[str, Any]]] = None,
        *,
        n_members: Optional[int] = None,
        n_classes: Optional[int] = None,
        classes: Optional[Sequence[Any]] = None,
        output: str = "probability",
        cv: Any = 5,
        preset: str = "default",
        method: Optional[str] = None,
        metric: Optional[str] = None,
        keep_max: Optional[int] = None,
        options: Optional[Mapping[str, Any]] = None,
        nested: bool = False,
        guard: str = "warn",
        random_state: Optional[int] = None,
        n_jobs: Optional[int] = None,
        verbose: Union[bool, int] = False,
    ) -> None:
        self._keep(locals())

    # ---- fitting ---------------------------------------------------------------------------------

    def _to_train(self, y: Array) -> Array:
        trained: Array = y if self._multilabel else self.classes_[y]
        return trained

    def _stack_task(self) -> dict[str, Any]:
        task = {"task": "multilabel"} if self._multilabel else {}
        return {"output": self.output, **task} if self.estimators is None else task

    def _given(self, y: Any) -> Array:
        y = y.toarray() if hasattr(y, "toarray") else labelled(y)
        self._multilabel = type_of_target(y) == "multilabel-indicator"
        if self._multilabel:
            if self.classes is not None:
                raise ArgumentError("classes: y has several labels for each row, whose columns are the labels; leave classes out")
            self.classes_ = np.arange(y.shape[1])
            indicator: Array = y.astype(np.int64)
            return indicator
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if self.classes is not None:
            self.classes_, declared = codes_among(y, self.classes)
            return declared
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ArgumentError(f"y: there is 1 class, '{self.classes_[0]}', but a classifier needs 2 or more classes")
        codes: Array = encoder.transform(y)
        return codes

    def _check_predictions(self, X: Any, y: Any) -> tuple[Array, Array]:
        if getattr(X, "ndim", 2) == 3:
            X = self._cube(as_array(X, "X"), reset=True)
        else:
            y = y.toarray() if hasattr(y, "toarray") else labelled(y)
            X, y = validate_data(self, unmasked(X), y, dtype=DTYPES, ensure_min_samples=2, multi_output=True)
        codes = self._given(y)
        if len(codes) != len(X):
            raise MismatchError(f"y: has {len(codes)} labels, but X has {len(X)} rows")
        count = len(self.classes_)
        if self._multilabel:
            self._divide(X, count)
            return X, codes
        if self.n_classes is not None and self.n_classes != count:
            what = "classes: are" if self.classes is not None else "y: has"
            hint = "" if self.classes is not None else "; give classes=[...], all of them in the order of the columns"
            raise MismatchError(f"{what} {count} classes, but n_classes is {self.n_classes}{hint}")
        declared = self.classes is not None or self.n_classes is not None
        self._shape = of_classes(X, count, self.n_members, declared, self.output)
        return X, codes

    # ---- base estimators -------------------------------------------------------------------------

    def _is_kind(self, est: Any) -> bool:
        return bool(is_classifier(est))

    def _check_splits(self, y: Array, splits: list[tuple[Array, Array]], groups: Any) -> None:
        """Folds whose estimators see no row, or hardly any, of the classes that they are to predict."""
        if self._multilabel:
            return
        names, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        lost, worst = 0, (2.0, "")
        for number, (train, test) in enumerate(splits):
            seen, asked = (np.bincount(codes[rows], minlength=len(names)) for rows in (train, test))
            share = seen / counts * (len(y) / max(len(codes[train]), 1))  # 1 where the class is as frequent as in y
            lost += asked[share < 0.25].sum()
            for c in np.flatnonzero((asked > 1) & (share < 0.25)):
                said = f"fold {number} holds {asked[c]} of the {counts[c]} rows of class {names[c]}, and its estimators train on {seen[c]} of them"
                worst = min(worst, (share[c], said))
                if asked[c] == counts[c] and groups is None:
                    lost = len(y)
        if 2 * lost > len(y) and worst[1]:
            raise ArgumentError(
                f"cv: {worst[1]}, so they cannot predict it. Use folds that divide every class: a number, StratifiedKFold, or "
                "KFold(shuffle=True)"
            )

    def _width(self) -> int:
        return len(self.classes_)

    def _column_names(self) -> list[str]:
        return [f"_{label}" for label in self.classes_]

    def _predicted(self, est: Any, X: Any) -> Array:
        """Probabilities in the columns of classes_; classes that the estimator never saw have 0."""
        if self._multilabel:
            return self._of_labels(est, X)
        if hasattr(est, "predict_proba"):
            p = np.asarray(est.predict_proba(X), np.float64)
        else:  # one that only decides
            p = (np.asarray(est.predict(X))[:, None] == np.asarray(est.classes_)[None, :]).astype(np.float64)
        known = [int(np.flatnonzero(self.classes_ == label)[0]) for label in est.classes_ if label in self.classes_]
        if len(known) != p.shape[1]:
            raise MismatchError(f"{type(est).__name__}: predicts classes that are not in y")
        if p.shape[1] == len(self.classes_) and known == list(range(p.shape[1])):
            return p
        out = np.zeros((len(p), len(self.classes_)))
        out[:, known] = p
        return out

    def _of_labels(self, est: Any, X: Any) -> Array:
        """Probabilities that each label is 1: from a column for each label, or a list of two columns for each."""
        given = est.predict_proba(X) if hasattr(est, "predict_proba") else est.predict(X)
        if isinstance(given, list):  # as forests and nearest neighbours give it; a label may have been of one class in a fold
            given = np.column_stack([p @ np.asarray(known, np.float64) for p, known in zip(given, est.classes_)])
        found = np.asarray(given.toarray() if hasattr(given, "toarray") else given, np.float64)
        if found.shape[1:] != (self._width(),):
            raise MismatchError(f"{type(est).__name__}: predicts shape {found.shape}, but y has {self._width()} labels")
        return found

    # ---- prediction ------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Array:
        """Return calibrated probabilities (rows, classes), or (rows, labels)."""
        members = self._kept_predictions(X)
        output = self.output if self.estimators is None else "probability"
        given: dict[str, Any] = {"output": output, "threads": self._threads()}
        p: Array
        if self._multilabel:
            p = self.stack_.predict(members, **given)
        else:
            p = self.stack_.predict_proba(members, guard=self.guard, **given)
        return p.astype(np.float64)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row; of several labels 0 or 1 for each."""
        p = self.predict_proba(X)
        if self._multilabel:
            decided: Array = (p >= 0.5).astype(np.int64)
            return decided
        found: Array = self.classes_[p.argmax(axis=1)]
        return found

    # ---- tags ------------------------------------------------------------------------------------

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"_xfail_checks": FEATURE_CHECKS if self.estimators is None else {}}


class CoreStackRegressor(RegressorMixin, StackEstimator):
    """A small ensemble of regressors, of one output or several, with variances and intervals.

    Without `estimators`, X holds predictions on rows that the models were not trained on: (rows, members * outputs),
    one member after the other, or (rows, members, outputs).

    With `estimators`, [(name, regressor), ...], X holds features: the regressors predict out of fold, the stack is
    fitted on these predictions, and only the regressors that it keeps are refitted on all rows.

    Parameters
    ----------
    estimators : list of (name, regressor), or None
        A regressor may be "drop".
    n_members : int or None
        Number of members in X if it holds predictions; by default the columns divided by the outputs of y.
    cv : int, cross-validation generator, iterable or "prefit"
        Folds of the estimators. "prefit": they are already fitted, on rows other than those of X. Without estimators, an
        integer is the number of folds of the stack, if `fit` is not given folds.
    preset : "default", "compact", "best", "paper" or "prototype"
    method : str or None
        A method of `corestack.compare` to fit instead of a preset, e.g. "hill-climbing" (`corestack.methods()`).
    metric : str or None
        The setting "metric".
    keep_max : int or None
        Largest number of members to keep.
    options : dict or None
        Options of the stack (docs/options.md), e.g. {"interval.rule": "gaussian"}.
    nested : bool
        Whether the fit also scores itself on unseen rows, in report_["oof"]; takes about `cv` times as long.
    random_state : int or None
        Seed of the stack; None is 0. Estimators have their own.
    n_jobs : int or None
        Threads of the stack; None or -1 is one per core. Results do not depend on it.
    verbose : bool or int
        Whether the fit shows its progress (with tqdm).

    Attributes
    ----------
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_outputs_ : columns of y
    stack_ : corestack.Stack
    report_ : corestack.Report of the fit
    estimators_ : list of the fitted regressors that the stack keeps, in the order of stack_.kept
    named_estimators_ : the same by name
    """

    _kind = "regressor"

    def __init__(
        self,
        estimators: Optional[Sequence[tuple[str, Any]]] = None,
        *,
        n_members: Optional[int] = None,
        cv: Any = 5,
        preset: str = "default",
        method: Optional[str] = None,
        metric: Optional[str] = None,
        keep_max: Optional[int] = None,
        options: Optional[Mapping[str, Any]] = None,
        nested: bool = False,
        random_state: Optional[int] = None,
        n_jobs: Optional[int] = None,
        verbose: Union[bool, int] = False,
    ) -> None:
        self._keep(locals())

    # ---- fitting ---------------------------------------------------------------------------------

    def _given(self, y: Any) -> Array:
        return self._targets(check_array(labelled(y), ensure_2d=False, input_name="y"))

    def _stack_task(self) -> dict[str, Any]:
        return {"task": "regression"}

    def _targets(self, y: Array) -> Array:
        """Targets (rows,) or (rows, outputs), and what predictions will look like."""
        self._flat = y.ndim == 1
        self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        return y.reshape(-1) if self.n_outputs_ == 1 else y

    def _check_predictions(self, X: Any, y: Any) -> tuple[Array, Array]:
        if getattr(X, "ndim", 2) == 3:
            X, y = self._cube(as_array(X, "X"), reset=True), as_array(y, "y")
        else:
            X, y = validate_data(
                self, unmasked(X), labelled(y), dtype=DTYPES, ensure_min_samples=2, multi_output=True, y_numeric=True
            )
        if len(y) != len(X):
            raise MismatchError(f"y: has {len(y)} targets, but X has {len(X)} rows")
        y = self._targets(y)
        self._divide(X, self.n_outputs_)
        return X, y

    # ---- base estimators -------------------------------------------------------------------------

    def _is_kind(self, est: Any) -> bool:
        return bool(is_regressor(est))

    def _width(self) -> int:
        return self.n_outputs_

    def _column_names(self) -> list[str]:
        return [""] if self.n_outputs_ == 1 else [f"_{d}" for d in range(self.n_outputs_)]

    def _predicted(self, est: Any, X: Any) -> Array:
        values = np.asarray(est.predict(X), np.float64)
        values = values.reshape(len(values), -1)
        if values.shape[1] != self.n_outputs_:
            raise MismatchError(f"{type(est).__name__}: predicts {values.shape[1]} outputs, but y has {self.n_outputs_}")
        return values

    # ---- prediction ------------------------------------------------------------------------------

    def _as_targets(self, values: Array) -> Array:
        """float64 in the shape of the targets that it was fitted on."""
        wide = values.astype(np.float64)
        return wide if self._flat or self.n_outputs_ > 1 else wide[..., None]

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Array: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def predict(self, X: Any, return_std: bool = False) -> Union[Array, tuple[Array, Array]]:
        """Return values (rows,) or (rows, outputs), like y; with return_std a tuple (values, standard deviations)."""
        members = self._kept_predictions(X)
        if not return_std:
            return self._as_targets(self.stack_.predict(members, threads=self._threads()))
        mean, variance = self.stack_.predict(members, return_variance=True, threads=self._threads())
        return self._as_targets(mean), np.sqrt(self._as_targets(variance))

    def predict_interval(self, X: Any, level: float = 0.9) -> Array:
        """Return prediction intervals with coverage `level`, (2, rows) or (2, rows, outputs)."""
        members = self._kept_predictions(X)
        return self._as_targets(self.stack_.predict_interval(members, level, threads=self._threads()))

    # ---- tags ------------------------------------------------------------------------------------

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        why = "the check changes the order of the rows, on which the folds depend"
        checks = {"check_sample_weights_invariance": why}
        return {"multioutput": True, "_xfail_checks": checks if self.estimators is None else {}}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
