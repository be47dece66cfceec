"""While a call runs: interrupts in every stage, other threads, and messages by their level."""
from __future__ import annotations

import _thread
import logging
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
from common import toy

import corestack
from corestack import _prediction, _session, _stack
from corestack import _library as c
from corestack._prediction import Guard

# Fits of a second or less, in which every stage is still longer than a moment.
DATA = toy(rows=2000, classes=8, members=8)
SMALL = toy(rows=400, classes=4, members=4)


class Interrupts(unittest.TestCase):
    def setUp(self):
        # A shell's background jobs are started with the signal ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def stages(self, data, **how):
        """Every stage of a fit, in their order."""
        found = []
        preds, y = data
        corestack.fit(preds, y, progress=lambda stage, *_: None if stage in found else found.append(stage), **how)
        return found

    def interrupt(self, data, wanted, **how):
        """Seconds from a SIGINT, sent by another thread 20 ms into a stage, to the KeyboardInterrupt."""
        preds, y = data
        sent = []

        def send():
            time.sleep(0.02)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        def progress(stage, done, total):
            if stage == wanted and not thread.is_alive() and not sent:
                thread.start()

        thread = threading.Thread(target=send)
        try:
            corestack.fit(preds, y, progress=progress, **how)
            thread.join()  # it was the last stage, and short
            time.sleep(0.01)
        except KeyboardInterrupt:
            thread.join()
            return time.monotonic() - sent[0]
        finally:
            self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.fail(f"{wanted}: not interrupted")

    def each(self, data, known, **how):
        stages = self.stages(data, **how)
        self.assertLessEqual(set(known), set(stages))
        for stage in stages:
            with self.subTest(stage=stage):
                self.assertLess(self.interrupt(data, stage, **how), 1)

    def test_default(self):
        self.each(DATA, ["read", "cka", "selection", "meta-learners", "nested evaluation"], preset="default")

    def test_paper(self):
        self.each(SMALL, ["drop and refit"], preset="paper", refit_drop=True, evaluate_nested=False)

    def test_other_functions(self):
        preds, y = DATA
        p = np.mean(list(preds.values()), axis=0)
        for function, how in (
            (corestack.compare, dict(preds=preds, y=y, methods=["average", "greedy"], resamples=500_000)),
            (corestack.evaluate, dict(predicted=p, y=y, resamples=1_000_000)),
        ):
            timer = threading.Timer(0.3, _thread.interrupt_main)
            timer.start()
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                function(**how)
            self.assertLess(time.monotonic() - began, 1.3)

    def test_a_handler_of_ones_own(self):
        preds, y = DATA
        seen = []
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
        try:
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            stack = corestack.fit(preds, y, evaluate_nested=False)  # the handler raises nothing: it goes on
            timer.join()
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(len(seen), 1)
        self.assertTrue(stack.kept)


class Signals(unittest.TestCase):
    """What the handlers of other signals raise comes out of the call."""

    def sent(self, number, handler, how):
        preds, y = DATA
        before = signal.signal(number, handler)
        unraisable = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = unraisable.append
        timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
        try:
            timer.start()
            began = time.monotonic()
            corestack.fit(preds, y, **how)
        finally:
            took = time.monotonic() - began
            timer.join()
            self.assertIs(signal.getsignal(number), handler)
            signal.signal(number, before)
            self.assertEqual(unraisable, [])
            self.assertLess(took, 1.3)

    def test_exit(self):
        for how in ({"threads": 1}, {"threads": 2}, {"progress": lambda *_: None}):
            with self.subTest(how), self.assertRaises(SystemExit) as caught:
                self.sent(signal.SIGTERM, lambda *_: sys.exit(3), how)
            self.assertEqual(caught.exception.code, 3)

    def test_time_is_over(self):
        def over(*_):
            raise TimeoutError("enough")

        with self.assertRaisesRegex(TimeoutError, "enough"):
            self.sent(signal.SIGALRM, over, {})

    def test_a_handler_set_meanwhile_stays(self):
        def other(*_):
            pass

        preds, y = SMALL
        before = signal.signal(signal.SIGUSR1, lambda *_: None)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        corestack.fit(preds, y, evaluate_nested=False, progress=lambda *_: signal.signal(signal.SIGUSR1, other) and None)
        self.assertIs(signal.getsignal(signal.SIGUSR1), other)


