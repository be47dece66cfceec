"""Ranks in the workers of Dask. Their messages use the connections between workers."""
from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import platform
import warnings
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt
from distributed import get_worker
from distributed.protocol import to_serialize

from . import _functions
from ._errors import Error, FileError, MismatchError
from ._library import version
from ._stack import Stack

Bytes = npt.NDArray[np.uint8]
WAITING, RUNNING, ENDED = range(3)
_FEW = 4  # up to this many ranks, each sends to all others
_LEFT = 60  # seconds after which the messages of a lost client are removed
_HELD = 1 << 27  # bytes of waiting messages beyond which a rank waits for the receivers


class Stopped(FileError):
    """This rank ended because another one failed, ended or was stopped; the text names it. lost: a worker that is gone."""

    lost: Optional[str] = None


class Failure:
    """The failure of a rank, as sent to the client."""

    def __init__(self, rank: int, error: BaseException) -> None:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = Error(f"{type(error).__name__}: {error}")
        self.rank = rank
        self.error = error
        self.lost = getattr(error, "lost", None)
        self.told = isinstance(error, Stopped) or str(error).startswith("rank ")  # of another rank, or by all

    def text(self, hosts: Sequence[str]) -> str:
        """The error with the rank that it comes from."""
        if self.told:
            return str(self.error)
        kind = "" if isinstance(self.error, Error) else f"{type(self.error).__name__}: "
        return f"rank {self.rank} on {hosts[self.rank]}: {kind}{self.error}"


def gone(rank: int, host: str, address: str) -> str:
    """The message for a lost worker."""
    return (
        f"rank {rank} on {host} ended or cannot be reached (worker {address}); if nobody killed the worker, it ran out of memory "
        "or the network failed: see its log"
    )


class Post:
    """The messages of one rank to others, on the event loop of its worker. They wait here until the others fetch them, so that
    a waiting rank notices when the worker of the sender ends."""

    def __init__(self, job: str, worker: Any) -> None:
        self.name = f"corestack-{job}"
        self.worker = worker
        self.phase = WAITING  # of the rank
        self.messages = 0  # received so far
        self.over: Optional[str] = None  # why the ranks must end
        self._places: dict[tuple[int, int], asyncio.Future[Any]] = {}  # by rank and number
        self._held = 0
        self._taken = asyncio.Event()
        self._closing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        worker.handlers[self.name] = self.give

    def _place(self, to: int, number: int) -> "asyncio.Future[Any]":
        if (to, number) not in self._places:
            self._places[to, number] = asyncio.get_running_loop().create_future()
        return self._places[to, number]

    async def give(self, to: int, number: int) -> dict[str, Any]:
        """Give another rank its message, once it exists: the handler that others call."""
        arrays = None
        if self.over is None or self._place(to, number).done():
            arrays = await self._place(to, number)
        self._places.pop((to, number), None)
        if arrays is None:
            return {"over": self.over}
        self._held -= sum(array.nbytes for array in arrays)
        self._taken.set()
        return {"arrays": [to_serialize(array) for array in arrays]}

    async def put(self, to: int, number: int, arrays: Sequence[Bytes], wait: bool) -> None:
        """Keep arrays for another rank. wait: until there is room."""
        while wait and self._held > _HELD and self.over is None:
            self._taken.clear()
            await self._taken.wait()
        if self.over is not None:
            raise Stopped(self.over)
        self._held += sum(array.nbytes for array in arrays)
        self._place(to, number).set_result(tuple(arrays))

    async def take(self, wanted: Sequence[tuple[str, int, str]], rank: int) -> list[list[Bytes]]:
        """Fetch the messages of other ranks for this one, `rank`. wanted: address and number of each message, and the error if
        that rank is lost."""
        if self.over is not None:
            raise Stopped(self.over)
        asking = asyncio.gather(*[self._ask(address, rank, number, missing) for address, number, missing in wanted])
        await asyncio.wait({asking, self._closing}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            asking.cancel()  # which may take long where a worker does not answer
            raise Stopped(self.over)
        taken: list[list[Bytes]] = asking.result()
        self.messages += len(taken)
        return taken

    async def _ask(self, address: str, rank: int, number: int, missing: str) -> list[Bytes]:
        try:
            reply = await getattr(self.worker.rpc(address), self.name)(to=rank, number=number)
        except OSError:
            reply = None
        if reply is None:
            stopped = Stopped(missing)
            stopped.lost = address
            raise stopped
        if "arrays" not in reply:
            raise Stopped(reply["over"])
        return list(reply["arrays"])

    def close(self, why: str) -> None:
        """End this rank, and those that wait for it."""
        self.over = self.over or why
        for place in self._places.values():
            if not place.done():
                place.set_result(None)
        self._taken.set()
        if not self._closing.done():
            self._closing.set_result(None)

    def ended(self, *_progress: object) -> bool:
        """The progress function of the fit: raises if it must end."""
        if self.over is not None:
            raise Stopped(self.over)
        return False


_POSTS: dict[tuple[str, str], Post] = {}  # by job and worker


def open_post(job: str, client_version: str, dask_worker: Any) -> tuple[str, int, int]:
    """Prepare a worker, on its event loop. Returns the name of its host, its threads, and its memory limit (0: none)."""
    host = platform.node()
    if client_version != version:
        raise MismatchError(
            f"the worker {dask_worker.address} on {host} has corestack {version} and the client {client_version}; install the "
            "same version on all"
        )
    _POSTS[job, dask_worker.address] = Post(job, dask_worker)
    limit = getattr(getattr(dask_worker, "memory_manager", None), "memory_limit", None)
    return host, int(dask_worker.state.nthreads), int(limit or 0)


def is_free() -> None:
    """A task that shows that the worker has a free thread for its rank."""


def phase_of(job: str, dask_worker: Any) -> int:
    """The phase of the rank on a worker."""
    post = _POSTS.get((job, dask_worker.address))
    return ENDED if post is None else post.phase


def close_post(job: str, why: str, dask_worker: Any) -> None:
    post = _POSTS.get((job, dask_worker.address))
    if post is not None:
        post.close(why)


def remove_post(job: str, dask_worker: Any) -> None:
    post = _POSTS.pop((job, dask_worker.address), None)
    if post is not None:
        post.close("the fit is over")
        dask_worker.handlers.pop(post.name, None)


def _on_loop(worker: Any, coroutine: Any) -> Any:
    """The result of a coroutine that the worker's event loop runs."""
    loop = worker.loop.asyncio_loop
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    while True:
        try:
            return future.result(1)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            if not loop.is_running():
                raise Stopped(f"the worker {worker.address} was closed") from None


def _pickled(value: Any) -> Bytes:
    return np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), np.uint8)


