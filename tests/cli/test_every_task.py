"""What compare, ablate and sweep do alike for every task: the same method gives the same figures whichever command runs it, and
a subset of the pool's members gives what a pool of those members alone gives."""

import json
import os
import shutil
import tempfile
import unittest

from support import SOURCES, run, slow, small

TASKS = {"classification": "digits", "regression": "regression", "segmentation": "segmentation", "detection": "detection",
         "multilabel": "multilabel"}
ABLATED = [task for task in TASKS if task != "multilabel"]
SCORES = {"classification": ("top1", "ece", "nll", "brier"), "regression": ("rmse", "mae", "r2", "nll"),
          "segmentation": ("miou", "dice", "ece", "nll"), "detection": ("AP", "AP50", "AR100"),
          "multilabel": ("log_loss", "macro_auc", "map", "macro_f1", "lrap", "hamming", "ece")}


# Segmentation takes long with the default of 50,000 pixels.
FEW = ("--set", "segment.pixels=300")


def manifest(task):
    return os.path.join(SOURCES, "examples", TASKS[task], "pool.json")


def little(task):
    """A pool of some members and rows of the example, and settings of a quick run on it."""
    members, every = {"classification": (5, 6), "regression": (5, 1)}.get(task, (4, 2))
    return small(TASKS[task], members, every), FEW if task == "segmentation" else ()


