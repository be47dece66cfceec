#!/usr/bin/python3
"""The paper's table of complexities beside measured exponents: how the time of each phase grows with one size on synthetic pools.

    experiments/complexity/table.py [--tool PATH] [--phase 1a]... [--write-only]

The table goes to a section of experiments/results.md, and its figures to the key `table` of experiments/complexity/figures.json. The exponent is
the slope of log seconds over log size by least squares, of the least of three runs for each size. Seconds are those of a phase in the report of
`corestack fit --threads 1`, times the share of its wall time that the process had a processor, because other processes may run.
"""
import collections
import json
import math
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
REPEATS = 3
CLASSES = 3
FAR = 0.2  # from the paper's exponent: the remark is shown
NO_CKA = ["redundancy.measure=none"]
FEW = ["gate.mode=none", "meta.learners=ridge"]  # little but what is measured
CHEAPEST = ["cka.estimator=nystrom", "cka.landmark_rule=uniform", "cka.landmarks=1", "cka.lsh=off"]
GATE = [*NO_CKA, "gate.epochs=3", "gate.patience=100", "gate.max_rows=1000000000", "meta.learners=ridge"]
GRID = 61  # penalties that lambda.rule=cv tries

# What varies with its sizes; the sizes that stay; what is set; phases of the report whose seconds are added; order(size), the paper's.
Row = collections.namedtuple("Row", "phase what order varied sizes fixed words parts paper remark")
# Exact CKA with at most 2e10 operations is in double precision, beyond that in single precision: all sizes are below.
EXACT, NYSTROM = ["cka.estimator=exact", "cka.lsh=off"], ["cka.estimator=nystrom", "cka.landmark_rule=uniform", "cka.lsh=off"]
HASHED = [*NYSTROM[:2], "cka.lsh=on", "cka.threshold=0.995"]
ROWS = [
    Row("1a", "exact CKA", "K² N²", "N", (3000, 6000, 12000), {"K": 4}, [*EXACT, *FEW], ["cka"], lambda n: n**2,
        "At the smaller sizes time that grows less than N² still counts; the last step is nearer to the order."),
    Row("1a", "exact CKA", "K² N²", "K", (12, 24, 48, 96), {"N": 1000}, [*EXACT, *FEW], ["cka"], lambda k: k**2,
        "The exponentials of the kernels, K N², take much of the time, and only the products of kernels grow with K²."),
    Row("1b", "Nyström CKA with ⌈√N⌉ uniform landmarks", "K² N log N", "N", (16000, 32000, 64000, 128000), {"K": 8}, [*NYSTROM, *FEW], ["cka"],
        lambda n: n * math.log(n), "With m = √N landmarks features take K N m and pairs K² N m², which are powers of 1.5 and 2 of N."),
    Row("1b", "Nyström CKA with ⌈√N⌉ uniform landmarks", "K² N log N", "K", (16, 32, 64, 128), {"N": 4000}, [*NYSTROM, *FEW], ["cka"], lambda k: k**2,
        "The features, K N m², grow with K only, and the pairs cost more than them only for many members."),
    Row("1c", "hashing and Nyström CKA, groups of ten near duplicates", "K N log N log K", "K", (120, 240, 480), {"N": 1000}, [*HASHED, *FEW],
        ["cka"], lambda k: k * math.log(k), "The tables have a fixed number of bits, so there is no factor log K."),
    Row("2", "features and gate, three epochs", "G N + p N", "N", (8000, 16000, 32000, 64000), {"G": 16}, GATE, ["gate"], lambda n: n, ""),
    Row("2", "features and gate, three epochs", "G N + p N", "G", (16, 32, 64, 128), {"N": 8000}, GATE, ["gate"], lambda g: g,
        "A part of the time of a row, such as sorting by loss and the exponentials of the gate, does not depend on G."),
    Row("3", "ridge with λ\\*", "d² N", "N", (16000, 32000, 64000, 128000), {"d": 96}, [*NO_CKA, *FEW], ["ridge"], lambda n: n, ""),
    Row("3", "ridge with λ\\*", "d² N", "d", (32, 64, 128, 256), {"N": 16000}, [*NO_CKA, *FEW], ["ridge"], lambda d: d**2,
        "Work that is linear in d, such as reading the rows, still counts at these sizes."),
    Row("3'", "cross-validated ridge", "L Λ M d² N", "L", (5, 10, 20, 40), {"N": 16000, "d": 128}, [*NO_CKA, *FEW, "lambda.rule=cv"], ["ridge"],
        lambda n: n, "Products of the rows of each fold are summed once for all fits, and one decomposition for each fold serves all penalties."),
    Row("4", "Hessian's determinant and blend, few rows", "M d³", "d", (128, 256, 512, 1024), {"N": 50}, [*NO_CKA, *FEW], ["ridge", "blend"],
        lambda d: d**3, "The products of the fits, N d², count as well, and larger matrices use the caches and vector units better."),
    Row("predict", "one sample", "G + d + p", "G", (16, 32, 64, 128), {"N": 600}, GATE, ["predict"], lambda g: g,
        "A part of the time of a sample does not depend on G."),
]  # fmt: skip


