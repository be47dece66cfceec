#!/usr/bin/python3
"""The paper's propositions, on pools by `corestack bound` and on small cases that meet their assumptions.

    experiments/bounds/run.py [--pools DIR]... [--only POOL]...

experiments/claims/run.py takes its rows on theorems from these figures. The small cases are those of tests/bounds/spectral.c,
computed again with NumPy.
"""
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

RANDOM = 2000  # random pools with near-duplicates


def kappa(gram):
    values = np.linalg.eigvalsh(gram)
    values = values[values > 1e-10 * values[-1]]
    return float(values[-1] / values[0])


def facts(gram, cluster_of):
    """Largest cluster, number of clusters, epsilon, mu, of absolute correlations."""
    same = np.equal.outer(cluster_of, cluster_of)
    off = ~np.eye(len(gram), dtype=bool)
    size = np.abs(gram)
    inside = size[same & off]
    return (int(np.bincount(cluster_of).max()), int(cluster_of.max() + 1), float(1 - inside.min()) if inside.size else 0.0,
            float(size[~same].max()) if (~same).any() else 0.0)


def case(gram, cluster_of):
    """The three spectral bounds on one pool: measured and claimed."""
    cluster_of = np.asarray(cluster_of)
    gram = np.asarray(gram, dtype=float)
    largest, clusters, epsilon, mu = facts(gram, cluster_of)
    first = [int(np.flatnonzero(cluster_of == g)[0]) for g in range(clusters)]
    across = (clusters - 1) * mu
    before, after = kappa(gram), kappa(gram[np.ix_(first, first)])
    return {"before": before, "before_claimed": largest * (1 - epsilon) / (1 - across), "after": after,
            "after_claimed": (1 + across) / (1 - across), "ratio": before / after, "ratio_claimed": largest * (1 - epsilon),
            "epsilon": epsilon, "mu": mu}


def penalised_change(gram, cluster_of, penalty, null):
    """By what kappa with a penalty falls, and what is said; null: whether eigenvalues of 0 count as the smallest."""
    largest, clusters, epsilon, _ = facts(gram, np.asarray(cluster_of))
    first = [cluster_of.index(g) for g in range(clusters)]
    ends = []
    for g in (gram, gram[np.ix_(first, first)]):
        values = np.linalg.eigvalsh(g)
        values = values if null else values[values > 1e-10 * values[-1]]
        ends.append((max(float(values[0]), 0.0), float(values[-1])))
    (least, most), (kept_least, kept_most) = ends
    return {"change": (most + penalty) / (least + penalty) - (kept_most + penalty) / (kept_least + penalty),
            "claimed": (largest - 1) * (1 - epsilon) / (least + penalty) / (1 + penalty / kept_least)}


