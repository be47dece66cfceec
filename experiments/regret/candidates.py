#!/usr/bin/python3
"""What was tried for the default of classification: every candidate on random divisions of labelled rows, in NumPy.

    candidates.py QUESTION POOL_FOLDER...   measures; raw losses go to --out/QUESTION.jsonl
    candidates.py --table                   writes candidates.json and candidates.md from them

Independent of the C library: the log-linear pool, its priors, greedy selection, the scalings and Bayesian stacking are written
again here. Only `oof` splits are read. Each pool's labelled rows are divided at random into two thirds, on which everything is
fitted and chosen (by five stratified folds inside them), and one third, on which it is judged.
"""
import argparse
import json
import os
import pathlib
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

FLOOR = 1e-15
FOLDS = 5
MEMBER_GRID = [1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
COMMON_GRID = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2]


# ---- pools and divisions ----

def softmax(scores):
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    return scores / scores.sum(axis=1, keepdims=True)


def load(folder, most=None):
    """Probabilities [rows, classes, members] of the `oof` split, labels, names."""
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "pool.json").read_text())
    labels = np.load(folder / manifest["splits"]["oof"]["labels"]).astype(int)
    rows = np.arange(len(labels))
    if most and len(rows) > most and len(manifest["models"]) > 8:
        rows = np.sort(np.random.default_rng(1).permutation(len(rows))[:most])
    members = []
    for model in manifest["models"]:
        p = np.load(folder / model["predictions"]["oof"], mmap_mode="r")[rows].astype(np.float64)
        if p.ndim == 2 and p.shape[1] == 1:
            p = p[:, 0]
        if model.get("output", manifest.get("output")) == "logit":
            p = softmax(p) if p.ndim == 2 else 1 / (1 + np.exp(-p))
        if p.ndim == 1:
            p = np.stack([1 - p, p], axis=1)
        members.append((p / p.sum(axis=1, keepdims=True)).astype(np.float32))
    return np.stack(members, axis=2).astype(np.float64), labels[rows], [m["name"] for m in manifest["models"]]


def stratified(labels, folds, seed):
    """Fold of each row; classes are dealt out in turn."""
    rng = np.random.default_rng(seed)
    out = np.empty(len(labels), int)
    at = 0
    for c in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == c))
        out[rows] = (at + np.arange(len(rows))) % folds
        at += len(rows)
    return out


def divide(rows, seed):
    order = np.random.default_rng(1000 + seed).permutation(rows)
    cut = round(rows * 2 / 3)
    return np.sort(order[:cut]), np.sort(order[cut:])


def nll_rows(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], FLOOR))


def scores(p, y):
    top = p.argmax(axis=1)
    right = top == y
    confidence = p[np.arange(len(y)), top]
    bins = np.minimum((confidence * 15).astype(int), 14)
    ece = np.abs(np.bincount(bins, right - confidence, 15)).sum() / len(y)
    return [float(nll_rows(p, y).mean()), float(right.mean()), float(ece)]


# ---- mixing ----

def mixed(P, m):
    m = np.asarray(m, float)
    return np.log((1 - m) * P + m / P.shape[1])


def own_mix(P, y):
    """Each member's share of the uniform distribution by its own loss."""
    truth = P[np.arange(len(y)), y]
    loss = np.stack([-np.log((1 - m) * truth + m / P.shape[1]).mean(axis=0) for m in MEMBER_GRID])
    return np.asarray(MEMBER_GRID)[loss.argmin(axis=0)]


# ---- log-linear pool ----

class Pool:
    """softmax(L w + b): Newton with the priors of src/method/loglinear/loglinear.h."""

    def __init__(self, prior=10.0, scale=30.0, bias=30.0, nonnegative=False, center=None):
        self.prior, self.scale, self.bias, self.nonnegative, self.center = prior, scale, bias, nonnegative, center

    def precision(self, K, C):
        Q = np.zeros((K + C, K + C))
        Q[:K, :K] = (self.scale - self.prior) / K
        Q[np.arange(K), np.arange(K)] += self.prior
        if self.bias:
            Q[np.arange(K, K + C), np.arange(K, K + C)] = self.bias
        return Q

    def fit(self, L, y, start=None):
        n, C, K = L.shape
        flat = L.reshape(n * C, K)
        truth = L[np.arange(n), y].sum(axis=0)
        count = np.bincount(y, minlength=C).astype(float)
        Q = self.precision(K, C)
        mean = np.r_[np.full(K, 1 / K if self.center is None else self.center), np.zeros(C)]
        free = np.ones(K + C, bool)
        if not self.bias:
            free[K:] = False
        theta = mean.copy() if start is None else start.copy()

        def value(theta):
            z = (flat @ theta[:K]).reshape(n, C) + theta[K:]
            top = z.max(axis=1, keepdims=True)
            e = np.exp(z - top)
            total = e.sum(axis=1)
            d = theta - mean
            loss = (np.log(total) + top[:, 0]).sum() - truth @ theta[:K] - count @ theta[K:] + 0.5 * d @ Q @ d
            return loss, e / total[:, None]

        loss, p = value(theta)
        for self.steps in range(100):
            g = Q @ (theta - mean)
            centre = np.matmul(p[:, None, :], L)[:, 0]
            g[:K] += centre.sum(axis=0) - truth
            g[K:] += p.sum(axis=0) - count
            H = Q.copy()
            weighted = flat * p.reshape(-1)[:, None]
            H[:K, :K] += flat.T @ weighted - centre.T @ centre
            cross = weighted.reshape(n, C, K).sum(axis=0) - p.T @ centre
            H[K:, :K] += cross
            H[:K, K:] += cross.T
            H[K:, K:] += np.diag(p.sum(axis=0)) - p.T @ p
            moving = free.copy()
            if self.nonnegative:
                moving[:K] &= ~((theta[:K] <= 0) & (g[:K] > 0))
            step = np.zeros_like(theta)
            step[moving] = -np.linalg.solve(H[np.ix_(moving, moving)], g[moving])
            if -0.5 * g @ step < 1e-5:
                break
            length = 1.0
            while True:
                trial = theta + length * step
                if self.nonnegative:
                    trial[:K] = np.maximum(trial[:K], 0)
                new, q = value(trial)
                if new <= loss + 1e-4 * g @ (trial - theta) + 1e-9 or length < 1e-6:
                    break
                length /= 2
            theta, loss, p = trial, new, q
        self.theta, self.H, self.K = theta, H, K
        at = np.flatnonzero(free)
        # Laplace's log evidence.
        self.evidence = -loss + 0.5 * (np.linalg.slogdet(Q[np.ix_(at, at)])[1] - np.linalg.slogdet(H[np.ix_(at, at)])[1])
        return self

    def predict(self, L):
        n, C, K = L.shape
        return softmax((L.reshape(n * C, K) @ self.theta[:K]).reshape(n, C) + self.theta[K:])