def exponent(sizes, values):
    """The slope of log values over log sizes by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def write_pool(folder, rows, members, duplicates):
    """Words that name a pool of softmax predictions; groups of ten members are near duplicates, or all are independent."""
    rng = np.random.default_rng(members)
    labels = rng.integers(0, CLASSES, rows)
    np.save(folder / "labels.npy", labels)
    files = []
    for k in range(members):
        if not duplicates or k % 10 == 0:
            base = 2 * rng.standard_normal((rows, CLASSES), dtype=np.float32)
            base[np.arange(rows), labels] += 1
        e = np.exp(base + (0.01 * rng.standard_normal(base.shape, dtype=np.float32) if duplicates else 0))
        np.save(folder / f"m{k:04d}.npy", (e / e.sum(axis=1, keepdims=True)).astype(np.float32))
        files.append(folder / f"m{k:04d}.npy")
    return ["--labels", folder / "labels.npy", *files]


def tool(options, *words):
    """The document, and the share of the wall time that the process had a processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([options.tool, *map(str, words), "--threads", "1", "--json", "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise common.ToolError(f"corestack {words[0]}: exit {done.returncode}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return json.loads(done.stdout), min(1.0, cpu / (time.monotonic() - start))


def seconds(options, row, size):
    """The least of several runs of a phase at one size; exact and Nystrom CKA without what the cheapest CKA takes, which is mostly the widths of
    kernels."""
    sizes = {**row.fixed, row.varied: size}
    members, folds = next(sizes[key] for key in ("K", "G", "d") if key in sizes), sizes.get("L", 5)

    def settings(words):
        return [w for word in ("evaluate.nested=false", "checks=off", f"folds.count={folds}", *words) for w in ("--set", word)]

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pool = write_pool(folder, sizes["N"], members, "cka.lsh=on" in row.words)

        def fit(words):
            report, share = tool(options, "fit", *pool, "-o", folder / "stack.cstack", "--preset", "paper", *settings(words))
            return share * sum(report["seconds"][part] for part in row.parts if part != "predict")

        if row.parts == ["predict"]:
            fit(row.words)
            reports = [tool(options, "profile", folder / "stack.cstack", *pool, "--methods", "none", "--seconds", "0.3")[0] for _ in range(REPEATS)]
            return min(report["rows"][0]["single_p50_us"] for report in reports) / 1e6
        least = min(fit(row.words) for _ in range(REPEATS))
        if row.phase in ("1a", "1b"):
            least -= min(fit([*CHEAPEST, *FEW]) for _ in range(REPEATS))
        return max(least, 1e-6)


def measure(options, phases):
    """Rows of the table, of all phases or of those that are named."""
    out = []
    for row in ROWS:
        if phases and row.phase not in phases:
            continue
        times = [seconds(options, row, size) for size in row.sizes]
        out.append({"phase": row.phase, "varied": row.varied, "sizes": list(row.sizes), "seconds": times, "exponent": exponent(row.sizes, times),
                    "paper": exponent(row.sizes, [row.paper(size) for size in row.sizes]), "measured": common.measured_with(options)})
        print(f"{row.phase} {row.varied}: {out[-1]['exponent']:.2f}; seconds {', '.join(f'{t:.3g}' for t in times)}", file=sys.stderr, flush=True)
    return out


def ratio(options):
    """How many times longer the ridge takes with cross-validation, and how many fits the paper counts for it."""
    crossed = next(row for row in ROWS if row.phase == "3'")
    plain = crossed._replace(words=[w for w in crossed.words if w != "lambda.rule=cv"])
    return {"measured": seconds(options, crossed, 5) / seconds(options, plain, 5), "paper": 5 * GRID}


def size_text(value):
    return f"{value:,}"


def section(table):
    rows = []
    for one in table["rows"]:
        row = next(r for r in ROWS if (r.phase, r.varied) == (one["phase"], one["varied"]))
        kept = ", ".join(f"{key} = {size_text(value)}" for key, value in row.fixed.items())
        unit, scale = ("µs", 1e6) if row.phase == "predict" else ("s", 1)
        times = ", ".join(f"{scale * t:.2g}" for t in one["seconds"])
        last = exponent(one["sizes"][-2:], one["seconds"][-2:])
        rows.append([row.phase, row.what, row.order, f"{row.varied} ({kept})", ", ".join(map(size_text, one["sizes"])), f"{times} {unit}",
                     f"{one['exponent']:.2f}", f"{last:.2f}", f"{one['paper']:.2f}", row.remark if abs(one["exponent"] - one["paper"]) > FAR else ""])
    r, measured = table["ratio"], {f"{one['phase']} {one['varied']}": one["measured"] for one in table["rows"]}
    far = statistics.median(abs(one["exponent"] - one["paper"]) for one in table["rows"])
    return ["The paper's supplement gives the order of time of each phase. This table has the growth that is measured on synthetic pools of "
            f"{CLASSES} classes when one size grows, on one thread, with preset `paper`. The exponent is the slope of log seconds over log size. "
            f"The paper's is the slope of its order over the same sizes, so a logarithm counts. The median difference is {far:.2f}.", "",
            "N: samples. K: members before redundant ones leave. G: members that stay. d: meta-features. p: parameters of the gate. L: folds. "
            "Λ: penalties that are tried. M: meta-learners.", "",
            *common.table(["phase", "what is timed", "the paper's order", "varied (fixed)", "sizes", "time", "exponent", "of the last step", "the paper's",
                           "why they differ"], rows),
            f"With {r['paper'] // GRID} folds and {GRID} penalties the paper's order counts {r['paper']} fits for the cross-validated ridge where λ\\* needs "
            f"one, and it reports a speedup of 3.2. Here cross-validation takes {r['measured']:.1f} times as long, because the products of all rows are "
            "shared. Phase 4 is timed as the phases `ridge` and `blend` of a fit with few rows. Training the members (phase 0) is not part of this project.", "",
            f"Each time is the least of {REPEATS} runs, of processor seconds on a machine that other processes used. In phases "
            "1a and 1b it is without the time of the cheapest CKA, of one landmark, which mostly finds the widths of the kernels. Measured: "
            f"{common.measured_text(measured, False)}."]  # fmt: skip


def main():
    options = common.arguments(__doc__, lambda p: p.add_argument("--phase", action="append", default=[], metavar="NAME",
                                                                 help="measure this phase and keep the others as they are; may be repeated"))
    figures = common.read_json(FOLDER / "figures.json")
    if options.known and not options.write_only:
        old = figures.get("table", {"rows": []})
        rows = {(row["phase"], row["varied"]): row for row in (*old["rows"], *measure(options, options.phase))}
        figures["table"] = {"rows": [rows[row.phase, row.varied] for row in ROWS if (row.phase, row.varied) in rows],
                            "ratio": ratio(options) if "ratio" not in old or not options.phase or "3'" in options.phase else old["ratio"]}
        common.write_json(FOLDER / "figures.json", figures)
    if "table" in figures:  # otherwise the page has no such section
        common.write_section(options, "complexity", "Complexity of the phases", section(figures["table"]), "table.py")


if __name__ == "__main__":
    try:
        main()
    except common.ToolError as error:
        sys.exit(str(error))
