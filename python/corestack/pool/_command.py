"""The command line: options that all subcommands share, members by name, and errors as one line."""
from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence

from .._errors import Error, InputError
from .._library import version
from . import _engine, _models, _worker
from ._task import Member, Options, Split, Task


class Command(NamedTuple):
    """A subcommand. `prepare` gets the arguments and what the folder holds already, and returns the task and the splits."""

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    prepare: Callable[[argparse.Namespace, _engine.Pool], tuple[Task, list[Split]]]
    task: str = "classification"
    defaults: dict[str, Any] = {}  # of shared options


def commands() -> list[Command]:
    from . import _benchmarks, detection, segmentation

    return [*_benchmarks.COMMANDS, *segmentation.COMMANDS, *detection.COMMANDS]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message}; {self.prog} --help lists the options")


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="python -m corestack.pool", description="Runs models on data and writes their predictions as a pool, "
                  "which corestack fit and compare take. A run that was stopped goes on where it was; nothing is downloaded.")  # fmt: skip
    top.add_argument("--version", action="version", version=f"corestack {version}")
    inside = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for command in commands():
        sub = inside.add_parser(command.name, help=command.help, description=command.help[:1].upper() + command.help[1:] + ".")
        sub.set_defaults(of=command)
        sub.add_argument("pool", type=Path, metavar="POOL", help="folder of the pool; made if it is not there, else added to")
        command.arguments(sub)
        _shared(sub)
        sub.set_defaults(**command.defaults)
    return top


