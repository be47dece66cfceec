#!/usr/bin/python3
"""Coverage of prediction sets under shift: plain, weighted, and with an adaptive level.

    experiments/shift/coverage.py [--tool corestack] POOL.json...

Sets of 90% are calibrated on split `test` and judged on every condition of `corrupted` (`corestack bound --batch-split`), on
batches of `test` with other class shares, and on batches with more of the rows whose members disagree; there one half of
`test` calibrates and the other is drawn from. The adaptive level (step 0.02, as in src/fit/adapt/online_conformal.c) sees each
label after its set was made, and starts from the calibration's scores. Writes Markdown, and JSON with --json FILE.
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np

from label_shift import ROOT, Tool, probabilities, put_split, shifted_rows

ALPHA, STEP, WINDOW = 0.1, 0.02, 512


def adaptive(scores, start):
    """Share of scores inside, and thresholds, of a stream of scores [rows] of the labels."""
    window, level, inside, thresholds = list(start[-WINDOW:]), ALPHA, [], []
    for score in scores:
        ordered = np.sort(window[-WINDOW:])
        place = int(np.ceil((len(ordered) + 1) * (1 - level) - 1e-12))
        threshold = -np.inf if level >= 1 or place < 1 else np.inf if place > len(ordered) else ordered[place - 1]
        inside.append(score <= threshold)
        thresholds.append(threshold)
        level += STEP * (ALPHA - (not inside[-1]))
        window.append(score)
    return np.mean(inside), np.array(thresholds)


def scores_of(p, labels):
    return 1 - np.take_along_axis(p, labels[:, None], 1)[:, 0]


def bound(tool, manifest, split, batch, kind, labels):
    """What is said of each batch, with the coverage of its sets."""
    out = tool.folder / "sets.npy"
    batches = json.loads(tool.run("bound", tool.model, manifest, "--split", split, "--batch-split", batch, "--shift", kind, "--alpha", ALPHA,
                                  "--sets", out, "--json"))["under_shift"]["batches"]
    inside = np.take_along_axis(np.load(out), labels[..., None], -1)[..., 0].mean(1)
    for row, covered in zip(batches, inside):
        assert row["coverage"] is None or abs(row["coverage"] - covered) < 1e-6
        row["coverage"] = float(covered)
    return batches


def judge(tool, manifest, split, batch, labels, start):
    """One row for each condition. labels: [conditions, rows]."""
    p, _ = tool.predict(manifest, batch, "--guard", "off")
    kinds = {kind: bound(tool, manifest, split, batch, kind, labels) for kind in ("none", "covariate", "label")}
    rows = []
    for c, (covariate, label) in enumerate(zip(kinds["covariate"], kinds["label"])):
        inside, thresholds = adaptive(scores_of(p[c], labels[c]), start)
        rows.append({"shift": covariate.get("shift"), "kind": covariate.get("kind"), "severity": covariate.get("severity"),
                     "unlike": covariate["unlike"],
                     "plain": kinds["none"][c]["coverage"], "plain_size": covariate["plain_mean_size"],
                     "covariate": covariate["coverage"], "covariate_size": covariate["mean_size"], "covariate_used": covariate["weighted"],
                     "label": label["coverage"], "label_size": label["mean_size"], "label_used": label["weighted"],
                     "adaptive": float(inside), "adaptive_size": float((1 - p[c] <= thresholds[:, None]).sum(1).mean())})
    return rows


def mean_row(name, rows):
    keys = [k for k in rows[0] if k not in ("shift", "kind", "severity")]
    means = {k: float(np.mean([r[k] for r in rows])) for k in keys}
    spread = {k + "_least": float(np.min([r[k] for r in rows])) for k in ("plain", "covariate", "label", "adaptive")}
    return {"batches": name, "count": len(rows), **means, **spread}


def drawn_pool(folder, pool, members, labels, half, rows):
    """A pool of a calibration half and of drawn batches of the other."""
    split = put_split(folder, members, "drawn", rows)
    np.save(folder / "known.labels.npy", labels[half].astype(np.int32))
    for member, p in members.items():
        np.save(folder / f"{member}.known.npy", p[half])
    made = folder / "drawn.json"
    made.write_text(json.dumps({"corestack_pool": 1, "task": "classification", "classes": pool["classes"],
                                "splits": {"known": {"labels": "known.labels.npy"}, "drawn": split},
                                "models": [{"name": m, "predictions": {"known": f"{m}.known.npy", "drawn": f"{m}.drawn.npy"}} for m in members]}))
    return made


def one_pool(tool_path, manifest, seed):
    pool = json.loads(manifest.read_text())
    rng = np.random.default_rng(seed)
    labels = np.load(manifest.parent / pool["splits"]["test"]["labels"]).astype(int)
    classes = pool["classes"] if isinstance(pool["classes"], int) else len(pool["classes"])
    found, conditions = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tool = Tool(tool_path, manifest, folder)
        members = {m["name"]: probabilities(manifest.parent, pool, m, "test") for m in pool["models"]}
        average = np.mean(list(members.values()), axis=0)
        entropy = -(average * np.log(np.maximum(average, 1e-12))).sum(1)
        spread = entropy - np.mean([-(p * np.log(np.maximum(p, 1e-12))).sum(1) for p in members.values()], axis=0)
        order = rng.permutation(len(labels))
        half, rest = order[: len(order) // 2], order[len(order) // 2 :]
        ranks = np.argsort(np.argsort(spread[rest])) / len(rest)
        draws = {"clean": [rng.choice(rest, 400, replace=False) for _ in range(40)],
                 "other class shares": [rest[shifted_rows(rng, labels[rest], classes, 400, 0.5)] for _ in range(40)],
                 "more disagreement": [rng.choice(rest, 400, replace=False, p=ranks**4 / (ranks**4).sum()) for _ in range(40)]}
        for kind, rows in draws.items():
            rows = np.stack(rows)
            made = drawn_pool(folder, pool, members, labels, half, rows)
            p, _ = tool.predict(made, "known", "--guard", "off")
            found.append(mean_row(kind, judge(tool, made, "known", "drawn", labels[rows], scores_of(p, labels[half]))))
        if "corrupted" in pool["splits"]:
            worn = np.load(manifest.parent / pool["splits"]["corrupted"]["labels"]).astype(int)
            count = len(pool["splits"]["corrupted"]["conditions"])
            worn = np.broadcast_to(worn, (count, worn.shape[-1]))
            p, _ = tool.predict(manifest, "test", "--guard", "off")
            conditions = judge(tool, manifest, "test", "corrupted", worn, scores_of(p, labels))
            for severity in sorted({r["severity"] for r in conditions}):
                found.append(mean_row(f"corrupted, severity {severity:g}", [r for r in conditions if r["severity"] == severity]))
            found.append(mean_row("corrupted, all", conditions))
    return {"means": found, "conditions": conditions}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=pathlib.Path, metavar="POOL.json")
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    figures = {}
    for manifest in options.pools:
        figures[manifest.parent.name] = one_pool(options.tool, manifest.resolve(), options.seed)
        print(f"\n### {manifest.parent.name}: coverage % (classes in a set), wanted {100 * (1 - ALPHA):g}\n")
        print("| batches | number | plain | covariate | used | label | used | adaptive | least: plain, covariate, label, adaptive |")
        print("|---|---|---|---|---|---|---|---|---|")
        for r in figures[manifest.parent.name]["means"]:
            cell = lambda k: f"{100 * r[k]:.1f} ({r[k + '_size']:.2f})"  # noqa: E731
            least = ", ".join(f"{100 * r[k + '_least']:.0f}" for k in ("plain", "covariate", "label", "adaptive"))
            print(f"| {r['batches']} | {r['count']} | {cell('plain')} | {cell('covariate')} | {100 * r['covariate_used']:.0f}% | {cell('label')} | "
                  f"{100 * r['label_used']:.0f}% | {cell('adaptive')} | {least} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
