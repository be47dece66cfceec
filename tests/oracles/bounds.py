"""Writes tests/data/bounds.h: exact binomial bounds by SciPy's beta quantiles, the binary KL and its inverses in fifty
decimal digits, PAC-Bayes bounds by root finding, divergences of Gaussians by their definition."""

import decimal
import os
from decimal import Decimal

import numpy as np
from scipy import optimize, stats

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
decimal.getcontext().prec = 50


def table(name, rows):
    return f"enum {{ {name}_ROWS = {len(rows)} }};\n" + array("double", name, rows)


def tails():
    rows = []
    for n, k, p in [(1, 0, 0.3), (5, 2, 0.5), (10, 0, 1e-20), (10, 1, 1e-20), (40, 39, 0.9), (100, 3, 0.05), (1000, 0, 1e-9),
                    (1000, 500, 0.4), (1000, 500, 0.7), (50000, 120, 0.003), (50000, 49000, 0.97), (10**6, 250000, 0.2501),
                    (10**7, 3, 1e-7), (10**8, 12345678, 0.1234)]:
        rows.append((k, n, p, stats.binom.cdf(k, n, p), stats.binom.sf(k - 1, n, p)))
    return rows


def intervals():
    rows = []
    for n in (1, 2, 7, 30, 100, 997, 20000, 1000000):
        for share in (0, 0.01, 0.2, 0.5, 0.93, 1):
            k = round(n * share)
            for delta in (0.3, 0.05, 1e-3, 1e-9):
                upper = stats.beta.isf(delta, k + 1, n - k) if k < n else 1
                lower = stats.beta.ppf(delta, k, n - k + 1) if k else 0
                rows.append((k, n, delta, lower, upper))
    return rows


def kl(p, q):
    """Of Decimals."""
    value = Decimal(0)
    for a, b in ((p, q), (1 - p, 1 - q)):
        if a:
            value += a * (a / b).ln() if b else Decimal("Infinity")
    return value


def divergences():
    rows = []
    for p in (0.0, 1e-12, 1e-3, 0.1, 0.5, 0.77, 0.999, 1.0):
        for q in (0.0, 1e-9, 1e-3, 0.1, 0.1 + 1e-9, 0.5 - 1e-7, 0.6, 0.9999, 1.0):
            rows.append((p, q, kl(Decimal(p), Decimal(q))))
    return rows


def inverses():
    rows = []
    for p in (0.0, 1e-9, 1e-3, 0.1, 0.5, 0.9, 0.9999, 1.0):
        for bound in (1e-12, 1e-6, 1e-3, 0.1, 1.0, 5.0):
            ends = []
            for end in (Decimal(0), Decimal(1)):
                inside, outside = Decimal(p), end
                if kl(Decimal(p), end) <= Decimal(bound):
                    inside = end
                while abs(inside - outside) > Decimal("1e-20") * max(inside, outside) > Decimal("1e-345"):
                    middle = (inside + outside) / 2
                    if kl(Decimal(p), middle) <= Decimal(bound):
                        inside = middle
                    else:
                        outside = middle
                ends.append(inside)
            rows.append((p, bound, *ends))
    return rows


def pac_bayes():
    """empirical, KL, n, delta, then the bounds: kl, McAllester."""
    rows = []
    for empirical in (0.0, 0.01, 0.2, 0.8):
        for divergence in (0.0, 0.7, 30.0):
            for n in (20, 1000, 100000):
                for delta in (0.05, 1e-4):
                    price = divergence + np.log(2 * np.sqrt(n) / delta)

                    def excess(q):
                        first = empirical * np.log(empirical / q) if empirical else 0
                        return first + (1 - empirical) * np.log((1 - empirical) / (1 - q)) - price / n

                    seeger = optimize.brentq(excess, max(empirical, 1e-300), 1 - 1e-16, xtol=1e-15) if excess(1 - 1e-16) > 0 else 1
                    rows.append((empirical, divergence, n, delta, seeger, empirical + np.sqrt(price / (2 * n))))
    return rows


