"""corestack bound --batch-split: sets for new rows, plain and weighted, by NumPy, and what is refused."""

import os
import unittest

import numpy as np

from support import PoolCase
from test_missing import without_sections


def threshold(scores, weights, alpha, own):
    """The smallest score with 1 - alpha of all weight, that of the row at infinity included."""
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(weights[order])
    at = np.searchsorted(sums, (1 - alpha) * (sums[-1] + own) * (1 - 1e-13))
    return scores[order][at] if at < len(order) else np.inf


def mondrian(scores, alpha):
    """The ceil((n + 1)(1 - alpha))-th smallest score of a part."""
    place = int(np.ceil((len(scores) + 1) * (1 - alpha) - 1e-9))
    return np.sort(scores)[place - 1] if place <= len(scores) else np.inf


def risk_limit(scores, costs, most, level):
    """The least score whose corrected mean cost of the rows above it is at most `level`."""
    return min((t for t in scores if (costs[scores > t].sum() + most) / (len(scores) + 1) <= level), default=np.inf)


class ShiftedPool(PoolCase):
    """A pool whose split `fresh` has other class shares, `odd` other predictions."""

    ROWS = 600

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.labels, self.members = {}, {}
        self.draw(rng, "oof", self.ROWS, (1, 1, 1), 1.5)
        self.draw(rng, "test", self.ROWS, (1, 1, 1), 1.5)
        self.draw(rng, "fresh", 400, (12, 2, 1), 1.5)
        self.draw(rng, "odd", 400, (1, 1, 1), 0.1)
        self.splits = {split: self.labels_of(split, labels) for split, labels in self.labels.items()}
        self.write_pool()
        self.fit("--set", "evaluate.nested=false")

    def draw(self, rng, split, rows, shares, sharpness):
        shares = np.array(shares) / sum(shares)
        labels = rng.choice(3, rows, p=shares).astype(np.int32)
        z = sharpness * np.eye(3)[labels] + rng.normal(size=(rows, 3)) * 0.7
        self.labels[split] = labels
        for name in ("ada", "bob", "cyd"):
            e = np.exp(1.4 * z + rng.normal(size=(rows, 3)) * (0.4 if split != "odd" else 3))
            self.members[name, split] = (e / e.sum(1, keepdims=True)).astype(np.float32)

    def labels_of(self, split, labels):
        return {"labels": os.path.basename(self.save(f"y.{split}.npy", labels))}

    def write_pool(self):
        for model in self.manifest["models"]:
            for split in self.splits:
                self.save(f"{model['name']}.{split}.npy", self.members[model["name"], split])
            model["predictions"] = {split: f"{model['name']}.{split}.npy" for split in self.splits}
        self.manifest["splits"] = self.splits
        self.write_manifest()


