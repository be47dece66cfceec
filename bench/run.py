"""Times corestack beside its peers and writes docs/benchmarks.md. Called by bench/run.sh (`make bench`).

    run.py [--large] [NAME ...]      NAME: one of the functions in ROWS; without names all but the large ones

BENCH_DIR: where pools are made (18 GB for the large one); BENCH_LARGE=1 is --large; BENCH_SMOKE=1 runs every row on
something tiny and writes nothing. Every row is a function that measures both sides of its ratio in turns and returns
what the table says. What was measured is kept in bench/results.json, so that a row can be run alone; the page is written
from that file.
"""
import json
import math
import os
import shutil
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

import common  # noqa: E402
import startup as short  # noqa: E402
from common import (CORES, HUGE, IMAGENET, MIDDLE, PEER, ROOT, SERIES, SMOKE, WORK, drop_pool, fit,  # noqa: E402
                    kernels, machine, peer, pool, pool_bytes, run, say, timed, turns)

sys.path.insert(0, str(ROOT / "tests" / "oracles"))
import greedy_numpy  # noqa: E402

RESULTS = ROOT / "bench" / "results.json"
NO_NESTING = "evaluate.nested=false"


def shape_text(shape):
    return "N = {:,}, C = {:,}, K = {}".format(*shape)


# ---- floors

def fit_flops(rows, classes, members, kept, refits, folds=5, hidden=32, epochs=30, gate_rows=20000, judged=2**20):
    """Multiplications and additions that the paper's preset cannot do without: CKA features and their products, gates
    trained and evaluated, Grams. `refits` counts fits of the meta-level after the first, which judge removals on
    `judged` (sample, class) pairs where there are more."""
    landmarks = math.ceil(math.sqrt(rows))
    cka = members * 2 * rows * landmarks * (classes + landmarks) + members * (members + 1) * rows * landmarks**2
    gate = hidden * (kept + 12)
    width = kept + 14
    train = (folds + 1) * gate_rows * epochs * 6 * gate
    pair = folds * (2 * gate + width**2)
    return cka + train + rows * classes * pair + refits * (train + min(rows * classes, judged) * pair)


def floor(manifest, flops, about):
    return max(pool_bytes(manifest) / about["read_cached"], flops / about["sgemm_2"])


def least_refits(document):
    """Fits that drop-and-refit makes at least: every member left out once, each that went, and a last pass."""
    redundant = sum(d["because"] == "redundant" for d in document["dropped"])
    first = document["models_in"] - redundant
    gone = first - document["models_kept"]
    return first, (first + gone + (document["models_kept"] if gone else 0)) if first > 1 else 0


def positions(document, without):
    """Members of the first fit, before drop-and-refit, as positions."""
    names = [m["name"] for m in document["members"]]
    gone = {d["name"] for d in document["dropped"] if d["because"] in without}
    return ",".join(str(i) for i, name in enumerate(names) if name not in gone)


# ---- fits

def paper(about):
    """ImageNet shape, the paper's preset without nesting, alone and with refit.drop, against NumPy and PyTorch; floor at the full size."""
    small = pool(*PEER)
    nodrop, drop = [NO_NESTING], [NO_NESTING, "refit.drop=true"]
    kept = positions(fit(small, *nodrop), ("redundant",))

    def ours():
        document = fit(small, *nodrop)
        return document["wall"], document

    def theirs():
        document = peer("paper_numpy.py", small, CORES, "none", kept)
        return document["seconds"]["total"], document

    (mine, _), (other, _) = turns(ours, theirs)
    whole = fit(small, *drop)
    first, refits = least_refits(whole)
    one = peer("paper_numpy.py", small, CORES, "one", kept)
    estimate = one["seconds"]["total"] + refits * one["seconds"]["drop"] * (first + whole["models_kept"]) / (2 * first)
    full = pool(*IMAGENET)
    plain = fit(full, *nodrop)
    theirs_full = peer("paper_numpy.py", full, CORES, "none", positions(plain, ("redundant",)))
    document = fit(full, *drop)
    first_full, refits_full = least_refits(document)
    flops = fit_flops(*IMAGENET, first_full, refits_full)
    least = floor(full, flops, about)
    shape = f"{shape_text(PEER)}, {len(kept.split(','))} members after CKA on both sides"
    whole_shape = f"{shape_text(IMAGENET)}, float32, no nesting"
    return [
        row("paper preset", shape, mine, "NumPy and PyTorch, two threads", other, target=10),
        row("paper preset with drop-and-refit", shape, whole["wall"], "NumPy and PyTorch, two threads", estimate, target=10,
            note=f"one refit of the peer measured, times the {refits} that the drops found here take at least, "
                 "smaller as members go"),
        row("paper preset with drop-and-refit, ImageNet shape", whole_shape, document["wall"],
            rss=document["rss"], floor=least, most=4, stages=document["seconds"],
            note=f"{first_full} members after CKA, {document['models_kept']} kept, at least {refits_full} refits; "
                 f"floor: {flops / 1e12:.2f} TFLOP, {pool_bytes(full) / 1e9:.2f} GB"),
        row("paper preset, ImageNet shape", whole_shape,
            plain["wall"], "NumPy and PyTorch, two threads", theirs_full["seconds"]["total"], target=10,
            rss=plain["rss"], floor=floor(full, fit_flops(*IMAGENET, first_full, 0), about), most=4,
            stages=plain["seconds"], note="the peer measured once"),
    ]


