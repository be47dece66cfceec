"""Ranks that fail, a test for each row of the table in docs/clusters.md: all ranks end soon, one message names rank and host."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import unittest

import numpy as np

from support import DIGITS, TOOL, run, slow
from test_ranks import LONG, MPI_TOOL, NOT_NESTED, SOON, RankCase, command, launch, lines_of_ours

KILLS = 40 if LONG else 2
MPICH_TOOL = os.path.join(os.path.dirname(TOOL), "tests", "corestack-mpich")
HOST = socket.gethostname()


def words_of(process, name):
    with open(f"/proc/{process}/{name}", "rb") as file:
        return file.read().split(b"\0")


class Failures(RankCase):
    mpirun = "mpirun"
    tool = MPI_TOOL
    interrupted = 1  # what mpirun returns then, whatever the ranks return

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
        self.nobody_left()

    def nobody_left(self):
        deadline = time.monotonic() + 3
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.processes(), {})

    def processes(self):
        """Of this test: {rank: (the one that waits, the one that computes)}."""
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = words_of(name, "cmdline")
                if line[0] != self.tool.encode() or self.model.encode() not in line:
                    continue
                known = dict(word.split(b"=", 1) for word in words_of(name, "environ") if b"=" in word)
            except OSError:
                continue
            rank = known.get(b"OMPI_COMM_WORLD_RANK", known.get(b"PMI_RANK", b"0"))
            found.setdefault(int(rank), []).append(int(name))
        return {rank: tuple(sorted(pair)) for rank, pair in found.items()}

    def start(self, ranks, *words, after=0.7):
        """Ranks that have worked for a while, and their processes."""
        process = launch(self.command((ranks, self.fit(*words))), cwd=self.folder)
        deadline = time.monotonic() + SOON
        found = {}
        while time.monotonic() < deadline:
            found = self.processes()
            if len(found) == ranks and all(len(pair) == 2 for pair in found.values()):
                break
            time.sleep(0.02)
        time.sleep(after)
        return process, found

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
                self.nobody_left()
                return
        self.fail("no limit was too low for the library and high enough for MPI")

    @slow
    def test_a_killed_rank(self):
        for rank in (0, 2):
            process, found = self.start(3)
            with process:
                start = time.monotonic()
                os.kill(found[rank][1], signal.SIGKILL)
                self.check_end(process, start, [f"rank {rank} on {HOST}", "signal 9"])

    @slow
    def test_ranks_killed_at_random_moments(self):
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        killed = 0
        for turn in range(KILLS):
            chance = random.Random(turn)
            process, found = self.start(2, *NOT_NESTED, after=chance.random() * 1.2)
            with process:
                start = time.monotonic()
                rank = chance.randrange(2)
                try:
                    os.kill(found[rank][1], signal.SIGKILL)
                except (KeyError, IndexError, ProcessLookupError):
                    pass  # it has ended
                err = process.communicate(timeout=60)[1].decode()
            self.assertLess(time.monotonic() - start, SOON, err)
            self.nobody_left()
            if process.returncode == 0:
                self.assertEqual(lines_of_ours(err), [])
            else:
                killed += 1
                self.assertIn(process.returncode, (2, 3), err)
                self.assertEqual(len(lines_of_ours(err)), 1, err)
                self.assertIn(f"rank {rank} on {HOST}", lines_of_ours(err)[0])
            for name in os.listdir(self.out):  # it may be killed when all is written
                self.assertEqual(name, "model", err)
                self.assertEqual(self.bytes_of("out/model"), self.bytes_of("one"))
                os.remove(self.model)
        self.assertGreater(killed, 0)

    @slow
    def test_a_stopped_rank(self):
        """The others wait for it, and are told."""
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        process, found = self.start(2, *NOT_NESTED, after=0.2)
        with process:
            os.kill(found[1][1], signal.SIGSTOP)
            time.sleep(8 if LONG else 2)  # longer than a rank may be silent
            self.assertIsNone(process.poll())
            os.kill(found[1][1], signal.SIGCONT)
            err = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(len(lines_of_ours(err)), 1, err)
        self.assertIn(f"rank 1 on {HOST} was stopped by signal 19", err)
        self.assertEqual(self.bytes_of("out/model"), self.bytes_of("one"))

    @slow
    def test_an_interrupt(self):
        process, _ = self.start(3)
        with process:
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            self.check_end(process, start, ["stopped on request"], codes=(self.interrupted,))


@unittest.skipUnless(LONG, "in make check-long")
class FailuresOverMpich(Failures):
    mpirun = "mpirun.mpich"
    tool = MPICH_TOOL
    interrupted = 3

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
