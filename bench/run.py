"""Times corestack beside its peers and writes docs/benchmarks.md and docs/appendix/benchmarks.md. Called by bench/run.sh (`make bench`).

    run.py [--large] [--against TOOL] [NAME ...]
                                     NAME: one of the functions in ROWS; without names all but the large ones

--against: a build of an older version, which makes the same fits in turns (BENCH_AGAINST=TOOL is the same).
BENCH_DIR: where pools are made (18 GB for the large one); BENCH_LARGE=1 is --large; BENCH_SMOKE=1 runs every row on
something tiny and writes nothing. Every row is a function that measures both sides of its ratio in turns and returns
what the table says. What was measured is kept in bench/results.json, so that a row can be run alone; the page is written
from that file.
"""
import json
import math
import os
import pathlib
import shutil
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

import common  # noqa: E402
import fits  # noqa: E402
import startup as short  # noqa: E402
import topk  # noqa: E402
from common import (CORES, IMAGENET, MIDDLE, ROOT, SMOKE, WORK, kernels, machine, pool, run, say,  # noqa: E402
                    timed, turns)
from fits import arrays, shape_text, write_input  # noqa: E402
from page import appendix, clock, page, row  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "oracles"))
import greedy_numpy  # noqa: E402

RESULTS = ROOT / "bench" / "results.json"


# ---- CKA

def exact_strips(manifest, strips, height=500):
    """Seconds of a strip of rows of all kernels and of all pairs' sums, and how many strips there are: exact CKA as one
    would write it in NumPy where N x N kernels of all members do not fit."""
    members, _ = arrays(manifest)
    members = [np.asarray(m, np.float32) for m in members]
    rows, count = len(members[0]), len(members)
    square = [(m**2).sum(1) for m in members]
    gamma = []
    for m, s in zip(members, square):
        some = slice(0, 1000)
        d = np.maximum(s[some, None] + s[some] - 2 * m[some] @ m[some].T, 0)
        gamma.append(0.5 / np.median(d[np.triu_indices(len(d), 1)]))
    total = np.zeros((count, count))

    def work():
        for i in range(strips):
            at = slice(i * height, (i + 1) * height)
            kernel = []
            for m, s, g in zip(members, square, gamma):
                d = m[at] @ m.T
                d *= -2
                d += s
                d += s[at, None]
                np.maximum(d, 0, out=d)
                d *= -g
                kernel.append(np.exp(d, out=d))
            for a in range(count):
                for b in range(a, count):
                    total[a, b] += np.vdot(kernel[a], kernel[b])
                kernel[a].sum(1)
    pieces = math.ceil(rows / height)
    strips = min(strips, pieces)
    return timed(work)[0] / strips, pieces


def cka(about):
    """All pairs as a fit computes them against exact kernels."""
    out = []
    for shape, strips, exact in ((MIDDLE, 10, "double"), (IMAGENET, 2, "single")):
        manifest = pool(*shape)
        members, labels = arrays(manifest)
        path = write_input(members, labels)
        measured = kernels(path, "cka", CORES)
        (mine, _), (part, count) = turns(lambda: (kernels(path, "auto", CORES)["cka_auto"], None),
                                         lambda: peer_strips(manifest, strips))
        path.unlink()
        out.append(row("all-pairs CKA", f"{shape_text(shape)}, two threads", mine, "exact CKA in NumPy, float32",
                       part * count, target=100 if shape == IMAGENET else None, error=measured["cka_error"],
                       most_error=0.01,
                       note=f"{min(strips, count)} of {count} strips of rows of the peer measured; largest error over "
                            f"all pairs {measured['cka_error']:.1e} against our exact CKA in {exact} precision"))
        out.append(row(f"exact all-pairs CKA in {exact} precision", f"{shape_text(shape)}, two threads",
                       measured["cka_exact"], "exact CKA in NumPy, float32", out[-1]["peer_s"]))
    return out


def peer_strips(manifest, strips):
    """exact_strips in a process of its own, with as many BLAS threads as there are cores."""
    words = ["/usr/bin/python3", ROOT / "bench" / "run.py", "--strips", manifest, strips]
    seconds, count = json.loads(run(words, OPENBLAS_NUM_THREADS=str(CORES))[1])
    return seconds, count


# ---- kernels

def noise_pool(members, rows, classes):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, rows)
    shared = rng.normal(0, 1, (rows, classes)) + 3.0 * np.eye(classes)[labels]
    out = []
    for _ in range(members):
        z = shared + rng.normal(0, 1, (rows, classes))
        p = np.exp(z - z.max(1, keepdims=True))
        out.append((p / p.sum(1, keepdims=True)).astype(np.float32))
    return np.stack(out), labels.astype(np.int32)


def greedy(about):
    """AutoGluon's selection."""
    predictions, labels = noise_pool(14, 10000, 100)
    path = write_input(predictions, labels)
    (mine, document), (other, reference) = turns(
        lambda: (lambda d: (d["greedy"], d))(kernels(path, "greedy")),
        lambda: timed(greedy_numpy.select, predictions, labels))
    same = np.allclose(np.bincount(reference[0], minlength=14) / len(reference[0]), document["weights"])
    if not same:
        raise SystemExit("bench: greedy selection gave other weights than AutoGluon's arithmetic")
    return [row("greedy selection, 25 rounds", "N = 10,000, C = 100, K = 14, one thread", mine,
                "AutoGluon's arithmetic in NumPy", other, target=200, note="same weights")]


