"""metrics.conformal_thresholds and the sets of Stack.bound, by NumPy."""
import unittest

import numpy as np

import corestack

RNG = np.random.default_rng(45)


def quantile(scores, alpha):
    place = int(np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9))
    return np.sort(scores)[place - 1] if place <= len(scores) else np.inf


def risk_limit(scores, costs, most, level):
    if (costs.sum() + most) / (len(scores) + 1) <= level:
        return -np.inf
    return min((t for t in scores if (costs[scores > t].sum() + most) / (len(scores) + 1) <= level), default=np.inf)


class Thresholds(unittest.TestCase):
    def test_quantiles_of_all_rows_and_of_parts(self):
        for n in (1, 8, 9, 10, 19, 99, 100, 1500):
            for alpha in (0.1, 0.05, 0.3):
                scores, parts = np.round(RNG.random(n), 2), RNG.integers(-1, 4, n)
                parts[0] = 3
                self.assertEqual(corestack.metrics.conformal_thresholds(scores, alpha), quantile(scores, alpha))
                found = corestack.metrics.conformal_thresholds(scores, alpha, parts=parts)
                np.testing.assert_array_equal(found, [quantile(scores[parts == k], alpha) for k in range(4)])

    def test_costs(self):
        for n in (3, 40, 700):
            scores, costs = np.round(RNG.random(n), 2), RNG.choice([0, 1, 4], n)
            for level in (0.01, 0.2, 1, 3):
                found = corestack.metrics.conformal_thresholds(scores, level, costs=costs, most=4)
                self.assertEqual(found, risk_limit(scores, costs, 4, level), (n, level))

    def test_each_part_is_covered_and_costs_are_kept(self):
        """Means over 400 draws of 60 rows of calibration, 30 in each part, within three standard errors."""
        covered, spent, costs = [], [], np.array([1.0, 5])
        for _ in range(400):
            parts = np.arange(120) % 2
            scores = RNG.random(120) * (1 + 2 * parts)
            old = np.arange(120) < 60
            limits = corestack.metrics.conformal_thresholds(scores[old], 0.1, parts=parts[old])
            covered.append([(scores[~old & (parts == k)] <= limits[k]).mean() for k in range(2)])
            limit = corestack.metrics.conformal_thresholds(scores[old], 0.5, costs=costs[parts[old]])
            spent.append((costs[parts[~old]] * (scores[~old] > limit)).mean())
        for k in range(2):
            mean, error = np.mean(covered, 0)[k], np.std(covered, 0)[k] / 20
            self.assertTrue(0.9 - 3 * error <= mean <= 0.9 + 1 / 31 + 3 * error, mean)
        self.assertTrue(0.4 <= np.mean(spent) <= 0.5 + 3 * np.std(spent) / 20, np.mean(spent))

    def test_mistakes(self):
        thresholds = corestack.metrics.conformal_thresholds
        with self.assertRaisesRegex(corestack.MismatchError, "parts: are of 2 rows"):
            thresholds([0.1, 0.2, 0.3], 0.1, parts=[0, 1])
        with self.assertRaisesRegex(corestack.InputError, "row 1 is NaN"):
            thresholds([0.1, np.nan], 0.1)
        with self.assertRaisesRegex(corestack.InputError, "cost of row 1 is -1"):
            thresholds([0.1, 0.2], 0.1, costs=[1, -1])


if __name__ == "__main__":
    unittest.main()
