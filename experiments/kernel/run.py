#!/usr/bin/python3
"""What the paper says of CKA as a measure of dependence, where the truth is known and on real predictions.

    experiments/kernel/run.py [--pools DIR]... [--only POOL]...

Leaves experiments/kernel/figures.json. The population HSIC and CKA of two normals with correlation rho and kernels
exp(-d^2 / 2 s^2) are closed forms here; samples are computed by NumPy, pools by `corestack inspect`.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

SIGMA = 0.953872552  # median distance of two draws of N(0, 1)
CONSTANT = 4.0  # the paper's 2 (sup k + sup k'), for Gaussian kernels
DELTAS = (0.5, 0.1, 0.05, 0.01)
REPEATS = {50: 2000, 200: 2000, 800: 200}
POOLS = ["digits", "mnist", "vision", "cifar10"]
SUBSETS = (100, 400, 1600)
HEATED = 2000  # rows of members at other temperatures
DRAWS = 6


# ---- normals: the truth ---------------------------------------------------------------------------------------------

def population_hsic(rho, sigma=SIGMA):
    """E[k l] + E[k] E[l] - 2 E[E[k | x] E[l | y]] of two standard normals with correlation rho."""
    square = sigma**2
    wide = 1 + 2 / square
    both = 1 / np.sqrt(wide**2 - (2 * rho / square) ** 2)
    alone = 1 / wide
    inner = 1 + 1 / (square + 1)
    crossed = square / (square + 1) / np.sqrt(inner**2 - (rho / (square + 1)) ** 2)
    return both + alone - 2 * crossed


def population_cka(rho):
    return population_hsic(rho) / population_hsic(1.0)


def normals():
    """CKA over the correlation; kappa of two with correlation 0.5, one a cluster, and what (ii) of the spectral proposition says of it; the
    same of (i) for ten, of which two have a correlation of 0.4 and one of these comes twice."""
    grid = np.linspace(0, 1, 1001)
    curve = population_cka(grid)
    half = float(population_cka(0.5))
    values = np.linalg.eigvalsh(np.array([[1, 0.5], [0.5, 1]]))
    ten = np.eye(10)
    ten[0, 1] = ten[1, 0] = 0.4
    wide = np.linalg.eigvalsh(ten[np.ix_([0, *range(10)], [0, *range(10)])])
    wide = wide[wide > 1e-9]
    across = float(population_cka(0.4))
    return {"at_zero": float(abs(population_hsic(0.0))), "at_half": half, "at_nine": float(population_cka(0.9)),
            "rising": bool((np.diff(curve) > 0).all()), "even": bool(np.allclose(population_cka(-grid), curve)),
            "half_kappa": float(values[-1] / values[0]), "half_claimed": (1 + half) / (1 - half),
            "ten": {"cka": across, "kappa": float(wide[-1] / wide[0]), "claimed": 2 / (1 - 9 * across)}}


def centred(x, sigma):
    k = np.exp(-(x[:, None] - x[None, :]) ** 2 / (2 * sigma**2))
    return k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean()


def median_distance(x):
    return float(np.median(np.abs(x[:, None] - x[None, :])[np.triu_indices(len(x), 1)]))


def statistics_of(x, y, sigmas=None):
    """HSIC as the paper has it, with (N - 1)^2, and CKA."""
    a, b = (centred(v, s) for v, s in zip((x, y), sigmas or (median_distance(x), median_distance(y))))
    return float((a * b).sum()) / (len(x) - 1) ** 2, float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def draw(rng, rho, n):
    x = rng.standard_normal(n)
    return x, rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(n)


def concentration(rng):
    """How far HSIC and CKA of N draws are from the truth, and how often farther than the bound."""
    out = []
    for rho in (0.0, 0.5, 0.95):
        truth = population_hsic(rho), population_cka(rho)
        for n, repeats in REPEATS.items():
            far = np.array([np.abs(np.array(statistics_of(*draw(rng, rho, n), (SIGMA, SIGMA))) - truth) for _ in range(repeats)])
            bounds = {str(d): CONSTANT * float(np.sqrt(np.log(1 / d) / n)) for d in DELTAS}
            out.append({"rho": rho, "n": n, "repeats": repeats, "hsic": truth[0], "cka": truth[1], "bounds": bounds,
                        "hsic_above": {d: int((far[:, 0] > b).sum()) for d, b in bounds.items()},
                        "cka_above": {d: int((far[:, 1] > b).sum()) for d, b in bounds.items()},
                        "hsic_95": float(np.quantile(far[:, 0], 0.95)), "cka_95": float(np.quantile(far[:, 1], 0.95))})
    return out


def recovery(rng):
    """N = (C / epsilon)^2, said to be enough: how far CKA is from the truth, for a pair whose true CKA is 1 - epsilon."""
    out = []
    grid = np.linspace(0, 1, 200001)[:-1]
    for epsilon, repeats in ((0.15, 100), (0.1, 20)):
        n = int(round((CONSTANT / epsilon) ** 2))
        rho = float(grid[np.searchsorted(population_cka(grid), 1 - epsilon)])
        far = [abs(statistics_of(*draw(rng, rho, n))[1] - (1 - epsilon)) for _ in range(repeats)]
        out.append({"epsilon": epsilon, "n": n, "rho": rho, "repeats": repeats, "above": int(sum(f > epsilon for f in far)),
                    "most": float(max(far))})
    return out


# ---- pools ----------------------------------------------------------------------------------------------------------

def inspect(options, arrays, labels, *words):
    """CKA and Pearson correlations of predictions {name: array}, by the tool."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        np.save(folder / "labels.npy", labels)
        files = []
        for name, values in arrays.items():
            np.save(folder / f"{name}.npy", values)
            files.append(str(folder / f"{name}.npy"))
        report = common.run_tool(options, "inspect", files[0], *files[1:], "--labels", folder / "labels.npy", "--seed", options.seed,
                                 *words)
    finally:
        shutil.rmtree(folder)
    return np.array(report["cka"], dtype=float), np.array(report["pearson"], dtype=float)


