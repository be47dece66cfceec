"""compare, ablate and sweep: every form of the output, scores recomputed, what a method may see."""

import csv
import io
import json
import os
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import numpy as np
from scipy import stats

from support import DIGITS, SOURCES, TOOL, PoolCase, run, sample, small

FAST = "best-single,average,ridge,greedy+temperature,minimum-variance,log-linear,default"
SCORES = ("top1", "ece", "nll", "brier")


def scores(probabilities, labels):
    p = probabilities.astype(np.float64)
    rows = np.arange(len(labels))
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == labels
    edges = np.minimum((confidence * 15).astype(int), 14)
    ece = sum(
        abs(correct[edges == b].mean() - confidence[edges == b].mean()) * (edges == b).mean()
        for b in np.unique(edges)
    )
    target = np.eye(p.shape[1])[labels]
    return {
        "top1": correct.mean(),
        "ece": ece,
        "nll": -np.log(np.maximum(p[rows, labels], 1e-15)).mean(),
        "brier": ((p - target) ** 2).sum(axis=1).mean(),
    }


def without_seconds(value):
    """The document without what depends on the clock."""
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    if isinstance(value, list):
        return [without_seconds(v) for v in value]
    return value


class CompareCase(PoolCase):
    def compare(self, *more):
        return self.works("compare", self.pool, *more)

    def saved(self, folder, method, split="oof"):
        return np.load(os.path.join(folder, f"{method}.{split}.npy"))


class TestsOfAModel(CompareCase):
    """evaluate --baselines: a fitted model against simple rules, recomputed with SciPy."""

    def test_against_baselines(self):
        pool = small("digits", 4)
        self.works("fit", pool, "-o", self.model, "-s", "evaluate.nested=false", "-q")
        found = self.works("evaluate", self.model, pool, "-b", "--json").json()
        self.works("predict", self.model, pool, "--split", "test", "-o", os.path.join(self.folder, "p.npy"))
        with open(pool, encoding="utf-8") as file:
            manifest = json.load(file)
        at = lambda name: np.load(os.path.join(os.path.dirname(pool), name))
        labels = at(manifest["splits"]["test"]["labels"])
        best, = (row["detail"] for row in found["baselines"] if row["method"] == "best-single")
        file, = (m["predictions"]["test"] for m in manifest["models"] if m["name"] == best)
        rows = np.arange(len(labels))
        p = [np.load(os.path.join(self.folder, "p.npy")).astype(float), at(file).astype(float)]
        loss = [-np.log(np.maximum(q[rows, labels], 1e-15)) for q in p]
        right = [q.argmax(1) == labels for q in p]
        self.assertEqual(found["reference"], "corestack")
        tests = {(t["b"], t["metric"]): t for t in found["tests"]}
        self.assertEqual(set(tests), {(row["method"], score) for row in found["baselines"] for score in ("nll", "top1")})
        t = tests["best-single", "nll"]
        expected = stats.ttest_rel(*loss)
        self.assertAlmostEqual(t["p"], expected.pvalue, delta=1e-6)
        self.assertAlmostEqual(t["statistic"], expected.statistic, delta=1e-4)
        self.assertAlmostEqual(t["se"], (loss[0] - loss[1]).std(ddof=1) / len(labels) ** 0.5, delta=1e-6)
        self.assertAlmostEqual(t["difference"], found["nll"] - found["baselines"][0]["nll"], delta=1e-8)
        t = tests["best-single", "top1"]
        only = [int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())]
        self.assertEqual([t["only_a"], t["only_b"]], only)
        self.assertAlmostEqual(t["p"], stats.binomtest(only[0], sum(only)).pvalue, delta=1e-9)
        for (method, score), t in tests.items():
            self.assertAlmostEqual(t["p_adjusted"], min(1, 4 * t["p"]), delta=1e-9)
            gain = t["only_a"] - t["only_b"] if score == "top1" else -t["difference"]
            word = "no clear difference" if t["p_adjusted"] >= 0.05 else "better" if gain > 0 else "worse"
            self.assertEqual(t["verdict"], word, (method, score))
        self.assertEqual(len({t["verdict"] for t in tests.values()}), 2)
        text = self.works("evaluate", self.model, pool, "-b").out
        self.assertIn("Paired tests: corestack is", text)
        self.assertNotIn("Paired tests", self.works("evaluate", self.model, pool).out)


