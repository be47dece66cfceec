"""Times of a fit on several ranks: measured on this machine, and by a model for clusters. Writes a part of docs/clusters.md.

    ranks.py --measure     measures into bench/ranks.json (about five minutes on an idle machine; root for delayed links)
    ranks.py --page        writes the tables of docs/clusters.md and docs/clusters-*.svg from bench/ranks.json
    ranks.py --smoke       both on tiny pools, and writes nothing

Needs `make build` and the targets bench-pool, bench-ranks and delayed_links of build/ (--measure builds them). The model is
in stage_times() and predict(); what it starts from is in bench/ranks.json, ASSUMED, READS and bytes_of().
"""
import json
import math
import os
import subprocess
import sys
import time

import common
from common import BUILD, CORES, ROOT, say
from rank_page import write_page

sys.path.insert(0, str(ROOT / "tests" / "ranks"))
import hosts as namespaces  # noqa: E402

RESULTS = ROOT / "bench" / "ranks.json"
# Rows, classes, members: a small pool, and one that is larger in one respect each.
BASE = (10000, 64, 8)
LARGER = {"rows": (40000, 64, 8), "classes": (10000, 256, 8), "members": (10000, 64, 20)}
# Rows of the sample on which members are selected and weights begin, here and by default.
SAMPLE, SAMPLE_DEFAULT = 10000, 100000
# Delay in ms, Mbit/s of a host's link, numbers of hosts.
LINKS = [(1, 1000, (2, 4)), (1, 100, (2,)), (10, 1000, (2, 4)), (10, 100, (2,))]
LAUNCH = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def tiny():
    """Sizes that show only that the harness works."""
    global BASE, LARGER, SAMPLE, LINKS
    BASE, SAMPLE, LINKS = (1500, 12, 3), 1000, [(1, 1000, (2,))]
    LARGER = {"rows": (3000, 12, 3), "classes": (1500, 24, 3), "members": (1500, 12, 5)}


# ---- measuring

def build():
    subprocess.run(["cmake", "--build", BUILD, "--target", "corestack-mpi", "bench-pool", "bench-ranks", "delayed_links"],
                   check=True, stdout=subprocess.DEVNULL)


def launch(ranks, words, hosts=None):
    """Standard output of a program on so many ranks."""
    words = ["mpirun", "-n", str(ranks), *map(str, words)]
    if hosts:
        done = hosts.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    else:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, **LAUNCH})
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def fit(shape, ranks, hosts=None):
    """What the document of a fit says of its ranks: seconds, and of each stage what docs/json.md has."""
    path = common.pool(*shape, "f16")
    start = time.monotonic()
    text = launch(ranks, [BUILD / "corestack-mpi", "fit", path, "-o", common.WORK / "model", "--threads", 1, "--json", "--set",
                          "evaluate.nested=false", "--set", f"select.max_rows={SAMPLE}"], hosts)
    document = json.loads(text)
    say(f"bench: {'x'.join(map(str, shape))} on {ranks} ranks: {time.monotonic() - start:.1f} s")
    stages = {s.pop("stage"): s for s in document["ranks"]["stages"]}
    # waiting of the first rank's document: all ranks take part in every round
    return {"ranks": ranks, "shape": shape, "stages": stages, "kept": document["models_kept"],
            "seconds": sum(s["seconds_computing"] + s["seconds_waiting"] for s in stages.values())}


def rounds(ranks, seconds, hosts=None):
    return json.loads(launch(ranks, [BUILD / "bench-ranks", seconds], hosts))


def measure():
    build()
    about = {"cpu": cpu(), "cores": CORES, "load": os.getloadavg()[0], "sample": SAMPLE,
             "mpi": version()}
    results = {"machine": about, "rates": {}, "ranks": [], "rounds": {}, "links": []}
    for name, shape in {"base": BASE, **LARGER}.items():
        results["rates"][name] = [fit(shape, ranks) for ranks in (1, 2)]
        keep(results)
        if not results["rates"]["base"][1]["stages"]["selection"]["rounds"] and SAMPLE == 10000:
            raise SystemExit("bench: exchanges took so long that ranks did not divide passes: measure on an idle machine")
    for ranks in (2, 3, 4):
        results["rounds"][str(ranks)] = rounds(ranks, 0.1)
    results["ranks"] = results["rates"]["base"] + [fit(BASE, ranks) for ranks in (3, 4)]
    reason = namespaces.why_not()
    if reason:
        say(f"bench: no delayed links: {reason}")
    for delay, rate, counts in LINKS if not reason else []:
        for ranks in counts:
            with namespaces.Hosts(ranks, delay, rate) as hosts:
                timed = rounds(ranks, 0.2, hosts)
                results["links"].append({"delay_ms": delay, "rate_mbit": rate, "rounds": timed, **fit(BASE, ranks, hosts)})
                keep(results)
    return results


def keep(results):
    """What there is so far, where a later part fails."""
    (BUILD / "bench-ranks.json").write_text(json.dumps(results))


def cpu():
    return next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")


def version():
    return subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]


# ---- links

