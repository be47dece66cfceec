"""Folds in time: blocks by NumPy, nested predictions against fits on the earlier rows by the tool itself, the order, the gap, refusals."""

import csv
import os
import unittest

import numpy as np

from support import PoolCase, softmax

ROWS, BLOCKS = 150, 4  # --set folds.count=3
FAST = ("--set", "folds.count=3", "--resamples", "0")


def blocks(times, count):
    """Block of each row: runs of equal times, each in the next block where the rows before it fill so many."""
    out = np.zeros(len(times), int)
    different = np.unique(times)
    block = 0
    for i, time in enumerate(different):
        before = (times < time).sum()
        if i > 0 and block < count - 1 and (before * count >= len(times) * (block + 1) or len(different) - i < count - block):
            block += 1
        out[times == time] = block
    return out


class TimeFolds(PoolCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.times = rng.permutation(ROWS) // 2  # pairs of rows of one time, in no order
        self.labels = rng.integers(0, 3, ROWS)
        self.targets = rng.normal(size=ROWS) + self.times / 50
        self.members = [softmax(1.5 * np.eye(3)[self.labels] + rng.normal(size=(ROWS, 3)) * s).astype("f4") for s in (0.8, 1, 1.3, 1.6)]
        self.values = [(self.targets + rng.normal(size=ROWS) * s).astype("f4") for s in (0.4, 0.6, 0.8, 1)]
        self.block = blocks(self.times, BLOCKS)

    def works(self, *arguments, **keywords):
        result = super().works(*arguments, cwd=self.folder, **keywords)
        result.text = result.out + result.err
        return result

    def refuses(self, *arguments, says):
        self.fails(*arguments, says=says, cwd=self.folder, code=2)

    def write(self, folder, members, truth, rows):
        os.makedirs(self.path(folder), exist_ok=True)
        for k, member in enumerate(members):
            np.save(self.path(f"{folder}/m{k}.npy"), member[rows])
        np.save(self.path(f"{folder}/labels.npy"), truth[rows])
        with open(self.path(f"{folder}.csv"), "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["date"], *([str(np.datetime64("2021-01-01") + int(t))] for t in self.times[rows])])
        return (folder, "--folds", "time", "--order", f"{folder}.csv#date")

    def oracle(self, members, truth, method, task=(), gap=0):
        """The nested predictions are those of fits on a pool of the rows before."""
        whole = self.write("whole", members, truth, np.arange(ROWS))
        report = self.works("compare", *whole, *task, *FAST, "--methods", method, "--set", f"folds.gap={gap}", "--save", "saved", "--json").json()
        nested = np.load(self.path(f"saved/{method}.oof.npy"))
        scored = np.flatnonzero(self.block > 0)
        self.assertEqual((report["samples"], len(nested)), (len(scored), len(scored)))
        how = ("--preset", method) if method == "default" else ("--method", method)
        for b in range(1, BLOCKS):
            start = (self.block < b).sum()
            until = np.array([(self.times <= t).sum() for t in self.times])
            before = np.flatnonzero((self.block < b) & (until + gap <= start))
            held = np.flatnonzero(self.block == b)
            part = self.write(f"part{b}", members, truth, before)
            self.works("fit", *part, *task, *how, "--set", "folds.count=3", "--set", "evaluate.nested=false", "-o", "part.cstack")
            self.write(f"held{b}", members, truth, held)
            self.works("predict", "part.cstack", f"held{b}", "--split", "oof", "-o", "held.npy", *task)
            np.testing.assert_allclose(nested[np.searchsorted(scored, held)], np.load(self.path("held.npy")), rtol=1e-6, atol=1e-7)
        return report

    def test_a_method_of_classes(self):
        report = self.oracle(self.members, self.labels, "average+temperature")
        rows = np.load(self.path("saved/average+temperature.oof.npy"))
        truth = self.labels[self.block > 0]
        self.assertAlmostEqual(report["rows"][0]["nll"], -np.log(rows[np.arange(len(truth)), truth]).mean(), places=6)

    def test_a_method_of_values_with_a_gap(self):
        report = self.oracle(self.values, self.targets, "ridge", ("--task", "regression"), gap=7)
        error = np.load(self.path("saved/ridge.oof.npy")).ravel() - self.targets[self.block > 0]
        self.assertAlmostEqual(report["rows"][0]["rmse"], np.sqrt((error**2).mean()), places=6)

    def test_the_stack(self):
        report = self.oracle(self.members, self.labels, "default")
        fitted = self.works("fit", *self.write("whole", self.members, self.labels, np.arange(ROWS)), "--set", "folds.count=3", "-o", "m.cstack", "--json").json()
        self.assertAlmostEqual(fitted["oof"]["nll"], report["rows"][0]["nll"], places=6)
        self.assertEqual(fitted["folds"], {"count": 3, "source": "time"})

    def test_the_stack_of_values(self):
        self.oracle(self.values, self.targets, "default", ("--task", "regression"))

    def test_a_sweep_over_the_gap_and_predictions_of_a_users_own(self):
        whole = self.write("whole", self.members, self.labels, np.arange(ROWS))
        swept = self.works("sweep", *whole, "--over", "folds.gap=0,20", "--methods", "default", "--set", "folds.count=3", "--json").json()["rows"]
        for row, gap in zip(swept, (0, 20)):
            one = self.works("compare", *whole, *FAST, "--methods", "default", "--set", f"folds.gap={gap}", "--with", f"own={self.path('whole/m1.npy')}", "--json").json()["rows"]
            self.assertEqual(row["nll"], one[0]["nll"])
        self.assertNotEqual(swept[0]["nll"], swept[1]["nll"])
        later = np.flatnonzero(self.block > 0)
        self.assertAlmostEqual(one[1]["nll"], -np.log(self.members[1][later, self.labels[later]].astype(float)).mean(), places=6)

    def test_the_command_folds(self):
        self.save("y.npy", self.labels)
        self.save("t.npy", self.times)
        self.works("folds", "--labels", "y.npy", "-L", "3", "--order", "t.npy", "-o", "f.npy")
        np.testing.assert_array_equal(np.load(self.path("f.npy")), self.block)
        self.works("folds", "--labels", "y.npy", "-L", "3", "--time", "-o", "f.npy")
        np.testing.assert_array_equal(np.load(self.path("f.npy")), blocks(np.arange(ROWS), BLOCKS))

    def test_the_manifest_names_the_order(self):
        self.write("whole", self.members, self.labels, np.arange(ROWS))
        self.manifest = {"corestack_pool": 1, "task": "classification", "splits": {"oof": {"labels": "whole/labels.npy", "order": "whole.csv"}},
                         "models": [{"name": f"m{k}", "predictions": {"oof": f"whole/m{k}.npy"}} for k in range(4)]}
        self.write_manifest()
        one = self.works("compare", "pool.json", "--folds", "time", "--methods", "ridge", *FAST, "--json").json()
        other = self.works("compare", "whole", "--folds", "time", "--order", "whole.csv", "--methods", "ridge", *FAST, "--json").json()
        self.assertEqual(one["rows"][0]["nll"], other["rows"][0]["nll"])

    def test_ids_that_are_dates(self):
        folder = self.write("whole", self.members, self.labels, np.arange(ROWS))[0]
        dates = [str(np.datetime64("2021-01-01T10") + i) for i in range(ROWS)]
        self.save("whole/ids.npy", np.array(dates))
        fit = ("fit", folder, "-o", "m.cstack", "--set", "evaluate.nested=false")
        for command in (fit, ("compare", folder, "--methods", "average", "--resamples", "0"), ("inspect", folder)):
            self.assertEqual(self.works(*command).text.count("--folds time"), 1, command)
        self.save("g.npy", np.arange(ROWS) // 3)
        for more in (("--folds", "time"), ("--groups", "g.npy")):
            self.assertNotIn("look like dates", self.works(*fit, *more).text)
        self.save("whole/ids.npy", np.array([f"{10000000 + i}" for i in range(ROWS)]))
        self.assertNotIn("look like dates", self.works(*fit).text)

    def test_refusals(self):
        whole = self.write("whole", self.members, self.labels, np.arange(ROWS))
        fit = ("fit", *whole, "-o", "m.cstack")
        self.refuses(*fit, "--set", "folds.gap=60", says=("folds.gap",))
        self.refuses(*fit, "--set", "folds.count=90", says=("75 different times", "folds.count"))
        self.save("f.npy", self.block)
        self.refuses("fit", "whole", "--folds", "f.npy", "--set", "folds.kind=time", "-o", "m.cstack", says=("folds of its own", "--folds FILE"))
        with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
            file.write("date\n" + "3/14/2021\n" * ROWS)
        self.refuses("fit", "whole", "--folds", "time", "--order", "bad.csv", "-o", "m.cstack", says=("row 0 is '3/14/2021'", "2021-03-14"))


if __name__ == "__main__":
    unittest.main()
