"""Averages of checkpoints and draws from their distribution, by NumPy in extended precision: a series of small
checkpoints of every float type, the running mean over it (SWA), SWAG's mean, variance and deviations (Maddox et al.
2019, Algorithm 1, and the formula of a sample), with the generator of the draws (Philox 4x32-10, Box and Muller) written
out. Means of 3, 5 and 7 numbers of 16 and 32 bits in rational arithmetic, rounded to nearest, ties to even; half of them
lie midway between two numbers of their type. Files go to tests/data/weight_space, laid out by the writer of
safetensors_format.py.

    /usr/bin/python3 tests/oracles/weight_space.py
"""
import fractions
import pathlib

import numpy as np
import safetensors_format as st

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data" / "weight_space"
CHECKPOINTS = 6
RANK = 3
SEED = 0x1234_5678_9ABC
SCALE = 0.5
SAMPLES = 3
STREAM, STREAM_RANK = 15, 16
WIDE = np.longdouble

# name, type, shape, where the values are, how far apart
TENSORS = [
    ("conv.weight", "F32", (3, 2, 5), 1000.0, 0.01),
    ("conv.bias", "F16", (5,), 0.5, 0.1),
    ("Zeta", "BF16", (7,), -3.0, 0.5),
    ("far", "F64", (4,), 1e5, 1e-3),  # a difference of mean squares would leave nothing of the variance
    ("scalar", "F32", (), -2.0, 1.0),
    ("constant", "F32", (3,), 7.25, 0.0),
    ("empty", "F32", (0, 3), 0.0, 0.0),
    ("norm.running_mean", "F32", (2,), 0.0, 1.0),
]


def store(dtype, values):
    if dtype == "BF16":
        return st.bfloat(np.asarray(values, np.float64)).astype("<u2").tobytes()
    return np.asarray(values, np.float64).astype(st.NUMPY[dtype]).tobytes()


def philox(counter, key):
    """Philox 4x32-10 of counters [n, 4] and a key of two words."""
    c = [counter[:, i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(key[0]), np.uint64(key[1])]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & low, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, 1)


def uniforms(stream, sample, blocks):
    """Two numbers of [0, 1) for each block."""
    counter = np.zeros((blocks, 4), np.uint64)
    counter[:, 0] = np.arange(blocks)
    counter[:, 2], counter[:, 3] = stream, sample
    words = philox(counter, (SEED & 0xFFFFFFFF, SEED >> 32))
    whole = np.stack([words[:, 0] << np.uint64(32) | words[:, 1], words[:, 2] << np.uint64(32) | words[:, 3]], 1)
    return (whole >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normals(stream, sample, count, both):
    u = uniforms(stream, sample, (count + 1) // 2 if both else count)
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, 0])), 2 * np.pi * u[:, 1]
    return (np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:count] if both
            else radius * np.cos(angle))


def write(name, tensors, metadata):
    (FOLDER / f"{name}.safetensors").write_bytes(st.save(tensors, metadata))


def series(rng):
    """The checkpoints, written, and what they hold: name -> [checkpoints, ...]."""
    values, files = {}, [[] for _ in range(CHECKPOINTS)]
    for name, dtype, shape, centre, spread in TENSORS:
        steps = centre + spread * rng.normal(size=(CHECKPOINTS, *shape))
        raw = [store(dtype, step) for step in steps]
        values[name] = np.stack([st.numbers(dtype, r).reshape(shape) for r in raw]).astype(WIDE)
        for k in range(CHECKPOINTS):
            files[k].append((name, dtype, shape, raw[k]))
    for k in range(CHECKPOINTS):
        steps = np.array(100 + k, "<i8").tobytes()
        write(f"step{k}", [*files[k], ("steps", "I64", (), steps)], {"format": "pt", "epoch": str(k)})
    return values


def average(values, count):
    rows = [(n, d, s, store(d, values[n][:count].mean(0))) for n, d, s, _, _ in TENSORS]
    return [*rows, ("steps", "I64", (), np.array(100, "<i8").tobytes())]


def fit(values):
    """mean, variance, deviations of each tensor."""
    out = {}
    number = np.arange(1, CHECKPOINTS + 1)
    for name, x in values.items():
        running = x.cumsum(0) / number.reshape(-1, *[1] * (x.ndim - 1))
        variance = np.maximum(((x - x.mean(0)) ** 2).mean(0), 1e-30)
        out[name] = x.mean(0), variance, (x - running)[CHECKPOINTS - RANK:]
    return out


def model(fitted):
    rows = [("copied.steps", "I64", (), np.array(100, "<i8").tobytes())]
    for name, dtype, shape, _, _ in TENSORS:
        mean, variance, deviations = fitted[name]
        rows.append((f"mean.{name}", dtype, shape, store(dtype, mean)))
        rows.append((f"variance.{name}", "F32", shape, store("F32", variance)))
        rows.append((f"deviation.{name}", "F32", (RANK, *shape), store("F32", deviations)))
    return rows


