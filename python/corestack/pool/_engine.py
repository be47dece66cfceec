"""The first process of an export: settles what the pool holds, runs members on devices, writes the manifest last.

In the pool's folder `.export/` keeps pool.json (head, order), splits/SPLIT.json and members/MEMBER.json, so that a run can
go on after a kill, and later runs can add members and splits.
"""
from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from . import _worker
from ._files import WORK, Lock, file_name, read_json, write_json
from ._task import Member, Options, Split, Task

_HERE = ("device", "workers", "passes", "timings")  # options that do not change predictions


@dataclass(frozen=True)
class Request:
    """One run of the command."""

    folder: Path
    task: Task
    members: tuple[Member, ...]
    splits: tuple[Split, ...]
    options: Options
    devices: tuple[str, ...] = ("cpu",)  # one process for each entry; an entry may come twice
    quiet: bool = False


class Failed(InputError):
    """Members that could not be finished."""


def changed(old: dict[str, Any], new: dict[str, Any]) -> Optional[str]:
    """The first setting that differs, in words."""
    for key in [*old, *(k for k in new if k not in old)]:
        if old.get(key) != new.get(key):
            words = key.replace("_", " ")
            before, after = (json.dumps(d.get(key), ensure_ascii=False) for d in (old, new))
            if max(len(before), len(after)) > 80:
                return f"{words} changed"
            return f"{words} was {before} and is now {after}"
    return None


