"""Expected values for tests/test_{aggregators,gate,moments,penalty,linear}.c, from NumPy, SciPy,
scikit-learn and PyTorch. Run with the Python that has them, from the root of the repository:
    /usr/bin/python3 tests/oracles/meta_oracle.py
Writes tests/data/meta_*.h. Seeded; docs/method.md#s2-and-s3-gate-and-penalties.
"""
import os
import numpy as np
import torch
from scipy import optimize
from sklearn.linear_model import ElasticNet, Lasso, Ridge

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


class Header:
    """A C header of static arrays."""

    def __init__(self, name, about):
        self.path = os.path.join(DATA, name)
        self.lines = ["/* " + about, " * Written by tests/oracles/meta_oracle.py; do not edit. */",
                      "/* clang-format off */", "#include <math.h>", "#include <stdint.h>"]

    def add(self, name, values, kind="double"):
        flat = np.asarray(values).ravel()
        if kind == "double":
            text = ["%.17g" % v for v in flat]
            text = [t if any(c in t for c in ".en") else t + ".0" for t in text]
            text = [t if np.isfinite(v) else "NAN" for t, v in zip(text, flat)]
        elif kind == "float":
            text = ["%.9g" % v for v in flat]
            text = [(t if any(c in t for c in ".e") else t + ".0") + "F" for t in text]
        else:
            text = ["%d" % v for v in flat]
        self.lines.append("static const %s %s[%d] = {" % (kind, name, len(flat)))
        for i in range(0, len(text), 6):
            self.lines.append("    " + ", ".join(text[i:i + 6]) + ",")
        self.lines.append("};")

    def define(self, name, value):
        self.lines.append("enum { %s = %d };" % (name, value))

    def write(self):
        with open(self.path, "w") as file:
            file.write("\n".join(self.lines) + "\n")


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def pool(rng, members, count, classes, sharp=2.0):
    """Float32 probabilities [members][count][classes] that agree in part, and labels."""
    truth = rng.normal(size=(count, classes))
    labels = truth.argmax(1)
    p = [softmax(sharp * (truth + rng.normal(size=truth.shape))) for _ in range(members)]
    return np.asarray(p).astype(np.float32), labels


