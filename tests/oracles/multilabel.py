"""Writes tests/data/multilabel.h: scores of independent probabilities from scikit-learn, and the optimum of the pool of log-odds
and of ridge logistic regressions from SciPy."""

import pathlib
import warnings

import numpy as np
from scipy import optimize
from sklearn import metrics

from _c_header import array

FLOOR = 2.0**-23


def f1_at(y, p, w, fold):
    """Predicted labels at thresholds of the largest F1 on the rows of the other folds."""
    named = np.zeros(len(y), bool)
    for f in range(5):
        inside = fold != f
        best, threshold = 0, np.inf
        for candidate in np.sort(np.unique(p))[::-1]:
            score = metrics.f1_score(y[inside], p[inside] >= candidate, sample_weight=w[inside], zero_division=0)
            if y[inside].any() and score > best + 1e-15:
                best, threshold = score, candidate
        named[fold == f] = p[fold == f] >= threshold
    return named


def scores_of(y, p, w):
    """y: NaN where not known."""
    known = ~np.isnan(y)
    weight = np.broadcast_to(w[:, None], y.shape)
    cells = known.ravel()
    truth, q, cw = y.ravel()[cells], p.ravel()[cells], weight.ravel()[cells]
    out = {"log_loss": metrics.log_loss(truth, np.clip(q, FLOOR, 1 - FLOOR), sample_weight=cw)}
    each = {name: np.full(y.shape[1], np.nan) for name in ("auc", "ap", "f1", "loss")}
    named = np.zeros(y.shape, bool)
    for label in range(y.shape[1]):
        k = known[:, label]
        yl, pl, wl = y[k, label].astype(int), p[k, label], w[k]
        each["loss"][label] = metrics.log_loss(yl, np.clip(pl, FLOOR, 1 - FLOOR), sample_weight=wl, labels=[0, 1]) if k.any() else np.nan
        if len(np.unique(yl)) == 2:
            each["auc"][label] = metrics.roc_auc_score(yl, pl, sample_weight=wl)
        named[k, label] = f1_at(yl, pl, wl, np.arange(len(y))[k] % 5)
        if yl.any():
            each["ap"][label] = metrics.average_precision_score(yl, pl, sample_weight=wl)
            each["f1"][label] = metrics.f1_score(yl, named[k, label], sample_weight=wl)
    out["macro_auc"] = np.nanmean(each["auc"])
    out["micro_auc"] = metrics.roc_auc_score(truth, q, sample_weight=cw)
    out["map"] = np.nanmean(each["ap"])
    out["macro_f1"] = np.nanmean(each["f1"])
    out["micro_f1"] = metrics.f1_score(truth, named.ravel()[cells], sample_weight=cw)
    ranks, rw = [], []
    for i in range(len(y)):
        k = known[i]
        if k.any():
            ranks.append(metrics.label_ranking_average_precision_score(y[i : i + 1, k].astype(int), p[i : i + 1, k]))
            rw.append(w[i])
    out["lrap"] = np.average(ranks, weights=rw)
    out["hamming"] = metrics.hamming_loss(truth, q >= 0.5, sample_weight=cw)
    bins = np.minimum((q * 15).astype(int), 14)
    out["ece"] = sum(abs((cw * (q - truth))[bins == b].sum()) for b in range(15)) / cw.sum()
    return out, each


def scores(prefix, unknown, weighted):
    rng = np.random.default_rng(3 + weighted)
    rows, labels = 60, 5
    y = (rng.random((rows, labels)) < np.array([0.5, 0.3, 0.1, 0.4, 0.0 if unknown else 0.2])).astype(float)
    y[0] = 0
    y[1] = 1
    if unknown:
        y[:, 4] = 0
    z = 1.5 * (y - 0.5) + rng.normal(size=y.shape)
    p = np.round(1 / (1 + np.exp(-z)), 2).astype(np.float32)  # with ties
    p[5, 0], p[6, 0] = 1, 0
    if unknown:
        y[rng.random(y.shape) < 0.2] = np.nan
        y[7] = np.nan
    w = rng.uniform(0.2, 2, rows) if weighted else np.ones(rows)
    out, each = scores_of(y, p.astype(float), w)
    if not unknown:  # rows at once are the same
        assert np.isclose(out["lrap"], metrics.label_ranking_average_precision_score(y.astype(int), p, sample_weight=w))
        assert np.isclose(out["macro_auc"], metrics.roc_auc_score(y, p, average="macro", sample_weight=w))
        assert np.isclose(out["map"], metrics.average_precision_score(y, p, average="macro", sample_weight=w))
    text = f"enum {{ {prefix.upper()}_ROWS = {rows}, {prefix.upper()}_LABELS = {labels} }};\n"
    text += array("double", prefix + "_y", y) + array("float", prefix + "_p", p, "%.9eF") + array("double", prefix + "_w", w)
    text += array("double", prefix + "_scores", list(out.values()))
    return text + "".join(array("double", f"{prefix}_{name}", values) for name, values in each.items())


