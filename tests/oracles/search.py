"""Separable CMA-ES in NumPy with vectors and matrices: Hansen's tutorial (arXiv 1604.00772, figure 6), C kept to its
diagonal and its rates times (n + 2) / 3 (Ros and Hansen 2008). Writes tests/data/search.h: the draws and what they lead
to on an ellipsoid whose axes are turned."""

import os

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def run(function, start, sigma, draws):
    """draws: [generations, population, n]. Returns mean, sigma and diagonal after each generation, and all values."""
    generations, size, n = draws.shape
    mu = size // 2
    w = np.log((size + 1) / 2) - np.log(np.arange(1, mu + 1))
    w = w / w.sum()
    mu_eff = 1 / (w**2).sum()
    c_s = (mu_eff + 2) / (n + mu_eff + 5)
    d_s = 1 + 2 * max(0.0, np.sqrt((mu_eff - 1) / (n + 1)) - 1) + c_s
    c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n)
    c_1 = min(1.0, (n + 2) / 3 * 2 / ((n + 1.3) ** 2 + mu_eff))
    c_mu = min(1 - c_1, (n + 2) / 3 * 2 * (mu_eff - 2 + 1 / mu_eff) / ((n + 2) ** 2 + mu_eff))
    chi = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
    mean = np.array(start, dtype=float)
    C = np.eye(n)
    p_s = np.zeros(n)
    p_c = np.zeros(n)
    track, seen = [], []
    for g in range(generations):
        root = np.sqrt(C)  # of a diagonal matrix
        y = draws[g] @ root
        values = np.array([function(mean + sigma * step) for step in y])
        chosen = y[np.argsort(values, kind="stable")[:mu]]
        step = w @ chosen
        mean = mean + sigma * step
        p_s = (1 - c_s) * p_s + np.sqrt(c_s * (2 - c_s) * mu_eff) * np.linalg.solve(root, step)
        h = float(np.linalg.norm(p_s) / np.sqrt(1 - (1 - c_s) ** (2 * (g + 1))) < (1.4 + 2 / (n + 1)) * chi)
        p_c = (1 - c_c) * p_c + h * np.sqrt(c_c * (2 - c_c) * mu_eff) * step
        C = (
            (1 + c_1 * (1 - h) * c_c * (2 - c_c) - c_1 - c_mu) * C
            + c_1 * np.outer(p_c, p_c)
            + c_mu * np.einsum("k,ki,kj->ij", w, chosen, chosen)
        )
        C = np.diag(np.diag(C))
        sigma = sigma * np.exp(min(1.0, c_s / d_s * (np.linalg.norm(p_s) / chi - 1)))
        track.append((mean, sigma, np.diag(C)))
        seen.append(values)
    return track, np.array(seen)


def array(name, values):
    text = ", ".join(repr(float(v)) for v in np.ravel(values))
    lines, line = [], "   "
    for word in text.split(" "):
        if len(line) + len(word) + 1 > 98:
            lines.append(line)
            line = "   "
        line += " " + word
    return f"static const double {name}[] = {{\n" + "\n".join([*lines, line]) + "};\n"


def main():
    rng = np.random.default_rng(20080913)
    n, generations, start, sigma = 5, 14, np.array([1.0, -0.5, 0.25, 2.0, 0.0]), 0.7
    population = 4 + int(3 * np.log(n))
    turn, _ = np.linalg.qr(rng.normal(size=(n, n)))
    matrix = turn @ np.diag(np.logspace(0, 1.5, n)) @ turn.T
    draws = rng.normal(size=(generations, population, n))
    track, values = run(lambda x: x @ matrix @ x, start, sigma, draws)
    with open(os.path.join(FOLDER, "search.h"), "w") as out:
        out.write("/* Written by tests/oracles/search.py: draws, and the search in NumPy that they make. */\n")
        out.write("/* clang-format off */\n")
        out.write(f"enum {{ SEARCH_N = {n}, SEARCH_POPULATION = {population}, SEARCH_GENERATIONS = {generations} }};\n")
        out.write(f"static const double SEARCH_SIGMA = {sigma!r};\n")
        out.write(array("SEARCH_START", start))
        out.write(array("SEARCH_MATRIX", matrix))
        out.write("/* [generations][population][n] */\n" + array("SEARCH_DRAWS", draws))
        out.write("/* [generations][population] */\n" + array("SEARCH_VALUES", values))
        out.write("/* [generations][n] */\n" + array("SEARCH_MEANS", [m for m, _, _ in track]))
        reach = [s * np.sqrt(c.max()) for _, s, c in track]
        out.write("/* [generations] */\n" + array("SEARCH_REACH", reach))


if __name__ == "__main__":
    main()
