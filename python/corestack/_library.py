"""The shared library, and its functions, structs and constants as include/corestack declares them.

The declarations are made from the headers when the library is built (python/declarations.py), and lie beside it.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import runpy
from pathlib import Path
from typing import Any, Iterator


def _blas_is_loaded() -> bool:
    """Whether the OpenBLAS that the library names is in the process already, as where NumPy uses the same one."""
    try:
        ctypes.CDLL("libopenblas.so.0", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _blas_without_threads() -> Iterator[None]:
    """OpenBLAS reads the variable when it is loaded. The library wants none of its threads, and where they find no memory
    or cannot be created OpenBLAS waits for good or interrupts the process."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    if _blas_is_loaded():
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _load(path: Path) -> ctypes.CDLL:
    try:
        with _blas_without_threads():
            library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path}: the corestack library cannot be loaded ({error}); build the package with 'pip install .' in its "
            "folder, and check that the libraries it needs are installed (libopenblas0, liblapacke, libjansson4, libzip4, "
            "libpng16-16, zlib1g, libyajl2, libprotobuf-c1)"
        ) from error
    for name, (result, arguments) in _declared["FUNCTIONS"].items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def listed(at: Any, *arguments: Any) -> list[str]:
    """Texts that a function of the library has by number, from 0 to where it has none."""
    found: list[str] = []
    while (text := at(*arguments, len(found))) is not None:
        found.append(text.decode())
    return found


def __getattr__(name: str) -> Any:
    """A struct (PoolConfig), a callback (LOG_FN) or a constant (TASK_DETECTION)."""
    try:
        return _declared[name]
    except KeyError:
        raise AttributeError(name) from None


_PATH = Path(os.environ.get("CORESTACK_LIBRARY") or Path(__file__).with_name("libcorestack.so"))
_DECLARATIONS = [folder / "_declarations.py" for folder in (Path(__file__).parent, _PATH.parent)]
_declared = runpy.run_path(str(next((path for path in _DECLARATIONS if path.exists()), _DECLARATIONS[-1])))
lib = _load(_PATH)
version: str = lib.cst_version().decode()
