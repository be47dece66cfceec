"""docs/shift.md: its commands run as they are printed, one after another, on the example's pool and on rows that were changed."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

from support import SOURCES, TIMEOUT, TOOL, slow

DIGITS = pathlib.Path(SOURCES, "examples", "digits")
PAGE = pathlib.Path(SOURCES, "docs", "shift.md")


def commands():
    """The lines of the blocks of the page, continued ones joined."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M):
        found += [line for line in block.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    return found


class ShiftPage(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="corestack-page-")
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        os.symlink(DIGITS, self.folder / "pool")
        os.mkdir(self.folder / "bin")
        os.symlink(TOOL, self.folder / "bin" / "corestack")
        self.today()

    def today(self):
        """A pool of the same members: `past`, half of the test rows as they are, and the others, in which every member loses much of
        what it knew, each in its own way: `new` without labels, `labelled` with some, `stream` with all."""
        rng = np.random.default_rng(3)
        pool = json.loads((DIGITS / "pool.json").read_text(encoding="utf-8"))
        labels = np.load(DIGITS / pool["splits"]["test"]["labels"])
        os.mkdir(self.folder / "today")
        document = {key: pool[key] for key in ("corestack_pool", "task", "classes", "output") if key in pool}
        past, new = np.split(rng.permutation(len(labels)), 2)
        rows = {"past": past, "new": new, "labelled": new[:50], "stream": rng.permutation(new)}
        document["splits"] = {"new": {"domain": "today"}, **{n: {"labels": f"{n}.npy"} for n in ("past", "labelled", "stream")}}
        for name in ("past", "labelled", "stream"):
            np.save(self.folder / "today" / f"{name}.npy", labels[rows[name]])
        document["models"] = []
        for model in pool["models"]:
            p = np.load(DIGITS / model["predictions"]["test"]).astype(np.float64)
            weak = rng.uniform(0.2, 0.9)
            noisy = (1 - weak) * p + weak * rng.dirichlet(np.full(p.shape[1], 0.5), len(p))
            predictions = {}
            for name, some in rows.items():
                np.save(self.folder / "today" / f"{model['name']}.{name}.npy", (p if name == "past" else noisy)[some].astype(np.float32))
                predictions[name] = f"{model['name']}.{name}.npy"
            document["models"].append({"name": model["name"], "predictions": predictions})
        (self.folder / "today" / "pool.json").write_text(json.dumps(document), encoding="utf-8")

    @slow
    def test_commands(self):
        found = commands()
        self.assertGreaterEqual(len(found), 8)
        said = {}
        for line in found:
            done = subprocess.run(["sh", "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                                  env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}\n{done.stderr}")
            said[line] = done.stdout + done.stderr
            if "||" in line:  # the alarm, not an error
                self.assertEqual((done.stdout.splitlines()[-1], done.stderr), ("the data have changed", ""))
        self.assertTrue(any("the average of 16 members is mixed in" in text for text in said.values()))
        self.assertTrue((self.folder / "adapted.cstack").exists())

    def test_length(self):
        self.assertLessEqual(len(PAGE.read_text(encoding="utf-8").split()), 600)


if __name__ == "__main__":
    unittest.main()
