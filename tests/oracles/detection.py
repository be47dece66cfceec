"""Writes tests/data/detection.h and tests/data/detection/: detections, annotations, COCO's figures from NumPy.

The evaluation is written from the published protocol of COCO's detection challenge: per category, boxes of an image are
taken by falling score, each takes the best free true box above the threshold, true boxes that do not count (crowds,
objects of another size) only where no other fits; precision made monotone, read at 101 recalls.
"""
import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "data"
AREAS = [(0, 1e10), (0, 32 ** 2), (32 ** 2, 96 ** 2), (96 ** 2, 1e10)]
THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
FIGURES = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]


# ---- evaluation -------------------------------------------------------------------------------------------------------


def intersection(a, b):
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(w, 0) * max(h, 0)


def iou(a, b, crowd=False):
    both = intersection(a, b)
    if both == 0:
        return 0.0
    return both / (a[2] * a[3] if crowd else a[2] * a[3] + b[2] * b[3] - both)


def match(boxes, truths, threshold, area):
    """One image and category. boxes: by falling score. Gives (right, ignored) of each box and the true boxes that count."""
    low, high = area
    counts = [not t["iscrowd"] and low <= t["area"] <= high for t in truths]
    free = [True] * len(truths)
    right, ignored = [], []
    for box in boxes:
        overlaps = [iou(box["bbox"], t["bbox"], t["iscrowd"]) for t in truths]
        chosen = None
        for wanted in (True, False):  # those that count come first, and the last of equals is taken
            fits = [g for g in range(len(truths)) if counts[g] is wanted and (free[g] or truths[g]["iscrowd"])
                    and overlaps[g] >= threshold]
            if fits:
                best = max(overlaps[g] for g in fits)
                chosen = [g for g in fits if overlaps[g] == best][-1]
                break
        if chosen is None:
            size = box["bbox"][2] * box["bbox"][3]
            right.append(False)
            ignored.append(size < low or size > high)
        else:
            free[chosen] = False
            right.append(counts[chosen])
            ignored.append(not counts[chosen])
    return right, ignored, sum(counts)


def curve(right, ignored, scores, truths):
    """Precision at the recalls, and the last recall."""
    order = np.argsort(-np.array(scores), kind="stable")
    right = np.array(right, bool)[order]
    right = right[~np.array(ignored, bool)[order]]
    if len(right) == 0:
        return np.zeros(len(RECALLS)), 0.0
    found = np.cumsum(right)
    precision = found / (np.arange(len(right)) + 1)
    recall = found / truths
    best_from = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(recall, RECALLS)
    return np.where(at < len(right), best_from[np.minimum(at, len(right) - 1)], 0), recall[-1]


def evaluate(truth, detections):
    """The twelve figures, and AP of each category."""
    images = sorted(i["id"] for i in truth["images"])
    categories = sorted(c["id"] for c in truth["categories"])
    precision = np.full((len(categories), 4, 10, 101), np.nan)
    recall = np.full((len(categories), 4, 10, 3), np.nan)
    for k, category in enumerate(categories):
        groups = []
        for image in images:
            boxes = [d for d in detections if d["image_id"] == image and d["category_id"] == category]
            boxes = sorted(boxes, key=lambda d: -d["score"])[:100]
            groups.append((boxes, [a for a in truth["annotations"] if a["image_id"] == image
                                   and a["category_id"] == category]))
        for a, area in enumerate(AREAS):
            for t, threshold in enumerate(THRESHOLDS):
                matched = [match(boxes, truths, threshold, area) for boxes, truths in groups]
                total = sum(m[2] for m in matched)
                if total == 0:
                    continue
                for n, most in enumerate((1, 10, 100)):
                    parts = [np.concatenate([np.array(m[p][:most], bool) for m in matched]) for p in (0, 1)]
                    scores = np.concatenate([[b["score"] for b in boxes[:most]] for boxes, _ in groups])
                    points, recall[k, a, t, n] = curve(parts[0], parts[1], scores, total)
                    if most == 100:
                        precision[k, a, t] = points

    def mean(values):
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else -1.0

    figures = [mean(precision[:, 0]), mean(precision[:, 0, 0]), mean(precision[:, 0, 5]), mean(precision[:, 1]),
               mean(precision[:, 2]), mean(precision[:, 3]), mean(recall[:, 0, :, 0]), mean(recall[:, 0, :, 1]),
               mean(recall[:, 0, :, 2]), mean(recall[:, 1, :, 2]), mean(recall[:, 2, :, 2]), mean(recall[:, 3, :, 2])]
    return figures, [mean(precision[k, 0]) for k in range(len(categories))]


