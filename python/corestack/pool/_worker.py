"""One member in one process: load, measure, predict batch by batch. Everything is kept as it is finished."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterator

from .._errors import Error, InputError
from ._files import WORK, Journal, Lock, file_name, read_json, write_json
from ._task import Member, Options, Split, Task

Say = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Job:
    folder: Path
    task: Task
    member: Member
    file: str  # the member's name as file names have it
    splits: tuple[tuple[Split, Options, str], ...]  # with the hash of its settings
    options: Options  # of this run: device, passes


class BadSample(InputError):
    """An input cannot be read: the same for every member, so the whole run ends."""


class Broken:
    """A sample that cannot be read: its text reaches the user unchanged from the reading process."""

    def __init__(self, text: str) -> None:
        self.text = text


class Guarded:
    """A data set whose errors are samples."""

    def __init__(self, dataset: Any, start: int) -> None:
        self.dataset, self.start = dataset, start

    def __len__(self) -> int:
        return len(self.dataset) - self.start

    def __getitem__(self, number: int) -> Any:
        try:
            return self.dataset[self.start + number]
        except Error as error:
            return Broken(str(error))
        except Exception as error:  # whatever a user's data set raises
            return Broken(f"sample {self.start + number} cannot be read: {type(error).__name__}: {error}".replace("\n", " "))


class Collate:
    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, samples: list[Any]) -> Any:
        for sample in samples:
            if isinstance(sample, Broken):
                return sample
        try:
            return len(samples), self.task.collate(samples)
        except Error as error:
            return Broken(str(error))
        except Exception as error:
            return Broken(f"samples cannot be made into a batch: {type(error).__name__}: {error}".replace("\n", " "))


def batches(task: Task, dataset: Any, start: int, options: Options) -> Iterator[tuple[int, Any]]:
    """(rows, batch) in order, from row `start`."""
    from torch.utils.data import DataLoader

    if start >= len(dataset):
        return
    loader = DataLoader(Guarded(dataset, start), options.batch, collate_fn=Collate(task), num_workers=options.workers,
                        pin_memory=options.device.startswith("cuda"), multiprocessing_context="fork" if options.workers else None)  # fmt: skip
    for batch in loader:
        if isinstance(batch, Broken):
            raise BadSample(batch.text)
        yield batch[0], batch[1]


def settle(options: Options) -> None:
    """The same bytes from every run."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = options.compute == "tf32"
    torch.backends.cudnn.allow_tf32 = options.compute == "tf32"
    if options.device.startswith("cuda"):
        torch.cuda.set_device(options.device)


@contextlib.contextmanager
def forward_mode(options: Options) -> Iterator[None]:
    import torch

    kind = torch.device(options.device).type
    half = options.compute in ("float16", "bfloat16")
    with torch.no_grad():
        if half:
            with torch.autocast(kind, dtype=getattr(torch, options.compute)):
                yield
        else:
            yield


