#!/usr/bin/python3
"""Rules for batches that are unlike the fit, in NumPy: the guard's, the parts it was made from, and its rivals.

    experiments/shift/rules.py POOL_FOLDER... [--tool TOOL] [--batch 200] [--seed 0] [--write]

Each pool has split oof and a split corrupted with conditions. The default stack is fitted and predicted by the tool with
--guard off; everything else is computed here from the members' files. Each condition is cut into batches of its rows, in a
random order and in that of the file (of some pools that is the order of the classes). Printed for each rule: mean NLL and
error over the conditions, and in how many of them it is worse than the better of (average, stack) by over two paired
standard errors. Choices were made on every second kind of corruption of cifar10 and vision. --write keeps the table as
rules.md beside this file.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from scipy.special import ndtr, ndtri

HERE = pathlib.Path(__file__).resolve().parent
TINY = 1e-12
Z, LEAST, SLACK, FLATTEST, PRIOR = -4.0, 0.2, 0.05, 0.3, 20.0
STEPS = np.arange(1, 4.01, 0.25)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def power(p, t):
    return softmax(t * np.log(np.maximum(p, TINY)))


def entropy(p):
    return -(p * np.log(np.maximum(p, 1e-300))).sum(-1)


def shares(p):
    return np.bincount(p.argmax(1), minlength=p.shape[1]) / len(p)


def reach(target, temperatures, p):
    """The temperature at which the mean confidence is the target, linear between those given."""
    means = np.array([power(p, t).max(1).mean() for t in temperatures])
    return temperatures[0] if target <= means[0] else float(np.interp(target, means, temperatures))


def tail(ordered, x):
    return (1 + len(ordered) - np.searchsorted(ordered, x, side="left")) / (len(ordered) + 1)


def density(u):
    """Grenander's: slopes of the least concave majorant of the distribution of levels."""
    x, counts = np.unique(u, return_counts=True)
    x, y = np.append(0.0, x), np.append(0.0, np.cumsum(counts) / len(u))
    hull = [0]
    for i in range(1, len(x)):
        while len(hull) > 1 and (y[i] - y[hull[-1]]) * (x[hull[-1]] - x[hull[-2]]) >= (y[hull[-1]] - y[hull[-2]]) * (x[i] - x[hull[-1]]):
            hull.pop()
        hull.append(i)
    slopes = np.diff(y[hull]) / np.diff(x[hull])
    return slopes[np.searchsorted(x[hull], u, side="left") - 1]


# ---- pools ----

class Pool:
    def __init__(self, folder, options):
        self.folder, self.name = folder, folder.name
        self.document = json.loads((folder / "pool.json").read_text())
        with tempfile.TemporaryDirectory() as place:
            self.stack, self.kept = self.fitted(options, pathlib.Path(place))
            self.bounded, _ = self.fitted(options, pathlib.Path(place), "--set", "loglinear.nonnegative=true")
        self.members = {split: self.read(split) for split in ("oof", "corrupted")}
        self.labels = {split: np.load(folder / self.document["splits"][split]["labels"]).astype(int) for split in self.members}
        folds = self.document["splits"]["oof"].get("folds")
        rows = len(self.labels["oof"])
        self.folds = np.load(folder / folds) if folds else np.arange(rows) % 5
        self.keep = np.array([m["name"] in self.kept for m in self.document["models"]])

    def read(self, split):
        found = []
        for model in self.document["models"]:
            p = np.load(self.folder / model["predictions"][split]).astype(float)
            found.append(softmax(p) if self.document.get("output") == "logit" else p / p.sum(-1, keepdims=True))
        return np.stack(found)

    def fitted(self, options, place, *words):
        """Predictions of the default stack by split, and the members it keeps."""
        model, out, found = place / "stack.cstack", place / "out.npy", {}
        run = lambda *line: subprocess.run([options.tool, *map(str, line)], check=True, stdout=subprocess.PIPE).stdout  # noqa: E731
        run("fit", self.folder / "pool.json", "-o", model, "-q", "--set", "evaluate.nested=false", *words)
        for split in ("oof", "corrupted"):
            run("predict", model, self.folder / "pool.json", "--split", split, "-o", out, "-q", "--guard", "off")
            found[split] = np.load(out).astype(float)
        conditions = len(self.document["splits"]["corrupted"]["conditions"])
        found["corrupted"] = found["corrupted"].reshape(conditions, -1, found["oof"].shape[1])
        return found, [m["name"] for m in json.loads(run("show", model, "--json"))["members"]]


