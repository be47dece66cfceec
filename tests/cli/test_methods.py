"""`fit --method`: any method of a comparison as a model, whose predictions are those of the comparison."""

import unittest

import numpy as np
from support import PoolCase, run, slow, small

POOLS = {"classification": small("digits"), "regression": small("concrete", 6, 3), "segmentation": small("segmentation", 3, 2),
         "detection": small("detection", 4, 2)}
FEW = {"segmentation": ("--set", "segment.pixels=300")}
SCORES = {"segmentation": ("miou", "ece", "nll"), "detection": ("AP", "AP50", "AR100"),
          "classification": ("top1", "ece", "nll", "brier"), "regression": ("rmse", "mae", "r2", "nll")}
METHODS = {
    "classification": ("best-single", "greedy", "ridge", "log-linear", "hill-climbing", "autogluon", "average+isotonic", "greedy+vector"),
    "regression": ("average", "ridge", "hill-climbing"),
    "segmentation": ("best-single", "average+temperature"),
    "detection": ("best-single", "average", "wbf", "soft-nms", "ridge+temperature"),
}


class EveryTask(PoolCase):
    def fitted(self, task, method, *more):
        return self.works("fit", POOLS[task], "--method", method, "-o", self.model, "--json", *FEW.get(task, ()), *more).json()

    def test_scores_are_those_of_the_comparison(self):
        for task, methods in METHODS.items():
            words = ("--split", "test", "-m", ",".join(methods), "-r", 0, *FEW.get(task, ()))
            compared = self.works("compare", POOLS[task], *words, "--json").json()
            for row in compared["rows"]:
                found = self.fitted(task, row["method"], "--set", "evaluate.nested=false")
                scored = self.works("evaluate", self.model, POOLS[task], "--split", "test", "--json").json()
                self.assertEqual(len(found["kept"]), row["models"])
                for key in SCORES[task]:
                    self.assertEqual(scored[key], row[key], f"{task}, {row['method']}: {key}")

    def test_report_counts_samples_or_cases(self):
        for task, count in (("segmentation", "8 images"), ("regression", "258 rows"), ("detection", "17 boxes")):
            text = self.works("fit", POOLS[task], "--method", "average", "-o", self.model, "-s", "evaluate.nested=false",
                              *FEW.get(task, ())).out
            self.assertIn(f", {count}", text)

    def test_predictions_are_those_of_the_comparison(self):
        for task in ("classification", "regression"):
            names = ",".join(METHODS[task])
            self.works("compare", POOLS[task], "--split", "test", "-m", names, "-r", 0, "--save", self.path("saved"))
            for method in METHODS[task]:
                self.fitted(task, method, "--set", "evaluate.nested=false")
                self.works("predict", self.model, POOLS[task], "--split", "test", "-o", self.path("p.npy"))
                expected = np.load(self.path(f"saved/{method}.test.npy"))
                np.testing.assert_array_equal(np.load(self.path("p.npy")), expected)

    def test_nested_scores_are_those_of_the_comparison(self):
        for task, method in (("classification", "greedy+vector"), ("regression", "ridge"), ("detection", "wbf")):
            row = self.works("compare", POOLS[task], "-m", method, "-r", 0, "--json").json()["rows"][0]
            found = self.fitted(task, method)
            self.assertEqual(found["method"], method)
            self.assertTrue(found["oof"]["nested"])
            for key in SCORES[task]:
                self.assertEqual(found["oof"][key], row[key], f"{task}: {key}")

    def test_text_names_the_method(self):
        text = self.works("fit", POOLS["classification"], "--method", "greedy+vector", "-o", self.model, "-v").out
        for part in ("method greedy+vector", "linear weights", "nested", "of 5: "):
            self.assertIn(part, text)


