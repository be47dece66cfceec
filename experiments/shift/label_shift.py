#!/usr/bin/python3
"""Label shift: what `corestack predict --label-shift` gains where class shares change, and what it costs elsewhere.

    experiments/shift/label_shift.py [--tool corestack] [--batches 100] POOL.json...

Batches are drawn from split `test`, as conditions of a further split: clean ones, and ones whose class shares come from a
Dirichlet distribution around even shares. Batches of corrupted conditions are the conditions of split `corrupted`, 200 rows
at a time. Each is predicted with the guard alone and with label shift. Writes Markdown, and figures as JSON with --json FILE.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = (50, 200, 500)
CONCENTRATIONS = (0.1, 0.5, 1, 5)


def probabilities(folder, pool, model, split):
    p = np.load(folder / model["predictions"][split]).astype(float)
    if pool.get("output") == "logit":
        p = np.exp(p - p.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)).astype(np.float32)


def shifted_rows(rng, labels, classes, size, concentration):
    """Rows without repetition, with class shares of a Dirichlet distribution as far as there are enough rows."""
    counts = rng.multinomial(size, rng.dirichlet(np.full(classes, concentration)))
    own = [np.flatnonzero(labels == c) for c in range(classes)]
    counts = np.minimum(counts, [len(rows) for rows in own])
    rows = np.concatenate([rng.choice(rows, n, replace=False) for rows, n in zip(own, counts)])
    rest = np.setdiff1d(np.concatenate([own[c] for c in np.flatnonzero(counts)]), rows)
    more = min(size - len(rows), len(rest))
    rows = np.concatenate([rows, rng.choice(rest, more, replace=False)])
    if len(rows) < size:  # of very few classes: the batch is as large as they allow
        rows = np.concatenate([rows, rng.choice(rows, size - len(rows))])
    return rng.permutation(rows)


def losses(p, labels):
    return -np.log(np.maximum(np.take_along_axis(p, labels[..., None], -1)[..., 0], 1e-15))


class Tool:
    def __init__(self, path, manifest, folder):
        self.path, self.folder, self.source = path, folder, manifest
        self.model = folder / "stack.cstack"
        self.run("fit", manifest, "-o", self.model, "--set", "evaluate.nested=false")

    def run(self, *words):
        return subprocess.run([self.path, *map(str, words)], check=True, capture_output=True, text=True).stdout

    def predict(self, manifest, split, *words):
        out = self.folder / "out.npy"
        document = json.loads(self.run("predict", self.model, manifest, "--split", split, "-o", out, "--json", *words))
        return np.load(out).astype(float), document


def put_split(folder, members, name, rows):
    """A split of batches [batches, rows] as conditions, without labels, which would be the same in all conditions."""
    split = {"conditions": [{"shift": "draw", "kind": str(b), "severity": 1} for b in range(len(rows))]}
    for member, p in members.items():
        np.save(folder / f"{member}.{name}.npy", p[rows])
    return split


def row_of(name, size, plain, shifted, document, labels, batch_rows):
    """Figures of one set of batches; plain, shifted: [batches, rows, classes]."""
    before, after = losses(plain, labels), losses(shifted, labels)
    batches = document["label_shift"]["batches"]
    applied = np.array([b["applied"] for b in batches])
    change = (after - before).reshape(-1)
    flat = labels.reshape(-1)
    means, inside = [], []
    for batch in batches:
        at = slice(batch["first"], batch["first"] + batch["rows"])
        means.append(change[at].mean())
        truth = np.bincount(flat[at], minlength=len(batch["shares"])) / batch["rows"]
        inside += [s["low"] <= t <= s["high"] for s, t in zip(batch["shares"], truth) if s["low"] is not None]
    means = np.array(means)
    return {"batches": name, "rows": size, "count": len(batches), "applied": applied.mean(),
            "verdicts": {v: int(sum(b["verdict"] == v for b in batches)) for v in ("applied", "same", "other-shift", "guarded", "few-rows")},
            "nll": before.mean(), "nll_shifted": after.mean(), "change_applied": means[applied].mean() if applied.any() else None,
            "worst": means.max(), "worse_batches": float((means > 1e-9).mean()), "inside": float(np.mean(inside))}


def one_pool(tool_path, manifest, count, seed):
    pool = json.loads(manifest.read_text())
    rng = np.random.default_rng(seed)
    labels = np.load(manifest.parent / pool["splits"]["test"]["labels"]).astype(int)
    classes = pool["classes"] if isinstance(pool["classes"], int) else len(pool["classes"])
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tool = Tool(tool_path, manifest, folder)
        members = {m["name"]: probabilities(manifest.parent, pool, m, "test") for m in pool["models"]}
        for size in SIZES:
            draws = {"clean": np.stack([rng.choice(len(labels), size, replace=False) for _ in range(count)])}
            for a in CONCENTRATIONS:
                draws[f"Dirichlet {a}"] = np.stack([shifted_rows(rng, labels, classes, size, a) for _ in range(count)])
            for kind, rows in draws.items():
                split = put_split(folder, members, "drawn", rows)
                made = folder / "drawn.json"
                made.write_text(json.dumps({"corestack_pool": 1, "task": "classification", "classes": pool["classes"], "splits": {"drawn": split},
                                            "models": [{"name": m, "predictions": {"drawn": f"{m}.drawn.npy"}} for m in members]}))
                plain, _ = tool.predict(made, "drawn")
                for method in ("em", "bbse"):
                    shifted, document = tool.predict(made, "drawn", "--label-shift", method)
                    found.append({"method": method, **row_of(kind, size, plain, shifted, document, labels[rows], size)})
        if "corrupted" in pool["splits"]:
            worn = np.load(manifest.parent / pool["splits"]["corrupted"]["labels"]).astype(int)
            plain, _ = tool.predict(manifest, "corrupted", "--batch", 200)
            worn = np.broadcast_to(worn, plain.shape[:2]) if worn.ndim == 1 else worn
            for method in ("em", "bbse"):
                shifted, document = tool.predict(manifest, "corrupted", "--batch", 200, "--label-shift", method)
                found.append({"method": method, **row_of("corrupted", 200, plain, shifted, document, worn, 200)})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=pathlib.Path, metavar="POOL.json")
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    figures = {}
    for manifest in options.pools:
        figures[manifest.parent.name] = one_pool(options.tool, manifest.resolve(), options.batches, options.seed)
        print(f"\n### {manifest.parent.name}\n\n| batches | rows | method | applied % | guard or own test refuses % | NLL | with | change where applied | worst batch | shares inside 95% |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for r in figures[manifest.parent.name]:
            refused = (r["verdicts"]["guarded"] + r["verdicts"]["other-shift"]) / r["count"]
            change = "" if r["change_applied"] is None else f"{r['change_applied']:+.3f}"
            print(f"| {r['batches']} | {r['rows']} | {r['method']} | {100 * r['applied']:.1f} | {100 * refused:.1f} | {r['nll']:.4f} | "
                  f"{r['nll_shifted']:.4f} | {change} | {r['worst']:+.3f} | {100 * r['inside']:.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
