"""corestack-mpi predict: ranks write one file together, the same bytes as one process, and nothing if one of them fails."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np
from support import SOURCES, run, sample, slow
from test_ranks import MPI_TOOL, RankCase, command, launch, lines_of_ours, without_times

ALONE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")  # a rank that sees no process of the others


def can_unshare():
    return shutil.which("unshare") and subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0


class Predict(RankCase):
    rows, classes = 5000, 4

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("pool"))
        labels, _ = sample(self.rows, self.classes, 1)
        np.save(self.path("pool/y.npy"), labels)
        half = self.rows // 2
        np.save(self.path("pool/y2.npy"), labels[:half])
        for k, name in enumerate("abc"):
            _, rows = sample(self.rows, self.classes, 10 + k, 3.0, labels)
            np.save(self.path(f"pool/{name}.npy"), rows)
            _, odd = sample(self.rows, self.classes, 20 + k, 0.4, labels)  # unlike those of the fit
            np.save(self.path(f"pool/{name}2.npy"), odd)
            np.save(self.path(f"pool/{name}3.npy"), odd.reshape(2, half, self.classes))
        splits = {"oof": {"labels": "y.npy"}, "new": {}, "two": {"labels": "y2.npy", "conditions": [{"kind": "fog"}, {"kind": "snow"}]}}
        models = [{"name": n, "predictions": {"oof": f"{n}.npy", "new": f"{n}2.npy", "two": f"{n}3.npy"}} for n in "abc"]
        with open(self.path("pool/pool.json"), "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": self.classes, "splits": splits, "models": models}, file)
        result = run("fit", "pool", "-o", "m", "--preset", "prototype", cwd=self.folder)
        self.assertEqual(result.code, 0, result.err)

    def line(self, split, out, *more):
        return ("predict", "m", "pool", "--split", split, "-o", out, *more)

    def alone(self, split, *more):
        """The bytes from one process, and its report."""
        result = run(*self.line(split, "one.npy", "--json", *more), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err)
        return self.bytes_of("one.npy"), without_times(result.json())

    def left(self):
        return sorted(set(os.listdir(self.folder)) - {"pool", "m", "one.npy"})


class SameBytes(Predict):
    @slow
    def test_guarded(self):
        content, report = self.alone("new")
        self.assertEqual(report["guard"]["fired"], 1, report)
        self.assertNotEqual(content, self.alone("new", "--guard", "off")[0])
        for ranks in (1, 2, 3, 4):
            said = json.loads(self.works(ranks, *self.line("new", "out.npy", "--json", "--threads", 1)))
            self.assertEqual(self.bytes_of("out.npy"), content, ranks)
            self.assertEqual(without_times(said), report, ranks)
        self.assertEqual(self.left(), ["out.npy"])

    @slow
    def test_of_every_kind(self):
        cases = [("new", "--guard", "off"), ("new", "--batch", "700"), ("two",), ("new", "--label-shift", "em"), ("new", "--missing", "allow")]
        for split, *more in cases:
            content, _ = self.alone(split, *more)
            self.works(3, *self.line(split, "out.npy", *more))
            self.assertEqual(self.bytes_of("out.npy"), content, (split, more))

    def test_values(self):
        pool = os.path.join(SOURCES, "examples", "concrete")
        self.assertEqual(run("fit", pool, "-o", "v", "--preset", "prototype", cwd=self.folder).code, 0)
        line = ("predict", "v", pool, "--split", "test")
        self.assertEqual(run(*line, "-o", "one.npy", cwd=self.folder).code, 0)
        self.works(3, *line, "-o", "out.npy")
        self.assertEqual(self.bytes_of("out.npy"), self.bytes_of("one.npy"))

    @slow
    def test_a_pipe(self):
        content, _ = self.alone("new")
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE) as reader:
            self.works(2, *self.line("new", "pipe"))
            self.assertEqual(reader.communicate(timeout=60)[0], content)

    @unittest.skipUnless(can_unshare(), "no namespaces here")
    @slow
    def test_other_machines(self):
        """A rank that does not see the process of rank 0 finds the file by its name; one that does not see the folder sends its rows."""
        content, _ = self.alone("new")
        os.mkdir(self.path("out"))
        line = (MPI_TOOL, *self.line("new", "out/o.npy", "--threads", 1))
        hidden = ("sh", "-c", 'mount -t tmpfs none out && exec "$@"', "sh")
        for there, says in ((ALONE, 0), ((*ALONE, *hidden), 1)):
            with launch(command((1, line), (1, (*there, *line))), cwd=self.folder) as process:
                _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err.decode())
            self.assertEqual(self.bytes_of("out/o.npy"), content)
            notices = [text for text in lines_of_ours(err.decode()) if "cannot open the output file of rank 0" in text]
            self.assertEqual(len(notices), says, err.decode())
            self.assertEqual(os.listdir(self.path("out")), ["o.npy"])
            os.remove(self.path("out/o.npy"))


class Failing(Predict):
    rows, classes = 300000, 6

    @unittest.skipUnless(can_unshare(), "no namespaces here")
    @slow
    def test_a_full_disk(self):
        line = [str(w) for w in (MPI_TOOL, *self.line("new", "out/o.npy"))]
        script = 'mkdir out && mount -t tmpfs -o size=1m none out && "$@"; code=$?; ls -A out >&2; exit $code'
        with launch(["unshare", "--mount", "sh", "-c", script, "sh", "mpirun", "-n", "2", *line], cwd=self.folder) as process:
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2, err.decode())
        self.assertIn("No space left on device", lines_of_ours(err.decode())[0])
        self.assertNotIn("o.npy", err.decode().splitlines()[-1])

    def writing(self):
        """Processes that have the file without a name open."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                files = [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")]
            except OSError:
                continue
            if any(file.startswith(self.folder) and file.endswith("(deleted)") for file in files):
                found.append(int(name))
        return sorted(found)

    @slow
    def test_a_killed_rank(self):
        for which in (0, -1):
            with launch(command((2, (MPI_TOOL, *self.line("new", "out.npy", "--threads", 1)))), cwd=self.folder) as process:
                deadline = time.monotonic() + 20
                while len(self.writing()) < 2 and time.monotonic() < deadline:
                    time.sleep(0.002)
                ranks = self.writing()
                self.assertEqual(len(ranks), 2)
                os.kill(ranks[which], signal.SIGKILL)
                _, err = process.communicate(timeout=60)
            self.assertIn(process.returncode, (2, 3), err.decode())
            self.assertIn("signal 9", err.decode())
            self.assertEqual(self.left(), [])

    @slow
    def test_pieces(self):
        """More rows than a piece has."""
        content, _ = self.alone("new")
        self.works(2, *self.line("new", "out.npy", "--threads", 1, "--memory", "64MiB"))
        self.assertEqual(self.bytes_of("out.npy"), content)


if __name__ == "__main__":
    unittest.main()
