"""Safetensors files from Python, against a reader and writer of their own; tensors of PyTorch as predictions."""
from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from common import ROOT, digits, needs_tool, run_tool, small_digits, toy

import corestack
from corestack import _library, io

try:
    import torch
except ImportError:
    torch = None

spec = importlib.util.spec_from_file_location("safetensors_format", ROOT / "tests/oracles/safetensors_format.py")
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)
FIXTURES = ROOT / "tests/data/safetensors"

needs_torch = unittest.skipUnless(torch, "PyTorch is not installed")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "a.safetensors"


class Reading(Case):
    def test_every_type(self):
        path = FIXTURES / "ok_types.safetensors"
        wanted, metadata = oracle.load(path.read_bytes())
        for mmap in (False, True):
            found = io.read_safetensors(path, mmap=mmap)
            self.assertEqual(list(found), list(wanted))
            for name, (dtype, shape, raw) in wanted.items():
                kind = np.float32 if dtype == "BF16" else np.dtype(oracle.NUMPY[dtype])
                self.assertEqual((found[name].dtype, found[name].shape), (kind, shape))
                values = oracle.numbers(dtype, raw).reshape(shape)
                np.testing.assert_array_equal(found[name].astype(np.float64), values)
        wide = io.read_safetensors(path, dtype=np.float64)
        for name, (dtype, shape, raw) in wanted.items():
            np.testing.assert_array_equal(wide[name], oracle.numbers(dtype, raw).reshape(shape))
        stored = io.read_safetensors(path, ["t.BF16"], dtype="stored")
        self.assertEqual(stored["t.BF16"].tobytes(), wanted["t.BF16"][2])
        self.assertEqual(io.safetensors_metadata(path), metadata)

    def test_odd_names_and_shapes(self):
        wanted, _ = oracle.load((FIXTURES / "ok_given.safetensors").read_bytes())
        found = io.read_safetensors(FIXTURES / "ok_given.safetensors", mmap=True)
        self.assertEqual({n: (a.shape, a.tobytes()) for n, a in found.items()}, {n: (s, r) for n, (_, s, r) in wanted.items()})

    def test_types_that_numpy_has_not(self):
        path = FIXTURES / "ok_listed.safetensors"
        with self.assertRaisesRegex(corestack.UnsupportedError, "F8_E4M3"):
            io.read_safetensors(path, ["F8_E4M3"])
        stored = io.read_safetensors(path, dtype="stored")
        self.assertEqual(stored["F8_E4M3"].tolist(), [0, 1, 2, 3])
        self.assertEqual(stored["F4"].tolist(), [0, 1, 2])
        self.assertEqual(stored["C64"].dtype, np.complex64)

    def test_a_map_outlives_its_file(self):
        io.write_safetensors(self.path, {"a": np.arange(5.0)})
        array = io.read_safetensors(self.path, mmap=True)["a"][1:]
        gc.collect()
        os.unlink(self.path)
        self.assertEqual(array.tolist(), [1, 2, 3, 4])
        with self.assertRaises(ValueError):
            array[0] = 7

    def test_errors(self):
        with self.assertRaisesRegex(corestack.FileError, "none.safetensors"):
            io.read_safetensors(self.folder / "none.safetensors")
        for name in ("name_twice", "hole", "trailing", "shape_overflow"):
            with self.assertRaisesRegex(corestack.FormatError, f"bad_{name}.safetensors"):
                io.read_safetensors(FIXTURES / f"bad_{name}.safetensors")
        path = FIXTURES / "ok_types.safetensors"
        with self.assertRaisesRegex(corestack.InputError, "no tensor 'x'; it holds t.U64, .*, ..."):
            io.read_safetensors(path, ["x"])
        with self.assertRaises(corestack.ArgumentError):
            io.read_safetensors(path, ["t.F32\0"])
        with self.assertRaises(corestack.ArgumentError):
            io.read_safetensors(path, "t.F32")
        with self.assertRaises(corestack.ArgumentError):
            io.read_safetensors(path, dtype=np.int32)


