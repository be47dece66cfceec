"""Estimators in scikit-learn's conventions, for scikit-learn 1.2 and later."""
from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from ._errors import ArgumentError, MismatchError
from ._functions import fit as fit_stack

try:
    from sklearn.utils.validation import validate_data as _validate_data  # 1.6 and later
except ImportError:

    def _validate_data(estimator: Any, X: Any, *y: Any, **how: Any) -> Any:
        return estimator._validate_data(X, *y, **how)


__all__ = ["CoreStackClassifier", "FEATURE_CHECKS"]

# The library takes numbers of these types as they are.
_DTYPES = [np.float64, np.float32, np.float16]

# Base classifiers may accept what is not finite; those that do not say so themselves.
_ANY_NUMBER = {
    "ensure_all_finite" if "ensure_all_finite" in inspect.signature(check_array).parameters else "force_all_finite": False
}

# Checks of scikit-learn's check_estimator that feed features where predictions are expected: for a CoreStackClassifier
# without estimators. scikit-learn 1.6 and later takes them as check_estimator(..., expected_failed_checks=...).
FEATURE_CHECKS = {
    name: "X holds predictions here, and this check gives features"
    for name in (
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_pipeline_consistency",
        "check_supervised_y_2d",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    )
}


class CoreStackClassifier(ClassifierMixin, TransformerMixin, _BaseComposition):
    """A small calibrated ensemble of classifiers.

    Without `estimators`, X is what models predicted on rows that they were not trained on: (rows, members * classes),
    one member's probabilities after another's, or (rows, members, classes). For two classes a member may be one column,
    the probability of class 1. `n_members` says how many there are where that is not the columns over the classes.

    With `estimators`, [(name, classifier), ...], X is features: the classifiers predict out of fold, the stack is fitted
    on that, and only those it keeps are fitted on all rows.

    Parameters
    ----------
    estimators : list of (name, classifier), or None
        A classifier may be "drop".
    n_members, n_classes : int or None
        Shape of X where it holds predictions; n_classes is that of the labels by default.
    output : "probability" or "logit"
        What X holds, without estimators.
    cv : int, cross-validation generator, iterable or "prefit"
        Folds of the estimators. "prefit": they are fitted already, on other rows than those of X. Without estimators an
        integer is the number of folds of the stack's own selection, where `fit` is not given them.
    preset : "default", "paper" or "prototype"
    options : dict or None
        Options of the stack (docs/options.md), for example {"cka.threshold": 0.9}.
    nested : bool
        Whether the fit also scores itself on rows it did not see, in report_["oof"]; takes about `cv` times as long.
    random_state : int or None
        Seed of the stack; None is 0. Estimators have their own.
    n_jobs : int or None
        Threads of the stack; None or -1 is one for each core. Results do not depend on it.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    stack_ : corestack.Stack
    report_ : corestack.Report of the fit
    estimators_ : list of the fitted classifiers that the stack keeps, in the order of stack_.kept
    named_estimators_ : the same by name
    """

    def __init__(
        self,
        estimators: Optional[Sequence[tuple[str, Any]]] = None,
        *,
        n_members: Optional[int] = None,
        n_classes: Optional[int] = None,
        output: str = "probability",
        cv: Any = 5,
        preset: str = "default",
        options: Optional[Mapping[str, Any]] = None,
        nested: bool = False,
        random_state: Optional[int] = None,
        n_jobs: Optional[int] = None,
    ) -> None:
        self.estimators = estimators
        self.n_members = n_members
        self.n_classes = n_classes
        self.output = output
        self.cv = cv
        self.preset = preset
        self.options = options
        self.nested = nested
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- fitting ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, folds: Any = None, groups: Any = None, **fit_params: Any) -> "CoreStackClassifier":
        """Fits the stack, and the estimators where there are any.

        folds: fold of each row, where X holds predictions of models that were trained in folds. groups: rows that must
        not be separated. Rows cannot be weighted: options={"fit.balance": 1} weights classes alike.
        """
        if fit_params.pop("sample_weight", None) is not None:
            raise ArgumentError(
                "sample_weight: the stack cannot weight rows; leave it out (options={'fit.balance': 1} weights classes "
                "alike)"
            )
        if fit_params:
            raise TypeError(f"fit() got an unexpected keyword argument '{next(iter(fit_params))}'")
        if self.estimators is None:
            names = None
            X, codes = self._check_predictions(X, y)
            members = self._members(X)
        else:
            if folds is not None:
                raise ArgumentError("folds: with estimators cv makes them; give cv=[(train, test), ...]")
            X, all_codes = self._check_features(X, y)
            names, members, codes, groups, folds = self._out_of_fold(X, all_codes, groups)
        self.stack_ = fit_stack(
            members,
            codes,
            names=names,
            folds=folds,
            groups=groups,
            output=self.output if self.estimators is None else "probability",
            preset=self.preset,
            seed=0 if self.random_state is None else int(self.random_state),
            options=self._options(folds),
            threads=self._threads(),
        )
        self.report_ = self.stack_.report
        if self.estimators is not None:
            self._fit_kept(X, self.classes_[all_codes])
        return self

    def _options(self, folds: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"evaluate.nested": bool(self.nested)}
        if self.estimators is None and folds is None and isinstance(self.cv, (int, np.integer)):
            found["folds.count"] = int(self.cv)
        found.update(self.options or {})
        return found

    def _threads(self) -> int:
        return 0 if self.n_jobs is None or self.n_jobs < 0 else int(self.n_jobs)

    def _encode(self, y: Any) -> np.ndarray:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) < 2:
            raise ArgumentError(f"y: there is 1 class, '{self.classes_[0]}', where a classifier needs 2 or more classes")
        return encoder.transform(y)

    # ---- X holds predictions ---------------------------------------------------------------------

    def _cube(self, X: np.ndarray, reset: bool) -> np.ndarray:
        """(rows, members, classes) as it is; the library looks at its numbers."""
        width = X.shape[1] * X.shape[2]
        if reset:
            self.n_features_in_ = width
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif width != self.n_features_in_ or X.shape[1] != self._shape[0]:
            raise MismatchError(f"X: has shape {X.shape}; it was fitted on {self._shape} members and columns")
        return X

    def _check_predictions(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        if getattr(X, "ndim", 2) == 3:
            X = self._cube(np.asarray(X), reset=True)
        else:
            X, y = _validate_data(self, X, y, dtype=_DTYPES, ensure_min_samples=2)
        codes = self._encode(y)
        if len(codes) != len(X):
            raise MismatchError(f"y: has {len(codes)} labels where X has {len(X)} rows")
        count, width = len(self.classes_), self.n_features_in_
        if self.n_classes is not None and self.n_classes != count:
            raise MismatchError(f"y: has {count} classes where n_classes is {self.n_classes}")
        if X.ndim == 3:
            members, columns = X.shape[1:]
        else:
            members = self.n_members or (width // count if width % count == 0 else width if count == 2 else 0)
            columns = width // members if members and width % members == 0 else 0
        if columns != count and not (columns == 1 and count == 2):
            raise MismatchError(
                f"X: has {width} columns, which are not {self.n_members or 'some'} members of {count} classes; X holds "
                "predictions, one member's after another's (give estimators=[...] to train on features)"
            )
        self._shape = (int(members), int(columns))
        return X, codes

    def _members(self, X: np.ndarray) -> list[np.ndarray]:
        """Views of X, one for each member."""
        count, columns = self._shape
        if X.ndim == 3:
            return [X[:, k] for k in range(count)]
        return [X[:, k * columns : (k + 1) * columns] for k in range(count)]

    def _predictions(self, X: Any) -> np.ndarray:
        if getattr(X, "ndim", 2) == 3:
            return self._cube(np.asarray(X), reset=False)
        return _validate_data(self, X, reset=False, dtype=_DTYPES)

    # ---- X holds features ------------------------------------------------------------------------

    def _named(self) -> list[tuple[str, Any]]:
        named = [(str(name), est) for name, est in self.estimators or [] if not isinstance(est, str)]
        dropped = [est for _, est in self.estimators or [] if isinstance(est, str)]
        if not named or any(est != "drop" for est in dropped):
            raise ArgumentError("estimators: a list of (name, classifier) with at least one that is not 'drop' is needed")
        self._validate_names([name for name, _ in self.estimators])
        for name, est in named:
            if not is_classifier(est):
                raise ArgumentError(f"estimators: '{name}' is a {type(est).__name__}, not a classifier")
        return named

    def _check_features(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        self._named()
        checked, y = _validate_data(self, X, y, dtype=None, accept_sparse="csr", **_ANY_NUMBER)
        # The classifiers see a data frame as it is.
        return X if hasattr(X, "iloc") else checked, self._encode(y)

    def _features(self, X: Any) -> Any:
        checked = _validate_data(self, X, reset=False, dtype=None, accept_sparse="csr", **_ANY_NUMBER)
        return X if hasattr(X, "iloc") else checked

    def _out_of_fold(self, X: Any, codes: np.ndarray, groups: Any) -> Any:
        """Names, predictions, labels, groups and folds of the rows that the estimators predicted unseen."""
        named = self._named()
        names = [name for name, _ in named]
        y = self.classes_[codes]
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise ArgumentError(f"cv is '{self.cv}'; it is a number, a splitter, splits or 'prefit'")
            for _, est in named:
                check_is_fitted(est)
            return names, [self._probabilities(est, X) for _, est in named], codes, groups, None
        splits = list(check_cv(self.cv, y, classifier=True).split(np.zeros(len(codes)), y, groups))
        rows = len(codes)
        fold = np.full(rows, -1, np.int64)
        members = [np.zeros((rows, len(self.classes_))) for _ in named]
        for number, (train, test) in enumerate(splits):
            if (fold[test] >= 0).any():
                raise ArgumentError("cv: a row is in several test folds; use splits whose test folds do not overlap")
            fold[test] = number
            for (name, est), member in zip(named, members):
                fitted = clone(est).fit(_rows(X, train), y[train])
                member[test] = self._probabilities(fitted, _rows(X, test))
        seen = fold >= 0  # rows that no fold holds out are only trained on
        if not seen.all():
            members = [member[seen] for member in members]
            codes, fold = codes[seen], fold[seen]
            groups = None if groups is None else np.asarray(groups)[seen]
        return names, members, codes, groups, fold

    def _probabilities(self, est: Any, X: Any) -> np.ndarray:
        """Probabilities in the columns of classes_; classes that the estimator never saw have 0."""
        if hasattr(est, "predict_proba"):
            p = np.asarray(est.predict_proba(X), np.float64)
        else:  # one that only decides
            p = (np.asarray(est.predict(X))[:, None] == np.asarray(est.classes_)[None, :]).astype(np.float64)
        known = [int(np.flatnonzero(self.classes_ == label)[0]) for label in est.classes_ if label in self.classes_]
        if len(known) != p.shape[1]:
            raise MismatchError(f"{type(est).__name__}: predicts classes that y does not have")
        if p.shape[1] == len(self.classes_) and known == list(range(p.shape[1])):
            return p
        out = np.zeros((len(p), len(self.classes_)))
        out[:, known] = p
        return out

    def _fit_kept(self, X: Any, y: np.ndarray) -> None:
        given = dict(self._named())
        kept = self.stack_.kept
        self.estimators_ = [
            given[name] if isinstance(self.cv, str) else clone(given[name]).fit(X, y) for name in kept
        ]
        self.named_estimators_ = dict(zip(kept, self.estimators_))

    # ---- prediction ------------------------------------------------------------------------------

    def _kept_predictions(self, X: Any) -> dict[str, np.ndarray]:
        """Of the members that the stack keeps, by name."""
        check_is_fitted(self, "stack_")
        if self.estimators is not None:
            X = self._features(X)
            return {name: self._probabilities(est, X) for name, est in self.named_estimators_.items()}
        members = self._members(self._predictions(X))
        place = {name: k for k, name in enumerate(self.stack_.members)}
        return {name: members[place[name]] for name in self.stack_.kept}

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated probabilities (rows, classes)."""
        members = self._kept_predictions(X)
        output = self.output if self.estimators is None else "probability"
        return self.stack_.predict(members, output=output, threads=self._threads()).astype(np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def transform(self, X: Any) -> np.ndarray:
        """What the kept members predict, (rows, kept members * classes): all that the stack looks at."""
        members = self._kept_predictions(X)
        return np.concatenate([m.reshape(len(m), -1) for m in members.values()], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of transform: member_class, or those of X where X held predictions."""
        check_is_fitted(self, "stack_")
        kept = self.stack_.kept
        if self.estimators is not None:
            return np.array([f"{name}_{label}" for name in kept for label in self.classes_], dtype=object)
        columns = self._shape[1]
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)] if input_features is None else input_features
        starts = [self.stack_.members.index(name) * columns for name in kept]
        return np.array([names[at + c] for at in starts for c in range(columns)], dtype=object)

    # ---- parameters and tags ---------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, with those of the estimators by name."""
        if self.estimators is None:
            return BaseEstimator.get_params(self, deep=deep)
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params: Any) -> "CoreStackClassifier":
        if self.estimators is None and "estimators" not in params:
            return BaseEstimator.set_params(self, **params)
        self._set_params("estimators", **params)
        return self

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn before 1.6
        return {"_xfail_checks": {}} if self.estimators is not None else {"_xfail_checks": FEATURE_CHECKS}

    def __sklearn_tags__(self) -> Any:  # 1.6 and later
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.estimators is not None
        tags.input_tags.three_d_array = self.estimators is None
        return tags


def _rows(X: Any, index: np.ndarray) -> Any:
    return X.iloc[index] if hasattr(X, "iloc") else X[index]
