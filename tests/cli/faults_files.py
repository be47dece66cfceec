"""Real trouble with files: full and closed outputs, pipes, folders, links, limits of the process, files that change while they are read."""

import os
import resource
import shutil
import struct
import subprocess
import threading
import time
import unittest

import numpy as np
from support import TIMEOUT, TOOL, PoolCase, nameless, run

FAULTS = os.environ["CORESTACK_IO_FAULT"]


def limited(kind, value, *arguments, **keywords):
    """Runs the tool under a limit of the process."""
    def limit():
        resource.setrlimit(kind, (value, value))

    return subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, preexec_fn=limit,
                          check=False, **keywords)


def refused_for_descriptors(case, result, command):
    """One line, unless the loader found no library: then the tool cannot say anything."""
    if b"while loading shared libraries" not in result.stderr:
        case.assertIn(result.returncode, (2, 3), result.stderr)
        case.assertRegex(result.stderr, rb"^corestack %s: [^\n]*Too many open files[^\n]*\n$" % command.encode())


class Outputs(PoolCase):
    def test_full_device(self):
        self.fit("--preset", "prototype")
        for command in (["fit", self.pool], ["predict", self.model, self.pool]):
            self.fails(*command, "-o", "/dev/full", says=["/dev/full", "No space"])

    def test_report_to_a_full_device(self):
        with open("/dev/full", "wb") as full:
            result = run("inspect", self.pool, "--json", stdout=full)
        self.assertEqual(result.code, 2)
        self.assertIn("standard output", result.err)

    def test_closed_streams(self):
        for close in ("1", "0", "2"):
            result = subprocess.run(["sh", "-c", f'"$0" "$@" {close}>&-', TOOL, "fit", self.pool, "-o", self.model, "--json"],
                                    stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
            self.assertEqual(result.returncode, 2 if close == "1" else 0, result.stderr)
            self.assertEqual(os.path.exists(self.model), close != "1")
            if close != "1":
                os.remove(self.model)

    def test_reader_that_goes_away(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            result = run("fit", self.pool, "-o", self.model, "--json", stdout=pipe)
        self.assertEqual((result.code, result.err), (0, ""))
        self.assertTrue(os.path.exists(self.model))

    def test_pipe_as_output(self):
        path = self.path("pipe")
        os.mkfifo(path)
        got = []
        thread = threading.Thread(target=lambda: got.append(self.read(path)))
        thread.start()
        self.fit("--preset", "prototype")
        self.works("predict", self.model, self.pool, "-o", path)
        thread.join(TIMEOUT)
        out = self.path("p.npy")
        self.works("predict", self.model, self.pool, "-o", out)
        self.assertEqual(got[0], self.read(out))

    def test_descriptors(self):
        """A path that means an open file is written to, at its place, and never replaced."""
        self.fit("--preset", "prototype", nested=True)
        model = self.read(self.model)
        log = self.path("log")
        os.symlink("/proc/self/fd/3", self.path("link"))
        fit = ["fit", self.pool, "--preset", "prototype", "-q", "-o"]
        for words, place, wanted in ((fit, "/proc/self/fd/3", model), (fit, "/dev/fd/3", model), (fit, self.path("link"), model),
                                     (fit, "/proc/thread-self/fd/3", model)):
            for how in (">>", "1<>"):  # to the end; behind what is read
                with open(log, "wb") as file:
                    file.write(b"precious\n")
                before = self.listing()
                inode = os.stat(log).st_ino
                redirect = '3>>"$1"' if how == ">>" else '3<>"$1"; read -r line <&3'
                done = subprocess.run(["sh", "-c", f'exec {redirect}; shift; exec "$@"', "sh", log, TOOL, *words, place],
                                      stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.read(log), b"precious\n" + wanted, (place, how))
                self.assertEqual((os.stat(log).st_ino, self.listing()), (inode, before))
        with open(log, "wb") as file:
            file.write(b"precious\n")
        with open(log, "ab") as file:
            result = run(*fit, "/proc/self/fd/1", stdout=file)  # where the report goes
        self.assertEqual(result.code, 2, result.err)
        self.assertEqual(self.read(log), b"precious\n")
        self.fails(*fit, "/proc/self/fd/77", says=["/proc/self/fd/77", "descriptor"])

    def prepared(self, prepare, *arguments):
        """The tool after shell commands that know the number its process will have ($$)."""
        with open(self.path("victim.txt"), "w", encoding="ascii") as file:
            file.write("victim")
        return subprocess.run(["sh", "-c", f'{prepare}; exec "$0" "$@"', TOOL, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT, check=False)

    def test_names_that_are_taken(self):
        """What others left beside the output, under the very name that is tried, stays as it is, and another is tried."""
        self.fit("--preset", "prototype")
        self.works("predict", self.model, self.pool, "-o", self.path("wanted.npy"))
        words = ["predict", self.model, self.pool, "-o", "pp.npy"]
        done = self.prepared("for i in $(seq 0 99); do ln -s victim.txt pp.npy.tmp.$$.$i; done", *words)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (2, 1), done.stderr)
        self.assertIn(b"pp.npy: creating a temporary file next to it failed: File exists", done.stderr)
        self.assertFalse(os.path.exists(self.path("pp.npy")))
        done = self.prepared("rm -f pp.npy.tmp.*; ln -s victim.txt pp.npy.tmp.$$.0", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read(self.path("victim.txt")), b"victim")
        self.assertFalse(os.path.islink(self.path("pp.npy")))
        self.assertEqual(self.read(self.path("pp.npy")), self.read(self.path("wanted.npy")))
        self.assertEqual(len([n for n in self.listing() if ".tmp." in n]), 1)

    def test_folders_that_are_taken(self):
        self.make_maps(8, 8)
        words = ["predict", self.model, self.pool, "--split", "oof", "-o", "mo", "--format", "png"]
        done = self.prepared("mkdir mo.tmp.$$.0; echo finished >mo.tmp.$$.0/c.png", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(os.listdir(self.path("mo"))), 8)
        left, = [n for n in self.listing() if n.startswith("mo.")]
        self.assertEqual(os.listdir(self.path(left)), ["c.png"])
        self.assertEqual(self.read(self.path(left + "/c.png")), b"finished\n")

    def test_long_names(self):
        """A name of 250 bytes leaves no room for what temporary names add."""
        for stem in ("m" * 250, "\u00e4" * 125):
            self.works("fit", self.pool, "--preset", "prototype", "-o", self.path(stem))
            self.assertGreater(os.path.getsize(self.path(stem)), 0)
            self.works("fit", self.pool, "--preset", "prototype", "-o", self.path(stem))
            os.remove(self.path(stem))

    def test_places_that_are_none(self):
        os.mkdir(self.path("folder"))
        os.symlink(self.path("nowhere"), self.path("dangling"))
        for name, says in (("folder", "folder"), ("dangling", "link"), ("none/m.cstack", "none"), ("pool.json/m", "folder")):
            self.fails("fit", self.pool, "-o", self.path(name), says=[name.split("/")[0], says])

    def test_folder_that_cannot_be_written(self):
        env = {"LD_PRELOAD": FAULTS, "CST_IO_UNDER": self.path("closed"), "CST_IO_FAULT": "open=EROFS:0",
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        os.mkdir(self.path("closed"))
        self.fails("fit", self.pool, "-o", self.path("closed/m.cstack"), env=env, says=["closed/m.cstack", "Read-only"])
        if os.geteuid() != 0:  # root may write anywhere
            os.chmod(self.path("closed"), 0o555)
            self.fails("fit", self.pool, "-o", self.path("closed/m.cstack"), says=["closed", "Permission"])


class Inputs(PoolCase):
    def test_pipes_and_folders_and_dangling_links(self):
        member = self.path("bob.oof.npy")
        for make, says in ((os.mkfifo, "pipe"), (os.mkdir, "folder"), (lambda p: os.symlink(self.path("gone"), p), "No such file")):
            os.remove(member) if os.path.isfile(member) else None
            make(member)
            self.fit_fails("bob.oof.npy", says)
            os.rmdir(member) if os.path.isdir(member) and not os.path.islink(member) else os.remove(member)

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "AddressSanitizer takes terabytes of addresses")
    def test_little_address_space(self):
        """A limited address space: the usual result, or one line; OpenBLAS by itself would ask for room for ever. What comes
        does not depend on when threads of OpenBLAS start."""
        self.fit("--threads", "2", nested=True)
        wanted = self.read(self.model)
        codes, usual = [], {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        for mebibytes in (150, 200, 260, 300, 400, 400, 400, 1000):
            os.remove(self.model)
            result = limited(resource.RLIMIT_AS, mebibytes << 20, "fit", self.pool, "-o", self.model, "--threads", "2",
                                  env=usual)
            codes.append(result.returncode)
            if result.returncode == 0:
                self.assertEqual(self.read(self.model), wanted)
            else:
                self.assertIn(result.returncode, (2, 3), result.stderr)
                self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)
                self.assertFalse(os.path.exists(self.model))
                with open(self.model, "wb") as file:
                    file.write(wanted)
        self.assertEqual((codes[0], codes[-4:]), (3, [0, 0, 0, 0]), codes)

    def test_few_descriptors(self):
        """An error that says so, or the usual result."""
        self.fit("--preset", "prototype", nested=True)
        wanted = self.read(self.model)
        good = 0
        for most in range(3, 16):
            os.remove(self.model)
            result = limited(resource.RLIMIT_NOFILE, most, "fit", self.pool, "-o", self.model, "--preset", "prototype")
            if result.returncode == 0:
                good += 1
                self.assertEqual(self.read(self.model), wanted)
            else:
                refused_for_descriptors(self, result, "fit")
                self.assertFalse(os.path.exists(self.model))
            with open(self.model, "wb") as file:
                file.write(wanted)
        self.assertGreater(good, 0)


class Changing(PoolCase):
    """Files larger than their share of memory, which are read while the work goes on."""

    rows = 60000
    members = 5

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        labels = np.arange(self.rows, dtype=np.int32) % 20
        self.save("oof_labels.npy", labels)
        models = []
        for k in range(8):
            scores = rng.random((self.rows, 20), dtype=np.float32)
            scores[np.arange(self.rows), labels] += 1
            self.save(f"m{k}.npy", scores / scores.sum(1, keepdims=True))
            models.append({"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}})
        self.manifest.update(classes=20, splits={"oof": {"labels": "oof_labels.npy"}}, models=models)
        self.write_manifest()
        self.arguments = ["inspect", self.pool, "--memory", "64MiB", "--json"]

    def test_few_descriptors(self):
        """More members than descriptors, all kept on disk."""
        for most in (5, 8, 10):
            refused_for_descriptors(self, limited(resource.RLIMIT_NOFILE, most, *self.arguments), "inspect")

    def during(self, change):
        """Starts, changes the files while it works, and tells how it ended."""
        process = subprocess.Popen([TOOL, *self.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        # Each is opened for its shape before; then all are, for their numbers.
        members = {os.path.realpath(self.path(f"m{k}.npy")) for k in range(8)}
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if members <= {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")}:
                    break
            except OSError:
                pass
        change()
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, out, err.decode()

    def test_shrinks(self):
        def shrink():
            os.truncate(self.path("m0.npy"), 4096)

        code, _, err = self.during(shrink)
        self.assertEqual(code, 2, err)
        self.assertIn("m0.npy", err)
        self.assertIn("did it change", err)
        self.assertEqual(err.count("\n"), 1)

    def test_replaced_and_removed(self):
        """What is open stays what it was."""
        wanted = self.works(*self.arguments).json()

        def replace():
            os.replace(self.path("m1.npy"), self.path("m0.npy"))
            for k in range(2, 8):
                os.remove(self.path(f"m{k}.npy"))

        code, out, err = self.during(replace)
        self.assertEqual(code, 0, err)
        import json

        self.assertEqual(json.loads(out)["cka"], wanted["cka"])

    def test_no_room_for_temporary_files(self):
        columns = np.load(self.path("m0.npy"))
        for k in range(8):
            self.save(f"m{k}.npy", np.asfortranarray(columns))
        for folder in ("/nonexistent", self.pool):
            self.fails(*self.arguments, env={"TMPDIR": folder}, says=["TMPDIR"])
        env = {"LD_PRELOAD": FAULTS, "CST_IO_UNDER": self.path("temporary"), "CST_IO_FAULT": "reserve=ENOSPC:1",
               "TMPDIR": self.path("temporary"), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        os.mkdir(self.path("temporary"))
        self.fails(*self.arguments, env=env, says=["TMPDIR", "No space"])
        self.assertEqual(os.listdir(self.path("temporary")), [])
        self.fails(*self.arguments, file_limit=1 << 20, says=["TMPDIR"])
        if nameless(self.path("temporary")):  # there is no moment at which a file has a name
            self.works(*self.arguments, env={**env, "CST_IO_FAULT": "remove=kill:0"})
        self.works(*self.arguments, env={**env, "CST_IO_FAULT": "open=ENOTSUP:0:once"})
        self.assertEqual(os.listdir(self.path("temporary")), [])
        # A signal while a file is made that needs a name.
        self.works(*self.arguments, env={**env, "CST_IO_FAULT": "open=EINTR:0", "CST_IO_NAMED": "1"})

    def test_no_room_for_a_model(self):
        size = 20 << 20
        model = self.path("large.cstack")
        with open(model, "wb") as file:
            file.write(b"\x89CST\r\n\x1a\n" + struct.pack("<IIQ", 1, 5, size))
            file.truncate(size)
        self.fails("predict", model, self.pool, "-o", self.path("p.npy"), "--memory", "64MiB", env={"TMPDIR": "/nonexistent"},
                   says=["/nonexistent", "TMPDIR"])


if __name__ == "__main__":
    unittest.main()
