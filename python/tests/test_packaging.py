"""The wheel: what is in it, the same bytes from two builds, and one clear line where it cannot be built."""
from __future__ import annotations

import email
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from importlib.util import find_spec
from pathlib import Path

from common import ROOT

from corestack import _library

LIBRARY = Path(os.environ.get("CORESTACK_LIBRARY") or Path(_library.__file__).with_name("libcorestack.so"))
BUILD = "from setuptools import build_meta; import sys; print(build_meta.build_wheel(sys.argv[1]))"


def build(folder, **environment):
    """The wheel of the sources with the library that is there already, in a folder of its own."""
    folder.mkdir()
    return subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "CORESTACK_BUILD": str(folder / "build"), **environment},
    )  # fmt: skip


WITHOUT_SKLEARN = """
import sys
sys.modules["sklearn"] = None
import corestack
assert not hasattr(corestack, "CoreStackClassifier") and not hasattr(corestack, "sklearn")
try:
    corestack.CoreStackRegressor
except AttributeError as error:
    assert "pip install scikit-learn" in str(error), error
space = {}
exec("from corestack import *", space)
assert "fit" in space and "CoreStackClassifier" not in space
"""
WITH_SKLEARN = """
import corestack, corestack.pool
assert {"CoreStackClassifier", "CoreStackRegressor", "fit"} <= set(dir(corestack))
assert set(dir(corestack)) == {*corestack.__all__, "sklearn"}, dir(corestack)
for module in (corestack.io, corestack.metrics, corestack.plot, corestack.pool, corestack.sklearn):
    assert dir(module) == sorted(module.__all__), module
assert "check_fit_idempotent" in corestack.sklearn.FEATURE_CHECKS
exec("from corestack import *", space := {})
assert space["CoreStackClassifier"] is corestack.sklearn.CoreStackClassifier
"""


class Namespace(unittest.TestCase):
    def run_program(self, text):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_scikit_learn(self):
        self.run_program(WITHOUT_SKLEARN)

    @unittest.skipIf(find_spec("sklearn") is None, "scikit-learn is not installed")
    def test_with_scikit_learn(self):
        self.run_program(WITH_SKLEARN)


class Packaging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = Path(held.name)
        cls.wheels = []
        for name in ("first", "second"):
            done = build(cls.folder / name, CORESTACK_LIBRARY=str(LIBRARY))
            if done.returncode != 0:
                raise AssertionError(done.stdout + done.stderr)
            cls.wheels += (cls.folder / name).glob("*.whl")

    def test_same_bytes(self):
        first, second = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in self.wheels)
        self.assertEqual(first, second)

    def test_contents(self):
        with zipfile.ZipFile(self.wheels[0]) as wheel:
            names = set(wheel.namelist())
            (about,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
            sources = ROOT / "python"
            expected = {str(path.relative_to(sources)) for path in (sources / "corestack").rglob("*.py")}
            expected |= {"corestack/py.typed", "corestack/libcorestack.so", "corestack/_declarations.py"}
            expected |= {f"{about}/{name}" for name in ("LICENSE", "METADATA", "WHEEL", "RECORD", "top_level.txt")}
            self.assertEqual(names, expected)
            self.assertEqual(wheel.read("corestack/libcorestack.so"), LIBRARY.read_bytes())
            self.assertEqual(wheel.read(f"{about}/LICENSE"), (ROOT / "LICENSE").read_bytes())
            data = email.message_from_bytes(wheel.read(f"{about}/METADATA"))
        self.assertEqual((data["Name"], data["Version"], data["License"]), ("corestack", _library.version, "MIT"))
        self.assertEqual(set(data.get_all("Provides-Extra")), {"sklearn", "progress", "plot", "pandas", "pool", "mpi", "all"})
        self.assertTrue(self.wheels[0].name.endswith("-py3-none-linux_x86_64.whl") or "linux" in self.wheels[0].name)

    @unittest.skipUnless(shutil.which("readelf"), "there is no readelf")
    def test_library_names_no_folder(self):
        out = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertIn("NEEDED", out)
        self.assertNotRegex(out, r"R(UN)?PATH.*\[(?!\$ORIGIN/\.\./corestack\.libs\])")  # what a binary wheel has

    def test_without_cmake(self):
        empty = self.folder / "bin"
        empty.mkdir()
        done = build(self.folder / "third", PATH=str(empty), CORESTACK_LIBRARY="")
        self.assertNotEqual(done.returncode, 0)
        said = done.stderr.strip().splitlines()[-1]
        self.assertIn("compiled with CMake, which is not installed", said)
        for package in ("cmake", "libyajl-dev", "libopenblas-dev"):
            self.assertIn(package, said)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
