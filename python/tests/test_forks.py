"""Processes that fork, and interpreters that get few threads or little memory. Each case is an interpreter of its own."""
from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
TIMEOUT = 120

# What the cases share. `work` gives one number for a fit, its predictions and a comparison.
PRELUDE = f"""
import sys
sys.path.insert(0, {HERE!r})
import warnings
warnings.simplefilter("ignore")
import multiprocessing, os, threading
import numpy as np
import corestack
from common import toy

preds, y = toy(rows=1200)

def work(stack=None):
    stack = stack or corestack.fit(preds, y, evaluate_nested=False, threads=4)
    return float(np.asarray(stack.predict(preds), dtype=np.float64)[::7].std())

def child(function, queue):
    queue.put(function())

def in_child(method, function):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(function, queue))
    process.start()
    try:
        return queue.get(timeout=60)
    finally:
        process.kill()
        process.join()
"""

FORK = """
if __name__ == "__main__":
    BEFORE
    first = in_child("fork", work)
    expected = work()
    assert first == expected
    for method in multiprocessing.get_all_start_methods():
        assert in_child(method, work) == expected, method
    assert work() == expected
    stack = corestack.fit(preds, y, evaluate_nested=False, threads=4)
    assert in_child("fork", lambda: work(stack)) == expected
    assert in_child("fork", lambda: in_child("fork", work)) == expected
    print("well")
"""

GRADIENT_BOOSTING = """
    from sklearn.ensemble import HistGradientBoostingClassifier
    HistGradientBoostingClassifier(max_iter=5).fit(np.hstack(list(preds.values())), y)
"""

TORCH = """
    import torch
    torch.set_num_threads(4)
    (torch.rand(600, 600) @ torch.rand(600, 600)).sum().item()
    torch.rand(4000000).exp().sum().item()
"""

BUSY = """
if __name__ == "__main__":
    expected = work()
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            assert work() == expected
    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(8):
            assert in_child("fork", work) == expected
    finally:
        stop.set()
        thread.join()
    print("well")
"""


def has(module):
    return importlib.util.find_spec(module) is not None


class Case(unittest.TestCase):
    def interpreter(self, source, limits=(), environment=None):
        """An interpreter of its own, run to its end."""

        def prepare():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))

        with tempfile.TemporaryDirectory(prefix="corestack-forks-") as folder:
            path = Path(folder) / "case.py"
            path.write_text(PRELUDE + source)
            return subprocess.run(
                [sys.executable, str(path)], capture_output=True, text=True, timeout=TIMEOUT, preexec_fn=prepare,
                env={**os.environ, **(environment or {})},
            )

    def is_well(self, source, **keywords):
        done = self.interpreter(source, **keywords)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "well"), done.stderr)


class TestForks(Case):
    def test_children_of_a_process_that_fitted(self):
        self.is_well(FORK.replace("BEFORE", "pass"))

    @unittest.skipUnless(has("sklearn"), "scikit-learn is not installed")
    def test_children_after_gradient_boosting(self):
        self.is_well(FORK.replace("    BEFORE", GRADIENT_BOOSTING))

    @unittest.skipUnless(has("torch"), "PyTorch is not installed")
    def test_children_after_threads_of_torch(self):
        self.is_well(FORK.replace("    BEFORE", TORCH))

    def test_children_of_a_process_that_is_fitting(self):
        self.is_well(BUSY)


LIMITED = """
try:
    print(json.dumps(["fitted", work()]))
except (MemoryError, corestack.Error) as error:
    print(json.dumps(["refused", str(error)]))
"""


class TestLimits(Case):
    def outcome(self, **keywords):
        done = self.interpreter("import json\n" + LIMITED, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_variable_of_openblas_is_as_it_was(self):
        for value in (None, "2"):
            environment = dict(os.environ)
            environment.pop("OPENBLAS_NUM_THREADS", None)
            if value:
                environment["OPENBLAS_NUM_THREADS"] = value
            done = subprocess.run(
                [sys.executable, "-c", "import corestack, os; print(os.environ.get('OPENBLAS_NUM_THREADS'))"],
                capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=True,
            )
            self.assertEqual(done.stdout.strip(), str(value))

    def test_limits_of_memory_end_in_a_result_or_an_error(self):
        """NumPy has to start as well, so its OpenBLAS has one thread."""
        expected = self.outcome()
        environment = {"OPENBLAS_NUM_THREADS": "1"}
        results = []
        for kind, sizes in ((resource.RLIMIT_DATA, (150, 256, 600)), (resource.RLIMIT_AS, (800, 3000))):
            for size in sizes:
                with self.subTest(kind=kind, size=size):
                    found = self.outcome(limits=[(kind, size << 20)], environment=environment)
                    if found[0] == "refused":
                        self.assertIn("memory", found[1])
                    else:
                        self.assertEqual(found, expected)
                        results.append(size)
        self.assertIn(600, results)
        self.assertIn(3000, results)


if __name__ == "__main__":
    unittest.main()
