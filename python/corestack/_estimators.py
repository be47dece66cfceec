"""What the two estimators share: X as predictions or as features, out-of-fold predictions, transform, parameters."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, TypeVar, Union

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import (
    _check_feature_names_in, _check_sample_weight, check_consistent_length, check_is_fitted, has_fit_parameter,
)  # fmt: skip

from ._convert import as_array, is_torch
from ._errors import ArgumentError, MismatchError
from ._functions import fit as fit_stack
from ._stack import Stack
from ._types import Array

try:
    from sklearn.utils.validation import validate_data as validate_data  # 1.6 and later
except ImportError:

    def validate_data(estimator: Any, X: Any, *y: Any, **how: Any) -> Any:
        if how.pop("skip_check_array", False):
            estimator._check_feature_names(X, reset=True)
            return estimator._check_n_features(X, reset=True)
        return estimator._validate_data(X, *y, **how)

try:
    from sklearn.utils._metadata_requests import _routing_enabled
    from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object  # 1.3 and later
except ImportError:

    def _routing_enabled() -> bool:
        return False


# The library takes numbers of these types as they are.
DTYPES = [np.float64, np.float32, np.float16]

# Checks of scikit-learn's check_estimator that feed features where probabilities are expected: for a CoreStackClassifier
# without `estimators`. scikit-learn 1.6 and later takes them as check_estimator(..., expected_failed_checks=...).
FEATURE_CHECKS = {
    name: "X must hold predictions here, but this check passes features"
    for name in (
        "check_classifier_data_not_an_array", "check_classifiers_classes", "check_classifiers_train",
        "check_dict_unchanged", "check_dont_overwrite_parameters", "check_dtype_object", "check_estimators_dtypes",
        "check_estimators_fit_returns_self", "check_estimators_overwrite_params", "check_estimators_pickle",
        "check_fit2d_1feature", "check_fit2d_predict1d", "check_fit_check_is_fitted", "check_fit_idempotent",
        "check_fit_score_takes_y", "check_methods_sample_order_invariance", "check_methods_subset_invariance",
        "check_n_features_in", "check_pipeline_consistency", "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weights_invariance", "check_sample_weights_list", "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten", "check_sample_weights_pandas_series", "check_sample_weights_shape",
        "check_supervised_y_2d", "check_transformer_data_not_an_array", "check_transformer_general",
        "check_transformer_preserve_dtypes",
    )  # fmt: skip
}


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def unmasked(X: Any) -> Any:
    """Predictions that scikit-learn can look at: tensors as arrays, and nothing masked. Frames keep their names."""
    return as_array(X, "X") if is_torch(X) or isinstance(X, np.ma.MaskedArray) else X


def weights_of(values: Any, X: Any) -> Optional[Array]:
    """Weights of the rows of X, float64."""
    if values is None:
        return None
    plain = values if np.isscalar(values) else as_array(values, "sample_weight")
    weights: Array = _check_sample_weight(plain, X, dtype=np.float64)
    return weights


def _taken(est: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of `given` the fit of an estimator takes; of a pipeline its last step."""
    found = {key: value for key, value in given.items() if has_fit_parameter(est, key)}
    for name, last in getattr(est, "steps", [])[-1:]:
        found.update({f"{name}__{key}": value for key, value in given.items() if has_fit_parameter(last, key)})
    return found


Self = TypeVar("Self", bound="StackEstimator")


