#!/usr/bin/python3
"""What the paper says of risk: its penalty, its bound and its out-of-fold estimates, in worlds whose true risk is known.

    experiments/risk/run.py [--pools DIR]... [--only POOL]...

Leaves experiments/risk/figures.json. A world meets the paper's assumptions: G heads that are independent, K members that are
copies of them with isotropic noise, a target that is linear in the heads; all draws are uniform, so that everything is bounded. Excess
risk is then a quadratic form, and the best penalty is found by looking. Pools: `corestack inspect`.
"""
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

NOISE = 0.3  # share of a member's variance
TARGET = 1.0  # variance of what no member knows of the target
DELTA = 0.05
SIZES = (100, 400, 1600, 6400, 25600)
REPEATS = 60
PENALTIES = np.geomspace(1e-6, 100, 161)


def uniform(rng, *shape):
    """Mean 0, variance 1."""
    return rng.uniform(-np.sqrt(3), np.sqrt(3), shape)


class World:
    """K = clusters * copies members; covariance of members, the best linear weights, the least risk."""

    def __init__(self, clusters, copies, noise=NOISE):
        self.clusters, self.copies, self.noise = clusters, copies, noise
        self.of = np.repeat(np.arange(clusters), copies)
        self.covariance = (1 - noise) * np.equal.outer(self.of, self.of) + noise * np.eye(len(self.of))
        self.effect = np.linspace(1, 0.2, clusters)
        self.cross = np.sqrt(1 - noise) * self.effect[self.of]
        self.weights = np.linalg.solve(self.covariance, self.cross)
        self.variance = float(self.effect @ self.effect) + TARGET
        self.least = self.variance - float(self.cross @ self.weights)

    def draw(self, rng, n):
        heads = uniform(rng, n, self.clusters)
        x = np.sqrt(1 - self.noise) * heads[:, self.of] + np.sqrt(self.noise) * uniform(rng, n, len(self.of))
        return x, heads @ self.effect + np.sqrt(TARGET) * uniform(rng, n)

    def excess(self, w):
        d = w - self.weights
        return float(d @ self.covariance @ d)


def star(values, noise, rows):
    """lambda*, and the edge of the noise, with the true variance of the noise."""
    edge = noise * (1 + np.sqrt(len(values) / rows)) ** 2
    signal = values[values > edge].sum()
    return float(values.max() * values[values <= edge].sum() / signal), float(edge)


def ridge(values, vectors, projected, penalty):
    return vectors @ (projected / (values + penalty))


def cross_validated(x, y, folds=5):
    """The penalty with the least error on folds, and the weights of all rows."""
    at = np.arange(len(y)) % folds
    total = np.zeros(len(PENALTIES))
    gram, moment = x.T @ x, x.T @ y
    for f in range(folds):
        out = x[at == f], y[at == f]
        n = (at != f).sum()
        values, vectors = np.linalg.eigh((gram - out[0].T @ out[0]) / n)
        projected = vectors.T @ ((moment - out[0].T @ out[1]) / n)
        for i, penalty in enumerate(PENALTIES):
            total[i] += ((out[1] - out[0] @ ridge(values, vectors, projected, penalty)) ** 2).sum()
    return float(PENALTIES[total.argmin()])


def formula(world, rows):
    """The penalty that minimises the risk of the paper's proof, at the true spectrum."""
    values, vectors = np.linalg.eigh(world.covariance)
    beta = (vectors.T @ world.weights) ** 2
    grid = np.geomspace(1e-9, 100, 4001)
    risk = [(p**2 * beta / (values + p) ** 2).sum() + (world.least * values / rows / (values + p) ** 2).sum() for p in grid]
    return float(grid[int(np.argmin(risk))])


