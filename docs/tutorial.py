"""docs/tutorial.md as a program and, by its cells (`# %%`), as a notebook. Run it from the repository's folder:

    python docs/tutorial.py

`scripts/tutorial.py --write` writes the page from it, with what the cells print.
"""
# %% [markdown]
# # Ten minutes with corestack
#
# This tutorial combines sixteen classifiers of noisy digits, checks whether the ensemble is better, makes it cheaper, and puts
# it to use. Everything runs in a clone with the [Python package](python.md) installed. The command line does the same
# ([recipes.md](recipes.md)).
#
# ## 1. Load predictions
#
# corestack reads saved predictions, not models: for each model an array of probabilities of shape [rows, classes]. The predictions to fit on must be
# **out-of-fold**: each row predicted by a model that was not trained on it. Otherwise the models that memorise best get the largest weights.

# %%
import json
from pathlib import Path

import numpy as np

import corestack

folder = Path("examples/digits")
models = json.loads((folder / "pool.json").read_text())["models"]
oof = {m["name"]: np.load(folder / f"{m['name']}.oof.npy") for m in models}
test = {m["name"]: np.load(folder / f"{m['name']}.test.npy") for m in models}
y, y_test = np.load(folder / "oof_labels.npy"), np.load(folder / "test_labels.npy")
folds = np.load(folder / "oof_folds.npy")  # in which the models were trained
print(len(oof), "models,", oof["svm_rbf"].shape, "out-of-fold,", test["svm_rbf"].shape, "new")

# %% [markdown]
# ## 2. See which models agree
#
# CKA (centred kernel alignment) measures how alike the predictions of two models are, from 0 to 1. A model that is nearly a copy of another adds cost
# but no information.

# %%
names = list(oof)
similar = corestack.cka(oof, y, folds=folds)
a, b = np.unravel_index(np.argmax(similar - np.eye(len(names))), similar.shape)
print(f"most alike: {names[a]} and {names[b]}, CKA {similar[a, b]:.3f}")

# %% [markdown]
# ## 3. Fit
#
# The fit removes near-duplicates and models that add nothing, and combines and calibrates the others. Its own scores are nested: each row is
# scored by a repetition of the fit without that row's fold. `flops` tells the fit what each model costs.

# %%
flops = {m["name"]: m["flops"] for m in models}
stack = corestack.fit(oof, y, folds=folds, flops=flops)
print(f"{len(stack.kept)} of {len(oof)} models kept; nested NLL {stack.report['oof']['nll']:.3f}, accuracy {stack.report['oof']['top1']:.3f}")
for member in stack.report["dropped"]:
    print(f"  {member['name']}: {member['text']}")

# %% [markdown]
# ## 4. Predict and score new rows
#
# `predict` takes the new predictions of the models by name and gives calibrated probabilities. The NLL (mean of −log of the probability of the true class;
# lower is better) judges the probabilities, accuracy only the decisions, and the expected calibration error (ECE) the calibration.

# %%
p = stack.predict(test)
average = np.mean([*test.values()], axis=0)
for name, q in (("stack", p), ("average", average), ("svm_rbf", test["svm_rbf"])):
    scores = corestack.evaluate(q, y_test)
    print(f"{name:8} NLL {scores['nll']:.3f}  accuracy {scores['top1']:.3f}  ECE {scores['ece']:.3f}")

# %% [markdown]
# ## 5. Is the difference real?
#
# `compare` fits several methods on the same rows, nested, with bootstrap intervals and paired tests. `autogluon` is AutoGluon's
# rule: greedy selection with replacement, then a temperature.

# %%
table = corestack.compare(oof, y, folds=folds, methods=["best-single", "average", "autogluon", "default"], resamples=500)
for row in table["rows"]:
    low, high = row["nll_ci"]
    print(f"{row['method']:19} NLL {row['nll']:.3f} [{low:.3f}, {high:.3f}]  {row['models']} models")
for pair in table["tests"]:
    if pair["metric"] == "nll":
        print(f"  {pair['a']} against {pair['b']}: p {pair['p_adjusted']:.2g}")

# %% [markdown]
# ## 6. Fewer models
#
# The report lists the held-out loss for each number of models. Limit the number with `keep_max`, or let
# `preset="compact"` choose.

# %%
for step in stack.report["path"][:5]:
    print(f"{step['size']:2} models: held-out NLL {step['loss']:.3f}")
small = corestack.fit(oof, y, folds=folds, flops=flops, keep_max=3, evaluate_nested=False)
print("with three:", small.kept, f"test NLL {corestack.evaluate(small.predict(test), y_test)['nll']:.3f}")

# %% [markdown]
# ## 7. Save and serve
#
# The file works on the command line and in C too. Only the kept models need to run. A predictor answers single rows in microseconds
# ([prediction.md](prediction.md)).

# %%
small.save("three.cstack")
served = corestack.load("three.cstack")
predictor = served.predictor()
one = predictor([test[name][0] for name in served.kept])
print("most probable class of the first row:", one.argmax(), "- true:", y_test[0])
Path("three.cstack").unlink()

# %% [markdown]
# ## 8. Regression from a csv file
#
# The same functions take the path of a [pool](pool.md). Here it is one csv with columns `id`, `y`, `fold` and one for each model. Predicted
# values come with intervals.

# %%
strength = corestack.fit("examples/csv/train.csv", task="regression")
print("kept:", strength.kept, f"nested RMSE {strength.report['oof']['rmse']:.2f}")
values = strength.predict("examples/csv/test.csv")
low, high = strength.predict_interval("examples/csv/test.csv", 0.9)
print(f"first row: {values[0]:.1f}, 90% interval {low[0]:.1f} to {high[0]:.1f}")

# %% [markdown]
# ## Next
#
# - `corestack report` or `stack.report_html(pool, path)` shows all of this on [a page](report.md).
# - scikit-learn estimators that also train the models out of fold, pandas, plots: [python.md](python.md).
# - If new data differ from the old: [shift.md](shift.md). Other tasks: [segmentation](segmentation.md), [detection](detection.md), [several labels](multilabel.md).
# - What the words mean: [glossary.md](glossary.md). What goes wrong: [mistakes.md](mistakes.md).