def aggregates(p, best):
    """[count * classes][12] in the order of docs/method.md#s2-and-s3-gate-and-penalties."""
    x = p.astype(np.float64)
    members, count, classes = x.shape
    mean = x.mean(0)
    sd = x.std(0)
    spread = x.max(0) - x.min(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(mean > 0, mean * np.log(mean), 0).sum(1)
        b = x[best]
        divergence = np.where(b > 0, b * np.log(b / mean), 0).sum(1)
    wide = np.ones((1, classes))
    columns = [mean, sd, np.median(x, 0), spread, np.quantile(x, 0.25, axis=0),
               np.quantile(x, 0.75, axis=0), entropy[:, None] * wide, mean * sd, mean ** 2,
               spread * sd, sd ** 2, divergence[:, None] * wide]
    return np.stack([c.ravel() for c in columns], 1)


def write_aggregators():
    rng = np.random.default_rng(1)
    h = Header("meta_aggregators.h", "Aggregators of small pools, by NumPy.")
    for name, (k, count, classes) in {"one": (1, 2, 3), "two": (2, 3, 2), "five": (5, 3, 4),
                                      "many": (37, 2, 3)}.items():
        p, _ = pool(rng, k, count, classes)
        if name == "five":  # a sample on which every member is certain, and one with exact zeros
            p[:, 0] = 0
            p[:, 0, 2] = 1
            p[:2, 1] = [0, 0.5, 0, 0.5]
        h.add("aggregators_%s_members" % name, p, "float")
        h.add("aggregators_%s_expected" % name, aggregates(p, k // 2))
    p, _ = pool(rng, 3, 2, 150)
    h.add("aggregators_wide_members", p, "float")
    rows = [0, 1, 127, 128, 149, 150, 255, 256, 299]
    h.add("aggregators_wide_rows", rows, "int32_t")
    h.add("aggregators_wide_expected", aggregates(p, 1)[rows])
    h.write()


def write_gate():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    k, hidden, rows, l2 = 4, 5, 9, 0.03
    x = rng.normal(size=(rows, k))
    a = rng.normal(size=(rows, 12))
    y = rng.normal(size=rows)
    w = rng.uniform(0.2, 3, size=rows)
    first = torch.nn.Linear(k, hidden).double()
    second = torch.nn.Linear(hidden, 12).double()
    head_members = torch.randn(k, dtype=torch.double, requires_grad=True)
    head_aggregates = torch.randn(12, dtype=torch.double, requires_grad=True)
    intercept = torch.randn(1, dtype=torch.double, requires_grad=True)
    parameters = [first.weight, first.bias, second.weight, second.bias, head_members,
                  head_aggregates, intercept]
    tx, ta, ty, tw = (torch.tensor(v) for v in (x, a, y, w))
    g = torch.sigmoid(second(torch.relu(first(tx))))
    f = tx @ head_members + (g * ta) @ head_aggregates + intercept
    loss = (tw * (f - ty) ** 2).mean() + l2 * (head_members ** 2).sum() + \
        l2 * (head_aggregates ** 2).sum()
    loss.backward()
    h = Header("meta_gate.h", "Loss and gradient of a small gate with its head, by PyTorch.")
    for name, value in (("GATE_INPUTS", k), ("GATE_HIDDEN", hidden), ("GATE_ROWS", rows)):
        h.define(name, value)
    h.add("gate_input", x)
    h.add("gate_aggregate", a)
    h.add("gate_target", y)
    h.add("gate_weight", w)
    h.add("gate_l2", [l2])
    h.add("gate_theta", np.concatenate([p.detach().numpy().ravel() for p in parameters]))
    h.add("gate_loss", [loss.item()])
    h.add("gate_gradient", np.concatenate([p.grad.numpy().ravel() for p in parameters]))
    h.add("gate_values", g.detach().numpy())
    h.write()


def standardise(x):
    mean, scale = x.mean(0), x.std(0)
    return (x - mean) / scale, mean, scale


def raw(w, mean, scale, target_mean):
    b = w / scale
    return b, target_mean - b @ mean


def spectrum(z, rule):
    n, d = z.shape
    gram = z.T @ z / n
    values = np.linalg.eigvalsh(gram)
    gamma = d / n
    real = values[values >= 1e-10 * values[-1]]
    forced = min(max(d - (n - 1), 0), d - len(real))
    half = real[:max(len(real) // 2, 1)]
    sigma2 = np.median(half)
    factor = (1 + np.sqrt(gamma)) ** 2
    if rule == "bulk":
        before = None
        while True:
            inside = real[real <= sigma2 * factor]
            if before == len(inside):
                break
            before = len(inside)
            sigma2 = inside.sum() / (len(inside) + forced)
    edge = sigma2 * factor
    values = np.maximum(values, 0)
    snr = values[values > edge].sum() / values[values <= edge].sum()
    star = values[-1] / snr if snr > 0 else np.nan  # no signal: no closed form
    return [sigma2, edge, snr, star, values[-1] / real[0], (values > edge).sum()]


def ridge(x, y, lam):
    """Explicit normal equations on standardised columns."""
    z, mean, scale = standardise(x)
    n = len(y)
    w = np.linalg.solve(z.T @ z / n + lam * np.eye(z.shape[1]), z.T @ (y - y.mean()) / n)
    return raw(w, mean, scale, y.mean())


def cv_losses(x, y, folds, lambdas, fit):
    losses = np.zeros(len(lambdas))
    for fold in range(folds.max() + 1):
        inside = folds != fold
        for i, lam in enumerate(lambdas):
            b, b0 = fit(x[inside], y[inside], lam)
            losses[i] += ((y[~inside] - b0 - x[~inside] @ b) ** 2).sum()
    return losses / len(y)


def gcv(z, y, lam):
    n, d = z.shape
    hat = z @ np.linalg.solve(z.T @ z + n * lam * np.eye(d), z.T) + np.ones((n, n)) / n
    r = y - hat @ y
    return (r @ r / n) / (1 - np.trace(hat) / n) ** 2


def log_evidence(z, y, log_alpha, log_beta):
    """log N(y_c | 0, I/beta + Z Z'/alpha) in the n - 1 directions orthogonal to 1."""
    n = len(y)
    q = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, :n - 1]]))[0][:, 1:]
    zc, yc = q.T @ z, q.T @ y
    cov = np.eye(n - 1) / np.exp(log_beta) + zc @ zc.T / np.exp(log_alpha)
    return -0.5 * np.linalg.slogdet(cov)[1] - 0.5 * yc @ np.linalg.solve(cov, yc)


def l1_fit(x, y, lam, ratio):
    z, mean, scale = standardise(x)
    model = ElasticNet(alpha=lam, l1_ratio=ratio, fit_intercept=False, tol=1e-15, max_iter=10 ** 6)
    model.fit(z, y - y.mean())
    return raw(model.coef_, mean, scale, y.mean())


def write_linear():
    rng = np.random.default_rng(3)
    n, d = 60, 7
    common = rng.normal(size=(n, 1))
    x = 3 + common + 0.7 * rng.normal(size=(n, d)) * np.linspace(0.5, 3, d)
    y = x @ np.array([0.4, 0, -0.3, 0.1, 0, 0.2, 0]) + rng.normal(size=n)
    folds = rng.integers(0, 4, size=n)
    z, mean, scale = standardise(x)
    yc = y - y.mean()
    gram = z.T @ z / n
    h = Header("meta_linear.h", "Linear fits, penalties and spectra on small designs, by NumPy, "
               "SciPy and scikit-learn.")
    h.define("LINEAR_ROWS", n)
    h.define("LINEAR_COLUMNS", d)
    h.add("linear_x", x)
    h.add("linear_y", y)
    h.add("linear_folds", folds, "int32_t")
    lambdas = [1e-4, 1e-2, 0.3, 5]
    h.add("linear_lambdas", lambdas)
    rows, dets = [], []
    for lam in lambdas:
        model = Ridge(alpha=n * lam, fit_intercept=False, solver="cholesky").fit(z, yc)
        b, b0 = raw(model.coef_, mean, scale, y.mean())
        rows.append(np.append(b, b0))
        dets.append(np.linalg.slogdet(2 * n * (gram + lam * np.eye(d)))[1])
    h.add("linear_ridge", rows)
    h.add("linear_ridge_logdet", dets)
    for name, ratio in (("elastic_net", 0.5), ("lasso", 1.0)):
        rows, dets = [], []
        for lam in [1e-3, 1e-2, 0.1, 0.4]:
            if ratio == 1.0:
                w = Lasso(alpha=lam, fit_intercept=False, tol=1e-15, max_iter=10 ** 6)
                w = w.fit(z, yc).coef_
            else:
                w = ElasticNet(alpha=lam, l1_ratio=ratio, fit_intercept=False, tol=1e-15,
                               max_iter=10 ** 6).fit(z, yc).coef_
            b, b0 = raw(w, mean, scale, y.mean())
            rows.append(np.append(b, b0))
            on = w != 0
            hess = 2 * n * (gram[np.ix_(on, on)] + lam * (1 - ratio) * np.eye(on.sum()))
            dets.append(np.linalg.slogdet(hess)[1] if on.any() else 0)
        h.add("linear_%s" % name, rows)
        h.add("linear_%s_logdet" % name, dets)
    h.add("linear_l1_lambdas", [1e-3, 1e-2, 0.1, 0.4])
    # Penalties.
    grid = np.logspace(-8, 2, 61)
    h.add("penalty_cv_losses", cv_losses(x, y, folds, grid, ridge))
    h.add("penalty_gcv_scores", [gcv(z, y, lam) for lam in grid])
    best = optimize.minimize_scalar(lambda t: gcv(z, y, np.exp(t)), bounds=(-8, 3),
                                    method="bounded", options={"xatol": 1e-10})
    h.add("penalty_gcv", [np.exp(best.x)])
    best = optimize.minimize(lambda t: -log_evidence(z, y, t[0], t[1]), [1, 0],
                             method="Nelder-Mead",
                             options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 10 ** 5})
    h.add("penalty_evidence", [np.exp(best.x[0] - best.x[1]) / n])
    # Elastic-net path over folds.
    ratio = 0.5
    top = np.abs(z.T @ yc / n).max() / ratio
    path = top * 1e-3 ** (np.arange(9) / 8)
    h.add("path_lambdas", path)
    h.add("path_losses", cv_losses(x, y, folds, path, lambda a, b, lam: l1_fit(a, b, lam, ratio)))
    # More columns than rows.
    wide_x = rng.normal(size=(9, 14))
    wide_y = rng.normal(size=9)
    h.define("WIDE_ROWS", 9)
    h.define("WIDE_COLUMNS", 14)
    h.add("wide_x", wide_x)
    h.add("wide_y", wide_y)
    b, b0 = ridge(wide_x, wide_y, 0.2)
    h.add("wide_ridge", np.append(b, b0))
    b, b0 = l1_fit(wide_x, wide_y, 0.2, 0.5)
    h.add("wide_elastic_net", np.append(b, b0))
    h.add("wide_gcv_scores", [gcv(standardise(wide_x)[0], wide_y, lam) for lam in [1e-3, 0.1, 2]])
    h.add("spectrum_median", spectrum(z, "median"))
    h.add("spectrum_bulk", spectrum(z, "bulk"))
    h.add("spectrum_wide_median", spectrum(standardise(wide_x)[0], "median"))
    h.add("spectrum_wide_bulk", spectrum(standardise(wide_x)[0], "bulk"))
    h.write()


