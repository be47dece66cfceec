"""Writes tests/data/regression.h: scores of predicted values, the linear pool, baselines, variance and the prototype
preset of a regression, from NumPy, SciPy and scikit-learn."""
import os
import pathlib
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small problems: threads only wait for one another

import numpy as np
from scipy import optimize, stats
from sklearn import linear_model, metrics

from _c_header import array

ROWS, OUTPUTS = 41, 3
LEVELS = (0.5, 0.8, 0.9, 0.95)


def scores():
    rng = np.random.default_rng(20)
    scale = np.array([1.0, 40.0, 1e-3])
    target = rng.normal(size=(ROWS, OUTPUTS)) * scale + np.array([0, 2000, 0.5])
    mean = (target + rng.normal(size=target.shape) * 0.4 * scale).astype(np.float32)
    variance = ((0.4 * scale) ** 2 * rng.uniform(0.5, 1.5, target.shape)).astype(np.float32)
    half = np.array([stats.norm.ppf(0.5 + level / 2) * np.sqrt(variance.astype(float)) for level in LEVELS])
    half = half.astype(np.float32)
    p, v = mean.astype(float), variance.astype(float)
    each = dict(
        rmse=metrics.mean_squared_error(target, p, multioutput="raw_values", squared=False),
        mae=metrics.mean_absolute_error(target, p, multioutput="raw_values"),
        median=metrics.median_absolute_error(target, p, multioutput="raw_values"),
        r2=metrics.r2_score(target, p, multioutput="raw_values"),
        nll=-stats.norm.logpdf(target, p, np.sqrt(v)).mean(axis=0),
        coverage=np.array([(np.abs(target - p) <= h).mean(axis=0) for h in half.astype(float)]),
        width=2 * half.astype(float).mean(axis=1),
    )
    average = [
        metrics.mean_squared_error(target, p, squared=False),
        metrics.mean_absolute_error(target, p),
        metrics.median_absolute_error(target, p),
        metrics.r2_score(target, p),
        each["nll"].mean(),
    ]
    out = f"enum {{ SCORE_ROWS = {ROWS}, SCORE_OUTPUTS = {OUTPUTS}, SCORE_LEVELS = {len(LEVELS)} }};\n"
    out += array("double", "score_target", target) + array("float", "score_mean", mean, "%.9eF")
    out += array("float", "score_variance", variance, "%.9eF") + array("float", "score_half", half, "%.9eF")
    out += array("double", "score_level", LEVELS)
    for name, values in each.items():
        out += array("double", "each_" + name, values)
    errors = ((target - p) ** 2 / target.var(axis=0)).mean(axis=1)
    return out + array("double", "score_average", average) + array("double", "score_errors", errors)


# ---- a pool of six members and two outputs ----------------------------------------------------------------------
N, K, D, L = 160, 6, 2, 5
GRID = 1e-10 * (1e2 / 1e-10) ** (np.arange(73) / 72)
RIDGE_GRID = 10 ** np.linspace(-8, 2, 61)


def pool():
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(N, D)) @ np.array([[1.0, 0.4], [0.0, 0.8]])
    scale, location = np.array([3.0, 50.0]), np.array([10.0, -400.0])
    target = (truth + 0.2 * rng.normal(size=truth.shape)) * scale + location
    common = rng.normal(size=truth.shape)
    members = []
    for k in range(K):
        noise = 0.35 * common + (0.25 + 0.1 * k) * rng.normal(size=truth.shape)
        slope = 1 - 0.05 * k
        members.append((slope * truth + noise) * scale + location + 0.1 * k * scale)
    members[4] = members[0] + 0.02 * rng.normal(size=truth.shape) * scale  # nearly a copy
    folds = rng.permutation(np.arange(N) % L)
    return np.array(members).astype(np.float32), target, folds


def scaled(members, target):
    """In units of the targets: members [N, K, D], targets [N, D]."""
    location, scale = target.mean(axis=0), target.std(axis=0)
    return np.moveaxis((members.astype(float) - location) / scale, 0, 1), (target - location) / scale, location, scale


def center_of(x, y, power):
    mse = ((x - y[:, None]) ** 2).mean(axis=0)
    c = (mse.min() / mse) ** power
    return c / c.sum()


def pool_fit(x, y, lam, power):
    """Weights and intercept of the linear pool, as ridge regression on the difference to the center."""
    c = center_of(x, y, power)
    model = linear_model.Ridge(alpha=len(y) * lam, solver="cholesky").fit(x, y - x @ c)
    return model.coef_ + c, model.intercept_


