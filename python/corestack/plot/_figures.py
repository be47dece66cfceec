"""The paper's figures, from reports of compare, ablate and sweep."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from .._drawing import (
    BLUE, GREY, LABELS, LOWER_IS_BETTER, ORANGE, RED, Document, Width, ends_of, errors, finish, floats, grid, key_of, log_axis,
    meaning, own_or, points, read_document, scored, style_of, whole_numbers,
)  # fmt: skip
from .._errors import ArgumentError
from .._types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]

_MATRICES = {"cka": "CKA matrix", "gram": "Gram matrix"}

_OURS = ("default", "compact", "best")
_DRAWS = 10000  # permutations behind a p-value


# ---- condition number ----------------------------------------------------------------------------


def kappa(
    *reports: Document, matrix: str = "cka", metric: Optional[str] = None, title: Optional[str] = None,
    ax: Optional["Axes"] = None, width: Width = None,
) -> "Axes":  # fmt: skip
    """Condition number of the members used against accuracy: baselines, ablation steps and CoRe-Stack+, with Spearman's rho.

    reports: of `compare`, of `ablate`, or one of each. matrix: "cka" (the paper's figure) or "gram" (its text). rho and its
    p-value, by permutations, are over all points that are drawn. Methods without members of their own are left out. At most
    eight methods have colours and names beside the steps: CoRe-Stack+, ours, `average`, `best-single`, then baselines by score.
    """
    if matrix not in _MATRICES:
        raise ArgumentError(f"plot.kappa: matrix is {matrix!r}; it must be 'cka' or 'gram'")
    grouped = _kappa_points(reports)
    key = f"kappa_{matrix}"
    of, rows = scored([row for _, row in grouped if isinstance(row.get(key), (int, float))], metric, "kappa")
    groups = [next(group for group, other in grouped if other is row) for row in rows]
    x, y = floats([row[key] for row in rows]), floats([row[of] for row in rows])
    ends = ends_of(rows, of)
    ax = own_or(ax, width, more=1.6)
    ax.set_xscale("log")
    names = ["paper" if group == "CoRe-Stack+" else _name(row) for group, row in zip(groups, rows)]  # CoRe-Stack+ is that preset
    line = [k for k, group in enumerate(groups) if group in ("ablation steps", "CoRe-Stack+") and "stage" in rows[k]]
    steps = [k for k in line if groups[k] == "ablation steps"]
    if steps:
        ax.plot(x[line], y[line], "-", color=ORANGE, linewidth=1, zorder=2)
        ax.errorbar(x[steps], y[steps], yerr=errors(y, ends)[:, steps], linestyle="none", ecolor=ORANGE, elinewidth=0.8, capsize=1.5,
                    label="ablation steps", zorder=3, **style_of("prototype"))  # fmt: skip
    rank, sign = ("CoRe-Stack+", "ablation steps", "ours, not in the paper", "baselines"), 1 if of in LOWER_IS_BETTER else -1
    order = sorted(
        (k for k in range(len(rows)) if k not in steps),
        key=lambda k: (rank.index(groups[k]), names[k] not in ("average", "best-single"), groups[k] == "baselines" and sign * y[k]),
    )
    others = points(ax, names, x, y, ends, order, "other baselines")
    log_axis(ax.xaxis, f"condition number, {_MATRICES[matrix]}")
    ax.set_ylabel(LABELS.get(of, of))
    grid(ax)
    document = read_document(reports[0], ["compare", "ablate"], "kappa")
    return finish(
        ax, ("Condition number and accuracy" if title is None else title) + _correlation(x, y),
        f"{len(rows)} methods. Vertical: {meaning(document, rows, of)} Horizontal: condition number of the {_MATRICES[matrix]} of the members that a "
        "method uses (1: independent members; larger: more redundant); this axis is logarithmic."
        + (" The line joins the steps of the ablation in order, up to CoRe-Stack+ (paper)." if steps else "")
        + f" At most eight methods have colours beside the steps.{others} Spearman's rho is over all points, its p-value from {_DRAWS} random permutations.",
    )  # fmt: skip


def _correlation(x: Floats, y: Floats) -> str:
    """A line for the title; none for fewer than three points, or where one of the two does not vary."""
    rho, p = _spearman(x, y)
    if len(x) < 3 or not np.isfinite(rho):
        return ""
    return f"\nSpearman's rho {rho:+.2f} (p {f'= {p:.2g}' if p > 0.001 else '< 0.001'}, n = {len(x)})"


def _kappa_points(reports: Sequence[Document]) -> list[tuple[str, Row]]:
    """(group, row); a method that is also a stage counts once."""
    documents = [read_document(report, ["compare", "ablate"], "kappa") for report in reports]
    commands = [document["command"] for document in documents]
    if not commands or len(set(commands)) < len(commands):
        raise ArgumentError("plot.kappa: needs a report of 'compare', one of 'ablate', or one of each")
    points: list[tuple[str, Row]] = []
    for document in sorted(documents, key=lambda d: str(d["command"]), reverse=True):  # compare first
        rows = key_of(document, "rows", "kappa", "compare and ablate write it")
        if rows and "kappa_gram" not in rows[0]:
            raise ArgumentError("plot.kappa: the rows have no 'kappa_gram'; write the report with this version of corestack")
        if document["command"] == "compare":
            staged = "ablate" in commands
            points += [(_group_of(row["method"]), row) for row in rows if not staged or row["method"] not in ("prototype", "paper")]
            continue
        for row in rows:
            if not row.get("in_paper", True):
                points.append(("ours, not in the paper", row))
            else:
                last = row is [other for other in rows if other.get("in_paper", True)][-1]
                points.append(("CoRe-Stack+" if last else "ablation steps", row))
    return points


def _group_of(method: str) -> str:
    base = method.split("+", maxsplit=1)[0]
    if method == "paper":
        return "CoRe-Stack+"
    return "ablation steps" if method == "prototype" else "ours, not in the paper" if base in _OURS else "baselines"


def _ranks(values: Floats) -> Floats:
    """From 1, ties by their mean."""
    return floats([(np.sum(values < v) + np.sum(values <= v) + 1) / 2 for v in values])


def _spearman(x: Floats, y: Floats) -> tuple[float, float]:
    """Rank correlation and its two-sided p-value by random permutations, the same ones every time."""
    a, b = (r - r.mean() for r in (_ranks(x), _ranks(y)))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    if not norm:
        return float("nan"), float("nan")
    rho = float(a @ b) / norm
    random = np.random.default_rng(0)
    drawn = np.array([a @ random.permutation(b) for _ in range(_DRAWS)]) / norm
    return rho, float(np.sum(np.abs(drawn) >= abs(rho) - 1e-12) + 1) / (_DRAWS + 1)


# ---- sweeps --------------------------------------------------------------------------------------


def threshold(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Accuracy, with intervals where there are some, and number of kept members against the CKA threshold.

    report: of `sweep --over cka.threshold=...`. Kept members are below; in the caller's `ax` on an axis to the right.
    """
    document = _swept(report, "cka.threshold", "threshold")
    of, rows = scored(key_of(document, "rows", "threshold", "sweep writes it"), metric, "threshold")
    said = f"Members whose CKA is above the threshold count as redundant. {meaning(document, rows, of)}"
    return _pair(rows, of, "", "CKA threshold", "CKA threshold" if title is None else title, ax, width, said)


def pool_size(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Accuracy and number of kept members against the size of the pool, means over random subsets with standard deviations.

    report: of `sweep --over pool.size=...`. Kept members are as in :func:`threshold`. The dotted line is half of the members, which the paper says are kept.
    """
    document = _swept(report, "pool.size", "pool_size")
    summary = key_of(document, "summary", "pool_size", "sweep over pool.size writes it")
    of, rows = scored(summary, metric, "pool_size", "_mean")
    said = f"Mean over random subsets of each size of {meaning(document, [], of)} Error bars: one standard deviation over the subsets to each side."
    return _pair(rows, of, "_mean", "members in the pool", "Size of the pool" if title is None else title, ax, width, said)


def _swept(report: Document, key: str, where: str) -> Mapping[str, Any]:
    document = read_document(report, ["sweep"], where)
    if document.get("key") != key:
        raise ArgumentError(f"plot.{where}: needs a sweep over {key}; this one is over {document.get('key')}")
    return document


def _by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: float(row["value"])):
        found.setdefault(str(row["method"]), []).append(row)
    return {method: found[method] for method in dict.fromkeys(str(row["method"]) for row in rows)}


def _pair(
    rows: Sequence[Row], of: str, end: str, xlabel: str, title: str, ax: Optional["Axes"], width: Width, said: str
) -> "Axes":
    """A line for each method, and its members in a panel below, or to the right. end: of the keys of means over subsets, with deviations."""
    own = ax is None
    drawn = own_or(ax, width, 0.55, 1.5, nrows=2, sharex=True, gridspec_kw={"height_ratios": [1, 0.5]})
    ax, other = drawn if own else (drawn, drawn.twinx())
    for method, its in _by_method(rows).items():
        x, y = floats([row["value"] for row in its]), floats([row[of + end] for row in its])
        spread = np.nan_to_num(floats([row.get(f"{of}_sd") for row in its])) if end else np.zeros(0)
        bars = np.vstack([spread, spread]) if end else errors(y, ends_of(its, of))
        style = style_of(method)
        ax.errorbar(x, y, yerr=bars, linestyle="-", linewidth=1.3, elinewidth=0.8, capsize=2, label=method, zorder=3, **style)
        other.plot(x, floats([row["models" + end] for row in its]), linestyle="--", linewidth=1,
                   label=f"{'_' * own}{method}: members kept", **style)  # fmt: skip
    if end:
        sizes = floats(sorted({float(row["value"]) for row in rows}))
        other.plot(sizes, sizes / 2, ":", color=GREY, linewidth=1, label="half of the members")
        whole_numbers(ax.xaxis)
    (other if own else ax).set_xlabel(xlabel)
    ax.set_ylabel(LABELS.get(of, of))
    other.set_ylabel("members kept")
    other.set_ylim(bottom=0)
    whole_numbers(other.yaxis, 4)
    grid(ax)
    half = " The dotted line is half of the pool." if end else ""
    return finish(ax, title, f"{said} Dashed lines: members that each method keeps, on an axis from 0.{half}", other)


# ---- streams -------------------------------------------------------------------------------------


def online(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """The adapter's regret over the rows of a stream: its sum of losses less that of the stack, the average, and the best member.

    report: of `corestack online`. Below 0 the adapter is better. The dotted line is the best of them in each block.
    """
    if metric not in (None, "nll"):
        raise ArgumentError(f"online: metric is '{metric}'; the report has the losses of nll alone")
    document = read_document(report, ("online",), "online")
    series = key_of(document, "series", "online", "corestack online writes it")
    rows, adapter = floats(series["rows"]), floats(series["adapter"])
    if not len(rows):
        raise ArgumentError("online: no label was learned, so there is no regret to draw")
    ax = own_or(ax, width)
    best = document.get("best_member")
    lines = {"stack": "stack", "average": "average", "best_member": f"best member ({best})", "switching": "best in each block"}
    methods = {"stack": "default", "average": "average", "best_member": "best-single"}
    for key, label in lines.items():
        regret = adapter - floats(series[key])
        style = {"color": GREY, "linestyle": ":"} if key == "switching" else {"color": style_of(methods[key])["color"]}
        ax.plot(np.append(0, rows), np.append(0, regret), linewidth=1.6, label=label, zorder=3, **style)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="rows of the stream", ylabel="regret of the adapter (nats)")
    grid(ax)
    return finish(
        ax, "Regret on the stream" if title is None else title,
        "Regret of the adapter over the rows of a stream: the sum of its losses so far (negative log-likelihood in nats) less that of the "
        "stack, of the average of the members, of the member that is best over the whole stream, and (dotted) of the best of them in each "
        "block of rows. Below 0 the adapter is better.",
    )  # fmt: skip


# ---- ablation ------------------------------------------------------------------------------------


def ablation(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None,
    width: Width = None,
) -> "Axes":  # fmt: skip
    """Accuracy and, where there is one, ECE of each stage, with intervals; under its name its members and both condition numbers.

    report: of `ablate`. Stages that are not in the paper have white markers. ECE is in a panel beside; in the caller's `ax` on an
    axis above.
    """
    document = read_document(report, ["ablate"], "ablation")
    of, rows = scored(key_of(document, "rows", "ablation", "ablate writes it"), metric, "ablation")
    second = of != "ece" and all(isinstance(row.get("ece"), (int, float)) for row in rows)
    shown = [of, "ece"] if second else [of]
    panels = list(np.ravel(own_or(ax, width, 0, 1 + 0.3 * len(rows), ncols=len(shown), sharey=True)))
    if ax is not None and second:
        panels.append(ax.twiny())
    ax = panels[0]
    for axes, score, color, marker in zip(panels, shown, (BLUE, RED), "oD"):
        _stage_line(axes, rows, score, color, marker)
        axes.set_xlabel(LABELS.get(score, score).replace(" (", "\n("))
        axes.locator_params(axis="x", nbins=3)
        grid(axes)
    ax.set_yticks(range(len(rows)), [_stage_label(row) for row in rows], fontsize=7)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    return finish(
        ax, "Ablation" if title is None else title,
        f"Each stage adds to the one above it. {meaning(document, rows, of)}{' ECE: lower is better.' if second else ''} Axes do not start at 0. "
        "Under a name: K, the members used, and κ, the condition numbers of the out-of-fold Gram matrix and of the CKA matrix. "
        "White markers: stages that are not in the paper.",
    )  # fmt: skip


def _stage_line(ax: "Axes", rows: Sequence[Row], of: str, color: str, marker: str) -> None:
    x, places = floats([row[of] for row in rows]), np.arange(len(rows), dtype=np.float64)
    ax.errorbar(x, places, xerr=errors(x, ends_of(rows, of)), fmt="none", ecolor=color, elinewidth=0.8, capsize=2, zorder=2)
    own = np.array([bool(row.get("in_paper", True)) for row in rows])
    ax.plot(x[own], places[own], "-" + marker, color=color, markersize=5, linewidth=1.2, zorder=3)
    ax.plot(x[~own], places[~own], marker, color=color, markerfacecolor="white", markersize=5, zorder=3)


def _stage_label(row: Row) -> str:
    """The stage; members; condition numbers of the Gram and the CKA matrix."""
    conditions = [f"{row[key]:.3g}" for key in ("kappa_gram", "kappa_cka") if isinstance(row.get(key), (int, float))]
    kept = f"\nK {row['models']}" if row.get("models") is not None else ""
    return str(row["stage"]) + kept + (f"{' ' if kept else chr(10)}κ {' / '.join(conditions)}" if conditions else "")


# ---- shared --------------------------------------------------------------------------------------


def _name(row: Row) -> str:
    return str(row.get("method", row.get("stage")))
