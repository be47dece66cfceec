"""Writes tests/data/regression.h: scores of predicted values from scikit-learn and SciPy."""
import pathlib

import numpy as np
from scipy import stats
from sklearn import metrics

ROWS, OUTPUTS = 41, 3
LEVELS = (0.5, 0.8, 0.9, 0.95)


def array(kind, name, values, form="%.17g"):
    text = ", ".join(form % v for v in np.ravel(values).tolist())
    return f"static const {kind} {name}[] = {{{text}}};\n"


def scores():
    rng = np.random.default_rng(20)
    scale = np.array([1.0, 40.0, 1e-3])
    target = rng.normal(size=(ROWS, OUTPUTS)) * scale + np.array([0, 2000, 0.5])
    mean = (target + rng.normal(size=target.shape) * 0.4 * scale).astype(np.float32)
    variance = ((0.4 * scale) ** 2 * rng.uniform(0.5, 1.5, target.shape)).astype(np.float32)
    half = np.array([stats.norm.ppf(0.5 + level / 2) * np.sqrt(variance.astype(float)) for level in LEVELS])
    half = half.astype(np.float32)
    p, v = mean.astype(float), variance.astype(float)
    each = dict(
        rmse=metrics.mean_squared_error(target, p, multioutput="raw_values", squared=False),
        mae=metrics.mean_absolute_error(target, p, multioutput="raw_values"),
        median=metrics.median_absolute_error(target, p, multioutput="raw_values"),
        r2=metrics.r2_score(target, p, multioutput="raw_values"),
        nll=-stats.norm.logpdf(target, p, np.sqrt(v)).mean(axis=0),
        coverage=np.array([(np.abs(target - p) <= h).mean(axis=0) for h in half.astype(float)]),
        width=2 * half.astype(float).mean(axis=1),
    )
    average = [
        metrics.mean_squared_error(target, p, squared=False),
        metrics.mean_absolute_error(target, p),
        metrics.median_absolute_error(target, p),
        metrics.r2_score(target, p),
        each["nll"].mean(),
    ]
    out = f"enum {{ SCORE_ROWS = {ROWS}, SCORE_OUTPUTS = {OUTPUTS}, SCORE_LEVELS = {len(LEVELS)} }};\n"
    out += array("double", "score_target", target) + array("float", "score_mean", mean, "%.9eF")
    out += array("float", "score_variance", variance, "%.9eF") + array("float", "score_half", half, "%.9eF")
    out += array("double", "score_level", LEVELS)
    for name, values in each.items():
        out += array("double", "each_" + name, values)
    errors = ((target - p) ** 2 / target.var(axis=0)).mean(axis=1)
    return out + array("double", "score_average", average) + array("double", "score_errors", errors)


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "data"
    text = "/* Made by tests/oracles/regression.py. Do not edit. */\n" + scores()
    (folder / "regression.h").write_text(text)


main()