class StackEstimator(TransformerMixin, _BaseComposition):  # type: ignore[misc]
    """An estimator whose X holds members' predictions, or features that its `estimators` are trained on."""

    _kind = ""  # "classifier" or "regressor"
    estimators: Optional[Sequence[tuple[str, Any]]]
    n_members: Optional[int]
    cv: Any
    preset: str
    method: Optional[str]
    metric: Optional[str]
    keep_max: Optional[int]
    options: Optional[Mapping[str, Any]]
    nested: bool
    n_classes: Optional[int]
    classes: Optional[Sequence[Any]]
    output: str
    guard: str
    random_state: Optional[int]
    n_jobs: Optional[int]
    verbose: Union[bool, int]
    stack_: Stack

    def _keep(self, parameters: Mapping[str, Any]) -> None:
        """Keeps parameters as they are, as scikit-learn wants it."""
        for name, value in parameters.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    # ---- what the kinds differ in -----------------------------------------------------------------

    _width: Callable[[], int]  # columns that a base estimator's predictions have
    _predicted: Callable[[Any, Any], Array]  # what a base estimator predicts of X, (rows, width)
    _column_names: Callable[[], list[str]]  # what these columns are called; a name's end
    _is_kind: Callable[[Any], bool]
    _check_predictions: Callable[[Any, Any], tuple[Array, Array]]  # X with predictions, divided into members; y for the stack
    _given: Callable[[Any], Array]  # y as the stack takes it, beside features
    _stack_task: Callable[[], dict[str, Any]]  # what `corestack.fit` is told beside arrays and options

    def _to_train(self, y: Array) -> Array:
        """What base estimators are trained on, of y as the stack takes it."""
        return y

    # ---- fitting ---------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None, *, folds: Any = None, groups: Any = None) -> Self:
        """Fits the stack, and the estimators where there are any.

        folds: fold of each row, where X holds predictions of models that were trained in folds. groups: rows that must
        not be separated; a number of folds in cv then means StratifiedGroupKFold (GroupKFold for a regressor). sample_weight: how
        much each row counts, in the stack; a row of weight 0 takes no part. Estimators that take weights or groups get them too,
        or with scikit-learn's metadata routing those that request them.
        """
        self._check_parameters()
        if self.estimators is None:
            X, y = self._check_predictions(X, y)
            self._fit_stack(self._members(X), y, weights_of(sample_weight, X), None, folds, groups)
            return self
        if folds is not None:
            raise ArgumentError("folds: cv makes the folds of estimators; give cv=[(train, test), ...]")
        self._named()
        y = self._given(y)
        X = self._features(X, y)
        X, y, groups, weights = self._counted(sample_weight, X, y, groups)
        trained = self._to_train(y)
        beside = self._routed(sample_weight=weights, groups=groups)
        names, members, seen, folds = self._out_of_fold(X, trained, groups, beside)
        groups, part = (None if given is None else np.asarray(given)[seen] for given in (groups, weights))
        self._fit_stack(members, y[seen], part, names, folds, groups)
        self._fit_kept(X, trained, beside)
        return self

    def _check_parameters(self) -> None:
        """What scikit-learn leaves to fit."""
        for name in ("n_members", "n_classes", "keep_max"):
            value = getattr(self, name, None)
            if value is not None and not (_is_whole(value) and value > 0):
                raise ArgumentError(f"{name}: is {value!r}; it must be a whole number of at least 1, or None")
        if self.random_state is not None and not _is_whole(self.random_state):
            raise ArgumentError(f"random_state: is {self.random_state!r}; it must be a whole number, or None")
        if self.n_jobs is not None and not _is_whole(self.n_jobs):
            raise ArgumentError(f"n_jobs: is {self.n_jobs!r}; it must be a whole number, or None")
        if self.estimators is not None:
            pairs = isinstance(self.estimators, (list, tuple)) and all(
                isinstance(one, (list, tuple)) and len(one) == 2 and isinstance(one[0], str) for one in self.estimators
            )
            if not pairs:
                raise ArgumentError(f"estimators: must be a list of (name, {self._kind})")
        elif not (_is_whole(self.cv) and self.cv > 1):
            raise ArgumentError(
                f"cv: is {self.cv!r}; if X holds predictions it must be a number of folds of at least 2; fit(folds=...) takes "
                "given folds"
            )

    def _fit_stack(self, members: Any, y: Array, weights: Any, names: Any, folds: Any, groups: Any) -> None:
        self.stack_ = fit_stack(
            members,
            y,
            names=names,
            folds=folds,
            groups=groups,
            sample_weight=weights,
            preset=self.preset,
            method=self.method,
            progress=bool(self.verbose),
            seed=0 if self.random_state is None else int(self.random_state),
            options=self._options(folds),
            threads=self._threads(),
            **self._stack_task(),
        )
        self.report_ = self.stack_.report

    def _options(self, folds: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"evaluate.nested": bool(self.nested)}
        found.update({key: value for key, value in (("metric", self.metric), ("keep.max", self.keep_max)) if value is not None})
        if self.estimators is None and folds is None and isinstance(self.cv, (int, np.integer)):
            found["folds.count"] = int(self.cv)
        found.update(self.options or {})
        return found

    def _threads(self) -> int:
        return 0 if self.n_jobs is None or self.n_jobs < 0 else int(self.n_jobs)

    # ---- X holds predictions ---------------------------------------------------------------------

    def _cube(self, X: Array, reset: bool) -> Array:
        """(rows, members, columns) as it is; the library looks at its numbers."""
        width = X.shape[1] * X.shape[2]
        if X.size == 0:
            raise MismatchError(f"X: has shape {X.shape}, which is not a shape of predictions; it must be (rows, members, columns)")
        if reset:
            self.n_features_in_ = width
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif width != self.n_features_in_ or X.shape[1] != self._shape[0]:
            raise MismatchError(f"X: has shape {X.shape}; it was fitted on {self._shape} members and columns")
        return X

    def _divide(self, X: Array, columns: int) -> None:
        """Sets the shape of the members in X, of so many columns each."""
        width = self.n_features_in_
        members, found = X.shape[1:] if X.ndim == 3 else (self.n_members or width // columns, columns)
        if found != columns or members * found != width:
            what = "output" if columns == 1 else "outputs"
            raise MismatchError(
                f"X: has {width} columns, which do not fit {self.n_members or 'any number of'} members with {columns} {what}; X must hold "
                "predictions, one member after the other (give estimators=[...] to train on features)"
            )
        self._shape = (int(members), int(found))

    def _members(self, X: Array) -> list[Array]:
        """Views of X, one for each member."""
        count, columns = self._shape
        if X.ndim == 3:
            return [X[:, k] for k in range(count)]
        return [X[:, k * columns : (k + 1) * columns] for k in range(count)]

    def _predictions(self, X: Any) -> Array:
        if getattr(X, "ndim", 2) == 3:
            return self._cube(as_array(X, "X"), reset=False)
        checked: Array = validate_data(self, unmasked(X), reset=False, dtype=DTYPES)
        return checked

    # ---- X holds features ------------------------------------------------------------------------

    def _named(self) -> list[tuple[str, Any]]:
        given = list(self.estimators or [])
        named = [(str(name), est) for name, est in given if not isinstance(est, str)]
        dropped = [est for _, est in given if isinstance(est, str)]
        if not named or any(est != "drop" for est in dropped):
            raise ArgumentError(f"estimators: must be a list of (name, {self._kind}) with at least one that is not 'drop'")
        self._validate_names([name for name, _ in given])
        for name, est in named:
            if not self._is_kind(est):
                raise ArgumentError(f"estimators: '{name}' is a {type(est).__name__}, not a {self._kind}")
        return named

    def _features(self, X: Any, y: Any) -> Any:
        """X as it is, for estimators of any kind; what it may hold they say themselves."""
        check_consistent_length(X, y)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        try:
            validate_data(self, X, skip_check_array=True)  # sets n_features_in_ and feature_names_in_ where X has them
        except TypeError:  # names of several types, which scikit-learn does not note
            pass
        return indexable(X)[0]

    def _counted(self, sample_weight: Any, X: Any, y: Array, groups: Any) -> tuple[Any, Array, Any, Optional[Array]]:
        """X, y, groups and weights of the rows that do not have weight 0."""
        if sample_weight is None:
            return X, y, groups, None
        weights = weights_of(sample_weight, X)
        assert weights is not None
        if (weights < 0).any() or not np.isfinite(weights).all():
            row = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))[0]
            raise ArgumentError(f"sample_weight: row {row} is {weights[row]}; weights must be finite and non-negative")
        rows = np.flatnonzero(weights > 0)
        if len(rows) == 0:
            raise ArgumentError("sample_weight: every weight is 0, so no row is left to fit on")
        if len(rows) == len(y):
            return X, y, groups, weights
        return _safe_indexing(X, rows), y[rows], None if groups is None else np.asarray(groups)[rows], weights[rows]

    def _out_of_fold(
        self, X: Any, y: Array, groups: Any, beside: Mapping[str, Mapping[str, Any]]
    ) -> tuple[list[str], list[Array], Array, Any]:
        """Names, predictions, the rows that the estimators predicted unseen, and those rows' folds."""
        named = self._named()
        names = [name for name, _ in named]
        rows = len(y)
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise ArgumentError(f"cv is '{self.cv}'; it must be a number, a splitter, splits or 'prefit'")
            for _, est in named:
                check_is_fitted(est)
            return names, [self._predicted(est, X) for _, est in named], np.arange(rows), None
        splits = list(self._splitter(y, groups).split(np.zeros(rows), y, groups))
        fold = np.full(rows, -1, np.int64)
        members = [np.zeros((rows, self._width())) for _ in named]
        for number, (_, test) in enumerate(splits):
            if (fold[test] >= 0).any():
                raise ArgumentError("cv: a row is in several test folds; use splits whose test folds do not overlap")
            fold[test] = number
        self._check_splits(y, splits, groups)
        for train, test in splits:
            for (name, est), member in zip(named, members):
                part = {key: _safe_indexing(value, train) for key, value in beside[name].items()}
                fitted = clone(est).fit(_safe_indexing(X, train), y[train], **part)
                member[test] = self._predicted(fitted, _safe_indexing(X, test))
        seen = np.flatnonzero(fold >= 0)  # rows that no fold holds out are only trained on
        if len(seen) < rows:
            members = [member[seen] for member in members]
        return names, members, seen, fold[seen]

    def _splitter(self, y: Array, groups: Any) -> Any:
        """The folds of the estimators. A number of folds keeps groups together, as the stack's own folds do."""
        if groups is None or not (self.cv is None or _is_whole(self.cv)):
            return check_cv(self.cv, y, classifier=self._kind == "classifier")
        count = 5 if self.cv is None else int(self.cv)
        found = len(np.unique(groups))
        if found < count:
            raise ArgumentError(f"groups: {found} groups cannot be divided into {count} folds; give cv a smaller number of folds")
        return StratifiedGroupKFold(count) if self._kind == "classifier" else GroupKFold(count)

    def _check_splits(self, y: Array, splits: list[tuple[Array, Array]], groups: Any) -> None:
        """Refuses folds in which nothing can be learned."""

    def _routed(self, **given: Any) -> dict[str, Mapping[str, Any]]:
        """What is passed to the fit of each estimator, by its name."""
        given = {key: value for key, value in given.items() if value is not None}
        if _routing_enabled():
            router = get_routing_for_object(self)
            router.validate_metadata(params=given, method="fit")
            routed = router.route_params(params=given, caller="fit")
            return {name: routed[name].fit for name, _ in self._named()}
        return {name: _taken(est, given) for name, est in self._named()}

    def get_metadata_routing(self) -> Any:
        """What `fit` takes and passes on (scikit-learn 1.3 and later)."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        for name, est in self._named() if self.estimators else []:
            router.add(**{name: est}, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        return router

    def _fit_kept(self, X: Any, y: Array, beside: Mapping[str, Mapping[str, Any]]) -> None:
        given = dict(self._named())
        kept = self.stack_.kept
        self.estimators_ = [
            given[name] if isinstance(self.cv, str) else clone(given[name]).fit(X, y, **beside[name]) for name in kept
        ]
        self.named_estimators_ = dict(zip(kept, self.estimators_))

    # ---- prediction ------------------------------------------------------------------------------

    def _kept_predictions(self, X: Any) -> dict[str, Array]:
        """Of the members that the stack keeps, by name."""
        check_is_fitted(self, "stack_")
        if self.estimators is not None:
            return {name: self._predicted(est, X) for name, est in self.named_estimators_.items()}
        members = self._members(self._predictions(X))
        place = {name: k for k, name in enumerate(self.stack_.members or [])}
        return {name: members[place[name]] for name in self.stack_.kept}

    def transform(self, X: Any) -> Array:
        """What the kept members predict, (rows, kept members * columns): all that the stack looks at."""
        members = self._kept_predictions(X)
        return np.concatenate([m.reshape(len(m), -1) for m in members.values()], axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of transform: of the member and the class or output, or those of X where X held
        predictions."""
        check_is_fitted(self, "stack_")
        kept = self.stack_.kept
        given = _check_feature_names_in(self, input_features, generate_names=self.estimators is None)
        if self.estimators is not None:
            return np.array([f"{name}{end}" for name in kept for end in self._column_names()], dtype=object)
        columns = self._shape[1]
        starts = [(self.stack_.members or []).index(name) * columns for name in kept]
        return np.array([given[at + c] for at in starts for c in range(columns)], dtype=object)

    # ---- parameters and tags ---------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, with those of the estimators by name."""
        found: dict[str, Any]
        if self.estimators is None:
            found = BaseEstimator.get_params(self, deep=deep)
        else:
            found = self._get_params("estimators", deep=deep)
        return found

    def set_params(self, **params: Any) -> Any:
        """Sets parameters, also those of the estimators, or estimators by name."""
        if self.estimators is None and "estimators" not in params:
            return BaseEstimator.set_params(self, **params)
        self._set_params("estimators", **params)
        return self

    def __sklearn_tags__(self) -> Any:  # 1.6 and later
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.estimators is not None
        tags.input_tags.three_d_array = self.estimators is None
        return tags


