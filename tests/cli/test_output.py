"""The file behind -o: never an input, all of it or nothing, and of the kind that its name says."""

import ctypes
import os
import shutil
import stat
import struct
import subprocess
import threading
import time
import unittest

import numpy as np

from support import TIMEOUT, TOOL, PoolCase, run


def kernel_tells_mounts():
    """Whether statx says of a path that something is mounted there, as it does since Linux 5.8."""
    answer = ctypes.create_string_buffer(256)
    statx = getattr(ctypes.CDLL(None), "statx", None)
    known = statx is not None and statx(-100, b"/", 0, 0, answer) == 0
    return known and struct.unpack_from("=Q", answer, 56)[0] & 0x2000 != 0  # stx_attributes_mask, STATX_ATTR_MOUNT_ROOT


class NeverAnInput(PoolCase):
    """-o refuses every file that the command reads, by whatever name, and leaves it as it was."""

    def setUp(self):
        super().setUp()
        self.fit()
        self.ids = self.save("ids.npy", np.arange(self.rows))
        self.folds = self.save("folds.npy", (np.arange(self.rows) % 4).astype(np.int32))
        self.groups = self.save("groups.npy", np.arange(self.rows))
        self.manifest["splits"]["oof"].update(ids="ids.npy", folds="folds.npy", groups="groups.npy")
        np.savez(self.path("all.npz"), cyd=self.members["cyd", "oof"])
        self.manifest["models"][2]["predictions"]["oof"] = {"path": "all.npz#cyd", "ids": "cyd_ids.npy"}
        self.save("cyd_ids.npy", np.arange(self.rows))
        self.write_manifest()

    def refuses(self, output, *arguments):
        before = self.read(output) if os.path.exists(output) else None
        self.fails(*arguments, "-o", output, says=["-o", output])
        if before is not None:
            self.assertEqual(self.read(output), before)

    def test_files_of_a_manifest(self):
        names = "pool.json oof_labels.npy ids.npy folds.npy groups.npy ada.oof.npy all.npz cyd_ids.npy"
        for name in (*names.split(), "test_labels.npy", "bob.test.npy"):
            self.refuses(self.path(name), "fit", self.pool)
            self.refuses(self.path(name), "predict", self.model, self.pool)
        self.refuses(self.pool, "fit", self.folder)
        self.refuses(self.path("ada.oof.npy"), "fit", self.folder)
        self.refuses(self.model, "predict", self.model, self.pool)

    def test_files_of_a_folder(self):
        os.remove(self.pool)
        for name in ("all.npz", "cyd_ids.npy"):
            os.remove(self.path(name))
        for name in ("ada.oof.npy", "ada.test.npy", "oof_labels.npy", "folds.npy"):
            self.refuses(self.path(name), "fit", self.folder)

    def test_a_member_of_the_next_time(self):
        """A folder without a manifest is its files: a new one there would change the pool."""
        os.remove(self.pool)
        for name in ("all.npz", "cyd_ids.npy"):
            os.remove(self.path(name))
        for name in ("test_out.npy", "out.oof.csv", "./new.test.npy", "groups.npy", "test.y.csv"):
            self.refuses(os.path.join(self.folder, name), "predict", self.model, self.folder)
        self.fails("predict", self.model, ".", "-o", "out_test.npy", cwd=self.folder,
                   says=["-o out_test.npy", "as part of the pool"])
        fitted = self.works("fit", self.folder, "-o", self.path("other.cstack"), "--json").json()["members"]
        for name in ("out.npy", "out.csv", "testing.npy", "oof.csv"):  # which say no split, as the members do
            self.works("predict", self.model, self.folder, "-o", self.path(name))
        again = self.works("fit", self.folder, "-o", self.path("other.cstack"), "--json").json()["members"]
        self.assertEqual([m["name"] for m in again], [m["name"] for m in fitted])
        plain = self.path("plain")
        os.mkdir(plain)
        for name in ("ada.oof.npy", "bob.oof.npy", "oof_labels.npy"):
            shutil.copy(self.path(name), os.path.join(plain, name.replace(".oof", "").replace("oof_", "")))
        model = self.path("plain.cstack")
        self.works("fit", plain, "-o", model)
        self.fails("predict", model, plain, "-o", os.path.join(plain, "out.npy"), says=["as part of the pool"])
        os.mkdir(self.path("results"))
        self.works("predict", self.model, self.folder, "-o", self.path("results/out.npy"))

    def test_listed_files(self):
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob")]
        options = {"labels": "oof_labels.npy", "ids": "ids.npy", "folds": "folds.npy", "groups": "groups.npy"}
        given = [word for key, name in options.items() for word in (f"--{key}", self.path(name))]
        for output in (*files, *(self.path(name) for name in options.values())):
            self.refuses(output, "fit", *files, *given)
        with_folds = ("folds", "-l", self.path("oof_labels.npy"), "--groups", self.groups)
        self.refuses(self.path("oof_labels.npy"), *with_folds)
        self.refuses(self.groups, *with_folds)

    def test_other_names_of_the_same_file(self):
        link = self.path("link.npy")
        os.symlink("ada.oof.npy", link)
        self.refuses(link, "fit", self.pool)
        os.remove(link)
        os.link(self.path("ada.oof.npy"), link)
        self.refuses(link, "fit", self.pool)
        self.refuses(os.path.join(self.folder, ".", "ada.oof.npy"), "fit", self.pool)
        before = self.read(self.path("ada.oof.npy"))
        self.fails("fit", "pool.json", "-o", "ada.oof.npy", cwd=self.folder, says=["ada.oof.npy"])
        self.fails("fit", self.pool, "-o", "./ada.oof.npy", cwd=self.folder, says=["ada.oof.npy"])
        self.assertEqual(self.read(self.path("ada.oof.npy")), before)

    def test_a_named_file_that_is_not_there_yet(self):
        gone = self.path("bob.test.npy")
        os.remove(gone)
        self.refuses(gone, "fit", self.pool)
        self.refuses(os.path.join(self.folder, ".", "bob.test.npy"), "fit", self.pool)


