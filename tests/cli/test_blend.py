"""Stage S4 with whole methods as meta-learners: what they predict and how they are blended, against NumPy and SciPy."""

import os
import unittest

import numpy as np
from scipy.optimize import minimize

from support import PoolCase, softmax

FLOOR = 1e-15
SCALED_SHARE = 1e-3
FACTOR = 8  # of the probabilities in `logistic`
ROWS, TEST, CLASSES, FOLDS = 300, 40, 3, 5
NAMES = ("ada", "bob", "cyd", "dan", "eve")
EVERY = (
    "log-linear,temperature+log-linear,vector+log-linear,logistic,best-single+temperature,average+temperature,"
    "average+vector,greedy+temperature,greedy+vector,ridge+temperature,hill-climbing+temperature"
)
SETTINGS = (
    "cka.threshold=1", "evaluate.nested=false", "loglinear.prior=fixed", "loglinear.mixing=fixed", "loglinear.share=1e-6",
    "checks=false",
)  # fmt: skip
FIXED = [part for s in SETTINGS for part in ("-s", s)]


# ---- an independent computation ----

def normalised(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def descend(value, start, bounds=None):
    """The minimum of a smooth convex function, whose gradient `value` gives with it."""
    if bounds:
        return minimize(value, start, jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-8}).x
    return minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x


def nll(scores, labels, weights):
    """Total loss of scores, and its gradient in them."""
    p = normalised(scores)
    rows = np.arange(len(labels))
    slope = p * weights[:, None]
    slope[rows, labels] -= weights
    return -(weights * np.log(p[rows, labels])).sum(), slope


def temperature(p, labels, weights):
    """Precision 1 of the inverse temperature around 1."""
    logs = np.log(np.maximum(p, FLOOR))

    def value(b):
        loss, slope = nll(b[0] * logs, labels, weights)
        return loss + 0.5 * (b[0] - 1) ** 2, np.array([(slope * logs).sum() + b[0] - 1])

    inverse = np.clip(descend(value, np.ones(1))[0], 0.01, 100)
    return lambda q: normalised(inverse * np.log(np.maximum(q, FLOOR)))


def vector(p, labels, weights):
    """Slopes with precision 10 around their mean, which has precision 1 around 1; intercepts with 10 around 0."""
    logs = np.log(np.maximum(p, FLOOR))
    c = logs.shape[1]

    def value(theta):
        a, b = theta[:c], theta[c:]
        mean = a.mean()
        loss, slope = nll(logs * a + b, labels, weights)
        loss += 0.5 * (10 * ((a - mean) ** 2).sum() + (mean - 1) ** 2 + 10 * (b**2).sum())
        by_a = (slope * logs).sum(0) + 10 * (a - mean) + (mean - 1) / c
        return loss, np.concatenate([by_a, slope.sum(0) + 10 * b])

    theta = descend(value, np.concatenate([np.ones(c), np.zeros(c)]))
    return lambda q: normalised(np.log(np.maximum(q, FLOOR)) * theta[:c] + theta[c:])


def fit_pool(columns, labels, weights, prior, least=None, bias=30):
    """Weights, at least `least`, and biases of a log-linear pool of columns [members, rows, classes]."""
    k, _, c = columns.shape

    def value(theta):
        w, b = theta[:k], theta[k:]
        common = (w - 1 / k).mean()
        away = w - 1 / k - common
        loss, slope = nll(np.einsum("k,kic->ic", w, columns) + b, labels, weights)
        loss += 0.5 * (prior * (away**2).sum() + 30 * k * common**2 + bias * (b**2).sum())
        by_w = np.einsum("kic,ic->k", columns, slope) + prior * away + 30 * common
        return loss, np.concatenate([by_w, slope.sum(0) + bias * b])

    bounds = None if least is None else [(least, None)] * k + [(None, None)] * c
    theta = descend(value, np.concatenate([np.full(k, 1 / k), np.zeros(c)]), bounds)
    return lambda q: normalised(np.einsum("k,kic->ic", theta[:k], q) + theta[k:])


def logs_with(share, p):
    return np.log((1 - share) * p + share / p.shape[-1])


def scaled_pool(scale, least=None):
    def fit(members, labels, weights):
        maps = [scale(p, labels, weights) for p in members]

        def columns(q):
            return np.stack([logs_with(SCALED_SHARE, m(p)) for m, p in zip(maps, q)])

        pool = fit_pool(columns(members), labels, weights, 10, least)
        return lambda q: pool(columns(q))

    return fit


