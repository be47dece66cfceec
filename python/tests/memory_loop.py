"""Fits, predictions, errors and cancelled calls over and over in one process, whose memory must not grow.

    memory_loop.py [--seconds N] [--balance N] [--leaks BUILD]

--seconds   the loop, for so long and 40 rounds at least: the bytes in use by malloc (glibc's own count, with all
            that C allocates) and the resident memory in its last rounds are compared with those after a quarter of it
--balance   so many rounds in which the library allocates through a counting allocator: nothing may be left after a round
--leaks     the loop for 20 seconds against BUILD/libcorestack.so, built with AddressSanitizer (preset asan-ubsan): no
            error, and no leak with a frame of the library in its stack

Exit status 1 when something grew, leaked or was left.
"""
from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import os
import pickle
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

QUICK = {"evaluate_nested": False, "threads": 2}
SLACK = 1 << 10  # bytes: larger objects of Python that happen to be alive
RSS_SLACK = 1 << 20


class MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


# Malloc's caches of each thread, whose contents count as used, are off. Python's small objects are not malloc's: its caches of
# them fill slowly, to a bound.
COUNTED = {"PYTHONMALLOC": "pymalloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = MallInfo
libc.realloc.restype = ctypes.c_void_p
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def in_use() -> int:
    """Bytes of malloc in use, in all arenas and in maps of their own."""
    gc.collect()
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def resident() -> int:
    libc.malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def settle_interned() -> None:
    """Names that come and go make the interpreter's table of interned strings larger once, by half a megabyte, though no more of
    them are alive than before: let that be before anything is counted."""
    for i in range(1 << 17):
        sys.intern(f"name_{i}")


class Work:
    """One round of everything that allocates."""

    def __init__(self, folder: str) -> None:
        import numpy as np
        from common import toy

        import corestack

        logging.getLogger("corestack").addHandler(logging.NullHandler())
        self.corestack, self.np, self.folder = corestack, np, folder
        self.preds, self.y = toy(rows=90, members=4)
        self.nan = dict(self.preds, model1=np.full((90, 3), np.nan, np.float32))
        self.half = {name: np.asfortranarray(p.astype(np.float16)) for name, p in self.preds.items()}
        self.rounds = 0
        for name, p in self.preds.items():
            np.save(f"{folder}/oof_{name}.npy", p)
        np.save(f"{folder}/oof_labels.npy", self.y)
        self.path = f"{folder}/model.cstack"
        self.broken = f"{folder}/broken.cstack"

    def fails(self, kind, function, *arguments, **keywords):
        try:
            function(*arguments, **keywords)
        except kind:
            return
        raise AssertionError(f"{function} did not fail")

    def stop_after(self, calls):
        left = [calls]

        def progress(stage, done, total):
            left[0] -= 1
            return left[0] < 0

        return progress

    def __call__(self) -> None:
        c, preds, y = self.corestack, self.preds, self.y
        self.rounds += 1
        stack = c.fit(preds, y, preset="prototype" if self.rounds % 2 else "default", **QUICK)
        p = stack.predict(preds)
        stack.predict(self.half)
        stack.evaluate(preds, y, resamples=10)
        stack.save(self.path)
        c.load(self.path).predict(preds)
        pickle.loads(pickle.dumps(stack)).summary()
        c.Stack.from_bytes(stack.to_bytes())
        c.evaluate(p, y)
        c.metrics.scores(p, y)
        c.metrics.reliability(p, y)
        c.folds(y, 3, seed=self.rounds)
        c.cka(preds, y)
        c.compare(preds, y, methods=["average", "greedy"], resamples=5, threads=2)
        if self.rounds % 8 == 1:
            c.fit(self.folder, **QUICK)
            c.fit(preds, y, threads=2)  # nested
            c.fit(self.half, y, preset="paper", **QUICK)
        # What fails, before and in the library.
        self.fails(ValueError, c.fit, preds, y, cka_threshold=7)
        self.fails(TypeError, c.fit, preds, y, no_such_option=7)
        self.fails(ValueError, c.fit, self.nan, y, **QUICK)
        self.fails(ValueError, c.fit, preds, y[1:], **QUICK)
        self.fails(ValueError, c.fit, preds, self.np.full(90, 9), **QUICK)
        self.fails(c.Error, stack.predict, {"model0": preds["model0"]})
        self.fails(OSError, c.load, f"{self.folder}/none.cstack")
        whole = stack.to_bytes()
        Path(self.broken).write_bytes(whole[: (self.rounds * 37) % len(whole)])
        self.fails(c.Error, c.load, self.broken)
        self.fails(c.Error, c.Stack.from_bytes, whole[:-1])
        self.fails(OSError, c.fit, f"{self.folder}/none.json")
        # What is stopped, at another place each time.
        for start in range(3):
            try:
                c.fit(preds, y, progress=self.stop_after((self.rounds * 3 + start) % 40), **QUICK)
            except c.CancelledError:
                pass
        self.fails(ZeroDivisionError, c.fit, preds, y, progress=lambda *_: 1 // 0, **QUICK)


WARM = 16  # rounds in which every kind of call has been made, and stopped at every place


def loop(seconds: float) -> int:
    """Growth from the quarter of the rounds after the first one to the last quarter; 1 if there is any."""
    with tempfile.TemporaryDirectory() as folder:
        work = Work(folder)
        work()
        settle_interned()
        # Places to write to are made before, so that the list does not grow.
        used, rss = [0] * 1_000_000, [0] * 1_000_000
        began = time.monotonic()
        count = 0
        while time.monotonic() - began < seconds or count < WARM + 24:
            work()
            used[count], rss[count] = in_use(), resident()
            count += 1
    warm = max(count // 4, WARM)
    window = (count - warm) // 3
    figures = {}
    for name, values in (("malloc", used), ("resident", rss)):
        early, late = min(values[warm : warm + window]), min(values[count - window : count])
        figures[name] = late - early
        print(f"{name}: {early} to {late} bytes, {late - early:+d} in {count - warm - window} of {count} rounds")
    return int(figures["malloc"] > SLACK or figures["resident"] > RSS_SLACK)


def balance(rounds: int) -> int:
    """Rounds with an allocator that counts what the library holds."""
    from corestack import _library as c

    held: dict[int, int] = {}
    calls = [0]

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    def reallocate(_user, pointer, size):
        calls[0] += 1
        if pointer:
            held.pop(pointer)  # not ours: the error is printed, and the count is off
        if size == 0:
            libc.free(pointer)
            return None
        found = libc.realloc(pointer, size)
        if found:
            held[found] = size
        return found

    create = c.lib.cst_context_create_with
    create.restype = ctypes.c_int
    create.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p]
    c.lib.cst_context_create = lambda out: create(out, ctypes.cast(reallocate, ctypes.c_void_p), None)
    with tempfile.TemporaryDirectory() as folder:
        work = Work(folder)
        left = []
        for _ in range(rounds):
            work()
            gc.collect()
            left.append(sum(held.values()))
    print(f"library: {calls[0]} calls of the allocator, bytes left after each round: {sorted(set(left))}")
    return int(any(left) or calls[0] == 0)


def leaks(build: str) -> int:
    """The loop as a child under AddressSanitizer; only what the library did counts."""
    library = Path(build, "libcorestack.so").resolve(strict=True)
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout
    environment = {
        **os.environ,
        "LD_PRELOAD": str(Path(runtime.strip()).resolve(strict=True)),
        "CORESTACK_LIBRARY": str(library),
        "PYTHONMALLOC": "malloc",
        # Stacks deep enough to reach the library; leaks do not set the exit status, since Python has some of its own.
        "ASAN_OPTIONS": "detect_leaks=1:malloc_context_size=40:fast_unwind_on_malloc=1",
        # Without looking into thread-local storage, where the checker of gcc 12 at times crashes for libraries loaded late.
        "LSAN_OPTIONS": "exitcode=0:report_objects=0:max_leaks=0:use_tls=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, __file__, "--rounds", "20"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    stacks = re.split(r"\n\n", done.stderr)
    ours = [s for s in stacks if re.search(r"(Direct|Indirect) leak", s) and "libcorestack" in s]
    ran = "rounds" in done.stdout
    checked = "LeakSanitizer" in done.stderr
    print(done.stdout.strip())
    print(
        f"sanitizer: exit status {done.returncode}, {sum('leak of' in s for s in stacks)} leaks of Python and NumPy, "
        f"{len(ours)} with a frame of the library"
    )
    if done.returncode != 0 or ours or not ran or "LeakSanitizer has encountered" in done.stderr:
        print(done.stderr[-8000:] if done.returncode else "\n\n".join(ours)[:8000])
        return 1
    if not checked:
        print("no leak of anything, which Python always has: the check did not run")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--balance", type=int, default=0)
    parser.add_argument("--leaks", metavar="BUILD")
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    failed = 0
    if arguments.rounds:
        with tempfile.TemporaryDirectory() as folder:
            work = Work(folder)
            for _ in range(arguments.rounds):
                work()
        print(f"{arguments.rounds} rounds")
    if arguments.seconds and any(os.environ.get(name) != value for name, value in COUNTED.items()):
        command = [sys.executable, __file__, "--seconds", str(arguments.seconds)]
        failed |= subprocess.run(command, env={**os.environ, **COUNTED}).returncode
    elif arguments.seconds:
        failed |= loop(arguments.seconds)
    if arguments.balance:
        failed |= balance(arguments.balance)
    if arguments.leaks:
        failed |= leaks(arguments.leaks)
    return failed


if __name__ == "__main__":
    sys.exit(main())
