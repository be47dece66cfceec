"""Wrong labels: the model of the errors and its judgement against SciPy, confident learning against NumPy, what is left out, files, refusals."""

import csv
import json
import unittest

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from support import PoolCase, run

FAST = ("--set", "meta.learners=log-linear", "--set", "select.direction=none", "--set", "evaluate.nested=false")
SHARE, PRIOR_ROWS = 1e-4, 20.0


def unpacked(theta, members, classes, shares):
    """w, b and T; without T the labels are right."""
    w, b, more = theta[:members], theta[members:members + classes], theta[members + classes:]
    if shares is not None:
        return w, b, softmax(more.reshape(classes, classes), axis=1)
    return w, b, None if len(more) == 0 else (1 - expit(more[0])) * np.eye(classes) + expit(more[0]) / classes


def losses(logs, labels, w, b, t):
    z = logs @ w + b
    log_q = z - logsumexp(z, axis=1, keepdims=True)
    return -log_q[np.arange(len(labels)), labels] if t is None else -np.log((np.exp(log_q) * t[:, labels].T).sum(1))


def fitted(logs, labels, weights, kind, start=None, shares=None):
    """The optimum of the penalised likelihood, from its definition in docs/method.md, by L-BFGS."""
    _, classes, members = logs.shape

    def loss(theta):
        w, b, t = unpacked(theta, members, classes, shares)
        z = logs @ w + b
        log_q = z - logsumexp(z, axis=1, keepdims=True)
        q = np.exp(log_q)
        post = np.eye(classes)[labels] if t is None else q * t[:, labels].T
        post = post / post.sum(1, keepdims=True)
        off = w - 1 / members
        apart = off - off.mean()
        value = (weights * losses(logs, labels, w, b, t)).sum()
        value += (10 * (apart**2).sum() + 30 * members * off.mean() ** 2 + 30 * (b**2).sum()) / 2
        r = (q - post) * weights[:, None]
        slopes = [np.einsum("nc,nck->k", r, logs) + 10 * apart + 30 * off.mean(), r.sum(0) + 30 * b]
        if kind == "symmetric":
            e = expit(theta[-1])
            change = (q * (1 / classes - np.eye(classes)[:, labels].T)).sum(1) / (q * t[:, labels].T).sum(1)
            slopes.append([-(weights * change).sum() * e * (1 - e)])
        if kind == "full":
            counts = PRIOR_ROWS * shares
            np.add.at(counts.T, labels, post * weights[:, None])
            value -= (PRIOR_ROWS * shares * np.log(t)).sum()
            slopes.append((t * counts.sum(1, keepdims=True) - counts).ravel())
        return value, np.concatenate(slopes)

    begin = np.concatenate([np.full(members, 1 / members), np.zeros(classes)]) if start is None else start[:members + classes]
    more = {"plain": [], "symmetric": [-2.0], "full": [] if shares is None else np.log(shares).ravel()}[kind]
    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-7, "maxcor": 40}
    return minimize(loss, np.concatenate([begin, more]), jac=True, method="L-BFGS-B", options=options).x


def judged(logs, labels, weights, folds):
    """nll_plain, nll_noise and z of the better model, and T with w and b on all rows."""
    _, classes, members = logs.shape
    plain = fitted(logs, labels, weights, "plain")
    symmetric = fitted(logs, labels, weights, "symmetric", plain)
    shares = unpacked(symmetric, members, classes, None)[2]
    whole = {"plain": plain, "symmetric": symmetric, "full": fitted(logs, labels, weights, "full", symmetric, shares)}
    held = {kind: np.empty(len(labels)) for kind in whole}
    for fold in range(folds.max() + 1):
        out = folds == fold
        for kind in whole:
            prior = shares if kind == "full" else None
            theta = fitted(logs[~out], labels[~out], weights[~out], kind, whole[kind], prior)
            held[kind][out] = weights[out] * losses(logs[out], labels[out], *unpacked(theta, members, classes, prior))
    best = min(("symmetric", "full"), key=lambda kind: held[kind].mean())
    gain = held["plain"] - held[best]
    z = gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain)))
    w, b, t = unpacked(whole[best], members, classes, shares if best == "full" else None)
    return held["plain"].mean(), held[best].mean(), z, w, b, t


def confident(logs, labels, weights, folds, rounds=3):
    """Rows flagged by the last round, the likely class and the probability of the label of each."""
    wrong = np.zeros(len(labels), bool)
    for _ in range(rounds):
        p = np.empty(logs.shape[:2])
        for fold in range(folds.max() + 1):
            use, out = (folds != fold) & ~wrong, folds == fold
            theta = fitted(logs[use], labels[use], weights[use], "plain")
            w, b, _ = unpacked(theta, logs.shape[2], logs.shape[1], None)
            p[out] = softmax(logs[out] @ w + b, axis=1)
        least = np.array([np.average(p[labels == c, c], weights=weights[labels == c]) for c in range(p.shape[1])])
        likely = np.where((p >= least).any(1), np.where(p >= least, p, -1).argmax(1), labels)
        wrong = likely != labels
    return wrong, likely, p[np.arange(len(labels)), labels]


