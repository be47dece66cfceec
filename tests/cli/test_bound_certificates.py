"""corestack bound: every certificate once more by NumPy and SciPy, from the pool alone: which rows give a prior, calibrate
sets and make bins, which are counted, and at which probability (docs/bounds.md, "The halves")."""

import math
import unittest

import numpy as np
from scipy import optimize, stats

from support import PoolCase, sample

NAMES = ("ada", "bob", "cyd")
DELTA, ALPHA, SEED = 0.07, 0.15, 2**33 + 5
BLOCK = 512


class Philox:
    """Philox 4x32-10 by its definition (Salmon et al. 2011)."""

    def __init__(self, seed, stream, substream=0):
        self.key, self.counter, self.words = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF), [0, 0, stream, substream], []

    def u32(self):
        if not self.words:
            a, b, c, d = self.counter
            low, high = self.key
            for _ in range(10):
                first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
                a, b, c, d = second >> 32 ^ b ^ low, second & 0xFFFFFFFF, first >> 32 ^ d ^ high, first & 0xFFFFFFFF
                low, high = low + 0x9E3779B9 & 0xFFFFFFFF, high + 0xBB67AE85 & 0xFFFFFFFF
            self.words = [a, b, c, d]
            self.counter[0] += 1
        return self.words.pop(0)

    def u64(self):
        return self.u32() << 32 | self.u32()

    def below(self, count):
        while (draw := self.u64()) < 2**64 % count:
            pass
        return draw % count

    def uniform(self):
        return (self.u64() >> 11) * 2.0**-53


