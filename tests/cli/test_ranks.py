"""corestack-mpi: the same bytes on any number of ranks, of every command. What becomes of ranks that fail: test_rank_faults.py."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from support import DIGITS, SOURCES, TOOL, run, sample, slow

MPI_TOOL = TOOL + "-mpi"
# So that the launchers of Open MPI and MPICH need no options: root, and more ranks than cores.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
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
        return {k: without_times(v) for k, v in value.items() if k not in TIMES and k != "ranks" and "seconds" not in k}
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


class SameBytes(RankCase):
    def test_fit(self):
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        self.works(2, "fit", DIGITS, "-o", "two", "--threads", 2, *NOT_NESTED)
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))
        self.assertEqual(sorted(os.listdir(self.folder)), ["one", "two"])

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


class Traffic(RankCase):
    """Bytes and rounds of every stage, as the document of a fit and -v have them."""

    rows, members, classes = 8192, 6, 64  # ranks divide passes that take much longer than an exchange
    words = ("--set", "meta.learners=log-linear", "--set", "refit.drop=false", "--set", f"select.max_rows={rows}", *NOT_NESTED)

    def pool(self, rows):
        labels, _ = sample(rows, self.classes, 1)
        folder = self.path(f"pool-{rows}")
        os.mkdir(folder)
        np.save(f"{folder}/labels.npy", labels)
        for k in range(self.members):
            np.save(f"{folder}/m{k}.npy", sample(rows, self.classes, 2 + k, labels=labels)[1])
        return folder

    def stages(self, ranks, folder):
        words = ("fit", "--labels", f"{folder}/labels.npy", *(f"{folder}/m{k}.npy" for k in range(self.members)))
        document = json.loads(self.works(ranks, *words, "-o", "m", "--json", "--threads", 1, *self.words))["ranks"]
        self.assertEqual(document["count"], ranks)
        return {stage["stage"]: stage for stage in document["stages"]}

    @slow
    def test_bytes_grow_with_rows_only_where_they_should(self):
        small = self.stages(2, self.pool(self.rows))
        folder = self.pool(2 * self.rows)
        large = self.stages(2, folder)
        if small["selection"]["rounds"] > 0:  # else exchanges took too long for passes over the table to be divided
            for stage in ("selection", "meta-learners"):  # on a table of as many rows, whose sums are sent
                step = small[stage]["sent_bytes"] / small[stage]["rounds"]
                self.assertLess(large[stage]["sent_bytes"], 1.3 * step * max(large[stage]["rounds"], 1), stage)
        margins = 16 * self.members * 2 * self.rows  # of CKA: two numbers for each member and row, and what is packed of it
        self.assertGreater(large["redundancy"]["sent_bytes_most"], margins)
        self.assertLess(large["redundancy"]["sent_bytes_most"], 2 * margins)
        three = self.stages(3, folder)
        self.assertEqual(list(three), list(large))
        for stage in ("read", "risk of members", "correlations", "redundancy"):  # others: tests/comm/traffic.c
            self.assertEqual(three[stage]["rounds"], large[stage]["rounds"], stage)

    def test_the_table(self):
        words = ("fit", DIGITS, "-o", "m", "-v", "--threads", 1, *NOT_NESTED)
        with launch(command((1, (MPI_TOOL, *words))), cwd=self.folder) as process:
            err = process.communicate(timeout=60)[1].decode()
        names = [line[2:38].strip() for line in err[err.index("1 rank;") :].splitlines()[1:]]
        self.assertEqual(names[:3], ["stage", "other", "read"])
        self.assertIn("meta-learners", names)


if __name__ == "__main__":
    unittest.main()
