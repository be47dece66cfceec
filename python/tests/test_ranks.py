"""comm=...: several processes share the work and get the result of one. The ranks are threads, and once those of mpirun."""
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
import unittest

import numpy as np

import corestack
from common import QUICK, Folder, toy, without_times

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

# A rank of mpirun: fits arrays, and the same rows from files. Prints a hash of each model.
JOB = """
import hashlib, sys
import numpy as np
from mpi4py import MPI
import corestack
names = ("model0", "model1", "model2", "model3")
preds = {name: np.load(f"{name}.npy", mmap_mode="r") for name in names}
options = {"evaluate.nested": False}
stacks = [
    corestack.fit(preds, np.load("y.npy"), options=options, comm=MPI.COMM_WORLD),
    corestack.fit([f"{name}.npy" for name in names], "y.npy", options=options, comm=MPI.COMM_WORLD),
]
said = [hashlib.md5(stack.to_bytes()).hexdigest() for stack in stacks]
print("\\n".join(sum(MPI.COMM_WORLD.gather(said) or [], [])), end="")
"""


class Threads:
    """A communicator of threads with what is used of one of mpi4py."""

    def __init__(self, shared, rank):
        self.shared, self.rank, self.size = shared, rank, len(shared["values"])

    def exchange(self, value):
        self.shared["values"][self.rank] = value
        self.shared["barrier"].wait(60)
        found = list(self.shared["values"])
        self.shared["barrier"].wait(60)
        return found

    def Allgatherv(self, part, whole):
        whole[0][...] = np.concatenate(self.exchange(part))

    def Bcast(self, array, root=0):
        array[...] = self.exchange(array.copy())[root]


def together(size, work):
    """What `work` returns or raises on each rank of a communicator."""
    shared = {"values": [None] * size, "barrier": threading.Barrier(size)}
    found = [None] * size

    def one(rank):
        try:
            found[rank] = work(Threads(shared, rank))
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


class Ranks(Folder):
    def setUp(self):
        super().setUp()
        self.preds, self.y = toy(rows=1200)

    def saved(self):
        """The rows in files; their paths."""
        np.save(self.path / "y.npy", self.y)
        for name, rows in self.preds.items():
            np.save(self.path / f"{name}.npy", rows)
        return [str(self.path / f"{name}.npy") for name in self.preds]

    def test_fits(self):
        files = self.saved()
        same = corestack.fit(self.preds, self.y, **QUICK).to_bytes()
        for size in (2, 3):
            found = together(size, lambda comm: corestack.fit(self.preds, self.y, comm=comm, **QUICK))
            self.assertEqual([getattr(stack, "to_bytes", lambda: stack)() for stack in found], [same] * size)
        found = together(2, lambda comm: corestack.fit(files, str(self.path / "y.npy"), comm=comm, **QUICK))
        self.assertEqual([getattr(stack, "to_bytes", lambda: stack)() for stack in found], [same] * 2)

    def test_other_functions(self):
        stack = corestack.fit(*toy(rows=300, seed=1), method="average+temperature")
        p = stack.predict(self.preds)
        calls = {
            "inspect": lambda **k: corestack.inspect(self.preds, self.y, **k),
            "cka": lambda **k: corestack.cka(self.preds, self.y, **k).tolist(),
            "evaluate": lambda **k: corestack.evaluate(p, self.y, resamples=20, **k),
            "compare": lambda **k: corestack.compare(self.preds, self.y, methods=["average", "greedy"], resamples=20, **k),
            "sweep": lambda **k: corestack.sweep(self.preds, self.y, over="pool.size", values=[2], draws=2, methods=["average"], **k),
            "bound": lambda **k: corestack.bound(stack, self.preds, self.y, **k),
            "Stack.evaluate": lambda **k: stack.evaluate(self.preds, self.y, sample_weight=np.ones(len(self.y)), **k),
        }
        for name, call in calls.items():
            with self.subTest(name):
                expected = without_times(call())
                self.assertEqual(together(2, lambda comm: without_times(call(comm=comm))), [expected] * 2)

    def check_errors(self, work, kind, text):
        for error in together(2, work):
            self.assertIsInstance(error, kind)
            self.assertRegex(str(error), text)

    def test_ranks_that_differ(self):
        self.check_errors(
            lambda comm: corestack.fit(self.preds, self.y, seed=comm.rank, comm=comm), corestack.ArgumentError,
            "rank 1 on .* differs from rank 0 in the arguments",
        )  # fmt: skip

        def own_rows(comm):
            rows = slice(600 * comm.rank, 600 * (comm.rank + 1))
            return corestack.fit({name: p[rows] for name, p in self.preds.items()}, self.y[rows], comm=comm)

        self.check_errors(own_rows, corestack.ArgumentError, "rank 1 on .* differs from rank 0 in the arrays")

    def test_a_failure_of_one_rank(self):
        def work(comm):
            preds = {**self.preds, "model0": str(self.path / "none.npy")} if comm.rank else self.preds
            return corestack.fit(preds, self.y, comm=comm)

        self.check_errors(work, corestack.Error, "none.npy")

    def test_what_is_no_communicator(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "comm: is a int without 'rank'"):
            corestack.fit(self.preds, self.y, comm=1)

    @unittest.skipUnless(importlib.util.find_spec("mpi4py"), "needs mpi4py: apt-get install python3-mpi4py")
    def test_mpirun(self):
        self.saved()
        same = hashlib.md5(corestack.fit(self.preds, self.y, **QUICK).to_bytes()).hexdigest()
        path = os.pathsep.join([os.path.dirname(os.path.dirname(corestack.__file__)), os.environ.get("PYTHONPATH", "")])
        finished = subprocess.run(
            ["mpirun", "--bind-to", "none", "-n", "2", sys.executable, "-c", JOB], cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path}, timeout=120, check=False,
        )  # fmt: skip
        self.assertEqual(finished.returncode, 0, finished.stderr.decode())
        self.assertEqual(finished.stdout.decode().split(), [same] * 4)


if __name__ == "__main__":
    unittest.main()