def write_design():
    """Prototype and plain designs of a small pool, from float32 members to ridge scores."""
    rng = np.random.default_rng(4)
    k, count, classes = 4, 30, 3
    p, labels = pool(rng, k, count, classes, sharp=1.0)
    folds = rng.integers(0, 3, size=count)
    members = p.reshape(k, -1).T.astype(np.float64)
    a = aggregates(p, 0)
    prototype = np.column_stack([members, a[:, [0, 1, 2, 3, 7, 9]]])
    y = (labels[:, None] == np.arange(classes)).astype(float).ravel()
    h = Header("meta_design.h", "A small pool, its prototype design and ridge on it, by NumPy and "
               "scikit-learn.")
    h.define("DESIGN_MEMBERS", k)
    h.define("DESIGN_ROWS", count)
    h.define("DESIGN_CLASSES", classes)
    h.add("design_members", p, "float")
    h.add("design_labels", labels, "int32_t")
    h.add("design_folds", folds, "int32_t")
    h.add("design_prototype", prototype)
    lam = 0.01
    z, mean, scale = standardise(prototype)
    model = Ridge(alpha=len(y) * lam, fit_intercept=False, solver="cholesky").fit(z, y - y.mean())
    b, b0 = raw(model.coef_, mean, scale, y.mean())
    h.add("design_ridge", np.append(b, b0))
    h.add("design_scores", prototype @ b + b0)
    inside = np.repeat(folds, classes) != 1
    z, mean, scale = standardise(prototype[inside])
    w = Ridge(alpha=inside.sum() * lam, fit_intercept=False, solver="cholesky").fit(
        z, y[inside] - y[inside].mean()).coef_
    b, b0 = raw(w, mean, scale, y[inside].mean())
    h.add("design_ridge_without_1", np.append(b, b0))
    h.add("design_loss_on_1", [((y[~inside] - b0 - prototype[~inside] @ b) ** 2).sum()])
    h.write()


if __name__ == "__main__":
    write_aggregators()
    write_gate()
    write_linear()
    write_design()
