"""Files in the safetensors format by a reader and a writer of their own, on struct, json and NumPy alone: the published
format (8 bytes of length, JSON, data) and its published order (widest type first, then name). Valid files of every
type, hand-made odd ones, and broken ones with the words that their refusal must have. Values go to
tests/data/safetensors.h.

    /usr/bin/python3 tests/oracles/safetensors_format.py
"""
import json
import pathlib
import struct

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1] / "data"
FOLDER = ROOT / "safetensors"
# Types from the narrowest alignment up, as the published serializer orders them: name, NumPy's type or None, bits.
TYPES = [
    ("BOOL", "?", 8), ("F4", None, 4), ("F6_E2M3", None, 6), ("F6_E3M2", None, 6), ("U8", "u1", 8), ("I8", "i1", 8),
    ("F8_E5M2", None, 8), ("F8_E4M3", None, 8), ("F8_E8M0", None, 8), ("F8_E4M3FNUZ", None, 8),
    ("F8_E5M2FNUZ", None, 8), ("I16", "<i2", 16), ("U16", "<u2", 16), ("F16", "<f2", 16), ("BF16", None, 16),
    ("I32", "<i4", 32), ("U32", "<u4", 32), ("F32", "<f4", 32), ("C64", "<c8", 64), ("F64", "<f8", 64),
    ("I64", "<i8", 64), ("U64", "<u8", 64),
]
RANK = {name: i for i, (name, _, _) in enumerate(TYPES)}
NUMPY = {name: kind for name, kind, _ in TYPES}
BITS = {name: bits for name, _, bits in TYPES}
NUMBERS = ["BOOL", "U8", "I8", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "F64", "I64", "U64"]


