"""Limits on cost: what is chosen within them, against every set that is allowed, fitted here in NumPy; twins; messages."""

import itertools

import numpy as np

from support import PoolCase, softmax

FOLDS = 5
PRIOR = 10.0


def deviations(size):
    """Precision of weights around their average, three times that of their common scale."""
    return PRIOR * np.eye(size) + 2 * PRIOR / size


class LogLinear:
    """Log-linear pool with biases, by Newton."""

    def __init__(self, members, labels):
        self.x, self.y = np.log(np.stack(members, 2).astype(float)), labels

    def loss(self, chosen, folds):
        """Cross-validated loss of a set."""
        rows, classes, _ = self.x.shape
        one, size = np.eye(classes), len(chosen)
        design = np.concatenate([self.x[:, :, chosen], np.broadcast_to(one, (rows, classes, classes))], 2)
        start = np.concatenate([np.full(size, 1 / size), np.zeros(classes)])
        prior = np.zeros((size + classes,) * 2)
        prior[:size, :size], prior[size:, size:] = deviations(size), 30 * one
        total = 0.0
        for fold in range(FOLDS):
            inside, at = folds != fold, start.copy()
            a, t = design[inside], one[self.y[inside]]
            for _ in range(20):
                p = softmax64(a @ at)
                gradient = np.tensordot(p - t, a, ([0, 1], [0, 1])) + prior @ (at - start)
                mean = (p[:, :, None] * a).sum(1)
                weighted = (p[:, :, None] * a).reshape(-1, a.shape[2])
                hessian = weighted.T @ a.reshape(-1, a.shape[2]) - mean.T @ mean + prior
                step = np.linalg.solve(hessian, gradient)
                at -= step
                if gradient @ step < 1e-6:
                    break
            p = softmax64(design[~inside] @ at)
            total -= np.log(p[np.arange(len(p)), self.y[~inside]]).sum()
        return total / rows


class Linear:
    """Linear pool with an intercept, and a weak ridge."""

    def __init__(self, members, targets):
        self.x, self.y = np.stack(members, 1).astype(float), targets

    def loss(self, chosen, folds):
        total = 0.0
        for fold in range(FOLDS):
            inside = folds != fold
            x, y = self.x[inside][:, chosen], self.y[inside]
            centred, target = x - x.mean(0), y - y.mean()
            ridge = 1e-3 * len(y) * np.eye(len(chosen))
            weights = np.linalg.solve(centred.T @ centred + ridge, centred.T @ target + ridge.sum(1) / len(chosen))
            error = self.y[~inside] - y.mean() - (self.x[~inside][:, chosen] - x.mean(0)) @ weights
            total += (error**2).sum()
        return total / len(self.y)


