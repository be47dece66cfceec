"""A fit of ImageNet's classes takes no copy of its input, whatever its layout. bench/python_copies.py has the full shape."""
from __future__ import annotations

import json
import subprocess
import sys
import unittest

from common import ROOT

BENCH = ROOT / "bench" / "python_copies.py"


class Copies(unittest.TestCase):
    def figures(self, *arguments):
        done = subprocess.run([sys.executable, str(BENCH), *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_presets(self):
        # The log-linear pool of "default" has a table of the classes with mass, scratch for each thread, and for
        # selection the predictions of all members' pool.
        prototype, default = self.figures("--rows", "4000", "--preset", "prototype", "--preset", "default")
        self.assertEqual(prototype["input"], 14 * 4000 * 1000 * 4)
        self.assertLess(prototype["growth"], 0.1 * prototype["input"])
        self.assertLess(default["growth"], 0.5 * default["input"])

    def test_layouts(self):
        for layout in ("fortran", "strided", "mapped"):
            (found,) = self.figures("--rows", "1500", "--layout", layout, "--preset", "prototype")
            # Pages of a mapped file are resident as well, but they are the file's.
            grown = found["anonymous"] if layout == "mapped" else found["growth"]
            self.assertLess(grown, 0.2 * found["input"], found)

    def test_half_precision(self):
        (found,) = self.figures("--rows", "2000", "--type", "float16", "--preset", "prototype")
        self.assertEqual(found["input"], 14 * 2000 * 1000 * 2)
        self.assertLess(found["growth"], 0.2 * found["input"])

    def test_large_arrays_are_read_where_they_lie(self):
        # As float32 these are 75 MiB. What a fit keeps of its own must be less than any copy of them.
        program = """
import resource, sys, numpy as np, corestack
rows, classes, members = 20000, 164, 6
random = np.random.default_rng(0)
y = random.integers(0, classes, rows)
cube = np.full((members, rows, classes), 1e-3, np.float32)
for k in range(members):
    shown = np.where(random.random(rows) < 0.6 + 0.05 * k, y, random.integers(0, classes, rows))
    cube[k, np.arange(rows), shown] = 1
    cube[k] /= cube[k].sum(axis=1, keepdims=True)
corestack.fit(cube[:, :512], y[:512], evaluate_nested=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
corestack.inspect(cube, y, memory="64MiB", threads=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
        out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        self.assertLess(float(out), 60)


if __name__ == "__main__":
    unittest.main()