# ---- what a fit knows ----

class Levels:
    """u of rows: J, M and their score S by predicted class (docs/model-format.md, NOVE)."""

    def __init__(self, pool, parts="JM"):
        self.keep, self.parts = pool.keep, parts
        p, n = pool.members["oof"][self.keep], len(pool.folds)
        v, m = np.log(entropy(p) + 1e-3).T, np.zeros(n)
        for fold in np.unique(pool.folds):
            held = pool.folds == fold
            self.moments(v[~held])
            m[held] = self.distance(v[held])
        self.moments(v)
        self.j, self.m = np.sort(self.spread(p)), np.sort(m)
        score = self.score(self.spread(p), m)
        predicted = p.mean(0).argmax(1)
        counts = np.bincount(predicted, minlength=p.shape[2])
        few = counts[predicted] < 100
        self.tables = [np.sort(score[predicted == c]) if counts[c] >= 100 else np.sort(score[few]) for c in range(p.shape[2])]
        self.tables = [t if len(t) else np.sort(score) for t in self.tables]

    def moments(self, v):
        self.mean, self.inverse = v.mean(0), np.linalg.inv(np.atleast_2d(np.cov(v.T)) + 1e-3 * np.eye(v.shape[1]))

    def distance(self, v):
        return np.einsum("ij,jk,ik->i", v - self.mean, self.inverse, v - self.mean)

    def spread(self, p):
        return np.maximum(entropy(p.mean(0)) - entropy(p).mean(0), 0)

    def score(self, j, m):
        return -np.log(tail(self.j, j)) * ("J" in self.parts) - np.log(tail(self.m, m)) * ("M" in self.parts)

    def __call__(self, members):
        p = members[self.keep]
        score = self.score(self.spread(p), self.distance(np.log(entropy(p) + 1e-3).T))
        predicted = p.mean(0).argmax(1)
        u = np.empty(len(score))
        for c in np.unique(predicted):
            u[predicted == c] = tail(self.tables[c], score[predicted == c])
        return u


class Fit:
    def __init__(self, pool):
        self.pool, self.labels = pool, pool.labels["oof"]
        members, self.stack = pool.members["oof"], pool.stack["oof"]
        self.average, self.rows = members.mean(0), len(self.labels)
        self.accuracy = [(q.argmax(1) == self.labels).mean() for q in (self.stack, self.average)]
        self.shares = [shares(q) for q in (self.stack, self.average)]
        self.confidence = [q.max(1).mean() for q in (self.stack, self.average)]
        self.sharpest = reach(self.accuracy[1], STEPS, self.average)
        c, top = self.stack.argmax(1), self.stack.max(1)
        n = np.bincount(c, minlength=self.stack.shape[1])
        self.mean = (np.bincount(c, top, len(n)) + PRIOR * top.mean()) / (n + PRIOR)
        self.variance = (np.bincount(c, (top - self.mean[c]) ** 2, len(n)) + PRIOR * top.var()) / (n + PRIOR)
        self.levels = {parts: Levels(pool, parts) for parts in ("JM", "J", "M")}
        self.votes = np.concatenate([members.argmax(2), self.stack.argmax(1)[None], self.average.argmax(1)[None]])
        self.agreement, self.right = agreement(self.votes), (self.votes == self.labels).mean(1)


