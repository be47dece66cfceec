"""Plots of what the library found, with matplotlib: reliability, cka, spectrum, accuracy_flops, weights.

Each function draws into `ax`, or into a figure of its own, and returns the Axes:

>>> corestack.plot.cka(corestack.inspect(preds, y)).figure.savefig("cka.png")

Reports may also be the documents that the command line prints with --json: as dicts, or as paths of files. Nothing is
shown and nothing of matplotlib is changed; matplotlib itself is imported when a function is called.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from . import metrics
from ._errors import ArgumentError, FormatError
from ._stack import Stack
from ._types import Column, Floats, Path, SupportsArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["accuracy_flops", "cka", "reliability", "spectrum", "weights"]

Document = Union[Mapping[str, Any], Path]

# Okabe and Ito's colours, which the colour-blind tell apart.
_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
_GREY, _LIGHT = "0.35", "0.75"

_LOWER_IS_BETTER = {"nll", "ece", "brier", "rmse", "mae", "median_ae", "mce", "boundary_error"}
_LABELS = {
    "top1": "top-1 accuracy (fraction)",
    "nll": "NLL (nats)",
    "ece": "ECE",
    "brier": "Brier score",
    "miou": "mean IoU",
    "dice": "Dice",
    "rmse": "RMSE (units of the target)",
    "mae": "MAE (units of the target)",
    "r2": "R²",
}


def _new_axes(width: float, height: float, below: float = 0) -> Any:
    """Axes of a figure (inches) that pyplot does not know; with `below`, two, the lower one so much as high."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"corestack.plot draws with matplotlib, which cannot be imported ({error}): pip install 'corestack[plot]', or "
            "apt-get install python3-matplotlib"
        ) from error
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    if below:
        return figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [1, below]})
    return figure.subplots()


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _document(report: Any, commands: Sequence[str], where: str) -> Mapping[str, Any]:
    """A report of one of the commands, as a mapping."""
    found = report
    if _is_path(report):
        with open(report, encoding="utf-8") as file:
            try:
                found = json.load(file)
            except ValueError as error:
                raise FormatError(f"{report}: is not a JSON document ({error}); write one with --json") from error
    elif isinstance(report, Stack):
        found = report.report
    wanted = " or ".join(f"'{command}'" for command in commands)
    if not isinstance(found, Mapping) or found.get("command") not in commands:
        what = f"one of '{found['command']}'" if isinstance(found, Mapping) and "command" in found else type(found).__name__
        raise ArgumentError(f"plot.{where}: takes a report of {wanted}; this is {what}")
    return found


def _key(document: Mapping[str, Any], key: str, where: str, hint: str) -> Any:
    if document.get(key) is None:
        raise ArgumentError(f"plot.{where}: the report has no '{key}'; {hint}")
    return document[key]


def _floats(values: Any) -> Floats:
    """Numbers of a document, null as NaN."""
    return np.array(values, dtype=np.float64)


# ---- reliability ---------------------------------------------------------------------------------


def reliability(
    p: Union[SupportsArray, Sequence[Sequence[float]], Document],
    y: Optional[Column] = None,
    bins: int = 15,
    *,
    classes: Optional[Sequence[str]] = None,
    title: str = "Reliability",
    ax: Optional["Axes"] = None,
    histogram_ax: Optional["Axes"] = None,
) -> "Axes":
    """Reliability diagram of the most probable class.

    p: probabilities (rows, classes), with labels y as for :func:`corestack.evaluate`; or a report of `evaluate`, which has
    15 bins. Bars are the accuracy of each bin, points lie at its mean confidence, and what is between a point's accuracy
    and the diagonal is the gap that the ECE is the mean of. The histogram, the share of the rows in each bin, is drawn below
    in a figure of its own; with a given `ax` it is drawn where `histogram_ax` says, if it is given too.
    """
    if isinstance(p, Mapping) or _is_path(p):
        if y is not None:
            raise ArgumentError("plot.reliability: a report holds no rows to set against y; leave y out")
        document = _document(p, ["evaluate"], "reliability")
        found = _key(document, "reliability", "reliability", "evaluations of one split of a classification have it")
        if bins not in (15, len(found)):
            raise ArgumentError(f"plot.reliability: the report has {len(found)} bins; for {bins} give probabilities and labels")
        error = float(document["ece"])
    else:
        assert not isinstance(p, (str, os.PathLike))
        if y is None:
            raise ArgumentError("plot.reliability: labels y are needed with probabilities")
        found = metrics.reliability(p, y, bins=bins, classes=classes)
        error = metrics.scores(p, y, bins=bins, classes=classes)["ece"]
    own = ax is None
    if ax is None:
        ax, histogram_ax = _new_axes(4.6, 5.8, below=0.25)
    _draw_reliability(ax, [b for b in found if b["count"]], error, title)
    if histogram_ax is not None:
        _draw_histogram(histogram_ax, found)
    if not own:  # otherwise it is the histogram's
        ax.set_xlabel("confidence")
    return ax