class Floored:
    """softmax(sum_k w_k log(p_k + e_k) + b), log e_k learned with the weights around log(e0) (prior precision `tail`)."""

    def __init__(self, start_mix=1e-4, tail=1.0, common=None, **priors):
        self.start_mix, self.tail, self.common, self.priors = start_mix, tail, common, priors

    def fit(self, P, y):
        n, C, K = P.shape
        m = own_mix(P, y) if self.start_mix == "own" else np.full(K, self.start_mix)
        at = np.log(m / C)
        pool = Pool(**self.priors)
        pool.fit(np.log(P + np.exp(at)), y)
        Q = np.zeros((2 * K + C, 2 * K + C))
        Q[:K + C, :K + C] = pool.precision(K, C)
        Q[np.arange(K + C, 2 * K + C), np.arange(K + C, 2 * K + C)] = self.tail
        if self.common is not None:
            Q[K + C:, K + C:] += (self.common - self.tail) / K
        center = pool.center if pool.center is not None else 1 / K
        mean = np.r_[np.broadcast_to(center, K), np.zeros(C), at]
        theta = np.r_[pool.theta, at]
        rows = np.arange(n)

        def value(theta):
            L = np.log(P + np.exp(theta[K + C:]))
            z = L @ theta[:K] + theta[K:K + C]
            top = z.max(axis=1, keepdims=True)
            e = np.exp(z - top)
            total = e.sum(axis=1)
            d = theta - mean
            return (np.log(total) + top[:, 0] - z[rows, y]).sum() + 0.5 * d @ Q @ d, L, e / total[:, None]

        loss, L, p = value(theta)
        damping = 1e-3
        for self.steps in range(60):
            e = np.exp(theta[K + C:])
            S = e / (P + e) * theta[:K]
            J = np.concatenate([L, np.broadcast_to(np.eye(C), (n, C, C)), S], axis=2)
            centre = np.einsum("nc,ncd->nd", p, J)
            g = Q @ (theta - mean) + centre.sum(axis=0) - J[rows, y].sum(axis=0)
            flat = J.reshape(n * C, -1)
            H = Q + flat.T @ (flat * p.reshape(-1)[:, None]) - centre.T @ centre
            while True:
                step = -np.linalg.solve(H + damping * np.diag(np.diag(H)), g)
                step[K + C:] = np.clip(step[K + C:], -2, 2)
                new, nextL, q = value(theta + step)
                if new <= loss or damping > 1e6:
                    break
                damping *= 10
            done = loss - new < 1e-4
            damping = max(damping / 10, 1e-6)
            if new <= loss:
                theta, loss, L, p = theta + step, new, nextL, q
            if done:
                break
        self.theta, self.C, self.K = theta, C, K
        return self

    def predict(self, P):
        K, C = self.K, self.C
        return softmax(np.log(P + np.exp(self.theta[K + C:])) @ self.theta[:K] + self.theta[K:K + C])


# ---- question 1: mixing ----

def temperature(Z, y):
    """Inverse temperature of log probabilities Z by Newton."""
    rows = np.arange(len(y))
    t = 1.0
    for _ in range(50):
        p = softmax(t * Z)
        mean = (p * Z).sum(axis=1)
        g = (mean - Z[rows, y]).sum()
        h = (p * Z * Z).sum() - (mean ** 2).sum()
        step = np.clip(-g / max(h, 1e-12), -0.5 * t, t)
        t += step
        if abs(step) < 1e-7 * t:
            break
    return t


def shrunk_betas(P, y, precision):
    """Inverse temperature of each member, with a Gaussian prior on its logarithm."""
    out = []
    rows = np.arange(len(y))
    for k in range(P.shape[2]):
        Z = np.log(np.maximum(P[:, :, k], 1e-6))
        s = 0.0
        for _ in range(30):
            t = np.exp(s)
            p = softmax(t * Z)
            mean = (p * Z).sum(axis=1)
            g = t * (mean - Z[rows, y]).sum() + precision * s
            h = t * t * ((p * Z * Z).sum() - (mean ** 2).sum()) + precision + abs(t * (mean - Z[rows, y]).sum())
            step = np.clip(-g / h, -1, 1)
            s += step
            if abs(step) < 1e-6:
                break
        out.append(np.exp(s))
    return np.array(out)


def with_mix(m, **priors):
    """Log-linear pool under one share for all members, or under each member's own."""
    def fit(P, y):
        mix = own_mix(P, y) if m == "own" else m
        pool = Pool(**priors).fit(mixed(P, mix), y)
        return lambda X: pool.predict(mixed(X, mix))
    return fit


def with_floor(m, tail, common=None, **priors):
    return lambda P, y: Floored(m, tail, common, **priors).fit(P, y).predict


def with_centre(m, precision, **priors):
    """Prior means of the weights: each member's inverse temperature over K."""
    def fit(P, y):
        mix = own_mix(P, y) if m == "own" else m
        pool = Pool(center=shrunk_betas(P, y, precision) / P.shape[2], **priors).fit(mixed(P, mix), y)
        return lambda X: pool.predict(mixed(X, mix))
    return fit


MIXING = {"own": with_mix("own")}
for _m in COMMON_GRID:
    MIXING[f"common {_m:g}"] = with_mix(_m)
for _m in ["own", 1e-3, 3e-3]:
    for _t in [0.03, 0.1, 0.3]:
        MIXING[f"floor {_m} tail {_t:g}"] = with_floor(_m, _t)
MIXING["floor 0.001 tail .3 common .03"] = with_floor(1e-3, 0.3, 0.03)
MIXING["floor own tail .3 common .03"] = with_floor("own", 0.3, 0.03)
for _s in [3, 10]:
    MIXING[f"own scale {_s}"] = with_mix("own", scale=_s)
    MIXING[f"floor 0.001 tail .1 scale {_s}"] = with_floor(1e-3, 0.1, scale=_s)
MIXING["own prior 3 scale 10"] = with_mix("own", prior=3, scale=10)
MIXING["own prior 3 scale 3"] = with_mix("own", prior=3, scale=3)
for _t in [3, 10, 30]:
    MIXING[f"own centre {_t}"] = with_centre("own", _t)
    MIXING[f"common 0.001 centre {_t}"] = with_centre(1e-3, _t)


def cross_fit(fit, P, y, folds):
    """Held-out losses of each row."""
    loss = np.empty(len(y))
    for f in range(FOLDS):
        held = folds == f
        loss[held] = nll_rows(fit(P[~held], y[~held])(P[held]), y[held])
    return loss


def choose(losses, names, default=None, margin=0.0):
    """Least mean loss; with a default, it is kept unless beaten by `margin` paired standard errors."""
    best = min(names, key=lambda s: losses[s].mean())
    if default is None or best == default:
        return best
    d = losses[best] - losses[default]
    return best if d.mean() + margin * d.std() / np.sqrt(len(d)) < 0 else default


def question_mixing(P, y, fit, judge, seed):
    folds = stratified(y[fit], FOLDS, seed)
    losses = {name: cross_fit(f, P[fit], y[fit], folds) for name, f in MIXING.items()}
    result = {name: scores(f(P[fit], y[fit])(P[judge]), y[judge]) for name, f in MIXING.items()}
    held = {name: float(v.mean()) for name, v in losses.items()}
    common = [s for s in MIXING if s.startswith("common") and "centre" not in s]
    grid = common + ["own"]
    picks = {"cv own unless 2se": choose(losses, grid, "own", 2),
             "cv own, floor .1": choose(losses, ["own", "floor 0.001 tail 0.1"]),
             "cv own, floor own .1": choose(losses, ["own", "floor own tail 0.1"]),
             "cv own, floor unless 1se": choose(losses, ["own", "floor 0.001 tail 0.1"], "own", 1),
             "cv own, common 1e-3, 1e-6": choose(losses, ["own", "common 0.001", "common 1e-06"]),
             "cv own, common unless .5se": choose(losses, grid, "own", .5)}
    for name, chosen in picks.items():
        result[name] = result[chosen]
    return {"scores": result, "held": held, "picks": picks}


# ---- learners ----

def log_average(p):
    return np.log(np.maximum(p, 1e-12))


def scaled(p, t):
    return softmax(t * log_average(p))