def default(about):
    """The default preset with its nested selection on the ImageNet shape."""
    document = fit(pool(*IMAGENET), preset="default")
    return [row("default preset, nested, ImageNet shape", f"{shape_text(IMAGENET)}, float32, two threads",
                document["wall"], rss=document["rss"], seconds=60, stages=document["seconds"],
                note=f"{document['models_kept']} members kept, nested NLL {document['oof']['nll']:.4f}")]


def huge(about):
    """17.75 GB in float16 inside 2 GiB (--large)."""
    manifest = pool(*HUGE, "f16")
    out = []
    for preset, settings in (("paper", [NO_NESTING]), ("default", [NO_NESTING])):
        document = fit(manifest, *settings, preset=preset, memory="2GiB")
        out.append(row(f"{preset} preset, 17.75 GB of float16", f"{shape_text(HUGE)}, --memory 2GiB",
                       document["wall"], rss=max(document["rss"], document["peak_rss_bytes"]), limit=2 << 30,
                       floor=pool_bytes(manifest) / about["read_cached"], stages=document["seconds"],
                       note=f"{document['models_kept']} members kept; the floor is reading once; peak by the fit's own "
                            f"count {document['peak_rss_bytes'] / 2**30:.2f} GiB, by the kernel's "
                            f"{document['rss'] / 2**30:.2f} GiB"))
    drop_pool(manifest)
    return out


def threads(about):
    """The same fit on one thread and on two; the models must be the same bytes."""
    manifest = pool(*MIDDLE)
    out = []
    for preset, settings in (("paper", [NO_NESTING]), ("default", [NO_NESTING])):
        def one(n):
            def call():
                document = fit(manifest, *settings, preset=preset, threads=n, model=WORK / f"threads{n}.cstack")
                return document["wall"], document
            return call
        (two_s, two), (one_s, alone) = turns(one(2), one(1))
        same = (WORK / "threads1.cstack").read_bytes() == (WORK / "threads2.cstack").read_bytes()
        out.append(row(f"{preset} preset, two threads", shape_text(MIDDLE), two_s, "one thread", one_s,
                       target=1.8, rss=two["rss"],
                       note=("models the same to the byte" if same else "**models differ**")
                       + f"; {two['cpu']:.1f} CPU seconds on two threads, {alone['cpu']:.1f} on one, "
                         f"{two['cpu'] / two_s:.2f} cores busy"))
        if not same:
            raise SystemExit("bench: one and two threads gave different models")
    return out


def growth(about):
    """Seconds of a fit by stage as N, C and K grow."""
    base = {"N": 2000, "C": 100, "K": 8}
    sizes = {"N": [1000, 2000, 4000, 8000, 16000], "C": [50, 100, 200, 400, 800], "K": [4, 8, 16, 32]}
    if SMOKE:
        base, sizes = {"N": 500, "C": 20, "K": 4}, {"N": [500, 700], "C": [20, 30], "K": [4, 5]}
    stages = ("read", "cka", "select", "gate", "ridge", "blend", "drop", "total")
    tables = []
    for preset, settings in (("paper", [NO_NESTING]), ("default", [NO_NESTING])):
        for axis, values in sizes.items():
            lines = []
            for value in values:
                shape = {**base, axis: value}
                manifest = pool(shape["N"], shape["C"], shape["K"])
                seconds = min((fit(manifest, *settings, preset=preset)["seconds"] for _ in range(2)),
                              key=lambda s: s["total"])
                lines.append([value] + [seconds.get(stage) or 0 for stage in stages])
                if shape != base:
                    drop_pool(manifest)
            x = np.log([line[0] for line in lines])
            slopes = [float(np.polyfit(x, np.log([line[1 + j] for line in lines]), 1)[0])
                      if all(line[1 + j] > 0.005 for line in lines) else None for j in range(len(stages))]
            tables.append({"preset": preset, "axis": axis, "stages": stages, "lines": lines, "slopes": slopes,
                           "fixed": {k: v for k, v in base.items() if k != axis}})
    return {"tables": tables}


