"""Writes tests/data/spectral.h: clusters, spectra, variances and the stability of ridge weights by NumPy's linear algebra
on a pool of noisy copies and on a random regression."""

import os

import numpy as np

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def spectrum(gram, penalty):
    values = np.linalg.eigvalsh(gram)
    radius = np.abs(gram).sum(axis=1) - np.abs(np.diag(gram))
    return [values[-1], values[0], np.linalg.cond(gram), np.trace(gram), (np.diag(gram) - radius).min(),
            (np.diag(gram) + radius).max(), np.linalg.cond(gram + penalty * np.eye(len(gram))),
            np.trace(gram @ np.linalg.inv(gram + penalty * np.eye(len(gram))))]


def main():
    rng = np.random.default_rng(23)
    sizes, rows, penalty = (3, 2, 1, 1), 400, 0.05
    cluster_of = np.repeat(np.arange(4), sizes)
    heads = rng.normal(size=(rows, 4)) + 0.4 * rng.normal(size=(rows, 1))
    columns = heads[:, cluster_of] * np.where(np.arange(7) == 1, -1, 1) + 0.1 * rng.normal(size=(rows, 7))
    gram = np.corrcoef(columns.T)
    kept = [int(np.flatnonzero(cluster_of == g)[0]) for g in range(4)]
    same = cluster_of[:, None] == cluster_of[None, :]
    off = ~np.eye(7, dtype=bool)
    size = np.abs(gram)
    epsilon, closest, mu = 1 - size[same & off].min(), 1 - size[same & off].max(), size[~same].max()
    text = "/* Written by tests/oracles/spectral.py. */\n/* clang-format off */\n"
    text += f"enum {{ SP_MEMBERS = 7, SP_CLUSTERS = 4 }};\nstatic const double SP_PENALTY = {penalty};\n"
    text += array("double", "SP_GRAM", gram) + array("int32_t", "SP_CLUSTER_OF", cluster_of) + array("int32_t", "SP_KEPT", kept)
    text += "/* epsilon, closest, mu */\n" + array("double", "SP_FACTS", [epsilon, closest, mu])
    text += "/* largest, least, kappa, trace, discs, kappa with the penalty, effective dimension: before, after */\n"
    text += array("double", "SP_SPECTRUM", [spectrum(gram, penalty), spectrum(gram[np.ix_(kept, kept)], penalty)])

    errors = rng.normal(size=(200, 5)) * [0.5, 0.7, 1, 1.2, 2] + rng.normal(size=(200, 1))
    covariance = np.cov(errors.T)
    weights = 1 / np.sqrt((errors**2).mean(axis=0))
    weights /= weights.sum()
    inverse = np.linalg.inv(covariance)
    best = inverse.sum(axis=1) / inverse.sum()
    text += "enum { SP_BLEND = 5 };\n" + array("double", "SP_COVARIANCE", covariance) + array("double", "SP_WEIGHTS", weights)
    text += array("double", "SP_OPTIMUM", best) + "/* minimum, value, bound of their difference */\n"
    text += array("double", "SP_VARIANCE", [1 / inverse.sum(), weights @ covariance @ weights,
                                            np.linalg.norm(covariance, 2) * np.sum((weights - best) ** 2)])

    n, d, ridge = 30, 4, 2.5
    x, y = rng.normal(size=(n, d)), rng.normal(size=n)
    dx, dy = 0.02 * rng.normal(size=(n, d)), 0.1 * rng.normal(size=n)

    def solve(design, target):  # ridge as least squares with rows added
        stacked = np.vstack([design, np.sqrt(ridge) * np.eye(d)])
        return np.linalg.lstsq(stacked, np.concatenate([target, np.zeros(d)]), rcond=None)[0]

    w = solve(x, y)
    norm = np.linalg.norm
    change = norm(solve(x + dx, y + dy) - w)
    paper = 2 * norm(x, 2) / ridge * norm(dy) + 8 * norm(x, 2) * norm(y) / ridge**2 * norm(dx, 2) + 2 * norm(y) / ridge * norm(dx, 2)
    sharp = (norm(dy) + norm(dx, 2) * norm(w)) / 2 / np.sqrt(ridge) + norm(dx, 2) * norm(y - x @ w) / ridge
    text += f"enum {{ SP_ROWS = {n}, SP_COLUMNS = {d} }};\nstatic const double SP_RIDGE = {ridge};\n"
    for name, value in (("X", x), ("Y", y), ("MOVED_X", x + dx), ("MOVED_Y", y + dy)):
        text += array("double", f"SP_{name}", value)
    text += "/* change, the paper's bound, ours */\n" + array("double", "SP_STABILITY", [change, paper, sharp])
    text += f"enum {{ SP_PRECONDITION = {int(norm(dx, 2) <= ridge / 4 / norm(x, 2))} }};\n"

    folds, radius, pairs = np.arange(n) % 3, norm(x, axis=1).max(), []
    without = []
    for left in (folds != f for f in range(3)):
        gram = x[left].T @ x[left] / left.sum() + ridge / n * np.eye(d)  # of the mean loss
        without.append(np.linalg.solve(gram, x[left].T @ y[left] / left.sum()))
    for a in range(3):
        for b in range(3):
            if a != b:
                claimed = 4 * radius**2 * np.isin(folds, (a, b)).sum() / (ridge / n * n) * norm(without[a])
                pairs.append((norm(without[a] - without[b]), claimed))
    most = max(change for change, _ in pairs)
    text += "/* largest change, largest ratio to what is claimed; folds are i % 3 */\n"
    text += array("double", "SP_FOLDS", [most, max(change / claimed for change, claimed in pairs)])
    with open(os.path.join(FOLDER, "spectral.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
