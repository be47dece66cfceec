"""Averages of checkpoints and draws from their distribution, by NumPy in extended precision: a series of small
checkpoints of every float type, the running mean over it (SWA), SWAG's mean, variance and deviations (Maddox et al.
2019, Algorithm 1, and the formula of a sample), with the generator of the draws (Philox 4x32-10, Box and Muller) written
out. Files go to tests/data/weight_space, laid out by the writer of safetensors_format.py.

    /usr/bin/python3 tests/oracles/weight_space.py
"""
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


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    values = series(np.random.default_rng(20260712))
    for count in (4, CHECKPOINTS):
        write(f"swa{count}", average(values, count),
              {"format": "pt", "corestack.kind": "swa", "corestack.swa.count": str(count)})
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
