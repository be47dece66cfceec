"""comm=...: the results of one process, with the rows of each on its own, and what a failure of one rank does."""
import hashlib
import os
import queue
import subprocess
import sys
import threading
import unittest

import numpy as np

import corestack
from common import DIGITS, QUICK, Folder, without_times

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
MEMBERS = ("lda", "svm_rbf", "extra_trees", "knn_25")

# What a rank runs: the job's name, and the folder of the pool.
JOB = """
import hashlib, os, sys
import numpy as np
from mpi4py import MPI
import corestack
comm, (job, folder, *members) = MPI.COMM_WORLD, sys.argv[1:]
preds = {name: np.load(os.path.join(folder, name + ".oof.npy"), mmap_mode="r") for name in members}
y = np.load(os.path.join(folder, "oof_labels.npy"))
own = slice(len(y) * comm.rank // comm.size, len(y) * (comm.rank + 1) // comm.size)
local = {name: rows[own] for name, rows in preds.items()}
options = {"evaluate.nested": False}
try:
    if job == "rows":
        stack = corestack.fit(local, y[own], options=options, comm=comm)
    elif job == "files":
        stack = corestack.fit(os.path.join(folder, "pool.json"), options=options, comm=comm)
    elif job == "preset":
        stack = corestack.fit(local, y[own], preset="other" if comm.rank == 1 else "default", comm=comm)
    elif job == "columns":
        stack = corestack.fit({n: r[:, :9] if comm.rank == 1 else r for n, r in local.items()}, y[own], comm=comm)
    said = hashlib.md5(stack.to_bytes()).hexdigest()
except corestack.Error as error:
    said = f"{type(error).__name__}: {error}"
print("\\n".join(comm.gather(said) or []), end="")
"""


class Threads:
    """A communicator of threads with no more than a communicator needs."""

    def __init__(self, shared, rank):
        self.shared, self.rank, self.size = shared, rank, len(shared["values"])

    def allgather(self, value):
        self.shared["values"][self.rank] = value
        self.shared["barrier"].wait(60)
        found = list(self.shared["values"])
        self.shared["barrier"].wait(60)
        return found

    def Bcast(self, array, root=0):
        found = self.allgather(array.copy() if self.rank == root else None)[root]
        array[...] = found


class Talking(Threads):
    """One whose ranks also send to each other."""

    def send(self, value, dest, tag=0):
        self.shared["queues"][self.rank, dest].put(value)

    def recv(self, source, tag=0):
        return self.shared["queues"][source, self.rank].get(timeout=60)