class Communicator:
    """The `comm` of corestack.fit, in the thread of a rank."""

    def __init__(self, post: Post, rank: int, addresses: Sequence[str], hosts: Sequence[str]) -> None:
        self.rank = rank
        self.size = len(addresses)
        self._post = post
        self._addresses = addresses
        self._hosts = hosts
        self._put = [0] * self.size  # messages so far
        self._took = [0] * self.size

    def _pass(
        self, arrays: Sequence[Bytes], to: Sequence[int] = (), sources: Sequence[int] = (), wait: bool = False
    ) -> list[list[Bytes]]:
        """Send arrays to some ranks, and receive those of others."""

        async def hop() -> list[list[Bytes]]:
            for rank in to:
                self._put[rank] += 1
                await self._post.put(rank, self._put[rank], arrays, wait)
            wanted = []
            for rank in sources:
                self._took[rank] += 1
                address = self._addresses[rank]
                wanted.append((address, self._took[rank], gone(rank, self._hosts[rank], address)))
            return await self._post.take(wanted, self.rank) if wanted else []

        found: list[list[Bytes]] = _on_loop(self._post.worker, hop())
        return found

    def allgather(self, value: Any) -> list[Any]:
        """The values of all ranks: in one round for few ranks, else in log2(ranks) rounds."""
        parts = [_pickled(value)]  # of this rank and those after it
        if self.size <= _FEW:
            others = [(self.rank + step) % self.size for step in range(1, self.size)]
            parts += [part for (part,) in self._pass(parts, others, others)]
        while len(parts) < self.size:
            step = len(parts)
            ours = parts[: self.size - step]
            parts += self._pass(ours, [(self.rank - step) % self.size], [(self.rank + step) % self.size])[0]
        return [pickle.loads(parts[(rank - self.rank) % self.size].data) for rank in range(self.size)]

    def Bcast(self, array: npt.NDArray[Any], root: int = 0) -> None:
        """Send the array of one rank to all, along a binomial tree."""
        to = array.reshape(-1).view(np.uint8)
        place, step = (self.rank - root) % self.size, 1
        while step < self.size and place % (2 * step) == 0:
            step *= 2
        if place > 0:
            ((data,),) = self._pass((), (), [(self.rank - step) % self.size])
            to[:] = data
        else:
            data = to.copy()
        while step > 1:
            step //= 2
            if place + step < self.size:
                self._pass([data], [(self.rank + step) % self.size], wait=True)

    def send(self, value: Any, dest: int, tag: int = 0) -> None:
        self._pass([_pickled(value)], [dest])

    def recv(self, source: int, tag: int = 0) -> Any:
        return pickle.loads(self._pass((), (), [source])[0][0].data)


def run_rank(
    job: str,
    rank: int,
    addresses: Sequence[str],
    hosts: Sequence[str],
    names: Optional[Sequence[str]],
    preds: Any,
    per_row: dict[str, Any],
    arguments: dict[str, Any],
) -> Union[Stack, Failure, None]:
    """The task of one worker. Rank 0 returns the stack."""
    worker = get_worker()
    post = _POSTS.get((job, worker.address))
    if post is None:
        return Failure(rank, Stopped(gone(rank, hosts[rank], worker.address)))
    post.phase = RUNNING
    try:
        post.ended()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client has them
            members = preds if names is None else dict(zip(names, preds))
            stack = _functions.fit(
                members, **per_row, **arguments, progress=post.ended, comm=Communicator(post, rank, addresses, hosts)
            )
        return stack if rank == 0 else None
    except BaseException as error:
        failure = Failure(rank, error)
        worker.loop.asyncio_loop.call_soon_threadsafe(post.close, failure.text(hosts))
        return failure
    finally:
        post.phase = ENDED
        loop = worker.loop.asyncio_loop
        loop.call_soon_threadsafe(loop.call_later, _LEFT, remove_post, job, worker)
