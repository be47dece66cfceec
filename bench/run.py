"""Times the library beside NumPy, both sides in one run, and writes docs/benchmarks.md.

Called by bench/run.sh (`make bench`). Every figure is a ratio of two times measured here; the machine is named in the
table's head, and the reference is single-threaded NumPy as a user would write it.
"""
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "oracles"))
import greedy_numpy  # noqa: E402


def pool(rng, members, rows, classes):
    labels = rng.integers(0, classes, rows)
    shared = rng.normal(0, 1, (rows, classes)) + 3.0 * np.eye(classes)[labels]
    out = []
    for _ in range(members):
        z = shared + rng.normal(0, 1, (rows, classes))
        p = np.exp(z - z.max(1, keepdims=True))
        out.append((p / p.sum(1, keepdims=True)).astype(np.float32))
    return np.stack(out), labels.astype(np.int32)


def kernels(folder, predictions, labels, what, threads=1):
    path = pathlib.Path(folder) / "input.bin"
    with open(path, "wb") as file:
        np.array(predictions.shape, np.int32).tofile(file)
        predictions.tofile(file)
        labels.tofile(file)
    out = subprocess.run([str(ROOT / "build" / "bench-kernels"), str(path), str(threads), what], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out)


def exact_cka(predictions, sigma_rows=1000):
    """Equations (1) and (2) of the paper with N x N kernels, as one would write them in NumPy."""
    centred = []
    for p in predictions.astype(np.float64):
        square = (p**2).sum(1)
        distance = np.maximum(square[:, None] + square[None] - 2 * p @ p.T, 0)
        some = distance[:sigma_rows, :sigma_rows]
        sigma2 = np.median(np.sqrt(some[np.triu_indices(len(some), 1)])) ** 2
        k = np.exp(-distance / (2 * sigma2))
        k -= k.mean(0)
        k -= k.mean(1, keepdims=True)
        centred.append(k)
    hsic = np.array([[(a * b).sum() for b in centred] for a in centred])
    return hsic / np.sqrt(np.outer(np.diag(hsic), np.diag(hsic)))


def bootstrap(predictions, labels, resamples, bins=15):
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


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def seconds_of_fit(threads):
    words = [str(ROOT / "build" / "corestack"), "fit", str(ROOT / "examples/digits/pool.json"), "-o", os.devnull,
             "--json", "--threads", str(threads)]
    with tempfile.TemporaryDirectory() as folder:
        words[4] = str(pathlib.Path(folder) / "m.cstack")
        best = min(timed(lambda: subprocess.run(words, check=True, capture_output=True))[0] for _ in range(3))
    return best


def main():
    rng = np.random.default_rng(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        predictions, labels = pool(rng, 8, 3000, 20)
        ours = kernels(folder, predictions, labels, "cka")
        theirs, reference = timed(exact_cka, predictions)
        error = np.abs(np.array(ours["cka"]).reshape(8, 8) - reference).max()
        rows.append(("all-pairs CKA by Nystrom features, N = 3,000, C = 20, K = 8", "exact CKA in NumPy",
                     theirs / ours["cka_nystrom"], f"largest error {ours['cka_error']:.1e}"))
        rows.append(("exact all-pairs CKA, the same pool", "exact CKA in NumPy", theirs / ours["cka_exact"],
                     f"differs by {error:.1e} (another subsample for the bandwidth)"))
        predictions, labels = pool(rng, 14, 10000, 100)
        ours = kernels(folder, predictions, labels, "greedy")
        theirs, reference = timed(greedy_numpy.select, predictions, labels)
        rows.append(("greedy selection, 25 rounds, N = 10,000, C = 100, K = 14", "AutoGluon's arithmetic in NumPy",
                     theirs / ours["greedy"], "same weights" if np.allclose(
                         np.bincount(reference[0], minlength=14) / len(reference[0]), ours["weights"]) else
                     "**other weights**"))
        predictions, labels = pool(rng, 12, 10000, 10)
        ours = kernels(folder, predictions, labels, "bootstrap")
        theirs, _ = timed(bootstrap, predictions, labels, 100)
        rows.append(("5,000 bootstrap resamples of 12 methods, N = 10,000", "NumPy, 100 resamples times 50",
                     50 * theirs / ours["bootstrap"], ""))
        predictions, labels = pool(rng, 6, 4000, 1000)
        one = kernels(folder, predictions, labels, "predict", 1)["predict_us"]
        two = kernels(folder, predictions, labels, "predict", 2)["predict_us"]
        rows.append(("prediction with gate, C = 1,000, K = 6, two threads", "one thread", one / two,
                     f"{one:.0f} microseconds a sample on one"))
    one, two = seconds_of_fit(1), seconds_of_fit(2)
    rows.append(("`corestack fit examples/digits/pool.json`, nested, two threads", "one thread", one / two,
                 f"{two:.1f} s on two"))
    text = ["# Benchmarks", "",
            f"Written by `make bench` on {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
            f"NumPy {np.__version__}. Ratios of times measured in one run; one thread where nothing else is said.", "",
            "| what | against | times faster | |", "|---|---|---|---|"]
    text += [f"| {what} | {other} | {ratio:.1f} | {note} |" for what, other, ratio, note in rows]
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
