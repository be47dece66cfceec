"""fit(..., comm=...): the stack of one process, with the rows of each on its own, and what a failure of one rank does."""
import hashlib
import os
import subprocess
import sys
import unittest

import numpy as np

import corestack
from common import DIGITS

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
        for job, part in (("preset", "rank 1 on "), ("columns", "differ in type or columns")):
            said = self.run_job(2, job)
            self.assertEqual(len(set(said)), 1, said)
            self.assertIn("ArgumentError: ", said[0])
            self.assertIn(part, said[0])


if __name__ == "__main__":
    unittest.main()