# ---- fusion -----------------------------------------------------------------------------------------------------------


def groups_of(truth, members):
    """Pooled boxes by image and category: (member, detection), by falling score, ties by member and place."""
    for image in sorted(i["id"] for i in truth["images"]):
        for category in sorted(c["id"] for c in truth["categories"]):
            found = [(k, d) for k, boxes in enumerate(members) for d in boxes
                     if d["image_id"] == image and d["category_id"] == category]
            if found:
                yield image, category, sorted(found, key=lambda f: -f[1]["score"])


def mean_box(boxes, weights):
    return np.average(np.array(boxes, float), axis=0, weights=np.array(weights, float))


def clusters(truth, members, threshold):
    """Rows of the stack: at most one box of a member, compared with the score-weighted mean."""
    size = {i["id"]: (i["width"], i["height"]) for i in truth["images"]}
    rows = []
    for image, category, found in groups_of(truth, members):
        mine = []
        for k, d in found:
            x, y, w, h = d["bbox"]
            left, top = max(x, 0), max(y, 0)
            box = [left, top, min(x + w, size[image][0]) - left, min(y + h, size[image][1]) - top]
            overlaps = [iou(box, mean_box(r["boxes"], r["scores"])) if k not in r["members"] else -1 for r in mine]
            if overlaps and max(overlaps) >= threshold:
                row = mine[int(np.argmax(overlaps))]
            else:
                row = {"image": image, "category": category, "boxes": [], "scores": [], "members": []}
                mine.append(row)
            row["boxes"].append(box)
            row["scores"].append(d["score"])
            row["members"].append(k)
        rows += mine
    return rows


def targets(truth, rows, count):
    """Of fused boxes at IoU 0.5, taken by falling mean score; -1 in a crowd."""
    out = [0] * len(rows)
    free = {a["id"]: True for a in truth["annotations"]}
    for i in sorted(range(len(rows)), key=lambda i: -sum(rows[i]["scores"]) / count):
        row = rows[i]
        box = mean_box(row["boxes"], row["scores"])
        near = [(iou(box, a["bbox"], a["iscrowd"]), a) for a in truth["annotations"]
                if a["image_id"] == row["image"] and a["category_id"] == row["category"]]
        fits = [(o, a) for o, a in near if o >= 0.5 and not a["iscrowd"] and free[a["id"]]]
        if fits:
            free[max(fits, key=lambda f: f[0])[1]["id"]] = False
            out[i] = 1
        elif any(o >= 0.5 and a["iscrowd"] for o, a in near):
            out[i] = -1
    return out


def weighted_boxes_fusion(truth, members):
    """Solovyev, Wang and Gabruseva 2021: confidence averaged, times min(boxes, models) / models."""
    out = []
    for image, category, found in groups_of(truth, members):
        fused = []
        for _, d in found:
            overlaps = [iou(d["bbox"], f["box"]) for f in fused]
            if overlaps and max(overlaps) > 0.55:
                f = fused[int(np.argmax(overlaps))]
            else:
                f = {"boxes": [], "scores": []}
                fused.append(f)
            f["boxes"].append(d["bbox"])
            f["scores"].append(d["score"])
            f["box"] = mean_box(f["boxes"], f["scores"])
        out += [detection(image, category, f["box"],
                          np.mean(f["scores"]) * min(len(f["scores"]), len(members)) / len(members)) for f in fused]
    return out


def suppression(truth, members, rule):
    """NMS, and soft-NMS of Bodla et al. 2017 (Gaussian with sigma 0.5, linear above 0.3)."""
    out = []
    for image, category, found in groups_of(truth, members):
        left = [[d["score"], d["bbox"]] for _, d in found]
        while left:
            best = max(range(len(left)), key=lambda i: left[i][0])
            score, box = left.pop(best)
            if rule != "hard" and score < 0.001:
                break
            out.append(detection(image, category, box, score))
            for other in left:
                o = iou(other[1], box)
                if rule == "hard":
                    other[0] = -1 if o > 0.5 else other[0]
                elif rule == "gaussian":
                    other[0] *= np.exp(-o * o / 0.5)
                elif o > 0.3:
                    other[0] *= 1 - o
            left = [other for other in left if other[0] >= 0]
    return out


