"""Writes tests/data/online_conformal.h: adaptive conformal inference in NumPy over a stream that changes, with some labels
that never come."""

import os

import numpy as np

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
ROWS, CLASSES, ALPHA, STEP, WINDOW = 1400, 4, 0.1, 0.02, 512


def main():
    rng = np.random.default_rng(5)
    sharp = np.where(np.arange(ROWS) < 700, 3.0, 0.7)[:, None]
    truth = rng.integers(0, CLASSES, ROWS)
    z = rng.normal(size=(ROWS, CLASSES)) + sharp * np.eye(CLASSES)[truth]
    p = (np.exp(z) / np.exp(z).sum(1, keepdims=True)).astype(np.float32)
    p = (np.round(p * 64) / 64).astype(np.float32)  # ties
    labels = np.where(rng.random(ROWS) < 0.9, truth, -1)
    level, scores, thresholds, levels = ALPHA, [], [], []
    for row, label in zip(p.astype(float), labels):
        window = np.sort(scores[-WINDOW:])
        place = int(np.ceil((len(window) + 1) * (1 - level) - 1e-12))
        threshold = -np.inf if level >= 1 or place < 1 else np.inf if place > len(window) else window[place - 1]
        thresholds.append(threshold)
        if label >= 0:
            score = 1 - row[label]
            level += STEP * (ALPHA - (score > threshold))
            scores.append(score)
        levels.append(level)
    text = "/* Written by tests/oracles/online_conformal.py: adaptive conformal inference in NumPy. */\n/* clang-format off */\n"
    text += f"enum {{ OC_ROWS = {ROWS}, OC_CLASSES = {CLASSES} }};\nstatic const double OC_ALPHA = {ALPHA}, OC_STEP = {STEP};\n"
    text += array("float", "OC_PROBABILITIES", p) + array("int32_t", "OC_LABELS", labels)
    text += array("double", "OC_THRESHOLD", thresholds) + array("double", "OC_LEVEL", levels)
    with open(os.path.join(FOLDER, "online_conformal.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
