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
from unittest import mock

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
    """With one cluster for all."""

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
        beside = {"folds": self.folds, "sample_weight": da.from_array(self.weights, chunks=len(self.y))}
        one = corestack.fit(self.oof, self.y, folds=self.folds, sample_weight=self.weights, **QUICK)
        y = da.from_array(self.y, chunks=170)
        found = corestack.dask.fit(self.client, self.lazy((3, 250, 500, 1), columns=4), y, **beside, **QUICK)
        self.assertEqual(found.to_bytes(), one.to_bytes())
        self.assertEqual(found.members, list(MEMBERS))

    def test_two_workers(self):
        names = ["cat", *"abcdefghi"]
        domains = np.array(["here", "there"])[np.arange(len(self.y)) // 700]
        given = {"classes": names, "domains": domains, "method": "average+temperature"}
        one = corestack.fit(list(self.oof.values()), self.y, **given)
        found = corestack.dask.fit(self.client, list(self.lazy((900,)).values()), self.y, workers=self.workers[1:], **given)
        self.assertEqual(found.to_bytes(), one.to_bytes())
        self.assertEqual(found.classes, names)

    def test_division_into_ranks(self):
        for chunks, ranks, expected in (
            ((3, 250, 500, 1, 443), 3, [0, 399, 798, 1197]),  # no chunk ends near an even division
            ((400, 390, 407), 3, [0, 400, 790, 1197]),
            ((1197,), 2, [0, 598, 1197]),
            ((1, 1), 5, [0, 1, 2]),
        ):
            preds = {"a": da.zeros((sum(chunks), 10), chunks=(chunks, 10))}
            self.assertEqual(corestack.dask._Rows(preds, {}).bounds(ranks), expected)

    def test_files_and_predictions(self):
        given = ([str(DIGITS / f"{name}.oof.npy") for name in MEMBERS], str(DIGITS / "oof_labels.npy"))
        one = corestack.fit(*given, method="average+temperature")
        found = corestack.dask.fit(self.client, *given, workers=self.workers[:2], method="average+temperature")
        self.assertEqual(found.to_bytes(), one.to_bytes())

    def predicted(self, stack, given, chunks, **more):
        """What is predicted block by block, which is to be what is predicted at once; each member has other blocks."""
        sizes = [(chunks[0] + 20 * i, *chunks[1:]) for i in range(len(given))]
        lazy = {name: da.from_array(array, chunks=size) for (name, array), size in zip(given.items(), sizes)}
        domains = {"domains": da.from_array(more["domains"], chunks=chunks[0])} if "domains" in more else {}
        found = corestack.dask.predict(self.client, stack, lazy, **domains)
        expected = stack.predict(given, **more)
        self.assertEqual((found.shape, found.dtype), (expected.shape, expected.dtype))
        np.testing.assert_array_equal(self.client.compute(found).result(), expected)

    def test_predictions(self):
        domains = np.array(["here", "there"])[np.arange(len(self.y)) % 2]
        stack = corestack.fit(self.oof, self.y, domains=domains, domain_aware=True, **QUICK)
        self.predicted(stack, self.test, (177, 4))
        self.predicted(stack, self.test, (500, 10), domains=np.array(["there", "here"])[np.arange(len(self.test["lda"])) // 500])
        with self.assertRaisesRegex(corestack.MismatchError, "member '.*' is missing"):
            corestack.dask.predict(self.client, stack, {"knn_5": da.from_array(self.test["knn_5"])})
        random = np.random.default_rng(1)
        values = {name: random.normal(size=300) for name in "abc"}
        y = sum(values.values()) / 3
        self.predicted(corestack.fit(values, y, task="regression", **QUICK), values, (120,))
        two = {name: 1 / (1 + np.exp(-value)) for name, value in values.items()}
        self.predicted(corestack.fit(two, (y > 0).astype(int), method="average"), two, (120,))

    def test_an_error_of_one_worker(self):
        self.client.run(break_arrays, True, workers=self.workers[1:2])
        try:
            with self.assertRaisesRegex(corestack.OutOfMemoryError, r"^rank 1 on \S+: MemoryError: this worker is full$"):
                corestack.dask.fit(self.client, self.lazy((400,)), self.y, **QUICK)
        finally:
            self.client.run(break_arrays, False, workers=self.workers[1:2])

    def test_an_error_where_rows_are_computed(self):
        preds = self.lazy((400,))
        preds["lda"] = preds["lda"].map_blocks(lambda block: block / {}[0], dtype=float, meta=np.empty((0, 0)))
        with self.assertRaises(KeyError):
            corestack.dask.fit(self.client, preds, self.y, **QUICK)

    def test_an_error_of_all(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "^[^:]*preset.*nonsense"):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y, preset="nonsense")

    def test_stopped_by_the_user(self):
        # As in a terminal: a shell's background jobs ignore SIGINT, and Python then raises nothing.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        watch = Watch(self.client, lambda: os.kill(os.getpid(), signal.SIGINT))
        watch.start()
        preds = {name: da.concatenate([rows] * 4) for name, rows in self.lazy((400,)).items()}  # a fit that takes long
        with self.assertRaises(KeyboardInterrupt):
            corestack.dask.fit(self.client, preds, np.tile(self.y, 4))
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
        with mock.patch("corestack.dask.version", "0"), self.assertRaisesRegex(corestack.MismatchError, "and the client 0; install"):
            corestack.dask.fit(self.client, preds, self.y)

    def test_worker_that_is_killed(self):  # the last test, since its worker may not come back
        victim = self.client.run(os.getpid)[self.workers[2]]
        watch = Watch(self.client, lambda: os.kill(victim, signal.SIGKILL))
        watch.start()
        with self.assertRaisesRegex(corestack.FileError, "^rank 2 on .* ended or cannot be reached"):
            corestack.dask.fit(self.client, self.lazy((400,)), self.y)
        watch.join()
        self.ended(watch.at)


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
