"""Writes tests/data/mixtures.h: what the baselines in prediction space give on a small pool.

Computed with NumPy, SciPy and scikit-learn from the definitions in docs/baselines.md; nothing of the library's solvers
is used. Linear stacking: scikit-learn's Ridge, Lasso and ElasticNet on the standardised design, in a loop over folds
and penalties. Minimum variance: the closed form on every support. Log-linear pool: the optimum of loglinear.py.
Hill climbing: scikit-learn's log_loss for every candidate.
"""
import pathlib
import warnings

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.linear_model import ElasticNet, Lasso, Ridge
from sklearn.metrics import accuracy_score, log_loss

from _c_header import array
from loglinear import GRID, fit

ROWS, CLASSES, MEMBERS, FOLDS = 150, 4, 6, 5
SEED = 24


def make_pool():
    rng = np.random.default_rng(SEED)
    truth = rng.normal(size=(ROWS, CLASSES)) * 1.6
    labels = np.array([rng.choice(CLASSES, p=p) for p in softmax(truth, axis=1)])
    shared = rng.normal(size=(ROWS, CLASSES))
    noise = np.array([0.3, 0.6, 0.9, 1.2, 1.6, 0.8])[:, None, None]
    own = rng.normal(size=(MEMBERS, ROWS, CLASSES))
    own[3:] = 0.5 * own[3:] + 0.8 * shared  # the last three err together: negative weights pay
    scores = (truth + own * noise) * np.array([1.4, 0.7, 1, 1, 0.6, 1.2])[:, None, None]
    pool = softmax(scores, axis=2)
    pool[5] = np.where(pool[5] < 0.03, 0, pool[5])  # hard zeros
    pool = np.round(pool * 2**20) / 2**20
    return (pool / pool.sum(2, keepdims=True)).astype(np.float32), labels


# ---- linear stacking -------------------------------------------------------------------------------------------------


def standardise(x):
    return x.mean(0), x.std(0)


def linear_fit(make, x, y):
    mean, scale = standardise(x)
    model = make(len(y)).fit((x - mean) / scale, y)
    coefficients = model.coef_ / scale
    return coefficients, model.intercept_ - coefficients @ mean


def linear_kinds(x, y):
    mean, scale = standardise(x)
    correlation = np.abs((x - mean).T @ (y - y.mean()) / scale / len(y)).max()
    tight = {"tol": 1e-14, "max_iter": 10**6}

    def ridge(strength):
        return lambda n: Ridge(alpha=n * strength, tol=1e-14)

    def lasso(strength):
        return lambda n: Lasso(alpha=strength, **tight)

    def net(strength):
        return lambda n: ElasticNet(alpha=strength, l1_ratio=0.5, **tight)

    return {"ridge": (ridge, np.geomspace(1e-8, 1e2, 61)[::-1]),
            "lasso": (lasso, np.geomspace(1, 1e-6, 61) * correlation),
            "elastic_net": (net, np.geomspace(1, 1e-6, 61) * correlation / 0.5)}


def linear_stacking(kind, x, y, pair_folds):
    make, strengths = linear_kinds(x, y)[kind]
    losses = np.zeros(len(strengths))
    for fold in range(FOLDS):
        fitted, held = pair_folds != fold, pair_folds == fold
        for i, strength in enumerate(strengths):
            w, b = linear_fit(make(strength), x[fitted], y[fitted])
            losses[i] += ((y[held] - x[held] @ w - b) ** 2).sum()
    best = int(np.argmin(losses))  # strengths run downwards: of equal losses the larger
    assert 0 < best < len(strengths) - 1, (kind, best)
    w, b = linear_fit(make(strengths[best]), x, y)
    scores = np.clip((x @ w + b).reshape(ROWS, CLASSES), 1e-6, 1)
    return w, b, scores / scores.sum(1, keepdims=True)


# ---- minimum variance ------------------------------------------------------------------------------------------------


