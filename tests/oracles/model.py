"""Writes tests/data/model.h: four small stacks, their predictions in NumPy (float64), and the bytes of the first
one's file by a writer that follows docs/model-format.md and shares nothing with the library."""
import pathlib
import struct

import numpy as np

from _c_header import array

ROWS, MEMBERS, CLASSES, HIDDEN = 23, 3, 5, 4
FLOOR = 1e-6
PROTOTYPE = [0, 1, 2, 3, 7, 9]
MEMBER_NAMES = ["resnet50", "vit-b/16", "καλημέρα"]
CLASS_NAMES = ["cat", "dog", "crane", "crane", "poisson rouge"]
SETTINGS = ["preset=default", "seed=7", "note=a=b"]
MIX = np.array([1e-3, 1e-6, 0.03])


# ---- prediction --------------------------------------------------------------------------------------------------

def aggregators(p, best):
    """p [K, N, C] -> [N, C, 12] (docs/method.md#s2-and-s3-gate-and-penalties)."""
    mean, sd = p.mean(0), p.std(0)
    q25, median, q75 = np.quantile(p, [0.25, 0.5, 0.75], axis=0)
    spread = p.max(0) - p.min(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(mean > 0, mean * np.log(mean), 0).sum(1, keepdims=True)
        b = p[best]
        divergence = np.where(b > 0, b * (np.log(b) - np.log(mean)), 0).sum(1, keepdims=True)
    if p.shape[2] == 1:
        entropy, divergence = 0 * entropy, 0 * divergence
    one = np.ones_like(mean)
    return np.stack([mean, sd, median, spread, q25, q75, entropy * one, mean * sd, mean ** 2, spread * sd, sd ** 2,
                     divergence * one], axis=2)


def design(p, gate):
    inputs = np.moveaxis(p, 0, 2)
    if gate["mode"] == 0:
        return inputs
    a = aggregators(p, gate["best"])
    if gate["mode"] == 1:
        return np.concatenate([inputs, a[:, :, PROTOTYPE]], axis=2)
    hidden = np.maximum(inputs @ gate["w1"].T + gate["b1"], 0)
    g = 1 / (1 + np.exp(-(hidden @ gate["w2"].T + gate["b2"])))
    return np.concatenate([inputs, g * a], axis=2)


def project(row):
    """Nearest point of the simplex by sorting (Held, Wolfe and Crowder)."""
    u = np.sort(row)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, len(u) + 1)
    return np.maximum(row - excess[np.nonzero(u > excess)[0][-1]], 0)


def learner_predict(p, stack, learner):
    classes = p.shape[2]
    if learner["kind"] == 3:
        mixed = (1 - MIX)[:, None, None] * p + (MIX / classes)[:, None, None]
        z = np.tensordot(learner["weights"], np.log(mixed), axes=1)
        z = z + (learner["bias"] if len(learner["bias"]) else 0)
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    z = design(p, stack["gate"]) @ learner["weights"] + learner["bias"][0]
    if stack["task"] == 1:
        return z
    if stack["map"] == 1:
        z = np.apply_along_axis(project, 1, z)
    z = np.clip(z, FLOOR, 1)
    return z / z.sum(1, keepdims=True)


def stack_predict(p, stack):
    return sum(learner["blend"] * learner_predict(p, stack, learner) for learner in stack["learners"])


# ---- the file ----------------------------------------------------------------------------------------------------

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def string(text):
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def section(tag, flags, payload):
    return tag + struct.pack("<IQ", flags, len(payload)) + payload


def file_bytes(stack):
    gate = stack["gate"]
    learned = gate["mode"] == 2
    gate_payload = struct.pack("<III", gate["mode"], gate["best"], HIDDEN if learned else 0)
    if learned:
        gate_payload += b"".join(gate[key].astype("<f4").tobytes() for key in ("w1", "b1", "w2", "b2"))
    learners = struct.pack("<II", stack["map"], len(stack["learners"]))
    for learner in stack["learners"]:
        learners += struct.pack("<IIId", learner["kind"], len(learner["weights"]), len(learner["bias"]),
                                learner["blend"])
        learners += learner["weights"].astype("<f8").tobytes() + np.asarray(learner["bias"], "<f8").tobytes()
    sections = [
        section(b"TASK", 1, struct.pack("<III", stack["task"], CLASSES, MEMBERS)),
        section(b"MEMB", 1, b"".join(string(n) + struct.pack("<d", m) for n, m in zip(MEMBER_NAMES, MIX))),
        section(b"CLAS", 0, b"".join(map(string, CLASS_NAMES))),
        section(b"GATE", 1, gate_payload),
        section(b"LEAR", 1, learners),
        section(b"SETT", 0, struct.pack("<I", len(SETTINGS)) + b"".join(map(string, SETTINGS))),
    ]
    body = b"".join(sections)
    data = b"\x89CST\r\n\x1a\n" + struct.pack("<IIQ", 1, len(sections), 24 + len(body) + 4) + body
    return data + struct.pack("<I", crc32c(data))