# ---- CKA

def write_input(predictions, labels):
    path = WORK / "input.bin"
    WORK.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        np.array([len(predictions), len(labels), predictions[0].shape[1]], np.int32).tofile(file)
        for p in predictions:
            np.ascontiguousarray(p, np.float32).tofile(file)
        labels.astype(np.int32).tofile(file)
    return path


def arrays(manifest):
    folder = manifest.parent
    names = sorted(folder.glob("m*.oof.npy"))
    return [np.load(name, mmap_mode="r") for name in names], np.load(folder / "oof_labels.npy")


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


def weights(about):
    """A series of checkpoints averaged and fitted, beside reading as much and writing as much."""
    count, size = SERIES
    folder = WORK / "series"
    say(f"making {count} checkpoints of {size} MiB")
    common.weights("make", folder, count, size)
    files = sorted(folder.glob("step_*.safetensors"))
    out, bare = WORK / "weights.safetensors", WORK / "weights.bare"
    rows = []

    def measure(what, cold):
        def from_start(*words):
            out.unlink(missing_ok=True)
            bare.unlink(missing_ok=True)
            if cold:
                common.weights("forget", *files)
            return common.weights(*words, *files)

        def ours():
            return from_start(what, out, CORES)

        def floor_of():
            return from_start("floor", bare, written)

        written = size * 2**20 * (6 if what == "fit" else 1)
        return turns(ours, floor_of, 5)

    for what, name, cold, most in (("mean", "mean of checkpoints", False, 2), ("swa", "running average (SWA)", False, 2),
                                   ("swa", "running average (SWA), files out of the page cache", True, 2),
                                   ("fit", "SWAG fitted, 4 columns of deviations", False, None)):
        (mine, rss, cpu), (least, _, bare_cpu) = measure(what, cold)
        rows.append(row(name, f"{count} x {size} MiB of float32, two threads", mine, floor=least, most=most, rss=rss,
                        limit=2**29, note="floor: the files read through one buffer and as many bytes as the result has "
                        f"written and synced, measured in turns; {cpu:.1f} s of CPU, the floor {bare_cpu:.1f} s; load of "
                        f"the machine {os.getloadavg()[0]:.1f}"))
    shutil.rmtree(folder)
    out.unlink(missing_ok=True)
    bare.unlink(missing_ok=True)
    return rows


def startup(about):
    """Whole processes, and the import after NumPy's; temporary files in TMPDIR."""
    taken = {name: sides[0] for name, sides in short.measure([common.BUILD / "corestack"], 5 if SMOKE else 50).items()}
    names = {"help": ("`--help`", "", 0.005), "predict": ("`predict` of 600 rows", "examples/digits", 0.015),
             "fit": ("`fit` without nesting", "examples/digits", 0.1), "import": ("`import corestack`", "NumPy apart", 0.15)}
    return [row(what, conditions, taken[name][0], seconds=most, note=f"median {clock(taken[name][1])}")
            for name, (what, conditions, most) in names.items() if name in taken]


ROWS = {"paper": paper, "default": default, "cka": cka, "greedy": greedy, "bootstrap": bootstrap, "predict": predict,
        "threads": threads, "growth": growth, "weights": weights, "startup": startup}
LARGE = {"huge": huge}


# ---- the page

def row(what, conditions, ours, against=None, theirs=None, target=None, seconds=None, floor=None, most=None, rss=None,
        limit=None, note="", stages=None, error=None, most_error=None):
    """target: least ratio; seconds: most time; most: largest multiple of the floor; limit: most resident bytes;
    most_error: of `error`."""
    met = []
    if target and theirs:
        met.append(theirs / ours >= target)
    if seconds:
        met.append(ours < seconds)
    if most and floor:
        met.append(ours <= most * floor)
    if limit:
        met.append(rss <= limit)
    if most_error:
        met.append(error <= most_error)
    goal = [f"{target}x" if target else "", f"under {clock(seconds)}" if seconds else "",
            f"{most}x floor" if most else "", f"{limit / 2**30:g} GiB" if limit else "",
            f"error {most_error:g}" if most_error else ""]
    return {"what": what, "conditions": conditions, "ours_s": ours, "peer": against, "peer_s": theirs, "floor_s": floor,
            "rss": rss, "goal": ", ".join(g for g in goal if g), "met": all(met) if met else None, "note": note,
            "stages": stages}


def clock(seconds):
    if seconds is None:
        return ""
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    return ""


