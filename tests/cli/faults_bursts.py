"""Signals in bursts, alike and mixed: however many come while a run cleans up, it ends by the first one and leaves nothing; a run that hangs ends by one that comes later."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time

import numpy as np

from support import TOOL, PoolCase, heed, sample

LONG = bool(os.environ.get("CORESTACK_LONG"))
FAULTS = os.environ["CORESTACK_IO_FAULT"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
SLOW = 20.0  # seconds that no end of a run takes, on a busy machine and under sanitizers


class Bursts(PoolCase):
    rows, test_rows = 600, 300

    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        self.tmp = self.path("tmp")
        for folder in (self.out, self.tmp):
            os.mkdir(folder)

    def at(self, name):
        return os.path.join(self.out, name)

    def start(self, arguments, ready=lambda: heed(SIGNALS), **environment):
        process = subprocess.Popen(
            [TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": self.tmp, **environment}, preexec_fn=ready)
        self.addCleanup(process.stderr.close)
        return process

    def faults(self, fault):
        return {"LD_PRELOAD": FAULTS, "CST_IO_UNDER": self.out, "CST_IO_FAULT": fault, "CST_IO_COUNT": self.path("count"),
                "CST_IO_NAMED": "1", "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def content(self, path):
        if not os.path.isdir(path):
            return self.read(path) if os.path.exists(path) else None
        return {name: self.content(os.path.join(path, name)) for name in os.listdir(path)}

    def clean(self, name, what):
        """Nothing else than the output."""
        self.assertLessEqual(set(os.listdir(self.out)), {name}, what)
        self.assertEqual(os.listdir(self.tmp), [], what)

    def checkpoints(self):
        """Two networks in files: header, and one tensor of F32."""
        paths = []
        for i in range(2):
            path = self.path(f"net{i}.safetensors")
            values = (np.arange(300000) % 97 + i).astype("<f4").tobytes()
            header = b'{"w":{"dtype":"F32","shape":[300000],"data_offsets":[0,%d]}}' % len(values)
            header += b" " * (-len(header) % 8)
            with open(path, "wb") as file:
                file.write(len(header).to_bytes(8, "little") + header + values)
            paths.append(path)
        return paths

    def commands(self):
        """Every command that writes: the name of what it writes, and the arguments."""
        nets = self.checkpoints()
        swag = self.path("swag.safetensors")
        self.fit("--preset", "prototype")
        self.works("swag", "fit", *nets, "-o", swag)
        labels = self.path("oof_labels.npy")
        predict = ["predict", self.model, self.pool, "--split", "oof", "-o"]
        program = f"sh -c 'sleep 0.05; cp {self.path('ada.oof.npy')} \"$2\"' x"
        made = {
            "m.cstack": ["fit", self.pool, "-o", self.at("m.cstack")],
            "p.npy": [*predict, self.at("p.npy")],
            "p.csv": [*predict, self.at("p.csv")],
            "saved": ["compare", self.pool, "--methods", "average,greedy", "-r", "0", "--save", self.at("saved")],
            "folds.npy": ["folds", "--labels", labels, "-o", self.at("folds.npy")],
            "swa.safetensors": ["swa", *nets, "-o", self.at("swa.safetensors")],
            "swag.safetensors": ["swag", "fit", *nets, "-o", self.at("swag.safetensors")],
            "drawn.safetensors": ["swag", "sample", swag, "-o", self.at("drawn.safetensors")],
            "soup.safetensors": ["soup", "greedy", *nets, "--labels", labels, "--eval", program, "-o", self.at("soup.safetensors")],
        }
        return made

    def maps(self, cases=30):
        self.make_maps(cases, 24)
        return {"maps": ["predict", self.model, self.pool, "--split", "oof", "-o", self.at("maps"), "--format", "png"]}

    def burst(self, process, chosen, after):
        """Signals at random spaces until the process is gone; the first one sent."""
        numbers = SIGNALS[:4] if chosen.random() < 0.5 else [chosen.choice(SIGNALS)]
        count, space = chosen.randrange(2, 51), chosen.uniform(0, 0.05)
        time.sleep(after)
        sent = []
        for _ in range(count):
            sent.append(chosen.choice(numbers))
            process.send_signal(sent[-1])
            time.sleep(chosen.uniform(0, space))
        return sent

    def random_bursts(self, commands, runs):
        chosen = random.Random(len(commands))
        stopped = 0
        for name, arguments in commands.items():
            at = self.at(name)
            start = time.monotonic()
            self.works(*arguments, env={"TMPDIR": self.tmp})
            last = time.monotonic() - start
            whole = self.content(at)
            for i in range(runs):
                if os.path.isdir(at):
                    shutil.rmtree(at)
                before = self.content(at)
                process = self.start(arguments)
                sent = self.burst(process, chosen, chosen.uniform(0.2, 1.05) * last)
                begun = time.monotonic()
                _, errors = process.communicate(timeout=60)
                what = f"{arguments[:2]}, run {i}, {sent[:4]}: {errors}"
                self.assertLess(time.monotonic() - begun, SLOW, what)
                self.assertIn(-process.returncode, {0, *sent}, what)
                self.assertIn(self.content(at), [whole] if process.returncode == 0 else [before, whole], what)
                self.clean(name, what)
                stopped += process.returncode != 0
            shutil.rmtree(self.out)
            os.mkdir(self.out)
        self.assertGreater(stopped, 0)
        print(f"{len(commands)} commands, {runs} bursts each: {stopped} runs stopped")

    def test_bursts(self):
        self.random_bursts(self.commands(), 40 if LONG else 2)

    def test_bursts_on_maps(self):
        self.random_bursts(self.maps(400), 60 if LONG else 5)

    def storms(self, name, arguments, kinds, step):
        """A first signal before each call that changes files, and one more before every call of the cleanup after it."""
        at = self.at(name)
        moments = stopped = 0
        for kind in kinds:
            for place in range(0, 400, step):
                shutil.rmtree(self.out)
                os.mkdir(self.out)
                process = self.start(arguments, **self.faults(f"{kind}=storm:{place}"))
                _, errors = process.communicate(timeout=60)
                what = f"{arguments[:2]}, {kind} {place}: {errors}"
                self.assertIn(-process.returncode, (0, signal.SIGINT, signal.SIGTERM), what)
                self.clean(name, what)
                stopped += process.returncode != 0
                moments += 1
                if process.returncode == 0:
                    self.assertIsNotNone(self.content(at), what)
                    if int(self.read(self.path("count"))) <= place:
                        break
                elif name == "maps":
                    self.assertIn(len(self.content(at) or ()), (0, 30), what)
        self.assertGreater(stopped, 0)
        print(f"{arguments[0]} of {name}: storms from {moments} calls on, {stopped} stopped")

    def test_storms(self):
        kinds = ("make", "open", "write", "fsync", "rename", "close", "remove")
        for name, arguments in self.maps().items():
            self.storms(name, arguments, kinds if LONG else ("make", "write", "remove"), 1 if LONG else 17)

    def test_storms_of_all_commands(self):
        commands = self.commands()
        for name, arguments in commands.items():
            kinds = ("make", "open", "write", "fsync", "rename", "close", "remove") if LONG else ("write", "rename")
            with self.subTest(name):
                for kind in kinds:
                    self.storms_of(name, arguments, kind)

    def storms_of(self, name, arguments, kind):
        for place in range(40 if LONG else 2):
            shutil.rmtree(self.out)
            os.mkdir(self.out)
            process = self.start(arguments, **self.faults(f"{kind}=storm:{place}"))
            _, errors = process.communicate(timeout=60)
            what = f"{arguments[:2]}, {kind} {place}: {errors}"
            self.assertIn(-process.returncode, (0, signal.SIGINT, signal.SIGTERM), what)
            self.clean(name, what)
            if process.returncode == 0 and int(self.read(self.path("count"))) <= place:
                break

    def test_maps_that_hang(self):
        maps = self.maps()["maps"]
        self.hang([("write=hang:5", maps), ("fsync=hang:20", maps)])
        self.assertEqual(os.listdir(self.out), [])

    def test_files_that_hang(self):
        fit = ["fit", self.pool, "--set", "evaluate.nested=false", "-o"]
        with open(self.at("m.cstack"), "wb") as file:
            file.write(b"old")
        self.hang([
            ("write=hang:0", [*fit, self.at("m.cstack")]),
            ("rename=hang:0", [*fit, self.at("m.cstack")]),
            ("write=hang:0", [*fit, self.at("n" * 240)]),
            ("write=hang:1", ["compare", self.pool, "--methods", "average,greedy", "-r", "0", "--save", self.at("saved")]),
        ])
        self.assertEqual(os.listdir(self.out), ["m.cstack"])
        self.assertEqual(self.read(self.at("m.cstack")), b"old")

    def hang(self, cases):
        """A signal, and one more after five seconds: the end at once, with nothing left. Until then more of them change nothing."""
        processes = [self.start(arguments, **self.faults(fault)) for fault, arguments in cases]
        time.sleep(3)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            for process in processes:
                process.send_signal(number)
            time.sleep(0.5)
        for process, (fault, arguments) in zip(processes, cases):
            self.assertIsNone(process.poll(), (fault, arguments))
        time.sleep(4.5)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process, (fault, arguments) in zip(processes, cases):
            _, errors = process.communicate(timeout=SLOW)
            self.assertEqual(process.returncode, -signal.SIGTERM, (fault, arguments, errors))
        self.assertEqual(os.listdir(self.tmp), [])

    def test_ignored_signals_stay_ignored(self):
        """As nohup and a shell's background jobs have them, in bursts too."""
        for ignored in SIGNALS:
            def ready():
                heed(SIGNALS)
                signal.signal(ignored, signal.SIG_IGN)

            process = self.start(["fit", self.pool, "-o", self.at("m.cstack")], ready)
            for _ in range(20):
                process.send_signal(ignored)
                time.sleep(0.005)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, (ignored, errors))

    def test_limit_of_processor_time(self):
        """ulimit -S -t: SIGXCPU, and again every second."""
        labels, _ = sample(20000, 3, 1)
        self.save("oof_labels.npy", labels)
        for k in range(3):
            self.save(f"{'ada bob cyd'.split()[k]}.oof.npy", sample(20000, 3, k + 5, labels=labels)[1])

        def ready():
            heed(SIGNALS)
            resource.setrlimit(resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))

        process = self.start(["fit", self.pool, "--preset", "paper", "-o", self.at("m.cstack")], ready)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGXCPU, errors)
        self.clean("none", errors)