class Handlers(unittest.TestCase):
    """Whatever becomes of a call, handlers are back after it; while the user's own code runs they are in force."""

    def setUp(self):
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, lambda *_: None)):
            self.addCleanup(signal.signal, number, signal.signal(number, handler))
        self.before = self.now()

    def now(self):
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def ends(self, error, **how):
        preds, y = SMALL
        with self.assertRaises(error) as caught:
            corestack.fit(preds, y, evaluate_nested=False, **how)
        self.assertEqual(self.now(), self.before)
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return caught.exception

    def bars(self, show, close):
        self.addCleanup(mock.patch.stopall)
        mock.patch.object(_session, "_tqdm_progress", lambda share: (show, close)).start()

    def test_bars_that_cannot_be_drawn(self):
        def broken(*where):
            raise BrokenPipeError("drawn" if where else "closed")

        self.bars(broken, broken)
        self.assertEqual(str(self.ends(BrokenPipeError, progress=True)), "drawn")
        self.bars(lambda *_: None, broken)
        self.assertEqual(str(self.ends(BrokenPipeError, progress=True)), "closed")

    def test_interrupted_at_the_end(self):
        self.bars(lambda *_: None, lambda: os.kill(os.getpid(), signal.SIGINT))
        self.ends(KeyboardInterrupt, progress=True)

    def test_interrupted_while_handlers_are_put_back(self):
        before, put = list(self.before), signal.signal

        def interrupted(number, handler):
            found = put(number, handler)
            if handler in before:
                before.remove(handler)
                os.kill(os.getpid(), signal.SIGINT)
            return found

        with mock.patch.object(signal, "signal", interrupted):
            self.ends(KeyboardInterrupt)

    def test_bursts(self):
        """Many at once, at seeded moments: handlers are back after every call, and nothing is left where one wrote."""
        chosen = random.Random(7)
        preds, y = SMALL
        model = corestack.fit(preds, y, evaluate_nested=False)
        package = os.path.dirname(corestack.__file__)
        heard = []

        def raising(_number, frame):
            while frame is not None:  # outside of the package nobody would catch it
                if frame.f_code.co_filename.startswith(package):
                    heard.append(frame)
                    raise KeyboardInterrupt
                frame = frame.f_back

        signal.signal(signal.SIGINT, raising)
        before = self.now()
        for run in range(12):
            folder = tempfile.mkdtemp(prefix="corestack-burst-")
            self.addCleanup(shutil.rmtree, folder)

            def burst(count=chosen.randrange(2, 20), after=chosen.uniform(0, 0.3), space=chosen.uniform(0, 0.01)):
                time.sleep(after)
                for _ in range(count):
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(space)

            sender = threading.Thread(target=burst)
            sender.start()
            while sender.is_alive():
                try:
                    corestack.fit(preds, y, evaluate_nested=False)
                    model.save(os.path.join(folder, "m.cstack"))
                except KeyboardInterrupt:
                    pass
                self.assertEqual(self.now(), before, run)
            sender.join()
            self.assertLessEqual(set(os.listdir(folder)), {"m.cstack"}, run)
        self.assertGreater(len(heard), 12)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def test_one_that_was_kept_elsewhere(self):
        preds, y = SMALL
        found = []
        corestack.fit(preds, y, evaluate_nested=False, progress=lambda *_: found.append(signal.getsignal(signal.SIGINT)))
        signal.signal(signal.SIGINT, found[0])  # as a function does that puts back what it found
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def soon(self, call):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            call()
        timer.join()
        self.assertLess(time.monotonic() - began, 10)  # long before what hangs ends, also on a busy machine
        self.assertEqual(self.now(), self.before)

    def test_functions_that_hang(self):
        class Slow:
            def __array__(self, dtype=None):
                time.sleep(20)
                return y

            def __len__(self):
                return len(y)

        class Handler(logging.Handler):
            def emit(self, record):
                time.sleep(20)

        preds, y = SMALL
        stack = corestack.fit(preds, y, evaluate_nested=False)
        self.soon(lambda: corestack.fit(preds, y, progress=lambda *_: time.sleep(20)))
        self.soon(lambda: corestack.fit(preds, Slow()))
        self.soon(lambda: stack.evaluate(preds, Slow()))
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{k}.safetensors" for k in range(2)]
            for file in files:
                corestack.io.write_safetensors(file, {"w": np.ones(3, np.float32)})
            out = f"{folder}/out.safetensors"
            self.soon(lambda: corestack.soup(files, out, kind="greedy", predict=lambda _: time.sleep(20), y=[0, 1] * 9))
            self.assertFalse(os.path.exists(out))
        logger = logging.getLogger("corestack")
        self.addCleanup(logger.removeHandler, handler := Handler())
        logger.addHandler(handler)
        few = np.where(np.arange(60) == 0, 2, np.arange(60) % 2)  # fewer rows than folds: a warning
        self.soon(lambda: corestack.fit(toy(rows=60)[0], few))

    def test_results_are_freed(self):
        """What a handler raises after the last look at it comes when the result is there already."""

        class Stopped(Exception):
            pass

        preds, y = SMALL
        numbers = {name: p[:, 0] for name, p in preds.items()}
        stack = corestack.fit(preds, y, evaluate_nested=False)
        values = corestack.fit(numbers, y.astype(float), task="regression", evaluate_nested=False)
        free = c.lib.cst_free
        given = []

        def freed(context, pointer):
            given.append(bool(pointer.value))
            free(context, pointer)

        def probabilities(s):
            _prediction.probabilities(s, stack._model, stack._pool(s, preds, None), "test", Guard())

        def two_values(s):
            _prediction.values(s, values._model, values._pool(s, numbers, None), "test")

        def report(s):
            s.report(s.make(c.lib.cst_report_free, c.lib.cst_report_create, b"fit"))

        for name, call, count in (
            ("cst_model_predict_guarded", probabilities, 1),
            ("cst_model_predict_values_pool", two_values, 2),
            ("cst_model_save_memory", lambda s: _stack.model_bytes(s, stack._model), 1),
            ("cst_report_json", report, 1),
            ("cst_report_text", report, 2),
        ):
            given.clear()
            function = getattr(c.lib, name)
            with self.subTest(name), self.assertRaises(Stopped), _session.Session() as s:

                def then_raises(*arguments):
                    status = function(*arguments)
                    s.keep_error(Stopped())
                    return status

                with mock.patch.object(c.lib, "cst_free", freed), mock.patch.object(c.lib, name, then_raises):
                    call(s)
            self.assertEqual(given, [True] * count)