class Pool:
    """The records of a pool's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / WORK
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; a pool is a folder")
        self.content: dict[str, Any] = read_json(self.work / "pool.json") or {}
        if not self.content and (folder / "pool.json").exists():
            raise InputError(f"{folder / 'pool.json'}: this pool was not made by this command; give a new folder")
        if folder.is_dir() and not self.work.exists():
            other = next((p for p in sorted(folder.iterdir()) if p.suffix in (".npy", ".json")), None)
            if other is not None:
                raise InputError(f"{other}: this file was not made by this command and might be overwritten; give a new folder")
        if not any(self._begun(s) for s in self.content.get("splits", ())):
            self.content = {}  # an earlier run failed before it predicted anything: nothing depends on its settings

    @property
    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = self.content.get("head", {})
        return found

    def member(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = read_json(_worker.record_path(self.folder, file_name(name))) or {}
        return found

    def split(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.work / "splits" / f"{file_name(name)}.json") or {}
        return found

    def members(self) -> tuple[Member, ...]:
        """As they were named before, without those that never ran."""
        records = [self.member(name) for name in self.content.get("members", ())]
        return tuple(Member(**record["member"]) for record in records if "cost" in record)

    def settle(self, request: Request) -> list[tuple[Split, Options, str]]:
        """Writes the records of what is new, and refuses what differs from what is there."""
        task = request.task
        if not self.content:
            for record in [*self.work.glob("members/*.json"), *self.work.glob("splits/*.json")]:
                record.unlink()
        head = task.head()
        if self.content:
            # Optional keys can be added later and need not be given again.
            head = {k: head.get(k, self.head.get(k)) for k in [*self.head, *(k for k in head if k not in self.head)]}
        if self.content and (what := changed(self.head, {k: head[k] for k in self.head})):
            raise InputError(f"{self.folder}: {what}; a pool has one task and one list of classes: give a new folder")
        _names("member", [m.name for m in request.members])
        _names("split", [s.name for s in request.splits])
        for kind, names in (("members", [m.name for m in request.members]), ("splits", [s.name for s in request.splits])):
            taken = {file_name(n): n for n in self.content.get(kind, ())}
            for name in names:
                if taken.setdefault(file_name(name), name) != name:
                    raise InputError(f"{name} and {taken[file_name(name)]} would have the same files; use other names")
        settled = [self._settle_split(split, request) for split in request.splits]
        self.content = {
            "head": head,
            "members": _union(self.content.get("members", []), [m.name for m in request.members]),
            "splits": _union(self.content.get("splits", []), [s.name for s in request.splits]),
        }
        for member in request.members:
            self._settle_member(member, request)
        write_json(self.work / "pool.json", self.content)
        return settled

    def _begun(self, split: str) -> bool:
        """Whether there is a prediction of any member."""
        for name in self.content.get("members", ()):
            journal = self.work / f"{file_name(name)}.{file_name(split)}.journal"
            if split in self.member(name).get("splits", ()):
                return True
            if journal.exists() and journal.read_bytes().count(b"\n") > 1:
                return True
        return False

    def _settle_split(self, split: Split, request: Request) -> tuple[Split, Options, str]:
        known = self.split(split.name)
        options = request.options
        if options.threads == 0:
            options = replace(options, threads=known["settings"]["threads"] if known else _threads(request.devices))
        settings = {k: v for k, v in asdict(options).items() if k not in _HERE}
        settings["device"] = options.device.split(":")[0]
        settings.update(request.task.identity(split))
        if known and known["settings"] != settings and not self._begun(split.name):
            known = {}
            for journal in self.work.glob(f"*.{file_name(split.name)}.journal"):
                journal.unlink()
        if known and (what := changed(known["settings"], settings)):
            raise InputError(
                f"{self.folder}: split {split.name} was begun with other settings: {what}; give the same settings, or a new folder"
            )
        if not known:
            entry = {**request.task.write_split(split, self.folder), **split.entry}
            write_json(self.work / "splits" / f"{file_name(split.name)}.json", {"settings": settings, "entry": entry})
        return split, options, _worker.settings_hash(settings)

    def _settle_member(self, member: Member, request: Request) -> None:
        record = self.member(member.name)
        settings = request.task.member_identity(member)
        if record and (what := changed(record["settings"], settings)):
            raise InputError(
                f"{self.folder}: member {member.name} was begun with other settings: {what}; "
                "give it another name (NAME=MODEL), or a new folder"
            )
        asked = _union(record.get("asked", []), [s.name for s in request.splits])
        if not record:
            record = {"member": asdict(member), "settings": settings, "splits": {}}
        if record.get("asked") != asked:
            record["asked"] = asked
            write_json(_worker.record_path(self.folder, file_name(member.name)), record)

    def write_manifest(self, extension: str) -> list[str]:
        """Returns the names of members that are left out, because predictions are missing."""
        models, missing = [], []
        for name in self.content["members"]:
            record = self.member(name)
            if "cost" not in record or any(s not in record["splits"] for s in record["asked"]):
                missing.append(name)
                continue
            files = {s: f"{file_name(name)}.{file_name(s)}{extension}" for s in self.content["splits"] if s in record["splits"]}
            models.append({"name": name, **record["cost"], "predictions": files})
        splits = {name: self.split(name)["entry"] for name in self.content["splits"]}
        manifest = {"corestack_pool": 1, **self.head, "splits": splits, "models": models}
        path = self.folder / "pool.json"
        if read_json(path) != manifest:
            write_json(path, manifest)
        return missing


def _names(what: str, names: list[str]) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"{what} {name} is named twice; give each another name with NAME=...")


def _union(old: list[str], new: list[str]) -> list[str]:
    return [*old, *(name for name in new if name not in old)]


def _threads(devices: tuple[str, ...]) -> int:
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // max(1, sum(d == "cpu" for d in devices))) if "cpu" in devices else 1


def export(request: Request) -> None:
    """Makes or goes on with the pool. InputError: one line for the user, and no manifest for what is not finished."""
    for member in request.members:
        request.task.check(member)  # before anything is written
    with Lock(request.folder / WORK / "lock"):
        pool = Pool(request.folder)
        settled = pool.settle(request)
        failures = _Run(request, pool, settled).all()
        if failures:
            raise Failed("\n".join(failures))
        for name in pool.write_manifest(request.task.extension()):
            _print(request, f"{name} is not finished and is left out of the manifest; name it again to go on with it")
    _print(request, f"{request.folder / 'pool.json'} is written")


def _print(request: Request, text: str) -> None:
    if not request.quiet:
        print(text, file=sys.stderr, flush=True)


class _Run:
    """Members on devices, one process for each member; a device that is free takes the next member."""

    def __init__(self, request: Request, pool: Pool, settled: list[tuple[Split, Options, str]]) -> None:
        self.request, self.settled = request, settled
        self.left = [m for m in request.members if self._is_open(pool.member(m.name))]
        self.failures: list[str] = []
        self.running: dict[Any, tuple[Any, Member, str]] = {}
        self.begun: dict[tuple[str, str], tuple[float, int]] = {}
        self.said: dict[tuple[str, str], float] = {}

    def _is_open(self, record: dict[str, Any]) -> bool:
        return "cost" not in record or any(s.name not in record["splits"] for s, _, _ in self.settled)

    def all(self) -> list[str]:
        if not self.left:
            return []
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["corestack.pool._worker", "torch"])
        free = list(self.request.devices)
        try:
            while self.left or self.running:
                while self.left and free:
                    self._start(context, self.left.pop(0), free.pop(0))
                for pipe in multiprocessing.connection.wait(list(self.running), timeout=1.0):
                    device = self._listen(pipe)
                    if device is not None:
                        free.append(device)
        finally:
            for process, _, _ in self.running.values():
                process.kill()
                process.join()
        return self.failures

    def _start(self, context: Any, member: Member, device: str) -> None:
        request = self.request
        job = _worker.Job(request.folder, request.task, member, file_name(member.name), tuple(self.settled),
                          replace(request.options, device=device, threads=self.settled[0][1].threads))  # fmt: skip
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker.main, args=(job, theirs))
        process.start()
        theirs.close()
        self.running[ours] = process, member, device
        _print(request, f"{member.name}: begun on {device}")

    def _listen(self, pipe: Any) -> Optional[str]:
        """The device, if its process has ended."""
        process, member, device = self.running[pipe]
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            message = {"end": "crash"}
        if "row" in message:
            self._progress(member, message)
        if "end" not in message:
            return None
        process.join()
        del self.running[pipe]
        pipe.close()
        if message["end"] == "data":
            raise InputError(message["text"])
        if message["end"] == "input":
            self._fail(member, message["text"])
        if message["end"] == "crash":
            how = f"killed by signal {-process.exitcode}" if (process.exitcode or 0) < 0 else f"exit {process.exitcode}"
            self._fail(member, f"its process ended unexpectedly ({how}); was there too little memory?" if "signal" in how
                       else f"its process ended unexpectedly ({how}); the reason is above")  # fmt: skip
        return device

    def _fail(self, member: Member, text: str) -> None:
        line = text if text.startswith(member.name) else f"{member.name}: {text}"
        self.failures.append(line)

    def _progress(self, member: Member, message: dict[str, Any]) -> None:
        key, now = (member.name, message["split"]), time.monotonic()
        row, rows = message["row"], message["rows"]
        if "resumed" in message:
            self.begun[key], self.said[key] = (now, row), now
            if 0 < row:
                _print(self.request, f"{member.name} {message['split']}: {row:,} of {rows:,} rows are there already")
            return
        begin, first = self.begun[key]
        rate = (row - first) / max(now - begin, 1e-9)
        if row == rows:
            _print(self.request, f"{member.name} {message['split']}: {rows:,} rows, {rate:,.0f} a second")
        elif now - self.said[key] >= 10.0:
            self.said[key] = now
            left = (rows - row) / max(rate, 1e-9)
            _print(self.request, f"{member.name} {message['split']}: {row:,} of {rows:,} rows, {rate:,.0f} a second, "
                                 f"{_duration(left)} left")  # fmt: skip


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