# ---- the pool ----------------------------------------------------------------------------------------------------
N, L, K = 90, 4, 3
SHARES = np.array([0.0, *1e-6 * 3e5 ** (np.arange(12) / 11)])


def pool():
    rng = np.random.default_rng(8)
    z = rng.normal(size=(N, L)) + np.array([0, -1, -3, 0.5])
    y = (rng.random((N, L)) < 1 / (1 + np.exp(-2 * z))).astype(float)
    y[:, 2] = 0  # no positive one
    y[rng.random((N, L)) < 0.1] = np.nan
    members = [1 / (1 + np.exp(-(s * z + t * rng.normal(size=z.shape)))) for s, t in ((1.5, 1), (1, 0.5), (3, 3))]
    members[2][rng.random((N, L)) < 0.1] = 0
    members = np.array(members).astype(np.float32)
    folds = np.arange(N) % 5
    known = ~np.isnan(y)
    w = rng.uniform(0.5, 1.5, N)
    w /= w.mean()
    weight = np.broadcast_to(w[:, None], y.shape)
    mix, risk = [], []
    for p in members.astype(float):
        def loss(share):
            q = (1 - share) * p + share / 2
            q = np.clip(np.where(y == 1, q, 1 - q), FLOOR, 1 - FLOOR)
            return (weight * -np.log(q))[known].sum()

        losses = [loss(s) for s in SHARES]
        mix.append(SHARES[1 + int(np.argmin(losses[1:]))])
        risk.append(losses[0] / weight[known].sum())
    q = np.array([np.clip((1 - s) * p + s / 2, 1e-7, 1 - 1e-7) for s, p in zip(mix, members.astype(float))])
    x = np.log(q / (1 - q)).astype(np.float32).astype(float)
    x = np.concatenate([np.moveaxis(x, 0, 2), np.ones((N, L, 1))], axis=2)

    def objective(v, rows, lam, prior, alone):
        """And its gradient."""
        theta, shared = v[: L * (K + 1)].reshape(L, K + 1), np.zeros(K + 1) if alone else v[L * (K + 1) :]
        z = (x * theta).sum(axis=2)
        use = (known & rows[:, None]) * weight
        value = (use * (np.logaddexp(0, z) - np.nan_to_num(y) * z)).sum()
        off = use * (1 / (1 + np.exp(-z)) - np.nan_to_num(y))
        slope = (off[:, :, None] * x).sum(axis=0)
        ridge = np.full(K + 1, lam)
        ridge[K] = 1e-2 if alone else lam
        away = theta - shared
        value += (ridge * away**2).sum() / 2
        slope = slope + ridge * away
        if alone:
            return value, slope.ravel()
        from_center = shared - np.array([1 / K] * K + [0])
        apart = np.append(shared[:K] - shared[:K].mean(), 0)
        value += prior * (apart**2).sum() / 2 + 0.1 * (from_center**2).sum() / 2
        return value, np.concatenate([slope.ravel(), prior * apart + 0.1 * from_center - (ridge * away).sum(axis=0)])

    text = f"enum {{ POOL_ROWS = {N}, POOL_LABELS = {L}, POOL_MEMBERS = {K}, POOL_FOLDS = 5 }};\n"
    text += array("double", "pool_y", y) + array("float", "pool_member", members, "%.9eF") + array("double", "pool_weight", w)
    text += array("int32_t", "pool_folds", folds, "%d") + array("double", "pool_mix", mix) + array("double", "pool_risk", risk)
    start = np.concatenate([np.tile([1 / K] * K + [0], L), [1 / K] * K + [0]])
    for name, lam, alone in (("shared", 2.0, False), ("tight", 1e4, False), ("alone", 0.5, True)):
        first = start[: L * (K + 1)] if alone else start
        everywhere = np.ones(N, bool)
        found = optimize.minimize(objective, first, (everywhere, lam, 10.0, alone), "L-BFGS-B", jac=True,
                                  options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-16, "gtol": 1e-10})  # fmt: skip
        text += array("double", f"pool_{name}", [lam, found.fun]) + array("double", f"pool_{name}_theta", found.x[: L * (K + 1)])
        held = optimize.minimize(objective, first, (folds != 1, lam, 10.0, alone), "L-BFGS-B", jac=True,
                                 options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-16, "gtol": 1e-10})  # fmt: skip
        theta = held.x[: L * (K + 1)].reshape(L, K + 1)
        z = (x * theta).sum(axis=2)
        losses = (weight * known * (np.logaddexp(0, z) - np.nan_to_num(y) * z)).sum(axis=1)[folds == 1].sum() / ((weight * known).sum() / N)
        text += array("double", f"pool_{name}_held", [losses])
    return text


def main():
    warnings.simplefilter("ignore")
    out = "/* Written by tests/oracles/multilabel.py. */\n#pragma once\n\n#include <math.h>\n#include <stdint.h>\n\n"
    out += scores("plain", False, False) + scores("gaps", True, True) + pool()
    path = pathlib.Path(__file__).resolve().parents[1] / "data" / "multilabel.h"
    path.write_text(out, encoding="utf-8")


if __name__ == "__main__":
    main()
