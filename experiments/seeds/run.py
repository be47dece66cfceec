#!/usr/bin/python3
"""Networks that differ only in their seed: CKA and Pearson correlation of their predictions.

    experiments/seeds/run.py [--pools DIR]... [--only POOL]...

The paper: "Consequence for ensemble pruning", CKA above 0.85 while Pearson lies in [0.3, 0.5].
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

# Members that differ only in their seed.
GROUPS = {"cifar10": ["resnet8_s0", "resnet8_s1", "resnet8_s2"], "vision": ["cnn_a", "cnn_b", "cnn_c"],
          "vision_longtail": ["cnn_a", "cnn_b", "cnn_c"], "fashion": ["cnn_a", "cnn_b"], "mnist": ["cnn_a", "cnn_b"],
          "union40": ["mlp_a", "mlp_b"]}


def group_of(name, document):
    """Members that differ only in their seed: of a known pool by name, of another those tagged as one deep ensemble."""
    if name in GROUPS:
        return GROUPS[name]
    tagged = {}
    for model in document["models"]:
        tag = model.get("ensemble") or {}
        if tag.get("kind") == "deep-ensemble":
            tagged.setdefault(tag.get("of"), []).append(model["name"])
    return max(tagged.values(), key=len, default=[])


def measure(options, pools):
    figures = {}
    for name, manifest in pools.items():
        group = group_of(name, json.loads(manifest.read_text()))
        report = common.corestack(options, "inspect", manifest, "--seed", options.seed)
        index = {m: i for i, m in enumerate(report["models"])}
        k = len(index)
        pairs = [(a, b) for i, a in enumerate(group) for b in group[i + 1:]]
        every = [(report["cka"][i][j], report["pearson"][i][j]) for i in range(k) for j in range(i)]
        every = [(c, p) for c, p in every if c is not None and p is not None]
        figures[name] = {
            "pairs": {f"{a}-{b}": [report["cka"][index[a]][index[b]], report["pearson"][index[a]][index[b]]] for a, b in pairs},
            "all": len(every), "claimed": sum(c > 0.85 and p < 0.5 for c, p in every),
            "opposite": sum(c <= 0.85 and p > 0.85 for c, p in every), "higher": sum(p > c for c, p in every),
            "rho": common.spearman([c for c, _ in every], [p for _, p in every])}
    return figures, {}


def tables(figures, page):
    cells = [[name, pair, f"{c:.3f}", f"{p:.3f}", f"{f['claimed']} of {f['all']}", f"{f['opposite']} of {f['all']}", f"{f['rho']:.2f}"]
             for name, f in figures.items() for pair, (c, p) in f["pairs"].items()]
    return common.table(["pool", "pair", "CKA", "Pearson", "pairs with CKA > 0.85, Pearson < 0.5",
                         "pairs with CKA <= 0.85, Pearson > 0.85", "rank correlation of the two"], cells)


def section(figures, page):
    return ["The paper says that members of the same architecture trained from different seeds often have a Pearson correlation in "
            "[0.3, 0.5] and a CKA above 0.85, so that CKA finds a redundancy that Pearson misses.", "",
            "The table has both, from `corestack inspect` on `oof`, for pairs that differ only in their seed, and counts over all pairs "
            "of the pool. CKA uses a Gaussian kernel on rows of probabilities; Pearson is that of the flattened rows.", "",
            *tables(figures, page),
            "### Does it hold?", "", verdict(figures), "", common.conditions(page, ["inspect POOL"], resamples=False)]


def verdict(figures):
    pairs = [v for f in figures.values() for v in f["pairs"].values()]
    high = sum(c > 0.85 for c, _ in pairs)
    low = sum(p < 0.5 for _, p in pairs)
    claimed, total = sum(f["claimed"] for f in figures.values()), sum(f["all"] for f in figures.values())
    opposite = sum(f["opposite"] for f in figures.values())
    higher = sum(f["higher"] for f in figures.values())
    return (f"CKA is above 0.85 for {high} of {len(pairs)} such pairs. Pearson is below 0.5 for {low}; its lowest value is "
            f"{min(p for _, p in pairs):.3f}. Of all {total} pairs of these pools, {claimed} have the claimed pattern and {opposite} the "
            f"opposite one; Pearson is higher than CKA for {higher}.")


if __name__ == "__main__":
    common.run(__doc__, "seeds", "Same architecture, different seeds", list(GROUPS), measure, section, tables, common.needs(
        "classification", split=None, more=lambda d: None if len(group_of("", d)) > 1 else "no two members are tagged as one deep ensemble"))
