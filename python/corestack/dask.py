"""Fit and predict in the workers of a Dask cluster, with one rank of the library in each (docs/clusters.md).

>>> client = distributed.Client("tcp://scheduler:8786")
>>> stack = corestack.dask.fit(client, {"a": a, "b": b}, y)        # Dask arrays (rows, classes), and labels
>>> p = corestack.dask.predict(client, stack, {"a": new_a, "b": new_b})
"""
from __future__ import annotations

import asyncio
import contextlib
import queue
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from . import _arrays, _functions, _values
from ._errors import ArgumentError, Error, FileError, InputError, MismatchError, OutOfMemoryError
from ._library import version
from ._stack import Stack
from ._types import Memory

try:
    import dask
    import dask.array as da
    from . import _workers
except ImportError as error:
    raise ImportError(
        f"corestack.dask needs dask and distributed, which cannot be imported ({error}): pip install 'corestack[dask]', or "
        "apt-get install python3-distributed"
    ) from error

__all__ = ["fit", "predict"]

_SECONDS = 0.5  # between checks of the workers
_ANSWER = 2.0  # seconds that a worker has to answer
_ENDING = 8.0  # seconds for ranks to end after a failure
_LEAST_MEMORY = 64 << 20  # that the library accepts


def fit(
    client: Any,
    preds: Any,
    y: Any = None,
    *,
    folds: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    domains: Any = None,
    workers: Optional[Sequence[str]] = None,
    start_timeout: float = 60.0,
    threads: Optional[int] = None,
    memory: Memory = None,
    **arguments: Any,
) -> Stack:
    """Fit a stack in the workers of a Dask cluster. The result is the stack that :func:`corestack.fit` returns for the same
    arrays.

    client: a distributed.Client. preds: a dict (by name) or list of Dask arrays (rows, classes), one Dask array (members,
    rows, classes), or the path of a pool that all workers can read. y, folds, groups, sample_weight, domains: Dask arrays or
    NumPy arrays. Chunks may have any size; each worker takes contiguous rows, about as many as the others. workers: addresses
    of the workers; by default all that the cluster has now.
    start_timeout: seconds to wait for workers that are busy with other tasks.
    threads, memory: of each rank; by default the threads of its worker, and a quarter of the worker's memory limit.
    Other arguments and options are those of :func:`corestack.fit`.
    """
    for name in ("comm", "progress"):
        if name in arguments:
            raise ArgumentError(f"{name}: is not an argument of corestack.dask.fit; remove it")
    if getattr(client, "asynchronous", None) is not False:
        raise ArgumentError("client: give a distributed.Client that is not asynchronous")
    rows = _Rows(preds, {"y": y, "folds": folds, "groups": groups, "sample_weight": sample_weight, "domains": domains})
    cluster = _Cluster(client, _addresses(client, workers), _values.real(start_timeout, "start_timeout"))
    bounds = rows.bounds(len(cluster.addresses))
    if bounds is not None:
        del cluster.addresses[len(bounds) - 1 :]
    with cluster.opened():
        parts = [rows.part(r, bounds) for r in range(len(cluster.addresses))]
        local = cluster.placed(parts)
        outcomes = cluster.run(rows, local, {"threads": threads, "memory": memory, **arguments})
    stack: Stack = outcomes[0]
    _functions.warn_of_findings(stack, 3)
    return stack


