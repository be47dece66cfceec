"""What a fit is compared with: simple rules on its folds, against NumPy, SciPy and `corestack compare`."""

import json
import os

import numpy as np
from scipy import stats

from support import SOURCES, PoolCase, run, small

RULES = ("greedy+temperature", "best-single+temperature", "best-single", "average")


def losses(probabilities, labels):
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels].astype(float), 1e-15))


class Comparison(PoolCase):
    rows = 150

    def setUp(self):
        super().setUp()
        self.folds = np.arange(self.rows, dtype=np.int32) % 5
        self.save("folds.npy", self.folds)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()

    def fit(self, *arguments):
        return self.works("fit", self.pool, "-o", self.model, *arguments, "--json").json()

    def nested(self, *methods):
        """Nested predictions of methods."""
        self.works("compare", self.pool, "-m", ",".join(methods), "-r", 0, "--save", self.path("saved"))
        return [np.load(self.path(f"saved/{m}.oof.npy")) for m in methods]

    def check_test(self, row, ours, theirs):
        expected = stats.ttest_rel(theirs, ours)
        self.assertAlmostEqual(row["difference"], np.mean(theirs - ours), places=7)
        self.assertAlmostEqual(row["se"], stats.sem(theirs - ours), places=7)
        np.testing.assert_allclose(row["p"], expected.pvalue, rtol=1e-4)
        np.testing.assert_allclose(row["p_adjusted"], min(1, 4 * expected.pvalue), rtol=1e-4)
        self.assertEqual(row["verdict"], "no clear difference" if row["p_adjusted"] >= 0.05 else
                         "worse" if row["difference"] > 0 else "better")

    def test_rules_against_numpy(self):
        found = self.fit()
        self.assertEqual([row["method"] for row in found["comparison"]], list(RULES))
        rows = {row["method"]: row for row in found["comparison"]}
        labels = self.labels["oof"]
        members = np.stack([self.members[name, "oof"] for name in ("ada", "bob", "cyd")]).astype(float)
        single = np.array([losses(p, labels) for p in members])
        best = np.zeros(self.rows)
        for f in range(5):
            held = self.folds == f
            best[held] = single[np.argmin(single[:, ~held].mean(axis=1)), held]
        ours = losses(self.nested("default")[0], labels)
        self.assertAlmostEqual(ours.mean(), found["oof"]["nll"], places=6)
        for method, theirs in (("best-single", best), ("average", losses(members.mean(axis=0), labels))):
            self.assertAlmostEqual(rows[method]["nll"], theirs.mean(), places=6)
            self.check_test(rows[method], ours, theirs)
        self.assertEqual(rows["best-single"]["member"], ("ada", "bob", "cyd")[np.argmin(single.mean(axis=1))])
        self.assertEqual((rows["best-single"]["models"], rows["average"]["models"]), (1, 3))

    def test_rules_are_those_of_the_comparison(self):
        found = self.fit()
        compared = self.works("compare", self.pool, "-m", ",".join((*RULES, "default")), "--reference", "default", "-r", 0,
                              "--json").json()
        rows = {row["method"]: row for row in compared["rows"]}
        tests = {test["b"]: test for test in compared["tests"] if test["metric"] == "nll"}
        for row in found["comparison"]:
            for key in ("top1", "ece", "nll", "brier", "models", "flops_rel"):
                self.assertEqual(row[key], rows[row["method"]][key], f"{row['method']}: {key}")
            self.assertEqual(row["p"], tests[row["method"]]["p"])

    def test_rows_of_a_group_count_together(self):
        groups = np.arange(self.rows) // 3 % 40
        self.folds = (groups % 5).astype(np.int32)
        self.save("folds.npy", self.folds)
        self.save("groups.npy", groups.astype(np.int64))
        self.manifest["splits"]["oof"]["groups"] = "groups.npy"
        self.write_manifest()
        row = {row["method"]: row for row in self.fit()["comparison"]}["average"]
        labels = self.labels["oof"]
        both = [losses(p, labels) for p in self.nested("default", "average")]
        ours, theirs = (np.bincount(groups, loss) * 40 / self.rows for loss in both)
        self.check_test(row, ours, theirs)

    def test_loss_without_a_member(self):
        """On each fold, the nested fit without a member, by a model fitted on the other folds that predicts with it absent."""
        found = self.fit()
        labels = self.labels["oof"]
        rise = {name: np.zeros(self.rows) for name in ("ada", "bob", "cyd")}
        for f in range(5):
            held = self.folds == f
            rows, names = {"in": ~held, "out": held}, list(rise)
            inside = np.array([g - (g > f) for g in self.folds[~held]], dtype=np.int32)
            splits = {"oof": {"labels": "in_y.npy", "folds": "in_folds.npy"}, "test": {"labels": "out_y.npy"}}
            self.save("out_y.npy", labels[held])
            self.save("in_y.npy", labels[~held])
            self.save("in_folds.npy", inside)
            models = []
            for name in names:
                files = {split: f"{name}.{split}.{f}.npy" for split in rows}
                for split, file in files.items():
                    self.save(file, self.members[name, "oof"][rows[split]])
                models.append({"name": name, "predictions": {"oof": files["in"], "test": files["out"]}})
            full = {**self.manifest, "splits": splits, "models": models}
            self.write("inner.json", full)
            self.works("fit", self.path("inner.json"), "-o", self.path("inner.cstack"), "--set", "evaluate.nested=false")
            losses_of = {}
            for left_out in (None, *names):
                part = {**full, "models": [m for m in models if m["name"] != left_out]}
                self.write("part.json", part)
                self.works("predict", self.path("inner.cstack"), self.path("part.json"), "--missing", "allow", "--guard", "off",
                           "-o", self.path("p.npy"))
                losses_of[left_out] = losses(np.load(self.path("p.npy")), labels[held])
            for name in names:
                rise[name][held] = losses_of[name] - losses_of[None]
        for member in found["members"]:
            expected = rise[member["name"]]
            self.assertAlmostEqual(member["loss_without"], expected.mean(), places=5)
            self.assertAlmostEqual(member["loss_without_se"], expected.std() / np.sqrt(self.rows), places=5)
        self.assertGreater(max(member["loss_without"] for member in found["members"]), 0.01)

    def write(self, name, manifest):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def test_regression(self):
        folder = os.path.join(SOURCES, "examples", "concrete")
        with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
            manifest = json.load(file)

        def read(name):
            return np.load(os.path.join(folder, name)).astype(float)

        y, folds = read(manifest["splits"]["oof"]["labels"]), read(manifest["splits"]["oof"]["folds"])
        members = np.stack([read(model["predictions"]["oof"]) for model in manifest["models"]])
        errors = (members - y) ** 2
        best = np.zeros(len(y))
        for f in np.unique(folds):
            held = folds == f
            best[held] = errors[np.argmin(errors[:, ~held].mean(axis=1)), held]
        found = self.works("fit", folder, "-o", self.model, "--json").json()
        self.works("compare", folder, "-m", "default,greedy", "-r", 0, "--save", self.path("saved"))
        ours, greedy = ((np.load(self.path(f"saved/{m}.oof.npy")).astype(float) - y) ** 2 for m in ("default", "greedy"))
        rows = {row["method"]: row for row in found["comparison"]}
        for method, theirs in (("greedy", greedy), ("best-single", best), ("average", (members.mean(axis=0) - y) ** 2)):
            row = rows[method]
            np.testing.assert_allclose(row["rmse"], np.sqrt(theirs.mean()), rtol=1e-6)
            np.testing.assert_allclose(row["difference"], (theirs - ours).mean() / y.var(), rtol=1e-5)
            expected = stats.ttest_rel(theirs, ours).pvalue
            np.testing.assert_allclose(row["p"], expected, rtol=1e-4)
            self.assertEqual(row["verdict"], "worse" if 3 * expected < 0.05 else "no clear difference")
        names = [model["name"] for model in manifest["models"]]
        self.assertEqual(rows["best-single"]["member"], names[np.argmin(errors.mean(axis=1))])

    def test_multilabel_rules_are_those_of_the_comparison(self):
        pool = os.path.join(SOURCES, "examples", "multilabel")
        found = self.works("fit", pool, "-o", self.model, "--json").json()["comparison"]
        compared = self.works("compare", pool, "-m", "greedy,best-single,average,default", "--reference", "default", "-r", 0,
                              "--json").json()
        rows = {row["method"]: row for row in compared["rows"]}
        tests = {test["b"]: test for test in compared["tests"] if test["metric"] == "log_loss"}
        self.assertEqual([row["method"] for row in found], ["greedy", "best-single", "average"])
        for row in found:
            for key in ("log_loss", "macro_auc", "map", "ece", "models"):
                self.assertAlmostEqual(row[key], rows[row["method"]][key], places=8)
            self.assertAlmostEqual(row["p"], tests[row["method"]]["p"], places=6)

    def test_without_nested_scores_there_is_none(self):
        self.assertNotIn("comparison", self.fit("--set", "evaluate.nested=false"))

    def test_any_number_of_threads(self):
        texts = set()
        for threads in (1, 4):
            found = self.fit("-t", threads)
            texts.add(repr(found["comparison"]))
        self.assertEqual(len(texts), 1)

    def test_it_is_on_the_screen(self):
        pool = small("digits", 6)
        text = run("fit", pool, "-o", self.model).out
        for rule in RULES:
            self.assertRegex(text, rf"(?m)^    {rule.replace('+', '.')}.* (better|worse|unclear) \(p [<0-9. ]+\)$")
