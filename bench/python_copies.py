"""Memory that corestack.fit takes beside its input: one fit in this process, figures as JSON on standard output.

    python_copies.py [--members 14] [--rows 25000] [--classes 1000] [--type float32] [--layout c] [--preset default]
                     [--memory BYTES] [--threads 2] [--folder FOLDER]

--layout: c (members, rows, classes), fortran (classes run slowest in each member), strided (rows, members, classes) or
mapped (one npy file in FOLDER, memory-mapped, which is removed again).

`growth` is the peak of the resident memory during the fit less what was resident before it. For mapped input, whose pages
are the file's and become resident as they are read, `anonymous` counts, the same for memory that is no file's.
"""
import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import corestack


def status(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def shaped(layout, members, rows, classes, kind, file):
    """Where predictions go, (members, rows, classes) whatever lies behind."""
    if layout == "mapped":
        return np.lib.format.open_memmap(file, "w+", kind, (members, rows, classes))
    if layout == "fortran":
        return np.empty((members, classes, rows), kind).transpose(0, 2, 1)
    if layout == "strided":
        return np.empty((rows, members, classes), kind).transpose(1, 0, 2)
    return np.empty((members, rows, classes), kind)


def fill(cube, y):
    """As bench/pool.c: classes come in groups of ten that resemble each other, so that most mass lies on few of them."""
    random = np.random.default_rng(0)
    members, rows, classes = cube.shape
    group = random.standard_normal((-(-classes // 10), 48), np.float32).repeat(10, axis=0)[:classes]
    place = (group + random.standard_normal((classes, 48), np.float32)) / np.float32(48 ** 0.5)
    step = 512
    for first in range(0, rows, step):
        true = y[first : first + step]
        shared = place[true] + 0.2 * random.standard_normal((len(true), 48), np.float32)
        for k in range(members):
            x = shared + (0.18 + 0.01 * (k % 7)) * random.standard_normal(shared.shape, np.float32)
            part = np.exp((9 + 0.5 * k) * (x @ place.T - 2))
            cube[k, first : first + step] = part / part.sum(axis=1, keepdims=True)


class Watch:
    """Peaks while it is entered: of all resident memory by the kernel's mark, of anonymous memory by looking often."""

    def __enter__(self):
        self.before, self.anonymous_before = status("VmRSS"), status("RssAnon")
        Path("/proc/self/clear_refs").write_text("5")  # the mark starts again
        self.anonymous, self.done = self.anonymous_before, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.done.wait(0.005):
            self.anonymous = max(self.anonymous, status("RssAnon"))

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.growth = status("VmHWM") - self.before
        self.anonymous -= self.anonymous_before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=14)
    parser.add_argument("--rows", type=int, default=25000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--type", default="float32")
    parser.add_argument("--layout", choices=["c", "fortran", "strided", "mapped"], default="c")
    parser.add_argument("--preset", action="append")
    parser.add_argument("--memory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder")
    how = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=how.folder) as folder:
        file = os.path.join(folder, "predictions.npy")
        y = np.random.default_rng(1).integers(0, how.classes, how.rows)
        cube = shaped(how.layout, how.members, how.rows, how.classes, how.type, file)
        fill(cube, y)
        if how.layout == "mapped":
            cube.flush()
            del cube
            cube = np.load(file, mmap_mode="r")
        few = min(how.rows, 64)
        corestack.fit(cube[:3, :few], y[:few], evaluate_nested=False, threads=how.threads)  # buffers that stay
        for preset in how.preset or ["default"]:
            began = time.monotonic()
            with Watch() as watch:
                stack = corestack.fit(
                    cube, y, preset=preset, evaluate_nested=False, threads=how.threads, memory=how.memory
                )
            figures = {
                "layout": how.layout, "preset": preset, "shape": cube.shape, "input": cube.nbytes, "growth": watch.growth,
                "anonymous": watch.anonymous, "seconds": round(time.monotonic() - began, 2), "kept": len(stack.kept),
            }  # fmt: skip
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
