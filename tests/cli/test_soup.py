"""Soups: the same choices and bytes as in NumPy, programs that fail or are interrupted."""

import importlib.util
import json
import os
import pty
import resource
import select
import signal
import stat
import subprocess
import tempfile
import time

import numpy as np

import support
from support import TOOL, PoolCase, run

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

    def assert_tidy(self):
        """No folder of candidates is left."""
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith("soup-")])

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
            self.assertEqual(report["evaluations"], 11)
            uniform = self.path("uniform.safetensors")
            self.works("soup", "uniform", *report["chosen"], "-o", uniform)
            self.assertEqual(self.read(self.out), self.read(uniform))
            self.assert_tidy()

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

    def test_interrupted(self):
        """The program's group gets the signal, and SIGKILL if it does not end."""
        child = self.path("child")
        write = f"sh -c 'echo $PPID > {child}.new; mv {child}.new {child}'; sleep 60"
        for number, program in ((signal.SIGTERM, f"({write}); true"), (signal.SIGINT, f"(trap '' INT; {write}); true")):
            process = self.start(program, lambda: os.path.exists(child), preexec_fn=self.heed)
            process.send_signal(number)
            _, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, -number, errors)
            self.assertEqual(errors.decode().count("\n"), 1)
            self.assertIn("stopped on request", errors.decode())
            self.assertTrue(self.gone(self.read(child).decode().strip(), within=5), number)
            self.assertFalse(os.path.exists(self.out))
            self.assert_tidy()
            os.unlink(child)

    def test_a_killed_tool_stops_the_program(self):
        pid = self.path("pid")
        process = self.start(f"echo $$ > {pid}; exec sleep 60; true", lambda: os.path.exists(pid) and self.read(pid))
        process.kill()
        process.wait()
        self.assertTrue(self.gone(self.read(pid).decode().strip(), within=5))

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

    # ---- the program

    def test_what_the_program_gets(self):
        seen = self.path("seen")
        command = (f"look() {{ {{ echo \"$@\"; echo $CORESTACK_CANDIDATE $CORESTACK_PREDICTIONS; ls /proc/self/fd; "
                   f"cat; }} > {seen}; echo out; cd /; {self.command} \"$@\"; }}; look")
        result = subprocess.run(
            [TOOL, "soup", "greedy", *map(os.path.basename, self.files), "--eval", command, "--labels", "y.npy", "-o",
             "soup.safetensors", "--json"], cwd=self.folder, input=b"not for the program", stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, check=True)
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
        self.assert_tidy()
        result = run("soup", "greedy", *self.files, "--eval", "/no/such/program", "--labels", self.labels_file, "-o",
                     self.out)
        self.assertEqual(result.code, 2)
        self.assertIn("exit status 127 (not found)", result.err)  # after what the shell says

    def test_line_ends_behind_the_program(self):
        """Without care the shell would run the candidate."""
        report = self.soup("greedy", command=self.command + " \r\n\n")
        self.assertEqual(report["evaluations"], 11)
        self.soup_fails(" \n", "--eval is required")

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
        self.fails("soup", says=["uniform or greedy"])
        self.fails("soup", "gredy", says=["'greedy'"])
        self.fails("soup", "--nonsense", says=["uniform or greedy"])
        self.fails("help", "soup", "x", says=["uniform or greedy"])
        self.fails("soup", "greedy", *files, "-o", self.out, "--labels", self.labels_file, says=["--eval CMD"])
        self.fails("soup", "greedy", *files, "-o", self.out, "--eval", "true", says=["--labels"])
        self.fails("soup", "greedy", *files, *score, says=["-o"])
        self.fails("soup", "greedy", files[0], *score, "-o", self.out, says=["two or more"])
        self.fails("soup", "uniform", "-o", self.out, says=["safetensors"])
        self.fails("soup", "uniform", *files, "-o", files[1], says=["an input of the command"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--metric", "auc", says=["'auc'", "top1"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--task", "detection", says=["'detection'"])
        self.fails("soup", "greedy", *files, *score, "-o", self.out, "--values", "odds", says=["'odds'"])
        self.fails("soup", "greedy", *files, "--eval", "true", "--labels", self.path("no.npy"), "-o", self.out,
                   says=["no.npy"])
        for words in (("soup", "--help"), ("help", "soup")):
            self.assertIn("soup greedy --help", self.works(*words).out)
        for words in (("soup", "greedy", "--help"), ("help", "soup", "greedy")):
            self.assertIn("--eval CMD", self.works(*words).out)

    def test_a_mask_of_minus_infinity_is_copied(self):
        mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
        for i in range(2):
            self.add_model(f"mask{i}", *self.models[i], extra=[("mask", mask)])
        files = self.files[-2:]
        self.works("soup", "uniform", *files, "-o", self.out)
        self.assertIn(mask.tobytes(), self.read(self.out))
        self.works("swag", "fit", *files, "-o", self.out)
        self.add_model("other", *self.models[0], extra=[("mask", mask.T.copy())])
        self.fails("soup", "uniform", files[0], self.files[-1], "-o", self.out, says=["'mask'", "is infinite"])

    def test_files_of_other_programs(self):
        shards = self.path("shards")
        os.mkdir(shards)
        index = os.path.join(shards, "model.safetensors.index.json")
        for name, content, says in ((shards, None, "shards"), (index, b'{"metadata": {}}', "glob('" + shards),
                                    (self.path("m.pt"), b"PK\3\4" + bytes(60), "torch.load"),
                                    (self.path("m.ckpt"), b"\x80\2" + bytes(60), "torch.load"),
                                    (self.path("m.h5"), b"\x89HDF" + bytes(60), "Keras")):
            if content:
                with open(name, "wb") as file:
                    file.write(content)
            self.fails("soup", "uniform", name, name, "-o", self.out, says=[name, says, "save_file"])

    def test_files_that_differ(self):
        self.add_model("odd", np.zeros((self.classes, 2), np.float32), np.zeros(self.classes, np.float32))
        self.soup_fails(self.command, "weight", "odd.safetensors")
