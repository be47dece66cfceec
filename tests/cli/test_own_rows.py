"""corestack-mpi --own-rows: pools of which each rank has rows of its own give the model of all rows together."""

import ast
import json
import os
import shutil
import signal
import struct
import time
import unittest

from support import SOURCES, run, slow
from test_ranks import MPI_TOOL, NOT_NESTED, SOON, RankCase, command, launch, lines_of_ours, without_times


def cut(source, target, first, last):
    """Rows first..last-1 of an npy, as a file of their own. Floats from 0 to 1 are parts of the rows."""
    with open(source, "rb") as file:
        magic = file.read(8)
        (length,) = struct.unpack("<H", file.read(2))
        header = ast.literal_eval(file.read(length).decode("latin1"))
        content = file.read()
    rows, *rest = header["shape"]
    row = len(content) // rows
    first, last = (round(rows * at) if isinstance(at, float) else at for at in (first, last))
    header["shape"] = (last - first, *rest)
    text = repr(header).encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    with open(target, "wb") as file:
        file.write(magic + struct.pack("<H", len(text)) + text + content[first * row : last * row])


class OwnRows(RankCase):
    def pool(self, task):
        return os.path.join(SOURCES, "examples", task)

    def cut_pool(self, task, bounds):
        """The pool in parts: part-0, part-1, ... with what lies between neighbouring bounds."""
        for rank, (first, last) in enumerate(zip(bounds, bounds[1:])):
            folder = self.path(f"part-{rank}")
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
            for name in os.listdir(self.pool(task)):
                path = os.path.join(self.pool(task), name)
                if name.endswith(".npy"):
                    cut(path, os.path.join(folder, name), first, last)
                elif name == "pool.json":
                    shutil.copy(path, folder)
        return self.path("part-{rank}")

    def edit(self, rank, change):
        """The manifest of one part, changed."""
        path = self.path(f"part-{rank}/pool.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        change(manifest)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)


class SameBytes(OwnRows):
    def test_two_parts(self):
        self.assertEqual(run("fit", self.pool("digits"), "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        pool = self.cut_pool("digits", (0.0, 0.3, 1.0))
        self.works(2, "fit", pool, "--own-rows", "-o", "two", "--threads", 2, *NOT_NESTED)
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))

    def check_commands(self, task, cuts, *more):
        lines = [
            ("fit", "-o", "m", "--json", *NOT_NESTED),
            ("predict", "m", "--split", "test", "-o", "o.npy"),
            ("evaluate", "m", "--json"),
            ("inspect", "--json"),
            *((word, *(("m",) if word == "bound" else ()), *rest, "--json") for word, *rest in more),
        ]
        for word, *rest in lines:
            at = 1 if rest[0] == "m" else 0
            line = (word, *rest[:at], self.pool(task), *rest[at:])
            alone = run(*line, cwd=self.folder)
            self.assertEqual(alone.code, 0, alone.err)
            written = {name: self.bytes_of(name) for name in ("m", "o.npy") if name in rest[at:]}
            for bounds in cuts:
                pool = self.cut_pool(task, bounds)
                line = (word, *rest[:at], pool, "--own-rows", *rest[at:])
                text = self.works(len(bounds) - 1, *line)
                for name, content in written.items():
                    self.assertEqual(self.bytes_of(name), content, (task, word, bounds))
                if "--json" in line:
                    self.assertEqual(without_times(json.loads(text)), without_times(alone.json()), (task, word, bounds))

    @slow
    def test_classification(self):
        self.check_commands("digits", [(0.0, 1.0), (0.0, 0.1, 0.75, 1.0)], ("bound", "--split", "test"))

    @slow
    def test_regression(self):
        self.check_commands("concrete", [(0.0, 0.7, 1.0), (0.0, 1, 1, 1.0)])


if __name__ == "__main__":
    unittest.main()