def minimum_variance(pool, labels):
    residuals = (np.eye(CLASSES)[labels] - pool).reshape(MEMBERS, -1)
    moments = residuals @ residuals.T / residuals.shape[1]
    best, value = None, np.inf
    for support in range(1, 2**MEMBERS):
        on = [k for k in range(MEMBERS) if support >> k & 1]
        w = np.linalg.solve(moments[np.ix_(on, on)], np.ones(len(on)))
        w /= w.sum()
        if w.min() >= 0 and w @ moments[np.ix_(on, on)] @ w < value:
            value = w @ moments[np.ix_(on, on)] @ w
            best = np.zeros(MEMBERS)
            best[on] = w
    return best


# ---- log-linear pool -------------------------------------------------------------------------------------------------


def mixed_logs(pool, mix):
    logs = np.stack([np.log((1 - m) * p + m / CLASSES) for m, p in zip(mix, pool)], axis=2)
    return logs.astype(np.float32).astype(np.float64)


def uniform_mix(pool, labels):
    rows = np.arange(len(labels))
    return [GRID[int(np.argmin([-np.log((1 - g) * p[rows, labels] + g / CLASSES).mean() for g in GRID]))]
            for p in pool]


def evidence(logs, labels):
    """MacKay's precisions of weights and biases, by repeated Laplace approximation until they stand still."""
    alpha, beta = 10.0, 30.0
    for _ in range(100):
        w, b, *_ = fit(logs, labels, True, alpha, 30.0, beta, 1 / MEMBERS)
        p = softmax(logs @ w + b, axis=1)
        columns = np.concatenate([logs, np.broadcast_to(np.eye(CLASSES), (len(labels), CLASSES, CLASSES))], axis=2)
        centred = columns - np.einsum("nc,ncd->nd", p, columns)[:, None]
        hessian = np.einsum("nc,ncd,nce->de", p, centred, centred)
        even = np.full((MEMBERS, MEMBERS), 1 / MEMBERS)
        deviations = np.eye(MEMBERS) - even
        hessian[:MEMBERS, :MEMBERS] += alpha * deviations + 30.0 * even
        hessian[MEMBERS:, MEMBERS:] += beta * np.eye(CLASSES)
        inverse = np.linalg.inv(hessian)
        free_w = MEMBERS - 1 - alpha * np.trace(inverse[:MEMBERS, :MEMBERS] @ deviations)
        free_b = CLASSES - beta * np.trace(inverse[MEMBERS:, MEMBERS:])
        new = np.clip([free_w / ((w - w.mean()) ** 2).sum(), free_b / (b**2).sum()], 1e-2, 1e5)
        moved = np.abs(np.log(new / [alpha, beta])).max()
        alpha, beta = new
        if moved < 1e-4:
            break
    return alpha, beta


def row_losses(logs, labels, w, b):
    z = logs @ w + b
    return logsumexp(z, axis=1) - z[np.arange(len(labels)), labels]


def log_linear(pool, labels, folds):
    strengths = [1.0, 3.0, 10.0, 30.0, 100.0]
    losses = np.zeros((ROWS, 6))
    for fold in range(FOLDS):
        fitted, held = folds != fold, folds == fold
        mix = uniform_mix(pool[:, fitted], labels[fitted])
        logs, held_logs = mixed_logs(pool[:, fitted], mix), mixed_logs(pool[:, held], mix)
        priors = [(a, 30.0) for a in strengths] + [evidence(logs, labels[fitted])]
        for g, (alpha, beta) in enumerate(priors):
            w, b, *_ = fit(logs, labels[fitted], True, alpha, 30.0, beta, 1 / MEMBERS)
            losses[held, g] = row_losses(held_logs, labels[held], w, b)
    gain = losses[:, 5].mean() - losses[:, 2].mean()
    assert gain > 1e-4, gain  # precision 10 goes before the evidence, and not by a hair
    difference = losses - losses[:, [2]]
    bound = difference.mean(0) + 2 * difference.std(0) / np.sqrt(ROWS)
    assert (np.delete(bound, 2) > 1e-4).all(), bound  # nothing is better by two standard errors
    mix = uniform_mix(pool, labels)
    logs = mixed_logs(pool, mix)
    w, b, *_ = fit(logs, labels, True, 10.0, 30.0, 30.0, 1 / MEMBERS)
    return w, softmax(logs @ w + b, axis=1)


