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
        # The log-linear pool of "default" has a table of the classes with mass and scratch for each thread.
        prototype, default = self.figures("--rows", "4000", "--preset", "prototype", "--preset", "default")
        self.assertEqual(prototype["input"], 14 * 4000 * 1000 * 4)
        self.assertLess(prototype["growth"], 0.1 * prototype["input"])
        self.assertLess(default["growth"], 0.45 * default["input"])

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


if __name__ == "__main__":
    unittest.main()
