"""Serving from Python: one row in microseconds, threads, MLflow's folder, and the two example servers."""
from __future__ import annotations

import http.client
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from common import EXAMPLES, QUICK, ROOT, toy, toy_values

import corestack
import corestack.mlflow
from corestack import _library

if find_spec("pandas"):
    import pandas as pd
SERVING = EXAMPLES / "serving"


def best(call, repeats=15, calls=300):
    """Microseconds of a call, the least of several tries: what else runs here only adds to it."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        found.append((time.perf_counter() - start) / calls * 1e6)
    return min(found)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        preds, y = toy()
        cls.preds = {name: np.ascontiguousarray(p, np.float32) for name, p in preds.items()}
        cls.stack = corestack.fit(cls.preds, y, **QUICK)
        cls.kept = {name: cls.preds[name] for name in cls.stack.kept}
        cls.expected = cls.stack.predictor()(cls.kept)


class OneRow(Served):
    def test_the_short_way_gives_what_the_long_way_gives(self):
        predict = self.stack.predictor()
        allowed = self.stack.predictor("allow")
        for row in range(0, 240, 40):
            one = {name: p[row] for name, p in self.kept.items()}
            given = (one, list(one.values()), {**self.preds, **one}, {n: p.astype(float) for n, p in one.items()},
                     {n: np.asfortranarray(p)[::1] for n, p in one.items()}, {n: p.tolist() for n, p in one.items()})  # fmt: skip
            for preds in given:
                np.testing.assert_array_equal(predict(preds), self.expected[row])
            np.testing.assert_array_equal(allowed(one), self.expected[row])
        one = predict([p[3] for p in self.kept.values()])
        predict([p[4] for p in self.kept.values()])
        np.testing.assert_array_equal(one, self.expected[3])  # the result is the caller's own

    def test_values_and_domains(self):
        for outputs in (0, 1, 2):  # 0: one, in arrays (rows,)
            preds, y = toy_values(outputs=outputs or 1)
            if outputs == 0:
                preds, y = {name: p[:, 0] for name, p in preds.items()}, y[:, 0]
            stack = corestack.fit(preds, y, task="regression", **QUICK)
            predict = stack.predictor()
            kept = [preds[name].astype(np.float32) for name in stack.kept]
            for given in ([p[5] for p in kept], [p[5].astype(float) for p in kept], [p[5].tolist() for p in kept]):
                found = predict(given)
                self.assertEqual(found.shape, kept[0][5].shape)
                np.testing.assert_array_equal(found, predict(kept)[5])
        preds, y = toy(rows=300)
        where = np.array(["a", "b", "c"])[np.arange(300) % 3]
        stack = corestack.fit(preds, y, domains=where, **QUICK)
        predict, other = stack.predictor(), stack.predictor()
        kept = [np.float32(preds[name]) for name in stack.kept]
        for domain in ("a", "b", None, "unheard of", "c", "c"):
            expected = other(kept, domain)
            np.testing.assert_array_equal(predict([p[7] for p in kept], domain), expected[7])

    def test_what_is_wrong_is_still_said(self):
        predict = self.stack.predictor()
        rows = [p[0] for p in self.kept.values()]
        for given, text in (
            ([rows[0][1:], *rows[1:]], "have shapes"), (rows[1:], "kept members"), ([rows[0] * np.nan, *rows[1:]], "is nan"),
            ([rows[0] * 1j, *rows[1:]], ""),
        ):  # fmt: skip
            with self.assertRaisesRegex(corestack.Error, text), np.testing.suppress_warnings() as quiet:
                quiet.filter(np.ComplexWarning)
                predict(given)
        np.testing.assert_array_equal(predict(rows), self.expected[0])

    def test_overhead(self):
        """Beside the library's own time, which is that of the same call without Python's part."""
        predict = self.stack.predictor()
        one = {name: p[0] for name, p in self.kept.items()}
        made, places, out = predict._made, predict._one_places, predict._one_result
        predict(one)
        alone = best(lambda: _library.lib.cst_predictor_predict(made, places, 1, out))
        self.assertLess(best(lambda: predict(one)) - alone, 20)


class Threads(Served):
    def test_the_interpreter_goes_on_during_a_call(self):
        """A call of some tenths of a second holds no lock of Python's: another thread counts meanwhile."""
        predict = self.stack.predictor()
        rows = [np.tile(p, (400, 1)) for p in self.kept.values()]
        while True:
            start = time.perf_counter()
            predict(rows)
            if time.perf_counter() - start > 0.3:
                break
            rows = [np.tile(p, (2, 1)) for p in rows]
        spans = []

        def call():
            start = time.perf_counter()
            predict(rows)
            spans.append((start, time.perf_counter()))

        thread = threading.Thread(target=call)
        ticks = []
        thread.start()
        while thread.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0.001)
        thread.join()
        ((start, end),) = spans
        middle = start + (end - start) / 4, end - (end - start) / 4
        self.assertGreater(sum(middle[0] < at < middle[1] for at in ticks), 5)

    def test_a_predictor_that_threads_share_and_one_for_each(self):
        shared = self.stack.predictor()
        wrong = []

        def work(predict, first):
            for row in range(first, 240, 4):
                for _ in range(5):
                    found = predict([p[row] for p in self.kept.values()])
                    if found.tobytes() != self.expected[row].tobytes():
                        wrong.append(row)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for predictors in ([shared] * 4, [self.stack.predictor() for _ in range(4)]):
                threads = [threading.Thread(target=work, args=(one, first)) for first, one in enumerate(predictors)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            sys.setswitchinterval(before)
        self.assertEqual(wrong, [])


CIRCLES = """
import gc, sys
import corestack
model = sys.stdin.buffer.read()
for turn in range(60):
    stack = corestack.Stack.from_bytes(model)
    others = [corestack.Adapter(stack) if turn % 2 else stack.predictor(), stack.predictor()]
    circle = [stack, *others] if turn % 3 else [*others, stack]
    circle.append(circle)
    for one in circle[:-1]:
        one.circle = circle
    del stack, others, one, circle
    gc.collect()
"""


class Garbage(Served):
    def test_circles_are_freed_in_any_order(self):
        """Python frees a stack and its predictors in any order; the last one frees the model."""
        done = subprocess.run([sys.executable, "-c", CIRCLES], input=self.stack.to_bytes(), capture_output=True,
                              env={**os.environ, "MALLOC_PERTURB_": "165"})  # fmt: skip
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))