def _draw_histogram(ax: "Axes", bins: Sequence[Mapping[str, Any]]) -> None:
    left, right, count = (_floats([b[key] for b in bins]) for key in ("lower", "upper", "count"))
    ax.bar(left, count / count.sum(), right - left, align="edge", color=_GREY, edgecolor="white", linewidth=0.5)
    ax.set_xlabel("confidence")
    ax.set_ylabel("share of rows")
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_reliability(ax: "Axes", bins: Sequence[Mapping[str, Any]], error: float, title: str) -> None:
    left, right, confidence, accuracy = (
        _floats([b[key] for b in bins]) for key in ("lower", "upper", "confidence", "accuracy")
    )
    width = right - left
    ax.bar(left, accuracy, width, align="edge", color=_SKY, edgecolor="white", linewidth=0.5, label="accuracy")
    ax.bar(
        left, confidence - accuracy, width, bottom=accuracy, align="edge", facecolor="none", edgecolor=_RED,
        hatch="////", linewidth=0.7, label="gap to confidence",
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1, label="calibrated")
    ax.plot(
        confidence, accuracy, "o", color=_BLUE, markeredgecolor="white", markersize=5, label="mean of a bin", clip_on=False,
        zorder=3,
    )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_ylabel("accuracy")
    ax.set_title(f"{title}, ECE {error:.4f}" if title else "")
    _legend_above(ax, 2)


