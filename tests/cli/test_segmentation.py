"""Segmentation through the tool: every way that maps and masks may be stored, scores against NumPy, output formats,
and one clear line for what is wrong."""

import json
import os
import struct
import subprocess
import threading
import zlib

import numpy as np
from scipy.optimize import minimize

from support import SOURCES, TIMEOUT, TOOL, PoolCase, run, slow, softmax

CASES, HEIGHT, WIDTH, CLASSES = 6, 12, 15, 4
IGNORE = 255


def blobs(rng, cases, height, width, classes):
    """Masks with regions a few pixels wide."""
    noise = rng.normal(size=(cases, classes, height, width))
    for axis in (2, 3):
        noise = noise + np.roll(noise, 1, axis) + np.roll(noise, -1, axis) + np.roll(noise, 2, axis)
    return noise.argmax(1)


def maps(rng, masks, classes, skill):
    truth = np.eye(classes)[np.minimum(masks, classes - 1)]
    scores = skill * truth + rng.normal(size=truth.shape)
    return softmax(scores.reshape(-1, classes)).reshape(truth.shape)


def write_png(path, labels):
    height, width = labels.shape
    rows = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in labels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def read_png(path):
    """Grey or palette, 8 bits, any filter; an independent reader."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (bits, interlaced) == (8, 0) and colour in (0, 3)
        if kind == b"IDAT":
            packed += body
        at += 12 + size
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width + 1)
    out = np.zeros((height, width), int)
    for y in range(height):
        kind, line = raw[y, 0], raw[y, 1:].astype(int)
        for x in range(width):
            left = out[y, x - 1] if x else 0
            up = out[y - 1, x] if y else 0
            corner = out[y - 1, x - 1] if x and y else 0
            guess = left + up - corner
            paeth = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            out[y, x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
    return out


def scores(probabilities, masks, classes=CLASSES, predicted=None):
    keep = masks != IGNORE
    predicted = probabilities.argmax(-1) if predicted is None else predicted
    y, guess = masks[keep], predicted[keep]
    confusion = np.bincount(y * classes + guess, minlength=classes ** 2).reshape(classes, classes).astype(float)
    hit, label, found = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    with np.errstate(all="ignore"):
        out = {"miou": np.nanmean(hit / (label + found - hit)), "dice": np.nanmean(2 * hit / (label + found)),
               "pixel_accuracy": hit.sum() / confusion.sum(), "mean_accuracy": np.nanmean(hit / label)}
    if probabilities is not None:
        p = probabilities[keep].astype(float)
        out["nll"] = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean()
        out["brier"] = ((p - np.eye(classes)[y]) ** 2).sum(1).mean()
    return out


class Segmentation(PoolCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(7)
        self.masks, self.maps = {}, {}
        for split, cases in (("oof", CASES), ("test", 4)):
            masks = blobs(rng, cases, HEIGHT, WIDTH, CLASSES)
            for k, name in enumerate(("ada", "bob", "cyd")):
                self.maps[name, split] = maps(rng, masks, CLASSES, 1.0 + 0.7 * k)
            masks[rng.random(masks.shape) < 0.08] = IGNORE
            self.masks[split] = masks.astype(np.uint8)
            self.save(f"{split}_masks.npy", self.masks[split])
            for name in ("ada", "bob", "cyd"):
                self.save(f"{name}.{split}.maps.npy", self.maps[name, split])
        self.segmentation = {
            "corestack_pool": 1, "task": "segmentation", "classes": ["a", "b", "c", "d"],
            "splits": {s: {"labels": f"{s}_masks.npy"} for s in ("oof", "test")},
            "models": [{"name": n, "flops": f, "predictions": {s: f"{n}.{s}.maps.npy" for s in ("oof", "test")}}
                       for n, f in (("ada", 1), ("bob", 2), ("cyd", 3))],
        }
        self.pool = self.path("seg.json")
        self.write_pool(self.segmentation)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_pool(self, manifest):
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def fit(self, name="m.cstack", *more, nested=False):
        done = run("fit", self.pool, "-o", self.path(name), "--set", "folds.count=3", "--set",
                   "segment.decision=argmax", "--set", f"evaluate.nested={str(nested).lower()}", "--json", *more)
        self.assertEqual(done.code, 0, done.err)
        return done.json()

    def folder_of(self, name, split, first=True, extension="npz", volumes=False, half=False, zipped=True):
        """A folder with one file for each case, as nnU-Net writes it by default."""
        folder = self.path(f"{name}_{split}_cases")
        os.makedirs(folder, exist_ok=True)
        for n, p in enumerate(self.maps[name, split]):
            p = np.moveaxis(p, -1, 0) if first else p
            p = p[:, None] if volumes else p
            p = p.astype(np.float16) if half else p
            file = os.path.join(folder, f"case{n}.{extension}")
            if extension == "npz":
                (np.savez_compressed if zipped else np.savez)(file, probabilities=p)
            else:
                np.save(file, p)
        with open(os.path.join(folder, "case0.pkl"), "w", encoding="utf-8") as file:
            file.write("nnU-Net leaves other files beside")
        return os.path.basename(folder)

    def masks_folder(self, split, extension="png"):
        folder = self.path(f"{split}_mask_cases")
        os.makedirs(folder, exist_ok=True)
        for n, mask in enumerate(self.masks[split]):
            file = os.path.join(folder, f"case{n}.{extension}")
            write_png(file, mask) if extension == "png" else np.save(file, mask.astype(np.int64))
        return os.path.basename(folder)

    def model_bytes(self, name, *more):
        self.fit(name, *more)
        return self.read(self.path(name))

    def refused(self, expected, *arguments):
        done = run(*(arguments or ("fit", self.pool, "-o", self.path("x.cstack"))))
        self.assertEqual(done.code, 2, done.err + done.out)
        self.assertIn(expected, done.err)
        self.assertEqual(len(done.err.strip().splitlines()), 1, done.err)
        self.assertFalse(os.path.exists(self.path("x.cstack")))

    # ---- storage ---------------------------------------------------------------------------------------------------

    def test_every_storage_gives_the_same_model(self):
        expected = self.model_bytes("arrays.cstack")
        for split in ("oof", "test"):
            self.segmentation["splits"][split]["labels"] = self.masks_folder(split)
        kinds = ({}, {"extension": "npy", "first": False}, {"zipped": False, "volumes": True})
        for member, kind in zip(self.segmentation["models"], kinds):
            for split in ("oof", "test"):
                member["predictions"][split] = self.folder_of(member["name"], split, **kind)
        self.write_pool(self.segmentation)
        self.assertEqual(self.model_bytes("folders.cstack"), expected)
        for member in self.segmentation["models"]:
            np.save(self.path(f"{member['name']}_first.npy"), np.moveaxis(self.maps[member["name"], "oof"], -1, 1))
            member["predictions"]["oof"] = f"{member['name']}_first.npy"
        self.segmentation["layout"] = "channels-first"
        for split in ("oof", "test"):
            self.segmentation["splits"][split]["labels"] = self.masks_folder(split, "npy")
            for n in range(CASES):
                if os.path.exists(self.path(f"{split}_mask_cases/case{n}.png")):
                    os.remove(self.path(f"{split}_mask_cases/case{n}.png"))
        self.write_pool(self.segmentation)
        self.assertEqual(self.model_bytes("first.cstack"), expected)

    def test_disk_and_threads_change_nothing(self):
        # Beyond three eighths of 64 MiB, predictions stay on disk.
        rng = np.random.default_rng(1)
        masks = blobs(rng, 8, 160, 200, CLASSES)
        self.save("oof_masks.npy", masks.astype(np.uint8))
        for k, member in enumerate(self.segmentation["models"]):
            p = maps(rng, masks, CLASSES, 1.0 + k)
            self.save(f"{member['name']}.oof.maps.npy", p.astype(np.float16) if k == 0 else p)
            if k == 1:
                np.save(self.path("bob_first.npy"), np.moveaxis(p, -1, 1))
                member["predictions"]["oof"] = "bob_first.npy"
        self.segmentation["models"] += [dict(m, name=m["name"] + "2") for m in self.segmentation["models"]]
        self.write_pool(self.segmentation)
        small = ("--memory", "64MiB", "--set", "segment.pixels=1000", "--set", "redundancy.measure=none")
        large = ("--memory", "2GiB", *small[2:])
        models = [self.model_bytes(f"{i}.cstack", *more, "--threads", threads)
                  for i, (more, threads) in enumerate([(small, 1), (large, 2)])]
        self.assertEqual(models[0], models[1])
        files = []
        for i, (memory, threads) in enumerate((("64MiB", 1), ("2GiB", 2))):
            out = self.path(f"out{i}.npy")
            done = run("predict", self.path("0.cstack"), self.pool, "--split", "oof", "-o", out, "--memory", memory,
                       "--threads", threads)
            self.assertEqual(done.code, 0, done.err)
            files.append(self.read(out))
        self.assertEqual(files[0], files[1])

    def test_cases_of_several_sizes(self):
        rng = np.random.default_rng(3)
        for name in ("masks", "ada", "bob"):
            os.makedirs(self.path("mixed_" + name))
        everything = []
        for n, (height, width) in enumerate(((9, 11), (7, 13), (12, 8), (10, 10))):
            mask = blobs(rng, 1, height, width, CLASSES)
            write_png(self.path(f"mixed_masks/x{n}.png"), mask[0])
            for k, name in enumerate(("ada", "bob")):
                p = maps(rng, mask, CLASSES, 1.5 + k)[0]
                np.save(self.path(f"mixed_{name}/x{n}.npy"), p)
                everything.append((name, mask[0], p))
        self.segmentation["splits"] = {"oof": {"labels": "mixed_masks"}}
        self.segmentation["models"] = [{"name": n, "predictions": {"oof": "mixed_" + n}} for n in ("ada", "bob")]
        self.write_pool(self.segmentation)
        self.fit()
        out = self.path("maps")
        self.assertEqual(run("predict", self.path("m.cstack"), self.pool, "--split", "oof", "-o", out).code, 0)
        self.assertEqual(sorted(os.listdir(out)), [f"x{n}.npy" for n in range(4)])
        self.assertEqual(np.load(self.path("maps/x1.npy")).shape, (7, 13, CLASSES))
        self.refused("differ in size", "predict", self.path("m.cstack"), self.pool, "--split", "oof", "-o",
                     self.path("one.npy"))
        self.assertFalse(os.path.exists(self.path("one.npy")))
        done = run("evaluate", out, "--labels", self.path("mixed_masks"), "--task", "segmentation", "--classes", CLASSES,
                   "--json")
        self.assertEqual(done.code, 0, done.err)
        predicted = np.concatenate([np.load(self.path(f"maps/x{n}.npy")).reshape(-1, CLASSES) for n in range(4)])
        truth = np.concatenate([m.ravel() for name, m, _ in everything if name == "ada"])
        self.close(done.json(), scores(predicted, truth))

    def test_logits_and_splits_without_masks(self):
        self.segmentation["output"] = "logit"
        expected = None
        for kind in (np.float64, np.float16):
            for member in self.segmentation["models"]:
                for split in ("oof", "test"):
                    p = self.maps[member["name"], split].astype(np.float64)
                    scores_of = np.log(p) + 3.0
                    member["predictions"][split] = f"{member['name']}.{split}.logit.npy"
                    self.save(member["predictions"][split], scores_of.astype(kind))
            self.segmentation["splits"]["test"] = {}
            self.write_pool(self.segmentation)
            self.fit()
            out = self.path(f"{kind.__name__}.npy")
            self.works("predict", self.path("m.cstack"), self.pool, "-o", out)
            self.assertEqual(np.load(out).shape, (4, HEIGHT, WIDTH, CLASSES))
            if expected is not None:
                self.assertLess(abs(np.load(out) - expected).max(), 0.01)
            expected = np.load(out)
        self.refused("has no masks", "evaluate", self.path("m.cstack"), self.pool)
        self.segmentation["output"] = "probability"
        self.write_pool(self.segmentation)
        self.refused("if these are logits")

    def test_too_few_cases_for_folds(self):
        self.save("oof_masks.npy", self.masks["oof"][:3])
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.oof.maps.npy", self.maps[name, "oof"][:3])
        self.refused("folds.count")

    def test_what_there_is_not(self):
        self.refused("out-of-distribution", "compare", self.pool, "--ood", "test")

    # ---- scores ----------------------------------------------------------------------------------------------------

    def close(self, found, expected, tolerance=1e-8):
        for key, value in expected.items():
            self.assertAlmostEqual(found[key], value, delta=tolerance * max(1, abs(value)), msg=key)

    def test_scores_are_numpys(self):
        self.fit()
        for extension in (".npy", ""):
            out = self.path("out" + extension)
            done = run("predict", self.path("m.cstack"), self.pool, "-o", out, "--json")
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(done.json()["cases"], 4)
        p = np.load(self.path("out.npy"))
        self.assertEqual((p.shape, p.dtype), ((4, HEIGHT, WIDTH, CLASSES), np.float32))
        for n in range(4):
            self.assertTrue((np.load(self.path(f"out/{n:05d}.npy")) == p[n]).all())
        expected = scores(p, self.masks["test"])
        done = run("evaluate", self.path("m.cstack"), self.pool, "--baselines", "-r", 200, "--json")
        found = done.json()
        self.close(found, expected, 1e-6)
        self.assertLess(found["miou_ci"][0], found["miou"])
        self.assertLess(found["miou"], found["miou_ci"][1])
        self.assertFalse(found["seen_in_fitting"])
        average = np.mean([self.maps[n, "test"] for n in ("ada", "bob", "cyd")], 0)
        rows = {row["method"]: row for row in found["baselines"]}
        self.close(rows["average"], scores(average, self.masks["test"]), 1e-6)
        self.close(rows["best-single"], scores(self.maps["cyd", "test"], self.masks["test"]), 1e-6)
        self.assertEqual(rows["best-single"]["detail"], "cyd")
        for maps_file in ("out.npy", "out"):
            again = run("evaluate", self.path(maps_file), "--labels", self.path("test_masks.npy"), "--task",
                        "segmentation", "--classes", CLASSES, "--json").json()
            self.close(again, expected, 1e-6)
        keep = self.masks["test"] != IGNORE
        counts = np.zeros((CLASSES, CLASSES), int)
        np.add.at(counts, (self.masks["test"][keep], p.argmax(-1)[keep]), 1)
        self.assertEqual(found["confusion"], counts.tolist())
        seen = run("evaluate", self.path("m.cstack"), self.pool, "--split", "oof", "--json").json()
        self.assertTrue(seen["seen_in_fitting"])

    def test_maps_of_the_fit_under_another_name(self):
        self.fit()
        for split, told in (("other", True), ("changed", False)):
            self.segmentation["splits"][split] = dict(self.segmentation["splits"]["oof"])
            for model in self.segmentation["models"]:
                maps_file = self.path(f"{model['name']}.{split}.npy")
                p = self.maps[model["name"], "oof"]
                np.save(maps_file, p if told else p[..., ::-1].copy())
                model["predictions"][split] = os.path.basename(maps_file)
            self.write_pool(self.segmentation)
            done = run("evaluate", self.path("m.cstack"), self.pool, "--split", split, "--json").json()
            self.assertIs(done["seen_in_fitting"], told)
            self.assertEqual(any(f"rows of split '{split}'" in notice for notice in done["notices"]), told)

    def test_label_maps(self):
        self.fit()
        for kind, out in (("labels", "labels.npy"), ("labels", "labels"), ("png", "png"), ("maps-float16", "half.npy"),
                          ("maps", "out.npy")):
            done = run("predict", self.path("m.cstack"), self.pool, "-o", self.path(out), "--format", kind)
            self.assertEqual(done.code, 0, done.err)
        p = np.load(self.path("out.npy"))
        labels = np.load(self.path("labels.npy"))
        self.assertEqual(labels.dtype, np.uint8)
        self.assertTrue((labels == p.argmax(-1)).all())
        half = np.load(self.path("half.npy"))
        self.assertEqual(half.dtype, np.float16)
        self.assertTrue((half == p.astype(np.float16)).all())
        self.assertEqual(sorted(os.listdir(self.path("png"))), [f"{n:05d}.png" for n in range(4)])
        for n in range(4):
            self.assertTrue((read_png(self.path(f"png/{n:05d}.png")) == labels[n]).all())
            self.assertTrue((np.load(self.path(f"labels/{n:05d}.npy")) == labels[n]).all())
        expected = scores(None, self.masks["test"], predicted=labels)
        for name in ("labels.npy", "labels", "png"):
            done = run("evaluate", self.path(name), "--labels", self.path("test_masks.npy"), "--task", "segmentation",
                       "--classes", CLASSES, "--json")
            self.assertEqual(done.code, 0, done.err)
            self.close(done.json(), expected)
            self.assertIsNone(done.json()["nll"])

    def test_compare_is_nested_over_cases(self):
        methods = ("average", "best-single", "default")
        done = run("compare", self.pool, "--methods", ",".join(methods), "--set", "folds.count=3", "--set",
                   "segment.decision=argmax", "-r", 50, "--json")
        self.assertEqual(done.code, 0, done.err)
        document = done.json()
        rows = {row["method"]: row for row in document["rows"]}
        self.assertEqual(document["scored"], "nested")
        average = np.mean([self.maps[n, "oof"] for n in ("ada", "bob", "cyd")], 0)
        self.close(rows["average"], scores(average, self.masks["oof"]), 1e-6)
        self.close(rows["best-single"], scores(self.maps["cyd", "oof"], self.masks["oof"]), 1e-6)
        for row in rows.values():
            self.assertLessEqual(row["miou_ci"][0], row["miou_ci"][1])
        self.assertEqual(rows["best-single"]["models"], 1)
        self.assertAlmostEqual(rows["best-single"]["flops_rel"], 0.5)
        self.assertEqual(len(document["tests"]), 4)
        fit = self.fit(nested=True)
        self.close(fit["oof"], {k: rows["default"][k] for k in ("miou", "nll", "ece", "boundary_error")}, 1e-9)
        held = run("compare", self.pool, "--methods", "average", "--split", "test", "-r", 0, "--json").json()
        average = np.mean([self.maps[n, "test"] for n in ("ada", "bob", "cyd")], 0)
        self.close(held["rows"][0], scores(average, self.masks["test"]), 1e-6)
        self.assertEqual(held["scored"], "held-out")
        for extra in ((), ("--csv",), ("--markdown",)):
            text = run("compare", self.pool, "--methods", "average,default", "--split", "test", "-r", 0, *extra)
            self.assertEqual(text.code, 0, text.err)
            self.assertIn("mIoU" if "--csv" not in extra else "miou", text.out)

    def make_large(self):
        """Cases so large that another order of their pixels shows."""
        rng = np.random.default_rng(1)
        for split, cases in (("oof", 6), ("test", 4)):
            masks = blobs(rng, cases, 24, 30, CLASSES)
            self.save(f"{split}_masks.npy", masks.astype(np.uint8))
            for name in ("ada", "bob", "cyd"):
                self.maps[name, split] = maps(rng, masks, CLASSES, 2.5)
                self.save(f"{name}.{split}.maps.npy", self.maps[name, split])

    def test_maps_of_your_own(self):
        """--with: probability maps as an array, in folders with the classes first, and label maps, nested and held out."""
        average = {split: np.mean([self.maps[n, split] for n in ("ada", "bob", "cyd")], 0) for split in ("oof", "test")}
        for split, found in average.items():
            self.save(f"own.{split}.npy", found)
            os.makedirs(self.path(f"own-{split}"), exist_ok=True)
            for i, case in enumerate(found):
                np.save(self.path(f"own-{split}/{i:02}.npy"), case.transpose(2, 0, 1))
            self.save(f"labels.{split}.npy", found.argmax(-1).astype(np.uint8))
            rows = run("compare", self.pool, "--split", split, "--methods", "average", "-r", 50, "--json", "--set", "folds.count=3",
                       "--with", f"array={self.path(f'own.{split}.npy')}", "--with", f"folder={self.path(f'own-{split}')}",
                       "--with", f"labels={self.path(f'labels.{split}.npy')}").json()["rows"]
            self.assertEqual([r["method"] for r in rows], ["average", "array", "folder", "labels"])
            for row in rows[1:]:
                for key in ("miou", "dice", "boundary_iou", "pixel_accuracy"):
                    self.assertEqual((row[key], row[f"{key}_ci"]), (rows[0][key], rows[0][f"{key}_ci"]))
                self.assertEqual(row["difference"]["miou"], 0)
            self.close(rows[1], scores(average[split], self.masks[split]), 1e-6)
            self.assertAlmostEqual(rows[2]["nll"], rows[0]["nll"], places=6)
            self.assertIsNone(rows[3]["nll"])
        text = run("compare", self.pool, "--split", "test", "--methods", "average", "-r", 50, "--with",
                   f"labels={self.path('labels.test.npy')}")
        self.assertEqual(text.code, 0, text.err)
        self.refused("has 6 cases, but", "compare", self.pool, "--methods", "average", "--split", "test", "--with",
                     self.path("labels.oof.npy"))
        self.refused("has 6 cases, but", "compare", self.pool, "--methods", "average", "--split", "test", "--with", self.path("own-oof"))
        self.make_large()
        wrong = np.ascontiguousarray(self.maps["cyd", "test"][:, :, ::-1])
        self.save("wrong.npy", wrong)
        found = run("compare", self.pool, "--methods", "average", "-r", 0, "--split", "test", "--with", self.path("wrong.npy"), "--json").json()
        self.assertTrue(any("split 'wrong': 1 of 1 members fit the labels much better" in n for n in found["notices"]), found["notices"])

    def test_maps_against_maps(self):
        masks = self.path("test_masks.npy")
        first, second = self.path("ada.test.maps.npy"), self.path("cyd.test.maps.npy")
        self.save("labels.npy", self.maps["ada", "test"].argmax(-1).astype(np.uint8))
        common = ("--labels", masks, "--task", "segmentation", "--classes", CLASSES, "-r", 100, "--json")
        alone = [run("evaluate", path, *common).json() for path in (first, second)]
        for path in (first, self.path("labels.npy")):
            found = run("evaluate", path, *common, "--against", second).json()
            other = found["baselines"][0]
            self.assertEqual((other["method"], len(found["baselines"])), ("cyd.test.maps.npy", 1))
            for key in ("miou", "boundary_iou", "pixel_accuracy"):
                self.assertEqual((found[key], found[f"{key}_ci"]), (alone[0][key], alone[0][f"{key}_ci"]))
                self.assertEqual((other[key], other[f"{key}_ci"]), (alone[1][key], alone[1][f"{key}_ci"]))
                low, high = other["difference"][f"{key}_ci"]
                self.assertTrue(low <= other["difference"][key] <= high)
            self.assertAlmostEqual(other["difference"]["miou"], other["miou"] - found["miou"], places=9)
        self.assertIsNone(found["nll"])
        reverse = run("evaluate", second, *common, "--against", self.path("labels.npy")).json()["baselines"][0]
        self.assertIsNone(reverse["nll"])
        self.refused("--against", "evaluate", "m.cstack", self.pool, "--against", second)

    def test_predict_names_a_member_in_another_order(self):
        """Without labels, by the average of the members; nothing is said of maps as they were fitted."""
        self.make_large()
        self.fit("m.cstack")
        predict = ("predict", self.path("m.cstack"), self.pool, "-o", self.path("l.npy"), "--format", "labels", "--guard", "off")
        self.assertEqual(run(*predict).err, "")
        for changed, words in ((lambda m: m[:, :, ::-1], "'bob' would fit the members' average much better"),
                               (lambda m: m[..., [1, 2, 3, 0]], "the columns of 'bob' are probably in another order")):
            self.save("bob.test.maps.npy", np.ascontiguousarray(changed(self.maps["bob", "test"])))
            self.assertIn(words, run(*predict).err)
            found = run("evaluate", self.path("m.cstack"), self.pool, "--json").json()
            self.assertTrue(any("'bob'" in notice for notice in found["notices"]), found["notices"])

    @slow
    def test_broken_members_take_no_part(self):
        """As if they were not in the pool; every output names the right member."""
        few = ("--set", "segment.decision=argmax", "--set", "folds.count=3", "-r", 0, "--methods", "average,default")
        self.make_large()
        whole = dict(self.segmentation, models=self.segmentation["models"][1:])
        self.write_pool(whole)
        expected = self.fit(nested=True)
        rows = run("compare", self.pool, *few, "--json").json()["rows"]
        held = run("compare", self.pool, *few, "--split", "test", "--json").json()["rows"]
        self.write_pool(self.segmentation)
        for changed, words in ((lambda m: m[:, :, ::-1], "flipped left to right"), (lambda m: m[:, ::-1], "upside down"),
                               (lambda m: m[..., [1, 0, 3, 2]], "columns of 'ada' are probably in another order")):
            self.save("ada.oof.maps.npy", np.ascontiguousarray(changed(self.maps["ada", "oof"])))
            found = self.fit(nested=True)
            self.assertEqual(found["oof"], expected["oof"])
            self.assertEqual([m["name"] for m in found["members"]], ["bob", "cyd"])
            self.assertEqual(found["findings"][0]["members"], ["ada"])
            self.assertIn(words, found["notices"][0])
            self.assertIn("'ada' takes no part in the fit", found["notices"][1])
            self.assertEqual(len(found["notices"]), 2)
        compared = run("compare", self.pool, *few, "--json").json()
        self.assertEqual((compared["models_in"], compared["findings"][0]["members"]), (2, ["ada"]))
        self.assertIn("'ada' takes no part", compared["notices"][1])
        with_test = run("compare", self.pool, *few, "--split", "test", "--json").json()["rows"]
        for found, wanted in ((compared["rows"], rows), (with_test, held)):
            self.assertEqual([r["miou"] for r in found], [r["miou"] for r in wanted])
            self.assertEqual([r["nll"] for r in found], [r["nll"] for r in wanted])
        scored = run("evaluate", self.path("m.cstack"), self.pool, "--baselines", "--json").json()
        self.assertEqual(scored["baselines"][1]["miou"], held[0]["miou"])  # the average of two
        kept = self.fit("k.cstack", "--set", "checks=off")
        self.assertEqual((len(kept["members"]), kept["notices"]), (3, []))
        shown = run("show", self.path("m.cstack"), self.pool, "--json").json()
        self.assertEqual(shown["notices"], [])

    def test_compact_is_no_worse_than_an_average(self):
        """Of as many members: every pair of three."""
        rows = run("compare", self.pool, "--methods", "default,compact", "--set", "keep.max=2", "--set", "folds.count=3", "-r", 0,
                   "--json").json()["rows"]
        pairs = [np.mean([self.maps[n, "oof"] for n in pair], 0) for pair in (("ada", "bob"), ("ada", "cyd"), ("bob", "cyd"))]
        for row in rows:
            self.assertLessEqual(row["models"], 2)
            self.assertLess(row["nll"], min(scores(p, self.masks["oof"])["nll"] for p in pairs))
            self.assertGreater(row["miou"], max(scores(p, self.masks["oof"])["miou"] for p in pairs) - 0.02)

    def test_palette(self):
        """Colours of PASCAL VOC by their own rule: label 3 is (128, 128, 0), label 15 (192, 128, 128)."""
        self.fit("m.cstack")
        run("predict", self.path("m.cstack"), self.pool, "-o", self.path("png"), "--format", "png")
        data = open(self.path("png/00000.png"), "rb").read()
        at = data.index(b"PLTE") + 4
        colours = [tuple(data[at + 3 * i:at + 3 * i + 3]) for i in range(16)]
        self.assertEqual([colours[i] for i in (0, 1, 3, 15)], [(0, 0, 0), (128, 0, 0), (128, 128, 0), (192, 128, 128)])
        run("predict", self.path("m.cstack"), self.pool, "-o", self.path("l.npy"), "--format", "labels")
        np.testing.assert_array_equal(read_png(self.path("png/00000.png")), np.load(self.path("l.npy"))[0])
        self.refused("id map cityscapes is of 19 classes, but the model has 4", "predict", self.path("m.cstack"), self.pool, "-o",
                     self.path("x"), "--format", "png", "--id-map", "cityscapes")

    def test_ids_of_a_data_set(self):
        """Class numbers become ids: of Cityscapes' labels.py with its colours, of a list and of lines."""
        rng = np.random.default_rng(2)
        masks = rng.integers(0, 19, (4, 9, 10))
        self.save("m.npy", masks.astype(np.uint8))
        for name in ("a", "b"):
            self.save(f"{name}.npy", maps(rng, masks, 19, 2.0))
        self.write_pool({"corestack_pool": 1, "task": "segmentation", "classes": 19, "splits": {"oof": {"labels": "m.npy"}},
                         "models": [{"name": n, "predictions": {"oof": f"{n}.npy"}} for n in ("a", "b")]})
        self.fit("m.cstack")
        predict = ("predict", self.path("m.cstack"), self.pool, "--split", "oof")
        run(*predict, "-o", self.path("plain.npy"), "--format", "labels")
        plain = np.load(self.path("plain.npy"))
        city = np.array([7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33])
        self.assertEqual(run(*predict, "-o", self.path("png"), "--format", "png", "--id-map", "cityscapes").code, 0)
        for n in range(4):
            np.testing.assert_array_equal(read_png(self.path(f"png/{n:05}.png")), city[plain[n]])
        data = open(self.path("png/00000.png"), "rb").read()
        colours = [tuple(data[at:at + 3]) for at in range(data.index(b"PLTE") + 4, data.index(b"PLTE") + 4 + 3 * 34, 3)]
        self.assertEqual([colours[i] for i in (0, 7, 21, 23, 26, 33)],
                         [(0, 0, 0), (128, 64, 128), (107, 142, 35), (70, 130, 180), (0, 0, 142), (119, 11, 32)])
        large = rng.permutation(65536)[:19]
        lines = "".join(f"{c},{large[c]}\n" for c in rng.permutation(19))
        for text, ids, kind in ((json.dumps(city.tolist()), city, np.uint8), (json.dumps(large.tolist()), large, np.uint16),
                                (lines, large, np.uint16), ("class_index,id\r\n" + lines.replace("\n", "\r\n"), large, np.uint16)):
            with open(self.path("ids"), "w", encoding="utf-8", newline="") as file:
                file.write(text)
            done = run(*predict, "-o", self.path("ids.npy"), "--format", "labels", "--id-map", self.path("ids"))
            self.assertEqual(done.code, 0, done.err)
            np.testing.assert_array_equal(np.load(self.path("ids.npy")), ids[plain])
            self.assertEqual(np.load(self.path("ids.npy")).dtype, kind)
            os.remove(self.path("ids.npy"))
        for text in ("[1, 2]", "0,7\n", lines + "0,7\n", lines.replace("3,", "19,", 1), "[" + "1," * 18 + "65536]", "[" + "1," * 18 + "-1]",
                     lines + "x", "0,0\n" * 19, " "):
            with open(self.path("ids"), "w", encoding="utf-8") as file:
                file.write(text)
            self.refused("an id map is a JSON list of 19 ids", *predict, "-o", self.path("x"), "--format", "png", "--id-map", self.path("ids"))
        self.refused("--format png", *predict, "-o", self.path("x.npy"), "--id-map", "cityscapes")

    def test_names_with_a_shared_end(self):
        """Masks CASE_gtFine_labelTrainIds.png and maps CASE_leftImg8bit.npy are of the same cases."""
        for split in ("oof", "test"):
            for folder, end in ((f"{split}_gt", "_gtFine_labelTrainIds.png"), (f"{split}_ada", "_leftImg8bit.npy")):
                os.mkdir(self.path(folder))
                for n, mask in enumerate(self.masks[split]):
                    path = self.path(f"{folder}/town_{n:03}{end}")
                    if end.endswith("png"):
                        write_png(path, mask)
                    else:
                        np.save(path, self.maps["ada", split][n])
            self.segmentation["splits"][split]["labels"] = f"{split}_gt"
            self.segmentation["models"][0]["predictions"][split] = f"{split}_ada"
        before = self.fit("a.cstack", nested=True)
        self.write_pool(self.segmentation)
        after = self.fit("b.cstack", nested=True)
        self.assertEqual(before["oof"]["miou"], after["oof"]["miou"])
        run("predict", self.path("b.cstack"), self.pool, "-o", self.path("out"), "--format", "png")
        self.assertEqual(sorted(os.listdir(self.path("out")))[0], "town_000.png")

    def test_several_ignored_labels(self):
        masks = self.masks["oof"].astype(np.int16)
        masks[masks == IGNORE] = np.where(np.arange((masks == IGNORE).sum()) % 2, 254, -1)
        self.save("oof_masks.npy", masks)
        self.refused("labels must be 0 to 3", "fit", self.pool, "-o", self.path("x.cstack"))
        self.segmentation["ignore"] = [255, 254, -1]
        self.write_pool(self.segmentation)
        self.assertEqual(self.fit()["ignored"], int((self.masks["oof"] == IGNORE).sum()))
        ignored = int((self.masks["oof"] == IGNORE).sum())
        self.segmentation["ignore"] = 7
        self.write_pool(self.segmentation)
        self.assertEqual(self.fit("y.cstack", "--ignore", "-1,255,254")["ignored"], ignored)
        self.refused("labels must be 0 to 3", "inspect", self.pool, "--ignore", "-1,253")
        # label maps: what is ignored in the masks may not be predicted
        guess = masks.copy()
        guess[masks < 0] = 0
        guess[masks > 3] = 1
        self.save("guess.npy", guess)
        files = ("evaluate", self.path("guess.npy"), "--labels", self.path("oof_masks.npy"), "--task", "segmentation",
                 "--classes", CLASSES)
        found = run(*files, "--ignore", "255,254,-1", "--json").json()
        self.assertEqual((found["ignored"], found["miou"]), (ignored, 1))
        guess[0, 0, 0] = 254
        self.save("guess.npy", guess)
        self.refused("is 254; predicted labels must be 0 to 3", *files, "--ignore", "255,254,-1")
        for text in ("1,", ",1", "1 ,2", "1;2", ",".join(map(str, range(4, 21)))):
            self.refused("nor a list of at most 16 of them", "inspect", self.pool, "--ignore", text)
        self.segmentation["ignore"] = []
        self.write_pool(self.segmentation)
        self.refused("ignore", "fit", self.pool, "-o", self.path("x.cstack"))

    def make_rare(self):
        """Maps so weak that the largest probability is hardly ever that of a rare class."""
        rng = np.random.default_rng(3)
        for split, cases in (("oof", 12), ("test", 4)):
            masks = rng.choice(CLASSES, (cases, 24, 24), p=(.55, .25, .15, .05)).astype(np.uint8)
            self.masks[split] = masks
            self.save(f"{split}_masks.npy", masks)
            for k, name in enumerate(("ada", "bob", "cyd")):
                self.save(f"{name}.{split}.maps.npy", maps(rng, masks, CLASSES, 0.4 + 0.2 * k))

    @slow
    def test_class_wise_weights(self):
        """One network knows half of the classes, another the others: weights of each class are worth it there."""
        rng = np.random.default_rng(5)
        truth, known = {}, {}
        for split, cases in (("oof", 12), ("test", 6)):
            truth[split] = rng.integers(0, CLASSES, (cases, 20, 20))
            self.save(f"{split}_masks.npy", truth[split].astype(np.uint8))
            for k, name in enumerate(("ada", "bob", "cyd")):
                score = rng.normal(size=(*truth[split].shape, CLASSES))
                score += 2.5 * np.eye(CLASSES)[truth[split]] * np.isin(np.arange(CLASSES), [(0, 1), (2, 3), (1, 2)][k])
                known[name, split] = softmax(score.reshape(-1, CLASSES)).reshape(score.shape)
                self.save(f"{name}.{split}.maps.npy", known[name, split].astype(np.float32))
        found = self.fit("c.cstack", "--set", "segment.decision=argmax", nested=True)
        shared = self.fit("s.cstack", "--set", "segment.decision=argmax", "--set", "meta.learners=log-linear", nested=True)
        self.assertTrue(found["class_wise"]["used"])
        self.assertLess(found["oof"]["nll"], shared["oof"]["nll"] + 2 * found["class_wise"]["change"] / 3)
        # the same model by SciPy: priors as docs/segmentation.md has them
        x = np.log(np.stack([known[n, "oof"].reshape(-1, CLASSES) for n in ("ada", "bob", "cyd")], 1).astype(np.float32))
        y = truth["oof"].ravel()

        def probabilities(theta, x):
            z = np.einsum("nkc,kc->nc", x, theta[:-1]) + theta[-1]
            z = np.exp(z - z.max(1, keepdims=True))
            return z / z.sum(1, keepdims=True)

        def loss(theta):
            theta = theta.reshape(4, CLASSES)
            p = probabilities(theta, x)
            mean = theta[:-1].mean(1, keepdims=True)
            residual = p - np.eye(CLASSES)[y]
            gradient = np.concatenate([np.einsum("nkc,nc->kc", x, residual) + 10 * (theta[:-1] - mean)
                                       + (mean - 1 / 3) / CLASSES, [residual.sum(0) + theta[-1]]])
            value = -np.log(p[np.arange(len(y)), y]).sum() + 5 * ((theta[:-1] - mean) ** 2).sum() \
                + ((mean - 1 / 3) ** 2).sum() / 2 + (theta[-1] ** 2).sum() / 2
            return value, gradient.ravel()

        theta = minimize(loss, np.r_[np.full(3 * CLASSES, 1 / 3), np.zeros(CLASSES)], jac=True).x.reshape(4, CLASSES)
        wanted = probabilities(theta, np.log(np.stack([known[n, "test"].reshape(-1, CLASSES) for n in ("ada", "bob", "cyd")], 1)))
        run("predict", self.path("c.cstack"), self.pool, "-o", self.path("c.npy"), "--format", "maps")
        np.testing.assert_allclose(np.load(self.path("c.npy")).reshape(-1, CLASSES), wanted, atol=0.002)

    @slow
    def test_balance_and_decision(self):
        natural = self.fit("n.cstack", nested=True)
        self.assertEqual(natural["sample"]["prior"], natural["sample"]["share"])
        plain = self.fit("p.cstack", "--set", "segment.decision=miou", nested=True)
        used = plain["offsets"]["used"]
        self.assertEqual(used, plain["offsets"]["change"] > plain["offsets"]["se"])
        self.assertEqual(plain["decision"], "miou" if used else "argmax")
        self.assertEqual("segment.offsets" in run("show", self.path("p.cstack"), "--json").json()["settings"], used)
        self.assertIn("offsets change the held-out mIoU by",
                      run("fit", self.pool, "-o", self.path("t.cstack"), "--set", "folds.count=3", "--verbose").out)
        self.make_rare()
        natural = self.fit("n.cstack", nested=True)
        balanced = self.fit("b.cstack", "--set", "segment.balance=1", "--set", "segment.pixels=300")
        share = balanced["sample"]["share"]
        self.assertAlmostEqual(max(share), min(share), delta=0.01)
        decided = self.fit("d.cstack", "--set", "segment.decision=miou", nested=True)
        self.assertTrue(decided["offsets"]["used"], decided["offsets"])
        self.assertGreater(decided["offsets"]["change"], decided["offsets"]["se"])
        self.assertGreater(decided["oof"]["miou"], natural["oof"]["miou"])
        self.assertAlmostEqual(decided["oof"]["nll"], natural["oof"]["nll"])
        found = run("evaluate", self.path("d.cstack"), self.pool, "--json").json()
        self.assertEqual(found["decision"], "miou")
        run("predict", self.path("d.cstack"), self.pool, "-o", self.path("l.npy"), "--format", "labels")
        self.close(found, scores(None, self.masks["test"], predicted=np.load(self.path("l.npy"))))
        self.assertEqual(decided["decision"], "miou")
        compared = run("compare", self.pool, "--methods", "average,default", "-r", 0, "--set", "folds.count=3",
                       "--json").json()
        self.assertEqual([row["decision"] for row in compared["rows"]], ["argmax", "miou"])
        self.close(compared["rows"][1], {k: decided["oof"][k] for k in ("miou", "nll", "dice")})
        self.refused("log-linear", "fit", self.pool, "-o", self.path("x.cstack"), "--preset", "prototype", "--set",
                     "segment.balance=0.5", "--set", "folds.count=3")

    def test_inspect_and_presets(self):
        done = run("inspect", self.pool, "--json")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.json()["sample"]["pixels"], int((self.masks["oof"] != IGNORE).sum()))
        for preset in ("paper", "prototype"):
            self.fit(f"{preset}.cstack", "--preset", preset)
            self.assertEqual(run("evaluate", self.path(f"{preset}.cstack"), self.pool).code, 0)

    def test_groups_of_cases(self):
        self.save("groups.npy", np.array([0, 0, 1, 1, 2, 2]))
        self.segmentation["splits"]["oof"]["groups"] = "groups.npy"
        self.write_pool(self.segmentation)
        self.assertEqual(self.fit()["folds"]["count"], 3)
        self.save("folds.npy", np.array([0, 1, 0, 1, 0, 1]))
        self.segmentation["splits"]["oof"] = {"labels": "oof_masks.npy", "folds": "folds.npy"}
        self.write_pool(self.segmentation)
        self.assertEqual(self.fit()["folds"], {"count": 2, "source": "pool"})
        self.save("folds.npy", np.array([0, 1, 0, 1]))
        self.refused("folds.npy")
        self.save("ids.npy", np.array([f"street {n}" for n in range(CASES)]))
        self.segmentation["splits"]["oof"] = {"labels": "oof_masks.npy", "ids": "ids.npy"}
        self.write_pool(self.segmentation)
        self.fit()
        out = self.path("named")
        self.works("predict", self.path("m.cstack"), self.pool, "--split", "oof", "-o", out, "--format", "png")
        self.assertEqual(sorted(os.listdir(out)), [f"street {n}.png" for n in range(CASES)])

    # ---- what is wrong ---------------------------------------------------------------------------------------------

    def test_wrong_sizes(self):
        self.save("ada.oof.maps.npy", self.maps["ada", "oof"][:, :-1])
        self.refused("case 00000 is 11 x 15 pixels, and 12 x 15 in")
        self.save("ada.oof.maps.npy", self.maps["ada", "oof"][:-1])
        self.refused("has 5 cases, but")
        self.save("ada.oof.maps.npy", self.maps["ada", "oof"][..., :3])
        self.refused("has 4 classes, which should be its last length")
        self.save("ada.oof.maps.npy", self.maps["ada", "oof"][0])
        self.refused("maps must be [cases, height, width, classes]")
        self.save("ada.oof.maps.npy", self.maps["ada", "oof"][:, :CLASSES])
        self.refused("the 4 classes may be the last or the first length; specify")
        self.segmentation["layout"] = "channels-last"
        self.write_pool(self.segmentation)
        self.refused("is 4 x 15 pixels, and 12 x 15 in")

    def test_wrong_masks(self):
        good = self.masks["oof"].copy()
        bad = good.copy()
        bad[2, 3, 5] = 4
        self.save("oof_masks.npy", bad)
        self.refused("case 00002, row 3, column 5 is label 4; labels must be 0 to 3 (4 classes), or 255")
        self.save("oof_masks.npy", np.full_like(good, IGNORE))
        self.refused("every pixel has label 255, which is ignored")
        self.save("oof_masks.npy", good.astype(float) + 0.5)
        self.refused("not a class number")
        self.save("oof_masks.npy", good.reshape(-1))
        self.refused("masks must be [cases, height, width]")
        self.save("oof_masks.npy", good[:0])
        self.refused("oof_masks.npy")

    def test_wrong_folders(self):
        for split in ("oof", "test"):
            self.segmentation["splits"][split]["labels"] = self.masks_folder(split)
            self.segmentation["models"][0]["predictions"][split] = self.folder_of("ada", split)
        self.write_pool(self.segmentation)
        os.rename(self.path("ada_oof_cases/case3.npz"), self.path("ada_oof_cases/case9.npz"))
        self.refused("has no file for case 'case3' of")
        os.rename(self.path("ada_oof_cases/case9.npz"), self.path("ada_oof_cases/case3.npz"))
        np.save(self.path("ada_oof_cases/case7.npy"), self.maps["ada", "oof"][0])
        self.refused("has a file for case 'case7', which")
        os.rename(self.path("ada_oof_cases/case7.npy"), self.path("ada_oof_cases/case2.npy"))
        self.refused("are both files of case 'case2'")
        os.remove(self.path("ada_oof_cases/case2.npy"))
        whole = self.path("ada_oof_cases/case2.npz")
        np.savez(whole, probabilities=self.maps["ada", "oof"][2].astype(complex), extra=np.zeros(3))
        self.refused("case2.npz#probabilities: dtype <c16 is not supported")
        np.savez(whole, probabilities=np.moveaxis(self.maps["ada", "oof"][2], -1, 0), extra=np.zeros(3))
        with open(self.path("oof_mask_cases/case1.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 15, 12))
        self.refused("case1.png")
        source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "segmentation",
                              "rgb.png")
        with open(source, "rb") as colour, open(self.path("oof_mask_cases/case1.png"), "wb") as file:
            file.write(colour.read())
        self.refused("convert the colours to class numbers")
        for name in os.listdir(self.path("oof_mask_cases")):
            os.remove(self.path("oof_mask_cases/" + name))
        self.refused("the folder has no case")

    def test_outputs_are_never_in_a_folder_of_cases(self):
        """Neither a case is replaced nor a new file made that would be one."""
        for split in ("oof", "test"):
            self.segmentation["splits"][split]["labels"] = self.masks_folder(split, "npy")
            self.segmentation["models"][0]["predictions"][split] = self.folder_of("ada", split, extension="npy")
        self.write_pool(self.segmentation)
        self.fit("m.cstack", "--set", "evaluate.nested=false")
        os.symlink("oof_mask_cases", self.path("link"))
        os.symlink("oof_mask_cases/case0.npy", self.path("case.npy"))
        for words in (["fit", self.pool], ["predict", self.path("m.cstack"), self.pool]):
            for name in ("oof_mask_cases/case3.npy", "ada_oof_cases/case0.npy", "test_mask_cases/new.npy",
                         "ada_test_cases/../ada_test_cases/case9.npy", "link/case1.npy", "link/new.npy", "case.npy"):
                file = self.path(name)
                before = self.read(file) if os.path.exists(file) else None
                self.fails(*words, "-o", file, says=["-o", name, "whose files are inputs"])
                self.assertEqual(self.read(file) if os.path.exists(file) else None, before)
        self.fails("predict", self.path("m.cstack"), self.pool, "-o", self.path("f" * 300), says=["300 bytes"])
        self.works("predict", self.path("m.cstack"), self.pool, "-o", self.path("beside.npy"))

    def test_wrong_numbers(self):
        bad = self.maps["bob", "oof"].copy()
        bad[1, 2, 3] *= 3
        self.save("bob.oof.maps.npy", bad)
        self.refused("bob.oof.maps.npy: case 00001, row 2, column 3 sums to 3")
        self.save("bob.oof.maps.npy", np.moveaxis(bad, -1, 1))
        self.refused("bob.oof.maps.npy: case 00001, row 2, column 3 sums to 3")
        bad = self.maps["bob", "oof"].copy()
        bad[5, 11, 14, 2] = np.nan
        for kind in (np.float32, np.float64):
            self.save("bob.oof.maps.npy", bad.astype(kind))
            self.refused("bob.oof.maps.npy: case 00005, row 11, column 14, class 2 is NaN")
        bad[5, 11, 14] = (-0.5, 1.5, 0, 0)
        self.save("bob.oof.maps.npy", bad)
        self.refused("case 00005, row 11, column 14 sums to 1 and has -0.5 in class 0, outside [0, 1]")
        bad = self.maps["bob", "oof"][None].repeat(2, 0).swapaxes(0, 1)
        bad[3, 1, 4, 6, 1] = np.inf
        self.save("whole.npy", bad)
        self.save("whole_masks.npy", self.masks["oof"][:, None].repeat(2, 1))
        self.segmentation["splits"] = {"oof": {"labels": "whole_masks.npy"}}
        self.segmentation["models"] = [{"name": "bob", "predictions": {"oof": "whole.npy"}}]
        self.write_pool(self.segmentation)
        self.refused("case 00003, slice 1, row 4, column 6, class 1 is infinity")
        self.segmentation["models"][0]["predictions"]["oof"] = "bob.oof.maps.npy"
        del self.segmentation["classes"]
        self.write_pool(self.segmentation)
        self.refused("the number of classes is unknown")

    def test_predict_needs_no_labels_that_count(self):
        self.fit()
        model = self.path("m.cstack")
        self.works("predict", model, self.pool, "-o", self.path("with.npy"))
        self.save("test_masks.npy", np.full_like(self.masks["test"], IGNORE))
        self.works("predict", model, self.pool, "-o", self.path("without.npy"))
        self.assertEqual(self.read(self.path("with.npy")), self.read(self.path("without.npy")))
        for command in (("evaluate", model, self.pool), ("compare", self.pool, "--split", "test", "--methods", "average"),
                        ("evaluate", self.path("with.npy"), "--labels", self.path("test_masks.npy"), "--task",
                         "segmentation", "--classes", CLASSES)):
            self.refused("every pixel has label 255, which is ignored", *command)

    def test_pipes_and_descriptors(self):
        """They get one array, whatever they are called; a name that ends otherwise is refused."""
        self.fit()
        words = ("predict", self.path("m.cstack"), self.pool, "-o")
        self.works(*words, self.path("out.npy"))
        done = subprocess.run(["sh", "-c", 'exec "$@" 3>"$0"', self.path("got"), TOOL, *words, "/dev/fd/3"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = []
        os.mkfifo(self.path("pipe"))
        thread = threading.Thread(target=lambda: got.append(self.read(self.path("pipe"))))
        thread.start()
        self.works(*words, self.path("pipe"))
        thread.join(TIMEOUT)
        self.assertEqual([got[0], self.read(self.path("got"))], [self.read(self.path("out.npy"))] * 2)
        os.mkfifo(self.path("pipe.csv"))
        self.refused("maps are written to one .npy file", *words, self.path("pipe.csv"))
        self.refused("PNG label maps are written to a folder", *words, "/dev/null", "--format", "png")

    def test_volumes_are_no_png(self):
        for split in ("oof", "test"):
            self.save(f"{split}_masks.npy", self.masks[split][:, None].repeat(2, 1))
            for name in ("ada", "bob", "cyd"):
                self.save(f"{name}.{split}.maps.npy", self.maps[name, split][:, None].repeat(2, 1))
        self.fit()
        out = self.path("slices")
        self.refused(f"{out}: the cases of", "predict", self.path("m.cstack"), self.pool, "-o", out, "--format", "png")
        self.assertFalse(os.path.exists(out))

    def test_width_of_boundaries(self):
        self.fit("m.cstack", "--set", "segment.boundary=3")
        model = run("evaluate", self.path("m.cstack"), self.pool, "--json").json()
        for kind in ("maps", "labels"):
            self.works("predict", self.path("m.cstack"), self.pool, "-o", self.path(kind + ".npy"), "--format", kind)
            command = ("evaluate", self.path(kind + ".npy"), "--labels", self.path("test_masks.npy"), "--task",
                       "segmentation", "--classes", CLASSES)
            found = run(*command, "--boundary", 3, "--json").json()
            self.assertEqual(found["boundary"], {"setting": 3, "pixels": 3})
            self.close(found, {k: model[k] for k in ("boundary_error", "boundary_iou")})
            usual = run(*command, "--json").json()
            self.assertNotEqual(usual["boundary_error"], found["boundary_error"])
            self.refused("--boundary: 'wide' is not a number", *command, "--boundary", "wide")
        self.refused("--boundary applies to files of maps", "evaluate", self.path("m.cstack"), self.pool, "--boundary", 2)
        text = run(*command).out
        for word in ("mIoU", "pixel", "4 cases"):
            self.assertIn(word, text)
        self.assertNotIn("nan", text)

    def test_options_that_maps_do_not_take(self):
        np.save(self.path("labels.npy"), np.minimum(self.masks["test"], CLASSES - 1))
        command = ("evaluate", self.path("labels.npy"), "--labels", self.path("test_masks.npy"), "--task", "segmentation", "--classes",
                   CLASSES)
        self.assertEqual(run(*command, "--ignore", IGNORE, "--allow-outside").code, 0)
        for option in ("--weights", "--ids", "--ood", "--clean", "--reference-errors", "--head", "--tail", "--split", "--groups"):
            self.refused(f"{option} cannot be used with files of maps: remove it", *command, option, "5")
        self.refused("supported for classification only; the pool's task is segmentation", "compare", self.pool, "--head", 5)

    def test_a_method_that_cannot_be_fitted(self):
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.oof.maps.npy", np.full((CASES, HEIGHT, WIDTH, CLASSES), 1 / CLASSES))
        done = run("compare", self.pool, "--methods", "all", "-r", 0, "--set", "folds.count=3", "--json")
        self.assertEqual(done.code, 0, done.err)
        found = done.json()
        left = [n for n in found["notices"] if " is left out: " in n]
        self.assertTrue(left)
        names = [row["method"] for row in found["rows"]]
        self.assertIn("average", names)
        self.works("compare", self.pool, "-r", 0, "--set", "folds.count=3")
        for notice in left:
            name = notice.split()[0]
            self.assertNotIn(name, names)
        self.refused(f"method {name}: ", "compare", self.pool, "--methods", f"average,{name}", "--set", "folds.count=3")

    def test_wrong_tasks_and_targets(self):
        self.fit()
        model = self.path("m.cstack")
        for name, kind in (("x.png", "png"), ("x.PNG", "labels"), ("zz.json", "maps"), ("zz.json", "png"), ("a.npz", "maps"),
                           ("a.csv", "maps"), ("a.tif", "labels")):
            self.refused("use a name without this extension", "predict", model, self.pool, "-o", self.path(name),
                         "--format", kind)
            self.assertFalse(os.path.exists(self.path(name)))
        self.refused("the task of the pool is classification", "predict", model, self.path("pool.json"), "-o", self.path("y.npy"))
        self.refused("--format: 'jpeg' is not", "predict", model, self.pool, "-o", self.path("y.npy"), "--format", "jpeg")
        self.refused("name a folder", "predict", model, self.pool, "-o", self.path("y.npy"), "--format", "png")
        os.makedirs(self.path("full"))
        self.save("full/x.npy", np.zeros(3))
        self.refused("is not empty", "predict", model, self.pool, "-o", self.path("full"))
        self.assertEqual(os.listdir(self.path("full")), ["x.npy"])
        with open(self.path("maps.txt"), "w", encoding="utf-8") as file:
            file.write("a file")
        self.refused("is not a folder", "predict", model, self.pool, "-o", self.path("maps.txt"))
        empty = self.path("empty")
        os.makedirs(empty)
        self.assertEqual(run("predict", model, self.pool, "-o", empty, "--format", "png").code, 0)
        self.assertEqual(len(os.listdir(empty)), 4)
        self.assertEqual([n for n in os.listdir(self.folder) if ".new." in n or ".tmp." in n], [])
        self.refused("no masks", "fit", "--task", "segmentation", "--classes", CLASSES,
                     self.path("ada.oof.maps.npy"), self.path("bob.oof.maps.npy"), "-o", self.path("x.cstack"))
        bad = np.zeros((4, HEIGHT, WIDTH), np.uint8) + 9
        self.save("bad.npy", bad)
        self.refused("is 9; predicted labels must be 0 to 3", "evaluate", self.path("bad.npy"), "--labels",
                     self.path("test_masks.npy"), "--task", "segmentation", "--classes", CLASSES)
        self.save("zero.npy", np.zeros((4, HEIGHT, WIDTH), np.uint8))
        self.refused("has 4 cases, but", "evaluate", self.path("zero.npy"), "--labels", self.path("oof_masks.npy"),
                     "--task", "segmentation", "--classes", CLASSES)

    def test_a_full_disk_leaves_nothing(self):
        self.fit()
        done = run("predict", self.path("m.cstack"), self.pool, "-o", self.path("cut"), file_limit=500)
        self.assertEqual(done.code, 2, done.err)
        self.assertFalse(os.path.exists(self.path("cut")))
        self.assertEqual([n for n in os.listdir(self.folder) if ".new." in n or ".tmp." in n], [])

    def test_files_without_a_manifest(self):
        done = run("fit", "--task", "segmentation", "--classes", CLASSES, "--labels", self.path("oof_masks.npy"),
                   self.path("ada.oof.maps.npy"), self.path("cyd.oof.maps.npy"), "-o", self.path("x2.cstack"), "--set",
                   "folds.count=3", "--json")
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.json()["task"], "segmentation")

    @slow
    def test_example(self):
        pool = os.path.join(SOURCES, "examples", "segmentation")
        fit = self.works("fit", pool, "-o", self.path("e.cstack"), "--set", "segment.pixels=4000", "--json").json()
        self.assertEqual((fit["cases"], fit["classes"], fit["sample"]["pixels"]), (16, 11, 4000))
        average = self.works("compare", pool, "--methods", "average", "-r", 0, "--json").json()["rows"][0]
        self.assertLess(fit["oof"]["nll"], 0.9 * average["nll"])
        document = self.works("compare", pool, "--split", "test", "--methods", "best-single,average,default", "-r", 0,
                              "--json").json()
        rows = {row["method"]: row for row in document["rows"]}
        for name in ("best-single", "average"):
            self.assertGreater(rows["default"]["miou"], rows[name]["miou"] + 0.01)
            self.assertLess(rows["default"]["nll"], 0.9 * rows[name]["nll"])
        self.assertEqual(rows["best-single"]["detail"], "fpn")  # of the least NLL would be unet
        found = self.works("evaluate", self.path("e.cstack"), pool, "--json").json()
        self.assertEqual(found["cases"], 16)