# ---- fixtures ----------------------------------------------------------------------------------------------------

def members(rng, classes):
    """Sharp and soft members, with exact zeros and ones among them."""
    sharpness = [1.0, 4.0, 30.0]
    truth = rng.integers(0, classes, ROWS)
    logits = rng.normal(size=(MEMBERS, ROWS, classes)) + 1.5 * np.eye(classes)[truth]
    z = np.array(sharpness)[:, None, None] * logits
    p = np.exp(z - z.max(2, keepdims=True))
    p /= p.sum(2, keepdims=True)
    p[2, :4] = np.eye(classes)[truth[:4]]
    p[p < 1e-30] = 0  # what a float would hold as a denormal, which C compilers warn of
    return p.astype(np.float32)


def columns(mode):
    return MEMBERS + (0, 6, 12)[mode]


def linear(rng, kind, mode, blend, sparse=False):
    weights = np.round(rng.normal(size=columns(mode)) * 0.4, 4)
    weights[:MEMBERS] = np.abs(weights[:MEMBERS]) + 0.1
    if sparse:
        weights[1] = 0
        weights[MEMBERS:] = 0
    return {"kind": kind, "blend": blend, "weights": weights, "bias": np.array([np.round(rng.normal() * 0.01, 5)])}


def loglinear(rng, blend, bias):
    return {"kind": 3, "blend": blend, "weights": np.round(rng.normal(size=MEMBERS) * 0.3 + 0.4, 4),
            "bias": np.round(rng.normal(size=CLASSES) * 0.2, 4) if bias else np.array([])}


def made():
    """Members, values, the learned gate, and the four stacks."""
    rng = np.random.default_rng(11)
    p = members(rng, CLASSES)
    values = rng.normal(size=(MEMBERS, ROWS, 1)).astype(np.float32)
    gate = {"mode": 2, "best": 1,
            **{key: np.round(rng.normal(size=shape), 3).astype(np.float32) for key, shape in
               (("w1", (HIDDEN, MEMBERS)), ("b1", HIDDEN), ("w2", (12, HIDDEN)), ("b2", 12))}}
    stacks = [
        {"task": 0, "map": 0, "gate": gate,
         "learners": [linear(rng, 0, 2, 0.3), linear(rng, 2, 2, 0.2, sparse=True), loglinear(rng, 0.5, True)]},
        {"task": 0, "map": 1, "gate": {"mode": 1, "best": 0},
         "learners": [linear(rng, 0, 1, 0.75), linear(rng, 1, 1, 0.25)]},
        {"task": 0, "map": 0, "gate": {"mode": 0, "best": 0},
         "learners": [loglinear(rng, 1.0, False), linear(rng, 0, 0, 0.0)]},
        {"task": 1, "map": 0, "gate": {"mode": 1, "best": 2},
         "learners": [linear(rng, 0, 1, 0.6), linear(rng, 2, 1, 0.4)]},
    ]
    return p, values, gate, stacks


def main():
    p, values, gate, stacks = made()
    text = ("/* Written by tests/oracles/model.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ MODEL_ROWS = {ROWS}, MODEL_MEMBERS = {MEMBERS}, MODEL_CLASSES = {CLASSES}, "
            f"MODEL_HIDDEN = {HIDDEN} }};\n")
    text += array("float", "model_input", p.astype(float)) + array("float", "model_values", values.astype(float))
    text += array("double", "model_mix", MIX)
    for key in ("w1", "b1", "w2", "b2"):
        text += array("float", f"model_{key}", gate[key].astype(float))
    for s, stack in enumerate(stacks):
        data = (values if stack["task"] == 1 else p).astype(float)
        for m, learner in enumerate(stack["learners"]):
            text += array("double", f"model_weights_{s}_{m}", learner["weights"])
            if len(learner["bias"]):
                text += array("double", f"model_bias_{s}_{m}", learner["bias"])
            text += array("double", f"model_learner_{s}_{m}", learner_predict(data, stack, learner))
        text += array("double", f"model_blend_{s}", [float(learner["blend"]) for learner in stack["learners"]])
        text += array("double", f"model_expected_{s}", stack_predict(data, stack))
    text += array("uint8_t", "model_file", list(file_bytes(stacks[0])))
    (pathlib.Path(__file__).parent.parent / "data" / "model.h").write_text(text)


if __name__ == "__main__":
    main()
