#!/usr/bin/python3
"""CoRe-Stack+ to the letter, computed in NumPy from the paper's text, and compared with presets `paper` and `prototype`.

    tests/oracles/letter.py POOL... [--tool build-gcc/corestack] [--preset paper] [--gate prototype] [--set KEY=VALUE]

POOL is the folder or manifest of a classification with the splits oof and test. The gate is fixed, since the paper leaves the
training of a learned one open: g = 1 on {mean, sd, median, range, mean*sd, range*sd} (prototype), or no aggregators (none).
Compared are the kept members, lambda*, the evidence and weights of the blend, and the NLL on split test. Exit status 1 if one differs.

Nothing here is taken from the C code but what the paper leaves to chance or does not say (docs/method.md lists those choices): the
draws of the median bandwidth and of the landmarks, the folds, the map from scores to probabilities.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

BANDWIDTH, LANDMARKS = 2, 3
FLOOR = 1e-6  # of probabilities made from linear scores
L1_RATIO = 0.5
GRID = np.exp(np.linspace(np.log(1e-8), np.log(1e2), 61))


# ---- draws: Philox 4x32-10 (Salmon et al. 2011), then the first steps of a shuffle


def philox(seed, stream, substream=0):
    block = 0
    while True:
        counter, key = [block & 0xFFFFFFFF, block >> 32, stream, substream], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        yield counter[0] << 32 | counter[1]
        yield counter[2] << 32 | counter[3]
        block += 1


def sample(rows, count, seed, stream, substream=0):
    order, draws = np.arange(rows), philox(seed, stream, substream)
    if count >= rows:
        return order
    for i in range(count):
        bound = rows - i
        draw = next(draws)
        while draw < (1 << 64) % bound:
            draw = next(draws)
        j = i + draw % bound
        order[[i, j]] = order[[j, i]]
    return np.sort(order[:count])


# ---- S1: section "Kernelized Redundancy Projection using CKA", equations 1 and 2


def squares(a, b):
    return np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0)


def centred(features):
    return features - features.mean(0)


def features_of(p, seed, estimator, draw=0):
    """Features whose Gram matrix is the Nystrom approximation of the kernel, of one draw of landmarks, or the exact one's."""
    some = p[sample(len(p), min(len(p), 1000), seed, BANDWIDTH)]
    pairs = np.sqrt(((some[:, None] - some) ** 2).sum(2)[np.triu_indices(len(some), 1)])
    sigma = np.median(pairs) or pairs.mean()
    if estimator == "exact":
        return np.exp(-squares(p, p) / (2 * sigma**2))
    at = p[sample(len(p), int(np.ceil(np.sqrt(len(p)))), seed, LANDMARKS, 16 + draw if draw else 0)]
    values, vectors = np.linalg.eigh(np.exp(-squares(at, at) / (2 * sigma**2)))
    good = values > 1e-10 * values[-1]
    return np.exp(-squares(p, at) / (2 * sigma**2)) @ (vectors[:, good] / np.sqrt(values[good]))


def cka(members, seed, estimator, draws=1):
    return np.mean([cka_of_draw(members, seed, estimator, d) for d in range(draws)], axis=0)


def cka_of_draw(members, seed, estimator, draw):
    features = [centred(features_of(p, seed, estimator, draw)) for p in members]
    if estimator == "exact":  # the kernel itself, centred on both sides
        features = [f - f.mean(1)[:, None] for f in features]
        hsic = np.array([[(a * b).sum() for b in features] for a in features])
    else:
        hsic = np.array([[((a.T @ b) ** 2).sum() for b in features] for a in features])
    scale = np.sqrt(np.diag(hsic))
    return hsic / scale[:, None] / scale[None, :]


def pearson(members):
    return np.corrcoef([p.ravel() for p in members])


def project(similarity, risk, tau):
    """Ascending risk; out goes whoever is too similar to a kept model of strictly lower risk."""
    kept = []
    for k in np.argsort(risk, kind="stable"):
        if not any(similarity[k, j] > tau and risk[j] < risk[k] for j in kept):
            kept.append(int(k))
    return sorted(kept)


# ---- S2: equation 4 with a fixed gate


