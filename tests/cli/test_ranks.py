"""corestack-mpi: the same bytes on any number of ranks, of every command. What becomes of ranks that fail: test_rank_faults.py."""

import json
import os
import platform
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from support import SOURCES, TOOL, run, sample, slow

MPI_TOOL = TOOL + "-mpi"
# So that the launchers of Open MPI and MPICH need no options: root, more ranks than cores, and --bind-to none.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none"}
LONG = bool(os.environ.get("CORESTACK_LONG"))
NOT_NESTED = ("--set", "evaluate.nested=false")
SOON = 10  # seconds within which all ranks end
TIMES = {"seconds", "peak_rss_bytes", "threads", "out"}


def command(*parts, mpirun="mpirun"):
    """mpirun with parts (number of ranks, words)."""
    words = [mpirun]
    for ranks, line in parts:
        words += [] if len(words) == 1 else [":"]
        words += ["-n", str(ranks), *[str(w) for w in line]]
    return words


def launch(words, cwd=None, **more):
    return subprocess.Popen(
        words, cwd=cwd, env={**os.environ, **LAUNCHER}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES and "seconds" not in k}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    return value


def lines_of_ours(text):
    return [line for line in text.splitlines() if line.startswith("corestack")]


class RankCase(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(MPI_TOOL):
            self.fail(f"{MPI_TOOL} was not built: install openmpi-bin and libopenmpi-dev, and configure again")
        self.folder = tempfile.mkdtemp(prefix="corestack-ranks-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def works(self, ranks, *words):
        with launch(command((ranks, (MPI_TOOL, *words))), cwd=self.folder) as process:
            out, err = process.communicate(timeout=900)
        self.assertEqual(process.returncode, 0, err.decode())
        return out.decode()


class SmallPool(RankCase):
    rows, classes = 1200, 3

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("pool"))
        labels, _ = sample(self.rows, self.classes, 1)
        np.save(self.path("pool/y.npy"), labels)
        np.save(self.path("pool/y2.npy"), labels[: self.rows // 2])
        for k, name in enumerate("abc"):
            np.save(self.path(f"pool/{name}.npy"), sample(self.rows, self.classes, 10 + k, 3.0, labels)[1])
            odd = sample(self.rows, self.classes, 20 + k, 0.4, labels)[1]  # unlike those of the fit
            np.save(self.path(f"pool/{name}2.npy"), odd)
            np.save(self.path(f"pool/{name}3.npy"), odd.reshape(2, -1, self.classes))
        splits = {"oof": {"labels": "y.npy"}, "new": {}, "two": {"labels": "y2.npy", "conditions": [{"kind": "fog"}, {"kind": "snow"}]}}
        models = [{"name": n, "predictions": {"oof": f"{n}.npy", "new": f"{n}2.npy", "two": f"{n}3.npy"}} for n in "abc"]
        with open(self.path("pool/pool.json"), "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": self.classes, "splits": splits, "models": models}, file)

    def test_fit_and_predict(self):
        """Also that rank 0 alone writes, and that a failure of all ranks is told once."""
        self.assertEqual(run("fit", "pool", "-o", "one", cwd=self.folder).code, 0)
        self.assertEqual(run("predict", "one", "pool", "--split", "new", "-o", "one.npy", cwd=self.folder).code, 0)
        self.works(2, "fit", "pool", "-o", "two", "--threads", 2)
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))
        self.works(2, "predict", "two", "pool", "--split", "new", "-o", "two.npy", "--threads", 1)
        self.assertEqual(self.bytes_of("one.npy"), self.bytes_of("two.npy"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["one", "one.npy", "pool", "two", "two.npy"])
        for _ in range(2):
            self.assertEqual(run("monitor", "one", "pool", "--split", "oof", "--state", "a", cwd=self.folder).code, 0)
            self.works(2, "monitor", "one", "pool", "--split", "oof", "--state", "b")
            self.assertEqual(self.bytes_of("a"), self.bytes_of("b"))
        cores = len(os.sched_getaffinity(0))
        profile = json.loads(self.works(2, "profile", "one", "pool", "--split", "oof", "--repeats", "20", "--json"))
        self.assertEqual(profile["measured"]["threads"], max(1, min(cores, profile["measured"]["cores"]) // 2))
        one = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # noqa: E731
        for words, says in ((("--bind-to", "none"), f"2 ranks share 1 core of {platform.node()}"),
                            (("--bind-to", "none", "-q"), "")):
            tool = (MPI_TOOL, "evaluate", "one", "pool", "--split", "oof", *words[2:])
            with launch(["mpirun", *words[:2], *command((2, tool))[1:]], cwd=self.folder, preexec_fn=one) as process:
                err = process.communicate(timeout=60)[1].decode()
            self.assertEqual((process.returncode, len(lines_of_ours(err))), (0, 1 if says else 0), err)
            self.assertIn(says, err)
        with launch(command((2, (MPI_TOOL, "fit", "no-pool", "-o", "m"))), cwd=self.folder) as process:
            err = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 2, err)
        self.assertEqual(len(lines_of_ours(err)), 1, err)

    @slow
    def test_predictions_of_every_kind(self):
        self.assertEqual(run("fit", "pool", "-o", "m", "--preset", "prototype", cwd=self.folder).code, 0)
        cases = [
            ("new",), ("new", "--guard", "off"), ("new", "--batch", "300"), ("two",), ("new", "--label-shift", "em"), ("new", "--missing", "allow"),
        ]  # fmt: skip
        for split, *more in cases:
            line = ("predict", "m", "pool", "--split", split, "--json", *more, "-o")
            alone = run(*line, "one.npy", cwd=self.folder)
            self.assertEqual(alone.code, 0, alone.err)
            if (split, *more) == cases[0]:
                self.assertEqual(alone.json()["guard"]["fired"], 1)
            said = json.loads(self.works(3, *line, "out.npy", "--threads", 1))
            self.assertEqual(self.bytes_of("out.npy"), self.bytes_of("one.npy"), (split, more))
            self.assertEqual(without_times(said), without_times(alone.json()), (split, more))


class Lists(RankCase):
    def test_fit_predict_and_compare(self):
        rng = np.random.default_rng(48)
        labels = rng.integers(0, 30, 1200)
        for k in range(3):
            z = rng.normal(size=(1200, 30)) + (1 + k) * (np.arange(30) == labels[:, None])
            logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
            order = np.argsort(-logs, axis=1)[:, :5]
            np.save(self.path(f"m{k}.indices.npy"), order.astype(np.int32))
            np.save(self.path(f"m{k}.logprobs.npy"), np.take_along_axis(logs, order, axis=1).astype(np.float16))
        np.save(self.path("y.npy"), labels)
        pool = [f"m{k}.indices.npy" for k in range(3)]
        for words in (
            ("fit", *pool, "--labels", "y.npy", "--classes", 30, "-o", "m", "--json"),
            ("predict", "m", *pool, "-o", "o.npz", "--json"),
            ("compare", *pool, "--labels", "y.npy", "--classes", 30, "-r", 50, "--json"),
        ):
            alone = run(*words, cwd=self.folder)
            self.assertEqual(alone.code, 0, alone.err)
            out = words[words.index("-o") + 1] if "-o" in words else None
            before = out and self.bytes_of(out)
            text = self.works(3, *words, "--threads", 1)
            self.assertEqual(out and self.bytes_of(out), before, words[0])
            self.assertEqual(without_times(json.loads(text)), without_times(alone.json()), words[0])


class SameBytes(RankCase):
    def check_commands(self, task, ranks, *more, fit=()):
        """Commands in one process and on so many ranks: files and, but for times, documents. A fit (with these options) on each
        number of ranks, other commands in turn."""
        pool = os.path.join(SOURCES, "examples", task)
        out = "o.json" if task == "detection" else "o.npy"
        lines = [
            ("fit", pool, "-o", "m", "--json", *NOT_NESTED, *fit),
            ("predict", "m", pool, "--split", "test", "-o", out),
            ("evaluate", "m", pool, "--json"),
            ("inspect", pool, "--json"),
            *((word, pool, *rest, "--json") if word != "bound" else (word, "m", pool, *rest, "--json") for word, *rest in more),
        ]
        for i, line in enumerate(lines):
            alone = run(*line, cwd=self.folder)
            self.assertEqual(alone.code, 0, alone.err)
            written = [name for name in ("m", out) if "-o" in line and name == line[line.index("-o") + 1]]
            files = {name: self.bytes_of(name) for name in written if os.path.isfile(self.path(name))}
            for n in ranks if i == 0 or LONG else [ranks[i % len(ranks)]]:
                text = self.works(n, *line, "--threads", 1 + n % 2)
                for name, content in files.items():
                    self.assertEqual(self.bytes_of(name), content, (task, line[0], n))
                if "--json" in line:
                    self.assertEqual(without_times(json.loads(text)), without_times(alone.json()), (task, line[0], n))

    @slow
    def test_one_to_four_ranks(self):
        self.check_commands("digits", (1, 2, 3, 4), ("bound", "--split", "test"))

    @slow
    def test_comparisons(self):
        methods = () if LONG else ("-m", "default,prototype,average,lasso,mlp,greedy-brier,minimum-variance,autogluon")
        self.check_commands("digits", (3,), ("compare", "-r", 50, *methods), ("sweep", "--over", "pool.size=2:3:1", "-r", 0))

    @slow
    def test_every_task(self):
        self.check_commands("concrete", (3,), ("compare", "-r", 50))
        self.check_commands("regression", (2,), ("compare", "-r", 50))
        self.check_commands("segmentation", (3,), fit=() if LONG else ("--set", "select.max_rows=5000"))
        self.check_commands("detection", (3,), ("compare", "-r", 20))

    @slow
    @unittest.skipUnless(LONG, "in make check-long")
    def test_sweeps_and_comparisons_of_every_task(self):
        sweep = ("sweep", "--over", "pool.size=2:4:1", "-r", 0)
        for task, more in (("concrete", []), ("regression", []), ("detection", []), ("segmentation", [("compare", "-r", 5)])):
            self.check_commands(task, (2, 4), sweep, *more)


if __name__ == "__main__":
    unittest.main()
