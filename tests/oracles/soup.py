"""Soups of linear softmax models in NumPy: the greedy choice of Recipe 1. Writes tests/data/soup.h."""

import pathlib

import numpy as np

from _c_header import array_in_lines as array

ROOT = pathlib.Path(__file__).resolve().parents[1] / "data"
ROWS, COLUMNS, CLASSES, MODELS = 150, 4, 3, 5


def main():
    rng = np.random.default_rng(2022)
    x = rng.normal(size=(ROWS, COLUMNS))
    truth = rng.normal(size=(CLASSES, COLUMNS))
    y = (x @ truth.T + rng.gumbel(size=(ROWS, CLASSES))).argmax(1)
    noise = np.array([0.6, 0.9, 2.5, 0.7, 1.1])
    weight = np.array([truth + s * rng.normal(size=truth.shape) for s in noise]).astype(np.float32).astype(float)
    bias = np.array([s * rng.normal(size=CLASSES) for s in noise]).astype(np.float32).astype(float)

    def probabilities(a, b):
        z = x @ np.tensordot(a, weight, 1).T + np.tensordot(b, bias, 1)
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def nll(a, b):
        return -np.log(probabilities(a, b)[np.arange(ROWS), y]).mean()

    def error(a, b):
        return (probabilities(a, b).argmax(1) != y).mean()

    def greedy(loss):
        def mean(chosen):
            w = np.isin(np.arange(MODELS), chosen) / len(chosen)
            return loss(w, w)

        order = sorted(range(MODELS), key=lambda i: (mean([i]), i))
        chosen, best = [order[0]], mean([order[0]])
        for i in order[1:]:
            if mean([*chosen, i]) <= best:
                chosen, best = [*chosen, i], mean([*chosen, i])
        return sorted(chosen), best

    choices = {name: greedy(loss) for name, loss in (("nll", nll), ("top1", error))}
    with open(ROOT / "soup.h", "w", encoding="ascii") as out:
        out.write("/* Written by tests/oracles/soup.py. */\n// clang-format off\n#include <stdint.h>\n")
        out.write(f"enum {{ SOUP_ROWS = {ROWS}, SOUP_COLUMNS = {COLUMNS}, SOUP_CLASSES = {CLASSES}, "
                  f"SOUP_MODELS = {MODELS} }};\n")
        out.write(array("double", "SOUP_X", x) + array("int32_t", "SOUP_Y", y))
        out.write("/* [models][classes][columns], [models][classes]; exact in float32 */\n")
        out.write(array("double", "SOUP_WEIGHT", weight) + array("double", "SOUP_BIAS", bias))
        for name, (chosen, best) in choices.items():
            out.write(array("int32_t", f"SOUP_GREEDY_{name.upper()}", [i in chosen for i in range(MODELS)]))
            out.write(f"static const double SOUP_GREEDY_{name.upper()}_SCORE = "
                      f"{float(best if name == 'nll' else 1 - best)!r};\n")


if __name__ == "__main__":
    main()
