"""corestack bound: rows of the fit are known again under any name and in any order, other rows are not refused, and
splits whose rows are not independent are."""

import os
import unittest

import numpy as np

from support import PoolCase, run, sample

NAMES = ("ada", "bob", "cyd")
FITTED = "the model was fitted on the rows of split 'test', so no bound is valid there"
LABELS = "split 'test' has as many rows as the model was fitted on, with the same labels in the same order"


class BoundRows(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit("--set", "evaluate.nested=false")

    def put(self, labels, predictions, split="test"):
        self.save(f"{split}_labels.npy", np.asarray(labels, dtype=np.int32))
        for name, p in zip(NAMES, predictions):
            self.save(f"{name}.{split}.npy", np.ascontiguousarray(p, dtype=np.float32))

    def of_fit(self, rows):
        self.put(self.labels["oof"][rows], [self.members[name, "oof"][rows] for name in NAMES])

    def alone(self):
        """The pool without the rows of the fit."""
        del self.manifest["splits"]["oof"]
        for model in self.manifest["models"]:
            del model["predictions"]["oof"]
        self.write_manifest()

    def notices(self, *arguments):
        return self.works("bound", self.model, self.pool, "--json", *arguments).json()["notices"]

    def of_rows(self):
        """Notices on rows of the fit."""
        return [notice for notice in self.notices() if "model was fitted on" in notice]

    def refused(self, *says):
        self.fails("bound", self.model, self.pool, says=says)

    def test_rows_of_the_fit_under_another_name(self):
        self.assertEqual(self.notices(), [])
        shuffled = np.random.default_rng(0).permutation(self.rows)
        for rows in (slice(None), shuffled, shuffled[:50], np.concatenate([shuffled, shuffled[:30]])):
            self.of_fit(rows)
            self.refused(FITTED)
        self.alone()  # nothing to compare with but what the model's file says
        for rows in (slice(None), shuffled, shuffled[:50]):
            self.of_fit(rows)
            self.refused(FITTED)

    def test_some_rows_of_the_fit(self):
        rows = np.arange(20)
        labels = np.concatenate([self.labels["oof"][rows], self.labels["test"][20:]])
        self.put(labels, [np.concatenate([self.members[name, "oof"][rows], self.members[name, "test"][20:]]) for name in NAMES])
        said = [notice for notice in self.notices() if "if they are the same rows, no bound is valid" in notice]
        self.assertEqual(len(said), 1)
        self.assertIn("of 60 rows of split 'test' that were checked, 20 have the label", said[0])
        self.alone()
        self.assertTrue(any("if they are the same rows, no bound is valid" in notice for notice in self.notices()))

    def scored(self, *arguments):
        return self.works("evaluate", self.model, self.pool, "--json", *arguments).json()

    def test_scores_of_rows_of_the_fit(self):
        """evaluate: the same rows under another name are told, with and without baselines; a mixture is a notice."""
        shuffled = np.random.default_rng(1).permutation(self.rows)
        for rows in (slice(None), shuffled, shuffled[:50]):
            self.of_fit(rows)
            for arguments in ((), ("--baselines",)):
                document = self.scored(*arguments)
                self.assertIs(document["seen_in_fitting"], True)
                self.assertTrue(any("fitted on the rows of split 'test'" in notice for notice in document["notices"]))
        few = np.arange(20)
        labels = np.concatenate([self.labels["oof"][few], self.labels["test"][20:]])
        self.put(labels, [np.concatenate([self.members[name, "oof"][few], self.members[name, "test"][20:]]) for name in NAMES])
        self.alone()
        document = self.scored()
        self.assertIs(document["seen_in_fitting"], False)
        self.assertEqual(
            [notice for notice in document["notices"] if "if they are the same rows, these scores are optimistic" in notice],
            document["notices"],
        )
        self.assertEqual(len(document["notices"]), 1)

    def test_a_small_part_of_the_fit(self):
        """Too few rows for the sketch: both commands compare every row with the fit's split."""
        for rows in (slice(3, 13), slice(40, 50)):
            self.of_fit(rows)
            self.refused(FITTED)
            document = self.scored()
            self.assertIs(document["seen_in_fitting"], True)
            self.assertEqual(len(document["notices"]), 1)
        # Rows of weight 0 are not among the fit's.
        self.save("weights.npy", np.arange(self.rows) % 2)
        self.manifest["splits"]["oof"]["weights"] = "weights.npy"
        self.write_manifest()
        self.fit("--set", "evaluate.nested=false")
        for first, told in ((0, False), (1, True)):
            self.of_fit(slice(first, 20, 2))
            self.assertIs(self.scored()["seen_in_fitting"], told)
        self.refused(FITTED)
        self.forget([b"split.rows="])
        self.refused(FITTED)
        self.assertIs(self.scored()["seen_in_fitting"], True)
        os.remove(self.path("bob.oof.npy"))
        document = self.scored()
        self.assertIs(document["seen_in_fitting"], False)
        self.assertEqual(len(document["notices"]), 1)
        self.assertIn("could not check split 'oof'", document["notices"][0])

    def test_every_split_of_the_fit_is_named(self):
        shuffled = np.random.default_rng(2).permutation(self.rows)
        for split, rows in (("half", shuffled[:60]), ("shuf", shuffled)):
            self.manifest["splits"][split] = {"labels": f"{split}_labels.npy"}
            for model in self.manifest["models"]:
                model["predictions"][split] = f"{model['name']}.{split}.npy"
            self.put(self.labels["oof"][rows], [self.members[name, "oof"][rows] for name in NAMES], split)
        self.write_manifest()
        document = self.scored("--split", "half,shuf,test")
        self.assertIs(document["seen_in_fitting"], True)
        self.assertEqual([notice.split(",")[0] for notice in document["notices"]],
                         [f"the model was fitted on the rows of split '{split}'" for split in ("half", "shuf")])

    def saturated(self, rng, rows, share):
        """Rows of which a share is exactly right and sure, with few contents among them."""
        labels = rng.integers(0, self.classes, rows)
        sure = rng.random(rows) < share
        p = rng.dirichlet(np.ones(self.classes), (3, rows))
        p[:, sure] = np.eye(self.classes)[labels[sure]]
        return labels, p

    def test_rows_of_one_content_count_once(self):
        """Fresh rows that are all sure and right equal such rows of the fit, in the sketch or not."""
        rng = np.random.default_rng(3)
        self.put(*self.saturated(rng, 300, 0.6), "oof")
        self.put(*self.saturated(rng, 150, 1))
        self.fit("--set", "evaluate.nested=false", "--set", "cka.threshold=1")
        for there in (True, False):  # the rows of the fit in the pool
            if not there:
                self.alone()
            self.assertEqual(self.of_rows(), [])
            document = self.scored()
            self.assertIs(document["seen_in_fitting"], False)
            self.assertFalse([text for text in document["notices"] if "fitted" in text], document["notices"])

    def test_scores_of_rounded_rows_of_the_fit(self):
        """Predictions of the fit saved again in half precision: its name and its labels still say so."""
        for name in NAMES:
            self.save(f"{name}.oof.npy", self.members[name, "oof"].astype(np.float16))
        self.assertIs(self.scored("--split", "oof")["seen_in_fitting"], True)
        self.put(self.labels["test"], [self.members[name, "test"] for name in NAMES])
        self.assertEqual(self.scored()["notices"], [])

    def test_equal_labels_of_other_rows(self):
        """As many rows in the order of their classes: no refusal, and no silence."""
        ordered = np.arange(self.rows) % self.classes
        for split, seed in (("oof", 50), ("test", 60)):
            self.put(ordered, [sample(self.rows, self.classes, seed + k, 2, ordered)[1] for k in range(3)], split)
        self.fit("--set", "evaluate.nested=false")
        self.assertTrue(any(LABELS in notice for notice in self.notices()))
        # The same under the name that the fit's split had, as of a list of files.
        self.manifest["splits"] = {"oof": {"labels": "test_labels.npy"}}
        for model in self.manifest["models"]:
            model["predictions"] = {"oof": f"{model['name']}.test.npy"}
        self.write_manifest()
        self.assertTrue(any("with the same labels in the same order" in notice for notice in self.notices("--split", "oof")))

    def test_coarse_predictions_repeat(self):
        """Rows of few values are equal by chance, and are neither refused nor spoken of."""
        rng = np.random.default_rng(5)
        for split, rows in (("oof", 600), ("test", 150)):
            labels = rng.integers(0, self.classes, rows)
            right = rng.random((3, rows)) < 0.8
            votes = np.where(right, labels, rng.integers(0, self.classes, (3, rows)))
            self.put(labels, 0.1 + 0.7 * np.eye(self.classes)[votes], split)
        self.fit("--set", "evaluate.nested=false", "--set", "cka.threshold=1")
        self.assertEqual(self.of_rows(), [])
        # Twenty rows that every member has right are not told apart from those of the fit either.
        labels = np.arange(20) % self.classes
        self.put(labels, [0.1 + 0.7 * np.eye(self.classes)[labels]] * 3)
        self.assertEqual(self.of_rows(), [])
        self.alone()
        self.assertEqual(self.of_rows(), [])

    def test_models_that_do_not_say(self):
        """Files of versions without a sketch or labels: by the pool, and else by the labels."""
        for missing in ([b"split.rows="], [b"split.rows=", b"split.labels="]):
            self.fit("--set", "evaluate.nested=false")
            self.forget(missing)
            self.of_fit(slice(None))
            self.refused(FITTED)
            self.fails("bound", self.model, self.pool, "--split", "oof", says=["the rows of split 'oof'"])
        self.fit("--set", "evaluate.nested=false")
        self.forget([b"split.rows="])
        self.alone()
        self.assertTrue(any(LABELS in notice for notice in self.notices()))

    def forget(self, keys):
        """Renames settings in the model's file, which then says nothing of them."""
        with open(self.model, "rb") as file:
            data = bytearray(file.read())
        for key in keys:
            at = data.find(key)
            self.assertGreater(at, 0)
            data[at] = ord("x")
        crc = 0xFFFFFFFF
        for byte in data[:-4]:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        data[-4:] = (crc ^ 0xFFFFFFFF).to_bytes(4, "little")
        with open(self.model, "wb") as file:
            file.write(data)

    def test_splits_without_certificates(self):
        test = self.manifest["splits"]["test"]
        plain = dict(test)
        self.save("groups.npy", np.repeat(np.arange(self.test_rows // 2), 2))
        self.save("single.npy", np.arange(self.test_rows))
        self.save("weights.npy", np.linspace(0.5, 2, self.test_rows))

        def given(**more):
            self.manifest["splits"]["test"] = {**plain, **more}
            self.write_manifest()

        given(groups="groups.npy")
        self.refused("groups of split 'test' have several rows, which are not independent")
        given(groups="single.npy")
        self.assertEqual(self.notices(), [])
        given(weights="weights.npy")
        self.refused("split 'test' has row weights")
        given(labels=None)
        del self.manifest["splits"]["test"]["labels"]
        self.write_manifest()
        self.refused("split 'test' has no labels")
        given()
        for rows in (3, 4):
            self.put(self.labels["test"][:rows], [self.members[name, "test"][:rows] for name in NAMES])
            if rows == 3:
                self.refused("split 'test' has 3 rows; bounds need at least 4")
        self.assertEqual(run("bound", self.model, self.pool).code, 0)

    def test_conditions_and_other_tasks(self):
        self.manifest["splits"]["shift"] = {"labels": "test_labels.npy", "conditions": [{"severity": 1}, {"severity": 2}]}
        for model in self.manifest["models"]:
            p = self.members[model["name"], "test"]
            self.save(f"{model['name']}.shift.npy", np.stack([p, p[:, ::-1]]))
            model["predictions"]["shift"] = f"{model['name']}.shift.npy"
        self.write_manifest()
        self.fails("bound", self.model, self.pool, "--split", "shift", says=["has several conditions"])
        self.make_maps(6, 8)
        self.fails("bound", self.model, self.pool, "--split", "oof", says=["the model's task is segmentation"])


if __name__ == "__main__":
    unittest.main()
