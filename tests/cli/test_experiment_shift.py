"""The experiment on shift: its scores and its choice of rows, and a run of all of it on a small pool."""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import unittest.mock

import numpy as np

from support import SOURCES, TOOL, PoolCase, sample, slow

for folder in ("experiments", "experiments/shift"):
    sys.path.insert(0, os.path.join(SOURCES, folder))
import common  # noqa: E402
import conditions  # noqa: E402
import costs  # noqa: E402

NAMES = ("ada", "bob", "cyd")
CONDITIONS = [{"shift": f, "kind": k, "severity": s} for f, k, s in (
    ("noise", "hiss", 1), ("noise", "hiss", 3), ("blur", "fog", 1), ("blur", "fog", 3), ("blur", "soft", 3))]


class ShiftExperiment(PoolCase):
    rows, test_rows = 200, 200

    def setUp(self):
        super().setUp()
        place = unittest.mock.patch.object(common, "ROOT", pathlib.Path(self.folder))  # of what is kept between runs
        place.start()
        self.addCleanup(place.stop)
        labels = sample(100, 3, 9)[0]
        for k, name in enumerate(NAMES):
            pages = [sample(100, 3, 40 + 10 * k + c, 1.2 - 0.5 * (c % 2), labels)[1] for c in range(len(CONDITIONS))]
            self.save(f"{name}.worn.npy", np.stack(pages))
            self.manifest["models"][k]["predictions"]["worn"] = f"{name}.worn.npy"
        self.save("worn_labels.npy", labels)
        self.manifest["splits"]["worn"] = {"labels": "worn_labels.npy", "conditions": CONDITIONS}
        self.write_manifest()
        self.place = pathlib.Path(self.pool)
        self.options = argparse.Namespace(tool=TOOL, seed=0, fresh=False, resamples=0, quick=False, known=False, part=None, monitor_only=False)

    def test_scores(self):
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(4), (3, 50))
        y = rng.integers(0, 4, 50)
        nll, error = conditions.losses(p, y)
        np.testing.assert_allclose(nll, [[-np.log(p[c, i, y[i]]) for i in range(50)] for c in range(3)])
        np.testing.assert_array_equal(error, p.argmax(-1) != y)
        mean, se = conditions.mean_error(nll)
        self.assertAlmostEqual(mean, nll.mean())
        self.assertAlmostEqual(se, nll.mean(0).std(ddof=1) / 50 ** 0.5)
        p[1, :7] = np.nan
        nll, error = conditions.losses(p, y)
        self.assertTrue(np.isnan(nll[1, :7]).all() and np.isnan(error[1, :7]).all() and not np.isnan(nll[1, 7:]).any())
        np.testing.assert_allclose(conditions.mean_known(nll), np.nanmean(nll, axis=0))
        self.assertTrue(np.isnan(conditions.mean_known([np.array([np.nan])] * 2)).all())

    def test_worse(self):
        """A condition counts if the method is clearly worse than the better of the two others there."""
        rng = np.random.default_rng(1)
        base = rng.normal(size=(4, 400))
        average, stack = base + [[0], [1], [0], [1]], base + [[1], [0], [1], [0]]
        ours = base + rng.normal(0, 0.1, base.shape) + [[0], [0.5], [0.5], [-0.5]]
        found = conditions.worse(ours, average, stack, CONDITIONS[:4])
        self.assertEqual([c for c, _, _ in found], CONDITIONS[1:3])
        for _, gap, error in found:
            self.assertAlmostEqual(gap, 0.5, delta=0.03)
            self.assertAlmostEqual(error, 0.005, delta=0.001)
        self.assertEqual(conditions.worse(base, base, base, CONDITIONS[:4]), [])

    def test_kinds_held_out(self):
        listed = [{"kind": k} for k in ("snow", "blur", "snow", "fog", "rain")]  # in order: blur, fog, rain, snow
        self.assertEqual(conditions.judged("vision", listed).tolist(), [True, False, True, True, False])
        self.assertTrue(conditions.judged("another", listed).all())

    def test_predictions(self):
        """Condition by condition the tool gives what it gives for the whole split, and the average is that of NumPy."""
        split = conditions.Split(self.place, "worn")
        np.testing.assert_allclose(split.average(), np.mean([np.load(self.path(f"{n}.worn.npy")) for n in NAMES], axis=0), atol=1e-6)
        found = conditions.predicted(self.options, self.place, split, ("--guard", "off"))
        model = conditions.fitted(self.options, self.place)
        self.works("predict", model, self.pool, "--split", "worn", "--guard", "off", "-o", self.path("whole.npy"))
        np.testing.assert_array_equal(found, np.load(self.path("whole.npy")))
        again = conditions.predicted(argparse.Namespace(**{**vars(self.options), "tool": TOOL}), self.place, split, ("--guard", "off"))
        np.testing.assert_array_equal(found, again)

    def test_rows_of_a_choice(self):
        rows = np.array([5, 3, 3, 70])
        with conditions.Pool(conditions.Split(self.place, "worn"), 2) as pool:
            self.assertEqual(pool.add("some", rows), ["--split", "some"])
            document = json.loads(pool.path.read_text())
            np.testing.assert_array_equal(np.load(pool.path.parent / "some.labels.npy"), np.load(self.path("worn_labels.npy"))[rows])
            path = document["models"][1]["predictions"]["some"]
            np.testing.assert_array_equal(np.load(pool.path.parent / path), np.load(self.path("bob.worn.npy"))[2][rows])
        self.assertFalse(pool.path.exists())
        np.testing.assert_array_equal(np.sort(conditions.draws(50, 1)), np.arange(50))
        self.assertFalse(np.array_equal(conditions.draws(50, 1), conditions.draws(50, 2)))

    def test_sections(self):
        content = conditions.fitted(self.options, self.place).read_bytes()
        found = costs.sections(content)
        self.assertEqual(sum(found.values()) + 28, len(content))
        self.assertIn("LEAR", found)

    @slow
    def test_everything(self):
        place = os.path.join(SOURCES, "experiments", "shift", "run.py")
        spec = importlib.util.spec_from_file_location("shift_run", place)
        experiment = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(experiment)
        for key, value in (("draws", 1), ("streams", 2), ("repeats", 1)):
            setattr(self.options, key, value)
        with unittest.mock.patch.object(costs, "ROWS", 400), unittest.mock.patch.object(experiment, "LABELLED", (10, 50)):
            figures, page = experiment.measure(self.options, {"small": self.place})
        figures, page = json.loads(json.dumps([figures, page], default=lambda v: v.item()))
        page["measured"] = {"small": {"version": "corestack 0", "date": "2026-01-01", "seed": 0, "resamples": 0}}
        text = "\n".join(experiment.section(figures, page))
        for word in ("default, guard", "50 labels", "small, condition by condition", "clean batches"):
            self.assertIn(word, text)
        f = figures["small"]
        self.assertEqual(f["conditions"], len(CONDITIONS))
        self.assertEqual(set(f["families"]), {"noise", "blur"})
        average = conditions.losses(conditions.Split(self.place, "worn").average(), np.load(self.path("worn_labels.npy")))
        self.assertAlmostEqual(f["methods"]["average"]["nll"], average[0].mean())
        self.assertAlmostEqual(f["families"]["blur"]["average"][1], average[1][2:].mean())
        self.assertAlmostEqual(f["methods"]["average"]["to_nll"], f["methods"]["default, guard"]["nll"] - f["methods"]["average"]["nll"])
        self.assertEqual(f["clean"]["batches"], 1)


if __name__ == "__main__":
    unittest.main()
