"""What every script that makes a pool shares: members, out-of-fold loops, costs, and the files.

Stands before corestack: it trains the models whose saved predictions corestack reads. Needs NumPy and
scikit-learn only. Paper: the out-of-fold matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
import argparse
import json
import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, ExtraTreesClassifier, HistGradientBoostingClassifier,
                              RandomForestClassifier)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

# The networks run for a fixed number of epochs on purpose.
warnings.filterwarnings("ignore", category=ConvergenceWarning)

ROOT = Path(__file__).resolve().parents[2]
CLIP = 1e-6  # probabilities below it count as it in the NLL that is printed; the files keep them as they are


@dataclass
class Member:
    """One model of a pool. `make` returns a fresh, seeded, unfitted scikit-learn classifier."""
    name: str
    family: str
    make: Callable[[], ClassifierMixin]


@dataclass
class Trained:
    """What a member leaves behind: [rows, classes] probabilities per split, and its cost for one prediction."""
    name: str
    family: str
    predictions: dict
    flops: float
    params: int
    ensemble: dict = None


@dataclass
class Split:
    """Labels (None: out of distribution), ids and (true out-of-fold pools only) the fold in which each row was held out; all
    [rows]. With `conditions`, a list of {shift, kind, severity}, predictions are [conditions, rows, classes]."""
    labels: np.ndarray
    ids: np.ndarray
    folds: np.ndarray = None
    conditions: list = None


@dataclass
class Pool:
    classes: list
    splits: dict
    members: list = field(default_factory=list)
    training_counts: list = None  # training samples of each class, where they are of interest


def classical_members(width, seed, without=()):
    """Heterogeneous scikit-learn members for `width` tabular features; forest_a/forest_b and mlp_a/mlp_b are
    near-duplicates that differ in their seed alone. Every random draw comes from `seed`."""
    def scaled(model):
        return make_pipeline(StandardScaler(), model)

    def mlp(offset):
        return lambda: scaled(MLPClassifier((64,), alpha=1e-2, max_iter=150, random_state=seed + offset))

    def forest(offset):
        return lambda: RandomForestClassifier(150, random_state=seed + offset, n_jobs=1)

    members = [
        Member("logistic", "linear", lambda: scaled(LogisticRegression(C=0.02, max_iter=500))),
        Member("linear_svm", "linear", lambda: scaled(CalibratedClassifierCV(
            LinearSVC(C=0.02, dual=False, random_state=seed), method="sigmoid", cv=3))),
        Member("lda", "discriminant", lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")),
        Member("qda", "discriminant", lambda: scaled(QuadraticDiscriminantAnalysis(reg_param=0.3))),
        Member("gaussian_nb", "naive_bayes", lambda: scaled(GaussianNB(var_smoothing=1e-2))),
        Member("knn_5", "neighbours", lambda: scaled(KNeighborsClassifier(5, weights="distance"))),
        Member("knn_25", "neighbours", lambda: make_pipeline(
            StandardScaler(), PCA(min(16, width), random_state=seed), KNeighborsClassifier(25, weights="distance"))),
        Member("tree", "tree", lambda: DecisionTreeClassifier(min_samples_leaf=5, random_state=seed)),
        Member("forest_a", "forest", forest(0)),
        Member("forest_b", "forest", forest(1000)),
        Member("extra_trees", "forest", lambda: ExtraTreesClassifier(
            150, min_samples_leaf=2, random_state=seed, n_jobs=1)),
        Member("gradient_boosting", "boosting", lambda: HistGradientBoostingClassifier(
            learning_rate=0.15, max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=seed)),
        Member("adaboost", "boosting", lambda: AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=3), n_estimators=80, learning_rate=0.3, random_state=seed)),
        Member("svm_rbf", "kernel", lambda: scaled(SVC(C=3.0, probability=True, random_state=seed))),
        Member("gaussian_process", "kernel", lambda: scaled(GaussianProcessClassifier(
            RBF(np.sqrt(width)), optimizer=None, random_state=seed))),
        Member("mlp_a", "mlp", mlp(0)),
        Member("mlp_b", "mlp", mlp(1000)),
    ]
    return [m for m in members if m.name not in without]


def reduced(member, components, seed):
    """The same member on the leading principal components, which are fitted with it (inside each fold)."""
    return Member(member.name, member.family,
                  lambda: make_pipeline(PCA(components, random_state=seed), member.make()))


def noisy_digits(seed, noise):
    """Images [1797, 64] with seeded noise (not clipped), labels [1797], and the row number in scikit-learn's set."""
    digits = load_digits()
    x = digits.data + np.random.default_rng(seed).normal(0.0, noise, digits.data.shape)
    return x, digits.target, np.arange(len(x))