def _shared(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("members")
    add = group.add_argument
    add("--models", nargs="+", metavar="[NAME=]MODEL[@WEIGHTS]", default=None,
        help="MODEL: a name of torchvision or timm (timm:NAME), or a factory module:function or file.py:function; 'paper' is the "
             "paper's list. WEIGHTS as --weights. Without this, the members that the pool has already")  # fmt: skip
    add("--weights", default=None, metavar="W", help="none (drawn at random), default (the trained ones in torch's or timm's local "
        "cache), a name of torchvision's weights, a checkpoint, or a folder with NAME.pth for each member (default)")  # fmt: skip
    add("--image-size", type=_positive, metavar="PIXELS", help="side of the square that models get; without it, that of the "
        "weights, or 224")  # fmt: skip
    add("--transform", metavar="FACTORY", help="module:function that returns the preprocessing, for all members")
    group = sub.add_argument_group("predictions")
    add = group.add_argument
    add("--batch-size", type=_positive, default=64, metavar="N", help="(%(default)s)")
    add("--dtype", choices=("float16", "float32"), default="float32", help="of the files (%(default)s)")
    add("--compute", choices=("float32", "tf32", "float16", "bfloat16"), default="float32", help="arithmetic (float32)")
    add("--seed", type=_natural, default=0, help="of drawn weights and of divisions (0)")
    group = sub.add_argument_group("this run (changes no predictions)")
    add = group.add_argument
    add("--devices", "--device", default=None, metavar="D,D", help="cpu, cuda, cuda:0,cuda:1: one member at a time on each "
        "(cuda if there is one)")  # fmt: skip
    add("--jobs", type=_positive, default=1, metavar="N", help="members at a time on each device (1)")
    add("--workers", type=_natural, default=None, metavar="N", help="processes that read images, for each member (on a GPU, up to 8)")
    add("--threads", type=_positive, default=0, metavar="N", help="of a member on a CPU (the cores, shared by the members)")
    add("--passes", type=_positive, default=20, metavar="N", help="timed forward passes (20)")
    add("--no-timings", action="store_true", help="leave latency and memory out of the manifest")
    add("--quiet", action="store_true", help="no progress")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _natural(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return number


def named(text: str) -> tuple[str, str]:
    """NAME=VALUE"""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=...")
    return name, value


def devices(text: Optional[str], jobs: int) -> tuple[str, ...]:
    torch = _models.need("torch", "torch")
    names = [d.strip() for d in (text or ("cuda" if torch.cuda.is_available() else "cpu")).split(",")]
    found = []
    for name in names:
        kind, _, number = name.partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdecimal()) or (kind == "cpu" and number):
            raise InputError(f"--devices: {name or text!r} is not a device; use cpu, cuda or cuda:NUMBER")
        if kind == "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if int(number or 0) >= count:
                raise InputError(f"--devices: there is no {name} here; PyTorch sees {count} GPUs")
            name = f"cuda:{int(number or 0)}"
        found.append(name)
    if len({d.split(":")[0] for d in found}) > 1:
        raise InputError("--devices: use either the CPU or GPUs in one run; their predictions differ in the last digits")
    return tuple(found * jobs)


def members(texts: Sequence[str], weights: str, task: str) -> list[Member]:
    found: list[Member] = []
    for text in texts:
        if text == "paper":
            found += _paper(weights, task)
            continue
        name, equals, rest = text.partition("=")
        if not equals or "@" in name:
            name, rest = "", text
        model, at, own = rest.partition("@")
        if not model or (at and not own) or rest.startswith("=") or text.startswith("="):
            raise InputError(f"--models: {text!r} is not of the form [NAME=]MODEL[@WEIGHTS]")
        default = model[5:] if model.startswith("timm:") else model.rpartition(":")[2]
        name = name or default
        found.append(Member(name, model, own or _weights(name, model, weights, len(texts))))
    return found


def _paper(weights: str, task: str) -> list[Member]:
    lists = importlib.import_module(f"{__package__}.backbones")
    all_of_them = lists.LISTS[task]
    chosen, absent = lists.chosen(all_of_them)
    if absent:
        print(lists.missing_line(all_of_them, absent), file=sys.stderr)
    if not chosen:
        raise InputError("--models paper: none of the paper's members is in an installed package; name factories instead")
    return [Member(b.name, model, _weights(b.name, model, weights, len(chosen)), b.family) for b, model in chosen]


def _weights(name: str, model: str, weights: str, count: int) -> str:
    if not os.path.isdir(weights):
        if count > 1 and os.path.isfile(weights):
            raise InputError(f"--weights {weights} is one file for {count} models; give a folder with NAME.pth for each, or MODEL@FILE")
        return weights
    for stem in (name, model):
        for end in (".pth", ".pt", ".safetensors"):
            path = os.path.join(weights, stem + end)
            if os.path.isfile(path):
                return path
    official = sorted(p.name for p in Path(weights).glob(f"{model}-????????.pth"))
    if len(official) == 1:
        return os.path.join(weights, official[0])
    raise InputError(f"{name}: there is no {name}.pth in {weights} (or .pt, .safetensors)")


def run(arguments: argparse.Namespace) -> None:
    command: Command = arguments.of
    for module, package in (("torch", "torch"), ("torchvision", "torchvision"), ("PIL", "pil")):
        _models.need(module, package)
    pool = _engine.Pool(arguments.pool)
    places = devices(arguments.devices, arguments.jobs)
    chosen = (
        list(pool.members()) if arguments.models is None
        else members(arguments.models, arguments.weights or "default", command.task)
    )
    if arguments.models is None and arguments.weights is not None and chosen:
        raise InputError("--weights: the members and their weights are those of the pool; name --models to add others")
    if not chosen:
        raise InputError(f"--models: name the models; there is no pool in {arguments.pool} yet")
    if places[0] == "cpu" and arguments.compute in ("tf32", "float16"):
        raise InputError(f"--compute {arguments.compute} needs a GPU; a CPU has float32 and bfloat16")
    workers = arguments.workers
    if workers is None:
        workers = min(8, max(1, len(os.sched_getaffinity(0)) // len(places))) if places[0] != "cpu" else 0
    options = Options(batch=arguments.batch_size, dtype=arguments.dtype, compute=arguments.compute, device=places[0],
                      threads=arguments.threads, workers=workers, seed=arguments.seed, image_size=arguments.image_size,
                      transform=arguments.transform, passes=arguments.passes, timings=not arguments.no_timings)  # fmt: skip
    task, splits = command.prepare(arguments, pool)
    _engine.export(_engine.Request(arguments.pool, task, tuple(chosen), tuple(splits), options, places, arguments.quiet))


def main(argv: Optional[Sequence[str]] = None) -> int:
    arguments = argparse.Namespace(pool="the pool's folder")
    try:
        parser().parse_args(argv, arguments)
        run(arguments)
        return 0
    except (Error, OSError) as error:
        for line in _worker.text_of(error, arguments.pool).splitlines():
            print(f"corestack.pool: error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("corestack.pool: stopped; the same command goes on from here", file=sys.stderr)
        return 130
