"""corestack bound: the document's keys, figures by other means, what is refused, and that it is quick."""

import json
import math
import os
import time
import unittest

import numpy as np

from support import DIGITS, PoolCase, run
from test_letter import LETTER

KEYS = """command split samples classes models delta seed holdout pac_bayes_kl tandem conformal conformal_methods ece calibration
clusters cluster_threshold largest_cluster epsilon mu incoherent epsilon_pearson mu_pearson kappa_gram_before kappa_gram_after kappa_cka_before kappa_cka_after spectral
discs regularised blending stability pac_bayes notices""".split()


def at_most(k, n, p):
    """P(X <= k) of a binomial."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


class Bound(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit("--set", "evaluate.nested=false")

    def bound(self, *arguments):
        return self.works("bound", self.model, self.pool, "--json", *arguments).json()

    def test_keys(self):
        document = self.bound("--delta", "0.1", "--alpha", "0.2", "--seed", "3")
        self.assertEqual(list(document), KEYS)
        self.assertEqual((document["delta"], document["seed"]), (0.1, 3))
        self.assertEqual(document["conformal"]["alpha"], 0.2)
        for key, parts in {"holdout": "errors samples bound", "pac_bayes_kl": "bound empirical", "tandem": "bound",
                           "pac_bayes": "kl phi total vacuous", "conformal": "method alpha coverage mean_size",
                           "ece": "value lower upper"}.items():
            for part in parts.split():
                self.assertIn(part, document[key])
        self.assertIsInstance(document["incoherent"], bool)
        self.assertEqual(sorted(name for cluster in document["clusters"] for name in cluster), ["ada", "bob", "cyd"])

    def test_sets_of_a_level_that_the_rows_do_not_have(self):
        document = self.bound("--alpha", "0.03")
        self.assertTrue(any("at least 33 rows for their calibration, and there are 30" in n for n in document["notices"]))
        self.assertEqual((document["conformal"]["mean_size"], document["conformal"]["coverage"]), (3, 1))
        self.assertFalse([n for n in self.bound("--alpha", "0.033")["notices"] if "calibration" in n])

    def test_figures(self):
        document = self.bound()
        output = self.path("stack.npy")
        self.works("predict", self.model, self.pool, "--split", "test", "-o", output)
        stack, labels = np.load(output), self.labels["test"]
        holdout = document["holdout"]
        self.assertEqual(holdout["errors"], int((stack.argmax(axis=1) != labels).sum()))
        self.assertEqual(holdout["samples"], len(labels))
        self.assertAlmostEqual(at_most(holdout["errors"], len(labels), holdout["bound"]), 0.05, places=8)
        ece = document["ece"]
        scored = self.works("evaluate", self.model, self.pool, "--json").json()
        self.assertAlmostEqual(ece["value"], scored["ece"], places=9)
        self.assertTrue(ece["lower"] <= ece["value"] <= ece["upper"])
        columns = np.array([self.members[name, "test"].ravel() for name in ("ada", "bob", "cyd")], dtype=float)
        values = np.linalg.eigvalsh(np.corrcoef(columns))
        self.assertAlmostEqual(document["kappa_gram_before"], values[-1] / values[0], delta=1e-4 * document["kappa_gram_before"])
        wrong = np.array([self.members[name, "test"].argmax(axis=1) != labels for name in document["models"]], dtype=float)
        vote = np.array(document["tandem"]["weights"]) @ wrong
        self.assertAlmostEqual(document["tandem"]["empirical"], (vote**2).mean(), places=8)
        sizes = document["conformal"]
        self.assertLessEqual(sizes["coverage"] * sizes["samples"], sizes["mean_size"] * sizes["samples"] + 1e-9)

    def test_clusters_are_those_of_the_stack(self):
        self.assertEqual(self.bound()["cluster_threshold"], 0.995)
        self.fit("--set", "evaluate.nested=false", "--set", "cka.threshold=0.001")
        document = self.bound()
        self.assertEqual((document["cluster_threshold"], len(document["clusters"]), document["mu"]), (0.001, 1, 0))
        self.assertEqual((document["largest_cluster"], document["kappa_gram_after"]), (3, 1))
        self.assertEqual(document["spectral"]["trace_difference"], 2)

    def test_spectrum_by_numpy(self):
        document = self.bound()
        columns = np.array([self.members[name, "test"].ravel() for name in ("ada", "bob", "cyd")], dtype=float)
        gram = np.corrcoef(columns)
        for disc, row in zip(document["discs"], gram):
            self.assertEqual(disc["centre"], 1)
            self.assertAlmostEqual(disc["radius"], np.abs(row).sum() - 1, places=6)
        self.assertEqual([disc["member"] for disc in document["discs"]], ["ada", "bob", "cyd"])
        values = np.linalg.eigvalsh(gram)
        for row in document["regularised"]:
            penalty = row["lambda"]
            self.assertAlmostEqual(row["kappa_before"], (values[-1] + penalty) / (values[0] + penalty), places=4)
            self.assertAlmostEqual(row["dimension_before"], (values / (values + penalty)).sum(), places=6)
            self.assertGreaterEqual(row["kappa_before"], row["kappa_after"] * (1 - 1e-9))
        self.assertEqual(document["spectral"]["trace_difference"], 3 - len(document["clusters"]))

    def test_blending_by_numpy(self):
        document = self.bound()
        blending, labels = document["blending"], self.labels["test"]
        p = np.array([self.members[name, "test"] for name in document["models"]], dtype=float)
        p /= p.sum(axis=-1, keepdims=True)
        residuals = (np.eye(p.shape[-1])[labels] - p).reshape(len(p), -1)
        covariance = residuals @ residuals.T / residuals.shape[1]
        inverse = np.linalg.inv(covariance)
        best = inverse.sum(axis=1) / inverse.sum()
        self.assertAlmostEqual(blending["minimum"], 1 / inverse.sum(), places=6)
        np.testing.assert_allclose(blending["weights"], best, rtol=1e-4, atol=1e-6)
        self.assertEqual(blending["mixture"], bool((best >= 0).all()))
        self.assertAlmostEqual(blending["best"], covariance.diagonal().min(), places=7)
        losses = -np.log(np.maximum(p[:, np.arange(len(labels)), labels], 1e-12)).sum(axis=1)
        lead = np.diff(np.sort(losses))[0] if len(losses) > 1 else math.inf
        laplace = np.exp(losses.min() - losses)
        largest = np.linalg.norm(covariance, 2)
        for rule, weights in (("inverse_rmse", covariance.diagonal() ** -0.5), ("laplace", laplace)):
            weights = weights / weights.sum()
            np.testing.assert_allclose(blending[rule]["weights"], weights, rtol=1e-3, atol=1e-9)
            gap = weights @ covariance @ weights - 1 / inverse.sum()
            self.assertAlmostEqual(blending[rule]["gap"], gap, places=7)
            claimed = largest * (np.sum((weights - best) ** 2) if rule == "inverse_rmse" else np.exp(-2 * lead))
            self.assertAlmostEqual(blending[rule]["claimed"], claimed, places=6)
            self.assertEqual(blending[rule]["holds"], bool(gap <= claimed + 1e-12))

    def test_stability_by_numpy(self):
        document = self.bound()
        stability, labels = document["stability"], self.labels["test"]
        p = np.array([self.members[name, "test"] for name in document["models"]], dtype=float)
        p /= p.sum(axis=-1, keepdims=True)
        classes = p.shape[-1]
        x, y = p.reshape(len(p), -1).T, np.eye(classes)[labels].ravel()
        self.assertEqual(stability["samples"], len(labels))
        penalty = 0.01 * (x**2).sum() / x.shape[1]
        self.assertAlmostEqual(stability["lambda"], penalty, places=5)
        folds, weights = np.repeat(np.arange(len(labels)) % 5, classes), []
        for left in (folds != f for f in range(5)):
            gram = x[left].T @ x[left] + penalty * left.mean() * np.eye(x.shape[1])
            weights.append(np.linalg.solve(gram, x[left].T @ y[left]))
        most = max(np.linalg.norm(a - b) for a in weights for b in weights)
        self.assertAlmostEqual(stability["folds"]["change"], most, places=6)
        self.assertTrue(stability["folds"]["holds"])
        for row in stability["perturbations"]:
            self.assertTrue(row["precondition"] and row["holds"])
            self.assertLess(0, row["change"])
            self.assertLessEqual(row["change"], row["bound"])
            self.assertLessEqual(row["bound"], row["claimed"])

    def test_pac_bayes_by_numpy(self):
        labels, samples = self.labels["oof"], len(self.labels["oof"])
        self.save("y.npy", labels)
        self.works("folds", "--labels", self.path("y.npy"), "-o", self.path("folds.npy"))
        folds = np.load(self.path("folds.npy"))
        for scale, unit in (("sum", samples * 3), ("mean", 1)):
            settings = ("gate.mode=prototype", "redundancy.measure=none", f"lambda.scale={scale}", "blend.temperature=1e9", "evaluate.nested=false")
            fit = self.works("fit", self.pool, "-o", self.model, "--json", "--preset", "paper", *(w for s in settings for w in ("--set", s))).json()
            document = self.bound("--delta", "0.1")
            bound = document["pac_bayes"]
            p = np.array([self.members[name, "oof"] for name in fit["kept"]], dtype=float)
            p /= p.sum(axis=-1, keepdims=True)
            x, y = LETTER.design(list(p), "prototype"), np.eye(p.shape[-1])[labels].ravel()
            row_folds, held = np.repeat(folds, p.shape[-1]), np.zeros(len(y))
            for f in np.unique(folds):
                seen = row_folds != f
                part, _ = LETTER.fit_learners(x[seen], y[seen], (folds != f).sum(), len(p), scale=scale)
                held[~seen] = y[~seen] - x[~seen] @ part["ridge"][0] - part["ridge"][1]
            noise = (held**2).mean()
            s = LETTER.Standardised(x, y)
            star = LETTER.lambda_star(s.gram[: len(p), : len(p)], samples)
            gram = s.gram + star / unit * np.eye(len(s.gram))
            w, spread, columns = np.linalg.solve(gram, s.cross), np.linalg.inv(s.rows / noise * gram), len(s.gram)
            kl = 0.5 * (star * (w @ w + np.trace(spread)) - columns - columns * np.log(star) - np.linalg.slogdet(spread)[1])
            term = math.sqrt((kl + math.log(2 * math.sqrt(samples) / 0.1)) / (2 * (samples - 1)))
            phi = 4 * np.linalg.norm(w) * math.sqrt(x.shape[1] / samples * (1 + (len(p) - 1) * bound["mu"]))
            error = ((y - x @ s.linear(w)[0] - s.linear(w)[1]) ** 2).mean()
            expected = {"empirical": error + np.trace(spread @ s.gram), "radius": np.linalg.norm(w), "kl": kl, "term": term, "phi": phi,
                        "lambda_star": star, "lambda": star / unit, "variance": noise, "trivial": y.var(),
                        "half_logdet": {one["name"]: one["half_logdet"] for one in fit["learners"]}["ridge"]}  # fmt: skip
            for key, value in expected.items():
                self.assertAlmostEqual(bound[key], value, delta=1e-6 * abs(value), msg=(scale, key))
            self.assertAlmostEqual(bound["total"], bound["empirical"] + bound["term"] + bound["phi"], places=8)
            self.assertEqual((bound["samples"], bound["members"], bound["dimensions"]), (samples, len(p), x.shape[1]))
            self.assertEqual(bound["vacuous"], bound["total"] >= bound["trivial"])
            cka = LETTER.cka(list(p.astype(np.float32).astype(float)), 0, "nystrom")
            self.assertAlmostEqual(bound["mu"], max(cka[a][b] for a in range(len(p)) for b in range(a)), places=6)
            other = self.bound("--validation", "test")["pac_bayes"]
            q = np.array([self.members[name, "test"] for name in fit["kept"]], dtype=float)
            q = (q / q.sum(axis=-1, keepdims=True)).reshape(len(q), -1)
            star = LETTER.lambda_star(np.corrcoef(q), len(self.labels["test"]))
            self.assertEqual(other["lambda_split"], "test")
            self.assertAlmostEqual(other["lambda_star"], star, delta=1e-6 * star)
        self.fails("bound", self.model, self.pool, "--validation", "oof", says=["split 'oof' are counted"])
        self.fails("bound", self.model, self.pool, "--validation", "none", says=["'none'"])

    def test_smaller_delta_gives_larger_bounds(self):
        loose, tight = self.bound("--delta", "0.2"), self.bound("--delta", "0.001")
        for key in ("holdout", "pac_bayes_kl", "tandem"):
            self.assertLess(loose[key]["bound"], tight[key]["bound"])
        self.assertLess(loose["pac_bayes"]["total"], tight["pac_bayes"]["total"])

    def test_threads_change_nothing(self):
        outputs = [self.works("bound", self.model, self.pool, "--json", "--threads", n).out for n in ("1", "3")]
        self.assertEqual(*outputs)

    def test_text(self):
        text = self.works("bound", self.model, self.pool).out
        for word in ("split 'test'", "at most", "weighted vote", "raps", "ECE", "clusters", "epsilon, mu"):
            self.assertIn(word, text)

    def test_leaks_are_seen(self):
        names = ("ada", "bob", "cyd")
        clean = self.bound("--leakage")["leakage"]
        self.assertEqual([clean[key] for key in ("rows_leak", "members_leak", "fit_leaks", "shared_rows")], [False, False, False, 0])
        permuted = clean["permuted"]
        self.assertEqual(permuted["samples"], len(self.labels["oof"]))
        self.assertAlmostEqual(permuted["chance"], np.bincount(self.labels["oof"]).max() / len(self.labels["oof"]), places=9)
        for entry in clean["members"]:
            for split, key in (("oof", "oof_error"), ("test", "error")):
                wrong = self.members[entry["member"], split].argmax(axis=1) != self.labels[split]
                self.assertAlmostEqual(entry[key], wrong.mean(), places=9)
        self.assertEqual(clean["shared_p"], 1)
        # The first rows of the split are rows of the fit: chance is 4/9 for each. Two are no sign yet.
        for rows in (2, 14):
            for name in names:
                test = self.members[name, "test"].copy()
                test[:rows] = self.members[name, "oof"][:rows]
                self.save(f"{name}.test.npy", test)
            labels = self.labels["test"].copy()
            labels[:rows] = self.labels["oof"][:rows]
            self.save("test_labels.npy", labels)
            planted = self.bound("--leakage")
            self.assertEqual(planted["leakage"]["shared_rows"], rows)
            self.assertEqual(planted["leakage"]["rows_leak"], rows > 2)
        self.assertEqual(planted["leakage"]["shared_p"], 1 / 2000)
        self.assertTrue(any("signs of a leak" in notice for notice in planted["notices"]))
        self.assertIn("signs of a leak", self.works("bound", self.model, self.pool, "--leakage").out)
        # Predictions for rows that a member was trained on.
        self.save("ada.oof.npy", np.where(np.eye(3)[self.labels["oof"]] > 0, 0.9, 0.05).astype(np.float32))
        planted = self.bound("--leakage")["leakage"]
        self.assertTrue(planted["members_leak"])
        self.assertLess(planted["members"][0]["p"], 1e-3)

    def test_what_is_refused(self):
        for arguments, words in ((["--split", "oof"], "was fitted on the rows of split 'oof'"), (["--split", "other"], "no split 'other'"),
                                 (["--delta", "1"], "--delta: '1' is not a number between 0 and 1"),
                                 (["--alpha", "x"], "--alpha: 'x' is not a number between 0 and 1")):
            result = run("bound", self.model, self.pool, *arguments)
            self.assertEqual(result.code, 2)
            self.assertEqual(result.err.count("\n"), 1)
            self.assertIn(words, result.err)
        self.assertEqual(run("bound").code, 2)

    def test_digits_in_five_seconds(self):
        model = self.path("digits.cst")
        self.works("fit", DIGITS, "-o", model, "--method", "greedy", "--set", "evaluate.nested=false")
        start = time.monotonic()
        document = self.works("bound", model, DIGITS, "--split", "test", "--delta", "0.05", "--json").json()
        if "CST_SHORT_TESTS" not in os.environ:
            self.assertLess(time.monotonic() - start, 5)
        self.assertFalse(document["pac_bayes_kl"]["vacuous"])
        self.assertGreater(document["conformal"]["coverage"], 0.8)
        self.assertEqual(json.loads(json.dumps(document)), document)


if __name__ == "__main__":
    unittest.main()