def resample(predictions, labels, resamples, bins=15):
    rng = np.random.default_rng(0)
    n = len(labels)
    confidence = predictions.max(2)
    correct = (predictions.argmax(2) == labels).astype(float)
    nll = -np.log(np.maximum(predictions[:, np.arange(n), labels], 1e-15))
    brier = ((predictions - np.eye(predictions.shape[2])[labels]) ** 2).sum(2)
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    out = []
    for _ in range(resamples):
        draw = rng.integers(0, n, n)
        ece = [abs(np.bincount(index[m][draw], (correct - confidence)[m][draw], bins)).sum() / n
               for m in range(len(predictions))]
        out.append((correct[:, draw].mean(1), nll[:, draw].mean(1), brier[:, draw].mean(1), ece))
    return out


def bootstrap(about):
    """5,000 resamples of top-1, NLL, Brier and ECE."""
    predictions, labels = noise_pool(12, 10000, 10)
    path = write_input(predictions, labels)
    (mine, _), (other, _) = turns(lambda: (kernels(path, "bootstrap")["bootstrap"], None),
                                  lambda: timed(resample, predictions, labels, 100))
    return [row("5,000 bootstrap resamples of 12 methods, four scores", "N = 10,000, one thread", mine, "NumPy",
                50 * other, target=50, note="100 resamples of the peer measured, times 50")]


def predict(about):
    """A gated stack of three linear learners on six members."""
    members, labels = arrays(pool(4000, 1000, 6))
    path = write_input(members, labels)
    (one, a), (two, b) = turns(lambda: (lambda d: (d["predict_us"], d))(kernels(path, "predict", 1)),
                               lambda: (lambda d: (d["predict_us"], d))(kernels(path, "predict", 2)), 3)
    percentiles = ", ".join(f"{name} {a[name]:.0f}" for name in ("p50", "p90", "p99", "p99.9"))
    return [row("prediction with gate, a sample", "C = 1,000, K = 6, one thread", one * 1e-6, seconds=50e-6,
                note=f"one-sample calls of a predictor, microseconds: {percentiles}"),
            row("prediction with gate, a sample, two threads", "C = 1,000, K = 6", two * 1e-6, "one thread", one * 1e-6,
                target=1.8)]


def startup(about):
    """Whole processes, and the import after NumPy's; temporary files in TMPDIR."""
    tools = ([common.AGAINST] if common.AGAINST else []) + [common.BUILD / "corestack"]
    taken = short.measure(tools, 5 if SMOKE else 50)
    names = {"help": ("`--help`", "", 0.005), "predict": ("`predict` of 600 rows", "examples/digits", 0.015),
             "fit": ("`fit` without nesting", "examples/digits", 0.1), "import": ("`import corestack`", "NumPy apart", 0.15)}
    return [row(what, conditions, taken[name][-1][0], seconds=most, note=f"median {clock(taken[name][-1][1])}",
                before={"seconds": taken[name][0][0], "ended": False} if len(taken[name]) > 1 else None)
            for name, (what, conditions, most) in names.items() if name in taken]


ROWS = {"paper": fits.paper, "default": fits.default, "diffuse": fits.diffuse, "diffuse_nested": fits.diffuse_nested,
        "forty": fits.forty, "many_members": fits.many_members, "one_pool": fits.one_pool, "stacks": fits.stacks,
        "threads": fits.threads, "cka": cka, "greedy": greedy, "bootstrap": bootstrap, "predict": predict,
        "startup": startup, "lists": topk.rows, "lists_growth": topk.growth, "growth": fits.growth}
LARGE = {"huge": fits.huge, "search": fits.search, "lists_large": topk.large}


def main():
    words = sys.argv[1:]
    if words[:1] == ["--strips"]:
        print(json.dumps(exact_strips(pathlib.Path(words[1]), int(words[2]))))
        return
    if "--against" in words:
        at = words.index("--against")
        if at + 1 == len(words):
            raise SystemExit("bench: --against needs a tool")
        common.AGAINST = words[at + 1]
        del words[at:at + 2]
    large = "--large" in words or os.environ.get("BENCH_LARGE") == "1"
    names = [w for w in words if w != "--large"]
    unknown = [n for n in names if n not in ROWS and n not in LARGE]
    if unknown:
        raise SystemExit(f"bench: no row '{unknown[0]}'; there are {', '.join([*ROWS, *LARGE])}")
    names = names or [*ROWS, *(LARGE if large else [])]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() and not SMOKE else {}
    alone = len(names) < len(ROWS) and "rates_2" in results.get("machine", {})  # the page has the rates of a whole run
    try:
        about = machine()
        results["machine"] = results["machine"] if alone else about
        for name in names:
            say(f"bench: {name}")
            start = time.monotonic()
            made = {**ROWS, **LARGE}[name](about)
            if alone and about["cpu"] != results["machine"]["cpu"] and isinstance(made, list):
                for r in made:
                    r["conditions"] += f"; {about['cpu']}, {about['cores']} cores"
            results[name] = made
            say(f"bench: {name} took {time.monotonic() - start:.0f} s")
            text = appendix(results)
            if not SMOKE:
                RESULTS.write_text(json.dumps(results, indent=1) + "\n")
                (ROOT / "docs" / "benchmarks.md").write_text(page(results))
                (ROOT / "docs" / "appendix" / "benchmarks.md").write_text(text)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print(text)


if __name__ == "__main__":
    main()
