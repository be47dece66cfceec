"""The Python package in five short stories, one for each kind of user. Run it from the repository's folder:

    python docs/tutorial.py

Cells begin with `# %%`, so that editors and Jupytext show it as a notebook. The tests run it.
"""
# %% [markdown]
# # An engineer with many checkpoints
# Which of sixteen classifiers of noisy digits are worth running, and what does that cost?

# %%
import json
import tempfile
from pathlib import Path

import numpy as np

import corestack

folder = Path("examples/digits")
models = json.loads((folder / "pool.json").read_text())["models"]
oof = {m["name"]: np.load(folder / f"{m['name']}.oof.npy", mmap_mode="r") for m in models}  # (rows, classes) each
test = {m["name"]: np.load(folder / f"{m['name']}.test.npy", mmap_mode="r") for m in models}
y = np.load(folder / "oof_labels.npy")
y_test = np.load(folder / "test_labels.npy")
folds = np.load(folder / "oof_folds.npy")  # the models were trained in these

report = corestack.inspect(oof, y, folds=folds)
print("joined by CKA:", [c for c in report["clusters"] if len(c) > 1])

flops = {m["name"]: m["flops"] for m in models}
stack = corestack.fit(oof, y, folds=folds, flops=flops, evaluate_nested=False)
print(f"{len(stack.kept)} of {len(oof)} members, {stack.report['flops_rel']:.1%} of the FLOPs:", stack.kept)
for member in stack.report["dropped"][:3]:
    print(" ", member["text"])

# %%
p = stack.predict(test)  # float32 probabilities, (rows, classes)
scores = corestack.evaluate(p, y_test, resamples=500)
average = corestack.evaluate(np.mean([*test.values()], axis=0), y_test)
print(f"NLL {scores['nll']:.3f} [{scores['nll_ci'][0]:.3f}, {scores['nll_ci'][1]:.3f}]; average {average['nll']:.3f}")

# %% [markdown]
# # A data scientist in a competition
# A folder of `oof_NAME.npy` and `test_NAME.npy` (or .csv) with `oof_labels.npy` is a pool as it is.

# %%
with tempfile.TemporaryDirectory() as competition:
    np.save(f"{competition}/oof_labels.npy", y)
    for name in ("svm_rbf", "knn_5", "forest_a"):
        np.save(f"{competition}/oof_{name}.npy", oof[name])
        np.save(f"{competition}/test_{name}.npy", test[name])
    blend = corestack.fit(competition, keep_fraction=0)  # keywords are options: keep.fraction
    submission = blend.predict(competition, split="test")
print("nested out-of-fold scores:", blend.report["oof"])
print("weights:", blend.weights)

# %% [markdown]
# # A researcher
# Baselines and presets under one protocol, with intervals and paired tests.

# %%
some = {name: oof[name] for name in ("svm_rbf", "knn_5", "lda", "forest_a")}
table = corestack.compare(some, y, folds=folds, methods=["best-single", "average", "greedy+temperature"], resamples=500)
for row in table["rows"]:
    print(f"{row['method']:20} NLL {row['nll']:.4f}  ECE {row['ece']:.4f}  {row['models']} models")
print(corestack.metrics.definition("ece"))

# %% [markdown]
# # An engineer of a service
# The model is a file of some kilobytes that C reads (docs/prediction.md); Python gives the same bytes.

# %%
with tempfile.TemporaryDirectory() as place:
    stack.save(f"{place}/digits.cstack")
    served = corestack.load(f"{place}/digits.cstack")
    print((Path(place) / "digits.cstack").stat().st_size, "bytes")
needed = {name: test[name] for name in served.kept}  # only these have to run
assert served.predict(needed).tobytes() == p.tobytes()

# %% [markdown]
# # A system for automatic machine learning
# scikit-learn's interface. X may hold predictions, or features for base classifiers that the stack trains out of fold.

# %%
try:
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
except ImportError:
    print("scikit-learn is not installed")
else:
    X = np.stack([*some.values()], axis=1)  # (rows, members, classes)
    on_predictions = corestack.CoreStackClassifier().fit(X, y, folds=folds)
    print("kept:", on_predictions.stack_.kept)

    features, target = load_wine(return_X_y=True)
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    on_features = corestack.CoreStackClassifier([("lr", scaled), ("nb", GaussianNB())], cv=5)
    print("accuracy:", cross_val_score(on_features, features, target, cv=3).mean().round(3))
