"""mypy --strict: the package as it is installed, and programs of users, a right one and a wrong one."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import corestack

TYPED = Path(__file__).with_name("typed")
PACKAGE = Path(corestack.__file__).parent
MYPY = shutil.which("mypy")
CONFIG = """
[mypy]
strict = true
[mypy-sklearn.*,pandas.*,matplotlib.*,tqdm.*]
ignore_missing_imports = true
[mypy-torch.*,torchvision.*,PIL.*]
ignore_missing_imports = true
follow_imports = skip
[mypy-corestack.pool._cost]
disallow_subclassing_any = false
[mypy-corestack.sklearn]
disallow_subclassing_any = false
"""


@unittest.skipUnless(MYPY, "mypy is not installed")
class Typing(unittest.TestCase):
    def mypy(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "mypy.ini"
            config.write_text(CONFIG)
            # The package that is imported here is the one that is looked at.
            done = subprocess.run(
                [MYPY, "--config-file", config, "--cache-dir", folder, "--python-executable", sys.executable, *arguments],
                capture_output=True, text=True, cwd=folder,
            )  # fmt: skip
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout

    def test_package(self):
        self.assertTrue((PACKAGE / "py.typed").exists())
        self.assertIn("Success", self.mypy(PACKAGE))

    def test_right_program(self):
        out = self.mypy(TYPED / "right.py")
        self.assertIn("Success", out, out)

    def test_wrong_program(self):
        expected = {}
        for number, line in enumerate((TYPED / "wrong.py").read_text().splitlines(), 1):
            if found := re.search(r"# wrong: ([\w-]+)$", line):
                expected[number] = found[1]
        self.assertGreater(len(expected), 12)
        errors = re.findall(r"wrong\.py:(\d+): error: .*\[([\w-]+)\]$", self.mypy(TYPED / "wrong.py"), flags=re.M)
        self.assertEqual({int(number): kind for number, kind in errors}, expected)


if __name__ == "__main__":
    unittest.main()
