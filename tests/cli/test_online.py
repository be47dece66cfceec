"""`online`: a split as a stream, labels that are late or missing, and a state file."""

import csv
import os
import sys
import unittest

import numpy as np
from support import SOURCES, PoolCase

sys.path.insert(0, os.path.join(SOURCES, "tests", "oracles"))
from online import Adapter  # noqa: E402

NAMES = ("ada", "bob", "cyd")


class Online(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit("--method", "average")
        self.out = self.path("out.npy")
        self.state = self.path("service.state")
        self.rows = {name: self.members[name, "test"] for name in NAMES}
        self.y = np.load(self.path("test_labels.npy"))
        self.save_labels = lambda y: self.save("test_labels.npy", y)

    def online(self, *more, pool=None):
        return self.works("online", self.model, pool or self.pool, *more)

    def report(self, *more):
        return self.online("--json", *more).json()

    def cut(self, name, first, last):
        """A table with ids, labels and members of some rows of the test split."""
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "label"] + [f"{n}:{c}" for n in NAMES for c in range(3)])
            for i in range(first, last):
                label = "" if self.y[i] < 0 else self.y[i]
                writer.writerow([f"row{i}", label] + [repr(float(v)) for n in NAMES for v in self.rows[n][i]])
        return self.path(name)

    def test_as_in_numpy(self):
        delay = 4
        self.y[::5] = -1
        self.save_labels(self.y)
        report = self.report("--delay", delay, "-o", self.out, "--block", "10")
        p = np.stack([self.rows[n] for n in NAMES]).astype(np.float32)
        adapter = Adapter(3, 3)
        expected, loss = [], []
        for i in range(len(self.y)):
            expected.append(adapter.observe(p[:, i], p[:, i].astype(float).mean(0)))
            if i >= delay and self.y[i - delay] >= 0:
                adapter.label(i - delay, self.y[i - delay])
                loss.append(-np.log(expected[i - delay][self.y[i - delay]]))
        np.testing.assert_allclose(np.load(self.out), expected, atol=2e-5)
        self.assertAlmostEqual(report["nll"]["adapter"], np.mean(loss), places=4)
        self.assertEqual((report["rows"], report["labelled"], report["unlabelled"]),
                         (len(self.y), len(loss), (self.y < 0).sum()))
        self.assertAlmostEqual(report["series"]["adapter"][-1], sum(loss), places=3)
        self.assertAlmostEqual(report["regret"]["stack"], sum(loss) - len(loss) * report["nll"]["stack"], places=3)

    def test_two_files_are_as_one(self):
        n, half = len(self.y), len(self.y) // 2
        self.y[3] = self.y[half + 2] = -1
        whole, parts = self.path("whole.csv"), [self.path("a.csv"), self.path("b.csv")]
        more = ("--delay", "6")
        self.online(*more, "--state", self.path("one.state"), "-o", whole, pool=self.cut("stream.csv", 0, n))
        for out, first, last in zip(parts, (0, half), (half, n)):
            self.online(*more, "--state", self.state, "-o", out, pool=self.cut("part.csv", first, last))
        a, b = (self.read(part).split(b"\n", 1) for part in parts)
        self.assertEqual(a[0], b"id,0,1,2")
        self.assertEqual(self.read(whole), b"\n".join(a) + b[1])
        self.assertEqual(self.read(self.state), self.read(self.path("one.state")))
        self.fails("online", self.model, self.path("part.csv"), "--state", self.state, "--pending", "50",
                   says=["option --pending", "fixed when a state is started"])

    def test_threads_do_not_matter(self):
        self.online("--state", self.state, "-t", "1", "-o", self.out)
        one = self.read(self.state), self.read(self.out)
        os.remove(self.state)
        self.online("--state", self.state, "-t", "3", "-o", self.out)
        self.assertEqual((self.read(self.state), self.read(self.out)), one)

    def test_a_state_of_another_model(self):
        self.online("--state", self.state)
        before = self.read(self.state)
        self.fit("--method", "log-linear")
        self.fails("online", self.model, self.pool, "--state", self.state, says=[self.state, "another model"])
        with open(self.state, "wb") as file:
            file.write(before[:-9])
        self.fails("online", self.model, self.pool, "--state", self.state, says=["wrong checksum"])
        self.fails("online", self.model, self.pool, "--state", self.model, says=["--state", "an input of the command"])
        self.assertEqual(self.read(self.state), before[:-9])

    def test_without_labels(self):
        del self.manifest["splits"]["test"]["labels"]
        self.write_manifest()
        report = self.report("-o", self.out)
        self.assertEqual((report["labelled"], report["best_member"], report["nll"]["adapter"]), (0, None, None))
        self.assertIn("has no labels", report["notices"][0])
        self.assertEqual(np.load(self.out).shape, (len(self.y), 3))

    def test_bad_streams(self):
        with self.subTest("cut off"):
            path = self.cut("stream.csv", 0, 20)
            text = self.read(path)
            with open(path, "wb") as file:
                file.write(text[: text.rindex(b",", 0, -2)])
            self.fails("online", self.model, path, "-o", self.out, "--state", self.state, says=["stream.csv", "line 21"])
        with self.subTest("NaN"):
            y = self.y.astype(float)
            y[4] = np.nan
            self.save_labels(y)
            self.fails("online", self.model, self.pool, "--state", self.state, says=["test_labels.npy", "row 4 is nan", "-1 where a label is missing"])
        with self.subTest("no class"):
            self.y[4] = 3
            self.save_labels(self.y)
            self.fails("online", self.model, self.pool, "--state", self.state, says=["row 4 is label 3", "0 to 2"])
        with self.subTest("repeated id"):
            path = self.cut("stream.csv", 0, 4)
            text = self.read(path).replace(b"row3", b"row1")
            with open(path, "wb") as file:
                file.write(text)
            self.fails("online", self.model, path, "--state", self.state, says=["row1"])
        self.assertFalse(os.path.exists(self.state))
        self.assertFalse(os.path.exists(self.out))

    def test_missing_labels_are_for_streams_only(self):
        self.y[2] = -1
        self.save_labels(self.y)
        self.fails("evaluate", self.model, self.pool, says=["row 2 is label -1"])

    def test_options(self):
        self.fails("online", self.model, self.pool, "--delay", "9", "--pending", "9", says=["--pending 10 or more"])
        self.fails("online", self.model, self.pool, "--members", "some", says=["not all or kept"])
        self.fails("online", self.model, self.pool, "-o", self.path("x.json"), says=[".npy or .csv"])
        self.assertEqual(self.report("--delay", "20000")["labelled"], 0)
        self.assertEqual(self.report("--members", "kept")["members"], list(NAMES))


class Regression(PoolCase):
    def test_not_supported(self):
        concrete = os.path.join(SOURCES, "examples", "concrete", "pool.json")
        self.works("fit", concrete, "-o", self.model, "--set", "evaluate.nested=false")
        self.fails("online", self.model, concrete, says=["not supported for regression"])


if __name__ == "__main__":
    unittest.main()