class UnderShift(ShiftedPool):
    def bound(self, *arguments):
        return self.works("bound", self.model, self.pool, "--json", *arguments).json()

    def stack(self, split):
        out = self.path(f"stack.{split}.npy")
        self.works("predict", self.model, self.pool, "--split", split, "-o", out)
        return np.load(out).astype(float)

    def test_plain_sets_by_numpy(self):
        out = self.path("sets.npy")
        found = self.bound("--batch-split", "fresh", "--alpha", "0.2", "--sets", out)
        self.assertEqual(found["sets"], out)
        batch = found["under_shift"]["batches"][0]
        p, y, new = self.stack("test"), self.labels["test"], self.stack("fresh")
        scores = 1 - p[np.arange(len(y)), y]
        sets = 1 - new <= threshold(scores, np.ones(len(y)), 0.2, 1)
        np.testing.assert_array_equal(np.load(out), sets)
        self.assertAlmostEqual(batch["coverage"], sets[np.arange(400), self.labels["fresh"]].mean(), places=12)
        self.assertEqual((batch["coverage"], batch["mean_size"]), (batch["plain_coverage"], batch["plain_mean_size"]))
        self.assertEqual((batch["weighted"], batch["samples"], found["under_shift"]["weights"]), (False, 400, "none"))

    def test_sets_by_class_by_numpy(self):
        out = self.path("sets.npy")
        batch = self.bound("--batch-split", "fresh", "--by", "class", "--sets", out)["under_shift"]["batches"][0]
        p, y, new, fresh = self.stack("test"), self.labels["test"], self.stack("fresh"), self.labels["fresh"]
        scores = 1 - p[np.arange(len(y)), y]
        limits = np.array([mondrian(scores[y == c], 0.1) for c in range(3)])
        sets = 1 - new <= limits
        np.testing.assert_array_equal(np.load(out), sets)
        hit = sets[np.arange(400), fresh]
        plain = (1 - new <= mondrian(scores, 0.1))[np.arange(400), fresh]
        for c, part in enumerate(batch["parts"]):
            self.assertEqual((part["part"], part["calibration_samples"], part["samples"]), (c, (y == c).sum(), (fresh == c).sum()))
            self.assertAlmostEqual(part["threshold"], limits[c], places=9)
            self.assertAlmostEqual(part["coverage"], hit[fresh == c].mean(), places=9)
            self.assertAlmostEqual(part["plain_coverage"], plain[fresh == c].mean(), places=9)
            self.assertAlmostEqual(part["mean_size"], sets[fresh == c].sum(1).mean(), places=9)
        self.assertEqual(batch["worst_coverage"], min(part["coverage"] for part in batch["parts"]))
        self.assertEqual(batch["plain_worst_coverage"], min(part["plain_coverage"] for part in batch["parts"]))
        text = self.works("bound", self.model, self.pool, "--batch-split", "fresh", "--by", "class").out
        self.assertRegex(text, r"By class\n")

    def test_sets_by_domain_by_numpy(self):
        """Domains with too few rows, without calibration and rows without a domain get every class."""
        domains = {"test": np.array(["a", "b"])[np.arange(600) % 2].astype("U4"), "fresh": np.array(["b", "a", "few", "new"])[np.arange(400) % 4]}
        domains["test"][:8] = "few"
        for split, names in domains.items():
            with open(self.path(f"{split}.csv"), "w", encoding="utf-8") as file:
                file.write("domain\n" + "\n".join(names) + "\n")
            self.splits[split]["domains"] = f"{split}.csv"
        self.write_pool()
        out = self.path("sets.npy")
        result = self.works("bound", self.model, self.pool, "--json", "--batch-split", "fresh", "--by", "domain", "--sets", out)
        self.assertIn("1 of 3 domains have too few rows of calibration for sets of their own (alpha 0.1 needs 9)", "\n".join(result.json()["notices"]))
        p, y, new = self.stack("test"), self.labels["test"], self.stack("fresh")
        scores = 1 - p[np.arange(len(y)), y]
        limits = {name: mondrian(scores[domains["test"] == name], 0.1) for name in "ab"}
        sets = np.array([1 - row <= limits.get(name, np.inf) for row, name in zip(new, domains["fresh"])])
        np.testing.assert_array_equal(np.load(out), sets)
        parts = result.json()["under_shift"]["batches"][0]["parts"]
        self.assertEqual([(part["name"], part["calibration_samples"], part["samples"]) for part in parts],
                         [("a", 296, 100), ("b", 296, 100), ("few", 8, 100)])

    def test_costs_of_a_miss_by_numpy(self):
        costs = self.save("costs.npy", np.array([1.0, 0, 5]))
        out = self.path("sets.npy")
        batch = self.bound("--batch-split", "fresh", "--miss-cost", costs, "--risk", "0.3", "--sets", out)["under_shift"]["batches"][0]
        p, y, new, fresh = self.stack("test"), self.labels["test"], self.stack("fresh"), self.labels["fresh"]
        cost, scores = np.array([1.0, 0, 5]), 1 - p[np.arange(len(y)), y]
        limit = risk_limit(scores, cost[y], 5, 0.3)
        sets = 1 - new <= limit
        np.testing.assert_array_equal(np.load(out), sets)
        self.assertAlmostEqual(batch["cost"], (cost[fresh] * ~sets[np.arange(400), fresh]).mean(), places=9)

    def test_parts_refused(self):
        costs, few = self.save("costs.npy", np.ones(3)), self.save("few.npy", np.ones(2))
        row = self.path("row.csv")
        with open(row, "w", encoding="utf-8") as file:
            file.write("1 1 1\n")
        new = ("--batch-split", "fresh")
        for words, says in (
            (("--by", "class"), "--by requires --batch-split"),
            ((*new, "--by", "class", "--shift", "label"), "leave out --shift"),
            ((*new, "--by", "domain"), "split 'test' has no domains"),
            ((*new, "--miss-cost", costs), "go together"),
            ((*new, "--miss-cost", costs, "--risk", "0"), "expected cost above 0"),
            ((*new, "--miss-cost", row, "--risk", "1"), "no numbers below its first line"),
            ((*new, "--miss-cost", few, "--risk", "1"), "2 costs of a miss and 3 classes"),
            ((*new, "--miss-cost", costs, "--risk", "1", "--by", "class"), "leave out --by class"),
            ((*new, "--miss-cost", self.save("bad.npy", -np.ones(3)), "--risk", "1"), "of class 0 is -1"),
        ):
            with self.subTest(says):
                self.fails("bound", self.model, self.pool, *words, says=[says])

    def test_label_weights_by_numpy(self):
        out = self.path("sets.npy")
        batch = self.bound("--batch-split", "fresh", "--shift", "label", "--sets", out)["under_shift"]["batches"][0]
        self.assertTrue(batch["weighted"], batch["reason"])
        shares = batch["shares"]
        ratio = np.array([share["share"] / share["fit"] for share in shares])
        p, y, new = self.stack("test"), self.labels["test"], self.stack("fresh")
        scores = 1 - p[np.arange(len(y)), y]
        limits = [threshold(scores, ratio[y], 0.1, own) for own in ratio]
        np.testing.assert_array_equal(np.load(out), 1 - new <= limits)
        truth = np.bincount(self.labels["fresh"], minlength=3) / 400
        for share, true in zip(shares, truth):
            self.assertTrue(share["low"] - 0.03 <= true <= share["high"] + 0.03, (share, true))
        self.assertAlmostEqual(sum(share["share"] for share in shares), 1)

    def test_label_weights_are_not_used_where_more_has_changed(self):
        batch = self.bound("--batch-split", "odd", "--shift", "label")["under_shift"]["batches"][0]
        self.assertFalse(batch["weighted"])
        self.assertIn("more than the", batch["reason"])
        self.assertEqual(batch["coverage"], batch["plain_coverage"])

    def test_covariate_weights(self):
        batch = self.bound("--batch-split", "odd", "--shift", "covariate")["under_shift"]["batches"][0]
        self.assertTrue(batch["weighted"])
        self.assertGreater(batch["unlike"], 0.1)
        self.assertLess(batch["effective_samples"], self.ROWS)
        quiet = self.bound("--batch-split", "oof", "--shift", "covariate")["under_shift"]["batches"][0]
        self.assertEqual((quiet["weighted"], quiet["unlike"], quiet["reason"]), (False, 0, "rows look like the fit rows"))

    def test_labels_are_not_needed(self):
        labelled = self.bound("--batch-split", "fresh", "--shift", "label")["under_shift"]["batches"][0]
        self.splits["fresh"] = {}
        self.write_pool()
        batch = self.bound("--batch-split", "fresh", "--shift", "label")["under_shift"]["batches"][0]
        self.assertIsNone(batch["coverage"])
        self.assertEqual(batch["mean_size"], labelled["mean_size"])

    def test_conditions_are_batches(self):
        for name in ("ada", "bob", "cyd"):
            self.members[name, "both"] = np.stack([self.members[name, "fresh"], self.members[name, "odd"]])
        self.splits["both"] = {**self.labels_of("both", self.labels["fresh"]),
                               "conditions": [{"shift": "a", "kind": "b", "severity": 1}, {"shift": "a", "kind": "c", "severity": 2}]}
        self.write_pool()
        out = self.path("both.npy")
        batches = self.bound("--batch-split", "both", "--shift", "label", "--sets", out)["under_shift"]["batches"]
        alone = self.bound("--batch-split", "fresh", "--shift", "label")["under_shift"]["batches"][0]
        self.assertEqual([(b["kind"], b["severity"]) for b in batches], [("b", 1), ("c", 2)])
        self.assertEqual({key: batches[0][key] for key in alone}, alone)
        self.assertEqual(np.load(out).shape, (2, 400, 3))
        text = self.works("bound", self.model, self.pool, "--batch-split", "both", "--shift", "label").out
        self.assertIn("used in 1 of 2 conditions", text)

    def test_one_row_and_few_rows(self):
        for rows in (1, 30):
            for name in ("ada", "bob", "cyd"):
                self.members[name, "few"] = self.members[name, "fresh"][:rows]
            self.splits["few"] = self.labels_of("few", self.labels["fresh"][:rows])
            self.write_pool()
            for kind in ("none", "label", "covariate"):
                batch = self.bound("--batch-split", "few", "--shift", kind)["under_shift"]["batches"][0]
                self.assertEqual((batch["samples"], batch["weighted"]), (rows, False))

    def test_refused(self):
        for arguments, said in (
            (("--shift", "label"), "option --shift requires --batch-split"),
            (("--sets", "a.npy"), "option --sets requires --batch-split"),
            (("--shift", "odd", "--batch-split", "fresh"), "'odd' is not none, covariate or label"),
            (("--batch-split", "fresh", "--sets", "a.csv"), "sets are written as .npy"),
            (("--batch-split", "none"), "'none'"),
            (("--batch-split", "test"), "on which the sets are calibrated"),
            (("--batch-split", "fresh", "--sets", self.path("ada.test.npy")), "an input of the command"),
        ):
            self.fails("bound", self.model, self.pool, *arguments, says=[said])
        self.assertFalse(os.path.exists("a.npy"))

    def test_models_of_older_versions(self):
        older = without_sections(self.model, self.path("older.cstack"), "CONF", "NOVE")
        for kind in ("label", "covariate"):
            self.fails("bound", older, self.pool, "--batch-split", "fresh", "--shift", kind, says=["fit it again"])
        self.works("bound", older, self.pool, "--batch-split", "fresh")


if __name__ == "__main__":
    unittest.main()
