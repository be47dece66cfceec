"""What a fit cannot do without, stage by stage, from the machine's rates: the floors of bench/run.py.

A pass of a log-linear pool with k members over n (sample, class) pairs reads 4 n k bytes of logs, takes n exponentials and
makes 4 n k multiplications and additions, with curvature n k (k + 1) more: the larger of reading and computing. A stage
that computes in several ways has the sum of them. FLOOR_TEXT is what the page says.
"""
import json
import math

import numpy as np

FOLDS = 5
CUT = 1e-3  # loglinear.cut
SELECTED = 100000  # select.max_rows

FLOOR_TEXT = [
    "Floors, with B bytes of files, N samples, C classes, K members (k kept), E = N C pairs of which the share f is in the "
    "compact table, and pass(n, k) the larger of 4 n k bytes over the read rate and n / exp + n (4 k + k (k + 1)) / SGEMM:",
    "",
    "- read: B over the rate of the page cache. cka: `default` 4 E K bytes over the read rate, `paper` FLOPs / SGEMM.",
    "- select: 4 E K bytes, f E K / log, one pass(f E, j) for each size j = 2..K of the path, on at most 100,000 rows.",
    "- ridge: `default` three pass(f E, k) on as many rows, then E k / log and one pass(E, k) without curvature on every "
    "row; `paper` FLOPs of the design and its Grams for all folds / SGEMM. gate, blend, drop: FLOPs / SGEMM.",
    "- nested: five times four fifths of cka, select and ridge. The other methods of `default` count nothing.",
]


def paper_flops(rows, classes, members, kept, refits, hidden=32, epochs=30, gate_rows=20000, judged=2**20):
    """Multiplications and additions that the paper's preset cannot do without, by stage: CKA features and their
    products, gates trained and evaluated, Grams. `refits` counts fits of the meta-level after the first, which judge
    removals on `judged` (sample, class) pairs where there are more."""
    landmarks = math.ceil(math.sqrt(rows))
    gate = hidden * (kept + 12)
    width = kept + 14
    train = (FOLDS + 1) * gate_rows * epochs * 6 * gate
    design = rows * classes * FOLDS * (gate + width**2)
    score = rows * classes * FOLDS * gate
    pairs = min(rows * classes, judged) / (rows * classes)
    return {"cka": members * 2 * rows * landmarks * (classes + landmarks) + members * (members + 1) * rows * landmarks**2,
            "gate": train, "ridge": design, "blend": score, "drop": refits * (train + pairs * (design + score))}


def paper(manifest, size, flops, about):
    """Floors by stage of the paper's preset; the total is the larger of reading and computing."""
    floors = {stage: count / about["sgemm_2"] for stage, count in flops.items()}
    return {"read": size / about["read_cached"], **floors,
            "total": max(size / about["read_cached"], sum(floors.values()))}


def kept_share(manifest, rows=2000):
    """Share of the (sample, class) pairs that a compact table keeps."""
    document = json.loads(manifest.read_text())
    if document["classes"] <= 64:
        return 1.0
    mean = 0
    for model in document["models"]:
        member = np.load(manifest.parent / model["predictions"]["oof"], mmap_mode="r")
        mean = mean + np.asarray(member[::max(1, len(member) // rows)], np.float64) / len(document["models"])
    return float(np.minimum(np.maximum(mean, CUT / document["classes"]) / CUT, 1).mean())


def one_pass(pairs, members, about, curvature=True):
    rates = about["rates_2"]
    flops = 4 * members + (members * (members + 1) if curvature else 0)
    return max(pairs * members / rates["read"], pairs / rates["exp"] + pairs * flops / about["sgemm_2"])


def default(manifest, shape, size, document, about):
    """Floors by stage of the default preset on a pool."""
    rows, classes, members = shape
    rates = about["rates_2"]
    pairs = rows * classes
    table = min(rows, SELECTED) * classes * kept_share(manifest)
    path = members - sum(d["because"] == "redundant" for d in document["dropped"])
    kept = document["models_kept"]
    out = {"read": size / about["read_cached"], "cka": pairs * members / rates["read"],
           "select": pairs * path / rates["read"] + table * path / rates["log"]
           + sum(one_pass(table, j, about) for j in range(2, path + 1)),
           "ridge": 3 * one_pass(table, kept, about) + pairs * kept / rates["log"]
           + one_pass(pairs, kept, about, False)}
    if document["oof"].get("nested"):
        out["nested"] = FOLDS * 0.8 * (out["cka"] + out["select"] + out["ridge"])
    out["total"] = sum(out.values())
    return out
