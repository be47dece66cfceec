"""Row weights: the manifest's key, --weights, what they change, what a weight of 0 leaves out, and what is refused."""

import json
import shutil
import unittest

import numpy as np

from support import PoolCase


def plain(document):
    """A document without what differs from run to run."""
    if isinstance(document, dict):
        kept = {k: plain(v) for k, v in document.items() if not k.startswith("seconds")}
        return {k: v for k, v in kept.items() if k not in ("peak_rss_bytes", "model", "threads")}
    return [plain(v) for v in document] if isinstance(document, list) else document


class Weights(PoolCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        self.weights = rng.gamma(2, 1, self.rows)
        self.weights[::6] = 0
        self.test_weights = rng.integers(0, 4, self.test_rows).astype(np.float32)

    def give(self, split, weights):
        self.save(f"{split}_w.npy", weights)
        self.manifest["splits"][split]["weights"] = f"{split}_w.npy"
        self.write_manifest()

    def files(self):
        return [self.path(f"{name}.oof.npy") for name in ("ada", "bob", "cyd")]

    def without_zeros(self, split, weights, keep_weights):
        """The manifest of a copy of the pool without the split's rows of weight 0."""
        folder = self.folder + "-less"
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        manifest = json.loads(json.dumps(self.manifest))
        keep = weights > 0
        for name in [f"{split}_labels.npy"] + [f"{m}.{split}.npy" for m in ("ada", "bob", "cyd")]:
            np.save(f"{folder}/{name}", np.load(self.path(name))[keep])
        manifest["splits"][split].pop("weights", None)
        if keep_weights:
            np.save(f"{folder}/less.npy", weights[keep])
            manifest["splits"][split]["weights"] = "less.npy"
        with open(f"{folder}/pool.json", "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        return f"{folder}/pool.json"

    def test_the_option_does_what_the_manifest_does(self):
        self.give("oof", self.weights)
        self.fit("--quiet", nested=True)
        first = self.read(self.model)
        self.works(
            "fit", *self.files(), "--labels", self.path("oof_labels.npy"), "--weights", self.path("oof_w.npy"),
            "-o", self.model, "--quiet",
        )  # fmt: skip
        self.assertEqual(first, self.read(self.model))

    def test_weights_change_the_fit_and_their_scale_does_not(self):
        self.fit("--quiet")
        alike = self.read(self.model)
        self.give("oof", np.full(self.rows, 0.7))
        self.fit("--quiet")
        self.assertEqual(alike, self.read(self.model))
        self.give("oof", self.weights)
        self.fit("--quiet")
        weighted = self.read(self.model)
        self.assertNotEqual(alike, weighted)
        self.give("oof", 8 * self.weights)
        self.fit("--quiet", "--threads", 2)
        self.assertEqual(weighted, self.read(self.model))
        self.fit("--quiet", "--memory", "64MiB")
        self.assertEqual(weighted, self.read(self.model))

    def test_rows_of_weight_0_are_as_if_not_there(self):
        self.give("oof", self.weights)
        self.give("test", self.test_weights)
        less = self.without_zeros("oof", self.weights, True)
        small = self.path("small.cstack")
        for preset in ("default", "prototype"):
            one = self.fit("--preset", preset, "--json", nested=True).json()
            two = self.works("fit", less, "--preset", preset, "-o", small, "--json").json()
            self.assertEqual(self.read(self.model), self.read(small))
            self.assertEqual(plain(one), plain(two))
        for command in (
            ["inspect"],
            ["compare", "--resamples", "50", "--methods", "default,average+temperature,greedy,ridge,minimum-variance"],
        ):
            one = self.works(*command, self.pool, "--json").json()
            two = self.works(*command, less, "--json").json()
            self.assertEqual(plain(one), plain(two))
        less = self.without_zeros("test", self.test_weights, True)
        rows = np.flatnonzero(self.test_weights > 0)  # that the worst rows are numbered by without the others
        for more in ([], ["--baselines"]):
            one = self.works("evaluate", self.model, self.pool, "--split", "test", "--json", *more).json()
            two = self.works("evaluate", self.model, less, "--split", "test", "--json", *more).json()
            for row in two["worst"]:
                row["row"] = int(rows[row["row"]])
            self.assertEqual(plain(one), plain(two))
        self.assertEqual(one["samples"], int((self.test_weights > 0).sum()))

    def test_prediction_is_of_every_row(self):
        self.fit("--quiet")
        self.works("predict", self.model, self.pool, "--split", "test", "-o", self.path("one.npy"), "--quiet")
        self.give("test", self.test_weights)
        self.works("predict", self.model, self.pool, "--split", "test", "-o", self.path("two.npy"), "--quiet")
        self.assertEqual(self.read(self.path("one.npy")), self.read(self.path("two.npy")))

    def test_scores_of_whole_weights_are_those_of_repeated_rows(self):
        times = self.test_weights.astype(int)
        labels, predicted = self.labels["test"], self.members["ada", "test"]
        weighted = self.works(
            "evaluate", self.path("ada.test.npy"), "--labels", self.path("test_labels.npy"),
            "--weights", self.save("w.npy", times), "--json",
        ).json()  # fmt: skip
        repeated = self.works(
            "evaluate", self.save("p.npy", np.repeat(predicted, times, axis=0)),
            "--labels", self.save("y.npy", np.repeat(labels, times)), "--json",
        ).json()  # fmt: skip
        for score in ("top1", "nll", "brier", "ece"):
            self.assertAlmostEqual(weighted[score], repeated[score], places=12)
        nll = -np.log(predicted[np.arange(len(labels)), labels].astype(float))
        self.assertAlmostEqual(weighted["nll"], np.average(nll, weights=times), places=7)

    def test_weights_are_joined_by_id(self):
        ids = np.arange(500, 500 + self.rows)
        self.manifest["splits"]["oof"]["ids"] = "ids.npy"
        self.save("ids.npy", ids)
        self.give("oof", self.weights)
        self.fit("--quiet")
        first = self.read(self.model)
        order = np.random.default_rng(1).permutation(self.rows)
        with open(self.path("w.csv"), "w", encoding="utf-8") as file:
            file.write("id,fold,weight\n")
            file.writelines(f"{ids[i]},0,{float(self.weights[i])!r}\n" for i in order)
        self.manifest["splits"]["oof"]["weights"] = "w.csv"
        self.write_manifest()
        self.fit("--quiet")
        self.assertEqual(first, self.read(self.model))

    def test_what_is_no_weight(self):
        for value, says in ((-0.5, "row 2 is -0.5"), (np.nan, "row 2 is nan"), (np.inf, "row 2 is inf")):
            bad = self.weights.copy()
            bad[2] = value
            self.give("oof", bad)
            self.fit_fails("oof_w.npy", says)
        for bad, says in (
            (np.zeros(self.rows), "every weight is 0"),
            (self.weights[:-1], "119 rows, but"),
            (np.stack([self.weights] * 2, axis=1), "has shape (120, 2)"),
            (np.array(["a"] * self.rows), "contains text"),
        ):
            self.give("oof", bad)
            self.fit_fails("oof_w.npy", says)

    def test_where_weights_do_not_go(self):
        self.fails("fit", self.pool, "-o", self.model, "--weights", "w.npy", says=["are given in the manifest"])
        self.give("test", self.test_weights)
        self.fit("--quiet")
        self.fails("evaluate", self.model, self.pool, "--split", "test,oof", says=["split 'oof'"])
        self.manifest["splits"]["more"] = {"labels": "test_labels.npy"}
        for model in self.manifest["models"]:
            model["predictions"]["more"] = model["predictions"]["test"]
        self.write_manifest()
        for command in (["evaluate", self.model], ["compare", "--methods", "default"]):
            self.fails(*command, self.pool, "--split", "test,more", says=["'test' has row weights", "score it alone"])
        self.manifest["splits"]["test"]["ood"] = True
        self.write_manifest()
        self.fit_fails("splits.test.weights")
        self.manifest["task"] = "segmentation"
        del self.manifest["splits"]["test"]["ood"]
        self.write_manifest()
        self.fit_fails("weights")

    def test_methods_that_count_rows_alike(self):
        self.give("oof", self.weights)
        self.fails(
            "compare", self.pool, "--methods", "hill-climbing", "--resamples", "0",
            says=["hill-climbing", "does not support row weights"],
        )  # fmt: skip
        result = self.works("compare", self.pool, "--resamples", "0", "--json")
        names = [row["method"] for row in result.json()["rows"]]
        self.assertIn("default", names)
        self.assertIn("average+temperature", names)
        for name in ("hill-climbing", "mlp", "average+isotonic"):
            self.assertNotIn(name, names)
            self.assertIn(f"{name} is left out", str(result.json()["notices"]))


if __name__ == "__main__":
    unittest.main()
