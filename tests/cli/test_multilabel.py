"""Multilabel through the tool: the example from fit to comparison, labels that are not known, rare ones, and what is refused."""

import json
import os

import numpy as np

from support import SOURCES, PoolCase

EXAMPLE = os.path.join(SOURCES, "examples", "multilabel")


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def log_loss(y, p):
    known = ~np.isnan(y)
    p = np.clip(p.astype(float), 2.0**-23, 1 - 2.0**-23)
    return -np.log(np.where(y == 1, p, 1 - p))[known].mean()


class Example(PoolCase):
    def test_from_fit_to_scores(self):
        fit = self.works("fit", EXAMPLE, "-o", self.model, "--json").json()
        self.assertEqual(fit["task"], "multilabel")
        self.assertEqual([label["known"] for label in fit["labels"]],
                         (np.load(os.path.join(EXAMPLE, "oof_labels.npy")) >= 0).sum(axis=0).tolist())
        out = self.path("out.npy")
        self.works("predict", self.model, EXAMPLE, "--split", "test", "-o", out)
        predicted, y = np.load(out), np.load(os.path.join(EXAMPLE, "test_labels.npy")).astype(float)
        self.assertEqual(predicted.shape, y.shape)
        found = self.works("evaluate", self.model, EXAMPLE, "--split", "test", "--baselines", "--json").json()
        self.assertAlmostEqual(found["log_loss"], log_loss(y, predicted), places=9)
        self.assertEqual([row["method"] for row in found["baselines"]], ["best-single", "average", "greedy"])
        self.assertTrue(all(found["log_loss"] < row["log_loss"] for row in found["baselines"]))
        compared = self.works("compare", EXAMPLE, "--split", "test", "-m", "average,default", "-r", 0, "--json").json()
        self.assertEqual(compared["rows"][1]["log_loss"], found["log_loss"])
        nested = self.works("compare", EXAMPLE, "-m", "default", "-r", 0, "--json").json()["rows"][0]
        self.assertEqual(nested["macro_auc"], fit["oof"]["macro_auc"])
        # a member by itself, which is also what compare takes as predictions of the user's own
        member = os.path.join(EXAMPLE, "knn.test.npy")
        alone = self.works("evaluate", member, "--task", "multilabel", "--labels", os.path.join(EXAMPLE, "test_labels.npy"), "--json").json()
        own = self.works("compare", EXAMPLE, "--split", "test", "-m", "average", "--with", f"mine={member}", "-r", 0, "--json").json()
        self.assertEqual(alone["log_loss"], own["rows"][1]["log_loss"])
        self.assertAlmostEqual(alone["log_loss"], log_loss(y, np.load(member)), places=9)

    def test_every_method_predicts_what_it_scored(self):
        for method in ("best-single", "average", "log-odds-average", "greedy", "logistic", "default"):
            self.works("fit", EXAMPLE, "-o", self.model, "--method", method, "-s", "evaluate.nested=false")
            found = self.works("evaluate", self.model, EXAMPLE, "--split", "test", "--json").json()
            row, = self.works("compare", EXAMPLE, "--split", "test", "-m", method, "-r", 0, "--json").json()["rows"]
            self.assertEqual((found["log_loss"], found["map"]), (row["log_loss"], row["map"]), method)
        self.works("sweep", EXAMPLE, "--over", "pool.size=2", "--draws", 1)
        self.fails("ablate", EXAMPLE, says=["stages", "compare"])

    def test_a_metric_is_one_of_its_scores(self):
        self.works("fit", EXAMPLE, "-o", self.model, "--metric", "macro_f1", "-s", "evaluate.nested=false")
        self.fails("fit", EXAMPLE, "-o", self.model, "--metric", "f1", says=["for multilabel", "macro_f1"])

    def test_averages_are_those_of_numpy(self):
        names = ["logistic_a", "logistic_b", "forest", "extra_trees", "knn"]
        members = np.array([np.load(os.path.join(EXAMPLE, f"{name}.test.npy")) for name in names]).astype(float)
        out = self.path("out.npy")
        self.works("fit", EXAMPLE, "-o", self.model, "--method", "average")
        self.works("predict", self.model, EXAMPLE, "--split", "test", "-o", out)
        np.testing.assert_allclose(np.load(out), members.mean(axis=0), atol=1e-7)
        with open(os.path.join(EXAMPLE, "pool.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        self.manifest["models"] = self.manifest["models"][1:]
        for place in (*self.manifest["splits"].values(), *(model["predictions"] for model in self.manifest["models"])):
            for key in place:
                place[key] = os.path.join(EXAMPLE, place[key])
        self.write_manifest()
        self.works("predict", self.model, self.pool, "--split", "test", "--missing", "allow", "--allow-outside", "-o", out)
        np.testing.assert_allclose(np.load(out), members[1:].mean(axis=0), atol=1e-7)


class Labels(PoolCase):
    """Four labels of 150 rows: a common one, a rare one, one without a positive row, one that is known of few rows."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        z = rng.normal(size=(150, 4)) * 2 + np.array([0, -4, 0, 0])
        self.y = (rng.random(z.shape) < sigmoid(z)).astype(float)
        self.y[:, 2] = 0
        self.y[20:, 3] = np.nan
        self.logits = [z + rng.normal(size=z.shape) * s for s in (0.5, 1, 2)]
        self.files = [self.save(f"m{k}.npy", sigmoid(v).astype(np.float32)) for k, v in enumerate(self.logits)]
        self.labels = self.save("y.npy", self.y)
        self.words = ("--task", "multilabel", "--labels", self.labels)

    def fit(self, *more, files=None, labels=None):
        words = ("--task", "multilabel", "--labels", labels or self.labels)
        return self.works("fit", *words, *(files or self.files), "-o", self.model, "--json", *more).json()

    def test_labels_that_are_rare_or_not_known(self):
        fit = self.fit()
        self.assertEqual([label["known"] for label in fit["labels"]], [150, 150, 150, 20])
        self.assertIsNone(fit["labels"][2]["auc"])
        self.assertTrue(all(np.isfinite(fit["oof"][key]) for key in ("log_loss", "macro_auc", "macro_f1", "lrap")))
        same = self.fit(labels=self.save("minus.npy", np.where(np.isnan(self.y), -1, self.y).astype(np.int8)))
        self.assertEqual(same["oof"], fit["oof"])
        with open(self.path("y.csv"), "w", encoding="utf-8") as file:
            file.write("a,b,c,d\n")
            for row in self.y:
                file.write(",".join("" if np.isnan(v) else str(int(v)) for v in row) + "\n")
        same = self.fit(labels=self.path("y.csv"))
        self.assertEqual(same["oof"]["log_loss"], fit["oof"]["log_loss"])

    def test_logits(self):
        plain = self.fit()
        files = [self.save(f"z{k}.npy", v) for k, v in enumerate(self.logits)]
        logits = self.fit("--values", "logit", files=files)
        self.assertAlmostEqual(plain["oof"]["log_loss"], logits["oof"]["log_loss"], places=5)
        self.fails("fit", *self.words, *files, "-o", self.model, says=["not a probability in [0, 1]", "--values logit"])

    def test_threads_and_memory_change_nothing(self):
        self.fit("-t", "1")
        one = self.read(self.model)
        self.fit("-t", "2", "--memory", "64MiB")
        self.assertEqual(self.read(self.model), one)

    def test_weights_and_groups(self):
        folds = np.arange(150) % 5
        first = [self.save(f"t{k}.npy", sigmoid(v[:100]).astype(np.float32)) for k, v in enumerate(self.logits)]
        some = self.fit("--folds", self.save("f1.npy", folds[:100]), files=first, labels=self.save("y1.npy", self.y[:100]))
        weights = self.save("w.npy", (np.arange(150) < 100).astype(float))
        weighted = self.fit("--folds", self.save("f.npy", folds), "--weights", weights)
        self.assertEqual(list(some["weights"].values()), list(weighted["weights"].values()))
        self.assertEqual(some["oof"], weighted["oof"])
        self.assertNotEqual(some["oof"], self.fit("--folds", self.path("f.npy"))["oof"])
        self.fit("--groups", self.save("g.npy", np.arange(150) // 3))

    def test_what_is_refused(self):
        wrong = self.y.copy()
        wrong[3, 1] = 2
        self.fails("fit", "--task", "multilabel", "--labels", self.save("bad.npy", wrong), *self.files, "-o", self.model,
                   says=["bad.npy: row 3", "is 2", "0 or 1, or -1 or NaN"])  # fmt: skip
        self.fails("fit", "--task", "multilabel", "--labels", self.save("none.npy", self.y * np.nan), *self.files, "-o", self.model,
                   says=["no label of any row is known"])  # fmt: skip
        self.fit("-s", "evaluate.nested=false")
        self.fails("predict", self.model, *self.files, "--task", "regression", "-o", self.path("o.npy"), says=["multilabel", "regression"])
        self.fails("compare", *self.words, *self.files, "-m", "ridge", says=["method 'ridge' is for other tasks", "log-odds-average"])
        self.fails("monitor", self.model, *self.files, "--task", "multilabel", says=["not supported for multilabel"])
        notices = self.fit("-s", "meta.learners=ridge", "-s", "evaluate.nested=false")["notices"]
        self.assertIn("multilabel does not use meta.learners", notices)

    def test_rows_that_a_member_lacks(self):
        gaps = np.load(self.files[0])
        gaps[5:9] = np.nan
        files = [self.save("gaps.npy", gaps), *self.files[1:]]
        self.fit("--missing", "allow", files=files)
        out = self.path("o.npy")
        self.works("predict", self.model, *files, "--task", "multilabel", "--missing", "allow", "-o", out)
        self.assertTrue(((np.load(out) > 0) & (np.load(out) < 1)).all())
