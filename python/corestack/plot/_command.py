"""The command line: each of the paper's figures from a pool or from reports, as PNG, SVG or PDF. It prints the caption."""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .._arrays import is_path
from .._comparisons import ablate, compare, sweep
from .._drawing import Document, caption_of, format_of, new_axes, read_bytes, save
from .._errors import ArgumentError, Error, FileError
from .._pools import config, member_names, open_files
from .._session import Session
from . import _figures, accuracy_flops

VALUES = ("0.70", "0.75", "0.80", "0.85", "0.90", "0.95")  # of the paper's table on the threshold


class Figure(NamedTuple):
    """draw: from reports. measure: the reports that it needs, from a pool and the arguments."""

    name: str
    help: str
    draw: Callable[..., Any]
    measure: Callable[[str, argparse.Namespace], list[Document]]
    reports: int = 1


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "split": arguments.split, "resamples": arguments.resamples, "seed": arguments.seed, "threads": arguments.threads,
        "options": _settings(arguments.set),
    }  # fmt: skip


def _settings(given: Sequence[str]) -> dict[str, str]:
    wrong = next((text for text in given if "=" not in text), None)
    if wrong is not None:
        raise ArgumentError(f"--set {wrong}: needs KEY=VALUE")
    return {text.partition("=")[0]: text.partition("=")[2] for text in given}


def _methods(arguments: argparse.Namespace, initial: Optional[str] = None) -> Optional[list[str]]:
    text = arguments.methods or initial
    return text.split(",") if text else None


def _sizes(pool: str, arguments: argparse.Namespace) -> list[str]:
    if arguments.values:
        return list(arguments.values.split(","))
    with Session(arguments.threads, None, None) as s:
        count = len(member_names(open_files(s, pool, config())))
    step = max(1, round((count - 2) / 5))
    return [str(size) for size in sorted({*range(min(4, count), count, step), count})]


def _compared(pool: str, a: argparse.Namespace) -> Document:
    return compare(pool, methods=_methods(a), **_how(a))


def _over(pool: str, a: argparse.Namespace, key: str, values: Sequence[str], methods: str, **how: Any) -> list[Document]:
    return [sweep(pool, over=key, values=values, methods=_methods(a, methods), **{**_how(a), **how})]


def _streamed(pool: str, a: argparse.Namespace) -> list[Document]:
    raise ArgumentError(f"{pool}: is no report; online is drawn from what `corestack online MODEL POOL --json` printed")