class Threads(unittest.TestCase):
    def test_python_counts_while_a_fit_runs(self):
        preds, y = DATA
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            fit = pool.submit(corestack.fit, preds, y, threads=1)
            moments = [began]
            while not fit.done():
                moments.append(time.monotonic())
            took = moments[-1] - began
        self.assertTrue(fit.result().kept)
        # Had the lock been held, there would be one gap as long as the fit.
        self.assertLess(max(np.diff(moments)), 0.5 * took)
        self.assertGreater(len(moments), 1000)

    def test_fits_at_the_same_time(self):
        preds, y = toy(rows=400)
        alone = corestack.fit(preds, y, threads=1).to_bytes()
        with ThreadPoolExecutor(4) as pool:
            for stack in pool.map(lambda _: corestack.fit(preds, y, threads=1), range(8)):
                self.assertEqual(stack.to_bytes(), alone)


class Forks(unittest.TestCase):
    def test_a_child_of_a_parent_with_threads(self):
        preds, y = toy(rows=2000)
        stack = corestack.fit(preds, y, threads=2, evaluate_nested=False)
        here = stack.predict(preds, threads=2)
        fork = multiprocessing.get_context("fork")
        inbox, outbox = fork.Pipe(duplex=False)

        def work():
            again = corestack.fit(preds, y, threads=2, evaluate_nested=False)
            outbox.send((stack.predict(preds, threads=2), again.to_bytes() == stack.to_bytes()))

        child = fork.Process(target=work)
        child.start()
        try:
            self.assertTrue(inbox.poll(60), "the child hangs")
            there, same = inbox.recv()
        finally:
            child.kill()
            child.join()
        np.testing.assert_array_equal(there, here)
        self.assertTrue(same)


class Messages(unittest.TestCase):
    def test_levels(self):
        with _session.Session(threads=1) as s, self.assertLogs("corestack", logging.DEBUG) as caught:
            for level, text in enumerate((b"details", b"news", "w\u00e4rning".encode())):
                c.LOG_FN(s._on_log)(None, level, text)
        levels = [record.levelname for record in caught.records]
        self.assertEqual(levels, ["DEBUG", "INFO", "WARNING"])
        self.assertEqual([record.getMessage() for record in caught.records], ["details", "news", "w\u00e4rning"])

    def test_nothing_is_printed_where_no_logging_is_set_up(self):
        program = "import numpy, corestack; corestack.fit([numpy.full((9, 2), 0.5)] * 2, [0, 1, 1] * 3)"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")

    def test_what_a_handler_raises_ends_the_call(self):
        class Broken(logging.Handler):
            def emit(self, record):
                raise ZeroDivisionError

        handler = Broken()
        logger = logging.getLogger("corestack")
        logger.addHandler(handler)
        preds, y = toy(rows=60)
        y[:] = y % 2
        y[0] = 2  # fewer rows than folds: a warning
        try:
            with self.assertRaises(ZeroDivisionError):
                corestack.fit(preds, y)
        finally:
            logger.removeHandler(handler)


if __name__ == "__main__":
    unittest.main()
