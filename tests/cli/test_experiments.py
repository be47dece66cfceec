"""The experiments' common part: figures of pools that were not measured are kept, pools of one's own are apart; AutoGluon's second level."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys

import numpy as np

from support import SOURCES, PoolCase, sample

sys.path.insert(0, os.path.join(SOURCES, "experiments"))
sys.path.insert(0, os.path.join(SOURCES, "experiments", "clean"))
sys.path.insert(0, os.path.join(SOURCES, "experiments", "complexity"))
import common  # noqa: E402
import table as complexity  # noqa: E402

DIGITS = os.path.join(SOURCES, "examples", "digits")


class Experiments(PoolCase):
    def given(self, *texts):
        return common.given_pools(argparse.ArgumentParser(), list(texts))

    def refused(self, *texts):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            self.given(*texts)
        self.assertEqual(end.exception.code, 2)
        return said.getvalue()

    def test_merged(self):
        known = ["a", "b", "c"]
        old = {"a": 1, "b": {"x": 1, "gone": 2}, "sum": 5, "rows": {"a one": 1, "b one": 2, "c one": 3}, "obsolete": 1}
        new = {"b": {"x": 3}, "sum": 6, "rows": {"b one": 7, "b two": 8}}
        found = common.merged(new, old, ["b"], known)
        self.assertEqual(found, {"a": 1, "b": {"x": 3}, "sum": 6, "rows": {"a one": 1, "b one": 7, "b two": 8, "c one": 3}})
        self.assertEqual(list(found), ["sum", "rows", "a", "b"])
        self.assertEqual(common.merged(new, {}, ["b"], known), new)

    def test_names(self):
        manifest = pathlib.Path(DIGITS, "pool.json").resolve()
        self.assertEqual(self.given(DIGITS), {"digits-given": manifest})
        self.assertEqual(self.given(f"own={DIGITS}", str(manifest)), {"own": manifest, "digits-given": manifest})
        self.assertEqual(list(self.given(f"a | b={DIGITS}")), ["a-b"])
        self.assertIn("NAME=", self.refused(DIGITS, str(manifest)))
        self.assertIn("does not exist", self.refused(self.path("nowhere")))
        os.makedirs(self.path("empty"))
        self.assertIn("pool.json", self.refused(self.path("empty")))
        for content in ("no json", "[]", '{"splits": 3, "models": []}'):
            pathlib.Path(self.path("empty"), "pool.json").write_text(content, encoding="utf-8")
            self.assertIn("not the manifest", self.refused(self.path("empty")))

    def test_reasons(self):
        document = json.loads(pathlib.Path(DIGITS, "pool.json").read_text(encoding="utf-8"))
        self.assertIsNone(common.needs("classification")(document))
        self.assertIn("regression", common.needs("regression")(document))
        self.assertIn("`val`", common.needs("classification", split="val")(document))
        self.assertEqual(common.needs("classification", more=lambda d: f"{len(d['models'])} members")(document), "16 members")
        self.assertIsNone(common.plain_files(document))
        document["models"][0]["predictions"]["test"] = "a.csv"
        self.assertIn(".npy", common.plain_files(document))

    def test_stamps(self):
        """A stored result is not reused after a file that the manifest names has changed."""
        os.makedirs(self.path("p/maps"))
        manifest = pathlib.Path(self.path("p"), "pool.json")
        manifest.write_text(json.dumps({"splits": {"oof": {"labels": "maps"}}, "classes": ["x" * 400, ""], "models": [
            {"predictions": {"oof": {"path": "../a.npz#one"}}}]}), encoding="utf-8")
        for name in ("a.npz", "p/maps/1.npy"):
            pathlib.Path(self.path(name)).write_text("1", encoding="utf-8")
        first = common.stamps(manifest)
        self.assertEqual(len(first), 3)
        for name in ("a.npz", "p/maps/1.npy"):
            pathlib.Path(self.path(name)).write_text("12", encoding="utf-8")
            second = common.stamps(manifest)
            self.assertNotEqual(first, second)
            first = second

    def test_members(self):
        """Probabilities of members: logits, and a single column that is that of the second class."""
        p = sample(30, 3, 1, 1.0)[1]
        np.testing.assert_allclose(common.probabilities(np.log(p) + 3, True), p, atol=1e-6)
        np.testing.assert_allclose(common.probabilities(p[:, 0], False), np.stack([1 - p[:, 0], p[:, 0]], 1), atol=1e-6)
        found = common.probabilities(np.log(p[:, :1] / (1 - p[:, :1])), True)
        np.testing.assert_allclose(found[:, 1], p[:, 0], atol=1e-5)
        digits = common.members(pathlib.Path(DIGITS, "pool.json"))
        self.assertEqual(len(digits), 16)
        for values in digits.values():
            np.testing.assert_allclose(values.sum(1), 1)

    def test_measured(self):
        def run(date, resamples):
            return {"version": "corestack 1", "date": date, "seed": 0, "resamples": resamples}

        one = common.measured_text({"a": run("2026-01-02", 5000), "b": run("2026-01-02", 5000)})
        self.assertEqual(one, "corestack 1 on 2026-01-02, seed 0, 5,000 resamples")
        page = {"measured": {"a": run("2026-01-01", 1000), "b": run("2026-01-02", 5000)}}
        text = common.conditions(page, ["compare POOL"])
        self.assertLess(text.index("`b`: corestack 1 on 2026-01-02"), text.index("`a`: corestack 1 on 2026-01-01"))
        self.assertIn("not measured again", text)

    def test_exponents(self):
        """Of made-up seconds, and the table that shows them beside the paper's."""
        self.assertAlmostEqual(complexity.exponent([10, 20, 40], [3 * n**1.5 for n in (10, 20, 40)]), 1.5)
        self.assertEqual(len({(row.phase, row.varied) for row in complexity.ROWS}), len(complexity.ROWS))
        measured = {"version": "corestack 1", "date": "2026-01-02", "seed": 0}
        rows = [{"phase": row.phase, "measured": measured, "varied": row.varied, "sizes": row.sizes[:2], "seconds": [0.5, 1.0], "exponent": power, "paper": 1.0}
                for row, power in zip(complexity.ROWS[1:3], (1.1, 1.5))]
        text = "\n".join(complexity.section({"rows": rows, "ratio": {"measured": 2.0, "paper": 305}}))
        self.assertIn("| 1.50 | 1.00 | 1.00 | With m = √N landmarks", text)
        self.assertNotIn(complexity.ROWS[1].remark, text)

    def test_second_level(self):
        try:
            import autogluon_stack
        except ImportError:
            self.skipTest("scikit-learn is not installed")
        rng = np.random.default_rng(0)
        y = rng.integers(0, 3, 200)
        parts = []
        for _ in range(4):
            p = rng.dirichlet(np.ones(3), 200)
            p[np.arange(200), y] += rng.uniform(0, 1.5)
            parts.append(p / p.sum(1, keepdims=True))
        counts, best = np.zeros(4), None
        for size in range(1, 26):  # each round by trying every part
            losses = [-np.log(sum(c * p for c, p in zip(counts + np.eye(4)[k], parts))[np.arange(200), y] / size).mean() for k in range(4)]
            counts[int(np.argmin(losses))] += 1
            if best is None or min(losses) < best[0]:
                best = (min(losses), counts / size)
        np.testing.assert_allclose(autogluon_stack.weigh(parts, y, 25), best[1], atol=1e-12)
        heated = autogluon_stack.heat(parts[0], 2.0)
        expected = np.sqrt(parts[0])
        np.testing.assert_allclose(heated, expected / expected.sum(1, keepdims=True), atol=1e-9)
        labels, logits = sample(60, 3, 1, 1.0)[:2]
        p = autogluon_stack.common.probabilities(logits[:, 0], False)
        self.assertEqual(p.shape, (60, 2))
        divisions = autogluon_stack.divide(labels, None, np.repeat(np.arange(20), 3), 5, 0)
        for fitted, rest in divisions:
            self.assertFalse(set(fitted // 3) & set(rest // 3))


if __name__ == "__main__":
    import unittest

    unittest.main()