def plain_pool(members, labels, weights):
    pool = fit_pool(logs_with(1e-6, members), labels, weights, 10)
    return lambda q: pool(logs_with(1e-6, q))


def logistic(members, labels, weights):
    pool = fit_pool(FACTOR * members, labels, weights, 256, bias=3)
    return lambda q: pool(FACTOR * q)


def average(scale):
    def fit(members, labels, weights):
        own = scale(members.mean(0), labels, weights)
        return lambda q: own(q.mean(0))

    return fit


def best_single(members, labels, weights):
    rows = np.arange(len(labels))
    losses = [-(weights * np.log(np.maximum(p[rows, labels], FLOOR))).sum() for p in members]
    best = int(np.argmin(losses))
    own = temperature(members[best], labels, weights)
    return lambda q: own(q[best])


METHODS = {
    "log-linear": plain_pool,
    "temperature+log-linear": scaled_pool(temperature),
    "vector+log-linear": scaled_pool(vector),
    "logistic": logistic,
    "best-single+temperature": best_single,
    "average+temperature": average(temperature),
    "average+vector": average(vector),
}
# Vector scaling stops within 1e-3 nats of its optimum.
TOLERANCE = {"vector+log-linear": 2e-3, "average+vector": 2e-3}
SCALED = ("temperature+log-linear", "vector+log-linear")


def held_out(name, members, labels, folds, weights):
    """Probability of the true class by the fit without the row's fold."""
    truth = np.empty(len(labels))
    for f in range(FOLDS):
        out = folds == f
        predict = METHODS[name](members[:, ~out], labels[~out], weights[~out])
        p = predict(members[:, out])
        truth[out] = p[np.arange(out.sum()), labels[out]]
    return truth


def stack(names, truth, weights, prior, least):
    """Weights on the simplex with the least held-out loss, and `prior` rows that each pool of scaled members alone knows."""
    names = list(names)
    while True:
        columns = np.stack([truth[n] for n in names], 1)
        extra = np.array([prior if n in SCALED else 0.0 for n in names])
        w = np.full(len(names), 1 / len(names))
        moved = 1.0
        while moved > 1e-9:  # expectation maximisation, which is slow and sure
            shares = columns * w
            next_w = (shares * (weights / shares.sum(1))[:, None]).sum(0) + extra
            next_w /= next_w.sum()
            moved = np.abs(next_w - w).max()
            w = next_w
        if (w >= least).all():
            return dict(zip(names, w))
        names = [n for n, share in zip(names, w) if share >= least]


def distilled(members, labels, targets, worth):
    """Sets of each size, from all members to one, with the mean loss against the targets and the losses of the labels: pools without
    biases, from which the member leaves whose removal raises the loss least for its worth."""
    logs = logs_with(1e-6, members)
    k, n, _ = logs.shape
    rows = np.arange(n)
    path, active = {}, list(range(k))
    while active:
        x, a = logs[active], len(active)

        def value(w, x=x, a=a):
            z = np.einsum("k,kic->ic", w, x)
            p = normalised(z)
            common = (w - 1 / a).mean()
            away = w - 1 / a - common
            loss = -(targets * np.log(p)).sum() + 0.5 * (10 * (away**2).sum() + 30 * a * common**2)
            return loss, np.einsum("kic,ic->k", x, p - targets) + 10 * away + 30 * common

        w = descend(value, np.full(a, 1 / a))
        p = normalised(np.einsum("k,kic->ic", w, x))
        centred = x - np.einsum("kic,ic->ki", x, p)[:, :, None]
        hessian = np.einsum("kic,lic,ic->kl", centred, centred, p) + 10 * np.eye(a) + (30 - 10) / a
        path[a] = (sorted(active), -(targets * np.log(p)).sum() / n, -np.log(p[rows, labels]))
        rise = w**2 / (2 * np.diag(np.linalg.inv(hessian)))
        active.pop(int(np.argmin(rise / worth[active])))
    return path


# ---- the tool ----