def small_pools(options, rng):
    """Predictions that show one thing each."""
    n = 2000
    x = rng.standard_normal(n)
    values = {"p": x, "square": x**2, "minus": -x, "half": 0.5 * x + np.sqrt(0.75) * rng.standard_normal(n),
              "other": rng.standard_normal(n)}
    cka, pearson = inspect(options, values, x, "--task", "regression", "--set", "cka.estimator=exact")
    a, b = (statistics_of(x, values["square"])[1], statistics_of(x, values["half"])[1])
    if abs(a - cka[0, 1]) > 0.02 or abs(b - cka[0, 3]) > 0.02:  # the tool takes its bandwidth from 1,000 rows
        sys.exit(f"CKA {cka[0, 1]}, {cka[0, 3]} by the tool, {a}, {b} by NumPy")
    out = {name: {"cka": float(cka[0, i]), "pearson": float(pearson[0, i])} for i, name in enumerate(values) if i}
    # One prediction of five classes and the same with its classes turned by one place, two, ...
    classes, rows = 5, 500
    labels = np.arange(rows) % classes
    p = np.full((rows, classes), 0.025)
    p[np.arange(rows), labels] = 0.9
    turned = {f"turned{s}": np.roll(p, s, axis=1) for s in range(classes)}
    cka, pearson = inspect(options, turned, labels.astype(np.int64), "--set", "cka.estimator=exact")
    eigenvalues = np.linalg.eigvalsh(pearson)
    out["turned"] = {"members": classes, "least_cka": float(cka.min()), "correlation": float(pearson[0, 1]),
                     "largest": float(eigenvalues[-1]), "claimed": float(classes),
                     "kappa": float(eigenvalues[-1] / eigenvalues[eigenvalues > 1e-9 * eigenvalues[-1]][0])}
    return out


