"""One call of the library: a context of its own, with log, progress and interrupts, freed at the end."""
from __future__ import annotations

import ctypes
import logging
import platform
import re
import signal
import threading
from collections.abc import Mapping
from typing import Any, Callable, Optional, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import _library as c
from . import _methods, _values
from ._errors import BY_STATUS, ArgumentError, Error

logger = logging.getLogger("corestack")
logger.addHandler(logging.NullHandler())  # as libraries do: what is said goes nowhere until someone listens
# That of `signal` makes a member of an enumeration of what it finds, which takes long.
_getsignal: Any = __import__("_signal").getsignal
_C_NAME = re.compile(r"^cst_\w+: ")  # of the function of C, which a user of Python did not call
_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING}

_ARGUMENT = 1  # CST_ERROR_ARGUMENT

# Arguments in which ranks may differ: data, which are compared where they are read, and resources of a process.
_OF_A_RANK = set(
    "self predicted preds own y folds groups order sample_weight domains reference_errors sets outside id_column label_column "
    "options keywords arguments threads memory progress comm".split()
)

T = TypeVar("T")
ProgressFunction = Callable[[str, int, int], Any]
Progress = Union[None, bool, ProgressFunction]


def _tqdm_progress(share: Callable[[], float]) -> tuple[Optional[ProgressFunction], Callable[[], None]]:
    """One bar for the call, where tqdm is installed. share: how much of it is done."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, lambda: None
    bars: list[Any] = []

    def close() -> None:
        while bars:
            bars.pop().close()

    def show(stage: str, done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(total=100, bar_format="{l_bar}{bar}| {elapsed}<{remaining}", leave=False))
        bars[0].set_description_str(stage, refresh=stage != bars[0].desc)
        bars[0].update(max(0, int(100 * share()) - bars[0].n))

    return show, close


_MESSAGE = 1 << 26  # bytes of a message; MPI counts them in an int
_AT_ONCE = 1 << 30  # bytes that all ranks may have together in one message


def _bytes_at(address: int, count: int) -> npt.NDArray[np.uint8]:
    """Memory of the library as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) if count else np.empty(0, np.uint8)


class Ranks:
    """The collectives of a communicator, for a session. The library builds all that it needs on `allgather`."""

    def __init__(self, comm: Any) -> None:
        for name in ("rank", "size", "Allgatherv", "Bcast"):
            if not hasattr(comm, name):
                raise ArgumentError(
                    f"comm: is a {type(comm).__name__} without '{name}'; give a communicator of mpi4py, e.g. MPI.COMM_WORLD"
                )
        self.comm = comm
        self.error: Optional[BaseException] = None  # what communication raised
        # The structure must live as long as the context: it keeps the callback.
        self.calls = c.Collectives(
            rank=comm.rank,
            size=comm.size,
            host=platform.node().encode(),
            allgather=dict(c.Collectives._fields_)["allgather"](self._allgather),
        )

    def _allgather(self, _user: object, part: int, count: int, everything: int, counts: Any) -> int:
        """The callback: it returns a failure to the library, and keeps the exception for the session."""
        try:
            sizes = [int(counts[rank]) for rank in range(self.comm.size)]
            ends = np.cumsum(sizes)
            whole = _bytes_at(everything, int(ends[-1]))
            own = whole[ends[self.comm.rank] - count : ends[self.comm.rank]]
            if count:
                ctypes.memmove(own.ctypes.data, part, count)
            if len(whole) <= _AT_ONCE:
                self.comm.Allgatherv(own.copy(), [whole, sizes])
            else:
                for rank, end in enumerate(ends):
                    for first in range(end - sizes[rank], end, _MESSAGE):
                        self.comm.Bcast(whole[first : min(first + _MESSAGE, end)], root=rank)
        except BaseException as error:
            self.error = self.error or error
            return 1
        return 0