def predict(
    client: Any,
    stack: Stack,
    preds: Any,
    *,
    domains: Any = None,
    output: Optional[str] = None,
    missing: Optional[str] = None,
    guard: str = "warn",
) -> Any:
    """Return what :meth:`Stack.predict` returns for the same arrays, as a Dask array that is computed block by block.

    client: the distributed.Client that will compute it; its workers get the stack now. preds: a dict or list of Dask arrays,
    at least of the kept members. domains: a Dask array. guard: "warn" or "off"; "warn" tests each block separately.
    """
    if guard not in ("warn", "off"):
        raise ArgumentError(f"guard: is {guard!r}; it must be 'warn' or 'off' (a correction would depend on the blocks)")
    members = _members(preds)
    if not isinstance(members, Mapping):
        names = stack._named(members, None)
        members = dict(zip(names, members))
    kept = [name for name in stack.kept if name in members]
    if missing is None and len(kept) < len(stack.kept):
        absent = next(name for name in stack.kept if name not in members)
        raise MismatchError(f"predictions: member '{absent}' is missing; the stack needs {', '.join(stack.kept)}")
    if not kept:
        raise MismatchError(f"predictions: none of the members {', '.join(stack.kept)} is given")
    arrays = [_columns_together(_dask_array(members[name], name), name) for name in kept]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    per_row = [] if domains is None else [_dask_array(domains, "domains")[:, None]]
    rows = arrays[0].chunks[0]
    for name, array in zip([*kept, "domains"], [*arrays, *per_row]):
        if array.shape[0] != arrays[0].shape[0]:
            raise MismatchError(f"{name}: has {array.shape[0]} rows, but {kept[0]} has {arrays[0].shape[0]}")
    arrays, per_row = ([array.rechunk({0: rows}) for array in some] for some in (arrays, per_row))
    told = {"output": output, "missing": missing, "guard": guard}
    one = stack.task == "regression" and stack.n_classes == 1
    shape: dict[str, Any] = {"drop_axis": 1} if one else {"chunks": (rows, (stack.n_classes,))}
    return da.map_blocks(
        _predicted_block,
        *arrays,
        *per_row,
        names=kept,
        stack=client.scatter(stack, broadcast=True, hash=False),
        arguments={name: value for name, value in told.items() if value is not None},
        dtype=np.float32,
        meta=np.empty((0,) * (1 if one else 2), np.float32),
        **shape,
    )


def _predicted_block(*blocks: Any, names: Sequence[str], stack: Stack, arguments: dict[str, Any]) -> Any:
    per_row = {"domains": blocks[-1][:, 0]} if len(blocks) > len(names) else {}
    return stack.predict(dict(zip(names, blocks)), threads=1, **per_row, **arguments)


# ---- rows ----------------------------------------------------------------------------------------


def _is_dask(value: Any) -> bool:
    return hasattr(value, "__dask_graph__")


def _dask_array(value: Any, what: str) -> Any:
    if isinstance(value, da.Array):
        return value
    if _is_dask(value):
        raise ArgumentError(f"{what}: is a {type(value).__name__}; give a Dask array, e.g. frame.to_dask_array(lengths=True)")
    return da.from_array(np.asarray(_arrays.loaded(value, what)))


def _columns_together(array: Any, what: str) -> Any:
    if array.ndim not in (1, 2):
        raise MismatchError(f"{what}: has shape {array.shape}; a member's predictions must be (rows, classes)")
    return array if array.ndim == 1 or len(array.chunks[1]) == 1 else array.rechunk({1: -1})


def _members(preds: Any) -> Any:
    """The predictions as a dict or list with one entry per member."""
    if isinstance(preds, da.Array):
        if preds.ndim != 3:
            raise MismatchError(f"predictions: has shape {preds.shape}; a single array must be (members, rows, classes)")
        return [preds[k] for k in range(preds.shape[0])]
    if isinstance(preds, Mapping):
        return {str(name): value for name, value in preds.items()}
    if not isinstance(preds, (list, tuple)):
        raise ArgumentError(f"predictions: is a {type(preds).__name__}; give a dict or list of Dask arrays")
    return list(preds)