class Vector:
    """softmax(s_c log p_c + b_c); slopes shrunk to their mean and intercepts to 0 with total-scale precision `shrink`."""

    def __init__(self, shrink=1e-3, common=1e-3, bias=None):
        self.shrink, self.common, self.bias = shrink, common, shrink if bias is None else bias

    def fit(self, p, y):
        Z = np.log(np.maximum(p, 1e-12))
        n, C = Z.shape
        Q = np.zeros((2 * C, 2 * C))
        Q[:C, :C] = self.shrink * (np.eye(C) - 1 / C) + self.common / C ** 2
        Q[C:, C:] = self.bias * np.eye(C)
        mean = np.r_[np.ones(C), np.zeros(C)]
        theta = mean.copy()
        hot = np.eye(C)[y]
        target = np.r_[(hot * Z).sum(axis=0), hot.sum(axis=0)]
        rows = np.arange(n)

        def value(theta):
            z = Z * theta[:C] + theta[C:]
            q = softmax(z)
            d = theta - mean
            return -np.log(np.maximum(q[rows, y], 1e-300)).sum() + 0.5 * d @ Q @ d, q

        loss, q = value(theta)
        for _ in range(60):
            A = np.concatenate([q * Z, q], axis=1)
            g = A.sum(axis=0) - target + Q @ (theta - mean)
            H = Q - A.T @ A
            i = np.arange(C)
            H[i, i] += (q * Z * Z).sum(axis=0)
            H[i, i + C] += (q * Z).sum(axis=0)
            H[i + C, i] += (q * Z).sum(axis=0)
            H[i + C, i + C] += q.sum(axis=0)
            step = -np.linalg.solve(H + 1e-9 * np.eye(2 * C), g)
            if -0.5 * g @ step < 1e-5:
                break
            length = 1.0
            while True:
                new, r = value(theta + length * step)
                if new <= loss + 1e-9 or length < 1e-5:
                    break
                length /= 2
            theta, loss, q = theta + length * step, new, r
        self.theta = theta
        return self

    def predict(self, p):
        C = p.shape[1]
        return softmax(np.log(np.maximum(p, 1e-12)) * self.theta[:C] + self.theta[C:])


def greedy_weights(P, y, rounds=25):
    """Greedy selection with replacement on log loss, as AutoGluon: the best of 25 rounds."""
    truth = np.maximum(P[np.arange(len(y)), y], 2.0 ** -52)
    total = np.zeros(len(y))
    counts = np.zeros(P.shape[2])
    best, kept = np.inf, None
    for r in range(rounds):
        loss = -np.log(np.maximum((total[:, None] + truth) / (r + 1), 1e-15)).mean(axis=0)
        k = loss.argmin()
        total += truth[:, k]
        counts[k] += 1
        if loss[k] < best - 1e-12:
            best, kept = loss[k], counts / counts.sum()
    return kept


def hill_weights(P, y, rounds=40):
    """Hill climbing with negative steps from the best member."""
    truth = P[np.arange(len(y)), y]
    loss = -np.log(np.maximum(truth, FLOOR)).mean(axis=0)
    w = np.zeros(P.shape[2])
    w[loss.argmin()] = 1
    best = loss.min()
    steps = np.r_[np.arange(-50, -9, 10), -5, -2, 2, 5, np.arange(10, 51, 10)] / 100
    for _ in range(rounds):
        now = truth @ w
        trial = now[:, None, None] * (1 - steps) + truth[:, :, None] * steps
        losses = -np.log(np.clip(trial, FLOOR, 1)).mean(axis=0)
        k, j = np.unravel_index(losses.argmin(), losses.shape)
        if losses[k, j] > best - 1e-5:
            break
        best = losses[k, j]
        w *= 1 - steps[j]
        w[k] += steps[j]
    return w


def ridge_weights(P, y):
    """Weights and intercept of the ridge on one-hot targets; penalty by generalised cross-validation."""
    n, C, K = P.shape
    X = P.reshape(n * C, K)
    t = np.eye(C)[y].reshape(-1)
    mean, level = X.mean(axis=0), t.mean()
    sd = X.std(axis=0) + 1e-12
    u, s, v = np.linalg.svd((X - mean) / sd, full_matrices=False)
    projected = u.T @ (t - level)
    best = (np.inf, None)
    for lam in np.geomspace(1e-4, 1e2, 25) * n * C / 100:
        shrink = s ** 2 / (s ** 2 + lam)
        residual = ((t - level) ** 2).sum() - (2 * shrink - shrink ** 2) @ projected ** 2
        gcv = residual / (n * C - shrink.sum()) ** 2
        if gcv < best[0]:
            best = (gcv, lam)
    w = v.T @ (projected * s / (s ** 2 + best[1])) / sd
    return w, level - mean @ w


def clipped(p):
    p = np.clip(p, 1e-4, None)
    return p / p.sum(axis=1, keepdims=True)


def then_temperature(base):
    """base(P, y) -> predictor; a temperature is fitted to its log probabilities on the same rows."""
    def fit(P, y):
        predict = base(P, y)
        t = temperature(log_average(predict(P)), y)
        return lambda X: scaled(predict(X), t)
    return fit


def then_vector(base, shrink):
    def fit(P, y):
        predict = base(P, y)
        v = Vector(shrink).fit(predict(P), y)
        return lambda X: v.predict(predict(X))
    return fit


def blend_of(weights, clip=False):
    def fit(P, y):
        w = weights(P, y)
        b = 0.0
        if isinstance(w, tuple):
            w, b = w
        return (lambda X: clipped(X @ w + b)) if clip else (lambda X: X @ w)
    return fit


def average(P, y):
    return lambda X: X.mean(axis=2)


def best_single(P, y):
    k = nll_means(P, y).argmin()
    return lambda X: X[:, :, k]


def nll_means(P, y):
    return -np.log(np.maximum(P[np.arange(len(y)), y], 1e-12)).mean(axis=0)


class ClassWise:
    """softmax_c(sum_k v_kc L_ck + b_c): deviations of v over classes have precision `tau`, their mean the pool's priors."""

    def __init__(self, tau, **priors):
        self.tau, self.priors = tau, priors

    def fit(self, L, y):
        n, C, K = L.shape
        pool = Pool(**self.priors).fit(L, y)
        small = pool.precision(K, C)
        one = np.full((C, C), 1 / C)
        Q = np.zeros((K * C + C,) * 2)
        Q[:K * C, :K * C] = np.kron(np.eye(C) - one, self.tau * np.eye(K)) + np.kron(one / C, small[:K, :K])
        Q[K * C:, K * C:] = small[K:, K:]
        mean = np.r_[np.full(K * C, 1 / K), np.zeros(C)]
        theta = np.r_[np.tile(pool.theta[:K], C), pool.theta[K:]]
        hot = np.eye(C)[y]
        target = np.r_[(hot[:, :, None] * L).sum(axis=0).reshape(-1), hot.sum(axis=0)]
        rows = np.arange(n)

        def value(theta):
            z = np.einsum("nck,ck->nc", L, theta[:K * C].reshape(C, K)) + theta[K * C:]
            top = z.max(axis=1, keepdims=True)
            e = np.exp(z - top)
            total = e.sum(axis=1)
            d = theta - mean
            return (np.log(total) + top[:, 0] - z[rows, y]).sum() + 0.5 * d @ Q @ d, e / total[:, None]

        loss, p = value(theta)
        for _ in range(40):
            A = np.concatenate([(p[:, :, None] * L).reshape(n, C * K), p], axis=1)
            g = A.sum(axis=0) - target + Q @ (theta - mean)
            H = Q - A.T @ A
            for c in range(C):
                at = slice(c * K, c * K + K)
                pl = p[:, c, None] * L[:, c]
                H[at, at] += L[:, c].T @ pl
                H[at, K * C + c] += pl.sum(axis=0)
                H[K * C + c, at] += pl.sum(axis=0)
                H[K * C + c, K * C + c] += p[:, c].sum()
            step = -np.linalg.solve(H, g)
            if -0.5 * g @ step < 1e-3:
                break
            length = 1.0
            while True:
                new, q = value(theta + length * step)
                if new <= loss + 1e-9 or length < 1e-4:
                    break
                length /= 2
            theta, loss, p = theta + length * step, new, q
        self.theta = theta
        return self

    def predict(self, L):
        n, C, K = L.shape
        return softmax(np.einsum("nck,ck->nc", L, self.theta[:K * C].reshape(C, K)) + self.theta[K * C:])


