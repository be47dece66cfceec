"""Writes tests/data/leakage.h: tails of the hypergeometric distribution by SciPy and by exact fractions, and how likely so
many rows are shared by two random parts of rows that repeat themselves, by counting all ways."""

import math
import os
from fractions import Fraction

from scipy.stats import hypergeom

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")

# errors and rows of the one split, of the other
ERRORS = [(10, 100, 30, 100), (20, 100, 20, 100), (0, 100, 0, 100), (100, 100, 100, 100), (30, 100, 10, 100), (0, 140, 6, 38),
          (10, 10000, 2, 20), (0, 3000, 1, 30), (500, 1000, 499, 1000), (1, 5, 4, 4), (5, 5, 0, 3), (0, 1, 1, 1),
          (900, 1000, 1000, 1000), (2, 5000, 90, 1000)]

# Contents: (rows in the one split, rows in the other), how often; the rest is met once.
CONTENTS = [
    [((1, 1), 4), ((1, 0), 36), ((0, 1), 16)],
    [((1, 1), 8), ((2, 0), 2), ((1, 0), 28), ((0, 1), 12)],
    [((3, 2), 5), ((6, 1), 3), ((2, 2), 2), ((0, 2), 1), ((1, 0), 5), ((0, 1), 3)],
    [((1, 3), 3), ((5, 0), 2), ((1, 0), 20), ((0, 1), 11)],
    [((1, 1), 1), ((1, 0), 49), ((0, 1), 9)],
    [((2, 0), 6), ((0, 1), 8)],
]


def tail(one, rows, two, others):
    every = one + two
    ways = sum(math.comb(others, k) * math.comb(rows, every - k) for k in range(two, min(every, others) + 1))
    return Fraction(ways, math.comb(rows + others, every))


def shared_tail(contents):
    """P(as many or more shared rows) of a random choice of the second split's rows."""
    sizes = [a + b for (a, b), count in contents for _ in range(count)]
    second = sum(b * count for (_, b), count in contents)
    seen = sum(b * count for (a, b), count in contents if a)
    ways = {(0, 0): 1}  # rows chosen, shared rows
    for size in sizes:
        step = {}
        for (chosen, shared), count in ways.items():
            for k in range(size + 1):
                key = (chosen + k, shared + (k if k < size else 0))
                step[key] = step.get(key, 0) + count * math.comb(size, k)
        ways = step
    good = sum(count for (chosen, shared), count in ways.items() if chosen == second and shared >= seen)
    return Fraction(good, math.comb(sum(sizes), second))


def main():
    values = []
    for one, rows, two, others in ERRORS:
        exact = float(tail(one, rows, two, others))
        scipy = hypergeom.sf(two - 1, rows + others, one + two, others)
        assert abs(scipy - exact) <= 1e-8 * exact, (one, rows, two, others, scipy, exact)
        values.append(exact)
    text = "/* Written by tests/oracles/leakage.py. */\n/* clang-format off */\n"
    text += f"enum {{ LK_ERRORS = {len(ERRORS)}, LK_WORLDS = {len(CONTENTS)} }};\n"
    text += array("int64_t", "LK_COUNTS", [v for case in ERRORS for v in case]) + array("double", "LK_ERROR_P", values)
    text += "/* of every world: entries; of every entry: rows in the first and the second split, how often */\n"
    text += array("int32_t", "LK_ENTRIES", [len(world) for world in CONTENTS])
    text += array("int32_t", "LK_CONTENTS", [v for world in CONTENTS for (a, b), count in world for v in (a, b, count)])
    text += array("double", "LK_SHARED_P", [float(shared_tail(world)) for world in CONTENTS])
    with open(os.path.join(FOLDER, "leakage.h"), "w", encoding="ascii") as file:
        file.write(text + "/* clang-format on */\n")


if __name__ == "__main__":
    main()