def softmax64(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def random_members(rng, rows, classes, count):
    """Labels, and probabilities of members in families of different skill."""
    labels = rng.integers(0, classes, rows).astype(np.int32)
    common, families = rng.normal(size=(rows, classes)), rng.normal(size=(3, rows, classes))
    scores = []
    for k in range(count):
        z = rng.uniform(0.6, 2.2) * np.eye(classes)[labels] + 0.5 * common
        z += rng.uniform(0, 1.2) * families[k % 3] + rng.uniform(0.3, 1) * rng.normal(size=(rows, classes))
        scores.append(z)
    return labels, scores


class BudgetCase(PoolCase):
    def make(self, members, labels, costs, task="classification", folds=None):
        """A pool of these members. costs: lists by key of the manifest."""
        self.save("oof_labels.npy", labels)
        split = {"labels": "oof_labels.npy"}
        if folds is not None:
            self.save("oof_folds.npy", folds.astype(np.int32))
            split["folds"] = "oof_folds.npy"
        self.manifest = {"corestack_pool": 1, "task": task, "splits": {"oof": split}, "models": []}
        if task == "classification":
            self.manifest |= {"classes": members[0].shape[1], "output": "probability"}
        for k, member in enumerate(members):
            self.save(f"m{k}.oof.npy", member.astype(np.float32))
            self.manifest["models"].append(
                {"name": f"m{k}", "predictions": {"oof": f"m{k}.oof.npy"}} | {key: float(c[k]) for key, c in costs.items()}
            )
        self.write_manifest()

    def fitted(self, *settings):
        more = [word for setting in settings for word in ("--set", setting)]
        return self.fit("--json", *more).json()

    def kept(self, *settings):
        return [int(name[1:]) for name in self.fitted("evaluate.nested=false", *settings)["kept"]]


class AgainstBruteForce(BudgetCase):
    """The chosen set is within 1% of the best of all that are allowed."""

    def check(self, oracle, count, folds, costs, limits, *settings):
        """costs, limits: by key of the manifest and by option."""
        kept = self.kept(*settings, *(f"{option}={limit:.12g}" for option, limit in limits.items()))
        allowed = [
            list(chosen)
            for size in range(1, count + 1)
            for chosen in itertools.combinations(range(count), size)
            if all(c[list(chosen)].sum() <= limit for c, limit in zip(costs.values(), limits.values()))
        ]
        self.assertIn(kept, allowed)
        best = min(oracle.loss(chosen, folds) for chosen in allowed)
        self.assertLess(oracle.loss(kept, folds), 1.01 * best, (kept, limits))

    def test_classification(self):
        for seed, twins in ((1, False), (2, True)):
            rng = np.random.default_rng(seed)
            labels, scores = random_members(rng, 500, 3, 7)
            latency = np.exp(rng.normal(size=7))
            for k in (0, 3) if twins else ():  # the dear twin is a little better
                scores[k + 1] = scores[k] + 0.02 * rng.normal(size=scores[k].shape)
                latency[k] = 4 * latency[k + 1]
            members = [np.maximum(softmax(z), 1e-6) for z in scores]
            folds = np.arange(500) % FOLDS
            self.make(members, labels, {"latency_ms": latency}, folds=folds)
            for share in (0.15, 0.35):
                limit = {"keep.max_latency": max(share * latency.sum(), 1.1 * latency.min())}
                self.check(LogLinear(members, labels), 7, folds, {"latency_ms": latency}, limit)

    def test_a_cap_on_the_number_asks_for_the_loss(self):
        for model, flops in zip(self.manifest["models"], (1, 1, 1000)):  # the last one is the best
            model["flops"] = flops
        self.write_manifest()
        self.assertEqual(self.works("fit", self.pool, "-o", self.model, "--set", "keep.max=1", "--json").json()["kept"], ["cyd"])

    def test_two_limits(self):
        rng = np.random.default_rng(11)
        labels, scores = random_members(rng, 400, 3, 6)
        members = [np.maximum(softmax(z), 1e-6) for z in scores]
        folds = np.arange(400) % FOLDS
        costs = {"flops": np.exp(rng.normal(size=6)), "params": np.exp(rng.normal(size=6))}
        self.make(members, labels, costs, folds=folds)
        limits = {"keep.max_flops": 0.4 * costs["flops"].sum(), "keep.max_params": 0.4 * costs["params"].sum()}
        self.check(LogLinear(members, labels), 6, folds, costs, limits)

    def test_regression(self):
        for seed in range(2):
            rng = np.random.default_rng(seed)
            truth, parts = rng.normal(size=(400, 4)), rng.normal(size=(3, 400))
            y = truth.sum(1)
            members = [truth[:, : 1 + k % 4].sum(1) + rng.uniform(0.2, 1.5) * parts[k % 3] + 0.4 * rng.normal(size=400)
                       for k in range(10)]  # fmt: skip
            folds = np.arange(400) % FOLDS
            latency = np.exp(rng.normal(size=10))
            self.make(members, y, {"latency_ms": latency}, task="regression", folds=folds)
            for share in (0.1, 0.3):
                limit = {"keep.max_latency": max(share * latency.sum(), 1.1 * latency.min())}
                self.check(Linear(members, y), 10, folds, {"latency_ms": latency}, limit)


class Front(BudgetCase):
    """Used and allowed cost, and the sets that no cheaper one beats."""

    def make_random(self, costs, **about):
        rng = np.random.default_rng(21)
        labels, scores = random_members(rng, 400, 3, 6)
        self.members = [np.maximum(softmax(z), 1e-6) for z in scores]
        self.labels, self.folds = labels, np.arange(400) % FOLDS
        self.make(self.members, labels, {key: np.exp(rng.normal(size=6)) for key in costs}, folds=self.folds, **about)
        self.costs = {key: [m[key] for m in self.manifest["models"]] for key in costs}

    def check(self, front, keys):
        """Points have the costs of their members, and no other point beats them at what they are best for."""
        for point in front["points"]:
            chosen = [int(name[1:]) for name in point["members"]]
            self.assertEqual(len(chosen), point["size"])
            for key in keys:
                self.assertAlmostEqual(point[key], sum(self.costs[key][k] for k in chosen), places=6)
            self.assertTrue(point["best_for"] or point["kept"])
            for key in point["best_for"]:
                for other in front["points"]:
                    self.assertFalse(other[key] < point[key] and other["loss"] <= point["loss"], (key, point, other))
        self.assertEqual({key for point in front["points"] for key in point["best_for"]}, set(keys))

    def test_classification(self):
        self.make_random(["flops", "latency_ms"])
        oracle = LogLinear(self.members, self.labels)
        sets = [list(s) for size in range(1, 7) for s in itertools.combinations(range(6), size)]
        losses = {tuple(s): oracle.loss(s, self.folds) for s in sets}
        for settings in ((), ("keep.max_latency=3",), ("keep.max_flops=4", "keep.max_latency=4")):
            found = self.fitted("evaluate.nested=false", *settings)
            front = found["front"]
            self.check(front, ["flops", "latency_ms"])
            self.assertEqual(front["left_out"], [{"cost": "params", "because": "member 'm0' has no params"}])
            kept = [point for point in front["points"] if point["kept"]]
            self.assertEqual([point["members"] for point in kept], [found["kept"]])
            for point in front["points"]:
                chosen = tuple(int(name[1:]) for name in point["members"])
                if not settings:  # of the sets on the path
                    on_path = [step for step in found["path"] if step["size"] == len(chosen)]
                    self.assertEqual((point["members"], point["loss"]), (on_path[0]["members"], on_path[0]["loss"]))
                    continue
                self.assertLess(abs(point["loss"] / losses[chosen] - 1), 0.03)  # without biases
                for key in point["best_for"]:
                    best = min(losses[tuple(s)] for s in sets if sum(self.costs[key][k] for k in s) <= point[key] + 1e-9)
                    self.assertLess(losses[chosen], 1.02 * best)
            for key, limit in (("latency_ms", settings and settings[-1]), ("flops", len(settings) == 2 and settings[0])):
                used = sum(self.costs[key][int(name[1:])] for name in found["kept"])
                self.assertAlmostEqual(found["budget"][key]["used"], used, places=6)
                self.assertEqual(found["budget"][key]["allowed"], float(limit.split("=")[1]) if limit else None)
            self.assertIsNone(found["budget"]["params"]["used"])

    def test_text(self):
        self.make_random(["latency_ms"])
        text = self.fit("-v", "-s", "keep.max_latency=3", "-s", "keep.latency=max").out
        self.assertIn("that sets reach at their cost", text)
        self.assertRegex(text, r"latency budget +[0-9.]+ of 3 ms \(the slowest member\)")
        self.assertNotIn("budget", self.fit("-v").out)

    def test_regression(self):
        rng = np.random.default_rng(4)
        truth = rng.normal(size=(300, 5))
        members = [truth[:, : k + 1].sum(1) + rng.normal(size=300) for k in range(5)]
        self.folds, y = np.arange(300) % FOLDS, truth.sum(1)
        self.make(members, y, {"params": [1, 2, 4, 8, 16]}, task="regression", folds=self.folds)
        self.costs = {"params": [1, 2, 4, 8, 16]}
        found = self.fitted("evaluate.nested=false", "keep.max_params=12")
        self.check(found["front"], ["params"])
        self.assertLessEqual(found["budget"]["params"]["used"], 12)
        oracle = Linear(members, y)
        for point in found["front"]["points"]:
            loss = oracle.loss([int(name[1:]) for name in point["members"]], self.folds) / np.var(y)
            self.assertLess(abs(point["loss"] / loss - 1), 0.03)
        self.assertIn("size budget", self.fit("-v", "-s", "keep.max_params=12").out)

    def test_nothing_to_show(self):
        self.make_random([])
        found = self.fitted("evaluate.nested=false")
        self.assertEqual(found["front"]["points"], [])
        self.assertEqual([left["cost"] for left in found["front"]["left_out"]], ["flops", "latency_ms", "params"])
        self.assertNotIn("at their cost", self.fit().out)
        self.make_random(["flops"])
        left = self.fit("-p", "paper", "-s", "evaluate.nested=false", "--json").json()["front"]["left_out"]
        self.assertIn("not selected", left[0]["because"])


class Twins(BudgetCase):
    """Members that say the same, or nearly."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        self.y, scores = random_members(rng, 400, 3, 4)
        scores[1] = scores[0] + 0.01 * rng.normal(size=scores[0].shape)
        self.near = [softmax(z) for z in scores]

    def test_the_cheap_one_stays_within_a_limit(self):
        self.make(self.near, self.y, {"latency_ms": [3.95, 0.74, 2, 2.2]})
        found = self.fitted("keep.max_latency=5")
        self.assertIn("m1", found["kept"])
        self.assertNotIn("m0", found["kept"])
        self.assertNotIn("redundant", [d["because"] for d in found["dropped"]])
        self.assertIn("m2", found["kept"])

    def test_of_equal_ones_the_cheaper_is_kept(self):
        members = [self.near[0], self.near[0].copy(), *self.near[2:]]
        for key in ("flops", "latency_ms", "params"):
            for dear in (0, 1):
                for preset in ("default", "paper") if key == "flops" else ("default",):
                    costs = [9.0, 9.0, 3.0, 3.0]
                    costs[dear] = 10.0
                    ties = ["--set", "redundancy.ties=drop"] if preset == "paper" else []
                    self.make(members, self.y, {key: costs})
                    found = self.fit("--json", "--preset", preset, "--set", "evaluate.nested=false",
                                     "--set", "keep.fraction=1", *ties).json()  # fmt: skip
                    because = {d["name"]: (d["because"], d["to"]) for d in found["dropped"]}
                    self.assertEqual(because.get(f"m{dear}"), ("redundant", f"m{1 - dear}"), (key, dear, preset))

    def test_equal_in_shape_but_not_in_risk(self):
        swapped = self.near[0][:, [1, 0, 2]]  # a similarity of 1, and wrong
        self.make([self.near[0], swapped, *self.near[2:]], self.y, {"latency_ms": [9, 1, 3, 3]})
        self.assertNotIn(1, self.kept())


class Limits(BudgetCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(8)
        self.y, scores = random_members(rng, 300, 3, 5)
        self.five = [softmax(z) for z in scores]
        self.costs = {"latency_ms": [1.1, 2.2, 3.3, 4.4, 5.5], "flops": [5, 4, 3, 2, 1], "params": [1, 2, 3, 4, 5]}
        self.make(self.five, self.y, self.costs)

    def total(self, key, kept):
        return [self.costs[key][k] for k in kept]

    def test_sums_round(self):
        self.make(self.five[:2], self.y, {"latency_ms": [1.1, 2.2]})
        self.assertEqual(self.kept("keep.max_latency=3.3", "select.rule=best", "select.tolerance=0"), [0, 1])

    def test_parallel_members(self):
        kept = self.kept("keep.max_latency=3.3", "keep.latency=max", "select.rule=best")
        self.assertLessEqual(max(self.total("latency_ms", kept)), 3.3)
        self.assertGreater(sum(self.total("latency_ms", kept)), 3.3)
        self.assertLessEqual(sum(self.total("latency_ms", self.kept("keep.max_latency=3.3"))), 3.3 + 1e-9)

    def test_every_preset_and_parameters(self):
        for preset in ("default", "paper", "prototype"):
            for key, option in (("flops", "keep.max_flops"), ("params", "keep.max_params")):
                found = self.fit("--json", "-p", preset, "-s", f"{option}=6", "-s", "evaluate.nested=false").json()
                self.assertLessEqual(sum(self.total(key, [int(n[1:]) for n in found["kept"]])), 6)

    def test_no_member_is_within(self):
        for option, says in (("keep.max_latency", "latency_ms 1.1"), ("keep.max_flops", "flops 1"),
                             ("keep.max_params", "params 1")):  # fmt: skip
            name = "m4" if option == "keep.max_flops" else "m0"
            for preset in ("default", "paper"):
                result = self.fails("fit", self.pool, "-o", self.model, "-p", preset, "-s", f"{option}=0.5",
                                    says=[f"no member is within {option}=0.5", f"'{name}'", says])  # fmt: skip
                self.assertIn("raise the limit", result.err)

    def test_costs_that_are_not_known(self):
        del self.manifest["models"][2]["params"]
        self.write_manifest()
        self.fails("fit", self.pool, "-o", self.model, "-s", "keep.max_params=9", says=["'m2' has no params"])

    def test_same_bytes_for_any_threads(self):
        files = []
        for threads in (1, 2, 4):
            self.fit("--threads", threads, "-s", "keep.max_latency=6", "-s", "evaluate.nested=false")
            files.append(self.read(self.model))
        self.assertTrue(files[0] == files[1] == files[2])

    def test_compare_and_sweep(self):
        rows = self.works("compare", self.pool, "-r", "0", "-m", "default", "-s", "keep.max_latency=4", "--json").json()["rows"]
        self.assertEqual(len(rows), 1)
        swept = self.works("sweep", self.pool, "--over", "keep.max_latency=2,5,17", "-m", "default",
                           "--json").json()  # fmt: skip
        nll = [row["nll"] for row in swept["rows"]]
        self.assertGreater(nll[0], nll[2])

    def test_a_notice_says_what_a_limit_costs(self):
        self.assertIn("the limits leave 1 of 5", self.fit("-s", "keep.max_latency=1.2").out)
