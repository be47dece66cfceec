"""What the plots share: axes, colours, reports as documents, the column of names beside points."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from ._arrays import is_path
from ._errors import ArgumentError, FileError, FormatError
from ._stack import Stack
from ._types import Floats, Path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Document = Union[Mapping[str, Any], Path]

# Okabe and Ito's colours, which the colour-blind tell apart.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY, LIGHT = "0.35", "0.75"


LOWER_IS_BETTER = {"nll", "ece", "brier", "rmse", "mae", "median_ae", "mce", "boundary_error"}
LABELS = {
    "top1": "top-1 accuracy (fraction)",
    "nll": "NLL (nats)",
    "ece": "ECE",
    "brier": "Brier score",
    "miou": "mean IoU",
    "AP": "AP",
    "dice": "Dice",
    "rmse": "RMSE (units of the target)",
    "mae": "MAE (units of the target)",
    "r2": "R²",
}


def new_axes(width: float, height: float, below: float = 0) -> Any:
    """Axes of a figure (inches) that pyplot does not know; with `below`, two, the lower one so much as high."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"corestack.plot needs matplotlib, which cannot be imported ({error}): pip install 'corestack[plot]', or "
            "apt-get install python3-matplotlib"
        ) from error
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    if below:
        return figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [1, below]})
    return figure.subplots()


def read_bytes(path: Any, size: int = -1) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as error:
        raise FileError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error


def read_document(report: Any, commands: Sequence[str], where: str) -> Mapping[str, Any]:
    """A report of one of the commands, as a mapping."""
    found = report
    if is_path(report):
        try:
            found = json.loads(read_bytes(report))
        except ValueError as error:
            raise FormatError(f"{report}: not a JSON document ({error}); write one with --json") from error
    elif isinstance(report, Stack):
        found = report.report
    wanted = " or ".join(f"'{command}'" for command in commands)
    if not isinstance(found, Mapping) or found.get("command") not in commands:
        what = f"one of '{found['command']}'" if isinstance(found, Mapping) and "command" in found else type(found).__name__
        raise ArgumentError(f"plot.{where}: needs a report of {wanted}; this is {what}")
    return found


def key_of(document: Mapping[str, Any], key: str, where: str, hint: str) -> Any:
    if document.get(key) is None:
        raise ArgumentError(f"plot.{where}: the report has no '{key}'; {hint}")
    return document[key]


def scored(
    rows: Sequence[Mapping[str, Any]], metric: Optional[str], where: str, end: str = ""
) -> tuple[str, list[Mapping[str, Any]]]:
    """The score to draw, by default the task's first, and the rows that have it. end: of the key, "_mean"."""
    of = metric
    if of is None:
        of = next((name for name in ("top1", "miou", "AP", "rmse") if rows and name + end in rows[0]), "top1")
    found = [row for row in rows if isinstance(row.get(of + end), (int, float))]
    if not found:
        raise ArgumentError(f"plot.{where}: no row has a score '{of}'")
    return of, found


def ends_of(rows: Sequence[Mapping[str, Any]], of: str) -> Floats:
    """Ends of the error bars of a score: its interval, or with repetitions one standard error on each side; else the score."""
    found = []
    for row in rows:
        error = row.get(f"{of}_se") or 0.0
        found.append(row.get(f"{of}_ci") or [row[of] - error, row[of] + error])
    return floats(found)


def floats(values: Any) -> Floats:
    """Numbers of a document, null as NaN."""
    return np.array(values, dtype=np.float64)


def grid(ax: "Axes") -> None:
    ax.grid(True, color="0.92")
    ax.set_axisbelow(True)


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def legend_above(ax: "Axes", columns: int, *others: "Axes") -> None:
    """Between the axes and the title, where it hides nothing. others: axes whose lines it has too."""
    found = [axes.get_legend_handles_labels() for axes in (ax, *others)]
    handles, labels = ([one for part in found for one in part[k]] for k in (0, 1))
    ax.legend(
        handles, labels, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, fontsize="small", frameon=False,
        borderaxespad=0.2,
    )  # fmt: skip
    ax.set_title(ax.get_title(), pad=10 + 15 * -(-len(labels) // columns))


# ---- points and their names ------------------------------------------------------------------------


def front_of(cost: Floats, better: Floats) -> Any:
    """Which points no other one is at least as good as in both and better in one."""
    return np.array([not np.any((cost <= c) & (better >= b) & ((cost < c) | (better > b))) for c, b in zip(cost, better)])


def points(ax: "Axes", cost: Floats, score: Floats, ends: Floats, front: Any) -> list[Any]:
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
            color=RED if best else BLUE, ecolor=RED if best else SKY, elinewidth=1, capsize=2,
            markeredgecolor="white", markeredgewidth=0.6, zorder=4 if best else 3, transform=moved,
            label=first.pop(best, None),
        )  # fmt: skip
        for part in bars[1] + bars[2]:
            part.set_zorder(2)
        places.append(moved)
    return places


def name_beside(
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
        color = RED if front[k] else "black"
        ax.annotate(
            names[k], xy=(cost[k], score[k]), xycoords=places[k], xytext=(1.03, height),
            textcoords=ax.get_yaxis_transform(), fontsize=size, color=color, ha="left", va="center",
            fontweight="bold" if front[k] else "normal", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": LIGHT, "linewidth": 0.7, "relpos": (0, 0.5), "shrinkB": 0, "zorder": 1},
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
    return floats(out)
