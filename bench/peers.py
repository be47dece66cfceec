"""Log-linear pools and stacks by other means: what bench/run.py times corestack against.

    peers.py lbfgs|torch INPUT OURS.json      one log-linear pool of all members on the objective of OURS
    peers.py logistic|stacking POOL.json      scikit-learn on the logs of the members

INPUT is what bench/kernels.c reads, OURS.json what its `loglinear` printed. The pool is softmax(sum_k w_k log p_k + b)
over float32 logs, the objective the total log loss and the Gaussian priors of ours. Scores are one product with a matrix
[K][N C], slopes another, by BLAS. Both optimisers start from the geometric mean. `seconds` is the time from
probabilities in memory, logs included, to the first evaluation with an objective within 1e-6 of ours, relatively, with
`reached` false where there was none. scikit-learn's figures are the seconds of a fit on every row and of five-fold
predictions of the same rows, and the log loss of these. Prints one JSON document; imports and reading are not counted.
"""
import json
import pathlib
import sys
import time
import warnings

import numpy as np

SAME = 1e-6


def read(path):
    data = np.fromfile(path, np.float32)
    members, rows, classes = data[:3].view(np.int32)
    cells = int(members) * int(rows) * int(classes)
    return data[3:3 + cells].reshape(members, rows, classes), data[3 + cells:].view(np.int32)


class Objective:
    """Total log loss and priors, with slopes, of weights and biases."""

    def __init__(self, predictions, labels, ours):
        self.members, self.rows, self.classes = predictions.shape
        self.labels, self.place, self.ours = labels, np.arange(self.rows), ours
        share = np.float32(ours["share"])
        self.logs = np.log((1 - share) * predictions + share / np.float32(self.classes)).reshape(self.members, -1)
        self.trace = []

    def start(self):
        return np.concatenate([np.full(self.members, 1 / self.members), np.zeros(self.classes)])

    def prior(self, x, xp=np):
        """Precisions: of differences between weights, of their common scale (30), of biases."""
        w, b = x[:self.members], x[self.members:]
        common = w.mean() - 1 / self.members
        deviation = w - w.mean()
        return 0.5 * (self.ours["prior_weights"] * (deviation**2).sum() + 30 * self.members * common**2
                      + self.ours["prior_bias"] * (b**2).sum())

    def __call__(self, x):
        w, b = x[:self.members], x[self.members:]
        z = (w.astype(np.float32) @ self.logs).reshape(self.rows, self.classes)
        z += b.astype(np.float32)
        z -= z.max(1, keepdims=True)
        truth = z[self.place, self.labels].astype(np.float64)
        np.exp(z, out=z)
        total = z.sum(1)
        value = float(np.log(total.astype(np.float64)).sum() - truth.sum() + self.prior(x))
        z /= total[:, None]
        z[self.place, self.labels] -= 1
        slope = np.concatenate([self.logs @ z.reshape(-1), z.sum(0, dtype=np.float64)]).astype(np.float64)
        common = w.mean() - 1 / self.members
        slope[:self.members] += self.ours["prior_weights"] * (w - w.mean()) + 30 * common
        slope[self.members:] += self.ours["prior_bias"] * b
        self.trace.append((time.perf_counter(), value))
        return value, slope


def lbfgs(predictions, labels, ours):
    from scipy.optimize import minimize
    begin = time.perf_counter()
    objective = Objective(predictions, labels, ours)
    minimize(objective, objective.start(), jac=True, method="L-BFGS-B",
             options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6, "maxcor": 20})
    return begin, objective


def torch(predictions, labels, ours):
    import os

    import torch as t
    t.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    begin = time.perf_counter()
    objective = Objective(predictions[:, :1], labels[:1], ours)  # for the start and the prior
    share = ours["share"]
    members, rows, classes = predictions.shape
    logs = t.from_numpy(predictions).mul(1 - share).add_(share / classes).log_().reshape(members, -1)
    truth = t.from_numpy(labels.astype(np.int64))
    x = t.from_numpy(objective.start().astype(np.float32)).requires_grad_()
    optimiser = t.optim.LBFGS([x], max_iter=500, history_size=20, tolerance_grad=1e-6, tolerance_change=1e-12,
                              line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        z = (x[:members] @ logs).reshape(rows, classes) + x[members:]
        loss = t.nn.functional.cross_entropy(z, truth, reduction="sum") + objective.prior(x)
        loss.backward()
        objective.trace.append((time.perf_counter(), x.detach().numpy().astype(np.float64)))
        return loss

    optimiser.step(closure)
    return begin, objective


def pool(what, path, result):
    ours = json.loads(pathlib.Path(result).read_text())
    predictions, labels = read(path)
    begin, objective = {"lbfgs": lbfgs, "torch": torch}[what](predictions, labels, ours)
    judge = Objective(predictions, labels, ours)
    mine = judge(np.concatenate([ours["weights"], ours["bias"]]))[0]
    values = [value if what == "lbfgs" else judge(value)[0] for _, value in objective.trace]
    good = [at for at, value in enumerate(values) if value <= mine * (1 + SAME)]
    last = good[0] if good else len(values) - 1
    return {"seconds": objective.trace[last][0] - begin, "evaluations": last + 1, "reached": bool(good),
            "ours": mine, "least": min(values)}


# ---- scikit-learn

def stack(what, path):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    class Member(ClassifierMixin, BaseEstimator):
        """A fitted member, whose probabilities are columns of the input."""

        def __init__(self, first, classes):
            self.first, self.classes = first, classes

        def fit(self, x, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, x):
            return x[:, self.first:self.first + self.classes]

        def __sklearn_is_fitted__(self):
            return True

    manifest = json.loads(pathlib.Path(path).read_text())
    folder = pathlib.Path(path).parent
    labels = np.load(folder / manifest["splits"]["oof"]["labels"])
    members = [np.load(folder / m["predictions"]["oof"]).astype(np.float32) for m in manifest["models"]]
    classes = members[0].shape[1]
    begin = time.perf_counter()
    x = np.concatenate(members, 1)
    last = LogisticRegression(max_iter=1000)
    if what == "logistic":
        x = np.log(x + np.float32(1e-6))
        model = last
    else:
        parts = [(f"m{k}", Member(k * classes, classes).fit(x, labels)) for k in range(len(members))]
        model = StackingClassifier(parts, last, cv="prefit", stack_method="predict_proba")
    model.fit(x, labels)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    held_out = cross_val_predict(model, x, labels, cv=folds, method="predict_proba")
    return {"seconds": time.perf_counter() - begin, "nll": float(log_loss(labels, held_out))}


def main():
    warnings.simplefilter("ignore")
    words = sys.argv[1:]
    print(json.dumps(pool(*words) if words[0] in ("lbfgs", "torch") else stack(*words)))


if __name__ == "__main__":
    main()
