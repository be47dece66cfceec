"""csv files as predictions: one table for all members, names of columns and classes."""
from __future__ import annotations

import csv
import os
import shutil
import tempfile
import unittest

import numpy as np
from common import toy

import corestack

QUICK = {"evaluate_nested": False}


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-python-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, header, *columns):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerows([header, *([x.item() if hasattr(x, "item") else x for x in row] for row in zip(*columns))])
        return path

    def test_one_table_for_all_members(self):
        preds, y = toy(classes=2)
        one = {n: p[:, 1].astype(np.float64) for n, p in preds.items()}
        ids = np.arange(len(y)) + 9000
        expected = corestack.fit(one, y, folds=np.arange(len(y)) % 4, **QUICK)
        train = self.write("train.csv", ["customer_id", "bought", "fold", *one], ids, y, np.arange(len(y)) % 4, *one.values())
        test = self.write("test.csv", ["customer_id", *one], ids[::-1], *[p[::-1] for p in one.values()])
        stack = corestack.fit(train, label_column="bought", **QUICK)
        self.assertEqual(stack.members, list(one))
        np.testing.assert_array_equal(stack.predict(test), expected.predict(one)[::-1])
        np.testing.assert_array_equal(stack.predict(test, id_column="customer_id"), expected.predict(one)[::-1])
        np.testing.assert_array_equal(stack.predict(train), expected.predict(one))
        empty = self.write("empty.csv", ["customer_id", "y", *one], ids, [""] * len(y), *one.values())
        np.testing.assert_array_equal(stack.predict(empty), expected.predict(one))
        with self.assertRaisesRegex(corestack.InputError, "every row needs a label"):
            stack.evaluate(empty)
        again = corestack.fit(train, label_column=2, id_column=1, **QUICK)
        self.assertEqual(again.to_bytes(), stack.to_bytes())
        with self.assertRaisesRegex(corestack.ArgumentError, "set_index"):
            corestack.fit(one, y, id_column="id", **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "'price'"):
            corestack.fit(train, label_column="price", **QUICK)

    def test_names_of_classes(self):
        preds, y = toy()
        names = ["cat", "dog", "ant"]
        folds = np.arange(len(y)) % 4
        expected = corestack.fit(preds, y, classes=names, folds=folds, **QUICK)
        files = [self.write(f"{n}.csv", ["p_ant", "p_cat", "p_dog"], *p[:, [2, 0, 1]].T.astype(np.float64)) for n, p in preds.items()]
        numbers = self.write("y.csv", ["label"], y)
        stack = corestack.fit(files, numbers, classes=names, folds=folds, **QUICK)
        self.assertEqual(stack.classes, names)
        np.testing.assert_allclose(stack.predict(files), expected.predict(preds), atol=1e-6)
        texts = self.write("t.csv", ["label"], np.array(names)[y])
        found = corestack.fit(files, texts, folds=folds, **QUICK)
        self.assertEqual(found.classes, ["ant", "cat", "dog"])
        np.testing.assert_allclose(found.predict(files), expected.predict(preds)[:, [2, 0, 1]], atol=1e-4)


if __name__ == "__main__":
    unittest.main()