def class_wise(tau, m="own"):
    def fit(P, y):
        mix = own_mix(P, y) if m == "own" else m
        f = ClassWise(tau).fit(mixed(P, mix), y)
        return lambda X: f.predict(mixed(X, mix))
    return fit


def vector_first(shrink, m="own", common=1e-3, bias=None, floor=None, **priors):
    """Each member's vector scaling, then the pool (with `floor`: the learned floor's tail)."""
    def fit(P, y):
        vectors = [Vector(shrink, common, bias).fit(P[:, :, k], y) for k in range(P.shape[2])]

        def scale(X):
            return np.stack([v.predict(X[:, :, k]) for k, v in enumerate(vectors)], axis=2)

        S = scale(P)
        if floor is not None:
            floored = Floored(m, floor, **priors).fit(S, y)
            return lambda X: floored.predict(scale(X))
        mix = own_mix(S, y) if m == "own" else m
        pool = Pool(**priors).fit(mixed(S, mix), y)
        return lambda X: pool.predict(mixed(scale(X), mix))
    return fit


def gate_features(P):
    """Entropy of the average, its largest probability, disagreement (Jensen-Shannon): [rows, 3]."""
    mean = P.mean(axis=2)
    entropy = -(mean * log_average(mean)).sum(axis=1)
    inside = -(P * np.log(np.maximum(P, 1e-12))).sum(axis=1).mean(axis=1)
    return np.stack([entropy, mean.max(axis=1), entropy - inside], axis=1)


class Gated(Pool):
    """Weights linear in the gate's features: extra columns L * feature around 0 with precision `tau`."""

    def __init__(self, tau, K, **priors):
        super().__init__(**priors)
        self.tau, self.members = tau, K

    def precision(self, columns, C):
        Q = np.zeros((columns + C,) * 2)
        K = self.members
        Q[:K, :K] = Pool.precision(self, K, C)[:K, :K]
        i = np.arange(K, columns)
        Q[i, i] = self.tau
        i = np.arange(columns, columns + C)
        Q[i, i] = self.bias
        return Q


def gated(tau, m="own"):
    def fit(P, y):
        K = P.shape[2]
        mix = own_mix(P, y) if m == "own" else m
        F = gate_features(P)
        centre, spread = F.mean(axis=0), F.std(axis=0) + 1e-9

        def columns(X):
            L = mixed(X, mix)
            f = np.clip((gate_features(X) - centre) / spread, -3, 3)
            return np.concatenate([L] + [L * f[:, None, None, j] for j in range(f.shape[1])], axis=2)

        extra = 3 * K
        g = Gated(tau, K, center=np.r_[np.full(K, 1 / K), np.zeros(extra)])
        g.fit(columns(P), y)
        return lambda X: g.predict(columns(X))
    return fit


def logistic(strength=1.0):
    """scikit-learn's stacking: multinomial logistic regression on all members' probabilities."""
    def fit(P, y):
        from sklearn.linear_model import LogisticRegression
        n, C, K = P.shape
        first = 1 if C == 2 else 0

        def X(P):
            return P[:, first:].reshape(len(P), -1)

        model = LogisticRegression(C=strength, max_iter=300).fit(X(P), y)

        def predict(Q):
            out = np.full((len(Q), C), 1e-6)
            out[:, model.classes_] = np.maximum(model.predict_proba(X(Q)), 1e-6)
            return out / out.sum(axis=1, keepdims=True)
        return predict
    return fit


LEARNERS = {
    "log-linear": with_mix("own"), "log-linear prior 1": with_mix("own", prior=1), "log-linear prior 3": with_mix("own", prior=3),
    "log-linear prior 30": with_mix("own", prior=30), "log-linear prior 100": with_mix("own", prior=100),
    "log-linear no bias": with_mix("own", bias=0), "log-linear bias 300": with_mix("own", bias=300), "log-linear bias 3": with_mix("own", bias=3),
    "non-negative": with_mix("own", nonnegative=True), "non-negative prior 1": with_mix("own", nonnegative=True, prior=1, scale=3),
    "mix 1e-6": with_mix(1e-6), "mix 1e-3": with_mix(1e-3), "mix 1e-6 prior 100": with_mix(1e-6, prior=100), "mix 1e-6 prior 1": with_mix(1e-6, prior=1),
    "non-negative mix 1e-6": with_mix(1e-6, nonnegative=True), "floor": with_floor(1e-3, 0.1), "floor own": with_floor("own", 0.1),
    "greedy": blend_of(greedy_weights), "greedy + T": then_temperature(blend_of(greedy_weights)), "greedy + vector": then_vector(blend_of(greedy_weights), 1e-3),
    "greedy + vector shrunk": then_vector(blend_of(greedy_weights), 10), "average": average, "average + T": then_temperature(average),
    "average + vector": then_vector(average, 1e-3), "average + vector shrunk": then_vector(average, 10), "average + vector shrunk 1": then_vector(average, 1),
    "best + T": then_temperature(best_single), "ridge + T": then_temperature(blend_of(ridge_weights, clip=True)),
    "hill climbing + T": then_temperature(blend_of(hill_weights, clip=True)),
    "class-wise 10": class_wise(10), "class-wise 30": class_wise(30), "class-wise 100": class_wise(100), "class-wise 30 mix 1e-6": class_wise(30, 1e-6),
    "vector first": vector_first(10), "vector first mix 1e-3": vector_first(10, 1e-3), "gated 30": gated(30), "gated 100": gated(100), "gated 300": gated(300),
    "logistic": logistic(), "logistic 0.1": logistic(0.1),
}
VECTORS = {"log-linear": LEARNERS["log-linear"]}
for _s in [3, 10, 30, 100, 300]:
    VECTORS[f"vector first {_s}"] = vector_first(_s, 1e-3)
for _c in [1, 3, 10, 30, 100]:
    VECTORS[f"vector first 10 slope {_c}"] = vector_first(10, 1e-3, _c)
    VECTORS[f"vector first 30 slope {_c}"] = vector_first(30, 1e-3, _c)
for _c in [1, 10]:
    VECTORS[f"temperature first slope {_c}"] = vector_first(1e6, 1e-3, _c, 1e6)
    VECTORS[f"bias first {_c}"] = vector_first(1e6, 1e-3, 1e6, _c)
    VECTORS[f"temperature, bias 10 slope {_c}"] = vector_first(1e6, 1e-3, _c, 10)
for _m in [1e-5, 1e-4, 1e-2, "own"]:
    VECTORS[f"vector first 10 slope 3 mix {_m}"] = vector_first(10, _m, 3)
VECTORS["vector first 10 slope 3 floor"] = vector_first(10, 1e-3, 3, floor=0.1)
VECTORS["vector first 10 slope 3 prior 3"] = vector_first(10, 1e-3, 3, prior=3)
VECTORS["vector first 10 slope 3 prior 30"] = vector_first(10, 1e-3, 3, prior=30)
VECTORS["vector first 10 slope 3 prior 100"] = vector_first(10, 1e-3, 3, prior=100)
VECTORS["vector first 10 slope 3 bias 3"] = vector_first(10, 1e-3, 3, 3)
VECTORS["vector first 10 slope 3 non-negative"] = vector_first(10, 1e-3, 3, nonnegative=True)