def tree_cost(tree, classes):
    """One comparison per level, down to the deepest leaf; a threshold and a feature per node, a value per leaf."""
    return tree.get_depth(), 2 * tree.tree_.node_count + tree.get_n_leaves() * classes


def cost(model, width):
    """(flops, params) of one prediction of a fitted model on `width` features. Multiply-adds count two each;
    the exponentials of kernels and softmax are left out; params are all stored numbers (training rows too)."""
    def total(parts):
        return tuple(sum(column) for column in zip(*parts))

    if hasattr(model, "cost"):  # networks.py: a network counts itself
        return model.cost()
    if isinstance(model, Pipeline):
        parts = []
        for _, step in model.steps:
            parts.append(cost(step, width))
            width = getattr(step, "n_components_", width)
            width = len(step.components_) if isinstance(step, Nystroem) else width
        return total(parts)
    if isinstance(model, StandardScaler):
        return 2 * width, 2 * width
    if isinstance(model, PCA):
        return 2 * model.components_.size, model.components_.size + width
    if isinstance(model, Nystroem):
        return (2 * (model.components_.size + model.normalization_.size),
                model.components_.size + model.normalization_.size)
    if isinstance(model, CalibratedClassifierCV):
        return total(cost(part.estimator, width) for part in model.calibrated_classifiers_)
    if isinstance(model, (LogisticRegression, LinearSVC, LinearDiscriminantAnalysis)):
        return 2 * model.coef_.size, model.coef_.size + model.intercept_.size
    if isinstance(model, QuadraticDiscriminantAnalysis):
        size = sum(rotation.size for rotation in model.rotations_)
        return 2 * size, size + 2 * model.means_.size
    if isinstance(model, GaussianNB):
        return 4 * model.theta_.size, 2 * model.theta_.size
    if isinstance(model, KNeighborsClassifier):
        return 2 * model.n_samples_fit_ * width, model.n_samples_fit_ * width
    if isinstance(model, DecisionTreeClassifier):
        return tree_cost(model, model.n_classes_)
    if isinstance(model, (RandomForestClassifier, ExtraTreesClassifier, AdaBoostClassifier)):
        return total(tree_cost(tree, model.n_classes_) for tree in model.estimators_)
    if isinstance(model, HistGradientBoostingClassifier):
        trees = [tree for step in model._predictors for tree in step]
        return total((t.get_max_depth(), 2 * len(t.nodes) + t.get_n_leaf_nodes()) for t in trees)
    if isinstance(model, SVC):
        size = model.support_vectors_.size
        return 2 * (size + model.dual_coef_.size), size + model.dual_coef_.size
    if isinstance(model, GaussianProcessClassifier):
        classes = model.n_classes_ if model.n_classes_ > 2 else 1
        parts = model.base_estimator_.estimators_ if classes > 1 else [model.base_estimator_]
        rows = [len(part.X_train_) for part in parts]
        return (sum(2 * n * width + n * n for n in rows),
                sum(n * width + n + n * n for n in rows))
    if isinstance(model, MLPClassifier):
        weights = sum(layer.size for layer in model.coefs_)
        return 2 * weights, weights + sum(layer.size for layer in model.intercepts_)
    raise TypeError(f"no cost is known for {type(model).__name__}")


