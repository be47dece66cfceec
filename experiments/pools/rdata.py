"""Reads data frames out of installed or unpacked R packages without R: the lazy-load database (rdb, rdx), files of saved
objects (rda), and their serialisation (XDR, versions 2 and 3).

Stands before corestack: regression.py and tables.py take the tables of Debian's R packages from here. Needs NumPy only.
Paper: the regression task of section "Preliminaries and Pipeline Overview".
"""
import bz2
import gzip
import lzma
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np

NULL, PAIRS, SYMBOL_REFERENCE, NAMESPACE, GLOBAL, ALTERNATIVE = 254, 2, 255, 249, 253, 238
SYMBOL, CHARACTER, LOGICAL, INTEGER, REAL, STRINGS, LIST = 1, 9, 10, 13, 14, 16, 19
MISSING = -2 ** 31

R_LIBRARY = Path("/usr/lib/R/site-library")
UNPACKED = Path(__file__).resolve().parents[2] / "data" / "debian"


class Vector:
    """An R vector: `values` (NumPy array or list) and its attributes by name."""
    def __init__(self, values, attributes):
        self.values, self.attributes = values, attributes


class Reader:
    """One serialised object."""
    def __init__(self, data):
        self.data, self.at, self.symbols = data, 0, []
        if data[:2] != b"X\n":
            raise ValueError("not R's binary serialisation (XDR)")
        self.at = 2
        version = self.integer()
        self.at += 8
        if version == 3:
            encoding = self.integer()
            self.at += encoding
        elif version != 2:
            raise ValueError(f"R serialisation of version {version}; 2 and 3 are read")

    def integer(self):
        self.at += 4
        return struct.unpack_from(">i", self.data, self.at - 4)[0]

    def array(self, kind, count):
        out = np.frombuffer(self.data, kind, count, self.at)
        self.at += out.nbytes
        return out.astype(out.dtype.newbyteorder("="))

    def pairs(self, flags):
        """A pair list as a dictionary; entries without a tag get their number."""
        out = {}
        while flags & 255 == PAIRS:
            if flags & 0x200:
                self.item()
            tag = self.item() if flags & 0x400 else len(out)
            out[tag] = self.item()
            flags = self.integer()
        if flags & 255 != NULL:
            raise ValueError("a pair list with a tail")
        return out

    def alternative(self):
        """Compact sequences and wrapped vectors (ALTREP)."""
        kind = self.item()[0]
        state, _ = self.item(), self.item()
        if kind.startswith("wrap_"):
            return state[0] if isinstance(state, dict) else state.values[0]
        if kind.startswith("compact_"):
            count, first, step = state.values
            return Vector(first + step * np.arange(int(count)), {})
        raise ValueError(f"an ALTREP object of class {kind}")

    def item(self):
        flags = self.integer()
        kind = flags & 255
        if kind == NULL or kind == GLOBAL:
            return None
        if kind == PAIRS:
            return self.pairs(flags)
        if kind == SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == SYMBOL_REFERENCE:
            return self.symbols[(flags >> 8 or self.integer()) - 1]
        if kind == CHARACTER:
            count = self.integer()
            self.at += max(count, 0)
            return None if count < 0 else self.data[self.at - count:self.at].decode("utf-8", "replace")
        if kind == ALTERNATIVE:
            return self.alternative()
        if kind not in (LOGICAL, INTEGER, REAL, STRINGS, LIST):
            raise ValueError(f"an R object of type {kind} at byte {self.at}; only vectors and lists are read")
        count = self.integer()
        if kind in (LOGICAL, INTEGER):
            values = self.array(">i4", count)
        elif kind == REAL:
            values = self.array(">f8", count)
        else:
            values = [self.item() for _ in range(count)]
        return Vector(values, self.item() if flags & 0x200 else {})


def decompressed(block):
    """A block of a lazy-load database: four bytes of length, perhaps a letter for the method, the data."""
    method = block[4:5]
    if method == b"2":
        return bz2.decompress(block[5:])
    if method == b"Z":
        return lzma.decompress(block[5:], lzma.FORMAT_RAW,
                               filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
    return zlib.decompress(block[4:])


def columns(frame):
    """A data frame as {name: values}; factors become lists of their levels, in order of the codes."""
    out = {}
    for name, column in zip(frame.attributes["names"].values, frame.values):
        levels = column.attributes.get("levels")
        out[name] = column.values if levels is None else np.array([None, *levels.values], dtype=object)[
            np.where(column.values == MISSING, 0, column.values)]
    return out


def levels(frame, name):
    """The levels of a factor column, in R's order."""
    column = frame.values[frame.attributes["names"].values.index(name)]
    return list(column.attributes["levels"].values)


def package(name):
    """Folder of an R package of Debian: the installed one, or r-cran-NAME downloaded by apt-get and unpacked, not installed."""
    if (R_LIBRARY / name).exists():
        return R_LIBRARY / name
    folder = UNPACKED / name
    if not folder.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", f"r-cran-{name}"], cwd=UNPACKED, check=True)
        deb = max(UNPACKED.glob(f"r-cran-{name}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, UNPACKED / f"{name}.deb.d"], check=True)
        (UNPACKED / f"{name}.deb.d" / R_LIBRARY.relative_to("/") / name).rename(folder)
    return folder


def load_saved(path):
    """The first object of a file that R's `save` wrote, whichever way it is compressed."""
    data = path.read_bytes()
    for magic, module in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma)):
        if data.startswith(magic):
            data = module.decompress(data)
    if data[:5] not in (b"RDX2\n", b"RDX3\n"):
        raise ValueError(f"{path}: not a binary file of R's save")
    return next(iter(Reader(data[5:]).item().values()))


def load(folder, name):
    """The data frame `name` of the R package in `folder` (its data/Rdata.rdb or data/NAME.rda)."""
    folder = Path(folder) / "data"
    if (folder / f"{name}.rda").exists():
        return load_saved(folder / f"{name}.rda")
    index = Reader(zlib.decompress((folder / "Rdata.rdx").read_bytes(), 47)).item()
    variables = index.values[index.attributes["names"].values.index("variables")]
    start, length = variables.values[variables.attributes["names"].values.index(name)].values
    with open(folder / "Rdata.rdb", "rb") as file:
        file.seek(start)
        return Reader(decompressed(file.read(length))).item()
