"""A user's program; mypy --strict finds nothing in it, and the types that it says are those that come back."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import corestack
from corestack import metrics, plot

oof: dict[str, npt.NDArray[np.float32]] = {"a": np.full((6, 2), 0.5, np.float32)}
y = np.array([0, 1, 0, 1, 0, 1])

stack: corestack.Stack = corestack.fit(oof, y, folds=[0, 1, 0, 1, 0, 1], flops={"a": 1.0}, cka_threshold=0.9, preset="paper")
corestack.fit([p.astype(np.float64) for p in oof.values()], y.tolist(), names=["a"], options={"evaluate.nested": False})
corestack.fit(np.stack(list(oof.values())), ["cat", "dog"] * 3, classes=["cat", "dog"], memory="1GiB", threads=2)
corestack.fit({"a": [[0.5, 0.5]] * 6}, y, progress=lambda stage, done, total: done > total)
corestack.fit(Path("pool.json"), split="oof")
corestack.fit({"a": "a.npy"}, "y.npy")
p: npt.NDArray[np.float32] = stack.predict(oof)
mean, variance = stack.predict(oof, return_variance=True)
both: npt.NDArray[np.float32] = mean + variance
written: corestack.Report = stack.predict(oof, out="p.npy")
of_pool: list[dict[str, Any]] = stack.predict("pool.json", split="test")
kept: list[str] = stack.kept
weights: dict[str, float] = stack.weights
stack.save(Path("a.cstack"))
again: corestack.Stack = corestack.load("a.cstack")
top1: float = metrics.top1(p, y)
every: dict[str, float] = metrics.scores(p, y, bins=10)
each: list[dict[str, Any]] = metrics.value_scores(p, [[0.0, 1.0]] * 6, each=True)
average: dict[str, Any] = metrics.value_scores(p[:, 0], y)
report: corestack.Report = corestack.inspect(oof, y)
similar: npt.NDArray[np.float64] = corestack.cka(oof, y)
corestack.compare(oof, y, methods=["average"], resamples=100)
corestack.evaluate(p, y, resamples=100)
bounds: corestack.Report = corestack.bound(stack, oof, y, delta=0.01)
stack.bound("pool.json", split="test", leakage=True)
flag: bool = len(kept) > 1
either = stack.predict(oof, return_variance=flag)
settings: dict[str, object] = {"evaluate.nested": False, "keep.max": 3}
corestack.fit(oof, y + 10, classes=[10, 11], options=settings)
fold: npt.NDArray[np.int32] = corestack.folds(y, 3, groups=list("aabbcc"))
plot.cka(report).figure.savefig("cka.png")
plot.weights(stack, ax=plot.reliability(p, y, 10))
plot.reliability("evaluate.json", width="single")
plot.save(plot.cka(report, width=5.5), "cka.pdf")
words: str = plot.caption(plot.weights(stack))
text: str = report.summary() + stack.to_json()
try:
    corestack.fit(oof, y)
except corestack.MismatchError as error:
    print(error)
