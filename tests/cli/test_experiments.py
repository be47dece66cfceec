"""The experiments' common part: figures of pools that were not measured are kept, pools of one's own are apart; AutoGluon's second level."""

import argparse
import contextlib
import importlib.util
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

sys.path.insert(0, os.path.join(SOURCES, "experiments", "regret"))
SPEC = importlib.util.spec_from_file_location("regret_run", os.path.join(SOURCES, "experiments", "regret", "run.py"))
regret = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(regret)

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

    def regret_pool(self, name, labels, members, **more):
        """A pool of the study of regret, written and read again."""
        folder = pathlib.Path(self.path(name))
        (folder / "reference").mkdir(parents=True)
        document = {"classes": ["a", "b"], "splits": {}, "models": [{"name": f"m{k}", "predictions": {}} for k in range(len(members))]}
        for split, rows in (("oof", slice(0, 10)), ("test", slice(10, 14))):
            files = {"labels": labels, **more}
            document["splits"][split] = {key: f"{split}_{key}.npy" for key in files}
            for key, values in files.items():
                np.save(folder / f"{split}_{key}.npy", values[rows])
            for k, values in enumerate(members):
                document["models"][k]["predictions"][split] = f"m{k}.{split}.npy"
                np.save(folder / f"m{k}.{split}.npy", values[rows])
            np.save(folder / "reference" / f"own.{split}.npy", members[0][rows])
        (folder / "pool.json").write_text(json.dumps(document))
        return folder / "pool.json"

    def test_regret_blocks(self):
        """Blocks of time are never divided, all ten ways are used, and a missing prediction is the mean of the others."""
        y, first = np.arange(14) % 2, sample(14, 2, 1, 1.0)[1].astype(np.float32)
        second = np.full((14, 2), 0.5, np.float32)
        first[3] = np.nan
        pool = regret.Pool(self.regret_pool("flusight", y, [first, second], folds=np.arange(14) // 2), ["oof"])
        seen = set()
        for number in range(10):
            fitted, judged = pool.divide(0, number, 2 / 3)
            self.assertEqual(sorted([*fitted, *judged]), list(range(10)))
            self.assertFalse(set(fitted // 2) & set(judged // 2))
            seen.add(tuple(fitted))
        self.assertEqual(len(seen), 10)
        self.assertTrue(pool.missing)
        np.testing.assert_allclose(regret.filled(pool)[0][3], [0.5, 0.5])
        judge = np.arange(10)
        p = first[:10].astype(np.float64)
        p[3] = 0.5
        found = pool.official(judge)[regret.OFFICIAL + "own"]
        self.assertAlmostEqual(found["nll"], -np.log(p[judge, y[:10]] / p.sum(1)).mean(), places=6)
        self.assertEqual(pool.official(np.array([3, 4])), {})

    def test_regret_wrong_labels(self):
        """Beside a pool-true.json the rows of `test` are judged, and the other labels are at hand."""
        y, p = np.arange(14) % 2, sample(14, 2, 1, 1.0)[1].astype(np.float32)
        manifest = self.regret_pool("noisy", y, [p], ids=np.arange(14))
        document = json.loads(manifest.read_text())
        np.save(manifest.parent / "true.npy", 1 - y[:10])
        document["splits"]["oof"]["labels"] = "true.npy"
        manifest.with_name("pool-true.json").write_text(json.dumps(document))
        pool = regret.Pool(manifest, ["oof"])
        fitted, judged = pool.divide(0, 0, 2 / 3)
        self.assertEqual(list(judged), [10, 11, 12, 13])
        self.assertTrue(5 <= len(fitted) <= 8 and fitted.max() < 10 and pool.height() == 10)
        np.testing.assert_array_equal(pool.beside["truth"], np.concatenate([1 - y[:10], y[10:]]))

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
