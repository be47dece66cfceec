"""corestack predict --label-shift: where it is applied and where bytes stay, by NumPy, and what is refused."""

import unittest

import numpy as np
from scipy.optimize import minimize

import test_bound_shift
from support import run, softmax
from test_missing import sections, without_sections


def nll(p, labels):
    return -np.log(p[np.arange(len(labels)), labels]).mean()


class LabelShift(test_bound_shift.ShiftedPool):
    def predict(self, split, *arguments, out="out.npy"):
        """The predictions, and the key label_shift of the report."""
        document = self.works("predict", self.model, self.pool, "--split", split, "-o", self.path(out), "--json", *arguments).json()
        return np.load(self.path(out)), document.get("label_shift")

    def test_applied_by_numpy(self):
        plain, nothing = self.predict("fresh")
        self.assertIsNone(nothing)
        labels = self.labels["fresh"]
        truth = np.bincount(labels, minlength=3) / len(labels)
        for method in ("em", "bbse"):
            p, found = self.predict("fresh", "--label-shift", method)
            batch = found["batches"][0]
            self.assertEqual((found["method"], found["applied"], batch["verdict"]), (method, 1, "applied"))
            share = np.array([s["share"] for s in batch["shares"]])
            fit = np.array([s["fit"] for s in batch["shares"]])
            np.testing.assert_allclose(fit, np.bincount(self.labels["oof"], minlength=3) / self.ROWS, atol=1e-6)
            self.assertTrue(all(s["low"] - 0.03 <= t <= s["high"] + 0.03 for s, t in zip(batch["shares"], truth)))
            drawn = share if method == "em" else (share / share.sum() * 400 + 3 * fit) / 403
            expected = plain.astype(float) * drawn / fit
            np.testing.assert_allclose(p, expected / expected.sum(1, keepdims=True), atol=2e-6)
            self.assertLess(nll(p, labels), 0.9 * nll(plain, labels))
            self.assertLess(batch["change_p"], 0.01)
            self.assertGreater(batch["fit_p"], 0.05)

    def test_clean_batches_keep_their_bytes(self):
        self.predict("test", out="plain.npy")
        for method in ("off", "em", "bbse"):
            _, found = self.predict("test", "--label-shift", method)
            self.assertEqual(self.read(self.path("out.npy")), self.read(self.path("plain.npy")))
            if method != "off":
                self.assertEqual((found["applied"], found["batches"][0]["verdict"]), (0, "same"))

    def test_other_shifts_keep_their_bytes(self):
        self.predict("odd", out="plain.npy")
        for method in ("em", "bbse"):
            _, found = self.predict("odd", "--label-shift", method)
            self.assertEqual(self.read(self.path("out.npy")), self.read(self.path("plain.npy")))
            self.assertIn(found["batches"][0]["verdict"], ("guarded", "other-shift"))
            self.assertIn("more than the class shares has changed", found["batches"][0]["reason"])

    def test_fixed_shares_by_scipy(self):
        """Biases by which the mean prediction has the shares of the fit, up to their prior, where the guard fires; else the same bytes."""
        plain, _ = self.predict("odd")
        p, found = self.predict("odd", "--label-shift", "fixed")
        self.assertEqual((found["method"], found["applied"], found["batches"][0]["verdict"]), ("fixed", 1, "applied"))
        fit, q = np.bincount(self.labels["oof"], minlength=3) / self.ROWS, plain.astype(float)
        np.testing.assert_allclose([s["share"] for s in found["batches"][0]["shares"]], q.mean(0), atol=1e-6)

        def loss(b):
            return np.log(q @ np.exp(b)).sum() - len(q) * fit @ b + 10 * b @ b / 2

        expected = q * np.exp(minimize(loss, np.zeros(3), tol=1e-12).x)
        np.testing.assert_allclose(p, expected / expected.sum(1, keepdims=True), atol=1e-5)
        self.assertIsNone(found["batches"][0]["change_p"])
        text = self.works("predict", self.model, self.pool, "--split", "odd", "-o", self.path("out.npy"), "--label-shift", "fixed").out
        self.assertRegex(text, r"mean prediction before the correction of rows 0 to 399 \(applied\):\n    0: 0\.\d+, in the fit 0\.3")
        self.predict("test", out="plain.npy")
        _, found = self.predict("test", "--label-shift", "fixed")
        self.assertEqual(self.read(self.path("out.npy")), self.read(self.path("plain.npy")))
        self.assertEqual((found["applied"], found["batches"][0]["verdict"]), (0, "like-fit"))

    def test_batches(self):
        for name in ("ada", "bob", "cyd"):
            self.members[name, "both"] = np.concatenate([self.members[name, s][:200] for s in ("test", "fresh")])
        self.splits["both"] = self.labels_of("both", np.concatenate([self.labels[s][:200] for s in ("test", "fresh")]))
        self.write_pool()
        plain, _ = self.predict("both")
        p, found = self.predict("both", "--label-shift", "em", "--batch", "200")
        self.assertEqual([b["applied"] for b in found["batches"]], [False, True])
        np.testing.assert_array_equal(p[:200], plain[:200])
        self.assertTrue((p[200:] != plain[200:]).any())
        text = self.works("predict", self.model, self.pool, "--split", "both", "-o", self.path("out.npy"), "--label-shift", "em",
                          "--batch", "200")
        self.assertIn("class shares of rows 200 to 399 (applied)", text.out)
        self.assertRegex(text.out, r"    0: 0\.\d+ \[0\.\d+, 0\.\d+\], in the fit 0\.3")
        self.assertIn("label shift (em) applied to 1 of 2 batches", text.err)

    def test_any_number_of_threads(self):
        self.predict("fresh", "--label-shift", "bbse", "--threads", "1", out="one.npy")
        self.predict("fresh", "--label-shift", "bbse", "--threads", "4", out="four.npy")
        self.assertEqual(self.read(self.path("one.npy")), self.read(self.path("four.npy")))

    def test_little_to_go_by(self):
        """One row, few rows, rows of one class, constant members."""
        cases = {"one": self.members["ada", "fresh"][:1], "few": self.members["ada", "fresh"][:49],
                 "class": self.members["ada", "test"][self.labels["test"] == 1][:100],
                 "constant": np.full((80, 3), 1 / 3, dtype=np.float32)}
        for name, p in cases.items():
            for member in ("ada", "bob", "cyd"):
                self.members[member, name] = p
            self.splits[name] = {}
        self.write_pool()
        for name in cases:
            for method in ("em", "bbse", "fixed"):
                p, found = self.predict(name, "--label-shift", method)
                self.assertTrue(np.isfinite(p).all())
                np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
                if name in ("one", "few"):
                    self.assertEqual(found["batches"][0]["verdict"], "few-rows")
                if name == "constant" and method != "fixed":
                    self.assertFalse(found["batches"][0]["applied"])

    def test_class_that_is_never_predicted(self):
        rng = np.random.default_rng(8)
        for split in ("oof", "test"):
            # class 2 has one row in a hundred, and members that see nothing of it
            labels = np.where(np.arange(self.ROWS) % 100 == 0, 2, np.arange(self.ROWS) % 2).astype(np.int32)
            self.splits[split] = self.labels_of(split, labels)
            for member in ("ada", "bob", "cyd"):
                z = 2.0 * np.eye(3)[np.arange(self.ROWS) % 2] + rng.normal(size=(self.ROWS, 3)) * 0.5
                self.members[member, split] = softmax(z - np.array([0, 0, 4]))
        self.splits = {split: self.splits[split] for split in ("oof", "test")}
        self.write_pool()
        self.fit("--set", "evaluate.nested=false")
        self.fails("predict", self.model, self.pool, "-o", self.path("out.npy"), "--label-shift", "bbse",
                   says=["predicts class 2 for no row of the fit", "use em"])
        self.predict("test", "--label-shift", "em")

    def test_refused(self):
        out = ["-o", self.path("out.npy")]
        for arguments, says in (
            (["--label-shift", "on"], "'on' is not off, em, bbse or fixed"),
            (["--label-shift", "em", "--guard", "off"], "needs the guard"),
        ):
            self.fails("predict", self.model, self.pool, *out, *arguments, says=[says])
        balanced = self.path("balanced.cstack")
        self.works("fit", self.pool, "-o", balanced, "--set", "evaluate.nested=false", "--set", "fit.balance=1")
        self.fails("predict", balanced, self.pool, *out, "--label-shift", "fixed", says=["fitted with fit.balance"])
        older = without_sections(self.model, self.path("older.cstack"), "CONF", "NOVE")
        failed = run("predict", older, self.pool, *out, "--label-shift", "em")
        self.assertEqual((failed.code, failed.err.splitlines()[-1].endswith("fit it again")), (2, True))
        self.assertNotIn("out.npy", self.listing())
        self.works("predict", older, self.pool, *out)

    def test_section_by_numpy(self):
        """What the model stores is what the stack predicts of its rows."""
        payload = next(body for tag, body in sections(self.model)[1] if tag == "CONF")[16:]
        p, _ = self.predict("oof", "--guard", "off")
        labels, confidence = self.labels["oof"], p.max(1)
        edges = np.sort(confidence)[self.ROWS * np.arange(1, 8) // 8]
        np.testing.assert_array_equal(np.frombuffer(payload[:28], "<f4"), edges)
        counts, value, shift = [], 0, 0
        for byte in payload[28:]:
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                counts.append(value)
                value = shift = 0
        bins = np.zeros((3, 8), int)
        np.add.at(bins, (labels, np.searchsorted(edges, confidence, side="right")), 1)
        self.assertEqual(counts[:24], bins.ravel().tolist())
        found, at = np.zeros((3, 3), int), 26
        for c in range(3):
            entries, before, at = counts[at], -1, at + 1
            for _ in range(entries):
                before += 1 + counts[at]
                found[c, before] = counts[at + 1]
                at += 2
        expected = np.zeros((3, 3), int)
        np.add.at(expected, (labels, p.argmax(1)), 1)
        np.testing.assert_array_equal(found, expected)
        self.assertEqual((at, counts[24:26]), (len(counts), [0, (expected > 0).sum()]))


if __name__ == "__main__":
    unittest.main()
