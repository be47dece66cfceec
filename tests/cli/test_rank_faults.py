"""Ranks that fail, as docs/clusters.md has it: all ranks end soon, one message names rank and host, and nothing is written."""

import os
import platform
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from support import DIGITS, TOOL, run, slow
from test_ranks import LONG, MPI_TOOL, NOT_NESTED, SOON, RankCase, command, launch, lines_of_ours

MPICH_TOOL = os.path.join(os.path.dirname(TOOL), "tests", "corestack-mpich")
HOST = platform.node()


def processes_of(word):
    """Processes that have the word on their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if word.encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return sorted(found)


class Failures(RankCase):
    mpirun = "mpirun"
    tool = MPI_TOOL

    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        os.mkdir(self.out)
        self.model = os.path.join(self.out, "model")

    def command(self, *parts):
        return command(*parts, mpirun=self.mpirun)

    def fit(self, *words, pool=DIGITS):
        return (self.tool, "fit", pool, "-o", self.model, "--threads", "1", *words)

    def ends(self, words, says=()):
        """It may work for a while before it fails."""
        with launch(words, cwd=self.folder) as process:
            text = b""
            for line in process.stderr:
                text += line
                if line.startswith(b"corestack"):
                    break
            self.check_end(process, time.monotonic(), says, before=text)

    def check_end(self, process, start, says, codes=(2, 3), before=b""):
        err = (before + process.communicate(timeout=60)[1]).decode()
        self.assertLess(time.monotonic() - start, SOON, err)
        self.assertIn(process.returncode, codes, err)
        self.assertEqual(len(lines_of_ours(err)), 1, err)
        for part in says:
            self.assertIn(part, lines_of_ours(err)[0])
        self.assertEqual(os.listdir(self.out), [])

    # ---- ranks that do not do the same ----

    def test_other_options(self):
        self.ends(self.command((1, self.fit()), (2, self.fit("--seed", "2"))), [f"rank 1 on {HOST}", "command line", "--seed 2"])

    @slow
    def test_another_command(self):
        self.ends(self.command((1, self.fit()), (1, (self.tool, "inspect", DIGITS))), [f"rank 1 on {HOST}", "command line", "inspect"])

    @slow
    def test_another_version(self):
        other = self.path("other-version")
        with open(self.tool, "rb") as file:
            program = file.read()
        self.assertEqual(program.count(b"\x000.1.0\0"), 1)
        with open(other, "wb") as file:
            file.write(program.replace(b"\x000.1.0\0", b"\x000.0.9\0"))
        os.chmod(other, 0o755)
        self.ends(self.command((1, self.fit()), (1, (other, *self.fit()[1:]))), [f"rank 1 on {HOST}", "version", "0.0.9"])

    @slow
    def test_other_processor_kernels(self):
        line = ("env", "OPENBLAS_CORETYPE=Nehalem", *self.fit())
        self.ends(self.command((1, self.fit()), (1, line)), [f"rank 1 on {HOST}", "version or processor", "Nehalem"])

    # ---- files ----

    def copies(self, change):
        """Each rank reads a pool of its own; that of rank 1 is changed."""
        for name in ("a", "b"):
            shutil.copytree(os.path.dirname(DIGITS), self.path(name + "/pool"))
        change(self.path("b/pool/lda.oof.npy"))
        return self.command(*((1, ("-wdir", self.path(name), *self.fit(pool="pool"))) for name in ("a", "b")))

    @slow
    def test_another_pool(self):
        def change(path):
            with open(path, "r+b") as file:
                file.seek(-8, os.SEEK_END)
                file.write(bytes(8))

        self.ends(self.copies(change), [f"rank 1 on {HOST}", "the pool's files"])

    @slow
    def test_an_unreadable_file(self):
        self.ends(self.copies(os.remove), [f"rank 1 on {HOST}", "lda.oof.npy", "No such file"])

    @slow
    def test_a_damaged_file(self):
        self.ends(self.copies(lambda path: os.truncate(path, 1000)), [f"rank 1 on {HOST}", "lda.oof.npy"])

    def small_disk(self, name, size):
        path = self.path(name)
        os.makedirs(path, exist_ok=True)
        if os.geteuid() != 0:
            self.skipTest("a small disk needs root")
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], stderr=subprocess.PIPE, check=False)
        if made.returncode != 0:
            self.skipTest("no small disk can be made here: " + made.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", path], check=True)
        return path

    @slow
    def test_a_full_disk_of_the_output(self):
        self.small_disk("out", "4k")
        self.ends(self.command((2, self.fit(*NOT_NESTED))), [f"rank 0 on {HOST}", "No space left on device"])

    @slow
    def test_a_full_disk_of_temporary_files(self):
        pool = self.path("pool")
        shutil.copytree(os.path.dirname(DIGITS), pool)
        for name in filter(lambda name: name.endswith(".oof.npy"), os.listdir(pool)):
            path = os.path.join(pool, name)
            np.save(path, np.asfortranarray(np.load(path)))  # is not read in place
        line = ("env", "TMPDIR=" + self.small_disk("tmp", "16k"), *self.fit(*NOT_NESTED, pool=pool))
        self.ends(self.command((1, self.fit(*NOT_NESTED, pool=pool)), (1, line)), [f"rank 1 on {HOST}", "No space left on device"])

    # ---- processes ----

    @slow
    def test_out_of_memory(self):
        """How much MPI needs to start depends on the machine, so limits grow until the library says that one is too low."""
        for kilobytes in range(250_000, 1_000_000, 50_000):
            limited = ("sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", *self.fit(*NOT_NESTED))
            start = time.monotonic()
            with launch(self.command((1, self.fit(*NOT_NESTED)), (1, limited)), cwd=self.folder) as process:
                err = process.communicate(timeout=60)[1].decode()
            if process.returncode == 0:
                break
            if any(f"rank 1 on {HOST}" in line and "memory" in line for line in lines_of_ours(err)):
                self.assertLess(time.monotonic() - start, SOON)
                self.assertIn(process.returncode, (2, 3))
                self.assertEqual(len(lines_of_ours(err)), 1, err)
                self.assertEqual(os.listdir(self.out), [])
                return
        self.fail("no limit was too low for the library and high enough for MPI")

    def end_with(self, end):
        """A fit of two ranks that is ended while it works: the launcher ends the rest, and nothing is written."""
        with launch(self.command((2, self.fit())), cwd=self.folder) as process:
            ranks = []
            deadline = time.monotonic() + SOON
            while len(ranks) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
                ranks = [rank for rank in processes_of(self.model) if rank != process.pid]
            time.sleep(0.7)
            start = time.monotonic()
            end(process, ranks)
            err = process.communicate(timeout=60)[1].decode()
        self.assertLess(time.monotonic() - start, SOON, err)
        self.assertNotEqual(process.returncode, 0, err)
        self.assertEqual(os.listdir(self.out), [])
        deadline = time.monotonic() + 3
        while processes_of(self.model) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_of(self.model), [])

    @slow
    def test_a_killed_rank(self):
        for rank in (0, 1):
            self.end_with(lambda _process, ranks, rank=rank: os.kill(ranks[rank], signal.SIGKILL))

    @slow
    def test_an_interrupt(self):
        self.end_with(lambda process, _ranks: process.send_signal(signal.SIGINT))


@unittest.skipUnless(LONG, "in make check-long")
class FailuresOverMpich(Failures):
    mpirun = "mpirun.mpich"
    tool = MPICH_TOOL

    def setUp(self):
        if not os.path.exists(MPICH_TOOL):
            self.skipTest("there is no libmpich-dev, or MPICH is what corestack-mpi was built for")
        super().setUp()

    @slow
    def test_the_same_bytes(self):
        for ranks in (1, 2, 3):
            words = self.command((ranks, self.fit(*NOT_NESTED)))
            with launch(words, cwd=self.folder) as process:
                self.assertEqual(process.wait(timeout=60), 0)
            self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
            self.assertEqual(self.bytes_of("out/model"), self.bytes_of("one"))


if __name__ == "__main__":
    unittest.main()
