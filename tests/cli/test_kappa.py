"""The two condition numbers, of the out-of-fold Gram matrix and of the CKA matrix, against NumPy, wherever they are reported."""

import csv
import io
import json
import unittest

import numpy as np

from support import PoolCase


def distances(a):
    return np.maximum(((a[:, None, :] - a[None, :, :]) ** 2).sum(axis=2), 0)


def cka(columns):
    """Biased CKA of (rows, width) arrays with Gaussian kernels, the bandwidth the median distance."""
    centred = []
    for a in columns:
        squared = distances(np.asarray(a, dtype=np.float64))
        sigma = np.median(np.sqrt(squared[np.triu_indices(len(squared), 1)]))
        kernel = np.exp(-squared / (2 * sigma**2))
        kernel -= kernel.mean(axis=0)
        kernel -= kernel.mean(axis=1)[:, None]
        centred.append((kernel / np.linalg.norm(kernel)).ravel())
    return np.array(centred) @ np.array(centred).T


def gram(columns):
    return np.corrcoef([np.asarray(a, dtype=np.float64).ravel() for a in columns])


def condition(matrix):
    values = np.linalg.eigvalsh(matrix)
    return values[-1] / values[values > 1e-10 * values[-1]][0]


class Kappa(PoolCase):
    names = ("ada", "bob", "cyd")

    def expected(self, uses):
        columns = [self.members[name, "oof"] for name in uses]
        return condition(gram(columns)), condition(cka(columns))

    def check(self, gram_value, cka_value, uses):
        expected = self.expected(uses)
        self.assertNotAlmostEqual(*expected, places=1)
        self.assertAlmostEqual(gram_value / expected[0], 1, places=6)
        self.assertAlmostEqual(cka_value / expected[1], 1, places=5)

    def test_comparison(self):
        options = ("compare", self.pool, "-m", "average,best-single,ridge", "--split", "test", "-r", "0")
        document = self.works(*options, "--json").json()
        rows = {row["method"]: row for row in document["rows"]}
        self.check(rows["average"]["kappa_gram"], rows["average"]["kappa_cka"], self.names)
        self.assertEqual((rows["best-single"]["kappa_gram"], rows["best-single"]["kappa_cka"]), (1, 1))
        self.assertNotIn("kappa", rows["average"])
        self.assertIn("kappa_gram_top1", document)
        self.assertIn("kappa_cka_top1", document)
        listed = {row["method"]: row for row in csv.DictReader(io.StringIO(self.works(*options, "--csv").out))}
        self.check(float(listed["average"]["kappa_gram"]), float(listed["average"]["kappa_cka"]), self.names)
        self.assertIn("| kappa Gram | kappa CKA |", self.works(*options, "--markdown").out.splitlines()[0])
        self.assertIn("kappa Gram  kappa CKA", self.works(*options, "--verbose").out)

    def test_fit_of_any_measure_and_method(self):
        for more in (("--preset", "prototype"), ("--set", "redundancy.measure=none"), ()):
            document = self.works("fit", self.pool, "-o", self.model, "--json", *more).json()
            if more:  # S1 computes no CKA
                self.assertIsNone(document["kappa_cka_before"])
                self.assertIsNone(document["kappa_cka_after"])
                columns = [self.members[name, "oof"] for name in self.names]
                self.assertAlmostEqual(document["kappa_gram_before"] / condition(gram(columns)), 1, places=6)
                continue
            self.check(document["kappa_gram_before"], document["kappa_cka_before"], self.names)
            if len(document["kept"]) > 1:
                self.check(document["kappa_gram_after"], document["kappa_cka_after"], document["kept"])
            else:
                self.assertEqual((document["kappa_gram_after"], document["kappa_cka_after"]), (1, 1))
        document = self.works("fit", self.pool, "-o", self.model, "--method", "average", "--json").json()
        self.check(document["kappa_gram"], document["kappa_cka"], self.names)

    def test_inspect_and_bound(self):
        document = self.works("inspect", self.pool, "--json").json()
        self.check(document["kappa_gram"], document["kappa_cka"], self.names)
        wide = self.works("inspect", self.pool, "--set", "gate.hidden=4096", "--json").json()  # too many parameters
        self.assertIn("the spectrum is not reported", " ".join(wide["notices"]))
        self.works("fit", self.pool, "-o", self.model)
        bound = self.works("bound", self.model, self.pool, "--json").json()
        columns = [self.members[name, bound["split"]] for name in bound["models"]]
        self.assertAlmostEqual(bound["kappa_gram_before"] / condition(gram(columns)), 1, places=6)
        self.assertAlmostEqual(bound["kappa_cka_before"] / condition(cka(columns)), 1, places=5)

    def test_subsets_and_stages(self):
        rows = self.works("sweep", self.pool, "--over", "pool.size=2,3", "--draws", "2", "-m", "average", "--json").json()["rows"]
        for row in rows:
            self.check(row["kappa_gram"], row["kappa_cka"], row["members"])
        for row in self.works("ablate", self.pool, "-r", "0", "--set", "cka.threshold=1", "--set", "folds.count=2", "--json").json()["rows"]:
            if row["models"] == 3:
                self.check(row["kappa_gram"], row["kappa_cka"], self.names)

    def test_the_estimator_of_the_options(self):
        few = ("compare", self.pool, "-m", "average", "-r", "0", "--json", "--set", "cka.estimator=nystrom", "--set", "cka.landmarks=6",
               "--set", "cka.landmark_rule=uniform")
        row = self.works(*few).json()["rows"][0]
        self.assertGreater(abs(row["kappa_cka"] / self.expected(self.names)[1] - 1), 1e-4)

    def test_many_members_have_no_cka(self):
        rng = np.random.default_rng(0)
        self.manifest["models"] = []
        for k in range(201):
            p = rng.dirichlet(np.ones(3), self.rows).astype(np.float32)
            self.save(f"m{k}.npy", p)
            self.manifest["models"].append({"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}})
        del self.manifest["splits"]["test"]
        self.write_manifest()
        rows = self.works("compare", self.pool, "-m", "average,best-single", "-r", "0", "--json").json()["rows"]
        self.assertIsNone(rows[0]["kappa_cka"])
        self.assertGreater(rows[0]["kappa_gram"], 1)
        self.assertEqual(rows[1]["kappa_cka"], 1)

    def test_regression(self):
        rng = np.random.default_rng(3)
        target = rng.normal(size=90)
        manifest = {"corestack_pool": 1, "task": "regression", "splits": {"oof": {"targets": "y.npy"}}, "models": []}
        self.save("y.npy", target)
        for k in range(4):
            self.members[f"r{k}", "oof"] = (np.sin(2 * target) + (0.2 + 0.1 * k) * rng.normal(size=90))[:, None].astype(np.float32)
            self.save(f"r{k}.npy", self.members[f"r{k}", "oof"])
            manifest["models"].append({"name": f"r{k}", "predictions": {"oof": f"r{k}.npy"}})
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        names = [model["name"] for model in manifest["models"]]
        row = self.works("compare", self.pool, "-m", "average", "-r", "0", "--json").json()["rows"][0]
        self.check(row["kappa_gram"], row["kappa_cka"], names)
        document = self.works("inspect", self.pool, "--json").json()
        self.check(document["kappa_gram"], document["kappa_cka"], names)
        document = self.works("fit", self.pool, "-o", self.model, "--json").json()
        self.check(document["kappa_gram_before"], document["kappa_cka_before"], names)
        document = self.works("fit", self.pool, "-o", self.model, "--json", "--preset", "prototype").json()
        self.assertIsNone(document["kappa_cka_before"])


if __name__ == "__main__":
    unittest.main()
