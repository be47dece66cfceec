"""Files for the tests of the readers, written by NumPy and zipfile: every dtype, byte order, memory
order and format version, strings, and broken or hostile archives. Expected values, as float64 in C
order, go to tests/data/io.h.

    /usr/bin/python3 tests/oracles/io_fixtures.py
"""
import io
import pathlib
import struct
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1] / "data"
FOLDER = ROOT / "io"
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]


def values_of(code, rng):
    """A 3 x 4 array with the extremes of its type in it."""
    kind = np.dtype(code)
    if kind.kind == "b":
        return rng.integers(0, 2, (3, 4)).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        a = rng.integers(info.min // 2, info.max // 2, (3, 4)).astype(kind)
        a[0, 1], a[2, 3] = info.min, info.max
        return a
    info = np.finfo(kind)
    a = rng.normal(size=(3, 4)).astype(kind)
    a[0, 1], a[2, 3] = np.finfo(np.dtype("f4") if code == "f8" else kind).max, info.tiny / 4
    return a


def write(name, array, version=(1, 0)):
    with open(FOLDER / name, "wb") as file:
        np.lib.format.write_array(file, array, version=version, allow_pickle=True)


def archive(name, members, method):
    with zipfile.ZipFile(FOLDER / name, "w", method) as out:
        for member, data in members:
            info = zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            out.writestr(info, data)


def npy_bytes(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def patch_size(name, change):
    """Lies about the uncompressed size, in the local header and in the central directory."""
    data = bytearray((FOLDER / name).read_bytes())
    central = data.rindex(b"PK\x01\x02")
    for at in (data.index(b"PK\x03\x04") + 22, central + 24):
        size = struct.unpack_from("<I", data, at)[0]
        struct.pack_into("<I", data, at, change(size))
    (FOLDER / name).write_bytes(data)


def main():
    rng = np.random.default_rng(20240607)
    FOLDER.mkdir(parents=True, exist_ok=True)
    expected = []
    for code in DTYPES:
        a = values_of(code, rng)
        for order in "<>" if a.dtype.itemsize > 1 else "<":
            for memory in "CF":
                name = f"{code}_{'le' if order == '<' else 'be'}_{memory}.npy"
                version = [(1, 0), (2, 0), (3, 0)][len(expected) % 3]
                b = np.array(a, dtype=a.dtype.newbyteorder(order), order=memory)
                write(name, b, version)
                assert np.array_equal(np.load(FOLDER / name), a)
                expected.append((name, a.astype("f8").ravel()))

    cube = np.arange(24, dtype="f4").reshape(2, 3, 4)
    write("cube_C.npy", cube)
    write("cube_F.npy", np.asfortranarray(cube))
    write("text_U.npy", np.array(["cat", "dörr", "日本", "", "🐈x"]))
    write("text_U_be.npy", np.array(["cat", "dörr", "日本", "", "🐈x"], dtype=">U4"))
    write("text_S.npy", np.array([b"a", b"bcd", b""]))
    write("object.npy", np.array([1, "x"], dtype=object))
    write("structured.npy", np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
    write("complex.npy", np.zeros(2, dtype="c8"))
    write("date.npy", np.zeros(2, dtype="M8[s]"))

    big = (np.arange(3000 * 4) % 97).reshape(3000, 4).astype("f8")
    two = [("first.npy", npy_bytes(cube[0])), ("second.npy", npy_bytes(big))]
    archive("stored.npz", two[:1], zipfile.ZIP_STORED)
    archive("deflated.npz", two, zipfile.ZIP_DEFLATED)
    archive("fortran.npz", [("a.npy", npy_bytes(np.asfortranarray(big[:50])))], zipfile.ZIP_DEFLATED)
    archive("bzip2.npz", two[:1], zipfile.ZIP_BZIP2)
    # An archive that declares 4 GB from 3 kB, one that inflates to more than its npy header promises, and one
    # whose member goes on after the size it declares.
    zeros = npy_bytes(np.zeros((1000, 4)))
    archive("bomb.npz", [("a.npy", zeros)], zipfile.ZIP_DEFLATED)
    patch_size("bomb.npz", lambda size: 0xFFFFFFF0)
    archive("beyond.npz", [("a.npy", npy_bytes(np.zeros((2, 2))) + bytes(1 << 18))], zipfile.ZIP_DEFLATED)
    archive("longer.npz", [("a.npy", npy_bytes(np.ones((2, 2))) + bytes(1 << 18))], zipfile.ZIP_DEFLATED)
    patch_size("longer.npz", lambda size: 128 + 32)
    archive("flipped.npz", two[:1], zipfile.ZIP_STORED)
    data = bytearray((FOLDER / "flipped.npz").read_bytes())
    data[data.index(b"\x93NUMPY") + 130] ^= 1
    (FOLDER / "flipped.npz").write_bytes(data)

    lines = ["/* Made by tests/oracles/io_fixtures.py: what NumPy reads from tests/data/io. */",
             "#ifndef CST_TEST_DATA_IO_H", "#define CST_TEST_DATA_IO_H", "",
             "static const struct {", "    const char *name;", "    double values[12]; /* 3 x 4 */",
             "} io_expected[] = {"]
    for name, row in expected:
        lines.append(f'    {{"{name}", {{{", ".join(f"{x:.17g}" for x in row)}}}}},')
    lines += ["};", "", "#endif", ""]
    (ROOT / "io.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
