"""Writes tests/data/lean.h: how a batch leans on the average, in NumPy: what a fit stores, what batches tell, temperatures and
mixtures, from the formulas of docs/prediction.md in double precision."""

import os

import numpy as np

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
REFERENCE, BATCH, CLASSES = 250, 80, 5
STEPS = 1 + 0.25 * np.arange(13)


def draw(rng, rows, shares, signal, noise):
    labels = rng.choice(CLASSES, size=rows, p=shares)
    z = signal * np.eye(CLASSES)[labels] + noise * rng.normal(size=(rows, CLASSES))
    p = np.exp(z - z.max(1, keepdims=True))
    return (p / p.sum(1, keepdims=True)).astype(np.float32), labels


def power(p, t):
    z = t * np.log(np.maximum(p.astype(float), 1e-12))
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def confidence(p, temperatures):
    return np.array([power(p, t).max(1).mean() for t in temperatures])


def reach(target, temperatures, means):
    """Linear between the temperatures; the ends beyond."""
    if target <= means[0]:
        return temperatures[0]
    return float(np.interp(target, means, temperatures))


class Fit:
    def __init__(self, stack, average, labels):
        n = len(labels)
        self.rows = n
        self.accuracy = [(q.argmax(1) == labels).mean() for q in (stack, average)]
        self.count = [np.bincount(q.argmax(1), minlength=CLASSES) for q in (stack, average)]
        c, top = stack.argmax(1), stack.max(1).astype(float)
        self.mean = np.array([(top[c == k].sum() + 20 * top.mean()) / ((c == k).sum() + 20) for k in range(CLASSES)])
        self.mean = np.rint(self.mean * 16383) / 16383  # as files hold it
        self.variance = np.array(
            [(((top[c == k] - self.mean[k]) ** 2).sum() + 20 * top.var()) / ((c == k).sum() + 20) for k in range(CLASSES)]
        )
        self.variance = (np.rint(np.sqrt(self.variance) * 16383) / 16383) ** 2
        self.sharpest = reach(self.accuracy[1], STEPS, confidence(average, STEPS))


def chance(fit, side, n):
    """Mean total variation between n rows and the fit's where nothing has changed."""
    q = fit.count[side] / fit.rows
    r = 1 / (1 / n + 1 / fit.rows)
    normal = np.sqrt(2 * q * (1 - q) / (np.pi * r)) / 2
    return np.where(r * q < 1, q * (1 - q) ** r, normal).sum()


def look(fit, side, p):
    n, c, top = len(p), p.argmax(1), p.max(1).astype(float)
    expected = fit.mean[c].mean()
    z = (top.mean() - expected) / (np.sqrt(fit.variance[c].sum() * (1 + n / fit.rows)) / n)
    distance = 0.5 * np.abs(np.bincount(c, minlength=CLASSES) / n - fit.count[side] / fit.rows).sum()
    skew = np.sqrt(max(0, distance**2 - chance(fit, side, n) ** 2))
    return top.mean(), expected, skew, fit.accuracy[side] - skew, z if side == 0 else 0.0


def temperature(fit, side, p):
    top, expected, skew, _, _ = look(fit, side, p)
    target = fit.accuracy[side] - max(0, skew - 0.05)
    grid = np.linspace(0.3, 1, 5) if side == 0 else np.linspace(1, fit.sharpest, 5)
    if side == 0:
        target = max(target, top - max(0, expected - top))
    return reach(target, grid, confidence(p, grid))


def mix(stack, average, flat, sharp, weight):
    a, b = (np.log(np.maximum(q.astype(float), 1e-12)) for q in (stack, average))
    z = (1 - weight[:, None]) * flat * a + weight[:, None] * sharp * b
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def main():
    rng = np.random.default_rng(5)
    shares = np.array([0.4, 0.3, 0.2, 0.095, 0.005])
    stack, labels = draw(rng, REFERENCE, shares, 4.0, 2.0)
    average = (0.85 * stack + 0.15 / CLASSES).astype(np.float32)
    fit = Fit(stack, average, labels)
    text = "/* Written by tests/oracles/lean.py: NumPy in double precision. */\n/* clang-format off */\n"
    text += f"enum {{ LEAN_REFERENCE = {REFERENCE}, LEAN_BATCH = {BATCH}, LEAN_CLASSES = {CLASSES}, LEAN_BATCHES = 4 }};\n"
    text += array("float", "LEAN_STACK", stack) + array("float", "LEAN_AVERAGE", average) + array("int32_t", "LEAN_LABELS", labels)
    text += array("double", "LEAN_ACCURACY", fit.accuracy) + array("int32_t", "LEAN_COUNT", np.array(fit.count))
    text += array("double", "LEAN_MEAN", fit.mean) + array("double", "LEAN_VARIANCE", fit.variance)
    text += array("double", "LEAN_SHARPEST", [fit.sharpest])
    batches = [[], []]
    sides, temperatures, mixed = [], [], []
    worlds = (  # like the fit; less signal; one class takes over; one class alone, with signal
        (shares, 4.0, 2.0),
        (shares, 0.5, 1.5),
        (np.array([0.05, 0.05, 0.8, 0.05, 0.05]), 1.5, 1.5),
        (np.eye(CLASSES)[1], 4.0, 2.0),
    )
    for shares_of, signal, noise in worlds:
        s, _ = draw(rng, BATCH, shares_of, signal, noise)
        a = (0.7 * s + 0.3 / CLASSES).astype(np.float32)
        s[0] = np.eye(CLASSES)[0]  # zeros
        for side, p in enumerate((s, a)):
            batches[side].append(p)
            sides.append(look(fit, side, p))
            temperatures.append(temperature(fit, side, p))
        mixed.append(mix(s, a, temperatures[-2], temperatures[-1], np.linspace(0, 1, BATCH))[::10])
    for name, values in (("BATCH_STACK", batches[0]), ("BATCH_AVERAGE", batches[1])):
        text += array("float", f"LEAN_{name}", np.array(values))
    text += "/* of each batch, stack and average: confidence, expected, skew, accuracy, z */\n"
    text += array("double", "LEAN_SIDE", np.array(sides)) + array("double", "LEAN_TEMPERATURE", temperatures)
    text += "/* of every tenth row, with weights from 0 to 1 */\n" + array("double", "LEAN_MIXED", np.array(mixed))
    with open(os.path.join(FOLDER, "lean.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