def slopes_of(P, y, precision, floor=1e-12):
    """Inverse temperature of each member, Gaussian prior on its distance from 1."""
    return np.array([Vector(1e6, precision, 1e6).fit(np.maximum(P[:, :, k], floor), y).theta[:P.shape[1]].mean() for k in range(P.shape[2])])


def scaled_columns(m=1e-3, precision=1.0, floor=1e-12, tail=None, most=0.1, **priors):
    """As temperature first, without tempering the table: floors m_k = C (m/C)^(1/beta_k), columns beta_k log(p_k mixed)."""
    def fit(P, y):
        C = P.shape[1]
        beta = np.maximum(slopes_of(P, y, precision, floor), 0.05)
        mix = np.clip(C * (m / C) ** (1 / beta), 1e-12, most)
        pool = Pool(**priors).fit(mixed(P, mix) * beta, y)
        EVIDENCE.append(pool.evidence)
        return lambda X: pool.predict(mixed(X, mix) * beta)
    return fit


EVIDENCE = []


APPROXIMATE = {"log-linear": LEARNERS["log-linear"], "temperature first slope 1": VECTORS["temperature first slope 1"]}
for _m in [1e-4, 1e-3, 3e-3]:
    APPROXIMATE[f"scaled {_m:g}"] = scaled_columns(_m)
APPROXIMATE["scaled 0.001 floor 1e-6"] = scaled_columns(1e-3, floor=1e-6)
APPROXIMATE["scaled 0.001 slope 10"] = scaled_columns(1e-3, 10)
APPROXIMATE["scaled 0.001 slope 3"] = scaled_columns(1e-3, 3)
APPROXIMATE["scaled 0.001 most .3"] = scaled_columns(1e-3, most=0.3)
APPROXIMATE["scaled 0.001 most .03"] = scaled_columns(1e-3, most=0.03)
APPROXIMATE["scaled 0.001 prior 3"] = scaled_columns(1e-3, prior=3)
APPROXIMATE["scaled 0.001 prior 30"] = scaled_columns(1e-3, prior=30)
APPROXIMATE["scaled 0.001 bias 10"] = scaled_columns(1e-3, bias=10)
APPROXIMATE["scaled 0.001 bias 3"] = scaled_columns(1e-3, bias=3)
APPROXIMATE["temperature first floor 1e-6"] = lambda P, y: vector_first(1e6, 1e-3, 1, 1e6)(np.maximum(P, 1e-6), y)


def question_approximate(P, y, fit, judge, seed):
    return question_learners(P, y, fit, judge, seed, APPROXIMATE, "approximate")


PRIORS = {"log-linear": LEARNERS["log-linear"]}
for _p in [1, 3, 10, 30, 100, 300]:
    PRIORS[f"scaled prior {_p}"] = scaled_columns(1e-3, most=0.03, prior=_p)
PRIORS["scaled prior 100 scale 100"] = scaled_columns(1e-3, most=0.03, prior=100, scale=100)
PRIORS["scaled prior 300 scale 300"] = scaled_columns(1e-3, most=0.03, prior=300, scale=300)
for _b in [3, 10, 100, 300]:
    PRIORS[f"scaled bias {_b}"] = scaled_columns(1e-3, most=0.03, bias=_b)
for _p in [3, 30, 100]:
    PRIORS[f"scaled prior {_p} bias 3"] = scaled_columns(1e-3, most=0.03, prior=_p, bias=3)
PRIORS["scaled non-negative"] = scaled_columns(1e-3, most=0.03, nonnegative=True)
PRIORS["scaled non-negative prior 100"] = scaled_columns(1e-3, most=0.03, nonnegative=True, prior=100)
for _n in ["vector first 3", "vector first 10"]:
    PRIORS[_n] = VECTORS[_n]
for _n in ["greedy", "greedy + T", "average", "average + T", "average + vector", "average + vector shrunk", "greedy + vector", "best + T", "ridge + T",
           "hill climbing + T", "non-negative", "mix 1e-6", "logistic"]:
    PRIORS[_n] = LEARNERS[_n]


def scaled_fit(P, y, m=1e-3, most=0.03):
    """Columns of the scaled pool as a function of new probabilities."""
    C = P.shape[1]
    beta = np.maximum(slopes_of(P, y, 1.0), 0.05)
    mix = np.clip(C * (m / C) ** (1 / beta), 1e-12, most)
    return lambda X: mixed(X, mix) * beta


def both_columns(tau, prior=10.0):
    """Scaled log columns and, around 0 with precision tau, the probabilities themselves."""
    def fit(P, y):
        K = P.shape[2]
        scale = scaled_fit(P, y)

        def columns(X):
            return np.concatenate([scale(X), X], axis=2)

        pool = Gated(tau, K, center=np.r_[np.full(K, 1 / K), np.zeros(K)], prior=prior).fit(columns(P), y)
        return lambda X: pool.predict(columns(X))
    return fit


def probability_pool(prior, center):
    """softmax(sum v_k p_k + b)."""
    def fit(P, y):
        pool = Pool(prior=prior, scale=prior, center=center / P.shape[2]).fit(P, y)
        return lambda X: pool.predict(X)
    return fit


def scaled_class_wise(tau):
    def fit(P, y):
        scale = scaled_fit(P, y)
        f = ClassWise(tau).fit(scale(P), y)
        return lambda X: f.predict(scale(X))
    return fit


def scaled_gated(tau):
    def fit(P, y):
        K = P.shape[2]
        scale = scaled_fit(P, y)
        F = gate_features(P)
        centre, spread = F.mean(axis=0), F.std(axis=0) + 1e-9

        def columns(X):
            L = scale(X)
            f = np.clip((gate_features(X) - centre) / spread, -3, 3)
            return np.concatenate([L] + [L * f[:, None, None, j] for j in range(f.shape[1])], axis=2)

        g = Gated(tau, K, center=np.r_[np.full(K, 1 / K), np.zeros(3 * K)]).fit(columns(P), y)
        return lambda X: g.predict(columns(X))
    return fit


EXTRA = {"log-linear": LEARNERS["log-linear"]}
for _t in [1, 3, 10]:
    EXTRA[f"both {_t}"] = both_columns(_t)
EXTRA["both 3 prior 30"] = both_columns(3, 30)
for _p, _c in [(1, 5), (0.3, 5), (3, 5), (0.1, 5)]:
    EXTRA[f"probability pool {_p}"] = probability_pool(_p, _c)
for _t in [10, 30, 100]:
    EXTRA[f"scaled class-wise {_t}"] = scaled_class_wise(_t)
EXTRA["scaled gated 100"] = scaled_gated(100)
EXTRA["scaled gated 30"] = scaled_gated(30)
EXTRA["logistic"] = logistic()
EXTRA["average + T, bias 3"] = then_vector(average, 1e6)
for _s in [1, 3]:
    EXTRA[f"average + vector shrunk {_s}"] = then_vector(average, _s)


def question_extra(P, y, fit, judge, seed):
    learners = {k: v for k, v in EXTRA.items() if "class-wise" not in k or P.shape[1] * P.shape[2] <= 250}
    return question_learners(P, y, fit, judge, seed, learners, "extra")


def question_priors(P, y, fit, judge, seed):
    return question_learners(P, y, fit, judge, seed, PRIORS, "priors")


STORE = pathlib.Path("raw/predictions")


