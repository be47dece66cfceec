"""pandas: rows joined by index, columns by name, and nothing done silently."""
from __future__ import annotations

import os
import tempfile
import unittest

import numpy as np
from common import toy

import corestack
from corestack import metrics

try:
    import pandas as pd
except ImportError:
    raise unittest.SkipTest("pandas is not installed")

QUICK = {"evaluate_nested": False}


class Frames(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(1)

    def shuffled(self, value):
        return value.iloc[self.random.permutation(len(value))]

    def test_a_column_for_each_member(self):
        preds, y = toy(classes=2)
        ids = [f"id{i}" for i in range(len(y))]
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()}, index=ids)
        expected = corestack.fit({n: p[:, 1] for n, p in preds.items()}, y, **QUICK)
        for labels in (y, pd.Series(y, ids), self.shuffled(pd.Series(y, ids))):
            stack = corestack.fit(table, labels, **QUICK)
            self.assertEqual(stack.to_bytes(), expected.to_bytes())
        self.assertEqual(stack.members, list(preds))
        p = stack.predict(table)
        np.testing.assert_array_equal(p, expected.predict({n: p[:, 1] for n, p in preds.items()}))
        np.testing.assert_array_equal(stack.predict(table[stack.kept[::-1]]), p)
        scores = stack.evaluate(table, self.shuffled(pd.Series(y, ids)))
        self.assertEqual(scores, expected.evaluate({n: p[:, 1] for n, p in preds.items()}, y))

    def test_a_column_for_each_class(self):
        preds, y = toy()
        classes, ids = ["ant", "bee", "cat"], np.arange(1000, 1000 + len(y))
        expected = corestack.fit(preds, y, classes=classes, folds=np.arange(len(y)) % 4, **QUICK)
        frames = {n: pd.DataFrame(p, ids, classes) for n, p in preds.items()}
        text = pd.Series(np.array(classes)[y], ids)
        folds = pd.Series(np.arange(len(y)) % 4, ids)
        mixed = dict(frames)
        for name in list(preds)[1:]:
            mixed[name] = self.shuffled(mixed[name])[["cat", "ant", "bee"]]
        for given in (frames, mixed):
            stack = corestack.fit(given, self.shuffled(text), folds=self.shuffled(folds), **QUICK)
            self.assertEqual(stack.to_bytes(), expected.to_bytes())
        listed = corestack.fit(list(mixed.values()), text, names=list(mixed), folds=folds, **QUICK)
        self.assertEqual(listed.to_bytes(), expected.to_bytes())
        np.testing.assert_array_equal(stack.predict(mixed), expected.predict(preds))
        np.testing.assert_array_equal(stack.predict(list(mixed.values())), expected.predict(preds))
        renamed = {n: f.rename(columns={"cat": "cow"}) for n, f in frames.items()}
        with self.assertRaisesRegex(corestack.Error, "cow"):
            stack.predict(renamed)
        with self.assertRaisesRegex(corestack.Error, "cow"):
            stack.evaluate(renamed, text)
        self.assertEqual(stack.evaluate(mixed, text), expected.evaluate(preds, y))

    def test_columns_that_are_no_text(self):
        preds, y = toy()
        expected = corestack.fit(preds, y, **QUICK)
        frames = {n: pd.DataFrame(p) for n, p in preds.items()}
        turned = {n: f[[2, 0, 1]] for n, f in frames.items()}
        one = {n: f[[1, 2, 0]] if n == "model0" else f for n, f in frames.items()}
        for given in (frames, turned, one):
            stack = corestack.fit(given, y, **QUICK)
            self.assertEqual(stack.to_bytes(), expected.to_bytes())
        for given in (frames, turned, one, list(turned.values())):
            np.testing.assert_array_equal(stack.predict(given), expected.predict(preds))
            self.assertEqual(stack.evaluate(given, y), expected.evaluate(preds, y))
        named = {n: f.set_axis([30, 10, 20], axis=1) for n, f in frames.items()}
        codes = np.array([30, 10, 20])[y]
        stack = corestack.fit(named, codes, **QUICK)
        self.assertEqual(stack.classes, ["30", "10", "20"])
        for given in (named, {n: f[[10, 20, 30]] for n, f in named.items()}):
            np.testing.assert_array_equal(stack.predict(given), expected.predict(preds))
            for labels in (codes, codes.astype(str), y):
                self.assertEqual(stack.evaluate(given, labels), expected.evaluate(preds, y))
        with self.assertRaisesRegex(corestack.InputError, "row 0 is '.', which is not one of the classes"):
            corestack.fit(named, y, **QUICK)
        with self.assertRaises(corestack.MismatchError):
            stack.predict({n: f.rename(columns={10: 11}) for n, f in named.items()})
        texts = {n: f.set_axis(list("abc"), axis=1) for n, f in frames.items()}
        stack = corestack.fit(texts, y, **QUICK)
        turned = {n: f[["c", "a", "b"]] for n, f in texts.items()}
        np.testing.assert_array_equal(stack.predict(turned), expected.predict(preds))
        self.assertEqual(stack.evaluate(turned, y), expected.evaluate(preds, y))
        listed = corestack.fit(preds, codes, classes=[30, 10, 20], **QUICK)
        self.assertEqual(listed.classes, ["30", "10", "20"])
        with self.assertRaisesRegex(corestack.ArgumentError, "give text"):
            two = corestack.fit({n: f.set_axis([1, 2, 3], axis=1) for n, f in frames.items()}, y + 1, **QUICK)
            two.evaluate(preds, np.where(y == 0, 1, 2))

    def test_columns_that_no_member_needs(self):
        preds, y = toy(classes=2)
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()})
        stack = corestack.fit(table, y, **QUICK)
        more = table.assign(name="x", when=pd.Timestamp("2020-01-01"))
        np.testing.assert_array_equal(stack.predict(more), stack.predict(table))
        self.assertEqual(stack.evaluate(more, y), stack.evaluate(table, y))

    def test_members_without_use_say_the_order(self):
        preds, y = toy()
        expected = corestack.fit(preds, y, options={"keep.max": 1}, **QUICK)
        (kept,) = expected.kept
        frames = {n: pd.DataFrame(p) for n, p in preds.items()}
        other = next(n for n in frames if n != kept)
        order = self.shuffled(frames[other]).index
        given = {other: frames[other].loc[order], kept: frames[kept]}
        np.testing.assert_array_equal(expected.predict(given), expected.predict(preds)[order])

    def test_ids_that_are_there_twice(self):
        preds, y = toy(classes=2)
        ids = [0, *range(len(y) - 1)]
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()}, index=ids)
        with self.assertRaisesRegex(corestack.InputError, "id 0 occurs twice"):
            corestack.fit(table, pd.Series(y, ids), **QUICK)
        stack = corestack.fit(table, y, **QUICK)  # nothing is joined
        with self.assertRaisesRegex(corestack.InputError, "id 0 occurs twice"):
            stack.evaluate(table, pd.Series(y, ids))

    def test_ids_that_do_not_join(self):
        preds, y = toy(classes=2)
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()})
        labels = pd.Series(y)
        cases = (
            (labels.iloc[:-1], "y: no row with id 239"),
            (pd.concat([labels, pd.Series([1], [777])]), "y: id 777 is extra"),
            (pd.concat([labels, labels.iloc[5:6]]), "y: id 5 occurs twice"),
        )
        for given, text in cases:
            with self.assertRaisesRegex(corestack.Error, text):
                corestack.fit(table, given, **QUICK)
        frames = {n: pd.DataFrame(p) for n, p in preds.items()}
        frames["model2"] = frames["model2"].rename(columns={0: "x"})
        with self.assertRaisesRegex(corestack.MismatchError, "model2: has columns.*expected"):
            corestack.fit(frames, labels, **QUICK)
        twice = pd.concat([table, table.iloc[:, :1]], axis=1)
        with self.assertRaisesRegex(corestack.InputError, "two columns"):
            corestack.fit(twice, labels, **QUICK)