class WholeOrNothing(PoolCase):
    def test_link(self):
        os.mkdir(self.path("store"))
        target = self.path("store/real.cstack")
        os.symlink("store/real.cstack", self.model)
        self.fails("fit", self.pool, "-o", self.model, says=["model.cstack", "link"])
        with open(target, "wb"):
            pass
        os.chmod(target, 0o640)
        self.fit()
        self.assertTrue(os.path.islink(self.model))
        self.assertFalse(os.path.islink(target))
        self.assertEqual(stat.S_IMODE(os.stat(target).st_mode), 0o640)
        self.assertEqual(os.listdir(self.path("store")), ["real.cstack"])
        self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))

    def test_report_that_cannot_be_printed(self):
        """Nothing is written, or replaced, where standard output fails."""
        self.fit()
        labels = self.path("oof_labels.npy")
        commands = (
            (["fit", self.pool, "-s", "keep.max=1"], "model.cstack"),
            (["predict", self.model, self.pool], "out.npy"),
            (["folds", "-l", labels], "folds.npy"),
        )
        for words, name in commands:
            for older in (False, True):
                output = self.path(name)
                if older and not os.path.exists(output):
                    with open(output, "wb") as file:
                        file.write(b"older")
                elif not older and os.path.exists(output):
                    output = self.path("other.cstack")
                before = self.listing()
                content = self.read(output) if older else None
                with open("/dev/full", "wb") as full:
                    result = run(*words, "-o", output, stdout=full)
                self.assertEqual(result.code, 2)
                self.assertEqual(result.err.count("\n"), 1, result.err)
                self.assertIn("standard output", result.err)
                self.assertEqual(self.listing(), before)
                if older:
                    self.assertEqual(self.read(output), content)

    def test_not_a_file(self):
        for words in (["fit", self.pool], ["predict", "m", self.pool], ["folds", "-l", "y.npy"]):
            self.fails(*words, "-o", "-", says=["-o -", "file"])
            self.fails(*words, "-o", self.path("a"), "--output", self.path("b"), says=["twice", "-o"])
            self.fails(*words, "-o", self.path("a"), "-ob", says=["twice", "-o"])
        self.fails("folds", "-l", "a", "-l", "b", "-o", "c.npy", says=["twice", "--labels"])
        self.fit("--set", "keep.max=2", "--set", "keep.fraction=0")


    def test_standard_output(self):
        """What takes the report takes nothing else, by whatever name."""
        self.fit()
        other = self.path("other")
        for words in (["fit", self.pool, "-q"], ["predict", self.model, self.pool],
                      ["folds", "-l", self.path("oof_labels.npy")]):
            for place in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
                self.fails(*words, "-o", place, says=[f"-o {place}: ", "is written to a file, because the report goes to standard output"])
                with open(other, "wb") as file:
                    result = run(*words, "-o", place, stdout=file)
                self.assertEqual((result.code, result.err.count("\n"), self.read(other)), (2, 1, b""))
            script = 'exec "$@" 3>&1'
            done = subprocess.run(["sh", "-c", script, "sh", TOOL, *words, "-o", "/dev/fd/3"], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"standard output", done.stderr)
        with open(self.path("new.cstack"), "wb") as file:
            result = run("fit", self.pool, "-o", self.path("new.cstack"), stdout=file)
        self.assertEqual((result.code, self.read(self.path("new.cstack"))), (2, b""))
        self.assertIn("new.cstack: the model is written to a file, because the report goes to standard output", result.err)
        self.works("predict", self.model, self.pool, "-o", "/dev/null", stdout=subprocess.DEVNULL)

    def test_names_that_are_too_long(self):
        """They are refused before anything is read."""
        most = os.pathconf(self.folder, "PC_NAME_MAX")
        long = "m" * (most + 1)
        for words in (["fit", "no.json"], ["predict", "no.cstack", "no.json"], ["folds", "-l", "no.npy"]):
            name = long[:-4] + ".npy"
            self.fails(*words, "-o", self.path(name), says=[f"{most + 1} bytes", str(most), name])
        self.works("fit", self.pool, "-o", self.path(long[1:]))


    def test_folders_that_cannot_get_a_name(self):
        """Said before anything is computed."""
        self.make_maps(8, 8)
        os.mkdir(self.path("empty"))
        words = ["predict", self.model, self.pool, "--split", "oof", "--format", "png", "-o"]
        for name in (".", "..", "./", self.path("empty/."), self.path("empty/./"), self.path("empty/..")):
            self.fails(*words, name, cwd=self.path("empty"), says=[f"-o {name}: a folder cannot be renamed to"])

    @unittest.skipIf(subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode
                     if shutil.which("unshare") else True, "needs a namespace of mounts")
    @unittest.skipUnless(kernel_tells_mounts(), "the kernel does not tell what is mounted")
    def test_what_is_mounted(self):
        """A file that is a mount point, as containers do it, cannot be replaced."""
        self.make_maps(8, 8)
        os.mkdir(self.path("maps"))
        with open(self.path("out.npy"), "wb"):
            pass
        for name, more in (("out.npy", []), ("maps", ["--format", "png"])):
            words = ["predict", self.model, self.pool, "--split", "oof", "-o", self.path(name), *more]
            done = subprocess.run(["unshare", "-rm", "sh", "-c", 'mount --bind "$1" "$1" || exit 77; shift; exec "$@"', "sh",
                                   self.path(name), TOOL, *words], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=TIMEOUT, check=False)
            if done.returncode == 77:
                self.skipTest("nothing can be mounted")
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
            self.assertIn(b"is a mount point", done.stderr)


