"""Presets paper and prototype to the letter of the paper: each reading against an independent computation in NumPy.

tests/oracles/letter.py computes the whole procedure with a fixed gate. Other pools than the example: their folders in
CORESTACK_LETTER_POOLS, separated by colons.
"""

import importlib.util
import json
import os
import shutil
import tempfile
import unittest

import numpy as np

from support import SOURCES, TOOL, PoolCase, run, slow, small

EXAMPLES = os.path.join(SOURCES, "examples")
# A penalty large enough for the lasso to leave members out.
MEAN = ("--set", "lambda.scale=mean")
FAST = ("--set", "evaluate.nested=false", "--set", "checks=off")


def oracle():
    spec = importlib.util.spec_from_file_location("letter", os.path.join(SOURCES, "tests", "oracles", "letter.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LETTER = oracle()


class Whole(unittest.TestCase):
    """Members, lambda*, evidence, weights and NLL of the whole preset."""

    def equal(self, pool, **how):
        self.assertEqual(LETTER.compare(TOOL, pool, **how)[2], [], (pool, how))

    def test_paper(self):
        self.equal(os.path.dirname(small("digits", 8, 1)))

    def test_paper_on_all_members_without_gate(self):
        self.equal(os.path.dirname(small("digits", 8, 2)), gate="none", settings=["cka.threshold=0.97", "lambda.scale=mean"])

    @slow
    def test_all_members_of_the_whole_example(self):
        self.equal(os.path.join(EXAMPLES, "digits"), gate="none", settings=["cka.threshold=0.97"])

    @slow
    def test_paper_with_exact_kernels(self):
        self.equal(os.path.join(EXAMPLES, "digits"), settings=["cka.estimator=exact"], estimator="exact")

    @slow
    def test_nested_scores(self):
        self.equal(os.path.join(EXAMPLES, "digits"), nested=True)

    @slow
    def test_prototype(self):
        self.equal(os.path.join(EXAMPLES, "digits"), preset="prototype")

    @slow
    def test_other_pools(self):
        for pool in filter(None, os.environ.get("CORESTACK_LETTER_POOLS", "").split(":")):
            for preset in ("paper", "prototype"):
                with self.subTest(pool=pool, preset=preset):
                    self.equal(pool, preset=preset)


class Every(unittest.TestCase):
    """Example pools of every task."""

    def part(self, task, names):
        """A copy of an example with these members; a name that comes twice is a member and its copy."""
        home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, home)
        shutil.copytree(os.path.join(EXAMPLES, task), home, dirs_exist_ok=True)
        with open(os.path.join(home, "pool.json"), encoding="utf-8") as file:
            pool = json.load(file)
        known, models = {m["name"]: m for m in pool["models"]}, []
        for name in names:
            twice = any(m["name"] == name for m in models)
            models.append({**known[name], "name": name + "_copy" if twice else name})
        pool["models"] = models
        path = os.path.join(home, "pool.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(pool, file)
        return path

    def fit(self, pool, *words):
        model = os.path.join(os.path.dirname(pool), "m.cstack")
        result = run("fit", pool, "-o", model, "--json", *FAST, *words)
        self.assertEqual(result.code, 0, result.err)
        return result.json()

    def names(self, task):
        with open(os.path.join(EXAMPLES, task, "pool.json"), encoding="utf-8") as file:
            return [m["name"] for m in json.load(file)["models"]]

    def copies(self, task, best, presets, *more):
        """The best member and a copy of it: both stay in the paper's presets, one goes by default."""
        pool = self.part(task, [*dict.fromkeys([best, *self.names(task)[:3]]), best])
        for preset, *words in presets:
            found = self.fit(pool, "--preset", preset, "--set", "gate.epochs=2", *words, *more)
            gone = {d["name"] for d in found["dropped"] if d["because"] == "redundant"}
            self.assertEqual(len(gone & {best, best + "_copy"}), preset == "default", (task, preset, words, found["dropped"]))

    def test_the_best_and_its_copy(self):
        self.copies("digits", "svm_rbf", [("paper",), ("prototype",), ("default",)])

    @slow
    def test_the_best_and_its_copy_in_every_task(self):
        hashed = ("--set", "cka.lsh=on")
        presets = [("paper",), ("paper", *hashed), ("paper", "--set", "cka.estimator=exact"), ("prototype",), ("default",)]
        self.copies("regression", "gaussian_process", presets)
        self.copies("digits", "svm_rbf", presets)
        for task, more in (("segmentation", ("--set", "segment.pixels=500")), ("detection", ())):
            best = self.best(task, *more)
            self.copies(task, best, presets, *more)

    def best(self, task, *more):
        """The member of least out-of-fold risk on the rows of the fit."""
        alone = ("--preset", "paper", "--set", "gate.epochs=2", "--set", "cka.threshold=0.0001")
        found = self.fit(self.part(task, self.names(task)), *alone, *more)
        kept = [m for m in found["members"] if m["name"] not in {d["name"] for d in found["dropped"] if d["because"] == "redundant"}]
        self.assertEqual(len(kept), 1, "a threshold of nearly 0 keeps the best alone")
        return kept[0]["name"]

    def test_lambda_star_of_both_spectra(self):
        """1 - rho of two members, the smaller eigenvalue of their Gram matrix."""
        for task in ("digits", "concrete", "segmentation", "detection"):
            pool = self.part(task, self.names(task)[:2])
            self.few = ("--set", "segment.pixels=500") if task == "segmentation" else ()
            found = self.works("inspect", pool, "--json")
            rho = found["pearson"][0][1]
            self.assertAlmostEqual(found["lambda_star"]["oof"], 1 - rho, places=6, msg=task)
            self.assertEqual(found["lambda"]["star"], found["lambda_star"]["meta"])
            other = self.works("inspect", pool, "--json", "--set", "spectrum.of=oof")
            self.assertEqual(other["lambda"]["star"], found["lambda_star"]["oof"])
            self.assertEqual(len(other["eigenvalues"]), 2)
            fit = self.fit(pool, "--preset", "paper", "--set", "redundancy.measure=none", "--set", "gate.epochs=2", *MEAN, *self.few)
            self.assertEqual(fit["spectrum_of"], "oof")
            self.assertAlmostEqual(fit["lambda"], 1 - rho, places=6, msg=task)

    def test_draws_of_landmarks(self):
        pool, words = self.part("digits", self.names("digits")[:3]), ("--set", "cka.estimator=nystrom", "--set", "cka.landmark_rule=uniform")
        self.few = ()
        _, predictions, _, _ = LETTER.read(pool)
        draws = [LETTER.cka_of_draw(predictions["oof"], 0, "nystrom", d) for d in range(4)]
        found = self.works("inspect", pool, "--json", *words, "--set", "cka.draws=4")
        np.testing.assert_allclose(found["cka"], np.mean(draws, axis=0), atol=1e-8)
        self.assertAlmostEqual(found["cka_info"]["standard_error"], (np.std(draws, axis=0, ddof=1) / 2).max(), places=8)
        one = self.fit(pool, "--preset", "paper", "--set", f"cka.threshold={draws[0][0][1]:.6f}")
        self.assertTrue(any("within its landmark error" in n for n in one["notices"]), one["notices"])
        far = self.fit(pool, "--preset", "paper", "--set", "cka.threshold=0.3")
        self.assertFalse(any("landmark error" in n for n in far["notices"]), far["notices"])

    def works(self, *words):
        result = run(*words, *self.few)
        self.assertEqual(result.code, 0, result.err)
        return result.json()


class Blend(PoolCase):
    def make(self, skills):
        """Members of these skills; returns their predictions."""
        rng = np.random.default_rng(5)
        y = rng.integers(0, 3, 400)
        self.save("y.npy", y.astype(np.int32))
        predictions = []
        for k, skill in enumerate(skills):
            z = rng.normal(size=(400, 3)) + skill * np.eye(3)[y]
            p = (np.exp(z) / np.exp(z).sum(1, keepdims=True)).astype(np.float32)
            self.save(f"m{k}.npy", p)
            predictions.append(p)
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "classes": 3, "splits": {"oof": {"labels": "y.npy"}},
                       "models": [{"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}} for k in range(len(skills))]}, file)
        return np.stack(predictions), y

    def fitted(self, *words):
        return self.works("fit", self.pool, "-o", self.model, "--json", *FAST, "--set", "redundancy.measure=none", *words).json()

    def test_evidence_of_one_loss(self):
        self.make([3, 2, 1, 0.5])
        same = self.fitted("--preset", "paper", "--set", "gate.mode=none")
        nll = self.fitted("--preset", "paper", "--set", "gate.mode=none", "--set", "blend.evidence=nll")
        for one, other in zip(same["learners"], nll["learners"]):
            self.assertEqual(one["nll"], other["nll"])
            self.assertEqual(other["loss"], other["nll"])
            self.assertNotEqual(one["loss"], one["nll"])
            # n = 1200 pairs: L = n/2 (log(2 pi s^2) + 1), and s^2 divides each eigenvalue of the Hessian, 2 the other's.
            noise = np.exp(2 * one["loss"] / 1200 - 1) / (2 * np.pi)
            active = (other["half_logdet"] - one["half_logdet"]) * 2 / np.log(2 * noise)
            self.assertAlmostEqual(active, round(active), places=5)
        evidence = np.array([-one["loss"] - one["half_logdet"] for one in same["learners"]])
        weights = np.exp(evidence - evidence.max())
        np.testing.assert_allclose([one["weight"] for one in same["learners"]], weights / weights.sum(), atol=1e-9)
        warm = self.fitted("--preset", "paper", "--set", "gate.mode=none", "--set", "blend.temperature=100")
        weights = np.exp((evidence - evidence.max()) / 100)
        np.testing.assert_allclose([one["weight"] for one in warm["learners"]], weights / weights.sum(), atol=1e-6)

    def test_a_likelihood_of_classes_is_not_compared_with_squares(self):
        self.make([3, 2, 1])
        words = ("--preset", "paper", "--set", "gate.mode=none", "--set", "meta.learners=ridge,log-linear")
        found = self.fitted(*words)
        self.assertTrue([n for n in found["notices"] if "same-loss" in n and "log-linear" in n], found["notices"])
        for one in found["learners"]:
            self.assertEqual(one["loss"], one["nll"])

    def test_members_that_no_learner_reads_leave(self):
        predictions, _ = self.make([4, 3, 0, 0])
        found = self.fitted("--preset", "paper", "--set", "gate.mode=none", "--set", "meta.learners=lasso", *MEAN)
        gone = [d["name"] for d in found["dropped"] if d["because"] == "blend"]
        self.assertEqual(gone, ["m2", "m3"])
        self.assertTrue(all("no meta-learner" in d["text"] for d in found["dropped"]))
        self.assertEqual(found["kept"], ["m0", "m1"])
        y = (np.load(self.path("y.npy"))[:, None] == np.arange(3)).ravel().astype(float)
        s = LETTER.Standardised(np.stack([p.ravel() for p in predictions], 1), y)
        raw, intercept = s.linear(LETTER.penalised(s, found["lambda"], 1.0))
        self.assertEqual(list(np.flatnonzero(raw)), [0, 1])
        expected = LETTER.probabilities(np.stack([p.ravel() for p in predictions], 1) @ raw + intercept, 3)
        self.works("predict", self.model, self.pool, "--split", "oof", "-o", self.path("out.npy"))
        np.testing.assert_allclose(np.load(self.path("out.npy")), expected, atol=1e-6)

    def test_a_gate_that_is_not_read_leaves_first(self):
        words = ("--preset", "paper", "--set", "meta.learners=lasso", "--set", "gate.mode=prototype", *MEAN)
        for skills, left in (((6, 6, 0), 2), ((9, 4, 0), 1), ((2, 1, 1), 3)):
            predictions, y = self.make(skills)
            found = self.fitted(*words)
            x = LETTER.design(list(predictions.astype(float)), "prototype")
            s = LETTER.Standardised(x, (y[:, None] == np.arange(3)).ravel().astype(float))
            raw, intercept = s.linear(LETTER.penalised(s, found["lambda"], 1.0))
            gated = bool((raw[3:] != 0).any())
            kept = [f"m{k}" for k in range(3) if gated or raw[k] != 0]
            self.assertEqual((found["kept"], len(kept)), (kept, left))
            shown = self.works("show", self.model, "--json").json()
            self.assertEqual(shown["gate"] != "none", gated)
            self.works("predict", self.model, self.pool, "--split", "oof", "-o", self.path("out.npy"))
            np.testing.assert_allclose(np.load(self.path("out.npy")), LETTER.probabilities(x @ raw + intercept, 3), atol=1e-6)

    def test_learners_with_no_weight_are_not_read(self):
        self.make([4, 3, 0, 0])
        both = self.fitted("--preset", "paper", "--set", "gate.mode=none", "--set", "meta.learners=ridge,lasso", *MEAN)
        if both["blend"]["ridge"] >= 1e-6:
            self.assertEqual(both["models_kept"], 4)  # a ridge reads every member
        else:
            self.assertEqual(both["models_kept"], 2)

    def test_a_regression(self):
        """The same in a regression, whose variance reads members too."""
        rng = np.random.default_rng(1)
        y = rng.normal(size=300)
        x = [y + s * rng.normal(size=300) for s in (0.2, 0.4)] + [rng.normal(size=300) for _ in range(2)]
        x = [column.astype(np.float32) for column in x]
        self.save("y.npy", y)
        for k, p in enumerate(x):
            self.save(f"m{k}.npy", p)
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "regression", "outputs": ["level"], "splits": {"oof": {"targets": "y.npy"}},
                       "models": [{"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}} for k in range(4)]}, file)
        words = ("--preset", "paper", "--set", "gate.mode=none", "--set", "meta.learners=lasso", *MEAN, "--set", "variance.rule=constant")
        found = self.fitted(*words)
        self.assertEqual([d["name"] for d in found["dropped"] if d["because"] == "blend"], ["m2", "m3"])
        self.works("predict", self.model, self.pool, "--split", "oof", "-o", self.path("out.npy"))
        weights, output = found["weights"], found["outputs"][0]
        self.assertEqual(sorted(weights), ["m0", "m1"])
        expected = output["intercept"] + weights["m0"] * x[0] + weights["m1"] * x[1]
        np.testing.assert_allclose(np.load(self.path("out.npy")).ravel(), expected, atol=1e-5)
        standard = LETTER.Standardised(np.stack(x, 1).astype(float), (y - y.mean()) / y.std())
        self.assertAlmostEqual(found["lambda"], LETTER.lambda_star(standard.gram, 300) , places=6)
        every = self.fitted(*words[:-1], "variance.rule=disagreement")
        grows = every["outputs"][0]["disagreement"] > 0
        self.assertEqual(every["models_kept"], 4 if grows else 2)


class Presets(unittest.TestCase):
    def test_options(self):
        rows = {row["key"]: row for row in json.loads(run("options", "--json").out)["options"]}
        for key, paper, prototype, default in (
            ("spectrum.of", "oof", "oof", "meta"), ("lambda.scale", "sum", "mean", "mean"), ("blend.evidence", "same-loss", "same-loss", "nll"),
            ("redundancy.ties", "keep", "keep", "drop"), ("cka.estimator", "nystrom", "auto", "auto"),
            ("cka.landmark_rule", "uniform", "residual", "residual"), ("refit.drop", "false", "false", "false"),
        ):  # fmt: skip
            found = {preset: rows[key][preset] for preset in ("paper", "prototype", "default")}
            self.assertEqual(found, {"paper": paper, "prototype": prototype, "default": default}, key)
        self.assertIn("0.95 is ours", rows["pearson.threshold"]["help"])


if __name__ == "__main__":
    unittest.main()