class Scores(unittest.TestCase):
    """corestack.metrics joins rows as the functions do."""

    def setUp(self):
        preds, self.y = toy(rows=50)
        self.ids = [f"row{i}" for i in range(50)]
        self.p = preds["model1"]
        self.frame = pd.DataFrame(self.p, index=self.ids, columns=list("abc"))

    def test_joined_by_index(self):
        labels = pd.Series(self.y, self.ids)
        for name in ("top1", "nll", "brier", "ece", "ece_mass", "ece_classwise", "ece_debiased", "corp"):
            score = getattr(metrics, name)
            wanted = score(self.p, self.y)
            self.assertEqual(score(self.frame, labels[::-1]), wanted)
            self.assertEqual(score(self.p, np.array(list("abc"))[self.y], classes=list("abc")), wanted)
            self.assertEqual(score(self.frame, pd.Series(np.array(list("abc"))[self.y], self.ids)[::-1]), wanted)
        self.assertEqual(metrics.reliability(self.frame, labels[::-1]), metrics.reliability(self.p, self.y))
        with self.assertRaisesRegex(corestack.MismatchError, "y: no row with id 'row0'"):
            metrics.nll(self.frame, labels[1:])

    def test_values(self):
        values, y = pd.Series(self.p[:, 0], self.ids), pd.Series(self.y, self.ids)
        spread = pd.Series(1 + self.p[:, 1], self.ids)
        wanted = metrics.value_scores(values.to_numpy(), self.y, variance=spread.to_numpy(), half_width={0.9: self.p[:, 2]})
        half = {0.9: pd.Series(self.p[:, 2], self.ids)[::-1]}
        self.assertEqual(metrics.value_scores(values, y[::-1], variance=spread[::-1], half_width=half), wanted)
        self.assertEqual(metrics.rmse(values, y[::-1]), metrics.rmse(values.to_numpy(), self.y))