_NEAR = 0.01  # from 1, of a row's sum of probabilities


def of_classes(X: Array, classes: int, members: Optional[int], declared: bool, output: str) -> tuple[int, int]:
    """Members and columns of each: as many as classes, or one, the probability of class 1 of two.

    declared: whether the number of classes was given; y may lack some otherwise. Where several divisions are possible,
    probabilities decide, whose rows sum to 1.
    """
    if X.ndim == 3:
        count, columns = X.shape[1:]
        if columns == classes or (columns == 1 and classes == 2):
            return int(count), int(columns)
        raise MismatchError(_no_division(f"shape {X.shape}", columns, classes, None))
    width = X.shape[1]
    if members is not None:
        columns = width // members if width % members == 0 else 0
        if columns == classes or (columns == 1 and classes == 2):
            return members, columns
        raise MismatchError(_no_division(f"{width} columns", columns, classes, members))
    possible = [d for d in range(2, width + 1) if width % d == 0 and (d == classes or (not declared and d > classes))]
    if output == "probability":
        sums = [d for d in possible if _sum_to_one(X, d)]
        if sums and sums[0] != classes:
            raise MismatchError(_no_division(f"{width} columns", sums[0], classes, None))
        if not sums and classes == 2:
            return width, 1
        possible = [classes] if width % classes == 0 else []
    else:
        possible = [d for d in possible if d == classes or d < width]  # a single member is no ensemble
        possible = [1] * (classes == 2) + possible
    if len(possible) > 1:
        ways = " or ".join(f"{width // d} of {d}" for d in possible)
        more = "" if declared else f", or n_classes if y has all {classes} classes"
        more = "" if classes == 2 else more
        raise ArgumentError(f"X: {width} columns can be divided into members and columns per member in several ways ({ways}); give n_members{more}")
    if not possible:
        raise MismatchError(_no_division(f"{width} columns", 0, classes, None))
    return width // possible[0], possible[0]