class Blend(PoolCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(11)
        self.numbers, self.truths = {}, {}
        for split, rows in (("oof", ROWS), ("test", TEST)):
            labels = rng.permutation(np.arange(rows) % CLASSES).astype(np.int32)
            self.labels[split] = labels
            self.save(f"{split}_labels.npy", labels)
            hard = rng.normal(size=(rows, CLASSES))
            tilt = np.array([0.5, 0.0, -0.4])
            members = []
            for skill, sharp in ((1.2, 0.6), (1.5, 1.0), (1.0, 2.0), (0.8, 1.5), (0.3, 0.8)):
                scores = 0.7 * hard + rng.normal(size=(rows, CLASSES)) + tilt * rng.random()
                scores[np.arange(rows), labels] += skill
                wild = rng.random(rows) < 0.1  # where logarithms cost more than a mixture
                scores[wild] = 4 * rng.normal(size=(wild.sum(), CLASSES))
                members.append(softmax(sharp * scores))
            self.numbers[split] = np.stack(members)
            for name, p in zip(NAMES, members):
                self.save(f"{name}.{split}.npy", p)
        self.folds = (rng.permutation(ROWS) % FOLDS).astype(np.int32)
        self.save("folds.npy", self.folds)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.manifest["models"] = [
            {"name": n, "predictions": {s: f"{n}.{s}.npy" for s in ("oof", "test")}} for n in NAMES
        ]
        self.write_manifest()
        self.output = self.path("p.npy")

    def test_members_leave_while_a_pool_can_say_what_all_say(self):
        twin = np.log(self.numbers["oof"][1]) + 0.3 * np.random.default_rng(3).normal(size=(ROWS, CLASSES))
        self.numbers["oof"][3] = softmax(twin)  # dan is bob, a little worse and much cheaper
        self.save("dan.oof.npy", self.numbers["oof"][3])
        members = self.numbers["oof"].astype(float)
        targets = plain_pool(members, self.labels["oof"], np.ones(ROWS))(members)
        flops = np.array([1.0, 1000, 1, 1, 1])
        kept = set()
        for powers, tolerance in (((0,), 0.0025), ((0, 0.5, 1), 0.02)):
            if len(powers) > 1:
                for model, cost in zip(self.manifest["models"], flops):
                    model["flops"] = cost
                self.write_manifest()
            document = self.fit("--json", *FIXED, "-s", f"select.tolerance={tolerance}").json()
            paths = [distilled(members, self.labels["oof"], targets, (flops / flops.mean()) ** p) for p in powers]
            sizes = []
            share = tolerance * ROWS / (ROWS + 500)
            for path in paths:
                least = min(loss for _, loss, _ in path.values())
                sizes.append(min(a for a, (_, loss, _) in path.items() if loss - least <= share * least))
            prices = [a / len(NAMES) + flops[p[a][0]].sum() / flops.sum() for p, a in zip(paths, sizes)]
            best = int(np.argmin(prices))
            path, chosen = paths[best], sizes[best]
            for step in document["path"]:
                names, loss, labels = path[step["size"]]
                self.assertEqual(step["members"], [NAMES[k] for k in names])
                self.assertAlmostEqual(step["loss"], loss, delta=2e-4)
                change = labels - path[len(NAMES)][2]
                self.assertAlmostEqual(step["against_all"], change.mean(), delta=2e-4)
                self.assertAlmostEqual(step["against_all_se"], change.std() / np.sqrt(ROWS), delta=2e-4)
                self.assertEqual(step["chosen"], step["size"] == chosen)
            self.assertLess(chosen, len(NAMES))
            self.assertEqual(document["selection"]["left_out"]["count"], len(NAMES) - chosen)
            kept.add(best)
        self.assertEqual(len(kept), 2)  # what members cost changes who leaves

    def test_the_pool_stands_alone_where_the_blend_is_worse_beyond_noise(self):
        for wrong, other, prior in ((False, "average+temperature", 10), (True, "best-single+temperature", 1e5)):
            pair = ("log-linear", other)
            if wrong:  # the best member is wrong in one fold: weights found without it trust that member too much
                p = np.full((ROWS, CLASSES), 0.02)
                held = self.folds == 0
                p[np.arange(ROWS), np.where(held, (self.labels["oof"] + 1) % CLASSES, self.labels["oof"])] = 0.96
                self.save("ada.oof.npy", p)
                self.numbers["oof"][0] = p
            document = self.blend(",".join(pair), "-s", f"loglinear.prior_weights={prior}", "-s", "blend.least=0")
            members, labels, ones = self.numbers["oof"].astype(float), self.labels["oof"], np.ones(ROWS)
            truth = {pair[1]: held_out(pair[1], members, labels, self.folds, ones), pair[0]: np.empty(ROWS)}
            for f in range(FOLDS):
                out = self.folds == f
                pool = fit_pool(logs_with(1e-6, members[:, ~out]), labels[~out], ones[~out], prior)
                truth[pair[0]][out] = pool(logs_with(1e-6, members[:, out]))[np.arange(out.sum()), labels[out]]
            change = np.empty(ROWS)
            for f in range(FOLDS):
                out = self.folds == f
                w = stack(pair, {n: t[~out] for n, t in truth.items()}, ones[~out], 3, 0)
                change[out] = np.log(sum(w[n] * truth[n][out] for n in pair)) - np.log(truth[pair[0]][out])
            safety = document["safety"]
            self.assertAlmostEqual(safety["change"], change.mean(), delta=1e-3 + 1e-2 * abs(change.mean()))
            self.assertAlmostEqual(safety["se"], change.std() / np.sqrt(ROWS), delta=1e-3 + 1e-2 * change.std() / np.sqrt(ROWS))
            self.assertEqual(safety["pool_alone"], wrong)
            self.assertEqual(document["blend"]["log-linear"] == 1, wrong)

    def blend(self, learners, *more):
        """Fits every member, without choices that the tests do not compute. Returns the document."""
        return self.fit("--json", *FIXED, "-s", f"meta.learners={learners}", "-s", "select.direction=none", *more).json()

    def predict(self, *more, split="test"):
        self.works("predict", self.model, self.pool, "--split", split, "-o", self.output, "-q", *more)
        return np.load(self.output)

    def weigh(self, weights):
        self.save("weights.npy", weights)
        self.manifest["splits"]["oof"]["weights"] = "weights.npy"
        self.write_manifest()

    def numbers_of(self, name, weights=None):
        weights = np.ones(ROWS) if weights is None else weights
        fitted = METHODS[name](self.numbers["oof"].astype(float), self.labels["oof"], weights)
        return fitted(self.numbers["test"].astype(float))

    def agrees(self, name, weights=None):
        np.testing.assert_allclose(
            self.predict(), self.numbers_of(name, weights), rtol=0, atol=TOLERANCE.get(name, 1e-6), err_msg=name
        )

    def test_each_method_predicts_what_numpy_does(self):
        seen = []
        for name in METHODS:
            with self.subTest(name):
                document = self.blend(name)
                self.assertEqual(document["blend"], {name: 1})
                self.agrees(name)
                seen.append(self.predict())
        for i, p in enumerate(seen):  # else agreement would say little
            for q in seen[:i]:
                self.assertGreater(np.abs(p - q).max(), 3e-3)

    def test_row_weights_weigh_losses_and_zero_leaves_a_row_out(self):
        weights = np.random.default_rng(2).integers(0, 4, ROWS).astype(float)
        self.weigh(weights)
        even = weights * (weights > 0).sum() / weights.sum()  # a mean of 1 over the rows that count
        for name in ("temperature+log-linear", "vector+log-linear", "average+vector", "logistic"):
            with self.subTest(name):
                self.blend(name)
                self.agrees(name, even)
                self.assertGreater(np.abs(self.predict() - self.numbers_of(name)).max(), 5e-3)
        learners = "temperature+log-linear,average+vector,best-single+temperature"
        document = self.blend(learners)
        with_zeros = self.predict().tobytes()
        keep = weights > 0
        for name, p in zip(NAMES, self.numbers["oof"]):
            self.save(f"{name}.oof.npy", p[keep])
        self.save("oof_labels.npy", self.labels["oof"][keep])
        self.save("folds.npy", self.folds[keep])
        self.weigh(weights[keep])
        less = self.blend(learners)
        self.assertEqual(document["blend"], less["blend"])
        self.assertEqual(with_zeros, self.predict().tobytes())

    def blends(self, learners, prior, least, weights=None):
        """The report's weights and losses, and those of NumPy; the model's predictions as their mixture."""
        counts = np.ones(ROWS) if weights is None else weights
        document = self.blend(",".join(learners), "-s", f"blend.prior={prior}", "-s", f"blend.least={least}")
        members = self.numbers["oof"].astype(float)
        truth = {}
        for n in learners:  # what does not depend on the settings is computed once
            if weights is not None or n not in self.truths:
                self.truths[n] = held_out(n, members, self.labels["oof"], self.folds, counts)
            truth[n] = self.truths[n]
        for entry in document["learners"]:
            loss = -(counts * np.log(truth[entry["name"]])).sum()
            self.assertAlmostEqual(entry["nll"] / ROWS, loss / ROWS, delta=2e-4, msg=entry["name"])
        wanted = stack(learners, truth, counts, prior, least)
        for name in learners:
            self.assertAlmostEqual(document["blend"][name], wanted.get(name, 0), delta=5e-3, msg=name)
        mixture = sum(w * self.numbers_of(n, weights) for n, w in document["blend"].items() if w > 0)
        np.testing.assert_allclose(self.predict(), mixture, rtol=0, atol=1e-3)
        return document["blend"]

    def test_two_learners_are_stacked_by_held_out_loss(self):
        pair = ("temperature+log-linear", "average+temperature")
        without = self.blends(pair, 0, 0)
        some = self.blends(pair, 3, 0)
        much = self.blends(pair, 60, 0)
        self.assertLess(without[pair[0]] + 0.01, some[pair[0]])
        self.assertLess(some[pair[0]] + 0.01, much[pair[0]])

    def test_the_prior_is_for_pools_of_scaled_members_only(self):
        names = ("log-linear", "temperature+log-linear", "vector+log-linear", "logistic")
        self.blends(names, 2, 0)
        alike = self.blends(names, 1e9, 0)
        for name in SCALED:
            self.assertAlmostEqual(alike[name], 0.5, delta=1e-4)

    def test_a_learner_below_the_least_weight_leaves(self):
        names = ("temperature+log-linear", "vector+log-linear", "average+temperature")
        free = self.blends(names, 0, 0)
        self.assertGreater(free[names[0]], 0.005)
        self.assertLess(free[names[0]], 0.05)
        kept = self.blends(names, 0, 0.1)
        self.assertEqual(kept[names[0]], 0)
        self.assertGreater(min(kept[n] for n in names[1:]), 0.1)
        self.assertEqual(list(self.blends(names, 0, 0.5).values()), [0, 1, 0])

    def test_where_all_are_below_the_least_weight_the_first_stays(self):
        names = ("temperature+log-linear", "vector+log-linear", "ridge+temperature", "hill-climbing+temperature")
        free = self.blend(",".join(names), "-s", "blend.least=0", "-s", "blend.prior=10")["blend"]
        self.assertLess(max(free.values()), 0.5)
        kept = self.blend(",".join(names), "-s", "blend.least=0.5", "-s", "blend.prior=10")["blend"]
        self.assertEqual(kept[max(names, key=free.get)], 1)

    def test_every_method_is_fitted(self):
        self.assertEqual(set(self.blend(EVERY, "-s", "blend.rule=uniform")["blend"]), set(EVERY.split(",")))

    def test_a_method_without_refits_is_not_to_be_fitted_again(self):
        self.blend("ridge+temperature")
        self.manifest["models"] = self.manifest["models"][1:]
        self.write_manifest()
        told = self.works("predict", self.model, self.pool, "-o", self.output, "--missing", "allow").err
        self.assertIn("only scaled", told)
        self.assertNotIn("fit it again", told)

    def test_weighted_rows_weigh_the_blend(self):
        weights = np.random.default_rng(5).integers(1, 6, ROWS).astype(float)
        self.weigh(weights)
        self.blends(("temperature+log-linear", "average+temperature"), 3, 0, weights * ROWS / weights.sum())

    def test_the_same_bytes_for_any_threads_and_memory(self):
        mixtures = EVERY.split(",", 1)[1]  # without the pool that could stand alone
        self.fit("-s", f"meta.learners={mixtures}", "-s", "blend.least=0", "-s", "blend.prior=20", "-q", "-t", "1")
        model = self.read(self.model)
        predicted = self.predict("-t", "1").tobytes()
        self.assertIn(b"OWNS", model)
        for more in (("-t", "4"), ("-t", "3", "--memory", "64MiB")):
            self.fit("-s", f"meta.learners={mixtures}", "-s", "blend.least=0", "-s", "blend.prior=20", "-q", *more)
            self.assertEqual(self.read(self.model), model, more)
            self.assertEqual(self.predict(*more).tobytes(), predicted, more)

    def test_the_model_alone_predicts(self):
        """Predictions of a copy of the file, elsewhere and row by row, are the same bytes."""
        self.blend(EVERY, "-s", "blend.rule=uniform")
        whole = self.predict()
        copy = self.path("copy.cstack")
        with open(copy, "wb") as file:
            file.write(self.read(self.model))
        os.remove(self.model)
        for name, p in zip(NAMES, self.numbers["test"]):
            self.save(f"{name}.one.npy", p[7:8])
        self.save("one_labels.npy", self.labels["test"][7:8])
        self.manifest["splits"]["one"] = {"labels": "one_labels.npy"}
        for entry in self.manifest["models"]:
            entry["predictions"]["one"] = f"{entry['name']}.one.npy"
        self.write_manifest()
        self.model = copy
        self.assertEqual(self.predict().tobytes(), whole.tobytes())
        self.assertEqual(self.predict(split="one").tobytes(), whole[7:8].tobytes())

    def lonely(self):
        """A pool whose second member alone is worth reading: the others are noise."""
        rng = np.random.default_rng(8)
        for split, rows in (("oof", ROWS), ("test", TEST)):
            for name in NAMES:
                scores = rng.normal(size=(rows, CLASSES))
                if name == "bob":
                    scores[np.arange(rows), self.labels[split]] += 4
                self.save(f"{name}.{split}.npy", softmax(scores))

    def test_members_that_no_learner_of_the_blend_reads_leave(self):
        self.lonely()
        document = self.blend("best-single+temperature,average+temperature")
        self.assertEqual(document["blend"], {"best-single+temperature": 1, "average+temperature": 0})
        self.assertEqual(document["kept"], ["bob"])
        reasons = {d["name"]: d["because"] for d in document["dropped"]}
        self.assertEqual(reasons, dict.fromkeys(set(NAMES) - {"bob"}, "blend"))
        members = [m["name"] for m in self.works("show", self.model, "--json").json()["members"]]
        self.assertEqual(members, ["bob"])
        before = self.predict().tobytes()
        self.manifest["models"] = [m for m in self.manifest["models"] if m["name"] == "bob"]
        self.write_manifest()
        for name in set(NAMES) - {"bob"}:
            os.remove(self.path(f"{name}.test.npy"))
        self.assertEqual(self.predict().tobytes(), before)
        p = np.load(self.path("bob.oof.npy")).astype(float)
        q = np.load(self.path("bob.test.npy")).astype(float)
        own = temperature(p, self.labels["oof"], np.ones(ROWS))
        np.testing.assert_allclose(np.load(self.output), own(q), rtol=0, atol=1e-6)

    def test_scalings_of_members_that_leave_go_with_them(self):
        rng = np.random.default_rng(9)
        for split, labels in self.labels.items():  # two show the errors that the others share
            hard = rng.normal(size=(len(labels), CLASSES))
            for k, name in enumerate(NAMES):
                shows = name in ("ada", "dan")
                scores = (1.5 if shows else 1) * hard + 0.4 * rng.normal(size=hard.shape)
                scores[np.arange(len(labels)), labels] += 0.5 if shows else 1.5
                self.numbers[split][k] = softmax(scores)
                self.save(f"{name}.{split}.npy", self.numbers[split][k])
        for name, scale in (("temperature+log-linear", temperature), ("vector+log-linear", vector)):
            with self.subTest(name):
                document = self.blend(name, "-s", "loglinear.nonnegative=true")
                self.assertNotIn("ada", document["kept"])
                self.assertGreater(len(document["kept"]), 1)
                self.assertEqual({d["because"] for d in document["dropped"]}, {"blend"})
                fitted = scaled_pool(scale, 0)(self.numbers["oof"].astype(float), self.labels["oof"], np.ones(ROWS))
                wanted = fitted(self.numbers["test"].astype(float))
                np.testing.assert_allclose(self.predict(), wanted, rtol=0, atol=TOLERANCE.get(name, 1e-5))

    def test_a_member_that_some_learner_reads_stays(self):
        self.lonely()
        document = self.blend("best-single+temperature,temperature+log-linear")
        self.assertGreater(document["blend"]["temperature+log-linear"], 0.01)
        self.assertEqual(document["dropped"], [])


if __name__ == "__main__":
    unittest.main()