class Columns(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(1)

    def shuffled(self, value):
        return value.iloc[self.random.permutation(len(value))]

    def test_a_column_of_ids(self):
        preds, y = toy(classes=2)
        ids = 5000 + self.random.permutation(len(y))
        one = {n: p[:, 1] for n, p in preds.items()}
        expected = corestack.fit(one, y, **QUICK)
        for name in ("id", "Sample_ID", "image_id", "row id"):
            table = pd.DataFrame({name: ids, **one})
            labels = pd.DataFrame({name: ids, "label": y})
            stack = corestack.fit(table, self.shuffled(labels), **QUICK)
            self.assertEqual(stack.to_bytes(), expected.to_bytes())
            self.assertEqual(stack.members, list(one))
        np.testing.assert_array_equal(stack.predict(table), expected.predict(one))
        self.assertEqual(stack.evaluate(self.shuffled(table), labels)["samples"], len(y))
        self.assertEqual(corestack.fit(table, y, **QUICK).to_bytes(), expected.to_bytes())
        with self.assertRaisesRegex(corestack.MismatchError, "set_index"):
            corestack.fit(table, pd.Series(y), **QUICK)
        twice = table.copy()
        twice.iloc[3, 0] = twice.iloc[4, 0]
        with self.assertRaisesRegex(corestack.InputError, "occurs twice"):
            corestack.fit(twice, y, **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "no ids to join"):
            corestack.fit(one, labels, **QUICK)
        both = table.assign(sample_id=ids)
        with self.assertRaisesRegex(corestack.InputError, "drop one"):
            corestack.fit(both, y, **QUICK)

    def test_a_column_of_ids_beside_classes(self):
        preds, y = toy()
        ids = np.array([f"u{i}" for i in self.random.permutation(len(y))])
        names = ["ant", "bee", "cat"]
        folds = np.arange(len(y)) % 4
        expected = corestack.fit(preds, y, classes=names, folds=folds, **QUICK)
        frames = {}
        for k, (name, p) in enumerate(preds.items()):
            frame = pd.DataFrame(p, columns=names)
            frame.insert(k % 3, "id", ids)
            frames[name] = frame if k == 0 else self.shuffled(frame)[["cat", "id", "bee", "ant"]]
        labels = self.shuffled(pd.DataFrame({"id": ids, "label": np.array(names)[y]}))
        stack = corestack.fit(frames, labels, folds=folds, **QUICK)
        self.assertEqual(stack.to_bytes(), expected.to_bytes())
        np.testing.assert_array_equal(stack.predict(frames), expected.predict(preds))
        last = list(frames)[-1]
        with self.assertRaisesRegex(corestack.MismatchError, "has no id column"):
            corestack.fit({**frames, last: frames[last].drop(columns="id")}, labels, **QUICK)

    def test_columns_that_are_no_predictions(self):
        preds, y = toy(classes=2)
        table = pd.DataFrame({n: p[:, 1] for n, p in preds.items()})
        for name, argument in (("target", "y"), ("y", "y"), ("label", "y"), ("fold", "folds"), ("group", "groups"), ("weight", "sample_weight")):
            with self.assertRaisesRegex(corestack.InputError, f"'{name}' holds no predictions.*as {argument}"):
                corestack.fit(table.assign(**{name: y}), y, **QUICK)

    def test_tables_of_other_formats(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pd.DataFrame({"id": [3, 1, 2], "m": [0.25, 0.5, 0.75]})
            path = os.path.join(folder, "t.csv.gz")
            table.to_csv(path, index=False)
            pd.testing.assert_frame_equal(corestack.io.read_table(path), table)
            for name, word in (("t.pkl", "never"), ("t.pt", "torch.load"), ("t.xlsx", "read_excel"), ("t.dat", "parquet")):
                with self.assertRaisesRegex(corestack.FormatError, word):
                    corestack.io.read_table(os.path.join(folder, name))
            with self.assertRaisesRegex(corestack.FormatError, "read_table"):
                corestack.fit({"a": os.path.join(folder, "a.parquet")}, [0, 1], **QUICK)
            path = os.path.join(folder, "t.parquet")
            try:
                import pyarrow  # noqa: F401
            except ImportError:
                with self.assertRaisesRegex(corestack.UnsupportedError, "pyarrow"):
                    corestack.io.read_table(path)
                return
            table.to_parquet(path, index=False)
            pd.testing.assert_frame_equal(corestack.io.read_table(path), table)


if __name__ == "__main__":
    unittest.main()