def halves(rows, seed):
    order, random = list(range(rows)), Philox(seed, 21)
    for i in range(rows - 1, 0, -1):
        j = random.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return np.array(order[: rows // 2]), np.array(order[rows // 2 :])


def uniforms(rows, seed, role):
    drawn = []
    for block in range(-(-rows // BLOCK)):
        random = Philox(seed, 20, 2 * block + role)
        drawn += [random.uniform() for _ in range(min(BLOCK, rows - block * BLOCK))]
    return np.array(drawn)


def divergence(weights, prior):
    positive = weights > 0
    return float((weights[positive] * np.log(weights[positive] / prior[positive])).sum())


def inverse_kl(empirical, price):
    """The largest risk whose binary KL from `empirical` is at most `price`."""

    def excess(q):
        terms = (p * math.log(p / r) for p, r in ((empirical, q), (1 - empirical, 1 - q)) if p > 0)
        return sum(terms) - price

    return optimize.brentq(excess, max(empirical, 1e-12), 1 - 1e-12, xtol=1e-14)


def clopper_pearson(k, n, delta):
    lower = stats.beta.ppf(delta, k, n - k + 1) if k else 0.0
    return lower, (stats.beta.isf(delta, k + 1, n - k) if k < n else 1.0)


def gibbs(losses, prior, n):
    """The weights with the least PAC-Bayes-kl bound: on the curve prior exp(-t n losses), by a search of t."""

    def at(t):
        weights = prior * np.exp(-t * n * (losses - losses.min()))
        weights /= weights.sum()
        price = divergence(weights, prior) + math.log(2 * math.sqrt(n) / DELTA)
        return inverse_kl(float(weights @ losses), price / n), weights

    grid = [at(t) for t in np.linspace(0, 2, 4001)]
    return min(grid, key=lambda pair: pair[0])


def class_scores(method, p, u):
    if method == "lac":
        return 1 - p
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    penalties = np.cumsum(0.01 * (np.arange(p.shape[1]) >= 5)) if method == "raps" else 0
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.cumsum(ordered, axis=1) - ordered + u[:, None] * ordered + penalties, axis=1)
    return scores


class Certificates(PoolCase):
    test_rows, classes = 1301, 7

    def setUp(self):
        """Members with many errors, so that no figure is 0 or 1."""
        super().setUp()
        self.save("test_labels.npy", self.labels["test"])
        for split, rows in (("oof", self.rows), ("test", self.test_rows)):
            for k, name in enumerate(NAMES):
                _, p = sample(rows, self.classes, 100 + k + rows, 0.9 + 0.3 * k, self.labels[split])
                self.members[name, split] = p
                self.save(f"{name}.{split}.npy", p)
        self.fit("--set", "evaluate.nested=false")
        self.document = self.works("bound", self.model, self.pool, "--delta", DELTA, "--alpha", ALPHA, "--seed", SEED, "--json").json()
        output = self.path("stack.npy")
        self.works("predict", self.model, self.pool, "--split", "test", "-o", output)
        self.stack = np.load(output).astype(np.float64)
        self.truth = self.labels["test"]
        self.first, self.second = halves(self.test_rows, SEED)
        self.wrong = np.array([self.members[name, "test"].argmax(axis=1) != self.truth for name in self.document["models"]], dtype=float)

    def near(self, found, wanted, tolerance=1e-7):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)

    def test_all(self):
        """One pool for all of them: a fit and a document take most of the time."""
        for check in (self.check_holdout, self.check_member_at_random, self.check_tandem, self.check_sets, self.check_ece, self.check_bins):
            with self.subTest(check.__name__):
                check()

    def check_holdout(self):
        found = self.document["holdout"]
        errors = int((self.stack.argmax(axis=1) != self.truth).sum())
        lower, upper = clopper_pearson(errors, self.test_rows, DELTA)
        self.assertEqual((found["errors"], found["samples"]), (errors, self.test_rows))
        self.near((found["error"], found["lower"], found["bound"]), (errors / self.test_rows, lower, upper))

    def check_member_at_random(self):
        """The prior of the first half, the weights and the count of the second."""
        found = self.document["pac_bayes_kl"]
        n, even = len(self.second), np.full(len(self.wrong), 1 / len(self.wrong))
        _, prior = gibbs(self.wrong[:, self.first].mean(axis=1), even, len(self.first))
        losses = self.wrong[:, self.second].mean(axis=1)
        best, _ = gibbs(losses, prior, n)
        weights = np.array(found["weights"])
        kl = divergence(weights, prior)
        price = kl + math.log(2 * math.sqrt(n) / DELTA)
        self.assertEqual((found["samples"], found["prior_samples"]), (n, len(self.first)))
        self.near(found["empirical"], weights @ losses)
        self.near(found["kl"], kl, 2e-3)  # the prior is of a grid
        self.near(found["bound"], inverse_kl(float(weights @ losses), price / n), 1e-5)
        self.near(found["bound"], best, 1e-5)
        self.near(found["mcallester"], weights @ losses + math.sqrt(price / (2 * n)), 1e-5)
        self.assertEqual((found["majority"], found["vacuous"]), (2 * found["bound"], False))

    def check_tandem(self):
        """All rows, and a prior of none."""
        found = self.document["tandem"]
        weights, n = np.array(found["weights"]), self.test_rows
        kl = divergence(weights, np.full(len(weights), 1 / len(weights)))
        empirical = float(weights @ (self.wrong @ self.wrong.T / n) @ weights)
        bound = 4 * inverse_kl(empirical, (2 * kl + math.log(2 * math.sqrt(n) / DELTA)) / n)
        self.near((found["empirical"], found["kl"], found["bound"]), (empirical, kl, bound))
        self.assertEqual((found["samples"], found["vacuous"]), (n, bound >= 1))
        self.near(found["majority"], (weights @ self.wrong >= 0.5).mean())

    def check_sets(self):
        """Calibrated on the first half, measured on the second."""
        n, m = len(self.first), len(self.second)
        k = math.ceil((n + 1) * (1 - ALPHA))
        self.assertEqual(self.document["conformal"], self.document["conformal_methods"][0])
        for method, found in zip(("lac", "aps", "raps"), self.document["conformal_methods"]):
            self.assertEqual((found["method"], found["calibration_samples"], found["samples"]), (method, n, m))
            scores = class_scores(method, self.stack[self.first], uniforms(n, SEED, 0))[np.arange(n), self.truth[self.first]]
            threshold = np.sort(scores)[k - 1]
            sets = class_scores(method, self.stack[self.second], uniforms(m, SEED, 1)) <= threshold
            sizes = sets.sum(axis=1)
            self.near(found["threshold"], threshold)
            self.near((found["coverage"], found["mean_size"]), (sets[np.arange(m), self.truth[self.second]].mean(), sizes.mean()))
            self.assertEqual((found["empty"], found["single"]), ((sizes == 0).sum(), (sizes == 1).sum()))
            self.near(found["assured"], stats.beta.ppf(DELTA, k, n + 1 - k))

    def check_ece(self):
        """Bernstein's inequality at delta / 3 for the value, and for every way to give bins signs."""
        found, n = self.document["ece"], self.test_rows
        confidence, right = self.stack.max(axis=1), self.stack.argmax(axis=1) == self.truth
        bins = found["bins"]
        which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
        gaps = np.bincount(which, right - confidence, bins) / n
        price = math.log(3 / DELTA)
        moment = inverse_kl(((right - confidence) ** 2).mean(), price / n)

        def width(cost):
            return math.sqrt(2 * moment * cost / n) + cost / (3 * n)

        self.near(found["value"], np.abs(gaps).sum())
        self.near(found["upper"], min(np.abs(gaps).sum() + width(price), 1), 1e-6)
        signs = 1 - 2 * (np.arange(2**bins)[:, None] >> np.arange(bins) & 1)
        turns = (np.diff(signs, axis=1) != 0).sum(axis=1)
        reached = signs @ gaps
        lower = 0.0
        for c in range(bins):
            cost = price + math.log(2 * bins * math.comb(bins - 1, c))
            lower = max(lower, reached[turns == c].max() - width(cost))
        self.near(found["lower"], lower, 1e-6)

    def check_bins(self):
        """Edges of the first half, intervals at delta / bins of the second."""
        found, n, m = self.document["calibration"], len(self.first), len(self.second)
        confidence, right = self.stack.max(axis=1), self.stack.argmax(axis=1) == self.truth
        most = min(m // 50, 15)
        ranked = np.sort(confidence[self.first])
        edges = np.array([0, *(ranked[n // most * b + n % most * b // most] for b in range(1, most)), 1])
        self.near([entry["from"] for entry in found["bins"]], edges[:-1])
        self.near([entry["to"] for entry in found["bins"]], edges[1:])
        which = np.searchsorted(edges, confidence[self.second], side="right") - 1
        gaps = []
        for b, entry in enumerate(found["bins"]):
            inside = right[self.second][which == b]
            lower, upper = clopper_pearson(inside.sum(), len(inside), DELTA / (2 * most))
            self.assertEqual(entry["count"], len(inside))
            self.near((entry["value"], entry["lower"], entry["upper"]), (inside.mean(), lower, upper))
            gaps += [inside.mean() - lower, upper - inside.mean()]
        self.near(found["epsilon"], max(gaps))
        counts = np.bincount(which, minlength=most)
        self.near(found["hoeffding"], math.sqrt(math.log(2 * most / DELTA) / (2 * counts.min())))
        self.assertEqual(found["samples"], m)


if __name__ == "__main__":
    unittest.main()
