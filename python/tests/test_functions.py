"""The functions: the same bytes as the command line, any layout, errors as exceptions, progress and interrupts."""
from __future__ import annotations

import io
import json
import logging
import os
import pickle
import re
import signal
import sys
import tempfile
import threading
import time
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
from common import EXAMPLES, QUICK, digits, needs_tool, run_tool, small_digits, toy, without_times

import corestack
from corestack import _library as c
from corestack import _session

SMALL = small_digits()


def documents(page):
    """The commands whose documents are in a page."""
    return list(json.loads(re.search('id="data">(.*?)</script>', page.read_text(), re.DOTALL).group(1)))[1:]


class AsTheCommandLine(unittest.TestCase):
    """Arrays and files give what the tool gives."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = Path(cls.folder.name)
        cls.manifest, cls.oof, cls.test, cls.y, cls.y_test, cls.folds = digits(SMALL)
        cls.about = dict(
            folds=cls.folds, classes=cls.manifest["classes"],
            **{key: {m["name"]: m[key] for m in cls.manifest["models"]} for key in ("flops", "params")},
        )
        cls.stack = corestack.fit(cls.oof, cls.y, **cls.about, **QUICK)

    def test_declared_label_noise(self):
        file, tools = self.path / "suspects.csv", self.path / "tools.csv"
        stack = corestack.fit(self.oof, self.y, **self.about, label_noise=0.05, suspects=file, **QUICK)
        noise = stack.report["noise"]
        self.assertEqual((noise["rule"], noise["rows_left_out"]), ("human", len(file.read_text().splitlines()) - 1))
        self.assertEqual(stack.settings["noise.rate"], "0.05")
        self.assertEqual(stack.report["samples"], len(self.y) - noise["rows_left_out"])
        run_tool("inspect", SMALL, "--label-noise", "human", "--suspects", tools)
        corestack.inspect(SMALL, label_noise="human", suspects=file)
        self.assertEqual(file.read_bytes(), tools.read_bytes())
        self.assertNotIn("noise", self.stack.report)
        for wrong in ("all", True, 0, 1):
            with self.assertRaisesRegex(corestack.ArgumentError, "label_noise: is"):
                corestack.fit(self.oof, self.y, label_noise=wrong)

    def test_page_of_a_report(self):
        model, page, tools = (self.path / name for name in ("page.cstack", "page.html", "tools.html"))
        self.stack.save(model)
        self.stack.report_html(SMALL, page, resamples=20)
        run_tool("report", model, SMALL, "-o", tools, "-r", "20")
        named = json.dumps(str(model))
        self.assertEqual(page.read_text(), tools.read_text().replace(f'"model":{named}', '"model":null'))
        with self.assertRaisesRegex(corestack.ArgumentError, "pool: give the path of a pool"):
            self.stack.report_html(self.oof, page)
        about = {"methods": ["average"], "split": "test", "resamples": 0}
        corestack.fit(SMALL, html=page, **QUICK)
        self.assertEqual(documents(page), ["fit", "show"])
        corestack.compare(SMALL, html=page, **about)
        self.assertEqual(documents(page), ["compare"])
        corestack.sweep(SMALL, over="seed", values=[0, 1], html=page, **about)
        self.assertEqual(documents(page), ["sweep"])
        corestack.inspect(SMALL, html=page)
        self.assertEqual(documents(page), ["inspect"])
        corestack.monitor(self.stack, SMALL, html=page)
        self.assertEqual(documents(page), ["monitor", "show", "fit"])

    def test_table_in_a_notebook(self):
        stack = corestack.fit({f"{name}<script>": p for name, p in self.oof.items()}, self.y)
        text = stack._repr_html_()
        self.assertNotIn("<script", text)
        self.assertEqual(text.count("&lt;script&gt;"), 1 + min(5, len(stack.kept)))
        score, alone = stack.report["oof"]["nll"], min(m["nll"] for m in stack.report["members"])
        self.assertIn(f"<td>NLL {score:.4g}, out of fold</td>", text)
        self.assertIn(("<td>better than" if score < alone else "<td>not better than") + " the best model alone", text)
        loaded = corestack.Stack.from_bytes(stack.to_bytes())._repr_html_()
        self.assertNotIn("Verdict", loaded)
        self.assertIn(f"<td>{len(stack.kept)}: ", loaded)

    def test_limits_on_cost(self):
        names = list(self.oof)
        for key, option in (("flops", "keep_max_flops"), ("latency_ms", "keep_max_latency"), ("params", "keep_max_params")):
            costs = {name: 1.0 + (7 * k) % len(names) for k, name in enumerate(names)}
            for given in (costs, list(costs.values())):
                stack = corestack.fit(self.oof, self.y, **{key: given, option: 9.0}, **QUICK)
                self.assertLessEqual(sum(costs[name] for name in stack.report["kept"]), 9)
        parallel = corestack.fit(self.oof, self.y, latency_ms=costs, keep_max_latency=6, keep_latency="max", **QUICK)
        kept = [costs[name] for name in parallel.report["kept"]]
        self.assertLessEqual(max(kept), 6)
        self.assertGreater(sum(kept), 6)
        with self.assertRaisesRegex(corestack.InputError, f"cheapest, '{names[0]}', has latency_ms 1"):
            corestack.fit(self.oof, self.y, latency_ms=costs, keep_max_latency=0.5, **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "has no latency_ms"):
            corestack.fit(self.oof, self.y, flops=costs, keep_max_latency=5, **QUICK)
        rows = corestack.compare(self.oof, self.y, methods=["default"], latency_ms=costs, keep_max_latency=9, resamples=0)["rows"]
        self.assertEqual(len(rows), 1)

    @needs_tool
    def test_fit_and_predict(self):
        model = self.path / "tool.cstack"
        quick = ["--set", "evaluate.nested=false"]
        printed = json.loads(run_tool("fit", SMALL / "pool.json", "-o", model, "--json", *quick))
        self.assertEqual(self.stack.to_bytes(), model.read_bytes())
        self.stack.save(self.path / "python.cstack")
        self.assertEqual((self.path / "python.cstack").read_bytes(), model.read_bytes())
        found, expected = without_times(dict(self.stack.report)), without_times(printed)
        expected["model"] = None
        for member in expected["members"]:  # arrays have no families
            member["family"] = None
        self.assertEqual(found, expected)
        run_tool("predict", model, SMALL / "pool.json", "--split", "test", "-o", self.path / "p.npy")
        p = np.load(self.path / "p.npy")
        self.assertEqual(self.stack.predict(self.test).tobytes(), p.tobytes())
        loaded = corestack.load(model)
        self.assertEqual(loaded.predict(SMALL / "pool.json", split="test").tobytes(), p.tobytes())
        self.assertEqual(loaded.weights, self.stack.weights)
        scored = json.loads(run_tool("evaluate", self.path / "p.npy", "--labels", SMALL / "test_labels.npy", "--json"))
        self.assertEqual(dict(corestack.evaluate(p, self.y_test)), scored)
        scored = json.loads(
            run_tool("evaluate", model, SMALL / "pool.json", "--split", "test", "--resamples", 200, "--json")
        )
        here = loaded.evaluate(SMALL / "pool.json", split="test", resamples=200)
        self.assertEqual(without_times(dict(here)), without_times(scored))
        self.assertEqual(here["nll_ci"], loaded.evaluate(self.test, self.y_test, resamples=200)["nll_ci"])

    @needs_tool
    def test_folder_of_files_with_nested_scores(self):
        preds, y = toy()
        folder = self.path / "folder"
        folder.mkdir()
        np.save(folder / "oof_labels.npy", y)
        for name, p in preds.items():
            np.save(folder / f"oof_{name}.npy", p)
        np.savetxt(folder / "oof_text.csv", preds["model0"], delimiter=",", fmt="%.17g")
        preds["text"] = preds["model0"]
        printed = json.loads(run_tool("fit", folder, "-o", self.path / "folder.cstack", "--json"))
        for stack in (corestack.fit(folder), corestack.fit(preds, y)):
            self.assertEqual(stack.to_bytes(), (self.path / "folder.cstack").read_bytes())
            self.assertEqual(stack.report["oof"], printed["oof"])
            self.assertTrue(stack.report["oof"]["nested"])

    @needs_tool
    def test_other_presets_and_options(self):
        model = self.path / "other.cstack"
        run_tool(
            "fit", SMALL / "pool.json", "-o", model, "--preset", "prototype", "--seed", 7, "--set",
            "evaluate.nested=false", "--set", "pearson.threshold=0.9",
        )  # fmt: skip
        ways = (
            dict(seed=7, evaluate_nested=False, pearson_threshold=0.9),
            dict(options={"seed": 7, "evaluate.nested": False, "pearson.threshold": "0.9"}),
        )
        for how in ways:
            stack = corestack.fit(self.oof, self.y, preset="prototype", **self.about, **how)
            self.assertEqual(stack.to_bytes(), model.read_bytes())
        self.assertEqual(stack.settings["pearson.threshold"], "0.9")
        self.assertEqual(stack.weights, {})

    @needs_tool
    def test_inspect_and_compare(self):
        printed = json.loads(run_tool("inspect", SMALL / "pool.json", "--json"))
        report = corestack.inspect(self.oof, self.y, **self.about)
        for key in ("cka", "pearson", "clusters", "eigenvalues", "lambda", "kappa_gram", "kappa_cka", "class_counts"):
            self.assertEqual(report[key], printed[key], key)
        self.assertEqual(corestack.cka(SMALL / "pool.json").tolist(), printed["cka"])
        methods = ["average", "best-single", "greedy"]
        printed = json.loads(
            run_tool("compare", SMALL / "pool.json", "--methods", ",".join(methods), "--resamples", 100, "--json")
        )
        report = corestack.compare(self.oof, self.y, methods=methods, resamples=100, **self.about)
        self.assertEqual(without_times(dict(report)), without_times(printed))

    def test_compared_with_predictions_of_ones_own(self):
        """Arrays of any type, and a file; the row of an equal array is that of the member."""
        best = corestack.compare(self.oof, self.y, methods=["best-single"], resamples=50, **self.about)["rows"][0]
        array = self.oof[best["detail"]]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.npy"
            np.save(path, array)
            own = {"mine": array, "wide": np.asfortranarray(array, np.float64), "filed": path}
            report = corestack.compare(self.oof, self.y, methods=["average"], reference="mine", own=own, resamples=50, **self.about)
        average, *rows = report["rows"]
        self.assertEqual([row["method"] for row in rows], list(own))
        for row in rows:
            self.assertAlmostEqual(row["nll"], rows[0]["nll"], places=6)
            self.assertIsNone(row["models"])
        self.assertIn("difference", average)
        for wrong, error, says in (
            ({"mine": array[1:]}, corestack.MismatchError, "mine: has"),
            ({"mine": array * 3}, corestack.InputError, "sums to 3"),
            ({"average": array}, corestack.ArgumentError, "a method"),
            ({"mine": array[None]}, corestack.MismatchError, "own"),
            ([array], corestack.ArgumentError, "a dict"),
        ):
            with self.assertRaisesRegex(error, says):
                corestack.compare(self.oof, self.y, methods=["average"], own=wrong, resamples=0, **self.about)
        with self.assertRaisesRegex(corestack.Error, "one split"):
            corestack.compare(self.oof, self.y, methods=["average"], own={"mine": array}, splits=2, **self.about)

    def test_compared_with_a_stack(self):
        """A fitted stack beside refitted methods, by itself and by its file."""
        with tempfile.TemporaryDirectory() as folder:
            pool = os.path.join(SMALL, "pool.json")
            stack = corestack.fit(pool, **QUICK)
            stack.save(os.path.join(folder, "m.cstack"))
            own = {"mine": stack, "filed": os.path.join(folder, "m.cstack")}
            report = corestack.compare(pool, split="test", methods="average", own=own, reference="mine", resamples=0)
            scored = stack.evaluate(pool, split="test")
        average, mine, filed = report["rows"]
        self.assertEqual((mine["nll"], mine["models"], filed["nll"]), (scored["nll"], scored["models"], scored["nll"]))
        self.assertTrue(all(test["a"] == "mine" for test in report["tests"]))

    @needs_tool
    def test_repeated_comparisons(self):
        """The same as the tool's; means and standard errors by NumPy."""
        how = ("--methods", "average,greedy", "--splits", 3, "--holdout", 0.2, "--seed", 7)
        printed = json.loads(run_tool("compare", SMALL / "pool.json", *how, "--json"))
        report = corestack.compare(
            self.oof, self.y, methods=["average", "greedy"], splits=3, holdout=0.2, seed=7, **self.about
        )
        self.assertEqual(without_times(dict(report)), without_times(printed))
        for m, row in enumerate(report["rows"]):
            own = np.array([one["rows"][m]["nll"] for one in report["repetitions"]])
            self.assertAlmostEqual(row["nll"], own.mean(), places=9)
            self.assertAlmostEqual(row["nll_se"], own.std(ddof=1) / np.sqrt(3), places=9)
        self.assertIn("se 0.", report.summary())
        one = corestack.compare(self.oof, self.y, methods=["average"], holdout=0.5, resamples=10, **self.about)
        self.assertIn("nll_ci", one["rows"][0])
        for wrong in ({"splits": 0}, {"splits": 1.5}, {"holdout": 1.0}, {"holdout": "a"}, {"holdout": float("nan")}):
            with self.assertRaises(corestack.ArgumentError):
                corestack.compare(self.oof, self.y, methods=["average"], **wrong)

    @needs_tool
    def test_profile(self):
        def still(report):
            document = without_times(dict(report))
            document.pop("model", None)
            for row in document["rows"]:
                for key in [key for key in row if key.endswith(("_us", "throughput", "seconds", "latency_ms"))]:
                    row.pop(key)
            return document

        pool = SMALL / "pool.json"
        stack = corestack.fit(pool, **QUICK)
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "m.cstack")
            stack.save(model)
            words = ["--methods", "best-single,prototype", "--batch", 64, "--repeats", 120, "--seed", 3, "--set", "folds.count=4"]
            printed = json.loads(run_tool("profile", model, pool, *words, "--json"))
            about = dict(methods=["best-single", "prototype"], batch=64, calls=120, seed=3, folds_count=4)
            document = corestack.profile(model, pool, **about)
        self.assertEqual(still(document), still(printed))
        self.assertIn("Meta-layer, measured here", document.summary())
        for row in document["rows"]:
            self.assertLessEqual(row["batch_p50_us"], row["batch_p99_us"])
        costs = {"latency_ms": 2.0, "memory_bytes": 1e9}
        known = {key: dict.fromkeys(self.oof, value) for key, value in costs.items()}
        found = corestack.profile(stack, self.oof, self.y, methods=["average"], calls=100, batch=8, **known, **self.about)
        first, second = found["rows"]
        self.assertEqual((found["split"], first["method"], second["method"]), ("oof", "stack", "average"))
        self.assertEqual(second["members_latency_ms"], 2.0 * len(self.oof))
        self.assertEqual(first["members_memory_bytes"], 1e9 * len(stack.kept))
        alone = corestack.profile(stack, self.oof, methods=[], calls=5, parallel=True, **known)
        self.assertEqual(([row["method"] for row in alone["rows"]], alone["rows"][0]["members_latency_ms"]), (["stack"], 2.0))
        self.assertNotIn("top1", alone["rows"][0])
        for call, says in (
            (lambda: corestack.profile(stack, pool, batch=0), "batch: is 0"),
            (lambda: corestack.profile(stack, pool, calls=0), "calls: is 0"),
            (lambda: corestack.profile(stack, pool, calls=5, seconds=1), "give one of them"),
            (lambda: corestack.profile(stack, pool, seconds=-1), "0 to 3600 seconds"),
            (lambda: corestack.profile(stack, pool, methods=["ridg"]), "ridg"),
            (lambda: corestack.profile(stack, pool, split="nope"), "no split 'nope'"),
            (lambda: corestack.profile(stack, self.oof, split="test"), "split: is for the path"),
            (lambda: corestack.profile(stack, pool, memory_bytes=[1]), "memory_bytes: this comes from the files"),
            (lambda: corestack.profile(stack, list(self.oof.values())[:3]), "3 arrays"),
        ):
            with self.assertRaisesRegex(corestack.Error, says):
                call()

    @needs_tool
    def test_tables_of_a_report(self):
        arguments = ["compare", SMALL / "pool.json", "--split", "test", "--methods", "average,greedy", "--resamples", 0, "--set", "evaluate.nested=false"]
        report = corestack.compare(SMALL / "pool.json", split="test", methods=["average", "greedy"], resamples=0, **QUICK)
        report = pickle.loads(pickle.dumps(report))
        seconds = r"[0-9.]+(e-?[0-9]+)?"  # differ from run to run, and short ones have an exponent
        for form in ("csv", "markdown", "latex"):
            found, printed = getattr(report, f"to_{form}")(), run_tool(*arguments, f"--{form}")
            self.assertIn("greedy", found)
            self.assertEqual(re.sub(seconds, "#", found), re.sub(seconds, "#", printed), form)
        with self.assertRaisesRegex(corestack.ArgumentError, "a report of inspect has no table"):
            corestack.inspect(self.oof, self.y).to_csv()

    @needs_tool
    def test_bound(self):
        pool = SMALL / "pool.json"
        stack = corestack.fit(pool, **QUICK)
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "m.cstack")
            stack.save(model)
            printed = json.loads(run_tool("bound", model, pool, "--delta", 0.01, "--alpha", 0.2, "--seed", 4, "--leakage", "--json"))
            self.assertEqual(dict(corestack.bound(model, pool, delta=0.01, alpha=0.2, seed=4, leakage=True)), printed)
            half = os.path.join(folder, "costs.npy")
            np.save(half, np.arange(10.0))
            sets = ("bound", model, pool, "--split", "test", "--batch-split", "oof", "--json")
            for words, given in ((("--by", "class"), {"by": "class"}),
                                 (("--miss-cost", half, "--risk", 2), {"miss_cost": range(10), "risk": 2})):  # fmt: skip
                printed_sets = json.loads(run_tool(*sets, *words))["under_shift"]
                self.assertEqual(corestack.bound(model, pool, split="test", batch_split="oof", **given)["under_shift"], printed_sets)
        _, _, test, _, y, _ = digits(SMALL)
        document = stack.bound(test, y, delta=0.01, alpha=0.2, seed=4)
        self.assertEqual(dict(document), dict(corestack.bound(stack, test, y, delta=0.01, alpha=0.2, seed=4)))
        for key in ("holdout", "tandem", "conformal", "ece", "blending", "stability"):
            self.assertEqual(document[key], printed[key])
        self.assertIsNone(document["pac_bayes"])
        self.assertIn("Error rates", document.summary())
        for call, words in (
            (lambda: stack.bound(test), "y: labels"),
            (lambda: stack.bound(test, y, leakage=True), "leakage: "),
            (lambda: stack.bound(test, y, delta=0), "delta: 0 is not between"),
            (lambda: stack.bound(test, y, alpha=1.5), "alpha: 1.5 is not between"),
            (lambda: stack.bound(pool, by="class"), "need batch_split"),
            (lambda: stack.bound(pool, by="row", batch_split="oof"), "by: 'row' is not"),
            (lambda: stack.bound(pool, risk=1, batch_split="oof"), "go together"),
            (lambda: stack.bound(pool, split="test", delta="x"), "delta"),
            (lambda: stack.bound(pool, split="oof"), "fitted on the rows of split 'oof'"),
            (lambda: stack.bound(test, y, seed=2**63), "seed: is 9223372036854775808"),
        ):
            with self.assertRaisesRegex((corestack.Error, TypeError), words):
                call()

    def test_bound_of_rows_of_the_fit(self):
        """Arrays have no split's name to know them by."""
        preds, y = toy(rows=200)
        others, other_y = toy(rows=200, seed=1)
        stack = corestack.fit(preds, y, **QUICK)
        order = np.random.default_rng(0).permutation(len(y))
        for rows in (slice(None), order, order[: len(y) // 2]):
            with self.assertRaisesRegex(corestack.Error, "fitted on the rows of split 'test'"):
                stack.bound({name: p[rows] for name, p in preds.items()}, y[rows])
        seed = 2**53
        document = stack.bound(others, other_y, seed=seed)
        self.assertEqual(document["seed"], seed)
        self.assertFalse([notice for notice in document["notices"] if "fitted" in notice])
        mixed = {name: np.concatenate([p[:100], preds[name][:100]]) for name, p in others.items()}
        said = stack.bound(mixed, np.concatenate([other_y[:100], y[:100]]))["notices"]
        self.assertTrue(any("rows that the model was fitted on" in notice for notice in said), said)

    def test_a_changed_report_in_a_pickle(self):
        preds, y = toy(rows=60)
        report = corestack.inspect(preds, y)
        self.assertEqual(pickle.loads(pickle.dumps(report)), report)
        report["of"] = "mine"
        del report["cka"]
        again = pickle.loads(pickle.dumps(report))
        self.assertEqual(again, report)
        self.assertEqual((again.to_json(), again.summary()), (report.to_json(), report.summary()))

    def test_what_a_stack_says(self):
        stack = self.stack
        self.assertEqual(stack.kept, stack.report["kept"])
        self.assertEqual(stack.members, list(self.oof))
        self.assertEqual(stack.classes, self.manifest["classes"])
        self.assertEqual(json.loads(stack.to_json()), dict(stack.report))
        self.assertIn("svm_rbf", stack.summary())
        for name, weight in stack.report["weights"].items():
            self.assertAlmostEqual(stack.weights[name], weight, places=8)
        again = pickle.loads(pickle.dumps(stack))
        self.assertEqual(again.to_bytes(), stack.to_bytes())
        self.assertEqual(again.summary(), stack.summary())
        self.assertEqual(again.members, stack.members)
        loaded = corestack.Stack.from_bytes(stack.to_bytes())
        self.assertIn("svm_rbf", loaded.summary())
        with self.assertRaisesRegex(corestack.ArgumentError, "has no report"):
            loaded.report

    def test_predictions_by_name_or_place(self):
        p = self.stack.predict(self.test)
        everything = list(self.test.values())
        kept = [self.test[name] for name in self.stack.kept]
        for preds in (everything, np.stack(everything), kept, dict(zip(self.stack.kept, kept))):
            np.testing.assert_array_equal(self.stack.predict(preds), p)
        with self.assertRaisesRegex(corestack.MismatchError, f"{len(everything) + 1} arrays"):
            self.stack.predict([*everything, everything[0]])
        with self.assertRaisesRegex(corestack.Error, self.stack.kept[0]):
            self.stack.predict({name: self.test[name] for name in self.stack.kept[1:]})
        for threads in (1, 3):
            np.testing.assert_array_equal(self.stack.predict(self.test, threads=threads, memory="64MiB"), p)
        with ThreadPoolExecutor(4) as pool:
            for q in pool.map(self.stack.predict, [self.test] * 8):
                np.testing.assert_array_equal(q, p)

    def test_metrics(self):
        p = self.stack.predict(self.test)
        scores = corestack.metrics.scores(p, self.y_test)
        rows = np.arange(len(p))
        self.assertAlmostEqual(scores["top1"], (p.argmax(1) == self.y_test).mean(), places=12)
        self.assertAlmostEqual(scores["nll"], -np.log(p[rows, self.y_test].astype(float)).mean(), places=12)
        brier = ((p - np.eye(10)[self.y_test]) ** 2).sum(1).mean()
        self.assertAlmostEqual(scores["brier"], brier, places=6)
        for name in set(scores) - {"samples", "bins"}:
            self.assertEqual(getattr(corestack.metrics, name)(p, self.y_test), scores[name], name)
            self.assertTrue(corestack.metrics.definition(name))

    def test_reliability(self):
        p = self.stack.predict(self.test)
        confidence, right = p.max(1).astype(float), p.argmax(1) == self.y_test
        for count in (1, 10, 15):
            bins = corestack.metrics.reliability(p, self.y_test, bins=count)
            at = np.searchsorted(np.arange(1, count) / count, confidence, side="right")
            self.assertEqual([b["count"] for b in bins], np.bincount(at, minlength=count).tolist())
            for i, found in enumerate(bins):
                self.assertAlmostEqual(found["lower"], i / count)
                self.assertAlmostEqual(found["upper"], (i + 1) / count)
                if found["count"]:
                    self.assertAlmostEqual(found["confidence"], confidence[at == i].mean(), places=12)
                    self.assertAlmostEqual(found["accuracy"], right[at == i].mean(), places=12)
                else:
                    self.assertEqual((found["confidence"], found["accuracy"]), (None, None))
            gap = sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in bins if b["count"]) / len(p)
            self.assertAlmostEqual(gap, corestack.metrics.ece(p, self.y_test, bins=count), places=12)
        reported = corestack.evaluate(p, self.y_test)["reliability"]
        self.assertEqual([b["count"] for b in reported], [b["count"] for b in bins])
        for wrong in (-1, 10001):
            with self.assertRaisesRegex(corestack.ArgumentError, "bins"):
                corestack.metrics.reliability(p, self.y_test, bins=wrong)


class Layouts(unittest.TestCase):
    def setUp(self):
        self.preds, self.y = toy()
        self.expected = corestack.fit(self.preds, self.y, **QUICK).to_bytes()

    def same(self, preds, **how):
        self.assertEqual(corestack.fit(preds, self.y, **QUICK, **how).to_bytes(), self.expected)

    def test_layouts(self):
        names = list(self.preds)
        wide = {n: np.repeat(np.repeat(p, 2, axis=0), 3, axis=1) for n, p in self.preds.items()}
        self.same({n: np.asfortranarray(p) for n, p in self.preds.items()})
        self.same({n: p[::2, ::3] for n, p in wide.items()})
        self.same({n: np.ascontiguousarray(p[::-1])[::-1] for n, p in self.preds.items()})
        self.same(list(self.preds.values()), names=names)
        cube = np.stack(list(self.preds.values()))
        self.same(cube, names=names)
        self.same(np.ascontiguousarray(cube.transpose(1, 2, 0)).transpose(2, 0, 1), names=names)
        swapped = {n: p.astype(p.dtype.newbyteorder()) for n, p in self.preds.items()}
        self.same(swapped)
        with tempfile.TemporaryDirectory() as folder:
            for name, p in self.preds.items():
                np.save(f"{folder}/{name}.npy", p)
            mapped = {n: np.load(f"{folder}/{n}.npy", mmap_mode="r") for n in names}
            self.same(mapped)
        for labels in (self.y.astype(np.uint8), self.y.astype(float), self.y.tolist(), self.y[:, None]):
            self.assertEqual(corestack.fit(self.preds, labels, **QUICK).to_bytes(), self.expected)

    def test_types(self):
        for kind in (np.float64, np.float16, np.longdouble):
            preds = {n: p.astype(kind) for n, p in self.preds.items()}
            as_float32 = {n: p.astype(np.float32) for n, p in preds.items()}
            p = corestack.fit(preds, self.y, **QUICK)
            q = corestack.fit(as_float32, self.y, **QUICK)
            np.testing.assert_allclose(p.predict(preds), q.predict(as_float32), atol=1e-5)
        hard = {n: np.eye(3, dtype=np.int64)[p.argmax(1)] for n, p in self.preds.items()}
        as_float32 = {n: p.astype(np.float32) for n, p in hard.items()}
        self.assertEqual(
            corestack.fit(hard, self.y, **QUICK).to_bytes(), corestack.fit(as_float32, self.y, **QUICK).to_bytes()
        )

    def test_binary_and_logits(self):
        preds, y = toy(classes=2)
        one = {n: p[:, 1] for n, p in preds.items()}
        a, b = corestack.fit(preds, y, **QUICK), corestack.fit(one, y, **QUICK)
        np.testing.assert_allclose(a.predict(preds), b.predict_proba({n: p[:, None] for n, p in one.items()}), atol=1e-4)
        logits = {n: np.log(p) for n, p in self.preds.items()}
        stack = corestack.fit(logits, self.y, output="logit", **QUICK)
        np.testing.assert_allclose(
            stack.predict(logits, output="logit"),
            corestack.Stack.from_bytes(self.expected).predict(self.preds),
            atol=1e-4,
        )

    def test_text_labels_without_classes(self):
        names = np.array(["ant", "bee", "cat"])
        stack = corestack.fit(self.preds, names[self.y], **QUICK)
        self.assertEqual(stack.classes, ["ant", "bee", "cat"])
        self.assertEqual(stack.to_bytes(), corestack.fit(self.preds, self.y, classes=names, **QUICK).to_bytes())
        np.testing.assert_array_equal(stack.predict_proba(self.preds, guard="off"), stack.predict(self.preds))
        self.assertEqual(corestack.fit(self.preds, list(names[self.y]), **QUICK).classes, stack.classes)
        values = corestack.fit({name: p[:, 0] for name, p in self.preds.items()}, self.y, task="regression", **QUICK)
        with self.assertRaisesRegex(corestack.UnsupportedError, "use predict"):
            values.predict_proba([])

    def test_names_of_classes(self):
        classes = ["ant", "bee", "cat"]
        named = corestack.fit(self.preds, np.array(classes)[self.y], classes=classes, **QUICK)
        self.assertEqual(named.classes, classes)
        by_number = corestack.fit(self.preds, self.y, classes=classes, **QUICK)
        self.assertEqual(named.to_bytes(), by_number.to_bytes())
        text = np.array(classes)[self.y]
        self.assertEqual(named.evaluate(self.preds, text), by_number.evaluate(self.preds, self.y))

    def test_folds_and_groups(self):
        folds = corestack.folds(self.y, 4, seed=3)
        self.assertEqual(sorted(set(folds)), [0, 1, 2, 3])
        groups = np.array([f"g{i // 3}" for i in range(len(self.y))])
        grouped = corestack.folds(self.y, 4, groups=groups)
        self.assertTrue(all(len(set(grouped[groups == g])) == 1 for g in set(groups)))
        report = corestack.fit(self.preds, self.y, folds=folds, **QUICK).report
        self.assertEqual(report["folds"], {"count": 4, "source": "pool"})
        report = corestack.fit(self.preds, self.y, groups=groups, **QUICK).report
        self.assertEqual(report["folds"]["source"], "made")

    def test_files_in_parts(self):
        """A manifest with a list of files and a folder: the same bytes as from single files."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            made = []
            for parts in (1, 3):
                files = {}
                for array, values in (("y", self.y), *self.preds.items()):
                    (folder / f"{array}{parts}").mkdir()
                    files[array] = [f"{array}{parts}/{k}.npy" for k in range(parts)]
                    for file, part in zip(files[array], np.array_split(values, parts)):
                        np.save(folder / file, part)
                manifest = {"corestack_pool": 1, "classes": 3, "splits": {"oof": {"labels": f"y{parts}/"}},
                            "models": [{"name": n, "predictions": {"oof": files[n]}} for n in self.preds]}
                (folder / "pool.json").write_text(json.dumps(manifest))
                made.append(corestack.fit(folder / "pool.json", **QUICK).to_bytes())
            self.assertEqual(made[0], made[1])
            (folder / "model13" / "1.npy").unlink()
            with self.assertRaisesRegex(corestack.FileError, r"model13/1\.npy: cannot open"):
                corestack.fit(folder / "pool.json")


class Errors(unittest.TestCase):
    def setUp(self):
        self.preds, self.y = toy()

    def raises(self, kinds, text, *arguments, **keywords):
        with self.assertRaisesRegex(corestack.Error, text) as caught:
            corestack.fit(*arguments, **{**QUICK, **keywords})
        for kind in kinds:
            self.assertIsInstance(caught.exception, kind)

    def test_data(self):
        preds, y = self.preds, self.y
        bad = {**preds, "model1": preds["model1"] * 3}
        self.raises([corestack.InputError, ValueError], "model1: row 0 sums to 3", bad, y)
        bad = {**preds, "model1": np.where(np.arange(3) == 2, np.nan, preds["model1"])}
        self.raises([ValueError], "model1: row 0, column 2 is NaN", bad, y)
        self.raises([corestack.MismatchError], "model1: shape", {**preds, "model1": preds["model1"][1:]}, y)
        self.raises([corestack.MismatchError], "y: has 239 labels", preds, y[1:])
        self.raises([ValueError], "row 0 is label 9", preds, np.full(len(y), 9))
        self.raises([ValueError], "they seem to start at 1: subtract 1", preds, y + 1)
        self.raises([ValueError], "row 0 is label -1", preds, y - y[0] - 1)
        self.raises([ValueError], "row 0 is 0.5", preds, np.full(len(y), 0.5))
        self.raises([ValueError], "names in the order", preds, np.minimum(y, 1).astype(str))  # a class without a row
        self.raises([ValueError], "names in the order", preds, (y + 9).astype(str))  # "10" before "9"
        self.raises([ValueError], "not one of the classes", preds, y.astype(str), classes=["a", "b", "c"])
        self.raises([TypeError], "dtype complex", {"m": preds["model0"] * 1j}, y)
        self.raises([TypeError], "is a float", 3.0, y)
        self.raises([ValueError], "no members", [], y)
        self.raises([ValueError], "folds: row 0 is fold -1", preds, y, folds=np.full(len(y), -1))
        self.raises([corestack.MismatchError], "folds: has shape", preds, y, folds=[0, 1])
        self.raises([ValueError], "2 names, but", preds, y, classes=["a", "b"])
        self.raises([ValueError], "it must be 'probability' or 'logit'", preds, y, output="score")

    def test_findings_are_warnings(self):
        preds, y = toy(rows=600)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            corestack.fit(preds, y, **QUICK)  # nothing to say
        swapped = {**preds, "model3": preds["model3"][:, [1, 0, 2]]}
        with self.assertWarnsRegex(UserWarning, "columns of 'model3'.*another order") as caught:
            stack = corestack.fit(swapped, y, **QUICK)
        self.assertEqual(caught.filename, __file__)
        self.assertEqual(str(caught.warning), stack.report["findings"][0]["text"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            corestack.fit(swapped, y, checks="off", **QUICK)

    def test_options_and_files(self):
        self.raises([ValueError], "cka.threshold: '3' is not", self.preds, self.y, cka_threshold=3)
        self.raises([ValueError], "preset", self.preds, self.y, preset="worst")
        with self.assertRaisesRegex(TypeError, "did you mean cka_threshold?"):
            corestack.fit(self.preds, self.y, cka_treshold=0.9)
        self.raises([OSError, corestack.FileError], "no/such/pool.json", "no/such/pool.json")
        self.raises([ValueError], "y: this comes from the files of the pool", SMALL / "pool.json", self.y)
        with self.assertRaises(OSError):
            corestack.load("no/such.cstack")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"not a model")
            file.flush()
            with self.assertRaises(corestack.FormatError):
                corestack.load(file.name)
        with self.assertRaisesRegex(ValueError, "memory"):
            corestack.fit(self.preds, self.y, memory="much")

    def test_tables(self):
        table = {row["key"]: row for row in corestack.option_table()}
        self.assertEqual(table["cka.threshold"]["keyword"], "cka_threshold")
        self.assertEqual((table["cka.threshold"]["least"], table["cka.threshold"]["most"]), (0, 1))
        self.assertIn("probes", table["cka.estimator"]["choices"])
        self.assertEqual(corestack.presets(), ["default", "compact", "best", "paper", "prototype"])
        self.assertIn("autogluon", corestack.methods())


class WhileItRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Seconds of work.
        cls.preds, cls.y = toy(rows=20000, classes=12, members=12)

    def test_progress_and_stopping(self):
        preds, y = toy()
        told = []
        corestack.fit(preds, y, progress=lambda *told_now: told.append(told_now))
        stages = {stage for stage, _, _ in told}
        self.assertIn("read", stages)
        self.assertGreater(len(stages), 2)
        self.assertTrue(all(0 <= done <= total for _, done, total in told))
        with self.assertRaises(corestack.CancelledError):
            corestack.fit(preds, y, progress=lambda stage, done, total: stage != "read")
        with self.assertRaises(ZeroDivisionError):
            corestack.fit(preds, y, progress=lambda *_: 1 / 0)

    def test_tqdm(self):
        try:
            import tqdm  # noqa: F401
        except ImportError:
            self.skipTest("tqdm is not installed")
        preds, y = toy()
        shown, sys.stderr = sys.stderr, io.StringIO()
        try:
            corestack.fit(preds, y, progress=True)
            text = sys.stderr.getvalue()
        finally:
            sys.stderr = shown
        self.assertEqual(text.count("\n"), 0)
        shares = [int(number) for number in re.findall(r"(\d+)%\|", text)]
        self.assertEqual((shares, shares[0]), (sorted(shares), 0))
        self.assertIn("nested evaluation: ", text)

    def shares(self, call, *given, **how):
        """What is told of the whole call: it never falls, stays within [0, 1] and ends at 1."""
        found, tell = [], _session.Session._on_progress

        def told(session, *stage):
            found.append(c.lib.cst_context_progress(session.context))
            return tell(session, *stage)

        with mock.patch.object(_session.Session, "_on_progress", told):
            call(*given, **how)
        self.assertEqual(found, sorted(found))
        self.assertEqual((min(found) >= 0, found[-1]), (True, 1))
        self.assertGreater(len(set(found)), 5)
        return found

    def test_share_of_the_call(self):
        for task in ("classification", "regression", "multilabel", "detection", "segmentation"):
            pool = EXAMPLES / {"classification": "digits"}.get(task, task) / "pool.json"
            how = {"segment_pixels": 300} if task == "segmentation" else {}
            if task == "classification":
                pool = Path(SMALL) / "pool.json"
            for threads in (1, 3) if task == "classification" else (3,):
                with self.subTest(task=task, threads=threads):
                    self.shares(corestack.fit, pool, threads=threads, **how)
        self.shares(corestack.compare, Path(SMALL) / "pool.json", methods=["average", "ridge", "compact"], resamples=20, splits=2)
        self.shares(corestack.ablate, Path(SMALL) / "pool.json", split="test", resamples=20)

    def test_interrupt_stops_within_a_second(self):
        # A shell's background jobs are started with the signal ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        at = []

        def interrupt():
            at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.4, interrupt)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            corestack.fit(self.preds, self.y, preset="paper")
        self.assertLess(time.monotonic() - at[0], 1)

    def test_others_run_meanwhile(self):
        steps = []
        done = threading.Event()

        def count():
            while not done.is_set():
                steps.append(time.monotonic())
                time.sleep(0.005)

        thread = threading.Thread(target=count)
        thread.start()
        began = time.monotonic()
        rows = slice(0, 4000)
        preds = {name: p[rows] for name, p in self.preds.items()}
        corestack.inspect(preds, self.y[rows], cka_estimator="exact", cka_statistic="unbiased")
        took = time.monotonic() - began
        done.set()
        thread.join()
        inside = [t for t in steps if began <= t <= began + took]
        self.assertGreater(len(inside), 5)

    def test_log(self):
        preds, y = toy(rows=60)
        y[:] = y % 2
        y[0] = 2  # one row of a class: fewer than folds
        with self.assertLogs("corestack", logging.WARNING) as caught:
            stack = corestack.fit(preds, y)
        self.assertTrue(any(notice in " ".join(caught.output) for notice in stack.report["notices"]))


if __name__ == "__main__":
    unittest.main()