# ---- hill climbing ---------------------------------------------------------------------------------------------------


def loss_of(labels, mixture):
    return log_loss(labels, mixture, labels=np.arange(CLASSES), eps=1e-15)


def hill_climbing(pool, labels):
    losses = [loss_of(labels, p) for p in pool]
    weights = np.eye(MEMBERS)[int(np.argmin(losses))]
    mixture, loss, steps = pool[int(np.argmin(losses))], min(losses), 0
    while True:
        candidates = [(loss_of(labels, (1 - j / 100) * mixture + j / 100 * pool[k]), k, j / 100)
                      for k in range(MEMBERS) for j in range(-50, 51) if j]
        best, k, step = min(candidates)
        assert abs(loss - best - 1e-5) > 1e-9
        if not best < loss - 1e-5:
            break
        weights = (1 - step) * weights + step * np.eye(MEMBERS)[k]
        mixture, loss, steps = (1 - step) * mixture + step * pool[k], best, steps + 1
    clipped = np.clip(mixture, 1e-15, 1 - 1e-15)
    assert (mixture < 0).any() and (weights < 0).any() and steps > 3
    return weights, loss, steps, clipped / clipped.sum(1, keepdims=True)


# ---- tagged members --------------------------------------------------------------------------------------------------


def mean_nll(p, labels):
    return -np.log(np.maximum(p[np.arange(ROWS), labels], 1e-15)).mean()


def main():
    warnings.simplefilter("ignore")
    pool32, labels = make_pool()
    pool = pool32.astype(np.float64)
    folds = np.arange(ROWS) % FOLDS
    x = pool.transpose(1, 2, 0).reshape(-1, MEMBERS)
    y = np.eye(CLASSES)[labels].ravel()
    accuracy = np.array([accuracy_score(labels, p.argmax(1)) for p in pool])
    text = "/* Written by tests/oracles/mixtures.py with NumPy, SciPy and scikit-learn. */\n// clang-format off\n"
    text += "#include <stdint.h>\n"
    text += f"enum {{ MIX_ROWS = {ROWS}, MIX_CLASSES = {CLASSES}, MIX_MEMBERS = {MEMBERS}, MIX_FOLDS = {FOLDS} }};\n"
    text += array("float", "mix_pool", pool32, "%.9eF") + array("int32_t", "mix_labels", labels, "%d")
    text += array("double", "mix_performance_weighted", accuracy / accuracy.sum())
    text += array("double", "mix_minimum_variance", minimum_variance(pool, labels))
    for kind in ("ridge", "lasso", "elastic_net"):
        w, b, p = linear_stacking(kind, x, y, np.repeat(folds, CLASSES))
        text += array("double", f"mix_{kind}", w) + f"static const double mix_{kind}_intercept = {b:.17g};\n"
        text += array("double", f"mix_{kind}_rows", p[:20], "%.9g")
    w, p = log_linear(pool, labels, folds)
    text += array("double", "mix_log_linear", w) + array("double", "mix_log_linear_rows", p[:20], "%.9g")
    w, loss, steps, p = hill_climbing(pool, labels)
    text += array("double", "mix_hill_climbing", w) + array("double", "mix_hill_climbing_rows", p[:20], "%.9g")
    text += f"static const double mix_hill_climbing_loss = {loss:.17g};\nenum {{ MIX_HILL_CLIMBING_STEPS = {steps} }};\n"
    # pairs (0, 4) and (1, 2): which average is the better; passes 10 and 30 of members 2 and 3
    pairs = [mean_nll((pool[a] + pool[b]) / 2, labels) for a, b in ((0, 4), (1, 2))]
    passes = (10 * pool[2] + 30 * pool[3]) / 40
    text += array("double", "mix_pair_nll", pairs) + f"static const double mix_passes_nll = {mean_nll(passes, labels):.17g};\n"
    text += array("double", "mix_member_nll", [mean_nll(p, labels) for p in pool])
    (pathlib.Path(__file__).resolve().parents[1] / "data" / "mixtures.h").write_text(text)


if __name__ == "__main__":
    main()
