"""The fitted stack."""
from __future__ import annotations

import ctypes
import html as markup
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _arrays, _frames, _prediction, _values
from . import _library as c
from ._arguments import taking
from ._convert import in_c_order
from ._errors import ArgumentError, MismatchError, UnsupportedError
from ._outputs import refuse_inputs, written_once
from ._pools import allowed, config, is_manifest, member_names, of_pool, open_files, open_pool, predicted_split, scoring, task_name
from ._report import Report, made, write_page, write_suspects
from ._session import Owner, Progress, Session
from ._types import Array, Arrays, Column, Memory, Path, Predictions

_UNNAMED = "but the stack has no class names; give column numbers starting at 0, or fit it with classes=[...]"


# The score that decides, its name, and whether lower is better.
MAIN_SCORE = {
    "classification": ("nll", "NLL", True), "multilabel": ("log_loss", "log loss", True), "regression": ("rmse", "RMSE", True),
    "segmentation": ("miou", "mIoU", False), "detection": ("AP", "AP", False),
}  # fmt: skip


class Stack(Owner):
    """A fitted stack, created by :func:`corestack.fit` or :meth:`load`.

    It is immutable; any number of threads may predict with it. It can be pickled, and ``save`` writes the model file
    that the command line and the C library read.
    """

    def __init__(self, model: bytes, report: Optional[Report] = None, members_in: Optional[Sequence[str]] = None) -> None:
        self._bytes = bytes(model)
        self._model = self._hold(
            Session(threads=1, interrupts=False),
            lambda s: s.make(c.lib.cst_model_free, c.lib.cst_model_load_memory, self._bytes, len(self._bytes)),
        )
        self._report = report
        self._members_in = None if members_in is None else list(members_in)
        self._kept = c.listed(c.lib.cst_model_member_name, self._model)

    def __reduce__(self) -> Any:
        return type(self), (self._bytes, self._report, self._members_in)

    def __repr__(self) -> str:
        of = f" of {len(self._members_in)}" if self._members_in else ""
        what = ""
        if self.task == "multilabel":
            what = f", {self.n_classes} labels"
        elif self.task == "regression":
            what = ", 1 output" if self.n_classes == 1 else f", {self.n_classes} outputs"
        elif self.task != "detection":
            what = f", {self.n_classes} classes"
        return f"<corestack.Stack: {len(self.kept)}{of} members{what}>"

    def _repr_html_(self) -> str:
        """A table for notebooks, without a script."""
        report: dict[str, Any] = dict(self._report or {})
        what = self.info()
        rows = [("Method", f"{what.get('preset') or what.get('method')}, {self.task}")]
        key, name, down = MAIN_SCORE.get(self.task, MAIN_SCORE["classification"])
        score = (report.get("oof") or {}).get(key)
        alone = [(m[key], m["name"]) for m in report.get("members") or [] if m.get(key) is not None]
        if score is not None:
            rows.append(("Score", f"{name} {score:.4g}, out of fold"))
        if score is not None and alone:
            best, model = min(alone) if down else max(alone)
            word = "better than" if (score < best if down else score > best) else "not better than"
            rows.append(("Verdict", f"{word} the best model alone, {model} ({best:.4g})"))
        weights = sorted(self.weights.items(), key=lambda one: -abs(one[1]))
        first = [f"{member} {weight:.2f}" for member, weight in weights[:5]] or self.kept[:5]
        more = len(self.kept) - len(first)
        of = f" of {len(self._members_in)}" if self._members_in else ""
        rows.append(("Members", f"{len(self.kept)}{of}: {', '.join(first)}" + (f" and {more} more" if more else "")))
        if report.get("flops_rel") is not None:
            rows.append(("Cost", f"{100 * report['flops_rel']:.3g}% of running all members"))
        rows.append(("See", 'print(stack.summary()), stack.report_html("pool.json", "page.html")'))
        cells = (f"<tr><th>{markup.escape(key)}</th><td>{markup.escape(text)}</td></tr>" for key, text in rows)
        return "<table>" + "".join(cells) + "</table>"

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def kept(self) -> list[str]:
        """Names of the members that prediction needs, in this order."""
        return list(self._kept)

    @property
    def members(self) -> Optional[list[str]]:
        """Names of all members of the fit; None for a stack loaded from a file."""
        return None if self._members_in is None else list(self._members_in)

    @property
    def task(self) -> str:
        """ "classification", "regression", "segmentation", "detection" or "multilabel"."""
        return task_name(c.lib.cst_model_task(self._model))

    @property
    def n_classes(self) -> int:
        """Number of classes; for regression, of outputs; for multilabel, of labels."""
        return int(c.lib.cst_model_classes(self._model))

    @property
    def classes(self) -> Optional[list[str]]:
        """Names of the classes (outputs) in the order of the columns; None if they have no names."""
        names = [c.lib.cst_model_class_name(self._model, i) for i in range(self.n_classes)]
        return None if None in names else [name.decode() for name in names]

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each kept member in the log-linear or linear pool (for regression, of a single output); empty for a
        stack without such a pool (preset "paper", method "mlp")."""
        values = [c.lib.cst_model_member_weight(self._model, k) for k in range(len(self._kept))]
        return {name: w for name, w in zip(self._kept, values) if not np.isnan(w)}

    @property
    def settings(self) -> dict[str, str]:
        """The options of the fit, and its rows."""
        return dict(text.split("=", 1) for text in c.listed(c.lib.cst_model_setting, self._model))

    @property
    def report(self) -> Report:
        """Report of the fit (docs/json.md, "fit"). It is not part of the model file."""
        if self._report is None:
            raise ArgumentError("this stack was loaded from a file, which has no report; score it with evaluate()")
        return self._report

    def summary(self) -> str:
        """Return a one-page summary of the fit, or of the model file for a stack loaded from a file."""
        return (self.info() if self._report is None else self._report).summary()

    def info(self, pool: Optional[Path] = None, *, split: Optional[str] = None, outside: bool = False) -> Report:
        """Report what the model file holds, like `corestack show` (docs/json.md, "show"): members with weights and costs,
        method or preset, calibration, what it was fitted on, and settings.

        pool: the path of a pool (a manifest or a folder); the report then says whether the stack was fitted on its `split`
        (by default the split of the fit). outside: as for :func:`corestack.fit`.
        """
        if pool is not None and not _arrays.is_path(pool):
            raise ArgumentError("pool: give the path of a pool")
        with Session(threads=None if pool is not None else 1) as s:
            found = None if pool is None else open_files(s, pool, config(None, None, outside=int(outside)))
            name = _values.text_or_none(split, "split")
            return made(s, lambda context, o: c.lib.cst_show(context, self._model, found, name, o))

    def to_json(self) -> str:
        """Return the report of the fit as one JSON document."""
        return self.report.to_json()

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the model file, completely or not at all (docs/model-format.md)."""
        with Session(threads=1) as s:
            s.check(c.lib.cst_model_save(s.context, self._model, _values.path(path)))

    def export(self, path: Path, *, format: str = "onnx", output: Optional[str] = None, name: Optional[str] = None) -> None:
        """Write the stack for other programs, completely or not at all (docs/serving.md).

        format: "onnx", "c" or "wasm" (a folder). output: what members give there, "probability" (default) or "logit". name: what the
        names of functions of format "c" begin with ("stack").
        """
        how = c.Export(
            format=_values.text_or_none(format, "format"),
            output=_arrays.number_of(output, _arrays.OUTPUTS, "output") or 0,
            name=_values.text_or_none(name, "name"),
        )
        with Session(threads=1) as s:
            s.check(c.lib.cst_model_export(s.context, self._model, how, _values.path(path)))

    @classmethod
    def load(cls, path: Path) -> "Stack":
        """Read a model file."""
        with Session(threads=1) as s:
            model = s.make(c.lib.cst_model_free, c.lib.cst_model_load, _values.path(path))
            return cls(model_bytes(s, model))

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` writes."""
        return self._bytes

    @classmethod
    def from_bytes(cls, model: bytes) -> "Stack":
        """Create a stack from the bytes of :meth:`to_bytes` or of a model file."""
        if not isinstance(model, (bytes, bytearray, memoryview)):
            raise ArgumentError(f"model: is {_values.shown(model)}; it must be the bytes of a model file")
        return cls(model)

    # ---- use -------------------------------------------------------------------------------------

    def _named(self, preds: Any, names: Optional[Sequence[str]]) -> Any:
        """Names for predictions that came without: all members' or the kept ones', by their number."""
        if names is not None or isinstance(preds, dict) or hasattr(preds, "keys"):
            return names
        if not isinstance(preds, (list, tuple)) and getattr(preds, "ndim", 0) == 0:
            return names  # no predictions; what is said of them is said where they are read
        count = len(preds)
        if self._members_in is not None and count == len(self._members_in):
            return self._members_in
        if count == len(self._kept):
            return self._kept
        by_place = _arrays.default_names(count)
        if self._members_in is None and set(self._kept) <= set(by_place):
            return by_place
        wanted = f"{len(self._kept)} kept members"
        if self._members_in is not None:
            wanted += f" or all {len(self._members_in)}"
        raise MismatchError(f"predictions: {count} arrays; give those of the {wanted}, or a dict by name")

    def _pool(
        self, s: Session, preds: Any, y: Any, split: str = "test", others: Sequence[str] = (), **about: Any
    ) -> ctypes.c_void_p:
        """The pool that is predicted, with the members that prediction may run."""
        if not _arrays.in_files(preds):
            if self.task in ("segmentation", "detection"):
                raise ArgumentError(f"predictions: for {self.task}, give the path of a pool")
            preds = s.run(self._only_needed, preds, others)
            about.update(names=self._named(preds, about.get("names")), only={*self._kept, *others}, unnamed=_UNNAMED)
            split = "test"
        if self.task == "topk" and not is_manifest(preds):
            about["classes"] = self.n_classes
        return open_pool(s, preds, y, split, self.task, label_names=self.classes, **about)

    def _open(self, s: Session, preds: Any, y: Any, split: str, **about: Any) -> ctypes.c_void_p:
        """A pool of other rows, with all members that are given."""
        if not _arrays.in_files(preds):
            classes = about.get("classes")
            about.update(names=self._named(preds, about.get("names")), unnamed=_UNNAMED)
            about["classes"] = self.classes if classes is None else classes
        if self.task == "topk" and about.get("classes") is None and not is_manifest(preds):
            about["classes"] = self.n_classes
        return open_pool(s, preds, y, split, self.task, **about)

    def _only_needed(self, preds: Any, others: Sequence[str]) -> Any:
        """Of members by name those that are kept: others may be anything, and files of theirs are not read. Data frames
        in a dict stay, since the first of them says the order of the rows."""
        preds = _frames.identified(preds, "predictions")
        framed = _frames.is_frame(preds)
        if not framed and not isinstance(preds, Mapping):
            return preds
        kept = set(self._kept)
        names = [str(name) for name in (preds.columns if framed else preds)]
        if not kept <= set(names):
            return preds  # it is told what is missing
        kept.update(others)
        if framed:
            return preds.iloc[:, [k for k, name in enumerate(names) if name in kept]]
        return {name: one for name, one in preds.items() if str(name) in kept or _frames.is_indexed(one)}

    def predict(
        self,
        preds: Union[Predictions, Sequence[Path]],
        *,
        split: Optional[str] = None,
        names: Optional[Sequence[str]] = None,
        output: Optional[str] = None,
        outside: bool = False,
        id_column: Union[None, str, int] = None,
        missing: Optional[str] = None,
        domains: Union[None, Column, Path] = None,
        guard: str = "warn",
        batch: Optional[int] = None,
        label_shift: str = "off",
        return_variance: bool = False,
        return_report: bool = False,
        out: Optional[Path] = None,
        format: Optional[str] = None,
        id_map: Optional[Path] = None,
        like: Optional[Path] = None,
        column: Optional[str] = None,
        formulas: str = "mark",
        max_detections: int = 100,
        min_score: float = 0.001,
        top: Optional[int] = None,
        threads: Optional[int] = None,
        memory: Memory = None,
        progress: Progress = None,
    ) -> Any:
        """Return probabilities (rows, classes), float32, or (rows,) of class 1 where members are one column; for multilabel
        (rows, labels); for regression values (rows,) or (rows, outputs).

        preds: as for :func:`corestack.fit`; the kept members are enough. A list holds all members of the fit in their
        order, or the kept members in the order of `kept`. For the path of a pool, `split` ("test") is predicted; a split
        with conditions gives (conditions, rows, classes).
        outside, id_column: as for :func:`corestack.fit`.
        missing: "allow" predicts without members that are not in `preds`, and rows without members that are NaN there, with
        the weights of the others solved again (docs/prediction.md).
        domains: domain of each row; rows of a domain that the stack knows get its scale and biases, others the common ones.
        guard: what to do with a batch of 50 rows or more that looks unlike the fit rows: "warn" (logger corestack),
        "off", or "auto": the average of all members is mixed in, so that rows depend on the others of their batch.
        batch: its rows, in their order; by default all, or each condition. return_report: return (probabilities, Report).
        label_shift: "em" or "bbse" estimates the class shares of each batch without labels, and corrects the probabilities
        where tests find that only these have changed; "fixed" takes the shares of the fit, and gives the classes of a batch that
        looks unlike the fit the biases by which its mean prediction has these shares. The Report has what was found.
        return_variance: for regression, return (values, variances).
        Segmentation returns maps (cases, height, width, classes) if all cases have the same size; detection returns a list
        of dicts in COCO's format: of each image the `max_detections` boxes with the highest scores of at least `min_score`.
        Members that list their likeliest classes give (indices, logprobs, rest) of the `top` likeliest, by default as many as
        the widest member lists (docs/topk.md).
        out: a file to write instead, like `corestack predict -o` (.npy or .csv; for segmentation .npy or a new folder; for
        detection .json); returns the Report. like: a sample submission (.csv) whose ids, order and columns `out` takes.
        column: write one column of this name; with like, fill this column and copy the others. format: format of maps, "maps", "maps-float16", "labels" or "png".
        id_map: label maps have the ids of this file (a JSON list, or lines "class,id"), or "cityscapes", not class numbers.
        formulas: whether texts of a csv that a spreadsheet would compute get an apostrophe in front ("mark") or not ("keep").
        """
        split = predicted_split(preds, split)
        boxes = (_values.integer(max_detections, "max_detections", least=1), _values.real(min_score, "min_score"))
        ids = None if id_map is None else _values.path(id_map, "id_map")
        if ids is not None and self.task != "segmentation":
            raise ArgumentError("id_map: is for segmentation; remove it")
        guarded = _prediction.Guard(guard, batch, label_shift)
        maps = self.task == "segmentation" and batch is None and label_shift == "off"
        if guarded.given and self.task != "classification" and not maps:
            raise UnsupportedError(f"guard, batch and label_shift: are not supported for {self.task}")
        if return_report and (return_variance or out is not None or self.task in ("segmentation", "detection")):
            raise ArgumentError("return_report: is for arrays of classification or regression; with out the report is returned")
        with Session(threads, memory, progress) as s:
            more = _prediction.others(self._model) if guarded.acts else []
            pool = self._pool(
                s, preds, None, split, more, names=names, output=output, outside=outside, id_column=id_column,
                missing=missing, domains=domains, unlabelled=2,
            )  # fmt: skip
            if return_variance and (self.task != "regression" or out is not None):
                raise ArgumentError("return_variance: is for regression without out")
            if (like is not None or column is not None) and out is None:
                raise ArgumentError("like and column: are for a file; give out='submission.csv'")
            if formulas not in ("mark", "keep"):
                raise ArgumentError(f"formulas: is {_values.shown(formulas)}; it must be 'mark' or 'keep'")
            c.lib.cst_context_set_formulas(s.context, formulas == "keep")
            if self.task == "topk" or top is not None:
                if self.task != "topk" or out is not None or format is not None:
                    raise ArgumentError("top, out and format: lists of the likeliest classes are returned, and top is for them alone")
                return _prediction.lists(s, self._model, pool, split, top)
            if out is not None:
                refuse_inputs(_values.path(out, "out"), preds, pool)
                return _prediction.write(s, self._model, pool, split, out, format, like, column, guarded, boxes, ids)
            if self.task in ("segmentation", "detection"):
                return _prediction.loaded(s, self._model, pool, split, format, guarded, boxes, ids)
            if format is not None:
                raise ArgumentError("format: is for segmentation; remove it")
            if return_variance:
                mean, variance, rows = _prediction.values(s, self._model, pool, split)
                return self._shaped(mean, pool, split, rows), self._shaped(variance, pool, split, rows)
            flat, rows = _prediction.probabilities(s, self._model, pool, split, guarded)
            found = self._shaped(flat, pool, split, rows)
            if not return_report:
                return found
            counts = {"samples": rows, "classes": self.n_classes}
            return found, _prediction.document(s, self._model, split, None, counts, guarded)

    def _shaped(self, flat: Array, pool: ctypes.c_void_p, split: str, rows: int, both: bool = False) -> Array:
        conditions, columns = c.lib.cst_pool_conditions(pool, split.encode()), self.n_classes
        if self.task == "classification" and not both:
            flat, columns = _prediction.as_members(pool, split, flat, columns)
        return _prediction.shaped(flat, rows, columns, conditions, columns == 1)

    @taking(predict, without="return_variance return_report out format like column formulas max_detections min_score top")
    def predict_proba(self, preds: Union[Predictions, Sequence[Path]], **arguments: Any) -> Array:
        """Return class probabilities, (rows, classes), also where a member has one column."""
        if self.task != "classification":
            raise UnsupportedError(f"predict_proba is for classification, and the task of this stack is {self.task}; use predict()")
        split = predicted_split(preds, arguments["split"])
        guarded = _prediction.Guard(*(arguments[name] for name in ("guard", "batch", "label_shift")))
        with Session.of(arguments) as s:
            more = _prediction.others(self._model) if guarded.acts else []
            pool = self._pool(s, preds, None, split, more, unlabelled=2, **of_pool(arguments))
            flat, rows = _prediction.probabilities(s, self._model, pool, split, guarded)
            return self._shaped(flat, pool, split, rows, both=True)

    @taking(predict, without="return_variance return_report out format like column formulas max_detections min_score top")
    def decide(self, preds: Union[Predictions, Sequence[Path]], **arguments: Any) -> Array:
        """Return the class of each row that is decided for, (rows,) int32: for the metric of the fit (`metric=`, also
        "cost=FILE", of :func:`corestack.fit`), else the one with the largest probability. Of a regression the values that
        this metric is best with, such as medians, shaped as by :meth:`predict`. Arguments are those of :meth:`predict`."""
        if self.task == "regression":
            split = predicted_split(preds, arguments["split"])
            with Session.of(arguments) as s:
                pool = self._pool(s, preds, None, split, unlabelled=2, **of_pool(arguments))
                flat, rows = _prediction.decided(s, self._model, pool, split)
                return self._shaped(flat, pool, split, rows)
        p = in_c_order(self.predict_proba(preds, **arguments), np.float32)
        out = np.empty(p.shape[:-1], np.int32)
        with Session() as s:
            s.check(c.lib.cst_model_decide(s.context, self._model, p.ctypes.data, out.size, out.ctypes.data))
        return out

    @taking(predict, without="output domains guard batch label_shift return_variance return_report out format id_map like column formulas max_detections min_score top")
    def predict_interval(
        self, preds: Union[Predictions, Sequence[Path]], level: float = 0.9, *, split: Optional[str] = None, **arguments: Any
    ) -> Array:
        """Return prediction intervals for regression with coverage `level`, (2, rows) or (2, rows, outputs).

        ``low, high = stack.predict_interval(preds)``."""
        if self.task != "regression":
            raise ArgumentError(f"intervals are for regression, and the task of this stack is {self.task}")
        split = predicted_split(preds, split)
        share = _values.real(level, "level")
        with Session.of(arguments) as s:
            pool = self._pool(s, preds, None, split, unlabelled=2, **of_pool(arguments))
            mean, variance, rows = _prediction.values(s, self._model, pool, split)
            ends = _prediction.intervals(s, self._model, mean, variance, rows, share)
            return np.stack([self._shaped(end, pool, split, rows) for end in ends])

    def predictor(self, missing: Optional[str] = None, *, window: Optional[int] = None) -> "_prediction.Predictor":
        """Return a function of the kept members' predictions for use in a service: microseconds per call, no files.

        missing: with "allow", a call may lack members: names that are not in the dict, or None in the list.
        window: for classification, guard the stream of rows: each is predicted as one of a batch of the last `window`
        rows, 50 to 65,536, so a result depends on the rows before it (docs/prediction.md, "Guard").
        """
        if self.task == "detection":
            raise UnsupportedError("detection has no predictor; use predict() with the path of a pool")
        absent = bool(allowed(missing))
        return _prediction.Predictor(self, self._model, absent, self._window(window, absent))

    def cascade(self, rows: int = 1, *, window: Optional[int] = None) -> "_prediction.Cascade":
        """Return what runs the members one after another and stops where the answer is sure, for a service
        (docs/cascades.md): of a stack fitted with cascade=True. rows: most rows in flight. window: as for :meth:`predictor`."""
        return _prediction.Cascade(self, self._model, _values.integer(rows, "rows"), self._window(window, False))

    def _window(self, window: Optional[int], absent: bool) -> Optional[int]:
        if window is not None:
            window = _values.integer(window, "window")
            if self.task != "classification":
                raise UnsupportedError(f"window: the guard of a stream is not supported for {self.task}")
            if absent:
                raise ArgumentError("window: the guard of a stream needs all kept members; remove missing='allow'")
            if not 50 <= window <= 65536:
                raise ArgumentError(f"window: is {window}; it must be 50 to 65536 rows")
        return window

    def evaluate(
        self,
        preds: Union[Predictions, Sequence[Path]],
        y: Union[None, Column, Path] = None,
        *,
        split: Optional[str] = None,
        names: Optional[Sequence[str]] = None,
        output: Optional[str] = None,
        outside: bool = False,
        id_column: Union[None, str, int] = None,
        missing: Optional[str] = None,
        sample_weight: Union[None, Column, Path] = None,
        domains: Union[None, Column, Path] = None,
        baselines: bool = False,
        ood: Optional[str] = None,
        clean: Optional[str] = None,
        reference_errors: Optional[str] = None,
        head_above: int = 0,
        tail_below: int = 0,
        metric: Union[None, str, Callable[..., float]] = None,
        resamples: int = 0,
        seed: int = 0,
        threads: Optional[int] = None,
        memory: Memory = None,
        progress: Progress = None,
        comm: Any = None,
    ) -> Report:
        """Score the stack on labelled predictions, or on a `split` of a pool (docs/json.md, "evaluate").

        metric: one to report beside the other scores, by name or a function (y, predictions) (docs/metrics.md); by default the
        metric of the fit. sample_weight: weight of each row. outside, id_column: as for :func:`corestack.fit`. resamples: bootstrap resamples for 95%
        intervals.
        For the path of a pool only, like the options of `corestack evaluate`: baselines (also score simple baselines,
        fitted on split "oof"), ood, clean, reference_errors, head_above, tail_below.
        comm: as for :func:`corestack.fit`.
        """
        given = dict(locals())
        split = predicted_split(preds, split)
        if not _arrays.in_files(preds):
            if baselines:
                raise ArgumentError("baselines are fitted on split 'oof' of a pool; give the path of a pool")
            if y is None:
                raise ArgumentError("y: labels are required for scores")
        with Session.of(given) as s:
            s.same("evaluate", given, split=split)
            pool = self._pool(s, preds, y, split, **of_pool(given))
            how = c.EvaluateOptions(
                split=split.encode(), baselines=int(baselines), metric=_values.metric(metric), **scoring(given)
            )
            return made(s, lambda context, o: c.lib.cst_evaluate_stack(context, self._model, pool, how, o))

    @taking(evaluate, without="missing sample_weight domains baselines ood clean reference_errors head_above tail_below resamples")
    def bound(
        self,
        preds: Union[Predictions, Sequence[Path]],
        y: Union[None, Column, Path] = None,
        *,
        split: Optional[str] = None,
        delta: float = 0.05,
        alpha: float = 0.1,
        seed: int = 0,
        leakage: bool = False,
        batch_split: Optional[str] = None,
        shift: str = "none",
        sets: Optional[Path] = None,
        validation: Optional[str] = None,
        by: str = "none",
        miss_cost: Optional[Sequence[float]] = None,
        risk: Optional[float] = None,
        **arguments: Any,
    ) -> Report:
        """Compute high-probability bounds for the stack (docs/bounds.md; keys: docs/json.md, "bound").

        Classification only. The labelled rows must be independent draws that the stack was not fitted on. Each bound fails
        with probability at most `delta`. For arrays, the members that the stack needs are used; for the path of a pool, all
        members, with the PAC-Bayes bound of the paper on split "oof". alpha: allowed miss rate of the prediction sets.
        seed: seed for splitting the rows in half and for randomised sets. leakage: for the path of a pool, also look for
        leaks between split "oof" and this one. validation: for the path of a pool, the split whose rows give lambda*, the
        prior of the paper's bound.

        batch_split: for the path of a pool, a split of new rows to make prediction sets for, whose labels are not needed
        (key "under_shift"). shift: how rows are weighted for them: "none", "covariate" or "label". sets: path of a .npy
        file to write these sets to, [rows, classes], 1 where a class is in the set. by: "class" or "domain" calibrates
        them for each on its own. miss_cost: cost of a set without the true class, by class; then the expected cost of a
        row is at most `risk`.
        Other arguments are those of :meth:`evaluate`.
        """
        given = {**arguments, **locals()}
        split = predicted_split(preds, split)
        files = _arrays.in_files(preds)
        if not files and y is None:
            raise ArgumentError("y: labels are required to count errors")
        if leakage and not files:
            raise ArgumentError("leakage: needs the path of a pool with several splits")
        if validation is not None and not files:
            raise ArgumentError("validation: needs the path of a pool with several splits")
        kinds = {"none": 0, "covariate": 1, "label": 2}
        if not isinstance(shift, str) or shift not in kinds:
            raise ArgumentError(f"shift: {shift!r} is not 'none', 'covariate' or 'label'")
        ways = {"none": 0, "class": 1, "domain": 2}
        if not isinstance(by, str) or by not in ways:
            raise ArgumentError(f"by: {by!r} is not 'none', 'class' or 'domain'")
        if (miss_cost is None) != (risk is None):
            raise ArgumentError("miss_cost and risk go together: costs by class, and the acceptable expected cost of a row")
        if batch_split is None and (shift != "none" or by != "none" or miss_cost is not None or sets is not None):
            raise ArgumentError("shift, by, miss_cost and sets: need batch_split, the split of the new rows")
        costs = None if miss_cost is None else np.ascontiguousarray(miss_cost, dtype=np.float64).reshape(-1)
        if batch_split is not None and not files:
            raise ArgumentError("batch_split: needs the path of a pool with several splits")
        shares = {"delta": _values.real(delta, "delta"), "alpha": _values.real(alpha, "alpha")}
        for name, share in shares.items():
            if not 0 < share < 1:
                raise ArgumentError(f"{name}: {share:g} is not between 0 and 1")
        with Session.of(given) as s, written_once(s, sets) as to:
            s.same("bound", given, split=split)
            pool = self._pool(s, preds, y, split, **of_pool(given))
            how = c.BoundOptions(
                split=split.encode(),
                seed=_values.integer(seed, "seed", _values.INT64),
                leakage=int(leakage),
                validation=_values.text_or_none(validation, "validation"),
                **shares,
            )
            if batch_split is None:
                return made(s, lambda context, o: c.lib.cst_bound(context, self._model, pool, how, o))
            batch = c.BoundBatch(
                split=_values.text_or_none(batch_split, "batch_split"),
                weights=kinds[shift],
                sets=None if to is None else _values.path(to, "sets"),
                by=ways[by],
                miss_costs=None if costs is None else costs.ctypes.data,
                miss_cost_count=0 if costs is None else len(costs),
                risk=0 if risk is None else _values.real(risk, "risk"),
            )
            return made(s, lambda context, o: c.lib.cst_bound_shifted(context, self._model, pool, how, batch, o))

    def report_html(
        self, pool: Path, path: Path, *, split: str = "test", resamples: int = 5000, seed: int = 0, outside: bool = False
    ) -> None:
        """Write the stack's scores on a split, its members, checks, costs and faults as one HTML page, like `corestack report`
        (docs/report.md).

        pool: the path of a pool (a manifest or a folder). outside: as for :func:`corestack.fit`.
        """
        if not _arrays.is_path(pool):
            raise ArgumentError("pool: give the path of a pool")
        with Session() as s:
            found = open_files(s, pool, config(None, None, outside=int(outside)))
            fitted_split = c.lib.cst_pool_has_split(found, b"oof") != 0
            where = _values.text(split, "split")
            how = c.EvaluateOptions(
                split=where,
                baselines=int(fitted_split),
                resamples=_values.integer(resamples, "resamples", _values.INT64),
                seed=_values.integer(seed, "seed", _values.INT64),
            )
            bounds = c.BoundOptions(split=where, seed=how.seed)
            free = c.lib.cst_report_free
            pages = [s.make_with(free, lambda context, o: c.lib.cst_evaluate_stack(context, self._model, found, how, o))]
            pages.append(self._shown(s, found if fitted_split else None))
            inspected = optional(s, free, lambda o: c.lib.cst_inspect(s.context, found, b"oof", None, o))
            bounded = optional(s, free, lambda o: c.lib.cst_bound(s.context, self._model, found, bounds, o))
            pages += [one for one in (inspected, bounded) if one]
            test = optional(s, c.lib.cst_monitor_free, lambda o: c.lib.cst_monitor_create(s.context, o, self._model, None))
            if test and c.lib.cst_monitor_batch(s.context, test, found, where, None, None) == 0:
                pages.append(s.make_with(free, lambda context, o: c.lib.cst_monitor_report(context, test, o)))
            write_page(s, path, *pages)

    def _shown(self, s: Session, pool: Optional[ctypes.c_void_p] = None) -> ctypes.c_void_p:
        """What the model file says of itself."""
        return s.make_with(c.lib.cst_report_free, lambda context, o: c.lib.cst_show(context, self._model, pool, None, o))


def optional(s: Session, free: Any, call: Callable[[Any], Any]) -> Optional[ctypes.c_void_p]:
    """A part of a page that not every pool has."""
    out = ctypes.c_void_p()
    if call(ctypes.byref(out)) != 0:
        return None
    s.keep(free, out)
    return out


def fitted(
    s: Session, pool: ctypes.c_void_p, call: Callable[..., int], suspects: Optional[Path] = None, html: Optional[Path] = None
) -> Stack:
    """The stack that `call` makes, which is given where to put the model and its report."""
    model, report = ctypes.c_void_p(), ctypes.c_void_p()
    status = call(ctypes.byref(model), ctypes.byref(report))
    s.keep(c.lib.cst_model_free, model)
    s.keep(c.lib.cst_report_free, report)
    s.check(status)
    write_suspects(s, report, suspects)
    stack = Stack(model_bytes(s, model), Report(*s.report(report)), member_names(pool))
    if html is not None:
        write_page(s, html, report, stack._shown(s, pool))
    return stack


def model_bytes(s: Session, model: ctypes.c_void_p) -> bytes:
    """The model file as bytes."""
    size = ctypes.c_size_t()
    out = s.make_with(c.lib.cst_free, lambda context, o: c.lib.cst_model_save_memory(context, model, o, ctypes.byref(size)))
    return ctypes.string_at(out, size.value)
