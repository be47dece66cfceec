"""Wrong calls; mypy --strict finds each line that ends in a comment with the kind of its error, and no other."""
from __future__ import annotations

import numpy as np

import corestack
from corestack import metrics, plot

oof = {"a": np.full((6, 2), 0.5, np.float32)}
y = np.array([0, 1, 0, 1, 0, 1])

corestack.fit(3.5, y)  # wrong: arg-type
corestack.fit(oof, y, preset=3)  # wrong: arg-type
corestack.fit(oof, y, cka_threshold={"a": 1})  # wrong: arg-type
corestack.fit(oof, y, "paper")  # wrong: misc
corestack.fit(oof, y, memory=1.5)  # wrong: arg-type
stack = corestack.fit(oof, y)
stack.predictt(oof)  # wrong: attr-defined
stack.kept = ["a"]  # wrong: misc
first: float = stack.kept[0]  # wrong: assignment
metrics.top1(stack.predict(oof))  # wrong: call-arg
metrics.top1(oof, y)  # wrong: arg-type
metrics.value_scores(y, y, each=True)["rmse"]  # wrong: call-overload
corestack.folds(y, count="3")  # wrong: arg-type
corestack.no_such_function()  # wrong: attr-defined
plot.cka(3)  # wrong: arg-type
plot.cka("inspect.json", width=[3])  # wrong: arg-type
plot.weights(stack, title=None)  # wrong: arg-type
