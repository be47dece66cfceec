"""Detections: files in, files out, figures that other tools rely on, and one line for every fault."""

import csv
import io
import json
import os
import shutil
import tempfile
import unittest

from support import SOURCES, PoolCase, run, small

POOL = small("detection", 4, 2)
CASES = os.path.join(SOURCES, "tests", "reference", "coco")
FIGURES = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]


class Evaluation(unittest.TestCase):
    def test_figures_are_the_reference_evaluators(self):
        for name in ("plain", "crowd", "small", "ties", "empty_images", "absent", "crowded150"):
            case = os.path.join(CASES, name)
            result = run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "--json")
            self.assertEqual(result.code, 0, result.err)
            with open(case + ".expected.json", encoding="utf-8") as file:
                expected = json.load(file)
            for key in FIGURES:
                self.assertAlmostEqual(result.json()[key], expected[key], delta=1e-9, msg=f"{name} {key}")

    def test_text_and_intervals(self):
        case = os.path.join(CASES, "crowd")
        result = run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "-r", "50")
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("21.77", result.out)
        self.assertIn("95% bootstrap interval", result.out)
        low, high = run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "-r", "50",
                        "--json").json()["AP_ci"]
        self.assertLess(low, 0.2177)
        self.assertGreater(high, 0.2177)

    def test_against_another_file(self):
        """The paired difference is that of two evaluations, and of a file with itself it is nothing."""
        case = os.path.join(CASES, "crowd")
        with open(case + ".dt.json", encoding="utf-8") as file:
            boxes = json.load(file)
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "average")
            with open(other, "w", encoding="utf-8") as file:
                json.dump([dict(box, score=1 - box["score"]) for box in boxes if box["image_id"] % 2], file)
            call = ("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "-r", "50")
            alone = run("evaluate", other, "--annotations", case + ".gt.json", "-r", "50", "--json").json()
            shutil.copy(other, os.path.join(folder, "b.json"))
            other = os.path.join(folder, "b.json")
            result = run(*call, "--against", other, "--json").json()
            row, = result["baselines"]
            self.assertEqual(row["method"], "b.json")
            for key in FIGURES:
                self.assertEqual(row[key], alone[key])
            self.assertEqual(row["AP_ci"], alone["AP_ci"])
            self.assertAlmostEqual(row["difference"]["AP"], alone["AP"] - result["AP"], places=9)
            self.assertLess(row["difference"]["AP_ci"][1], 0)
            self.assertIn("Difference from predictions", run(*call, "--against", other).out)
            self.assertIn("b.json", run(*call, "--against", other, "--csv").out)
            row, = run(*call, "--against", case + ".dt.json", "--json").json()["baselines"]
            self.assertEqual(row["difference"]["AP_ci"], [0, 0])
            self.assertIn("b.json.none: ", run(*call, "--against", other + ".none").err)

    def test_options_of_other_inputs_are_refused(self):
        case = os.path.join(CASES, "crowd")
        result = run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "--baselines")
        self.assertEqual(result.code, 2)
        self.assertIn("--baselines", result.err)
        result = run("evaluate", case + ".dt.json")
        self.assertEqual(result.code, 2)
        self.assertIn("--annotations", result.err)
        for option in (["--task", "segmentation"], ["--classes", "3"], ["--ignore", "7"], ["--layout", "channels-first"],
                       ["--ood", "far"], ["--head", "5"], ["--boundary", "3"], ["--weights", "nofile.npy"]):
            result = run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", *option)
            self.assertEqual(result.code, 2, option)
            self.assertIn(" ".join(option[:2] if option[0] == "--task" else option[:1]), result.err)
            self.assertEqual(result.err.count("\n"), 1)
        self.assertEqual(run("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "--task",
                             "detection").code, 0)

    def test_tables_have_the_figures(self):
        case = os.path.join(CASES, "crowd")
        call = ("evaluate", case + ".dt.json", "--annotations", case + ".gt.json", "-r", "50")
        expected = run(*call, "--json").json()
        row, = csv.DictReader(io.StringIO(run(*call, "--csv").out))
        for key in FIGURES:
            self.assertAlmostEqual(float(row[key]), expected[key], places=8)
        self.assertAlmostEqual(float(row["AP_low"]), expected["AP_ci"][0], places=8)
        self.assertAlmostEqual(float(row["AP_high"]), expected["AP_ci"][1], places=8)
        self.assertEqual(int(row["detections"]), expected["detections"])
        table = run(*call, "--markdown").out
        self.assertIn("| AP % |", table)
        self.assertIn(f"{100 * expected['AP']:.2f} [", table)