def probabilities(model, x):
    """[rows, classes] float32 in C order (two-class scikit-learn models give Fortran order) whose rows sum to 1."""
    p = np.clip(np.asarray(model.predict_proba(x), dtype=np.float64), 0.0, 1.0)
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32, order="C")


def split_rows(labels, test_rows, seed, limit=None):
    """Stratified (oof, test) row numbers, ascending; `limit` caps the number of oof rows."""
    train, test = train_test_split(np.arange(len(labels)), test_size=test_rows, stratify=labels, random_state=seed)
    if limit is not None and limit < len(train):
        train, _ = train_test_split(train, train_size=limit, stratify=labels[train], random_state=seed)
    return np.sort(train), np.sort(test)


def stratified_folds(labels, seed, count=5):
    folds = np.empty(len(labels), dtype=np.int64)
    for fold, (_, held) in enumerate(StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels)):
        folds[held] = fold
    return folds


def train_out_of_fold(member, x, y, folds, x_test):
    """True out-of-fold predictions: each row is predicted by a model that never saw its fold. The test rows are
    predicted by a refit on all rows."""
    classes = len(np.unique(y))
    oof = np.empty((len(y), classes), dtype=np.float32)
    for fold in np.unique(folds):
        held = folds == fold
        model = member.make().fit(x[~held], y[~held])
        assert np.array_equal(model.classes_, np.arange(classes)), "a fold lacks a class"
        oof[held] = probabilities(model, x[held])
    model = member.make().fit(x, y)
    flops, params = cost(model, x.shape[1])
    return Trained(member.name, member.family, {"oof": oof, "test": probabilities(model, x_test)}, flops, params)


def train_frozen(member, x, y, scored):
    """A frozen member: trained once on rows that are in no split, then scored on each of `scored` (name: rows)."""
    model = member.make().fit(x, y)
    flops, params = cost(model, x.shape[1])
    return Trained(member.name, member.family, {s: probabilities(model, xs) for s, xs in scored.items()}, flops, params)


def train_members(pool, members, train, threads):
    """Appends train(member) of each member to the pool, and prints the time of each."""
    with threadpool_limits(threads):
        for member in members:
            start = time.perf_counter()
            pool.members.append(train(member))
            print(f"{member.name:18s} {time.perf_counter() - start:7.1f} s", flush=True)


def frozen_pool(x, y, ids, classes, members, rows, seed, threads=1):
    """A frozen pool: `rows` = numbers of (train, oof, test) rows, disjoint and stratified. No fold vector: the members
    never see the oof rows."""
    train_count, oof_count, test_count = rows
    rest, test = split_rows(y, test_count, seed, train_count + oof_count)
    train, oof = (rest[part] for part in split_rows(y[rest], oof_count, seed))
    scored = {"oof": x[oof], "test": x[test]}
    pool = Pool(list(classes), {s: Split(y[r], ids[r]) for s, r in (("oof", oof), ("test", test))})
    train_members(pool, members, lambda member: train_frozen(member, x[train], y[train], scored), threads)
    return pool


def true_oof_pool(x, y, ids, classes, members, test_rows, seed, threads=1, limit=None):
    """Splits, folds, and every member's out-of-fold and test predictions."""
    rows, test = split_rows(y, test_rows, seed, limit)
    folds = stratified_folds(y[rows], seed)
    pool = Pool(list(classes), {"oof": Split(y[rows], ids[rows], folds), "test": Split(y[test], ids[test])})
    train_members(pool, members, lambda member: train_out_of_fold(member, x[rows], y[rows], folds, x[test]), threads)
    return pool


def score(p, y):
    """(top-1, mean NLL with probabilities clipped at CLIP)"""
    hit = np.maximum(p[np.arange(len(y)), y].astype(np.float64), CLIP)
    return float(np.mean(p.argmax(axis=1) == y)), float(-np.log(hit).mean())


