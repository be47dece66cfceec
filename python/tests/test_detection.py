"""Weighted boxes fusion with calibrated scores and weights by AP, against NumPy; the choices of the presets on faulty detectors."""
from __future__ import annotations

import json
import runpy
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from common import ROOT, TOOL, needs_tool, run_tool

PARTS, ERRORS, LOW = 20, 2, 1e-4
make = runpy.run_path(str(ROOT / "experiments" / "tasks" / "detectors.py"))["make"]


def read(folder, split):
    """Images, true boxes [n, 6] (image, category, box), and each detector's boxes [n, 7] with scores."""
    manifest = json.loads((folder / "pool.json").read_text())
    truth = json.loads((folder / f"{split}.json").read_text())
    boxes = [np.array([[d["image_id"], d["category_id"], *d["bbox"], d["score"]]
                       for d in json.loads((folder / m["predictions"][split]).read_text())]) for m in manifest["models"]]
    true = np.array([[a["image_id"], a["category_id"], *a["bbox"]] for a in truth["annotations"]], float)
    return np.array(sorted(i["id"] for i in truth["images"])), true, boxes


def iou(a, b):
    """[len(a), len(b)] of boxes [n, 4]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, :2] + a[:, None, 2:], b[None, :, :2] + b[None, :, 2:])
    both = np.clip(high - low, 0, None).prod(2)
    return both / (a[:, None, 2:].prod(2) + b[None, :, 2:].prod(2) - both)


def groups(table):
    """Rows of each image and category, in order."""
    keys = {}
    for i, (image, category) in enumerate(table[:, :2].astype(int)):
        keys.setdefault((image, category), []).append(i)
    return keys


def hits(true, boxes, scores, thresholds):
    """Whether each box takes a true one, by falling score, [boxes, thresholds]."""
    out = np.zeros((len(boxes), len(thresholds)), bool)
    of_truth = groups(true)
    for key, mine in groups(boxes).items():
        mine = np.array(mine)[np.argsort(-scores[mine], kind="stable")]
        if key not in of_truth:
            continue
        overlaps = iou(boxes[mine, 2:6], true[of_truth[key], 2:6])
        for t, threshold in enumerate(thresholds):
            free = np.ones(overlaps.shape[1], bool)
            for n, row in enumerate(overlaps):
                best = np.where(free, row, -1).argmax()
                if free[best] and row[best] >= threshold:
                    free[best], out[mine[n], t] = False, True
    return out


def ap(true, boxes, scores, right, images):
    out = []
    for category in np.unique(true[:, 1]):
        count = (np.isin(true[:, 0], images) & (true[:, 1] == category)).sum()
        mine = np.flatnonzero((boxes[:, 1] == category) & np.isin(boxes[:, 0], images))
        mine = mine[np.lexsort((boxes[mine, 0], -scores[mine]))]
        if count == 0:
            continue
        tp = np.cumsum(right[mine], 0)
        recall, precision = tp / count, tp / np.arange(1, len(mine) + 1)[:, None]
        precision = np.maximum.accumulate(precision[::-1], 0)[::-1]
        at = [np.searchsorted(recall[:, t], np.linspace(0, 1, 101)) for t in range(right.shape[1])]
        out.append(np.mean([np.where(a < len(mine), precision[np.minimum(a, len(mine) - 1), t], 0).mean()
                            for t, a in enumerate(at)]))
    return np.mean(out)


class Pool:
    def __init__(self, folder):
        self.images, self.true, self.boxes = read(folder, "oof")
        self.members = len(self.boxes)

    def losses(self, boxes, scores):
        right = hits(self.true, boxes, scores, np.linspace(0.5, 0.95, 10))
        part = np.arange(len(self.images)) % PARTS
        whole = ap(self.true, boxes, scores, right, self.images)
        rest = np.array([ap(self.true, boxes, scores, right, self.images[part != b]) for b in range(PARTS)])
        return 1 - whole + (PARTS - 1) * (rest - rest.mean())

    def maps(self):
        """Knots of each detector's scores: means of 20 bins at most, of 30 boxes at least, pooled until shares rise."""
        out = []
        for boxes in self.boxes:
            right = hits(self.true, boxes, boxes[:, 6], [0.5])[:, 0]
            order = np.argsort(boxes[:, 6], kind="stable")
            bins = min(max(len(order) // 30, 1), 20)
            blocks = []
            for b in range(bins):
                rows = order[b * len(order) // bins:(b + 1) * len(order) // bins]
                blocks.append(np.array([boxes[rows, 6].sum(), right[rows].sum(), len(rows)]))
                while len(blocks) > 1 and blocks[-2][1] * blocks[-1][2] >= blocks[-1][1] * blocks[-2][2]:
                    blocks[-2:] = [blocks[-2] + blocks[-1]]
            x, y = [b[0] / b[2] for b in blocks], [b[1] / b[2] for b in blocks]
            out.append(([0, *x, 1], [y[0] / 2, *y, (1 + y[-1]) / 2]))
        return out


def clusters(pool, boxes, scores, least):
    """Rows (image, category), scores [rows, members] (0: no box) and boxes [rows, members, 4]; boxes join by falling score."""
    table = np.concatenate([np.c_[b[:, :6], s, np.full(len(b), k)] for k, (b, s) in enumerate(zip(boxes, scores))])
    keys, values, places = [], [], []
    for key, rows in sorted(groups(table).items()):
        mine = table[rows][np.argsort(-table[rows, 6], kind="stable")]
        found = []
        for box in mine:
            weight = max(box[6], 1e-9)
            best, most = None, least
            for cluster in found:
                if box[7] in cluster["members"]:
                    continue
                over = iou(box[None, 2:6], (cluster["sum"] / cluster["weight"])[None])[0, 0]
                if over >= most and (best is None or over > most):
                    best, most = cluster, over
            if best is None:
                best = {"sum": np.zeros(4), "weight": 0, "members": {}}
                found.append(best)
            best["sum"] += weight * box[2:6]
            best["weight"] += weight
            best["members"][int(box[7])] = box
        for cluster in found:
            keys.append(key)
            value, place = np.zeros(pool.members), np.zeros((pool.members, 4))
            for k, box in cluster["members"].items():
                value[k], place[k] = box[6], box[2:6]
            values.append(value)
            places.append(place)
    return np.array(keys), np.array(values), np.array(places)


def fused(keys, values, places, weights):
    share = values * weights
    share = np.where(share.sum(1, keepdims=True) > 0, share, values)
    share = np.where(share.sum(1, keepdims=True) > 0, share, (places[:, :, 2] > 0) * 1.0)
    share /= share.sum(1, keepdims=True)
    return np.c_[keys, (share[:, :, None] * places).sum(1)]


def is_better(a, b):
    difference = a - b
    return difference.mean() + ERRORS * np.sqrt(difference.var() / PARTS) < 0  # of the variance over n


def tuned(pool):
    """Maps, IoU, weights, and slope and bias of the mean score's log-odds."""
    def judge(mapped, least, weights=1.0):
        scores = [np.interp(b[:, 6], *m) for b, m in zip(pool.boxes, mapped)]
        parts = clusters(pool, pool.boxes, scores, least)
        return pool.losses(fused(*parts, weights), (parts[1] * weights).sum(1)), parts

    plain, maps = [([0, 1], [0, 1])] * pool.members, pool.maps()
    maps = maps if is_better(judge(maps, 0.55)[0], judge(plain, 0.55)[0]) else plain
    least, (best, _) = 0.55, judge(maps, 0.55)
    for other in (0.45, 0.65, 0.75):
        loss, _ = judge(maps, other)
        if is_better(loss, best):
            least, best = other, loss
    weights = np.ones(pool.members)
    best, parts = judge(maps, least)
    for k in range(pool.members):
        for factor in (2.0**-60, 0.5, 2.0):
            trial = weights.copy()
            trial[k] *= factor
            loss = pool.losses(fused(*parts, trial), (parts[1] * trial).sum(1))
            if is_better(loss, best):
                weights, best = trial, loss
    mean = (parts[1] * weights).sum(1) / weights.sum()
    odds = np.clip(mean, LOW, 1 - LOW)
    odds = np.log(odds / (1 - odds))
    boxes = fused(*parts, np.ones(pool.members))
    target = hits(pool.true, boxes, parts[1].mean(1), [0.5])[:, 0]
    w = np.array([1.0, 0.0])
    for _ in range(50):  # ridge of precision 10 around a slope of 1
        p = 1 / (1 + np.exp(-(w[0] * odds + w[1])))
        x = np.c_[odds, np.ones(len(odds))]
        gradient = x.T @ (p - target) + np.array([10, 1e-6]) * (w - [1, 0])
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + np.diag([10, 1e-6]), gradient)
    return maps, least, weights, w


@needs_tool
class Detection(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = Path(self.place.name)

    def test_tuned_fusion_is_numpys(self):
        make(self.folder, "mixed", 60, 2, 3)
        pool = Pool(self.folder)
        maps, least, weights, w = tuned(pool)
        self.assertLess(weights.min(), 1)  # something was chosen
        model, out = self.folder / "m.cstack", self.folder / "out.json"
        run_tool("fit", self.folder, "-o", model, "--method", "wbf-tuned", "--set", "evaluate.nested=false")
        run_tool("predict", model, self.folder, "--split", "test", "-o", out, "--max-detections", 10000, "--min-score", 0)
        _, _, boxes = read(self.folder, "test")
        scores = [np.interp(b[:, 6], *m) for b, m in zip(boxes, maps)]
        parts = clusters(pool, boxes, scores, least)
        mean = np.clip((parts[1] * weights).sum(1) / weights.sum(), LOW, 1 - LOW)
        expected = np.c_[fused(*parts, weights), 1 / (1 + np.exp(-(w[0] * np.log(mean / (1 - mean)) + w[1])))]
        found = np.array([[d["image_id"], d["category_id"], *d["bbox"], d["score"]] for d in json.loads(out.read_text())])
        self.assertEqual(len(found), len(expected))
        for box in expected:
            near = found[(found[:, :2] == box[:2]).all(1)]
            near = near[np.abs(near[:, 2:6] - box[2:6]).max(1) < 0.006]
            self.assertLess(np.abs(near[:, 6] - box[6]).min(initial=1), 2e-6)

    def broken(self, name, change, splits=("oof", "test")):
        """Changes the boxes of a detector."""
        for split in splits:
            path = self.folder / f"{name}.{split}.json"
            path.write_text(json.dumps([box for box in map(change, json.loads(path.read_text())) if box]))

    def rows(self, *more):
        return json.loads(run_tool("compare", self.folder, "--split", "test", "-m", "best-single,average,nms,default,paper", "-r", 0, "--json",
                                   *more))

    def test_a_broken_detector_takes_no_part(self):
        """The same figures as of the pool without it; with checks=off it stays."""
        make(self.folder, "mixed", 60, 3, 3)
        manifest = self.folder / "pool.json"
        whole = manifest.read_text()
        pool = json.loads(whole)
        pool["models"] = [m for m in pool["models"] if m["name"] != "d2"]
        manifest.write_text(json.dumps(pool))
        keys = ("method", "AP", "AP50", "models", "weights")
        expected = [[row[key] for key in keys] for row in self.rows()["rows"]]
        manifest.write_text(whole)
        corners = lambda box: {**box, "bbox": [*box["bbox"][:2], box["bbox"][0] + box["bbox"][2], box["bbox"][1] + box["bbox"][3]]}  # noqa: E731
        for change, why in ((corners, "corners"), (lambda box: None, "has no boxes")):
            self.broken("d2", change)
            found = self.rows()
            self.assertEqual([[row[key] for key in keys] for row in found["rows"]], expected)
            self.assertIn(why, found["notices"][0])
            self.assertIn("'d2' takes no part in the fit", found["notices"][1])
            self.assertEqual([f["members"] for f in found["findings"]], [["d2"]] if change is corners else [])
            model = self.folder / "m.cstack"
            report = json.loads(run_tool("fit", self.folder, "-o", model, "--json"))
            self.assertEqual([m["name"] for m in report["members"]], ["d1", "d3", "d4", "d5"])
            shown = json.loads(run_tool("show", model, self.folder, "--json"))
            self.assertTrue(shown["pool"]["fitted_on"])
        self.assertEqual(report["findings"], [])  # an empty file is told when it is read
        kept = self.rows("--set", "checks=off")
        self.assertEqual(kept["models_in"], 5)

    def test_a_flawless_detector_leaves_nothing_to_learn(self):
        """Every cluster of the members that were selected is right: they are fused alike, with scores as they are."""
        rng = np.random.default_rng(0)
        splits = ("oof", "test")
        for split in splits:
            annotations, boxes = [], {"good": [], "bad": []}
            for image in range(1, 13):
                for x in (20.0, 110.0):
                    box = [x + int(rng.integers(10)), 10.0 + int(rng.integers(90)), 60.0, 50.0]
                    annotations.append({"id": len(annotations) + 1, "image_id": image, "category_id": 1, "bbox": box, "area": 3000.0,
                                        "iscrowd": 0})
                    for name, found in (("good", [box[0] + 1, box[1] + 1, 60.0, 50.0]), ("bad", [*(np.array(box) + rng.normal(size=4) * 5)]),
                                        ("bad", [float(rng.integers(120)), 150.0, 40.0, 30.0])):
                        score = float(rng.uniform(0.6, 0.9)) if name == "good" else float(rng.uniform(0.1, 0.9))
                        boxes[name].append({"image_id": image, "category_id": 1, "bbox": found, "score": score})
            images = [{"id": i, "width": 200, "height": 200} for i in range(1, 13)]
            truth = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "x"}]}
            for name, content in (*((f"{n}.{split}", b) for n, b in boxes.items()), (split, truth)):
                (self.folder / f"{name}.json").write_text(json.dumps(content))
        (self.folder / "pool.json").write_text(json.dumps({
            "corestack_pool": 1, "task": "detection", "splits": {s: {"annotations": f"{s}.json"} for s in splits},
            "models": [{"name": n, "predictions": {s: f"{n}.{s}.json" for s in splits}} for n in ("good", "bad")]}))
        report = json.loads(run_tool("fit", self.folder, "-o", self.folder / "m.cstack", "--preset", "compact", "--json"))
        self.assertEqual(report["fusion"]["rule"], "equal weights")
        self.assertGreater(report["oof"]["AP"], 0.85)
        run_tool("predict", self.folder / "m.cstack", self.folder, "--split", "test", "-o", self.folder / "out.json")
        found, expected = ([[d["image_id"], *d["bbox"], d["score"]] for d in json.loads((self.folder / name).read_text())]
                           for name in ("out.json", "good.test.json"))
        np.testing.assert_allclose(sorted(found), sorted(expected), atol=0.006)

    def test_prediction_says_which_detector_changed(self):
        """Shares of the others' boxes that a detector hits are NumPy's; each way of being wrong is named."""
        make(self.folder, "mixed", 60, 3, 3)
        model, out = self.folder / "m.cstack", self.folder / "out.json"
        run_tool("fit", self.folder, "-o", model, "--method", "average")
        predict = ("predict", model, self.folder, "--split", "test", "-o", out)

        def notices():
            found = subprocess.run([TOOL, *map(str, predict)], check=True, capture_output=True, text=True).stderr
            return [line for line in found.splitlines() if "notice" in line]

        self.assertEqual(notices(), [])
        _, true, boxes = read(self.folder, "oof")
        least = [np.sort(b[:, 6])[::-1][:len(true)].min() for b in boxes]

        def share(boxes, k):
            others = np.concatenate([b[b[:, 6] >= least[j]] for j, b in enumerate(boxes) if j != k])
            mine = groups(boxes[k])
            found = sum((iou(others[rows, 2:6], boxes[k][mine[key], 2:6]) >= 0.5).any(1).sum()
                        for key, rows in groups(others).items() if key in mine)
            return found, len(others)

        payload = model.read_bytes()
        at = payload.index(b"AGRE") + 16
        numbers = np.frombuffer(payload[at:at + 80], "<f8")
        np.testing.assert_allclose(numbers, [*least, *(hit / all for hit, all in (share(boxes, k) for k in range(5)))])
        whole = (self.folder / "d2.test.json").read_text()
        x = lambda box, f: {**box, "bbox": f(*box["bbox"])}  # noqa: E731
        images = sorted({box["image_id"] for box in json.loads(whole)})
        for change, why in ((lambda b: x(b, lambda x, y, w, h: [x, y, x + w, y + h]), "corners"),
                            (lambda b: x(b, lambda x, y, w, h: [x + w / 2, y + h / 2, w, h]), "centres and sizes"),
                            (lambda b: {**b, "category_id": b["category_id"] % 3 + 1}, "categories are ignored"),
                            (lambda b: {**b, "image_id": min(b["image_id"] + 1, images[-1])}, "one too high"),
                            (lambda b: None, "has no boxes")):
            self.broken("d2", change, ["test"])
            told = notices()
            self.assertEqual(len(told), 1, told)
            self.assertIn(why, told[0])
            (self.folder / "d2.test.json").write_text(whole)
        self.broken("d2", lambda b: x(b, lambda x, y, w, h: [x, y, x + w, y + h]), ["test"])
        _, _, boxes = read(self.folder, "test")
        hit, all = share(boxes, 1)
        self.assertIn(f"'d2' hits {hit} of {all} boxes", notices()[0])

    def test_a_specialist_stays(self):
        make(self.folder, "mixed", 60, 20, 3)
        self.broken("d3", lambda box: box if box["category_id"] == 1 else None)
        report = json.loads(run_tool("fit", self.folder, "-o", self.folder / "m.cstack", "--json"))
        self.assertEqual(len(report["members"]), 5)

    def test_a_bad_detector_leaves_and_fusion_gains(self):
        make(self.folder, "bad", 150, 4, 1)
        rows = json.loads(run_tool("compare", self.folder, "--split", "test", "-m", "default,compact,wbf,wbf-tuned,soft-nms", "-r", 0,
                                   "--json"))["rows"]
        found = {row["method"]: row for row in rows}
        self.assertGreater(found["default"]["AP"], max(found[name]["AP"] for name in ("wbf", "wbf-tuned", "soft-nms")))
        self.assertGreater(found["compact"]["AP"], found["wbf"]["AP"])
        self.assertLess(found["compact"]["models"], 5)


if __name__ == "__main__":
    unittest.main()
