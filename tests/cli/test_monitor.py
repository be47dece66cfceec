"""`monitor`: evidence and expected accuracy by NumPy, states, splits and conditions, what is refused."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import unittest

import numpy as np

from support import DIGITS, SOURCES, TOOL, PoolCase, run

sys.path.insert(0, os.path.join(SOURCES, "tests", "oracles"))
import monitor as oracle  # noqa: E402

EXAMPLES = os.path.join(SOURCES, "examples")
FAST = ["--set", "evaluate.nested=false"]


class Monitor(PoolCase):
    model_bytes = b""

    def setUp(self):
        super().setUp()
        self.stack = self.path("digits.cstack")
        if not Monitor.model_bytes:
            self.works("fit", DIGITS, "-o", self.stack, *FAST)
            Monitor.model_bytes = self.read(self.stack)
        self.write(self.stack, Monitor.model_bytes)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def write(self, path, data):
        with open(path, "wb") as file:
            file.write(data)

    def report(self, *arguments, code=0):
        result = run("monitor", self.stack, *arguments, "--json")
        self.assertEqual(result.code, code, result.err)
        return result.json()

    def shifted(self):
        """The test split of digits with members that are all unsure, as a folder."""
        folder = self.path("shifted")
        os.makedirs(folder, exist_ok=True)
        with open(DIGITS if DIGITS.endswith(".json") else os.path.join(DIGITS, "pool.json")) as file:
            manifest = json.load(file)
        for member in manifest["models"]:
            name = member["predictions"]["test"]
            p = np.load(os.path.join(EXAMPLES, "digits", name)).astype(float)
            np.save(os.path.join(folder, member["name"] + ".npy"), (0.4 * p + 0.06).astype(np.float32))
        return folder

    def test_numpy(self):
        with open(os.path.join(EXAMPLES, "digits", "pool.json")) as file:
            manifest = json.load(file)
        kept = [member["name"] for member in self.works("show", self.stack, "--json").json()["members"]]
        data = {}
        for split in ("oof", "test"):
            out = self.path(split + ".npy")
            self.works("predict", self.stack, DIGITS, "--split", split, "--guard", "off", "-o", out)
            paths = {m["name"]: m["predictions"][split] for m in manifest["models"]}
            members = np.array([np.load(os.path.join(EXAMPLES, "digits", paths[k])) for k in kept], dtype=float)
            data[split] = members / members.sum(axis=-1, keepdims=True), np.load(out).astype(float)
        labels = np.load(os.path.join(EXAMPLES, "digits", "oof_labels.npy"))
        fit = oracle.Fit(*data["oof"], labels)
        found = self.report(DIGITS, "--in-order")
        batch = found["batches"][0]
        evidence = fit.evidence(*data["test"])
        self.assertAlmostEqual(found["fit"]["top1"], fit.accuracy, places=9)
        self.assertAlmostEqual(found["evidence"], evidence[-1], delta=1e-6 * evidence[-1])
        self.assertAlmostEqual(batch["evidence_alone"], max(1, evidence.max()), delta=1e-6 * evidence.max())
        self.assertAlmostEqual(batch["expected"]["top1"], fit.expected(*data["test"]), places=9)
        test_labels = np.load(os.path.join(EXAMPLES, "digits", "test_labels.npy"))
        self.assertAlmostEqual(batch["observed"]["top1"], np.mean(data["test"][1].argmax(1) == test_labels), places=9)

    def test_metric(self):
        found = self.report(DIGITS, "--metric", "auc")
        value = self.works("evaluate", self.stack, DIGITS, "--metric", "auc", "--json").json()["auc"]
        self.assertEqual(found["metric"]["key"], "auc")
        self.assertAlmostEqual(found["batches"][0]["observed"]["metric"], value, places=9)
        self.assertNotIn("metric", self.report(DIGITS))

    def test_clean_and_shifted(self):
        self.assertFalse(self.report(DIGITS)["alarm"])
        found = self.report(self.shifted(), code=1)
        self.assertTrue(found["alarm"])
        self.assertEqual(found["first_alarm"], {"number": 1, "batch": "oof"})
        self.assertGreater(found["batches"][0]["flags"], 0)
        self.assertNotIn("observed", found["batches"][0])

    def test_class_shares(self):
        with open(os.path.join(EXAMPLES, "digits", "pool.json")) as file:
            manifest = json.load(file)
        labels = np.load(os.path.join(EXAMPLES, "digits", "test_labels.npy"))
        for member in manifest["models"]:
            p = np.load(os.path.join(EXAMPLES, "digits", member["predictions"]["test"]))
            np.save(self.path(member["name"] + ".npy"), p[labels < 4])
        files = [self.path(member["name"] + ".npy") for member in manifest["models"]]
        self.assertTrue(self.report(*files, code=1)["alarm"])

    def test_state_is_one_test(self):
        state = self.path("digits.monitor")
        both = self.report(DIGITS, DIGITS)
        self.report(DIGITS, "--state", state)
        second = self.report(DIGITS, "--state", state)
        self.assertEqual(second["evidence"], both["evidence"])
        self.assertEqual((second["rows"], second["batches_seen"]), (both["rows"], 2))
        self.report(self.shifted(), "--state", state, code=1)
        self.assertEqual(self.report(DIGITS, "--state", state, code=1)["first_alarm"]["number"], 3)
        before = self.read(state)
        self.assertLess(len(before), 100000)
        self.fails("monitor", self.stack, DIGITS, "--state", state, "--alpha", "0.05", says=["alpha"])
        self.fails("monitor", self.stack, DIGITS, "--split", "none", "--state", state, says=["none"])
        self.assertEqual(self.read(state), before)
        for at in (0, 9, 30, len(before) - 1):
            self.write(state, before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
            self.fails("monitor", self.stack, DIGITS, "--state", state, says=["digits.monitor"])
        self.write(state, before[:-7])
        self.fails("monitor", self.stack, DIGITS, "--state", state, says=["checksum"])
        self.write(state, b"")
        self.fails("monitor", self.stack, DIGITS, "--state", state, says=["empty"])
        self.write(state, Monitor.model_bytes)
        self.fails("monitor", self.stack, DIGITS, "--state", state, says=["not the state of a monitor"])

    def test_runs_at_once_are_one_test(self):
        state = self.path("digits.monitor")
        rows = self.report(DIGITS)["rows"]
        runs = [subprocess.Popen([TOOL, "monitor", self.stack, DIGITS, "--state", state, "-q"], stdout=subprocess.DEVNULL)
                for _ in range(4)]
        self.assertEqual([one.wait() for one in runs], [0] * 4)
        self.assertEqual(self.report(DIGITS, "--state", state)["rows"], 5 * rows)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("digits.m")], ["digits.monitor"])
        for place in (state, self.folder):  # as a run has it that replaces the state, or is the first
            held = os.open(place, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            waits = subprocess.Popen([TOOL, "monitor", self.stack, DIGITS, "--state", state, "-v"], stderr=subprocess.PIPE, text=True)
            self.assertIn("waiting for another run", waits.stderr.readline())
            waits.terminate()
            self.assertEqual((len(waits.communicate(timeout=5)[1].splitlines()), waits.returncode), (1, -signal.SIGTERM))
            os.close(held)
            if place == state:
                os.remove(state)
        self.assertFalse(os.path.exists(state))

    def test_state_of_another_model(self):
        state, other = self.path("digits.monitor"), self.path("other.cstack")
        self.report(DIGITS, "--state", state)
        self.works("fit", DIGITS, "-o", other, "--method", "average", *FAST)
        self.fails("monitor", other, DIGITS, "--state", state, says=["another model"])

    def test_splits_and_threads(self):
        found = self.report(DIGITS, "--split", "oof,test")
        self.assertEqual([batch["batch"] for batch in found["batches"]], ["oof", "test"])
        again = self.report(DIGITS, "--split", "oof,test", "--threads", "3")
        again["notices"] = found["notices"]
        self.assertEqual(found, again)

    def test_small_and_odd_batches(self):
        folder = self.shifted()
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            np.save(path, np.load(path)[:1])
        one = self.report(folder)["batches"][0]
        self.assertEqual((one["samples"], one["flags"]), (1, 0))
        for name in os.listdir(folder):
            np.save(os.path.join(folder, name), np.tile(np.eye(10, dtype=np.float32)[3], (60, 1)))
        same = self.report(folder, code=run("monitor", self.stack, folder).code)
        self.assertGreater(same["batches"][0]["flags"], 0)  # one class, constant members
        for name in os.listdir(folder):
            np.save(os.path.join(folder, name), np.zeros((0, 10), dtype=np.float32))
        self.fails("monitor", self.stack, folder)
        for name in os.listdir(folder):
            np.save(os.path.join(folder, name), np.full((60, 4), 0.25, dtype=np.float32))
        self.fails("monitor", self.stack, folder, says=["classes"])

    def test_refused(self):
        for words, says in (
            ([], "no batch given"),
            ([DIGITS, "a.npy"], "mixed"),
            ([DIGITS, "--alpha", "2"], "between 0 and 1"),
            ([DIGITS, "--split", "test,"], "empty"),
            ([DIGITS, "--state", self.path("")], "folder"),
            ([os.path.join(EXAMPLES, "concrete", "pool.json")], "tasks must match"),
        ):
            self.fails("monitor", self.stack, *words, says=[says])
        self.fails("monitor", says=["no model given"])
        model = self.path("concrete.cstack")
        pool = os.path.join(EXAMPLES, "concrete", "pool.json")
        self.works("fit", pool, "-o", model, *FAST)
        self.fails("monitor", model, pool, says=["not supported for regression"])


if __name__ == "__main__":
    unittest.main()
