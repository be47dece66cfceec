"""What the plots share: axes, colours, reports as documents, the column of names beside points."""
from __future__ import annotations

import functools
import io
import json
import os
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from ._arrays import is_path
from ._errors import ArgumentError, FileError, FormatError
from ._stack import Stack
from ._types import Floats, Path
from .io import replaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Document = Union[Mapping[str, Any], Path]

# Okabe and Ito's colours, which the colour-blind tell apart.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY = "0.35"
SMALL, LARGE = 8.0, 9.0  # points: of all text but crowded names, which have 6 at least, and of titles


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


DOTS = 300  # per inch, of a PNG
INCHES = {"single": 3.35, "double": 6.9}
Width = Union[None, str, float]


def inches(width: Width) -> float:
    """The width of a figure: that of one column of a paper, of two (also None), or a number."""
    try:
        found = INCHES.get(str(width)) or float("6.9" if width is None else width)
    except (TypeError, ValueError):
        found = 0.0
    if not 2 <= found <= 40:
        raise ArgumentError(f"width is {width!r}; it must be 'single' (3.35 inches), 'double' (6.9), or 2 to 40 inches")
    return found


def new_axes(width: Width = None, tall: float = 0.5, more: float = 1.3, **panels: Any) -> Any:
    """Axes of a figure, tall * width + more inches high, that pyplot does not know and a notebook shows. panels: of Figure.subplots."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"corestack.plot needs matplotlib, which cannot be imported ({error}): pip install matplotlib, or "
            "apt-get install python3-matplotlib"
        ) from error
    wide = inches(width)
    figure = Figure(figsize=(wide, tall * wide + more), dpi=120, layout="constrained")
    found = figure.subplots(**panels)
    for ax in figure.axes:
        letters(ax)
        ax._repr_png_ = functools.partial(_picture, figure)
    return found


def own_or(ax: Optional["Axes"], width: Width, tall: float = 0.5, more: float = 1.3, **panels: Any) -> Any:
    """The caller's axes, or new ones as of `new_axes`."""
    if ax is not None and width is not None:
        raise ArgumentError("plot: ax has the width of its figure; remove width")
    return new_axes(width, tall, more, **panels) if ax is None else ax


def _picture(figure: Any) -> tuple[bytes, dict[str, int]]:
    """A PNG for a notebook, sharp on screens with two dots to a pixel."""
    found = io.BytesIO()
    figure.savefig(found, format="png", dpi=192)
    wide, high = figure.get_size_inches()
    return found.getvalue(), {"width": round(96 * wide), "height": round(96 * high)}


def letters(ax: "Axes") -> None:
    """Sizes for the column of a paper."""
    ax.tick_params(which="both", labelsize=SMALL)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_size(SMALL)
        axis.offsetText.set_size(SMALL)


def finish(ax: "Axes", title: str, caption: str, *others: "Axes") -> "Axes":
    """Title and caption; between title and axes the key, in as many columns as fit. others: axes whose lines it has too."""
    from matplotlib.transforms import blended_transform_factory

    own, pad = hasattr(ax, "_repr_png_"), 6.0
    found = [axes.get_legend_handles_labels() for axes in (ax, *others)]
    handles, labels = ([one for part in found for one in part[k]] for k in (0, 1))
    wide = 0.97 * (ax.figure if own else ax).bbox.width
    place = blended_transform_factory(ax.figure.transFigure, ax.transAxes) if own else ax.transAxes
    for columns in (4, 3, 2, 1) if labels else ():
        key = ax.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(0.015 if own else 0, 1.0), bbox_transform=place, ncols=columns,
            fontsize=SMALL if len(labels) < 7 else 7, frameon=False, borderaxespad=0.2, columnspacing=1, handlelength=1.8, handletextpad=0.5,
        )  # fmt: skip
        box = key.get_window_extent()
        pad = 4 + box.height / ax.figure.dpi * 72
        if box.width <= wide:
            break
    size = {"fontsize": LARGE} if own else {}
    if own:
        title = "\n".join(textwrap.fill(line, int(wide / ax.figure.dpi * 72 / (0.6 * LARGE))) for line in title.split("\n"))
    ax.set_title(title, pad=pad, **size)
    ax._corestack_caption = caption
    return ax