class ModelAsRow(CompareCase):
    """compare --with NAME=MODEL: the row has the scores that evaluate gives."""

    def test_every_task(self):
        for task, every in {"digits": 6, "regression": 2, "segmentation": 2, "detection": 2, "multilabel": 6}.items():
            pool = small(task, 4, every)
            self.works("fit", pool, "-o", self.model, "-s", "segment.pixels=300", "-s", "evaluate.nested=false", "-q")
            shown = self.works("evaluate", self.model, pool, "--json").json()
            found = self.works("compare", pool, "--split", "test", "-m", "average", "--with", f"mine={self.model}", "--reference", "mine",
                               "-r", "20", "--json").json()
            average, mine = found["rows"]
            self.assertEqual((found["reference"], mine["method"], mine["definition"]), ("mine", "mine", "a fitted model (preset default)"))
            for key in mine:
                if key in shown and isinstance(mine[key], float):
                    self.assertEqual(mine[key], shown[key], f"{task}: {key}")
            self.assertEqual(mine["models"], shown["models"])
            self.assertIn("difference", average)
            self.assertTrue(all(t["a"] == "mine" and t["b"] == "average" for t in found["tests"]), task)
            self.assertTrue(found["tests"], task)
            if task == "digits":
                self.assertEqual(mine["weights"] is None, len(self.works("show", self.model, "--json").json()["learners"]) > 1)
            self.assertRegex(run("compare", pool, "-m", "average", "-r", "0", "--with", self.model).err, "score the model on another split")

    def test_weights_are_in_the_order_of_the_pool(self):
        pool = small("digits", 5)
        report = self.works("fit", pool, "-o", self.model, "--method", "log-linear", "-s", "evaluate.nested=false", "--json").json()
        found = self.works("compare", pool, "--split", "test", "-m", "average", "--with", self.model, "-r", "0", "--json").json()
        row = found["rows"][1]
        self.assertEqual(row["mix"], "log-linear")
        weights = {name: w for name, w in zip(found["members"], row["weights"]) if w}
        self.assertEqual(weights, {name: w for name, w in report["weights"].items() if w})

    def test_refused(self):
        pool = small("digits", 3)
        self.works("fit", pool, "-o", self.model, "-s", "evaluate.nested=false", "-q")
        other = small("regression", 3)
        for words, says in (
            ((other, "--split", "test"), "is a model of classification, but the task of the pool is regression"),
            ((self.seen(pool), "--split", "again"), "was fitted on the rows of split 'again'"),
            ((self.missing(pool), "--split", "test", "--missing", "allow"), "predictions of rows are missing"),
        ):
            result = run("compare", *words, "-m", "average", "-r", "0", "--with", f"mine={self.model}")
            self.assertEqual(result.code, 2, result.err)
            self.assertIn(says, result.err)

    def changed(self, pool, name, change):
        with open(pool, encoding="utf-8") as file:
            manifest = json.load(file)
        change(manifest, os.path.dirname(pool))
        path = os.path.join(os.path.dirname(pool), name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        return path

    def seen(self, pool):
        """The rows of the fit under another name."""
        def change(manifest, folder):
            manifest["splits"]["again"] = {"labels": manifest["splits"]["oof"]["labels"]}
            for model in manifest["models"]:
                model["predictions"]["again"] = model["predictions"]["oof"]
        return self.changed(pool, "seen.json", change)

    def missing(self, pool):
        """A member without predictions of one row."""
        def change(manifest, folder):
            predictions = manifest["models"][0]["predictions"]
            array = np.load(os.path.join(folder, predictions["test"]))
            array[3] = np.nan
            predictions["test"] = "gap.npy"
            np.save(os.path.join(folder, "gap.npy"), array)
        return self.changed(pool, "missing.json", change)


class Forms(CompareCase):
    options = ("--methods", "average,ridge,default", "--resamples", "200", "--seed", "3")

    def test_json(self):
        document = self.compare(*self.options, "--json").json()
        self.assertEqual(document["command"], "compare")
        self.assertEqual((document["split"], document["scored"]), ("oof", "nested"))
        self.assertEqual((document["samples"], document["classes"]), (120, 3))
        self.assertEqual((document["models_in"], document["seed"]), (3, 3))
        self.assertEqual(document["resamples"], 200)
        self.assertEqual(document["reference"], "default")
        self.assertEqual([row["method"] for row in document["rows"]], ["average", "ridge", "default"])
        for row in document["rows"]:
            for key in SCORES:
                low, high = row[key + "_ci"]
                self.assertLessEqual(low, high)
                self.assertIn(key, document["definitions"])
            self.assertEqual("difference" in row, row["method"] != "default")
            if row["weights"] is not None:
                self.assertEqual(len(row["weights"]), 3)
            self.assertGreaterEqual(row["models"], 1)
        pairs = {(t["a"], t["b"], t["metric"]) for t in document["tests"]}
        self.assertEqual(
            pairs, {("default", m, k) for m in ("average", "ridge") for k in ("nll", "top1")}
        )
        for test in document["tests"]:
            self.assertAlmostEqual(test["p_adjusted"], min(1, 2 * test["p"]), places=9)

    def test_csv_has_what_the_json_has(self):
        document = self.compare(*self.options, "--json").json()
        rows = list(csv.DictReader(io.StringIO(self.compare(*self.options, "--csv").out)))
        self.assertEqual(len(rows), 3)
        for row, expected in zip(rows, document["rows"]):
            self.assertEqual(row["method"], expected["method"])
            self.assertNotIn("weights", row)
            for key in SCORES:
                self.assertAlmostEqual(float(row[key]), expected[key], places=9)
                self.assertAlmostEqual(float(row[key + "_low"]), expected[key + "_ci"][0], places=9)
                self.assertAlmostEqual(
                    float(row[key + "_high"]), expected[key + "_ci"][1], places=9
                )
            self.assertEqual(row["mix"], expected["mix"] or "")
            self.assertEqual(row["difference_nll"] == "", row["method"] == "default")

    def test_markdown(self):
        lines = self.compare(*self.options, "--markdown").out.splitlines()
        self.assertEqual(len(lines), 2 + 3)
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        self.assertTrue(lines[0].startswith("| method | top-1 % | ECE | NLL | Brier |"))
        self.assertEqual(set(lines[1]), set("|-:"))
        document = self.compare(*self.options, "--json").json()
        cells = [[cell.strip() for cell in line.split("|")] for line in lines[2:]]
        nll = [row["nll"] for row in document["rows"]]
        for column, value in enumerate(nll):
            mark = {0: "**", 1: "<u>"}.get(sorted(nll).index(value), "")
            self.assertTrue(cells[column][4].startswith(f"{mark}{value:.4f}"), cells[column][4])
            self.assertIn("[", cells[column][4])

    def test_text(self):
        text = self.compare(*self.options).out
        for words in (
            "corestack compare",
            "nested out-of-fold",
            "95% bootstrap interval, 200 resamples",
        ):
            self.assertIn(words, text)
        full = self.compare(*self.options, "--verbose").out
        for words in ("Paired tests of default against each method", "Definitions", "CORP"):
            self.assertNotIn(words, text)
            self.assertIn(words, full)
        more = self.compare("--methods", "best-single,average,default", "-r", "0", "--verbose").out
        self.assertIn("Spearman's rank correlation over 3 methods", more)
        colored = self.compare(*self.options, "--color", "always").out
        self.assertIn("\033[1m", colored)
        self.assertIn("\033[4m", colored)

    def test_rank(self):
        """Rows are ranked by the metric, else by what is tested; JSON keeps the order that was asked for."""
        methods = ["average", "ridge", "best-single", "default"]
        for metric, key, up in ((None, "nll", False), ("top1", "top1", True), ("mcc", "mcc", True)):
            how = ["--methods", ",".join(methods), "-r", "50", *(["--metric", metric] if metric else [])]
            document = self.compare(*how, "--json").json()
            rows = document["rows"]
            self.assertEqual((document["ranked_by"], [row["method"] for row in rows]), (key, methods))
            best = sorted(rows, key=lambda row: -row[key] if up else row[key])
            self.assertEqual([row["rank"] for row in best], [1, 2, 3, 4])
            lines = [line.split() for line in self.compare(*how).out.splitlines()]
            lines = [line for line in lines if line and line[0] in methods]
            self.assertEqual([line[0] for line in lines], [row["method"] for row in best])
            tests = {t["b"]: t for t in document["tests"] if t["metric"] == key}
            for line, row in zip(lines, best):
                if row["method"] == "default":
                    self.assertEqual(line[-1], "reference")
                    continue
                verdict = "unclear" if tests[row["method"]]["p_adjusted"] >= 0.05 else "better" if (row["difference"][key] > 0) == up else "worse"
                self.assertEqual(line[-3], verdict + ",")

    def test_held_out_split_is_said(self):
        result = self.compare("--methods", "average", "--split", "test", "-r", "0")
        self.assertIn("fitted on split oof, scored once on split test", result.out)
        document = self.compare("--methods", "average", "--split", "test", "-r", "0", "--json").json()
        self.assertEqual(document["scored"], "held-out")
        self.assertNotIn("resamples", document)
        self.assertNotIn("top1_ci", document["rows"][0])

    def test_no_reference_but_given(self):
        document = self.compare(
            "--methods", "average,ridge", "--reference", "ridge", "-r", "0", "--json"
        ).json()
        self.assertEqual(document["reference"], "ridge")
        self.assertEqual({t["b"] for t in document["tests"]}, {"average"})

    def test_list_of_methods(self):
        text = self.works("compare", "--list-methods").out
        self.assertEqual(text, self.works("compare", "--methods", "help").out)
        document = self.works("compare", "--list-methods", "--json").json()
        names = [entry["name"] for entry in document["methods"]]
        for name in ("average", "autogluon", "prototype", "paper", "default"):
            self.assertIn(name, names)
            self.assertIn(f"  {name} ", text)
        for entry in document["methods"] + document["calibrations"]:
            self.assertTrue(entry["definition"])
            self.assertIn(entry["definition"], " ".join(text.split()))
        self.assertEqual(
            [entry["name"] for entry in document["calibrations"]],
            ["temperature", "vector", "isotonic", "platt"],
        )

    def test_texts_of_presets_are_of_their_options(self):
        texts = {m["name"]: m["definition"] for m in self.works("compare", "--list-methods", "--json").json()["methods"]}
        options = {o["key"]: o for o in self.works("options", "--json").json()["options"]}
        self.assertIn(f"up to {100 * float(options['select.tolerance']['compact']):g}% more loss", texts["compact"])
        for preset in ("default", "compact", "best", "paper", "prototype"):
            self.assertEqual("refit" in texts[preset], options["refit.drop"][preset] == "true", preset)
        for preset, rule in (("paper", "lambda*"), ("prototype", "cross-validated")):
            self.assertIn(rule, texts[preset])
            self.assertEqual(options["lambda.rule"][preset], {"paper": "star", "prototype": "cv"}[preset])

    def test_evaluation_as_a_table(self):
        self.fit()
        arguments = ("evaluate", self.model, self.pool, "--baselines", "-r", "50")
        document = self.works(*arguments, "--json").json()
        rows = list(csv.DictReader(io.StringIO(self.works(*arguments, "--csv").out)))
        names = ["corestack"] + [row["method"] for row in document["baselines"]]
        self.assertEqual([row["method"] for row in rows], names)
        for key in SCORES:
            self.assertAlmostEqual(float(rows[0][key]), document[key], places=9)
            self.assertAlmostEqual(float(rows[0][key + "_low"]), document[key + "_ci"][0], places=9)
        lines = self.works(*arguments, "--markdown").out.splitlines()
        self.assertEqual(len(lines), 2 + len(names))


class Same(CompareCase):
    def test_any_number_of_threads(self):
        documents, files = [], []
        for threads in (1, 2, 4):
            folder = self.path(f"save{threads}")
            result = self.compare(
                "--methods", FAST, "-r", "100", "--json", "--threads", threads, "--save", folder
            )
            documents.append(json.dumps(without_seconds(result.json())))
            files.append({n: self.read(os.path.join(folder, n)) for n in os.listdir(folder)})
        self.assertEqual(len(files[0]), 7)
        self.assertEqual(documents[0], documents[1])
        self.assertEqual(documents[0], documents[2])
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])

    def test_other_forms_of_a_pool(self):
        options = ("--methods", "average,ridge", "-r", "0", "--json")
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob", "cyd")]
        expected = without_seconds(self.compare(*options).json())
        listed = self.works("compare", *files, "--labels", self.path("oof_labels.npy"), *options)
        self.assertEqual(without_seconds(listed.json()), expected)
        os.remove(self.pool)
        self.assertEqual(without_seconds(self.works("compare", self.folder, *options).json()), expected)