def penalties(rng):
    """star: lambda* added to X'X, as the paper writes its ridge; mean: added to X'X/n, as in its proof. All on the scale of X'X/n."""
    world = World(5, 4)
    out = []
    for n in SIZES:
        chosen, excess = ({rule: [] for rule in ("star", "mean", "cv", "best")} for _ in range(2))
        inside = 0
        for _ in range(REPEATS):
            x, y = world.draw(rng, n)
            values, vectors = np.linalg.eigh(x.T @ x / n)
            projected = vectors.T @ (x.T @ y / n)
            closed, edge = star(values, world.noise, n)
            inside += edge <= closed <= values.max() - world.noise
            risks = [world.excess(ridge(values, vectors, projected, p)) for p in PENALTIES]
            best = float(PENALTIES[int(np.argmin(risks))])
            for rule, p in (("star", closed / n), ("mean", closed), ("cv", cross_validated(x, y)), ("best", best)):
                chosen[rule].append(p)
                excess[rule].append(world.excess(ridge(values, vectors, projected, p)))
        out.append({"n": n, "inside": inside, "repeats": REPEATS, "formula": formula(world, n),
                    "penalty": {k: float(np.median(v)) for k, v in chosen.items()},
                    "excess": {k: float(np.mean(v)) for k, v in excess.items()}})
    # One head in twenty members of which nine tenths are noise: more noise than signal in the spectrum.
    faint = World(1, 20, 0.9)
    values = np.linalg.eigvalsh(faint.covariance)
    closed, edge = star(values, 0.9, 10**9)
    # Members without copies: all eigenvalues are above the edge.
    bare = World(4, 1)
    none, bare_edge = star(np.linalg.eigvalsh(bare.covariance), bare.noise, 10**9)
    return {"members": 20, "clusters": 5, "sizes": out, "faint": {"star": closed, "edge": edge, "signal": float(values.max() - 0.9)},
            "bare": {"star": none, "edge": bare_edge}}


# ---- the bound ------------------------------------------------------------------------------------------------------

def posterior(x, y, penalty, precision):
    """Ridge weights at this penalty of X'X/n, their Laplace posterior as `corestack bound` has it, and KL to the prior of this precision."""
    n, d = x.shape
    gram = x.T @ x / n
    w = np.linalg.solve(gram + penalty * np.eye(d), x.T @ y / n)
    sigma = np.linalg.inv(2 * n * (gram + penalty * np.eye(d)))
    kl = 0.5 * (precision * w @ w + precision * np.trace(sigma) - d - np.linalg.slogdet(precision * sigma)[1])
    return w, sigma, float(kl)


def bounded(world, x, y, clusters, units=1.0, penalty=None, scale="sum"):
    """Risk of the posterior, and the parts of the theorem's bound, without a gate: d_A = p_theta = 0 and mu = 0. y: in units of which one
    is `units` of the world's. penalty: of X'X/n; lambda* on this scale where none is given. The prior is N(0, I / penalty) on the same scale."""
    n = len(y)
    unit = n if scale == "sum" else 1
    if penalty is None:
        penalty = star(np.linalg.eigvalsh(x.T @ x / n), world.noise, n)[0] / unit
    if penalty <= 0:
        penalty = world.noise / n / unit  # no noise is seen
    w, sigma, kl = posterior(x, y, penalty, penalty * unit)
    excess = units**2 * world.excess(w / units)
    risk = units**2 * world.least + excess + float(np.trace(sigma @ world.covariance))
    empirical = float(((y - x @ w) ** 2).mean() + np.trace(sigma @ (x.T @ x / n)))
    term = float(np.sqrt((kl + np.log(2 * np.sqrt(n) / DELTA)) / (2 * (n - 1))))
    phi = 4 * float(np.linalg.norm(w)) / np.sqrt(n) * np.sqrt(clusters)
    return {"excess": excess, "gap": risk - empirical, "kl": kl, "term": term, "phi": float(phi), "risk": risk,
            "trivial": units**2 * world.variance}


def other_units(rng):
    """The same world with its target in units a thousand times smaller: loss goes by the square, the bound does not."""
    world = World(4, 3)
    out = []
    for n in SIZES:
        rows = []
        for _ in range(REPEATS):
            x, y = world.draw(rng, n)
            rows.append(bounded(world, x, 1000 * y, 4, 1000.0))
        out.append({"n": n, "repeats": REPEATS, "above": sum(r["gap"] > r["term"] + r["phi"] for r in rows),
                    "gap": float(np.mean([r["gap"] for r in rows])), "bound": float(np.mean([r["term"] + r["phi"] for r in rows]))})
    return out


