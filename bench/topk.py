#!/usr/bin/env python3
"""Speed of pools of lists (docs/topk.md#speed): makes members that list k of C classes in files, fits and predicts them with the
tool, and prints rows per second and the memory that was used, for one shape or for shapes that differ in one size.

    python3 bench/topk.py build/corestack --rows 100000 --classes 128000 --members 8 --listed 64
    python3 bench/topk.py build/corestack --growth"""

import argparse
import multiprocessing
import shutil
import tempfile

import numpy as np

import common

PART = 50_000  # rows made at a time


def make(folder, rows, classes, members, listed, seed=0):
    """Members agree on what is likely, up to noise of their own; a label is among the likely classes in 97 of 100 rows."""
    width = listed + listed // 2
    stride = classes // width
    files = []
    for k in range(members):
        shapes = {"indices": (np.int32, (rows, listed)), "logprobs": (np.float16, (rows, listed)), "rest": (np.float32, (rows,))}
        files.append({key: np.lib.format.open_memmap(f"{folder}/m{k}.{key}.npy", mode="w+", dtype=dtype, shape=shape)
                      for key, (dtype, shape) in shapes.items()})  # fmt: skip
    labels = np.empty(rows, np.int32)
    for first in range(0, rows, PART):
        rng = np.random.default_rng((seed, first))
        n = min(PART, rows - first)
        likely = (rng.integers(0, classes, (n, 1)) + stride * np.arange(width)) % classes
        truth = np.cumsum(-rng.exponential(0.3, (n, width)), axis=1, dtype=np.float32)
        p = np.exp(truth)
        p = p.cumsum(axis=1)
        at = (p[:, :-1] < rng.random((n, 1)) * p[:, -1:]).sum(axis=1)
        labels[first : first + n] = np.where(rng.random(n) < 0.97, likely[np.arange(n), at], rng.integers(0, classes, n))
        for k, file in enumerate(files):
            z = truth + (0.5 + k / members) * rng.standard_normal((n, width), dtype=np.float32)
            order = np.argpartition(-z, listed - 1, axis=1)[:, :listed]
            z = np.take_along_axis(z, order, axis=1)
            z -= np.log(np.exp(z).sum(axis=1, keepdims=True)) - np.log(0.97)
            file["indices"][first : first + n] = np.take_along_axis(likely, order, axis=1)
            file["logprobs"][first : first + n] = z
            file["rest"][first : first + n] = np.log(0.03)
    np.save(f"{folder}/labels.npy", labels)


def run(tool, *arguments):
    """Seconds, seconds of CPU and MiB at most of the tool."""
    seconds, _, held, cpu = common.run([tool, *arguments])
    return seconds, cpu, held / 2**20


def measure(tool, rows, classes, members, listed, more, nested):
    folder = tempfile.mkdtemp(prefix="corestack-topk-")
    try:
        maker = multiprocessing.Process(target=make, args=(folder, rows, classes, members, listed))
        maker.start()  # so that its memory is not inherited by what is measured
        maker.join()
        model, out = f"{folder}/model.cstack", f"{folder}/out.npz"
        pool = [f"{folder}/m{k}.indices.npy" for k in range(members)]
        fit, fit_cpu, fit_memory = run(tool, "fit", *pool, "--labels", f"{folder}/labels.npy", "--classes", classes, "-o", model,
                              "-s", f"evaluate.nested={'true' if nested else 'false'}", *more)  # fmt: skip
        predict, cpu, memory = run(tool, "predict", model, *pool, "-o", out, *more)
    finally:
        shutil.rmtree(folder)
    return (fit, fit_cpu, fit_memory), (predict, cpu, memory)


def rows(about, n=1_000_000, memory="1GiB"):
    """For docs/benchmarks.md: 15 minutes for ten million rows and 100,000 predicted rows a second, in 2 GiB."""
    from page import row

    n = 2_000 if common.SMOKE else n
    fit, predict = measure(common.BUILD / "corestack", n, 128_000, 8, 64, ["--memory", memory], True)
    shape = f"N = {n:,}, C = 128,000, K = 8, 64 listed, npy, --memory {memory}"
    return [row(f"lists, {what}", shape, seconds, seconds=n * goal, rss=held * 2**20, limit=2**31, note=f"{cpu:.0f} s of processor")
            for what, (seconds, cpu, held), goal in (("default preset, nested", fit, 900 / 1e7), ("prediction", predict, 1e-5))]


def grown(base):
    """Shapes that differ from the base in one size."""
    sizes = {"rows": [base["rows"] * f for f in (2, 4)], "classes": [1_000, 10_000, 1_000_000], "members": [2, 4, 16], "listed": [8, 16, 128]}
    return [base] + [{**base, name: value} for name, values in sizes.items() for value in values]


def growth(about):
    """How the time of a fit without nested scores grows."""
    from page import row

    out = []
    for s in grown({"rows": 2_000 if common.SMOKE else 50_000, "classes": 128_000, "members": 8, "listed": 64}):
        (seconds, cpu, held), (predict, _, _) = measure(common.BUILD / "corestack", **s, more=[], nested=False)
        out.append(row("lists, default preset, not nested", f"N = {s['rows']:,}, C = {s['classes']:,}, K = {s['members']}, {s['listed']} listed, npy",
                       seconds, rss=held * 2**20, note=f"{cpu:.1f} s of processor; {s['rows'] / predict:,.0f} predicted rows a second"))  # fmt: skip
    return out


def large(about):
    """Ten million rows (--large): 31 GB."""
    return rows(about, 10_000_000, "2GiB")


def show(tool, rows, classes, members, listed, more, nested):
    (fit, fit_cpu, fit_memory), (predict, cpu, memory) = measure(tool, rows, classes, members, listed, more, nested)
    print(f"| {rows} | {classes} | {members} | {listed} | {fit:.1f} | {fit_cpu:.1f} | {rows / fit:.0f} | {fit_memory:.0f} | "
          f"{predict:.2f} | {cpu:.2f} | {rows / predict:.0f} | {memory:.0f} |", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    for name, value in (("rows", 100_000), ("classes", 128_000), ("members", 8), ("listed", 64)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--growth", action="store_true", help="vary each size around the others")
    parser.add_argument("--nested", action="store_true", help="with nested scores")
    parser.add_argument("--memory", help="the tool's --memory")
    o = parser.parse_args()
    more = ["--memory", o.memory] if o.memory else []
    base = {"rows": o.rows, "classes": o.classes, "members": o.members, "listed": o.listed}
    shapes = grown(base) if o.growth else [base]
    print("| rows | classes | members | listed | fit, s | processor, s | rows/s | MiB | predict, s | processor, s | rows/s | MiB |\n"
          + "|--:" * 12 + "|")  # fmt: skip
    for shape in shapes:
        show(o.tool, **shape, more=more, nested=o.nested)


if __name__ == "__main__":
    main()