def link(timed):
    """Latency of a round and bytes a second, by least squares of relative errors over the sizes of an allreduce."""
    sums = [0.0] * 5
    for size, seconds, _ in timed:
        w = 1 / seconds**2
        for i, term in enumerate((1, size, size * size, seconds, size * seconds)):
            sums[i] += w * term
    one, x, xx, y, xy = sums
    slope = (one * xy - x * y) / (one * xx - x * x)
    latency = (y - slope * x) / one
    if latency <= 0:
        latency, slope = timed[0][1], max(slope, 1e-12)
    return {"latency": latency, "rate": 1 / max(slope, 1e-12)}


# ---- the check on this machine

# Stages whose passes over the compact table ranks divide only if that saves more than an exchange takes.
TABLE_STAGES = ("table of the classes that matter", "selection", "meta-learners")
ENTRIES = 128  # a row of the table, at most


def repeated(one, two):
    """The share of a stage that every rank repeats, from its computing on one rank and on two."""
    return min(max(2 * two / one - 1, 0), 1) if one > 1e-3 else 1


def shares(results):
    """By stage: seconds on one rank, and the share that is repeated."""
    one, two = (results["rates"]["base"][i]["stages"] for i in (0, 1))
    return {name: (s["seconds_computing"], repeated(s["seconds_computing"], two[name]["seconds_computing"]))
            for name, s in one.items() if name in two}


def divided(results, ranks, latency):
    """Whether ranks divide the table's passes (cst_ranks_worth in src/base/ranks.c)."""
    rows, classes, members = results["rates"]["base"][0]["shape"]
    numbers = min(rows, results["machine"]["sample"]) * members * min(classes, ENTRIES)
    return numbers >= 1 << 20 and 1e-9 * numbers * (1 - 1 / ranks) > latency


def predict(results, run, timed):
    """Seconds of a run on this machine: computing by one and two ranks, communication by rounds and bytes. Ranks share the
    machine's cores."""
    ranks = run["ranks"]
    way = link(timed)
    crowded = max(1, ranks / results["machine"]["cores"])
    whole = not divided(results, ranks, way["latency"])
    computing = waiting = 0
    for name, (seconds, share) in shares(results).items():
        share = 1 if whole and name in TABLE_STAGES else share
        computing += crowded * seconds * (share + (1 - share) / ranks)
        stage = run["stages"].get(name)
        if stage:
            waiting += stage["rounds"] * way["latency"] + max(stage["sent_bytes_most"], stage["received_bytes"]) / way["rate"]
    return {"computing": computing, "waiting": waiting, "seconds": computing + waiting, **way}


def checks(results):
    """Every run on more than one rank: measured and predicted."""
    out = []
    for run in results["ranks"][1:]:
        out.append((f"{run['ranks']} ranks, shared memory", run, predict(results, run, results["rounds"][str(run["ranks"])])))
    for run in results["links"]:
        name = f"{run['ranks']} hosts, {run['delay_ms']} ms, {run['rate_mbit']} Mbit/s"
        out.append((name, run, predict(results, run, run["rounds"])))
    return out


# ---- the model of a cluster

