"""fit --checkpoint: a fit that is killed goes on where it stopped, and ends with the same bytes. CORESTACK_LONG: 50 kills."""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from support import DIGITS, SOURCES, TOOL, run, slow

LONG = bool(os.environ.get("CORESTACK_LONG"))
MPI_TOOL = TOOL + "-mpi"
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
NOT_THE_SAME = ("seconds", "peak_rss_bytes", "model", "ranks")
WENT_ON = "notice: continued with "


def document(text):
    return {key: value for key, value in json.loads(text).items() if key not in NOT_THE_SAME}


def example(task):
    return os.path.join(SOURCES, "examples", task, "pool.json")


class Checkpoint(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-checkpoint-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.parts = self.path("parts")

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def command(self, words, ranks):
        """A fit in a process (0 ranks), or on so many ranks."""
        line = ["fit", *words, "-o", self.path("model"), "--json", "--checkpoint", self.parts]
        return ["mpirun", "-n", str(ranks), MPI_TOOL, *line] if ranks else [TOOL, *line]

    def kill(self, process):
        """The process or launcher, and the ranks, which are in groups of their own: all have the folder's name in their words."""
        process.kill()
        process.wait()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            left = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        if self.parts.encode() in file.read() and int(pid) != os.getpid():
                            left.append(int(pid))
                            os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    continue  # it has ended
            if not left:
                return
            time.sleep(0.02)
        self.fail(f"processes do not end: {left}")

    def attempt(self, words, ranks, seconds):
        """Runs the fit, which is killed after so many seconds (None: never). Returns what it wrote, or None."""
        with subprocess.Popen(
            self.command(words, ranks), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **LAUNCHER},
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.kill(process)
                process.communicate()
                return None
        self.assertEqual(process.returncode, 0, err.decode())
        return out.decode(), err.decode()

    def kept(self):
        names = os.listdir(self.parts) if os.path.isdir(self.parts) else []
        return {name for name in names if name.endswith(".part")}

    def check(self, words, kills, ranks=(0,)):
        """So many attempts are killed at random moments; one that ends before starts from nothing again."""
        shutil.rmtree(self.parts, ignore_errors=True)  # of a check that failed
        draw = random.Random(f"{words} {ranks}")
        start = time.monotonic()
        whole = run("fit", *words, "-o", self.path("whole"), "--json")
        length = time.monotonic() - start
        self.assertEqual(whole.code, 0, whole.err)
        killed = went_on = ended = 0
        while killed < kills:
            n = draw.choice(ranks)
            before = self.kept()
            found = self.attempt(words, n, draw.uniform(0, (1.2 + 0.5 * (n > 0)) * length))
            if found is None:
                killed += 1
                continue
            ended += 1
            went_on += self.check_end(words, whole, found, before)
        before = self.kept()
        went_on += self.check_end(words, whole, self.attempt(words, draw.choice(ranks), None), before)
        if kills >= 50:
            self.assertGreater(went_on, 0)
        return length

    def check_end(self, words, whole, found, before):
        out, err = found
        self.assertEqual(self.read("model"), self.read("whole"), words)
        self.assertEqual(document(out), document(whole.out), words)
        if os.path.exists(self.parts):  # a run that was killed right after it made the folder has not said that it did
            self.assertEqual(os.listdir(self.parts), [], "the parts of a fit that ended are removed")
            os.rmdir(self.parts)
        os.remove(self.path("model"))
        self.assertEqual(WENT_ON in err, bool(before), err)
        return bool(before)

    def until_parts(self, words, wanted, ranks=0):
        """Kills the fit as soon as so many parts are there."""
        with subprocess.Popen(
            self.command(words, ranks), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **LAUNCHER},
        ) as process:  # fmt: skip
            end = time.monotonic() + 120
            while len(self.kept()) < wanted and process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            self.kill(process)
        self.assertGreaterEqual(len(self.kept()), wanted)

    @slow
    def test_a_fit_goes_on(self):
        words = [DIGITS, "--threads", "1"]
        whole = run("fit", *words, "-o", self.path("whole"), "--json")
        self.until_parts(words, 2)
        self.until_parts(words, 6)
        before = self.kept()
        self.assertTrue(any("fold" in name for name in before), before)
        found = self.attempt(words, 0, None)
        self.assertTrue(self.check_end(words, whole, found, before))
        taken = int(found[1].split(WENT_ON)[1].split()[0])
        self.assertGreaterEqual(taken, 4, found[1])  # parts of the fold that was at work, or of which rows are kept, are in one

    @slow
    def test_another_fit_and_a_second_run(self):
        words = [DIGITS, "--threads", "1", "--set", "evaluate.nested=false"]
        self.until_parts(words, 1)
        before = sorted((name, self.read(f"parts/{name}")) for name in self.kept())
        for more, says in ((("--seed", "3"), "its seed is '0', here it is '3'"), (("-p", "paper"), "its preset is 'default', here it is 'paper'")):
            other = run("fit", *words, *more, "-o", self.path("other"), "--checkpoint", self.parts)
            self.assertEqual((other.code, other.err.count("\n")), (2, 1), other.err)
            self.assertIn(says, other.err)
        data = self.path("data")
        shutil.copytree(os.path.dirname(DIGITS), data)
        labels = self.path("data/oof_labels.npy")
        content = bytearray(self.read(labels))
        content[-8:], content[-16:-8] = content[-16:-8], content[-8:]
        content[-8] ^= 1
        with open(labels, "wb") as file:
            file.write(content)
        other = run("fit", os.path.join(data, "pool.json"), *words[1:], "-o", self.path("other"), "--checkpoint", self.parts)
        self.assertEqual(other.code, 2, other.err)
        self.assertIn("the files of the pool (predictions, labels, folds, groups, weights or domains) had other contents", other.err)
        self.assertEqual(before, sorted((name, self.read(f"parts/{name}")) for name in self.kept()))
        self.assertFalse(os.path.exists(self.path("other")))
        with subprocess.Popen(self.command(words, 0), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
            end = time.monotonic() + 60
            while not self.locked_by(first.pid) and time.monotonic() < end:
                time.sleep(0.005)
            first.send_signal(signal.SIGSTOP)
            said = run("fit", *words, "-o", self.path("second"), "--checkpoint", self.parts, "--seed", "3").err
            first.send_signal(signal.SIGCONT)
            first.wait()
        self.assertIn(f"another run is using it: process {first.pid} on ", said)

    def locked_by(self, process):
        try:
            return self.read("parts/lock").startswith(b"process %d on " % process)
        except FileNotFoundError:
            return False

    def refuses_changed(self, task, change, *more):
        """The folder of a fit whose model could not be written is refused after `change(folder)`, and taken before it."""
        pool = self.path(task)
        shutil.copytree(os.path.dirname(example(task)), pool)
        words = ["fit", os.path.join(pool, "pool.json"), "--preset", "prototype", "--set", "evaluate.nested=false", *more]
        for _ in range(2):
            failed = run(*words, "-o", "/dev/full", "--checkpoint", self.parts)
            self.assertIn("No space left", failed.err)
            self.assertIn("run", os.listdir(self.parts))
        change(pool)
        refused = run(*words, "-o", self.path("other"), "--checkpoint", self.parts)
        self.assertEqual(refused.code, 2, task)
        self.assertIn("it holds parts of another fit: the files of the pool", refused.err)
        shutil.rmtree(self.parts)

    def test_changed_sizes_of_images(self):
        """They clip boxes, so they change the model."""

        def narrow(pool):
            path = os.path.join(pool, "oof.json")
            with open(path, encoding="utf-8") as file:
                truth = json.load(file)
            for image in truth["images"]:
                image["width"] = image.get("width", 640) - 1
            with open(path, "w", encoding="utf-8") as file:
                json.dump(truth, file)

        self.refuses_changed("detection", narrow)

    def test_changed_in_place(self):
        """A file of the same size and time with another number in it."""

        def swap(pool):
            with open(os.path.join(pool, "pool.json"), encoding="utf-8") as file:
                name = json.load(file)["models"][0]["predictions"]["oof"]
            path = os.path.join(pool, name)
            before = os.stat(path)
            with open(path, "r+b") as file:
                file.seek(-4, os.SEEK_END)
                last = file.read(1)
                file.seek(-4, os.SEEK_END)
                file.write(bytes([last[0] ^ 1]))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.assertEqual((before.st_size, before.st_mtime_ns), (os.stat(path).st_size, os.stat(path).st_mtime_ns))

        self.refuses_changed("regression", swap)

    @slow
    def test_interrupted(self):
        """Ctrl-C and SIGTERM leave parts that can be used."""
        words = [DIGITS, "--threads", "1", "--set", "evaluate.nested=false"]
        whole = run("fit", *words, "-o", self.path("whole"), "--json")
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen(
                self.command(words, 0), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            ) as process:  # fmt: skip
                while not self.kept() and process.poll() is None:
                    time.sleep(0.005)
                process.send_signal(number)
            self.assertEqual(process.returncode, -number)
            before = self.kept()
            self.assertTrue(before)
            self.assertTrue(self.check_end(words, whole, self.attempt(words, 0, None), before))

    @slow
    def test_ranks(self):
        """A fit on two ranks goes on in one process."""
        if not os.path.exists(MPI_TOOL):
            self.fail(f"{MPI_TOOL} was not built: install openmpi-bin and libopenmpi-dev, and configure again")
        words = [DIGITS, "--threads", "1", "--set", "evaluate.nested=false"]
        whole = run("fit", *words, "-o", self.path("whole"), "--json")
        self.until_parts(words, 1, ranks=2)
        before = self.kept()
        self.assertTrue(self.check_end(words, whole, self.attempt(words, 0, None), before))
        self.until_parts(words, 1)
        before = self.kept()
        self.assertTrue(self.check_end(words, whole, self.attempt(words, 2, None), before))

    @unittest.skipUnless(LONG, "part of tests/long/run.sh")
    def test_killed_fifty_times(self):
        for words in (
            [DIGITS],
            [DIGITS, "-p", "paper"],
            [example("concrete"), "-p", "paper"],
            [example("regression"), "--set", "refit.drop=true"],
        ):
            with self.subTest(words):
                self.check(words, 50)

    @unittest.skipUnless(LONG, "part of tests/long/run.sh")
    def test_every_task(self):
        for words in (
            [example("segmentation")],
            [example("detection")],
            [DIGITS, "--method", "default+temperature"],
            [DIGITS, "--method", "hill-climbing"],
            [DIGITS, "--set", "refit.drop=true", "--set", "evaluate.nested=false"],
        ):
            with self.subTest(words):
                self.check(words, 10)

    @unittest.skipUnless(LONG, "part of tests/long/run.sh")
    def test_killed_fifty_times_on_ranks(self):
        for words in ([DIGITS, "--threads", "1"], [example("concrete"), "-p", "paper", "--threads", "1"]):
            with self.subTest(words):
                self.check(words, 50, ranks=(0, 1, 2, 3, 4))


if __name__ == "__main__":
    unittest.main()
