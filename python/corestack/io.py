"""Files of tensors and tables: safetensors (docs/weights.md#safetensors-files); parquet and feather.

>>> weights = corestack.io.read_safetensors("model.safetensors")           # a dict of arrays
>>> corestack.io.write_safetensors("preds.safetensors", {"resnet50": p})   # then fit("preds.safetensors#resnet50", ...)
"""
from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from os import fspath
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _library as c
from . import _values
from ._convert import as_array, is_bfloat16, on_cpu
from ._errors import ArgumentError, ArrayTypeError, FileError, FormatError, InputError, UnsupportedError
from ._session import Owner, Session
from ._types import Array, Path

__all__ = ["read_safetensors", "read_table", "safetensors_metadata", "write_safetensors"]


def __dir__() -> list[str]:
    return __all__


# Types that NumPy has; BF16 and the floats of fewer bits are others.
_NATIVE = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
    "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8",
}  # fmt: skip
_NUMBERS = {c.lib.cst_dtype_name(number).decode(): number for number in range(64) if c.lib.cst_dtype_name(number)}
_OF_NUMPY = {np.dtype(kind): _NUMBERS[name] for name, kind in _NATIVE.items()}
_PIECE = 1 << 24  # bytes read at a time
_SHOWN = 8  # names in a message


class _File(Owner):
    """An open file and its session; both are closed when nothing looks at them any more."""

    def __init__(self, path: Path) -> None:
        place = _values.path(path)
        self.path = fspath(path)
        self.session = Session(interrupts=False)
        self.pointer = self._hold(self.session, lambda s: s.make(c.lib.cst_safetensors_close, c.lib.cst_safetensors_open, place))

    def names(self) -> list[str]:
        return c.listed(c.lib.cst_safetensors_name, self.pointer)

    def find(self, name: str) -> int:
        found: int = c.lib.cst_safetensors_find(self.pointer, _values.text(name, "names"))
        if found < 0:
            names = self.names()
            more = ", ..." if len(names) > _SHOWN else ""
            raise InputError(f"{self.path}: has no tensor '{name}'; it holds {', '.join(names[:_SHOWN])}{more}")
        return found

    def dtype(self, tensor: int) -> str:
        name: bytes = c.lib.cst_dtype_name(c.lib.cst_safetensors_dtype(self.pointer, tensor))
        return name.decode()

    def shape(self, tensor: int) -> tuple[int, ...]:
        axes = ctypes.c_int32()
        lengths = c.lib.cst_safetensors_shape(self.pointer, tensor, ctypes.byref(axes))
        return tuple(lengths[a] for a in range(axes.value))

    def stored(self, tensor: int, mmap: bool) -> Array:
        """The tensor as it is in the file, or mapped."""
        name = self.dtype(tensor)
        shape: tuple[int, ...] = self.shape(tensor)
        kind = _NATIVE.get(name)
        if kind is None:  # bits of a type that NumPy lacks
            bits = c.lib.cst_dtype_bits(_NUMBERS[name])
            kind = "<u2" if bits == 16 else "u1"
            shape = shape if bits >= 8 else (c.lib.cst_safetensors_bytes(self.pointer, tensor),)
        size = c.lib.cst_safetensors_bytes(self.pointer, tensor)
        if mmap and size > 0 and name != "BOOL":  # the bytes of BOOL are checked
            at = ctypes.c_void_p()
            self.session.check(c.lib.cst_safetensors_map(self.session.context, self.pointer, tensor, ctypes.byref(at)))
            memory: Any = (ctypes.c_ubyte * size).from_address(at.value or 0)
            memory.file = self  # the mapping lives as long as an array that looks at it
            mapped: Array = np.frombuffer(memory, kind).reshape(shape)
            mapped.flags.writeable = False
            return mapped
        out: Array = np.empty(shape, kind)
        self._fill(c.lib.cst_safetensors_read, tensor, out.ctypes.data, size, 1)
        return out

    def converted(self, tensor: int, dtype: "np.dtype[Any]") -> Array:
        out: Array = np.empty(self.shape(tensor), dtype)
        read = c.lib.cst_safetensors_read_f32 if dtype == np.float32 else c.lib.cst_safetensors_read_f64
        self._fill(read, tensor, out.ctypes.data, out.size, out.itemsize)
        return out

    def _fill(self, read: Any, tensor: int, address: int, count: int, item: int) -> None:
        """Reads `count` bytes or elements of `item` bytes in pieces, between which handlers of signals run."""
        step = _PIECE // item
        for first in range(0, count, step):
            part = min(step, count - first)
            self.session.check(read(self.session.context, self.pointer, tensor, first, part, address + first * item))

    def read(self, tensor: int, dtype: Optional["np.dtype[Any]"], stored: bool, mmap: bool) -> Array:
        kind = _NATIVE.get(self.dtype(tensor))
        if stored or (kind is not None and (dtype is None or np.dtype(kind) == dtype)):
            return self.stored(tensor, mmap)
        return self.converted(tensor, np.dtype(np.float32) if dtype is None else dtype)


