"""The guard of a segmentation through the tool: which cases lean on the average, by how much, against NumPy; what leaves
the bytes alone; and one clear line where it is not supported."""

import json
import os
import struct
import unittest

import numpy as np
from support import SOURCES, PoolCase, run, softmax
from test_missing import crc32c, sections

HEIGHT, WIDTH, CLASSES = 12, 14, 4
SKILLS = {"ada": 1.0, "bob": 1.6, "cyd": 2.2, "dot": 2.4}


def draw(rng, cases, shares, sharp=1.0):
    """Masks and maps of each member."""
    masks = rng.choice(CLASSES, (cases, HEIGHT, WIDTH), p=shares)
    truth = np.eye(CLASSES)[masks]
    scores = {name: skill * truth + rng.normal(size=truth.shape) for name, skill in SKILLS.items()}
    return masks, {
        name: softmax(sharp * z.reshape(-1, CLASSES)).reshape(truth.shape).astype(np.float32) for name, z in scores.items()
    }


class Guard(PoolCase):
    fitted = b""  # the model, fitted once

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(26)
        even = np.full(CLASSES, 0.25)
        self.maps = {}
        for split, cases in (("oof", 20), ("clean", 12), ("shifted", 12), ("one", 3)):
            masks, maps = draw(rng, cases, even)
            if split == "shifted":
                masks, maps = draw(rng, cases, [0.91, 0.03, 0.03, 0.03], 0.5)
            if split == "one":
                _, other = draw(rng, 1, [0.91, 0.03, 0.03, 0.03], 0.5)
                for name in SKILLS:
                    maps[name][1] = other[name][0]
            self.save(f"{split}_masks.npy", masks.astype(np.uint8))
            for name in SKILLS:
                self.save(f"{name}.{split}.npy", maps[name])
                self.maps[name, split] = maps[name].astype(float)
        self.splits = ("oof", "clean", "shifted", "one")
        self.pool = self.path("maps.json")
        self.write(list(SKILLS))
        self.model = self.path("m.cstack")
        if not Guard.fitted:
            self.works("fit", self.pool, "-o", self.model, "--set", "folds.count=3", "--set", "keep.max=2", "-q")
            Guard.fitted = self.read(self.model)
        with open(self.model, "wb") as file:
            file.write(Guard.fitted)

    def write(self, names, splits=None, cases=None):
        manifest = {
            "corestack_pool": 1, "task": "segmentation", "classes": ["a", "b", "c", "d"],
            "splits": {s: {"labels": f"{s}_masks.npy"} for s in splits or self.splits},
            "models": [{"name": n, "flops": 5, "predictions": {s: f"{n}.{s}.npy" for s in splits or self.splits}} for n in names],
        }
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def predict(self, split, *more, out="out.npy"):
        done = self.works("predict", self.model, self.pool, "--split", split, "-o", self.path(out), "--json", *more)
        self.err = done.err
        return np.load(self.path(out)), done.json().get("guard")

    def same(self, split, *more):
        plain, none = self.predict(split, "--guard", "off", out="off.npy")
        self.assertIsNone(none)
        guarded, found = self.predict(split, *more)
        self.assertEqual(plain.tobytes(), guarded.tobytes())
        return found

    def test_cases_like_the_fit_keep_their_bytes(self):
        found = self.same("clean")
        self.assertEqual((found["mode"], found["tested"], found["fired"], found["members"]), ("auto", 12, 0, 0))
        self.assertEqual([b["case"] for b in found["batches"]][:2], ["00000", "00001"])
        self.assertNotIn("unlike the fit data", self.err)

    def test_a_shifted_folder_leans_on_all_members(self):
        plain, _ = self.predict("shifted", "--guard", "off")
        guarded, found = self.predict("shifted")
        self.assertEqual((found["fired"], found["members"], found["others"], found["others_flops"]), (12, 4, 2, 10))
        self.assertIn("12 of 12 cases are unlike the fit data", self.err)
        average = np.mean([self.maps[name, "shifted"] for name in SKILLS], 0)
        weight = np.array([b["lambda"] for b in found["batches"]])[:, None, None, None]
        self.assertTrue((weight > 0.5).all() and (weight <= 0.75).all())
        np.testing.assert_allclose(guarded, (1 - weight) * plain + weight * average, atol=2e-6)
        labels, _ = self.predict("shifted", "--format", "labels")
        shown = self.works("show", self.model, "--json").json()["settings"]
        offsets = np.array([float(x) for x in shown.get("segment.offsets", "0,0,0,0").split(",")])
        scores = np.log(guarded.astype(float)) + (1 - weight) * offsets
        top = np.sort(scores, -1)
        clear = top[..., -1] - top[..., -2] > 1e-4
        np.testing.assert_array_equal(labels[clear], scores.argmax(-1)[clear])

    def test_one_case_of_a_few_leans_alone(self):
        plain, _ = self.predict("one", "--guard", "off")
        guarded, found = self.predict("one")
        self.assertEqual([b["fired"] for b in found["batches"]], [False, True, False])
        self.assertEqual(plain[[0, 2]].tobytes(), guarded[[0, 2]].tobytes())
        self.assertGreater(np.abs(plain[1] - guarded[1]).max(), 0.01)

    def test_warn_and_off_change_nothing(self):
        self.assertEqual(self.same("shifted", "--guard", "warn")["fired"], 12)
        self.assertIn("guard mode auto mixes it in", self.err)

    def test_same_bytes_for_threads_and_as_a_folder(self):
        arrays = [self.predict("shifted", "--threads", str(t))[0].tobytes() for t in (1, 3)]
        self.assertEqual(arrays[0], arrays[1])
        out = self.path("folder")
        done = self.works("predict", self.model, self.pool, "--split", "shifted", "-o", out)
        self.assertIn("case 00000: unlike the fit, weight of the average", done.out)
        self.assertIn("and 2 more cases", done.out)
        files = sorted(os.listdir(out))
        self.assertEqual(np.stack([np.load(os.path.join(out, f)) for f in files]).tobytes(), arrays[0])

    def test_without_the_members_that_were_left_out(self):
        shown = self.works("show", self.model, "--json").json()
        kept = [member["name"] for member in shown["members"]]
        self.write(kept)
        plain, _ = self.predict("shifted", "--guard", "off")
        guarded, found = self.predict("shifted")
        self.assertEqual((found["members"], found["others"]), (2, 0))
        self.assertIn("predictions of 2 other members of the fit are missing", self.err)
        average = np.mean([self.maps[name, "shifted"] for name in kept], 0)
        weight = np.array([b["lambda"] for b in found["batches"]])[:, None, None, None]
        np.testing.assert_allclose(guarded, (1 - weight) * plain + weight * average, atol=2e-6)

    def test_without_a_kept_member(self):
        kept = [m["name"] for m in self.works("show", self.model, "--json").json()["members"]]
        self.write([name for name in SKILLS if name != kept[0]])
        found = self.predict("shifted", "--missing", "allow")[1]
        self.assertEqual((found["tested"], found["members"]), (12, 3))
        self.assertGreater(found["fired"], 6)
        self.assertEqual(self.predict("clean", "--missing", "allow")[1]["fired"], 0)

    def test_models_without_a_reference(self):
        head, found = sections(self.model)
        kept = [body for tag, body in found if tag != "NOVI"]
        self.assertEqual(len(kept), len(found) - 1)
        data = head + struct.pack("<IQ", len(kept), 28 + sum(map(len, kept))) + b"".join(kept)
        self.model = self.path("old.cstack")
        with open(self.model, "wb") as file:
            file.write(data + struct.pack("<I", crc32c(data)))
        self.assertEqual((self.same("shifted")["tested"], self.err), (0, ""))
        self.assertEqual(self.same("shifted", "--guard", "auto")["tested"], 0)
        self.assertIn("the guard is off: the model has nothing to compare cases with", self.err)

    def test_what_is_not_supported(self):
        for more in (["--batch", "100"], ["--batch", "100", "--guard", "warn"]):
            self.fails("predict", self.model, self.pool, "--split", "clean", "-o", self.path("x.npy"), *more,
                       says=["--batch is not supported for segmentation"])
        self.assertFalse(os.path.exists(self.path("x.npy")))
        boxes = self.path("boxes.cstack")
        example = os.path.join(SOURCES, "examples", "detection")
        self.works("fit", example, "-o", boxes, "--preset", "compact", "--set", "evaluate.nested=false", "-q")
        self.fails("predict", boxes, example, "-o", self.path("x.json"), "--guard", "auto", says=["not supported for detection"])
        self.assertEqual(run("predict", boxes, example, "-o", self.path("x.json")).code, 0)


if __name__ == "__main__":
    unittest.main()
