"""One run: member after member, split after split; what is finished is skipped, and the manifest is written last.

`.export/pool.json` in the pool's folder says what belongs to the pool and what is finished, so that later runs go on and can add
members and splits. Several runs may work on one pool at the same time, with different members.
"""
from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import Error, InputError
from . import _files, _networks
from ._files import WORK, file_name
from ._task import BINDING, Loaded, Member, Split


class Request(NamedTuple):
    folder: Path
    task: Any
    members: Sequence[Member]
    splits: Sequence[Split]
    options: Any  # of the command

    def say(self, text: str) -> None:
        if not self.options.quiet:
            print(text, file=sys.stderr, flush=True)

    def file(self, member: str, split: str) -> str:
        return f"{file_name(member)}.{file_name(split)}{self.task.extension}"


class BadSample(InputError):
    """An input cannot be read. It is the same for every member, so the whole run ends."""


def refuse_change(where: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    for key in new:
        if old.get(key) != new[key]:
            before, after = (json.dumps(d.get(key), ensure_ascii=False) for d in (old, new))
            how = f"was {before} and is now {after}" if max(len(before), len(after)) < 80 else "changed"
            raise InputError(f"{where}: {key} {how}; give the same as before, another name, or a new folder")


class Pool:
    """The record of a pool's folder. Only what a finished prediction depends on binds later runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / WORK / "pool.json"
        if folder.exists() and not self.path.parent.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise InputError(f"{folder}: a file, or a folder with files that this command did not make; give a new folder")
        self.read()

    def read(self) -> None:
        held = json.loads(self.path.read_bytes()) if self.path.exists() else {"pool": {}, "splits": {}, "members": {}}
        self.members: dict[str, dict[str, Any]] = held["members"]
        begun = {name for member in self.members.values() for name, done in member["splits"].items() if done}
        self.pool: dict[str, Any] = held["pool"] if begun else {}
        self.splits: dict[str, dict[str, Any]] = {name: split for name, split in held["splits"].items() if name in begun}
        for member in self.members.values():
            member["splits"] = {name: done for name, done in member["splits"].items() if name in begun}

    @contextlib.contextmanager
    def changed(self, request: Request) -> Iterator[None]:
        """Takes the request in, with what another run has done by now; what differs from that is refused."""
        with _files.locked(self.folder / WORK / "lock", wait=True):
            self.read()
            head = {**request.task.fixed(), **request.task.head()}
            refuse_change(str(self.folder), self.pool or head, {k: v for k, v in head.items() if k != "training_counts"})
            self.pool = {**self.pool, **head}
            for split in request.splits:
                settings = {**{key: getattr(request.options, key) for key in BINDING}, **request.task.identity(split)}
                if split.name not in self.splits:
                    entry = {**request.task.write_split(split, self.folder), **split.entry}
                    self.splits[split.name] = {"settings": settings, "entry": entry}
                refuse_change(f"{self.folder}: split {split.name}", self.splits[split.name]["settings"], settings)
            for member in request.members:
                held = self.members.setdefault(member.name, {"splits": {}})
                identity = _networks.identity(member)
                refuse_change(f"{self.folder}: member {member.name}", held["settings"] if "cost" in held else identity, identity)
                held.update(member=member, settings=identity, splits={**{s.name: False for s in request.splits}, **held["splits"]})
            yield
            _files.write_json(self.path, {"pool": self.pool, "splits": self.splits, "members": self.members})

    def left(self, request: Request, member: Member) -> list[Split]:
        done = self.members[member.name]["splits"]
        return [s for s in request.splits if not done[s.name] or not (self.folder / request.file(member.name, s.name)).exists()]

    def write_manifest(self, request: Request) -> None:
        models = []
        for name, member in self.members.items():
            if all(member["splits"].values()) and "cost" in member:
                files = {split: request.file(name, split) for split in self.splits if split in member["splits"]}
                models.append({"name": name, **member["cost"], "predictions": files})
            elif "cost" in member:
                request.say(f"{name} is not finished and is left out of the manifest; name it again to go on with it")
        head = {key: value for key, value in self.pool.items() if key not in request.task.fixed()}
        splits = {name: split["entry"] for name, split in self.splits.items()}
        path, manifest = self.folder / "pool.json", {"corestack_pool": 1, **head, "splits": splits, "models": models}
        if not path.exists() or json.loads(path.read_bytes()) != manifest:
            _files.write_json(path, manifest)


def export(request: Request) -> None:
    """Makes the pool or adds to it. An InputError has a line for each member that failed; then there is no manifest."""
    pool = Pool(request.folder)
    for known, asked in ((pool.members, [m.name for m in request.members]), (pool.splits, [s.name for s in request.splits])):
        files = {file_name(name): name for name in known}
        for number, name in enumerate(asked):
            if files.setdefault(file_name(name), name) != name or name in asked[:number]:
                raise InputError(f"{files[file_name(name)]} and {name} would have the same files; give another name with NAME=...")
    with pool.changed(request):
        pass
    failures = []
    for member in request.members:
        try:
            if pool.left(request, member):
                with _files.locked(request.folder / WORK / f"{file_name(member.name)}.lock", wait=False):
                    _run(request, pool, member)
        except BadSample:
            raise
        except (Exception, SystemExit) as error:  # SystemExit: a user's code calls sys.exit
            failures.append(f"{member.name}: {_text_of(error, request.options)}")
        gc.collect()
    if failures:
        raise InputError("\n".join(failures))
    with pool.changed(request):
        pool.write_manifest(request)
    request.say(f"{request.folder / 'pool.json'} is written")


def _run(request: Request, pool: Pool, member: Member) -> None:
    import torch

    options = request.options
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.compute == "tf32"
    warnings.filterwarnings("ignore", module=r"torch(vision)?\.")
    loaded = request.task.load(member, options)
    loaded = loaded._replace(network=loaded.network.to(options.device))
    cost = pool.members[member.name].get("cost") or {"family": loaded.family, **_measure(request, loaded)}
    for split in pool.left(request, member):
        torch.manual_seed(options.seed)
        final = request.folder / request.file(member.name, split.name)
        part = request.folder / WORK / final.name
        try:
            request.task.save(part, split, options, _predict(request, loaded, member, split))
            shutil.rmtree(final, ignore_errors=True)  # a folder that the record does not know
            os.replace(part, final)
        finally:
            shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        with pool.changed(request):
            pool.members[member.name]["splits"][split.name] = True
            pool.members[member.name]["cost"] = cost


def _forward(task: Any, network: Any, inputs: Any, options: Any) -> Any:
    import torch

    half = torch.autocast(options.device.split(":")[0], dtype=getattr(torch, options.compute)) if "16" in options.compute else None
    with torch.no_grad(), half or contextlib.nullcontext():
        return task.infer(network, inputs)


def _measure(request: Request, loaded: Loaded) -> dict[str, Any]:
    from . import _cost

    task, options, network = request.task, request.options, loaded.network
    cost: dict[str, Any] = {"params": sum(int(p.numel()) for p in network.parameters())}
    dataset = task.dataset(request.splits[0], loaded.transform)
    one, first = (next(_batches(task, dataset, n, 0)) for n in (1, options.batch_size))
    inputs = task.inputs(one[1], options.device)
    counted = _cost.flops(lambda: task.infer(network, inputs))
    if counted > 0:  # none are known of quantised networks
        cost = {"flops": counted, **cost}
    if not options.no_timings:
        inputs = task.inputs(first[1], options.device)
        cost.update(_cost.timings(lambda: _forward(task, network, inputs, options), first[0], options.device, options.passes))
    return cost


def _batches(task: Any, dataset: Any, size: int, workers: int) -> Iterator[tuple[int, Any]]:
    """(rows, batch) in order; threads read ahead, a batch each."""

    def read(start: int) -> tuple[int, Any]:
        try:
            samples = [dataset[i] for i in range(start, min(start + size, len(dataset)))]
            return len(samples), task.collate(samples)
        except Error as error:
            raise BadSample(str(error)) from error
        except Exception as error:  # whatever a user's data set raises
            raise BadSample(f"samples from {start} on cannot be read: {type(error).__name__}: {error}".replace("\n", " ")) from error

    with ThreadPoolExecutor(max(1, workers)) as threads:
        coming: deque[Future[tuple[int, Any]]] = deque()
        for start in range(0, len(dataset), size):
            coming.append(threads.submit(read, start))
            if len(coming) > workers:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _predict(request: Request, loaded: Loaded, member: Member, split: Split) -> Iterator[Any]:
    """The rows of every batch; says from time to time how far it is."""
    task, options, dataset = request.task, request.options, request.task.dataset(split, loaded.transform)
    begin = said = time.monotonic()
    row, rows = 0, len(dataset)
    for count, batch in _batches(task, dataset, options.batch_size, options.workers):
        yield task.rows(_forward(task, loaded.network, task.inputs(batch, options.device), options), batch, options)
        row, now = row + count, time.monotonic()
        if now - said >= 10.0 or row == rows:
            said, rate = now, row / max(now - begin, 1e-9)
            request.say(f"{member.name} {split.name}: {row:,} of {rows:,} rows, {rate:,.0f} a second, {(rows - row) / rate:.0f} s left")


def _text_of(error: BaseException, options: Any) -> str:
    """One line; of what a network or a user's code raised, with the last place that is not PyTorch's."""
    if isinstance(error, (Error, OSError)):
        return str(error)
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        return f"out of memory on {options.device} at batch size {options.batch_size}; use a smaller --batch-size"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
    return f"{type(error).__name__}: {str(error).strip()} ({frames[-1].filename}, line {frames[-1].lineno})".replace("\n", " ")