class LabelNoise(PoolCase):
    rows, test_rows, classes, members_made = 360, 90, 4, 5

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        self.folds = rng.permutation(self.rows) % 3
        self.save("folds.npy", self.folds)
        self.true = {split: rng.integers(0, self.classes, n) for split, n in (("oof", self.rows), ("test", self.test_rows))}
        self.manifest["models"] = []
        names = [f"m{k}" for k in range(self.members_made)]
        for split, y in self.true.items():
            self.save(f"{split}_labels.npy", y)
            for k, name in enumerate(names):
                z = (3 + k / 2) * np.eye(self.classes)[y] + rng.normal(0, 1.3, (len(y), self.classes))
                self.members[name, split] = softmax(z, axis=1).astype(np.float32)
                self.save(f"{name}.{split}.npy", self.members[name, split])
        self.manifest["models"] = [{"name": n, "predictions": {s: f"{n}.{s}.npy" for s in self.true}} for n in names]
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()
        p = np.stack([self.members[name, "oof"] for name in names], 2).astype(float)
        self.logs = np.log((1 - SHARE) * p + SHARE / self.classes)
        self.ones = np.ones(self.rows)

    def flip(self, kind, rate=0.2):
        rng = np.random.default_rng(5)
        step = 1 if kind == "pair" else rng.integers(1, self.classes, self.rows)
        self.noisy = np.where(rng.random(self.rows) < rate, (self.true["oof"] + step) % self.classes, self.true["oof"])
        self.save("oof_labels.npy", self.noisy)

    def asked(self, *more, command="inspect", pool=None):
        """The noise object and the suspects of a report: row, label, likely label, probability."""
        where = ("-o", self.model, *FAST) if command == "fit" else ()
        result = self.works(command, pool or self.pool, *where, "--json", "--set", "checks=false", "--suspects", self.path("s.csv"), *more)
        self.report = json.loads(result.out)
        with open(self.path("s.csv"), encoding="utf-8") as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0], [lines[0][0], "label", "likely", "probability"])
        return self.report.get("noise"), [(int(a), int(b), int(c), float(d)) for a, b, c, d in lines[1:]]

    def agrees(self, weights, *more):
        plain, noise, z, w, b, t = judged(self.logs, self.noisy, weights, self.folds)
        found, suspects = self.asked(*more)
        joint = softmax(self.logs @ w + b, axis=1) * t[:, self.noisy].T
        post = joint / joint.sum(1, keepdims=True)
        own = post[np.arange(self.rows), self.noisy]
        self.assertAlmostEqual(found["nll_plain"], plain, delta=1e-4)
        self.assertAlmostEqual(found["nll_noise"], noise, delta=2e-4)
        self.assertAlmostEqual(found["gain"], 1 - noise / plain, delta=1e-3)
        self.assertAlmostEqual(found["z"], z, delta=0.02)
        self.assertAlmostEqual(found["rate"], np.average(1 - own, weights=weights), delta=1e-3)
        self.assertEqual({s[0] for s in suspects}, set(np.flatnonzero(own < 0.5)))
        self.assertEqual(found["rows_left_out"], len(suspects))
        for row, label, likely, probability in suspects:
            self.assertEqual((label, likely), (self.noisy[row], post[row].argmax()))
            self.assertAlmostEqual(probability, own[row], delta=2e-3)
        self.assertEqual([s[3] for s in suspects], sorted(s[3] for s in suspects))
        self.assertEqual([s["row"] for s in found["suspects"]], [s[0] for s in suspects[:10]])
        return found, suspects

    def test_labels_drawn_at_random_are_found(self):
        self.flip("symmetric")
        found, suspects = self.agrees(self.ones)
        wrong = self.noisy != self.true["oof"]
        self.assertTrue(found["alarm"])
        self.assertAlmostEqual(found["rate"], wrong.mean(), delta=0.02)
        self.assertGreater(np.mean([wrong[s[0]] for s in suspects]), 0.95)

    def test_labels_of_the_next_class_are_found(self):
        self.flip("pair")
        self.agrees(self.ones)

    def test_weights_count(self):
        self.flip("symmetric")
        weights = 0.5 + np.arange(self.rows) % 3
        self.save("w.npy", weights)
        self.manifest["splits"]["oof"]["weights"] = "w.npy"
        self.write_manifest()
        self.agrees(weights / weights.mean())

    def test_a_fit_is_that_of_the_other_rows(self):
        self.flip("symmetric")
        _, suspects = self.asked(command="fit")
        self.assertEqual(self.report["samples"], self.rows - len(suspects))
        self.works("predict", self.model, self.pool, "-o", self.path("a.npy"), "--quiet")
        keep = np.ones(self.rows, bool)
        keep[[s[0] for s in suspects]] = False
        self.save("w.npy", keep.astype(float))
        self.manifest["splits"]["oof"]["weights"] = "w.npy"
        self.write_manifest()
        self.works("fit", self.pool, "-o", self.model, "--quiet", *FAST, "--set", "noise=off")
        self.works("predict", self.model, self.pool, "-o", self.path("b.npy"), "--quiet")
        self.assertEqual(self.read(self.path("a.npy")), self.read(self.path("b.npy")))

    def test_the_split_of_the_fit_is_recognised(self):
        self.flip("symmetric")
        self.asked(command="fit")
        self.assertIn("fitted on", self.works("evaluate", self.model, self.pool, "--split", "oof").out)

    def test_nothing_changes_where_labels_are_right(self):
        found, suspects = self.asked(command="fit")
        self.assertIsNone(found)
        self.assertEqual(suspects, [])
        self.works("predict", self.model, self.pool, "-o", self.path("a.npy"), "--quiet")
        self.asked("--set", "noise=off", command="fit")
        self.works("predict", self.model, self.pool, "-o", self.path("b.npy"), "--quiet")
        self.assertEqual(self.read(self.path("a.npy")), self.read(self.path("b.npy")))

    def test_declared_errors_are_those_of_confident_learning(self):
        self.flip("symmetric", 0.1)
        wrong, likely, own = confident(self.logs, self.noisy, self.ones, self.folds)
        found, suspects = self.asked("--label-noise", "human")
        self.assertEqual((found["rule"], found["rows_left_out"], found["z"]), ("human", wrong.sum(), None))
        self.assertEqual({s[0] for s in suspects}, set(np.flatnonzero(wrong)))
        for row, _, guess, probability in suspects:
            self.assertEqual(guess, likely[row])
            self.assertAlmostEqual(probability, own[row], delta=1e-4)
        found, few = self.asked("--label-noise", "0.05")
        self.assertEqual(found["rows_left_out"], self.rows * 5 // 100)
        self.assertLessEqual({s[0] for s in few}, {s[0] for s in suspects})

    def test_a_comparison_fits_presets_on_the_other_rows(self):
        self.flip("symmetric")
        _, suspects = self.asked()
        scores = {}
        for noise in ("auto", "off"):
            out = self.works("compare", self.pool, "--methods", "average,default,paper", "--json", "--resamples", "0", *FAST[:4],
                             "--set", f"noise={noise}", "--set", "checks=false", "--split", "test").out
            report = json.loads(out)
            scores[noise] = {row["method"]: row["nll"] for row in report["rows"]}
            said = [notice for notice in report["notices"] if f"leaves out {len(suspects)} of {self.rows} rows" in notice]
            self.assertEqual(len(said), noise == "auto")
        self.assertEqual(scores["auto"]["average"], scores["off"]["average"])
        self.assertLess(scores["auto"]["default"], scores["off"]["default"])

    def test_results_do_not_depend_on_threads_or_memory(self):
        self.flip("pair")
        for more in ((), ("--label-noise", "human")):
            reports = [self.asked("--threads", threads, *more) for threads in ("1", "3")]
            self.assertEqual(*reports)

    def test_rows_without_a_prediction_and_groups(self):
        self.flip("pair")
        gaps = self.members["m1", "oof"].copy()
        gaps[::7] = np.nan
        self.save("m1.oof.npy", gaps)
        del self.manifest["splits"]["oof"]["folds"]
        self.save("g.npy", np.arange(self.rows) // 2)
        self.manifest["splits"]["oof"]["groups"] = "g.npy"
        self.write_manifest()
        found, suspects = self.asked("--missing", "allow", command="fit")
        wrong = self.noisy != self.true["oof"]
        self.assertAlmostEqual(found["rate"], wrong.mean(), delta=0.03)
        self.assertGreater(np.mean([wrong[s[0]] for s in suspects]), 0.9)

    def test_names_and_ids_are_shown(self):
        self.flip("symmetric")
        self.save("ids.npy", np.array([f"row,{i}" for i in range(self.rows)]))
        self.manifest["splits"]["oof"]["ids"] = "ids.npy"
        self.manifest["classes"] = ["ant", "bee", "cat", "=dog"]
        self.write_manifest()
        result = self.works("inspect", self.pool, "--suspects", self.path("s.csv"))
        self.assertIn("Labels that are probably wrong", result.out)
        with open(self.path("s.csv"), encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual(lines[0][0], "id")
        self.assertTrue(lines[1][0].startswith("row,"))
        self.assertLessEqual({line[1] for line in lines[1:]}, {"ant", "bee", "cat", "'=dog"})

    def test_refusals(self):
        self.fails("fit", self.pool, "-o", self.model, "--label-noise", "2", says=["label-noise"])
        self.fails("fit", self.pool, "-o", self.model, "--label-noise", "0", says=["label-noise"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "average", "--label-noise", "human", says=["noise", "no effect"])
        self.fails("fit", self.pool, "-o", self.model, "--method", "average", "--suspects", self.path("s.csv"), says=["preset"])
        self.assertEqual(run("fit", "--task", "regression", "--labels", self.save("t.npy", np.arange(8.0)), self.save("a.npy", np.arange(8.0)),
                             self.save("b.npy", np.arange(8.0) + 1), "-o", self.model, "--label-noise", "human").code, 2)


if __name__ == "__main__":
    unittest.main()