def bfloat(values):
    """The 16-bit floats with 8 bits of exponent nearest to float64 values, ties to even, as uint16."""
    x = np.asarray(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.clip(np.frexp(np.where(np.isfinite(x), x, 1))[1] - 1, -126, 127)
        step = np.ldexp(1.0, exponent - 7)
        near = np.where(np.isfinite(x), np.rint(x / step) * step, x).astype(np.float32)
    bits = near.view(np.uint32)
    assert not (bits & 0xFFFF).any(), "not exactly a bfloat16"
    return (bits >> 16).astype(np.uint16)


def widen(bits):
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def pack(header, data=b"", pad=True):
    """The file of a header (an object, or its bytes) and data."""
    text = header if isinstance(header, bytes) else json.dumps(
        header, separators=(",", ":"), ensure_ascii=False).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def save(tensors, metadata=None, ordered=True):
    """tensors: name, type, shape, bytes. The bytes of the file."""
    if ordered:
        tensors = sorted(tensors, key=lambda t: (-RANK[t[1]], t[0].encode()))
    header = {"__metadata__": metadata} if metadata else {}
    at, data = 0, b""
    for name, dtype, shape, raw in tensors:
        assert len(raw) * 8 == int(np.prod(shape, dtype=object)) * BITS[dtype]
        header[name] = entry(dtype, shape, at, at + len(raw))
        at += len(raw)
        data += raw
    return pack(header, data)


def load(content):
    """name -> (type, shape, bytes), and the metadata."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length].decode())
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    return {n: (e["dtype"], tuple(e["shape"]), data[slice(*e["data_offsets"])]) for n, e in header.items()}, metadata


def numbers(dtype, raw):
    """Stored bytes as float64."""
    if dtype == "BF16":
        return widen(np.frombuffer(raw, "<u2")).astype(np.float64)
    return np.frombuffer(raw, NUMPY[dtype]).astype(np.float64)


def extremes(dtype, rng):
    """Twelve values of a type, the least and the greatest and what is not a number among them, as stored bytes."""
    if dtype == "BOOL":
        return rng.integers(0, 2, 12).astype("?").tobytes()
    if dtype == "BF16":
        bits = bfloat(rng.normal(size=12))
        bits[:6] = [0x7F7F, 0xFF80, 0x7FC1, 0x0001, 0x8000, 0x0080]
        return bits.astype("<u2").tobytes()
    kind = np.dtype(NUMPY[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        a = rng.integers(info.min // 2, info.max // 2, 12).astype(kind)
        a[1], a[11] = info.min, info.max
        return a.tobytes()
    a = rng.normal(size=12).astype(kind)
    info = np.finfo(kind)
    a[:6] = [info.max, -np.inf, np.nan, info.smallest_subnormal, -0.0, info.tiny]
    return a.tobytes()


def rounded(rng):
    """float64 values around the halfway points of the 16-bit types, and what they round to."""
    values = [0.0, -0.0, np.inf, -np.inf, 65504.0, 65519.999999999993, 65520.0, 65535.0, 1e300, -1e300, 1e-300,
              2.0**-24, 2.0**-25, np.nextafter(2.0**-25, 1), 2.0**-14, 2.0**-126, 2.0**-133, 2.0**-134,
              np.nextafter(2.0**-134, 1), 3.3895313892515355e38, 3.39617752923046e38, np.nextafter(3.39617752923046e38, 0)]
    for base in (1.0, 1.0 + 2.0**-10, 1.0 + 2.0**-7, 3.5, 2.0**-15, 2.0**-130):
        for half in (2.0**-11, 2.0**-8):
            middle = base * (1 + half)
            values += [middle, np.nextafter(middle, 2 * middle), np.nextafter(middle, 0), -middle]
            # Halfway after rounding to float32, not before it.
            values += [middle * (1 + 2.0**-40), middle * (1 - 2.0**-40)]
    # A power of 10 would differ with the processor in its last digit.
    values += list(np.ldexp(rng.normal(size=20), 3 * rng.integers(-9, 6, 20)))
    x = np.array(values)
    with np.errstate(over="ignore"):
        return x, x.astype(np.float16).view(np.uint16), bfloat(x)


def valid(rng):
    """name -> (bytes, tensors in the order given)."""
    every = [(f"t.{d}", d, (3, 4), extremes(d, rng)) for d in NUMBERS]
    rng.shuffle(every)
    metadata = {"format": "pt", "note": "\u00e9 \"quoted\" \\ and\na\ttab \x01", "": ""}
    odd = [("b", "U8", (3,), b"\x01\x02\x03"), ("\u00e9/\U0001d11e \"\\", "F32", (), struct.pack("<f", 1.5)),
           ("", "F64", (2, 0, 3), b""), ("z\n\x7f", "I16", (1, 1, 2), struct.pack("<hh", -2, 7)), ("a", "F16", (0,), b"")]
    small = [("F8_E4M3", 4, 4), ("F8_E5M2", 4, 4), ("F8_E8M0", 2, 2), ("F8_E4M3FNUZ", 1, 1), ("F8_E5M2FNUZ", 1, 1),
             ("F4", 6, 3), ("F6_E2M3", 4, 3), ("F6_E3M2", 8, 6), ("C64", 2, 16)]
    listed = [(d, d, (n,), bytes(range(b))) for d, n, b in small]
    files = {
        "ok_types": (save(every, metadata), every, metadata),
        "ok_given": (save(odd, ordered=False), odd, {}),
        "ok_listed": (save(listed), listed, {}),
        "ok_empty": (save([]), [], {}),
        "ok_metadata": (save([], {"framework": "pt"}), [], {"framework": "pt"}),
        "ok_spaces": (pack(b'{ "y" : {"data_offsets" : [4, 8], "shape":\t[ 1 ] ,"dtype":"F32"},\r\n "x":{"shape":[2,1],'
                           b'"data_offsets":[0,4],"dtype":"BF16"} , "__metadata__" : {} }\n   ',
                           struct.pack("<HHf", 0x3F80, 0x4000, 3.0), pad=False), None, {}),
    }
    for content, tensors, metadata in files.values():
        found, entries = load(content)
        assert entries == metadata
        if tensors is not None:
            assert found == {n: (d, tuple(s), raw) for n, d, s, raw in tensors}
    return files


def broken():
    """name -> (bytes, status, words of the message)."""
    good = entry("F32", [2], 0, 8)
    one = json.dumps(good)
    data = bytes(8)
    deep = b"[" * 2000 + b"]" * 2000
    return {
        "short": (b"\x02\0\0\0", "FORMAT", "begins with an 8-byte length"),
        "length_zero": (pack(b"", pad=False), "FORMAT", "too short"),
        "length_huge": (struct.pack("<Q", 2**64 - 1) + b"{}\n", "LIMIT", "byte 0: the length of the header is 18446744073709551615 bytes"),
        "length_limit": (struct.pack("<Q", 100_000_001) + b"{}", "LIMIT", "100000001"),
        "length_beyond": (struct.pack("<Q", 3) + b"{}", "FORMAT", "truncated: byte 0 declares a header of 3 bytes, but only 2 follow"),
        "space_first": (pack(b" {}"), "FORMAT", "byte 8: the header does not begin with '{'"),
        "list": (pack(b"[]"), "FORMAT", "does not begin with '{'"),
        "not_json": (pack(b"{a}"), "FORMAT", "is not valid JSON"),
        "unfinished": (pack(b'{"a":'), "FORMAT", "is not valid JSON"),
        "two_objects": (pack(b"{}{}"), "FORMAT", "is not valid JSON"),
        "comma": (pack(b'{"a":%s,}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "comment": (pack(b"{/**/}"), "FORMAT", "is not valid JSON"),
        "nul_after": (pack(b"{}\0\0", pad=False), "FORMAT", "is not valid JSON"),
        "vertical_tab": (pack(b"{\v}"), "FORMAT", "is not valid JSON"),
        "not_utf8": (pack(b'{"\xc3(":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "overlong": (pack(b'{"\xc0\xaf":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "surrogate": (pack(b'{"\\ud834":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "surrogate_low": (pack(b'{"\\udd1e":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "surrogate_pair": (pack(b'{"\\ud834\\u0041":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "surrogate_end": (pack(b'{"\\ud834\\u', pad=False), "FORMAT", "is not valid JSON"),
        "name_nul": (pack(b'{"a\\u0000b":%s}' % one.encode(), data), "FORMAT", "is not valid JSON"),
        "name_twice": (pack(b'{"a":%s,"a":%s}' % (one.encode(), json.dumps(entry("F32", [2], 8, 16)).encode()),
                            data + data), "FORMAT", "duplicate object key"),
        "name_twice_escaped": (pack(b'{"a":%s,"\\u0061":%s}' % (one.encode(), json.dumps(entry("F32", [0], 8, 8)).encode()),
                                    data), "FORMAT", "duplicate object key"),
        "metadata_twice": (pack(b'{"__metadata__":{},"__metadata__":{}}'), "FORMAT", "duplicate object key"),
        "metadata_key_twice": (pack(b'{"__metadata__":{"k":"1","j":"2","k":"3"}}'), "FORMAT", "duplicate object key"),
        "metadata_number": (pack({"__metadata__": {"k": 1}}), "FORMAT", "__metadata__: has a number"),
        "metadata_object": (pack({"__metadata__": {"k": {}}}), "FORMAT", "__metadata__: has an object"),
        "metadata_null": (pack({"__metadata__": None}), "FORMAT", "__metadata__: has null, but an object"),
        "metadata_list": (pack({"__metadata__": []}), "FORMAT", "__metadata__: has a list, but an object"),
        "metadata_nul": (pack(b'{"__metadata__":{"k":"a\\u0000"}}'), "FORMAT", "is not valid JSON"),
        "tensor_number": (pack({"a": 5}), "FORMAT", "tensor 'a': has a number, but an object"),
        "tensor_text": (pack({"a": "F32"}), "FORMAT", "tensor 'a': has a string, but an object"),
        "deep": (pack(b'{"a":' + deep + b"}"), "FORMAT", "tensor 'a': has a list"),
        "deep_shape": (pack(b'{"a":{"shape":' + deep[:1000] + b"}}"), "FORMAT", "is not valid JSON"),
        "key_unknown": (pack({"a": {**good, "strides": [1]}}, data), "FORMAT", "tensor 'a': has the key 'strides'"),
        "key_twice": (pack(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', data), "FORMAT",
                      "'dtype' occurs twice"),
        "key_missing": (pack({"a": {"dtype": "F32", "shape": [2]}}, data), "FORMAT", "tensor 'a': has no 'data_offsets'"),
        "dtype_unknown": (pack({"a": {**good, "dtype": "float32"}}, data), "UNSUPPORTED", "dtype 'float32' is not supported"),
        "dtype_case": (pack({"a": {**good, "dtype": "f32"}}, data), "UNSUPPORTED", "dtype 'f32' is not supported"),
        "dtype_number": (pack({"a": {**good, "dtype": 32}}, data), "FORMAT", "'dtype' is a number, not a string"),
        "shape_number": (pack({"a": {**good, "shape": 2}}, data), "FORMAT", "'shape' is a number, not a list"),
        "shape_text": (pack({"a": {**good, "shape": ["2"]}}, data), "FORMAT", "'shape' contains a string"),
        "shape_negative": (pack({"a": {**good, "shape": [-2]}}, data), "FORMAT", "'shape' contains -2, but only whole numbers"),
        "shape_float": (pack({"a": {**good, "shape": [2.0]}}, data), "FORMAT", "'shape' contains 2,"),
        "shape_exponent": (pack(b'{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}', data), "FORMAT", "'shape' contains 2,"),
        "shape_zero_first": (pack(b'{"a":{"dtype":"F32","shape":[02],"data_offsets":[0,8]}}', data), "FORMAT", "not valid JSON"),
        "shape_beyond": (pack({"a": {**good, "shape": [2**63]}}, data), "FORMAT", "too big integer"),
        "shape_beyond_64": (pack({"a": {**good, "shape": [2**64 + 2]}}, data), "FORMAT", "too big integer"),
        "shape_overflow": (pack({"a": {**good, "shape": [2**32, 2**32]}}, data), "FORMAT", "more elements of F32 than"),
        "shape_overflow_bytes": (pack({"a": {**good, "shape": [2**62]}}, data), "FORMAT", "more elements of F32 than"),
        "shape_axes": (pack({"a": {**good, "shape": [1] * 31 + [2, 1]}}, data), "LIMIT", "more than 32 axes"),
        "half_byte": (pack({"a": entry("F4", [3], 0, 2)}, bytes(2)), "FORMAT", "its size is not a whole number of bytes"),
        "offsets_one": (pack({"a": {**good, "data_offsets": [0]}}, data), "FORMAT", "has 1 numbers instead of two"),
        "offsets_three": (pack({"a": {**good, "data_offsets": [0, 8, 8]}}, data), "FORMAT", "has 3 numbers instead of two"),
        "offsets_turned": (pack({"a": {**good, "data_offsets": [8, 0]}}, data), "FORMAT", "'data_offsets' are 8 and 0"),
        "offsets_size": (pack({"a": {**good, "data_offsets": [0, 4]}}, data[:4]), "FORMAT", "need 8 bytes"),
        "offsets_wrap": (pack({"a": {**good, "data_offsets": [2**63 - 1, 7]}}, data), "FORMAT", "need 8 bytes"),
        "hole_first": (pack({"a": entry("F32", [2], 8, 16)}, data + data), "FORMAT", "bytes 0 to 7 of the data, before tensor 'a'"),
        "hole": (pack({"a": good, "b": entry("F32", [1], 12, 16)}, data + data), "FORMAT", "bytes 8 to 11 of the data, before tensor 'b'"),
        "overlap": (pack({"a": good, "b": entry("F32", [2], 4, 12)}, data + data[:4]), "FORMAT", "inside tensor 'a', which ends at byte 8"),
        "same_range": (pack({"a": good, "b": good}, data), "FORMAT", "inside tensor 'a'"),
        "empty_inside": (pack({"a": good, "b": entry("F32", [0], 4, 4)}, data), "FORMAT", "inside tensor 'a'"),
        "trailing": (pack({"a": good}, data + b"\0"), "FORMAT", "1 bytes follow the last tensor"),
        "truncated": (pack({"a": good}, data[:7]), "FORMAT", "truncated: tensor 'a' ends at byte 8"),
    }


def c_text(text):
    return json.dumps(text)


def c_double(value):
    if np.isnan(value):
        return "NAN"
    return ("-" if np.signbit(value) else "") + ("INFINITY" if np.isinf(value) else float(abs(value)).hex())


def main():
    rng = np.random.default_rng(20)
    FOLDER.mkdir(parents=True, exist_ok=True)
    files, refused = valid(rng), broken()
    for name, (content, _, _) in files.items():
        (FOLDER / f"{name}.safetensors").write_bytes(content)
    for name, (content, _, _) in refused.items():
        (FOLDER / f"bad_{name}.safetensors").write_bytes(content)
    lines = ["/* Made by tests/oracles/safetensors_format.py. */", "", "#include <math.h>", "",
             "/* What a broken file is refused with. */",
             "static const struct {", "    const char *name;", "    cst_status status;", "    const char *words;",
             "} BROKEN[] = {"]
    lines += [f"    {{{c_text(n)}, CST_ERROR_{s}, {c_text(w)}}}," for n, (_, s, w) in refused.items()]
    lines += ["};", "", "/* Tensors t.NAME [3][4] of ok_types as float64, in the order in which they were given. */",
              "static const struct {", "    cst_dtype dtype;", "    double values[12];", "} TYPES[] = {"]
    for _, dtype, _, raw in files["ok_types"][1]:
        lines.append(f"    {{CST_DTYPE_{dtype}, {{{', '.join(c_double(v) for v in numbers(dtype, raw))}}}}},")
    lines += ["};", "", "/* Types in the order of ok_types' data. */", "static const cst_dtype TYPE_ORDER[] = {"]
    for name in load(files["ok_types"][0])[0]:
        lines.append(f"    CST_DTYPE_{name[2:]},")
    lines += ["};", "", "/* Numbers and the 16-bit floats nearest to them. */", "static const struct {",
              "    double value;", "    uint16_t half;", "    uint16_t bfloat;", "} ROUNDED[] = {"]
    for value, half, brain in zip(*rounded(rng)):
        lines.append(f"    {{{c_double(value)}, 0x{half:04x}, 0x{brain:04x}}},")
    lines += ["};", ""]
    (ROOT / "safetensors.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
