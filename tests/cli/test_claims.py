"""Small files that claim much: each is refused from its header, or read within the memory budget.

The largest resident size is what the kernel counted for the process (wait4), beside that of a command that reads nothing.
"""

import io
import json
import os
import signal
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib

import numpy as np

from support import TOOL, PoolCase

MEBIBYTE = 1 << 20
ABOVE = 200 * MEBIBYTE  # what a file of a mebibyte may take beside the process itself
SECONDS = 60  # far above what is needed, for sanitizers and machines under load


def measure(*arguments, env=None):
    """Exit status, stderr and the most resident bytes of the tool."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=errors, env={**os.environ, **(env or {})})
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(SECONDS)
        _, status, usage = os.wait4(process.pid, 0)
        signal.alarm(0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return process.returncode, errors.read().decode(), usage.ru_maxrss * 1024


def npy_header(descr, shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    return file.getvalue()


def zeros(count):
    """Blocks of `count` zero bytes."""
    while count > 0:
        yield bytes(min(count, MEBIBYTE))
        count -= MEBIBYTE


def write_npz(path, descr, shape, name="a.npy"):
    """A deflated array of zeros."""
    size = int(np.prod(shape, dtype=object)) * np.dtype(descr).itemsize
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open(name, "w", force_zip64=True) as member:
            member.write(npy_header(descr, shape))
            for block in zeros(size):
                member.write(block)
    return path


def write_lines(path, name, line, count, first=b""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open(name, "w", force_zip64=True) as member:
            member.write(first)
            each = MEBIBYTE // len(line)
            for _ in range(count // each):
                member.write(line * each)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_png(path, width, height, bits=1, interlaced=False, before=b""):
    """A grey image of zeros; the pixels of an interlaced one need some bytes more, which does not matter here."""
    deflate = zlib.compressobj(9)
    row = 1 + (width * bits + 7) // 8
    data = b"".join(deflate.compress(block) for block in zeros(row * height)) + deflate.flush()
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, int(interlaced))))
        file.write(before + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


class Claims(PoolCase):
    @classmethod
    def setUpClass(cls):
        _, _, cls.base = measure("methods")

    def stays_small(self, *arguments, says=(), code=2, above=ABOVE, env=None):
        found, errors, peak = measure(*arguments, env=env)
        self.assertEqual(found, code, errors)
        self.assertLessEqual(errors.count("\n"), 1, errors)
        for text in says:
            self.assertIn(text, errors)
        if "ASAN_OPTIONS" not in os.environ:
            self.assertLess(peak - self.base, above, errors)

    def every_command(self, says, manifest=True):
        """Fit, inspect and compare read the split "oof", and predict and evaluate a split of a model."""
        if manifest:
            self.write_manifest()
        for words in (("inspect", self.pool), ("fit", self.pool, "-o", self.path("new.cstack")), ("compare", self.pool),
                      ("evaluate", self.model, self.pool, "--split", "oof")):
            with self.subTest(command=words[0]):
                self.stays_small(*words, says=says)

    def test_arrays_beside_the_members(self):
        self.fit()
        rows = 1 << 27
        label = write_npz(self.path("many.npz"), "|u1", (rows,))
        self.assertLess(os.path.getsize(label), MEBIBYTE)
        given = dict(self.manifest["splits"]["oof"])
        for key in ("labels", "folds", "groups", "weights", "ids"):
            self.manifest["splits"]["oof"] = {**given, key: "many.npz"}
            with self.subTest(key=key):
                self.every_command((str(rows), "rows", "many.npz"))

    def test_ids_of_a_member(self):
        write_npz(self.path("many.npz"), "|u1", (1 << 27,))
        np.save(self.path("ids.npy"), np.arange(self.rows))
        self.manifest["splits"]["oof"]["ids"] = "ids.npy"
        self.manifest["models"][0]["predictions"]["oof"] = {"path": "ada.oof.npy", "ids": "many.npz"}
        self.write_manifest()
        self.stays_small("inspect", self.pool, says=("many.npz", "134217728"))

    def test_members(self):
        rows = 1 << 26
        write_npz(self.path("ada.oof.npz"), "|u1", (rows, self.classes))
        self.manifest["models"][0]["predictions"]["oof"] = "ada.oof.npz"
        self.write_manifest()
        self.stays_small("inspect", self.pool, says=("ada.oof.npz", str(rows)))

    def test_targets_of_a_regression(self):
        write_npz(self.path("t.npz"), "<f8", (1 << 26,))
        np.save(self.path("m.npy"), np.zeros(100))
        self.manifest = {"corestack_pool": 1, "task": "regression", "splits": {"oof": {"labels": "t.npz"}},
                         "models": [{"name": "m", "predictions": {"oof": "m.npy"}}]}
        self.write_manifest()
        self.stays_small("inspect", self.pool, says=("t.npz", str(1 << 26)))

    def test_tables_in_archives(self):
        """A table has no header to count by: reading stops where it has far more rows than the others."""
        lines = 1 << 27
        write_lines(self.path("y.npz"), "y.csv", b"1\n", lines)
        given = dict(self.manifest["splits"]["oof"])
        for key in ("labels", "folds", "groups", "weights", "ids"):
            self.manifest["splits"]["oof"] = {**given, key: "y.npz#y.csv"}
            self.write_manifest()
            with self.subTest(key=key):
                self.stays_small("inspect", self.pool, says=("y.npz#y.csv", "more than"))

    def test_masks(self):
        self.make_maps(5, 16)
        self.manifest["splits"]["oof"]["labels"] = "many.npz"
        self.write_manifest()
        write_npz(self.path("many.npz"), "|u1", (1 << 26, 1, 1))  # many cases
        self.stays_small("inspect", self.pool, says=("many.npz", str(1 << 26)))
        write_npz(self.path("many.npz"), "|u1", (5, 1 << 13, 1 << 13))  # large ones
        self.stays_small("inspect", self.pool, says=("8192 x 8192",))

    def make_folders(self):
        """A pool of one case of 16 x 16 pixels in folders; its mask is yet to come."""
        self.make_maps(5, 16)
        os.mkdir(self.path("masks"))
        os.mkdir(self.path("maps"))
        np.save(self.path("maps/x.npy"), np.full((16, 16, 3), 1 / 3, np.float32))
        self.manifest["splits"]["oof"]["labels"] = "masks"
        self.manifest["models"] = [{"name": n, "predictions": {"oof": "maps"}} for n in "ab"]
        self.write_manifest()

    def test_png_masks(self):
        self.make_folders()
        size = 20000
        for bits, interlaced in ((1, False), (1, True), (8, False), (16, True)):
            with self.subTest(bits=bits, interlaced=interlaced):
                write_png(self.path("masks/x.png"), size, size, bits, interlaced)
                self.stays_small("inspect", self.pool, says=("20000 x 20000",))

    def test_label_maps(self):
        """Scored row by row: neither the maps nor what is near their boundaries is in memory as a whole."""
        for name, size in (("maps", 8192), ("masks", 8192), ("others", 4096)):
            os.mkdir(self.path(name))
            write_png(self.path(name + "/x.png"), size, size)
        words = ("evaluate", self.path("maps"), "--task", "segmentation", "--classes", 2, "--memory", "64MiB")
        self.stays_small(*words, "--labels", self.path("masks"), code=0, above=112 * MEBIBYTE)
        self.stays_small(*words, "--labels", self.path("others"), says=("8192 x 8192", "4096 x 4096"), above=16 * MEBIBYTE)
        self.stays_small("evaluate", self.path("maps/x.png"), *words[2:], "--labels", self.path("masks"), says=("a single image",))

    def test_text_chunks_of_png(self):
        self.make_folders()
        deflate = zlib.compressobj(9)  # in blocks: the memory of this process would count as the tool's
        bomb = b"".join(deflate.compress(block) for block in zeros(256 * MEBIBYTE)) + deflate.flush()
        texts = chunk(b"zTXt", b"a\0\0" + bomb) + chunk(b"iTXt", b"a\0\1\0\0\0" + bomb) + chunk(b"iCCP", b"a\0\0" + bomb)
        write_png(self.path("masks/x.png"), 16, 16, 8, before=texts * 3)
        found, errors, peak = measure("inspect", self.pool)
        self.assertIn(found, (0, 2), errors)
        self.assertLess(peak - self.base, ABOVE)

    def test_claims_that_agree(self):
        """Labels, groups and members of as many rows, all from archives of some kilobytes: within the budget."""
        rows = 1 << 23
        write_npz(self.path("y.npz"), "|u1", (rows,))
        write_npz(self.path("m.npz"), "<f4", (rows,))
        self.manifest = {"corestack_pool": 1, "task": "classification", "classes": 2, "output": "probability",
                         "splits": {"oof": {"labels": "y.npz", "groups": "y.npz"}},
                         "models": [{"name": n, "predictions": {"oof": "m.npz"}} for n in "ab"]}
        self.write_manifest()
        self.stays_small("fit", self.pool, "-o", self.path("x"), "--memory", "64MiB", says=("1 group ",),
                         above=136 * MEBIBYTE)

    def test_strings_of_many_characters(self):
        self.manifest["splits"]["oof"]["ids"] = "ids.npz"
        self.write_manifest()
        write_npz(self.path("ids.npz"), "<U262144", (self.rows,))
        self.stays_small("inspect", self.pool, says=("ids.npz", "twice"))

    def test_numbers_of_a_manifest(self):
        for key, value in (("classes", 2**31 - 1), ("classes", 1 << 24), ("outputs", 2**31 - 1)):
            self.manifest.pop("outputs", None)
            self.manifest[key] = value
            self.write_manifest()
            with self.subTest(key=key, value=value):
                self.stays_small("inspect", self.pool)


if __name__ == "__main__":
    unittest.main()