def save(ax: "Axes", path: Path) -> None:
    """Writes the figure of `ax`, whole or not at all, as PNG, SVG or PDF by the name's ending, with its caption inside.

    Identical each time: no dates, fixed names inside. An SVG has letters as outlines, a PDF has its fonts as Type 42.
    """
    import matplotlib

    format = format_of(path)
    said = getattr(ax, "_corestack_caption", None)
    about = {"png": {"Description": said, "Software": None}, "svg": {"Description": said, "Date": None}, "pdf": {"Subject": said, "CreationDate": None}}
    found = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "corestack", "svg.fonttype": "path", "pdf.fonttype": 42}):
        ax.figure.savefig(found, format=format, dpi=DOTS, metadata=about[format])
    with replaced(path) as file:
        file.write(found.getvalue())


def format_of(path: Path) -> str:
    found = os.path.splitext(os.fsdecode(path))[1][1:].lower()
    if found not in ("png", "svg", "pdf"):
        raise ArgumentError(f"{os.fsdecode(path)}: the name of the figure must end in .png, .svg or .pdf")
    return found


def caption_of(ax: Any) -> str:
    found = getattr(ax, "_corestack_caption", None)
    if found is None:
        raise ArgumentError("plot: these axes are not those that a function of corestack.plot returned")
    return str(found)


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


def whole_numbers(axis: Any, most: int = 9) -> None:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True))


def log_axis(axis: Any, label: str) -> None:
    """A logarithmic axis that says so, with plain numbers."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0 else 9
    axis.set_major_locator(MaxNLocator(4) if decades < 0.7 else LogLocator(subs=(1, 2, 5) if decades < 2.5 else (1,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if v < 1e4 else EngFormatter(sep="")(v)))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(f"{label}, log scale")


# ---- methods -------------------------------------------------------------------------------------


# A method has its colour and its marker in all figures: by its place here, others by their names.
_STYLED = (
    "average default best-single prototype greedy paper ridge hill-climbing performance-weighted compact mlp log-linear lasso "
    "best autogluon minimum-variance elastic-net greedy-top1 class-wise greedy-brier"
).split()
_COLORS, _MARKERS = (BLUE, GREEN, "black", ORANGE, PURPLE, RED, SKY), "os^Dv*P"
NAMED = 8  # at most in a figure


def style_of(method: str) -> dict[str, Any]:
    k = _STYLED.index(method) if method in _STYLED else zlib.crc32(method.encode())
    color, marker = _COLORS[k % 7], _MARKERS[(k + k // 7) % 7]
    return {"color": color, "marker": marker, "markersize": 9 if marker == "*" else 5, "markeredgecolor": "white", "markeredgewidth": 0.5}


def front_of(cost: Floats, better: Floats) -> Any:
    """Which points no other one is at least as good as in both and better in one."""
    return np.array([not np.any((cost <= c) & (better >= b) & ((cost < c) | (better > b))) for c, b in zip(cost, better)])


def points(ax: "Axes", names: Sequence[str], x: Floats, y: Floats, ends: Floats, order: Sequence[int], others: str) -> str:
    """A point for each method, at most eight of them, the first of `order`, with intervals and names in the key. What a caption says of it."""
    rest = list(order[NAMED:])
    if rest:
        ax.plot(x[rest], y[rest], "o", color="0.6", markersize=3.5, markeredgewidth=0, zorder=2.2, label=f"{others} ({len(rest)})")
    for place, k in enumerate(order[:NAMED]):  # the first of them on top
        style = style_of(names[k])
        ax.errorbar(x[k : k + 1], y[k : k + 1], yerr=errors(y, ends)[:, k : k + 1], linestyle="none", ecolor=style["color"],
                    elinewidth=0.8, capsize=1.5, label=names[k], zorder=4 - 0.1 * place, **style)  # fmt: skip
    return f" Grey: {', '.join(names[k] for k in rest)}." if rest else ""


def meaning(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], of: str) -> str:
    """For captions: the score, its direction, its rows and its intervals."""
    split, count = document.get("split"), document.get("samples")
    where = (f" on split {split}" if split else "") + (f" ({count} rows)" if count else "")
    said = f"{LABELS.get(of, of)}{where}; {'lower' if of in LOWER_IS_BETTER else 'higher'} is better."
    if any(row.get(f"{of}_ci") for row in rows):
        said += " Error bars: 95% bootstrap intervals of the rows."
    elif any(row.get(f"{of}_se") for row in rows):
        said += " Error bars: one standard error over the repetitions to each side."
    return said


def errors(y: Floats, ends: Floats) -> Floats:
    return floats(np.maximum([y - ends[:, 0], ends[:, 1] - y], 0))