def read_safetensors(
    path: Path, names: Optional[Iterable[str]] = None, dtype: Union[None, str, npt.DTypeLike] = None, *, mmap: bool = False
) -> dict[str, Array]:
    """Read the tensors of a file into a dict, in the order of their data: all of them, or `names`.

    dtype: None keeps the type of each tensor, with float32 for BF16; "float32" or "float64" converts all; "stored" returns
    the bits of types that NumPy lacks as uint16 (BF16) or uint8. mmap=True maps tensors that need no conversion instead of
    reading them: nothing is copied, the arrays are read-only, and the file must not be shortened while they are in use.
    """
    stored = isinstance(dtype, str) and dtype == "stored"
    kind = None if dtype is None or stored else np.dtype(dtype)
    if kind is not None and kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ArgumentError(f"dtype is {kind}; it must be float32, float64 or 'stored'")
    if isinstance(names, str):
        raise ArgumentError(f"names is the string '{names}'; give a list of names")
    file = _File(path)
    wanted = file.names() if names is None else list(names)
    return {name: file.read(file.find(name), kind, stored, mmap) for name in wanted}


def read_one(path: str) -> Array:
    """The tensor that "file.safetensors#name" names, or the only one of "file.safetensors"."""
    file_path, name = split(path)
    file = _File(file_path)
    names = file.names()
    if name is None and len(names) != 1:
        more = ", ..." if len(names) > _SHOWN else ""
        raise InputError(
            f"{file_path}: has {len(names)} tensors ({', '.join(names[:_SHOWN])}{more}); choose one with "
            "FILE.safetensors#NAME"
        )
    return file.read(file.find(names[0] if name is None else name), None, False, False)


def split(path: str) -> tuple[str, Optional[str]]:
    """File and tensor of "file.safetensors#name" (or with ':')."""
    mark = ".safetensors"
    at = path.find(mark)
    while at >= 0:
        end = at + len(mark)
        if path[end : end + 1] in ("#", ":"):
            return path[:end], path[end + 1 :]
        at = path.find(mark, end)
    return path, None


def is_safetensors(path: str) -> bool:
    file, name = split(path)
    return name is not None or file.endswith(".safetensors")


# What to do about a file that is not read, by the end of its name.
_CURES = {
    **dict.fromkeys((".parquet", ".pq", ".feather", ".arrow", ".ftr"), "read it with corestack.io.read_table(path)"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".joblib"),
        "a pickle runs code when it is loaded, so it is never read; load it where you trust it, and give the array",
    ),
    **dict.fromkeys((".pt", ".pth", ".ckpt"), "load it with torch.load(path, weights_only=True), and give the tensor"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "read it with pandas.read_excel(path), and give the data frame"),
    **dict.fromkeys((".h5", ".hdf5"), "read it with h5py, and give the array"),
    **dict.fromkeys((".zst", ".xz", ".bz2"), "decompress it first"),
}


def refuse_format(path: Path) -> None:
    """Says what to do about a file of a known format that is not read where an array is expected."""
    text = fspath(path).lower()
    for ending, cure in _CURES.items():
        if text.endswith(ending):
            raise FormatError(f"{fspath(path)}: {cure}")


