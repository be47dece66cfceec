"""Few threads, little memory, odd stacks: a command ends with the same bytes, or with one line and exit 2 or 3."""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

from support import TOOL, PoolCase

FAULT = os.environ.get("CORESTACK_THREAD_FAULT")
LIMIT = 60  # seconds for any command
MIB = 1 << 20
QUICK = ["--set", "evaluate.nested=false"]
LONG = "CORESTACK_LONG" in os.environ
# OpenBLAS with threads of its own, as users have it.
BARE = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}


class Limits(PoolCase):
    rows = 1100  # three blocks, so that there is work for three threads

    def setUp(self):
        super().setUp()
        self.here = self.ends(["fit", self.pool, "-o", self.model, "--threads", "1", *QUICK])
        self.assertEqual(self.here.returncode, 0, self.here.stderr)
        self.commands = {
            "fit": ["fit", self.pool, "-o", self.path("out.npy"), "--json", *QUICK],
            "predict": ["predict", self.model, self.pool, "-o", self.path("out.npy"), "--split", "test"],
            "evaluate": ["evaluate", self.model, self.pool, "--split", "test"],
            "inspect": ["inspect", self.pool],
        }
        self.expected = {name: self.outcome(name, 1) for name in self.commands}
        for name, (code, _, _, err) in self.expected.items():
            self.assertEqual(code, 0, err)

    def ends(self, arguments, limits=(), env=None, prefix=()):
        """The command, which must end by itself."""

        def prepare():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))

        return subprocess.run(
            [*prefix, TOOL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
            env={**BARE, **(env or {})}, preexec_fn=prepare, check=False,
        )

    def test_cores_that_the_process_may_use(self):
        """By taskset, say: the default is one thread for each; more of them get a notice, once the command has worked."""
        only = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # noqa: E731
        told = {}
        for words in ((), ("--threads", "2"), ("--threads", "2", "-q")):
            done = subprocess.run([TOOL, "profile", self.model, self.pool, "--json", "--repeats", "20", *words],
                                  capture_output=True, text=True, preexec_fn=only, check=True)
            told[words] = done.stderr
            measured = json.loads(done.stdout)["measured"]
            self.assertEqual((measured["cores"], measured["threads"]), (1, 2 if words else 1))
        self.assertIn("2 threads, but this process may use 1 core ", told["--threads", "2"])
        self.assertEqual((told[()], told["--threads", "2", "-q"]), ("", ""))
        failed = subprocess.run([TOOL, "inspect", "none", "--threads", "2"], capture_output=True, text=True, preexec_fn=only)
        self.assertEqual(len(failed.stderr.splitlines()), 1)

    def outcome(self, name, threads, **keywords):
        """(exit code, what was written, notices, stderr)"""
        out = self.path("out.npy")
        if os.path.exists(out):
            os.remove(out)
        done = self.ends([*self.commands[name], "--threads", str(threads)], **keywords)
        made = self.read(out) if os.path.exists(out) else b""
        notices = json.loads(done.stdout).get("notices", []) if name == "fit" and done.returncode == 0 else []
        return done.returncode, made, notices, done.stderr

    def same_or_refused(self, name, threads, **keywords):
        """Whether the result is there."""
        code, made, _, err = self.outcome(name, threads, **keywords)
        if code == 0:
            self.assertEqual(made, self.expected[name][1])
            return True
        self.assertIn(code, (2, 3), err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("limit", err)
        self.assertEqual(made, b"")
        self.assertFalse([f for f in os.listdir(self.folder) if ".tmp." in f])
        return False

    def sweep(self, kind, sizes, threads, names):
        for name in names:
            for count in threads:
                went = []
                for size in sizes:
                    with self.subTest(command=name, threads=count, size=size):
                        went.append(self.same_or_refused(name, count, limits=[(kind, size * MIB)]))
                self.assertEqual(went, sorted(went), "more memory refuses what less allowed")
                self.assertTrue(went[-1])


@unittest.skipIf("GCOV_ERROR_FILE" in os.environ, "limits keep coverage from being counted")
class TestLimits(Limits):
    def test_limits_of_data(self):
        names = list(self.commands) if LONG else ["fit", "predict"]
        sizes = [16, 40, 80, 130, 200, 256, 300, 400, 500, 700, 1000] if LONG else [16, 130, 256, 1000]
        self.sweep(resource.RLIMIT_DATA, sizes, (1, 2, 8, 64) if LONG else (2, 64), names)

    def test_limits_of_addresses(self):
        names = list(self.commands) if LONG else ["fit", "predict"]
        sizes = [100, 150, 200, 256, 300, 350, 400, 500, 700, 1000, 3000] if LONG else [100, 300, 400, 3000]
        self.sweep(resource.RLIMIT_AS, sizes, (1, 2, 8, 64) if LONG else (8, 64), names)

    def test_help_and_version_take_no_memory(self):
        for kind, size in ((resource.RLIMIT_DATA, 16), (resource.RLIMIT_DATA, 256), (resource.RLIMIT_AS, 100)):
            for words in (["--version"], ["--help"], ["help", "fit"], ["fit", "--help"]):
                with self.subTest(kind=kind, size=size, words=words):
                    done = self.ends(words, limits=[(kind, size * MIB)])
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(done.stdout)

    def test_stacks(self):
        for size in (32, 64, 128, 200):
            with self.subTest(size=size):
                self.assertFalse(self.same_or_refused("fit", 2, limits=[(resource.RLIMIT_STACK, size << 10)]))
        for size in (256 << 10, 300_001, 1 << 30, 1 << 40, resource.RLIM_INFINITY):
            with self.subTest(size=size):
                self.assertTrue(self.same_or_refused("fit", 8, limits=[(resource.RLIMIT_STACK, size)]))
        for size in ("1000G", "1K", "none"):
            with self.subTest(OMP_STACKSIZE=size):
                self.assertTrue(self.same_or_refused("fit", 8, env={"OMP_STACKSIZE": size, "OMP_NUM_THREADS": "512"}))

    @unittest.skipUnless(shutil.which("setpriv") and hasattr(os, "geteuid") and os.geteuid() == 0, "needs root and setpriv")
    def test_a_user_that_may_have_one_process(self):
        os.chmod(self.folder, 0o777)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--nproc=1"]
        if subprocess.run([*nobody, "cat", TOOL, self.pool], stdout=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("that user cannot read the tool")
        for threads in (1, 8):
            with self.subTest(threads=threads):
                code, made, notices, err = self.outcome("fit", threads, prefix=nobody)
                self.assertEqual((code, made), (0, self.expected["fit"][1]), err)
                said = [n for n in notices if "the system starts only 1 of 8 threads" in n]
                self.assertEqual(len(said), threads > 1)

    def test_one_interrupt_is_enough(self):
        for limits in ((), [(resource.RLIMIT_DATA, 256 * MIB)], [(resource.RLIMIT_AS, 300 * MIB)]):
            with self.subTest(limits=limits):

                def prepare(limits=limits):
                    signal.signal(signal.SIGINT, signal.SIG_DFL)
                    for kind, value in limits:
                        resource.setrlimit(kind, (value, value))

                words = ["compare", self.pool, "--threads", "4", "--resamples", "100000"]
                with subprocess.Popen([TOOL, *words], env=BARE, preexec_fn=prepare, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True) as running:
                    time.sleep(0.7)
                    self.assertIsNone(running.poll(), "it ended before it could be interrupted")
                    running.send_signal(signal.SIGINT)
                    try:
                        _, err = running.communicate(timeout=20)
                    finally:
                        running.kill()
                    self.assertEqual(running.returncode, -signal.SIGINT, err)


@unittest.skipUnless(FAULT, "no library with faults")
class TestFaults(Limits):
    def test_threads_that_are_refused(self):
        for left in (0, 1, 2, 5):
            for threads in (1, 2, 8, 64):
                for name in self.commands if LONG else ("fit", "predict"):
                    with self.subTest(left=left, threads=threads, command=name):
                        env = {"LD_PRELOAD": FAULT, "CORESTACK_THREADS_LEFT": str(left)}
                        code, made, notices, err = self.outcome(name, threads, env=env)
                        self.assertEqual((code, made), (0, self.expected[name][1]), err)
                        if name == "fit" and threads > 1 and left == 0:
                            self.assertEqual(sum("starts only 1 of" in n for n in notices), 1, notices)
                        if threads <= left + 1:
                            self.assertFalse([n for n in notices if "starts only" in n])

    def test_no_memory_for_large_mappings(self):
        for limit in (64 * MIB, 128 * MIB, 170 * MIB, 1024 * MIB):
            for threads in (1, 8):
                with self.subTest(limit=limit, threads=threads):
                    env = {"LD_PRELOAD": FAULT, "CORESTACK_MAPPING_LIMIT": str(limit)}
                    went = self.same_or_refused("fit", threads, env=env)
                    self.assertEqual(went, limit > 160 * MIB)


class TestEnvironment(Limits):
    def soup(self, script, env):
        """`soup greedy` with a program of the user, which knows the process of the tool ($tool) and says no."""
        path = self.path("look")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nread -r _ _ _ tool _ </proc/$PPID/stat\ncd {self.folder}\n{script}\nexit 1\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.write_checkpoints()
        words = ["a.safetensors", "b.safetensors", "--eval", path, "--labels", "oof_labels.npy", "-o", "soup.safetensors",
                 "--threads", "1"]
        done = subprocess.run([TOOL, "soup", "greedy", *words], cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_programs_of_the_user_see_their_own_environment(self):
        """The tool starts OpenBLAS with one thread; a program that it starts gets what the user set."""
        fixed = {"PATH": os.environ["PATH"], "PWD": self.folder, "_": "tool", "HOME": "/", "ODD": "x=y"}
        fixed.update((name, value) for name, value in BARE.items() if name.endswith("SAN_OPTIONS"))
        for value in (None, "7", "1", ""):
            for names in (list(fixed), ["ODD"], ["HOME"], []):
                with self.subTest(value=value, names=names):
                    env = {name: fixed[name] for name in fixed if name in names or name.endswith("SAN_OPTIONS")}
                    if value is not None:
                        env["OPENBLAS_NUM_THREADS"] = value
                    self.soup("/usr/bin/env >seen; /bin/cat /proc/$tool/comm >name", env)
                    with open(self.path("seen"), encoding="utf-8") as file:
                        seen = dict(line.rstrip("\n").split("=", 1) for line in file)
                    # By shells, and by soup.
                    added = {"PWD", "OLDPWD", "SHLVL", "_", "CORESTACK_CANDIDATE", "CORESTACK_PREDICTIONS"}
                    self.assertEqual({k: v for k, v in seen.items() if k not in added},
                                     {k: v for k, v in env.items() if k not in added})
                    with open(self.path("name"), encoding="utf-8") as file:
                        self.assertEqual(file.read().strip(), "corestack")

    @unittest.skipUnless(os.path.exists("/proc/self/auxv"), "needs /proc")
    def test_the_tool_is_started_once(self):
        """The environment that the kernel started it with is the user's, and it has one thread."""
        for env in ({}, {"OPENBLAS_NUM_THREADS": "7"}):
            with self.subTest(env=env):
                env = {**BARE, **env}
                self.soup("/bin/cat /proc/$tool/environ >seen; /bin/ls /proc/$tool/task >threads", env)
                with open(self.path("seen"), "rb") as file:
                    seen = [os.fsdecode(line) for line in file.read().split(b"\0") if line]
                self.assertEqual(sorted(seen), sorted(f"{name}={value}" for name, value in env.items()))
                if "ASAN_OPTIONS" not in env and "TSAN_OPTIONS" not in env:
                    with open(self.path("threads"), encoding="utf-8") as file:
                        self.assertEqual(len(file.read().split()), 1)

    def test_the_dynamic_linker_runs_the_tool(self):
        """ld.so corestack ...: /proc/self/exe is ld.so, which would take the tool's options for its own."""
        listed = subprocess.run(["ldd", TOOL], capture_output=True, text=True, check=False).stdout
        linker = re.search(r"/\S*/ld-linux\S*", listed)
        if not linker or "ASAN_OPTIONS" in os.environ:
            self.skipTest("no dynamic linker that could run the tool")
        for words in (["--version"], ["help"], ["inspect", self.pool]):
            with self.subTest(words=words):
                here, there = self.ends(words), self.ends(words, prefix=[linker[0]])
                self.assertEqual((there.returncode, there.stdout), (0, here.stdout), there.stderr)

    @unittest.skipUnless(shutil.which("valgrind") and "ASAN_OPTIONS" not in os.environ, "needs valgrind")
    def test_valgrind_runs_the_tool(self):
        """In valgrind too /proc/self/exe is another program."""
        done = self.ends(["--version"], prefix=["valgrind", "--tool=none", "--quiet"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("corestack", done.stdout)

    def write_checkpoints(self):
        for name in "ab":
            header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
            with open(self.path(f"{name}.safetensors"), "wb") as file:
                file.write(len(header).to_bytes(8, "little") + header + bytes(8))


if __name__ == "__main__":
    sys.exit(unittest.main())