class Session:
    """``with Session(...) as s``: objects made through it are freed with it, the last first."""

    def __init__(
        self,
        threads: Optional[int] = None,
        memory: Union[None, int, str] = None,
        progress: Progress = None,
        interrupts: bool = True,
        comm: Any = None,
        metric: Any = None,
    ) -> None:
        self._metric = metric
        self.ranks = None if comm is None else Ranks(comm)
        self._disagreed = False  # a rank failed, and all know
        self._interrupts = interrupts
        self._handlers: dict[int, tuple[Any, Any]] = {}  # by signal: the one that was there, and what stands for it
        self._keeps = False  # whether what a handler raises is kept until the library is back
        self._threads = 0 if threads is None else _values.integer(threads, "threads")
        self._memory = 0 if memory is None else _bytes(memory)
        self._close_bars: Callable[[], None] = lambda: None
        self._tell: Optional[ProgressFunction] = None
        if progress is True:
            self._tell, self._close_bars = _tqdm_progress(lambda: float(c.lib.cst_context_progress(self.context)))
        elif callable(progress):
            self._tell = progress
        elif progress is not None and progress is not False:
            raise ArgumentError(f"progress: is {_values.shown(progress)}; it must be True, False or a function")
        self._raised: Optional[BaseException] = None
        self.held: list[None] = []  # one for each owner beyond the first
        self._to_free: list[tuple[Any, ctypes.c_void_p]] = []
        self._log: Any = None
        self._progress: Any = None
        self._methods: Any = None
        self.context = ctypes.c_void_p()
        self.arrays: Any = None  # what a pool of the session reads

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Session":
        """That of a function, whose arguments are given by name; folds="time" becomes the option that it is."""
        if isinstance(given.get("folds"), str) and given["folds"] == "time":
            given.update(folds=None, options={**(given["options"] or {}), "folds.kind": "time"})
        metric = given.get("metric")
        for source in ("keywords", "options"):
            metric = given[source].get("metric", metric) if isinstance(given.get(source), Mapping) else metric
        return cls(given["threads"], given["memory"], given["progress"], comm=given.get("comm"), metric=metric)

    def __enter__(self) -> "Session":
        try:
            if self._interrupts and threading.current_thread() is threading.main_thread():
                self._watch_signals()
            status = c.lib.cst_context_create(ctypes.byref(self.context))
            if status != 0:
                raise BY_STATUS.get(status, Error)(c.lib.cst_status_text(status).decode())
            # The callbacks must live as long as the context.
            self._log = c.LOG_FN(self._on_log)
            c.lib.cst_context_set_log(self.context, self._log, None)
            if self._interrupts:  # without, handlers run when the call is back
                self._progress = c.PROGRESS_FN(self._on_progress)
                c.lib.cst_context_set_progress(self.context, self._progress, None)
            self.check(c.lib.cst_context_set_threads(self.context, self._threads))
            self.check(c.lib.cst_context_set_memory(self.context, self._memory))
            self._methods = _methods.add_to(self, self._metric)
            if self.ranks is not None:
                self.check(c.lib.cst_context_set_collectives(self.context, ctypes.byref(self.ranks.calls)))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *of: object) -> None:
        try:
            if of and of[1] is not None:
                self._agree(_ARGUMENT, str(of[1]))
            for free, pointer in reversed(self._to_free):
                free(self.context, pointer)
            self._to_free.clear()
            c.lib.cst_context_free(self.context)
            self.context = ctypes.c_void_p()
            self._log = self._progress = self._methods = None
            self._passing(self._close_bars)
        except BaseException as error:
            # Bars that cannot be closed are the lesser evil where the call fails; a handler is always heard.
            if not isinstance(error, Exception) or not of or of[0] is None:
                self.keep_error(error)
        finally:
            self._put_back()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _put_back(self) -> None:
        """The handlers that were there. One that is back already may raise meanwhile: SIGINT's is the last."""
        for number in sorted(self._handlers, key=lambda one: one == signal.SIGINT):
            before, ours = self._handlers[number]
            try:
                if _getsignal(number) is ours:  # else someone has set another since
                    signal.signal(number, before)
            except BaseException as error:
                self.keep_error(error)
        self._handlers.clear()
        self._keeps = False  # who still holds on to one of ours gets what it stood for

    def _watch_signals(self) -> None:
        """Has handlers of signals run as before, but what they raise kept until the library is back.

        Python runs them where it enters a callback, before any `try` of it, and what they raise there would be lost.
        """
        self._keeps = True
        for number in range(1, signal.NSIG):
            handler: Any = _getsignal(number)
            if not callable(handler):  # ignored, the system's, or not Python's
                continue
            ours = self._keeping(handler)
            self._handlers[number] = handler, ours
            try:
                signal.signal(number, ours)
            except (ValueError, OSError):  # not the main interpreter, or a signal that is not to be set
                del self._handlers[number]

    def _keeping(self, handler: Any) -> Callable[[int, Any], None]:
        def keep(number: int, frame: Any) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                if not self._keeps:
                    raise
                self.keep_error(error)

        return keep

    def _passing(self, function: Callable[..., T], *arguments: Any) -> T:
        """The function's result; meanwhile what a handler raises is raised there."""
        kept, self._keeps = self._keeps, False
        try:
            return function(*arguments)
        finally:
            self._keeps = kept

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that is the user's, or may take long in Python.

        Handlers of signals are as they were without us: the library is not at work, or called us and asks for an answer.
        """

        def unless_stopped() -> T:
            self.check(0)
            return function(*arguments)

        return self._passing(unless_stopped)

    def _on_log(self, _user: object, level: int, message: bytes) -> None:
        try:
            text = message.decode("utf-8", "replace").replace("--formulas keep", "formulas='keep'")
            self.run(logger.log, _LEVELS.get(level, logging.INFO), "%s", text)
        except BaseException as error:
            self.keep_error(error)

    def _on_progress(self, _user: object, stage: bytes, done: int, total: int) -> int:
        # Python runs the handlers of signals as it enters this, so that they run while the library works.
        try:
            if self._tell is not None and self.run(self._tell, stage.decode(), done, total):
                return 1
        except BaseException as error:
            self.keep_error(error)
        return 0 if self._raised is None else 1

    def keep_error(self, error: BaseException) -> None:
        """What a callback raised: raised again when the call is back."""
        self._raised = self._raised or error

    def _agree(self, status: int, message: Optional[str] = None) -> int:
        """The status that all ranks come to; `status` where there are no others."""
        if self.ranks is None or self._disagreed or not self.context:
            return status
        text = None if message is None else message.encode()
        status = int(c.lib.cst_context_agree(self.context, status, text))
        self._disagreed = status != 0
        return status

    def end_together(self) -> None:
        """Raise on every rank if one of them has failed. Called after steps in which a single rank may fail."""
        self.check(self._agree(0))

    def same(self, command: str, given: Mapping[str, Any], **more: Any) -> None:
        """Raise on every rank if their arguments differ. Does nothing without ranks. given: arguments of the function."""
        if self.ranks is not None:
            shared = {name: value for name, value in given.items() if name not in _OF_A_RANK}
            arguments = {"command": command, **shared, **more}
            told = ", ".join(f"{name}={value!r}" for name, value in arguments.items() if value is not None)
            self.check(c.lib.cst_context_same(self.context, b"the arguments", told.encode()))

    def check(self, status: int) -> None:
        """Raises what a callback raised, or the library's error."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if status != 0:
            status = self._agree(status)
        if status != 0 and self.ranks is not None and self.ranks.error is not None:
            raise self.ranks.error
        if status != 0:
            text = (c.lib.cst_last_error(self.context) or c.lib.cst_status_text(status)).decode("utf-8", "replace")
            text = text.replace("--missing allow", "missing='allow'")  # as it is called here
            raise BY_STATUS.get(status, Error)(_C_NAME.sub("", text))

    def make(self, free: Any, function: Any, *arguments: Any) -> ctypes.c_void_p:
        """The object that `function` puts into its second argument, freed with the session."""
        return self.make_with(free, lambda context, out: function(context, out, *arguments))

    def make_with(self, free: Any, call: Callable[[Any, Any], Any]) -> ctypes.c_void_p:
        """The same of a function whose other arguments are elsewhere."""
        out = ctypes.c_void_p()
        status = call(self.context, ctypes.byref(out))
        self.keep(free, out)
        self.check(status)
        return out

    def keep(self, free: Any, pointer: ctypes.c_void_p) -> None:
        if pointer.value:
            self._to_free.append((free, pointer))

    def options(
        self, preset: str, seed: Optional[int], options: Optional[Mapping[str, Any]], keywords: Mapping[str, Any]
    ) -> ctypes.c_void_p:
        made = self.make(c.lib.cst_options_free, c.lib.cst_options_create)
        self.check(c.lib.cst_options_preset(self.context, made, _values.text(preset, "preset")))
        for key, value in settings(seed, options, keywords).items():
            put = _values.text(key, "key of options"), _values.text(value, f"option {key}")
            self.check(c.lib.cst_options_set(self.context, made, *put))
        return made

    def report(self, pointer: ctypes.c_void_p) -> tuple[str, str, dict[str, str]]:
        """A report as JSON, as text and, if it has a table, that as csv, markdown and latex; the report is freed with the
        session."""
        texts = []
        for function, more in ((c.lib.cst_report_json, ()), (c.lib.cst_report_text, (0,))):
            out = self.make_with(c.lib.cst_free, lambda context, o: function(context, pointer, *more, o))
            texts.append(ctypes.string_at(out).decode("utf-8", "replace"))
        tables = {}
        for form in ("csv", "markdown", "latex"):
            out = ctypes.c_void_p()
            if getattr(c.lib, f"cst_report_{form}")(self.context, pointer, ctypes.byref(out)) != 0:
                break  # a report without a table
            tables[form] = ctypes.string_at(out).decode("utf-8", "replace")
            c.lib.cst_free(self.context, out)
        return texts[0], texts[1], tables


