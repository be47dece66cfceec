"""Disks that fail: every call of a kind made to fail in turn, for every command that reads or writes (tests/faults/io_fault.c).

Either the result is right to the byte, but for a notice of what could not be looked at, or there is one line, exit 2 or 3,
what was there before, and no temporary file."""

import json
import os
import random
import re
import shutil
import tempfile
import unittest

from support import TOOL, PoolCase, nameless, run

LIBRARY = os.environ["CORESTACK_IO_FAULT"]
LONG = bool(os.environ.get("CORESTACK_LONG"))
EACH = 40 if LONG else 2  # places of each kind of fault in each command

# What may only delay, and what must be said.
HARMLESS = ("open=EINTR", "read=EINTR", "read=short", "write=EINTR", "write=short", "fsync=EINTR", "link=EINTR",
            "rename=EINTR", "make=EINTR", "list=EINTR", "link=EPERM", "close=EIO", "fsync=EINVAL", "fsync=ENOTSUP")
HARMFUL = ("open=EMFILE", "open=EACCES", "read=EIO", "write=ENOSPC", "write=EIO", "fsync=EIO", "rename=EIO", "link=ENOSPC",
           "make=ENOSPC", "list=EIO")

# What is said where the fit's own split, which a score does not need, cannot be read.
UNSEEN = "could not check split 'oof' for rows that the model was fitted on"

# Kinds of calls that every command makes that writes a file; "link" where files without a name are there.
READS = {"open", "read", "close"}
WRITES = READS | {"write", "fsync", "link", "rename"}


def without_seconds(text):
    """What a command printed, without how much time and memory it took."""
    try:
        document = json.loads(text)
    except ValueError:
        return re.sub(r"[0-9.]+ s\b|Seconds:.*", "", text)

    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if "seconds" not in k and k != "peak_rss_bytes"}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(document)