def fusion_case(rng, folder):
    """Three members around the same true boxes, what each fusion makes of them, and the stack's rows."""
    truth, _ = at_random(rng, 10, [1, 6], 0.15)
    members = []
    for noise, found_share in ((0.05, 0.9), (0.08, 0.8), (0.12, 0.7)):
        found = []
        for a in truth["annotations"]:
            if rng.random() > found_share:
                continue
            x, y, w, h = a["bbox"]
            moved = np.array([x, y, w, h]) + rng.normal(0, noise, 4) * np.array([w, h, w, h])
            found.append(detection(a["image_id"], a["category_id"], np.round([*moved[:2], *np.abs(moved[2:])], 2),
                                   round(float(rng.beta(5, 2)), 4)))
        for _ in range(25):
            size = np.exp(rng.uniform(np.log(12), np.log(120), 2))
            corner = rng.uniform(0, 1, 2) * (np.array([400, 300]) - size)
            found.append(detection(int(rng.integers(10)), int(rng.choice([1, 6])), np.round([*corner, *size], 2),
                                   round(float(rng.beta(2, 4)), 4)))
        rng.shuffle(found)
        members.append(found)

    def write(name, content):
        (folder / name).write_text(json.dumps(content, separators=(",", ":")) + "\n")

    write("fusion.gt.json", truth)
    for k, found in enumerate(members):
        write("fusion.%d.json" % k, found)
    write("fusion.wbf.json", weighted_boxes_fusion(truth, members))
    for rule in ("hard", "gaussian", "linear"):
        write("fusion.%s.json" % rule, suppression(truth, members, rule))
    rows = clusters(truth, members, 0.55)
    write("fusion.rows.json", [detection(r["image"], r["category"], mean_box(r["boxes"], r["scores"]),
                                         sum(r["scores"]) / len(members)) for r in rows])
    wanted = targets(truth, rows, len(members))
    assert {-1, 0, 1} == set(wanted)
    table = np.zeros((len(rows), len(members)))
    for i, r in enumerate(rows):
        table[i, r["members"]] = r["scores"]
    return wanted, table


# ---- cases ------------------------------------------------------------------------------------------------------------


def annotation(number, image, category, bbox, area=None, crowd=0):
    return {"id": number, "image_id": image, "category_id": category, "bbox": [float(v) for v in bbox],
            "area": float(bbox[2] * bbox[3] if area is None else area), "iscrowd": crowd}


def detection(image, category, bbox, score):
    return {"image_id": image, "category_id": category, "bbox": [float(v) for v in bbox], "score": float(score)}


def frame(images, categories, annotations):
    return {"images": [{"id": i, "width": 400, "height": 300} for i in images],
            "categories": [{"id": c, "name": "kind %d" % c} for c in categories], "annotations": annotations}


def by_hand():
    """Small cases, one rule each."""
    box = (50, 50, 100, 100)
    cases = {}
    # Three boxes in a crowd are neither right nor wrong; the fourth lies beside it.
    cases["crowd"] = (frame([1], [1], [annotation(1, 1, 1, (10, 10, 200, 200), crowd=1), annotation(2, 1, 1, box)]),
                      [detection(1, 1, (20, 20, 40, 40), 0.9), detection(1, 1, (60, 20, 40, 40), 0.8),
                       detection(1, 1, (20, 120, 50, 50), 0.7), detection(1, 1, (250, 20, 40, 40), 0.65),
                       detection(1, 1, (52, 52, 98, 98), 0.6)])
    # A true box whose outline is small though its box is not; and boxes that match nothing, of every size.
    cases["areas"] = (frame([1, 2], [1], [annotation(1, 1, 1, (20, 20, 60, 60), area=900.0),
                                          annotation(2, 1, 1, (150, 20, 30, 30)), annotation(3, 2, 1, (10, 10, 150, 150))]),
                      [detection(1, 1, (22, 20, 60, 60), 0.5), detection(1, 1, (150, 22, 30, 30), 0.9),
                       detection(1, 1, (250, 200, 20, 20), 0.95), detection(2, 1, (250, 200, 60, 60), 0.6),
                       detection(2, 1, (12, 10, 150, 150), 0.4), detection(2, 1, (200, 100, 120, 120), 0.3)])
    # Equal scores within and across images: the order of the file and of the image ids decides.
    cases["ties"] = (frame([5, 3], [1], [annotation(1, 5, 1, box), annotation(2, 3, 1, box)]),
                     [detection(5, 1, (50, 50, 100, 90), 0.5), detection(5, 1, box, 0.5),
                      detection(3, 1, (200, 200, 20, 20), 0.5), detection(3, 1, box, 0.5)])
    # More than a hundred boxes of one image and category, the right ones among the last.
    many = [detection(1, 1, (3 * i, 200, 20, 20), 0.99 - 0.001 * i) for i in range(99)]
    cases["many"] = (frame([1], [1, 2], [annotation(1, 1, 1, box), annotation(2, 1, 1, (200, 20, 50, 50)),
                                         annotation(3, 1, 2, box)]),
                     many + [detection(1, 1, box, 0.5), detection(1, 1, (200, 20, 50, 50), 0.4),
                             detection(1, 2, (300, 20, 20, 20), 0.9), detection(1, 2, box, 0.8)])
    # Images without boxes, without true boxes, without either; a category that nothing is annotated with.
    cases["empty"] = (frame([1, 2, 3, 4], [1, 7], [annotation(1, 1, 1, box), annotation(2, 2, 1, box)]),
                      [detection(1, 1, box, 0.9), detection(3, 1, box, 0.95), detection(1, 7, box, 0.9)])
    cases["nothing"] = (frame([1, 2], [1], [annotation(1, 1, 1, box)]), [])
    cases["untrue"] = (frame([1, 2], [1], []), [detection(1, 1, box, 0.5)])
    # Scores need not be probabilities.
    cases["logits"] = (frame([1], [1], [annotation(1, 1, 1, box), annotation(2, 1, 1, (200, 20, 50, 50))]),
                       [detection(1, 1, box, -3.5), detection(1, 1, (200, 30, 50, 50), 12.0),
                        detection(1, 1, (300, 30, 50, 50), 2.0)])
    return cases


