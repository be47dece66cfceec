#!/usr/bin/env python3
"""Makes a regression pool with true out-of-fold predictions: diabetes, concrete, meats, ames, diamonds, boston and others.

Stands before corestack: heterogeneous scikit-learn regressors whose saved predictions it reads; `meats` has three outputs.
Members that are done are not fitted again. Paper: the regression task of section "Preliminaries and Pipeline Overview".
"""
import json
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import (AdaBoostRegressor, ExtraTreesRegressor, GradientBoostingRegressor,
                              HistGradientBoostingRegressor, RandomForestRegressor)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, Lasso, Ridge
from sklearn.model_selection import KFold, train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

import common
import rdata
import scores

warnings.filterwarnings("ignore", category=FutureWarning)  # a change of layout of coef_, whose size alone is read
warnings.filterwarnings("ignore", category=ConvergenceWarning)  # the networks run for a fixed number of epochs on purpose


@dataclass
class Table:
    """Features [N, d], targets [N, D], names of the targets, and what the pool does with them."""
    x: np.ndarray
    y: np.ndarray
    outputs: list
    folds: int = 10
    test_share: float = 0.25
    oof_limit: int = None


class Flat(BaseEstimator, TransformerMixin):
    """Each row minus its mean, over its standard deviation (spectra: takes out scatter); nothing is fitted."""
    def fit(self, x, y=None):
        return self

    def transform(self, x):
        x = x - x.mean(axis=1, keepdims=True)
        return x / x.std(axis=1, keepdims=True)


def load_diamonds():
    """53,940 round-cut diamonds: log of the price from carat, cut, colour, clarity (ordered codes) and measures."""
    frame = rdata.load(rdata.package("ggplot2"), "diamonds")
    table = rdata.columns(frame)
    ordered = [[rdata.levels(frame, name).index(v) for v in table[name]] for name in ("cut", "color", "clarity")]
    x = np.column_stack([table["carat"], *ordered, *(table[name] for name in ("depth", "table", "x", "y", "z"))])
    return Table(x.astype(np.float64), np.log(table["price"].astype(np.float64))[:, None], ["log_price"], folds=5,
                 oof_limit=20000)


def load_ames():
    """2,930 house sales in Ames: log10 of the price, from numbers and one-hot categories with at least 10 houses."""
    table = rdata.columns(rdata.load(rdata.package("modeldata"), "ames"))
    price, features = table.pop("Sale_Price"), []
    for values in table.values():
        if isinstance(values, np.ndarray) and values.dtype != object:
            features.append(values.astype(np.float64))
        else:
            values = np.array(values, dtype=object)
            kinds, counts = np.unique(values.astype(str), return_counts=True)
            features += [(values.astype(str) == kind).astype(np.float64) for kind in kinds[counts >= 10]]
    return Table(np.column_stack(features), np.log10(price.astype(np.float64))[:, None], ["log10_price"], folds=5)


def load_meats():
    """215 meat samples: water, fat and protein in percent from 100 near-infrared absorbances (Tecator)."""
    table = rdata.columns(rdata.load(rdata.package("modeldata"), "meats"))
    outputs = ["water", "fat", "protein"]
    x = np.column_stack([values for name, values in table.items() if name not in outputs])
    return Table(x, np.column_stack([table[name] for name in outputs]), outputs)


def load_concrete():
    """1,030 concrete mixes: compressive strength in MPa from seven amounts and the age."""
    table = rdata.columns(rdata.load(rdata.package("modeldata"), "concrete"))
    strength = table.pop("compressive_strength")
    return Table(np.column_stack(list(table.values())).astype(np.float64), strength[:, None], ["strength"])


def load_diabetes_table():
    """442 patients: disease progression a year later, from ten measurements."""
    x, y = load_diabetes(return_X_y=True, scaled=False)
    return Table(x, y[:, None], ["progression"])


def load_boston():
    """506 districts of Boston: median value of the houses in thousand dollars, from eleven numbers and the river dummy."""
    table = rdata.columns(rdata.load(rdata.package("mlbench"), "BostonHousing"))
    value, _ = table.pop("medv"), table.pop("b")
    return Table(np.column_stack(list(table.values())).astype(np.float64), value[:, None], ["value"])