def table(rows):
    out = ["| what | conditions | time | against | its time | ratio | floor | times floor | peak memory | target | met |",
           "|---|---|---|---|---|---|---|---|---|---|---|"]
    notes = []
    for r in rows:
        mark = ""
        if r["note"]:
            notes.append(r["note"])
            mark = f" [{len(notes)}]"
        ratio = f"{r['peer_s'] / r['ours_s']:.1f}" if r["peer_s"] else ""
        above = f"{r['ours_s'] / r['floor_s']:.1f}" if r["floor_s"] else ""
        memory = f"{r['rss'] / 2**30:.2f} GiB" if r["rss"] else ""
        met = {True: "met", False: "**not met**", None: ""}[r["met"]]
        out.append(f"| {r['what']}{mark} | {r['conditions']} | {clock(r['ours_s'])} | {r['peer'] or ''} | "
                   f"{clock(r['peer_s'])} | {ratio} | {clock(r['floor_s'])} | {above} | {memory} | {r['goal']} | {met} |")
    return out + [""] + [f"{i}. {note}" for i, note in enumerate(notes, 1)]


def stage_table(rows):
    rows = [r for r in rows if r.get("stages")]
    if not rows:
        return []
    names = [n for n in rows[0]["stages"]]
    out = ["", "## Seconds by stage", "", "| fit | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    return out + [f"| {r['what']} | " + " | ".join(f"{r['stages'].get(n) or 0:.2f}" for n in names) + " |" for r in rows]


def growth_tables(data):
    out = ["", "## Growth", "", "Seconds of a fit by stage, two threads, without nested evaluation. The last "
           "line is the exponent: the slope of log seconds over log size, where every time is above 5 ms."]
    for t in data["tables"]:
        fixed = ", ".join(f"{k} = {v:,}" for k, v in t["fixed"].items())
        out += ["", f"Preset `{t['preset']}`, {fixed}:", "", f"| {t['axis']} | " + " | ".join(t["stages"]) + " |",
                "|---" * (len(t["stages"]) + 1) + "|"]
        out += ["| " + f"{line[0]:,} | " + " | ".join(f"{v:.3f}" for v in line[1:]) + " |" for line in t["lines"]]
        out.append("| exponent | " + " | ".join("" if s is None else f"{s:.2f}" for s in t["slopes"]) + " |")
    return out


def write_page(results):
    m = results["machine"]
    disk = f"{m['read_disk'] / 1e9:.2f} GB/s around it" if m["read_disk"] else "the disk cannot be read around it"
    text = ["# Benchmarks", "",
            f"Written by `make bench` (bench/run.sh; the large pool by `bench/run.sh --large huge`). {m['cpu']}, "
            f"{m['cores']} cores, {m['memory'] / 2**30:.0f} GiB, Linux {m['kernel']}, Python {m['python']}.", "",
            f"Measured in the same run: SGEMM {m['sgemm_2'] / 1e9:.0f} GFLOP/s on two threads, {m['sgemm_1'] / 1e9:.0f} "
            f"on one; reading a file just written {m['read_cached'] / 1e9:.2f} GB/s from the page cache, {disk}. The "
            f"load of the machine was {m['load']:.1f} at the start. The floor of a fit is the larger of bytes over the "
            "page cache's rate and FLOPs (bench/run.py, `fit_flops`) over SGEMM's on two threads. Both sides take turns, "
            "A B A B, and the least of each counts; imports of the peers are not counted, our times are of whole "
            "processes. Pools are made by bench/pool.c.", ""]
    rows = [r for name in [*ROWS, *LARGE] if isinstance(results.get(name), list) for r in results[name]]
    text += table(rows) + stage_table(rows)
    if "growth" in results:
        text += growth_tables(results["growth"])
    text = "\n".join(text).rstrip() + "\n"
    if not SMOKE:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        (ROOT / "docs" / "benchmarks.md").write_text(text)
    return text


def main():
    words = sys.argv[1:]
    if words[:1] == ["--strips"]:
        import pathlib
        print(json.dumps(exact_strips(pathlib.Path(words[1]), int(words[2]))))
        return
    large = "--large" in words or os.environ.get("BENCH_LARGE") == "1"
    names = [w for w in words if w != "--large"]
    unknown = [n for n in names if n not in ROWS and n not in LARGE]
    if unknown:
        raise SystemExit(f"bench: no row '{unknown[0]}'; there are {', '.join([*ROWS, *LARGE])}")
    names = names or [*ROWS, *(LARGE if large else [])]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() and not SMOKE else {}
    alone = len(names) < len(ROWS) and "machine" in results  # the page tells the rates of a run of all rows
    try:
        about = machine()
        results["machine"] = results["machine"] if alone else about
        for name in names:
            say(f"bench: {name}")
            results[name] = {**ROWS, **LARGE}[name](about)
            text = write_page(results)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print(text)


if __name__ == "__main__":
    main()
