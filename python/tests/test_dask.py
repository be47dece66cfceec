"""corestack.dask: the stack of one process from the workers of a cluster, and what becomes of a fit that fails."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import numpy as np

import corestack
from common import DIGITS, QUICK, digits

try:
    import dask.array as da
    import distributed
    import corestack.dask
    from corestack import _workers
except ImportError:
    da = None

MEMBERS = ("lda", "svm_rbf", "extra_trees", "knn_25")


def state():
    """How many messages the ranks on a worker have taken."""
    return [post.messages for post in _workers._POSTS.values()]


def handlers(dask_worker):
    return [name for name in dask_worker.handlers if name.startswith("corestack")]


def break_arrays(on):
    """Has every pool of arrays fail on this worker, or not any more."""
    from corestack import _arrays

    if on:
        _arrays.intact, _arrays.Arrays = _arrays.Arrays, fail
    else:
        _arrays.Arrays = _arrays.intact


def fail(*_arguments, **_keywords):
    raise MemoryError("this worker is full")


class Watch(threading.Thread):
    """Calls a function once ranks are well into their work."""

    def __init__(self, client, then):
        super().__init__()
        self.client, self.then, self.at = client, then, None

    def run(self):
        for _ in range(600):
            states = [one for of_worker in self.client.run(state, on_error="ignore").values() for one in of_worker]
            if any(messages > 25 for messages in states):
                self.at = time.monotonic()
                self.then()
                return
            time.sleep(0.02)


@unittest.skipUnless(da, "needs dask and distributed: apt-get install python3-distributed")
class Dask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore", message="make_current is deprecated")
        cls.folder = Path(tempfile.mkdtemp(prefix="corestack-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        before = os.environ.get("TMPDIR")
        (cls.folder / "tmp").mkdir()
        os.environ["TMPDIR"] = str(cls.folder / "tmp")
        try:
            cls.cluster = distributed.LocalCluster(
                n_workers=3, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
                local_directory=str(cls.folder / "workers"), silence_logs=60,
            )  # fmt: skip
        finally:
            os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
        cls.addClassCleanup(cls.cluster.close)
        cls.client = distributed.Client(cls.cluster, set_as_default=False)
        cls.addClassCleanup(cls.client.close)
        _, oof, cls.test, cls.y, _, cls.folds = digits()
        cls.oof = {name: oof[name] for name in MEMBERS}
        cls.weights = np.linspace(0.5, 2, len(cls.y))

    def setUp(self):
        self.client.wait_for_workers(3, timeout=30)
        self.workers = sorted(self.client.nthreads())

    def tearDown(self):
        """No test leaves anything on the workers."""
        self.client.wait_for_workers(3, timeout=30)
        self.assertEqual(set(map(len, self.client.run(handlers).values())), {0})
        self.assertEqual(set(map(len, self.client.run(state).values())), {0})
        self.assertEqual(os.listdir(self.folder / "tmp"), [])

    def lazy(self, rows, columns=10):
        chunks = (*rows, len(self.y) - sum(rows))
        return {name: da.from_array(array, chunks=(chunks, columns)) for name, array in self.oof.items()}

    def ended(self, started, within=10):
        self.assertLess(time.monotonic() - started, within)
        for _ in range(50):
            if not any(self.client.processing().values()):
                return
            time.sleep(0.1)
        self.fail(self.client.processing())

    def test_rows_in_chunks_of_any_size(self):
        one = corestack.fit(self.oof, self.y, folds=self.folds, sample_weight=self.weights, **QUICK)
        lazy = {
            "y": da.from_array(self.y, chunks=170),
            "folds": self.folds,
            "sample_weight": da.from_array(self.weights, chunks=len(self.y)),
        }
        found = corestack.dask.fit(self.client, self.lazy((3, 250, 500, 1), columns=4), **lazy, **QUICK)
        self.assertEqual(found.to_bytes(), one.to_bytes())
        self.assertEqual(found.members, list(MEMBERS))
        two = corestack.dask.fit(self.client, list(self.lazy((900,)).values()), **lazy, names=MEMBERS, workers=self.workers[1:], **QUICK)
        self.assertEqual(two.to_bytes(), one.to_bytes())

    def test_division_into_ranks(self):
        for chunks, ranks, expected in (
            ((3, 250, 500, 1), 3, [0, 500, 754, 1197]),
            ((400, 400, 397), 3, [0, 400, 800, 1197]),
            ((1197,), 2, [0, 598, 1197]),
        ):
            preds = {"a": da.zeros((1197, 10), chunks=(chunks + ((1197 - sum(chunks),) if sum(chunks) < 1197 else ()), 10))}
            found = corestack.dask._Rows(preds, {}).bounds(ranks)
            self.assertEqual((found[0], found[-1], len(found)), (0, 1197, ranks + 1))
            self.assertLess(max(np.diff(found)) - min(np.diff(found)), 0.21 * 1197)
            self.assertTrue(set(found) >= set(expected) or chunks == (3, 250, 500, 1), found)
        self.assertEqual(corestack.dask._Rows({"a": da.zeros((2, 3))}, {}).bounds(5), [0, 1, 2])

    def test_files_and_predictions(self):
        pool = DIGITS / "pool.json"
        one = corestack.fit(pool, **QUICK)
        self.assertEqual(corestack.dask.fit(self.client, str(pool), workers=self.workers[:2], **QUICK).to_bytes(), one.to_bytes())
        lazy = {name: da.from_array(array, chunks=(77, 4)) for name, array in self.test.items()}
        found = corestack.dask.predict(self.client, one, lazy)
        self.assertEqual(found.shape, (len(self.test["lda"]), 10))
        np.testing.assert_array_equal(self.client.compute(found).result(), one.predict(self.test))

    def test_an_error_of_one_worker(self):
        self.client.run(break_arrays, True, workers=self.workers[1:2])
        try:
            with self.assertRaisesRegex(corestack.OutOfMemoryError, r"^rank 1 on \S+: MemoryError: this worker is full$"):
                corestack.dask.fit(self.client, self.lazy((400,)), self.y, **QUICK)
        finally:
            self.client.run(break_arrays, False, workers=self.workers[1:2])

    def test_an_error_of_all(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "^[^:]*preset.*nonsense"):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y, preset="nonsense")

    def test_a_worker_is_killed(self):
        victim = self.client.run(os.getpid)[self.workers[2]]
        watch = Watch(self.client, lambda: os.kill(victim, signal.SIGKILL))
        watch.start()
        with self.assertRaisesRegex(corestack.FileError, "^rank 2 on .* ended or cannot be reached"):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y)
        watch.join()
        self.ended(watch.at)

    def test_stopped_by_the_user(self):
        watch = Watch(self.client, lambda: os.kill(os.getpid(), signal.SIGINT))
        watch.start()
        with self.assertRaises(KeyboardInterrupt):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y)
        watch.join()
        self.ended(watch.at)

    def test_a_busy_worker(self):
        busy = self.client.submit(time.sleep, 3, workers=self.workers[:1], pure=False)
        started = time.monotonic()
        with self.assertRaisesRegex(corestack.Error, f"{self.workers[0]} did not start its rank within 0.5 s"):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y, start_timeout=0.5)
        self.assertLess(time.monotonic() - started, 3)
        busy.result()

    def test_what_is_refused(self):
        preds = self.lazy((400,))
        unknown = da.from_array(self.y, chunks=100)
        unknown = unknown[unknown >= 0]
        for arguments, text in (
            (dict(preds=preds, y=unknown), "y: the sizes of its chunks are not known"),
            (dict(preds=preds, y=self.y[:-1]), "y: has 1196 rows, but lda has 1197"),
            (dict(preds=preds, y=self.y, workers=["tcp://127.0.0.1:1"]), "is not the address of a worker"),
            (dict(preds=preds, y=self.y, comm=1), "comm: is not an argument"),
            (dict(preds=3, y=self.y), "predictions: is a int"),
            (dict(preds={}, y=self.y), "no members"),
        ):
            with self.subTest(text), self.assertRaisesRegex(corestack.Error, text):
                corestack.dask.fit(self.client, **arguments)


class WithoutDask(unittest.TestCase):
    def test_what_to_install(self):
        program = (
            "import sys; sys.modules['distributed'] = None\n"
            "import corestack\n"
            "try: corestack.dask\n"
            "except AttributeError as error: print(error)\n"
            "try: import corestack.dask\n"
            "except ImportError as error: print(error)\n"
        )
        path = os.pathsep.join([os.path.dirname(os.path.dirname(corestack.__file__)), os.environ.get("PYTHONPATH", "")])
        said = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
        ).stdout.splitlines()
        self.assertEqual(len(said), 2)
        for line in said:
            self.assertIn("apt-get install python3-distributed", line)


if __name__ == "__main__":
    unittest.main()