def load_ozone():
    """Daily maxima of ozone in Los Angeles in 1976, in ppm: the days without missing numbers, from nine measures of weather and
    the month."""
    table = rdata.columns(rdata.load(rdata.package("mlbench"), "Ozone"))
    rows = np.column_stack([table["V1"], *(table[f"V{i}"] for i in range(4, 14))]).astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return Table(np.delete(rows, 1, axis=1), rows[:, 1:2], ["ozone"])


def load_cars():
    """804 used cars: price in dollars from mileage, size, equipment and make."""
    table = rdata.columns(rdata.load(rdata.package("modeldata"), "car_prices"))
    price = table.pop("Price")
    return Table(np.column_stack(list(table.values())).astype(np.float64), price[:, None], ["price"])


def load_sacramento():
    """932 house sales around Sacramento: price in dollars, from size, type and place."""
    table = rdata.columns(rdata.load(rdata.package("modeldata"), "Sacramento"))
    kinds = np.array([str(v) for v in table["type"]])
    features = [table[name] for name in ("beds", "baths", "sqft", "latitude", "longitude")] + [kinds == k for k in np.unique(kinds)[1:]]
    return Table(np.column_stack(features).astype(np.float64), table["price"].astype(np.float64)[:, None], ["price"])


POOLS = {"diabetes": load_diabetes_table, "concrete": load_concrete, "meats": load_meats, "ames": load_ames, "diamonds": load_diamonds,
         "boston": load_boston, "ozone": load_ozone, "cars": load_cars, "sacramento": load_sacramento}


def scaled(model):
    """Standardised features and targets."""
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), model), transformer=StandardScaler())


def each(model, outputs):
    """One model per output, for those that have a single one."""
    return model if outputs == 1 else MultiOutputRegressor(model)


def linear_members(seed, spectra):
    """Linear models; for spectra also models of whole spectra whose scatter is taken out."""
    ridge = 0.01 if spectra else 10.0
    members = {
        "ridge": ("linear", lambda d: scaled(Ridge(ridge))),
        "lasso": ("linear", lambda d: scaled(Lasso(1e-4 if spectra else 1e-2, max_iter=5000))),
        "huber": ("linear", lambda d: scaled(each(HuberRegressor(alpha=1e-2, max_iter=500), d))),
        "pls": ("linear", lambda d: PLSRegression(12 if spectra else 3))}
    if spectra:
        members["pls_flat"] = ("linear", lambda d: make_pipeline(Flat(), PLSRegression(12)))
        members["pcr"] = ("linear", lambda d: make_pipeline(PCA(16, random_state=seed), scaled(Ridge(1e-3))))
        members["svr_flat"] = ("kernel", lambda d: make_pipeline(
            Flat(), PCA(16, random_state=seed), scaled(each(SVR(C=10.0, gamma=0.01), d))))
        members["gp_flat"] = ("kernel", lambda d: make_pipeline(Flat(), PCA(16, random_state=seed), scaled(
            GaussianProcessRegressor(RBF(12.0) + WhiteKernel(0.01), optimizer=None))))
    return members


def tree_members(seed, large):
    def forest(offset):
        return lambda d: RandomForestRegressor(60 if large else 200, min_samples_leaf=2, max_features=0.6,
                                               random_state=seed + offset)
    return {
        "tree": ("tree", lambda d: DecisionTreeRegressor(min_samples_leaf=8, random_state=seed)),
        "forest_a": ("forest", forest(0)),
        "forest_b": ("forest", forest(1000)),
        "extra_trees": ("forest", lambda d: ExtraTreesRegressor(60 if large else 200, min_samples_leaf=2, random_state=seed)),
        "gradient_boosting": ("boosting", lambda d: each(HistGradientBoostingRegressor(
            learning_rate=0.08, max_iter=300 if large else 100, max_leaf_nodes=31 if large else 8, random_state=seed), d)),
        "stumps": ("boosting", lambda d: each(GradientBoostingRegressor(
            n_estimators=200, max_depth=1, subsample=0.7, random_state=seed), d)),
        "adaboost": ("boosting", lambda d: each(AdaBoostRegressor(
            DecisionTreeRegressor(max_depth=5), n_estimators=50, random_state=seed), d))}


