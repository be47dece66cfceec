"""Builds the Python package: CMake compiles libcorestack, which is put beside the modules.

CORESTACK_LIBRARY names a built libcorestack.so, to be bundled. Files of the build go to build-python/, or to the folder that
CORESTACK_BUILD names.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("CORESTACK_BUILD", ROOT / "build-python"))


def version() -> str:
    header = (ROOT / "include/corestack/predict.h").read_text(encoding="utf-8")
    return re.search(r'define CST_VERSION_STRING "(.*)"', header).group(1)


def compile_library() -> Path:
    given = os.environ.get("CORESTACK_LIBRARY")
    if given:
        return Path(given).resolve(strict=True)
    if not shutil.which("cmake"):
        raise SystemExit(
            "corestack is compiled with CMake, which is not installed. On Debian: 'make dependencies', or apt-get "
            "install cmake ninja-build gcc pkgconf libopenblas-dev liblapacke-dev libjansson-dev libzip-dev libpng-dev zlib1g-dev "
            "libyajl-dev librandom123-dev libxxhash-dev"
        )
    folder = BUILD / "cmake"
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release", "-DCST_TESTS=OFF"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True)
    jobs = os.environ.get("JOBS") or str(len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--build", str(folder), "--parallel", jobs, "--target", "corestack_shared"], check=True)
    return folder / "libcorestack.so"


class BuildWithLibrary(build_py):
    """The modules, the library and its declarations."""

    def run(self):
        super().run()
        target = Path(self.build_lib) / "corestack"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(compile_library(), target / "libcorestack.so")
        program = [sys.executable, str(ROOT / "python/declarations.py")]
        subprocess.run([*program, str(ROOT / "include/corestack"), str(target / "_declarations.py")], check=True)


class PlatformWheel(bdist_wheel):
    """One wheel for every Python 3 on this platform: the library does not depend on the interpreter."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


BUILD.mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": str(BUILD)}, "egg_info": {"egg_base": str(BUILD)}},
)