class _Rows:
    """The arrays of a fit, and how their rows are divided among ranks."""

    def __init__(self, preds: Any, per_row: dict[str, Any]) -> None:
        self.names: Optional[list[str]] = None  # of members by name
        self.files = preds if _arrays.is_path(preds) or _arrays.are_paths(preds) else None
        self._per_row = per_row
        self._members: list[Any] = []
        if self.files is not None:
            if any(_is_dask(value) for value in per_row.values()):
                raise ArgumentError("y: Dask arrays need predictions in Dask arrays; give the path of a file")
            return
        members = _members(preds)
        if isinstance(members, Mapping):
            self.names = list(members)
            members = list(members.values())
        if not members:
            raise InputError("predictions: no members")
        names = self.names or _arrays.default_names(len(members))
        self._members = [_columns_together(_dask_array(value, name), name) for name, value in zip(names, members)]
        self._per_row = {name: None if value is None else self._column(value, name) for name, value in per_row.items()}
        given = {**dict(zip(names, self._members)), **{n: v for n, v in self._per_row.items() if v is not None}}
        for name, value in given.items():
            if np.isnan(value.shape[0]):
                raise ArgumentError(f"{name}: the sizes of its chunks are not known; call its compute_chunk_sizes() first")
        for name, value in given.items():
            if value.shape[0] != self._members[0].shape[0]:
                raise MismatchError(f"{name}: has {value.shape[0]} rows, but {names[0]} has {self._members[0].shape[0]}")
        if self._members[0].shape[0] == 0:
            raise InputError("predictions: no rows")

    @staticmethod
    def _column(value: Any, name: str) -> Any:
        """A column such as labels: a Dask array or a NumPy array."""
        if _is_dask(value):
            return _dask_array(value, name)
        found = np.asarray(_arrays.loaded(value, name))
        if found.ndim == 0:
            raise MismatchError(f"{name}: is {value!r}; there must be one for each row")
        return found

    def bounds(self, ranks: int) -> Optional[list[int]]:
        """First rows of the ranks, and the number of rows. Ranks begin at chunks of the first member if that gives each about
        the same number of rows. None for files."""
        if self.files is not None:
            return None
        rows = int(self._members[0].shape[0])
        ends = np.cumsum((0, *self._members[0].chunks[0]))
        ranks = min(ranks, rows)
        found = [0]
        for rank in range(1, ranks):
            even = rows * rank // ranks
            end = int(ends[np.argmin(np.abs(ends - even))])
            found.append(end if abs(end - even) * ranks * 10 <= rows and end > found[-1] else even)
        return [*found, rows]

    def part(self, rank: int, bounds: Optional[list[int]]) -> list[Any]:
        """The rows of a rank: the members, then the columns."""
        if bounds is None:
            return list(self._per_row.values())
        own = slice(bounds[rank], bounds[rank + 1])
        return [
            None if value is None else value[own].rechunk(-1) if _is_dask(value) else value[own]
            for value in (*self._members, *self._per_row.values())
        ]


# ---- workers -------------------------------------------------------------------------------------


def _addresses(client: Any, workers: Optional[Sequence[str]]) -> list[str]:
    known = list(client.nthreads())
    if not known:
        raise ArgumentError("client: its cluster has no workers; see client.wait_for_workers")
    if workers is None:
        return sorted(known)
    wanted = [workers] if isinstance(workers, str) else list(workers)
    for address in wanted:
        if address not in known:
            raise ArgumentError(f"workers: {address!r} is not the address of a worker; there are {', '.join(sorted(known))}")
    if not wanted or len(set(wanted)) < len(wanted):
        raise ArgumentError("workers: give each address once")
    return wanted


