"""Writes tests/data/conformal_shift.h: weighted conformal quantiles in NumPy, by repeating each score as often as its weight
says, with as many infinite ones as the row's own weight."""

import os

import numpy as np

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
SCORES, CASES = 41, 120


def main():
    rng = np.random.default_rng(9)
    scores = np.round(rng.random(SCORES) * 16) / 16  # ties
    weights = rng.integers(0, 7, size=(CASES, SCORES))
    weights[0] = 1
    weights[1] = 0
    weights[2, 1:] = 0
    own = rng.integers(0, 12, CASES)
    alpha = rng.choice([0.05, 0.1, 0.2, 0.25, 0.5], CASES)
    own[:3], alpha[:3] = 1, 0.1
    thresholds = [
        np.quantile(np.append(np.repeat(scores, w), np.full(o, np.inf)), 1 - a, method="inverted_cdf") if w.sum() else np.inf
        for w, o, a in zip(weights, own, alpha)
    ]
    text = "/* Written by tests/oracles/conformal_shift.py: quantiles of repeated scores in NumPy. */\n/* clang-format off */\n"
    text += f"enum {{ CS_SCORES = {SCORES}, CS_CASES = {CASES} }};\n" + array("double", "CS_SCORE", scores)
    text += array("double", "CS_WEIGHT", weights) + array("double", "CS_OWN", own) + array("double", "CS_ALPHA", alpha)
    text += array("double", "CS_THRESHOLD", thresholds)
    with open(os.path.join(FOLDER, "conformal_shift.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