def at_random(rng, images, categories, crowded):
    truths, found = [], []
    for image in range(images):
        for category in categories:
            for _ in range(rng.poisson(2)):
                size = np.exp(rng.uniform(np.log(12), np.log(160), 2))
                corner = rng.uniform(0, 1, 2) * (np.array([400, 300]) - size)
                bbox = np.round([*corner, *size], 2)
                truths.append(annotation(len(truths) + 1, image, category, bbox,
                                         area=round(float(bbox[2] * bbox[3] * rng.uniform(0.5, 1)), 3),
                                         crowd=int(rng.random() < crowded)))
                for _ in range(rng.poisson(1.3)):
                    moved = bbox + rng.normal(0, 0.08, 4) * np.array([size[0], size[1], size[0], size[1]])
                    found.append(detection(image, category, np.round([moved[0], moved[1], *np.abs(moved[2:])], 2),
                                           round(float(rng.beta(4, 2)), 2)))
            for _ in range(rng.poisson(0.8)):
                size = np.exp(rng.uniform(np.log(12), np.log(160), 2))
                corner = rng.uniform(0, 1, 2) * (np.array([400, 300]) - size)
                found.append(detection(image, category, np.round([*corner, *size], 2), round(float(rng.beta(2, 4)), 2)))
    rng.shuffle(found)
    return frame(range(images), categories, truths), found


def main():
    rng = np.random.default_rng(20)
    cases = by_hand()
    cases["random"] = at_random(rng, 12, [2, 3, 11], 0)
    cases["random_crowd"] = at_random(rng, 10, [1, 4], 0.25)
    folder = OUT / "detection"
    folder.mkdir(parents=True, exist_ok=True)
    names, figures, each = [], [], []
    for name, (truth, found) in cases.items():
        (folder / (name + ".gt.json")).write_text(json.dumps(truth, separators=(",", ":")) + "\n")
        (folder / (name + ".dt.json")).write_text(json.dumps(found, separators=(",", ":")) + "\n")
        scores, by_category = evaluate(truth, found)
        names.append(name)
        figures.append(scores)
        each.append(by_category + [-2.0] * (3 - len(by_category)))
    lines = ["/* Written by tests/oracles/detection.py. */", "#ifndef CST_TEST_DETECTION_DATA_H",
             "#define CST_TEST_DETECTION_DATA_H", "", "enum { DETECTION_CASES = %d };" % len(names),
             "static const char *const DETECTION_NAMES[] = {%s};" % ", ".join('"%s"' % n for n in names),
             "/* " + ", ".join(FIGURES) + " */", "static const double DETECTION_FIGURES[][12] = {"]
    lines += ["    {%s}," % ", ".join("%.17g" % v for v in row) for row in figures]
    lines += ["};", "/* AP of each category; -2: there is no such category. */",
              "static const double DETECTION_CATEGORIES[][3] = {"]
    lines += ["    {%s}," % ", ".join("%.17g" % v for v in row) for row in each]
    wanted, table = fusion_case(rng, folder)
    lines += ["};", "/* Rows of the stack for fusion.*.json: targets, and scores of the three members. */",
              "enum { FUSION_ROWS = %d };" % len(wanted),
              "static const int FUSION_TARGETS[] = {%s};" % ", ".join(map(str, wanted)),
              "static const double FUSION_SCORES[][3] = {"]
    lines += ["    {%s}," % ", ".join("%.17g" % v for v in row) for row in table]
    lines += ["};", "", "#endif", ""]
    (OUT / "detection.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
