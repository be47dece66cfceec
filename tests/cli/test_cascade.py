"""fit --cascade and predict --cascade: thresholds, test and stops against NumPy and SciPy; what has no cascade; refusals."""

import json
import os
import tempfile
import unittest

import numpy as np
from scipy.stats import beta

from support import DIGITS, SOURCES, run, softmax

REGRESSION = os.path.join(SOURCES, "examples", "regression", "pool.json")

ROWS = 400
CLASSES = 3
FLOPS = [1.0, 2.0, 4.0, 8.0]
SHARE = 1e-6
STACK = ["--set", "meta.learners=log-linear", "--set", "select.direction=none", "--set", "redundancy.measure=none", "--set",
         "loglinear.mixing=fixed", "--set", "loglinear.prior=fixed"]


def pool(p, y):
    """Weights and biases of softmax(sum_k w_k log p_k + b) with the priors of the library, by Newton."""
    x = np.log((1 - SHARE) * p + SHARE / CLASSES).transpose(1, 2, 0)  # [rows, classes, members]
    members = x.shape[2]
    theta = np.r_[np.full(members, 1 / members), np.zeros(CLASSES)]
    mean = np.full((members, members), 1 / members)
    prior = np.zeros((members + CLASSES, members + CLASSES))
    prior[:members, :members] = 10 * (np.eye(members) - mean) + 30 * mean
    prior[members:, members:] = 30 * np.eye(CLASSES)
    center = np.r_[np.full(members, 1 / members), np.zeros(CLASSES)]
    full = np.concatenate([x, np.broadcast_to(np.eye(CLASSES), (len(y), CLASSES, CLASSES))], axis=2)
    for _ in range(50):
        q = softmax(full @ theta)
        slope = np.einsum("nc,ncj->j", q - np.eye(CLASSES)[y], full) + prior @ (theta - center)
        inner = np.einsum("nc,ncj->nj", q, full)
        curve = np.einsum("nc,nci,ncj->ij", q, full, full) - inner.T @ inner + prior
        theta -= np.linalg.solve(curve, slope)
    return theta


def predict(theta, p):
    x = np.log((1 - SHARE) * p + SHARE / CLASSES)
    return softmax(np.einsum("knc,k->nc", x, theta[:-CLASSES]) + theta[-CLASSES:])


def induce(sure, loss, cost, price):
    """Thresholds by backward induction: V = loss where a row stops, else price x cost + V of the next stage."""
    stages, rows = sure.shape
    value, out = np.zeros(rows), np.zeros(stages)
    for s in reversed(range(stages)):
        on = value + price * (cost[s + 1] - cost[s])
        best, out[s] = 0, 2
        levels = np.unique(sure[s])[::-1]
        for i, level in enumerate(levels):
            total = (loss[s] - on)[sure[s] >= level].sum()
            if total < best:
                best, out[s] = total, (level + levels[i + 1]) / 2 if i + 1 < len(levels) else level
        value = np.where(sure[s] >= out[s], loss[s], on)
    return out


def stops(sure, thresholds):
    there = np.concatenate([sure >= thresholds[:, None], np.ones((1, sure.shape[1]), bool)])
    return there.argmax(0)


def choose(sure, loss, failed, cost, tested, alpha, most):
    """The boldest thresholds that pass, and what the test found of them."""
    passed = None
    at = np.arange(sure.shape[1])
    for step in range(51):
        thresholds = induce(sure[:, ~tested], (loss + failed)[:, ~tested], cost, 10 ** (step / 10 - 5))
        s = stops(sure, thresholds)
        lost = np.concatenate([loss, np.zeros((1, len(at)))])[s, at]
        wrong = np.concatenate([failed, np.zeros((1, len(at)))])[s, at]
        if lost[~tested].mean() > most or wrong[~tested].mean() > alpha:
            break
        k, n = int(wrong[tested].sum()), int(tested.sum())
        bound = beta.ppf(0.95, k + 1, n - k)
        if bound > alpha:
            break
        passed = thresholds, k, bound, cost[s[tested]].mean(), s
    return passed


