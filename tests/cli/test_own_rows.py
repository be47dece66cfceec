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


def read_npy(path):
    """Header and bytes of an npy."""
    with open(path, "rb") as file:
        file.read(8)
        (length,) = struct.unpack("<H", file.read(2))
        return ast.literal_eval(file.read(length).decode("latin1")), file.read()


def write_npy(path, header, content):
    text = repr(header).encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content)


def npy_header(descr, *shape):
    return {"descr": descr, "fortran_order": False, "shape": shape}


def cut(source, target, first, last):
    """Rows first..last-1 of an npy, as a file of their own. Floats from 0 to 1 are parts of the rows."""
    header, content = read_npy(source)
    rows, *rest = header["shape"]
    row = len(content) // rows
    first, last = (round(rows * at) if isinstance(at, float) else at for at in (first, last))
    write_npy(target, {**header, "shape": (last - first, *rest)}, content[first * row : last * row])


def without_rows(path, wanted):
    """Puts NaN into the rows of a float32 array that `wanted` does not want."""
    header, content = read_npy(path)
    width = 4 * header["shape"][1]
    rows = [content[at : at + width] for at in range(0, len(content), width)]
    nan = struct.pack("<f", float("nan")) * header["shape"][1]
    write_npy(path, header, b"".join(row if wanted(i) else nan for i, row in enumerate(rows)))


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

    def children(self):
        """Processes that compute, by rank: those whose parent is of the same program."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{name}/status", encoding="utf-8") as file:
                    parent = next(line.split()[1] for line in file if line.startswith("PPid"))
                with open(f"/proc/{parent}/cmdline", "rb") as file:
                    above = file.read().split(b"\0")
                with open(f"/proc/{name}/environ", "rb") as file:
                    set_to = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
            except OSError:
                continue
            if words[0] == MPI_TOOL.encode() == above[0] and self.path("out").encode() in words:
                rank = next(set_to[key] for key in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"PMIX_RANK") if key in set_to)
                found[int(rank)] = int(name)
        return found

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

    COMMANDS = (
        ("fit", "-o", "m", "--json", *NOT_NESTED),
        ("predict", "m", "--split", "test", "-o", "o.npy"),
        ("evaluate", "m", "--json"),
        ("inspect", "--json"),
    )

    def check_commands(self, task, cuts, *more, commands=COMMANDS):
        lines = [
            *commands,
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
        self.check_commands("digits", [(0.0, 0.1, 0.75, 1.0)], ("bound", "--split", "test"))

    @slow
    def test_regression(self):
        self.check_commands("concrete", [(0.0, 1, 1, 1.0)])

    @slow
    def test_members_that_lack_rows(self):
        """They are filled in from the rows of all ranks."""
        shutil.copytree(self.pool("digits"), self.path("holes"))
        for name, step in (("lda", 7), ("svm_rbf", 11)):
            without_rows(self.path(f"holes/{name}.oof.npy"), lambda i, step=step: i % step != 3)
        more = ("--missing", "allow", *NOT_NESTED)
        self.assertEqual(run("fit", "holes", "-o", "one", *more, cwd=self.folder).code, 0)
        self.works(2, "fit", "holes", "-o", "two", *more)
        self.assertEqual(self.bytes_of("two"), self.bytes_of("one"))
        pool = self.cut_pool(self.path("holes"), (0.0, 0.2, 0.9, 1.0))
        self.works(3, "fit", pool, "--own-rows", "-o", "three", *more)
        self.assertEqual(self.bytes_of("three"), self.bytes_of("one"))

    @slow
    def test_comparisons(self):
        self.check_commands("digits", [(0.0, 0.4, 1.0)], ("compare", "--methods", "average,greedy,best-single", "-r", 20), commands=())


class OneRank(OwnRows):
    def test_a_notice_says_that_one_part_is_read(self):
        pool = self.cut_pool("concrete", (0.0, 0.5, 1.0))
        for quiet, says in (((), 1), (("--quiet",), 0)):
            with launch([MPI_TOOL, "inspect", pool, "--own-rows", *quiet], cwd=self.folder) as process:
                _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err.decode())
            lines = [line for line in lines_of_ours(err.decode()) if "notice: --own-rows: there is one rank only" in line]
            self.assertEqual(len(lines), says, err.decode())
            self.assertTrue(all("mpirun -n N" in line for line in lines))


class NoRows(OwnRows):
    def test_ranks_without_rows_may_read_the_same_files(self):
        pool = self.cut_pool("concrete", (0.0, 1.0, 1.0))
        os.symlink("part-1", self.path("part-2"))
        self.works(3, "inspect", pool, "--own-rows")


class Failures(OwnRows):
    """All ranks end soon, with one message that names the rank, and nothing is left."""

    def ends(self, pool, ranks, codes, says, *more):
        start = time.monotonic()
        with launch(command((ranks, (MPI_TOOL, "fit", pool, "--own-rows", "-o", "out", *NOT_NESTED, *more))), cwd=self.folder) as process:
            _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, SOON)
        self.check_end(process.returncode, err.decode(), codes, says)

    def check_end(self, code, text, codes, says):
        self.assertIn(code, codes, text)
        self.assertEqual(len(lines_of_ours(text)), 1, text)
        for part in says:
            self.assertIn(part, lines_of_ours(text)[0])
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("out")])

    @slow
    def test_pools_that_differ(self):
        def other_order(manifest):
            manifest["models"].reverse()

        def other_classes(manifest):
            manifest["classes"][3] = "three"

        def other_task(manifest):
            manifest["output"] = "logit"

        def no_folds(manifest):
            del manifest["splits"]["oof"]["folds"]

        for change, says in (
            (other_order, "'member 1 is "),
            (other_classes, "'class 3 is three' and 'class 3 is 3'"),
            (other_task, "'task classification, logits' and 'task classification'"),
            (no_folds, "'split oof has labels ids, "),
        ):
            pool = self.cut_pool("digits", (0.0, 0.5, 1.0))
            self.edit(1, change)
            self.ends(pool, 2, (2,), ["the pool of rank 1 differs from that of rank 0: ", says])

    def test_an_output_for_each_rank(self):
        said = run("fit", self.pool("digits"), "--own-rows", "-o", self.path("m-{rank}"))
        self.assertEqual((said.code, said.err.count("\n")), (2, 1), said.err)
        self.assertIn("the output is written once, for all ranks; remove {rank} from its name", said.err)

    @slow
    def test_files_of_one_rank(self):
        pool = self.cut_pool("digits", (0.0, 0.5, 1.0))
        path = self.path("part-1/lda.oof.npy")
        with open(path, "r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(b"\xff" * 8)  # NaN
        self.ends(pool, 2, (2,), ["rank 1 on ", "part-1/lda.oof.npy: row "])
        os.remove(path)
        self.ends(pool, 2, (2,), ["rank 1 on ", "part-1/lda.oof.npy", "No such file"])
        self.ends(pool, 3, (2,), ["rank 2 on ", "part-2: cannot open", "No such file"])

    @slow
    def test_rows_of_nobody_and_of_two(self):
        pool = self.cut_pool("digits", (0, 0, 0))
        self.ends(pool, 2, (2,), ["split 'oof': no rank has any rows of it"])
        pool = self.cut_pool("digits", (0.0, 0.5, 1.0))
        shutil.rmtree(self.path("part-1"))
        shutil.copytree(self.path("part-0"), self.path("part-1"))
        self.ends(pool, 2, (2,), ["sample id '", " of rank 0 and in row ", " of rank 1"])

    def test_the_same_pool_on_two_ranks(self):
        self.ends(self.pool("concrete"), 2, (2,), ["rank 1 on ", "rank 0 on the same machine reads the same file", "count twice"])

    @slow
    def test_tasks_without_rows(self):
        for task in ("segmentation", "detection"):
            self.ends(self.pool(task), 2, (2,), ["--own-rows", f"the task is {task}"])

    @slow
    def test_a_rank_that_is_killed_while_others_fetch(self):
        """Rank 1 has no rows and fetches all that it works on, more than it can keep, from a rank that is killed."""
        members, rows, classes = 8, 1 << 17, 16
        for rank, count in enumerate((rows, 0)):
            os.mkdir(self.path(f"part-{rank}"))
            labels = struct.pack("<512q", *(i % classes for i in range(512)))
            write_npy(self.path(f"part-{rank}/labels.npy"), npy_header("<i8", count), labels * (count // 512))
            for k in range(members):
                values = [[1 + (i * (k + 3) + c * c) % 17 + 9 * (i % classes == c) for c in range(classes)] for i in range(512)]
                block = b"".join(struct.pack(f"<{classes}f", *(v / sum(row) for v in row)) for row in values)
                write_npy(self.path(f"part-{rank}/m{k}.npy"), npy_header("<f4", count, classes), block * (count // 512))
        pool = self.path("part-{rank}")
        words = (MPI_TOOL, "fit", pool, "--own-rows", "-o", self.path("out"), "--threads", "1", "--memory", "64MiB")
        with launch(command((2, words)), cwd=self.folder) as process:
            deadline = time.monotonic() + SOON
            while len(self.children()) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(3)
            start = time.monotonic()
            os.kill(self.children()[0], signal.SIGKILL)
            _, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - start, SOON)
        self.check_end(process.returncode, err.decode(), (2, 3), ["rank 0 on ", "signal 9"])


if __name__ == "__main__":
    unittest.main()