def design(members, gate):
    """[N * C, d]: the out-of-fold columns, then the hand-crafted features of the prototype."""
    columns = [p.ravel() for p in members]
    if gate == "prototype":
        p = np.stack(columns)
        mean, sd, spread = p.mean(0), p.std(0), p.max(0) - p.min(0)
        columns += [mean, sd, np.median(p, 0), spread, mean * sd, spread * sd]
    return np.stack(columns, 1)


class Standardised:
    """Columns centred, of norm sqrt(n), constant ones left out; Gram, correlations with the target."""

    def __init__(self, x, y):
        self.rows = len(x)
        mean, sd = x.mean(0), x.std(0)
        self.used = sd > 1e-10 * np.sqrt((x**2).mean(0)) + 1e-300
        self.mean, self.scale, self.target = mean[self.used], sd[self.used], y.mean()
        z = (x[:, self.used] - self.mean) / self.scale
        self.gram, self.cross = z.T @ z / len(x), z.T @ (y - self.target) / len(x)

    def linear(self, w):
        raw = np.zeros(len(self.used))
        raw[self.used] = w / self.scale
        return raw, self.target - (w / self.scale) @ self.mean


# ---- S3: equations 5 and 6


def lambda_star(gram, samples):
    """C the normalised Gram of K columns over N samples, gamma = K / N, sigma^2 the median of the lower half of the spectrum."""
    values = np.linalg.eigvalsh(gram)
    values = np.maximum(values, 0)
    real = values[values >= 1e-10 * values[-1]]
    sigma2 = np.median(real[: max(len(real) // 2, 1)])
    edge = sigma2 * (1 + np.sqrt(len(values) / samples)) ** 2
    noise = values <= edge
    if not noise[len(values) - len(real)]:
        noise[len(values) - len(real)] = True  # nothing at or below the edge: the smallest
    snr = values[~noise].sum() / values[noise].sum()
    return values[-1] / snr if snr > 0 else np.nan


def penalised(s, lam, ratio, start=None):
    """min |y - Xw|^2/n + lambda ((1 - ratio) |w|_2^2 + 2 ratio |w|_1): coordinate descent until the signs are those of the optimum."""
    d = len(s.cross)
    ridge = s.gram + lam * (1 - ratio) * np.eye(d)
    if ratio == 0:
        return np.linalg.solve(ridge, s.cross)
    w = np.zeros(d) if start is None else start.copy()
    for _ in range(100_000):
        for _ in range(20):
            for j in range(d):
                slope = s.cross[j] - ridge[j] @ w + ridge[j, j] * w[j]
                w[j] = np.sign(slope) * max(abs(slope) - lam * ratio, 0) / ridge[j, j]
        on, exact = w != 0, np.zeros(d)
        if on.any():
            exact[on] = np.linalg.lstsq(ridge[np.ix_(on, on)], (s.cross - lam * ratio * np.sign(w))[on], rcond=None)[0]
        slope = s.cross - ridge @ exact
        if (np.sign(exact) == np.sign(w)).all() and (np.abs(slope[~on]) <= lam * ratio * (1 + 1e-12)).all():
            return exact
    raise ArithmeticError("coordinate descent did not reach the optimum")


def independent(matrix):
    """The block of the columns that do not depend on those before them: the mean and the median of two members are one."""
    chosen = []
    for j in range(len(matrix)):
        part = matrix[np.ix_(chosen, chosen)]
        cross = matrix[chosen, j]
        if matrix[j, j] - (cross @ np.linalg.solve(part, cross) if chosen else 0) > 1e-13:
            chosen.append(j)
    return matrix[np.ix_(chosen, chosen)]


RATIOS = {"ridge": 0.0, "elastic-net": L1_RATIO, "lasso": 1.0}


def fit_learners(x, y, samples, members, chosen=None, scale="sum"):
    """{name: (coefficients, intercept, w, log det (X'X + n lambda I) on the active ones)} and the penalty of lambda*: the
    ridge of the paper's formula is (X'X + lambda* I)^-1 X'y (sum); its proof adds lambda* to X'X/n (mean)."""
    s = Standardised(x, y)
    part = s.used[:members].sum()
    star = lambda_star(s.gram[:part, :part], samples) / (s.rows if scale == "sum" else 1)
    found = {}
    for name, ratio in RATIOS.items():
        lam = (chosen or {}).get(name, star)
        w = penalised(s, lam, ratio)
        active = np.ones(len(w), bool) if ratio == 0 else w != 0
        matrix = independent(s.gram[np.ix_(active, active)] + lam * (1 - ratio) * np.eye(active.sum()))
        found[name] = (*s.linear(w), w, np.linalg.slogdet(s.rows * matrix)[1] if len(matrix) else 0.0, len(matrix))
    return found, star


def cross_validated(x, y, folds):
    """The prototype: for each learner the penalty of least squared error on held-out folds, on a log-spaced grid."""
    parts = [Standardised(x[folds != f], y[folds != f]) for f in np.unique(folds)]
    whole, chosen = Standardised(x, y), {}
    for name, ratio in RATIOS.items():
        grid = GRID
        if ratio > 0:
            most = np.abs(whole.cross).max() / ratio
            grid = np.exp(np.linspace(np.log(most), np.log(1e-6 * most), 61))
        losses = np.zeros(len(grid))
        for f, s in zip(np.unique(folds), parts):
            held, w = folds == f, None
            for i, lam in enumerate(grid):
                w = penalised(s, lam, ratio, w)
                raw, intercept = s.linear(w)
                losses[i] += ((y[held] - x[held] @ raw - intercept) ** 2).sum()
        order = np.argsort(-grid)
        chosen[name] = grid[order[np.argmin(losses[order])]]  # of equal losses the larger penalty
    return chosen


# ---- S4: section "Laplace-Approximate Bayesian Blender"


def probabilities(scores, classes):
    p = np.clip(scores.reshape(-1, classes), FLOOR, 1)
    return p / p.sum(1, keepdims=True)


def laplace(loss, logdet):
    evidence = -np.asarray(loss) - 0.5 * np.asarray(logdet)
    weights = np.exp(evidence - evidence[np.isfinite(evidence)].max())
    return np.where(np.isfinite(evidence), weights, 0) / weights[np.isfinite(evidence)].sum()


def blend(x, y, sample_of, folds, classes, members, preset, scale):
    """The learners, lambda*, their penalties, evidence (L, half log det H) and weights: losses on the folds that a fit has not seen,
    curvature of the fit on all rows."""
    row_folds = folds[sample_of]
    samples = len(folds)
    chosen = cross_validated(x, y, row_folds) if preset == "prototype" else None
    whole, star = fit_learners(x, y, samples, members, chosen, scale)
    held, curvature = {name: np.zeros(len(y)) for name in whole}, {name: [] for name in whole}
    for f in np.unique(folds):
        seen = row_folds != f
        own = cross_validated(x[seen], y[seen], row_folds[seen]) if preset == "prototype" else None
        part, _ = fit_learners(x[seen], y[seen], (folds != f).sum(), members, own, scale)
        for name, (raw, intercept, _, logdet, active) in part.items():
            held[name][~seen] = x[~seen] @ raw + intercept
            curvature[name].append((logdet, active))
    if preset == "prototype":
        error = [np.sqrt(((probabilities(held[n], classes).ravel() - y) ** 2).mean()) for n in whole]
        return whole, star, chosen, None, (1 / np.array(error)) / (1 / np.array(error)).sum()
    # L the squared error as the exponent of a Gaussian likelihood, at its noise variance; H the Hessian of the same function.
    n = len(y)
    noise = [((y - held[name]) ** 2).mean() for name in whole]
    loss = [n / 2 * (np.log(2 * np.pi * s2) + 1) for s2 in noise]
    logdet = [whole[name][3] - whole[name][4] * np.log(s2) for name, s2 in zip(whole, noise)]
    evidence = {name: (one, half / 2, [(whole_fold - active * np.log(s2)) / 2 for whole_fold, active in curvature[name]])
                for name, one, half, s2 in zip(whole, loss, logdet, noise)}
    empty = [whole[name][4] == 0 for name in whole]
    if not all(empty):
        loss = [np.inf if out else one for one, out in zip(loss, empty)]
    return whole, star, chosen, evidence, laplace(loss, logdet)


# ---- the whole


def about_pool(manifest):
    with open(manifest, encoding="utf-8") as file:
        return json.load(file)


def read(manifest):
    folder, about = os.path.dirname(manifest), about_pool(manifest)
    labels = {s: np.load(os.path.join(folder, about["splits"][s]["labels"])).astype(int) for s in ("oof", "test")}
    predictions = {s: [] for s in labels}
    for model in about["models"]:
        for split in labels:
            p = np.load(os.path.join(folder, model["predictions"][split])).astype(np.float64)
            if model.get("output", about.get("output", "probability")) == "logit":
                p = np.exp(p - p.max(1, keepdims=True))
            predictions[split].append((p / p.sum(1, keepdims=True)).astype(np.float32).astype(np.float64))
    folds = about["splits"]["oof"].get("folds")
    return ([m["name"] for m in about["models"]], predictions, labels,
            None if folds is None else np.load(os.path.join(folder, folds)).astype(int))  # fmt: skip


def letter(predictions, labels, folds, preset="paper", gate="prototype", seed=0, estimator="nystrom", tau=None, scale="sum"):
    """{kept, lambda_star (on the scale of X'X/n), weights, nll} of a pool: predictions {split: [p]}, labels {split: y}, folds of the rows of oof."""
    oof, y = predictions["oof"], labels["oof"]
    classes = oof[0].shape[1]
    risk = [-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean() for p in oof]
    if preset == "paper":
        kept = project(cka(oof, seed, estimator), risk, 0.85 if tau is None else tau)
    else:
        kept = project(pearson(oof), risk, 0.95 if tau is None else tau)
    x = design([oof[k] for k in kept], gate)
    target = (y[:, None] == np.arange(classes)).ravel().astype(float)
    sample_of = np.repeat(np.arange(len(y)), classes)
    learners, star, chosen, evidence, weights = blend(x, target, sample_of, folds, classes, len(kept), preset, scale)
    used = np.where(weights < 1e-6, 0, weights)
    used = used / used.sum()
    new = design([predictions["test"][k] for k in kept], gate)
    p = sum(w * probabilities(new @ raw + b, classes) for w, (raw, b, *_) in zip(used, learners.values()))
    t = labels["test"]
    return {"kept": kept, "lambda_star": star, "penalties": chosen, "evidence": evidence,
            "weights": dict(zip(learners, weights)),
            "nll": float(-np.log(np.maximum(p[np.arange(len(t)), t], 1e-12)).mean()), "risk": risk}  # fmt: skip


def nested_nll(predictions, labels, folds, *words):
    """Each fold predicted by all of it on the other folds: "Leakage-Freeness of the Nested OOF Construction"."""
    p, y, total = predictions["oof"], labels["oof"], 0.0
    for f in np.unique(folds):
        held = folds == f
        parts = {"oof": [one[~held] for one in p], "test": [one[held] for one in p]}
        total += held.sum() * letter(parts, {"oof": y[~held], "test": y[held]}, folds[~held], *words)["nll"]
    return total / len(y)


def tool_run(tool, *words):
    done = subprocess.run([tool, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def compare(tool, pool, preset="paper", gate="prototype", settings=(), estimator="nystrom", nested=False):
    """(what the tool says, what the letter says, [what differs])"""
    manifest = os.path.join(pool, "pool.json") if os.path.isdir(pool) else pool
    names, predictions, labels, folds = read(manifest)
    with tempfile.TemporaryDirectory(prefix="corestack-letter-") as folder:
        if folds is None:
            path = os.path.join(os.path.dirname(manifest), about_pool(manifest)["splits"]["oof"]["labels"])
            tool_run(tool, "folds", "--labels", path, "-o", os.path.join(folder, "folds.npy"))
            folds = np.load(os.path.join(folder, "folds.npy")).astype(int)
        model = os.path.join(folder, "m.cstack")
        words = ["--preset", preset, "--set", f"gate.mode={gate}", "--set", f"evaluate.nested={str(nested).lower()}"]
        words += [w for s in settings for w in ("--set", s)]
        fit = json.loads(tool_run(tool, "fit", manifest, "-o", model, "--json", *words))
        scores = json.loads(tool_run(tool, "evaluate", model, manifest, "--split", "test", "-r", "0", "--json"))
        shown = json.loads(tool_run(tool, "inspect", manifest, "--json"))
    given = dict(s.split("=") for s in settings)
    tau = given.get("cka.threshold" if preset == "paper" else "pearson.threshold")
    words = (preset, gate, 0, estimator, None if tau is None else float(tau), given.get("lambda.scale", "sum"))
    own = letter(predictions, labels, folds, *words)
    redundant = {d["name"] for d in fit["dropped"] if d["because"] == "redundant"}
    found = {"kept": [k for k, name in enumerate(names) if name not in redundant], "lambda": fit["lambda"],
             "weights": fit["blend"], "nll": scores["nll"]}  # fmt: skip
    differs = []
    if found["kept"] != own["kept"]:
        differs.append(f"kept {found['kept']} instead of {own['kept']}")
    expected = own["penalties"]["ridge"] if own["penalties"] else own["lambda_star"]
    if not abs(found["lambda"] - expected) <= 1e-6 * expected:
        differs.append(f"lambda {found['lambda']} instead of {expected}")
    expected, near = own["weights"], 1e-6
    for one in fit["learners"] if own["evidence"] else []:
        loss, half, folds_half = own["evidence"][one["name"]]
        differs += [f"curvature of {one['name']} without fold {f}: {fold['half_logdet']} instead of {other}"
                    for f, (fold, other) in enumerate(zip(one["folds"], folds_half, strict=True))
                    if not abs(fold["half_logdet"] - other) <= 1e-6 * abs(other) + 1e-9]
        if not (abs(one["loss"] - loss) <= 1e-6 * abs(loss) and abs(one["half_logdet"] - half) <= 1e-6 * abs(half) + 1e-9):
            differs.append(f"evidence of {one['name']} {one['loss']}, {one['half_logdet']} instead of {loss}, {half}")
    if own["evidence"] and not differs:
        # The weights multiply an error of the evidence by its size in nats: they follow from the evidence that is printed,
        # to ten digits.
        loss, half = (np.array([one[key] for one in fit["learners"]]) for key in ("loss", "half_logdet"))
        empty = [own["evidence"][one["name"]][1] == 0 for one in fit["learners"]]
        loss = np.where(empty, np.inf, loss) if not all(empty) else loss
        expected = dict(zip([one["name"] for one in fit["learners"]], laplace(loss, 2 * half)))
        near = 1e-6 + 1e-9 * np.abs(loss[np.isfinite(loss)]).max()
    for name, weight in expected.items():
        if not abs(found["weights"].get(name, 0) - weight) <= near:
            differs.append(f"weight of {name} {found['weights'].get(name)} instead of {weight}")
    if not abs(found["nll"] - own["nll"]) <= 1e-6:
        differs.append(f"NLL {found['nll']} instead of {own['nll']}")
    if nested:
        found["nested"], own["nested"] = fit["oof"]["nll"], nested_nll(predictions, labels, folds, *words)
        if not abs(found["nested"] - own["nested"]) <= 1e-6:
            differs.append(f"nested NLL {found['nested']} instead of {own['nested']}")
    every = design(predictions["oof"], "none")
    star = lambda_star(Standardised(every, np.zeros(len(every))).gram, len(folds))
    if not abs(shown["lambda_star"]["oof"] - star) <= 1e-6 * star:
        differs.append(f"inspect: lambda* {shown['lambda_star']['oof']} instead of {star}")
    return found, own, differs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", nargs="+")
    parser.add_argument("--tool", default=os.environ.get("CORESTACK_TOOL", "build-gcc/corestack"))
    parser.add_argument("--preset", choices=("paper", "prototype"), default="paper")
    parser.add_argument("--gate", choices=("prototype", "none"), default="prototype")
    parser.add_argument("--estimator", choices=("nystrom", "exact"), default="nystrom", help="exact: with cka.estimator=exact")
    parser.add_argument("--nested", action="store_true", help="compare the nested NLL of split oof too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    failed = False
    settings = options.set + (["cka.estimator=exact"] if options.estimator == "exact" else [])
    for pool in options.pool:
        found, own, differs = compare(options.tool, pool, options.preset, options.gate, settings, options.estimator, options.nested)
        nested = f", nested NLL {found['nested']:.9f} {own['nested']:.9f}" if options.nested else ""
        weights = " ".join(f"{name} {found['weights'].get(name, 0):.4g} {weight:.4g}" for name, weight in own["weights"].items())
        print(f"{pool}: kept {len(found['kept'])} {len(own['kept'])}, lambda {found['lambda']:.8g} "
              f"{(own['penalties'] or {}).get('ridge', own['lambda_star']):.8g}, {weights}, "
              f"NLL {found['nll']:.9f} {own['nll']:.9f}{nested}: {'; '.join(differs) or 'equal'}")  # fmt: skip
        failed = failed or bool(differs)
    sys.exit(failed)


if __name__ == "__main__":
    main()