class Cascade(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        rng = np.random.default_rng(3)
        cls.y, cls.p = {}, {}
        for split in ("oof", "test", "odd"):  # in odd, members are sure of different classes
            y = rng.integers(0, CLASSES, ROWS)
            hard = rng.normal(size=(ROWS, CLASSES))
            z = [4 * np.eye(CLASSES)[(y + k * (split == "odd")) % CLASSES] + hard + rng.normal(size=(ROWS, CLASSES)) * (1.6 - 0.2 * k) for k in range(4)]
            p = np.stack([softmax(a) for a in z]).astype(np.float32)
            for k in range(4):
                np.save(cls.at(f"m{k}_{split}.npy"), p[k])
            np.save(cls.at(f"{split}_y.npy"), y)
            cls.y[split], cls.p[split] = y, p.astype(np.float64)
        cls.folds = rng.permutation(ROWS) % 5
        np.save(cls.at("folds.npy"), cls.folds)
        names = ("oof", "test", "odd")
        models = [{"name": f"m{k}", "flops": FLOPS[k], "predictions": {s: f"m{k}_{s}.npy" for s in names}} for k in range(4)]
        splits = {s: {"labels": f"{s}_y.npy", **({"folds": "folds.npy"} if s == "oof" else {})} for s in names}
        cls.pool = cls.at("pool.json")
        with open(cls.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": ["a", "b", "c"], "splits": splits, "models": models}, file)
        cls.model = cls.at("m.cstack")
        fitted = run("fit", cls.pool, "-o", cls.model, "--cascade", "--alpha", "0.05", "--set", "cascade.loss=0.3", "--json", *STACK)
        assert fitted.code == 0, fitted.err
        cls.report = fitted.json()["cascade"]

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def done(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.code, 0, result.err)
        return result

    def predicted(self, split, *more, model=None):
        result = self.done("predict", model or self.model, self.pool, "--split", split, "-o", self.at("out.npy"), "--json", *more)
        return np.load(self.at("out.npy")), result.json()

    def held_out(self, members):
        out = np.zeros((ROWS, CLASSES))
        p, y = self.p["oof"][members], self.y["oof"]
        for f in range(5):
            out[self.folds == f] = predict(pool(p[:, self.folds != f], y[self.folds != f]), p[:, self.folds == f])
        return out

    def test_thresholds_and_test_are_those_of_scipy(self):
        y, tested = self.y["oof"], self.folds % 2 == 0
        order = [int(name[1:]) for name in self.report["order"]]
        cost = np.cumsum([FLOPS[k] for k in order]) / sum(FLOPS)
        stack = self.held_out([0, 1, 2, 3])
        stages = np.stack([self.held_out(order[:s]) for s in (1, 2, 3)])
        loss = (stack * (np.log(stack) - np.log(stages))).sum(2)
        failed = stages.argmax(2) != stack.argmax(1)
        at = np.arange(ROWS)
        most = 0.3 * -np.log(stack[at, y])[~tested].mean()
        thresholds, k, bound, share, s = choose(stages.max(2), loss, failed, cost, tested, 0.05, most)
        self.assertTrue(share < 0.9 and k > 0)
        told = [2 if t["threshold"] is None else t["threshold"] for t in self.report["stages"][:-1]]
        np.testing.assert_allclose(told, thresholds, atol=1e-5)
        np.testing.assert_allclose([t["cost"] for t in self.report["stages"]], cost, rtol=1e-9)
        np.testing.assert_allclose([t["stopped"] for t in self.report["stages"]], np.bincount(s[tested], minlength=4) / tested.sum(), atol=1e-9)
        self.assertEqual((self.report["tested"], self.report["failed"]), (tested.sum(), k))
        self.assertAlmostEqual(self.report["bound"], bound, delta=1e-9)
        self.assertAlmostEqual(self.report["cost"], share, delta=1e-9)
        final = np.concatenate([stages, stack[None]])[s, at]
        change = np.log(stack[at, y] / final[at, y])[tested].mean()
        self.assertAlmostEqual(self.report["nll_change"], change, delta=1e-5)

    def test_rows_stop_as_in_numpy_and_get_the_pool_of_their_stage(self):
        plain, _ = self.predicted("test", "--guard", "off")
        told, report = self.predicted("test", "--guard", "off", "--cascade")
        order = [int(name[1:]) for name in self.report["order"]]
        pools = [pool(self.p["oof"][order[:s]], self.y["oof"]) for s in (1, 2, 3)]
        stages = np.stack([predict(t, self.p["test"][order[:s + 1]]) for s, t in enumerate(pools)])
        levels = np.array([2 if t["threshold"] is None else t["threshold"] for t in self.report["stages"][:-1]])
        s = stops(stages.max(2), levels)
        self.assertEqual([t["rows"] for t in report["cascade"]["stages"]], np.bincount(s, minlength=4).tolist())
        self.assertAlmostEqual(report["cascade"]["cost"], np.mean([self.report["stages"][i]["cost"] for i in s]), delta=1e-9)
        expected = np.concatenate([stages, plain[None]])[s, np.arange(ROWS)]
        np.testing.assert_allclose(told, expected, atol=2e-5)
        np.testing.assert_array_equal(told[s == 3], plain[s == 3])

    def test_the_stack_is_the_same_with_and_without(self):
        alone = self.at("alone.cstack")
        self.done("fit", self.pool, "-o", alone, *STACK)
        for split in ("test", "odd"):
            np.testing.assert_array_equal(self.predicted(split)[0], self.predicted(split, model=alone)[0])
        self.assertNotIn("cascade", json.dumps(run("show", alone, "--json").json()))
        shown = run("show", self.model, "--json").json()["cascade"]
        self.assertEqual(shown, self.report)

    def test_rows_unlike_the_fit_run_all_members(self):
        told, report = self.predicted("odd", "--cascade")
        np.testing.assert_array_equal(told, self.predicted("odd")[0])
        self.assertEqual([t["rows"] for t in report["cascade"]["stages"]], [0, 0, 0, ROWS])
        self.assertLess(self.predicted("odd", "--cascade", "--guard", "off")[1]["cascade"]["stages"][-1]["rows"], ROWS)

    def test_the_error_risk_counts_fewer_rows(self):
        text = self.done("fit", self.pool, "-o", self.at("e.cstack"), "--cascade", "--alpha", "0.05", "--set", "cascade.loss=1000",
                         "--cascade-risk", "error", *STACK).out
        self.assertIn("with an error that the stack does not make", " ".join(text.split()))
        a, b = (run("fit", self.pool, "-o", self.at("e.cstack"), "--cascade", "--alpha", "0.05", "--set", "cascade.loss=1000",
                    "--cascade-risk", risk, "--json", *STACK).json()["cascade"] for risk in ("error", "disagreement"))
        self.assertLess(a["cost"], b["cost"])

    def test_where_nothing_passes_all_members_run(self):
        few = run("fit", self.pool, "-o", self.at("f.cstack"), "--cascade", *STACK)
        self.assertIn("on 240 rows (it takes 598 or more)", few.out)
        _, report = self.predicted("test", "--cascade", model=self.at("f.cstack"))
        self.assertEqual(report["cascade"]["cost"], 1)
        tight = run("fit", self.pool, "-o", self.at("f.cstack"), "--cascade", "--alpha", "0.05", "--set", "cascade.loss=1e-9", *STACK)
        self.assertIn("cascade.loss", tight.out)
        one = run("fit", self.pool, "-o", self.at("f.cstack"), "--cascade", "--set", "keep.max=1")
        self.assertIn("the stack has one member", one.out)

    def refused(self, words, *arguments):
        result = run(*arguments)
        self.assertEqual(result.code, 2, result.out)
        for word in words:
            self.assertIn(word, result.err)

    def test_refusals(self):
        out = ("-o", self.at("x.cstack"))
        self.refused(["--cascade", "classification"], "fit", REGRESSION, *out, "--cascade")
        self.refused(["folds.kind=time"], "fit", DIGITS, *out, "--cascade", "--set", "folds.kind=time")
        self.refused(["--alpha requires --cascade"], "fit", DIGITS, *out, "--alpha", "0.1")
        self.refused(["cascade", "average"], "fit", DIGITS, *out, "--cascade", "--method", "average")
        self.done("fit", self.pool, *out, *STACK)
        npy = ("-o", self.at("x.npy"), "--cascade")
        self.refused(["no cascade", "--cascade"], "predict", out[1], self.pool, *npy)
        self.refused(["--label-shift"], "predict", self.model, self.pool, *npy, "--label-shift", "em")
        self.done("adapt", self.model, self.pool, "--split", "odd", "-o", self.at("a.cstack"))
        self.refused(["it was adapted"], "predict", self.at("a.cstack"), self.pool, *npy)


if __name__ == "__main__":
    unittest.main()
