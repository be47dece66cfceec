"""Writes tests/data/statistics.h: tails of distributions and paired tests from scipy.stats, over grids that reach
p = 1e-300."""
import itertools
import pathlib

import numpy as np
from scipy import stats

from _c_header import array


def table(name, rows):
    """Rows of equal length as a flat array, with their number."""
    rows = np.array(rows, dtype=np.float64)
    assert np.isfinite(rows).all(), name
    return f"enum {{ {name}_rows = {len(rows)} }};\n" + array("double", name, rows)


def student():
    rows = []
    for df in (0.5, 0.7, 1, 1.5, 2, 3, 4.3, 7, 10, 19, 20.5, 33, 99.9, 250, 999, 4321, 9999, 1e5, 1.5e6, 1e7):
        for t in (1e-8, 1e-3, 0.1, 0.5, 1, 1.7, 1.75, 2, 3, 5, 8, 12, 20, 30, 36, 40, 1e3, 1e8, 1e40):
            p = 2 * stats.t.sf(t, df)
            if t * t > df:  # another way; it loses digits where x is next to 1
                assert abs(stats.beta.cdf(df / (df + t * t), df / 2, 0.5) / p - 1) < 1e-11 or p < 1e-300
            if p > 1e-300:
                rows.append((t, df, p))
    return rows


def chi_square():
    rows = []
    for df in (0.01, 0.1, 0.5, 1, 1.9, 2, 3, 5, 9.5, 19, 20, 24, 64, 100, 999, 3000, 1e4, 1e5, 1e7):
        for x in (1e-10, 1e-4, 0.05, 0.3, 1, 1.9, 2.1, 4, 7.7, 15, 40, 100, 300, 900, 1300, 2500, 5000, 1e4):
            rows.append((x, df, stats.chi2.sf(x, df)))
        for z in (-8, -3, -1, -0.1, 0, 0.1, 1, 3, 8, 15, 30):
            x = df + z * np.sqrt(2 * df)
            if x > 0:
                rows.append((x, df, stats.chi2.sf(x, df)))
    return [r for r in rows if r[2] > 1e-300]


def binomial():
    rows = []
    for n in (1, 2, 3, 5, 8, 13, 24, 25, 40, 77, 100, 333, 995, 1000, 5001, 100000, 10000000):
        for z in (0, 0.2, 0.9, 2, 4, 9, 20, 36):
            k = int(np.floor(n / 2 - z * np.sqrt(n) / 2))
            if k >= 0:
                rows.append((k, n, stats.binomtest(k, n).pvalue))
        for k in (0, 1, 2, n // 3, n):
            if k <= n:
                rows.append((k, n, stats.binomtest(k, n).pvalue))
    return [r for r in rows if r[2] > 1e-300]


def spearman(x, y):
    """rho by SciPy, p by all orders up to nine samples, then SciPy's t approximation."""
    rho, p = stats.spearmanr(x, y)
    exact = len(x) <= 9
    if exact:
        a, b = (stats.rankdata(v) - (len(x) + 1) / 2 for v in (x, y))
        orders = np.array(list(itertools.permutations(b)))
        p = np.mean(np.abs(orders @ a) >= abs(a @ b) - 1e-9)
    return [rho, p, exact]


def main():
    rng = np.random.default_rng(13)
    grid = np.concatenate([np.linspace(-8, 8, 41), [-37, -30.5, -20, 12, 25, 37.4, 1e-9, 1e-4]])
    levels = np.concatenate([10.0 ** -np.arange(1, 308, 17), np.linspace(0.02, 0.98, 25), [0.199, 0.2, 0.201, 0.799, 0.801],
                             0.5 + np.array([1e-12, -1e-7, 1e-3]), 1 - 10.0 ** -np.arange(2, 16, 3)])
    text = "/* Written by tests/oracles/statistics.py. */\n// clang-format off\n#include <stdint.h>\n"
    text += "/* t, df, two-sided p */\n" + table("student", student())
    text += "/* z, lower tail, upper tail */\n" + table("normal", [(z, stats.norm.cdf(z), stats.norm.sf(z)) for z in grid])
    text += "/* p, quantile */\n" + table("quantile", [(p, stats.norm.ppf(p)) for p in levels])
    text += "/* x, df, upper tail */\n" + table("chi_square", chi_square())
    text += "/* successes, trials, two-sided p */\n" + table("binomial", binomial())

    a = rng.gamma(2.0, size=200)
    b = a + rng.normal(0.03, 0.2, size=200)
    text += array("double", "paired_a", a) + array("double", "paired_b", b) + "/* of the first n: n, mean, se, t, p */\n"
    rows = []
    for n in (2, 3, 10, 57, 200):
        d = a[:n] - b[:n]
        t, p = stats.ttest_rel(a[:n], b[:n])
        rows.append((n, d.mean(), stats.sem(d), t, p))
    text += table("paired", rows)

    raw = np.array([0.04, 0.001, 0.3, 0.01, 0.01, 0.9, 0.0, 1.0, 0.02])
    text += array("double", "raw_p", raw) + array("double", "bonferroni_p", np.minimum(raw * len(raw), 1))

    rows = []  # both right, only first, only second, p
    for first, second in ((0, 0), (1, 0), (3, 9), (12, 12), (24, 0), (20, 5), (13, 12), (25, 25), (120, 60), (7, 400)):
        n = first + second
        p = stats.chi2.sf(max(abs(first - second) - 1, 0) ** 2 / max(n, 1), 1)
        if n < 25:
            p = stats.binomtest(first, n).pvalue if n else 1.0
        rows.append((5, first, second, n < 25, p))
    text += "/* right by both, by the first alone, by the second alone, exact, p */\n" + table("mcnemar", rows)

    x = np.round(rng.normal(size=40), 1)
    y = np.round(0.5 * x + rng.normal(size=40), 1)
    cases = [(n, *spearman(x[:n], y[:n])) for n in (3, 4, 5, 6, 7, 8, 9, 10, 23, 40)]
    text += array("double", "ranked_x", x) + array("double", "ranked_y", y)
    text += "/* of the first n: n, rho, p, exact */\n" + table("spearman", cases)
    (pathlib.Path(__file__).parent.parent / "data" / "statistics.h").write_text(text)


if __name__ == "__main__":
    main()
