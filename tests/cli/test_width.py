"""Text is at most 100 columns wide, or as wide as the terminal."""

import os
import pty
import subprocess
import unittest

from support import SOURCES, TOOL, PoolCase, run, sample

GOLDEN = os.path.join(SOURCES, "tests", "golden")
NAMES = [f"member_with_a_name_that_is_{i:03d}" for i in range(40)]


def wide(text, width=100):
    return [line for line in text.splitlines() if len(line) > width]


class Examples(unittest.TestCase):
    def test_what_the_commands_print(self):
        for name in sorted(os.listdir(GOLDEN)):
            if name.endswith(".txt"):
                with open(os.path.join(GOLDEN, name), encoding="utf-8") as file:
                    text = file.read().partition("\n")[2].partition("---- standard error")[0]
                self.assertEqual(wide(text), [], name)


class LongNames(PoolCase):
    rows, test_rows = 90, 60

    def setUp(self):
        super().setUp()
        for split in ("oof", "test"):
            for k, name in enumerate(NAMES):
                self.save(f"{name}.{split}.npy", sample(len(self.labels[split]), 3, 50 + k, 1 + k / 40, self.labels[split])[1])
        self.manifest["models"] = [
            {"name": name, "family": name, "flops": 12345, "predictions": {s: f"{name}.{s}.npy" for s in ("oof", "test")}} for name in NAMES
        ]
        self.write_manifest()

    def commands(self):
        held_out = ["--split", "test", "--resamples", "20"]
        methods = ["--methods", "best-single,average,greedy+temperature,default"]
        yield "inspect", self.pool
        yield "fit", self.pool, "-o", self.model, "--set", "evaluate.nested=false"
        yield "show", self.model, self.pool
        yield "evaluate", self.model, self.pool, "--baselines", "--resamples", "20"
        yield "predict", self.model, self.pool, "-o", self.path("out.npy")
        yield "monitor", self.model, self.pool, "--split", "test"
        yield "adapt", self.model, self.pool, "--split", "test", "-o", self.path("adapted.cstack")
        yield "bound", self.model, self.pool
        yield "compare", self.pool, *methods, *held_out
        yield "sweep", self.pool, "--over", "pool.size=2,4", "--draws", "2", *held_out

    def test_default_and_in_full(self):
        for command in self.commands():
            for more in ((), ("--verbose",)):
                result = run(*command, *more)
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(wide(result.out.replace(self.folder, "")), [], command)

    def test_terminal(self):
        """A matrix of 18 members continues below; its first columns are there in both parts."""
        self.manifest["models"] = self.manifest["models"][:18]
        self.write_manifest()
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [TOOL, "inspect", self.pool, "--color", "never"], stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80"}
        ) as tool:
            os.close(theirs)
            text = b""
            while part := self.read_terminal(ours):
                text += part
        os.close(ours)
        text = text.decode().replace("\r\n", "\n")
        self.assertEqual((tool.returncode, wide(text, 80)), (0, []))
        self.assertIn("More columns: --verbose.", text)
        self.assertEqual(text.count(f" 18  {NAMES[17]} "), 3)

    @staticmethod
    def read_terminal(descriptor):
        try:
            return os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            return b""


if __name__ == "__main__":
    unittest.main()