class Folder(Served):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)


@unittest.skipIf(find_spec("yaml") is None, "PyYAML is not installed")
class MLflow(Folder):
    """As mlflow.pyfunc.load_model reads the folder, by its documentation; MLflow is not needed."""

    def load(self, path):
        import yaml

        self.assertEqual(sorted(os.listdir(path)), ["MLmodel", "conda.yaml", "model.cstack", "python_env.yaml", "requirements.txt"])
        flavor = yaml.safe_load((path / "MLmodel").read_text())["flavors"]["python_function"]
        conda = yaml.safe_load((path / flavor["env"]["conda"]).read_text())
        virtual = yaml.safe_load((path / flavor["env"]["virtualenv"]).read_text())
        requirement = f"corestack=={corestack.__version__}"
        self.assertIn({"pip": [requirement]}, conda["dependencies"])
        self.assertIn(f"python={flavor['python_version']}", conda["dependencies"])
        self.assertEqual(virtual, {"python": flavor["python_version"], "build_dependencies": ["pip"],
                                   "dependencies": ["-r requirements.txt"]})  # fmt: skip
        self.assertEqual((path / "requirements.txt").read_text(), requirement + "\n")
        return importlib.import_module(flavor["loader_module"])._load_pyfunc(str(path / flavor["data"]))

    def test_a_folder(self):
        path = self.folder / "ensemble"
        corestack.mlflow.save_model(self.stack, path)
        model = self.load(path)
        expected = self.stack.predict(self.kept)
        np.testing.assert_array_equal(model.predict(self.preds), expected)
        np.testing.assert_array_equal(model.predict(self.preds, params={}), expected)
        with self.assertRaisesRegex(corestack.ArgumentError, "params: 'top'"):
            model.predict(self.preds, params={"top": 1})
        with self.assertRaisesRegex(corestack.MismatchError, self.stack.kept[0]):
            model.predict({"x": 1, **{n: p for n, p in self.kept.items() if n != self.stack.kept[0]}})
        with self.assertRaisesRegex(corestack.ArrayTypeError, "DataFrame"):
            model.predict([1, 2])
        with self.assertRaisesRegex(corestack.ArgumentError, "not empty"):
            corestack.mlflow.save_model(self.stack, path)
        with self.assertRaises(corestack.FileError):
            corestack.mlflow.save_model(self.stack, path / "MLmodel")
        boxes = corestack.fit(EXAMPLES / "detection", **QUICK) if os.environ.get("CORESTACK_LONG") else None
        if boxes is not None:
            with self.assertRaises(corestack.UnsupportedError):
                corestack.mlflow.save_model(boxes, self.folder / "boxes")

    @unittest.skipIf(find_spec("pandas") is None, "pandas is not installed")
    def test_data_frames(self):
        path = self.folder / "ensemble"
        corestack.mlflow.save_model(self.stack, path)
        rows = pd.DataFrame({name: list(p.tolist()) for name, p in self.preds.items()}, index=range(7, 247))
        np.testing.assert_array_equal(self.load(path).predict(rows), self.stack.predict(self.kept))
        rows.at[7, self.stack.kept[0]] = [1.0]
        with self.assertRaisesRegex(corestack.ArrayTypeError, self.stack.kept[0]):
            self.load(path).predict(rows)
        for preds, y, task in ((*toy_values(outputs=1), "regression"), (*toy(classes=2), None)):
            if task is None:
                preds = {name: p[:, 1] for name, p in preds.items()}
            preds = {name: np.float32(p).reshape(len(y)) for name, p in preds.items()}
            stack = corestack.fit(preds, y.reshape(len(y)), task=task, **QUICK)
            corestack.mlflow.save_model(stack, self.folder / f"of {task}")
            model = self.load(self.folder / f"of {task}")
            np.testing.assert_array_equal(model.predict(pd.DataFrame(preds)), stack.predict(preds))


