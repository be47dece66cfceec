"""compare --splits and --holdout, sweep --over seed: means and standard errors recomputed, which rows are held out, LaTeX."""

import csv
import io
import json
import os
import re
import unittest

import numpy as np

from support import SOURCES, PoolCase, run, sample, small

EXAMPLES = os.path.join(SOURCES, "examples")
METHODS = ("--methods", "best-single,average,ridge,greedy,default")


def timeless(value):
    """Without what depends on the clock."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "seconds_scored")}
    if isinstance(value, list):
        return [timeless(v) for v in value]
    return value


class SplitsCase(PoolCase):
    rows, test_rows = 203, 80

    def compare(self, *more, pool=None):
        return self.works("compare", pool or self.pool, *METHODS, *more, "--json").json()

    def fails(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.code, 2, result.out + result.err)
        self.assertEqual(result.out, "")
        self.assertEqual(len(result.err.splitlines()), 1, result.err)
        return result.err

    def check_means(self, document, keys):
        """Rows, differences and standard errors from the repetitions, by NumPy."""
        repetitions = document["repetitions"]
        count = len(repetitions)
        values = {
            key: np.array([[row[key] for row in one["rows"]] for one in repetitions]) for key in keys
        }
        names = [row["method"] for row in document["rows"]]
        self.assertEqual(names, [row["method"] for row in repetitions[0]["rows"]])
        reference = names.index(document["reference"])
        for m, row in enumerate(document["rows"]):
            self.assertEqual("difference" in row, m != reference)
            for key in keys:
                own = values[key][:, m]
                self.assertAlmostEqual(row[key], own.mean(), places=9)
                self.assertAlmostEqual(row[key + "_se"], own.std(ddof=1) / np.sqrt(count), places=9)
                if m == reference:
                    continue
                paired = own - values[key][:, reference]
                self.assertAlmostEqual(row["difference"][key], paired.mean(), places=9)
                error = paired.std(ddof=1) / np.sqrt(count)
                self.assertAlmostEqual(row["difference"][key + "_se"], error, places=9)


class Repetitions(SplitsCase):
    def test_each_is_a_run_with_its_seed(self):
        for more in (("--split", "test"), ("--holdout", "0.25")):
            document = self.compare(*more, "--splits", "3", "--seed", "4")
            self.assertEqual([one["seed"] for one in document["repetitions"]], [4, 5, 6])
            self.assertEqual(document["seed"], 4)
            self.assertNotIn("tests", document)
            for one in document["repetitions"]:
                alone = self.compare(*more, "--seed", str(one["seed"]), "-r", "0")
                self.assertEqual(timeless(alone["rows"]), timeless(one["rows"]))
                self.assertEqual(alone["tests"], one["tests"])
                self.assertEqual(alone.get("held_out"), one.get("held_out"))
            self.check_means(document, ("top1", "ece", "nll", "brier", "corp"))
            self.assertGreater(max(row["nll_se"] for row in document["rows"]), 0)

    def test_one_repetition_is_a_plain_comparison(self):
        plain = self.compare("--split", "test", "-r", "50")
        self.assertEqual(
            timeless(plain), timeless(self.compare("--split", "test", "-r", "50", "--splits", "1"))
        )
        held = self.compare("--holdout", "0.2", "-r", "50")
        self.assertIn("nll_ci", held["rows"][0])
        self.assertNotIn("repetitions", held)
        self.assertEqual(held["scored"], "held-out")
        self.assertEqual(held["holdout"], 0.2)

    def test_intervals_are_those_of_a_repetition(self):
        document = self.compare("--holdout", "0.2", "--splits", "2", "-r", "50")
        self.assertNotIn("resamples", document)
        self.assertFalse([k for row in document["rows"] for k in row if k.endswith("_ci")])
        self.assertIn("nll_ci", document["repetitions"][1]["rows"][0])

    def test_threads_and_memory_change_nothing(self):
        one = self.compare("--holdout", "0.3", "--splits", "2", "--threads", "1")
        more = self.compare("--holdout", "0.3", "--splits", "2", "--threads", "4", "--memory", "64MiB")
        self.assertEqual(timeless(one), timeless(more))

    def test_given_folds(self):
        self.save("folds.npy", np.arange(self.rows) % 5)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()
        equal = self.works("compare", self.pool, "--methods", "average,ridge", "--splits", "2", "--json").json()
        self.assertIn("all 2 repetitions are equal", " ".join(equal["notices"]))
        self.assertEqual([row["nll_se"] for row in equal["rows"]], [0, 0])
        held = self.compare("--splits", "2", "--holdout", "0.2")
        self.assertNotIn("repetitions are equal", " ".join(held["notices"]))
        self.assertGreater(held["rows"][0]["nll_se"], 0)

    def test_forms(self):
        options = ("--splits", "3", "--holdout", "0.2")
        document = self.compare(*options)
        text = self.works("compare", self.pool, *METHODS, *options).out
        for words in ("Means over 3 repetitions, seeds 0 to 2", "20% of it", "Difference from default", " se "):
            self.assertIn(words, text)
        table = list(csv.DictReader(io.StringIO(self.works("compare", self.pool, *METHODS, *options, "--csv").out)))
        for line, row in zip(table, document["rows"]):
            self.assertAlmostEqual(float(line["nll_se"]), row["nll_se"], places=9)
            if "difference" in row:
                self.assertAlmostEqual(float(line["difference_top1_se"]), row["difference"]["top1_se"], places=9)
        lines = self.works("compare", self.pool, *METHODS, *options, "--markdown").out.splitlines()[2:]
        for line, row in zip(lines, document["rows"]):
            self.assertIn(f"± {row['nll_se']:.4f}", line)

    def test_several_splits_and_ood(self):
        rng = np.random.default_rng(5)
        for split in ("other", "far"):
            labels, _ = sample(50, self.classes, 9)
            self.save(f"{split}_labels.npy", labels)
            self.manifest["splits"][split] = {"labels": f"{split}_labels.npy"} if split == "other" else {"ood": True}
            for k, model in enumerate(self.manifest["models"]):
                _, p = sample(50, self.classes, int(rng.integers(1000)) + k, 0.5, labels)
                self.save(f"{model['name']}.{split}.npy", p)
                model["predictions"][split] = f"{model['name']}.{split}.npy"
        self.write_manifest()
        document = self.compare("--split", "test,other", "--splits", "2")
        for m, row in enumerate(document["rows"]):
            for split in ("test", "other"):
                own = [one["rows"][m]["on"][split] for one in document["repetitions"]]
                self.assertAlmostEqual(row["on"][split], np.mean(own), places=9)
                self.assertAlmostEqual(row["on"][split + "_se"], np.std(own, ddof=1) / 2**0.5, places=9)
        self.assertIn("se 0.", self.works("compare", self.pool, *METHODS, "--split", "test,other", "--splits", "2").out)
        document = self.compare("--ood", "far", "--holdout", "0.3", "--splits", "2")
        self.check_means(document, ("ood_auroc", "ood_fpr95"))


class Holdout(SplitsCase):
    def division(self, *more, pool=None, count=None):
        document = self.works("compare", pool or self.pool, "--methods", "average", "--json", *more).json()
        held = np.zeros(count or self.rows, bool)
        held[document["held_out"]] = True
        return document, held

    def test_classes_have_their_share(self):
        seen = set()
        for seed in range(4):
            document, held = self.division("--holdout", "0.3", "--seed", str(seed), "-r", "0")
            self.assertEqual(held.sum(), round(0.3 * self.rows))
            self.assertEqual(document["samples"], held.sum())
            for c in range(self.classes):
                own = held[self.labels["oof"] == c]
                self.assertLess(abs(own.sum() - 0.3 * len(own)), 1)
            seen.add(tuple(document["held_out"]))
        self.assertEqual(len(seen), 4)

    def test_equals_a_pool_of_the_two_parts(self):
        """Weights, groups and ids: scores are those of a pool whose splits are the parts."""
        rng = np.random.default_rng(3)
        beside = {"weights": np.where(rng.random(self.rows) < 0.1, 0, rng.random(self.rows) + 0.1)}
        beside["groups"] = rng.integers(0, 40, self.rows)
        beside["domains"] = rng.integers(0, 2, self.rows)
        for keys in ((), ("weights",), ("weights", "groups"), ("domains",)):
            for key in beside:
                self.manifest["splits"]["oof"].pop(key, None)
            for key in keys:
                self.save(f"{key}.npy", beside[key])
                self.manifest["splits"]["oof"][key] = f"{key}.npy"
            self.write_manifest()
            options = ("--set", "domain.aware=true") if "domains" in keys else ()
            document = self.compare("--holdout", "0.25", "--seed", "2", "-r", "40", *options)
            held = np.zeros(self.rows, bool)
            held[document["held_out"]] = True
            if "weights" in keys:
                self.assertFalse((held & (beside["weights"] == 0)).any())
            if "groups" in keys:
                self.assertFalse(set(beside["groups"][held]) & set(beside["groups"][~held & (beside["weights"] > 0)]))
                self.assertAlmostEqual(held.sum() / (beside["weights"] > 0).sum(), 0.25, delta=0.06)
            parts = json.loads(json.dumps(self.manifest))
            for split, rows in (("oof", ~held), ("test", held)):
                self.save(f"part_{split}.npy", self.labels["oof"][rows])
                parts["splits"][split] = {"labels": f"part_{split}.npy"}
                for key in keys:
                    self.save(f"part_{key}_{split}.npy", beside[key][rows])
                    parts["splits"][split][key] = f"part_{key}_{split}.npy"
                for model in parts["models"]:
                    self.save(f"part_{model['name']}.{split}.npy", self.members[model["name"], "oof"][rows])
                    model["predictions"][split] = f"part_{model['name']}.{split}.npy"
            with open(self.path("parts.json"), "w", encoding="utf-8") as file:
                json.dump(parts, file)
            options += ("--split", "test", "--seed", "2", "-r", "40")
            expected = self.compare(*options, pool=self.path("parts.json"))
            self.assertEqual(timeless(document["rows"]), timeless(expected["rows"]))
            self.assertEqual(document["tests"], expected["tests"])

    def test_targets_have_their_share(self):
        folder = os.path.join(EXAMPLES, "concrete")
        with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
            targets = np.load(os.path.join(folder, json.load(file)["splits"]["oof"]["labels"])).ravel()
        document, held = self.division("--holdout", "0.2", "-r", "0", pool=folder + "/pool.json", count=len(targets))
        order = np.argsort(targets, kind="stable")
        self.assertEqual(held.sum(), round(0.2 * len(targets)))
        for part in np.array_split(order, 8):
            self.assertAlmostEqual(held[part].mean(), 0.2, delta=0.04)

    def test_maps_and_images_are_units(self):
        for task, unit in (("segmentation", "cases"), ("detection", "images")):
            pool = small(task, 3, 2)
            document = self.works(
                "compare", pool, "--methods", "best-single,average", "--holdout", "0.4", "--splits", "2", "--json",
                "-s", "segment.pixels=500"
            ).json()
            held = [one["held_out"] for one in document["repetitions"]]
            self.assertNotEqual(held[0], held[1])
            for one in document["repetitions"]:
                self.assertEqual(one[unit], len(one["held_out"]))
            self.check_means(document, ("miou", "nll") if unit == "cases" else ("AP", "AP50"))
        with open(pool, encoding="utf-8") as file:
            path = json.load(file)["splits"]["oof"]["annotations"]
        with open(os.path.join(os.path.dirname(pool), path), encoding="utf-8") as file:
            truth = json.load(file)
        for one in document["repetitions"]:
            inside = [box for box in truth["annotations"] if box["image_id"] in one["held_out"]]
            self.assertEqual(one["annotations"], len(inside))

    def test_detections_equal_files_of_the_two_parts(self):
        folder = os.path.dirname(small("detection", 4, 2))
        options = ("--methods", "average,wbf,default", "-r", "0", "--json")
        document = self.works("compare", folder + "/pool.json", "--holdout", "0.4", *options).json()
        with open(folder + "/pool.json", encoding="utf-8") as file:
            manifest = json.load(file)
        held = set(document["held_out"])

        def write(name, value):
            with open(self.path(name), "w", encoding="utf-8") as file:
                json.dump(value, file)
            return name

        def load(name):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                return json.load(file)

        truth = load(manifest["splits"]["oof"]["annotations"])
        for split, inside in (("test", True), ("oof", False)):
            part = dict(truth)
            part["images"] = [image for image in truth["images"] if (image["id"] in held) == inside]
            part["annotations"] = [box for box in truth["annotations"] if (box["image_id"] in held) == inside]
            manifest["splits"][split] = {"annotations": write(f"{split}.json", part)}
            for k, model in enumerate(manifest["models"]):
                source = os.path.join(folder, model["predictions"]["oof"]) if inside else model["whole"]
                model["whole"] = source
                boxes = [box for box in load(source) if (box["image_id"] in held) == inside]
                model["predictions"][split] = write(f"{k}.{split}.json", boxes)
        for model in manifest["models"]:
            del model["whole"]
        write("parts.json", manifest)
        expected = self.works("compare", self.path("parts.json"), "--split", "test", *options).json()
        self.assertEqual(timeless(document["rows"]), timeless(expected["rows"]))

    def test_what_is_refused(self):
        compare = ("compare", self.pool, "--methods", "average,ridge", "-r", "0")
        for more, words in (
            (("--splits", "0"), "--splits: '0'"),
            (("--splits", "1.5"), "--splits: '1.5'"),
            (("--holdout", "1.5"), "--holdout: '1.5'"),
            (("--holdout", "0"), "above 0 and below 1"),
            (("--holdout", "0.2", "--split", "test"), "split 'test'"),
            (("--splits", "2", "--save", self.path("saved")), "--save"),
            (("--splits", "2", "--seed", str(2**53)), "2^53"),
            (("--holdout", "0.2", "--ood", "none"), "no split 'none'"),
            (("--json", "--latex"), "--json and --latex"),
        ):
            self.assertIn(words, self.fails(*compare, *more))
        labels = np.minimum(self.labels["oof"], 1)
        labels[np.flatnonzero(self.labels["oof"] == 2)[0]] = 2
        self.save("oof_labels.npy", labels)
        self.assertIn("class 2", self.fails(*compare, "--holdout", "0.2", "--set", "checks=false"))
        self.save("groups.npy", np.zeros(self.rows, int))
        self.manifest["splits"]["oof"]["groups"] = "groups.npy"
        self.write_manifest()
        self.assertIn("1 group cannot", self.fails(*compare, "--holdout", "0.2", "--set", "checks=false"))
        maps = small("segmentation", 3, 2)
        self.assertIn("has one case", self.fails("compare", maps, "--methods", "average,ridge", "-r", "0", "--holdout", "0.99"))

    def test_conditions_are_refused(self):
        spec = self.manifest["splits"]["oof"]
        spec["conditions"] = [{"shift": "noise", "kind": "noise", "severity": s} for s in (1, 2)]
        for model in self.manifest["models"]:
            self.save(f"{model['name']}.oof.npy", np.stack([self.members[model["name"], "oof"]] * 2))
        self.write_manifest()
        self.assertIn("conditions", self.fails("compare", self.pool, "--holdout", "0.2"))


class Seeds(SplitsCase):
    def test_summary(self):
        document = self.works(
            "sweep", self.pool, "--over", "seed=3,5,9", "--methods", "ridge,default", "--split", "test", "--json"
        ).json()
        self.assertEqual([row["value"] for row in document["rows"]], ["3", "5", "9"] * 2)
        for m, summary in enumerate(document["summary"]):
            own = [row for row in document["rows"] if row["method"] == summary["method"]]
            for key in ("top1", "nll", "brier"):
                values = np.array([row[key] for row in own])
                self.assertAlmostEqual(summary[key + "_mean"], values.mean(), places=9)
                self.assertAlmostEqual(summary[key + "_se"], values.std(ddof=1) / 3**0.5, places=9)
            self.assertEqual(summary["seeds"], 3)
            for row in own:
                alone = self.works(
                    "compare", self.pool, "--methods", "ridge,default", "--split", "test", "-r", "0",
                    "--seed", row["value"], "--json",
                ).json()  # fmt: skip
                self.assertEqual(row["nll"], alone["rows"][m]["nll"])
        text = self.works("sweep", self.pool, "--over", "seed=0:2:1", "--split", "test").out
        self.assertIn("Means over the seeds", text)

    def test_what_is_refused(self):
        self.assertIn("seed", self.fails("sweep", self.pool, "--over", "seed=0,x"))
        self.assertIn("--seed", self.fails("sweep", self.pool, "--over", "seed=0,1", "--seed", "3"))


def tables(text):
    """The rows of each tabular, cells split at '&'."""
    found = []
    for body in re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", text, re.S):
        rows = [line[: -len(r" \\")].split(" & ") for line in body[1].splitlines() if line.endswith(r"\\")]
        found.append((body[0], rows))
    return found


class Latex(SplitsCase):
    def check_structure(self, text):
        opened = re.findall(r"\\begin\{(\w+)\}", text)
        self.assertEqual(sorted(opened), sorted(re.findall(r"\\end\{(\w+)\}", text)))
        self.assertEqual(text.replace(r"\{", "").replace(r"\}", "").count("{"), text.replace(r"\{", "").replace(r"\}", "").count("}"))
        for rule in ("toprule", "midrule", "bottomrule"):
            self.assertEqual(text.count("\\" + rule), opened.count("tabular"))
        for alignment, rows in tables(text):
            self.assertEqual({len(row) for row in rows}, {len(alignment)})
            for row in rows:
                for cell in row:
                    self.assertEqual(cell.count("$") % 2, 0, cell)
        self.assertFalse(re.search(r"(?<!\\)[#_^](?![{2])", re.sub(r"\$[^$]*\$", "", text.split("\n", 1)[1])), text)

    def test_marks(self):
        options = ("--splits", "2", "--holdout", "0.2")
        document = self.compare(*options)
        text = self.works("compare", self.pool, *METHODS, *options, "--latex").out
        self.check_structure(text)
        (_, rows), = tables(text)
        self.assertEqual(rows[0][1], r"\textbf{top-1 (\%)} $\uparrow$")
        self.assertEqual(rows[0][3], r"\textbf{NLL} $\downarrow$")
        for column, (key, decimals, scale, higher) in enumerate(
            (("top1", 2, 100, True), ("ece", 4, 1, False), ("nll", 4, 1, False), ("brier", 4, 1, False)), 1
        ):
            shown = [f"{scale * row[key]:.{decimals}f}" for row in document["rows"]]
            ranked = sorted(set(shown), key=float, reverse=higher)
            for row, value, cell in zip(document["rows"], shown, [line[column] for line in rows[1:]]):
                inside = rf"{value}\pm{scale * row[key + '_se']:.{decimals}f}"
                expected = {0: rf"$\mathbf{{{inside}}}$", 1: rf"\underline{{${inside}$}}"}
                self.assertEqual(cell, expected.get(ranked.index(value), f"${inside}$"))
        self.assertIn("standard error over 2 repetitions", text)

    def test_ties_are_marked_alike(self):
        self.manifest["models"] = self.manifest["models"][:1] * 2
        self.manifest["models"][1] = dict(self.manifest["models"][0], name="b_&%$#{}~^\\")
        self.write_manifest()
        text = self.works("compare", self.pool, "--methods", "best-single,average,prototype", "-r", "0", "--latex", "--set", "checks=false").out
        self.check_structure(text)
        (_, rows), = tables(text)
        self.assertEqual(rows[1][1:4], rows[2][1:4])
        self.assertTrue(rows[1][1].startswith(r"$\mathbf{"))

    def test_intervals_and_other_commands(self):
        document = self.compare("-r", "100")
        text = self.works("compare", self.pool, *METHODS, "-r", "100", "--latex").out
        self.check_structure(text)
        low, high = document["rows"][0]["nll_ci"]
        self.assertIn(rf"\pm{(high - low) / 2:.4f}", tables(text)[0][1][1][3])
        for arguments in (
            ("ablate", self.pool, "--split", "test", "-r", "0"),
            ("sweep", self.pool, "--over", "cka.threshold=0.8,0.9", "--methods", "paper"),
            ("sweep", self.pool, "--over", "pool.size=2,3", "--draws", "2", "--methods", "ridge"),
            ("compare", small("concrete"), "--methods", "average,ridge", "-r", "0"),
        ):
            text = self.works(*arguments, "--latex").out
            self.check_structure(text)
            for caption, heads in zip(re.findall(r"\\caption\{(.*)\}\n", text), re.findall(r"\\toprule\n(.*)\\\\", text)):
                for head in heads.split(" & ")[1:]:  # every column but names is explained
                    name = re.sub(r" \$\\\w+arrow\$ *$", "", head).strip().removeprefix(r"\textbf{").removesuffix("}")
                    if name not in ("value", "draw", "draws", "seeds", "cka.threshold", "pool.size"):
                        self.assertIn(f" {name}: ", caption)

    def test_an_ablation_has_the_columns_of_the_paper(self):
        call = ("ablate", self.pool, "--split", "test", "-r", "0")
        rows = self.works(*call, "--json").json()["rows"]
        (_, cells), = tables(self.works(*call, "--latex").out)
        for key, head in (("kappa_gram", "kappa Gram"), ("kappa_cka", "kappa CKA")):
            column = cells[0].index(rf"\textbf{{{head}}} $\downarrow$")
            self.assertEqual([line[column] for line in cells[1:]], [f"${row[key]:.1f}$" for row in rows])
        self.assertEqual(cells[0][-1], r"\textbf{Train (s)} $\downarrow$")

    def test_means_of_a_sweep(self):
        for over, more, spread, words in (
            ("seed=0,1,2", (), "_se", "Mean and standard error over the seeds."),
            ("pool.size=2,3", ("--draws", "3"), "_sd", "Mean and standard deviation over the random subsets."),
        ):
            arguments = ("sweep", self.pool, "--split", "test", "--over", over, *more, "--methods", "ridge,default")
            summary = self.works(*arguments, "--json").json()["summary"]
            text = self.works(*arguments, "--latex").out
            self.check_structure(text)
            self.assertIn(words, text)
            (_, rows) = tables(text)[1]
            column = rows[0].index(r"\textbf{NLL} $\downarrow$")
            self.assertEqual(len(rows), 1 + len(summary))
            for row, cells in zip(summary, rows[1:]):
                self.assertEqual(cells[0], row["method"])
                self.assertIn(rf"{row['nll_mean']:.4f}\pm{row['nll' + spread]:.4f}", cells[column])

    def test_conditional_tables(self):
        conditions = [{"shift": f, "kind": k, "severity": s} for f, k in (("noise", "shot_noise"), ("blur", "defocus")) for s in (1, 2)]
        self.manifest["splits"]["corrupted"] = {"labels": "test_labels.npy", "conditions": conditions}
        self.manifest["training_counts"] = [500, 50, 5]
        for k, model in enumerate(self.manifest["models"]):
            maps = [sample(self.test_rows, self.classes, 50 * s + k, 2 - 0.3 * s, self.labels["test"])[1] for s in range(4)]
            self.save(f"{model['name']}.corrupted.npy", np.stack(maps))
            model["predictions"]["corrupted"] = f"{model['name']}.corrupted.npy"
        self.write_manifest()
        text = self.works("compare", self.pool, *METHODS, "--split", "corrupted", "--splits", "2", "--latex").out
        with open(self.path("reference.json"), "w") as file:
            json.dump({"shot_noise": [0.5, 0.6], "defocus": [0.4, 0.8]}, file)
        normalised = ("compare", self.pool, *METHODS, "--split", "corrupted", "-r", "0", "--reference-errors", self.path("reference.json"))
        rows = self.works(*normalised, "--json").json()["rows"]
        found = self.works(*normalised, "--latex").out
        self.assertIn("Normalised error by family", found)
        families = next(body for _, body in tables(found) if r"\textbf{blur} $\downarrow$" in body[0])
        for row, cells in zip(rows, families[1:]):
            for value, cell in zip((*row["families"].values(), row["mce_normalised"]), cells[1:]):
                self.assertIn(f"{100 * value:.2f}", cell)
        self.check_structure(text)
        heads = [" ".join(rows[0]) for _, rows in tables(text)]
        self.assertTrue(any("noise" in head and "blur" in head and "mCE" in head for head in heads), heads)
        text = self.works("compare", self.pool, *METHODS, "--split", "test", "-r", "0", "--latex").out
        self.check_structure(text)
        self.assertTrue(any("head" in " ".join(rows[0]) for _, rows in tables(text)))


if __name__ == "__main__":
    unittest.main()
