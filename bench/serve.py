#!/usr/bin/python3
"""Times predictions of made-up rows from Python, as bench/serve.c does: serve.py MODEL."""

import sys
import time

import corestack
import numpy as np

ROWS = 4096
stack = corestack.load(sys.argv[1])
predict = stack.predictor()
rng = np.random.default_rng(1)
made = rng.random((len(stack.kept), ROWS, len(stack.classes)), np.float32) + 1e-3
made = (made / made.sum(axis=2, keepdims=True)).astype(np.float32)
batches = {1: [list(made[:, i]) for i in range(ROWS)], ROWS: [list(made)]}
for calls in batches.values():
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for given in calls:
            predict(given)
        best = min(best, 1e6 * (time.perf_counter() - start) / ROWS)
    print(f" | {best:.2f}", end="")
print(" |")
