"""Plain NumPy scores of the dense and the regression pools: mean IoU, AP at IoU 0.5, RMSE.

Independent of corestack: the scripts that make pools print them, and experiments/tasks/reference.py uses them for comparison.
Paper: the metrics of section "Dense Prediction".
"""
import numpy as np


def rmse(predictions, targets):
    """Root of the mean square over rows and outputs."""
    return float(np.sqrt(np.mean((np.asarray(predictions, np.float64) - targets) ** 2)))


def mean_iou(predictions, labels, ignore):
    """Mean over the classes of intersection over union, from one confusion matrix. predictions: an iterable of [H, W, C]
    maps; classes that neither the labels nor the predictions hold are left out."""
    matrix = 0
    for p, y in zip(predictions, labels):
        classes, kept = p.shape[-1], y != ignore
        cells = y[kept].astype(np.int64) * classes + p[kept].argmax(-1)
        matrix = matrix + np.bincount(cells, minlength=classes * classes).reshape(classes, classes)
    hit, union = np.diag(matrix), matrix.sum(0) + matrix.sum(1) - np.diag(matrix)
    return float(np.mean(hit[union > 0] / union[union > 0]))


def box_iou(a, b):
    """[A, B] of two lists of x, y, w, h."""
    a, b = np.asarray(a, np.float64).reshape(-1, 4), np.asarray(b, np.float64).reshape(-1, 4)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    inner = np.prod(np.clip(high - low, 0, None), axis=-1)
    return inner / np.maximum(np.prod(a[:, 2:], 1)[:, None] + np.prod(b[:, 2:], 1)[None] - inner, 1e-12)


def class_matches(annotations, results, category, threshold):
    """(scores, hit) of one class's detections over all images, best score first; each box of the truth is given once."""
    truth, found = {}, {}
    for box in annotations["annotations"]:
        if box["category_id"] == category:
            truth.setdefault(box["image_id"], []).append(box["bbox"])
    for box in results:
        if box["category_id"] == category:
            found.setdefault(box["image_id"], []).append((box["score"], box["bbox"]))
    scores, hits = [], []
    for image, boxes in found.items():
        boxes = sorted(boxes, key=lambda b: -b[0])[:100]
        free = np.ones(len(truth.get(image, [])), dtype=bool)
        overlap = box_iou([b for _, b in boxes], truth.get(image, []))
        for (score, _), row in zip(boxes, overlap):
            row = np.where(free, row, -1.0)
            best = int(row.argmax()) if len(row) else -1
            hit = best >= 0 and row[best] >= threshold
            if hit:
                free[best] = False
            scores.append(score)
            hits.append(hit)
    order = np.argsort(-np.array(scores), kind="stable")
    return np.array(hits, dtype=bool)[order], sum(map(len, truth.values()))


def average_precision(annotations, results, threshold=0.5):
    """AP by category id: precision made monotone and read at 101 recalls, as COCO does; no crowds, all areas."""
    out = {}
    for category in annotations["categories"]:
        hits, count = class_matches(annotations, results, category["id"], threshold)
        if not count:
            continue
        true = np.cumsum(hits)
        recall, precision = true / count, true / np.arange(1, len(hits) + 1)
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        at = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
        out[category["id"]] = float(np.mean([precision[i] if i < len(precision) else 0.0 for i in at]))
    return out


def mean_ap50(annotations, results):
    return float(np.mean(list(average_precision(annotations, results).values())))