def blends(rng, cases=1000):
    """Random covariances of 2 to 6 learners: the least variance and its weights by the formula, and by the equations of the minimum."""
    met = {"weights": 0, "least": 0}
    for _ in range(cases):
        m = int(rng.integers(2, 7))
        a = rng.standard_normal((m, m + 2))
        sigma = a @ a.T
        one = np.linalg.solve(sigma, np.ones(m))
        system = np.block([[2 * sigma, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        w = np.linalg.solve(system, np.r_[np.zeros(m), 1.0])[:m]
        met["weights"] += np.allclose(one / one.sum(), w, rtol=1e-6, atol=1e-8)
        met["least"] += np.isclose(w @ sigma @ w, 1 / one.sum(), rtol=1e-8) and 1 / one.sum() <= np.diag(sigma).min() * (1 + 1e-9)
    return {"cases": cases, **{k: int(v) for k, v in met.items()}}


def laplace_leads():
    """Two learners with equal variances, independent errors and equal Hessians: the gap of Laplace weights over the lead in nats."""
    out = []
    for lead in (1.0, 20.0, 1000.0):
        w = np.array([1.0, np.exp(-lead)])
        w /= w.sum()
        out.append({"lead": lead, "gap": float(w @ w - 0.5), "claimed": float(np.exp(-2 * lead))})
    return out


def fold_rates(rng, repeats=2000, folds=5):
    """A design of ones with random signs as targets, penalty 1: by how much two folds' weights differ beyond the lemma's first term."""
    out = []
    for n in (100, 400, 1600, 6400, 25600):
        each = n // folds
        sums = 2.0 * rng.binomial(each, 0.5, (repeats, folds)) - each
        w = (sums.sum(axis=1, keepdims=True) - sums) / (n - each) / 2
        beyond = np.abs(w[:, 0] - w[:, 1]) - 4 * (2 * each / n) * np.abs(w[:, 0])
        out.append({"n": n, "beyond": float((beyond > 0).mean()), "most": float(beyond.max())})
    slope = np.log(out[-1]["most"] / out[0]["most"]) / np.log(out[-1]["n"] / out[0]["n"])
    return {"sizes": out, "slope": float(slope)}


def random_pool(rng):
    """Correlations of heads below 1 / (G - 1) and noisy copies of them."""
    clusters = int(rng.integers(1, 6))
    limit = 0.95 / max(clusters - 1, 1)
    heads = np.eye(clusters)
    for a in range(clusters):
        for b in range(a):
            heads[a, b] = heads[b, a] = rng.uniform(0, limit if clusters > 1 else 0)
    sizes = rng.integers(1, 5, clusters)
    sizes[0] = max(sizes[0], 2)
    cluster_of = np.repeat(np.arange(clusters), sizes)
    share = np.where(np.r_[True, cluster_of[1:] != cluster_of[:-1]], 1.0, np.sqrt(1 - rng.uniform(1e-4, 0.02)))
    gram = heads[np.ix_(cluster_of, cluster_of)] * np.outer(share, share)
    np.fill_diagonal(gram, 1)
    return gram, cluster_of


def small_cases(seed):
    rng = np.random.default_rng(seed)
    heads = np.array([[1, 0.4, 0], [0.4, 1, 0], [0, 0, 1.0]])
    chosen = [0, 0, 1, 2]
    cases = {"copies": case(np.ones((5, 5)), [0] * 5), "heads": case(heads[np.ix_(chosen, chosen)], chosen)}
    held = {"top": 0, "before": 0, "after": 0, "ratio": 0, "not_up": 0, "reduced": 0}
    for _ in range(RANDOM):
        gram, cluster_of = random_pool(rng)
        c = case(gram, cluster_of)
        held["before"] += c["before"] >= c["before_claimed"] * (1 - 1e-9)
        held["after"] += c["after"] <= c["after_claimed"] * (1 + 1e-9)
        held["ratio"] += c["ratio"] >= c["ratio_claimed"] * (1 - 1e-9)
        largest, clusters, epsilon, _ = facts(gram, cluster_of)
        first = [int(np.flatnonzero(cluster_of == g)[0]) for g in range(clusters)]
        held["top"] += np.linalg.eigvalsh(gram)[-1] >= largest * (1 - epsilon) * (1 - 1e-9)
        all_values, kept = np.linalg.eigvalsh(gram), np.linalg.eigvalsh(gram[np.ix_(first, first)])
        penalty = 0.1
        change = (all_values[-1] + penalty) / (all_values[0] + penalty) - (kept[-1] + penalty) / (kept[0] + penalty)
        held["not_up"] += change >= -1e-9
        held["reduced"] += change >= (largest - 1) * (1 - epsilon) / (all_values[0] + penalty) / (1 + penalty / kept[0]) * (1 - 1e-9)
    three = np.linalg.eigvalsh(np.array([[1, 0.4, 0], [0.4, 1, 0], [0, 0, 1.0]]))
    least = {"measured": float(three[0]), "claimed": 1 - 2 * 0.4}
    penalised = {how: penalised_change(np.ones((5, 5)), [0] * 5, 0.1, null) for how, null in (("without", False), ("with", True))}
    ridge = {"change": 2.6 / (2.6**2 + 1), "claimed": 2 * 0.1 * 1 / 1, "precondition": 2.5 <= 1 / (4 * 0.1)}
    heads = np.full((5, 5), 0.0)
    heads[:4, :4] = 0.249
    np.fill_diagonal(heads, 1)
    chosen = [0, 1, 2, 3, 4, 4]
    full = heads[np.ix_(chosen, chosen)]
    norms = [np.sqrt(np.linalg.eigvalsh(g)[-1]) for g in (full, heads)]
    fold = {"change": 2 / (2 + 0.5), "claimed": 0.0}
    spread = np.array([[1, 1], [1, 2.0]])
    return {"cases": cases, "random": {"pools": RANDOM, **{k: int(v) for k, v in held.items()}}, "ridge": ridge,
            "least": least, "penalised_copies": penalised,
            "projection": {"gain": float(norms[0] / norms[1]), "claimed": float(np.sqrt(6 / 5))}, "folds": fold,
            "variance": {"minimum": float(1 / np.linalg.inv(spread).sum()), "best": float(np.diag(spread).min()),
                         "rank": int(np.linalg.matrix_rank(spread))},
            "blends": blends(np.random.default_rng(seed)), "laplace": laplace_leads(), "fold_rates": fold_rates(np.random.default_rng(seed)),
            "capacity": {"stated": 0.011, "gate": float(np.sqrt(15000 / 128000)), "leading": float(np.sqrt(6 / 128000))}}


def projected(manifest, report):
    """By what the spectral norm of the members' standardised columns falls where the best of each cluster is kept, and what is said."""
    pool = json.loads(manifest.read_text())
    labels = common.array(manifest, pool["splits"]["test"]["labels"])
    columns, losses = {}, {}
    for name, p in common.members(manifest).items():
        columns[name] = p.ravel()
        losses[name] = -np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12)).mean()
    gram = np.corrcoef(list(columns.values()))
    at = [list(columns).index(min(cluster, key=losses.get)) for cluster in report["clusters"]]
    largest = [np.linalg.eigvalsh(g)[-1] for g in (gram, gram[np.ix_(at, at)])]
    if abs(largest[0] - report["spectral"]["largest"]) > 1e-3 * largest[0]:
        sys.exit(f"{manifest}: the largest eigenvalue is {largest[0]} here and {report['spectral']['largest']} from corestack")
    return {"gain": float(np.sqrt(largest[0] / largest[1])), "claimed": float(np.sqrt(len(gram) / len(at)))}


def prototype_figures(options, manifest):
    """The paper's bound of the prototype, for the corollary that compares the two."""
    report = common.fit_and_bound(options, manifest, "prototype", "--split", "test", "--delta", "0.05")
    return {"kept": len(report["models"]), "pac_bayes": report["pac_bayes"]}


def pool_figures(options, manifest, preset):
    report = common.fit_and_bound(options, manifest, preset, "--split", "test", "--delta", "0.05", "--leakage")
    keep = ("samples", "classes", "largest_cluster", "cluster_threshold", "epsilon", "mu", "incoherent", "epsilon_pearson", "mu_pearson",
            "kappa_gram_before", "kappa_gram_after", "kappa_cka_before", "kappa_cka_after", "spectral", "regularised", "blending", "stability", "pac_bayes", "pac_bayes_kl", "tandem",
            "holdout", "conformal", "ece", "leakage")
    out = {key: report[key] for key in keep}
    out["projected"] = projected(manifest, report)
    out["members"] = len(report["discs"])
    out["kept"] = len(report["models"])
    out["clusters"] = len(report["clusters"])
    out["calibration"] = {key: report["calibration"][key] for key in ("epsilon", "hoeffding", "samples")}
    for part, key in (("pac_bayes_kl", "weights"), ("tandem", "weights"), ("blending", "weights")):
        out[part].pop(key)
    for rule in ("inverse_rmse", "laplace"):
        out["blending"][rule].pop("weights")
    out["leakage"].pop("members")
    return out


def runs_of(figures):
    return [(name, preset, r) for name, presets in figures["pools"].items() for preset, r in presets.items()]


def paper_cells(bound):
    """Of the paper's bound: its value, the error without any member, whether it is vacuous; empty without a linear learner."""
    if not bound or bound["total"] is None:
        return ["", common.number(bound["trivial"], 3) if bound else "", ""]
    return [f"{bound['total']:.3g}", common.number(bound["trivial"], 3), "yes" if bound["vacuous"] else "no"]


def tables(figures, page):
    runs = runs_of(figures)
    n = common.number
    errors = [[name, preset, r["kept"], r["samples"], f"{100 * r['holdout']['error']:.2f}", f"**{100 * r['holdout']['bound']:.2f}**",
               n(r["pac_bayes_kl"]["bound"], 2, 100), n(r["pac_bayes_kl"]["majority"], 2, 100), n(r["tandem"]["bound"], 2, 100),
               *paper_cells(r["pac_bayes"])] for name, preset, r in runs]
    sets = [[name, preset, n(r["conformal"]["coverage"], 1, 100), n(r["conformal"]["assured"], 1, 100), n(r["conformal"]["mean_size"], 2),
             f"{r['ece']['value']:.4f} [{r['ece']['lower']:.4f}, {r['ece']['upper']:.4f}]", n(r["calibration"]["epsilon"], 3)]
            for name, preset, r in runs]
    shapes = [[name, r["cluster_threshold"], r["members"], r["clusters"], r["largest_cluster"], n(r["epsilon"], 3), n(r["mu"], 3),
               "yes" if r["incoherent"] else "no", *(n(r.get(f"kappa_{of}"), 1) for of in ("gram_before", "gram_after", "cka_before", "cka_after"))] for name, _, r in runs]
    return ["Errors are in percent of the split `test`. \"Error\" is the measured one. \"Holdout\" is its upper bound by the exact "
            "binomial tail, for the stack. \"PAC-Bayes-kl\" bounds the error of a randomly drawn member, and \"vote by it\", twice "
            "that, the error of their vote. \"Tandem\" bounds another vote of the members. \"Paper's\" is the paper's PAC-Bayes "
            "bound on the squared error of a ridge; it is vacuous if it is no less than the error without any member.", "",
            *common.table(["pool", "preset", "members", "rows", "error", "holdout", "PAC-Bayes-kl", "vote by it", "tandem", "paper's",
                           "no member", "vacuous"], errors),
            "Prediction sets by split conformal prediction that are to contain the class with probability 0.9: their coverage in "
            "percent, the coverage assured for this split with probability 0.95, and the mean number of classes in a set. The bounds on "
            "the ECE hold together with probability 0.95. \"Certificate\": with probability 0.95, in every bin of equal mass (at most "
            "15 bins, made from half of the rows, with about 50 rows or more each) accuracy is within this distance of the bin's "
            "value.", "",
            *common.table(["pool", "preset", "coverage", "assured", "classes in a set", "ECE [bounds]", "certificate"], sets),
            "Clusters (average linkage) at the preset's CKA threshold, on the split `test`. epsilon is 1 minus the smallest CKA within a "
            "cluster and mu the largest CKA across clusters. kappa, of the Gram matrix of the columns and of the CKA matrix, is given for all members and for the best member of each cluster. "
            "The paper assumes mu < 1/(G - 1) for G clusters.", "",
            *common.table(["pool", "threshold", "members", "clusters", "largest", "epsilon", "mu", "mu < 1/(G - 1)", "kappa (Gram) before",
                           "after", "kappa (CKA) before", "after"], shapes)]


def section(figures, page):
    runs = runs_of(figures)
    applies = {preset: [name for name, p, r in runs if p == preset and r["incoherent"]] for preset in ("default", "paper")}
    one = [name for name, p, r in runs if p == "paper" and r["clusters"] == 1]
    met = " and ".join(f"on {len(names)} of {sum(p == preset for _, p, _ in runs)} pools at the threshold of `{preset}`"
                       + (f" ({', '.join(names)})" if names else "") for preset, names in applies.items())
    raised = {flag: [f"`{name}` ({preset})" for name, preset, r in runs if r["leakage"][flag]] for flag in ("rows_leak", "members_leak", "fit_leaks")}
    vacuous = sum(r["pac_bayes"]["vacuous"] is True for _, _, r in runs)
    least = sum(r["holdout"]["bound"] <= min(r["pac_bayes_kl"]["bound"], r["tandem"]["bound"]) for _, _, r in runs)
    return ["The paper has a PAC-Bayes bound on the risk of the stack, and bounds on the spectrum after the projection. These are the "
            "results of `corestack bound` for fits of two presets, with `delta` 0.05 and `alpha` 0.1 ([bounds.md](../docs/bounds.md) "
            "says what each bound assumes).", "",
            *tables(figures, page),
            "### Do they hold?", "",
            f"The paper's bound is vacuous in {vacuous} of {len(runs)} fits. Its assumption on clusters, mu < 1/(G - 1), is met {met}"
            + (f"; with one cluster there are no pairs across clusters ({', '.join(one)})" if one else "")
            + f". The holdout bound is the smallest bound on an error rate in {least} of {len(runs)} fits.", "",
            "`--leakage` raises " + "; ".join(f"`{flag}` for " + (" and ".join(where) if where else "no fit") for flag, where in raised.items())
            + ". `members_leak` means that a member has a much smaller error on `oof` than on the split: either it was trained on these "
            "rows, or the split is harder."
            + (" For `vision_longtail` the split is harder: its members were trained with rare classes, which its `oof` has too, and its "
               "test split is balanced." if any("vision_longtail" in w for w in raised["members_leak"]) else ""), "",
            common.conditions(page, ["fit POOL --preset P --set evaluate.nested=false", "bound MODEL POOL --split test --delta 0.05 --leakage"],
                              resamples=False)]


def measure(options, pools):
    return {"small": small_cases(options.seed),
            "pools": {name: {preset: pool_figures(options, manifest, preset) for preset in ("default", "paper")}
                      for name, manifest in pools.items()},
            "prototype": {name: prototype_figures(options, manifest) for name, manifest in pools.items()}}, {}


if __name__ == "__main__":
    common.run(__doc__, "bounds", "Bounds", common.EVERY_POOL, measure, section, tables, common.needs("classification", more=common.plain_files))
