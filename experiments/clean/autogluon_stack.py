#!/usr/bin/python3
"""AutoGluon's second level on the members of a pool: learners of scikit-learn over the members' predictions, then a weighted ensemble.

    experiments/clean/autogluon_stack.py POOL -o OUT.npy [--split test] [--folds 5] [--rounds 25] [--seed 0]

Writes probabilities of the split's rows and prints the weights. The members are the first level. The learners of the second level
take all members' probabilities: forests and extremely randomised trees (Gini and entropy, 300 trees, predictions out of bag),
k-nearest neighbours, two gradient boostings, a neural network and a logistic regression, bagged over the folds of `oof`. Greedy
selection with replacement over both levels and a temperature follow, all by the log loss out of fold. The kinds of learners, 300
trees, 25 rounds and five folds or more are AutoGluon's. It is not AutoGluon: LightGBM, CatBoost, XGBoost and FastAI are missing
(two settings of HistGradientBoosting take their place), so is its hyperparameter search, and AutoGluon uses k-nearest neighbours
on its first level only.
"""
import argparse
import json
import pathlib
import sys
import warnings

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

FLOOR = 1e-15
TREES = 300


def learners(seed):
    """{name: estimator}. Those with an `oob_score` need no folds."""
    forests = {f"{name} {criterion}": kind(TREES, criterion=criterion, bootstrap=True, oob_score=True, n_jobs=-1, random_state=seed)
               for name, kind in (("forest", RandomForestClassifier), ("extra trees", ExtraTreesClassifier))
               for criterion in ("gini", "entropy")}
    neighbours = {f"k-NN {weights}": KNeighborsClassifier(5, weights=weights) for weights in ("uniform", "distance")}
    boosting = {name: HistGradientBoostingClassifier(max_leaf_nodes=leaves, max_depth=depth, max_bins=63, max_iter=100, early_stopping=True,
                                                     validation_fraction=0.1, n_iter_no_change=10, random_state=seed)
                for name, leaves, depth in (("boosting", 31, None), ("boosting, shallow", None, 3))}
    network = MLPClassifier((128, 128), learning_rate_init=3e-4, alpha=1e-6, batch_size=256, max_iter=300, early_stopping=True,
                            n_iter_no_change=20, random_state=seed)
    return {**forests, **neighbours, **boosting, "network": make_pipeline(StandardScaler(), network),
            "linear": make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=1000))}


# ---- the pool -------------------------------------------------------------------------------------------------------

def read(manifest, split):
    """(members' probabilities of oof, of the split, labels of oof, folds or groups of oof)"""
    pool = json.loads(manifest.read_text())
    logits = pool.get("output") == "logit"
    entry = pool["splits"]["oof"]
    parts = [[common.probabilities(np.load(manifest.parent / m["predictions"][s]), logits) for m in pool["models"]] for s in ("oof", split)]
    column = {key: np.load(manifest.parent / entry[key]) if entry.get(key) else None for key in ("labels", "folds", "groups")}
    return (*parts, column["labels"].astype(int), column["folds"], column["groups"])


def divide(labels, folds, groups, count, seed):
    """Pairs of (rows to fit, rows held out): the pool's own folds, or folds by group, or stratified ones."""
    if folds is not None and len(np.unique(folds)) > 1:
        return [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in np.unique(folds)]
    if groups is not None:
        return list(GroupKFold(min(count, len(np.unique(groups)))).split(labels, labels, groups))
    rows = np.zeros(len(labels))
    if np.bincount(labels).max() < count:
        return list(KFold(min(count, len(labels)), shuffle=True, random_state=seed).split(rows))
    return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(rows, labels))


# ---- the two levels -------------------------------------------------------------------------------------------------

def predict(model, x, classes):
    """Probabilities of all classes, also of those that the model has not seen."""
    p = np.zeros((len(x), classes))
    p[:, model.classes_] = model.predict_proba(x)
    return p


def level(estimator, x, y, other, divisions, classes):
    """(predictions out of fold, predictions of other rows) of one learner."""
    if getattr(estimator, "oob_score", False):
        estimator.fit(x, y)
        p = np.zeros((len(x), classes))
        p[:, estimator.classes_] = estimator.oob_decision_function_
        never = ~np.isfinite(p).all(axis=1) | (p.sum(axis=1) == 0)  # in every tree's sample
        p[never] = np.bincount(y, minlength=classes) / len(y)
        return p, predict(estimator, other, classes)
    held, out = np.zeros((len(x), classes)), np.zeros((len(other), classes))
    for fitted, rest in divisions:
        estimator.fit(x[fitted], y[fitted])
        held[rest] = predict(estimator, x[rest], classes)
        out += predict(estimator, other, classes) / len(divisions)
    return held, out


def nll(p, y):
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], FLOOR)).mean())


def weigh(parts, y, rounds):
    """Greedy selection with replacement by the log loss, cut at its first minimum: a weight for each part."""
    rows = np.arange(len(y))
    true = np.array([p[rows, y] for p in parts])
    total, chosen, losses = np.zeros(len(y)), [], []
    for size in range(1, rounds + 1):
        loss = -np.log(np.maximum((total + true) / size, FLOOR)).mean(axis=1)
        chosen.append(int(loss.argmin()))
        losses.append(float(loss.min()))
        total += true[chosen[-1]]
    return np.bincount(chosen[:int(np.argmin(losses)) + 1], minlength=len(parts)) / (int(np.argmin(losses)) + 1)


def heat(p, temperature):
    z = np.log(np.maximum(p, FLOOR)) / temperature
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def stack(manifest, split="test", folds=5, rounds=25, seed=0):
    """(probabilities of the split's rows, {name: weight}, temperature)"""
    oof, other, y, fold, group = read(manifest, split)
    classes = oof[0].shape[1]
    divisions = divide(y, fold, group, folds, seed)
    x, z = (np.concatenate([p[:, 1:] if classes == 2 else p for p in parts], axis=1).astype(np.float32) for parts in (oof, other))
    names = [m["name"] for m in json.loads(manifest.read_text())["models"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, estimator in learners(seed).items():
            held, out = level(estimator, x, y, z, divisions, classes)
            names.append(name)
            oof.append(held)
            other.append(out)
    w = weigh(oof, y, rounds)
    mixed = sum(v * p for v, p in zip(w, oof))
    temperature = float(np.exp(minimize_scalar(lambda t: nll(heat(mixed, np.exp(t)), y), bounds=(-3, 3), method="bounded").x))
    return (heat(sum(v * p for v, p in zip(w, other)), temperature), {n: float(v) for n, v in zip(names, w) if v}, temperature)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", type=pathlib.Path)
    parser.add_argument("-o", "--out", type=pathlib.Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    manifest = options.pool / "pool.json" if options.pool.is_dir() else options.pool
    if not manifest.exists():
        sys.exit(f"{manifest} does not exist: name a folder with a pool.json, or a manifest")
    p, weights, temperature = stack(manifest, options.split, options.folds, options.rounds, options.seed)
    np.save(options.out, p)
    print(json.dumps({"weights": weights, "temperature": temperature}))


if __name__ == "__main__":
    main()
