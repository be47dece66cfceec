#!/usr/bin/python3
"""Candidates for the default of regressions, in NumPy: single learners, rules that blend them, and what they give on unseen rows.

    experiments/regret/regression_candidates.py [--pools DIR]... [--divisions N]

Writes regression_candidates.json and .md. The labelled rows of `oof` are divided at random, two thirds to fit on, one third to judge
on. Every learner takes all members. RMSE is compared with the best of corestack's baselines for regression, chosen per pool with
hindsight.
"""
import argparse
import json
import pathlib

import numpy as np
from scipy.optimize import minimize, nnls

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
POOLS = ["books", "concrete", "diabetes", "meats", "boston", "ozone", "ames", "diamonds", "cars", "sacramento"]
BASELINES = ["best single", "average", "performance-weighted", "ridge", "greedy", "minimum variance"]
GRID = np.geomspace(1e-10, 1e2, 73)
MOST_ROWS = 9000

# ---- moments: sums of z z' with z = (members, target, 1), one matrix per fold ----


def moments(z, folds):
    return np.array([z[folds == f].T @ z[folds == f] for f in np.unique(folds)])


class Covariances:
    def __init__(self, s):
        k, n = len(s) - 2, s[-1, -1]
        mean = s[-1] / n
        c = s / n - np.outer(mean, mean)
        self.n, self.k, self.mean, self.target = n, k, mean[:k], mean[k]
        self.gram, self.cross, self.square = c[:k, :k], c[:k, k], max(c[k, k], 1e-12)

    def center(self, power):
        mse = np.maximum(np.diag(self.gram) - 2 * self.cross + self.square + (self.mean - self.target) ** 2, 1e-12)
        weights = (mse.min() / mse) ** power
        return weights / weights.sum()

    def with_intercept(self, weights):
        return weights, self.target - weights @ self.mean


def loss(s, weights, intercept):
    u = np.r_[-weights, 1, -intercept]
    return u @ s @ u


def products(s):
    """Mean products of the members' errors."""
    k, n = len(s) - 2, s[-1, -1]
    a = np.c_[np.eye(k), -np.ones(k), np.zeros(k)]
    return a @ s @ a.T / n


def simplex(p):
    """Weights >= 0 with sum 1 of least w' p w."""
    k, size = len(p), np.trace(p) / len(p)
    root, big = np.linalg.cholesky(p + 1e-9 * size * np.eye(k)).T, 1e3 * np.sqrt(size)
    weights = nnls(np.r_[root, big * np.ones((1, k))], np.r_[np.zeros(k), big], maxiter=1000)[0]
    return weights / weights.sum()


# ---- learners: moments by fold -> (weights, intercept) ----


def by_folds(s, path):
    """The value of GRID with the least held-out squared error; path(covariances) gives weights for every value."""
    total = s.sum(0)
    losses = np.zeros(len(GRID))
    for part in s:
        c = Covariances(total - part)
        losses += [loss(part, *c.with_intercept(w)) for w in path(c)]
    return GRID[len(GRID) - 1 - int(np.argmin(losses[::-1]))]


def linear_pool(power=4.0, bend=0.0, rule="evidence", share=1.0):
    """bend: the prior's precision along an eigenvector of the members' covariance is its variance to the power -bend.
    share: of the rows that the evidence counts."""
    def spectrum(c):
        values, vectors = np.linalg.eigh(c.gram)
        values, center = np.maximum(values, 0), c.center(power)
        return values, vectors, vectors.T @ (c.cross - c.gram @ center), center, np.maximum(values / values.max(), 1e-8) ** -bend

    def weights(c, grid):
        values, vectors, turned, center, prior = spectrum(c)
        return [center + vectors @ (turned / (values + x * prior)) for x in grid]

    def fit(s):
        c = Covariances(s.sum(0))
        if rule == "folds":
            penalty = by_folds(s, lambda part: weights(part, GRID))
        else:
            values, _, turned, center, prior = spectrum(c)
            start = max(c.square - 2 * center @ c.cross + center @ c.gram @ center, 1e-300)
            evidence = [-0.5 * (max(share * c.n - 1, 0) * np.log(max(start - np.sum(turned ** 2 / (values + x * prior)), 1e-300))
                                + np.sum(np.log1p(values / (x * prior)))) for x in GRID]
            penalty = GRID[int(np.argmax(evidence))]
        return c.with_intercept(weights(c, [penalty])[0])
    return fit