def draw(rows, sample, rank):
    """A network drawn from the file of the model, as it is stored."""
    stored = {name: st.numbers(dtype, raw).reshape(shape) for name, dtype, shape, raw in rows}
    kinds = {name: (dtype, shape) for name, dtype, shape, _, _ in TENSORS}
    sizes = {name: int(np.prod(shape)) for name, (_, shape) in kinds.items()}
    each = normals(STREAM, sample, sum(sizes.values()), both=True)
    shared = normals(STREAM_RANK, sample, rank, both=False)
    out, at = [("steps", "I64", (), np.array(100, "<i8").tobytes())], 0
    for name in sorted(sizes, key=str.encode):
        dtype, shape = kinds[name]
        z = each[at:at + sizes[name]].reshape(shape)
        at += sizes[name]
        part = np.sqrt(stored[f"variance.{name}"]) * z
        if rank:
            part = part + np.tensordot(shared, stored[f"deviation.{name}"][RANK - rank:], 1) / np.sqrt(rank - 1)
        out.append((name, dtype, shape, store(dtype, stored[f"mean.{name}"] + np.sqrt(SCALE) * part)))
    return out


# bits of the significand, least exponent of a normal number, exponents of the last bit that means are made with
FORMATS = {"F16": (11, -14, (-22, 3)), "BF16": (8, -126, (-90, 80)), "F32": (24, -126, (-110, 80))}
WORDS = {"F16": "<u2", "BF16": "<u2", "F32": "<u4"}
MEANS = 64


def rounded(x, dtype, negative):
    """The bits of the number of a type nearest to a fraction, ties to even; negative: the sign of a zero."""
    digits, least, _ = FORMATS[dtype]
    magnitude, exponent = abs(x), least
    while magnitude >= fractions.Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = magnitude / fractions.Fraction(2) ** (exponent - digits + 1)
    whole, rest = steps.numerator // steps.denominator, steps % 1
    whole += rest > fractions.Fraction(1, 2) or (rest == fractions.Fraction(1, 2) and whole % 2)
    sign = (x < 0 or (x == 0 and negative)) << (15 if digits < 24 else 31)
    return sign | (((exponent - least) << (digits - 1)) + whole)


def midway(rng, count, dtype):
    """Numbers of a type whose mean is midway between two others."""
    digits, _, range_ = FORMATS[dtype]
    top, step = 2**digits, fractions.Fraction(2) ** int(rng.integers(*range_)) / 2
    while True:
        target = 2 * int(rng.integers(top // 2, top)) + 1
        part = [int(rng.integers(top)) * (1, 1, 2)[int(rng.integers(3))] for _ in range(count - 1)]
        last = count * target - sum(part)
        if abs(last) // (abs(last) & -abs(last) or 1) < top:
            sign = (1, -1)[int(rng.integers(2))]
            return [sign * x * step for x in rng.permutation(np.array([*part, last], object))]


def means(rng, count):
    """Tensors [count, MEANS] of bits, and the bits of their means."""
    rows = []
    for dtype in FORMATS:
        columns = [midway(rng, count, dtype) for _ in range(MEANS // 2)]
        scale = fractions.Fraction(2) ** FORMATS[dtype][2][0]
        columns += [[int(rng.integers(-2**7, 2**7)) * 2 ** int(rng.integers(12)) * scale for _ in range(count)]
                    for _ in range(MEANS - len(columns) - 2)]
        bits = [[rounded(x, dtype, negative=False) for x in column] for column in columns]
        zero = 1 << (31 if dtype == "F32" else 15)
        bits += [[zero] * count, [zero] * (count - 1) + [0]]
        columns += [[fractions.Fraction(0)] * count] * 2
        result = [rounded(sum(c) / fractions.Fraction(count), dtype, negative=all(b == zero for b in row))
                  for c, row in zip(columns, bits)]
        words = np.array(bits, WORDS[dtype])
        for row, column in zip(words, columns):
            stored = st.numbers(dtype, row.tobytes())
            assert [fractions.Fraction(float(x)) for x in stored] == column, "a number that the type has not"
        rows += [(dtype, dtype, (count, MEANS), words.T.tobytes()),
                 (f"mean.{dtype}", dtype, (MEANS,), np.array(result, WORDS[dtype]).tobytes())]
    return rows


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    values = series(np.random.default_rng(20260712))
    for count in (4, CHECKPOINTS):
        write(f"swa{count}", average(values, count),
              {"format": "pt", "corestack.kind": "swa", "corestack.swa.count": str(count)})
    for count in (3, 5, 7):
        write(f"means{count}", means(np.random.default_rng(count), count), {})
    rows = model(fit(values))
    write("swag", rows, {"format": "pt", "corestack.kind": "swag", "corestack.swag.version": "1",
                         "corestack.swag.count": str(CHECKPOINTS), "corestack.swag.rank": str(RANK)})
    for rank in (RANK, 2, 0):
        for sample in range(SAMPLES):
            write(f"rank{rank}_{sample:02d}", draw(rows, sample, rank),
                  {"format": "pt", "corestack.kind": "swag-sample", "corestack.swag.sample": str(sample),
                   "corestack.swag.seed": str(SEED), "corestack.swag.scale": str(SCALE)})


if __name__ == "__main__":
    main()