def together(size, kind, work):
    """What `work` returns or raises on each rank of a communicator."""
    places = [(a, b) for a in range(size) for b in range(size)]
    shared = {"values": [None] * size, "barrier": threading.Barrier(size), "queues": {place: queue.Queue() for place in places}}
    found = [None] * size

    def one(rank):
        try:
            found[rank] = work(kind(shared, rank))
        except Exception as error:
            found[rank] = error
            if not isinstance(error, corestack.Error):
                shared["barrier"].abort()

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Communicators(Folder):
    """What anything that has the functions of a communicator is good for."""

    def setUp(self):
        super().setUp()
        names = MEMBERS[:3]
        self.preds = {name: np.load(DIGITS / f"{name}.oof.npy")[:700] for name in names}
        self.y = np.load(DIGITS / "oof_labels.npy")[:700]

    def own(self, comm, *arrays):
        first, last = (len(self.y) * (comm.rank + k) // comm.size for k in (0, 1))
        return [{n: a[first:last] for n, a in one.items()} if isinstance(one, dict) else one[first:last] for one in arrays]

    def test_few_ranks_and_many(self):
        same = corestack.fit(self.preds, self.y, **QUICK).to_bytes()
        for size, kind in ((2, Threads), (5, Talking)):
            found = together(size, kind, lambda comm: corestack.fit(*self.own(comm, self.preds, self.y), comm=comm, **QUICK))
            self.assertEqual([getattr(stack, "to_bytes", lambda: stack)() for stack in found], [same] * size)

    def test_rows_in_other_hands(self):
        """Ranks with few rows and none, other types and layouts, names of groups and domains that ranks meet in another order."""
        cuts = (0, 1, 1, 500, 700)
        given = {
            "groups": np.array([f"patient {(i * 7) % 90}" for i in range(700)]),
            "domains": np.array([("b", "a")[i % 2] if i < 400 else "c" for i in range(700)]),
            "folds": np.arange(700) * 7 % 90 % 3 * 10,
            "sample_weight": np.where(np.arange(700) == 0, 0, 1 + np.arange(700) % 3),
        }
        same = corestack.fit(self.preds, self.y, **given, **QUICK).to_bytes()

        def work(comm):
            own = slice(cuts[comm.rank], cuts[comm.rank + 1])
            preds = {name: np.asfortranarray(rows[own].astype((np.float32, np.float64)[comm.rank % 2])) for name, rows in self.preds.items()}
            return corestack.fit(preds, self.y[own], **{name: rows[own] for name, rows in given.items()}, comm=comm, **QUICK)

        found = together(4, Threads, work)
        self.assertEqual([getattr(stack, "to_bytes", lambda: stack)() for stack in found], [same] * 4)

    def test_columns_of_another_length(self):
        def work(comm):
            preds, y = self.own(comm, self.preds, self.y)
            return corestack.fit(preds, y[comm.rank :], comm=comm)

        for error in together(2, Threads, work):
            self.assertIsInstance(error, corestack.Error)
            self.assertIn("y: has 349 rows, but the predictions have 350", str(error))

    def test_other_functions(self):
        rest = {name: np.load(DIGITS / f"{name}.oof.npy")[700:] for name in self.preds}
        stack = corestack.fit(rest, np.load(DIGITS / "oof_labels.npy")[700:], method="average+temperature")
        p = stack.predict(self.preds)
        calls = {
            "inspect": (corestack.inspect, (self.preds, self.y), {}),
            "cka": (lambda *a, **k: corestack.cka(*a, **k).tolist(), (self.preds, self.y), {}),
            "evaluate": (corestack.evaluate, (p, self.y), {"resamples": 20}),
            "compare": (corestack.compare, (self.preds, self.y), {"methods": ["average", "greedy"], "resamples": 20}),
            "sweep": (
                corestack.sweep, (self.preds, self.y), {"over": "pool.size", "values": [2], "draws": 2, "methods": ["average"]},
            ),
            "bound": (lambda *a, **k: corestack.bound(stack, *a, **k), (self.preds, self.y), {}),
            "Stack.evaluate": (stack.evaluate, (self.preds, self.y), {"sample_weight": np.ones(len(self.y))}),
        }  # fmt: skip
        for name, (function, given, more) in calls.items():
            with self.subTest(name):
                expected = without_times(function(*given, **more))

                def work(comm):
                    rows = {"sample_weight": self.own(comm, more["sample_weight"])[0]} if "sample_weight" in more else {}
                    return without_times(function(*self.own(comm, *given), **{**more, **rows}, comm=comm))

                self.assertEqual(together(2, Threads, work), [expected] * 2)

    def test_arguments_that_differ(self):
        def work(comm):
            return corestack.fit(*self.own(comm, self.preds, self.y), seed=comm.rank, comm=comm)

        for error in together(2, Threads, work):
            self.assertIsInstance(error, corestack.ArgumentError)
            self.assertIn(" differs from rank 0 in the arguments", str(error))

    def test_what_only_one_rank_cannot_use(self):
        def work(comm):
            preds, y = self.own(comm, self.preds, self.y)
            return corestack.fit({**preds, "lda": str(self.path / "none.npy")} if comm.rank else preds, y, comm=comm)

        for rank, error in enumerate(together(2, Threads, work)):
            self.assertIsInstance(error, corestack.Error)
            self.assertRegex(str(error), ("rank 1 on .*none.npy", "none.npy")[rank])

    def test_what_is_no_communicator(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "comm: is a int without 'rank'"):
            corestack.fit(self.preds, self.y, comm=1)


@unittest.skipUnless(__import__("importlib").util.find_spec("mpi4py"), "needs mpi4py: apt-get install python3-mpi4py")
class Ranks(unittest.TestCase):
    def run_job(self, ranks, job):
        """What each rank said."""
        folder = str(DIGITS)
        path = os.pathsep.join([os.path.dirname(os.path.dirname(corestack.__file__)), os.environ.get("PYTHONPATH", "")])
        finished = subprocess.run(
            ["mpirun", "-n", str(ranks), sys.executable, "-c", JOB, job, folder, *MEMBERS],
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path}, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        self.assertEqual(finished.returncode, 0, finished.stderr.decode())
        said = finished.stdout.decode().splitlines()
        self.assertEqual(len(said), ranks, said)
        return said

    def expected(self, *arguments):
        return hashlib.md5(corestack.fit(*arguments, options={"evaluate.nested": False}).to_bytes()).hexdigest()

    def test_rows_of_each_process(self):
        preds = {name: np.load(DIGITS / f"{name}.oof.npy") for name in MEMBERS}
        same = self.expected(preds, np.load(DIGITS / "oof_labels.npy"))
        for ranks in (1, 2):
            self.assertEqual(set(self.run_job(ranks, "rows")), {same})

    def test_files_that_all_read(self):
        self.assertEqual(set(self.run_job(2, "files")), {self.expected(DIGITS / "pool.json")})

    def test_a_failure_is_raised_everywhere(self):
        for job, kind, part in (
            ("preset", "ArgumentError", "rank 1 on "),
            ("columns", "MismatchError", "the pool of rank 1 differs from that of rank 0: '9 classes' and '10 classes'"),
        ):
            said = self.run_job(2, job)
            self.assertEqual(len(set(said)), 1, said)
            self.assertIn(f"{kind}: ", said[0])
            self.assertIn(part, said[0])


if __name__ == "__main__":
    unittest.main()
