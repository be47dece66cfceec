"""Runs that are interrupted (SIGINT, SIGTERM, SIGHUP, SIGQUIT) at random moments: what they replace is whole, old or new, and nothing is left behind."""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np

from support import TOOL, PoolCase, heed, run

RUNS = 60 if os.environ.get("CORESTACK_LONG") else 8
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interrupted(PoolCase):
    rows, test_rows = 1200, 600

    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        self.tmp = self.path("tmp")
        os.mkdir(self.out)
        os.mkdir(self.tmp)

    def interrupt(self, arguments, after, number):
        """The exit status."""
        process = subprocess.Popen(
            [TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": self.tmp}, preexec_fn=lambda: heed(SIGNALS))
        time.sleep(after)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        self.assertIn(process.returncode, (0, -number), errors)
        return process.returncode

    def content(self, path):
        if not os.path.isdir(path):
            return self.read(path) if os.path.exists(path) else None
        return {name: self.read(os.path.join(path, name)) for name in os.listdir(path)}

    def runs(self, name, versions):
        """`versions`: two commands that write `name` differently. A run replaces what the other one wrote."""
        at = os.path.join(self.out, name)
        whole = []
        lasts = []
        for arguments in versions:
            start = time.monotonic()
            self.assertEqual(run(*arguments).code, 0)
            lasts.append(time.monotonic() - start)
            whole.append(self.content(at))
            if os.path.isdir(at):  # is never replaced
                shutil.rmtree(at)
        self.assertNotIn(None, whole)
        chosen = random.Random(len(versions[0]))
        stopped = 0
        for i in range(RUNS):
            before = self.content(at)
            share = chosen.uniform(0.05, 1.1)
            code = self.interrupt(versions[i % 2], share * lasts[i % 2], SIGNALS[i // 2 % len(SIGNALS)])
            now = self.content(at)
            # Stopped too late to matter, it has written all; otherwise nothing.
            self.assertIn(now, [whole[i % 2]] if code == 0 else [before, whole[i % 2]])
            lasts[i % 2] *= 0.8 if code == 0 else 1.1
            stopped += code != 0
            self.assertLessEqual(set(os.listdir(self.out)), {name})
            self.assertEqual(os.listdir(self.tmp), [])
            if isinstance(now, dict):
                shutil.rmtree(at)
        self.assertGreater(stopped, 0)
        print(f"{RUNS} runs of {versions[0][0]}: {stopped} interrupted in time")

    def at_every_call(self, name, arguments):
        """Interrupted before each call that changes files, one after the other."""
        at = os.path.join(self.out, name)
        self.works(*arguments)
        whole = self.content(at)
        moments = 0
        stopped = 0
        for kind in ("make", "open", "write", "fsync", "link", "rename", "close"):
            for place in range(200):
                shutil.rmtree(self.out)
                os.mkdir(self.out)
                env = {"LD_PRELOAD": os.environ["CORESTACK_IO_FAULT"], "CST_IO_UNDER": self.out, "TMPDIR": self.tmp,
                       "CST_IO_FAULT": f"{kind}=interrupt:{place}", "CST_IO_COUNT": self.path("count"),
                       "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
                result = run(*arguments, env=env)
                self.assertIn(result.code, (0, -signal.SIGINT), result.err)
                self.assertIn(self.content(at), [whole] if result.code == 0 else [None, whole])
                self.assertLessEqual(set(os.listdir(self.out)), {name}, f"{kind} {place}")
                self.assertEqual(os.listdir(self.tmp), [])
                stopped += result.code != 0
                if result.code == 0 and int(self.read(self.path("count"))) <= place:
                    break
                moments += 1
        self.assertGreater(stopped, 0)
        print(f"{arguments[0]} of {name}, interrupted before each of {moments} calls: {stopped} stopped")

    def test_what_the_caller_ignores_stays_ignored(self):
        def shrug_off():
            signal.signal(signal.SIGINT, signal.SIG_IGN)

        env = {"LD_PRELOAD": os.environ["CORESTACK_IO_FAULT"], "CST_IO_UNDER": self.folder,
               "CST_IO_FAULT": "open=interrupt:1", "CST_IO_COUNT": self.path("count"),
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        for ready, code in ((lambda: heed(SIGNALS), -signal.SIGINT), (shrug_off, 0)):
            finished = subprocess.run([TOOL, "fit", self.pool, "-o", os.path.join(self.out, "m.cstack")],
                                      env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                                      preexec_fn=ready)
            self.assertEqual(finished.returncode, code, finished.stderr)

    def test_pipes(self):
        """One signal ends a run whose output is a pipe that nobody opens, or that nobody reads; with a reader it gets all."""
        labels = self.path("many.npy")
        np.save(labels, np.arange(60000, dtype=np.int32) % 7)
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        arguments = ["folds", "--labels", labels, "-o", pipe]
        for number in (signal.SIGINT, signal.SIGTERM):
            self.assertEqual(self.interrupt(arguments, 0.7, number), -number)
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            self.assertEqual(self.interrupt(arguments, 0.7, number), -number)
            os.close(reader)
        plain = self.path("folds.npy")
        self.assertEqual(run(*arguments[:-1], plain).code, 0)
        process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        with open(pipe, "rb") as reader:
            got = reader.read()
        self.assertEqual((process.wait(60), got), (0, self.read(plain)))

    def test_pipes_that_are_read(self):
        """The same of a model that is a pipe: nobody opens it, or nobody writes to it."""
        self.fit("--preset", "prototype")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        commands = [["predict", pipe, self.pool, "-o", os.path.join(self.out, "p.npy")], ["evaluate", pipe, self.pool],
                    ["bound", pipe, self.pool]]
        for opened in (False, True):
            writer = os.open(pipe, os.O_RDWR) if opened else -1
            processes = [subprocess.Popen([TOOL, *c], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          preexec_fn=lambda: heed(SIGNALS)) for c in commands]
            for process in processes:
                self.addCleanup(process.kill)
            self.await_quiet(processes)
            for i, process in enumerate(processes):
                with self.subTest(commands[i][0], opened=opened):
                    number = SIGNALS[i % 2]
                    self.assertIsNone(process.poll())
                    process.send_signal(number)
                    _, errors = process.communicate(timeout=20)
                    self.assertEqual(process.returncode, -number, errors)
            if opened:
                os.close(writer)
        self.assertEqual(os.listdir(self.out), [])

    def await_quiet(self, processes):
        """Until none has used the processor for half a second."""
        used, since = None, time.monotonic()
        while time.monotonic() - since < 0.5:
            now = []
            for process in processes:
                with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
                    now.append(stat.read().rpartition(")")[2].split()[11:13])
            if now != used:
                used, since = now, time.monotonic()
            time.sleep(0.02)

    def unread(self, arguments, filled, both=False):
        """A run into a pipe of one page, which nobody reads. both: its messages too."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        if filled:
            os.write(writer, bytes(size))
        errors = writer if both else subprocess.PIPE
        process = subprocess.Popen([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=writer, stderr=errors,
                                   preexec_fn=lambda: heed(SIGNALS))
        os.close(writer)
        self.addCleanup(process.kill)
        return process

    def test_standard_output(self):
        """One signal ends a command whose result goes to a pipe that is full, or becomes so, and its file gets no name."""
        self.fit()
        out = os.path.join(self.out, "out")
        commands = [
            ["options"], ["options", "--json"], ["help"], ["help", "fit"], ["fit", "--help"], ["--version"],
            ["inspect", self.pool, "--json"], ["fit", self.pool, "-o", out + ".cstack"],
            ["evaluate", self.model, self.pool], ["bound", self.model, self.pool],
            ["predict", self.model, self.pool, "-o", out + ".npy"],
            ["compare", self.pool, "--methods", "average", "-r", "0", "--save", out],
            ["folds", "--labels", self.path("oof_labels.npy"), "-o", out + ".npy"],
        ]
        runs = [(c, self.unread(c, True)) for c in commands]
        runs += [(c, self.unread(c, False)) for c in (["options"], ["help", "fit", "all"])]
        runs.append((commands[7], self.unread(commands[7] + ["--verbose"], True, both=True)))
        self.await_quiet([process for _, process in runs])
        for i, (arguments, process) in enumerate(runs):
            with self.subTest(arguments):
                number = SIGNALS[i % 2]
                self.assertIsNone(process.poll())
                process.send_signal(number)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number, errors)
                self.assertNotIn(b"standard output", errors or b"")
        self.assertEqual(os.listdir(self.out), [])

    def test_fit(self):
        out = os.path.join(self.out, "m.cstack")
        self.runs("m.cstack", [["fit", self.pool, "-o", out, "--set", f"seed={s}"] for s in (1, 2)])

    def test_predict(self):
        self.fit("--preset", "prototype")
        for name in ("p.npy", "p.csv"):
            out = os.path.join(self.out, name)
            self.runs(name, [["predict", self.model, self.pool, "--split", s, "-o", out] for s in ("oof", "test")])
            os.remove(out)

    def test_maps(self):
        self.make_maps(24, 60)
        out = os.path.join(self.out, "maps")
        self.runs("maps", [["predict", self.model, self.pool, "--split", "oof", "-o", out, "--format", "png"]] * 2)

    def test_maps_at_every_call(self):
        self.make_maps(6, 20)
        for name, kind in (("maps", "png"), ("maps.npy", "labels")):
            out = os.path.join(self.out, name)
            self.at_every_call(name, ["predict", self.model, self.pool, "--split", "oof", "-o", out, "--format", kind])

    def test_values_at_every_call(self):
        """What is written first, and then not what belongs to it, is removed again."""
        rng = np.random.default_rng(4)
        targets = rng.normal(size=60)
        self.save("t.npy", targets)
        for name in "ab":
            self.save(f"{name}.npy", (targets + 0.5 * rng.normal(size=60)).astype(np.float32))
        self.manifest = {
            "corestack_pool": 1, "task": "regression", "splits": {"oof": {"targets": "t.npy"}},
            "models": [{"name": n, "predictions": {"oof": f"{n}.npy"}} for n in "ab"],
        }
        self.write_manifest()
        self.fit()
        out = os.path.join(self.out, "p.npy")
        self.at_every_call("p.npy", ["predict", self.model, self.pool, "--split", "oof", "-o", out, "--variance",
                                     self.path("v.npy")])
