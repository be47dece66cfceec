"""A tour of the Python package, with a part for each of five kinds of user, then the other tasks. Run it from the repository's
folder:

    python docs/tutorial.py

Cells begin with `# %%`, so that editors and Jupytext show it as a notebook. The tests run it.
"""
# %% [markdown]
# # An engineer with many checkpoints
# Which of sixteen classifiers of noisy digits are worth running, and at what cost?

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

names = list(oof)
similar = corestack.cka(oof, y, folds=folds)
a, b = np.unravel_index(np.argmax(similar - np.eye(len(names))), similar.shape)
print(f"most alike: {names[a]} and {names[b]}, CKA {similar[a, b]:.3f}")

flops = {m["name"]: m["flops"] for m in models}
stack = corestack.fit(oof, y, folds=folds, flops=flops, evaluate_nested=False)
print(f"{len(stack.kept)} of {len(oof)} members, {stack.report['flops_rel']:.1%} of the FLOPs:", stack.kept)
for member in stack.report["dropped"][:3]:
    print(" ", member["text"])

# %% [markdown]
# The held-out loss for every number of members, and a fit within a budget.

# %%
for step in stack.report["path"][:6]:
    print(f"  {step['size']:2} members, held-out NLL {step['loss']:.4f}, {step['flops']:.2g} FLOPs:", ", ".join(step["members"]))
small = corestack.fit(oof, y, folds=folds, flops=flops, keep_max=3, evaluate_nested=False)
print("with three members:", small.kept, small.weights)

# %%
p = stack.predict(test)  # float32 probabilities, (rows, classes)
scores = corestack.evaluate(p, y_test, resamples=500)
average = corestack.evaluate(np.mean([*test.values()], axis=0), y_test)
print(f"NLL {scores['nll']:.3f} [{scores['nll_ci'][0]:.3f}, {scores['nll_ci'][1]:.3f}]; average {average['nll']:.3f}")

# %% [markdown]
# # A data scientist in a competition
# A folder with `oof_NAME.npy` and `test_NAME.npy` (or .csv) and `oof_labels.npy` is a pool.

# %%
with tempfile.TemporaryDirectory() as competition:
    np.save(f"{competition}/oof_labels.npy", y)
    for name in ("svm_rbf", "knn_5", "forest_a"):
        np.save(f"{competition}/oof_{name}.npy", oof[name])
        np.save(f"{competition}/test_{name}.npy", test[name])
    blend = corestack.fit(competition, keep_max=3)  # keywords are options: keep.max
    submission = blend.predict(competition, split="test")  # an array; or the file itself:
    blend.predict(competition, split="test", out=f"{competition}/submission.csv")
    print(Path(f"{competition}/submission.csv").read_text().splitlines()[0])
print("nested out-of-fold scores:", blend.report["oof"])
print("weights:", blend.weights)

# %% [markdown]
# # A researcher
# Baselines and presets on the same rows, with intervals and paired tests.

# %%
some = {name: oof[name] for name in ("svm_rbf", "knn_5", "lda", "forest_a")}
table = corestack.compare(some, y, folds=folds, methods=["best-single", "average", "greedy+temperature"], resamples=500)
for row in table["rows"]:
    low, high = row["nll_ci"]
    print(f"{row['method']:20} NLL {row['nll']:.4f} [{low:.4f}, {high:.4f}]  ECE {row['ece']:.4f}  {row['models']} models")
for test_of_two in table["tests"]:
    if test_of_two["metric"] == "nll":
        print(f"  {test_of_two['a']} against {test_of_two['b']}: p {test_of_two['p_adjusted']:.2g}")
print(corestack.metrics.definition("ece"))

# %% [markdown]
# # An engineer with a prediction service
# The model is one file that C reads too (docs/prediction.md); predictions are the same bytes.

# %%
with tempfile.TemporaryDirectory() as place:
    stack.save(f"{place}/digits.cstack")
    served = corestack.load(f"{place}/digits.cstack")
    print((Path(place) / "digits.cstack").stat().st_size, "bytes")
needed = {name: test[name] for name in served.kept}  # only these must run
assert served.predict(needed).tobytes() == p.tobytes()

# %% [markdown]
# A predictor serves one request at a time, in microseconds.

# %%
predictor = served.predictor()
one = predictor([test[name][0] for name in served.kept])  # (classes,)
assert np.allclose(one, p[0], atol=1e-6)

# %% [markdown]
# # An AutoML system
# scikit-learn's interface. X holds predictions, or features for base classifiers that are trained out of fold.

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

    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor

    features, target = load_diabetes(return_X_y=True)
    regressor = corestack.CoreStackRegressor([("ridge", Ridge(0.01)), ("knn", KNeighborsRegressor(15))])
    values, deviations = regressor.fit(features, target).predict(features[:3], return_std=True)
    print("values", values.round(), "+-", deviations.round())

# %% [markdown]
# # Regression
# The same functions with `task="regression"`; predictions have variances and intervals.

# %%
folder = Path("examples/concrete")
names = ["ridge", "svr_rbf", "forest_a", "knn_5", "gradient_boosting"]
strength = corestack.fit(
    {name: np.load(folder / f"{name}.oof.npy") for name in names}, np.load(folder / "oof_labels.npy"), task="regression"
)
print("nested RMSE:", round(strength.report["oof"]["rmse"], 3), strength.weights)
new = {name: np.load(folder / f"{name}.test.npy") for name in strength.kept}
low, high = strength.predict_interval(new, 0.9)
truth = np.load(folder / "test_labels.npy")
print(f"RMSE {corestack.metrics.rmse(strength.predict(new), truth):.3f}")
print(f"targets inside their 90% interval: {((low <= truth) & (truth <= high)).mean():.2f}")

# %% [markdown]
# # Segmentation and detection
# Their pools are files: the functions take the path.

# %%
scenes = corestack.fit("examples/segmentation", segment_pixels=2000, evaluate_nested=False)
print(scenes.kept, "mIoU", round(scenes.evaluate("examples/segmentation")["miou"], 3))
print("label maps", scenes.predict("examples/segmentation", format="labels").shape)

cells = corestack.fit("examples/detection", evaluate_nested=False)
boxes = cells.predict("examples/detection")  # COCO results: a list of dicts
print(boxes[0], "AP", round(corestack.evaluate(boxes, "examples/detection/test.json")["AP"], 3))