def _legend_above(ax: "Axes", columns: int) -> None:
    """Between the axes and the title, where it hides nothing."""
    rows = -(-len(ax.get_legend_handles_labels()[0]) // columns)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, fontsize="small", frameon=False, borderaxespad=0.2)
    ax.set_title(ax.get_title(), pad=10 + 15 * rows)


# ---- redundancy ----------------------------------------------------------------------------------


def cka(
    report: Document, *, measure: str = "cka", title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
    """Heat map of the similarity of every pair of members, from a report of `inspect`.

    measure: "cka" or "pearson". Members of a cluster stand side by side, inside an outline; larger clusters come first.
    """
    if measure not in ("cka", "pearson"):
        raise ArgumentError(f"plot.cka: measure is '{measure}'; it is 'cka' or 'pearson'")
    document = _document(report, ["inspect"], "cka")
    matrix = _floats(_key(document, measure, "cka", "inspect a pool of one prediction for each row"))
    names = list(document["models"])
    clusters = sorted(document.get("clusters") or [[name] for name in names], key=len, reverse=True)
    place = {name: k for k, name in enumerate(names)}
    order = [place[name] for cluster in clusters for name in cluster]
    count = len(order)
    small = 10 if count <= 12 else 8 if count <= 40 else 6
    letters = max(len(str(name)) for name in names) * 0.0085 * small  # inches, about
    side = min((0.34 if count <= 12 else 0.2) * count + letters + 1, 24)
    ax = _new_axes(side + 0.9, side) if ax is None else ax
    import matplotlib

    colors = matplotlib.colormaps["cividis"].with_extremes(bad="0.8")
    shown = matrix[np.ix_(order, order)]  # NaN, a pair that is not known, is grey
    known = shown[np.isfinite(shown)]
    lowest = float(np.floor(10 * known.min()) / 10) if known.size else 0.0
    image = ax.imshow(shown, cmap=colors, vmin=min(lowest, 0.9), vmax=1, interpolation="nearest")
    ax.set_xticks(range(count), [names[k] for k in order], rotation=90, fontsize=small)
    ax.set_yticks(range(count), [names[k] for k in order], fontsize=small)
    ax.tick_params(length=0 if count > 40 else 2)
    if count <= 12:
        _write_values(ax, shown, image)
    _outline(ax, [len(cluster) for cluster in clusters])
    what = "CKA" if measure == "cka" else "Pearson correlation"
    ax.figure.colorbar(image, ax=ax, shrink=0.8, label=what)
    threshold = document.get("cluster_threshold")
    joined = sum(len(cluster) > 1 for cluster in clusters)
    ax.set_title(_cluster_title(what, joined, threshold) if title is None else title)
    return ax


def _cluster_title(what: str, joined: int, threshold: Optional[float]) -> str:
    if threshold is None:
        return what
    clusters = "1 cluster" if joined == 1 else f"{joined or 'no'} clusters"
    return f"{what}, {clusters} at CKA above {threshold:g}"


def _write_values(ax: "Axes", shown: Floats, image: Any) -> None:
    for i, j in np.ndindex(shown.shape):
        value = shown[i, j]
        if i != j and np.isfinite(value):
            dark = image.norm(value) < 0.6
            text = f"{value:.2f}".lstrip("0")
            ax.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")


def _outline(ax: "Axes", sizes: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    start = 0
    for size in sizes:
        if size > 1:
            ax.add_patch(
                Rectangle((start - 0.5, start - 0.5), size, size, fill=False, edgecolor=_RED, linewidth=2, clip_on=False, zorder=3)
            )
        start += size


# ---- spectrum ------------------------------------------------------------------------------------


def spectrum(
    report: Document, *, output: Union[None, int, str] = None, title: str = "Spectrum", ax: Optional["Axes"] = None
) -> "Axes":
    """Eigenvalues of the meta-design, largest first, with the Marchenko-Pastur edge and the penalties.

    report: of `inspect`. output: number or name, where a regression has several. Penalties have the unit of the
    eigenvalues: directions well below one hardly count in a ridge fit with it.
    """
    document = _document(report, ["inspect"], "spectrum")
    if "outputs" in document:
        document = _one_output(document["outputs"], output)
    elif output is not None:
        raise ArgumentError("plot.spectrum: this report has one spectrum; leave output out")
    found = _key(document, "eigenvalues", "spectrum", "inspect has it for classifications and regressions")
    values = np.sort(_floats(found))[::-1]
    rank = np.arange(1, len(values) + 1)
    edge, positive = document.get("mp_edge"), values > 0
    ax = _new_axes(6.2, 4.2) if ax is None else ax
    above = positive & (values > edge) if edge is not None else positive
    ax.set_yscale("log")
    ax.plot(rank[above], values[above], "o", color=_BLUE, markersize=5, label=f"above the edge ({above.sum()})")
    rest = positive & ~above
    ax.plot(
        rank[rest], values[rest], "o", color=_BLUE, markerfacecolor="white", markersize=5,
        label=f"at or below it ({(~above).sum()})",
    )  # fmt: skip
    if edge is not None:
        ax.axhline(edge, color="black", linewidth=1.4, label=f"Marchenko-Pastur edge {edge:.3g}")
    styles = {"star": (_RED, "--"), "cv": (_GREEN, "-."), "gcv": (_PURPLE, ":"), "evidence": (_ORANGE, (0, (5, 1, 1, 1, 1, 1)))}
    for rule, value in (document.get("lambda") or {}).items():
        if value is not None and value > 0:
            color, dashes = styles.get(rule, (_GREY, ":"))
            ax.axhline(value, color=color, linestyle=dashes, linewidth=1.4, label=f"{'λ*' if rule == 'star' else f'λ {rule}'} {value:.3g}")
    ax.set_xlim(0.2, len(values) + 0.8)
    ax.set_xlabel("rank")
    ax.set_ylabel("eigenvalue of the Gram matrix")
    ax.set_title(title)
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, frameon=False)
    return ax


def _one_output(outputs: Sequence[Mapping[str, Any]], which: Union[None, int, str]) -> Mapping[str, Any]:
    names = [str(o.get("name")) for o in outputs]
    if isinstance(which, str) and which in names:
        return outputs[names.index(which)]
    if isinstance(which, int) and 0 <= which < len(outputs):
        return outputs[which]
    raise ArgumentError(f"plot.spectrum: output is {which!r}; it is one of {', '.join(names)}, or a number from 0")


# ---- comparison ----------------------------------------------------------------------------------


def accuracy_flops(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
    """Methods of a report of `compare` by a score and by FLOPs relative to running every member.

    metric: a score of the rows; top-1 by default, or what the task has in its place. Error bars are the report's
    intervals. The line joins the methods that no other one beats in both.
    """
    document = _document(report, ["compare"], "accuracy_flops")
    rows = [row for row in document["rows"] if row.get("flops_rel")]
    if not rows:
        raise ArgumentError("plot.accuracy_flops: the report has no FLOPs; give those of the members (flops=..., or the pool's)")
    of = metric
    if of is None:
        of = next((name for name in ("top1", "miou", "AP", "rmse") if name in rows[0]), "top1")
    rows = [row for row in rows if row.get(of) is not None]
    if not rows:
        raise ArgumentError(f"plot.accuracy_flops: no row has '{of}'")
    cost, score = _floats([row["flops_rel"] for row in rows]), _floats([row[of] for row in rows])
    ends = _floats([row.get(f"{of}_ci") or [row[of]] * 2 for row in rows])
    better = -score if of in _LOWER_IS_BETTER else score
    front = _front(cost, better)
    ax = _new_axes(7, max(4.2, 1 + 0.17 * len(rows))) if ax is None else ax
    ax.set_xscale("log")
    places = _points(ax, cost, score, ends, front)
    line = [k for k in np.argsort(cost, kind="stable") if front[k]]
    ax.step(
        cost[line], score[line], where="post", color=_RED, linewidth=1.6, zorder=2.5, label="best at its cost or less"
    )
    ax.set_xlabel("FLOPs relative to all members")
    ax.set_ylabel(_LABELS.get(of, of))
    ax.set_title("Score and cost" if title is None else title)
    ax.grid(True, color="0.92")
    ax.set_axisbelow(True)
    _name_beside(ax, [str(row["method"]) for row in rows], cost, score, ends, front, places)
    _legend_above(ax, 3)
    return ax


def _front(cost: Floats, better: Floats) -> Any:
    """Which points no other one is at least as good as in both and better in one."""
    return np.array(
        [not np.any((cost <= c) & (better >= b) & ((cost < c) | (better > b))) for c, b in zip(cost, better)]
    )


def _points(ax: "Axes", cost: Floats, score: Floats, ends: Floats, front: Any) -> list[Any]:
    """Points with intervals; those of one cost stand side by side, 2.5 points apart. Returns their coordinate systems."""
    from matplotlib.transforms import ScaledTranslation

    places = []
    first = {True: "on the front", False: "other methods"}
    for k in range(len(cost)):
        same = np.flatnonzero(np.isclose(np.log(cost), np.log(cost[k]), atol=0.02))
        aside = 2.5 * (int(np.flatnonzero(same == k)[0]) - (len(same) - 1) / 2)
        moved = ax.transData + ScaledTranslation(aside / 72, 0, ax.figure.dpi_scale_trans)
        best = bool(front[k])
        error = np.maximum([[score[k] - ends[k, 0]], [ends[k, 1] - score[k]]], 0)
        bars = ax.errorbar(
            cost[k : k + 1], score[k : k + 1], yerr=error, fmt="D" if best else "o", markersize=6 if best else 5,
            color=_RED if best else _BLUE, ecolor=_RED if best else _SKY, elinewidth=1, capsize=2,
            markeredgecolor="white", markeredgewidth=0.6, zorder=4 if best else 3, transform=moved,
            label=first.pop(best, None),
        )  # fmt: skip
        for part in bars[1] + bars[2]:
            part.set_zorder(2)
        places.append(moved)
    return places


def _name_beside(
    ax: "Axes", names: Sequence[str], cost: Floats, score: Floats, ends: Floats, front: Any, places: Sequence[Any]
) -> None:
    """Names in a column to the right, each at its point's height or as near to it as the others let it be."""
    low, high = min(float(ends.min()), float(score.min())), max(float(ends.max()), float(score.max()))
    room = 0.04 * (high - low) or 0.01
    low, high = low - room, high + room
    ax.set_ylim(low, high)
    order = np.argsort(score, kind="stable")
    tall = ax.get_window_extent().height / ax.figure.dpi * 72  # points
    size = float(np.clip(tall / len(names) / 1.25, 4, 8))
    step = 1.25 * size / tall * (high - low)
    wanted = score[order]
    heights = _spread(wanted, step, low + step / 2, high - step / 2)
    for k, height in zip(order, heights):
        color = _RED if front[k] else "black"
        ax.annotate(
            names[k], xy=(cost[k], score[k]), xycoords=places[k], xytext=(1.03, height),
            textcoords=ax.get_yaxis_transform(), fontsize=size, color=color, ha="left", va="center",
            fontweight="bold" if front[k] else "normal", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": _LIGHT, "linewidth": 0.7, "relpos": (0, 0.5), "shrinkB": 0, "zorder": 1},
        )  # fmt: skip


def _spread(wanted: Floats, step: float, low: float, high: float) -> Floats:
    """Ascending heights at least `step` apart where they fit, near the wanted ones, between low and high."""
    count = len(wanted)
    step = min(step, (high - low) / max(count - 1, 1))
    # Groups of names that touch move together, to the mean of what their members want.
    groups: list[tuple[float, list[float]]] = []
    for height in wanted:
        groups.append((float(height), [float(height)]))
        while True:
            middle, members = groups[-1]
            half = step * (len(members) - 1) / 2
            middle = min(max(middle, low + half), high - half)
            groups[-1] = (middle, members)
            if len(groups) < 2:
                break
            before, others = groups[-2]
            if middle - half - (before + step * (len(others) - 1) / 2) >= step - 1e-12:
                break
            both = others + members
            groups[-2:] = [(sum(both) / len(both), both)]
    out = [middle + step * (i - (len(members) - 1) / 2) for middle, members in groups for i in range(len(members))]
    return _floats(out)


# ---- weights -------------------------------------------------------------------------------------


def weights(
    stack: Union[Stack, Document], *, method: Optional[str] = None, title: str = "Weights", ax: Optional["Axes"] = None
) -> "Axes":
    """Bars of the members' weights, largest first.

    stack: a Stack, a report of `fit`, a model file; or a report of `compare` and the name of one of its methods.
    """
    found = _weights(stack, method)
    order = sorted(found, key=lambda name: -found[name])
    values = _floats([found[name] for name in order])
    count = len(order)
    ax = _new_axes(5.6, min(1.3 + 0.24 * count, 40)) if ax is None else ax
    small = 10 if count <= 40 else 7
    places = np.arange(count)
    positive = values >= 0
    ax.barh(places[positive], values[positive], color=_BLUE)
    if not positive.all():
        ax.barh(
            places[~positive], values[~positive], color="white", edgecolor=_RED, hatch="////", label="below 0"
        )
        ax.legend(loc="lower right", fontsize="small")
    ax.axvline(0, color="black", linewidth=0.8)
    for place, value in zip(places, values):
        ax.annotate(
            f"{value:.3g}", (value, place), (3 if value >= 0 else -3, 0), textcoords="offset points", va="center",
            ha="left" if value >= 0 else "right", fontsize=0.8 * small, color=_GREY,
        )  # fmt: skip
    ax.set_yticks(places, order, fontsize=small)
    ax.set_ylim(count - 0.4, -0.6)
    ax.margins(x=0.2)
    ax.set_xlabel("weight")
    ax.set_title(title)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _weights(stack: Union[Stack, Document], method: Optional[str]) -> dict[str, float]:
    if _is_path(stack):
        with open(stack, "rb") as file:  # type: ignore[arg-type]
            is_document = file.read(1) == b"{"
        if not is_document:
            stack = Stack.load(stack)  # type: ignore[arg-type]
    found: Any
    if isinstance(stack, Stack):
        if method is not None:
            raise ArgumentError("plot.weights: method is for reports of 'compare'; leave it out")
        found = stack.weights
    else:
        document = _document(stack, ["fit", "compare"], "weights")
        if document["command"] == "fit":
            found = document.get("weights")
        else:
            rows = {row["method"]: row for row in document["rows"]}
            if method not in rows:
                raise ArgumentError(f"plot.weights: method is {method!r}; it is one of {', '.join(rows)}")
            found = dict(zip(document["members"], rows[method].get("weights") or []))
    numbers = {str(name): float(value) for name, value in (found or {}).items() if value is not None}
    if not numbers:
        raise ArgumentError("plot.weights: there are none; a stack has them where its blend holds a log-linear or linear pool")
    return numbers
