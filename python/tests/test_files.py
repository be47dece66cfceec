"""Segmentation and detection, whose pools are files, as the command line has them: the same bytes and reports."""
from __future__ import annotations

import json
import unittest

import numpy as np
from common import EXAMPLES, FAST, QUICK, Folder, needs_tool, printed, without_times

import corestack


class Segmentation(Folder):
    pool = EXAMPLES / "segmentation"

    @classmethod
    def setUpClass(cls):
        cls.stack = corestack.fit(cls.pool, segment_pixels=500, **QUICK)

    @needs_tool
    def test_as_the_command_line(self):
        model = self.path / "tool.cstack"
        document = printed("fit", self.pool, "-o", model, "--set", "segment.pixels=500", *FAST)
        stack = self.stack
        self.assertEqual(stack.to_bytes(), model.read_bytes())
        document["model"] = None
        self.assertEqual(without_times(dict(stack.report)), document)
        self.assertEqual(stack.task, "segmentation")
        for form, ending in (("maps", ".npy"), ("maps-float16", ".npy"), ("labels", ".npy"), ("png", "")):
            at, here = self.path / f"tool-{form}{ending}", self.path / f"python-{form}{ending}"
            document = printed("predict", model, self.pool, "--split", "test", "--format", form, "-o", at)
            report = dict(stack.predict(self.pool, split="test", format=form, out=here, guard="auto"))
            self.assertEqual({**report, "model": str(model), "out": str(at)}, document)
            if ending:
                self.assertEqual(here.read_bytes(), at.read_bytes())
                np.testing.assert_array_equal(stack.predict(self.pool, format=form), np.load(at))
            else:
                found, expected = ({f.name: f.read_bytes() for f in folder.iterdir()} for folder in (here, at))
                self.assertEqual(found, expected)
        np.testing.assert_array_equal(stack.predict(self.pool), np.load(self.path / "tool-maps.npy"))
        (self.path / "ids").write_text(str(list(range(20, 31))))
        plain = stack.predict(self.pool, format="labels")
        np.testing.assert_array_equal(stack.predict(self.pool, format="labels", id_map=self.path / "ids"), plain + 20)
        labels = self.pool / "test_labels.npz"
        for maps in ("tool-maps.npy", "tool-png"):
            document = printed(
                "evaluate", self.path / maps, "--labels", labels, "--task", "segmentation", "--classes", 11, "--ignore", 11,
                "--boundary", 2, "-r", 20,
            )  # fmt: skip
            report = corestack.evaluate(
                self.path / maps, labels, task="segmentation", classes=11, ignore=11, boundary=2, resamples=20
            )
            self.assertEqual(without_times(dict(report)), document)
        document = printed("evaluate", model, self.pool, "--split", "test", "-r", 20)
        self.assertEqual(without_times(dict(stack.evaluate(self.pool, resamples=20))), document)

    @needs_tool
    def test_inspect_and_compare(self):
        few = ("--set", "segment.pixels=500")
        self.assertEqual(without_times(dict(corestack.inspect(self.pool, segment_pixels=500))), printed("inspect", self.pool, *few))
        report = corestack.compare(self.pool, methods=["average", "best-single"], resamples=20, segment_pixels=500)
        document = printed("compare", self.pool, "--methods", "average,best-single", "--resamples", 20, *few)
        self.assertEqual(without_times(dict(report)), document)

    def test_several_ignored_labels(self):
        random = np.random.default_rng(1)
        labels = random.integers(0, 4, (3, 12, 10))
        predicted = np.where(random.random(labels.shape) < 0.7, labels, 0)
        expected = corestack.metrics.map_scores(predicted, np.where(labels == 3, 255, labels), 3)
        labels = np.where(labels == 3, random.choice([255, 9, -1], labels.shape), labels)
        predicted[labels < 0] = predicted[labels > 3] = 0
        ignored = [9, 255, -1]
        scores = corestack.metrics.map_scores(predicted, labels, 3, ignore=ignored)
        np.testing.assert_equal(scores, expected)
        for name, array in (("maps", predicted), ("masks", labels)):
            np.save(self.path / f"{name}.npy", array.astype(np.int16))
        paths = (self.path / "maps.npy", self.path / "masks.npy")
        report = corestack.evaluate(*paths, task="segmentation", classes=3, ignore=ignored)
        self.assertAlmostEqual(report["miou"], expected["miou"], places=9)
        np.save(self.path / "other.npy", np.zeros(predicted.shape, np.uint8))
        beside = corestack.evaluate(paths[0], paths[1], task="segmentation", classes=3, ignore=ignored, against=self.path / "other.npy")
        other = corestack.metrics.map_scores(np.zeros_like(predicted), labels, 3, ignore=ignored)
        self.assertAlmostEqual(beside["baselines"][0]["miou"], other["miou"], places=9)
        self.assertEqual(beside["miou"], report["miou"])
        with self.assertRaisesRegex(corestack.ArgumentError, "ignore: has 17 labels"):
            corestack.evaluate(*paths, task="segmentation", classes=3, ignore=range(4, 21))

    def test_scores_of_maps(self):
        random = np.random.default_rng(0)
        labels = random.integers(0, 4, (3, 12, 10))
        predicted = np.where(random.random(labels.shape) < 0.7, labels, random.integers(0, 4, labels.shape))
        labels[:, 0] = 255
        scores = corestack.metrics.map_scores(predicted, labels, 4)
        seen = labels != 255
        confusion = np.zeros((4, 4), int)
        np.add.at(confusion, (labels[seen], predicted[seen]), 1)
        np.testing.assert_array_equal(scores["confusion"], confusion)
        iou = np.diag(confusion) / (confusion.sum(0) + confusion.sum(1) - np.diag(confusion))
        self.assertAlmostEqual(scores["miou"], iou.mean(), places=12)
        self.assertEqual(corestack.metrics.map_scores(predicted[0], labels[0], 4)["pixels"], 110)
        self.assertTrue(corestack.metrics.definition("miou"))
        with self.assertRaisesRegex(corestack.Error, "label maps must be integers"):
            corestack.metrics.map_scores(predicted + 0.5, labels, 4)
        with self.assertRaisesRegex(corestack.Error, "has shape"):
            corestack.metrics.map_scores(predicted[1:], labels, 4)
        with self.assertRaises(corestack.Error):
            corestack.metrics.map_scores(predicted, labels, 3)

    def test_errors(self):
        stack = self.stack
        maps = stack.predict(self.pool)
        for call, text in (
            (lambda: stack.predict(list(maps)), "give the path"),
            (lambda: stack.predict(self.pool, format="jpeg"), "format is 'jpeg'"),
            (lambda: stack.predict(self.pool, format="png"), "out=FOLDER"),
            (lambda: stack.predict(self.pool, out=self.path), None),
            (lambda: corestack.evaluate(maps, "y.npy", task="segmentation"), "metrics.map_scores"),
            (lambda: corestack.evaluate("a.npy", "y.npy", task="segmentation", layout="hwc"), "layout is 'hwc'"),
            (lambda: stack.predict_interval(self.pool), "task of this stack is segmentation"),
        ):
            if text is None:
                (self.path / "there").write_text("")
                text = "not an empty folder"
            with self.assertRaisesRegex(corestack.Error, text):
                call()


