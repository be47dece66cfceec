"""Runs that are killed (SIGKILL) at random moments: what they replace is whole, old or new, and what they leave has a known name."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

from support import TOOL, PoolCase, nameless, run

LONG = bool(os.environ.get("CORESTACK_LONG"))
FITS = 200 if LONG else 20
OTHERS = 60 if LONG else 6

MOST = 5  # times as many runs, until enough of them were killed in time

# docs/reliability.md, "Signals and killed runs".
LEFT = re.compile(r"(m\.cstack|p\.npy|maps|service\.state)(\.tmp\.[0-9]+\.[0-9]+)?")
TEMPORARY = re.compile(r"corestack\.[0-9A-Za-z]{6}")


class Killed(PoolCase):
    rows, test_rows = 600, 300

    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        os.mkdir(self.out)
        self.tmp = self.path("tmp")
        os.mkdir(self.tmp)
        self.left = 0
        self.kills = 0
        self.nameless = nameless(self.out)

    def kill(self, arguments, after):
        process = subprocess.Popen(
            [TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": self.tmp})
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL
        self.kills += killed
        return killed

    def look(self, name):
        """Everything in the folder but `name`, and in TMPDIR, is a left-over with a known name."""
        self.assertEqual([entry for entry in os.listdir(self.tmp) if self.nameless or not TEMPORARY.fullmatch(entry)], [])
        for entry in os.listdir(self.out):
            if entry == name:
                continue
            self.assertRegex(entry, LEFT)
            self.assertIsNotNone(LEFT.fullmatch(entry), entry)
            self.left += 1
            path = os.path.join(self.out, entry)
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)

    def until_killed(self, times):
        """Counts the runs: `times`, and more until a quarter of so many was killed in time."""
        runs = 0
        wanted = max(2, times // 4)
        while runs < times or (self.kills < wanted and runs < MOST * times):
            yield runs
            runs += 1
        self.assertGreaterEqual(self.kills, wanted, f"of {runs} runs")

    def length(self, arguments):
        start = time.monotonic()
        self.assertEqual(run(*arguments).code, 0)
        return time.monotonic() - start

    def overwrite(self, file, versions, times):
        """Runs `versions`, commands that write the same file, in turn, each killed on its way."""
        whole = []
        lasts = []
        for arguments in versions:
            lasts.append(self.length(arguments))
            whole.append(self.read(file))
        self.assertNotEqual(whole[0], whole[1])
        chosen = random.Random(len(whole[0]))
        replaced = 0
        before = whole[1]
        for i in self.until_killed(times):
            # Most of them around the end, where the file is replaced.
            share = chosen.uniform(0.6, 1.6) if i % 4 else chosen.uniform(0, 1)
            # The machine may have become faster or slower since: half of them are to come in time.
            lasts[i % 2] *= 1.15 if self.kill(versions[i % 2], share * lasts[i % 2]) else 0.8
            now = self.read(file)
            self.assertIn(now, whole)
            replaced += now != before
            before = now
            self.look(os.path.basename(file))
        print(f"{i + 1} runs of {versions[0][0]}: {self.kills} killed in time, {replaced} had replaced the file, "
              f"{self.left} left-over names")

    def test_fit(self):
        model = os.path.join(self.out, "m.cstack")
        self.overwrite(model, [["fit", self.pool, "-o", model, "--preset", "prototype", "--set", f"seed={s}"] for s in (1, 2)], FITS)

    def at_every_call(self, file, whole, arguments):
        """Killed before each call that changes files, one after the other: `file` is as before, or as the command makes it."""
        moments = dict.fromkeys(("open", "write", "fsync", "link", "rename", "close"), 0)
        replaced = 0
        for kind in moments:
            for place in range(100):
                with open(file, "wb") as old:
                    old.write(whole[0])
                env = {"LD_PRELOAD": os.environ["CORESTACK_IO_FAULT"], "CST_IO_UNDER": self.out,
                       "CST_IO_FAULT": f"{kind}=kill:{place}",
                       "TMPDIR": self.tmp, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
                result = run(*arguments, env=env)
                self.assertIn(self.read(file), whole)
                replaced += self.read(file) == whole[1]
                left = self.left
                self.look(os.path.basename(file))
                if self.nameless and (place == 0 and kind in ("open", "fsync", "link") or kind == "write"):
                    self.assertEqual(self.left, left, f"{kind} {place}: before it is finished, a file has no name here")
                if result.code == 0:
                    break
                self.assertEqual(result.code, -signal.SIGKILL)
                moments[kind] += 1
        for kind, seen in moments.items():
            self.assertGreater(seen, 0 if kind != "link" or self.nameless else -1, f"no call of the kind {kind}")
        print(f"killed before each of {sum(moments.values())} calls, {replaced} new files, {self.left} left-over names")

    def test_at_every_call(self):
        model = os.path.join(self.out, "m.cstack")
        versions = [["fit", self.pool, "-o", model, "--preset", "prototype", "--set", f"seed={s}"] for s in (1, 2)]
        whole = []
        for arguments in versions:
            self.works(*arguments)
            whole.append(self.read(model))
        self.at_every_call(model, whole, versions[1])

    def test_state(self):
        """The state of an online run is that before the run, or that after it."""
        self.fit("--preset", "prototype")
        state = os.path.join(self.out, "service.state")
        arguments = ["online", self.model, self.pool, "--state", state, "--delay", "7"]
        whole = []
        for _ in range(2):
            self.works(*arguments)
            whole.append(self.read(state))
        self.assertNotEqual(whole[0], whole[1])
        self.at_every_call(state, whole, arguments)

    def test_predict(self):
        self.fit("--preset", "prototype")
        out = os.path.join(self.out, "p.npy")
        self.overwrite(out, [["predict", self.model, self.pool, "--split", s, "-o", out] for s in ("oof", "test")], OTHERS)

    def maps(self, folder):
        return {name: self.read(os.path.join(folder, name)) for name in os.listdir(folder)}

    def test_maps(self):
        self.make_maps(8, 40)
        maps = os.path.join(self.out, "maps")
        arguments = ["predict", self.model, self.pool, "--split", "oof", "-o", maps, "--format", "png"]
        last = self.length(arguments)
        wanted = self.maps(maps)
        chosen = random.Random(5)
        for i in self.until_killed(OTHERS):
            shutil.rmtree(maps, ignore_errors=True)
            last *= 1.15 if self.kill(arguments, chosen.uniform(0.3, 1.1) * last) else 0.8
            if os.path.exists(maps):
                self.assertEqual(self.maps(maps), wanted)
            self.look("maps")
        print(f"{i + 1} runs that write maps: {self.kills} killed in time, {self.left} left-over names")


if __name__ == "__main__":
    unittest.main()