class Owner:
    """An object with a session, which ends with it, and after all owners that were made of it: Python frees those that refer
    to one another in any order, and the last one frees the model in the context that made it."""

    _session: Session
    _of: Optional[Session] = None

    def _hold(self, session: Session, make: Callable[[Session], T], of: Optional["Owner"] = None) -> T:
        """What `make` returns; where it fails, the session ends. of: the owner of the model."""
        session.__enter__()
        try:
            made = make(session)
        except BaseException:
            session.__exit__()
            raise
        self._session = session
        if of is not None:
            self._of = of._session
            self._of.held.append(None)
        return made

    def __del__(self) -> None:
        for session in (self.__dict__.pop("_session", None), self.__dict__.pop("_of", None)):
            try:
                if session is not None:
                    session.held.pop()
            except IndexError:  # this was the last
                session.__exit__()


def _bytes(memory: Union[int, str]) -> int:
    """Bytes of "2GiB", "500MB" or a number, as the tool's --memory takes them."""
    if isinstance(memory, str):
        text = memory.strip()
        for unit, factor in (
            ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40),
            ("kB", 10**3), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12), ("B", 1), ("", 1),
        ):  # fmt: skip
            if text.endswith(unit):
                try:
                    size = float(text[: len(text) - len(unit)]) * factor
                except ValueError:
                    break
                if not 0 <= size <= _values.UINT64:
                    break
                return int(size)
        raise ArgumentError(f"memory is '{memory}'; give bytes or a size like '2GiB' or '500MB'")
    return _values.integer(memory, "memory", _values.UINT64)


