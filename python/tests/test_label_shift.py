"""Label shift in predictions, and prediction sets of new rows by bound."""
import json
import pathlib
import tempfile
import unittest

import numpy as np

import corestack

CLASSES, NAMES = 3, ("a", "b", "c")


def drawn(rng, rows, shares, sharp=1.5):
    """Labels with these shares, and members that know something of them."""
    y = rng.choice(CLASSES, rows, p=shares)
    z = sharp * np.eye(CLASSES)[y] + 0.7 * rng.normal(size=(rows, CLASSES))
    members = {}
    for name in NAMES:
        e = np.exp(1.4 * z + 0.4 * rng.normal(size=(rows, CLASSES)))
        members[name] = (e / e.sum(1, keepdims=True)).astype(np.float32)
    return members, y


class LabelShift(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(6)
        even = np.full(CLASSES, 1 / CLASSES)
        cls.oof = drawn(rng, 900, even)
        cls.test = drawn(rng, 600, even)
        cls.fresh = drawn(rng, 300, [0.8, 0.15, 0.05])
        cls.stack = corestack.fit(*cls.oof)

    def test_shares_and_correction(self):
        preds, y = self.fresh
        plain = self.stack.predict(preds)
        for method in ("em", "bbse"):
            p, report = self.stack.predict(preds, label_shift=method, return_report=True)
            found = report["label_shift"]
            self.assertEqual((found["method"], found["applied"]), (method, 1))
            shares = found["batches"][0]["shares"]
            for share, truth in zip(shares, np.bincount(y, minlength=CLASSES) / len(y)):
                self.assertTrue(share["low"] - 0.03 <= truth <= share["high"] + 0.03)
            if method == "em":
                expected = plain.astype(float) * [s["share"] / s["fit"] for s in shares]
                np.testing.assert_allclose(p, expected / expected.sum(1, keepdims=True), atol=2e-6)
            rows = np.arange(len(y))
            self.assertLess(-np.log(p[rows, y]).mean(), 0.9 * -np.log(plain[rows, y]).mean())

    def test_same_shares_and_few_rows_keep_their_bytes(self):
        for preds in (self.test[0], {k: p[:30] for k, p in self.fresh[0].items()}, {k: p[:1] for k, p in self.fresh[0].items()}):
            plain = self.stack.predict(preds)
            p, report = self.stack.predict(preds, label_shift="em", return_report=True)
            self.assertEqual(p.tobytes(), plain.tobytes())
            self.assertIn(report["label_shift"]["batches"][0]["verdict"], ("same", "few-rows"))
        self.assertNotIn("label_shift", self.stack.predict(preds, return_report=True)[1])

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "label_shift: is 'on'"):
            self.stack.predict(self.test[0], label_shift="on")
        with self.assertRaisesRegex(corestack.ArgumentError, "needs the guard"):
            self.stack.predict(self.test[0], label_shift="em", guard="off")
        rng = np.random.default_rng(1)
        values = {k: rng.normal(size=300) for k in "ab"}
        regression = corestack.fit(values, rng.normal(size=300), task="regression")
        with self.assertRaises(corestack.UnsupportedError):
            regression.predict(values, label_shift="em")

    def test_sets_of_new_rows(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            splits = {"oof": self.oof, "test": self.test, "fresh": self.fresh}
            for split, (members, y) in splits.items():
                np.save(folder / f"{split}.npy", y.astype(np.int32))
                for member, p in members.items():
                    np.save(folder / f"{member}.{split}.npy", p)
            pool = folder / "pool.json"
            pool.write_text(json.dumps({
                "corestack_pool": 1, "task": "classification", "classes": CLASSES, "splits": {s: {"labels": f"{s}.npy"} for s in splits},
                "models": [{"name": m, "predictions": {s: f"{m}.{s}.npy" for s in splits}} for m in NAMES]}))
            stack = corestack.fit(pool)
            out = folder / "sets.npy"
            report = corestack.bound(stack, pool, batch_split="fresh", shift="label", sets=out)
            batch = report["under_shift"]["batches"][0]
            sets = np.load(out)
            self.assertTrue(batch["weighted"])
            self.assertAlmostEqual(batch["coverage"], sets[np.arange(300), self.fresh[1]].mean())
            self.assertNotIn("under_shift", stack.bound(pool))
            for arguments, said in (
                ({"shift": "label"}, "need batch_split"),
                ({"sets": out}, "need batch_split"),
                ({"shift": "all", "batch_split": "fresh"}, "'all' is not"),
            ):
                with self.assertRaisesRegex(corestack.ArgumentError, said):
                    stack.bound(pool, **arguments)
            with self.assertRaisesRegex(corestack.ArgumentError, "path of a pool"):
                stack.bound(self.test[0], self.test[1], batch_split="fresh")


if __name__ == "__main__":
    unittest.main()