class Scores(CompareCase):
    def check(self, document, folder, split):
        labels = self.labels[split]
        for row in document["rows"]:
            found = scores(self.saved(folder, row["method"], split), labels)
            for key in SCORES:
                self.assertAlmostEqual(row[key], found[key], places=6, msg=(row["method"], key))

    def test_are_those_of_the_saved_predictions(self):
        for split in ("oof", "test"):
            folder = self.path("save-" + split)
            document = self.compare(
                "--methods", FAST, "--split", split, "-r", "0", "--json", "--save", folder
            ).json()
            self.assertEqual(
                sorted(os.listdir(folder)), sorted(f"{m}.{split}.npy" for m in FAST.split(","))
            )
            self.check(document, folder, split)
            for name in os.listdir(folder):
                array = np.load(os.path.join(folder, name))
                self.assertEqual((array.dtype, array.shape), (np.float32, (len(self.labels[split]), 3)))
                np.testing.assert_allclose(array.sum(axis=1), 1, atol=1e-5)

    def test_differences_and_t_tests(self):
        folder = self.path("save")
        document = self.compare(
            "--methods", "average,ridge", "--reference", "ridge", "--split", "test", "-r", "50",
            "--json", "--save", folder,
        ).json()  # fmt: skip
        labels = self.labels["test"]
        rows = np.arange(len(labels))
        loss, right = {}, {}
        for name in ("average", "ridge"):
            p = self.saved(folder, name, "test").astype(np.float64)
            loss[name] = -np.log(p[rows, labels])
            right[name] = p.argmax(axis=1) == labels
        tests = {t["metric"]: t for t in document["tests"]}
        d = loss["ridge"] - loss["average"]
        t = d.mean() / (d.std(ddof=1) / np.sqrt(len(d)))
        self.assertAlmostEqual(tests["nll"]["statistic"], t, places=4)
        self.assertEqual(tests["nll"]["df"], len(d) - 1)
        self.assertAlmostEqual(
            tests["nll"]["difference"], d.mean(), places=6
        )
        self.assertEqual(tests["top1"]["only_a"], (right["ridge"] & ~right["average"]).sum())
        self.assertEqual(tests["top1"]["only_b"], (right["average"] & ~right["ridge"]).sum())
        difference = document["rows"][0]["difference"]["nll"]
        self.assertAlmostEqual(difference, (loss["average"] - loss["ridge"]).mean(), places=6)

    def test_weights_are_those_of_the_mixture(self):
        folder = self.path("save")
        document = self.compare(
            "--methods", "average,minimum-variance,greedy", "--split", "test", "-r", "0", "--json",
            "--save", folder,
        ).json()  # fmt: skip
        members = [self.members[name, "test"] for name in ("ada", "bob", "cyd")]
        for row in document["rows"]:
            mixed = sum(w * p for w, p in zip(row["weights"], members))
            np.testing.assert_allclose(
                self.saved(folder, row["method"], "test"), mixed, atol=2e-6, err_msg=row["method"]
            )
            self.assertEqual(row["models"], sum(w != 0 for w in row["weights"]))

    def test_conditions(self):
        labels = self.labels["test"]
        corrupted = {}
        for k, name in enumerate(("ada", "bob", "cyd")):
            pages = [sample(60, 3, 100 + 10 * k + c, 1.0, labels)[1] for c in range(2)]
            corrupted[name] = np.stack(pages)
            self.save(f"{name}.corrupted.npy", corrupted[name])
            self.manifest["models"][k]["predictions"]["corrupted"] = f"{name}.corrupted.npy"
        self.manifest["splits"]["corrupted"] = {
            "labels": "test_labels.npy",
            "conditions": [{"shift": "noise", "kind": "gaussian", "severity": s} for s in (1, 2)],
        }
        self.write_manifest()
        folder = self.path("save")
        document = self.compare(
            "--methods", "average,ridge", "--split", "corrupted", "--json", "--save", folder
        ).json()
        self.assertEqual((document["conditions"], document["samples"]), (2, 60))
        for row in document["rows"]:
            saved = self.saved(folder, row["method"], "corrupted")
            self.assertEqual((saved.dtype, saved.shape), (np.float32, (2, 60, 3)))
            each = [scores(page, labels) for page in saved]
            for key in SCORES:
                self.assertAlmostEqual(row[key], np.mean([s[key] for s in each]), places=6)
        mean = np.mean([corrupted[name] for name in ("ada", "bob", "cyd")], axis=0)
        np.testing.assert_allclose(self.saved(folder, "average", "corrupted"), mean, atol=1e-6)

    def test_out_of_distribution_rows(self):
        for k, name in enumerate(("ada", "bob", "cyd")):
            _, far = sample(40, 3, 70 + k, 0.0)
            self.save(f"{name}.far.npy", far)
            self.manifest["models"][k]["predictions"]["far"] = f"{name}.far.npy"
        self.manifest["splits"]["far"] = {"ood": True}
        self.write_manifest()
        folder = self.path("save")
        arguments = ("--methods", "average,ridge", "--split", "test", "-r", "0", "--ood", "far")
        document = self.compare(*arguments, "--json", "--save", folder).json()
        self.assertEqual(document["ood"], "far")
        for row in document["rows"]:
            near = self.saved(folder, row["method"], "test").max(axis=1)
            far = self.saved(folder, row["method"], "far").max(axis=1)
            pairs = near[:, None] - far[None, :]
            expected = (pairs > 0).mean() + (pairs == 0).mean() / 2
            self.assertAlmostEqual(row["ood_auroc"], expected, places=6)
        text = self.compare(*arguments).out
        self.assertIn("Detection of out-of-distribution rows: split far", text)
        self.assertIn("AUROC", text)