class Missing(PoolCase):
    """Rows that members did not predict, weights, groups and domains: each row of a comparison is that of the saved model."""

    def make(self, task):
        rng = np.random.default_rng(3)
        regression = task == "regression"
        self.manifest = {"corestack_pool": 1, "task": task, "splits": {}, "models": [
            {"name": f"m{k}", "predictions": {s: f"m{k}.{s}.npy" for s in ("oof", "test")}} for k in range(5)]}
        self.manifest.update({"outputs": 2} if regression else {"classes": 3, "output": "probability"})
        for k in range(2):
            self.manifest["models"][k]["ensemble"] = {"kind": "deep-ensemble", "of": "net"}
        for split in ("oof", "test"):
            y = rng.normal(size=(150, 2)) if regression else rng.integers(0, 3, 150)
            parts = {"labels": y, "groups": np.arange(150) // 3, "weights": rng.choice([0, 0.5, 1, 3], 150)}
            if not regression:
                parts["domains"] = np.arange(150) // 75
            self.manifest["splits"][split] = {key: f"{split}_{key}.npy" for key in parts}
            for key, values in parts.items():
                self.save(f"{split}_{key}.npy", values)
            for k in range(5):
                p = y + (0.4 + 0.1 * k) * rng.normal(size=y.shape) if regression else rng.dirichlet([1, 1, 1], 150) + np.eye(3)[y]
                p = (p if regression else p / p.sum(axis=1, keepdims=True)).astype(np.float32)
                p[rng.random(150) < 0.3] = np.nan
                p[:2] = np.nan  # rows that nobody predicted
                self.save(f"m{k}.{split}.npy", p)
        self.write_manifest()

    @slow
    def test_every_row_of_a_comparison_is_that_of_the_saved_model(self):
        told = 0
        for task in ("classification", "regression"):
            self.make(task)
            words = (self.pool, "--split", "test", "--missing", "allow", "--json")
            compared = self.works("compare", *words, "-m", "all", "-r", 0).json()
            self.assertGreater(len(compared["rows"]), 10)
            for row in compared["rows"]:
                self.fit("--missing", "allow", "--method", row["method"])
                scored = self.works("evaluate", self.model, *words).json()
                keys = [key for key in row if key in scored and key not in ("models", "weights")]
                self.assertGreaterEqual(len(keys), len(SCORES[task]))
                self.assertEqual({key: scored[key] for key in keys}, {key: row[key] for key in keys}, row["method"])
                told += any("no member of the model predicted" in notice for notice in scored["notices"])
        self.assertGreater(told, 0)


class Small(PoolCase):
    def test_a_mixture_by_hand(self):
        self.fit("--method", "average")
        self.works("predict", self.model, self.pool, "-o", self.path("p.npy"))
        mean = sum(self.members[name, "test"].astype(float) for name in ("ada", "bob", "cyd")) / 3
        np.testing.assert_allclose(np.load(self.path("p.npy")), mean, atol=1e-7)

    def test_same_bytes_on_every_run(self):
        for method in ("mlp", "greedy+isotonic"):
            self.fit("--method", method, "--threads", "1")
            first = self.read(self.model)
            self.fit("--method", method, "--threads", "3")
            self.assertEqual(self.read(self.model), first)

    def test_presets_are_fitted_as_presets(self):
        self.fit("--method", "paper")
        first = self.read(self.model)
        self.fit("--preset", "paper")
        self.assertEqual(self.read(self.model), first)

    def test_another_split(self):
        self.fit("--method", "greedy", "--split", "test")
        weights = self.works("fit", self.pool, "--method", "greedy", "-o", self.model, "--json").json()["weights"]
        self.assertAlmostEqual(sum(weights.values()), 1)

    def test_tagged_members(self):
        for model, kind in zip(self.manifest["models"], ("deep-ensemble", "deep-ensemble", None)):
            if kind:
                model["ensemble"] = {"kind": kind, "of": "net"}
        self.write_manifest()
        found = self.works("fit", self.pool, "--method", "deep-ensemble", "-o", self.model, "--json").json()
        self.assertEqual(found["kept"], ["ada", "bob"])

    def test_mistakes_are_named(self):
        self.fails("fit", self.pool, "-o", self.model, "--method", "hill-climb", says=["did you mean 'hill-climbing'"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "ridge+temp", says=["only +temperature"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "all", says=["unknown method 'all'"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "soup", says=["tag in the manifest"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "ridge", "--preset", "paper", says=["give one of them"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "ridge", "--set", "keep.max=2",
                   says=["keep.max has no effect on method 'ridge'"])

    def test_methods_of_another_task(self):
        result = run("fit", POOLS["regression"], "--method", "log-linear", "-o", self.model)
        self.assertEqual(result.code, 2)
        self.assertIn("is for classification", result.err)


if __name__ == "__main__":
    unittest.main()
