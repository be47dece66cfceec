"""Plots of what the library found, with matplotlib: reliability, cka, spectrum, accuracy_flops,
front, weights, online, and the paper's figures: kappa, threshold, pool_size, ablation.

Each function draws into `ax`, or into a figure of its own, and returns the Axes, which a notebook shows as a picture:

>>> ax = corestack.plot.cka(corestack.inspect(preds, y), width="single")
>>> corestack.plot.save(ax, "cka.pdf"); print(corestack.plot.caption(ax))

A figure of its own is as wide as one or two columns of a paper: `width` is "single" (3.35 inches), "double" (6.9, the
default) or a number of inches. Text has 8 or 9 points in all of them, and crowded names 6 at least. `caption` explains every
mark. A method has the same colour and marker in all figures, which the colour-blind tell apart.

Reports may also be the documents that the command line prints with --json: as dicts, or as paths of files. Nothing is
shown and nothing of matplotlib is changed; matplotlib itself is imported when a function is called.

`python -m corestack.plot kappa pool.json -o kappa.svg` draws each of the paper's figures from a pool or from reports.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from .. import _arrays, metrics
from .._arrays import is_path
from .._drawing import (
    BLUE, GREEN, GREY, LABELS, LARGE, LOWER_IS_BETTER, ORANGE, PURPLE, RED, SKY, SMALL, Document, Width, caption_of, ends_of,
    finish, floats, front_of, grid, inches, key_of, letters, log_axis, meaning, own_or, points, read_bytes,
    read_document, save, scored, whole_numbers,
)  # fmt: skip
from .._errors import ArgumentError
from .._stack import Stack
from .._types import Column, Floats, Path, SupportsArray
from ._figures import ablation, kappa, online, pool_size, threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ablation", "accuracy_flops", "caption", "cka", "front", "kappa", "online", "pool_size", "reliability", "save", "spectrum",
    "threshold", "weights",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def caption(ax: "Axes") -> str:
    """What a figure shows, in sentences for the caption of a paper: every axis, mark, line and interval. ax: what a function returned."""
    return caption_of(ax)


# ---- reliability ---------------------------------------------------------------------------------


def reliability(
    p: Union[SupportsArray, Sequence[Sequence[float]], Document],
    y: Union[None, Column, Path] = None,
    bins: int = 15,
    *,
    classes: Optional[Sequence[str]] = None,
    title: str = "Reliability",
    ax: Optional["Axes"] = None,
    histogram_ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":
    """Reliability diagram of the most probable class.

    p: probabilities (rows, classes), with labels y (arrays or the paths of npy files) as for :func:`corestack.evaluate`; or a report of `evaluate`, which has
    15 bins. Bars are the accuracy of each bin, points lie at its mean confidence, and what is between a point's accuracy
    and the diagonal is the gap that the ECE is the mean of. The histogram, the share of the rows in each bin, is drawn below
    in a figure of its own; with a given `ax` it is drawn where `histogram_ax` says, if it is given too.
    """
    if is_path(p) and not str(p).endswith(".json"):
        if y is None:
            raise ArgumentError(f"plot.reliability: {p} holds probabilities, which need labels y; reports are .json")
        p = _arrays.loaded(p, "p")
    if isinstance(p, Mapping) or is_path(p):
        if y is not None:
            raise ArgumentError("plot.reliability: a report has no rows to compare with y; remove y")
        document = read_document(p, ["evaluate"], "reliability")
        found = key_of(document, "reliability", "reliability", "classification reports of evaluate on one split have it")
        if bins not in (15, len(found)):
            raise ArgumentError(f"plot.reliability: the report has {len(found)} bins; for {bins} give probabilities and labels")
        error = float(document["ece"])
    else:
        if y is None:
            raise ArgumentError("plot.reliability: probabilities need labels y")
        numbers: Any = p
        labels: Any = _arrays.loaded(y, "y")
        found = metrics.reliability(numbers, labels, bins=bins, classes=classes)
        error = metrics.scores(numbers, labels, bins=bins, classes=classes)["ece"]
    own = ax is None
    drawn = own_or(ax, width, 0.6, 1.6, nrows=2, sharex=True, gridspec_kw={"height_ratios": [1, 0.25]})
    ax, histogram_ax = drawn if own else (drawn, histogram_ax)
    _draw_reliability(ax, [b for b in found if b["count"]])
    if histogram_ax is not None:
        _draw_histogram(histogram_ax, found)
    if not own:  # otherwise it is the histogram's
        ax.set_xlabel("confidence")
    below = " Below: the share of the rows in each bin, from 0." if histogram_ax is not None else ""
    return finish(
        ax, f"{title}, ECE {error:.4f}" if title else "",
        "Reliability of the most probable class. Rows are put into bins by their confidence, the probability of that class. Bars "
        "are the share of right answers in each bin, from 0; points lie at its mean confidence; hatched is the gap to the mean "
        "confidence. On the dashed diagonal confidence equals accuracy; below it the model is overconfident. ECE "
        f"({error:.4f}) is the mean of the gaps, weighted by rows.{below}",
    )  # fmt: skip


def _draw_histogram(ax: "Axes", bins: Sequence[Mapping[str, Any]]) -> None:
    left, right, count = (floats([b[key] for b in bins]) for key in ("lower", "upper", "count"))
    ax.bar(left, count / count.sum(), right - left, align="edge", color=GREY, edgecolor="white", linewidth=0.5)
    ax.set(xlabel="confidence", ylabel="share of rows")
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_reliability(ax: "Axes", bins: Sequence[Mapping[str, Any]]) -> None:
    left, right, confidence, accuracy = (
        floats([b[key] for b in bins]) for key in ("lower", "upper", "confidence", "accuracy")
    )
    width = right - left
    ax.bar(left, accuracy, width, align="edge", color=SKY, edgecolor="white", linewidth=0.5, label="accuracy")
    ax.bar(
        left, confidence - accuracy, width, bottom=accuracy, align="edge", facecolor="none", edgecolor=RED,
        hatch="////", linewidth=0.7, label="gap to confidence",
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    ax.plot(
        confidence, accuracy, "o", color=BLUE, markeredgecolor="white", markersize=5, label="mean of a bin", clip_on=False,
        zorder=3,
    )  # fmt: skip
    ax.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")


# ---- redundancy ----------------------------------------------------------------------------------


def cka(
    report: Document, *, measure: str = "cka", title: Optional[str] = None, ax: Optional["Axes"] = None, width: Width = None
) -> "Axes":
    """Heat map of the similarity of every pair of members, from a report of `inspect`.

    measure: "cka" or "pearson". Members of a cluster stand side by side, inside an outline; larger clusters come first. Names
    that would need letters below 6 points are left out.
    """
    if measure not in ("cka", "pearson"):
        raise ArgumentError(f"plot.cka: measure is '{measure}'; it must be 'cka' or 'pearson'")
    document = read_document(report, ["inspect"], "cka")
    matrix = floats(key_of(document, measure, "cka", "inspect a pool of one prediction for each row"))
    names = list(key_of(document, "models", "cka", "inspect writes it"))
    clusters = sorted(document.get("clusters") or [[name] for name in names], key=len, reverse=True)
    place = {name: k for k, name in enumerate(names)}
    order = [place[name] for cluster in clusters for name in cluster]
    longest = max(len(str(name)) for name in names)
    across = inches(width) - 0.3 if ax is None else ax.bbox.width / ax.figure.dpi  # of the map and one column of names
    beside = across > 4
    across -= 0.8 * beside
    size = min(SMALL, 72 * across / (1.15 * len(order) + 0.6 * longest))  # of letters, as high as a cell at most
    named = size >= 6
    ax = own_or(ax, width, 0.82 if beside else 1, 0.4 if beside else 0.8)
    import matplotlib

    colors = matplotlib.colormaps["cividis"].with_extremes(bad="0.8")
    shown = matrix[np.ix_(order, order)]  # NaN, a pair that is not known, is grey
    known = shown[np.isfinite(shown)]
    lowest = float(np.floor(10 * known.min()) / 10) if known.size else 0.0
    image = ax.imshow(shown, cmap=colors, vmin=min(lowest, 0.9), vmax=1, interpolation="nearest")
    if named:
        ax.set_xticks(range(len(order)), [names[k] for k in order], rotation=90, fontsize=size)
        ax.set_yticks(range(len(order)), [names[k] for k in order], fontsize=size)
    else:
        ax.set(xlabel=f"{len(order)} members, clusters together", xticks=[], yticks=[])
    ax.tick_params(length=0 if len(order) > 40 else 2)
    if 72 * (across - 0.0085 * size * longest) / len(order) > 15:  # points of a cell
        _write_values(ax, shown, image)
    _outline(ax, [len(cluster) for cluster in clusters])
    what = "CKA" if measure == "cka" else "Pearson correlation"
    letters(ax.figure.colorbar(image, ax=ax, shrink=0.8, location="right" if beside else "bottom", label=what).ax)
    threshold = document.get("cluster_threshold")
    joined = sum(len(cluster) > 1 for cluster in clusters)
    return finish(
        ax, _cluster_title(what, joined, threshold) if title is None else title,
        f"{what} of the predictions of every pair of {len(order)} members: 1 is the same up to scale, and darker is less similar; grey is "
        "not known. Members of a cluster stand together, larger clusters first, with an outline around each of more than one member."
        + (f" Members are in one cluster where their CKA is above {threshold:g}." if threshold is not None else ""),
    )  # fmt: skip


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
            ax.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if dark else "black")


def _outline(ax: "Axes", sizes: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    start = 0
    for size in sizes:
        if size > 1:
            ax.add_patch(
                Rectangle((start - 0.5, start - 0.5), size, size, fill=False, edgecolor=RED, linewidth=2, clip_on=False, zorder=3)
            )
        start += size


# ---- spectrum ------------------------------------------------------------------------------------


def spectrum(
    report: Document, *, output: Union[None, int, str] = None, title: str = "Spectrum", ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Eigenvalues of the meta-design, largest first, with the Marchenko-Pastur edge and the penalties.

    report: of `inspect`. output: number or name, where a regression has several. Penalties have the unit of the
    eigenvalues: directions well below one hardly count in a ridge fit with it.
    """
    document = read_document(report, ["inspect"], "spectrum")
    if "outputs" in document:
        document = _one_output(document["outputs"], output)
    elif output is not None:
        raise ArgumentError("plot.spectrum: this report has a single spectrum; remove output")
    found = key_of(document, "eigenvalues", "spectrum", "inspect has it for classifications and regressions")
    values = np.sort(floats(found))[::-1]
    rank = np.arange(1, len(values) + 1)
    edge, positive = document.get("mp_edge"), values > 0
    ax = own_or(ax, width)
    above = positive & (values > edge) if edge is not None else positive
    ax.plot(rank[above], values[above], "o", color=BLUE, markersize=5, label=f"above the edge ({above.sum()})")
    rest = positive & ~above
    ax.plot(
        rank[rest], values[rest], "o", color=BLUE, markerfacecolor="white", markersize=5,
        label=f"at or below it ({(~above).sum()})",
    )  # fmt: skip
    if edge is not None:
        ax.axhline(edge, color="black", linewidth=1.4, label=f"Marchenko-Pastur edge {edge:.3g}")
    styles = {"star": (RED, "--"), "cv": (GREEN, "-."), "gcv": (PURPLE, ":"), "evidence": (ORANGE, (0, (5, 1, 1, 1, 1, 1)))}
    for rule, value in (document.get("lambda") or {}).items():
        if value is not None and value > 0:
            color, dashes = styles.get(rule, (GREY, ":"))
            ax.axhline(value, color=color, linestyle=dashes, linewidth=1.4, label=f"{'λ*' if rule == 'star' else f'λ {rule}'} {value:.3g}")
    ax.set(xlim=(0.2, len(values) + 0.8), xlabel="rank", ylabel="eigenvalue, log scale", yscale="log")
    whole_numbers(ax.xaxis)
    return finish(
        ax, title,
        f"Eigenvalues of the Gram matrix of the members' predictions, largest first. Filled points ({above.sum()}) are above the "
        "Marchenko-Pastur edge, the largest that pure noise would have; open points are not. Horizontal lines are that edge and "
        "the ridge penalties λ by rule: directions far below a penalty hardly count in a fit with it. The vertical axis is logarithmic.",
    )  # fmt: skip