def agreement(votes):
    return (votes[:, None] == votes[None]).mean(-1)


class Batch:
    """A batch, and what rules share of it."""

    def __init__(self, fit, members, stack, bounded):
        self.members, self.stack, self.bounded, self.average = members, stack, bounded, members.mean(0)
        self.fit, self.rows, self.known = fit, len(stack), {}

    def look(self, parts="JM"):
        """pi, and Grenander's lambda of each row."""
        if parts not in self.known:
            u = self.fit.levels[parts](self.members)
            m = (u > 0.5).sum() + 1
            pi = min(1.0, 1.25 * (m + 1.645 * np.sqrt(m)) / (len(u) / 2))
            self.known[parts] = pi, np.clip(1 - pi / density(u), 0, 1) if pi < 1 else np.zeros(len(u))
        return self.known[parts]

    def z(self):
        c = self.stack.argmax(1)
        return (self.stack.max(1) - self.fit.mean[c]).sum() / np.sqrt(self.fit.variance[c].sum() * (1 + self.rows / self.fit.rows))

    def skew(self, side):
        """Total variation between the shares of predicted classes here and in the fit, less what chance leaves."""
        q, r = self.fit.shares[side], 1 / (1 / self.rows + 1 / self.fit.rows)
        distance = 0.5 * np.abs(shares((self.stack, self.average)[side]) - q).sum()
        chance = np.where(r * q < 1, q * (1 - q) ** r, np.sqrt(2 * q * (1 - q) / (np.pi * r)) / 2).sum()
        return np.sqrt(max(0.0, distance**2 - chance**2))

    # ---- estimates of the accuracy of (stack, average) without labels ----

    def by_skew(self):
        return [self.fit.accuracy[side] - max(0.0, self.skew(side) - SLACK) for side in (0, 1)]

    def by_confidence(self):
        """Difference of confidences (Guillory et al. 2021)."""
        found = [q.max(1).mean() for q in (self.stack, self.average)]
        return [self.fit.accuracy[s] + found[s] - self.fit.confidence[s] for s in (0, 1)]

    def by_agreement(self):
        """Mean agreement of two members (generalisation disagreement equality, Jiang et al. 2022)."""
        votes = self.members.argmax(2)
        k = len(votes)
        return [(agreement(votes).sum() - k) / max(1, k * (k - 1))] * 2

    def on_the_line(self):
        """ALine-D (Baek et al. 2022): accuracies from agreements, on a probit scale, with the slope between both agreements."""
        votes = np.concatenate([self.members.argmax(2), self.stack.argmax(1)[None], self.average.argmax(1)[None]])
        i, j = np.triu_indices(len(votes), 1)
        probit = lambda a, n: ndtri(np.clip(a, 0.5 / n, 1 - 0.5 / n))  # noqa: E731
        x, y = probit(self.fit.agreement[i, j], self.fit.rows), probit(agreement(votes)[i, j], self.rows)
        inner = j < len(self.members)
        slope = np.cov(x[inner], y[inner])[0, 1] / max(x[inner].var(ddof=1), 1e-12)
        a = probit(self.fit.right, self.fit.rows)
        pairs = np.zeros((len(i), len(a)))
        pairs[np.arange(len(i)), i] = pairs[np.arange(len(i)), j] = 0.5
        return list(ndtr(np.linalg.lstsq(pairs, y + slope * (0.5 * (a[i] + a[j]) - x), rcond=None)[0][-2:]))

    # ---- other averages ----

    def weighted(self):
        """Members weighted by how often they agree with the others."""
        votes = self.members.argmax(2)
        g = (agreement(votes).sum(1) - 1) / max(1, len(votes) - 1)
        w = np.log(np.clip(g, 0.02, 0.98) / np.clip(1 - g, 0.02, 0.98))
        w = np.maximum(w - w.min(), 1e-3)
        return np.tensordot(w / w.sum(), self.members, 1)

    def geometric(self):
        return softmax(np.log(np.maximum(self.members, 1e-6)).mean(0))


