"""Memory over many calls: what is left is nothing. memory_loop.py has the longer forms."""
from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

LOOP = Path(__file__).with_name("memory_loop.py")


class Memory(unittest.TestCase):
    def run_loop(self, *arguments):
        done = subprocess.run([sys.executable, str(LOOP), *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_does_not_grow(self):
        self.assertIn("malloc", self.run_loop("--seconds", "5"))

    def test_library_gives_back_what_it_takes(self):
        self.assertIn("bytes left after each round: [0]", self.run_loop("--balance", "2"))


if __name__ == "__main__":
    unittest.main()