FIGURES = (
    Figure("kappa", "condition number against accuracy, with Spearman's rho: compare, ablate, or both", _figures.kappa,
           lambda pool, a: [_compared(pool, a), ablate(pool, **_how(a))], 2),
    Figure("pareto", "accuracy against FLOPs, with the Pareto front: compare, or ablate", accuracy_flops,
           lambda pool, a: [_compared(pool, a)]),
    Figure("tau", "accuracy and kept members against the CKA threshold: sweep --over cka.threshold=...", _figures.threshold,
           lambda pool, a: _over(pool, a, "cka.threshold", a.values.split(",") if a.values else VALUES, "paper")),
    Figure("pool-size", "accuracy and kept members against the size of the pool: sweep --over pool.size=...", _figures.pool_size,
           lambda pool, a: _over(pool, a, "pool.size", _sizes(pool, a), "paper,default", draws=a.draws, resamples=0)),
    Figure("ablation", "accuracy and ECE as the stages are switched on: ablate", _figures.ablation,
           lambda pool, a: [ablate(pool, **_how(a))]),
    Figure("online", "regret of the adapter over the rows of a stream: online", _figures.online,
           _streamed),
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ArgumentError(f"{message}; {self.prog} --help lists the options")


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="python -m corestack.plot", description="Draws one of the paper's figures from reports (--json) or from a pool, "
                  "which is then measured first, and prints its caption.")  # fmt: skip
    inside = top.add_subparsers(dest="figure", metavar="FIGURE", required=True, parser_class=_Parser)
    for figure in FIGURES:
        sub = inside.add_parser(figure.name, help=figure.help, description=figure.help[:1].upper() + figure.help[1:] + ".")
        sub.set_defaults(of=figure)
        add = sub.add_argument
        add("source", nargs="+", metavar="SOURCE", help="reports of the tool (--json; - is standard input), or the path of one pool")
        add("-o", "--output", required=True, metavar="FILE", help="the figure; its name ends in .png, .svg or .pdf")
        add("--metric", metavar="SCORE", help="a score of the report; by default top-1, or the task's first")
        add("--title", metavar="TEXT")
        add("--width", default="double", metavar="WIDTH", help="of the figure: single (3.35 inches), double (6.9), or inches (double)")
        if figure.name == "kappa":
            add("--matrix", choices=("cka", "gram"), default="cka", help="whose condition number (cka)")
        group = sub.add_argument_group("of a pool")
        add = group.add_argument
        if figure.name != "ablation":
            add("--methods", metavar="NAMES", help="with commas; by default as in the paper")
        if figure.name in ("tau", "pool-size"):
            add("--values", metavar="VALUES", help="with commas")
        if figure.name == "pool-size":
            add("--draws", type=int, default=5, metavar="N", help="random subsets for each size (5)")
        add("--split", default="oof", metavar="NAME", help="what is scored (oof)")
        add("-r", "--resamples", type=int, default=5000, metavar="N", help="bootstrap resamples of intervals (5000)")
        add("--seed", type=int, default=0, metavar="N")
        add("-t", "--threads", type=int, metavar="N")
        add("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the presets")
    return top


# ---- sources -------------------------------------------------------------------------------------


def _report_of(source: str) -> Optional[Mapping[str, Any]]:
    """The report in a file, or None where it is a pool."""
    if source == "-":
        text: Any = sys.stdin.read()
    elif os.path.isdir(source) or (os.path.isfile(source) and read_bytes(source, 1) not in (b"{", b" ", b"\n")):
        return None
    else:
        text = read_bytes(source)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"{source}: not a JSON document ({error}); give a report that was written with --json, or a pool") from error
    return found if isinstance(found, dict) and "command" in found else None


def _reports(arguments: argparse.Namespace) -> list[Document]:
    figure: Figure = arguments.of
    found = [_report_of(source) for source in arguments.source]
    if len(found) > figure.reports:
        raise ArgumentError(f"{figure.name}: {len(found)} sources are given; it takes {figure.reports}")
    if all(report is not None for report in found):
        return [report for report in found if report is not None]
    if len(found) > 1 or arguments.source[0] == "-":
        raise ArgumentError(f"{arguments.source[found.index(None)]}: not a report (written with --json); a pool is given alone")
    return figure.measure(arguments.source[0], arguments)


# ---- output --------------------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> None:
    format_of(arguments.output)
    if not os.path.isdir(os.path.dirname(os.path.abspath(arguments.output))):
        raise FileError(f"{arguments.output}: the folder is not there; make it first")
    same = next((s for s in arguments.source if is_path(s) and os.path.exists(s) and os.path.exists(arguments.output)
                 and os.path.samefile(s, arguments.output)), None)  # fmt: skip
    if same is not None:
        raise ArgumentError(f"{arguments.output}: is an input of the command; name another file")
    new_axes(arguments.width)  # an error without matplotlib, before anything is measured
    how = {"metric": arguments.metric, "title": arguments.title, "width": arguments.width}
    if hasattr(arguments, "matrix"):
        how["matrix"] = arguments.matrix
    drawn = arguments.of.draw(*_reports(arguments), **how)
    save(drawn, arguments.output)
    print(caption_of(drawn))


def main(argv: Optional[Sequence[str]] = None) -> int:
    try:
        run(parser().parse_args(argv))
        return 0
    except (Error, ImportError, OSError) as error:
        print(f"corestack.plot: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