class With(unittest.TestCase):
    """--with: a row of predictions that were made elsewhere."""

    quick = ("--methods", "average,greedy", "--reference", "greedy", "-r", "100")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.pools = {name: small(name) for name in ("digits", "concrete")}

    def compare(self, pool, *more, split="test"):
        result = run("compare", self.pools.get(pool, pool), "--split", split, *self.quick, *more, "--json")
        self.assertEqual(result.code, 0, result.err)
        return result.json()

    def average(self, pool="digits", split="test"):
        """The saved predictions of `average`."""
        folder = os.path.join(self.folder, f"{pool}.{split}")
        if not os.path.exists(folder):
            self.compare(pool, "--save", folder, split=split)
        return os.path.join(folder, f"average.{split}.npy")

    def changed(self, name, change, pool="digits", split="test"):
        path = os.path.join(self.folder, name)
        np.save(path, change(np.load(self.average(pool, split))))
        return path

    def refused(self, *words, pool="digits", says=()):
        result = run("compare", self.pools.get(pool, pool), "--methods", "average", "-r", "0", *words)
        self.assertEqual(result.code, 2, result.err)
        for text in says:
            self.assertIn(text, result.err)

    def check_same(self, document, name):
        """The row `name` is that of `average` but for what it costs."""
        rows = {row["method"]: row for row in document["rows"]}
        about = {"method", "definition", "detail", "rank", "mix", "weights", "models", "kappa_gram", "kappa_cka", "flops_rel", "seconds"}
        own = rows[name]
        self.assertIn("predictions of your own: ", own["definition"])
        self.assertEqual({key: own[key] for key in ("mix", "weights", "models", "kappa_cka", "flops_rel", "seconds")},
                         dict.fromkeys(("mix", "weights", "models", "kappa_cka", "flops_rel", "seconds")))
        for key, value in rows["average"].items():
            if key == "difference":
                for part, number in value.items():
                    np.testing.assert_allclose(np.array(own[key][part], float), np.array(number, float), atol=1e-6, err_msg=part)
            elif key not in about | {"nll", "nll_ci", "levels", "coverage", "width"} or document["task"] != "regression" and key.startswith("nll"):
                np.testing.assert_allclose(np.array(own[key], float), np.array(value, float), atol=1e-6, err_msg=key)
        tests = {(t["b"], t["metric"]): t["p_adjusted"] for t in document["tests"]}
        for metric in {metric for _, metric in tests}:
            self.assertAlmostEqual(tests[name, metric], tests["average", metric], places=5)

    def test_classification(self):
        for split in ("test", "oof"):
            path = self.average(split=split)
            document = self.compare("digits", "--with", f"my, average={path}", "--with", path, split=split)
            self.assertEqual([row["method"] for row in document["rows"]], ["average", "greedy", "my, average", f"average.{split}"])
            self.check_same(document, "my, average")
        result = run("compare", self.pools["digits"], "--split", "test", "--methods", "average", "-r", "20", "--with",
                     f"a={self.average()}", "--reference", "a", "--json")
        self.assertEqual(result.json()["reference"], "a")

    def test_files_of_several_splits(self):
        """A file for each split: the one of the split scored is read, of several splits each."""
        both = "mine=" + ",".join(f"{split}:{self.average(split=split)}" for split in ("oof", "test"))
        for split in ("test", "oof"):
            self.check_same(self.compare("digits", "--with", both, split=split), "mine")
        self.refused("--split", "test", "--with", f"mine=oof:{self.average()}", says=["are of other splits than 'test'", "add test:FILE"])
        self.refused("--split", "test", "--with", f"mine=tset:{self.average()}", says=["no split 'tset'; did you mean 'test'"])
        folder = os.path.dirname(self.average())
        self.refused("--split", "test", "--with", both, "--save", folder, says=["an input of the command"])
        pool = os.path.join(self.folder, "halves.json")
        with open(self.pools["digits"], encoding="utf-8") as file:
            document = json.load(file)
        home = os.path.dirname(self.pools["digits"])
        halves = {"a": slice(0, 30), "b": slice(30, None)}

        def half(path, name):
            to = os.path.join(self.folder, f"{name}.{os.path.basename(path)}")
            np.save(to, np.load(os.path.join(home, path))[halves[name]])
            return to

        document["splits"] = {"oof": {k: os.path.join(home, f) for k, f in document["splits"]["oof"].items()},
                              **{n: {"labels": half(document["splits"]["test"]["labels"], n)} for n in halves}}
        for model in document["models"]:
            model["predictions"] = {"oof": os.path.join(home, model["predictions"]["oof"]),
                                    **{n: half(model["predictions"]["test"], n) for n in halves}}
        with open(pool, "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.rename(half(self.average(), "a"), f"{self.folder}/a,1.npy")
        mine = f"mine=a:{self.folder}/a,1.npy,b:{half(self.average(), 'b')}"
        result = run("compare", pool, "--allow-outside", "--split", "a,b", "--methods", "average", "-r", "0", "--with", mine, "--json")
        self.assertEqual(result.code, 0, result.err)
        average, own = result.json()["rows"]
        for key in ("nll", "top1", "brier"):
            self.assertAlmostEqual(own[key], average[key], places=6)

    def test_regression(self):
        path = self.average("concrete")
        document = self.compare("concrete", "--with", f"mine={path}")
        row = document["rows"][-1]
        self.assertIsNone(row["nll"])
        self.assertNotIn("coverage", row)
        for key in ("rmse", "mae", "r2"):
            self.assertAlmostEqual(row[key], document["rows"][0][key], places=5)
        self.assertEqual(row["difference"]["rmse"], document["rows"][0]["difference"]["rmse"])
        text = run("compare", self.pools["concrete"], "--split", "test", *self.quick, "--with", f"mine={path}")
        self.assertRegex(text.out, r"mine .* -  ")

    def test_rows_by_id_and_classes_by_name(self):
        labels = np.load(os.path.join(os.path.dirname(self.pools["digits"]), "test_labels.npy"))
        p = np.load(self.average())
        ids = [f"s{i}" for i in range(len(p))]
        order = np.random.default_rng(1).permutation(len(p))

        def write(name, rows, classes, more=None):
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(",".join(["id", *(f"c{c}" for c in classes), *(["label"] if more is not None else [])]) + "\n")
                for i in rows:
                    cells = [repr(float(v)) for v in p[i, classes]]
                    file.write(",".join([ids[i], *cells, *([f"c{more[i]}"] if more is not None else [])]) + "\n")
            return path

        pool = write("pool.csv", range(len(p)), range(10), labels)
        mine = write("mine.csv", order, [3, 1, 2, 0, 4, 5, 6, 9, 8, 7])
        result = run("compare", pool, "--methods", "average", "-r", "0", "--with", mine, "--json")
        self.assertEqual(result.code, 0, result.err)
        average, own = result.json()["rows"]
        self.assertEqual(own["method"], "mine")
        self.assertAlmostEqual(own["nll"], average["nll"], places=6)

    def test_rows_that_do_not_count(self):
        """Rows of weight 0 may be anything; nothing but such rows."""
        rows = len(np.load(self.average()))
        weights = np.arange(rows) % 4 > 0
        pool = os.path.join(self.folder, "weighted.json")
        home = os.path.dirname(self.pools["digits"])
        with open(self.pools["digits"], encoding="utf-8") as file:
            document = json.load(file)
        np.save(os.path.join(self.folder, "w.npy"), weights.astype(float))
        document["splits"] = {name: {key: os.path.join(home, file) for key, file in split.items()} for name, split in document["splits"].items()}
        document["splits"]["test"]["weights"] = "w.npy"
        for model in document["models"]:
            model["predictions"] = {split: os.path.join(home, file) for split, file in model["predictions"].items()}
        with open(pool, "w", encoding="utf-8") as file:
            json.dump(document, file)
        path = self.changed("gaps.npy", lambda p: np.where(weights[:, None], p, np.nan))
        self.check_same(self.compare(pool, "--allow-outside", "--with", f"mine={path}"), "mine")
        self.refused("--split", "test", "--with", f"mine={path}", says=["gaps.npy: row 0", "NaN"])

    def test_saved_are_the_methods_alone(self):
        folder = os.path.join(self.folder, "saved")
        self.compare("digits", "--with", f"mine={self.average()}", "--save", folder)
        self.assertEqual(sorted(os.listdir(folder)), ["average.test.npy", "greedy.test.npy"])
        self.refused("--split", "test", "--with", f"mine={folder}/average.test.npy", "--save", folder, says=["an input of the command"])

    def test_refused(self):
        path = self.average()
        rows, classes = np.load(path).shape
        test = ("--split", "test")
        for words, says in (
            ((*test, "--with", f"average={path}"), "it is that of a method"),
            ((*test, "--with", f"all={path}"), "it is that of a method"),
            ((*test, "--with", f"a={path}", "--with", f"a={path}"), "it is that of another row"),
            ((*test, "--with", f"={path}"), "is not NAME=FILE"),
            ((*test, "--with", "a=" + self.folder + "/none.npy"), "none.npy: "),
            ((*test, "--with", "a=" + self.changed("few.npy", lambda p: p[1:])),
             f"few.npy: has {rows - 1} rows and {classes} columns, but split 'test' has {rows} rows and {classes} classes"),
            ((*test, "--with", "a=" + self.changed("one.npy", lambda p: p[:, 0])), f"one.npy: has {rows} rows and 1 column, but"),
            ((*test, "--with", "a=" + self.changed("deep.npy", lambda p: p[None])), "[rows, classes]"),
            ((*test, "--with", "a=" + self.changed("logits.npy", np.log)), "take their exponentials"),
            ((*test, "--with", "a=" + self.changed("twice.npy", lambda p: p * 2)), "twice.npy: row 0 sums to 2"),
            (("--with", f"a={path}"), "split 'oof' has"),
            ((*test, "--splits", "2", "--with", f"a={path}"), "--with"),
            (("--holdout", "0.2", "--with", f"a={path}"), "--with"),
            ((*test, "--ood", "oof", "--with", f"a={path}"), "--with"),
            (("--split", "test,more", "--with", f"a={path}"), "give a file for each"),
        ):
            with self.subTest(says):
                self.refused(*words, says=[says])
        self.refused("--split", "corrupted", "--with", f"a={path}", pool=os.path.join(SOURCES, "examples/cifar10/pool.json"),
                     says=["without conditions"])


class Leaks(CompareCase):
    """A fit that saw the rows it is scored on would follow their labels."""

    methods = FAST + ",lasso,mlp,hill-climbing,average+isotonic,prototype"

    def setUp(self):
        super().setUp()
        self.fold = (np.arange(self.rows) % 4).astype(np.int32)
        self.save("folds.npy", self.fold)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()

    def predictions(self, folder, split):
        folder = self.path(folder)
        self.compare("--methods", self.methods, "--split", split, "-r", "0", "--save", folder)
        return {m: self.saved(folder, m, split) for m in self.methods.split(",")}

    def test_labels_of_a_fold_change_nothing_in_it(self):
        before = self.predictions("before", "oof")
        labels = self.labels["oof"].copy()
        labels[self.fold == 2] = (labels[self.fold == 2] + 1) % 3
        self.save("oof_labels.npy", labels)
        after = self.predictions("after", "oof")
        inside = self.fold == 2
        for method, p in before.items():
            self.assertEqual(p[inside].tobytes(), after[method][inside].tobytes(), method)
        for method in ("ridge", "greedy+temperature", "log-linear", "default", "mlp"):
            self.assertFalse(np.array_equal(before[method][~inside], after[method][~inside]), method)

    def test_labels_of_the_test_split_change_no_prediction(self):
        before = self.predictions("before", "test")
        self.save("test_labels.npy", (self.labels["test"] + 1) % 3)
        after = self.predictions("after", "test")
        for method, p in before.items():
            self.assertEqual(p.tobytes(), after[method].tobytes(), method)

    def test_nested_scores_are_not_those_of_the_fit_on_all_rows(self):
        """The oof rows as a split of their own: what the fit on all of them says of them."""
        nested = self.predictions("nested", "oof")
        self.manifest["splits"]["again"] = {"labels": "oof_labels.npy"}
        for model in self.manifest["models"]:
            model["predictions"]["again"] = model["predictions"]["oof"]
        self.write_manifest()
        seen = self.predictions("seen", "again")
        self.assertTrue(np.array_equal(nested["average"], seen["average"]))
        for method in ("ridge", "log-linear", "default", "mlp", "average+isotonic"):
            self.assertFalse(np.array_equal(nested[method], seen[method]), method)
        labels = self.labels["oof"]
        for method in ("log-linear", "average+isotonic"):  # these minimise or flatter the NLL
            self.assertLess(scores(seen[method], labels)["nll"], scores(nested[method], labels)["nll"])


class Ablate(CompareCase):
    stages = ["prototype", "+S1 CKA", "+S2 gate", "+S3 lambda*", "+S4 Laplace", "+S5 refit"]

    def test_each_stage_is_a_row(self):
        options = ("--split", "test", "-r", "50", "--set", "gate.epochs=3")
        folder = self.path("save")
        document = self.works("ablate", self.pool, *options, "--json", "--save", folder).json()
        self.assertEqual([row["stage"] for row in document["rows"]], self.stages)
        self.assertEqual(document["rows"][0]["settings"], ["gate.epochs=3"])
        for row in document["rows"]:
            name = row["stage"].replace(" ", "_").replace("*", "_")
            found = scores(self.saved(folder, name, "test"), self.labels["test"])
            for key in SCORES:
                self.assertAlmostEqual(row[key], found[key], places=6)
        for before, row in zip(document["rows"], document["rows"][1:]):
            self.assertAlmostEqual(row["difference"]["nll"], row["nll"] - before["nll"], places=8)
        rows = list(csv.DictReader(io.StringIO(self.works("ablate", self.pool, *options, "--csv").out)))
        marked = ["'" + stage if stage.startswith("+") else stage for stage in self.stages]  # else a spreadsheet computes them
        self.assertEqual([row["stage"] for row in rows], marked)
        lines = self.works("ablate", self.pool, *options, "--markdown").out.splitlines()
        self.assertEqual(len(lines), 2 + 6)
        text = self.works("ablate", self.pool, *options).out
        for words in self.stages + ["Difference from the row before", "held-out"]:
            self.assertIn(words, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith("  - ")), 130)

    def test_first_and_last_row_are_the_presets(self):
        options = ("--split", "test", "-r", "0", "--json", "--set", "gate.epochs=3")
        rows = self.works("ablate", self.pool, *options).json()["rows"]
        presets = self.compare("--methods", "prototype,paper", *options).json()["rows"]
        for key in SCORES:
            self.assertEqual(rows[0][key], presets[0][key])
            self.assertEqual(rows[4][key], presets[1][key])


