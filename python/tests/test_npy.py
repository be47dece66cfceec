"""npy files in place of arrays: read as NumPy reads them, without a mapping, and refused in one line where they are anything else."""
from __future__ import annotations

import io
import os
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
from common import QUICK, Folder, toy

import corestack
from corestack import _npy

# What shrinks a file while a fit holds it: a page of a mapping would be gone, and with it the process.
SHRINKS = """
import os, sys, numpy, corestack
p = numpy.random.default_rng(0).dirichlet([1, 1, 1], 4000).astype("f4")
numpy.save("big.npy", p)
class Y:
    def __array__(self, dtype=None):
        os.truncate("big.npy", 0)
        return numpy.arange(4000) % 3
    def __len__(self):
        return 4000
corestack.fit({"a": "big.npy", "b": p[::-1]}, Y(), evaluate_nested=False)
"""


def encoded(header, data=bytes(32), version=1):
    text = header if isinstance(header, bytes) else header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


class Reading(Folder):
    def test_as_numpy_reads_it(self):
        random = np.random.default_rng(0)
        numbers = random.normal(size=(3, 4, 5))
        arrays = [numbers.astype(kind) for kind in ("<f2", "<f4", "<f8", ">f4", "i1", ">i8", "u2", "?", "<c8", np.longdouble)]
        arrays += [np.array([["a", "bcd"]]), np.array([b"xyz", b""]), np.array(3.5), np.zeros((0, 3)), np.array([], "U4")]
        arrays += [np.asfortranarray(numbers), np.asfortranarray(numbers[0]), numbers[:, 0, 0]]
        path = self.path / "a.npy"
        for array in arrays:
            for version in ((1, 0), (2, 0), (3, 0)):
                with open(path, "wb") as file:
                    np.lib.format.write_array(file, array, version)
                found, expected = _npy.read(path), np.load(path)
                self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
                self.assertEqual(found.flags.f_contiguous, expected.flags.f_contiguous)
                self.assertTrue(found.flags.aligned and found.flags.writeable)
                np.testing.assert_array_equal(found, expected)
        path.write_bytes(encoded('{"shape":( 2L,4 ),"descr" : "<f4","fortran_order":False }  \n'))  # as others write it
        np.testing.assert_array_equal(_npy.read(path), np.zeros((2, 4), "f4"))

    def refused(self, data, text, error=corestack.FormatError):
        path = self.path / "h.npy"
        path.write_bytes(data)
        with self.assertRaisesRegex(error, text) as caught:
            corestack.fit({"a": path, "b": path}, [0, 1, 0, 1])
        message = str(caught.exception)
        self.assertTrue(message.startswith(f"{path}: ") and message.isprintable(), message)

    def test_headers(self):
        self.refused(b"", "the file is empty")
        self.refused(b"\x93NUMPX" + bytes(20), "not an npy file")
        self.refused(b"\x93NUMPY\x04\x00" + bytes(20), "not an npy file")
        self.refused(b"\x93NUMPY\x02\x00" + b"\xff" * 30, "the limit is 65536", corestack.LimitError)
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': "
        for header in (
            head + "(4, 2), ", head + "(-4, 2)}", head + "[4, 2]}", head + "(4 2)}", head + "(4,,2)}", head + "(8)}",
            head + "(" + "9" * 30 + ",)}", head + "(4, 2), 'shape': (4, 2)}", head + "(4, 2), 'more': 1}", head[:-10] + "}",
            head + "(4, 2)} + {}", "(" * 5000, "-" * 60000, "{" * 3000, "", "{}", head.replace("False", "0") + "(4, 2)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (8,)}",
        ):  # fmt: skip
            self.refused(encoded(header), "bad npy header")
        self.refused(encoded(head + "(" + "1, " * 9 + ")}"), "has 9 dimensions")
        for kind in ("O", "|O", "x9", "<f3", "<f4x", "M8[ns]", "V4", "", "<U0", "<U1048577", "f", "\x1b[31m", "\u00e9"):
            self.refused(encoded(head.replace("<f4", kind) + "(4, 2)}"), "dtype .* is not supported")
        for shape in ("4, 3", "2305843009213693952, 2", "4611686018427387904, 4"):
            self.refused(encoded(head + f"({shape})}}"), "truncated: .* needs")
        self.refused(encoded(head + "(4, 1)}"), "needs 16 bytes after the header, but 32 were found")
        self.refused(encoded(head + "(0, 9223372036854775807, 9223372036854775807)}", b""), "impossible array")

    def test_files_that_end_early(self):
        whole = io.BytesIO()
        np.save(whole, np.full((4, 2), 0.5, "f4"))
        for length in range(len(whole.getvalue())):
            self.refused(whole.getvalue()[:length], "empty|truncated")

    def test_what_is_no_file(self):
        _, y = toy()
        pipe, link = self.path / "pipe.npy", self.path / "link.npy"
        os.mkfifo(pipe)  # that nobody writes to
        link.symlink_to(pipe)
        for path, text in ((pipe, "a device or pipe"), (link, "a device or pipe"), ("/dev/zero", "a device or pipe"),
                           (self.path, "directory"), (self.path / "none.npy", "No such file")):  # fmt: skip
            for call in (lambda: corestack.fit({"a": path}, y), lambda: corestack.fit(toy()[0], path),
                         lambda: corestack.metrics.nll(toy()[0]["model0"], path)):  # fmt: skip
                with self.assertRaisesRegex(corestack.FileError, text):
                    call()

    def test_a_file_that_shrinks(self):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", SHRINKS], capture_output=True, text=True, cwd=self.path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # it was read by then
        path = self.path / "a.npy"
        np.save(path, np.zeros((100, 3)))
        empty = np.empty

        def shrink(*arguments):
            os.truncate(path, 300)
            return empty(*arguments)

        with mock.patch.object(np, "empty", shrink), self.assertRaisesRegex(corestack.FileError, "a.npy: ends after 300 .*change"):
            _npy.read(path)

    def test_a_file_that_is_written_over(self):
        """As many bytes as before, but others, between the header and the numbers."""
        path = self.path / "a.npy"
        np.save(path, np.zeros((100, 3)))
        os.utime(path, (1_000_000_000, 1_000_000_000))
        empty = np.empty

        def write(*arguments):
            with open(path, "r+b") as file:
                file.seek(1000)
                file.write(b"\x01" * 100)
            return empty(*arguments)

        with mock.patch.object(np, "empty", write), self.assertRaisesRegex(corestack.FileError, "a.npy: .* changed while"):
            _npy.read(path)
        self.assertEqual(_npy.read(path).shape, (100, 3))

    def test_no_memory(self):
        path = self.path / "a.npy"
        np.save(path, np.zeros((100, 3)))
        with mock.patch.object(np, "empty", side_effect=MemoryError):
            with self.assertRaisesRegex(corestack.OutOfMemoryError, "a.npy: .* 2400 bytes; give the path of a pool"):
                _npy.read(path)

    def test_members_without_use(self):
        preds, y = toy()
        stack = corestack.fit(preds, y, options={"keep.max": 1}, **QUICK)
        (kept,) = stack.kept
        paths = {name: self.path / f"{name}.npy" for name in preds}
        np.save(paths[kept], preds[kept])  # alone: files of the others are not even there
        with mock.patch.object(_npy, "read", wraps=_npy.read) as read:
            np.testing.assert_array_equal(stack.predict(paths), stack.predict(preds))
        read.assert_called_once_with(paths[kept])
        self.assertEqual(stack.evaluate(paths, y)["nll"], stack.evaluate(preds, y)["nll"])
        del paths[kept]
        with self.assertRaisesRegex(corestack.FileError, "No such file"):
            stack.predict({f"{name} of another": path for name, path in paths.items()})

    def test_shapes_are_compared_as_files_are_read(self):
        preds, y = toy()
        paths = {name: self.path / f"{name}.npy" for name in preds}
        first, second, third, _ = preds
        for name, rows in ((first, 240), (second, 239), (third, 240)):
            np.save(paths[name], preds[name][:rows])
        with mock.patch.object(_npy, "read", wraps=_npy.read) as read:
            with self.assertRaisesRegex(corestack.MismatchError, rf"{second}: shape \(239, 3\) does not match .* of {first}"):
                corestack.fit(paths, y, **QUICK)
        self.assertEqual(read.call_count, 2)

    def test_pieces(self):
        preds, y = toy()
        for name, p in preds.items():
            np.save(self.path / f"{name}.npy", p)
        np.save(self.path / "y.npy", y)
        paths = {name: self.path / f"{name}.npy" for name in preds}
        with mock.patch.object(_npy, "_PIECE", 100):
            stack = corestack.fit(paths, str(self.path / "y.npy"), **QUICK)
        self.assertEqual(stack.to_bytes(), corestack.fit(preds, y, **QUICK).to_bytes())


if __name__ == "__main__":
    unittest.main()