# ---- rules ----

def prototype(b, parts="JM", rowwise=True, other=None, stack=None):
    pi, weight = b.look(parts)
    if pi >= 1:
        return b.stack
    weight = (weight if rowwise else np.full(b.rows, 1 - pi))[:, None]
    return (1 - weight) * (b.stack if stack is None else stack) + weight * (b.average if other is None else other)


def lean(b, estimate=None, fires="both", least=LEAST, logs=True, floor=1.0, flatten=True, sharpen=True, flatter=False, other=None):
    pi, weight = b.look()
    if pi >= 1 and (fires == "levels" or b.z() >= Z):
        return b.stack
    weight = np.maximum(weight, least)[:, None]
    other = b.average if other is None else other
    aims = (estimate or Batch.by_skew)(b)
    if floor is not None:
        top, expected = b.stack.max(1).mean(), b.fit.mean[b.stack.argmax(1)].mean()
        aims[0] = max(aims[0], top - floor * max(0.0, expected - top))
    flat = reach(aims[0], np.linspace(FLATTEST, 1, 5), b.stack) if flatten else 1.0
    sharp = reach(aims[1], np.linspace(FLATTEST if flatter else 1, b.fit.sharpest, 9 if flatter else 5), other) if sharpen else 1.0
    if logs:
        return softmax((1 - weight) * flat * np.log(np.maximum(b.stack, TINY)) + weight * sharp * np.log(np.maximum(other, TINY)))
    return (1 - weight) * power(b.stack, flat) + weight * power(other, sharp)


def choose_accuracy(b):
    """The one whose accuracy is probably higher, where the guard's tests fire."""
    if b.look()[0] >= 1 and b.z() >= Z:
        return b.stack
    stack, average = b.by_skew()
    return b.stack if stack >= average else b.average


def choose_loss(b):
    """The one with the least expected NLL under the members' votes."""
    if b.look()[0] >= 1 and b.z() >= Z:
        return b.stack
    votes = b.members.argmax(2)
    q = np.stack([(votes == c).mean(0) for c in range(b.stack.shape[1])], 1)
    some = [b.stack, b.average, power(b.average, b.fit.sharpest), b.geometric(), power(b.stack, 0.5)]
    return min(some, key=lambda p: -(q * np.log(np.maximum(p, TINY))).sum())


RULES = {
    "average of all members": lambda b: b.average,
    "default stack": lambda b: b.stack,
    "average of the kept members": lambda b: b.members[b.fit.pool.keep].mean(0),
    "average, out-of-fold temperature": lambda b: power(b.average, b.fit.sharpest),
    "geometric mean": lambda b: b.geometric(),
    "average weighted by agreement": lambda b: b.weighted(),
    "stack with non-negative weights": lambda b: b.bounded,
    "prototype": prototype,
    "prototype, J alone": lambda b: prototype(b, "J"),
    "prototype, M alone": lambda b: prototype(b, "M"),
    "prototype, one lambda for a batch": lambda b: prototype(b, rowwise=False),
    "prototype, average weighted by agreement": lambda b: prototype(b, other=b.weighted()),
    "prototype, non-negative stack": lambda b: prototype(b, stack=b.bounded),
    "prototype, out-of-fold temperature": lambda b: prototype(b, other=power(b.average, b.fit.sharpest)),
    "choice by probable accuracy": choose_accuracy,
    "choice by expected loss": choose_loss,
    "guard with difference of confidences": lambda b: lean(b, Batch.by_confidence),
    "guard with agreement": lambda b: lean(b, Batch.by_agreement),
    "guard with agreement on the line": lambda b: lean(b, Batch.on_the_line),
    "guard without the test of confidence": lambda b: lean(b, fires="levels"),
    "guard without temperatures": lambda b: lean(b, flatten=False, sharpen=False),
    "guard, stack as it is": lambda b: lean(b, flatten=False),
    "guard, average as it is": lambda b: lean(b, sharpen=False),
    "guard, average also flattened": lambda b: lean(b, flatter=True),
    "guard, stack flattened without a floor": lambda b: lean(b, floor=None),
    "guard, lambda from 0": lambda b: lean(b, least=0.0),
    "guard, mixed as probabilities": lambda b: lean(b, logs=False),
    "guard, average weighted by agreement": lambda b: lean(b, other=b.weighted()),
    "**guard**": lean,
}