def eliminated(rng):
    """The theorem's bound with lambda* and with the cross-validated penalty, in the worlds of `penalties`: the whole, and what it adds."""
    world = World(5, 4)
    out = []
    for n in SIZES:
        whole, added = ({rule: [] for rule in ("star", "cv", "mean", "cv_mean")} for _ in range(2))
        for _ in range(REPEATS):
            x, y = world.draw(rng, n)
            chosen = cross_validated(x, y)
            for rule, penalty, scale in (("star", None, "sum"), ("cv", chosen, "sum"), ("mean", None, "mean"), ("cv_mean", chosen, "mean")):
                r = bounded(world, x, y, 5, penalty=penalty, scale=scale)
                added[rule].append(r["term"] + r["phi"])
                whole[rule].append(r["risk"] - r["gap"] + r["term"] + r["phi"])
        out.append({"n": n, "repeats": REPEATS, "bound": {k: float(np.mean(v)) for k, v in whole.items()},
                    "added": {k: float(np.mean(v)) for k, v in added.items()}})
    return out


def theorem(rng):
    out = []
    for copies in (1, 3, 8):
        full, kept = World(4, copies), World(4, 1)
        for n in SIZES:
            rows = {"full": [], "kept": []}
            for _ in range(REPEATS):
                x, y = full.draw(rng, n)
                rows["full"].append(bounded(full, x, y, 4))
                rows["kept"].append(bounded(kept, x[:, ::copies], y, 4))
            out.append({"copies": copies, "members": 4 * copies, "n": n, "repeats": REPEATS,
                        **{side: {**{k: float(np.mean([r[k] for r in v])) for k in v[0]},
                                  "above": sum(r["gap"] > r["term"] + r["phi"] for r in v),
                                  "excess_above": sum(r["excess"] > r["term"] + r["phi"] for r in v)} for side, v in rows.items()}})
    return out


# ---- out-of-fold estimates ------------------------------------------------------------------------------------------