class Faults(PoolCase):
    rows, test_rows = 60, 30
    ran = 0
    refused = 0

    def setUp(self):
        super().setUp()
        self.under = self.folder
        self.scratch = None  # a folder that may be there, for the predictions kept in it
        self.temporary = self.path("temporary")
        self.out = self.path("out")
        os.mkdir(self.temporary)
        os.mkdir(self.out)
        self.fit("--set", "folds.count=2")

    def run_with(self, arguments, fault=None):
        env = {"TMPDIR": self.temporary}
        count = self.path("count")
        if fault:
            asan = os.environ.get("ASAN_OPTIONS", "")
            env.update(LD_PRELOAD=LIBRARY, CST_IO_FAULT=fault, CST_IO_UNDER=self.under, CST_IO_COUNT=count,
                       ASAN_OPTIONS=asan + ":verify_asan_link_order=0")
        result = run(*arguments, env=env)
        calls = int(self.read(count)) if fault else 0
        if os.path.exists(count):
            os.remove(count)
        return result, calls

    def tree(self):
        found = {}
        for folder, _, files in os.walk(self.folder):
            for name in files:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.folder)] = self.read(path)
            found[os.path.relpath(folder, self.folder)] = None
        return found

    def clear(self):
        shutil.rmtree(self.out)
        os.mkdir(self.out)

    def sweep(self, arguments, old=None, kinds=READS, everywhere=()):
        """old: a file that the command replaces. kinds: of calls that it must make. everywhere: faults at every call."""
        def prepare():
            self.clear()
            if self.scratch:
                shutil.rmtree(self.scratch, ignore_errors=True)
            if old:
                with open(old, "wb") as file:
                    file.write(b"before")
            return self.tree()

        prepare()
        good, _ = self.run_with(arguments)
        self.assertEqual(good.code, 0, good.err)
        wanted = self.tree()
        chosen = random.Random(repr(arguments))
        prepare()
        self.assertGreater(self.run_with(arguments, "open=none:0")[1], 0, "the library of faults sees no call")
        counts = {}
        for kind in HARMLESS + HARMFUL:
            call = kind.split("=")[0]
            if call not in counts:
                prepare()
                _, counts[call] = self.run_with(arguments, call + "=none:0")
            calls = counts[call]
            if call in kinds and (call != "link" or nameless(self.out)):
                self.assertGreater(calls, 0, f"{arguments[0]} makes no call of the kind {call}")
            places = sorted({0, calls - 1, *chosen.sample(range(calls), min(calls, EACH))}) if calls else []
            if not LONG:
                places = places[:1] + places[-1:] if kind in HARMFUL else places[:1]
            if kind in everywhere:
                places = range(calls)
            for place in dict.fromkeys(places):
                before = prepare()
                fault = f"{kind}:{place}"
                with self.subTest(command=arguments[0], fault=fault):
                    self.judge(fault, arguments, before, wanted, good)

    def judge(self, fault, arguments, before, wanted, good):
        result, _ = self.run_with(arguments, fault)
        type(self).ran += 1
        if result.code == 0:
            report = without_seconds(result.out)
            if not fault.startswith(HARMLESS) and isinstance(report, dict) and "notices" in report:
                report["notices"] = [notice for notice in report["notices"] if UNSEEN not in notice]
            self.assertEqual(report, without_seconds(good.out))
            self.assertEqual(self.tree(), wanted)
            return
        type(self).refused += 1
        self.assertFalse(fault.startswith(HARMLESS), result.err)
        self.assertIn(result.code, (2, 3), result.err)
        if not fault.startswith("rename"):  # the last one comes after the report
            self.assertEqual(result.out, "")
        self.assertEqual(result.err.count("\n"), 1, result.err)
        self.assertTrue(result.err.startswith("corestack"), result.err)
        self.assertEqual(self.tree(), before)
        if self.scratch and fault.startswith("make"):
            self.assertFalse(os.path.exists(self.scratch), "a work folder in which nothing is kept stays")

    @classmethod
    def tearDownClass(cls):
        print(f"{cls.ran} runs with a fault, {cls.refused} of them refused")

    def test_fit(self):
        model = os.path.join(self.out, "m.cstack")
        self.sweep(["fit", self.pool, "-o", model, "--json", "--set", "folds.count=2"], old=model, kinds=WRITES)

    def test_predict(self):
        for name in ("p.npy", "p.csv"):
            out = os.path.join(self.out, name)
            self.sweep(["predict", self.model, self.pool, "--split", "test", "-o", out], old=out, kinds=WRITES)

    def test_values_and_their_doubt(self):
        """Three files that get their names one after the other: those that are new are taken back."""
        import numpy as np

        rng = np.random.default_rng(6)
        targets = rng.normal(size=60)
        self.save("t.npy", targets)
        files = [self.save(f"{name}.npy", (targets + 0.5 * rng.normal(size=60)).astype(np.float32)) for name in "ab"]
        self.works("fit", "--task", "regression", "-l", self.path("t.npy"), *files, "-o", self.model, "--set", "folds.count=2")
        out, variance, ends = (os.path.join(self.out, name) for name in ("p.npy", "v.npy", "ends.npy"))
        self.sweep(["predict", self.model, *files, "--task", "regression", "-o", out, "--variance", variance, "--intervals",
                    ends], old=out, kinds=WRITES, everywhere=("rename=EIO",))

    def test_evaluate(self):
        self.sweep(["evaluate", self.model, self.pool, "--split", "test", "--json"])

    def test_compare(self):
        self.sweep(["compare", self.pool, "--split", "test", "--methods", "average,best-single", "--json", "--save",
                    os.path.join(self.out, "saved")], kinds=WRITES | {"make"})

    def test_folds(self):
        out = os.path.join(self.out, "f.npy")
        self.sweep(["folds", "-l", self.path("oof_labels.npy"), "--count", "3", "-o", out], old=out, kinds=WRITES)

    def test_archives_and_tables(self):
        import numpy as np

        np.savez_compressed(self.path("ada.oof.npz"), p=self.members["ada", "oof"])
        with open(self.path("bob.oof.csv"), "w", encoding="ascii") as file:
            file.write("p0,p1,p2\n")
            for row in self.members["bob", "oof"]:
                file.write(",".join(f"{x:.9g}" for x in row) + "\n")
        self.manifest["models"][0]["predictions"]["oof"] = "ada.oof.npz"
        self.manifest["models"][1]["predictions"]["oof"] = "bob.oof.csv"
        self.write_manifest()
        self.sweep(["inspect", self.pool, "--json"], everywhere=("open=EINTR", "read=EINTR", "read=short"))

    def test_folders(self):
        """A folder that cannot be read to its end has no less files than it has."""
        import numpy as np

        os.mkdir(self.path("pool"))
        for name in ("ada.oof.npy", "bob.oof.npy", "cyd.oof.npy"):
            os.rename(self.path(name), self.path(f"pool/{name}"))
        inspect = ["inspect", self.path("pool"), "-l", self.path("oof_labels.npy"), "--json"]
        self.sweep(inspect, kinds=READS | {"list"}, everywhere=("list=EIO",))
        self.make_maps(5, 6)
        for name, cases in (("masks", np.load(self.path("masks.npy"))),
                            ("maps", np.load(self.path("a.npy")).transpose(0, 3, 1, 2))):
            os.mkdir(self.path(name))
            for i, case in enumerate(cases):
                self.save(f"{name}/case{i}.npy", case)
        self.sweep(["evaluate", self.path("maps"), "--labels", self.path("masks"), "--task", "segmentation", "--classes", "3",
                    "--json"], kinds=READS | {"list"}, everywhere=("list=EIO",))

    def checkpoints(self):
        import numpy as np

        from test_soup import tensors

        rng = np.random.default_rng(3)
        files = [self.path(f"epoch{i}.safetensors") for i in range(4)]
        for name in files:
            with open(name, "wb") as file:
                file.write(tensors.save([("weight", "F32", (3, 5), rng.normal(size=15).astype("f4").tobytes()),
                                         ("bias", "F32", (3,), rng.normal(size=3).astype("f4").tobytes())]))
        return files

    def test_average_of_checkpoints(self):
        out = os.path.join(self.out, "average.safetensors")
        files = self.checkpoints()
        self.sweep(["swa", *files, "-o", out, "--json"], old=out, kinds=WRITES)
        part = self.path("part.safetensors")
        self.works("swa", *files[:2], "-o", part)
        self.going_on(["swa", *files[2:], "--from", part, "-o", out, "--json"])

    def going_on(self, arguments):
        """The average to go on with is read twice; one failure, of either, ends the command."""
        self.clear()
        good, calls = self.run_with(arguments, "read=none:0")
        wanted = self.tree()
        self.assertGreater(calls, 2)
        for place in range(calls):
            self.clear()
            before = self.tree()
            with self.subTest(place=place):
                self.judge(f"read=EIO:{place}:once", arguments, before, wanted, good)

    def test_soup(self):
        """A greedy soup; the program that is called reads and writes without faults."""
        import numpy as np

        files = self.checkpoints()
        inputs = np.random.default_rng(5).normal(size=(20, 5))
        with open(self.path("x.f64"), "wb") as file:
            file.write(np.array(inputs.shape, np.int64).tobytes() + inputs.tobytes())
        labels = self.save("y.npy", np.arange(20, dtype=np.int32) % 3)
        out = os.path.join(self.out, "soup.safetensors")
        hook = f"env -u LD_PRELOAD {os.path.join(os.path.dirname(TOOL), 'tests', 'linear_hook')} {self.path('x.f64')}"
        self.sweep(["soup", "uniform", *files, "-o", out, "--json"], old=out, kinds=WRITES)
        self.sweep(["soup", "greedy", *files, "--eval", hook, "--labels", labels, "-o", out, "--json"], old=out,
                   kinds=WRITES | {"make", "list"}, everywhere=("make=EINTR", "make=ENOSPC"))

    def test_swag(self):
        out = os.path.join(self.out, "swag.safetensors")
        fit = ["swag", "fit", *self.checkpoints(), "-o", out, "--rank", "2", "--json"]
        self.sweep(fit, old=out, kinds=WRITES)
        self.works(*fit)
        os.rename(out, self.path("swag.safetensors"))
        self.sweep(["swag", "sample", self.path("swag.safetensors"), "-n", "2", "--json", "-o",
                    os.path.join(self.out, "samples")], kinds=WRITES | {"make"})


if __name__ == "__main__":
    unittest.main()