def question_vectors(P, y, fit, judge, seed):
    return question_learners(P, y, fit, judge, seed, VECTORS, "vectors")


def question_learners(P, y, fit, judge, seed, learners=LEARNERS, store="learners"):
    """Fits every learner, cross-fitted and whole, and keeps its predictions for the blends."""
    folds = stratified(y[fit], FOLDS, seed)
    n, C, K = P.shape
    F, fy, J, jy = P[fit], y[fit], P[judge], y[judge]
    result, seconds, evidence, oof, whole, means = {}, {}, {}, [], [], []
    names = []
    for name, learner in learners.items():
        if name.startswith("logistic") and C * C * K > 3000:
            continue
        began = time.time()
        inner = np.empty((len(fy), C), np.float32)
        mean = np.zeros((len(jy), C))
        for f in range(FOLDS):
            held = folds == f
            predict = learner(F[~held], fy[~held])
            inner[held] = predict(F[held])
            mean += predict(J) / FOLDS
        EVIDENCE.clear()
        p = learner(F, fy)(J)
        if EVIDENCE:
            evidence[name] = EVIDENCE[-1]
        seconds[name] = round(time.time() - began, 3)
        result[name] = scores(p, jy)
        result[name + " (mean of folds)"] = scores(mean, jy)
        names.append(name)
        oof.append(inner)
        whole.append(p.astype(np.float32))
        means.append(mean.astype(np.float32))
    where = STORE / store
    where.mkdir(parents=True, exist_ok=True)
    np.savez(where / f"{POOL}-{seed}.npz", names=names, oof=np.stack(oof, 2), whole=np.stack(whole, 2), means=np.stack(means, 2), fy=fy, jy=jy, folds=folds)
    return {"scores": result, "learner_seconds": seconds, "evidence": evidence, "rows": len(fy), "classes": C, "members": K}


# ---- question 4: the path of subsets ----

def backward(L, y, sizes, refit):
    """Members that backward elimination leaves at each size. With `refit` the pool is fitted again after each removal; without,
    all removals use the quadratic model of the loss around the pool of all members, and swaps improve each size in it."""
    K = L.shape[2]
    active = list(range(K))
    found = {}
    pool = Pool().fit(L, y)
    H, theta = pool.H, pool.theta
    while True:
        size = len(active)
        if size in sizes:
            found[size] = improved(H, theta, active, K) if not refit else list(active)
        if size == min(sizes):
            return found
        if refit:
            pool = Pool().fit(L[:, :, active], y)
            inverse = np.linalg.inv(pool.H)
            cost = pool.theta[:size] ** 2 / np.diag(inverse)[:size]
            active.pop(int(cost.argmin()))
        else:
            losses = [quadratic_loss(H, theta, [k for k in active if k != j], K) for j in active]
            active.pop(int(np.argmin(losses)))


def quadratic_loss(H, theta, active, K):
    """Least of 0.5 (t - theta)' H (t - theta) with the weights of the other members at 0."""
    gone = [k for k in range(K) if k not in active]
    kept = active + list(range(K, len(theta)))
    if not gone:
        return 0.0
    schur = H[np.ix_(gone, gone)] - H[np.ix_(gone, kept)] @ np.linalg.solve(H[np.ix_(kept, kept)], H[np.ix_(kept, gone)])
    return 0.5 * theta[gone] @ schur @ theta[gone]


def improved(H, theta, active, K):
    """Swaps of one member for another until none lowers the quadratic loss."""
    active = list(active)
    least = quadratic_loss(H, theta, active, K)
    while True:
        trials = [(quadratic_loss(H, theta, [k for k in active if k != j] + [i], K), j, i)
                  for j in active for i in range(K) if i not in active]
        if not trials or min(trials)[0] >= least - 1e-9:
            return sorted(active)
        least, j, i = min(trials)
        active = [k for k in active if k != j] + [i]


def question_subset(P, y, fit, judge, seed):
    K = P.shape[2]
    mix = own_mix(P[fit], y[fit])
    L, J = mixed(P[fit], mix), mixed(P[judge], mix)
    sizes = sorted({max(2, round(K * share)) for share in (0.25, 0.4, 0.6)})
    result = {"log-linear": scores(Pool().fit(L, y[fit]).predict(J), y[judge])}
    for name, refit in [("refitted path", True), ("quadratic path", False)]:
        for size, active in backward(L, y[fit], sizes, refit).items():
            share = min((0.25, 0.4, 0.6), key=lambda v: abs(v - size / K))
            pool = Pool().fit(L[:, :, active], y[fit])
            result[f"{name}, {share:.0%}"] = scores(pool.predict(J[:, :, active]), y[judge])
    return {"scores": result}


# ---- blends of learners that were stored ----

STORES = ["learners", "vectors", "approximate", "priors", "extra"]
SIMPLE = ["average + T", "average", "best + T"]
ISSUE = ["log-linear", "log-linear prior 3", "log-linear prior 100", "non-negative", "greedy + T", "average + vector", "greedy + vector", "ridge + T",
         "hill climbing + T", "best + T"]
S10, S30, BOTH, VECTOR = "scaled prior 10", "scaled prior 30", "both 3 prior 30", "vector first 3"
EIGHT = ["log-linear", S10, "vector first 10", "probability pool 1", "best + T", "average + T", "average + vector shrunk", "greedy + T"]
# Name: learners, pseudo-rows of the Dirichlet prior of each (the rest: 0).
BLENDS = {
    **{f"first list, {a} pseudo-rows": (ISSUE, [a]) for a in (0, 1, 3, 5, 10, 20)},
    **{f"first list, 3 pseudo-rows, without {n}": ([m for m in ISSUE if m != n], [3]) for n in ISSUE[1:]},
    "first list, vectors shrunk, 3": ([n + " shrunk" if n.endswith("vector") else n for n in ISSUE], [3]),
    "log-linear and vector first, 5": (["log-linear", "vector first mix 1e-3"], [5]),
    "log-linear, vector first, simple, 5": (["log-linear", "vector first mix 1e-3"] + SIMPLE, [5]),
    "scaled 10 and simple, 3": ([S10] + SIMPLE, [3]),
    "scaled 10, log-linear, vector first, simple, 3": ([S10, "log-linear", VECTOR] + SIMPLE, [3]),
    "scaled 10 and 30, vector first, simple, 1.5 each": ([S10, S30, VECTOR] + SIMPLE, [1.5, 1.5]),
    "scaled 3, 10, 30, 100, vector first, simple, .75 each": (["scaled prior 3", S10, S30, "scaled prior 100", VECTOR] + SIMPLE, [0.75] * 4),
    "scaled 10 and 30, vector first, logistic, ridge, simple, 1.5 each": ([S10, S30, VECTOR, "logistic", "ridge + T"] + SIMPLE, [1.5, 1.5]),
    **{f"both, vector first, simple, {a}": ([BOTH, VECTOR] + SIMPLE, [a]) for a in (1, 2, 3, 5)},
    **{f"eight learners, {label}": (EIGHT, pseudo) for label, pseudo in [
        ("3 on all pools", [3, 3, 3, 3]), ("3 on log-linear, temperature and vector first", [3, 3, 3]), ("1 on each of these", [1, 1, 1]),
        ("3 on temperature first", [0, 3]), ("1.5 on temperature and vector first", [0, 1.5, 1.5])]},
    "eight learners and both, 1.5 on both and temperature first": ([BOTH] + EIGHT, [1.5, 0, 1.5]),
    "both, vector first, simple, 3, mean of folds": ([BOTH, VECTOR] + SIMPLE, [3]),
    "both, vector first, simple, 3, others 0.5": ([BOTH, VECTOR] + SIMPLE, [3, 0.5, 0.5, 0.5, 0.5]),
    "both and scaled 10, vector first, simple, 1.5 each": ([BOTH, S10, VECTOR] + SIMPLE, [1.5, 1.5]),
    **{f"both, vector first, simple, {n}, 3": ([BOTH, VECTOR] + SIMPLE + [n], [3])
       for n in ("ridge + T", "greedy + T", "hill climbing + T", "logistic", "scaled class-wise 30", "scaled gated 100", "log-linear", "mix 1e-6")},
    **{f"both, vector first, simple, 3, without {n}": ([m for m in [BOTH, VECTOR] + SIMPLE if m != n], [3]) for n in [VECTOR] + SIMPLE},
}


