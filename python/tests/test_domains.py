"""Domains in Python: arrays, files, frames, prediction of known and unknown domains, the predictor."""

import tempfile
import unittest
import warnings

import numpy as np

import corestack
from corestack import MismatchError


def rows(seed, count=240):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 3)
    domains = np.array(["photo", "sketch"])[np.arange(count) % 2]
    members = {}
    for k, name in enumerate("abc"):
        z = rng.normal(size=(count, 3)) + (1.5 + k / 3) * np.eye(3)[labels]
        z[domains == "sketch", 0] += 3
        e = np.exp(z - z.max(1, keepdims=True))
        members[name] = (e / e.sum(1, keepdims=True)).astype(np.float32)
    return members, labels, domains


class Domains(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.members, cls.labels, cls.domains = rows(1)
        cls.new, cls.new_labels, cls.new_domains = rows(2, 60)
        cls.stack = cls.fit()

    @classmethod
    def fit(cls, domains=None, **more):
        return corestack.fit(cls.members, cls.labels, domains=cls.domains if domains is None else domains, meta_learners="log-linear",
                             evaluate_nested=False, **more)

    def test_the_stack_has_the_domains(self):
        listed = self.stack.report["domains"]["list"]
        self.assertEqual([d["domain"] for d in listed], ["photo", "sketch"])
        self.assertTrue(self.stack.report["domains"]["used"])

    def test_numbers_lists_and_none(self):
        numbers = (self.domains == "sketch").astype(int)
        first = self.fit(numbers).predict(self.new, domains=(self.new_domains == "sketch").astype(float))
        np.testing.assert_array_equal(first, self.stack.predict(self.new, domains=list(self.new_domains)))
        some = [None if i % 4 == 1 else d for i, d in enumerate(self.new_domains)]
        common = self.stack.predict(self.new)
        out = self.stack.predict(self.new, domains=some)
        without = np.array([d is None for d in some])
        np.testing.assert_array_equal(out[without], common[without])
        np.testing.assert_array_equal(out[~without], first[~without])
        unknown = self.stack.predict(self.new, domains=["else"] * 60)
        np.testing.assert_array_equal(unknown, common)
        self.assertTrue((first != common).any())

    def test_the_predictor_takes_a_domain(self):
        expected = self.stack.predict(self.new, domains=self.new_domains)
        predict = self.stack.predictor()
        kept = {name: self.new[name] for name in self.stack.kept}
        for i in (0, 1, 2):
            one = predict({name: p[i] for name, p in kept.items()}, domain=str(self.new_domains[i]))
            np.testing.assert_allclose(one, expected[i], atol=1e-7)
        np.testing.assert_allclose(predict(kept), self.stack.predict(self.new), atol=1e-7)
        np.testing.assert_array_equal(predict(kept, "no such domain"), predict(kept))
        again = corestack.Stack.from_bytes(self.stack.to_bytes())
        np.testing.assert_array_equal(again.predict(self.new, domains=self.new_domains), expected)

    def test_files(self):
        expected = self.stack.predict(self.new, domains=self.new_domains)
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name in "abc":
                paths.append(f"{folder}/{name}.npy")
                np.save(paths[-1], self.new[name])
            np.save(f"{folder}/which.npy", self.new_domains)
            np.testing.assert_allclose(self.stack.predict(paths, domains=self.new_domains), expected, atol=1e-6)
            np.testing.assert_allclose(self.stack.predict(paths, domains=f"{folder}/which.npy"), expected, atol=1e-6)

    def test_scores_by_domain(self):
        report = self.stack.evaluate(self.new, self.new_labels, domains=self.new_domains)
        self.assertEqual([d["domain"] for d in report["domains"]], ["photo", "sketch"])
        rows_ = corestack.compare(self.members, self.labels, domains=self.domains, methods=["average", "default"],
                                  meta_learners="log-linear", resamples=20)["rows"]
        sketch = {r["method"]: r["nll_in"]["sketch"] for r in rows_}
        self.assertLess(sketch["default"], sketch["average"])

    def test_refusals(self):
        with self.assertRaisesRegex(MismatchError, "domains"):
            self.fit(self.domains[:5])
        with self.assertRaisesRegex(corestack.InputError, "domains: row 0"):
            self.fit(np.full(240, 0.5))


if __name__ == "__main__":
    unittest.main()