ASSUMED = {
    "rows": 10**8, "classes": 1000, "members": 100, "bytes": 2,
    "rows_of_a_rank": 10**8 // 512,     # weak scaling: those of 512 ranks
    "threads": 16, "thread_gain": 0.8,  # of each rank; share of linear speed-up
    "disk": 2e9,                        # bytes a second that a rank reads from storage
    "memory": 256e9,                    # of a rank; predictions stay in memory up to three eighths of it
    "cka_seconds": 12,                  # core seconds after which CKA's tiles end (docs/redundancy.md)
    "cka_bytes": 300e6, "cka_row": 256, # packed rows of CKA; bytes of a packed row of a member
    "networks": {"10 µs, 10 GB/s": (10e-6, 10e9), "100 µs, 1 GB/s": (100e-6, 1e9)},
    "ranks": [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
}
GRAIN_ROWS = 2048  # rows that ranks do not divide further in the compact table (CST_COMPACT_GRAIN blocks)
# How often a stage reads all predictions of a rank's rows where they are not in memory: from the code. The meta-learners
# polish four log-linear pools on all rows, each in up to 12 passes.
READS = {"read": 1, "risk of members": 1, "correlations": 2, "meta-learners": 48, "reference for the guard": 1,
         "scores of members": 1}
# Stages whose work ends at a sample of the rows, but for what grows with rows in the measurements.
SAMPLED = ("table of the classes that matter", "selection", "meta-learners")


def exponent(small, large, ratio):
    return max(math.log(large / small) / math.log(ratio), 0) if small > 1e-3 and large > 1e-3 else 0


def costs(results):
    """By stage: seconds a prediction of all rows, seconds of the sample (at BASE), exponents of the latter in members and
    classes, repeated share; and rounds with their exponent in members."""
    of = {name: [run["stages"] for run in runs] for name, runs in results["rates"].items()}
    shape = {name: runs[0]["shape"] for name, runs in results["rates"].items()}
    rows, classes, members = shape["base"]
    out = {}
    for name, stage in of["base"][0].items():
        if any(name not in stages for pair in of.values() for stages in pair):
            continue
        base = stage["seconds_computing"]
        other = {key: of[key][0][name]["seconds_computing"] for key in LARGER}
        cells = rows * classes * members
        each = max(other["rows"] - base, 0) / (cells * (shape["rows"][0] / rows - 1))
        fixed = max(base - each * cells, 0)
        def grown(key, axis):
            big = shape[key][0] * shape[key][1] * shape[key][2]
            return exponent(fixed, max(other[key] - each * big, 0), shape[key][axis] / shape["base"][axis])
        two = of["base"][1][name]
        share = repeated(*(stages[name]["seconds_computing"] for stages in of["members"]))  # of the longer computing
        r = {key: of[key][1][name]["rounds"] for key in ("base", "members")}
        out[name] = {"each": each, "fixed": fixed, "by_members": grown("members", 2), "by_classes": grown("classes", 1),
                     "repeated": share, "rounds": r["base"], "bytes": two["received_bytes"],
                     "rounds_by_members": exponent(max(r["base"], 1), max(r["members"], 1), shape["members"][2] / members)}
    return out


def bytes_of(name, rows, classes, members, sample, count):
    """Bytes that a rank gets in a stage with so many rounds, by what src/ sends. The shares of rounds are of fits that were
    traced; the table that says how well it does is in docs/clusters.md."""
    newton = 8 * (1 + members + members * (members + 1) / 2) + 64
    if name == "selection":  # Newton steps without biases; losses of the sample's rows of a fold in each ninth round
        return count * (8 / 9 * newton + 8 * sample / 5 / 9)
    if name == "meta-learners":  # gradients of all classes; in each fifth or sixth round a Hessian with biases; losses of rows
        d = members + classes
        return count * ((8 * (1 + d + d * (d + 1) / 2) + 64) / 5.6 + 8 * (1 + 3 * members + classes)) + 30 * 8 * sample
    if name == "redundancy":  # two sums and 9 bytes of levels for each member and sampled row; sums of strips, at most 64 MB
        n = min(rows, ASSUMED["cka_bytes"] / members / ASSUMED["cka_row"])
        strips = n / 128 * 8 * members * (members + 1)
        return (16 + 9) * members * n + min(64e6, strips) + count * 8 * members * members
    if name == "reference for the guard":  # predictions of 32,768 rows, of more rows twice; a hash of every row
        some = min(rows, 32768)
        return (4 * classes * (1 + (rows > some)) + 140) * some + 8 * rows
    if name == "read":
        return 4 * members * min(rows, 20000)
    return count * 8 * (members * members + members if name == "correlations" else 3 * members)


def stage_times(cost, name, rows, ranks, network):
    """Seconds of a stage on a cluster: computing, reading from storage, communication; and its bytes and rounds."""
    a = ASSUMED
    base_rows, base_classes, base_members = BASE
    classes, members = a["classes"], a["members"]
    latency, rate = network
    cells = rows * classes * members
    power = a["threads"] * a["thread_gain"]
    sample = min(rows, SAMPLE_DEFAULT)
    fixed = cost["fixed"] * (members / base_members) ** cost["by_members"] * (classes / base_classes) ** cost["by_classes"]
    most = ranks
    if name in SAMPLED:
        fixed *= sample / min(base_rows, SAMPLE)
        most = min(ranks, max(sample // GRAIN_ROWS, 1))
    if name == "redundancy":
        fixed = min(fixed, a["cka_seconds"])
        cells = 0  # of the sample, which is part of that
    share = cost["repeated"]
    own = cells / ranks * a["bytes"]
    computing = fixed * (share + (1 - share) / most) + cost["each"] * cells / ranks
    passes = READS.get(name, 0)
    if own < 0.375 * a["memory"] and name != "read":  # in memory from then on
        passes = 0
    count = cost["rounds"] * (members / base_members) ** cost["rounds_by_members"]
    sent = bytes_of(name, rows, classes, members, sample, count)
    levels = 2 * math.ceil(math.log2(ranks))
    return {"computing": computing / power, "reading": passes * own / a["disk"], "rounds": count, "bytes": sent,
            "waiting": levels * (count * latency + sent / rate)}


def cluster(results, rows, ranks, network):
    return {name: stage_times(cost, name, rows, ranks, network) for name, cost in costs(results).items()}


def total(stages):
    return sum(s["computing"] + s["reading"] + s["waiting"] for s in stages.values())


def main():
    words = sys.argv[1:]
    if len(words) != 1 or words[0] not in ("--measure", "--page", "--smoke"):
        raise SystemExit(__doc__)
    if words[0] == "--smoke":
        tiny()
    if words[0] == "--page" and not RESULTS.exists():
        raise SystemExit("bench: there is no bench/ranks.json: run bench/ranks.py --measure first")
    try:
        results = measure() if words[0] != "--page" else json.loads(RESULTS.read_text())
    finally:
        for folder in common.WORK.glob("pool-*"):
            common.drop_pool(folder / "pool.json")
    if words[0] == "--measure":
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write_page(results, sys.modules[__name__], words[0] == "--page")


if __name__ == "__main__":
    main()
