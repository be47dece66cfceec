"""Corruption, several splits, long tails, groups and out-of-distribution rows: figures recomputed from saved predictions."""

import json
import os
import unittest

import numpy as np

from support import PoolCase, run, sample

KINDS = (("noise", "gaussian_noise", 1), ("noise", "gaussian_noise", 5), ("noise", "shot_noise", 1), ("blur", "zoom_blur", 5))
NAMES = ("ada", "bob", "cyd")


def errors(probabilities, labels):
    return (probabilities.argmax(axis=-1) != labels).astype(float)


class ShiftCase(PoolCase):
    def add_split(self, split, rows, skill, seed, classes=3, **more):
        """A split with predictions that know less of the labels."""
        labels, _ = sample(rows, classes, seed)
        for k, name in enumerate(NAMES):
            _, p = sample(rows, classes, 100 * seed + k, skill, labels)
            self.save(f"{name}.{split}.npy", p)
            self.manifest["models"][k]["predictions"][split] = f"{name}.{split}.npy"
        self.save(f"{split}_labels.npy", labels)
        self.manifest["splits"][split] = {"labels": f"{split}_labels.npy", **more}
        return labels

    def add_corrupted(self, same_images):
        """Conditions on the test split's own images, or on others."""
        labels = self.labels["test"] if same_images else sample(50, 3, 9)[0]
        for k, name in enumerate(NAMES):
            pages = [sample(len(labels), 3, 40 + 10 * k + c, 1.0 - 0.1 * c, labels)[1] for c in range(len(KINDS))]
            self.save(f"{name}.corrupted.npy", np.stack(pages))
            self.manifest["models"][k]["predictions"]["corrupted"] = f"{name}.corrupted.npy"
        self.save("corrupted_labels.npy", labels)
        self.manifest["splits"]["corrupted"] = {
            "labels": "corrupted_labels.npy",
            "conditions": [{"shift": f, "kind": k, "severity": s} for f, k, s in KINDS],
        }
        self.write_manifest()
        return labels

    def save_text(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def compare(self, *more):
        return self.works("compare", self.pool, "--methods", "average,ridge,default", *more)

    def saved(self, method, split):
        return np.load(f"{self.path('save')}/{method}.{split}.npy")


class Corruption(ShiftCase):
    def test_figures(self):
        labels = self.add_corrupted(True)
        reference = {"gaussian_noise": [0.7, 0.9], "shot_noise": 0.8, "zoom_blur": 0.75, "clean": 0.4}
        self.save_text("reference.json", json.dumps(reference))
        document = self.compare("--split", "corrupted", "--clean", "test", "--reference-errors", self.path("reference.json"),
                                "--resamples", "300", "--json", "--save", self.path("save")).json()
        self.assertEqual(document["corruption"]["kinds"], 3)
        self.assertEqual(document["corruption"]["clean"], "test")
        self.assertIn("reference.json", document["corruption"]["normalised_by"])
        self.assertNotIn("others", document["corruption"]["resampled"])
        self.assertEqual(document["corruption"]["units"], "normalised")
        for row in document["rows"]:
            e = errors(self.saved(row["method"], "corrupted"), labels).mean(axis=1)
            clean = errors(self.saved(row["method"], "test"), self.labels["test"]).mean()
            kinds = {"gaussian_noise": e[:2].mean(), "shot_noise": e[2], "zoom_blur": e[3]}
            mce = np.mean(list(kinds.values()))
            normalised = {"gaussian_noise": e[:2].sum() / 1.6, "shot_noise": e[2] / 0.8, "zoom_blur": e[3] / 0.75}
            expected = {
                "mce": mce,
                "mce_normalised": np.mean([e[:2].sum() / 1.6, e[2] / 0.8, e[3] / 0.75]),
                "mce_delta": np.mean(list(normalised.values())) - clean,
                "mce_relative": np.mean([(e[:2].sum() - 2 * clean) / 0.8, (e[2] - clean) / 0.4, (e[3] - clean) / 0.35]),
                "clean_error": clean,
            }
            for key, value in expected.items():
                self.assertAlmostEqual(row[key], value, places=9)
                if key != "clean_error":
                    low, high = row[key + "_ci"]
                    self.assertLess(low, high)
            noise = np.mean([normalised["gaussian_noise"], normalised["shot_noise"]])
            self.assertAlmostEqual(row["families"]["noise"], noise, places=9)
            self.assertAlmostEqual(row["families"]["blur"], normalised["zoom_blur"], places=9)
            self.assertLess(row["families"]["noise_ci"][0], noise)
            self.assertEqual({k: round(v, 9) for k, v in row["kinds"].items()}, {k: round(v, 9) for k, v in normalised.items()})
            self.assertEqual([s["severity"] for s in row["severities"]], [1, 5])
            self.assertAlmostEqual(row["severities"][0]["error"], e[[0, 2]].mean(), places=9)
            np.testing.assert_allclose(row["by_condition"], e)
            self.assertEqual("difference" in row, row["method"] != "default")

    def test_interval_is_over_images(self):
        """That of mCE is the bootstrap of per-image means, far wider than one over all rows would be."""
        labels = self.add_corrupted(True)
        document = self.compare("--split", "corrupted", "--resamples", "2000", "--json", "--save", self.path("save")).json()
        self.assertIsNone(document["corruption"]["normalised_by"])
        self.assertIsNone(document["corruption"]["clean"])
        self.assertEqual(document["corruption"]["units"], "plain")
        for row in document["rows"]:
            self.assertNotIn("mce_normalised", row)
            self.assertNotIn("mce_delta", row)
            e = errors(self.saved(row["method"], "corrupted"), labels)
            image = (e[:2].mean(axis=0) + e[2] + e[3]) / 3
            e = e.mean(axis=1)
            self.assertAlmostEqual(row["families"]["noise"], (e[:2].mean() + e[2]) / 2, places=9)
            self.assertAlmostEqual(row["kinds"]["gaussian_noise"], e[:2].mean(), places=9)
            rng = np.random.default_rng(0)
            draws = image[rng.integers(0, len(labels), (4000, len(labels)))].mean(axis=1)
            np.testing.assert_allclose(row["mce_ci"], np.percentile(draws, [2.5, 97.5]), atol=0.02)

    def test_evaluate(self):
        labels = self.add_corrupted(False)
        self.manifest["splits"]["corrupted"]["clean"] = "test"
        self.manifest["reference_errors"] = {"gaussian_noise": 0.9, "shot_noise": 0.8, "zoom_blur": 0.7}
        self.write_manifest()
        self.works("fit", self.pool, "-o", self.path("m.cstack"))
        document = self.works("evaluate", self.path("m.cstack"), self.pool, "--split", "corrupted", "-b", "-r", "100",
                              "--json").json()
        self.assertEqual(document["corruption"]["normalised_by"], "the manifest")
        self.assertIn("others", document["corruption"]["resampled"])
        self.assertNotIn("mce_relative", document)  # the reference has no clean error
        self.works("predict", self.path("m.cstack"), self.pool, "--split", "corrupted", "-o", self.path("p.npy"))
        e = errors(np.load(self.path("p.npy")), labels).mean(axis=1)
        self.assertAlmostEqual(document["mce"], np.mean([e[:2].mean(), e[2], e[3]]), places=9)
        average = next(b for b in document["baselines"] if b["method"] == "average")
        self.assertAlmostEqual(average["difference"]["mce"], average["mce"] - document["mce"], places=9)
        text = self.works("evaluate", self.path("m.cstack"), self.pool, "--split", "corrupted").out
        for part in ("normalised by the manifest", "Normalised error % by family", "clean split test", "By severity", "noise"):
            self.assertIn(part, " ".join(text.split()))
        for form in ("--csv", "--markdown"):
            self.assertIn("mce" if form == "--csv" else "mCE %",
                          self.works("evaluate", self.path("m.cstack"), self.pool, "--split", "corrupted", form).out)

    def test_wrong_requests(self):
        self.add_corrupted(False)
        cases = [
            (("--split", "corrupted", "--clean", "oof"), "oof"),
            (("--split", "corrupted", "--clean", "nowhere"), "nowhere"),
            (("--split", "test", "--clean", "oof"), "oof"),
            (("--split", "test", "--reference-errors", "alexnet"), "conditions"),
            (("--split", "corrupted,test"), "alone"),
            (("--split", "oof,test"), "alone"),
            (("--split", "test,test"), "twice"),
            (("--split", "corrupted", "--reference-errors", self.path("none.json")), "none.json"),
            (("--split", "test", "--head", "50"), "training_counts"),
        ]
        for arguments, says in cases:
            result = run("compare", self.pool, "--methods", "average", *arguments)
            self.assertEqual(result.code, 2, arguments)
            self.assertIn(says, result.err)
            self.assertEqual(result.err.count("\n"), 1, result.err)
        self.save_text("bad.json", '{"gaussian_noise": 40}')
        result = run("compare", self.pool, "--methods", "average", "--split", "corrupted", "--reference-errors",
                     self.path("bad.json"))
        self.assertEqual(result.code, 2)
        self.assertIn("fraction", result.err)
        result = run("compare", self.pool, "--split", "corrupted", "--reference-errors", self.path("none.json"))
        self.assertIn("cannot open the file", result.err)
        self.assertNotIn("line", result.err)
        for key, value, says in (("clean", "far", "far"), ("clean", "corrupted", "corrupted")):
            self.manifest["splits"]["corrupted"][key] = value
            self.write_manifest()
            result = run("compare", self.pool, "--split", "corrupted")
            self.assertEqual(result.code, 2)
            self.assertIn(says, result.err)


    def test_a_condition_twice(self):
        self.add_corrupted(False)
        conditions = self.manifest["splits"]["corrupted"]["conditions"]
        conditions[3] = dict(conditions[1])
        self.write_manifest()
        self.fails("compare", self.pool, "--split", "corrupted", says=["conditions[1] and [3]", "same shift, kind and severity"])
        conditions[3]["severity"] = 4
        self.write_manifest()
        self.compare("--split", "corrupted", "-r", "0")

    def relative(self, reference):
        self.save_text("reference.json", json.dumps(reference))
        document = self.compare("--split", "corrupted", "--clean", "test", "--reference-errors", self.path("reference.json"),
                                "-r", "0", "--json").json()
        return document, [n for n in document.get("notices", []) if "reference error" in n]

    def test_reference_that_is_no_better_when_clean(self):
        """Relative mCE has nothing to divide by; the others stay."""
        self.add_corrupted(True)
        reference = {"gaussian_noise": [0.7, 0.9], "shot_noise": 0.8, "zoom_blur": 0.75, "clean": 0.75}
        document, notices = self.relative(reference)
        self.assertEqual(len(notices), 1)
        self.assertIn("mce_relative is left out", notices[0])
        self.assertIn("zoom_blur", notices[0])
        for row in document["rows"]:
            self.assertNotIn("mce_relative", row)
            e = row["by_condition"]
            self.assertAlmostEqual(row["mce_normalised"], np.mean([(e[0] + e[1]) / 1.6, e[2] / 0.8, e[3] / 0.75]), places=9)
        document, notices = self.relative({**reference, "clean": 0.74})
        self.assertEqual(notices, [])
        self.assertTrue(all("mce_relative" in row for row in document["rows"]))

    def test_saved_over_the_reference(self):
        self.add_corrupted(True)
        self.save_text("reference.json", '{"gaussian_noise": 0.9, "shot_noise": 0.8, "zoom_blur": 0.7}')
        before = self.read(self.path("reference.json"))
        os.mkdir(self.path("saved"))
        output = self.path("saved/average.corrupted.npy")
        words = ("compare", self.pool, "--methods", "average", "--split", "corrupted", "-r", "0", "--save", self.path("saved"),
                 "--reference-errors")
        os.symlink("../reference.json", output)
        self.fails(*words, self.path("reference.json"), says=["--save", "leads to", "reference.json, an input of the command"])
        self.assertEqual(self.read(self.path("reference.json")), before)
        os.remove(output)
        os.rename(self.path("reference.json"), output)
        self.fails(*words, output, says=["--save", "average.corrupted.npy, an input of the command"])
        self.assertEqual(self.read(output), before)
        os.rename(output, self.path("saved/reference.json"))
        self.works(*words, self.path("saved/reference.json"))
        self.assertEqual(self.read(self.path("saved/reference.json")), before)

    def test_reference_kinds_that_the_split_lacks(self):
        self.add_corrupted(True)
        reference = {"gaussian_noise": 0.9, "shot_noise": 0.8, "zoom_blur": 0.7, "shot_nois": 0.8}
        _, notices = self.relative(reference)
        self.assertEqual(len(notices), 1)
        self.assertIn("'shot_nois' is not used", notices[0])
        _, notices = self.relative({**reference, "fgo": 0.5})
        self.assertIn("2 corruptions, the first of them 'shot_nois'", notices[0])
        document = self.compare("--split", "corrupted", "--reference-errors", "alexnet", "-r", "0", "--json").json()
        self.assertFalse(any("not used" in n for n in document.get("notices", [])))


class Splits(ShiftCase):
    def test_average_and_worst(self):
        sets = {s: self.add_split(s, n, skill, seed, domain=f"{s} images")
                for s, n, skill, seed in (("clipart", 40, 2.0, 5), ("painting", 70, 1.2, 6), ("sketch", 50, 0.6, 7))}
        self.write_manifest()
        document = self.compare("--split", "clipart,painting,sketch", "-r", "500", "--json", "--save", self.path("save")).json()
        self.assertEqual(document["splits"], ["clipart", "painting", "sketch"])
        self.assertEqual(document["aggregate"], "mean over splits")
        self.assertEqual(document["samples"], 160)
        self.assertNotIn("tests", document)
        for row in document["rows"]:
            own = {s: 1 - errors(self.saved(row["method"], s), y).mean() for s, y in sets.items()}
            self.assertAlmostEqual(row["top1"], np.mean(list(own.values())), places=9)
            self.assertEqual(row["worst_split"], min(own, key=own.get))
            self.assertAlmostEqual(row["worst_top1"], min(own.values()), places=9)
            for entry in row["splits"]:
                self.assertEqual(entry["domain"], f"{entry['split']} images")
                self.assertAlmostEqual(entry["top1"], own[entry["split"]], places=9)
                self.assertAlmostEqual(row["on"][entry["split"]], own[entry["split"]], places=9)
            spread = np.sqrt(sum(v * (1 - v) / len(sets[s]) for s, v in own.items())) / 3
            low, high = row["top1_ci"]
            self.assertAlmostEqual((high - low) / 2, 1.96 * spread, delta=0.3 * spread)
        alone = self.compare("--split", "painting", "-r", "0", "--json").json()
        for row, single in zip(document["rows"], alone["rows"]):
            self.assertAlmostEqual(row["on"]["painting"], single["top1"], places=9)
        text = self.compare("--split", "clipart,painting,sketch", "-r", "0").out
        self.assertIn("Top-1 % on each split", text)

    def test_evaluate(self):
        labels = self.add_split("sketch", 50, 0.6, 7)
        self.write_manifest()
        self.works("fit", self.pool, "-o", self.path("m.cstack"))
        both = self.works("evaluate", self.path("m.cstack"), self.pool, "--split", "test,sketch", "--json").json()
        self.works("predict", self.path("m.cstack"), self.pool, "--split", "sketch", "-o", self.path("p.npy"))
        self.assertAlmostEqual(both["on"]["sketch"], 1 - errors(np.load(self.path("p.npy")), labels).mean(), places=9)
        self.assertAlmostEqual(both["top1"], np.mean(list(both["on"].values())), places=9)


class Tails(ShiftCase):
    counts = [400, 60, 7]

    def test_head_mid_and_tail(self):
        self.manifest["training_counts"] = self.counts
        self.write_manifest()
        document = self.compare("--split", "test", "-r", "200", "--json", "--save", self.path("save")).json()
        about = document["training_counts"]
        self.assertEqual((about["head_above"], about["tail_below"]), (100, 20))
        y = self.labels["test"]
        self.assertEqual([about[p]["samples"] for p in ("head", "mid", "tail")], [int((y == c).sum()) for c in range(3)])
        for row in document["rows"]:
            right = 1 - errors(self.saved(row["method"], "test"), y)
            own = [right[y == c].mean() for c in range(3)]
            for part, value in zip(("head", "mid", "tail"), own):
                self.assertAlmostEqual(row[f"accuracy_{part}"], value, places=9)
            self.assertAlmostEqual(row["balanced_accuracy"], np.mean(own), places=9)
            self.assertIn("balanced_accuracy_ci", row)
        moved = self.compare("--split", "test", "-r", "0", "--json", "--head", "500", "--tail", "100").json()
        self.assertEqual([moved["training_counts"][p]["classes"] for p in ("head", "mid", "tail")], [0, 1, 2])
        self.assertIsNone(moved["rows"][0]["accuracy_head"])

    def test_balance_is_for_the_log_linear_pool(self):
        """Of all methods the presets without one are left out; by name they are errors."""
        balanced = ("--split", "test", "-r", "0", "--set", "fit.balance=1")
        document = self.works("compare", self.pool, *balanced, "--json").json()
        methods = [row["method"] for row in document["rows"]]
        self.assertIn("default", methods)
        self.assertIn("ridge", methods)
        for preset in ("paper", "prototype"):
            self.assertNotIn(preset, methods)
            self.assertTrue(any(n.startswith(f"{preset} is left out: fit.balance") for n in document["notices"]))
            self.fails("compare", self.pool, "--methods", f"all,{preset}", *balanced, says=[f"method {preset}", "fit.balance"])
        self.fails("fit", self.pool, "--preset", "paper", "--set", "fit.balance=1", "-o", self.path("m.cstack"),
                   says=["fit.balance"])

    def test_bound_without_a_log_linear_pool(self):
        bound = ("--set", "loglinear.nonnegative=true", "-o", self.path("m.cstack"), "--json")
        for preset, told in (("paper", True), ("prototype", True), ("default", False)):
            document = self.works("fit", self.pool, "--preset", preset, *bound).json()
            notices = [n for n in document.get("notices", []) if "loglinear.nonnegative=true has no effect" in n]
            self.assertEqual(len(notices), told)

    def test_counts_from_a_file(self):
        self.save("counts.npy", np.array(self.counts, dtype=np.int64))
        self.manifest["training_counts"] = "counts.npy"
        self.write_manifest()
        self.assertIn("accuracy_tail", self.compare("--split", "test", "-r", "0", "--json").json()["rows"][0])
        self.fails("fit", self.pool, "-o", self.path("counts.npy"), says=["counts.npy", "an input of the command"])

    def test_wrong_counts(self):
        self.save("floats.npy", np.array([1.5, 2.0, 3.0]))
        for value, says in (([1, 2], "2 numbers"), ([1, 2, -3], "[2]"), ("floats.npy", "integer"), ("../x.npy", ".."), (7, "list")):
            self.manifest["training_counts"] = value
            self.write_manifest()
            result = run("compare", self.pool, "--split", "test")
            self.assertEqual(result.code, 2, value)
            self.assertIn(says, result.err)
        self.manifest["training_counts"] = self.counts
        self.write_manifest()
        result = run("compare", self.pool, "--split", "test", "--head", "10", "--tail", "50")
        self.assertEqual(result.code, 2)

    def test_worst_group(self):
        groups = np.array([3] * 25 + [8] * 30 + [11] * 5)
        self.save("groups.npy", groups)
        self.manifest["splits"]["test"]["groups"] = "groups.npy"
        self.write_manifest()
        document = self.compare("--split", "test", "-r", "100", "--json", "--save", self.path("save")).json()
        self.assertEqual(document["groups"], 3)
        self.assertTrue(any("11" in n and "fewer than 20" in n for n in document["notices"]))
        for row in document["rows"]:
            right = 1 - errors(self.saved(row["method"], "test"), self.labels["test"])
            own = {g: right[groups == g].mean() for g in (3, 8, 11)}
            self.assertAlmostEqual(row["worst_group_accuracy"], min(own.values()), places=9)
            self.assertAlmostEqual(own[row["worst_group"]], min(own.values()), places=9)
            self.assertEqual(row["worst_group_samples"], int((groups == row["worst_group"]).sum()))
            self.assertNotIn("group_scores", row)
        self.works("fit", self.pool, "-o", self.model, "--set", "evaluate.nested=false")
        self.works("predict", self.model, self.pool, "-o", self.path("p.npy"))
        p = np.load(self.path("p.npy")).astype(float)
        labels = self.labels["test"]
        nll = -np.log(p[np.arange(len(p)), labels])
        listed = self.works("evaluate", self.model, self.pool, "--json").json()["group_scores"]
        self.assertEqual(sorted((one["group"], one["samples"]) for one in listed), [(3, 25), (8, 30), (11, 5)])
        self.assertEqual(listed[-1]["group"], 11)
        self.assertLessEqual(listed[0]["top1"], listed[1]["top1"])
        for one in listed:
            mine = groups == one["group"]
            self.assertAlmostEqual(one["top1"], (p.argmax(1) == labels)[mine].mean(), places=9)
            self.assertAlmostEqual(one["nll"], nll[mine].mean(), places=6)


def auroc(inside, outside):
    pairs = outside[:, None] - inside[None, :]
    return (pairs > 0).mean() + (pairs == 0).mean() / 2


class Far(ShiftCase):
    """Logits, so that the energy is there; the numbers of each score recomputed."""

    def setUp(self):
        super().setUp()
        self.logits = {}
        rng = np.random.default_rng(3)
        self.manifest["output"] = "logit"
        for split in ("oof", "test", "far", "near"):
            rows = {"far": 40, "near": 30}.get(split, len(self.labels.get(split, [])))
            for k, name in enumerate(NAMES):
                z = rng.normal(0, 1, (rows, 3)) + rng.normal(0, 3, (rows, 1))
                if split in self.labels:
                    z[np.arange(rows), self.labels[split]] += 2 + k
                self.logits[name, split] = z.astype(np.float32)
                self.save(f"{name}.{split}.npy", self.logits[name, split])
                self.manifest["models"][k]["predictions"][split] = f"{name}.{split}.npy"
        self.manifest["splits"]["far"] = {"ood": True}
        self.manifest["splits"]["near"] = {"ood": True}
        self.write_manifest()

    def expected(self, split):
        z = np.stack([self.logits[name, split] for name in NAMES]).astype(float)
        p = np.exp(z - z.max(axis=2, keepdims=True))
        p /= p.sum(axis=2, keepdims=True)
        mean = p.mean(axis=0)
        entropy = -(mean * np.log(mean)).sum(axis=1)
        return {
            "max_probability": -mean.max(axis=1),
            "predictive_entropy": entropy,
            "energy": -np.log(np.exp(z).sum(axis=2)).mean(axis=0),
            "disagreement": (p.argmax(axis=2) != mean.argmax(axis=1)).mean(axis=0),
            "mutual_information": entropy + (p * np.log(p)).sum(axis=2).mean(axis=0),
        }

    def test_scores(self):
        document = self.compare("--split", "test", "--ood", "far,near", "-r", "100", "--json").json()
        self.assertNotIn("energy", document["ood_detection"])
        row = next(r for r in document["rows"] if r["method"] == "average")
        self.assertEqual([(o["split"], o["score"]) for o in row["ood_scores"]],
                         [(s, k) for s in ("far", "near") for k in self.expected(s)])
        inside = self.expected("test")
        for entry in row["ood_scores"]:
            outside = self.expected(entry["split"])[entry["score"]]
            self.assertAlmostEqual(entry["auroc"], auroc(inside[entry["score"]], outside), places=4)
            low, high = entry["auroc_ci"]
            self.assertTrue(low <= entry["auroc"] <= high)
        self.assertEqual(row["ood_auroc_energy"], row["ood_scores"][2]["auroc"])
        alone = next(r for r in self.works("compare", self.pool, "--methods", "best-single", "--split", "test", "--ood", "far",
                                           "-r", "0", "--json").json()["rows"])
        self.assertEqual([o["score"] for o in alone["ood_scores"]], ["max_probability", "predictive_entropy", "energy"])

    def test_evaluate(self):
        self.works("fit", self.pool, "-o", self.path("m.cstack"))
        document = self.works("evaluate", self.path("m.cstack"), self.pool, "--ood", "far", "-b", "-r", "50", "--json").json()
        self.assertEqual(document["ood"], "far")
        for row in (document, *document["baselines"]):
            for entry in row["ood_scores"]:
                for key in ("auroc", "aupr_out_positive", "aupr_in_positive", "fpr95_out_positive", "fpr95_in_positive"):
                    self.assertTrue(0 <= entry[key] <= 1)
        text = self.works("evaluate", self.path("m.cstack"), self.pool, "--ood", "far").out
        for part in ("energy", "FPR@95 out+", "FPR@95 in+", "in distribution"):
            self.assertIn(part, text)

    def test_memory_does_not_change_the_energy(self):
        arguments = ("--split", "test", "--ood", "far", "-r", "0", "--json")
        rows = [self.compare(*arguments, *more).json()["rows"] for more in ((), ("--memory", "64MiB"), ("--threads", "1"))]
        for other in rows[1:]:
            self.assertEqual([r["ood_scores"] for r in rows[0]], [r["ood_scores"] for r in other])


if __name__ == "__main__":
    unittest.main()
