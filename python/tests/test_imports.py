"""What `import corestack` loads: nothing heavy, and no package that need not be there."""
from __future__ import annotations

import subprocess
import sys
import unittest

HEAVY = {"IPython", "asyncio", "dataclasses", "inspect", "matplotlib", "multiprocessing", "pandas", "polars", "pyarrow",
         "scipy", "sklearn", "subprocess", "torch", "unittest", "urllib"}
LISTED = "import sys, numpy; before = set(sys.modules); import corestack; print(*sorted(set(sys.modules) - before))"


class TestImports(unittest.TestCase):
    def test_nothing_heavy_is_loaded(self) -> None:
        """NumPy's own modules apart, which differ from version to version."""
        done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stdout.split()}
        self.assertIn("corestack", loaded)
        self.assertEqual(loaded & HEAVY, set())


if __name__ == "__main__":
    unittest.main()