def simplex_weights(truth, pseudo, rounds=400):
    """Weights of least total log loss of the mixture of truth [rows, learners], by EM with Dirichlet pseudo-rows."""
    truth = np.maximum(truth, FLOOR).astype(float)
    pseudo = np.asarray(pseudo, float)
    w = np.full(truth.shape[1], 1 / truth.shape[1])
    for number in range(rounds):
        before = w
        w = (w * ((1 / (truth @ w)) @ truth) + pseudo) / (len(truth) + pseudo.sum())
        if number % 10 == 0 and np.abs(w - before).max() < 2e-5:
            break
    return w


def blend_weights(truth, pseudo, least=0.01):
    """The same; learners below `least` leave and the rest is refitted."""
    w = simplex_weights(truth, pseudo)
    kept = np.flatnonzero(w >= least)
    out = np.zeros_like(w)
    out[kept] = simplex_weights(truth[:, kept], np.asarray(pseudo, float)[kept])
    return out


def log_blend(oof, whole, y, prior):
    """A log-linear second level around its first learner."""
    centre = np.r_[1.0, np.zeros(oof.shape[2] - 1)]
    pool = Pool(prior=prior, scale=prior, center=centre).fit(np.log(np.maximum(oof, 1e-9)), y)
    return pool.predict(np.log(np.maximum(whole, 1e-9)))


def blends(store):
    """Rows as of the other questions: scores of every blend on every division whose learners are stored."""
    rows = []
    for path in sorted({p.name for s in STORES for p in (store / s).glob("*.npz")}):
        names, oof, whole, means = [], [], [], []
        for one in STORES:
            if not (store / one / path).exists():
                continue
            z = np.load(store / one / path)
            new = [i for i, n in enumerate(z["names"]) if n not in names]
            names += [str(z["names"][i]) for i in new]
            oof.append(z["oof"][:, :, new])
            whole.append(z["whole"][:, :, new])
            means.append(z["means"][:, :, new])
            fy, jy = z["fy"], z["jy"]
        oof, whole, means = (np.concatenate(v, axis=2) for v in (oof, whole, means))
        result = {"log-linear": scores(whole[:, :, names.index("log-linear")].astype(float), jy)}
        for label, (wanted, pseudo) in BLENDS.items():
            # Logistic regression and class-wise weights were left out where there are very many classes.
            optional = {"logistic", "scaled class-wise 30"}
            if not set(wanted) - optional <= set(names):
                continue
            wanted = [n for n in wanted if n in names]
            at = [names.index(n) for n in wanted]
            pseudo = (pseudo + [0] * len(at))[:len(at)]
            w = blend_weights(oof[np.arange(len(fy)), fy][:, at], pseudo)
            result[label] = scores((means if "mean of folds" in label else whole)[:, :, at].astype(float) @ w, jy)
        wanted = [S10, VECTOR, "average + T", "best + T", "greedy + T", "ridge + T"]
        if set(wanted) <= set(names):
            at = [names.index(n) for n in wanted]
            w = blend_weights(oof[np.arange(len(fy)), fy][:, at], [3, 0, 0, 0, 0, 0])
            result["six learners, simplex, 3"] = scores(whole[:, :, at].astype(float) @ w, jy)
            for prior in (10, 100):
                result[f"six learners, log-linear second level, prior {prior}"] = scores(
                    log_blend(oof[:, :, at].astype(float), whole[:, :, at].astype(float), fy, prior), jy)
        pool, seed = path[:-4].rsplit("-", 1)
        rows.append({"pool": pool, "seed": int(seed), "scores": result})
    return rows


# ---- the table ----

# Pools that were made after temperature and vector scaling of members and the blend's first sets had been chosen on the others.
LATER = {name + few for name in ("attrition", "cells", "churn", "credit", "jobs") for few in ("", "_few")}


def summary(rows, reference="log-linear"):
    """{candidate: figures} relative to the reference on the same divisions."""
    pools = {}
    for row in rows:
        pools.setdefault(row["pool"], []).append(row["scores"])
    out = {}
    for name in dict.fromkeys(n for row in rows for n in row["scores"]):
        relative, absolute, top, ece, errors, wins, count = [], [], [], [], [], 0, 0
        worst = (-np.inf, None)
        for pool, found in pools.items():
            pairs = np.array([(s[name], s[reference]) for s in found if name in s])
            if not len(pairs):
                continue
            a, b = pairs[:, 0], pairs[:, 1]
            d = a[:, 0] - b[:, 0]
            relative.append(100 * (a[:, 0].mean() / b[:, 0].mean() - 1))
            absolute.append(d.mean())
            errors.append(d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else 0)
            top.append(100 * (a[:, 1] - b[:, 1]).mean())
            ece.append((a[:, 2] - b[:, 2]).mean())
            wins += int((d < 0).sum())
            count += len(d)
            worst = max(worst, (relative[-1], pool))
        by_pool = dict(zip([p for p in pools if any(name in s for s in pools[p])], relative))
        later = [r for p, r in by_pool.items() if p in LATER]
        out[name] = {"pools": len(relative), "divisions": count, "nll_percent": round(float(np.clip(relative, -10, 10).mean()), 2),
                     "nll": round(float(np.mean(absolute)), 5), "se": round(float(np.sqrt(np.square(errors).sum()) / len(errors)), 5),
                     "worst_percent": round(worst[0], 1), "worst_pool": worst[1], "top1_points": round(float(np.mean(top)), 2),
                     "ece": round(float(np.mean(ece)), 4), "better": round(wins / count, 3),
                     "later_percent": round(float(np.mean(later)), 2) if len(later) == len(LATER) else None,
                     "per_pool_percent": {p: round(r, 2) for p, r in by_pool.items()}}
    return out


# ---- running ----

QUESTIONS = {"mixing": question_mixing, "learners": question_learners, "vectors": question_vectors, "approximate": question_approximate,
             "priors": question_priors, "extra": question_extra, "subset": question_subset}
POOL = None
HERE = pathlib.Path(__file__).resolve().parent
TITLES = {
    "mixing": "Mixing with the uniform distribution, floors, prior centres",
    "learners": "Learners alone",
    "vectors": "Each member's temperature, vector scaling or biases before the pool",
    "approximate": "The same by scaled columns and floors, without tempering the predictions",
    "priors": "Priors of the scaled pool",
    "extra": "Further learners",
    "priors by": "Choice of the prior precision (1 to 300)",
    "blends": "Blends",
    "subset": "Members kept by backward elimination (share of all)",
}


