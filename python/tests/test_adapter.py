"""The adapter: a stream by hand, as NumPy, as the tool, and saved on the way."""
from __future__ import annotations

import json
import os
import pickle
import sys

import numpy as np
from common import ROOT, Folder, needs_tool, run_tool, toy

import corestack

try:
    import pandas
except ImportError:
    pandas = None

sys.path.insert(0, str(ROOT / "tests" / "oracles"))


class Adapters(Folder):
    def setUp(self):
        super().setUp()
        preds, y = toy(rows=300)
        self.preds = {name: p[200:] for name, p in preds.items()}
        self.y = y[200:]
        self.stack = corestack.fit({n: p[:200] for n, p in preds.items()}, y[:200], method="average")
        self.names = sorted(self.preds)

    def adapter(self, **how):
        return corestack.Adapter(self.stack, self.names, **how)

    def row(self, i):
        return {name: p[i] for name, p in self.preds.items()}

    def run_rows(self, adapter, first, last):
        out = []
        for i in range(first, last):
            p, ticket = adapter.observe(self.row(i))
            self.assertEqual(ticket, i)
            out.append(p)
            if i >= 3 and i % 5:
                adapter.label(i - 3, int(self.y[i - 3]))
        return out

    def test_as_in_numpy(self):
        from online import Adapter

        oracle, expected = Adapter(4, 3), []
        for i in range(100):
            row = np.stack([self.preds[n][i] for n in self.names])
            expected.append(oracle.observe(row, row.astype(float).mean(0)))
            if i >= 3 and i % 5:
                oracle.label(i - 3, self.y[i - 3])
        adapter = self.adapter()
        np.testing.assert_allclose(self.run_rows(adapter, 0, 100), expected, atol=2e-5)
        state = adapter.state
        self.assertEqual((state.observed, state.labelled, state.waiting, state.dropped), (100, 78, 22, 0))
        self.assertIn(state.best_member, self.names)
        self.assertAlmostEqual(state.stack_share + state.newton_share + state.members_share + state.average_share, 1)

    def test_saved_on_the_way(self):
        whole = self.run_rows(self.adapter(pending=10), 0, 100)
        adapter = self.adapter(pending=10)
        parts = self.run_rows(adapter, 0, 41)
        adapter.save(self.path / "a.state")
        os.mkfifo(self.path / "pipe")
        with self.assertRaisesRegex(corestack.FileError, "pipe"):  # and does not wait for a reader
            adapter.save(self.path / "pipe")
        again = corestack.Adapter.load(self.path / "a.state", self.stack)
        self.assertEqual(again.members, self.names)
        parts += self.run_rows(again, 41, 100)
        np.testing.assert_array_equal(whole, parts)
        other = corestack.fit(*toy(rows=200, seed=1), method="average")
        with self.assertRaisesRegex(corestack.MismatchError, "another model"):
            corestack.Adapter.load(self.path / "a.state", other)
        (self.path / "a.state").write_bytes(b"no state")
        with self.assertRaisesRegex(corestack.FormatError, "no state of an online adapter"):
            corestack.Adapter.load(self.path / "a.state", self.stack)

    def test_prediction_sets(self):
        adapter, held = self.adapter(alpha=0.2), []
        for i in range(100):
            p, ticket = adapter.observe(self.row(i))
            found = adapter.prediction_set(ticket)
            held.append(found[self.y[i]])
            self.assertTrue((found == (p >= p[found].min())).all() if found.any() else True)
            self.assertTrue(i >= 4 or found.all())
            adapter.label(ticket, int(self.y[i]))
        self.assertAlmostEqual(adapter.state.coverage, np.mean(held))
        with self.assertRaisesRegex(corestack.InputError, "has its label already"):
            adapter.prediction_set(ticket)
        with self.assertRaisesRegex(corestack.ArgumentError, "alpha"):
            self.adapter(alpha=1)

    def test_several_rows_at_once(self):
        adapter, one = self.adapter(), self.adapter()
        p, tickets = adapter.observe([self.preds[n][:7].astype(float) for n in self.names])
        self.assertEqual((p.shape, tickets.tolist()), ((7, 3), list(range(7))))
        np.testing.assert_array_equal(p, [one.observe(self.row(i))[0] for i in range(7)])
        adapter.label(tickets[[4, 2]], self.y[[4, 2]])
        for i in (4, 2):
            one.label(i, self.y[i])
        np.testing.assert_array_equal(adapter.observe(self.row(8))[0], one.observe(self.row(8))[0])

    def test_errors(self):
        adapter = self.adapter(pending=2)
        for i in range(4):
            adapter.observe(self.row(i))
        for ticket, label, error, says in (
            (9, 0, corestack.InputError, "not given out"),
            (0, 0, corestack.InputError, "too old"),
            (3, 3, corestack.InputError, "0 to 2"),
            (3, np.nan, corestack.ArrayTypeError, "whole number"),
            ([2, 3], 1, corestack.MismatchError, "2 tickets"),
        ):
            with self.subTest(says), self.assertRaisesRegex(error, says):
                adapter.label(ticket, label)
        with self.assertRaisesRegex(corestack.MismatchError, "'model0' is missing"):
            adapter.observe({})
        with self.assertRaisesRegex(corestack.MismatchError, "shapes"):
            adapter.observe([np.ones((0, 3))] * 4)
        with self.assertRaisesRegex(corestack.InputError, "nan is not a probability"):
            adapter.observe([np.full(3, np.nan)] * 4)
        self.assertEqual(adapter.state.observed, 4)
        with self.assertRaisesRegex(corestack.MismatchError, "needs member"):
            corestack.Adapter(self.stack, ["model0"])
        with self.assertRaisesRegex(corestack.ArgumentError, "pending"):
            self.adapter(pending=0)
        with self.assertRaisesRegex(TypeError, "save"):
            pickle.dumps(adapter)
        values = corestack.fit({"a": self.y[:40] + 0.1 * self.preds["model0"][:40, 0]}, self.y[:40].astype(float), task="regression")
        with self.assertRaisesRegex(corestack.UnsupportedError, "regression"):
            corestack.Adapter(values)

    @needs_tool
    def test_as_the_tool(self):
        model, state = self.path / "m.cstack", self.path / "s.state"
        self.stack.save(model)
        files = []
        for name in self.names:
            np.save(self.path / f"{name}.npy", self.preds[name])
            files.append(self.path / f"{name}.npy")
        y = self.y.copy()
        y[::4] = -1
        np.save(self.path / "y.npy", y)
        out = self.path / "p.npy"
        words = ["online", model, *files, "--labels", self.path / "y.npy", "--state", state, "-o", out, "--json"]
        report = json.loads(run_tool(*words))
        adapter, found = self.adapter(), []
        for i in range(100):
            found.append(adapter.observe(self.row(i))[0])
            if y[i] >= 0:
                adapter.label(i, y[i])
        np.testing.assert_allclose(np.load(out), found, atol=1e-6)
        loaded = corestack.Adapter.load(state, model)
        self.assertEqual(loaded.state.labelled, report["labelled"])
        self.assertAlmostEqual(loaded.state.loss, report["nll"]["adapter"])

    def test_names_of_classes(self):
        preds, y = toy(rows=300)
        names = np.array(["ant", "bee", "cat"])
        stack = corestack.fit(preds, names[y], classes=list(names), method="average")
        one, two = corestack.Adapter(stack, self.names), corestack.Adapter(stack, self.names)
        _, tickets = one.observe(self.preds)
        frames = self.preds
        if pandas is not None:  # columns are found by their names
            frames = {k: pandas.DataFrame(p, columns=names)[["cat", "ant", "bee"]] for k, p in self.preds.items()}
        two.observe(frames)
        one.label(tickets, self.y)
        two.label(tickets[:60], names[self.y[:60]])
        two.label(60, names[self.y[60]])
        two.label(tickets[61:], list(names[self.y[61:]]))
        two.label([], [])
        self.assertEqual(one.state, two.state)
        with self.assertRaisesRegex(corestack.InputError, "'eel' is no class"):
            two.label(0, "eel")
        with self.assertRaisesRegex(corestack.InputError, "the stack has no class names"):
            self.adapter().label(0, "ant")

    def test_wrong_arguments(self):
        for wrong in ({"alpha": "a"}, {"alpha": None}, {"alpha": 2}, {"pending": 0}):
            with self.assertRaisesRegex(corestack.ArgumentError, next(iter(wrong))):
                self.adapter(**wrong)
        for members in (3, "model0"):
            with self.assertRaisesRegex(corestack.ArgumentError, "members"):
                corestack.Adapter(self.stack, members)


if __name__ == "__main__":
    import unittest

    unittest.main()