class Record:
    """What is known of a member: settings, the manifest's entry, and finished splits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = read_json(path) or {}

    def save(self) -> None:
        write_json(self.path, self.content)


def record_path(folder: Path, file: str) -> Path:
    return folder / WORK / "members" / f"{file}.json"


def run(job: Job, say: Say) -> None:
    """Does what is left to do for the member."""
    with Lock(folder_lock(job)):
        record = Record(record_path(job.folder, job.file))
        for split, _, _ in job.splits:
            if split.name in record.content["splits"]:
                journal_path(job, split).unlink(missing_ok=True)
        left = [s for s in job.splits if s[0].name not in record.content["splits"]]
        if not left and "cost" in record.content:
            return
        settle(job.options)
        task = job.task
        loaded = task.load(job.member, replace(left[0][1] if left else job.options, device=job.options.device))
        network = loaded.network.eval().to(job.options.device)
        if "cost" not in record.content:
            cost = measure(job, network, loaded.transform)
            record.content["cost"] = {"family": job.member.family or loaded.family, **cost}
            record.save()
        for split, options, settings in left:
            predict(job, split, replace(options, device=job.options.device, workers=job.options.workers), settings, loaded, say)
            record.content["splits"][split.name] = settings
            record.save()
            journal_path(job, split).unlink(missing_ok=True)
            say({"done": split.name})


def folder_lock(job: Job) -> Path:
    return job.folder / WORK / f"{job.file}.lock"


def journal_path(job: Job, split: Split) -> Path:
    return job.folder / WORK / f"{job.file}.{file_name(split.name)}.journal"


def measure(job: Job, network: Any, transform: Any) -> dict[str, Any]:
    from . import _cost

    split, options, _ = job.splits[0]
    options = replace(options, device=job.options.device, workers=0, passes=job.options.passes)
    dataset = job.task.dataset(split, transform)
    cost: dict[str, Any] = {"params": _cost.params(network)}
    if len(dataset) == 0:
        return cost
    single = Collate(job.task)([Guarded(dataset, 0)[0]])
    if isinstance(single, Broken):
        raise BadSample(single.text)
    counted = _cost.flops(job.task, network, job.task.inputs(single[1], options.device))
    if counted > 0:  # none are known of quantised networks
        cost = {"flops": counted, **cost}
    if job.options.timings:
        rows, batch = next(batches(job.task, dataset, 0, options))
        inputs = job.task.inputs(batch, options.device)
        with forward_mode(options):
            cost.update(_cost.timings(job.task, network, inputs, rows, options))
    return cost


def predict(job: Job, split: Split, options: Options, settings: str, loaded: Any, say: Say) -> None:
    task = job.task
    dataset = task.dataset(split, loaded.transform)
    total = len(dataset)
    end = task.extension()
    part = job.folder / WORK / f"{job.file}.{file_name(split.name)}{end}"
    final = job.folder / f"{job.file}.{file_name(split.name)}{end}"
    sink = task.sink(part, final, split, options)
    journal = Journal(journal_path(job, split), settings)
    try:
        done = sink.resume(journal.states)
        journal.keep(done)
        row = min(total, done * options.batch)
        say({"split": split.name, "row": row, "rows": total, "resumed": row})
        settle(options)
        last = time.monotonic()
        with forward_mode(options):
            for count, batch in batches(task, dataset, row, options):
                outputs = task.infer(loaded.network, task.inputs(batch, options.device))
                journal.add(sink.write(row, task.rows(outputs, batch, options)))
                row += count
                if time.monotonic() - last >= 1.0 or row == total:
                    last = time.monotonic()
                    say({"split": split.name, "row": row, "rows": total})
        sink.finish()
    finally:
        sink.close()
        journal.close()


def settings_hash(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def die_with_parent(pipe: Any) -> None:
    """A killed export leaves no process that goes on writing: the pipe ends with the first process."""

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            pipe.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(job: Job, pipe: Any) -> None:
    """The process. Sends what it has done, and at last {"end": ...}."""
    die_with_parent(pipe)
    warnings.filterwarnings("ignore", module=r"torch(vision)?\.")  # about the number of readers, and the like
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process stops this one
    try:
        run(job, pipe.send)
        pipe.send({"end": "done"})
    except BadSample as error:
        pipe.send({"end": "data", "text": str(error)})
    except (Error, OSError) as error:
        pipe.send({"end": "input", "text": text_of(error, job.folder)})
    except (Exception, SystemExit) as error:  # SystemExit: a user's code calls sys.exit
        pipe.send({"end": "input", "text": in_one_line(error, job)})


def text_of(error: BaseException, folder: Any) -> str:
    """Of an error of the system: the file, or the pool's folder, and what is wrong with it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{folder if error.filename is None else error.filename}: {error.strerror}"
    return str(error)


def in_one_line(error: BaseException, job: Job) -> str:
    """What a network or a user's code raised, with the last place that is not PyTorch's."""
    if isinstance(error, MemoryError) or "out of memory" in str(error):
        return f"out of memory on {job.options.device} at batch size {job.splits[0][1].batch}; use a smaller --batch-size"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error).strip()}{place}".replace("\n", " ")