class Sweep(CompareCase):
    def values(self, over, *more):
        document = self.works("sweep", self.pool, "--over", over, "--json", *more).json()
        return [row["value"] for row in document["rows"]]

    def test_ranges_do_not_drift(self):
        prototype = ("--methods", "prototype", "--split", "test")
        self.assertEqual(
            self.values("pearson.threshold=0.70:0.95:0.05", *prototype),
            ["0.70", "0.75", "0.80", "0.85", "0.90", "0.95"],
        )
        self.assertEqual(
            self.values("pearson.threshold=0.1:0.7:0.1", *prototype),
            ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"],
        )
        self.assertEqual(
            self.values("pearson.threshold=.9:0.5:-0.25", *prototype), ["0.90", "0.65"]
        )
        self.assertEqual(self.values("keep.max=1.0:3.00:2", *prototype), ["1", "3"])
        self.assertEqual(self.values("pool.size=1.0:2.0:1", "--methods", "average", "--draws", "1"), ["1", "2"])
        self.assertEqual(
            self.values("redundancy.measure=pearson,cka", *prototype), ["pearson", "cka"]
        )
        self.assertEqual(
            self.values("meta.learners=ridge;ridge,lasso", *prototype), ["ridge", "ridge,lasso"]
        )

    def test_each_row_is_the_comparison_with_that_option(self):
        document = self.works(
            "sweep", self.pool, "--over", "keep.max=1,2", "--split", "test", "--json"
        ).json()
        self.assertEqual(document["key"], "keep.max")
        for row in document["rows"]:
            one = self.compare(
                "--methods", "default", "--split", "test", "-r", "0", "--json",
                "--set", "keep.max=" + row["value"],
            ).json()["rows"][0]  # fmt: skip
            for key in SCORES:
                self.assertEqual(row[key], one[key])
            self.assertEqual(row["models"], one["models"])

    def test_sizes_of_the_pool(self):
        arguments = (
            "sweep", self.pool, "--over", "pool.size=1:3:1", "--draws", "2", "--methods", "average",
            "--split", "test",
        )  # fmt: skip
        document = self.works(*arguments, "--json").json()
        self.assertEqual((document["key"], document["draws"]), ("pool.size", 2))
        self.assertEqual(len(document["rows"]), 6)
        for row in document["rows"]:
            self.assertEqual(len(row["members"]), int(row["value"]))
            mean = np.mean([self.members[name, "test"] for name in row["members"]], axis=0)
            found = scores(mean, self.labels["test"])
            for key in ("top1", "nll", "brier"):
                self.assertAlmostEqual(row[key], found[key], places=6)
        for entry in document["summary"]:
            nll = [r["nll"] for r in document["rows"] if r["value"] == entry["value"]]
            self.assertAlmostEqual(entry["nll_mean"], np.mean(nll), places=8)
            self.assertAlmostEqual(entry["nll_sd"], np.std(nll, ddof=1), places=6)
        self.assertEqual(document["summary"][2]["top1_sd"], 0)
        rows = list(csv.DictReader(io.StringIO(self.works(*arguments, "--csv").out)))
        self.assertEqual([row["members"].split(";") for row in rows],
                         [row["members"] for row in document["rows"]])  # fmt: skip
        self.assertEqual(len(self.works(*arguments, "--markdown").out.splitlines()), 2 + 6)
        text = self.works(*arguments).out
        self.assertIn("pool.size", text)
        self.assertIn("sd ", text)
        self.assertNotIn("Single subsets", text)
        self.assertIn("Single subsets", self.works(*arguments, "-v").out)


