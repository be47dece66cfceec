"""corestack bound where a statement of the paper says nothing, and where the scored split is the one of the fit."""

import os
import shutil
import unittest

import numpy as np

from support import PoolCase, run, sample


class Statements(PoolCase):
    def pool_of(self, members, rows, classes=3):
        """A pool of `members` members, `rows` rows of split test, and its stack."""
        self.manifest["classes"], self.manifest["models"] = classes, []
        for split, count, seed in (("oof", 120, 3), ("test", rows, 4)):
            self.labels[split], _ = sample(count, classes, seed)
            self.save(f"{split}_labels.npy", self.labels[split])
            for k in range(members):
                _, self.members[f"m{k}", split] = sample(count, classes, 100 * seed + k, 1.5, self.labels[split])
                self.save(f"m{k}.{split}.npy", self.members[f"m{k}", split])
        for k in range(members):
            self.manifest["models"].append({"name": f"m{k}", "predictions": {s: f"m{k}.{s}.npy" for s in ("oof", "test")}})
        self.write_manifest()
        self.fit("--set", "evaluate.nested=false", "--set", "keep.fraction=1")

    def bound(self, *arguments):
        return self.works("bound", self.model, self.pool, "--json", *arguments).json()

    def test_a_singular_covariance_has_no_least_variance(self):
        self.pool_of(12, 4)  # residuals of four rows that sum to 0: rank 8
        document = self.bound()
        blending = document["blending"]
        self.assertEqual(len(document["models"]), 12)
        self.assertEqual([blending[key] for key in ("minimum", "mixture", "weights")], [None] * 3)
        for rule in ("inverse_rmse", "laplace"):
            self.assertEqual([blending[rule][key] for key in ("gap", "claimed", "holds")], [None] * 3)
            self.assertGreater(blending[rule]["variance"], 0)
        self.assertTrue(any("singular (rank 8 of 12)" in notice for notice in document["notices"]))
        text = self.works("bound", self.model, self.pool).out
        self.assertIn("lowest variance", text)
        self.assertNotIn("inverse RMSE", text)

    def test_a_definite_covariance_has_one(self):
        self.pool_of(3, 60)
        document = self.bound()
        self.assertGreater(document["blending"]["minimum"], 0)
        self.assertFalse(any("singular" in notice for notice in document["notices"]))

    def test_folds_of_four_rows_are_four(self):
        self.pool_of(3, 4)
        document = self.bound()
        folds = document["stability"]["folds"]
        self.assertEqual(folds["count"], 4)
        p = np.array([self.members[name, "test"] for name in document["models"]], dtype=float)
        p /= p.sum(axis=-1, keepdims=True)
        x, y = p.reshape(len(p), -1).T, np.eye(3)[self.labels["test"]].ravel()
        fold, weights = np.repeat(np.arange(4), 3), []
        for left in (fold != f for f in range(4)):
            gram = x[left].T @ x[left] + document["stability"]["lambda"] * 0.75 * np.eye(len(p))
            weights.append(np.linalg.solve(gram, x[left].T @ y[left]))
        # Without a fold there are 9 of 12 rows; the two left out differ in 6.
        distance = [(np.linalg.norm(a - b), np.linalg.norm(a)) for a in weights for b in weights if a is not b]
        self.assertAlmostEqual(folds["change"], max(d for d, _ in distance), places=6)
        radius = (x**2).sum(axis=1).max()
        claimed = [4 * radius * 6 * norm / document["stability"]["lambda"] for _, norm in distance]
        ratio = max(d / c for (d, _), c in zip(distance, claimed))
        self.assertAlmostEqual(folds["ratio"], ratio, delta=1e-5 * ratio)

    def test_nothing_moves_where_nothing_is_claimed(self):
        """One class alone is predicted, and it is the wrong one: X'y is 0, and so are all weights."""
        classes = 2
        self.pool_of(2, 8, classes)
        self.save("test_labels.npy", np.zeros(8, np.int32))
        for name in ("m0", "m1"):
            self.save(f"{name}.test.npy", np.tile(np.array([0, 1], np.float32), (8, 1)))
        folds = self.bound()["stability"]["folds"]
        self.assertEqual((folds["change"], folds["claimed"], folds["ratio"], folds["holds"]), (0, 0, None, True))

    def test_what_is_not_claimed_neither_holds_nor_fails(self):
        self.pool_of(6, 60)
        spectral = self.bound()["spectral"]
        self.assertFalse(spectral["applies"])
        keys = ("kappa_before_above", "kappa_after_below", "holds_before", "holds_after")
        self.assertEqual([spectral[key] for key in keys], [None] * 4)
        self.assertIsInstance(spectral["holds_ratio"], bool)
        self.fit("--set", "evaluate.nested=false", "--set", "cka.threshold=0.001")
        spectral = self.bound()["spectral"]
        self.assertTrue(spectral["applies"])
        for key in ("holds_before", "holds_after", "holds_ratio"):
            self.assertIsInstance(spectral[key], bool)

    def test_files_have_no_rows_of_the_fit_beside_them(self):
        """The rows of a list of files are split oof, which is then the one that is scored."""
        folder = self.path("files")
        os.mkdir(folder)
        for name in ("ada", "bob", "cyd"):
            shutil.copy(self.path(f"{name}.test.npy"), os.path.join(folder, f"{name}.npy"))
        files = [os.path.join(folder, f"{name}.npy") for name in ("ada", "bob", "cyd")]
        self.fit("--set", "evaluate.nested=false")
        arguments = ["bound", self.model, "-l", self.path("test_labels.npy"), *files]
        document = self.works(*arguments, "--json").json()
        self.assertEqual((document["split"], document["samples"]), ("oof", self.test_rows))
        self.assertIsNone(document["pac_bayes"])
        self.assertTrue(any("besides the one that is scored" in notice for notice in document["notices"]))
        self.assertNotIn("\n  bound of the paper", self.works(*arguments).out)
        refused = run(*arguments, "--json", "--leakage")
        self.assertEqual((refused.code, refused.out, refused.err.count("\n")), (2, "", 1))
        self.assertIn("is 'oof' itself", refused.err)


if __name__ == "__main__":
    unittest.main()
