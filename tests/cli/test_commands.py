"""What each command gives: files, JSON keys and values, the same bytes every time."""

import json
import os
import subprocess
import unittest

import numpy as np

from support import DIGITS, SOURCES, PoolCase, run, slow

FIT_KEYS = """command model preset seed samples classes folds models_in models_kept kept dropped members redundancy
path kappa_gram_before kappa_gram_after kappa_cka_before kappa_cka_after lambda lambda_rule sigma2 mp_edge snr learners blend weights oof ece_definition flops_rel
seconds peak_rss_bytes notices""".split()


def nll(probabilities, labels):
    p = np.clip(probabilities[np.arange(len(labels)), labels].astype(np.float64), 1e-15, None)
    return -np.log(p).mean()


class Fit(PoolCase):
    def test_report(self):
        document = self.fit("--json", "--seed", "3", nested=True).json()
        for key in FIT_KEYS:
            self.assertIn(key, document)
        self.assertEqual(document["command"], "fit")
        self.assertEqual(document["model"], self.model)
        self.assertEqual(document["preset"], "default")
        self.assertEqual(document["seed"], 3)
        self.assertEqual((document["samples"], document["classes"]), (120, 3))
        self.assertEqual(document["folds"], {"count": 5, "source": "made"})
        self.assertEqual(document["models_in"], 3)
        self.assertEqual(document["models_kept"], len(document["kept"]))
        dropped = [entry["name"] for entry in document["dropped"]]
        self.assertEqual(sorted(document["kept"] + dropped), ["ada", "bob", "cyd"])
        for entry in document["dropped"]:
            self.assertEqual(set(entry), {"name", "because", "cka", "to", "text"})
        self.assertAlmostEqual(sum(document["blend"].values()), 1, places=8)
        self.assertTrue(document["oof"]["nested"])
        for key in ("top1", "ece", "nll", "brier"):
            self.assertIsInstance(document["oof"][key], float)
        for key in ("read", "cka", "gate", "ridge", "blend", "total"):
            self.assertIn(key, document["seconds"])
        # not that of the process that starts the tool, which getrusage would count
        held = bytearray(300 << 20)
        held[::4096] = b"1" * len(held[::4096])
        self.assertTrue(0 < self.fit("--json").json()["peak_rss_bytes"] < 200 << 20)

    def test_member_scores_are_those_of_numpy(self):
        document = self.fit("--json").json()
        for member in document["members"]:
            predictions = self.members[member["name"], "oof"]
            labels = self.labels["oof"]
            self.assertAlmostEqual(member["nll"], nll(predictions, labels), places=6)
            self.assertAlmostEqual(
                member["top1"], (predictions.argmax(axis=1) == labels).mean(), places=9
            )

    def test_text(self):
        text = self.fit("--verbose").out
        self.assertIn(f"corestack fit: {self.model}", text)
        for word in ("ada", "bob", "cyd", "kappa", "lambda", "blend weights", "ECE", "NLL"):
            self.assertIn(word, text)

    def test_presets(self):
        for preset in ("paper", "prototype"):
            document = self.fit("--preset", preset, "--json").json()
            self.assertEqual(document["preset"], preset)
            self.assertGreater(document["lambda"], 0)
            self.assertEqual(set(document["blend"]), {"ridge", "elastic-net", "lasso"})
            self.assertAlmostEqual(sum(document["blend"].values()), 1, places=8)

    def test_set_changes_the_fit(self):
        document = self.fit("--json", "--set", "keep.max=1", "-s", "keep.fraction=0").json()
        self.assertEqual(document["models_kept"], 1)
        self.assertIn("cap", [d["because"] for d in document["dropped"]])
        document = self.fit("--json", "--set", "evaluate.nested=false").json()
        self.assertFalse(document["oof"]["nested"])

    def test_other_forms_of_a_pool(self):
        from_manifest = self.fit("--json", nested=True).json()
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob", "cyd")]
        listed = self.works(
            "fit", "--labels", self.path("oof_labels.npy"), *files, "-o", self.model, "--json"
        ).json()
        os.remove(self.pool)
        folder = self.works("fit", self.folder, "-o", self.model, "--json").json()
        for document in (listed, folder):
            self.assertEqual(sorted(document["kept"]), sorted(from_manifest["kept"]))
            self.assertEqual(document["oof"], from_manifest["oof"])

    def test_given_folds_and_groups(self):
        folds = self.save("folds.npy", (np.arange(self.rows) % 4).astype(np.int32))
        groups = self.save("groups.npy", (np.arange(self.rows) // 5).astype(np.int64))
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob", "cyd")]
        common = ["fit", "--labels", self.path("oof_labels.npy"), *files, "-o", self.model, "--json"]
        document = self.works(*common, "--folds", folds).json()
        self.assertEqual(document["folds"], {"count": 4, "source": "pool"})
        document = self.works(*common, "--groups", groups).json()
        self.assertEqual(document["folds"], {"count": 5, "source": "made"})

    def test_logits(self):
        logits = []
        for name in ("ada", "bob", "cyd"):
            scores = np.log(self.members[name, "oof"].astype(np.float64)) + 3
            logits.append(self.save(f"{name}_logits.npy", scores.astype(np.float32)))
        document = self.works(
            "fit", "--labels", self.path("oof_labels.npy"), "--values", "logit", *logits, "-o",
            self.model, "--json",
        ).json()
        self.assertAlmostEqual(
            document["oof"]["nll"], self.fit("--json", nested=True).json()["oof"]["nll"], places=4
        )

    def test_verbose_and_quiet_do_not_change_results(self):
        self.fit()
        wanted = self.read(self.model)
        self.fit("-v")
        self.assertEqual(self.read(self.model), wanted)
        self.assertEqual(self.fit("-q").err, "")
        self.assertEqual(self.read(self.model), wanted)


class PredictAndEvaluate(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit()
        self.out = self.path("out.npy")

    def predict(self, *more):
        return self.works("predict", self.model, self.pool, "-o", self.out, *more)

    def test_prediction(self):
        document = self.predict("--json").json()
        guard = document.pop("guard")
        self.assertEqual((guard["mode"], guard["fired"]), ("auto", 0))
        self.assertEqual(
            document,
            {
                "command": "predict", "model": self.model, "split": "test", "out": self.out,
                "samples": self.test_rows, "classes": self.classes,
            },
        )
        predictions = np.load(self.out)
        self.assertEqual(predictions.dtype, np.float32)
        self.assertEqual(predictions.shape, (self.test_rows, self.classes))
        np.testing.assert_allclose(predictions.sum(axis=1), 1, atol=1e-5)
        self.assertTrue((predictions >= 0).all())

    def test_file_list_gives_the_same(self):
        self.predict()
        wanted = self.read(self.out)
        kept = self.fit("--json").json()["kept"]
        files = [self.path(f"{name}.test.npy") for name in kept]
        self.works("predict", self.model, *files, "-o", self.out)
        self.assertEqual(self.read(self.out), wanted)

    def test_evaluate_both_ways_and_numpy_agree(self):
        self.predict()
        labels = self.labels["test"]
        of_file = self.works(
            "evaluate", self.out, "--labels", self.path("test_labels.npy"), "--json"
        ).json()
        of_model = self.works("evaluate", self.model, self.pool, "--json").json()
        predictions = np.load(self.out).astype(np.float64)
        self.assertEqual(of_model["split"], "test")
        for document in (of_file, of_model):
            self.assertEqual(document["command"], "evaluate")
            self.assertEqual(document["samples"], self.test_rows)
            self.assertIn("15", document["ece_definition"])
            self.assertAlmostEqual(document["nll"], nll(predictions, labels), places=6)
            self.assertAlmostEqual(
                document["top1"], (predictions.argmax(axis=1) == labels).mean(), places=9
            )
            onehot = np.eye(self.classes)[labels]
            self.assertAlmostEqual(
                document["brier"], ((predictions - onehot) ** 2).sum(axis=1).mean(), places=6
            )
            self.check_reliability(document, predictions, labels)

    def check_reliability(self, document, predictions, labels):
        confidence, right = predictions.max(axis=1), predictions.argmax(axis=1) == labels
        bins = document["reliability"]
        self.assertEqual(len(bins), 15)
        at = np.searchsorted(np.arange(1, 15) / 15, confidence, side="right")
        for b, found in enumerate(bins):
            self.assertAlmostEqual(found["lower"], b / 15, places=9)
            self.assertAlmostEqual(found["upper"], (b + 1) / 15, places=9)
            self.assertEqual(found["count"], (at == b).sum())
            if found["count"]:
                self.assertAlmostEqual(found["confidence"], confidence[at == b].mean(), places=7)
                self.assertAlmostEqual(found["accuracy"], right[at == b].mean(), places=8)
            else:
                self.assertEqual((found["confidence"], found["accuracy"]), (None, None))

    def test_model_from_a_pipe(self):
        """No command reads bytes of a pipe away before it wants them all."""
        model = self.read(self.model)
        for command in (["evaluate"], ["bound"], ["predict", "-o", self.out]):
            told = []
            for path, data in ((self.model, None), ("/dev/stdin", model)):
                told.append(self.works(*command, path, self.pool, "--json", data=data).json())
                told[-1] = {k: v for k, v in told[-1].items() if k not in ("model", "seconds", "peak_rss_bytes")}
                if command[0] == "predict":
                    told[-1]["bytes"] = self.read(self.out)
            self.assertEqual(told[1], told[0])
        array, labels = self.read(self.path("ada.test.npy")), self.path("test_labels.npy")
        self.fails("evaluate", "/dev/stdin", "--labels", labels, data=array, says=["/dev/stdin", "device or pipe"])
        writer = subprocess.Popen(["/bin/sh", "-c", f"sleep 2.5; cat {self.model} >{self.path('pipe')}"])
        os.mkfifo(self.path("pipe"))
        self.assertIn("waiting for a program that writes", self.works("predict", self.path("pipe"), self.pool, "-o", self.out).err)
        self.assertEqual(writer.wait(), 0)
        self.fails("evaluate", "/dev/stdin", self.pool, data=array, says=["/dev/stdin", "not a corestack model"])
        os.mkfifo(self.path("pipe.npy"))
        self.fails("evaluate", self.path("pipe.npy"), "--labels", labels, says=["pipe.npy", "device or pipe"])
        self.fails("evaluate", self.path("pipe.npy"), self.pool, says=["pipe.npy", "holds predictions"])

    def test_baselines_and_intervals(self):
        document = self.works(
            "evaluate", self.model, self.pool, "--baselines", "--resamples", "200", "--seed", "5",
            "--json",
        ).json()
        methods = [row["method"] for row in document["baselines"]]
        self.assertEqual(methods, ["best-single", "average", "greedy", "greedy+temperature"])
        self.assertEqual((document["resamples"], document["seed"]), (200, 5))
        average = np.mean([self.members[n, "test"] for n in ("ada", "bob", "cyd")], axis=0)
        self.assertAlmostEqual(
            document["baselines"][1]["nll"], nll(average, self.labels["test"]), places=5
        )
        for row in [document, *document["baselines"]]:
            for key in ("top1", "ece", "nll", "brier"):
                low, high = row[key + "_ci"]
                self.assertLessEqual(low, high)
                if key != "ece":  # resampling inflates the ECE
                    self.assertLessEqual(low, row[key])
                    self.assertGreaterEqual(high, row[key])
        text = self.works("evaluate", self.model, self.pool, "-b", "-r", "200").out
        for word in (*methods, "corestack", "95%", "15"):
            self.assertIn(word, text)

    def test_wrong_use(self):
        other = self.path("other.npy")
        self.fails("predict", self.path("none.cstack"), self.pool, "-o", other, says=["none.cstack"])
        self.fails("predict", self.pool, self.pool, "-o", other, says=["pool.json"])
        self.fails("predict", self.model, self.pool, "--split", "nope", "-o", other, says=["nope"])
        self.fails("predict", self.model, "-o", other, says=["pool"])
        lone = self.path("ada.test.npy")
        missing = next(n for n in self.fit("--json").json()["kept"] if n != "ada" or True)
        keep = [n for n in ("ada", "bob", "cyd") if n != missing]
        self.manifest["models"] = [m for m in self.manifest["models"] if m["name"] in keep]
        self.write_manifest()
        self.fails("predict", self.model, self.pool, "-o", other, says=[missing])
        self.fails("evaluate", lone, says=["--labels"])
        scored = ("evaluate", lone, "--labels", self.path("test_labels.npy"))
        self.works(*scored)
        self.fails(*scored, "--split", "test", says=["--split", "model"])
        self.fails(*scored, "--folds", lone, says=["--folds", "model"])
        self.fails(*scored, "--groups", lone, says=["--groups", "model"])
        self.fails(*scored, "--baselines", says=["--baselines", "model"])
        self.fails("evaluate", lone, lone, "--labels", self.path("test_labels.npy"), says=["give no other file"])
        self.fails(
            "evaluate", lone, "--labels", self.path("oof_labels.npy"), says=["ada.test.npy", "60"]
        )
        self.fails(
            "evaluate", lone, "--labels", self.path("test_labels.npy"), "--resamples", "-3",
            says=["--resamples", "-3"],
        )

    def test_rows_that_the_fit_has_seen(self):
        seen = self.works("evaluate", self.model, self.pool, "--split", "oof", "--json")
        self.assertIs(seen.json()["seen_in_fitting"], True)
        self.assertTrue(any("oof" in text and "fitted" in text for text in seen.json()["notices"]))
        self.assertIn("fitted on", self.works("evaluate", self.model, self.pool, "--split", "oof").out)
        fresh = self.works("evaluate", self.model, self.pool, "--json").json()
        self.assertIs(fresh["seen_in_fitting"], False)
        self.assertEqual(fresh["notices"], [])
        # Listed files are called "oof" as well: the labels tell them apart.
        for split in ("oof", "test"):
            files = [self.path(f"{name}.{split}.npy") for name in ("ada", "bob", "cyd")]
            document = self.works(
                "evaluate", self.model, *files, "-l", self.path(f"{split}_labels.npy"), "--json"
            ).json()
            self.assertIs(document["seen_in_fitting"], split == "oof")
        self.fit("--split", "test")
        for split, wanted in (("oof", False), ("test", True)):
            document = self.works("evaluate", self.model, self.pool, "--split", split, "--json").json()
            self.assertIs(document["seen_in_fitting"], wanted)

    def make_conditions(self):
        """Split "hard": the members' test predictions, flattened by three severities."""
        rng = np.random.default_rng(8)
        hard = {}
        for name in ("ada", "bob", "cyd"):
            noise = rng.dirichlet(np.ones(self.classes), (3, self.test_rows))
            share = np.array([0.1, 0.4, 0.8])[:, None, None]
            hard[name] = ((1 - share) * self.members[name, "test"] + share * noise).astype(np.float32)
            self.save(f"{name}.hard.npy", hard[name])
        self.manifest["splits"]["hard"] = {
            "labels": "test_labels.npy",
            "conditions": [
                {"shift": "noise", "kind": "shot", "severity": 1},
                {"shift": "noise", "kind": "shot", "severity": 2.5},
                {"kind": "odd"},
            ],
        }
        for model in self.manifest["models"]:
            model["predictions"]["hard"] = f"{model['name']}.hard.npy"
        self.write_manifest()
        return hard

    def test_conditions(self):
        hard = self.make_conditions()
        words = ("evaluate", self.model, self.pool, "--split", "hard")
        document = self.works(*words, "--baselines", "--json").json()
        labels = self.labels["test"]
        self.assertEqual(document["samples"], self.test_rows)
        self.assertEqual(document["aggregate"], "mean over conditions")
        self.assertIs(document["seen_in_fitting"], False)
        conditions = document["conditions"]
        described = [(c["shift"], c["kind"], c["severity"]) for c in conditions]
        self.assertEqual(described, [("noise", "shot", 1), ("noise", "shot", 2.5), (None, "odd", None)])
        self.works("predict", self.model, self.pool, "--split", "hard", "-o", self.out)
        predictions = np.load(self.out).astype(np.float64)
        self.assertEqual(predictions.shape, (3, self.test_rows, self.classes))
        onehot = np.eye(self.classes)[labels]
        for condition, p in zip(conditions, predictions):
            self.assertAlmostEqual(condition["nll"], nll(p, labels), places=6)
            self.assertAlmostEqual(condition["top1"], (p.argmax(axis=1) == labels).mean(), places=9)
            self.assertAlmostEqual(condition["brier"], ((p - onehot) ** 2).sum(axis=1).mean(), places=6)
            alone = self.save("alone.npy", p.astype(np.float32))
            scored = self.works("evaluate", alone, "-l", self.path("test_labels.npy"), "--json").json()
            self.assertAlmostEqual(condition["ece"], scored["ece"], places=8)
        for key in ("top1", "ece", "nll", "brier"):
            self.assertAlmostEqual(document[key], np.mean([c[key] for c in conditions]), places=8)
        average = np.mean(list(hard.values()), axis=0, dtype=np.float64)
        wanted = np.mean([nll(p, labels) for p in average])
        self.assertEqual(document["baselines"][1]["method"], "average")
        self.assertAlmostEqual(document["baselines"][1]["nll"], wanted, places=6)
        self.assertEqual(document["notices"], [])
        self.assertNotIn("reliability", document)

    def test_conditions_as_text_and_with_intervals(self):
        self.make_conditions()
        words = ("evaluate", self.model, self.pool, "--split", "hard")
        document = self.works(*words, "--resamples", "50", "--json").json()
        for key in ("top1", "nll", "brier", "mce"):
            low, high = document[key + "_ci"]
            self.assertTrue(low <= document[key] <= high)
        self.assertNotIn("ece_ci", document)
        self.assertEqual(document["resamples"], 50)
        text = self.works(*words).out
        for word in ("mean over conditions", "3 conditions", "shot", "2.5", "odd"):
            self.assertIn(word, text)

    def test_broken_model_files(self):
        whole = self.read(self.model)
        for name, content in (
            ("empty.cstack", b""),
            ("half.cstack", whole[: len(whole) // 2]),
            ("flip.cstack", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]),
            ("more.cstack", whole + b"x"),
            ("text.cstack", b"not a model at all, just text\n" * 20),
        ):
            with open(self.path(name), "wb") as file:
                file.write(content)
            self.fails("predict", self.path(name), self.pool, "-o", self.out, says=[name])


class Inspect(PoolCase):
    def test_report(self):
        document = self.works("inspect", self.pool, "--json").json()
        for key in "split samples classes models cka pearson clusters eigenvalues lambda problems".split():
            self.assertIn(key, document)
        self.assertEqual(document["command"], "inspect")
        self.assertEqual(document["models"], ["ada", "bob", "cyd"])
        cka = np.array(document["cka"])
        self.assertEqual(cka.shape, (3, 3))
        np.testing.assert_allclose(cka, cka.T)
        np.testing.assert_allclose(np.diag(cka), 1)
        flat = np.stack([self.members[n, "oof"].ravel() for n in document["models"]])
        np.testing.assert_allclose(document["pearson"], np.corrcoef(flat.astype(np.float64)), atol=1e-6)
        self.assertEqual(set(document["lambda"]), {"star", "cv", "gcv", "evidence"})
        self.assertEqual(document["class_counts"], [40, 40, 40])
        self.assertEqual(sorted(sum(document["clusters"], [])), ["ada", "bob", "cyd"])
        before = self.listing()
        text = self.works("inspect", self.pool).out
        self.assertEqual(self.listing(), before)
        for word in ("ada", "CKA", "eigenvalues", "kappa", "star", "gcv"):
            self.assertIn(word, text)


class Folds(PoolCase):
    def setUp(self):
        super().setUp()
        self.out = self.path("made.npy")

    def test_stratified(self):
        labels = self.path("oof_labels.npy")
        document = self.works("folds", "-l", labels, "-L", "7", "-o", self.out, "--json").json()
        folds = np.load(self.out)
        self.assertEqual(folds.dtype, np.int32)
        self.assertEqual(folds.shape, (self.rows,))
        self.assertEqual(document["sizes"], np.bincount(folds).tolist())
        self.assertEqual((document["samples"], document["folds"]), (self.rows, 7))
        for label in range(self.classes):
            counts = np.bincount(folds[self.labels["oof"] == label], minlength=7)
            self.assertLessEqual(counts.max() - counts.min(), 1)
        first = self.read(self.out)
        self.works("folds", "-l", labels, "-L", "7", "-o", self.out, "--threads", "2")
        self.assertEqual(self.read(self.out), first)
        self.works("folds", "-l", labels, "-L", "7", "-o", self.out, "--seed", "1")
        self.assertNotEqual(self.read(self.out), first)

    def test_groups(self):
        groups = np.arange(self.rows) // 4
        path = self.save("groups.npy", groups)
        self.works("folds", "-l", self.path("oof_labels.npy"), "--groups", path, "-o", self.out)
        folds = np.load(self.out)
        for group in np.unique(groups):
            self.assertEqual(len(np.unique(folds[groups == group])), 1)

    def test_text(self):
        self.works("folds", "-l", self.path("oof_labels.npy"), "-o", self.out)
        wanted = np.load(self.out)
        names = self.save("names.npy", np.array(["cat", "dog", "emu"])[self.labels["oof"]])
        self.works("folds", "-l", names, "-o", self.out)
        counts = np.zeros((3, 5), int)
        np.add.at(counts, (self.labels["oof"], np.load(self.out)), 1)
        self.assertTrue((counts == 8).all())
        with open(self.path("labels.csv"), "w", encoding="ascii") as file:
            file.write("id,label\n" + "".join(f"x{i},{y}\n" for i, y in enumerate(self.labels["oof"])))
        self.works("folds", "-l", self.path("labels.csv"), "-o", self.out)
        np.testing.assert_array_equal(np.load(self.out), wanted)

    def test_bad_input(self):
        labels = self.path("oof_labels.npy")
        self.fails("folds", "-l", labels, "-L", "1", "-o", self.out, says=["--count"])
        self.fails("folds", "-l", labels, "-L", "500", "-o", self.out, says=["500", "120"])
        self.fails("folds", "-l", self.path("ada.oof.npy"), "-o", self.out, says=["ada.oof.npy"])
        few = self.save("few.npy", np.zeros(7, np.int64))
        self.fails("folds", "-l", labels, "--groups", few, "-o", self.out, says=["few.npy", "7"])
        wrong = self.labels["oof"].copy()
        wrong[17] = -4
        path = self.save("wrong.npy", wrong)
        self.fails("folds", "-l", path, "-o", self.out, says=["wrong.npy", "17", "-4"])
        self.fails("folds", "-l", labels, "-o", "/dev/full", says=["/dev/full"])


class SameBytes(PoolCase):
    """The number of threads and repetition change nothing."""

    def everything(self, pool, threads):
        model = self.path("same.cstack")
        out = self.path("same.npy")
        fit = self.works("fit", pool, "-o", model, "--threads", threads, "--json").json()
        self.works("predict", model, pool, "--split", "test", "-o", out, "--threads", threads)
        scores = self.works(
            "evaluate", model, pool, "--baselines", "--resamples", "100", "--threads", threads, "--json"
        ).out
        look = self.works("inspect", pool, "--threads", threads, "--json").out
        del fit["seconds"], fit["peak_rss_bytes"]
        return self.read(model), self.read(out), scores, look, json.dumps(fit)

    def check(self, pool, others):
        wanted = self.everything(pool, 1)
        for threads in others:
            for got, want in zip(self.everything(pool, threads), wanted):
                self.assertEqual(got, want, f"{threads} threads")

    def test_small_pool(self):
        self.check(self.pool, (1, 2, 4, 0))

    @slow
    def test_example(self):
        self.check(DIGITS, (2, 4))


class Example(PoolCase):
    def test_demo_pool(self):
        document = self.works("fit", DIGITS, "-o", self.model, "--preset", "compact", "--json", "--set", "evaluate.nested=false").json()
        self.assertEqual(document["models_in"], 16)
        self.assertLess(document["models_kept"], 16)
        self.assertEqual(document["folds"]["source"], "pool")
        self.assertLess(document["kappa_gram_after"], document["kappa_gram_before"])
        scores = self.works("evaluate", self.model, DIGITS, "--baselines", "--json").json()
        best = scores["baselines"][0]
        self.assertEqual(best["method"], "best-single")
        self.assertLess(scores["nll"], best["nll"])
        labels = os.path.join(SOURCES, "examples", "digits", "test_labels.npy")
        out = self.path("out.npy")
        self.works("predict", self.model, DIGITS, "-o", out)
        again = self.works("evaluate", out, "--labels", labels, "--json").json()
        self.assertAlmostEqual(again["nll"], scores["nll"], places=8)


if __name__ == "__main__":
    unittest.main()
