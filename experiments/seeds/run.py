#!/usr/bin/python3
"""Networks that differ in their seed alone: CKA and Pearson correlation of their predictions.

    experiments/seeds/run.py [--pools DIR]... [--only POOL]...

The paper: "Consequence for ensemble pruning", CKA above 0.85 while Pearson lies in [0.3, 0.5].
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

# Members that differ in their seed alone.
GROUPS = [("cifar10", ["resnet8_s0", "resnet8_s1", "resnet8_s2"]), ("vision", ["cnn_a", "cnn_b", "cnn_c"]),
          ("vision_longtail", ["cnn_a", "cnn_b", "cnn_c"]), ("fashion", ["cnn_a", "cnn_b"]), ("mnist", ["cnn_a", "cnn_b"]),
          ("union40", ["mlp_a", "mlp_b"])]


def main():
    options = common.arguments(__doc__)
    pools = common.find_pools(options, [g[0] for g in GROUPS])
    lines = ["What the paper says: members of one architecture with other seeds frequently have Pearson correlation in [0.3, 0.5] "
             "while CKA is above 0.85, so that CKA finds a redundancy which Pearson misses.", "",
             "What we measure: both, from `corestack inspect` on `oof` (CKA: Gaussian kernel on rows of "
             "probabilities; Pearson: of the "
             "flattened rows), for pairs that differ in their seed alone, and over all pairs of the pool.", ""]
    figures = {}
    cells = []
    for name, group in GROUPS:
        if name not in pools:
            continue
        report = common.corestack(options, "inspect", pools[name], "--seed", options.seed)
        index = {m: i for i, m in enumerate(report["models"])}
        k = len(index)
        pairs = [(a, b) for i, a in enumerate(group) for b in group[i + 1:]]
        every = [(report["cka"][i][j], report["pearson"][i][j]) for i in range(k) for j in range(i)]
        every = [(c, p) for c, p in every if c is not None and p is not None]
        f = figures[name] = {
            "pairs": {f"{a}-{b}": [report["cka"][index[a]][index[b]], report["pearson"][index[a]][index[b]]] for a, b in pairs},
            "all": len(every), "claimed": sum(c > 0.85 and p < 0.5 for c, p in every),
            "opposite": sum(c <= 0.85 and p > 0.85 for c, p in every), "higher": sum(p > c for c, p in every),
            "rho": common.spearman([c for c, _ in every], [p for _, p in every])}
        for pair, (c, p) in f["pairs"].items():
            cells.append([name, pair, f"{c:.3f}", f"{p:.3f}", f"{f['claimed']} of {f['all']}", f"{f['opposite']} of {f['all']}",
                          f"{f['rho']:.2f}"])
    lines += [*common.table(["pool", "pair", "CKA", "Pearson", "pairs with CKA > 0.85, Pearson < 0.5",
                             "pairs with CKA <= 0.85, Pearson > 0.85", "rank correlation of the two"], cells),
              "### Did it hold?", "", verdict(figures), "", common.conditions(options, ["inspect POOL"], resamples=False)]
    common.write_section(options, "seeds", "Same architecture, other seeds", lines, figures)


def verdict(figures):
    pairs = [v for f in figures.values() for v in f["pairs"].values()]
    high = sum(c > 0.85 for c, _ in pairs)
    low = sum(p < 0.5 for _, p in pairs)
    claimed, total = sum(f["claimed"] for f in figures.values()), sum(f["all"] for f in figures.values())
    opposite = sum(f["opposite"] for f in figures.values())
    higher = sum(f["higher"] for f in figures.values())
    return (f"CKA is above 0.85 for {high} of {len(pairs)} such pairs; Pearson is below 0.5 for {low}, its least value is "
            f"{min(p for _, p in pairs):.3f}. Over all {total} pairs of these pools, {claimed} have the claimed "
            f"pattern and {opposite} the opposite one; Pearson is the higher of the two for {higher}.")


if __name__ == "__main__":
    main()