class Writing(Case):
    def test_the_same_bytes_as_another_writer(self):
        random = np.random.default_rng(1)
        arrays = {f"t{k}": random.normal(size=(3, 5, 2)).astype(kind) for k, kind in enumerate(["f4", "f2", "f8"])}
        arrays["int"] = random.integers(-9, 9, (4,))
        arrays["flag"] = np.array([[True], [False]])
        arrays["none"] = np.zeros((0, 3), np.uint8)
        arrays["\u00e9"] = np.float32(2.5)
        metadata = {"format": "np", "q": '"\\'}
        kinds = {np.dtype(kind): name for name, kind, _ in oracle.TYPES if kind}
        tensors = [(n, kinds[np.asarray(a).dtype], np.shape(a), np.asarray(a).tobytes()) for n, a in arrays.items()]
        wanted = oracle.save(tensors, metadata)
        io.write_safetensors(self.path, arrays, metadata)
        self.assertEqual(self.path.read_bytes(), wanted)
        # Whatever the layout in memory is.
        turned = {n: np.asfortranarray(a) if np.ndim(a) else a for n, a in arrays.items()}
        turned["t0"] = arrays["t0"].astype(">f4")
        turned["int"] = np.repeat(arrays["int"], 2)[::2]
        io.write_safetensors(self.path, turned, metadata)
        self.assertEqual(self.path.read_bytes(), wanted)

    def test_read_in_pieces(self):
        arrays = {"a": np.arange(100.0), "b": np.arange(33, dtype=np.float32), "c": np.zeros((0, 3))}
        io.write_safetensors(self.path, arrays)
        with mock.patch.object(io, "_PIECE", 64):
            for name, found in io.read_safetensors(self.path).items():
                np.testing.assert_array_equal(found, arrays[name])
            for name, found in io.read_safetensors(self.path, dtype="float32").items():
                np.testing.assert_array_equal(found, arrays[name].astype(np.float32))

    def test_errors_leave_what_was_there(self):
        io.write_safetensors(self.path, {"a": np.arange(3)})
        before = self.path.read_bytes()
        for arrays, metadata, kind in (
            ({"a": np.array(["text"])}, None, TypeError),
            ({"a": np.array([{}])}, None, TypeError),
            ({"__metadata__": np.zeros(2)}, None, ValueError),
            ({"a\0": np.zeros(2)}, None, ValueError),
            ({"\ud800": np.zeros(2)}, None, ValueError),
            ({"a": np.zeros(2)}, {"k": 1}, ValueError),
        ):
            with self.assertRaises(kind) as raised:
                io.write_safetensors(self.path, arrays, metadata)
            self.assertIsInstance(raised.exception, corestack.Error)
        with self.assertRaisesRegex(corestack.ArgumentError, "is not a file"):
            io.write_safetensors(self.folder, {})
        self.assertEqual(self.path.read_bytes(), before)
        self.assertEqual(os.listdir(self.folder), ["a.safetensors"])


class Pools(Case):
    def test_tensors_are_arrays(self):
        preds, y = toy()
        wanted = corestack.fit(preds, y, evaluate_nested=False).to_bytes()
        io.write_safetensors(self.path, {**preds, "y": y})
        given = {name: f"{self.path}#{name}" for name in preds}
        self.assertEqual(corestack.fit(given, f"{self.path}#y", evaluate_nested=False).to_bytes(), wanted)
        found = io.read_safetensors(self.path, preds, mmap=True)
        self.assertEqual(corestack.fit(found, y, evaluate_nested=False).to_bytes(), wanted)
        with self.assertRaisesRegex(corestack.InputError, "choose one with FILE.safetensors#NAME"):
            corestack.fit({"a": self.path}, y)

    @needs_tool
    def test_the_tool_gives_the_same(self):
        _, oof, _, y, _, _ = digits(small_digits())
        io.write_safetensors(self.path, {**oof, "y": y})
        model = self.folder / "m.cstack"
        files = [f"{self.path}#{name}" for name in oof]
        run_tool("fit", "--labels", f"{self.path}#y", *files, "-o", model, "--set", "evaluate.nested=false")
        self.assertEqual(corestack.fit(oof, y, evaluate_nested=False).to_bytes(), model.read_bytes())


