"""Writes tests/data/redundancy.h: CKA (biased and unbiased, exact and from Nystrom features), bandwidths, Pearson
correlations and condition numbers of a small pool, from NumPy with N x N matrices.

Predictions are multiples of 1/4096, so that both sides read the same numbers. Member 1 is member 0 with noise, 2 is
independent of all, 3 is a nonlinear function of 0.
"""
import pathlib

import numpy as np

from _c_header import array

ROWS, CLASSES, MEMBERS, LANDMARKS = 600, 3, 4, 25
SMALL = (2, 3, 4)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def distances(a, b):
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))


def bandwidth(p):
    d = distances(p, p)[np.triu_indices(len(p), 1)]
    return np.median(d) if np.median(d) > 0 else d.mean()


def kernel(a, b, sigma):
    return np.exp(-distances(a, b) ** 2 / (2 * sigma**2))


def biased(k, l):
    n = len(k)
    h = np.eye(n) - 1 / n
    return np.trace(k @ h @ l @ h)


def unbiased(k, l):
    """Song et al. 2007, equation 5."""
    n = len(k)
    k, l = k - np.diag(np.diag(k)), l - np.diag(np.diag(l))
    one = np.ones(n)
    return (np.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2))
            - 2 / (n - 2) * (one @ k @ l @ one)) / (n * (n - 3))


def nystrom(p, sigma, landmarks):
    w, u = np.linalg.eigh(kernel(p[landmarks], p[landmarks], sigma))
    keep = w > 1e-10 * w[-1]
    root = u[:, keep] @ np.diag(w[keep] ** -0.5) @ u[:, keep].T  # the symmetric W^(-1/2)
    z = kernel(p, p[landmarks], sigma) @ root
    return z @ z.T


def alignment(kernels, hsic):
    h = np.array([[hsic(a, b) for b in kernels] for a in kernels])
    return h / np.sqrt(np.outer(np.diag(h), np.diag(h)))


def main():
    rng = np.random.default_rng(11)
    z = 2 * rng.normal(size=(ROWS, CLASSES))
    pool = [softmax(z), softmax(z + 0.8 * rng.normal(size=z.shape)), softmax(2 * rng.normal(size=z.shape)),
            softmax(np.abs(z))]
    ints = [np.round(p * 4096).astype(int) for p in pool]
    pool = [i / 4096 for i in ints]
    sigma = [bandwidth(p) for p in pool]
    kernels = [kernel(p, p, s) for p, s in zip(pool, sigma)]
    landmarks = np.sort(rng.permutation(ROWS)[:LANDMARKS])
    low = [nystrom(p, s, landmarks) for p, s in zip(pool, sigma)]
    pearson = np.corrcoef([p.ravel() for p in pool])
    values = np.linalg.eigvalsh(pearson)
    part = np.linalg.eigvalsh(pearson[np.ix_([0, 2, 3], [0, 2, 3])])

    text = "/* Written by tests/oracles/redundancy.py. */\n"
    text += f"enum {{ REF_ROWS = {ROWS}, REF_CLASSES = {CLASSES}, REF_MEMBERS = {MEMBERS}, "
    text += f"REF_LANDMARKS = {LANDMARKS} }};\n"
    text += array("short", "ref_predictions", ints, "%d")
    text += array("double", "ref_sigma", sigma)
    text += array("double", "ref_biased", alignment(kernels, biased))
    text += array("double", "ref_unbiased", alignment(kernels, unbiased))
    text += array("int64_t", "ref_landmarks", landmarks, "%d")
    text += array("double", "ref_nystrom_biased", alignment(low, biased))
    text += array("double", "ref_nystrom_unbiased", alignment(low, unbiased))
    text += array("double", "ref_residual", [1 - np.trace(k) / ROWS for k in low])
    text += array("double", "ref_pearson", pearson)
    text += array("double", "ref_kappa", [values[-1] / values[0], part[-1] / part[0]])
    for n in SMALL:
        few = [p[:n] for p in pool]
        kernels = [kernel(p, p, bandwidth(p)) for p in few]
        text += array("double", f"ref_biased_{n}", alignment(kernels, biased))
    text += array("double", "ref_unbiased_4", alignment(kernels, unbiased))
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "redundancy.h"
    path.write_text(text)


if __name__ == "__main__":
    main()
