"""The paper's figures, from reports of compare, ablate and sweep."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from .._drawing import (
    BLUE, GREEN, GREY, LABELS, LIGHT, ORANGE, PURPLE, RED, SKY, Document, ends_of, floats, grid, key_of, legend_above,
    name_beside, new_axes, read_document, scored, whole_numbers,
)  # fmt: skip
from .._errors import ArgumentError
from .._types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]

_COLORS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
_MARKERS = "osD^vP"
_MATRICES = {"cka": "CKA matrix", "gram": "out-of-fold Gram matrix"}

# The groups of the figure on the condition number: label, marker, colour, size.
_GROUPS = {
    "baselines": ("o", BLUE, 5.0),
    "ablation steps": ("^", ORANGE, 7.0),
    "ours, not in the paper": ("s", GREEN, 5.5),
    "CoRe-Stack+": ("*", RED, 13.0),
}
_OURS = ("default", "compact", "best")
_DRAWS = 10000  # permutations behind a p-value


# ---- condition number ----------------------------------------------------------------------------


def kappa(
    *reports: Document, matrix: str = "cka", metric: Optional[str] = None, title: Optional[str] = None,
    ax: Optional["Axes"] = None,
) -> "Axes":  # fmt: skip
    """Condition number of the members used against accuracy: baselines, ablation steps and CoRe-Stack+, with Spearman's rho.

    reports: of `compare`, of `ablate`, or one of each. matrix: "cka" (the paper's figure) or "gram" (its text). rho and its
    p-value, by permutations, are over all points that are drawn. Methods without members of their own are left out.
    """
    if matrix not in _MATRICES:
        raise ArgumentError(f"plot.kappa: matrix is {matrix!r}; it must be 'cka' or 'gram'")
    points = _kappa_points(reports)
    key = f"kappa_{matrix}"
    of, rows = scored([row for _, row in points if isinstance(row.get(key), (int, float))], metric, "kappa")
    groups = [next(group for group, other in points if other is row) for row in rows]
    x, y = floats([row[key] for row in rows]), floats([row[of] for row in rows])
    ends = ends_of(rows, of)
    ax = new_axes(7.4, max(4.4, 1.2 + 0.17 * len(rows))) if ax is None else ax
    ax.set_xscale("log")
    steps = [k for k, group in enumerate(groups) if group in ("ablation steps", "CoRe-Stack+") and "stage" in rows[k]]
    if len(steps) > 1:
        ax.plot(x[steps], y[steps], "-", color=ORANGE, linewidth=1, zorder=2)
    for group, (marker, color, size) in _GROUPS.items():
        of_group = [k for k, found in enumerate(groups) if found == group]
        if of_group:
            ax.errorbar(
                x[of_group], y[of_group], yerr=_errors(y, ends)[:, of_group], fmt=marker, markersize=size, color=color,
                ecolor=LIGHT, elinewidth=0.8, capsize=0, markeredgecolor="white", markeredgewidth=0.6, label=group,
                zorder=4 if group == "CoRe-Stack+" else 3,
            )  # fmt: skip
    ax.set_xlabel(f"condition number of the {_MATRICES[matrix]} of the members used")
    ax.set(ylabel=LABELS.get(of, of), title=("Condition number and accuracy" if title is None else title) + _correlation(x, y))
    grid(ax)
    best = np.array([group == "CoRe-Stack+" for group in groups])
    name_beside(ax, [_name(row) for row in rows], x, y, ends, best, [ax.transData] * len(rows))
    legend_above(ax, 4)
    return ax


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
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
    """Accuracy, with intervals where there are some, and number of kept members against the CKA threshold.

    report: of `sweep --over cka.threshold=...`. Kept members are on the axis to the right.
    """
    document = _swept(report, "cka.threshold", "threshold")
    of, rows = scored(key_of(document, "rows", "threshold", "sweep writes it"), metric, "threshold")
    return _pair(rows, of, "", "CKA threshold", "CKA threshold" if title is None else title, ax)


def pool_size(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
    """Accuracy and number of kept members against the size of the pool, means over random subsets with standard deviations.

    report: of `sweep --over pool.size=...`. The dotted line is half of the members, which the paper says are kept.
    """
    document = _swept(report, "pool.size", "pool_size")
    summary = key_of(document, "summary", "pool_size", "sweep over pool.size writes it")
    of, rows = scored(summary, metric, "pool_size", "_mean")
    return _pair(rows, of, "_mean", "members in the pool", "Size of the pool" if title is None else title, ax)


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


def _pair(rows: Sequence[Row], of: str, end: str, xlabel: str, title: str, ax: Optional["Axes"]) -> "Axes":
    """A line for each method, and to the right its members. end: of the keys of means over subsets, with deviations."""
    ax = new_axes(6.4, 4.2) if ax is None else ax
    right = ax.twinx()
    for k, (method, own) in enumerate(_by_method(rows).items()):
        x, y = floats([row["value"] for row in own]), floats([row[of + end] for row in own])
        spread = np.nan_to_num(floats([row.get(f"{of}_sd") for row in own])) if end else np.zeros(0)
        errors = np.vstack([spread, spread]) if end else _errors(y, ends_of(own, of))
        color, marker = _COLORS[k % len(_COLORS)], _MARKERS[k % len(_MARKERS)]
        ax.errorbar(
            x, y, yerr=errors, fmt="-" + marker, color=color, markersize=5, linewidth=1.6, elinewidth=0.8, capsize=2,
            label=method, zorder=3,
        )  # fmt: skip
        right.plot(x, floats([row["models" + end] for row in own]), "--" + marker, color=color, markerfacecolor="white",
                   markersize=4, linewidth=1, label=f"{method}: members kept")  # fmt: skip
    if end:
        sizes = floats(sorted({float(row["value"]) for row in rows}))
        right.plot(sizes, sizes / 2, ":", color=GREY, linewidth=1, label="half of the members")
        whole_numbers(ax.xaxis)
    ax.set(xlabel=xlabel, ylabel=LABELS.get(of, of), title=title)
    right.set_ylabel("members kept")
    right.set_ylim(bottom=0)
    whole_numbers(right.yaxis)
    grid(ax)
    _legend_pair(ax, right)
    return ax


def _legend_pair(ax: "Axes", right: "Axes") -> None:
    longest = max(len(label) for axes in (ax, right) for label in axes.get_legend_handles_labels()[1])
    legend_above(ax, 2 if longest > 24 else 3, right)


# ---- streams -------------------------------------------------------------------------------------


def online(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
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
    ax = new_axes(6.4, 4.2) if ax is None else ax
    best = document.get("best_member")
    lines = {"stack": "stack", "average": "average", "best_member": f"best member ({best})", "switching": "best in each block"}
    for k, (key, label) in enumerate(lines.items()):
        regret = adapter - floats(series[key])
        style = {"color": GREY, "linestyle": ":"} if key == "switching" else {"color": _COLORS[k]}
        ax.plot(np.append(0, rows), np.append(0, regret), linewidth=1.6, label=label, zorder=3, **style)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="rows of the stream", ylabel="regret of the adapter (nats)")
    grid(ax)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize="small", frameon=False, borderaxespad=0.2)
    ax.set_title("Regret on the stream" if title is None else title, pad=40)
    return ax


# ---- ablation ------------------------------------------------------------------------------------


def ablation(
    report: Document, *, metric: Optional[str] = None, title: Optional[str] = None, ax: Optional["Axes"] = None
) -> "Axes":
    """Accuracy and, where there is one, ECE of each stage, with intervals; below each its members and both condition numbers.

    report: of `ablate`. Stages that are not in the paper have white markers. ECE is on the axis to the right.
    """
    document = read_document(report, ["ablate"], "ablation")
    of, rows = scored(key_of(document, "rows", "ablation", "ablate writes it"), metric, "ablation")
    ax = new_axes(7.4, 4.6) if ax is None else ax
    places = np.arange(len(rows), dtype=np.float64)
    _stage_line(ax, places - 0.06, rows, of, BLUE, "o")
    names = [_stage_label(row) for row in rows]
    ax.set_xticks(places, names, fontsize="small")
    ax.set(xlim=(-0.5, len(rows) - 0.5), ylabel=LABELS.get(of, of))
    grid(ax)
    ax.set_title("Ablation" if title is None else title)
    if of != "ece" and all(isinstance(row.get("ece"), (int, float)) for row in rows):
        right = ax.twinx()
        _stage_line(right, places + 0.06, rows, "ece", RED, "D")
        right.set_ylabel(LABELS["ece"])
        _legend_pair(ax, right)
    else:
        legend_above(ax, 3)
    return ax


def _stage_line(ax: "Axes", x: Floats, rows: Sequence[Row], of: str, color: str, marker: str) -> None:
    y = floats([row[of] for row in rows])
    ends = ends_of(rows, of)
    ax.errorbar(x, y, yerr=_errors(y, ends), fmt="none", ecolor=color, elinewidth=0.8, capsize=2, zorder=2)
    own = [bool(row.get("in_paper", True)) for row in rows]
    ax.plot(x[own], y[own], "-" + marker, color=color, markersize=6, linewidth=1.4, label=LABELS.get(of, of), zorder=3)
    if not all(own):
        ours = [not of_paper for of_paper in own]
        ax.plot(
            x[ours], y[ours], marker, color=color, markerfacecolor="white", markersize=6, zorder=3,
            label=f"{LABELS.get(of, of)}, not in the paper",
        )  # fmt: skip


def _stage_label(row: Row) -> str:
    """The stage, words below one another; members; condition numbers of the Gram and the CKA matrix."""
    conditions = [f"{row[key]:.3g}" for key in ("kappa_gram", "kappa_cka") if isinstance(row.get(key), (int, float))]
    kept = f"\nK {row['models']}" if row.get("models") is not None else ""
    return "\n".join(str(row["stage"]).split(" ", maxsplit=1)) + kept + (f"\nκ {' / '.join(conditions)}" if conditions else "")


# ---- shared --------------------------------------------------------------------------------------


def _name(row: Row) -> str:
    return str(row.get("method", row.get("stage")))


def _errors(y: Floats, ends: Floats) -> Floats:
    return floats(np.maximum([y - ends[:, 0], ends[:, 1] - y], 0))