def out_of_fold(rng, repeats=2000, n=40, folds=5, models=8):
    """Ridges with several penalties, scored out of fold: against the true risk of the fold's fits, of the fit to all rows, and the best
    of the scores against the true risk of the one that has it."""
    world = World(3, 2)
    grid = np.geomspace(0.01, 3, models)
    at = np.arange(n) % folds
    seen, true, whole, picked = (np.zeros((repeats, models)) for _ in range(4))
    for r in range(repeats):
        x, y = world.draw(rng, n)
        for m, penalty in enumerate(grid):
            for f in range(folds):
                a, b = x[at != f], y[at != f]
                w = np.linalg.solve(a.T @ a / len(b) + penalty * np.eye(a.shape[1]), a.T @ b / len(b))
                seen[r, m] += ((y[at == f] - x[at == f] @ w) ** 2).sum() / n
                true[r, m] += (world.least + world.excess(w)) / folds
            w = np.linalg.solve(x.T @ x / n + penalty * np.eye(x.shape[1]), x.T @ y / n)
            whole[r, m] = world.least + world.excess(w)
        chosen = seen[r].argmin()
        picked[r, :2] = seen[r, chosen], true[r, chosen]
    far = (seen - true)[:, models // 2]
    return {"repeats": repeats, "n": n, "folds": folds, "bias": float(far.mean()), "error": float(far.std() / np.sqrt(repeats)),
            "risk": float(true[:, models // 2].mean()), "whole": float(whole[:, models // 2].mean()),
            "picked": float((picked[:, 0] - picked[:, 1]).mean()), "picked_error": float((picked[:, 0] - picked[:, 1]).std() / np.sqrt(repeats)),
            "models": models}


# ---- Rademacher -----------------------------------------------------------------------------------------------------

def rademacher(x, rng, draws=400):
    """E |sum s_i x_i| / N over signs, and sqrt(tr / N), for weights of norm 1."""
    n = len(x)
    norms = [np.linalg.norm(rng.choice((-1.0, 1.0), n) @ x) / n for _ in range(draws)]
    return {"measured": float(np.mean(norms)), "bound": float(np.sqrt((x**2).mean(axis=0).sum() / n)), "columns": x.shape[1], "n": n}


def standardised(manifest, rng, rows=500):
    """Flattened probabilities of all members on some test rows, columns centred and of mean square 1."""
    pool = json.loads(manifest.read_text())
    columns = []
    for model in pool["models"]:
        p = np.load(manifest.parent / model["predictions"]["test"], mmap_mode="r")
        if not columns:
            chosen = np.sort(rng.choice(len(p), min(rows, len(p)), replace=False))
        p = np.asarray(p[chosen], dtype=float)
        if pool["output"] == "logit":
            p = np.exp(p - p.max(axis=1, keepdims=True))
        columns.append((p / p.sum(axis=1, keepdims=True)).ravel())
    x = np.array(columns).T
    x = x - x.mean(axis=0)
    return x / np.sqrt((x**2).mean(axis=0))


def calibration_errors(manifest):
    """Top-label ECE of each member on split test, 15 bins."""
    pool = json.loads(manifest.read_text())
    labels = common.array(manifest, pool["splits"]["test"]["labels"])
    out = []
    for p in common.members(manifest).values():
        at = np.minimum((p.max(axis=1) * 15).astype(int), 14)
        gap = np.bincount(at, p.argmax(axis=1) == labels, 15) - np.bincount(at, p.max(axis=1), 15)
        out.append(float(np.abs(gap).sum() / len(labels)))
    return out


def spectrum(options, manifest):
    """lambda* of the pool and the interval that it is said to be in; accuracy and ECE of members; pairs that two thresholds tell apart."""
    report, meta = (common.corestack(options, "inspect", manifest, "--set", f"spectrum.of={of}", "--seed", options.seed) for of in ("oof", "meta"))
    signal = max(report["eigenvalues"]) - report["sigma2"]
    counts = report["class_counts"]
    k = len(report["models"])
    pairs = [(report["cka"][i][j], report["pearson"][i][j]) for i in range(k) for j in range(i)]
    pairs = [(c, r) for c, r in pairs if c is not None and r is not None]
    errors = calibration_errors(manifest)
    star, star_meta = report["lambda_star"]["oof"], meta["lambda_star"]["meta"]
    return {"star": star, "edge": report["mp_edge"], "signal": signal,
            "inside": bool(report["mp_edge"] <= star <= signal),
            "inside_meta": bool(meta["mp_edge"] <= star_meta <= max(meta["eigenvalues"]) - meta["sigma2"]),
            "chance": max(counts) / sum(counts), "best": max(m["top1"] for m in report["members"]),
            "ece_best": min(errors), "ece_worst": max(errors), "pairs": len(pairs), "moderate": sum(0.5 <= r <= 0.7 for _, r in pairs),
            "moderate_low": sum(0.5 <= r <= 0.7 and c < 0.4 for c, r in pairs), "removed": sum(r > 0.95 for _, r in pairs),
            "removed_kept": sum(r > 0.95 and c <= 0.85 for c, r in pairs), "kept_removed": sum(r <= 0.95 and c > 0.85 for c, r in pairs)}


def measure(options, pools):
    rng = np.random.default_rng(options.seed)
    equal = np.array([0.0, np.log(1e6)])  # log det H of two learners with equal losses
    weights = np.exp(-0.5 * equal) / np.exp(-0.5 * equal).sum()
    return {"penalty": penalties(rng), "theorem": theorem(rng), "units": other_units(rng), "eliminated": eliminated(np.random.default_rng(options.seed)),
            "out_of_fold": out_of_fold(rng),
            "laplace": {"flat": float(weights[0]), "curved": float(weights[1])},
            "rademacher": {"planted": [rademacher(World(4, 5).draw(rng, n)[0], rng) for n in (100, 1000, 10000)],
                           "pools": {name: rademacher(standardised(m, rng), rng) for name, m in pools.items()}},
            "pools": {name: spectrum(options, m) for name, m in pools.items()}}


if __name__ == "__main__":
    common.run_figures(__doc__, "risk", common.EVERY_POOL, measure)