class Refused(CompareCase):
    def compare_fails(self, *arguments, says=()):
        self.fails("compare", self.pool, "-r", "0", *arguments, says=says)

    def sweep_fails(self, over, *says, more=()):
        self.fails("sweep", self.pool, "--over", over, *more, says=says)

    def test_methods(self):
        self.compare_fails("--methods", "rigde", says=["unknown method 'rigde'", "did you mean 'ridge'"])
        self.compare_fails("--methods", "qqqqqqqq", says=["--list-methods"])
        self.compare_fails("--methods", "ridge,,lasso", says=["empty name"])
        self.compare_fails("--methods", "", says=["empty name"])
        self.compare_fails("--methods", "ridge+heat", says=["+temperature"])
        self.compare_fails("--methods", "all+vector", says=["+temperature"])
        self.compare_fails("--methods", "ridge", "--reference", "lasso", says=["lasso"])
        self.compare_fails("--methods", "soup", says=["soup"])

    def test_forms_exclude_one_another(self):
        for forms in (("--json", "--csv"), ("--csv", "--markdown"), ("--json", "--markdown")):
            self.compare_fails("--methods", "average", *forms, says=forms)
            self.fails("ablate", self.pool, *forms, says=forms)
            self.fails("sweep", self.pool, "--over", "keep.max=1,2", *forms, says=forms)

    def test_other_options(self):
        self.compare_fails("--split", "tset", says=["tset"])
        self.compare_fails("--ood", "oof", says=["oof"])
        self.compare_fails("--set", "cka.treshold=1", says=["did you mean 'cka.threshold'"])
        self.compare_fails("--set", "seed=3", says=["--seed"])
        self.fails("compare", self.pool, "-r", "-1", says=["-1"])
        self.fails("compare", says=["no pool given"])
        self.fails("ablate", says=["no pool given"])
        self.fails("ablate", self.pool, "--methods", "ridge", says=["--methods"])

    def test_ranges(self):
        self.fails("sweep", self.pool, says=["--over"])
        self.sweep_fails("keep.max", "KEY=")
        self.sweep_fails("=1,2", "KEY=")
        self.sweep_fails("keep.mux=1,2", "did you mean 'keep.max'")
        self.sweep_fails("pool.sise=1,2", "did you mean 'pool.size'")
        self.sweep_fails("keep.max=", "empty value")
        self.sweep_fails("keep.max=1,,2", "empty value")
        self.sweep_fails("keep.max=1:2", "LO:HI:STEP")
        self.sweep_fails("keep.max=3:1:1", "is empty")
        self.sweep_fails("keep.max=1:3:-1", "is empty")
        self.sweep_fails("keep.max=1:3:0", "is empty")
        self.sweep_fails("keep.max=1:x:1", "'x'")
        self.sweep_fails("keep.max=1:2:0.5", "keep.max", "'1.5' is not a whole number")
        self.sweep_fails("keep.max=1:2:1:1", "'1:1'")
        self.sweep_fails("cka.threshold=0:1:0.00001", "100001 values")
        self.sweep_fails("cka.threshold=0:9999999999999:0.00000000000001", "digits")
        self.sweep_fails("cka.threshold=0.5,2", "cka.threshold")
        self.sweep_fails("pool.size=1:4:1", "from 1 to 3")
        self.sweep_fails("keep.max=1,2", "ridge", more=("--methods", "ridge"))
        self.sweep_fails("keep.max=1,2", "pool.size", more=("--draws", "3"))
        self.sweep_fails("pool.size=1,2", "--draws", more=("--draws", "0"))

    def test_save_is_never_an_input(self):
        words = ["an input of the command"]
        self.compare_fails("--methods", "average", "--save", self.folder, says=words)
        os.symlink(self.folder, self.path("link"))
        self.compare_fails("--methods", "average", "--save", self.path("link"), says=words)
        for name in ("ridge.oof.npy",):
            inner = self.path("inner")
            os.mkdir(inner)
            os.rename(self.path("ada.oof.npy"), os.path.join(inner, name))
            self.manifest["models"][0]["predictions"]["oof"] = "inner/" + name
        self.write_manifest()
        before = self.read(os.path.join(inner, "ridge.oof.npy"))
        self.compare_fails("--methods", "ridge", "--save", inner, says=words)
        self.assertEqual(self.read(os.path.join(inner, "ridge.oof.npy")), before)

    def test_save_leaves_nothing_after_an_error(self):
        self.compare_fails("--save", self.path("a/b"), says=["a/b"])
        self.compare_fails("--save", self.pool, says=["pool.json"])
        self.compare_fails("--save", "", says=["--save"])
        folder = self.path("new")
        self.compare_fails("--methods", "average,soup", "--save", folder, says=["soup"])
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = run("compare", self.pool, "--methods", "average", "--save", folder, stdout=full)
        self.assertEqual(result.code, 2, result.err)
        self.assertFalse(os.path.exists(folder))
        os.mkdir(folder)
        old = os.path.join(folder, "average.oof.npy")
        with open(old, "w", encoding="utf-8") as file:
            file.write("old")
        result = run("compare", self.pool, "--methods", "average", "--save", folder, file_limit=300)
        self.assertEqual(result.code, 2, result.out)
        self.assertEqual(os.listdir(folder), ["average.oof.npy"])
        self.assertEqual(self.read(old), b"old")
        self.works("compare", self.pool, "--methods", "average", "--save", folder)
        self.assertEqual(np.load(old).shape, (120, 3))


    def test_saved_over_what_is_there(self):
        """Links and permissions stay, as those of -o do."""
        os.mkdir(self.path("saved"))
        os.mkdir(self.path("store"))
        words = ("--methods", "average,best-single,ridge", "--split", "test", "--save", self.path("saved"))
        for name, mode in (("saved/average.test.npy", 0o600), ("store/real.npy", 0o640)):
            with open(self.path(name), "wb") as file:
                file.write(b"older")
            os.chmod(self.path(name), mode)
        link = self.path("saved/best-single.test.npy")
        os.symlink("../store/real.npy", link)
        self.compare(*words, "-r", "0")
        self.assertTrue(os.path.islink(link))
        names = ("saved/average.test.npy", "store/real.npy", "saved/ridge.test.npy")
        mask = os.umask(0o22)
        os.umask(mask)
        usual = 0o666 & ~mask
        self.assertEqual([stat.S_IMODE(os.stat(self.path(n)).st_mode) for n in names], [0o600, 0o640, usual])
        np.testing.assert_array_equal(np.load(self.path("store/real.npy")), self.saved(self.path("saved"), "best-single", "test"))
        self.assertEqual((sorted(os.listdir(self.path("store"))), len(os.listdir(self.path("saved")))), (["real.npy"], 3))
        for target, says in (("nowhere", "is a dangling link"), ("../ada.oof.npy", "an input of the command"), (".", "is not a regular file")):
            os.remove(link)
            os.symlink(target, link)
            self.compare_fails(*words, says=["--save", "best-single.test.npy", says])
            self.compare_fails("--split", "test", "--save", self.path("saved"), says=["best-single.test.npy", says])

    def test_links_to_what_is_read(self):
        """Those of an ablation and of the clean split that the manifest names, too: before anything is computed."""
        os.mkdir(self.path("saved"))
        read = self.path("ada.test.npy")
        before = self.read(read)
        both = np.stack([self.members["ada", "test"]] * 2)
        for model in self.manifest["models"]:
            model["predictions"]["corr"] = "corr.npy"
        self.save("corr.npy", both)
        conditions = [{"shift": "noise", "kind": "x", "severity": s} for s in (1, 2)]
        self.manifest["splits"]["corr"] = {"labels": "test_labels.npy", "conditions": conditions, "clean": "test"}
        self.write_manifest()
        for name, words in (("+S1_CKA.test.npy", ("ablate", self.pool, "--split", "test")), ("+S4_Laplace.oof.npy", ("ablate", self.pool)),
                            ("average.test.npy", ("compare", self.pool, "--methods", "average", "--split", "corr"))):
            link = self.path("saved/" + name)
            os.symlink("../ada.test.npy", link)
            self.fails(*words, "--save", self.path("saved"), says=["--save", name, "leads to", "an input of the command"])
            self.assertEqual((os.listdir(self.path("saved")), self.read(read)), ([name], before))
            os.remove(link)
        os.mkdir(self.path("saved/average.test.npy"))  # which an ablation does not write
        self.works("ablate", self.pool, "--split", "test", "-r", "0", "--set", "gate.epochs=1", "--save", self.path("saved"))

    def test_links_to_one_file(self):
        os.mkdir(self.path("saved"))
        words = ("--split", "test", "--save", self.path("saved"), "--methods")
        link = self.path("saved/average.test.npy")
        for target in ("best-single.test.npy", "../else.npy"):
            with open(self.path(os.path.join("saved", target)), "wb") as file:
                file.write(b"older")
            os.symlink(target, link)
            if target.startswith(".."):
                os.remove(self.path("saved/best-single.test.npy"))
                os.symlink(target, self.path("saved/best-single.test.npy"))
            self.compare_fails(*words, "average,best-single", says=["average.test.npy", "best-single.test.npy", "are the same file"])
            self.compare(*words, "average", "-r", "0")
            os.remove(link)

    def test_the_report_in_the_place_of_a_file(self):
        os.mkdir(self.path("saved"))
        place = self.path("saved/average.test.npy")
        with open(place, "wb") as file:
            result = run("compare", self.pool, "--methods", "average", "--split", "test", "-r", "0", "--save", self.path("saved"), stdout=file)
        self.assertEqual((result.code, result.err.count("\n"), self.read(place)), (2, 1, b""), result.err)
        self.assertIn("receives the report", result.err)

    def test_names_that_would_be_one(self):
        """Refused before anything is computed, as what is too long for a name is."""
        most = os.pathconf(self.folder, "PC_NAME_MAX")
        for name in ("a b", "a_b", "a/b", "l" * (most - len("average.") - 3)):
            self.manifest["splits"][name] = self.manifest["splits"]["test"]
            for model in self.manifest["models"]:
                model["predictions"][name] = model["predictions"]["test"]
        self.write_manifest()
        os.mkdir(self.path("saved"))
        words = ("--methods", "average", "--save", self.path("saved"))
        for pair in (("a b", "a_b"), ("a/b", "a b")):
            self.compare_fails(*words, "--split", ",".join(pair), says=[*pair, "would have the same name (a_b.npy)"])
        self.compare_fails(*words, "--split", "test", "--ood", "a b,a_b", says=["would have the same name"])
        self.compare_fails(*words, "--split", "test," + name, says=["is too long for this file system", str(most)])
        self.assertEqual(os.listdir(self.path("saved")), [])
        self.compare(*words, "-r", "0", "--split", "a b,test")
        self.assertEqual(sorted(os.listdir(self.path("saved"))), ["average.a_b.npy", "average.test.npy"])

    def test_an_interrupt_leaves_nothing(self):
        folder = self.path("new")
        process = subprocess.Popen(
            [TOOL, "compare", DIGITS, "--methods", "average,best-single,default,paper", "--save", folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (os.path.isdir(folder) and os.listdir(folder)):
            time.sleep(0.01)
        self.assertTrue(os.listdir(folder))
        process.terminate()
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(out, b"")
        self.assertFalse(os.path.exists(folder))


class Digits(unittest.TestCase):
    def test_leaderboard_of_the_example(self):
        result = run(
            "compare", small("digits", 8, 2), "--split", "test", "--methods", "best-single,average,greedy,default,compact",
            "-r", "500", "--json",
        )  # fmt: skip
        self.assertEqual(result.code, 0, result.err)
        rows = {row["method"]: row for row in result.json()["rows"]}
        self.assertLess(rows["default"]["nll"], rows["greedy"]["nll"])
        self.assertLess(rows["default"]["nll"], rows["best-single"]["nll"])
        self.assertLessEqual(rows["default"]["flops_rel"], 1)
        self.assertLess(rows["compact"]["flops_rel"], 1)
        adjusted = {t["b"]: t["p_adjusted"] for t in result.json()["tests"] if t["metric"] == "nll"}
        self.assertLess(adjusted["average"], 0.05)


if __name__ == "__main__":
    unittest.main()
