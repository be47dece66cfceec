"""`fit --method`: any method of a comparison as a model, whose predictions are those of the comparison."""

import unittest

import numpy as np
from support import PoolCase, run, small

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
                    self.assertAlmostEqual(scored[key], row[key], delta=1e-6, msg=f"{task}, {row['method']}: {key}")

    def test_report_counts_samples_or_cases(self):
        for task, count in (("segmentation", "8 cases"), ("regression", "258 samples"), ("detection", "17 samples")):
            text = self.works("fit", POOLS[task], "--method", "average", "-o", self.model, "-s", "evaluate.nested=false",
                              *FEW.get(task, ())).out
            self.assertIn(f"; {count}, ", text)

    def test_predictions_are_those_of_the_comparison(self):
        for task in ("classification", "regression"):
            names = ",".join(METHODS[task])
            self.works("compare", POOLS[task], "--split", "test", "-m", names, "-r", 0, "--save", self.path("saved"))
            for method in METHODS[task]:
                self.fitted(task, method, "--set", "evaluate.nested=false")
                self.works("predict", self.model, POOLS[task], "--split", "test", "-o", self.path("p.npy"))
                expected = np.load(self.path(f"saved/{method}.test.npy"))
                self.assertLess(np.abs(np.load(self.path("p.npy")) - expected).max(), 1e-6 * max(1, np.abs(expected).max()))

    def test_nested_scores_are_those_of_the_comparison(self):
        for task, method in (("classification", "greedy+vector"), ("regression", "ridge"), ("detection", "wbf")):
            row = self.works("compare", POOLS[task], "-m", method, "-r", 0, "--json").json()["rows"][0]
            found = self.fitted(task, method)
            self.assertEqual(found["method"], method)
            self.assertTrue(found["oof"]["nested"])
            for key in SCORES[task]:
                self.assertEqual(found["oof"][key], row[key], f"{task}: {key}")

    def test_text_names_the_method(self):
        text = self.works("fit", POOLS["classification"], "--method", "greedy+vector", "-o", self.model).out
        for part in ("method greedy+vector", "linear weights", "nested", "of 5: "):
            self.assertIn(part, text)


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