def report(pool):
    """Top-1 and NLL of every member and of the plain average, on oof and test."""
    print(f"{'member':18s} {'oof top1':>9s} {'oof nll':>8s} {'test top1':>9s} {'test nll':>8s} {'flops':>10s}")
    rows = [(m.name, m.predictions, f"{m.flops:10.3g}") for m in pool.members]
    average = {s: np.mean([m.predictions[s] for m in pool.members], axis=0) for s in ("oof", "test")}
    for name, predictions, flops in rows + [("(average)", average, "")]:
        (a, b), (c, d) = (score(predictions[s], pool.splits[s].labels) for s in ("oof", "test"))
        print(f"{name:18s} {a:9.4f} {b:8.4f} {c:9.4f} {d:8.4f} {flops}")
    print(", ".join(f"{name}: {len(split.ids)} rows" for name, split in pool.splits.items()),
          f"; {len(pool.classes)} classes, {len(pool.members)} members")


def check(pool):
    """Stops before a file is written that corestack would refuse."""
    for name, split in pool.splits.items():
        assert len(np.unique(split.ids)) == len(split.ids), f"{name}: ids repeat"
        assert split.labels is None or len(split.labels) == len(split.ids), f"{name}: labels and ids differ in number"
        shape = (len(split.ids), len(pool.classes))
        if split.conditions:
            shape = (len(split.conditions), *shape)
        for member in pool.members:
            p = member.predictions[name]
            assert p.shape == shape and p.dtype in (np.float32, np.float16), member.name
            assert p.flags.c_contiguous, member.name
            assert np.isfinite(p).all() and p.min() >= 0.0 and p.max() <= 1.0, member.name
            tolerance = 1e-5 if p.dtype == np.float32 else 5e-4
            assert np.abs(p.sum(axis=-1, dtype=np.float64) - 1.0).max() < tolerance, member.name
        assert name == "oof" or not np.isin(split.ids, pool.splits["oof"].ids).any(), f"{name} shares rows with oof"


def save(path, array):
    """Writes an .npy file that is whole or absent."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        np.save(file, array)
    os.replace(partial, path)


def write_pool(folder, pool):
    """Writes pool.json and the .npy files it names; the manifest comes last, so a folder with one is whole."""
    check(pool)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"corestack_pool": 1, "task": "classification", "classes": pool.classes, "output": "probability",
                "splits": {}, "models": []}
    if pool.training_counts is not None:
        manifest["training_counts"] = [int(n) for n in pool.training_counts]
    for name, split in pool.splits.items():
        entry = manifest["splits"][name] = {}
        for key in ("labels", "ids", "folds"):
            if getattr(split, key) is not None:
                entry[key] = f"{name}_{key}.npy"
                save(folder / entry[key], np.asarray(getattr(split, key), dtype=np.int64))
        if split.conditions:
            entry["conditions"] = split.conditions
            if "test" in pool.splits:
                entry["clean"] = "test"
        if split.labels is None:
            entry["ood"] = True
    for member in pool.members:
        files = {name: f"{member.name}.{name}.npy" for name in pool.splits}
        for name, file in files.items():
            save(folder / file, member.predictions[name])
        entry = {"name": member.name, "family": member.family, "flops": float(member.flops),
                 "params": int(member.params), "predictions": files}
        if member.ensemble:
            entry["ensemble"] = member.ensemble
        manifest["models"].append(entry)
    partial = folder / "pool.json.partial"
    partial.write_text(json.dumps(manifest, indent=1) + "\n")
    os.replace(partial, folder / "pool.json")


def finish(folder, pool):
    """Writes the pool and prints its scores."""
    write_pool(folder, pool)
    report(pool)


def default_folder(name):
    return ROOT / "data" / "pools" / name


def arguments(description):
    """The options all scripts share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, help="folder to write the pool into (default: data/pools/NAME)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the splits, the noise and the members")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS, OpenMP and PyTorch")
    return parser