def pool_evidence(x, y, power):
    """lambda of the largest marginal likelihood: y - x c ~ N(b, noise (I + X X' / (n lambda))), flat b."""
    c = center_of(x, y, power)
    n = len(y)
    r = y - x @ c
    q = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]  # contrasts: what is left without the intercept
    r, z = q.T @ r, q.T @ x
    values, vectors = np.linalg.eigh(z @ z.T / n)
    turned = (vectors.T @ r) ** 2

    def loss(log_lambda):
        v = 1 + np.maximum(values, 0) / np.exp(log_lambda)
        return (n - 1) * np.log((turned / v).sum()) + np.log(v).sum()

    best = GRID[np.argmin([loss(np.log(g)) for g in GRID])]
    step = np.log(GRID[1] / GRID[0])

    def slope(log_lambda):
        part = np.maximum(values, 0) / np.exp(log_lambda)
        v = 1 + part
        return (n - 1) * (turned * part / v**2).sum() / (turned / v).sum() - (part / v).sum()

    # By the slope, since the loss itself is level to half the digits around its least value.
    return np.exp(optimize.brentq(slope, np.log(best) - step, np.log(best) + step, xtol=1e-13))


def pool_cv(x, y, folds, power):
    losses = [sum(((y - x @ w - b)[folds == f] ** 2).sum() for f in range(L)
                  for w, b in [pool_fit(x[folds != f], y[folds != f], g, power)]) for g in GRID]
    return GRID[np.argmin(losses)]


def unit_variance(x, lam, at):
    """Variance over noise of the linear pool at the rows `at`: 1 + 1/n + (x - m)' (X'X + n lambda I)^-1 (x - m)."""
    n, k = x.shape
    m = x.mean(axis=0)
    inverse = np.linalg.inv((x - m).T @ (x - m) + n * lam * np.eye(k))
    return 1 + 1 / n + np.einsum("ij,jk,ik->i", at - m, inverse, at - m)


def standard(x):
    mean, sd = x.mean(axis=0), x.std(axis=0)
    keep = sd > 1e-10
    return mean, np.where(keep, sd, 1), keep


def path(x, y, kind, grid):
    """Weights and intercepts at every penalty of a grid that runs downwards: (w [len(grid), columns], b [len(grid)])."""
    mean, sd, keep = standard(x)
    z = ((x - mean) / sd)[:, keep]
    yc = y - y.mean()
    w = np.zeros((len(grid), x.shape[1]))
    if kind == "ridge":
        values, vectors = np.linalg.eigh(z.T @ z / len(y))
        turned = vectors.T @ (z.T @ yc / len(y))
        found = (vectors @ (turned[:, None] / (values[:, None] + grid))).T
    else:
        ratio = 1.0 if kind == "lasso" else 0.5
        found = linear_model.enet_path(z, yc, l1_ratio=ratio, alphas=grid, precompute=True, tol=1e-12,
                                       max_iter=2000)[1].T
    w[:, keep] = found / sd[keep]
    return w, y.mean() - w @ mean


def penalty_grid(x, y, kind):
    if kind == "ridge":
        return RIDGE_GRID[::-1]
    mean, sd, keep = standard(x)
    z = ((x - mean) / sd)[:, keep]
    top = np.abs(z.T @ (y - y.mean()) / len(y)).max() / (1.0 if kind == "lasso" else 0.5)
    return top * 1e-6 ** (np.arange(61) / 60)


def cross_validated(x, y, folds, kind):
    """Weights and intercept at the penalty of least squared error on held-out folds."""
    grid = penalty_grid(x, y, kind)
    losses = np.zeros(len(grid))
    for f in np.unique(folds):
        w, b = path(x[folds != f], y[folds != f], kind, grid)
        losses += ((y[folds == f][:, None] - x[folds == f] @ w.T - b) ** 2).sum(axis=0)
    w, b = path(x, y, kind, grid)
    best = np.argmin(losses)
    return w[best], b[best]


def aggregates(x):
    """The prototype's six features of one output: x [N, K]."""
    mean, sd, median = x.mean(axis=1), x.std(axis=1), np.median(x, axis=1)
    spread = x.max(axis=1) - x.min(axis=1)
    return np.column_stack([mean, sd, median, spread, mean * sd, spread * sd])


def prototype(members, target, folds):
    """Pearson 0.95 filter, fixed features, cross-validated penalties, inverse-RMSE blend; predictions of the rows."""
    x, y, location, scale = scaled(members, target)
    risk = ((x - y[:, None]) ** 2).mean(axis=(0, 2))
    flat = np.corrcoef(np.moveaxis(x, 1, 0).reshape(K, -1))
    kept = []
    for k in np.argsort(risk, kind="stable"):
        if all(flat[k, j] <= 0.95 for j in kept):
            kept.append(k)
    kept = np.sort(kept)
    out = np.zeros((N, D))
    blends = np.zeros((D, 3))
    for d in range(D):
        single = x[:, kept, d].astype(np.float32).astype(float)
        design = np.column_stack([x[:, kept, d], aggregates(single)])
        fits, rmse = [], []
        for kind in ("ridge", "elastic-net", "lasso"):
            held = np.zeros(N)
            for f in range(L):
                inside = folds != f
                w, b = cross_validated(design[inside], y[inside, d], folds[inside], kind)
                held[~inside] = design[~inside] @ w + b
            rmse.append(np.sqrt(((held - y[:, d]) ** 2).mean()))
            w, b = cross_validated(design, y[:, d], folds, kind)
            fits.append(design @ w + b)
        blends[d] = (1 / np.array(rmse)) / (1 / np.array(rmse)).sum()
        out[:, d] = location[d] + scale[d] * (blends[d] @ np.array(fits))
    return kept, blends, out