class _Cluster:
    """A fit on workers: starts the tasks of the ranks, one per worker, and watches them."""

    def __init__(self, client: Any, addresses: list[str], start_timeout: float) -> None:
        self.client = client
        self.addresses = addresses
        self.start_timeout = start_timeout
        self.job = uuid.uuid4().hex
        self._hosts: list[str] = []
        self._about: list[tuple[str, int, int]] = []
        self._running: list[Any] = []  # tasks of ranks that have not ended
        self._lost: set[str] = set()  # workers that others cannot reach

    def _submit(self, rank: int, function: Any, *arguments: Any) -> Any:
        return self.client.submit(
            function, *arguments, workers=[self.addresses[rank]], allow_other_workers=False, pure=False, retries=0,
            key=f"corestack-{function.__name__}-{rank}-{self.job}",
        )  # fmt: skip

    def _there(self) -> list[str]:
        """Workers of the fit that are alive."""
        known = self.client.nthreads()
        return [address for address in self.addresses if address in known and address not in self._lost]

    def _gone(self) -> Optional[str]:
        """A message that names a lost worker, or None."""
        there = set(self._there())
        for rank, address in enumerate(self.addresses):
            if address not in there:
                return _workers.gone(rank, self._hosts[rank] if self._hosts else "its host", address)
        return None

    def _done(self, futures: Sequence[Any]) -> Iterator[Optional[Any]]:
        """The futures as they end, and None from time to time. Raises if a worker is lost."""
        ended: "queue.Queue[Any]" = queue.Queue()
        for future in futures:
            future.add_done_callback(ended.put)
        left, look = len(futures), time.monotonic() + _SECONDS
        while left > 0:
            found = None
            with contextlib.suppress(queue.Empty):
                found = ended.get(timeout=_SECONDS)
                left -= 1
            if time.monotonic() >= look:
                gone = self._gone()
                if gone is not None:
                    raise FileError(gone)
                look = time.monotonic() + _SECONDS
            yield found

    def _not_started(self, address: str) -> Error:
        return Error(
            f"the worker {address} did not start its rank within {self.start_timeout:g} s: it is busy with other tasks; "
            "wait for them, or leave it out with workers=[...]"
        )

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Set up the messages of the ranks on each worker, and remove everything in the end."""
        why = "stopped on request"
        try:
            try:
                about = self.client.run(_workers.open_post, self.job, version, workers=self.addresses)
            except Exception as error:
                if "No module named" not in str(error):
                    raise
                raise ImportError(f"a worker cannot import corestack ({error}); install it on all workers") from error
            self._about = [about[address] for address in self.addresses]
            self._hosts = [host for host, _, _ in self._about]
            self._running = [self._submit(rank, _workers.is_free) for rank in range(len(self.addresses))]
            deadline = time.monotonic() + self.start_timeout
            for _ in self._done(self._running):
                late = [address for address, future in zip(self.addresses, self._running) if future.status == "pending"]
                if late and time.monotonic() > deadline:
                    raise self._not_started(late[0])
            self._running = []
            yield
        except Exception as error:
            gone = None
            if not isinstance(error, Error):
                with contextlib.suppress(OSError):  # of the scheduler
                    gone = self._gone()
            why = str(error) if gone is None else gone
            if gone is not None:  # the cause of the error
                raise FileError(gone) from error
            raise
        finally:
            self._end(why)

    def _end(self, why: str) -> None:
        """End running tasks, and remove what the fit left on workers."""
        running, self._running = self._running, []
        try:
            pending = [future for future in running if future.status == "pending"]
            if pending:
                self._tell(_workers.close_post, why)
                self.client.cancel(pending)
                self._wait_for_the_end()
            if self._tell(_workers.remove_post) is None:
                self._tell(_workers.remove_post)
        except (OSError, RuntimeError):  # the scheduler is gone; the first error is reported
            pass

    def _wait_for_the_end(self) -> None:
        """Wait until the ranks on live workers have ended."""
        deadline = time.monotonic() + _ENDING
        while time.monotonic() < deadline:
            phases = self._tell(_workers.phase_of)
            if phases is not None and _workers.RUNNING not in phases.values():
                return
            time.sleep(0.05)

    def _tell(self, function: Any, *arguments: Any) -> Optional[dict[str, Any]]:
        """Run a function of _workers on every live worker, and return the results. None if a worker does not answer: it ended,
        and the scheduler does not know yet. The others have run the function."""
        there = self._there()
        if not there:
            return {}

        async def told() -> Any:
            run = self.client.run(function, self.job, *arguments, workers=there, on_error="ignore")
            try:
                return await asyncio.wait_for(run, _ANSWER)
            except asyncio.TimeoutError:
                return None

        found: Optional[dict[str, Any]] = self.client.sync(told)
        return found

    def placed(self, parts: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The rows of each rank, computed on its worker."""
        local, futures = [], []
        for address, values in zip(self.addresses, parts):
            found = list(values)
            lazy = [k for k, value in enumerate(found) if _is_dask(value)]
            tasks = [found[k].to_delayed().reshape(-1)[0] for k in lazy]
            computed = self.client.compute(tasks, workers=[address], allow_other_workers=False)
            for k, future in zip(lazy, computed):
                found[k] = future
            arrays = [k for k, value in enumerate(found) if isinstance(value, np.ndarray)]
            for k in arrays:
                found[k] = self.client.scatter(found[k], workers=[address], hash=False)
            futures += computed
            local.append(found)
        for future in self._done(futures):
            if future is not None and future.status != "finished":
                raise self._unfinished(future)
        return local

    def run(self, rows: _Rows, local: Sequence[list[Any]], arguments: dict[str, Any]) -> list[Any]:
        """Run the ranks and return their results. Raises the failure of a rank."""
        columns = ("y", "folds", "groups", "sample_weight", "domains")
        futures = []
        for rank, values in enumerate(local):
            members, beside = values[: -len(columns)], dict(zip(columns, values[-len(columns) :]))
            preds = members if rows.files is None else rows.files
            futures.append(
                self._submit(
                    rank, _workers.run_rank, self.job, rank, self.addresses, self._hosts, rows.names, preds, beside,
                    self._for_rank(rank, arguments),
                )
            )  # fmt: skip
        self._running = futures
        failures = self._failures(futures)
        if failures:
            raise self._origin(failures)
        self._running = []
        return [future.result() for future in futures]

    def _failures(self, futures: Sequence[Any]) -> list["_workers.Failure"]:
        """The failures of ranks, or an empty list. After the first failure the other ranks are ended."""
        failures: list[_workers.Failure] = []
        waiting, deadline = True, time.monotonic() + self.start_timeout
        try:
            for future in self._done(futures):
                if future is not None and future.status != "finished":
                    raise self._unfinished(future)
                outcome = None if future is None else future.result()
                if isinstance(outcome, _workers.Failure):
                    if outcome.lost is not None:
                        self._lost.add(outcome.lost)
                    if not failures:
                        self._tell(_workers.close_post, outcome.text(self._hosts))
                        deadline = time.monotonic() + _ENDING
                    failures.append(outcome)
                phases = self._tell(_workers.phase_of) if waiting and not failures else None
                late = [address for address in self.addresses if phases and phases.get(address) == _workers.WAITING]
                waiting = waiting and (phases is None or len(late) > 0)
                if time.monotonic() > deadline and failures:
                    break
                if time.monotonic() > deadline and late:
                    raise self._not_started(late[0])
        except FileError:
            if not failures:
                raise
        return failures

    def _unfinished(self, future: Any) -> BaseException:
        """Why a task did not finish: it failed, or a worker with its rows was lost."""
        gone = self._gone()
        if gone is not None:
            return FileError(gone)
        if future.status == "error":
            error: BaseException = future.exception()
            return error.with_traceback(future.traceback())
        return Error(f"the task {future.key} was cancelled; did another program restart the cluster?")

    def _origin(self, failures: Sequence["_workers.Failure"]) -> BaseException:
        """The failure that caused the others, as an error that names its rank, unless all ranks failed alike."""
        own = sorted((failure for failure in failures if not failure.told), key=lambda failure: failure.rank)
        if not own:
            error = failures[0].error
            return FileError(str(error)) if isinstance(error, _workers.Stopped) else error
        error, text = own[0].error, own[0].text(self._hosts)
        if len(own) == len(self.addresses) and len({(type(f.error), str(f.error)) for f in own}) == 1:
            return error
        if isinstance(error, Error):
            return type(error)(text)
        if isinstance(error, MemoryError):
            return OutOfMemoryError(text)
        return FileError(text) if isinstance(error, OSError) else Error(text)

    def _for_rank(self, rank: int, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, with the threads and memory of the rank's worker as defaults."""
        _, threads, limit = self._about[rank]
        found = dict(arguments)
        if found["threads"] is None:
            found["threads"] = threads
        if found["memory"] is None and limit > 0:
            found["memory"] = max(limit // 4, _LEAST_MEMORY)
        return found