def smooth_members(seed, width, large):
    """Neighbours, kernels and networks. mlp_a and mlp_b differ in their seed alone."""
    def mlp(offset):
        return lambda d: scaled(MLPRegressor((64, 32), alpha=1e-2 if large else 1.0, max_iter=25 if large else 300,
                                             early_stopping=False, random_state=seed + offset))
    members = {
        "knn_5": ("neighbours", lambda d: make_pipeline(StandardScaler(), KNeighborsRegressor(5, weights="distance"))),
        "knn_20": ("neighbours", lambda d: make_pipeline(
            StandardScaler(), PCA(min(12, width), whiten=True, random_state=seed), KNeighborsRegressor(20, weights="distance"))),
        "nystroem": ("kernel", lambda d: scaled(make_pipeline(
            Nystroem(gamma=0.3 / width, n_components=300 if large else 100, random_state=seed), Ridge(0.1)))),
        "mlp_a": ("mlp", mlp(0)), "mlp_b": ("mlp", mlp(1000))}
    if large:
        members["quadratic"] = ("linear", lambda d: scaled(make_pipeline(PolynomialFeatures(2), Ridge(1.0))))
    else:
        members["svr_rbf"] = ("kernel", lambda d: scaled(each(SVR(C=1.0 if width < 50 else 10.0, gamma=0.3 / width), d)))
        members["gaussian_process"] = ("kernel", lambda d: scaled(GaussianProcessRegressor(
            RBF(2 * np.sqrt(width)) + WhiteKernel(0.3 if width < 50 else 0.03), optimizer=None)))
    return members


def members_of(pool, seed, width):
    """name: (family, make(outputs)). forest_a/forest_b and mlp_a/mlp_b are near-duplicates on purpose."""
    large = pool == "diamonds"
    return {**linear_members(seed, pool == "meats"), **tree_members(seed, large), **smooth_members(seed, width, large)}


def steps_cost(steps, width):
    """(flops, params) of a pipeline: each step sees as many features as the one before it leaves."""
    total = np.zeros(2)
    for step in steps:
        total += cost(step, width)
        if isinstance(step, PolynomialFeatures):
            width = step.n_output_features_
        elif isinstance(step, Nystroem):
            width = len(step.components_)
        else:
            width = getattr(step, "n_components_", width)
    return total


def cost(model, width):
    """(flops, params) of one prediction, by the rules of `cost` in common.py."""
    if isinstance(model, (Pipeline, TransformedTargetRegressor)):
        steps = [s for _, s in model.steps] if isinstance(model, Pipeline) else [model.regressor_, model.transformer_]
        return steps_cost(steps, width)
    if isinstance(model, MultiOutputRegressor):
        return sum(np.array(cost(part, width)) for part in model.estimators_)
    if isinstance(model, StandardScaler):
        return 2 * len(model.scale_), 2 * len(model.scale_)
    if isinstance(model, Flat):
        return 4 * width, 0
    if isinstance(model, PolynomialFeatures):
        return model.n_output_features_, 0
    if isinstance(model, (Ridge, Lasso, HuberRegressor, PLSRegression)):
        return 2 * np.size(model.coef_), np.size(model.coef_) + np.size(model.intercept_)
    if isinstance(model, KNeighborsRegressor):
        return 2 * model.n_samples_fit_ * width, model.n_samples_fit_ * width
    if isinstance(model, SVR):
        return 2 * model.support_vectors_.size, model.support_vectors_.size + model.dual_coef_.size
    if isinstance(model, GaussianProcessRegressor):
        return 2 * (model.X_train_.size + model.alpha_.size), model.X_train_.size + model.alpha_.size
    if isinstance(model, MLPRegressor):
        weights = sum(layer.size for layer in model.coefs_)
        return 2 * weights, weights + sum(layer.size for layer in model.intercepts_)
    if isinstance(model, DecisionTreeRegressor):
        return common.tree_cost(model, model.n_outputs_)
    if isinstance(model, (RandomForestRegressor, ExtraTreesRegressor, AdaBoostRegressor, GradientBoostingRegressor)):
        return sum(np.array(common.tree_cost(tree, getattr(tree, "n_outputs_", 1))) for tree in np.ravel(model.estimators_))
    if isinstance(model, HistGradientBoostingRegressor):
        trees = [tree for step in model._predictors for tree in step]
        return sum(t.get_max_depth() for t in trees), sum(2 * len(t.nodes) + t.get_n_leaf_nodes() for t in trees)
    return common.cost(model, width)


