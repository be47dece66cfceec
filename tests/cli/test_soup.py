"""Soups: the same choices and bytes as in NumPy, what is kept between runs, programs that fail."""

import importlib.util
import json
import os
import pty
import resource
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import numpy as np

import support
from support import TOOL, PoolCase, run, slow

spec = importlib.util.spec_from_file_location(
    "safetensors_format", os.path.join(support.SOURCES, "tests", "oracles", "safetensors_format.py")
)
tensors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tensors)
HOOK = os.path.join(os.path.dirname(TOOL), "tests", "linear_hook")


def setUpModule():
    """Candidates are many and each is synced: in memory where there is such a folder."""
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"


def tearDownModule():
    tempfile.tempdir = None


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


class Soups(PoolCase):
    rows, columns, classes, count = 240, 6, 3, 6

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(11)
        self.x = rng.normal(size=(self.rows, self.columns))
        truth = rng.normal(size=(self.classes, self.columns))
        self.y = (self.x @ truth.T + rng.gumbel(size=(self.rows, self.classes))).argmax(1).astype(np.int32)
        self.labels_file = self.save("y.npy", self.y)
        with open(self.path("x.f64"), "wb") as file:
            file.write(np.array(self.x.shape, np.int64).tobytes() + self.x.tobytes())
        noises = [0.6, 0.9, 1.2, 0.7, 3.0, 0.8]
        self.models = []
        self.files = []
        for i, noise in enumerate(noises):
            weight = (truth + noise * rng.normal(size=truth.shape)).astype(np.float32)
            self.add_model(f"m{i}", weight, rng.normal(size=self.classes).astype(np.float32) * noise)
        self.command = f"{HOOK} {self.path('x.f64')}"
        self.out = self.path("soup.safetensors")
        self.work = self.path("work")

    def add_model(self, name, weight, bias, extra=()):
        self.models.append((weight, bias))
        self.files.append(self.path(f"{name}.safetensors"))
        arrays = [("bias", bias), ("weight", weight), ("steps", np.array([7 + len(self.models)], np.int64)), *extra]
        with open(self.files[-1], "wb") as file:
            file.write(tensors.save([(n, {"f4": "F32", "i8": "I64"}[a.dtype.str[1:]], a.shape, a.tobytes())
                                     for n, a in arrays]))

    def probabilities(self, weights):
        weight, bias = (sum(w * m[p].astype(float) for w, m in zip(weights, self.models)) for p in (0, 1))
        weight, bias = weight.astype(np.float32).astype(float), bias.astype(np.float32).astype(float)
        return softmax(self.x @ weight.T + bias).astype(np.float32)

    def score(self, weights, metric):
        p = self.probabilities(weights)
        if metric == "top1":
            return float((p.argmax(1) == self.y).mean())
        if metric == "brier":
            return float(((p.astype(float) - np.eye(self.classes)[self.y]) ** 2).sum(1).mean())
        return float(-np.log(p[np.arange(self.rows), self.y].astype(float)).mean())

    def oracle(self, metric):
        """Recipe 1 in NumPy: members in the order in which they were kept, and the score."""
        sign = -1 if metric == "top1" else 1
        mean = lambda chosen: self.score([(i in chosen) / len(chosen) for i in range(self.count)], metric)
        order = sorted(range(self.count), key=lambda i: (sign * mean([i]), i))
        chosen, best = [order[0]], mean([order[0]])
        for i in order[1:]:
            if sign * mean([*chosen, i]) <= sign * best:
                chosen, best = [*chosen, i], mean([*chosen, i])
        return chosen, best

    def soup(self, kind, *more, out=None, command=None, **keywords):
        return self.works("soup", kind, *self.files, "--eval", command or self.command, "--labels",
                          self.labels_file, "-o", out or self.out, "--json", *more, **keywords).json()

    def soup_fails(self, command, *says, more=(), kind="greedy"):
        return self.fails("soup", kind, *self.files, "--eval", command, "--labels", self.labels_file, "-o", self.out,
                          *more, says=says)

    def calls(self):
        """A command that also counts how often it was called."""
        count = self.path("count")
        return f"echo x >> {count}; {self.command}", lambda: os.path.exists(count) and self.read(count).count(b"x")

    # ---- what is computed

    def test_uniform(self):
        report = self.works("soup", "uniform", *self.files, "-o", self.out, "--json").json()
        self.assertEqual((report["command"], report["kind"], report["files"]), ("soup", "uniform", self.files))
        self.assertEqual((report["out"], report["tensors"], report["copied"]), (self.out, 2, 1))
        self.assertTrue(any("steps" in notice for notice in report["notices"]), report["notices"])
        wanted = np.mean([m[0].astype(float) for m in self.models], 0).astype(np.float32)
        self.assertIn(wanted.tobytes(), self.read(self.out))
        self.assertIn("uniform soup of 6 files", self.works("soup", "uniform", *self.files, "-o", self.out).out)

    def test_greedy_chooses_as_numpy_does(self):
        for metric in ("top1", "nll", "brier"):
            chosen, best = self.oracle(metric)
            self.assertGreater(len(chosen), 1)
            self.assertLess(len(chosen), self.count)
            report = self.soup("greedy", "--metric", metric)
            self.assertEqual(report["chosen"], [self.files[i] for i in sorted(chosen)])
            self.assertAlmostEqual(report["score"], best, places=6)
            self.assertEqual(report["samples"], self.rows)
            kept = [step["file"] for step in report["steps"] if step["kind"] == "add" and step["kept"]]
            self.assertEqual(kept, [self.files[i] for i in chosen[1:]])
            self.assertEqual((report["evaluations"], report["cached"]), (11, 0))
            uniform = self.path("uniform.safetensors")
            self.works("soup", "uniform", *report["chosen"], "-o", uniform)
            self.assertEqual(self.read(self.out), self.read(uniform))
            self.assertFalse(os.path.exists(self.out + ".work"))

    def test_regression_and_logits(self):
        one = self.soup("greedy", "--metric", "nll")
        logits = self.path("logits.py")
        with open(logits, "w", encoding="utf-8") as file:
            file.write("import sys, numpy as np\np = sys.argv[1]\nnp.save(p, np.log(np.load(p)))\n")
        files, self.files = self.files, self.files[:2]
        command = f"both() {{ {self.command} \"$1\" \"$2\" && /usr/bin/python3 {logits} \"$2\"; }}; both"
        report = self.soup("greedy", "--metric", "nll", "--values", "logit", command=command)
        for step in range(2):
            self.assertAlmostEqual(report["steps"][step]["score"], one["steps"][step]["score"], places=5)
        self.files = files
        self.files, self.models = [], []
        rng = np.random.default_rng(2)
        truth = rng.normal(size=(1, self.columns))
        values = self.x @ truth[0] + 0.1 * rng.normal(size=self.rows)
        for i in range(4):
            self.add_model(f"r{i}", (truth + 0.3 * rng.normal(size=truth.shape)).astype(np.float32),
                           np.zeros(1, np.float32))
        self.labels_file = self.save("targets.npy", values)
        report = self.soup("greedy", "--task", "regression")
        self.assertEqual((report["metric"], report["task"]), ("rmse", "regression"))
        weight = np.mean([self.models[self.files.index(f)][0].astype(float) for f in report["chosen"]], 0)
        rmse = float(np.sqrt(((self.x @ weight[0] - values) ** 2).mean()))
        self.assertAlmostEqual(report["score"], rmse, places=5)
        self.assertLess(rmse, min(s["score"] for s in report["steps"] if s["kind"] == "single"))

    def test_learned(self):
        report = self.soup("learned", "--evaluations", "120", "--seed", "5")
        self.assertEqual((report["metric"], report["per"], report["best"]), ("nll", "model", "search"))
        self.assertAlmostEqual(sum(report["weights"]), 1, places=9)
        self.assertGreaterEqual(min(report["weights"]), 0)
        self.assertAlmostEqual(self.score(report["weights"], "nll"), report["score"], places=6)
        corners = [s["score"] for s in report["steps"] if s["kind"] != "search"]
        self.assertEqual((len(corners), len(report["steps"])), (1 + self.count, 120))
        self.assertLess(report["score"], min(corners))

    def test_learned_with_any_sign_and_per_tensor(self):
        signed = self.soup("learned", "--signed", "--evaluations", "40")
        self.assertAlmostEqual(sum(signed["weights"]), 1, places=9)
        self.assertAlmostEqual(self.score(signed["weights"], "nll"), signed["score"], places=6)
        report = self.soup("learned", "--per", "tensor", "--evaluations", "60")
        self.assertEqual([t["name"] for t in report["tensor_weights"]], ["bias", "weight"])
        weight = {t["name"]: t["weights"] for t in report["tensor_weights"]}
        mixed = [sum(a * m[p].astype(float) for a, m in zip(weight[n], self.models)).astype(np.float32)
                 for p, n in ((0, "weight"), (1, "bias"))]
        for array in mixed:
            self.assertIn(array.tobytes(), self.read(self.out))
        p = softmax(self.x @ mixed[0].astype(float).T + mixed[1])
        self.assertAlmostEqual(float(-np.log(p[np.arange(self.rows), self.y]).mean()), report["score"], places=5)

    def test_same_bytes_for_any_number_of_threads(self):
        made = set()
        for threads, seed in ((1, 3), (3, 3), (1, 4)):
            self.soup("learned", "--evaluations", "20", "--seed", seed, "--threads", threads)
            made.add(self.read(self.out))
        self.assertEqual(len(made), 2)

    def test_no_search_is_worse_than_the_corners(self):
        for metric in ("top1", "ece"):
            report = self.soup("learned", "--evaluations", "9", "--metric", metric)
            scores = [s["score"] for s in report["steps"]]
            self.assertEqual(len(scores), 9)
            self.assertEqual(report["score"], max(scores) if metric == "top1" else min(scores))

    # ---- what is kept

    def test_a_second_run_asks_nothing(self):
        command, calls = self.calls()
        first = self.soup("greedy", "--work", self.work, command=command)
        soup = self.read(self.out)
        self.assertEqual(calls(), 11)
        steps = self.read(os.path.join(self.work, "steps.jsonl")).decode().splitlines()
        self.assertEqual([json.loads(line) for line in steps], first["steps"])
        self.assertEqual(sorted(os.listdir(self.work)), ["cache", "lock", "steps.jsonl"])
        again = self.soup("greedy", "--work", self.work, command=command)
        self.assertEqual((calls(), again["cached"], again["evaluations"]), (11, 11, 11))
        self.assertEqual(self.read(self.out), soup)
        self.assertEqual([s["score"] for s in again["steps"]], [s["score"] for s in first["steps"]])
        # Another metric needs no predictions that are not there for candidates that are.
        self.soup("greedy", "--work", self.work, "--metric", "nll", command=command)
        self.assertLess(calls(), 22)

    def test_the_program_has_the_permissions_of_the_caller(self):
        """Also where the soup takes the place of a private file, and is private meanwhile."""
        with open(self.out, "wb"):
            pass
        os.chmod(self.out, 0o600)
        self.soup("greedy", command=f"umask >>{self.path('masks')}; {self.command}")
        usual = os.umask(0o22)
        os.umask(usual)
        self.assertEqual({int(line, 8) for line in self.read(self.path("masks")).split()}, {usual})
        self.assertEqual(stat.S_IMODE(os.stat(self.out).st_mode), 0o600)

    def test_folders_that_are_kept_can_be_entered(self):
        """By whoever may read the file that the soup replaces."""
        with open(self.out, "wb"):
            pass
        mask = os.umask(0o22)
        os.umask(mask)
        for mode in (0o644, 0o640):
            os.chmod(self.out, mode)
            self.soup("greedy", "--work", self.work)
            for folder in (self.work, os.path.join(self.work, "cache")):
                entered = mode & 0o044
                self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), (0o700 | entered | entered >> 2) & ~mask)
            shutil.rmtree(self.work)

    def test_what_changes_is_asked_again(self):
        command, calls = self.calls()
        self.soup("greedy", "--work", self.work, command=command)
        self.y[0] = (self.y[0] + 1) % self.classes
        self.save("y.npy", self.y)
        self.assertEqual(self.soup("greedy", "--work", self.work, command=command)["cached"], 0)
        self.assertEqual(self.soup("greedy", "--work", self.work, command="true; " + command)["cached"], 0)
        with open(self.files[4], "rb") as file:
            content = bytearray(file.read())
        content[-1] ^= 1  # of one file, which is in no soup
        with open(self.files[4], "wb") as file:
            file.write(content)
        report = self.soup("greedy", "--work", self.work, command=command)
        self.assertLess(report["cached"], report["evaluations"])
        self.assertFalse(report["steps"][4]["cached"])
        self.assertTrue(report["steps"][3]["cached"])
        # A kept file that is spoilt is made anew.
        kept = sorted(os.listdir(os.path.join(self.work, "cache")))
        for name in kept:
            os.truncate(os.path.join(self.work, "cache", name), 100)
        again = self.soup("greedy", "--work", self.work, command=command)
        self.assertEqual((again["cached"], again["chosen"]), (0, report["chosen"]))

    @slow
    def test_killed_and_started_again(self):
        """SIGKILL after a few evaluations: nothing is at -o, and the same command ends as one that was not killed."""
        whole = self.soup("learned", "--evaluations", "30")
        soup = self.read(self.out)
        os.unlink(self.out)
        command, calls = self.calls()
        slow = f"sleep 0.05; {command}"
        arguments = [TOOL, "soup", "learned", *self.files, "--eval", slow, "--labels", self.labels_file,
                     "--evaluations", "30", "-o", self.out, "--json"]
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while calls() < 9:
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertFalse(os.path.exists(self.out))
        self.assertTrue(os.path.isdir(self.out + ".work"))
        again = json.loads(subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout)
        self.assertGreaterEqual(again["cached"], 8)
        self.assertLess(again["cached"], 30)
        self.assertEqual(self.read(self.out), soup)
        for key in ("weights", "score", "best"):
            self.assertEqual(again[key], whole[key])
        self.assertFalse(os.path.exists(self.out + ".work"))

    def start(self, command, waits_for, **keywords):
        """A greedy soup whose program has written `waits_for`."""
        process = subprocess.Popen(
            [TOOL, "soup", "greedy", *self.files, "--eval", command, "--labels", self.labels_file, "-o", self.out],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **keywords)
        self.addCleanup(process.stderr.close)
        while not waits_for():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def gone(self, pid, within=0):
        """The process has ended, whoever has to take note of that."""
        for _ in range(1 + int(within / 0.02)):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return True
            except FileNotFoundError:
                return True
            time.sleep(0.02)
        return False

    def heed(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of SIGQUIT

    @slow
    def test_interrupted(self):
        """An interrupt ends the program, also one that shrugs it off, keeps what is known, and leaves nothing else."""
        marks = self.path("marks")
        command = f"echo $$ >> {marks}; trap '' INT; [ $(wc -l < {marks}) -lt 4 ] || sleep 60; {self.command}"
        process = self.start(command, lambda: os.path.exists(marks) and self.read(marks).count(b"\n") == 4,
                             preexec_fn=self.heed)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(errors.decode().count("\n"), 1)
        self.assertIn("run the same command again", errors.decode())
        self.assertTrue(self.gone(self.read(marks).split()[-1].decode()))
        self.assertEqual(sorted(os.listdir(self.out + ".work")), ["cache", "lock", "steps.jsonl"])
        self.assertEqual(len(os.listdir(self.out + ".work/cache")), 3)
        self.assertFalse(os.path.exists(self.out))

    @slow
    def test_interrupts_reach_what_the_shell_started(self):
        """Of a group whose shell goes at once, a child that ignores all that can be ignored; and by each signal."""
        child = self.path("child")
        stubborn = f"(trap '' INT TERM HUP QUIT; sh -c 'echo $PPID > {child}.new; mv {child}.new {child}'; sleep 60); true"
        for number, more in ((signal.SIGTERM, 0), (signal.SIGINT, 1), (signal.SIGHUP, 1), (signal.SIGQUIT, 1)):
            process = self.start(stubborn, lambda: os.path.exists(child), preexec_fn=self.heed)
            process.send_signal(number)
            for _ in range(more):  # the impatient way: at once
                time.sleep(0.3)
                self.assertIsNone(process.poll())
                process.send_signal(number)
            begun = time.monotonic()
            _, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, -number, errors)
            self.assertIn(b"run the same command again", errors)
            if more:
                self.assertLess(time.monotonic() - begun, 2.5)
            self.assertTrue(self.gone(self.read(child).decode().strip()), number)
            left = os.listdir(self.out + ".work") if os.path.exists(self.out + ".work") else []
            self.assertFalse([name for name in left if name.startswith("run-")])
            os.unlink(child)

    def test_a_killed_tool_stops_the_program(self):
        pid = self.path("pid")
        process = self.start(f"echo $$ > {pid}; exec sleep 60; true", lambda: os.path.exists(pid) and self.read(pid))
        process.kill()
        process.wait()
        self.assertTrue(self.gone(self.read(pid).decode().strip(), within=5))

    def test_hangup_stays_ignored(self):
        """As nohup has it."""
        mark = self.path("mark")
        process = self.start(f"touch {mark}; sleep 0.1; {self.command}", lambda: os.path.exists(mark),
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_children_that_the_caller_ignores(self):
        """A caller that ignores SIGCHLD leaves it so in what it starts."""
        process = self.start(self.command, lambda: True,
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_a_program_that_wants_the_terminal(self):
        """There is none for it: it fails, where a group in the background would stand still."""
        arguments = [TOOL, "soup", "greedy", "-q", *self.files, "--eval",
                     f"read answer < /dev/tty || exit 5; {self.command}", "--labels", self.labels_file, "-o", self.out]
        child, terminal = pty.fork()
        if child == 0:
            os.execv(TOOL, arguments)
        text = b""
        begun = time.monotonic()
        while time.monotonic() - begun < 20 and select.select([terminal], [], [], 20)[0]:
            try:
                got = os.read(terminal, 4096)
            except OSError:
                got = b""
            if not got:
                break
            text += got
        ended, how = os.waitpid(child, os.WNOHANG)
        for _ in range(100):
            if ended:
                break
            time.sleep(0.02)
            ended, how = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(terminal)
        self.assertEqual((ended, how), (child, 2 << 8), text)
        self.assertIn(b"exit status", text)

    def test_one_run_at_a_time(self):
        mark = self.path("mark")
        command = f"touch {mark}; sleep 1; {self.command}"
        arguments = ["soup", "greedy", *self.files, "--labels", self.labels_file, "--work", self.work]
        process = subprocess.Popen([TOOL, *arguments, "--eval", command, "-o", self.out], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(mark):
            time.sleep(0.01)
        result = run(*arguments, "--eval", self.command, "-o", self.path("other.safetensors"))
        process.terminate()
        process.wait()
        self.assertEqual(result.code, 2)
        self.assertIn("another run has", result.err)

    # ---- what is not the tool's

    def foreign(self, folder):
        """Files of somebody in a folder, and a check that they are still there."""
        names = ["run-2024/best.pt", "run-abc123/best.pt", "steps.jsonl", "cache/" + "0" * 32 + ".npy"]
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(name)
        return lambda: [self.assertEqual(self.read(os.path.join(folder, n)).decode(), n) for n in names]

    def test_a_folder_of_something_else_is_refused(self):
        self.files = self.files[:2]
        for folder, more in ((self.work, ("--work", self.work)), (self.out + ".work", ())):
            check = self.foreign(folder)
            self.soup_fails(self.command, "contains files, but was not created by a soup", more=more)
            check()
            self.assertFalse(os.path.exists(os.path.join(folder, "lock")))
            with open(os.path.join(folder, "lock"), "w", encoding="ascii") as file:
                file.write("pid 7")  # somebody's own
            self.soup_fails(self.command, "contains files, but was not created by a soup", more=more)
            self.assertEqual(self.read(os.path.join(folder, "lock")), b"pid 7")
            check()

    def test_what_others_put_into_a_work_folder_stays(self):
        self.files = self.files[:2]
        outside = self.path("outside")
        check_outside = self.foreign(outside)
        with open(os.path.join(outside, ".corestack-run"), "w", encoding="ascii"):
            pass
        self.soup("greedy", "--work", self.work)
        kept = os.listdir(os.path.join(self.work, "cache"))
        for name in ("run-2024", "run-abc123"):
            os.mkdir(os.path.join(self.work, name))
            with open(os.path.join(self.work, name, "best.pt"), "w", encoding="ascii"):
                pass
        os.symlink(outside, os.path.join(self.work, "run-linked"))
        self.assertEqual(self.soup("greedy", "--work", self.work)["cached"], len(kept))
        check_outside()
        for name in ("run-2024/best.pt", "run-abc123/best.pt", "run-linked/steps.jsonl"):
            self.assertTrue(os.path.exists(os.path.join(self.work, name)), name)

    def test_nothing_of_the_program_stays(self):
        """A folder beside the candidate goes, what a link in it leads to stays; an empty folder may be used."""
        outside = self.path("outside")
        check_outside = self.foreign(outside)
        os.mkdir(self.out + ".work")
        self.files = self.files[:2]
        here = 'd="${1%/*}/tmp/a"'
        self.soup("greedy", command=f"{here}; mkdir -p $d/b; : > $d/b/c; ln -sfn {outside} $d/link; {self.command}")
        check_outside()
        self.assertFalse(os.path.exists(self.out + ".work"))
        self.soup_fails('mkdir "$2"; : > "$2/x" #', "wrote no file of predictions")
        self.assertFalse(os.path.exists(self.out + ".work"))

    def test_predictions_that_are_links(self):
        """What is kept is what was scored, also where every call writes into one file."""
        shared = self.path("shared.npy")
        wanted = self.soup("greedy", "--metric", "nll")["steps"]
        for link in ("-s", ""):
            command = (f'go() {{ {self.command} "$1" "$1.npy" && cat "$1.npy" > {shared} && rm "$1.npy" && '
                       f'ln {link} {shared} "$2"; }}; go')
            for cached in (0, 11):
                report = self.soup("greedy", "--metric", "nll", "--work", self.work, command=command)
                self.assertEqual(report["cached"], cached)
                self.assertEqual([s["score"] for s in report["steps"]], [s["score"] for s in wanted])
            for name in os.listdir(os.path.join(self.work, "cache")):
                info = os.lstat(os.path.join(self.work, "cache", name))
                self.assertTrue(stat.S_ISREG(info.st_mode) and info.st_nlink == 1)

    def test_labels_are_read_first(self):
        command, calls = self.calls()
        self.labels_file = self.save("minus.npy", np.where(self.y == 1, -1, self.y).astype(np.int32))
        self.soup_fails(command, "minus.npy")
        self.labels_file = self.save("half.npy", self.y + 0.5)
        self.soup_fails(command, "half.npy")
        self.assertFalse(calls())
        with open(self.path("y.csv"), "w", encoding="ascii") as file:
            file.write("id,label\n" + "".join(f"r{i},{y}\n" for i, y in enumerate(self.y)))
        self.labels_file = self.path("y.csv")
        self.files = self.files[:2]
        self.soup("greedy", command=command)

    def test_what_is_kept_outlives_a_mistake(self):
        """Predictions stay where they are taken for the wrong thing; what is no file of predictions goes."""
        self.files = self.files[:2]
        logits = self.path("logits.py")
        with open(logits, "w", encoding="utf-8") as file:
            file.write("import sys, numpy as np\np = sys.argv[1]\nnp.save(p, np.log(np.load(p)))\n")
        command = f"both() {{ {self.command} \"$1\" \"$2\" && /usr/bin/python3 {logits} \"$2\"; }}; both"
        keep = ("--work", self.work)
        self.soup("greedy", "--values", "logit", *keep, command=command)
        self.soup_fails(command, "cannot be scored", more=keep)
        cache = os.path.join(self.work, "cache")
        self.assertEqual(self.soup("greedy", "--values", "logit", *keep, command=command)["cached"], 3)
        for name in os.listdir(cache):
            os.unlink(os.path.join(cache, name))
            os.mkdir(os.path.join(cache, name))
        self.assertEqual(self.soup("greedy", "--values", "logit", *keep, command=command)["cached"], 0)
        for name in os.listdir(cache):
            os.unlink(os.path.join(cache, name))
            os.makedirs(os.path.join(cache, name, "x"))
        self.soup_fails(command, "remove it", more=(*keep, "--values", "logit"))

    # ---- the program

    def test_what_the_program_gets(self):
        seen = self.path("seen")
        command = (f"look() {{ {{ echo \"$@\"; echo $CORESTACK_CANDIDATE $CORESTACK_PREDICTIONS; ls /proc/self/fd; "
                   f"cat; }} > {seen}; echo out; cd /; {self.command} \"$@\"; }}; look")
        with open(self.path("x.f64"), "rb") as leaked:
            result = subprocess.run(
                [TOOL, "soup", "greedy", *map(os.path.basename, self.files), "--eval", command, "--labels", "y.npy",
                 "-o", "soup.safetensors", "--json"], cwd=self.folder, input=b"not for the program",
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[leaked.fileno()], check=True)
        json.loads(result.stdout)
        self.assertEqual(result.stderr.decode(), "out\n" * 11)
        lines = self.read(seen).decode().split("\n")
        self.assertEqual(lines[0], lines[1])
        for path in lines[0].split():
            self.assertTrue(os.path.isabs(path))
        self.assertEqual(lines[2:], ["0", "1", "2", "3", ""])  # 3 is that of ls

    def test_programs_that_fail(self):
        os.unlink(self.pool)
        self.soup_fails("exit 3 #", "--eval", "exit status 3", "to see why")
        self.soup_fails("kill -9 $$ #", "signal 9")
        self.soup_fails("true", "wrote no predictions")
        self.soup_fails(f"cp {self.labels_file} \"$2\" #", "cannot be scored")
        self.soup_fails("echo rubbish > \"$2\" #", "cannot be scored")
        short = self.save("short.npy", np.full((self.rows - 1, self.classes), 1 / self.classes, np.float32))
        self.soup_fails(f"cp {short} \"$2\" #", "cannot be scored", str(self.rows - 1), str(self.rows))
        wide = np.full((self.rows, self.classes), 1 / self.classes, np.float32)
        wide[3, 1] = np.nan
        self.soup_fails(f"cp {self.save('nan.npy', wide)} \"$2\" #", "cannot be scored", "row 3")
        wide[3, 1] = 0.9
        self.soup_fails(f"cp {self.save('sum.npy', wide)} \"$2\" #", "cannot be scored", "row 3")
        result = run("soup", "greedy", *self.files, "--eval", "/no/such/program", "--labels", self.labels_file, "-o",
                     self.out)
        self.assertEqual(result.code, 2)
        self.assertIn("exit status 127 (not found)", result.err)  # after what the shell says

    def test_how_to_try_it_by_hand(self):
        """The line can be given to a shell as it stands, also of a file with blanks; the file is never cut off."""
        odd = self.path("it's one.safetensors")
        os.rename(self.files[0], odd)
        self.files[0] = odd
        quoted = odd.replace("'", "'\\''")
        self.soup_fails("exit 3;", f"run: exit 3; '{quoted}' predictions.npy\n")
        self.soup_fails("exit 3; " + "true " * 400, f"run: CMD '{quoted}' predictions.npy\n")
        self.soup_fails("exit 3\ntrue", f"run: CMD '{quoted}' predictions.npy\n")

    def test_line_ends_behind_the_program(self):
        """Without care the shell would run the candidate."""
        report = self.soup("greedy", command=self.command + " \r\n\n")
        self.assertEqual(report["evaluations"], 11)
        self.soup_fails(" \n", "--eval is required")

    def test_a_program_that_fails_later_keeps_what_is_known(self):
        mark = self.path("mark")
        command = f"echo >> {mark}; [ $(wc -l < {mark}) -le 5 ] || exit 4; {self.command}"
        result = run("soup", "greedy", *self.files, "--eval", command, "--labels", self.labels_file, "-o", self.out)
        self.assertEqual(result.code, 2)
        self.assertEqual(len(os.listdir(self.out + ".work/cache")), 5)
        os.unlink(mark)
        with open(mark, "w", encoding="ascii") as file:
            file.write("\n" * -100)
        report = self.soup("greedy", "--work", self.out + ".work")
        self.assertEqual(report["cached"], 0)  # another command
        self.assertTrue(os.path.isdir(self.out + ".work"))

    def test_the_program_of_the_page(self):
        """That of docs/weights.md predicts what the tests' own does."""
        with open(os.path.join(support.SOURCES, "docs", "weights.md"), encoding="utf-8") as file:
            program = file.read().split("```python\n")[1].split("```")[0]
        with open(self.path("predict.py"), "w", encoding="utf-8") as file:
            file.write(program)
        self.save("inputs.npy", self.x)
        self.files = self.files[:2]
        wanted = self.soup("greedy", "--metric", "nll")
        report = self.soup("greedy", "--metric", "nll", command="/usr/bin/python3 predict.py", cwd=self.folder)
        self.assertEqual(report["chosen"], wanted["chosen"])
        for one, other in zip(report["steps"], wanted["steps"]):
            self.assertAlmostEqual(one["score"], other["score"], places=6)

    # ---- the command line

    def test_bad_arguments(self):
        files = self.files
        score = ("--eval", "true", "--labels", self.labels_file)
        self.fails("soup", says=["uniform, greedy or learned"])
        self.fails("soup", "gredy", says=["'greedy'"])
        self.fails("soup", "--nonsense", says=["uniform, greedy or learned"])
        self.fails("help", "soup", "x", says=["uniform, greedy or learned"])
        self.fails("soup", "greedy", *files, "-o", self.out, "--labels", self.labels_file, says=["--eval CMD"])
        self.fails("soup", "greedy", *files, "-o", self.out, "--eval", "true", says=["--labels"])
        self.fails("soup", "greedy", *files, *score, says=["-o"])
        self.fails("soup", "greedy", files[0], *score, "-o", self.out, says=["two or more"])
        self.fails("soup", "uniform", "-o", self.out, says=["safetensors"])
        self.fails("soup", "uniform", *files, "-o", files[1], says=["an input of the command"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--metric", "auc", says=["'auc'", "top1"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--task", "detection", says=["'detection'"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--values", "odds", says=["'odds'"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--per", "model", says=["--per"])
        self.fails("soup", "learned", *files, *score, "-o", self.out, "--per", "layer", says=["'layer'"])
        self.fails("soup", "learned", *files, *score, "-o", self.out, "--evaluations", "6", says=["more than 6"])
        self.fails("soup", "learned", *files, *score, "-o", self.out, "--work", self.pool, says=["not a folder"])
        self.fails("soup", "learned", *files, *score, "-o", self.out, "--work", self.path("a/b"), says=["a/b"])
        self.fails("soup", "greedy", *files, "--eval", "true", "--labels", self.path("no.npy"), "-o", self.out,
                   says=["no.npy"])
        for words in (("soup", "--help"), ("help", "soup")):
            self.assertIn("soup greedy --help", self.works(*words).out)
        for words in (("soup", "greedy", "--help"), ("help", "soup", "greedy")):
            self.assertIn("--eval CMD", self.works(*words).out)

    def test_files_that_differ(self):
        self.add_model("odd", np.zeros((self.classes, 2), np.float32), np.zeros(self.classes, np.float32))
        self.soup_fails(self.command, "weight", "odd.safetensors")