class Servers(Folder):
    """Each answers a row, takes up a new model, keeps it when the file is broken, and says what is wrong."""

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("http://127.0.0.1:"), line or process.stderr.read())
        self.port = int(line.rsplit(":", 1)[1])

    def ask(self, body, method="POST", path="/predict"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request(method, path, body if isinstance(body, str) else json.dumps(body))
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def replace(self, path, content):
        beside = path.with_suffix(".new")
        beside.write_bytes(content)
        os.replace(beside, path)

    def serve(self, *command):
        path = self.folder / "model.cstack"
        self.stack.save(path)
        self.start(*command, str(path))
        one = {name: p[3].tolist() for name, p in self.preds.items()}
        rows = {name: p[:5].tolist() for name, p in self.kept.items()}

        def equal(found, expected):
            self.assertEqual(found[0], 200, found)
            np.testing.assert_allclose(np.float32(found[1]["predictions"]), expected, rtol=1e-6)

        equal(self.ask(one), self.expected[3])
        equal(self.ask(rows), self.expected[:5])
        for body, text in (
            ("[", ""), ("{", ""), ("{}", "predictions"), ({**one, self.stack.kept[0]: [0.5]}, ""), ({**one, self.stack.kept[0]: "x"}, ""),
            ({**one, self.stack.kept[0]: [2.0, 2.0, 2.0]}, self.stack.kept[0]),
        ):  # fmt: skip
            status, found = self.ask(body)
            self.assertEqual(status, 400, body)
            self.assertIn(text, found["error"])
        self.assertGreaterEqual(self.ask("", "GET", "/nowhere")[0], 400)
        other = corestack.fit(*toy(rows=60, seed=1), **QUICK)
        second = other.predictor()({name: self.preds[name][3] for name in other.kept})
        self.assertGreater(np.abs(second - self.expected[3]).max(), 2e-5)  # what `equal` tells apart
        self.replace(path, other.to_bytes())
        equal(self.ask(one), second)
        self.replace(path, other.to_bytes()[:-7])
        for _ in range(6):  # of every worker
            equal(self.ask(one), second)
        os.remove(path)
        equal(self.ask(one), second)
        self.replace(path, self.stack.to_bytes())
        equal(self.ask(one), self.expected[3])

    def test_python(self):
        self.serve(sys.executable, str(SERVING / "server.py"))
        self.assertEqual(self.ask("", "GET", "/model"), (200, {"members": self.stack.kept, "classes": 3}))

    @unittest.skipUnless(shutil.which("gcc"), "there is no compiler")
    def test_c(self):
        program, library = self.folder / "server", Path(_library._PATH)
        small = library.with_name("libcorestack-predict.so")  # beside that of a build, not in an installed package
        library = small if small.exists() else library
        (self.folder / "libcorestack.so.1").symlink_to(library)  # what the one in an installed package says its name is
        subprocess.run(
            ["gcc", "-std=c17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-I", ROOT / "include",
             SERVING / "server.c", "-o", program, library, f"-Wl,-rpath,{library.parent}:{self.folder}", "-pthread"], check=True,
        )  # fmt: skip
        self.serve(str(program))


if __name__ == "__main__":
    unittest.main()