def split(table, seed):
    """(oof rows, test rows, fold of each oof row); random, ascending."""
    rest, test = train_test_split(np.arange(len(table.x)), test_size=table.test_share, random_state=seed)
    rows = np.sort(rest if table.oof_limit is None else rest[:table.oof_limit])
    folds = np.empty(len(rows), dtype=np.int64)
    for fold, (_, held) in enumerate(KFold(table.folds, shuffle=True, random_state=seed).split(rows)):
        folds[held] = fold
    return rows, np.sort(test), folds


def shaped(values, outputs):
    """[N] for one output, [N, D] for more."""
    return np.asarray(values).reshape(-1) if outputs == 1 else np.asarray(values).reshape(-1, outputs)


def predictions(make, table, rows, test, folds):
    """(oof, test, model): each oof row is predicted by a fit that never saw its fold, the test rows by a refit on all."""
    count = len(table.outputs)
    y = shaped(table.y, count)
    oof = np.empty(y[rows].shape, dtype=np.float32)
    for fold in np.unique(folds):
        held = folds == fold
        oof[held] = shaped(make(count).fit(table.x[rows[~held]], y[rows[~held]]).predict(table.x[rows[held]]), count)
    model = make(count).fit(table.x[rows], y[rows])
    return oof, shaped(model.predict(table.x[test]), count).astype(np.float32), model


def run(name, make, table, parts, folder):
    """Fits a member, writes its predictions and, last, NAME.member.json."""
    start = time.perf_counter()
    oof, test, model = predictions(make, table, *parts)
    for part, values in (("oof", oof), ("test", test)):
        assert np.isfinite(values).all(), f"{name} predicts values that are not finite"
        common.save(folder / f"{name}.{part}.npy", values)
    flops, params = cost(model, table.x.shape[1])
    facts = {"flops": float(flops), "params": int(params), "seconds": round(time.perf_counter() - start, 1)}
    (folder / f"{name}.member.json").write_text(json.dumps(facts) + "\n")
    y = shaped(table.y, len(table.outputs))
    print(f"{name:18s} {facts['seconds']:7.1f} s, oof RMSE {scores.rmse(oof, y[parts[0]]):.4f}, "
          f"test {scores.rmse(test, y[parts[1]]):.4f}", flush=True)


def write_manifest(folder, table, members):
    """pool.json with the members that are done."""
    models = []
    for name, (family, _) in members.items():
        if (folder / f"{name}.member.json").exists():
            facts = json.loads((folder / f"{name}.member.json").read_text())
            models.append({"name": name, "family": family, "flops": facts["flops"], "params": facts["params"],
                           "predictions": {part: f"{name}.{part}.npy" for part in ("oof", "test")}})
    splits = {part: {key: f"{part}_{key}.npy" for key in ("labels", "ids")} for part in ("oof", "test")}
    splits["oof"]["folds"] = "oof_folds.npy"
    (folder / "pool.json").write_text(json.dumps({
        "corestack_pool": 1, "task": "regression", "outputs": table.outputs, "splits": splits, "models": models},
        indent=1) + "\n")


def make_pool(pool, folder, seed, threads):
    """Makes or completes the pool in `folder`."""
    table = POOLS[pool]()
    folder.mkdir(parents=True, exist_ok=True)
    parts = rows, test, folds = split(table, seed)
    y = shaped(table.y, len(table.outputs))
    for part, numbers in (("oof", rows), ("test", test)):
        common.save(folder / f"{part}_labels.npy", y[numbers])
        common.save(folder / f"{part}_ids.npy", numbers)
    common.save(folder / "oof_folds.npy", folds)
    members = members_of(pool, seed, table.x.shape[1])
    print(f"{pool}: {len(rows)} oof and {len(test)} test rows, {table.x.shape[1]} features, {len(members)} members", flush=True)
    with threadpool_limits(threads):
        for name, (_, make) in members.items():
            if not (folder / f"{name}.member.json").exists():
                run(name, make, table, parts, folder)
    write_manifest(folder, table, members)


def make_example(pool, folder, seed, threads):
    """The pool without the notes of what is done, made afresh: a folder of examples/."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        make_pool(pool, Path(scratch), seed, threads)
        for file in (*Path(scratch).glob("*.npy"), Path(scratch) / "pool.json"):
            shutil.copyfile(file, folder / file.name)


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("pool", choices=sorted(POOLS))
    options = parser.parse_args()
    make_pool(options.pool, options.out or common.default_folder(options.pool), options.seed, options.threads)


if __name__ == "__main__":
    main()
