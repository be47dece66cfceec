"""Arguments that are not what they should be: refused with their name, and nothing is cut, wrapped or left unread."""
from __future__ import annotations

import os
import unittest

import numpy as np
from common import DIGITS, QUICK, Folder, toy

import corestack
from corestack import metrics

PREDS, Y = toy(rows=60)
P = PREDS["model0"]
FLAT = (np.arange(60) % 7).astype(float)


class Refused(unittest.TestCase):
    def refused(self, name, function, *arguments, error=corestack.ArgumentError, **keywords):
        with self.subTest(function=getattr(function, "__name__", "?"), arguments=repr((arguments[2:], keywords))[:80]):
            with self.assertRaisesRegex(error, name) as caught:
                function(*arguments, **keywords)
            self.assertNotIn("cst_", str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class Integers(Refused):
    def test_range(self):
        for value in (2**32 + 5, 2**31, -1, 2**64, 10**30):
            self.refused("resamples: is", corestack.evaluate, P, Y, resamples=value)
            self.refused("resamples: is", corestack.compare, PREDS, Y, resamples=value)
            self.refused("count: is", corestack.folds, Y, value)
            self.refused("threads: is", corestack.fit, PREDS, Y, threads=value)
            self.refused("draws: is", corestack.sweep, PREDS, Y, over="pool.size", values=[2], draws=value)
        for value in (-1, 2**64):
            self.refused("seed: is", corestack.evaluate, P, Y, seed=value)
            self.refused("seed: is", corestack.folds, Y, seed=value)
            self.refused("memory: is", corestack.fit, PREDS, Y, memory=value)
        for value in (2**32 + 15, -(2**32) + 15):
            self.refused("bins: is", metrics.ece, P, Y, bins=value)
            self.refused("bins: is", metrics.reliability, P, Y, bins=value)
            self.refused("ignore: is", metrics.map_scores, np.zeros((2, 2), int), np.zeros((2, 2), int), 2, ignore=value)
        self.refused("seed", corestack.fit, PREDS, Y, seed=-1)

    def test_labels_beyond_whole_numbers(self):
        for label in (10**30, -(10**30), 2**64):
            y = [*Y.tolist()[:-1], label]
            named = f"y: row 59 is label {label}, outside the range of labels"
            self.refused(named, corestack.fit, PREDS, y, error=corestack.InputError, **QUICK)
            self.refused(named, corestack.evaluate, P, y, error=corestack.InputError)
            stack = corestack.fit(PREDS, Y, **QUICK)
            self.refused(named, stack.evaluate, PREDS, y, error=corestack.InputError)
        self.refused("y: labels are strings", corestack.fit, PREDS, ["a"] * 60, **QUICK)
        for seed in (2**53 + 1, "0x10", "1e3", 5.0):
            self.refused("seed: .*is not a whole number", corestack.fit, PREDS, Y, seed=seed)
            self.refused("seed: .*is not a whole number", corestack.fit, PREDS, Y, options={"seed": seed})

    def test_kind(self):
        for value in (1.5, None, "5", [5]):
            self.refused("resamples: is", corestack.evaluate, P, Y, resamples=value)
            self.refused("seed: is", corestack.compare, PREDS, Y, seed=value)
            self.refused("count: is", corestack.folds, Y, value)
            self.refused("bins: is", metrics.scores, P, Y, bins=value)
            self.refused("classes: is", metrics.map_scores, np.zeros((2, 2), int), np.zeros((2, 2), int), value)
        self.refused("threads: is 'two'", corestack.fit, PREDS, Y, threads="two")
        for value in ("infGiB", "nanB", "-2GiB", "1e30TiB"):
            self.refused("memory is", corestack.fit, PREDS, Y, memory=value)

    def test_numbers_of_numpy_are_taken(self):
        report = corestack.evaluate(P, Y, resamples=np.int64(5), seed=np.uint64(2**53))
        self.assertEqual(report, corestack.evaluate(P, Y, resamples=5, seed=2**53))

    def test_reals(self):
        values = {name: FLAT + k for k, name in enumerate("ab")}
        stack = corestack.fit(values, FLAT, task="regression", options={"evaluate.nested": False})
        for value in ([0.9], None, "0.9"):
            self.refused("level: is", stack.predict_interval, values, value)


class Texts(Folder, Refused):
    def test_characters(self):
        stack = corestack.fit(PREDS, Y, evaluate_nested=False)
        for bad in ("zz\0.txt", "zz\ud800"):
            where = os.path.join(self.path, bad)
            self.refused("path: ", stack.save, where)
            self.refused("path: ", corestack.load, where)
            self.refused("out: ", stack.predict, str(DIGITS), out=where + ".npy")
            self.refused("names: ", corestack.fit, {bad: P, "b": P}, Y)
            self.refused("classes: ", corestack.fit, PREDS, Y, classes=["a", "b", bad])
            self.refused("split: ", corestack.fit, PREDS, Y, split=bad)
            self.refused("preset: ", corestack.fit, PREDS, Y, preset=bad)
            self.refused("option cka.threshold: ", corestack.fit, PREDS, Y, cka_threshold="0.9" + bad)
            self.refused("options: ", corestack.compare, PREDS, Y, cka_threshold="0.9" + bad)
            self.refused("methods: ", corestack.compare, PREDS, Y, methods=["average" + bad])
            self.refused("reference: ", corestack.compare, PREDS, Y, reference=bad)
            self.refused("predictions: ", corestack.fit, where)
            self.refused("name: ", corestack.io.write_safetensors, os.path.join(self.path, "a.safetensors"), {bad: P})
        self.assertEqual(os.listdir(self.path), [])

    def test_none_and_others(self):
        for split in (None, 5):
            self.refused("split: ", corestack.fit, PREDS, Y, split=split)
            self.refused("split: ", corestack.compare, PREDS, Y, split=split)
            self.refused("split: ", corestack.fit, [DIGITS / "extra_trees.oof.npy"], Y, split=split)
        self.refused("over: ", corestack.sweep, PREDS, Y, over=None, values=[1])
        self.refused("values: ", corestack.sweep, PREDS, Y, over="keep.max", values=4)
        self.refused("values: ", corestack.sweep, PREDS, Y, over="keep.max", values="24")
        self.refused("name: ", metrics.definition, None)
        self.refused("model: ", corestack.Stack.from_bytes, "abc")
        self.refused("model: ", corestack.Stack.from_bytes, 5)
        path = os.path.join(self.path, "a.safetensors")
        corestack.io.write_safetensors(path, {"a": P})
        self.refused("names: ", corestack.io.read_safetensors, path, [5])
        self.refused("path: ", corestack.load, 5)
        self.refused("progress: ", corestack.fit, PREDS, Y, progress="tqdm")


class Predictions(Refused):
    def test_what_holds_none(self):
        stack = corestack.fit(PREDS, Y, evaluate_nested=False)
        for value in (None, 5, iter(PREDS.values())):
            self.refused("predictions: is a", stack.predict, value, error=corestack.ArrayTypeError)
            self.refused("predictions: is a", stack.evaluate, value, Y, error=corestack.ArrayTypeError)
        self.refused("split: ", stack.predict, PREDS, split="oof")

    def test_predictor_of_boxes(self):
        class Boxes(corestack.Stack):
            task = "detection"

        stack = Boxes(corestack.fit(PREDS, Y, **QUICK).to_bytes())
        self.refused("detection", stack.predictor, error=corestack.UnsupportedError)


class Others(Refused):
    """What used to end in an error of Python's own, or in nothing."""

    def test_members(self):
        arrays = list(PREDS.values())
        self.refused("no rows", corestack.fit, [a[:0] for a in arrays], Y[:0], error=corestack.InputError)
        self.refused("no rows", corestack.evaluate, P[:0], Y[:0], error=corestack.InputError)
        self.refused("names: '1' occurs twice", corestack.fit, {1: P, "1": P}, Y)
        self.refused("names: 'a' occurs twice", corestack.fit, arrays, Y, names=list("aabc"))
        self.refused("classes: 'a' occurs twice", corestack.fit, PREDS, Y, classes=list("aab"))
        for name in ("names", "classes", "methods"):
            self.refused(f"{name}: is 5.5", corestack.compare, arrays, Y, **{name: 5.5})
        self.refused("names: is 'abcd'", corestack.fit, arrays, Y, names="abcd")
        self.refused("task is", corestack.fit, PREDS, Y, task=["a"])
        self.refused("options: is 5", corestack.fit, PREDS, Y, options=5)

    def test_no_rows(self):
        for function in (metrics.rmse, metrics.mae):
            self.refused("at least one row", function, np.zeros(0), np.zeros(0))
            self.refused("at least one row", function, np.zeros((0, 2)), np.zeros((0, 2)))
        for y in (np.zeros(0), np.zeros((0, 2))):
            self.refused("0 rows cannot be", corestack.folds, y, task="regression", error=corestack.InputError)

    def test_one_that_is_none(self):
        for call in (metrics.rmse, metrics.nll, corestack.fit):
            self.refused("row 0 has no value", call, None if call is not corestack.fit else {"a": None}, Y, error=corestack.InputError)

    def test_sizes(self):
        self.refused("2147483647 calibration bins", metrics.reliability, P, Y, bins=2**31 - 1)
        for bins in (10_001, -1):
            self.refused(f"{bins} calibration bins", metrics.reliability, P, Y, bins=bins)
        self.assertEqual(len(metrics.reliability(P, Y, bins=10_000)), 10_000)
        self.assertEqual(len(metrics.reliability(P, Y, bins=0)), 15)
        label = np.zeros((2, 2), int)
        for classes in (1 << 24, 2**31 - 1):
            self.refused("out of memory for", metrics.map_scores, label, label, classes, error=corestack.OutOfMemoryError)

    def test_options_that_are_arrays(self):
        self.refused("cka.threshold: '1,2' is not", corestack.fit, PREDS, Y, cka_threshold=np.array([1, 2]))

    def test_costs(self):
        for key in ("flops", "latency_ms", "params"):
            for costs in ("abc", ["a"] * 4, {"model0": "x"}):
                self.refused(f"{key}: is", corestack.fit, PREDS, Y, **{key: costs})
            self.refused(
                f"{key}: unknown member 'x'", corestack.fit, PREDS, Y, **{key: {"x": 1}}, error=corestack.MismatchError
            )
            self.refused(
                rf"{key}\[0\] is -1", corestack.fit, PREDS, Y, **{key: [-1.0] * len(PREDS)}, error=corestack.ArgumentError
            )

    def test_groups(self):
        for value in (np.inf, -np.inf, np.nan, 1e300, 2.0**63):
            for name in ("groups", "folds"):
                column = np.arange(60) % 5.0
                column[3] = value
                self.refused(f"{name}: row 3 is", corestack.fit, PREDS, Y, error=corestack.InputError, **{name: column})
        for value in (None, np.nan):
            column = np.array(list("abcde") * 12, object)
            column[3] = value
            self.refused("groups: row 3", corestack.fit, PREDS, Y, error=corestack.InputError, groups=column)
        large = np.full(60, 2**63, np.uint64)
        self.refused("groups: row 0", corestack.fit, PREDS, Y, error=corestack.InputError, groups=large)

    def test_predictor(self):
        predict = corestack.fit(PREDS, Y, **QUICK).predictor()
        self.refused("is missing", predict, {"x": 1}, error=corestack.MismatchError)
        for value in (None, 5, ["a"] * len(predict._kept)):
            self.refused("predictions: ", predict, value, error=corestack.ArrayTypeError)

    def test_what_is_of_maps(self):
        for name, value in (("layout", "bogus"), ("ignore", 3), ("boundary", 2)):
            self.refused(f"{name}: ", corestack.evaluate, P, Y, **{name: value})

    def test_text_for_a_stack_without_names(self):
        stack = corestack.fit(PREDS, Y, **QUICK)
        self.refused("the stack has no class names", stack.evaluate, PREDS, np.array(list("abc"))[Y])


if __name__ == "__main__":
    unittest.main()