class Detection(Folder):
    pool = EXAMPLES / "detection"

    @needs_tool
    def test_as_the_command_line(self):
        model, at, here = (self.path / name for name in ("tool.cstack", "tool.json", "python.json"))
        document = printed("fit", self.pool, "-o", model, *FAST)
        stack = corestack.fit(self.pool, **QUICK)
        self.assertEqual(stack.to_bytes(), model.read_bytes())
        document["model"] = None
        self.assertEqual(without_times(dict(stack.report)), document)
        document = printed("predict", model, self.pool, "--split", "test", "-o", at)
        report = dict(stack.predict(self.pool, out=here))
        self.assertEqual({**report, "model": str(model), "out": str(at)}, document)
        self.assertEqual(here.read_bytes(), at.read_bytes())
        boxes = stack.predict(self.pool)
        self.assertEqual(boxes, json.loads(at.read_text()))
        truth = self.pool / "test.json"
        document = printed("evaluate", at, "--annotations", truth, "-r", 20)
        for box in boxes:
            box["bbox"] = np.array(box["bbox"])  # as detectors give them
            box["score"] = np.float64(box["score"])
        for given, true in ((at, truth), (boxes, truth), (boxes, json.loads(truth.read_text()))):
            self.assertEqual(without_times(dict(corestack.evaluate(given, true, resamples=20))), document)
        document = printed("evaluate", model, self.pool, "--split", "test", "-r", 20)
        self.assertEqual(without_times(dict(stack.evaluate(self.pool, resamples=20))), document)

    @needs_tool
    def test_inspect_and_compare(self):
        self.assertEqual(without_times(dict(corestack.inspect(self.pool))), printed("inspect", self.pool))
        report = corestack.compare(self.pool, methods=["best-single", "wbf"], resamples=20)
        document = printed("compare", self.pool, "--methods", "best-single,wbf", "--resamples", 20)
        self.assertEqual(without_times(dict(report)), document)
        self.assertIn("soft-nms", corestack.methods("detection"))
        self.assertNotIn("soft-nms", corestack.methods())

    def test_errors(self):
        stack = corestack.fit(self.pool, **QUICK)
        for call, text in (
            (lambda: stack.predict(self.pool, out="boxes.npy"), "use the extension .json"),
            (lambda: stack.predict({"yolo": np.zeros((3, 4))}), "give the path"),
            (lambda: corestack.evaluate([], self.pool / "none.json", task="detection"), "none.json"),
            (lambda: corestack.evaluate([{"image_id": -5}], self.pool / "test.json"), "detections.json"),
        ):
            with self.assertRaisesRegex(corestack.Error, text):
                call()


if __name__ == "__main__":
    unittest.main()