@needs_torch
class Torch(Case):
    def test_tensors_of_a_dict(self):
        preds, y = toy()
        wanted = corestack.fit(preds, y, evaluate_nested=False)
        tensors = {name: torch.from_numpy(p) for name, p in preds.items()}
        for given in (
            tensors,
            {name: p.clone().requires_grad_() for name, p in tensors.items()},
            {name: torch.from_numpy(np.ascontiguousarray(p.T)).T for name, p in preds.items()},
            {name: t.detach().float().cpu().numpy() for name, t in tensors.items()},
        ):
            stack = corestack.fit(given, torch.from_numpy(y), evaluate_nested=False)
            self.assertEqual(stack.to_bytes(), wanted.to_bytes())
            np.testing.assert_array_equal(stack.predict(given), wanted.predict(preds))
        listed = corestack.fit(torch.stack(list(tensors.values())), y, names=list(preds), evaluate_nested=False)
        self.assertEqual(listed.to_bytes(), wanted.to_bytes())

    def test_nothing_is_copied(self):
        from corestack import _convert

        tensor = torch.rand(5, 3)
        self.assertEqual(_convert.plain(tensor, "t").ctypes.data, tensor.data_ptr())
        self.assertEqual(_convert.plain(tensor.requires_grad_(), "t").ctypes.data, tensor.data_ptr())

    def test_bfloat16_logits(self):
        preds, y = toy()
        logits = {name: torch.from_numpy(np.log(p)).bfloat16() for name, p in preds.items()}
        wanted = corestack.fit({n: t.float().numpy() for n, t in logits.items()}, y, output="logit", evaluate_nested=False)
        found = corestack.fit(logits, y, output="logit", evaluate_nested=False)
        self.assertEqual(found.to_bytes(), wanted.to_bytes())
        io.write_safetensors(self.path, logits)
        stored = io.read_safetensors(self.path, dtype="stored")
        for name, tensor in logits.items():
            np.testing.assert_array_equal(stored[name].view(np.int16), tensor.view(torch.int16).numpy())
        again = corestack.fit({n: f"{self.path}#{n}" for n in logits}, y, output="logit", evaluate_nested=False)
        self.assertEqual(again.to_bytes(), wanted.to_bytes())

    def test_tensors_that_are_no_arrays(self):
        _, y = toy()
        with self.assertRaisesRegex(corestack.ArrayTypeError, r"'?a'?: is a tensor on device 'meta'.*\.cpu\(\)"):
            corestack.fit({"a": torch.empty(len(y), 3, device="meta")}, y)
        with self.assertRaisesRegex(corestack.ArrayTypeError, "a: cannot be used as an array"):
            corestack.fit({"a": torch.eye(3).to_sparse()}, y)

    def test_dlpack_alone(self):
        class Other:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, stream=None):
                return self.tensor.__dlpack__()

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        preds, y = toy()
        wanted = corestack.fit(preds, y, evaluate_nested=False).to_bytes()
        given = {name: Other(torch.from_numpy(p)) for name, p in preds.items()}
        self.assertEqual(corestack.fit(given, y, evaluate_nested=False).to_bytes(), wanted)


class Averages(Case):
    """Files that the library makes of checkpoints, read by both readers."""

    def test_written_as_the_reference_lays_it_out(self):
        series = ROOT / "tests/data/weight_space"
        paths = [os.fsencode(series / f"step{k}.safetensors") for k in range(6)]
        lib = ctypes.CDLL(_library.lib._name)  # of its own: the package does not bind these
        context = ctypes.c_void_p()
        self.assertEqual(lib.cst_context_create(ctypes.byref(context)), 0)
        self.addCleanup(lib.cst_context_free, context)
        status = lib.cst_swa_average(context, (ctypes.c_char_p * 6)(*paths), 6, None, os.fsencode(self.path))
        self.assertEqual(status, 0)
        content = self.path.read_bytes()
        tensors, metadata = oracle.load(content)
        rows = [(name, dtype, shape, raw) for name, (dtype, shape, raw) in tensors.items()]
        self.assertEqual(oracle.save(rows[::-1], metadata), content)
        self.assertEqual(metadata, {"format": "pt", "corestack.kind": "swa", "corestack.swa.count": "6"})
        wanted, _ = oracle.load((series / "swa6.safetensors").read_bytes())
        found = io.read_safetensors(self.path, dtype=np.float64)
        self.assertEqual(list(found), list(wanted))
        for name, (dtype, shape, raw) in wanted.items():
            np.testing.assert_allclose(found[name], oracle.numbers(dtype, raw).reshape(shape), rtol=1e-7)
            np.testing.assert_array_equal(found[name], oracle.numbers(dtype, tensors[name][2]).reshape(shape))


if __name__ == "__main__":
    unittest.main()