def nonnegative(s):
    def weights(c, grid):
        center, out = c.center(4.0), []
        for x in grid:
            root = np.linalg.cholesky(c.gram + max(x, 1e-12 * np.trace(c.gram)) * np.eye(c.k))
            out.append(nnls(root.T, np.linalg.solve(root, c.cross + x * center))[0])
        return out
    c = Covariances(s.sum(0))
    return c.with_intercept(weights(c, [by_folds(s, lambda part: weights(part, GRID))])[0])


def ridge(s):
    def weights(c, grid):
        scale = np.sqrt(np.maximum(np.diag(c.gram), 1e-300))
        values, vectors = np.linalg.eigh(c.gram / np.outer(scale, scale))
        turned = vectors.T @ (c.cross / scale)
        return [vectors @ (turned / (np.maximum(values, 0) + x)) / scale for x in grid]
    c = Covariances(s.sum(0))
    return c.with_intercept(weights(c, [by_folds(s, lambda part: weights(part, GRID))])[0])


def inverse_mse(power):
    def fit(s):
        mse = np.maximum(np.diag(products(s.sum(0))), 1e-12)
        weights = (mse.min() / mse) ** power
        return weights / weights.sum(), 0.0
    return fit


def best_single(s):
    return np.eye(s.shape[1] - 2)[np.argmin(np.diag(products(s.sum(0))))], 0.0


def minimum_variance(s):
    return simplex(products(s.sum(0))), 0.0


def greedy(s, rounds=25):
    p = products(s.sum(0))
    counts, best, least = np.zeros(len(p)), None, np.inf
    for _ in range(rounds):
        tries = [(counts + e) / (counts.sum() + 1) for e in np.eye(len(p))]
        losses = [w @ p @ w for w in tries]
        counts[int(np.argmin(losses))] += 1
        if min(losses) < least - 1e-15:
            least, best = min(losses), counts / counts.sum()
    return best, 0.0


def rescaled(learner):
    """Location and scale of the learner's own prediction."""
    def fit(s):
        c = Covariances(s.sum(0))
        weights, _ = learner(s)
        return c.with_intercept(weights * (weights @ c.cross) / max(weights @ c.gram @ weights, 1e-12))
    return fit


def calibrated(learner):
    """Location and scale of each member before the learner."""
    def fit(s):
        c = Covariances(s.sum(0))
        slope = c.cross / np.maximum(np.diag(c.gram), 1e-12)
        offset = c.target - slope * c.mean
        turn = np.eye(c.k + 2)
        turn[range(c.k), range(c.k)], turn[:c.k, -1] = slope, offset
        weights, intercept = learner(np.einsum("ij,fjk,lk->fil", turn, s, turn))
        return weights * slope, intercept + weights @ offset
    return fit


def mean_of_folds(learner):
    def fit(s):
        parts = [learner(np.delete(s, f, 0)) for f in range(len(s))]
        return np.mean([w for w, _ in parts], axis=0), float(np.mean([b for _, b in parts]))
    return fit


def robust(row_weight):
    """Iterated least squares around the pool's center: rows with large errors count less. Needs the rows."""
    def fit(z):
        x, y, start = z[:, :-2], z[:, -2], np.ones(len(z))
        for _ in range(20):
            s = (z * start[:, None]).T @ z
            c = Covariances(s)
            center = c.center(4.0)
            penalty = 10 * max(c.square - 2 * center @ c.cross + center @ c.gram @ center, 1e-12) / len(z)
            weights, intercept = c.with_intercept(np.linalg.solve(c.gram + penalty * np.eye(c.k), c.cross + penalty * center))
            error = np.abs(y - x @ weights - intercept)
            start = row_weight(error / (1.4826 * np.median(error) + 1e-12))
        return weights, intercept
    fit.rows = True
    return fit


LEARNERS = {
    "linear pool": linear_pool(), "average": inverse_mse(0), "minimum variance": minimum_variance, "best single": best_single,
    "performance-weighted": inverse_mse(1), "inverse mse^4": inverse_mse(4), "ridge": ridge, "greedy": greedy,
    "non-negative pool": nonnegative, "linear pool, centred on the average": linear_pool(0), "linear pool, power 1": linear_pool(1),
    "linear pool, power 8": linear_pool(8), "linear pool by folds": linear_pool(rule="folds"),
    "linear pool, evidence of 30% of the rows": linear_pool(share=0.3), "linear pool, evidence of 3% of the rows": linear_pool(share=0.03),
    "linear pool, twins shrunk (power 0.5)": linear_pool(bend=0.5), "linear pool, twins shrunk (power 1)": linear_pool(bend=1.0),
    "linear pool of members on their own line": calibrated(linear_pool()), "minimum variance on its line": rescaled(minimum_variance),
    "linear pool, mean of the folds' fits": mean_of_folds(linear_pool()),
    "linear pool, Student-t errors (4 degrees)": robust(lambda r: 5 / (4 + r ** 2)),
    "linear pool, Huber": robust(lambda r: 1 / np.maximum(r / 1.345, 1)),
    "linear pool, median": robust(lambda r: 1 / np.maximum(r, 1e-3)),
}