class Commands(PoolCase):
    def test_tables_of_methods_have_the_figures(self):
        model = self.path("cells.cstack")
        self.assertEqual(run("fit", POOL, "-o", model, "--set", "evaluate.nested=false").code, 0)
        for call, key in ((("evaluate", model, POOL, "--split", "test", "--baselines"), "baselines"),
                          (("compare", POOL, "--split", "test", "-m", "average,default", "-r", "0"), "rows")):
            document = run(*call, "--json").json()
            rows = list(csv.DictReader(io.StringIO(run(*call, "--csv").out)))
            expected = document[key] if key == "rows" else [document, *document[key]]
            self.assertEqual(len(rows), len(expected))
            table = run(*call, "--markdown").out.splitlines()
            self.assertNotIn("p NLL", table[0])
            for row, figures, line in zip(rows, expected, table[2:]):
                for name in FIGURES:
                    self.assertAlmostEqual(float(row[name]), figures[name], places=8, msg=name)
                self.assertIn(f"{100 * figures['AP']:.2f}", line)

    def test_own_detections_beside_the_methods(self):
        home = os.path.dirname(POOL)
        with open(POOL, encoding="utf-8") as file:
            member = json.load(file)["models"][0]["predictions"]
        for split in ("test", "oof"):
            path = os.path.join(home, member[split])
            call = ("compare", POOL, "--split", split, "-m", "average,nms", "--reference", "nms", "-r", "50")
            result = run(*call, "--with", f"mine={path}", "--json")
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual([row["method"] for row in result.json()["rows"]], ["average", "nms", "mine"])
            own = result.json()["rows"][-1]
            alone = run("evaluate", path, "--annotations", os.path.join(home, f"{split}.json"), "-r", "50", "--json").json()
            for key in [*FIGURES, "AP_ci", "detections"]:
                self.assertEqual(own[key], alone[key], key)
            self.assertAlmostEqual(own["difference"]["AP"], alone["AP"] - result.json()["rows"][1]["AP"], places=9)
            self.assertIn(("mine", "AP"), {(test["b"], test["metric"]) for test in result.json()["tests"]})
        wrong = run(*call, "--with", "mine=" + os.path.join(home, "test.json"))
        self.assertEqual(wrong.code, 2, wrong.err)
        self.assertIn("test.json", wrong.err)

    def test_what_detections_do_not_take(self):
        for words in (["--values", "logit"], ["--classes", "3"], ["--ignore", "3"], ["--layout", "channels-last"]):
            self.fails("inspect", POOL, *words, says=[words[0], "the task is detection"])
        for words in (["--head", "5"], ["--tail", "5"], ["--clean", "oof"], ["--reference-errors", "alexnet"]):
            self.fails("compare", POOL, *words, says=["supported for classification only; the pool's task is detection"])
        self.fails("compare", POOL, "--save", self.path("saved"), says=["does not provide the predictions"])

    def test_annotations_are_never_an_output(self):
        model, copy = self.path("cells.cstack"), self.path("det")
        shutil.copytree(os.path.dirname(POOL), copy)
        pool = os.path.join(copy, "pool.json")
        self.works("fit", pool, "-o", model, "--set", "evaluate.nested=false")
        for name in ("oof.json", "test.json"):
            file = os.path.join(copy, name)
            before = self.read(file)
            for words in (["fit", pool, "--set", "evaluate.nested=false"], ["predict", model, pool]):
                self.fails(*words, "-o", file, says=["-o", name, "an input of the command"])
            self.assertEqual(self.read(file), before)
        os.mkdir(os.path.join(copy, "truth"))
        with open(pool, encoding="utf-8") as file:
            manifest = json.load(file)
        for split in manifest["splits"].values():
            os.rename(os.path.join(copy, split["annotations"]), os.path.join(copy, "truth", split["annotations"]))
            split["annotations"] = "truth/" + split["annotations"]
        with open(pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        self.fails("compare", pool, "-m", "average", "-r", "0", "--save", os.path.join(copy, "truth"),
                   says=["--save", "an input of the command"])

    def boxes_of(self, pool, *settings):
        """Kept members and predicted boxes on split test."""
        model, out = self.path("b.cstack"), self.path("b.json")
        fit = run("fit", pool, "-o", model, "--json", "--set", "evaluate.nested=false",
                  *(part for setting in settings for part in ("--set", setting)))
        self.assertEqual(fit.code, 0, fit.err)
        self.assertEqual(run("predict", model, pool, "--split", "test", "-o", out).code, 0)
        with open(out, encoding="utf-8") as file:
            return fit.json()["kept"], json.load(file)

    def test_a_selection_predicts_from_its_members_alone(self):
        names, boxes = self.boxes_of(POOL, "keep.max=2")
        self.assertEqual(len(names), 2)
        with open(POOL, encoding="utf-8") as file:
            manifest = json.load(file)
        manifest["models"] = [member for member in manifest["models"] if member["name"] in names]
        for name in os.listdir(os.path.dirname(POOL)):
            if name.endswith(".json") and name != "pool.json":
                shutil.copy(os.path.join(os.path.dirname(POOL), name), self.path(name))
        with open(self.path("few.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        self.works("predict", self.path("b.cstack"), self.path("few.json"), "--split", "test", "-o", self.path("few.out.json"))
        with open(self.path("few.out.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), boxes)

    def test_masks_keypoints_and_rotated_boxes_are_refused(self):
        shutil.copytree(os.path.dirname(POOL), self.path("det"))
        with open(POOL, encoding="utf-8") as file:
            name = json.load(file)["models"][0]["predictions"]["oof"]
        with open(os.path.join(os.path.dirname(POOL), name), encoding="utf-8") as file:
            boxes = json.load(file)
        for more, says in (({"segmentation": {"size": [4, 5], "counts": "a"}}, "Remove the key 'segmentation'"),
                           ({"segmentation": [[1, 2, 3, 4, 5, 6]]}, "Remove the key 'segmentation'"),
                           ({"keypoints": [1, 2, 0]}, "Remove the key 'keypoints'"), ({"bbox": [1, 2, 3, 4, 30]}, "rotated boxes"),
                           ({"segmentation": []}, None)):
            with open(os.path.join(self.path("det"), name), "w", encoding="utf-8") as file:
                json.dump([*boxes[:3], {**boxes[3], **more}, *boxes[4:]], file)
            if says:
                self.fails("inspect", self.path("det"), says=[name, "byte", "detection 3", says])
            else:
                self.works("inspect", self.path("det"))

    def test_predictions_are_the_best_boxes_of_an_image(self):
        model = self.path("b.cstack")
        self.works("fit", POOL, "-o", model, "--set", "evaluate.nested=false")
        found = {}
        for name, options in (("all", ("--max-detections", 1000, "--min-score", 0)), ("usual", ()),
                              ("five", ("--max-detections", 5)), ("sure", ("--min-score", 0.5))):
            self.works("predict", model, POOL, "--split", "test", "-o", self.path(name + ".json"), *options)
            with open(self.path(name + ".json"), encoding="utf-8") as file:
                found[name] = json.load(file)
        for image in {box["image_id"] for box in found["all"]}:
            scores = sorted((b["score"] for b in found["all"] if b["image_id"] == image), reverse=True)
            self.assertEqual(sorted((b["score"] for b in found["five"] if b["image_id"] == image), reverse=True), scores[:5])
        self.assertEqual(found["usual"], [box for box in found["all"] if box["score"] >= 0.001])
        self.assertEqual(found["sure"], [box for box in found["all"] if box["score"] >= 0.5])
        for box in found["all"]:
            self.assertEqual(box["score"], float(f"{box['score']:.6g}"))
            if min(box["bbox"][2:]) >= 10:
                self.assertEqual(box["bbox"], [round(x, 2) for x in box["bbox"]])
        self.fails("predict", model, POOL, "-o", self.path("n.json"), "--min-score", "2", says=["--min-score", "from 0 to 1"])
        self.fails("predict", model, POOL, "-o", self.path("n.json"), "--max-detections", "0", says=["--max-detections"])

    def test_what_is_set_is_used(self):
        _, usual = self.boxes_of(POOL)
        for settings in (["loglinear.prior_weights=1"], ["loglinear.prior=evidence"], ["keep.fraction=0.01"],
                         ["select.tolerance=1"]):
            _, changed = self.boxes_of(POOL, *settings)
            self.assertNotEqual(usual, changed, settings)
        _, ours = self.boxes_of(POOL, "loglinear.prior_weights=1", "detect.prior_weights=1000")
        self.assertEqual(usual, ours)
        call = ("compare", POOL, "-m", "default", "-r", "0", "--json")
        self.assertNotEqual(run(*call).json()["rows"][0]["AP"],
                            run(*call, "--set", "keep.fraction=0.01").json()["rows"][0]["AP"])

    def test_fusion_is_the_same_with_any_number_of_threads(self):
        call = ("compare", POOL, "-m", "average,wbf,nms,soft-nms,soft-nms-linear", "-r", "0", "--json", "--threads")
        one, two = (run(*call, threads).json()["rows"] for threads in ("1", "2"))
        for a, b in zip(one, two):
            self.assertEqual([a[key] for key in FIGURES], [b[key] for key in FIGURES])

    def test_predicts_images_without_annotations(self):
        model, out = self.path("cells.cstack"), self.path("out.json")
        self.assertEqual(run("fit", POOL, "-o", model, "--set", "evaluate.nested=false").code, 0)
        for name in os.listdir(os.path.dirname(POOL)):
            if name.endswith(".json"):
                shutil.copy(os.path.join(os.path.dirname(POOL), name), self.path(name))
        self.assertEqual(run("predict", model, self.path("pool.json"), "--split", "test", "-o", out).code, 0)
        with open(out, "rb") as file:
            expected = file.read()
        with open(self.path("test.json"), encoding="utf-8") as file:
            truth = json.load(file)
        del truth["annotations"]
        with open(self.path("test.json"), "w", encoding="utf-8") as file:
            json.dump(truth, file)
        again = run("predict", model, self.path("pool.json"), "--split", "test", "-o", self.path("again.json"))
        self.assertEqual(again.code, 0, again.err)
        with open(self.path("again.json"), "rb") as file:
            self.assertEqual(file.read(), expected)
        for call in (("evaluate", model, self.path("pool.json"), "--split", "test"),
                     ("evaluate", out, "--annotations", self.path("test.json")),
                     ("fit", self.path("pool.json"), "-o", self.path("n.cstack"), "--split", "test")):
            result = run(*call)
            self.assertEqual(result.code, 2)
            self.assertIn("no list of annotations", result.err)

    def test_fit_predict_evaluate_compare(self):
        model = self.path("cells.cstack")
        fit = run("fit", POOL, "-o", model, "--json")
        self.assertEqual(fit.code, 0, fit.err)
        fit = fit.json()
        self.assertEqual(fit["task"], "detection")
        self.assertEqual(fit["models_in"], len(fit["kept"]) + len(fit["dropped"]))
        for key in FIGURES:
            self.assertIn(key, fit["oof"])
        self.assertTrue(fit["oof"]["nested"])
        out = self.path("out.json")
        predicted = run("predict", model, POOL, "--split", "test", "-o", out)
        self.assertEqual(predicted.code, 0, predicted.err)
        self.assertIn("COCO results", predicted.out)
        with open(out, encoding="utf-8") as file:
            boxes = json.load(file)
        self.assertTrue(boxes)
        for box in boxes:
            self.assertEqual(set(box), {"image_id", "category_id", "bbox", "score"})
            self.assertTrue(0 <= box["score"] <= 1)
            self.assertTrue(box["bbox"][2] >= 0 and box["bbox"][3] >= 0)
        truth = os.path.join(os.path.dirname(POOL), "test.json")
        of_file = run("evaluate", out, "--annotations", truth, "--json").json()
        of_model = run("evaluate", model, POOL, "--split", "test", "--baselines", "--json").json()
        for key in FIGURES:
            self.assertAlmostEqual(of_file[key], of_model[key], places=9)
        self.assertFalse(of_model["seen_in_fitting"])
        self.assertEqual([row["method"] for row in of_model["baselines"]], ["best-single", "average", "wbf", "nms"])
        self.assertTrue(run("evaluate", model, POOL, "--split", "oof", "--json").json()["seen_in_fitting"])
        compared = run("compare", POOL, "--split", "test", "-m", "best-single,average,wbf,default", "-r", "100",
                       "--json").json()
        rows = {row["method"]: row for row in compared["rows"]}
        self.assertAlmostEqual(rows["default"]["AP"], of_model["AP"], places=9)
        self.assertGreater(rows["default"]["AP"], rows["best-single"]["AP"])
        self.assertEqual(len(rows["average"]["weights"]), fit["models_in"])
        self.assertNotIn("difference", rows["default"])
        self.assertAlmostEqual(rows["wbf"]["difference"]["AP"], rows["wbf"]["AP"] - rows["default"]["AP"], places=9)
        inspected = run("inspect", POOL, "--json").json()
        self.assertEqual(len(inspected["cka"]), fit["models_in"])

    def test_same_bytes_with_any_number_of_threads(self):
        models = []
        for threads in ("1", "2"):
            model = self.path(f"m{threads}.cstack")
            result = run("fit", POOL, "-o", model, "--threads", threads, "--set", "evaluate.nested=false")
            self.assertEqual(result.code, 0, result.err)
            out = self.path(f"o{threads}.json")
            self.assertEqual(run("predict", model, POOL, "--split", "test", "-o", out, "--threads", threads).code, 0)
            with open(model, "rb") as a, open(out, "rb") as b:
                models.append((a.read(), b.read()))
        self.assertEqual(models[0], models[1])

    def test_output_is_json(self):
        model = self.path("cells.cstack")
        self.assertEqual(run("fit", POOL, "-o", model, "--set", "evaluate.nested=false").code, 0)
        for name in ("out.npy", "out.csv"):
            result = run("predict", model, POOL, "--split", "test", "-o", self.path(name))
            self.assertEqual(result.code, 2)
            self.assertIn(".json", result.err)
            self.assertFalse(os.path.exists(self.path(name)))


class Habits(PoolCase):
    """Prediction without labels compares members with what they were at the fit."""

    SOURCE = os.path.join(SOURCES, "examples", "detection")

    def setUp(self):
        super().setUp()
        self.pool = self.path("pool")
        self.model = self.path("cells.cstack")
        shutil.copytree(self.SOURCE, self.pool)
        fit = run("fit", os.path.join(self.SOURCE, "pool.json"), "-o", self.model, "--set", "evaluate.nested=false")
        self.assertEqual(fit.code, 0, fit.err)

    def boxes(self, member, change, split="test"):
        path = os.path.join(self.pool, f"{member}.{split}.json")
        with open(path, encoding="utf-8") as file:
            rows = [row for row in map(change, json.load(file)) if row]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file)

    def predict(self, split="test"):
        result = run("predict", self.model, os.path.join(self.pool, "pool.json"), "--split", split, "-o",
                     self.path("out.json"))
        self.assertEqual(result.code, 0, result.err)
        return result.err

    def test_nothing_is_said_of_honest_files(self):
        for split in ("oof", "test"):
            self.assertEqual(self.predict(split), "")

    def test_nothing_is_said_of_few_images(self):
        path = os.path.join(self.pool, "test.json")
        with open(path, encoding="utf-8") as file:
            truth = json.load(file)
        truth["images"] = truth["images"][:3]
        truth["annotations"] = []
        few = {image["id"] for image in truth["images"]}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(truth, file)
        for member in ("center_a", "ssd", "fcos", "yolo"):
            self.boxes(member, lambda row: row if row["image_id"] in few else None)
        self.assertEqual(self.predict(), "")

    def test_faults_are_named(self):
        with open(os.path.join(self.SOURCE, "test.json"), encoding="utf-8") as file:
            truth = json.load(file)
        size = {image["id"]: (image["width"], image["height"]) for image in truth["images"]}
        categories = sorted(category["id"] for category in truth["categories"])
        images = sorted(size)

        def corners(row):
            x, y, w, h = row["bbox"]
            return {**row, "bbox": [x, y, x + w, y + h]}

        def fractions(row):
            x, y, w, h = row["bbox"]
            width, height = size[row["image_id"]]
            return {**row, "bbox": [x / width, y / height, w / width, h / height]}

        def category(row):
            place = categories.index(row["category_id"])
            return {**row, "category_id": categories[(place + 1) % len(categories)]}

        def image(row):
            place = images.index(row["image_id"])
            return {**row, "image_id": images[(place + 1) % len(images)]}

        for change, words in ((corners, "are corners"), (fractions, "are fractions of the image"),
                              (category, "categories are ignored"), (image, "image ids are one too high")):
            shutil.copy(os.path.join(self.SOURCE, "ssd.test.json"), self.pool)
            self.boxes("ssd", change)
            said = self.predict()
            self.assertIn("'ssd'", said)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_every_command_names_faults(self):
        for change, words in ((lambda row: {**row, "bbox": [row["bbox"][0], row["bbox"][1], row["bbox"][0] + row["bbox"][2],
                                                            row["bbox"][1] + row["bbox"][3]]}, "are corners"),
                              (lambda row: None, "has no boxes")):
            for split in ("oof", "test"):
                self.boxes("ssd", change, split)
            pool = os.path.join(self.pool, "pool.json")
            for call in (("fit", pool, "-o", self.path("m.cstack"), "--set", "evaluate.nested=false"), ("inspect", pool),
                         ("evaluate", self.model, pool, "--split", "test"),
                         ("evaluate", os.path.join(self.pool, "ssd.test.json"), "--annotations",
                          os.path.join(self.pool, "test.json")),
                         ("compare", pool, "--split", "test", "-m", "average", "-r", "0"),
                         ("predict", self.model, pool, "--split", "test", "-o", self.path("out.json"))):
                result = run(*call)
                said = " ".join((result.out + result.err).split())
                self.assertEqual(result.code, 0, result.err)
                self.assertIn(words, said, call)


class Faults(PoolCase):
    IMAGES = [{"id": 1, "width": 100, "height": 80}, {"id": 2, "width": 100, "height": 80}]
    KINDS = [{"id": 3, "name": "cell"}]

    def write_json(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(content, file)

    def box(self, **changes):
        return {"image_id": 1, "category_id": 3, "bbox": [10, 10, 20, 20], "score": 0.5, **changes}

    def refused(self, boxes, *texts, annotations=None, second=None):
        """The pool of these detections cannot be fitted; nothing is written."""
        self.write_json("gt.json", {"images": self.IMAGES, "categories": self.KINDS,
                                    "annotations": annotations or [{"id": 1, "image_id": 1, "category_id": 3,
                                                                    "bbox": [10, 10, 20, 20], "area": 400,
                                                                    "iscrowd": 0}]})
        self.write_json("a.json", boxes)
        self.write_json("b.json", second or [self.box()])
        self.write_json("pool.json", {
            "corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
            "models": [{"name": n, "predictions": {"oof": n + ".json"}} for n in ("a", "b")]})
        model = self.path("m.cstack")
        result = run("fit", self.path("pool.json"), "-o", model)
        self.assertEqual(result.code, 2, result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        for text in texts:
            self.assertIn(text, result.err)
        self.assertFalse(os.path.exists(model))

    def test_every_fault_of_a_member(self):
        self.refused([self.box(image_id=9)], "a.json: byte 1", "image_id 9")
        self.refused([self.box(), self.box(category_id=4)], "detection 1 (counted from 0)", "category_id 4")
        self.refused([self.box(bbox=[10, 10, -5, 5])], "negative size")
        self.refused([self.box(bbox=[200, 10, 5, 5])], "outside its image of 100 x 80")
        self.refused([self.box(bbox=[1, 2, 1e308, 1e308])], "a.json: byte 1", "10000000 pixels")
        self.refused([self.box(bbox=[-1e308, 2, 1.7e308, 10])], "10000000 pixels")
        self.refused([self.box(score=1.5)], "score 1.5", "from 0 to 1")
        self.refused([self.box(score=float("nan"))], "NaN")
        self.refused([self.box(bbox=[1, 2, 3])], "fewer than four")
        self.refused([{"image_id": 1}], "has no 'category_id'")
        self.refused({"annotations": []}, "an object, not a list")
        self.refused([self.box()], "true box", annotations=[{"id": 1, "image_id": 1, "category_id": 3,
                                                            "bbox": [60, 40, 20, 20], "area": 400, "iscrowd": 0}])

    def test_every_fault_of_the_annotations(self):
        good = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [10, 10, 20, 20]}
        self.refused([self.box()], "gt.json", "id 1, which is also the id of another annotation", annotations=[good, good])
        self.refused([self.box()], "gt.json", "image_id 5", annotations=[{**good, "image_id": 5}])
        self.refused([self.box()], "gt.json", "outside its image", annotations=[{**good, "bbox": [500, 1, 2, 2]}])

    def test_no_boxes(self):
        folder = shutil.copytree(os.path.dirname(small("detection", 4, 2)), self.path("copy"))
        with open(folder + "/pool.json", encoding="utf-8") as file:
            path = json.load(file)["models"][1]["predictions"]["oof"]
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.write("[]")
        found = self.works("fit", folder, "-o", self.path("m.cstack"), "--json").json()
        self.assertIn(f"{path}: has no boxes", " ".join(found["notices"]))

    def test_fewer_images_than_folds(self):
        far = self.box(bbox=[60, 40, 10, 10])
        self.refused([self.box(), far], "gt.json: split 'oof' has 1 image ", "folds.count")

    def test_faults_of_the_manifest(self):
        base = {"corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
                "models": [{"name": "a", "predictions": {"oof": "a.json"}}]}
        for change, text in (({"splits": {"oof": {"labels": "gt.json"}}}, "labels"),
                             ({"splits": {"oof": {}}}, "has no annotations"),
                             ({"output": "logit"}, "output"),
                             ({"task": "segmentation"}, "annotations")):
            self.write_json("pool.json", {**base, **change})
            result = run("fit", self.path("pool.json"), "-o", self.path("m.cstack"))
            self.assertEqual(result.code, 2, result.err)
            self.assertEqual(result.err.count("\n"), 1, result.err)
            self.assertIn(text, result.err)

    def test_a_model_of_another_task(self):
        self.fit()
        result = run("predict", self.model, POOL, "--split", "test", "-o", self.path("o.json"))
        self.assertEqual(result.code, 2)
        self.assertIn("fitted for classification", result.err)
        self.assertFalse(os.path.exists(self.path("o.json")))


if __name__ == "__main__":
    unittest.main()
