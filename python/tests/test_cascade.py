"""Stack.cascade: members of a row one after another, batches, a deadline, and a guard that has seen a shift."""
import unittest

import numpy as np

import corestack

ROWS, CLASSES = 400, 3


def pool(seed, apart=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS)
    preds = {}
    for k in range(4):
        z = 4 * np.eye(CLASSES)[(y + k * apart) % CLASSES] + rng.normal(size=(ROWS, CLASSES)) * (1.8 - 0.2 * k)
        p = np.exp(z - z.max(1, keepdims=True))
        preds[f"m{k}"] = (p / p.sum(1, keepdims=True)).astype(np.float32)
    return preds, y


class Cascades(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        preds, y = pool(1)
        cls.stack = corestack.fit(preds, y, flops=[1, 2, 4, 8], cascade=True, cascade_alpha=0.05, options={"cascade.loss": 0.5})
        cls.test, _ = pool(2)
        cls.report = cls.stack.report["cascade"]

    def test_rows_stop_and_whole_ones_are_the_stack(self):
        full = self.stack.predict(self.test, guard="off")
        cascade = self.stack.cascade()
        ran = []
        for i in range(ROWS):
            cascade.start()
            order = []
            while (member := cascade.next()) is not None:
                order.append(member)
                cascade.give(0, self.test[member][i])
            p, members = cascade.answer()
            self.assertEqual((members, order), (len(order), self.report["order"][: len(order)]))
            self.assertAlmostEqual(p.sum(), 1, delta=1e-5)
            if members == 4:
                np.testing.assert_allclose(p, full[i], atol=1e-6)
            elif members == 1:
                self.assertGreaterEqual(p.max(), self.report["stages"][0]["threshold"] - 1e-6)
            ran.append(members)
        share = np.mean([self.report["stages"][m - 1]["cost"] for m in ran])
        self.assertAlmostEqual(share, self.report["cost"], delta=0.1)
        self.assertLess(share, 0.9)
        cascade.start(whole=True)
        for member in self.report["order"]:
            self.assertEqual(cascade.next(), member)
            cascade.give(0, self.test[member][ran.index(1)])
        np.testing.assert_allclose(cascade.answer()[0], full[ran.index(1)], atol=1e-6)

    def test_batches_are_grouped_and_a_deadline_has_an_answer(self):
        cascade = self.stack.cascade(8)
        np.testing.assert_allclose(cascade.answer(3)[0], 1 / CLASSES)
        for row in range(8):
            cascade.start(row)
        first, second = self.report["order"][:2]
        self.assertEqual(cascade.waiting(first), list(range(8)))
        for row in cascade.waiting(first):
            cascade.give(row, self.test[first][row])
        left = cascade.waiting(second)
        self.assertTrue(0 < len(left) < 8)
        p, members = cascade.answer(left[0])
        self.assertEqual((members, p.argmax()), (1, self.test[first][left[0]].argmax()))
        self.assertIsNone(cascade.next(next(r for r in range(8) if r not in left)))

    def test_all_members_run_while_the_guard_sees_a_shift(self):
        odd, _ = pool(5, apart=True)
        cascade = self.stack.cascade(window=100)
        ran = {}
        for name, rows, whole in (("like", self.test, True), ("before", odd, False), ("shift", odd, True), ("after", odd, False)):
            for i in range(ROWS if whole else 20):
                cascade.start(whole=whole)
                while (member := cascade.next()) is not None:
                    cascade.give(0, rows[member][i])
                ran.setdefault(name, []).append(cascade.answer()[1])
        self.assertLess(np.mean(ran["before"]), 4)
        self.assertEqual(set(ran["after"]), {4})

    def test_refusals(self):
        cascade = self.stack.cascade()
        with self.assertRaises(corestack.ArgumentError):
            cascade.give(0, self.test["m0"][0])
        with self.assertRaises(corestack.ArgumentError):
            cascade.start(1)
        cascade.start()
        with self.assertRaisesRegex(corestack.InputError, self.report["order"][0]):
            cascade.give(0, [5, 1, 1])
        with self.assertRaises(corestack.MismatchError):
            cascade.give(0, [0.5, 0.5])
        self.assertEqual(cascade.next(), self.report["order"][0])
        with self.assertRaises(corestack.ArgumentError):
            cascade.answer(1)
        with self.assertRaisesRegex(corestack.UnsupportedError, "no cascade"):
            corestack.fit(self.test, pool(2)[1]).cascade()


if __name__ == "__main__":
    unittest.main()