# ---- rules: cross-fitted errors [rows, learners], the linear pool first -> weights ----


def trusted(e, prior, weights, count=1.0):
    """Back to the prior by the share of the gain that chance brings."""
    gain = (e @ prior) ** 2 - (e @ weights) ** 2
    z = max(gain.mean() / (gain.std() / len(gain) ** 0.5 + 1e-300), 1e-9)
    share = max(0.0, 1 - count / z ** 2)
    return share * weights + (1 - share) * prior


def stacking(e):
    return simplex(e.T @ e / len(e))


def resampled(e, groups=32, draws=40):
    rng = np.random.default_rng(0)
    group = rng.permutation(len(e)) % groups
    parts = np.array([e[group == g].T @ e[group == g] for g in range(groups)])
    return np.mean([simplex(np.tensordot(rng.exponential(size=groups), parts, 1)) for _ in range(draws)], axis=0)


def dirichlet(strength):
    def weigh(e):
        p = e.T @ e / np.mean(e[:, 0] ** 2) / len(e)

        def objective(t):
            v = np.exp(t - t.max())
            v /= v.sum()
            slope = len(e) * (p @ v) / (v @ p @ v)
            slope[0] -= strength / v[0]
            return 0.5 * len(e) * np.log(v @ p @ v) - strength * np.log(v[0]), v * (slope - v @ slope)
        t = minimize(objective, np.r_[1.0, np.zeros(len(p) - 1)], jac=True, method="L-BFGS-B", bounds=[(-12, 12)] * len(p)).x
        return np.exp(t - t.max()) / np.exp(t - t.max()).sum()
    return weigh


def prior_of(e, pool, convex):
    prior = np.zeros(e.shape[1])
    prior[0], prior[2] = pool, convex
    return prior


def two_steps(e):
    first = trusted(e, prior_of(e, 0.75, 0.25), np.r_[stacking(e[:, :3]), 0])
    return trusted(e, first, stacking(e))