def conference(order):
    """The symmetric conference matrix of Paley: order - 1 is a prime that leaves 1 divided by 4."""
    prime = order - 1
    squares = {v * v % prime for v in range(1, prime)}
    out = np.ones((order, order))
    for a in range(1, order):
        for b in range(1, order):
            out[a, b] = 1 if (a - b) % prime in squares else -1
    np.fill_diagonal(out, 0)
    return out


def conferences():
    """Unit diagonal, off it c and -c: the largest eigenvalue is 1 + c sqrt(n - 1), and n c is claimed."""
    out = []
    for order in (6, 14, 30):
        s = conference(order)
        limit, most = 1 / (order - np.sqrt(order - 1)), 1 / np.sqrt(order - 1)  # fails above; no correlation matrix above
        worst, fails = 0.0, 0
        grid = np.linspace(0, most, 1001)[1:-1]
        for c in grid:
            largest = np.linalg.eigvalsh(np.eye(order) + c * s)[-1]
            if abs(largest - (1 + c * np.sqrt(order - 1))) > 1e-9:
                sys.exit("a conference matrix has other eigenvalues")
            fails += largest < order * c - 1e-12
            if (largest < order * c - 1e-12) != (c > limit):
                sys.exit("the lemma fails elsewhere than said")
            worst = max(worst, order * c / largest)
        out.append({"order": order, "fails_above": float(limit), "most": float(most), "fails": int(fails), "cases": len(grid),
                    "worst": float(worst)})
    return out


def temper(p, temperature):
    z = np.log(np.maximum(p.astype(np.float64), 1e-12)) / temperature
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def members(manifest, split):
    pool = json.loads(manifest.read_text())
    out = {}
    for model in pool["models"]:
        p = np.load(manifest.parent / model["predictions"][split]).astype(np.float64)
        if pool["output"] == "logit":
            p = np.exp(p - p.max(axis=1, keepdims=True))
        out[model["name"]] = (p / p.sum(axis=1, keepdims=True)).astype(np.float32)
    return out


def real(options, manifest, rng):
    """CKA of random rows against that of all rows; members against themselves at other temperatures."""
    labels = common.array(manifest, common.split_of(manifest, "oof")["labels"])
    own = members(manifest, "oof")
    whole, _ = inspect(options, own, labels)
    pairs = np.triu_indices(len(own), 1)
    subsets = []
    for n in SUBSETS:
        if 2 * n > len(labels):
            continue
        far = []
        for _ in range(DRAWS):
            rows = np.sort(rng.choice(len(labels), n, replace=False))
            far.append(np.abs(inspect(options, {k: p[rows] for k, p in own.items()}, labels[rows])[0] - whole)[pairs])
        far = np.concatenate(far)
        bound = CONSTANT * float(np.sqrt(np.log(20) / n))
        subsets.append({"n": n, "pairs": len(far), "above": int((far > bound).sum()), "bound": bound, "q95": float(np.quantile(far, 0.95)),
                        "most": float(far.max())})
    heated = []
    for name, p in own.items():
        p = p[:HEATED]
        cka, pearson = inspect(options, {"as_is": p, "sharp": temper(p, 0.25), "flat": temper(p, 4.0)}, labels[:HEATED])
        heated += [(float(pearson[0, i]), float(cka[0, i])) for i in (1, 2) if np.isfinite(cka[0, i])]
    return {"rows": len(labels), "members": len(own), "subsets": subsets,
            "temperature": {"pairs": len(heated), "pearson_least": min(h[0] for h in heated),
                            "pearson_median": float(np.median([h[0] for h in heated])),
                            "cka_median": float(np.median([h[1] for h in heated])),
                            "claimed": sum(abs(r) < 0.3 and c > 0.85 for r, c in heated),
                            "pearson_higher": sum(r > c for r, c in heated)}}


def measure(options, pools):
    rng = np.random.default_rng(options.seed)
    return {"normals": normals(),
            "small": small_pools(options, rng), "conference": conferences(), "concentration": concentration(rng),
            "recovery": recovery(rng), "pools": {name: real(options, manifest, rng) for name, manifest in pools.items()}}


if __name__ == "__main__":
    common.run_figures(__doc__, "kernel", POOLS, measure)