def read_table(path: Path) -> Any:
    """Read a parquet, feather or csv file: a pandas DataFrame, or a dict of arrays if pandas is not installed.

    Parquet and feather need pyarrow. A column "id" of the result joins the rows in fit and predict. Pickles are never read.
    """
    text = fspath(path).lower()
    parquet, feather = text.endswith((".parquet", ".pq")), text.endswith((".feather", ".arrow", ".ftr"))
    csv = text.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz"))
    if not (parquet or feather or csv):
        refuse_format(path)
        raise FormatError(f"{fspath(path)}: tables are read from .parquet, .feather, .csv and .tsv files")
    try:
        import pandas
    except ImportError:
        pandas = None
    if csv:
        if pandas is None:
            raise UnsupportedError(f"{fspath(path)}: reading csv into memory needs pandas; fit takes the path of a csv without it")
        return pandas.read_csv(path, sep="\t" if ".tsv" in text[-7:] else ",")
    try:
        arrow = importlib.import_module("pyarrow")
        reader = importlib.import_module("pyarrow.parquet" if parquet else "pyarrow.feather")
    except ImportError:
        raise UnsupportedError(f"{fspath(path)}: reading it needs pyarrow (pip install pyarrow); or write it as csv or npy") from None
    try:
        table = reader.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FormatError(f"{fspath(path)}: {error}") from None
    if pandas is not None:
        return table.to_pandas()
    return {name: table.column(name).to_numpy() for name in table.column_names}


def safetensors_metadata(path: Path) -> dict[str, str]:
    """Return the entries of "__metadata__" as a dict."""
    file = _File(path)
    keys, values = (c.lib.cst_safetensors_metadata_key, c.lib.cst_safetensors_metadata_value)
    return dict(zip(c.listed(keys, file.pointer), c.listed(values, file.pointer)))


def _bits_of(value: Any, name: str) -> tuple[Array, Optional[str]]:
    """An array of a type that the format has, and the type's name where NumPy's does not tell it."""
    if is_bfloat16(value):
        tensor = on_cpu(value, name).contiguous()
        bits: Array = np.empty(tuple(tensor.shape), "<u2")
        ctypes.memmove(bits.ctypes.data, tensor.data_ptr(), bits.nbytes)
        return bits, "BF16"
    array = as_array(value, name)
    little: Array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype not in _OF_NUMPY:
        raise ArrayTypeError(f"{name}: has dtype {array.dtype}, which safetensors files do not support")
    return little, None


def write_safetensors(path: Path, arrays: Mapping[str, Any], metadata: Optional[Mapping[str, str]] = None) -> None:
    """Write arrays (or PyTorch tensors on the CPU) to a file, completely or not at all.

    Tensors are sorted by type, the widest first, then by name, as the reference library writes them.
    """
    target = os.path.realpath(os.fsdecode(_values.path(path)))
    if os.path.exists(target) and not os.path.isfile(target):
        raise ArgumentError(f"{fspath(path)}: is not a file; name a file")
    tensors = []
    for name, value in arrays.items():
        array, own = _bits_of(value, str(name))
        number = _OF_NUMPY[array.dtype] if own is None else _NUMBERS[own]
        if _values.text(name, "name") == b"__metadata__":
            raise ArgumentError("name: '__metadata__' is not a name of a tensor")
        tensors.append((-number, _values.text(name, "name"), array))
    for key, text in (metadata or {}).items():
        _values.text(key, "metadata"), _values.text(text, "metadata")
    tensors.sort(key=lambda tensor: tensor[:2])
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for order, encoded, array in tensors:
        kind = c.lib.cst_dtype_name(-order).decode()
        header[encoded.decode()] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    front = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    front += b" " * (-len(front) % 8)
    if len(front) > 100_000_000:
        raise ArgumentError(f"{fspath(path)}: a header of {len(front)} bytes is above the format's limit of 100000000")
    with replaced(path) as file:
        file.write(len(front).to_bytes(8, "little") + front)
        for _, _, array in tensors:
            file.write(np.ascontiguousarray(array).data)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Any]:
    """A file to write, which takes the place of `path` at the end, completely or not at all."""
    target = os.path.realpath(os.fsdecode(path))
    temporary = f"{target}.tmp.{secrets.token_hex(8)}"
    made = False
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        made = True
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if os.path.exists(target):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, target)
        made = False
    except OSError as error:
        raise FileError(f"{fspath(path)}: cannot write the file: {error.strerror}") from None
    finally:
        if made:
            os.unlink(temporary)