def option_text(value: Any) -> str:
    """A value as --set takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(option_text(v) for v in value)
    if callable(value):  # a metric
        return _methods.metric_name(value)
    if hasattr(value, "tolist"):  # of NumPy
        return option_text(value.tolist())
    return repr(value)


def _keyword_names() -> dict[str, str]:
    names = {}
    for i in range(c.lib.cst_option_count()):
        key = c.lib.cst_option_at(i).contents.key.decode()
        names[key.replace(".", "_").replace("-", "_")] = key
    return names


OPTION_OF_KEYWORD = _keyword_names()


def settings(seed: Optional[int], options: Optional[Mapping[str, Any]], keywords: Mapping[str, Any]) -> dict[str, str]:
    """Options by key as text: from the seed, a mapping of keys, and keywords (cka_threshold for cka.threshold)."""
    found = {} if seed is None else {"seed": option_text(seed)}
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(f"options: is {_values.shown(options)}; it must be a dict of options by key")
    for key, value in (options or {}).items():
        dotted = OPTION_OF_KEYWORD.get(key, key)
        if dotted != key:
            raise ArgumentError(f"options: '{key}' is the keyword; the key is '{dotted}'")
        found[key] = option_text(value)
    for word, value in keywords.items():
        if word not in OPTION_OF_KEYWORD:
            import difflib

            near = difflib.get_close_matches(word, OPTION_OF_KEYWORD, 3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise TypeError(f"unknown keyword '{word}': not an argument and not an option{hint}")
        found[OPTION_OF_KEYWORD[word]] = option_text(value)
    return found