def _one_output(outputs: Sequence[Mapping[str, Any]], which: Union[None, int, str]) -> Mapping[str, Any]:
    names = [str(o.get("name")) for o in outputs]
    if isinstance(which, str) and which in names:
        return outputs[names.index(which)]
    if isinstance(which, (int, np.integer)) and 0 <= which < len(outputs):
        return outputs[which]
    raise ArgumentError(f"plot.spectrum: output is {which!r}; it must be one of {', '.join(names)}, or a number from 0")


# ---- comparison ----------------------------------------------------------------------------------


def accuracy_flops(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Methods of a report of `compare`, or stages of one of `ablate`, by a score and by FLOPs relative to running every member.

    metric: a score of the rows; top-1 by default, or what the task has in its place. Error bars are the report's
    intervals, or with repetitions the standard errors. The line joins the methods that no other one beats in both. At most
    eight have colours and names: those on the line, `default`, `average`, `best-single` and `paper`, then by score.
    """
    document = read_document(report, ["compare", "ablate"], "accuracy_flops")
    rows = [row for row in key_of(document, "rows", "accuracy_flops", "compare writes it") if row.get("flops_rel")]
    if not rows:
        raise ArgumentError("plot.accuracy_flops: the report has no FLOPs; give the FLOPs of the members (flops=..., or in the pool)")
    of, rows = scored(rows, metric, "accuracy_flops")
    names = [str(row.get("method", row.get("stage"))) for row in rows]
    cost, score = floats([row["flops_rel"] for row in rows]), floats([row[of] for row in rows])
    better = -score if of in LOWER_IS_BETTER else score
    front = front_of(cost, better)
    ax = own_or(ax, width, more=1.6)
    ax.set_xscale("log")
    line = [k for k in np.argsort(cost, kind="stable") if front[k]]
    ax.step(cost[line], score[line], where="post", color=GREY, linewidth=1.2, zorder=2.5, label="best at its cost or less")
    first = sorted(range(len(rows)), key=lambda k: (
        not front[k], not front[k] and names[k] not in ("default", "average", "best-single", "paper"), -better[k]
    ))  # fmt: skip
    others = points(ax, names, cost, score, ends_of(rows, of), first, "other methods")
    log_axis(ax.xaxis, "FLOPs relative to all members")
    ax.set_ylabel(LABELS.get(of, of))
    grid(ax)
    return finish(
        ax, "Score and cost" if title is None else title,
        f"Score and cost of {len(rows)} methods. Vertical: {meaning(document, rows, of)} Horizontal: FLOPs of the members that a method "
        "runs, as a share of those of all members; this axis is logarithmic. The line joins the methods that no other one beats in both. At most "
        f"eight have colours: those on the line first.{others}",
    )  # fmt: skip


_COSTS = {"flops": "FLOPs", "latency_ms": "latency (ms)", "params": "parameters"}


def front(
    report: Union[Stack, Document], *, cost: Optional[str] = None, title: str = "Loss and cost", ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Held-out loss that sets of members reach at their cost, with the kept set and the budget.

    report: of `fit`, or a Stack. cost: "flops", "latency_ms" or "params"; by default the first that is limited, or known.
    The line joins the sets that no cheaper one beats.
    """
    document = read_document(report.report if isinstance(report, Stack) else report, ["fit"], "front")
    if cost is not None and cost not in _COSTS:
        raise ArgumentError(f"plot.front: cost is {cost!r}; it must be one of {', '.join(_COSTS)}")
    found = key_of(document, "front", "front", "fit writes it")
    budget = document.get("budget") or {}
    left_out = {left["cost"]: left["because"] for left in found["left_out"]}
    known = [key for key in _COSTS if key not in left_out]
    if cost is None:
        limited = [key for key in known if (budget.get(key) or {}).get("allowed") is not None]
        cost = next(iter(limited + known), "flops")
    if cost in left_out or not found["points"]:
        raise ArgumentError(f"plot.front: the report has no front of {cost}: {left_out.get(cost, 'no sets were compared')}")
    points_ = sorted((p for p in found["points"] if cost in p["best_for"]), key=lambda p: float(p[cost]))
    x, y = floats([p[cost] for p in points_]), floats([p["loss"] for p in points_])
    ax = own_or(ax, width)
    ax.step(x, y, where="post", color=GREY, linewidth=1.2)
    ax.plot(x, y, "o", color=BLUE, markersize=5, label="best at its cost or less")
    kept = [p for p in found["points"] if p["kept"]]
    if kept:
        ax.plot([kept[0][cost]], [kept[0]["loss"]], "*", color=ORANGE, markersize=11, label="kept", zorder=3)
    allowed = (budget.get(cost) or {}).get("allowed")
    if allowed is not None:
        ax.axvline(allowed, color="black", linewidth=1.2, linestyle="--", label="budget")
    ax.set(xlabel=_COSTS[cost], ylabel="held-out loss (numbers: members)")
    if (x > 0).all():
        ax.set_xscale("log")
        log_axis(ax.xaxis, _COSTS[cost])
    ax.margins(0.1)
    grid(ax)
    finish(
        ax, title,
        f"Mean loss on held-out rows of sets of members, against {_COSTS[cost]} of one prediction; lower is better in both. The line joins the sets that no "
        "cheaper one beats, and the number beside a point is how many members it has, where there is room. The star is the set that the stack kept"
        + (", the dashed line the most that was allowed." if allowed is not None else "."),
    )  # fmt: skip
    _number(ax, x, y, [p["size"] for p in points_])
    return ax


def _number(ax: "Axes", x: Floats, y: Floats, sizes: Sequence[int]) -> None:
    """Sizes beside the points, from the cheapest, but those that would touch another one."""
    ax.figure.canvas.figure.draw_without_rendering()  # of the whole figure: places are known then
    taken = floats([[-99, -99]])
    for place, size in zip(ax.transData.transform(np.column_stack([x, y])) * 72 / ax.figure.dpi, sizes):
        if (np.abs(taken - place) > (14, 10)).any(axis=1).all():
            ax.annotate(str(size), ax.transData.inverted().transform(place * ax.figure.dpi / 72), (5, 3), textcoords="offset points", fontsize=7, color=GREY)
            taken = np.vstack([taken, place])


# ---- weights -------------------------------------------------------------------------------------


def weights(
    stack: Union[Stack, Document], *, method: Optional[str] = None, title: str = "Weights", ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Bars of the members' weights, largest first.

    stack: a Stack, a report of `fit`, a model file; or a report of `compare` and the name of one of its methods.
    """
    found = _weights(stack, method)
    order = sorted(found, key=lambda name: -found[name])
    values = floats([found[name] for name in order])
    count = len(order)
    small = SMALL if count <= 40 else 6.5
    ax = own_or(ax, width, 0, min(1.0 + 0.018 * small * count, 40))
    places = np.arange(count)
    positive = values >= 0
    ax.barh(places[positive], values[positive], color=BLUE)
    if not positive.all():
        ax.barh(places[~positive], values[~positive], color="white", edgecolor=RED, hatch="////", label="below 0")
    ax.axvline(0, color="black", linewidth=0.8)
    for place, value in zip(places, values):
        ax.annotate(
            f"{value:.3g}", (value, place), (3 if value >= 0 else -3, 0), textcoords="offset points", va="center",
            ha="left" if value >= 0 else "right", fontsize=max(6, 0.8 * small), color=GREY,
        )  # fmt: skip
    ax.set_yticks(places, order, fontsize=small)
    ax.set_ylim(count - 0.4, -0.6)
    written = 28 / max(ax.figure.get_figwidth() * 72 - 0.6 * small * max(map(len, order)), 84)  # share of the width beside a bar
    ax.margins(x=written / (1 - 2 * written))
    ax.set_xlabel("weight")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return finish(
        ax, title,
        f"Weights of the {count} members that are used, largest first. Bars start at 0 and have their weights beside them"
        + (". Hatched bars are below 0: such a member corrects others." if not positive.all() else "."),
    )  # fmt: skip


def _weights(stack: Union[Stack, Document], method: Optional[str]) -> dict[str, float]:
    if is_path(stack):
        if read_bytes(stack, 1) != b"{":
            stack = Stack.load(stack)  # type: ignore[arg-type]
    found: Any
    if isinstance(stack, Stack):
        if method is not None:
            raise ArgumentError("plot.weights: method is for reports of 'compare'; remove it")
        found = stack.weights
    else:
        document = read_document(stack, ["fit", "compare"], "weights")
        if document["command"] == "fit":
            found = document.get("weights")
        else:
            rows = {row["method"]: row for row in key_of(document, "rows", "weights", "compare writes it")}
            if method not in rows:
                raise ArgumentError(f"plot.weights: method is {method!r}; it must be one of {', '.join(rows)}")
            found = dict(zip(key_of(document, "members", "weights", "compare writes it"), rows[method].get("weights") or []))
    numbers = {str(name): float(value) for name, value in (found or {}).items() if value is not None}
    if not numbers:
        raise ArgumentError("plot.weights: the stack has no weights; only log-linear and linear pools have them")
    return numbers