# ---- scores ----

def batches(rows, size, order, seed):
    places = np.random.default_rng(seed).permutation(rows) if order == "random" else np.arange(rows)
    found = [places[at:at + size] for at in range(0, rows, size)]
    if len(found) > 1 and len(found[-1]) < 50:
        found[-2:] = [np.concatenate(found[-2:])]
    return found


def scored(pool, fit, options, order):
    """{rule: (NLL, error)}, each [conditions, rows]."""
    members, labels = pool.members["corrupted"], pool.labels["corrupted"]
    found = {name: np.zeros((2, members.shape[1], len(labels))) for name in RULES}
    for c in range(members.shape[1]):
        for rows in batches(len(labels), options.batch, order, [options.seed, c]):
            b = Batch(fit, members[:, c, rows], pool.stack["corrupted"][c, rows], pool.bounded["corrupted"][c, rows])
            for name, rule in RULES.items():
                p = rule(b)
                hit = p[np.arange(len(rows)), labels[rows]]
                found[name][:, c, rows] = -np.log(np.maximum(hit, TINY)), p.argmax(1) != labels[rows]
    return found


def worse(found, name, score):
    """Conditions in which a rule is worse than the better of average and stack by over two paired standard errors."""
    average, stack, own = (found[n][score] for n in ("average of all members", "default stack", name))
    better = np.where((average.mean(1) <= stack.mean(1))[:, None], average, stack)
    d = own - better
    return int((d.mean(1) > 2 * d.std(1, ddof=1) / np.sqrt(d.shape[1]) + 1e-12).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=pathlib.Path, help="folders with a pool.json")
    parser.add_argument("--tool", default=str(HERE.parents[1] / "build-gcc" / "corestack"))
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the table as rules.md")
    options = parser.parse_args()
    pools = [Pool(folder, options) for folder in options.pools]
    cells = {name: [] for name in RULES}
    for pool in pools:
        fit = Fit(pool)
        print(pool.name, file=sys.stderr, flush=True)
        random, file = (scored(pool, fit, options, order) for order in ("random", "file"))
        for name in RULES:
            nll, error = random[name].mean((1, 2))
            cells[name].append(f"{nll:.3f}/{100 * error:.2f}, {worse(random, name, 0)}, {worse(random, name, 1)} "
                               f"({file[name][0].mean():.3f}, {worse(file, name, 0)})")
    version = subprocess.run([options.tool, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[0]
    text = (f"Batches of {options.batch} rows, seed {options.seed}, {version}, {datetime.date.today()}. Mean corrupted NLL/error %, conditions in "
            "which the rule is worse than the better of average and stack by over two paired standard errors, by NLL and by error; in brackets "
            "NLL and conditions with rows in the order of the file.\n\n")
    head = [f"{p.name} ({p.members['corrupted'].shape[1]} conditions)" for p in pools]
    text += "| rule | " + " | ".join(head) + " |\n|---" * 1 + "|---" * len(head) + "|\n"
    text += "".join(f"| {name} | {' | '.join(found)} |\n" for name, found in cells.items())
    print(text)
    if options.write:
        (HERE / "rules.md").write_text(f"Written by `experiments/shift/rules.py {' '.join(p.name for p in pools)} --write`.\n\n" + text)


if __name__ == "__main__":
    main()