class Permissions(PoolCase):
    """What takes the place of something private is private from its first byte on, and has exactly its permissions at the end."""

    def setUp(self):
        super().setUp()
        mask = os.umask(0o22)
        os.umask(mask)
        self.usual = 0o777 & ~mask

    def news(self):
        return [n for n in self.listing() if ".tmp." in n]

    def while_it_waits(self, *words, files=None):
        """The permissions of the new file, or folder of so many files, while the report waits for a pipe that nobody reads."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writer, True)
        with subprocess.Popen([TOOL, *words], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + TIMEOUT
            mode = None
            while mode is None and process.poll() is None and time.monotonic() < deadline:
                found = self.news()
                if len(found) == 1 and self.is_whole(self.path(found[0]), files):
                    mode = self.mode(found[0])
                else:
                    time.sleep(0.01)
            process.kill()
        os.close(reader)
        os.close(writer)
        for name in self.news():
            shutil.rmtree(self.path(name)) if os.path.isdir(self.path(name)) else os.remove(self.path(name))
        self.assertIsNotNone(mode, "nothing new came")
        return mode

    @staticmethod
    def is_whole(path, files):
        return files is None or sum(".tmp." not in name for name in os.listdir(path)) == files

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path(name)).st_mode)

    def put(self, name, mode):
        with open(self.path(name), "wb") as file:
            file.write(b"older")
        os.chmod(self.path(name), mode)
        return self.path(name)

    def test_files(self):
        self.fit()
        for mode in (0o600, 0o640, 0o666, 0o400):
            out = self.put("out.npy", mode)
            words = ["predict", self.model, self.pool, "-o", out]
            new = self.while_it_waits(*words)
            self.assertEqual(new & 0o077 & ~mode, 0, (oct(mode), oct(new)))
            self.works(*words)
            self.assertEqual(self.mode("out.npy"), mode)
            os.remove(out)
        self.works(*words)
        self.assertEqual(self.mode("out.npy"), self.usual & 0o666)

    def test_several_files(self):
        """One that is private makes no other so."""
        values = [self.save(f"{n}.npy", np.arange(40) + k * np.sin(np.arange(40.0))) for k, n in enumerate("tab")]
        self.works("fit", *values[1:], "--labels", values[0], "--task", "regression", "-o", self.model)
        self.works("predict", self.model, *values[1:], "--labels", values[0], "--task", "regression", "-o", self.put("o.npy", 0o600),
                   "--variance", self.path("v.npy"), "--intervals", self.put("i.npy", 0o646))
        self.assertEqual([self.mode(f"{n}.npy") for n in "ovi"], [0o600, self.usual & 0o666, 0o646])

    def test_default_permissions_of_the_folder(self):
        """What an ACL of the folder gives new files, it gives them beside a private file, too."""
        values = [self.save(f"{n}.npy", np.arange(40) + k * np.sin(np.arange(40.0))) for k, n in enumerate("tab")]
        self.works("fit", *values[1:], "--labels", values[0], "--task", "regression", "-o", self.model)
        entries = ((1, 7), (4, 5), (32, 0))  # rwx for the owner, r-x for the group, nothing for others
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, bits, 0xFFFFFFFF) for tag, bits in entries)
        try:
            os.setxattr(self.folder, "system.posix_acl_default", acl)
        except OSError:
            self.skipTest("the file system has no ACLs")
        self.works("predict", self.model, *values[1:], "--labels", values[0], "--task", "regression", "-o", self.put("o.npy", 0o600),
                   "--variance", self.path("v.npy"))
        self.assertEqual([self.mode(f"{n}.npy") for n in "ov"], [0o600, 0o640])

    def test_folders(self):
        self.make_maps(8, 8)
        words = ["predict", self.model, self.pool, "--split", "oof", "--format", "png", "-o", self.path("maps")]
        for mode in (0o700, 0o750, 0o1777):
            os.mkdir(self.path("maps"))
            os.chmod(self.path("maps"), mode)
            new = self.while_it_waits(*words, files=8)
            self.assertEqual(new & 0o077 & ~mode, 0, (oct(mode), oct(new)))
            self.works(*words)
            self.assertEqual((self.mode("maps"), len(os.listdir(self.path("maps")))), (mode, 8))
            shutil.rmtree(self.path("maps"))
        self.works(*words)
        self.assertEqual(self.mode("maps"), self.usual)


class SeveralOutputs(PoolCase):
    """--variance and --intervals of a regression name outputs as -o does."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(8)
        y = rng.normal(size=80)
        self.labels_file = self.save("y.npy", y)
        self.files = [self.save(f"{name}.npy", (y + share * rng.normal(size=80)).astype(np.float32))
                      for name, share in (("huber", 0.3), ("knn", 0.4), ("lasso", 0.5))]
        self.works("fit", "--task", "regression", "-l", self.labels_file, *self.files, "-o", self.model)
        self.words = ["predict", self.model, *self.files, "--task", "regression", "-l", self.labels_file]
        self.out, self.variance, self.ends = (self.path(n) for n in ("out.npy", "v.npy", "ends.npy"))

    def test_never_an_input(self):
        for name in (*self.files, self.labels_file):
            for option in ("--variance", "--intervals"):
                before = self.read(name)
                self.fails(*self.words, "-o", self.out, option, name, says=[option, name, "an input of the command"])
                self.fails(*self.words, "-o", self.out, option, os.path.join(self.folder, ".", os.path.basename(name)),
                           says=[option, "an input of the command"])
                self.assertEqual(self.read(name), before)

    def test_two_outputs_are_two_files(self):
        again = os.path.join(self.folder, "..", os.path.basename(self.folder), "out.npy")
        for there in (False, True):
            if there:
                self.save("out.npy", np.zeros(3))
                os.symlink("out.npy", self.path("link.npy"))
            for more in (["--variance", self.out], ["--intervals", again], ["--variance", again, "--intervals", self.ends],
                         *([["--variance", self.path("link.npy")]] if there else [])):
                self.fails(*self.words, "-o", self.out, *more, says=["-o " + self.out, more[1], "are the same file"])
            self.fails(*self.words, "-o", self.ends, "--variance", self.out, "--intervals", again, says=["--variance", "are the same file"])

    def test_none_is_replaced_before_the_report_is_out(self):
        names = ("v.npy", "ends.npy", "out.npy")
        given = [*self.words, "-o", self.out, "--variance", self.variance, "--intervals", self.ends]
        for older in (False, True):
            for name in names if older else ():
                with open(self.path(name), "wb") as file:
                    file.write(b"older " + name.encode())
            before = self.listing()
            with open("/dev/full", "wb") as full:
                result = run(*given, stdout=full)
            self.assertEqual((result.code, result.err.count("\n")), (2, 1), result.err)
            self.fails(*given, file_limit=400, says=["failed"])
            self.assertEqual(self.listing(), before)
            for name in names if older else ():
                self.assertEqual(self.read(self.path(name)), b"older " + name.encode())
        self.works(*given)
        self.assertEqual([np.load(self.path(n)).shape for n in names], [(80,), (2, 80, 1), (80,)])

    def test_descriptors(self):
        """Each may be an open descriptor."""
        self.works(*self.words, "-o", self.out, "--variance", self.variance, "--intervals", self.ends)
        script = 'exec "$@" 3>"$OUT/3" 4>"$OUT/4" 5>"$OUT/5"'
        done = subprocess.run(["sh", "-c", script, "sh", TOOL, *self.words, "-o", "/dev/fd/3", "--variance", "/dev/fd/4", "--intervals",
                               "/dev/fd/5"], env={**os.environ, "OUT": self.folder}, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for number, path in (("3", self.out), ("4", self.variance), ("5", self.ends)):
            self.assertEqual(self.read(self.path(number)), self.read(path))
        os.mkfifo(self.path("v.csv"))
        self.fails(*self.words, "-o", self.out, "--variance", self.path("v.csv"), says=["written as .npy"])

    def test_what_cannot_be_written(self):
        """It is said before anything is read, each under the name of its option."""
        words = ["predict", "no.cstack", "no.npy", "no2.npy", "-o", self.out]
        long = "v" * os.pathconf(self.folder, "PC_NAME_MAX") + ".npy"
        for option in ("--variance", "--intervals"):
            self.fails(*words, option, self.path("no/v.npy"), says=[option, "no/v.npy", "cannot use the folder"])
            self.fails(*words, option, self.path(long), says=[option, "bytes", long])
        self.fails(*words, "--intervals", self.ends, "--level", "2", says=["--level"])


class Csv(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit()
        self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))
        self.wanted = np.load(self.path("out.npy"))
        self.out = self.path("out.csv")

    def lines(self):
        with open(self.out, encoding="utf-8") as file:
            return file.read().splitlines()

    def predict(self):
        return self.works("predict", self.model, self.pool, "-o", self.out, "--json").json()

    def scores(self, path, labels):
        document = self.works("evaluate", path, "--labels", labels, "--json").json()
        return [document[key] for key in ("samples", "top1", "nll", "brier")]

    def test_without_names_and_ids(self):
        document = self.predict()
        self.assertEqual((document["out"], document["samples"]), (self.out, self.test_rows))
        lines = self.lines()
        self.assertEqual(lines[0], "class_0,class_1,class_2")
        got = np.array([line.split(",") for line in lines[1:]], np.float32)
        np.testing.assert_array_equal(got, self.wanted)
        labels = self.path("test_labels.npy")
        self.assertEqual(self.scores(self.out, labels), self.scores(self.path("out.npy"), labels))

    def test_names_and_ids(self):
        ids = [f'img "{i}", x' for i in range(self.test_rows)]
        self.save("ids.npy", np.array(ids))
        self.manifest["splits"]["test"]["ids"] = "ids.npy"
        self.manifest["classes"] = ["cat", "7", "dog, wet"]
        self.write_manifest()
        self.fit()
        self.predict()
        lines = self.lines()
        self.assertEqual(lines[0], 'id,cat,7,"dog, wet"')
        self.assertTrue(lines[5].startswith('"img ""4"", x",'), lines[5])
        labels = self.path("labels.csv")
        order = np.random.default_rng(3).permutation(self.test_rows)
        with open(labels, "w", encoding="ascii") as file:
            file.write("id,label\n")
            for i in order:
                name = ids[i].replace('"', '""')
                file.write(f'"{name}",{self.labels["test"][i]}\n')
        self.assertEqual(
            np.round(self.scores(self.out, labels), 9).tolist(),
            np.round(self.scores(self.path("out.npy"), self.path("test_labels.npy")), 9).tolist(),
        )

    def test_two_classes_named_by_numbers(self):
        labels = (np.arange(40) % 2).astype(np.int32)
        p = np.random.default_rng(1).dirichlet([1, 1], 40).astype(np.float32)
        files = [self.save("y.npy", labels), self.save("p.npy", p), self.save("q.npy", p[:, ::-1])]
        model = self.path("two.cstack")
        self.works("fit", "-l", *files, "-o", model)
        self.works("predict", model, *files[1:], "-o", self.out)
        self.assertEqual(self.lines()[0], "class_0,class_1")
        self.assertEqual(self.scores(self.out, files[0])[0], 40)

    def test_other_kinds(self):
        for name in ("out.npz", "out.txt", "out", "csv"):
            self.fails(
                "predict", self.model, self.pool, "-o", self.path(name), says=[name, ".npy", ".csv"]
            )
        labels = self.path("oof_labels.npy")
        self.fails("folds", "-l", labels, "-o", self.path("f.csv"), says=["f.csv", ".npy"])
        self.fails("predict", self.model, self.pool, "-o", self.out, file_limit=1100, says=["out.csv"])

    def test_the_ending_of_a_pipe(self):
        """It says what is written, as that of a file does."""
        os.mkfifo(self.out)
        got = []
        thread = threading.Thread(target=lambda: got.append(self.read(self.out)))
        thread.start()
        self.predict()
        thread.join(TIMEOUT)
        self.assertEqual(got[0].decode().splitlines()[0], "class_0,class_1,class_2")
        os.mkfifo(self.path("pipe.json"))
        self.fails("predict", self.model, self.pool, "-o", self.path("pipe.json"), says=[".json is for detections"])
        self.fails("folds", "-l", self.path("oof_labels.npy"), "-o", self.out, says=["folds are written as .npy"])

    def test_conditions(self):
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.hard.npy", np.stack([self.members[name, "test"]] * 2))
        self.manifest["splits"]["hard"] = {
            "labels": "test_labels.npy", "conditions": [{"severity": 1}, {"severity": 2}]
        }
        for model in self.manifest["models"]:
            model["predictions"]["hard"] = f"{model['name']}.hard.npy"
        self.write_manifest()
        words = ("predict", self.model, self.pool, "--split", "hard", "-o")
        self.fails(*words, self.out, says=["conditions", ".npy"])
        self.works(*words, self.path("hard.npy"))
        got = np.load(self.path("hard.npy"))
        np.testing.assert_array_equal(got, np.stack([self.wanted, self.wanted]))


if __name__ == "__main__":
    unittest.main()