def greedy(residuals, rounds):
    """Caruana's selection on the squared error from residuals [N, K]."""
    chosen, losses = [], []
    for _ in range(rounds):
        trial = [(np.mean(residuals[:, chosen + [k]].mean(axis=1) ** 2), k) for k in range(residuals.shape[1])]
        loss, best = min(trial)
        chosen.append(best)
        losses.append(loss)
    kept = chosen[: int(np.argmin(losses)) + 1]
    return np.bincount(kept, minlength=residuals.shape[1]) / len(kept)


def minimum_variance(residuals):
    s = residuals.T @ residuals / len(residuals)
    k = len(s)
    found = optimize.minimize(lambda w: w @ s @ w, np.full(k, 1 / k), jac=lambda w: 2 * s @ w, bounds=[(0, 1)] * k,
                              constraints=dict(type="eq", fun=lambda w: w.sum() - 1, jac=lambda w: np.ones(k)),
                              method="SLSQP", options=dict(ftol=1e-15, maxiter=1000))
    return found.x


def stack():
    members, target, folds = pool()
    x, y, location, scale = scaled(members, target)
    out = f"enum {{ POOL_ROWS = {N}, POOL_MEMBERS = {K}, POOL_OUTPUTS = {D}, POOL_FOLDS = {L} }};\n"
    out += array("float", "pool_member", members, "%.9eF") + array("double", "pool_target", target)
    out += array("int32_t", "pool_folds", folds, "%d")
    lambdas = (1e-6, 1e-3, 0.1, 10.0)
    fixed = [np.append(*pool_fit(x[:, :, 0], y[:, 0], g, p)) for p in (0, 4) for g in lambdas]
    out += array("double", "fixed_lambda", lambdas) + array("double", "fixed_fit", fixed)
    evidence = [pool_evidence(x[:, :, d], y[:, d], 4) for d in range(D)]
    cv = [pool_cv(x[:, :, d], y[:, d], folds, 0) for d in range(D)]
    out += array("double", "pool_evidence", evidence) + array("double", "pool_cv", cv)
    mean, unit = np.zeros((N, D)), np.zeros((N, D))
    noise = np.zeros(D)
    for d in range(D):
        w, b = pool_fit(x[:, :, d], y[:, d], evidence[d], 4)
        mean[:, d] = location[d] + scale[d] * (x[:, :, d] @ w + b)
        unit[:, d] = unit_variance(x[:, :, d], evidence[d], x[:, :, d])
        held = np.zeros(N)
        for f in range(L):
            inside = folds != f
            lam = pool_evidence(x[inside, :, d], y[inside, d], 4)
            w, b = pool_fit(x[inside, :, d], y[inside, d], lam, 4)
            held[~inside] = y[~inside, d] - x[~inside, :, d] @ w - b
        noise[d] = scale[d] ** 2 * (held ** 2 / unit[:, d]).mean()
    out += array("double", "stack_mean", mean) + array("double", "stack_variance", unit * noise)
    first = x[:, :, 0]
    for kind in ("ridge", "lasso", "elastic-net"):
        w, b = cross_validated(first, y[:, 0], folds, kind)
        out += array("double", "base_" + kind.replace("-", "_"), np.append(w, b))
    residuals = first - y[:, :1]
    out += array("double", "base_greedy", greedy(residuals, 25))
    out += array("double", "base_minimum_variance", minimum_variance(residuals))
    out += array("double", "base_performance", center_of(first, y[:, 0], 1))
    kept, blends, predicted = prototype(members, target, folds)
    out += f"enum {{ PROTOTYPE_KEPT = {len(kept)} }};\n" + array("int32_t", "prototype_kept", kept, "%d")
    return out + array("double", "prototype_blend", blends) + array("double", "prototype_mean", predicted)


def main():
    warnings.simplefilter("ignore")  # of the least penalties, which never win
    folder = pathlib.Path(__file__).resolve().parent.parent / "data"
    text = "/* Made by tests/oracles/regression.py. Do not edit. */\n#include <stdint.h>\n" + scores() + stack()
    (folder / "regression.h").write_text(text)


main()