FOUR = ["linear pool", "average", "minimum variance", "best single"]
RULES = {
    "stacking": (FOUR, stacking),
    "stacking, mean over resamples": (FOUR, resampled),
    "stacking, Dirichlet prior of 1 row": (FOUR, dirichlet(1)),
    "stacking, Dirichlet prior of 5 rows": (FOUR, dirichlet(5)),
    "1/z^2 to the linear pool": (FOUR, lambda e: trusted(e, prior_of(e, 1, 0), stacking(e))),
    "1/z^2 to 3/4 linear pool, 1/4 minimum variance (kept)": (FOUR, lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "1/z^2 to a half each": (FOUR, lambda e: trusted(e, prior_of(e, 0.5, 0.5), stacking(e))),
    "2/z^2 to 3/4, 1/4": (FOUR, lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e), 2)),
    "resamples, 1/z^2 to 3/4, 1/4": (FOUR, lambda e: trusted(e, prior_of(e, 0.75, 0.25), resampled(e))),
    "two steps, the best single last": (FOUR, two_steps),
    "kept, without the best single": (FOUR[:3], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with ridge": ([*FOUR, "ridge"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with the non-negative pool": ([*FOUR, "non-negative pool"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with the pool by folds": ([*FOUR, "linear pool by folds"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with greedy": ([*FOUR, "greedy"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with the Student-t pool": ([*FOUR, "linear pool, Student-t errors (4 degrees)"],
                                      lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with the Huber pool": ([*FOUR, "linear pool, Huber"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
    "kept, with performance-weighted": ([*FOUR, "performance-weighted"], lambda e: trusted(e, prior_of(e, 0.75, 0.25), stacking(e))),
}

# ---- pools and divisions ----


def load(folder):
    manifest = json.loads((folder / "pool.json").read_text())
    split = manifest["splits"]["oof"]
    y = np.load(folder / split["labels"]).astype(float)
    y = y.reshape(len(y), -1)
    x = np.stack([np.load(folder / m["predictions"]["oof"]).reshape(y.shape) for m in manifest["models"]], 2).astype(float)
    folds = np.load(folder / split["folds"])
    if len(y) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(7).permutation(len(y))[:MOST_ROWS])
        x, y, folds = x[rows], y[rows], folds[rows]
    return x, y, folds


def fitted(learner, z, folds):
    """One learner's fit, from the rows or from their moments."""
    return learner(z) if hasattr(learner, "rows") else learner(moments(z, folds))


def one_division(x, y, folds, fit, judge):
    """{candidate: (RMSE, MAE)}, means over the outputs."""
    found = {}
    for d in range(y.shape[1]):
        location, scale = y[fit, d].mean(), y[fit, d].std()
        z = np.c_[(x[:, d] - location) / scale, (y[:, d] - location) / scale, np.ones(len(y))]
        errors, held = {}, {}
        for name, learner in LEARNERS.items():
            errors[name] = np.empty(len(fit))
            for f in np.unique(folds[fit]):
                out = folds[fit] == f
                w, b = fitted(learner, z[fit][~out], folds[fit][~out])
                errors[name][out] = z[fit][out] @ np.r_[-w, 1, -b]
            w, b = fitted(learner, z[fit], folds[fit])
            held[name] = z[judge] @ np.r_[-w, 1, -b]
        for name, (names, rule) in RULES.items():
            held[name] = np.column_stack([held[n] for n in names]) @ rule(np.column_stack([errors[n] for n in names]))
        for name, e in held.items():
            before = found.get(name, np.zeros(2))
            found[name] = before + np.array([np.sqrt(np.mean(e ** 2)), np.mean(np.abs(e))]) * scale / y.shape[1]
    return found


def measure(folder, divisions):
    x, y, folds = load(folder)
    runs = []
    for i in range(divisions):
        order = np.random.default_rng([24, i]).permutation(len(y))
        runs.append(one_division(x, y, folds, np.sort(order[:2 * len(y) // 3]), np.sort(order[2 * len(y) // 3:])))
    values = {name: np.array([r[name] for r in runs]) for name in runs[0]}
    best = min(BASELINES, key=lambda b: values[b][:, 0].mean())
    out = {"rows": len(y), "members": x.shape[2], "best": best, "candidates": {}}
    for name, v in values.items():
        change = (v[:, 0] - values[best][:, 0]) / values[best][:, 0].mean()
        out["candidates"][name] = {"rmse": round(100 * change.mean(), 3), "se": round(100 * change.std(ddof=1) / divisions ** 0.5, 3),
                                   "mae": round(100 * (v[:, 1].mean() / values[best][:, 1].mean() - 1), 3)}
    return out


def table(found):
    pools = list(found)
    lines = [f"| candidate | mean | worst | missed | {' | '.join(pools)} |", "|---|" + "---|" * (len(pools) + 3)]
    for name in [*LEARNERS, *RULES]:
        cells = [found[p]["candidates"][name] for p in pools]
        rmse = [c["rmse"] for c in cells]
        missed = sum(c["rmse"] > 0.5 and c["rmse"] > c["se"] for c in cells)
        lines.append(f"| {name} | {np.mean(rmse):.2f} | {max(rmse):.2f} | {missed} | "
                     + " | ".join(f"{c['rmse']:.2f} ± {c['se']:.2f}" for c in cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", action="append", default=[], help="a folder of pools; may be repeated")
    parser.add_argument("--divisions", type=int, default=10)
    options = parser.parse_args()
    folders = [*map(pathlib.Path, options.pools), ROOT / "data" / "pools", ROOT.parent / "shared" / "pools", ROOT / "examples"]
    found = {}
    for pool in POOLS:
        folder = next((f / pool for f in folders if (f / pool / "pool.json").exists()), None)
        if folder:
            found[pool] = measure(folder, options.divisions)
            print(pool, found[pool]["best"], flush=True)
    (HERE / "regression_candidates.json").write_text(json.dumps({"divisions": options.divisions, "pools": found}, indent=1) + "\n")
    best = ", ".join(f"{p}: {v['best']}" for p, v in found.items())
    text = ["# Candidates for the default of regressions", "",
            f"RMSE in percent above the best baseline of each pool ({best}), mean and standard error over {options.divisions} random "
            "divisions of the `oof` rows, two thirds to fit on. `missed`: pools where it is more than 0.5% and more than a standard "
            "error above. All members take part: there is no selection. Made by `regression_candidates.py`.", "", *table(found), ""]
    (HERE / "regression_candidates.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