def prior_rules(rows, store):
    """Ways to choose among the scaled pools of all priors: by held-out loss, by the evidence, or not at all."""
    names = [f"scaled prior {p}" for p in (1, 3, 10, 30, 100, 300)]
    out = []
    for row in rows:
        path = store / "priors" / f"{row['pool']}-{row['seed']}.npz"
        if not path.exists():
            continue
        z = np.load(path)
        found = [str(n) for n in z["names"]]
        at = [found.index(n) for n in names]
        fy, jy = z["fy"], z["jy"]
        truth = np.maximum(z["oof"][np.arange(len(fy)), fy][:, at], FLOOR).astype(float)
        loss = -np.log(truth)
        evidence = np.array([row["evidence"][n] for n in names])
        whole = z["whole"][:, :, at].astype(float)

        def unit(k):
            return np.eye(len(names))[k]

        def within(middle, errors):
            k = loss.mean(axis=0).argmin()
            d = loss[:, k] - loss[:, middle]
            return unit(k if d.mean() + errors * d.std() / np.sqrt(len(d)) < 0 else middle)

        def softmax_of(v):
            w = np.exp(v - v.max())
            return w / w.sum()

        rules = {"always 10": unit(2), "always 30": unit(3), "mean of 10 and 30": (unit(2) + unit(3)) / 2, "least held-out loss": within(2, 0),
                 "10 unless better by one standard error": within(2, 1), "10 unless better by two": within(2, 2), "largest evidence": unit(evidence.argmax()),
                 "weights by the evidence": softmax_of(evidence), "weights by total held-out loss (pseudo-BMA)": softmax_of(-loss.sum(axis=0)),
                 "stacking, 1 pseudo-row on each": simplex_weights(truth, np.ones(len(names)))}
        result = {"log-linear": row["scores"]["log-linear"]}
        result.update({name: scores(whole @ w, jy) for name, w in rules.items()})
        out.append({"pool": row["pool"], "seed": row["seed"], "scores": result})
    return out


# What the tool's default does or has in its blend.
KEPT = {"mixing": {"cv own unless 2se"}, "learners": {"log-linear", "average + T", "best + T", "average + vector shrunk", "greedy + T"},
        "vectors": {"temperature first slope 1", "vector first 10 slope 1"}, "extra": {"probability pool 1"},
        "blends": {"eight learners, 3 on log-linear, temperature and vector first"}}


def write_table(out):
    store = out / "predictions"
    sections = {}
    for question in QUESTIONS:
        path = out / f"{question}.jsonl"
        if path.exists():
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            # The means of fold fits have a row of their own for the reference alone.
            for row in rows:
                row["scores"] = {n: v for n, v in row["scores"].items() if not n.endswith("(mean of folds)") or n.startswith("log-linear (")}
            sections[question] = summary(rows, "own" if question == "mixing" else "log-linear")
            if question == "priors":
                sections["priors by"] = summary(prior_rules(rows, store))
    sections["blends"] = summary(blends(store))
    for section, table in sections.items():
        for name, figures in table.items():
            figures["kept"] = name in KEPT.get(section, ())
    body = ",\n".join(f' "{section}": {{\n' + ",\n".join(f"  {json.dumps(name)}: {json.dumps(figures)}" for name, figures in table.items()) + "\n }"
                     for section, table in sections.items())
    (HERE / "candidates.json").write_text("{\n" + body + "\n}\n")
    lines = [HEAD]
    for section, title in TITLES.items():
        if section not in sections:
            continue
        lines += [f"\n## {title}\n", "| candidate | pools | NLL, % | NLL, nats | worst pool, % | ten later pools, % | top-1, points | ECE | better in | |",
                  "|---|---|---|---|---|---|---|---|---|---|"]
        for name, f in sections[section].items():
            lines.append(f"| {name} | {f['pools']} | {f['nll_percent']:+.2f} | {f['nll']:+.4f} ± {f['se']:.4f} | {f['worst_percent']:+.1f} ({f['worst_pool']}) | "
                         f"{'' if f['later_percent'] is None else format(f['later_percent'], '+.2f')} | "
                         f"{f['top1_points']:+.2f} | {f['ece']:+.4f} | {100 * f['better']:.0f}% | {'kept' if f['kept'] else ''} |")
    (HERE / "candidates.md").write_text("\n".join(lines) + "\n")


HEAD = """# Candidates for the default of classification

Written by `candidates.py --table` from what `candidates.py QUESTION POOL...` measured, in NumPy and independent of the C library. Each row compares one
candidate with the log-linear pool of all members in which each member's share of the uniform distribution is chosen by its own loss (the default before).
Only `oof` rows are used: two thirds to fit and choose on, one third to judge on, over 3 to 5 random divisions of each pool. Pools of more than eight
members are used with at most 2,000 rows.

"NLL, %" is the mean over pools of the relative change, each limited to ±10%. "NLL, nats" is the mean change with its paired standard error over
divisions. "Better in" is the share of divisions with less NLL. The worst pools are mostly `wine` and `zoo`, with 93 and 46 rows to fit on and a loss
near 0, where a ratio says little. The ten later pools (`attrition`, `cells`, `churn`, `credit`, `jobs`, each also with few members) were made after the
main choices, so they are the fairest column. Candidates were many, so the gains of the best ones are somewhat optimistic elsewhere.

"Scaled" is a log-linear pool whose columns are multiplied by each member's inverse temperature, "both" has the members' probabilities as further columns,
and "simple" is {average + T, average, best + T}. Numbers after a blend are pseudo-rows of the Dirichlet prior, on its first learners.

What was learned:

- Choosing the share of the uniform distribution by the pool's cross-validated loss loses with few rows. With a margin of two standard errors it is safe.
- Each member's temperature before the pool, with a common share of 0.001, gains more than any choice of shares. On the later pools it gains nothing alone.
- Choosing the prior by cross-validation or by the evidence is no better than a fixed precision of 10. A mixture of 10 and 30 is better.
- In the blend, per-member vector scaling helps pools with many classes, logistic regression binary tables, and averages pools with few rows.
  Hill climbing and unshrunk vector scaling lose. Pseudo-rows belong on pools of scaled members, above all on the temperature-scaled one, not on logistic regression.
- A log-linear second level is worse than simplex weights. Class-wise weights and gates change a blend by less than 0.1%.
- The mean of the fold fits is about as good as a refit on all rows.
- Backward elimination in the quadratic model around the fit of all members, without refits, is as good as with refits down to 40% of the members.
- A pool of log columns and probability columns together was the best single learner (row "both 3 prior 30").

"Kept" marks what the default had then. Since, `log-linear` has no pseudo-rows and the two pools of scaled members have two each
([method.md](../../docs/method.md#s4-blend))."""


def main():
    global POOL, STORE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", choices=list(QUESTIONS))
    parser.add_argument("pools", nargs="*", help="folders with a pool.json")
    parser.add_argument("--divisions", type=int, default=6)
    parser.add_argument("--most", type=int, default=2000, help="rows of pools with more than eight members")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("raw"), help="folder of raw losses and predictions")
    parser.add_argument("--table", action="store_true", help="write candidates.json and candidates.md")
    arguments = parser.parse_args()
    if arguments.table:
        write_table(arguments.out)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    STORE = arguments.out / "predictions"
    target = arguments.out / f"{arguments.question}.jsonl"
    done = set()
    if target.exists():
        done = {(r["pool"], r["seed"]) for r in map(json.loads, target.read_text().splitlines())}
    for folder in arguments.pools:
        pool = POOL = pathlib.Path(folder).name
        P = None
        for seed in range(arguments.divisions):
            if (pool, seed) in done:
                continue
            if P is None:
                P, y, _ = load(folder, arguments.most)
            began = time.time()
            fit, judge = divide(len(y), seed)
            row = QUESTIONS[arguments.question](P, y, fit, judge, seed)
            row.update(pool=pool, seed=seed, seconds=round(time.time() - began, 2))
            with target.open("a") as f:
                f.write(json.dumps(row) + "\n")
        print(pool, time.strftime("%H:%M:%S"), flush=True)


if __name__ == "__main__":
    main()