def gaussians(rng):
    """KL of two Gaussians by the general formula with matrices, and by averaging the log ratio of densities."""
    d, precision = 6, 2.5
    root = rng.normal(size=(d, d))
    covariance = root @ root.T / d + 0.1 * np.eye(d)
    mean, prior = rng.normal(size=d), rng.normal(size=d)
    prior_covariance = np.eye(d) / precision
    inverse = np.linalg.inv(prior_covariance)
    values = []
    for centre in (np.zeros(d), prior):
        gap = centre - mean
        values.append(0.5 * (np.trace(inverse @ covariance) - d + gap @ inverse @ gap
                             + np.linalg.slogdet(prior_covariance)[1] - np.linalg.slogdet(covariance)[1]))
    draws = rng.multivariate_normal(mean, covariance, size=200000)
    sampled = np.mean(stats.multivariate_normal(mean, covariance).logpdf(draws)
                      - stats.multivariate_normal(prior, prior_covariance).logpdf(draws))
    assert abs(sampled / values[1] - 1) < 0.01, (sampled, values)
    text = f"enum {{ GAUSSIAN_D = {d} }};\nstatic const double GAUSSIAN_PRECISION = {precision};\n"
    for name, value in (("MEAN", mean), ("PRIOR", prior), ("COVARIANCE", covariance), ("HESSIAN", np.linalg.inv(covariance)),
                        ("KL", values)):
        text += array("double", f"GAUSSIAN_{name}", value)
    return text


def votes(rng):
    members, rows = 5, 1300  # three blocks
    wrong = (rng.random((members, rows)) < rng.random(rows) * 0.6).astype(float)
    weights = rng.dirichlet(np.ones(members))
    prior = rng.dirichlet(np.ones(members))
    pairs = wrong @ wrong.T / rows
    losses = [weights @ wrong.mean(axis=1), weights @ pairs @ weights, np.mean(weights @ wrong >= 0.5)]
    divergences = [stats.entropy(weights, np.full(members, 1 / members)), stats.entropy(weights, prior)]
    bits = ", ".join(str(int(b)) for b in wrong.ravel())
    return (f"enum {{ VOTE_MEMBERS = {members}, VOTE_ROWS = {rows} }};\nstatic const unsigned char VOTE_WRONG[] = {{{bits}}};\n"
            + array("double", "VOTE_WEIGHTS", weights) + array("double", "VOTE_PRIOR", prior) + array("double", "VOTE_LOSSES", losses)
            + array("double", "VOTE_KL", divergences))


def posteriors(rng):
    """The least PAC-Bayes-kl bounds over all weights: SciPy's minimum over softmax logits from several starts."""
    members, rows, delta = 5, 700, 0.05
    hard = rng.random(rows) ** 3
    wrong = (rng.random((members, rows)) < 0.6 * hard * np.array([1, 1.1, 0.9, 1.6, 2])[:, None]).astype(float)
    tandem = wrong @ wrong.T / rows
    prior = np.array([0.1, 0.3, 0.2, 0.2, 0.2])

    def inverse(empirical, price):
        def excess(q):
            return empirical * np.log(empirical / q) + (1 - empirical) * np.log((1 - empirical) / (1 - q)) - price / rows

        return optimize.brentq(excess, empirical, 1 - 1e-12, xtol=1e-14)

    def gibbs(logits):
        w = np.exp(logits - logits.max())
        w /= w.sum()
        return inverse(w @ np.diag(tandem), stats.entropy(w, prior) + np.log(2 * np.sqrt(rows) / delta))

    def second(logits):
        w = np.exp(logits - logits.max())
        w /= w.sum()
        return 4 * inverse(w @ tandem @ w, 2 * stats.entropy(w, prior) + np.log(2 * np.sqrt(rows) / delta))

    best = [min(optimize.minimize(f, start, method="Nelder-Mead", options={"maxiter": 20000, "xatol": 1e-9, "fatol": 1e-13}).fun
                for start in rng.normal(size=(3, members))) for f in (gibbs, second)]
    bits = ", ".join(str(int(b)) for b in wrong.ravel())
    return (f"enum {{ POSTERIOR_MEMBERS = {members}, POSTERIOR_ROWS = {rows} }};\nstatic const double POSTERIOR_DELTA = {delta};\n"
            f"static const unsigned char POSTERIOR_WRONG[] = {{{bits}}};\n"
            + array("double", "POSTERIOR_PRIOR", prior) + array("double", "POSTERIOR_TANDEM", tandem) + array("double", "POSTERIOR_BEST", best))


def main():
    rng = np.random.default_rng(20)
    text = "/* Written by tests/oracles/bounds.py: SciPy, decimals of fifty digits, definitions. */\n/* clang-format off */\n"
    text += "/* k, n, p, P(X <= k), P(X >= k) */\n" + table("TAIL", tails())
    text += "/* k, n, delta, lower, upper */\n" + table("INTERVAL", intervals())
    text += "/* p, q, kl(p || q) */\n" + table("KL", divergences())
    text += "/* p, bound, least, largest */\n" + table("INVERSE", inverses())
    text += "/* empirical, KL, n, delta, kl, McAllester */\n" + table("PAC_BAYES", pac_bayes())
    text += gaussians(rng) + votes(rng) + posteriors(rng)
    with open(os.path.join(FOLDER, "bounds.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
