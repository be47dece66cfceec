"""Regression and what classification shares with it, as the command line has them: the same bytes and reports."""
from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from common import EXAMPLES, FAST, QUICK, Folder, needs_tool, printed, run_tool, toy, toy_values, without_times

import corestack
from corestack import _outputs

try:
    import pandas as pd
except ImportError:
    pd = None


def values_pool(name="regression"):
    """(manifest, {member: oof}, {member: test}, {split: targets}, folds)"""
    folder = EXAMPLES / name
    manifest = json.loads((folder / "pool.json").read_text())
    oof, test = (
        {m["name"]: np.load(folder / m["predictions"][split]) for m in manifest["models"]} for split in ("oof", "test")
    )
    targets = {split: np.load(folder / f"{split}_labels.npy") for split in ("oof", "test")}
    return manifest, oof, test, targets, np.load(folder / "oof_folds.npy")


class Regression(Folder):
    @needs_tool
    def test_as_the_command_line(self):
        pool, model = EXAMPLES / "regression", self.path / "tool.cstack"
        manifest, oof, test, targets, folds = values_pool()
        costs = {key: {m["name"]: m[key] for m in manifest["models"]} for key in ("flops", "params")}
        about = dict(task="regression", folds=folds, classes=manifest["outputs"], **costs)
        document = printed("fit", pool, "-o", model, *FAST)
        stack = corestack.fit(oof, targets["oof"], **about, **QUICK)
        by_path = corestack.fit(pool, **QUICK)
        for fitted in (stack, by_path, corestack.load(model), pickle.loads(pickle.dumps(stack))):
            self.assertEqual(fitted.to_bytes(), model.read_bytes())
            self.assertEqual((fitted.task, fitted.n_classes, fitted.classes), ("regression", 1, manifest["outputs"]))
            self.assertEqual(list(fitted.weights), document["kept"])
            for name, weight in document["weights"].items():
                self.assertAlmostEqual(fitted.weights[name], weight, places=8)
        document["model"] = None
        self.assertEqual(without_times(dict(by_path.report)), document)
        files = {key: self.path / f"{key}.npy" for key in ("mean", "variance", "ends")}
        run_tool(
            "predict", model, pool, "--split", "test", "-o", files["mean"], "--variance", files["variance"],
            "--intervals", files["ends"], "--level", "0.8",
        )  # fmt: skip
        for preds in (test, pool):
            mean, variance = stack.predict(preds, return_variance=True)
            ends = stack.predict_interval(preds, 0.8)
            for name, found in (("mean", mean), ("variance", variance), ("ends", ends)):
                expected = np.load(files[name])
                self.assertEqual(found.tobytes(), expected.tobytes(), name)
                self.assertEqual(found.shape, expected.shape[:found.ndim])
            self.assertEqual(stack.predict(preds).tobytes(), mean.tobytes())
        low, high = ends
        self.assertTrue((low < mean).all() and (mean < high).all())
        document = printed(
            "evaluate", files["mean"], "--labels", pool / "test_labels.npy", "--task", "regression", "-r", 50
        )
        for scored in (
            corestack.evaluate(mean, targets["test"], task="regression", resamples=50),
            corestack.evaluate(files["mean"], pool / "test_labels.npy", task="regression", resamples=50),
        ):
            self.assertEqual(without_times(dict(scored)), document)
        document = printed("evaluate", model, pool, "--split", "test", "--baselines", "-r", 50)
        self.assertEqual(without_times(dict(stack.evaluate(pool, baselines=True, resamples=50))), document)
        self.assertEqual(stack.evaluate(test, targets["test"], resamples=50)["rmse_ci"], document["rmse_ci"])

    @needs_tool
    def test_inspect_compare_and_folds(self):
        pool = EXAMPLES / "regression"
        manifest, oof, _, targets, folds = values_pool()
        document = printed("inspect", pool)
        report = corestack.inspect(oof, targets["oof"], task="regression", folds=folds)
        for key in ("cka", "pearson", "clusters", "eigenvalues", "lambda", "kappa_gram", "kappa_cka"):
            self.assertEqual(report[key], document[key], key)
        self.assertEqual(corestack.cka(pool).tolist(), document["cka"])
        methods = ["average", "best-single", "ridge"]
        document = printed("compare", pool, "--methods", ",".join(methods), "--resamples", 50)
        report = corestack.compare(oof, targets["oof"], task="regression", folds=folds, methods=methods, resamples=50,
                                   flops=[m["flops"] for m in manifest["models"]])  # fmt: skip
        self.assertEqual(without_times(dict(corestack.compare(pool, methods=methods, resamples=50))), document)
        for found, expected in zip(report["rows"], document["rows"]):
            self.assertEqual(without_times(found), expected)
        labels = pool / "oof_labels.npy"
        run_tool("folds", "--labels", labels, "--task", "regression", "-L", 4, "--seed", 3, "-o", self.path / "f.npy")
        made = corestack.folds(targets["oof"], 4, task="regression", seed=3)
        np.testing.assert_array_equal(made, np.load(self.path / "f.npy"))
        groups = np.arange(len(made)) // 3
        made = corestack.folds(targets["oof"], 4, task="regression", groups=groups)
        self.assertTrue(all(len(set(made[groups == g])) == 1 for g in set(groups)))

    @needs_tool
    def test_competition_folder(self):
        preds, y = toy_values()
        ids = [f"house{i}" for i in range(len(y))]
        for name, p in preds.items():
            rows = "".join(f"{i},{a:.9g},{b:.9g}\n" for i, (a, b) in zip(ids, p))
            (self.path / f"oof_{name}.csv").write_text("id,price,rent\n" + rows)
            (self.path / f"test_{name}.csv").write_text("id,price,rent\n" + rows)
        (self.path / "labels.csv").write_text(
            "id,price,rent\n" + "".join(f"{i},{a:.17g},{b:.17g}\n" for i, (a, b) in zip(ids, y))
        )
        model, out = self.path / "m.cstack", self.path / "out"
        labels = self.path / "labels.csv"
        with tempfile.TemporaryDirectory() as folder:
            pool = Path(folder)  # the predictions alone: the labels are elsewhere
            for file in self.path.glob("*_model*.csv"):
                shutil.copy(file, pool)
            run_tool("fit", pool, "--task", "regression", "--labels", labels, "-o", model, *FAST)
            stack = corestack.fit(pool, labels, task="regression", **QUICK)
            self.assertEqual(stack.to_bytes(), model.read_bytes())
            float32 = {name: np.float32([[float(f"{v:.9g}") for v in row] for row in p]) for name, p in preds.items()}
            from_arrays = corestack.fit(float32, y, task="regression", **QUICK)
            self.assertEqual(from_arrays.predict(float32).tobytes(), stack.predict(float32).tobytes())
            for ending in ("csv", "npy"):
                run_tool("predict", model, pool, "--task", "regression", "--split", "test", "-o", f"{out}.tool.{ending}")
                report = stack.predict(pool, out=f"{out}.{ending}")
                self.assertEqual(report["samples"], len(y))
                self.assertEqual(Path(f"{out}.{ending}").read_bytes(), Path(f"{out}.tool.{ending}").read_bytes())
            self.assertIn("house0", Path(f"{out}.csv").read_text())

    def test_layouts(self):
        preds, y = toy_values()
        names = list(preds)
        expected = corestack.fit(preds, y, task="regression", **QUICK).to_bytes()
        cube = np.stack(list(preds.values()))
        reversed_ = {n: np.ascontiguousarray(p[::-1])[::-1] for n, p in preds.items()}
        for same in ({n: np.asfortranarray(p) for n, p in preds.items()}, reversed_):
            self.assertEqual(corestack.fit(same, y, task="regression", **QUICK).to_bytes(), expected)
        self.assertEqual(corestack.fit(cube, y, task="regression", names=names, **QUICK).to_bytes(), expected)
        for name, p in preds.items():
            np.save(self.path / f"{name}.npy", p)
        np.save(self.path / "y.npy", y)
        files = {name: self.path / f"{name}.npy" for name in names}
        self.assertEqual(corestack.fit(files, self.path / "y.npy", task="regression", **QUICK).to_bytes(), expected)
        one = {n: p[:, 0] for n, p in preds.items()}
        stack = corestack.fit(one, y[:, 0], task="regression", **QUICK)
        for same in (cube[:, :, 0], cube[:, :, :1], {n: p[:, None] for n, p in one.items()}):
            again = corestack.fit(same, y[:, :1], task="regression", names=None if isinstance(same, dict) else names, **QUICK)
            self.assertEqual(again.to_bytes(), stack.to_bytes())
            self.assertEqual(again.predict(same).shape, (len(y),))
        # a list of files, as on the command line
        by_files = corestack.fit(list(files.values()), self.path / "y.npy", task="regression", **QUICK)
        self.assertEqual(by_files.to_bytes(), expected)
        self.assertEqual(by_files.predict(list(files.values())).tobytes(), by_files.predict(preds).tobytes())

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_data_frames(self):
        preds, y = toy_values()
        ids = [f"id{i}" for i in range(len(y))]
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()}, index=ids)
        target = pd.Series(y[:, 1], ids)
        expected = corestack.fit({n: p[:, 1] for n, p in preds.items()}, y[:, 1], task="regression", **QUICK)
        shuffled = target.sample(frac=1, random_state=0)
        stack = corestack.fit(table, shuffled, task="regression", **QUICK)
        self.assertEqual(stack.to_bytes(), expected.to_bytes())
        self.assertEqual(stack.predict(table[stack.kept]).tobytes(), expected.predict(table.to_numpy().T).tobytes())
        frames = {n: pd.DataFrame(p, ids, ["a", "b"]) for n, p in preds.items()}
        both = corestack.fit(frames, pd.DataFrame(y, ids).iloc[::-1], task="regression", **QUICK)
        self.assertEqual(both.classes, ["a", "b"])
        self.assertEqual(
            both.to_bytes(), corestack.fit(preds, y, task="regression", classes=["a", "b"], **QUICK).to_bytes()
        )
        with self.assertRaisesRegex(corestack.MismatchError, "no row with id 'id0'"):
            corestack.fit(table, target.iloc[1:], task="regression", **QUICK)

    def test_scores(self):
        preds, y = toy_values()
        p = preds["model1"].astype(np.float32)
        variance = np.full(p.shape, 0.5)
        error = p - y
        scores = corestack.metrics.value_scores(p, y, variance=variance, half_width={0.5: variance, 0.9: 2 * variance})
        expected = {
            "rmse": np.sqrt((error**2).mean(0)).mean(),
            "mae": np.abs(error).mean(),
            "median_ae": np.median(np.abs(error), axis=0).mean(),
            "r2": (1 - (error**2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean(),
            "nll_gaussian": (0.5 * np.log(2 * np.pi * 0.5) + error**2 / (2 * 0.5)).mean(),
        }
        for name, value in expected.items():
            self.assertAlmostEqual(scores[name], value, places=6)
            more = (variance,) if name == "nll_gaussian" else ()
            self.assertEqual(getattr(corestack.metrics, name)(p, y, *more), scores[name])
            self.assertTrue(corestack.metrics.definition(name))
        self.assertAlmostEqual(scores["coverage"][0.9], (np.abs(error) <= 1).mean(), places=9)
        self.assertEqual(scores["width"], {0.5: 1.0, 0.9: 2.0})
        each = corestack.metrics.value_scores(p, y, each=True)
        self.assertAlmostEqual(each[1]["mae"], np.abs(error[:, 1]).mean(), places=6)
        self.assertNotIn("nll_gaussian", each[0])
        for wrong, text in (
            (dict(y=y[1:]), "199 targets"),
            (dict(y=y[:, 0]), "1 outputs, but"),
            (dict(variance=-variance), "variance"),
            (dict(variance=variance[:, 0]), "variance: has shape"),
            (dict(half_width={i / 20: variance for i in range(1, 12)}), "the limit is 8"),
        ):
            with self.assertRaisesRegex(corestack.Error, text):
                corestack.metrics.value_scores(p, **{"y": y, **wrong})

    def test_errors(self):
        preds, y = toy_values()
        cases = (
            (dict(task=None), "one label per row; for a regression"),
            (dict(task=None, y=y[:, 0]), "row 0 is .*task='regression'"),
            (dict(task=None, y=np.arange(len(y)) + 0.0), "label 2.*task='regression'"),
            (dict(y=y[:, 0]), "1 outputs, but the predictions have 2"),
            (dict(y=y[1:]), "199 targets, but model0 has 200 rows"),
            (dict(y=np.where(np.arange(2) == 1, np.nan, y)), "row 0, output 1"),
            (dict(y=np.full(y.shape, "a")), "targets must be numbers"),
            (dict(preds={**preds, "model2": preds["model2"] * np.nan}), "model2: row 0"),
            (dict(output="logit"), "output: is for probabilities"),
            (dict(task="ranking"), "task is 'ranking'"),
            (dict(task="detection"), "read from files"),
            (dict(classes=["a"]), "1 names, but model0 has 2 outputs"),
            (dict(preds={"a": self.path / "none.npy"}), "none.npy: cannot read the file"),
        )
        for how, text in cases:
            with self.assertRaisesRegex(corestack.Error, text):
                given = {"preds": preds, "y": y, "task": "regression", **QUICK, **how}
                corestack.fit(given.pop("preds"), given.pop("y"), **given)
        (self.path / "text.npy").write_text("not numbers")
        with self.assertRaisesRegex(corestack.FormatError, "text.npy: not an npy file"):
            corestack.fit({"a": self.path / "text.npy"}, y, task="regression")
        stack = corestack.fit(preds, y, task="regression", **QUICK)
        for wrong in (0, 1, -0.5, 2):
            with self.assertRaises(corestack.ArgumentError):
                stack.predict_interval(preds, wrong)
        with self.assertRaisesRegex(corestack.Error, "level 0.9999 need a fit on at least 9999 rows"):
            stack.predict_interval(preds, 0.9999)
        with self.assertRaisesRegex(corestack.UnsupportedError, "regression"):
            corestack.compare(preds, y, task="regression", ood="oof")
        self.assertEqual(len(corestack.ablate(preds, y, task="regression", resamples=0)["rows"]), 6)
        with self.assertRaisesRegex(corestack.Error, "classification"):
            stack.predict(EXAMPLES / "digits")
        classes, labels = toy()
        with self.assertRaisesRegex(corestack.ArgumentError, "return_variance"):
            corestack.fit(classes, labels, **QUICK).predict(classes, return_variance=True)


class Classification(Folder):
    @needs_tool
    def test_ablate_and_sweep(self):
        pool = EXAMPLES / "digits"
        preds, y = toy(rows=90)
        np.save(self.path / "y.npy", y)
        for name, p in preds.items():
            np.save(self.path / f"{name}.npy", p)
        files = [self.path / f"{name}.npy" for name in preds]
        listed = ["--labels", self.path / "y.npy", *files]
        document = printed("ablate", *listed, "--resamples", 20, "--seed", 1, "--set", "folds.count=2")
        self.assertEqual(without_times(dict(corestack.ablate(preds, y, resamples=20, seed=1, folds_count=2))), document)
        document = printed("sweep", *listed, "--over", "cka.threshold=0.7,0.9", "--methods", "prototype,paper")
        report = corestack.sweep(preds, y, over="cka.threshold", values=[0.7, 0.9], methods=["prototype", "paper"])
        self.assertEqual(without_times(dict(report)), document)
        document = printed("sweep", *listed, "--over", "pool.size=2:4:2", "--methods", "average", "--draws", 2)
        report = corestack.sweep(preds, y, over="pool.size", values=range(2, 5, 2), methods="average", draws=2)
        self.assertEqual(without_times(dict(report)), document)
        for how, text in (
            (dict(over="cka.threshold", values=[2]), "cka.threshold: '2'"),
            (dict(over="cka.treshold", values=[0.5]), "cka.treshold"),
            (dict(over="cka.threshold", values=[]), "the list is empty"),
        ):
            with self.assertRaisesRegex(corestack.Error, text):
                corestack.sweep(pool, **how)

    def test_files_outside(self):
        preds, y = toy(rows=90)
        inner = self.path / "inner"
        inner.mkdir()
        np.save(self.path / "y.npy", y)
        models = []
        for name, p in preds.items():
            np.save(self.path / f"{name}.npy", p)
            models.append({"name": name, "predictions": {"oof": f"../{name}.npy", "test": f"../{name}.npy"}})
        splits = {"oof": {"labels": "../y.npy"}, "test": {"labels": "../y.npy"}}
        pool = inner / "pool.json"
        about = {"corestack_pool": 1, "task": "classification", "classes": 3, "output": "probability"}
        pool.write_text(json.dumps({**about, "splits": splits, "models": models}))
        stack = corestack.fit(pool, outside=True, **QUICK)
        self.assertEqual(stack.to_bytes(), corestack.fit(preds, y, **QUICK).to_bytes())
        np.testing.assert_array_equal(stack.predict(pool, outside=True), stack.predict(preds))
        calls = (
            lambda **how: corestack.fit(pool, **QUICK, **how),
            lambda **how: corestack.inspect(pool, **how),
            lambda **how: corestack.cka(pool, **how),
            lambda **how: corestack.compare(pool, methods="average", resamples=20, **how),
            lambda **how: corestack.ablate(pool, resamples=20, **how),
            lambda **how: corestack.sweep(pool, over="pool.size", values=[2], draws=1, methods="average", **how),
            lambda **how: stack.predict(pool, **how),
            lambda **how: stack.evaluate(pool, **how),
        )
        for call in calls:
            with self.assertRaisesRegex(corestack.Error, "outside"):
                call()
            call(outside=True)
        for call in (corestack.fit, corestack.inspect, corestack.compare, stack.evaluate, corestack.evaluate):
            with self.assertRaisesRegex(corestack.ArgumentError, "outside: .* remove it"):
                call(preds[stack.kept[0]] if call is corestack.evaluate else preds, y, outside=True)
        with self.assertRaisesRegex(corestack.ArgumentError, "outside: .* remove it"):
            stack.predict(preds, outside=True)

    @needs_tool
    def test_conditions_and_files(self):
        preds, y = toy(rows=120)
        manifest = {
            "corestack_pool": 1,
            "task": "classification",
            "classes": 3,
            "output": "probability",
            "splits": {
                "oof": {"labels": "y.npy"},
                "test": {"labels": "y.npy"},
                "corrupted": {
                    "labels": "y.npy",
                    "conditions": [{"kind": "noise", "severity": 1}, {"kind": "noise", "severity": 2}],
                },
                "odd": {"ood": True},
            },
            "models": [],
        }
        np.save(self.path / "y.npy", y)
        for name, p in preds.items():
            blurred = [(p + k) / (1 + 3 * k) for k in (0.2, 0.5)]
            for split, array in (("oof", p), ("test", p), ("corrupted", np.stack(blurred)), ("odd", blurred[1])):
                np.save(self.path / f"{name}.{split}.npy", array.astype(np.float32))
            names = {split: f"{name}.{split}.npy" for split in manifest["splits"]}
            manifest["models"].append({"name": name, "predictions": names})
        pool = self.path / "pool.json"
        pool.write_text(json.dumps(manifest))
        stack = corestack.fit(pool, **QUICK)
        stack.save(self.path / "m.cstack")
        for ending in ("npy", "csv"):
            at, here = self.path / f"tool.{ending}", self.path / f"python.{ending}"
            run_tool("predict", self.path / "m.cstack", pool, "--split", "test", "-o", at)
            stack.predict(pool, split="test", out=here)
            self.assertEqual(here.read_bytes(), at.read_bytes())
        run_tool("predict", self.path / "m.cstack", pool, "--split", "corrupted", "-o", self.path / "tool.npy")
        stack.predict(pool, split="corrupted", out=self.path / "python.npy")
        self.assertEqual((self.path / "python.npy").read_bytes(), (self.path / "tool.npy").read_bytes())
        np.testing.assert_array_equal(stack.predict(pool, split="corrupted"), np.load(self.path / "tool.npy"))
        for how in (dict(split="corrupted", clean="test"), dict(ood="odd")):
            words = [word for key, value in how.items() for word in (f"--{key}", value)]
            document = printed("evaluate", self.path / "m.cstack", pool, *words)
            self.assertEqual(without_times(dict(stack.evaluate(pool, **how))), document)
        with self.assertRaisesRegex(corestack.Error, "conditions"):
            stack.predict(pool, split="corrupted", out=self.path / "c.csv")
        document = printed("evaluate", self.path / "model0.test.npy", "--labels", self.path / "y.npy")
        self.assertEqual(dict(corestack.evaluate(self.path / "model0.test.npy", self.path / "y.npy")), document)

    def test_outputs_that_are_read(self):
        preds, y = toy(rows=60)
        np.save(self.path / "oof_labels.npy", y)
        for name, p in preds.items():
            np.save(self.path / f"oof_{name}.npy", p)
            np.save(self.path / f"test_{name}.npy", p)
        stack = corestack.fit(self.path, **QUICK)
        member = f"test_{stack.kept[0]}.npy"
        before = (self.path / member).read_bytes()
        (self.path / "link.npy").symlink_to(member)
        paths = {name: self.path / f"test_{name}.npy" for name in preds}
        for given in (self.path, paths, list(paths.values())):
            for out in (member, "link.npy"):
                with self.assertRaisesRegex(corestack.ArgumentError, "an input of the call; name another"):
                    stack.predict(given, out=self.path / out)
            out = self.path / "new.npy"
            self.assertEqual(stack.predict(given, out=out)["samples"], 60)
            np.testing.assert_array_equal(np.load(out), stack.predict(preds))
            out.unlink()
        self.assertEqual((self.path / member).read_bytes(), before)
        # An archive, and a folder of cases, that a manifest leads to.
        (self.path / "maps").mkdir()
        (self.path / "a.npz").write_bytes(b"")
        (self.path / "to").symlink_to("maps")
        files = [os.fsencode(self.path / name) for name in ("a.npz#x", "maps")] + [None]
        with mock.patch.object(_outputs.c.lib, "cst_pool_file", lambda _, place: files[place]):
            for out, text in (("a.npz", "an input of the call"), ("maps/a.npy", "is in the folder"), ("to/a.npy", "is in")):
                with self.assertRaisesRegex(corestack.ArgumentError, text):
                    _outputs.refuse_inputs(os.fsencode(self.path / out), self.path / "pool.json", None)
            for out in ("b.npz", "maps.npy"):
                _outputs.refuse_inputs(os.fsencode(self.path / out), self.path / "pool.json", None)

    def test_outputs_that_would_be_members(self):
        preds, y = toy(rows=60)
        marked, plain, described = (self.path / name for name in ("marked", "plain", "described"))
        for folder in (marked, plain, described):
            folder.mkdir()
            np.save(folder / "oof_labels.npy", y)
        for name, p in preds.items():
            np.save(marked / f"{name}.oof.npy", p)
            np.save(plain / f"{name}.npy", p)
            np.save(described / f"oof_{name}.npy", p)
        models = [{"name": name, "predictions": {"oof": f"oof_{name}.npy"}} for name in preds]
        about = {"corestack_pool": 1, "task": "classification", "classes": 3, "output": "probability"}
        splits = {"oof": {"labels": "oof_labels.npy"}}
        (described / "pool.json").write_text(json.dumps({**about, "splits": splits, "models": models}))
        stack = corestack.fit(preds, y, **QUICK)
        (self.path / "link.npy").symlink_to(plain / "new.npy")
        for folder, names in (
            (marked, ("oof_new.npy", "new.oof.csv", "test_new.npy", "new_test.npy", "new.test.npy", "oof.new.npy", "groups.npy")),
            (plain, ("new.npy", "new.csv", "oof_new.npy", "../link.npy")),
        ):
            for out in names:
                with self.subTest(out, folder=folder), self.assertRaisesRegex(corestack.ArgumentError, "as part of the pool .* next time"):
                    stack.predict(folder, split="oof", out=folder / out)
        for folder, names in (
            (marked, ("new.npy", "oof_.npy", ".oof_new.npy")), (plain, (".new.npy", "../new.npy")), (described, ("oof_new.npy",))
        ):  # fmt: skip
            for out in names:
                with self.subTest(out, folder=folder):
                    stack.predict(folder, split="oof", out=folder / out)
                    self.assertEqual(stack.predict(folder, split="oof").tobytes(), stack.predict(preds).tobytes())

    @needs_tool
    def test_sample_weight(self):
        for (preds, y), task in ((toy(rows=150), "classification"), (toy_values(rows=150, outputs=1), "regression")):
            preds = {name: p.astype(np.float32) for name, p in preds.items()}
            weights = np.random.default_rng(1).integers(0, 4, len(y)) / 2
            np.save(self.path / "y.npy", y)
            np.save(self.path / "w.npy", weights)
            for name, p in preds.items():
                np.save(self.path / f"{name}.npy", p)
            files = [self.path / f"{name}.npy" for name in preds]
            about = ["--task", task, "--labels", self.path / "y.npy", "--weights", self.path / "w.npy"]
            run_tool("fit", *about, *files, "-o", self.path / "m.cstack", *FAST)
            stack = corestack.fit(preds, y, task=task, sample_weight=weights, **QUICK)
            by_files = corestack.fit(files, self.path / "y.npy", task=task, sample_weight=self.path / "w.npy", **QUICK)
            for fitted in (stack, by_files):
                self.assertEqual(fitted.to_bytes(), (self.path / "m.cstack").read_bytes())
            first = next(iter(preds.values()))
            scored = corestack.evaluate(first, y, task=task, sample_weight=weights)
            document = printed("evaluate", files[0], *about)
            self.assertEqual(without_times(dict(scored)), document)
            evaluated = stack.evaluate(preds, y, sample_weight=weights)
            self.assertNotEqual(evaluated["nll"], stack.evaluate(preds, y)["nll"])
            compared = corestack.compare(preds, y, task=task, sample_weight=weights, methods="average", resamples=20)
            document = printed("compare", *about, *files, "--methods", "average", "-r", 20)
            self.assertEqual(without_times(dict(compared)), document)
            for wrong, text in (
                (weights[1:], "sample_weight: has shape"),
                (np.full(len(y), "a"), "weights must be numbers"),
                (weights - 1, "row .* is -"),
                (weights * 0, "0"),
            ):
                with self.assertRaisesRegex(corestack.Error, text):
                    corestack.fit(preds, y, task=task, sample_weight=wrong, **QUICK)
        for how in (dict(task="segmentation"), dict(task="detection")):
            with self.assertRaisesRegex(corestack.Error, "sample_weight: is for"):
                corestack.evaluate("a", "b", sample_weight=weights, **how)
        with self.assertRaisesRegex(corestack.Error, "sample_weight: this comes from the files of the pool"):
            corestack.fit(EXAMPLES / "digits", sample_weight=weights)

    def test_predictor(self):
        for preds, y, task in ((*toy(), None), (*toy_values(), "regression"), (*toy_values(outputs=1), "regression")):
            preds = {name: p.astype(np.float32) for name, p in preds.items()}
            stack = corestack.fit(preds, y, task=task, **QUICK)
            predictor = pickle.loads(pickle.dumps(stack.predictor()))
            expected = stack.predict(preds).reshape(len(y), -1)
            found = predictor(preds)  # rows are not divided by their sum as a pool's are: a rounding
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            kept = [preds[name] for name in stack.kept]
            np.testing.assert_array_equal(predictor([p[7] for p in kept]), found[7])
            fortran = [np.asfortranarray(p.astype(np.float64)) for p in kept]
            np.testing.assert_array_equal(predictor(fortran), found)
            with self.assertRaisesRegex(corestack.Error, "kept members"):
                predictor(kept[:-1])
            with self.assertRaisesRegex(corestack.Error, "have shapes"):
                predictor([kept[0][1:], *kept[1:]])
            with self.assertRaisesRegex(corestack.InputError, stack.kept[0]):
                predictor([kept[0] * np.nan, *kept[1:]])


class Labels(Folder):
    """Multilabel: arrays give what the files give, and labels may be unknown in three ways."""

    def test_arrays_are_the_files(self):
        _, oof, test, labels, folds = values_pool("multilabel")
        stack = corestack.fit(oof, labels["oof"], task="multilabel", folds=folds, **QUICK)
        self.assertEqual((stack.task, stack.n_classes), ("multilabel", 6))
        self.assertIn("6 labels", repr(stack))
        files = corestack.fit(EXAMPLES / "multilabel", **QUICK)
        predicted = stack.predict(test)
        self.assertEqual(predicted.shape, labels["test"].shape)
        self.assertEqual(predicted.tobytes(), files.predict(EXAMPLES / "multilabel").tobytes())
        unknown = np.where(labels["oof"] < 0, np.nan, labels["oof"])
        self.assertEqual(corestack.fit(oof, unknown, task="multilabel", folds=folds, **QUICK).predict(test).tobytes(), predicted.tobytes())
        alone = corestack.evaluate(predicted, labels["test"], task="multilabel")
        self.assertEqual(alone["log_loss"], stack.evaluate(test, labels["test"])["log_loss"])
        rows = corestack.compare(oof, labels["oof"], task="multilabel", folds=folds, methods=["average", "logistic"], resamples=0)["rows"]
        self.assertEqual([row["method"] for row in rows], ["average", "logistic"])
        logits = {name: np.log(p / (1 - p)) for name, p in ((n, np.clip(p.astype(float), 1e-7, 1 - 1e-7)) for n, p in oof.items())}
        again = corestack.fit(logits, labels["oof"], task="multilabel", folds=folds, output="logit", **QUICK)
        np.testing.assert_allclose(list(again.weights.values()), list(stack.weights.values()), rtol=1e-3)
        with self.assertRaisesRegex(corestack.InputError, "labels must be 0 or 1, or -1 or NaN"):
            corestack.fit(oof, labels["oof"] * 2, task="multilabel", **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "not a probability"):
            corestack.fit(logits, labels["oof"], task="multilabel", **QUICK)


if __name__ == "__main__":
    unittest.main()
