"""`adapt`: a stack learns from labelled rows of a new distribution, or is kept; which rows to label; what other commands
say of an adapted model."""

import os
import unittest

import numpy as np
from support import PoolCase, softmax


class Adapt(PoolCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(7)
        names = [m["name"] for m in self.manifest["models"]]
        self.skill = dict(zip(names, (0, 0.5, 3)))
        for split, rows in (("new", 60), ("rest", 200)):
            labels = rng.integers(0, 3, rows).astype(np.int32)
            self.save(f"{split}_labels.npy", labels)
            self.manifest["splits"][split] = {"labels": f"{split}_labels.npy"}
            for model in self.manifest["models"]:
                z = self.skill[model["name"]] * np.eye(3)[labels] + rng.normal(size=(rows, 3))
                self.save(f"{model['name']}.{split}.npy", softmax(z).astype(np.float32))
                model["predictions"][split] = f"{model['name']}.{split}.npy"
        self.write_manifest()
        self.fit("--set", "keep.max=2", "--set", "select.rule=non-inferior")
        self.made = self.path("adapted.cstack")

    def adapt(self, *more, **keywords):
        return self.works("adapt", self.model, self.pool, "-o", self.made, *more, **keywords)

    def nll(self, model, split="rest"):
        return self.works("evaluate", model, self.pool, "--split", split, "--json").json()

    def test_learns(self):
        text = self.adapt().out
        self.assertIn("60 labelled rows", text)
        found = self.adapt("--json").json()
        self.assertTrue(found["adapted"])
        self.assertLess(found["nll"]["cross_validated"], found["nll"]["stack"])
        self.assertNotIn("metric", found)
        self.assertAlmostEqual(sum(c["share"] for c in found["candidates"]), 1)
        self.assertEqual(found["members_after"], len(found["members"]))
        before, after = self.nll(self.model)["nll"], self.nll(self.made)["nll"]
        self.assertLess(after, 0.9 * before)
        one = self.read(self.made)
        self.adapt("-t", "3")
        self.assertEqual(self.read(self.made), one)
        shown = self.works("show", self.made, "--json").json()
        self.assertEqual(shown["adapted_to"]["samples"], 60)
        self.assertEqual(shown["adapted_to"]["scale"], found["scale"])
        self.assertIn("Adapted to", self.works("show", self.made).out)

    def test_metric(self):
        found = self.adapt("--metric", "balanced-accuracy", "--json").json()["metric"]
        out, labels = self.path("stack.npy"), np.load(self.path("new_labels.npy"))
        self.works("predict", self.model, self.pool, "--split", "new", "--guard", "off", "-o", out)
        decided = np.load(out).argmax(1)
        want = np.mean([np.mean(decided[labels == c] == c) for c in range(3)])
        self.assertEqual(found["key"], "balanced_accuracy")
        self.assertAlmostEqual(found["stack"], want, places=9)
        found = self.adapt("--metric", "log-loss", "--json").json()
        self.assertAlmostEqual(found["metric"]["stack"], found["nll"]["stack"], places=6)
        self.assertTrue(found["nll"]["fitted"] < found["metric"]["cross_validated"] < found["nll"]["stack"], found)
        self.fails("adapt", self.model, self.pool, "-o", self.made, "--metric", "f2", says=["unknown metric 'f2'"])
        self.fails("adapt", self.model, self.pool, "--suggest", "5", "--metric", "f1", says=["remove --metric"])

    def test_rows_that_it_learnt_from(self):
        self.adapt()
        self.assertTrue(self.nll(self.made, "new")["seen_in_fitting"])
        self.assertFalse(self.nll(self.made)["seen_in_fitting"])
        self.assertTrue(self.nll(self.made, "oof")["seen_in_fitting"])
        self.fails("bound", self.made, self.pool, "--split", "new", says=["was fitted on the rows of split 'new'"])
        self.fails("bound", self.made, self.pool, "--split", "oof", says=["was fitted on the rows of split 'oof'"])
        report = self.works("bound", self.made, self.pool, "--split", "rest", "--json").json()
        self.assertIn("holdout", report)
        self.assertTrue(any("was adapted" in notice for notice in report["notices"]))
        # Under another name, and in another order.
        order = np.random.default_rng(1).permutation(60)
        for model in self.manifest["models"]:
            self.save(f"{model['name']}.again.npy", np.load(self.path(f"{model['name']}.new.npy"))[order])
            model["predictions"]["again"] = f"{model['name']}.again.npy"
        self.save("again_labels.npy", np.load(self.path("new_labels.npy"))[order])
        self.manifest["splits"]["again"] = {"labels": "again_labels.npy"}
        self.write_manifest()
        self.assertTrue(self.nll(self.made, "again")["seen_in_fitting"])

    def test_kept_as_it_was(self):
        # Labels that are drawn from what the stack says: it cannot be bettered.
        self.works("predict", self.model, self.pool, "--split", "new", "-o", self.path("p.npy"))
        rng = np.random.default_rng(4)
        labels = [rng.choice(3, p=p / p.sum()) for p in np.load(self.path("p.npy")).astype(np.float64)]
        self.save("new_labels.npy", np.array(labels, np.int32))
        found = self.adapt("--json").json()
        self.assertFalse(found["adapted"])
        self.assertIn("no reason to change the stack", " ".join(found["notices"]))
        self.assertEqual(self.read(self.made), self.read(self.model))

    def test_some_rows(self):
        self.save("rows.npy", np.arange(0, 60, 2))
        self.save("y.npy", np.load(self.path("new_labels.npy"))[::2])
        first = self.adapt("--rows", self.path("rows.npy"), "--json").json()
        self.assertEqual(first["samples"], 30)
        one = self.read(self.made)
        del self.manifest["splits"]["new"]["labels"]
        self.write_manifest()
        self.adapt("--rows", self.path("rows.npy"), "--row-labels", self.path("y.npy"))
        self.assertEqual(self.read(self.made), one)
        self.fails("adapt", self.model, self.pool, "-o", self.made, says=["no labels"])

    def test_rows_without_labels(self):
        del self.manifest["splits"]["rest"]["labels"]
        self.write_manifest()
        self.fails("adapt", self.model, self.pool, "-o", self.made, "--unlabeled", "rest", says=["fitted on few rows"])
        self.save("oof_labels.npy", np.tile(self.labels["oof"], 4))
        for model in self.manifest["models"]:
            name = self.path(f"{model['name']}.oof.npy")
            noise = np.random.default_rng(3).uniform(0.9, 1.1, (4 * self.rows, 3))
            p = np.tile(np.load(name), (4, 1)) * noise
            np.save(name, (p / p.sum(1, keepdims=True)).astype(np.float32))
        self.fit("--set", "keep.max=2")
        found = self.adapt("--unlabeled", "rest", "--json").json()
        about = found["unlabeled"]
        self.assertEqual((about["split"], about["samples"]), ("rest", 200))
        self.assertEqual(about["used"], found["nll"]["cross_validated"] < about["nll_without"])
        self.assertNotIn("unlabeled", self.adapt("--json").json())
        self.adapt("--unlabeled", "new")
        self.fails("adapt", self.model, self.pool, "-o", self.made, "--unlabeled", "rust", says=["rust"])
        self.manifest["models"][-1]["predictions"].pop("rest")
        self.write_manifest()
        self.fails("adapt", self.model, self.pool, "-o", self.made, "--unlabeled", "rest", says=["rest", "member"])

    def test_rows_to_label(self):
        del self.manifest["splits"]["new"]["labels"]
        self.write_manifest()
        rows = self.works("adapt", self.model, self.pool, "--suggest", "8").out.split()
        self.assertEqual(len({int(row) for row in rows}), 8)
        found = self.works("adapt", self.model, self.pool, "--suggest", "8", "--json").json()
        self.assertEqual([str(row) for row in found["rows"]], rows)
        self.fails("adapt", self.model, self.pool, "--suggest", "61", says=["60 rows"])
        self.fails("adapt", self.model, self.pool, "--suggest", "8", "-o", self.made, says=["remove -o"])

    def test_a_missing_member(self):
        self.adapt()
        gone = self.manifest["models"].pop()
        self.write_manifest()
        out = self.path("p.npy")
        predict = ("predict", self.made, self.pool, "--split", "rest", "-o", out)
        self.fails(*predict, says=[gone["name"]])
        done = self.works(*predict, "--missing", "allow", "--guard", "auto")
        self.assertIn("the model was adapted", done.err)
        self.assertNotIn("older version", done.err)
        p = np.load(out)
        self.assertTrue(np.isfinite(p).all() and np.allclose(p.sum(1), 1, atol=1e-5))

    def test_a_member_of_the_model_that_is_missing(self):
        needed = self.works("show", self.model, "--json").json()["members"][0]["name"]
        self.manifest["models"] = [m for m in self.manifest["models"] if m["name"] != needed]
        self.write_manifest()
        refused = self.fails("adapt", self.model, self.pool, "-o", self.made, says=[f"'{needed}'", "every member"])
        self.assertNotIn("--missing", refused.err)

    def test_bad_input(self):
        refused = ("adapt", self.model, self.pool, "-o", self.made)
        labels = np.load(self.path("new_labels.npy"))
        self.fails(*refused, "--split", "oof", says=["fitted on the rows of split 'oof'"])
        self.fails(*refused, "--split", "knew", says=["knew"])
        self.fails(*refused, "--suggest", "0", says=["suggest"])
        self.fails("adapt", self.model, says=["give a model and a pool"])
        self.fails("adapt", self.model, self.pool, says=["-o"])
        self.save("few.npy", np.arange(9))
        self.fails(*refused, "--rows", self.path("few.npy"), says=["9 labelled rows are too few"])
        self.fails(*refused, "--row-labels", self.path("few.npy"), says=["needs --rows"])
        self.save("new_labels.npy", np.where(np.arange(60) == 5, np.nan, labels))
        self.fails(*refused, says=["new_labels.npy", "row 5"])
        self.save("new_labels.npy", np.zeros(60, np.int32))
        self.fails(*refused, says=["all 60 labelled rows are of class 0"])
        self.save("new_labels.npy", labels)
        self.assertFalse(os.path.exists(self.made))
        self.manifest["classes"] = ["x", "y", "z"]
        self.write_manifest()
        self.fit("--set", "keep.max=2")
        self.manifest["classes"] = ["x", "z", "y"]
        self.write_manifest()
        self.fails(*refused, says=["class 1"])

    def test_a_model_that_was_adapted(self):
        self.adapt()
        self.fails("adapt", self.made, self.pool, "-o", self.path("third"), says=["adapted to 60 rows before"])

    def test_bounds_under_shift(self):
        self.adapt()
        for shift in ("covariate", "label"):
            self.fails("bound", self.made, self.pool, "--split", "rest", "--batch-split", "new", "--shift", shift,
                       says=["not supported for adapted models"])

    def test_other_tasks(self):
        self.make_maps(6, 12)
        self.fit()
        self.fails("adapt", self.model, self.pool, "-o", self.made, says=["adaptation is for classification only"])


if __name__ == "__main__":
    unittest.main()
