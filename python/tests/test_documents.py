"""The examples of the pages run as they are printed."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest

from common import ROOT

import corestack


def blocks(page):
    return re.findall(r"(?<!-->\n\n)^```python\n(.*?)^```", (ROOT / page).read_text(), flags=re.S | re.M)


class Documents(unittest.TestCase):
    def run_in_place(self, program):
        """In a folder that has the examples."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", f"{folder}/examples")
            done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_readme(self):
        found = blocks("README.md")
        self.assertTrue(found)
        for program in found:
            self.assertIn("svm_rbf", self.run_in_place(program))

    def test_guide(self):
        try:
            import matplotlib  # noqa: F401
            import pandas  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        program = "\n".join(blocks("docs/python.md"))
        self.assertIn("corestack.fit", program)
        self.run_in_place(program)

    def test_comparison(self):
        try:
            import sklearn  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        self.run_in_place("\n".join(blocks("docs/comparison.md")))

    def test_every_public_name_is_in_the_guide(self):
        guide = (ROOT / "docs" / "python.md").read_text()
        for name in corestack.__all__:
            self.assertIn(name, guide)
        for name in vars(corestack.Stack):
            if not name.startswith("_"):
                self.assertIn(name, guide)


if __name__ == "__main__":
    unittest.main()