class EveryTask(unittest.TestCase):
    def done(self, *arguments):
        result = run(*arguments, "--json")
        self.assertEqual(result.code, 0, result.err)
        return result.json()

    def part(self, task, names, change=lambda model: None):
        """A copy of the little pool with some of its members."""
        path, _ = little(task)
        with open(path, encoding="utf-8") as file:
            pool = json.load(file)
        pool["models"] = [model for model in pool["models"] if names is None or model["name"] in names]
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        shutil.copytree(os.path.dirname(path), folder.name, dirs_exist_ok=True)
        for model in pool["models"]:
            change(model)
        path = os.path.join(folder.name, "pool.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(pool, file)
        return path

    def same(self, task, one, other, keys=("models", "kappa_gram", "kappa_cka", "flops_rel")):
        for key in SCORES[task] + keys:
            self.assertEqual(one[key], other[key], f"{task}: {key}")

    @slow
    def test_ablation_begins_with_the_prototype_and_ends_with_the_paper(self):
        for task in ABLATED:
            pool = manifest(task)
            found = self.done("ablate", pool, "--split", "test", "-r", 20)
            compared = self.done("compare", pool, "--split", "test", "-m", "prototype,paper", "-r", 0)
            self.assertEqual(found["task"], task)
            self.assertEqual([row["stage"] for row in found["rows"]],
                             ["prototype", "+S1 CKA", "+S2 gate", "+S3 lambda*", "+S4 Laplace", "+S5 refit"])
            self.same(task, found["rows"][0], compared["rows"][0])
            self.same(task, found["rows"][4], compared["rows"][1])
            for before, row in zip(found["rows"], found["rows"][1:]):
                for key in row["difference"]:
                    if not key.endswith("_ci"):
                        self.assertAlmostEqual(row["difference"][key], row[key] - before[key], delta=1e-8, msg=f"{task}: {key}")

    @slow
    def test_settings_of_a_row_give_the_same_by_themselves(self):
        for task in ABLATED:
            pool = manifest(task)
            rows = self.done("ablate", pool, "--split", "test", "-r", 0)["rows"]
            words = [word for row in rows for setting in row["settings"] for word in ("--set", setting)]
            compared = self.done("compare", pool, "--split", "test", "-m", "prototype", "-r", 0, *words)
            # The CKA matrix is that of the settings of the whole run, which are others here.
            self.same(task, rows[-1], compared["rows"][0], ("models", "kappa_gram", "flops_rel"))

    @slow
    def test_value_of_an_option(self):
        key = {"classification": "cka.threshold", "regression": "linear_pool.center", "segmentation": "segment.pixels",
               "detection": "detect.iou", "multilabel": "keep.max"}
        values = {"classification": "0.9,0.97", "regression": "0,2", "segmentation": "2000,4000", "detection": "0.45,0.65",
                  "multilabel": "2,4"}
        for task in TASKS:
            pool = manifest(task)
            found = self.done("sweep", pool, "--split", "test", "--over", f"{key[task]}={values[task]}")
            self.assertEqual([row["value"] for row in found["rows"]], values[task].split(","))
            for row in found["rows"]:
                compared = self.done("compare", pool, "--split", "test", "-m", "default", "-r", 0, "--set",
                                     f"{key[task]}={row['value']}")
                self.same(task, row, compared["rows"][0])
            self.assertNotEqual(*(row[SCORES[task][0]] for row in found["rows"]), task)

    def test_subsets_of_the_pool(self):
        # Of detections, folds of images follow the clusters of all members; these methods do without folds.
        methods = {"detection": "average,wbf,greedy"}
        for task in TASKS:
            pool, few = little(task)
            words = ("--split", "test", "-m", methods.get(task, "default,average,best-single"), *few)
            found = self.done("sweep", pool, *words, "--over", "pool.size=2,3", "--draws", 2)
            self.assertEqual(len(found["rows"]), 12)
            compared = {}
            for row in found["rows"]:
                names = tuple(row["members"])
                if names not in compared:
                    compared[names] = self.done("compare", self.part(task, names), *words, "-r", 0)
                one, = (other for other in compared[names]["rows"] if other["method"] == row["method"])
                for score in SCORES[task] + ("models", "kappa_gram", "kappa_cka"):
                    self.assertEqual(row[score], one[score], f"{task}: {row['method']} {row['members']} {score}")
            for summary in found["summary"]:
                rows = [row for row in found["rows"] if (row["method"], row["value"]) == (summary["method"], summary["value"])]
                first = SCORES[task][0]
                mean = sum(row[first] for row in rows) / len(rows)
                self.assertAlmostEqual(summary[first + "_mean"], mean, delta=1e-9 * max(1, abs(mean)))  # ten digits

    def test_presets_differ_in_how_many_members_they_keep(self):
        with tempfile.TemporaryDirectory() as folder:
            for task in ABLATED:  # multilabel does not distil
                pool, few = little(task)
                call = ("fit", pool, "-o", os.path.join(folder, "m.cstack"), "--set", "evaluate.nested=false", *few)
                found = {p: self.done(*call, "--preset", p) for p in ("default", "compact", "best")}
                kept = {preset: document["models_kept"] for preset, document in found.items()}
                members = found["default"]["models_in"]
                self.assertLess(kept["compact"], members, task)
                cost = {preset: document.get("flops_rel") or kept[preset] for preset, document in found.items()}
                self.assertLessEqual(cost["compact"], cost["default"], task)
                self.assertLessEqual(kept["default"], kept["best"], task)
                self.assertFalse(any("limits" in text for p in ("default", "best") for text in found[p]["notices"]), task)
                capped = ("--set", "select.tolerance=0.005") + (("--set", "select.rule=tolerance") if task == "detection" else ())
                again = self.done(*call, *capped)
                self.assertEqual((again["kept"], again["weights"]), (found["compact"]["kept"], found["compact"]["weights"]), task)
                path = found["default"]["path"]
                rows = found["default"]["samples"] if path else 1
                near = [s["excess"] <= 0.0015 * rows / (rows + 500) * min(t["loss"] for t in path) for s in path]  # the smallest one, whatever share that is
                self.assertEqual([s["chosen"] for s in path], [n and not any(near[:i]) for i, n in enumerate(near)], task)

    def test_comparisons_have_the_presets_that_are_named(self):
        for task in TASKS:
            pool, few = little(task)
            call = ("compare", pool, "--split", "test", "-r", 0, "-s", "checks=off", *few)
            names = [row["method"] for row in self.done(*call, "-m", "compact,best,default")["rows"]]
            self.assertEqual(names, ["compact", "best", "default"])
            if task == "regression":  # the quickest
                names = [row["method"] for row in self.done(*call)["rows"]]
                self.assertEqual([n for n in names if n in ("compact", "best", "default")], ["default"])
                everything = [row["method"] for row in self.done(*call, "-m", "all")["rows"]]
                self.assertEqual(sorted(everything), sorted([*names, "compact", "best"]))

    def test_a_method_that_fails_is_left_out(self):
        for task in TASKS:
            pool, few = self.part(task, None, lambda model: model.pop("flops", None)), little(task)[1]
            found = self.done("compare", pool, "--split", "test", "-r", 0, "--set", "keep.max_flops=1e9", *few)
            names = [row["method"] for row in found["rows"]]
            self.assertIn("average", names)
            self.assertNotIn("default", names)
            self.assertTrue(any(text.startswith("default is left out: ") for text in found["notices"]), found["notices"])
            result = run("compare", pool, "--split", "test", "-m", "average,default", "--set", "keep.max_flops=1e9")
            self.assertEqual(result.code, 2)
            self.assertIn("method default: member '", result.err)
            self.assertEqual(result.err.count("\n"), 1)

    @slow
    def test_differences_of_tests_are_the_reference_less_the_method(self):
        for task in TASKS:
            found = self.done("compare", manifest(task), "--split", "test", "-m", "average,best-single,default", "-r", 100)
            rows = {row["method"]: row for row in found["rows"]}
            checked = 0
            for test in found["tests"]:
                if test["metric"] in rows["default"] and "difference" in test:
                    difference = rows[test["a"]][test["metric"]] - rows[test["b"]][test["metric"]]
                    self.assertAlmostEqual(test["difference"], difference, delta=1e-6, msg=f"{task}: {test}")
                    checked += 1
            self.assertTrue(checked or task == "regression", task)

    def test_scores_that_are_not_defined(self):
        """Without true boxes AP is -1: there are no intervals and no tests, and no mean over draws."""
        pool = self.part("detection", None)
        truth = os.path.join(os.path.dirname(pool), "test.json")
        with open(truth, encoding="utf-8") as file:
            annotations = json.load(file)
        annotations["annotations"] = []
        with open(truth, "w", encoding="utf-8") as file:
            json.dump(annotations, file)
        found = self.done("compare", pool, "--split", "test", "-m", "average,wbf", "-r", 10)
        self.assertEqual([row["AP"] for row in found["rows"]], [-1, -1])
        self.assertNotIn("tests", found)
        found = self.done("sweep", pool, "--split", "test", "-m", "average", "--over", "pool.size=2", "--draws", 2)
        self.assertIsNone(found["summary"][0]["AP_mean"])

    def test_options_of_another_task_are_not_swept(self):
        for task, key in (("classification", "detect.iou"), ("regression", "segment.pixels"), ("detection", "segment.pixels")):
            result = run("sweep", manifest(task), "--over", key + "=0.4,0.6" if key == "detect.iou" else key + "=2000,3000")
            self.assertEqual(result.code, 2)
            self.assertIn(key + " is an option for ", result.err)

    def test_documents_have_the_same_parts(self):
        for task in TASKS:
            pool, few = little(task)
            found = self.done("compare", pool, "--split", "test", "-m", "average,default", "-r", 20, *few)
            for key in ("task", "split", "scored", "models_in", "seed", "resamples", "reference", "definitions", "members", "rows",
                        "tests", "adjustment", "seconds", "notices"):
                self.assertIn(key, found, task)
            for row in found["rows"]:
                for key in ("method", "definition", "detail", "mix", "weights", "models", "kappa_gram", "kappa_cka", "flops_rel", "seconds"):
                    self.assertIn(key, row, task)
                self.assertTrue(set(SCORES[task]) <= set(row))
            for key in SCORES[task]:
                self.assertTrue(found["definitions"][key])
            self.assertIn("difference", found["rows"][0])


if __name__ == "__main__":
    unittest.main()