def _no_division(what: str, columns: int, classes: int, members: Optional[int]) -> str:
    text = f"X: has {what}, which do not fit {members or 'any number of'} members with {classes} classes; "
    if columns > classes:
        return text + f"if there are {columns} classes, of which y has {classes}, give classes=[...], all of them in the order of the columns"
    return text + (
        "X must hold predictions, one member after the other (give estimators=[...] to train on features)"
    )


def _sum_to_one(X: Array, columns: int) -> bool:
    """Whether most rows of each member do; the library tells those that do not."""
    sums = np.asarray(X, np.float64).reshape(len(X), -1, columns).sum(axis=2)
    with np.errstate(invalid="ignore"):
        return bool((np.abs(sums - 1) < _NEAR).mean(axis=0).min() > 0.5)


def codes_among(y: Array, classes: Any) -> tuple[Array, Array]:
    """Declared classes in the order of their columns, and the column of each label in y."""
    known: Array = np.asarray(classes)
    if known.ndim != 1 or len(known) < 2 or len(set(known.tolist())) < len(known):
        raise ArgumentError(f"classes: is {classes!r}; it must list two or more classes, each once, in the order of the columns")
    if known.dtype.kind in "US" and y.dtype.kind in "iu" and list(known) == sorted(known):
        known = np.arange(len(known))  # y was numbered in the order of the names, as cross_val_predict does
    places = {label: column for column, label in enumerate(known.tolist())}
    codes = np.array([places.get(label, -1) for label in y.tolist()], np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise MismatchError(f"y: row {row} is '{y[row]}', which is not one of the classes {', '.join(map(str, known))}")
    return known, codes
