"""`corestack online` on streams whose distribution shifts at once, gradually, again and again, or not at all.

    experiments/shift/online.py [--tool PATH] POOL...

POOL is a folder with a pool.json that has splits `oof`, `test` and `corrupted` with kinds and severities. Streams are made of
`test` rows and of every second kind of corruption, in alphabetical order from the second on: the others were used to choose the
rates of the adapter. Rows of a condition come in random order, so that order by class teaches nothing. For each kind of stream,
means over corruption kinds:

  none       test rows alone; every label, at once
  abrupt     600 clean rows, then 600 of the highest severity
  gradual    600 clean rows, then the severities from low to high, 600 rows each, of which the first half is mixed with the last
  recurring  200 clean rows and 200 of the highest severity, three times
  sequence   all conditions of these kinds in random order, one stream

Labels: all at once; all, 200 rows late; a tenth of them, at once. Regret is in nats per 1,000 rows with a label.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

LABELS = {"all": [], "late": ["--delay", "200"], "tenth": []}
KEYS = ("adapter", "stack", "average", "best_member", "switching")


class Pool:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "pool.json").read_text())
        self.models = self.manifest["models"]
        self.splits = {name: self.read(name) for name in ("test", "corrupted")}
        self.conditions = self.manifest["splits"]["corrupted"]["conditions"]
        kinds = sorted({c["kind"] for c in self.conditions})[1::2]
        self.kinds = {k: sorted((c["severity"], i) for i, c in enumerate(self.conditions) if c["kind"] == k) for k in kinds}

    def read(self, split):
        x = np.stack([np.load(self.folder / m["predictions"][split]) for m in self.models])
        return x, np.load(self.folder / self.manifest["splits"][split]["labels"])

    def rows(self, rng, condition, count):
        """`count` rows of a condition, or of the test split (None): predictions [members, rows, classes], labels."""
        x, y = self.splits["test" if condition is None else "corrupted"]
        chosen = rng.permutation(len(y))[:count]
        return (x if condition is None else x[:, condition])[:, chosen], y[chosen]


def joined(parts):
    return np.concatenate([p for p, _ in parts], 1), np.concatenate([y for _, y in parts])


def mixed(rng, a, b):
    """Rows of a, then of b, with a middle in which they change places at random."""
    x, y = joined([a, b])
    n = len(a[1])
    order = np.arange(len(y)) + rng.uniform(-n / 2, n / 2, len(y))
    order = np.argsort(order, kind="stable")
    return x[:, order], y[order]


def streams(pool, rng):
    """{name: list of streams}"""
    found = {"none": [pool.rows(rng, None, 10**9)], "abrupt": [], "gradual": [], "recurring": []}
    for levels in pool.kinds.values():
        worst = levels[-1][1]
        clean, shifted = pool.rows(rng, None, 600), pool.rows(rng, worst, 600)
        found["abrupt"].append(joined([clean, shifted]))
        rising = clean
        for _, condition in levels:
            rising = mixed(rng, rising, pool.rows(rng, condition, 600))
        found["gradual"].append(rising)
        found["recurring"].append(joined([part for _ in range(3) for part in (pool.rows(rng, None, 200), pool.rows(rng, worst, 200))]))
    every = [i for levels in pool.kinds.values() for _, i in levels]
    found["sequence"] = [joined([pool.rows(rng, i, 600) for i in rng.permutation(every)])]
    return found


def measure(tool, model, pool, stream, labels, rng):
    x, y = stream
    y = y.astype(np.int32).copy()
    if labels == "tenth":
        y[rng.uniform(size=len(y)) >= 0.1] = -1
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        np.save(place / "y.npy", y)
        models = []
        for m, p in zip(pool.models, x):
            np.save(place / f"{m['name']}.npy", p)
            models.append({"name": m["name"], "predictions": {"test": f"{m['name']}.npy"}})
        manifest = {key: pool.manifest[key] for key in ("corestack_pool", "task", "classes", "output") if key in pool.manifest}
        (place / "pool.json").write_text(json.dumps({**manifest, "splits": {"test": {"labels": "y.npy"}}, "models": models}))
        words = [tool, "online", model, place / "pool.json", "--json", "--quiet", *LABELS[labels]]
        done = subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pools", nargs="+", metavar="POOL")
    parser.add_argument("--tool", default="build/corestack")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| pool | stream | labels | NLL: adapter | stack | average | best member | best per 100 | error %: adapter | stack | average | "
          "regret to stack | best member | best per 100 |")  # fmt: skip
    print("|" + "---|" * 14)
    for path in options.pools:
        pool = Pool(path)
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "stack.cstack"
            fit = [options.tool, "fit", str(pool.folder), "-o", str(model), "--set", "evaluate.nested=false", "--quiet"]
            subprocess.run(fit, check=True, capture_output=True)
            rng = np.random.default_rng(options.seed)
            for name, several in streams(pool, rng).items():
                for labels in LABELS:
                    reports = [measure(options.tool, model, pool, stream, labels, rng) for stream in several]
                    nll = [np.mean([r["nll"][key] for r in reports]) for key in KEYS]
                    error = [100 * np.mean([r["error"][key] for r in reports]) for key in KEYS[:3]]
                    regret = [1000 * np.mean([r["regret"][key] / r["labelled"] for r in reports])
                              for key in ("stack", "best_member", "switching")]  # fmt: skip
                    cells = [f"{v:.4f}" for v in nll] + [f"{v:.2f}" for v in error] + [f"{v:+.1f}" for v in regret]
                    print(f"| {pool.folder.name} | {name} | {labels} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
