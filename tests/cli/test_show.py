"""`show`: what is in a model file, and whether a pool is the one that it was fitted on."""

import os
import shutil
import time
import unittest

import numpy as np
from support import PoolCase, slow, small


class Model(PoolCase):
    def shown(self, *more):
        return self.works("show", self.model, *more, "--json").json()

    def test_preset(self):
        report = self.works("fit", self.pool, "-o", self.model, "--seed", "3", "--set", "keep.max=2", "--json").json()
        found = self.shown()
        self.assertEqual(found["preset"], "default")
        self.assertIsNone(found["method"])
        self.assertEqual(found["task"], "classification")
        self.assertEqual(found["classes"], 3)
        self.assertEqual({m["name"]: m["weight"] for m in found["members"]}, report["weights"])
        self.assertEqual(found["fitted_on"], {"split": "oof", "samples": 120, "members": 3, "folds": 5, "folds_source": "made", "seed": 3,
                                              "pool_hash": report["pool_hash"]})
        self.assertEqual(found["changed"], {"keep.max": {"value": "2", "preset": "0"}})
        self.assertEqual(found["settings"]["keep.max"], "2")
        self.assertEqual(found["bytes"], os.path.getsize(self.model))
        self.assertEqual(found["calibration"], None)

    def alike(self, kept, whole, where):
        """What the file has of the fit's report: numbers of single precision, sets in the order of joining."""
        if isinstance(kept, dict):
            for key, value in kept.items():
                self.alike(value, whole[key], f"{where}.{key}")
        elif isinstance(kept, list) and kept and isinstance(kept[0], str):
            self.assertEqual(sorted(kept), sorted(whole), where)
        elif isinstance(kept, list):
            self.assertEqual(len(kept), len(whole), where)
            for a, b in zip(kept, whole):
                self.alike(a, b, where)
        elif isinstance(kept, float):
            self.assertAlmostEqual(kept, whole, delta=1e-7 * abs(whole), msg=where)
        else:
            self.assertEqual(kept, whole, where)

    def test_what_the_fit_found(self):
        for task, every in {"digits": 6, "regression": 2, "segmentation": 2, "detection": 2, "multilabel": 6}.items():
            report = self.works("fit", small(task, 4, every), "-o", self.model, "-s", "segment.pixels=300", "--json").json()
            fit = self.shown()["fit"]
            for key in ("models_in", "models_kept", "kept", "dropped", "members", "path", "front", "budget", "oof"):
                self.alike(fit[key], report[key], f"{task}: {key}")
            for a, b in zip(fit["members"], report["members"]):
                self.assertEqual(set(b) - set(a), {"family"})
            for a, b in zip(fit["dropped"], report["dropped"]):
                self.assertEqual(set(b) - set(a), {"text"} if b["to"] else set())
            for made, told in ((fit["path"], report["path"]), (fit["front"]["points"], report["front"]["points"])):
                have = set()
                for step, one in zip(made, told):
                    have = have.union(step["added"]) - set(step.get("removed", []))
                    self.assertEqual(have, set(one["members"]), task)
                    self.assertEqual(len(have), step["size"])
                    self.assertEqual(set(step), set(one))
            text = self.works("show", self.model, "--verbose").out
            self.assertIn("Members of the fit", text)
            self.assertNotIn("Members of the fit", self.works("show", self.model).out)

    def test_several_learners(self):
        report = self.works("fit", small("digits"), "-o", self.model, "--set", "meta.learners=vector+log-linear,average+temperature",
                            "--set", "evaluate.nested=false", "--json").json()
        found = self.shown()
        self.assertEqual({m["name"]: m["weight"] for m in found["members"]}, report["weights"])
        self.assertEqual({m["name"]: m["weight"] for m in found["learners"]}, {k: w for k, w in report["blend"].items() if w})
        text = self.works("show", self.model).out
        self.assertIn("(preset: log-linear,temperature+log-linear, ...)", " ".join(text.split()))
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)

    def test_gate(self):
        report = self.works("fit", small("digits"), "-o", self.model, "--preset", "paper", "--set", "evaluate.nested=false", "--set",
                            "gate.learning_rate=0.05", "--json").json()
        said = []
        for one in report["gate"]["aggregators"]:
            folds = sum(share < 0.25 for share in one["folds"])
            where = ["the fit"] * (one["passed"] < 0.25) + [f"{folds} of {len(one['folds'])} folds"] * (folds > 0)
            said += [f"{one['name']} in {' and '.join(where)}"] if where else []
        self.assertTrue(said)
        self.assertEqual(report["gate"]["suppresses"], ", ".join(said))
        self.assertEqual(self.shown()["gate_suppresses"], ", ".join(said))

    def test_segmentation_keeps_the_setting(self):
        self.make_maps(6, 12)
        self.fit()
        found = self.shown()
        self.assertTrue({m["name"] for m in found["learners"]} <= {"log-linear", "class-wise"})
        self.assertNotIn("meta.learners", found["changed"])

    def test_method(self):
        self.fit("--method", "greedy+temperature")
        found = self.shown()
        self.assertEqual((found["method"], found["preset"], found["map"]), ("greedy+temperature", None, "mixture"))
        self.assertEqual(found["calibration"]["name"], "temperature")
        self.assertAlmostEqual(sum(m["weight"] for m in found["members"]), 1)
        text = self.works("show", self.model).out
        for part in ("method greedy+temperature", "calibration", "T = ", "hash of the pool"):
            self.assertIn(part, text)

    def test_classes_and_costs(self):
        self.manifest["classes"] = ["cat", "dog", "cow"]
        for k, model in enumerate(self.manifest["models"]):
            model["flops"] = 1e9 * (k + 1)
        self.manifest["models"][0]["latency_ms"] = 2.5
        self.write_manifest()
        self.fit("--method", "average")
        found = self.shown()
        self.assertEqual(found["class_names"], ["cat", "dog", "cow"])
        self.assertEqual([m["flops"] for m in found["members"]], [1e9, 2e9, 3e9])
        self.assertEqual([m["latency_ms"] for m in found["members"]], [2.5, None, None])
        self.assertEqual((found["flops"], found["latency_ms"]), (6e9, None))

    def test_time_is_the_file_s(self):
        self.fit()
        os.utime(self.model, (1e9, 1e9))
        self.assertEqual(self.shown()["modified"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1e9)))

    def test_all_settings(self):
        self.fit()
        self.assertIn("select.direction = backward", self.works("show", self.model, "--verbose").out)
        self.assertNotIn("select.direction", self.works("show", self.model).out)

    def test_what_is_no_model(self):
        self.fails("show", self.pool, says=["not a corestack model"])
        self.fails("show", says=["no model given"])
        self.fails("show", self.path("nothing"), says=["nothing"])


class Hash(PoolCase):
    def hash(self, *words):
        return self.works("fit", *(words or [self.pool]), "-o", self.path("m"), "--set", "evaluate.nested=false", "--json").json()["pool_hash"]

    def test_same_data_in_any_form(self):
        first = self.hash()
        self.assertEqual(self.hash(self.pool, "--threads", "3"), first)
        self.assertEqual(self.hash(self.pool, "--method", "average"), first)
        self.assertEqual(self.hash(self.pool, "--seed", "8"), first)
        labels = self.path("oof_labels.npy")
        names = ("cyd", "ada", "bob")  # another order
        os.mkdir(self.path("other"))
        for name in names:
            np.savez_compressed(self.path(f"other/{name}.npz"), np.asfortranarray(self.members[name, "oof"]))
            np.savetxt(self.path(f"other/{name}.csv"), self.members[name, "oof"], delimiter=",", fmt="%.17g", header="0,1,2", comments="")
        for ending in ("npz", "csv"):
            self.assertEqual(self.hash("--labels", labels, *[self.path(f"other/{n}.{ending}") for n in names]), first)

    def test_other_data(self):
        seen = {self.hash()}

        def expect_new():
            value = self.hash()
            self.assertNotIn(value, seen)
            seen.add(value)

        changed = self.members["bob", "oof"].copy()
        changed[[3, 4]] = changed[[4, 3]]
        self.save("bob.oof.npy", changed)
        expect_new()
        self.save("bob.oof.npy", self.members["bob", "oof"])
        labels = self.labels["oof"].copy()
        labels[[0, 1, 2]] = (labels[[0, 1, 2]] + 1) % 3
        self.save("oof_labels.npy", labels)
        expect_new()
        self.save("oof_labels.npy", self.labels["oof"])
        self.manifest["models"][0]["name"] = "eve"
        self.write_manifest()
        expect_new()
        self.manifest["models"][0]["name"] = "ada"
        for key, values in (("folds", np.arange(120) % 4), ("weights", 1.0 + np.arange(120) % 3), ("groups", np.arange(120) // 2)):
            self.save(f"{key}.npy", values)
            self.manifest["splits"]["oof"][key] = f"{key}.npy"
            self.write_manifest()
            expect_new()
            del self.manifest["splits"]["oof"][key]

    @slow
    def test_memory_budget(self):
        rng = np.random.default_rng(1)
        for name in ("ada", "bob", "cyd"):  # 36 MB: beyond what 64 MiB keeps in memory
            p = rng.random((10000, 300), dtype=np.float32) + 1e-3
            self.save(f"{name}.oof.npy", p / p.sum(1, keepdims=True))
        self.save("oof_labels.npy", rng.integers(0, 300, 10000).astype(np.int32))
        self.manifest["classes"] = 300
        del self.manifest["splits"]["test"]
        for model in self.manifest["models"]:
            del model["predictions"]["test"]
        self.write_manifest()
        self.assertEqual(self.hash(self.pool, "--method", "average", "--memory", "64MiB"), self.hash(self.pool, "--method", "average"))

    def test_is_it_this_pool(self):
        self.fit()
        yes = self.works("show", self.model, self.pool, "--json").json()["pool"]
        self.assertEqual((yes["split"], yes["fitted_on"]), ("oof", True))
        self.assertIn("yes: the model was fitted on split 'oof'", self.works("show", self.model, self.pool).out)
        no = self.works("show", self.model, self.pool, "--split", "test", "--json").json()["pool"]
        self.assertFalse(no["fitted_on"])
        self.fails("show", self.model, self.pool, "--split", "tset", says=["did you mean 'test'"])

    def test_every_task(self):
        for folder, extra in (("regression", []), ("segmentation", ["--set", "segment.pixels=300"]), ("detection", [])):
            pool = small(folder, 4, 2)
            self.works("fit", pool, "-o", self.model, "--set", "evaluate.nested=false", *extra)
            for split, same in (("oof", True), ("test", False)):
                found = self.works("show", self.model, pool, "--split", split, "--json").json()
                self.assertEqual(found["pool"]["fitted_on"], same, f"{folder}, {split}")
            copy = self.path(folder)
            shutil.copytree(os.path.dirname(pool), copy)
            self.assertTrue(self.works("show", self.model, copy, "--json").json()["pool"]["fitted_on"])
        self.fails("show", self.model, self.pool, says=["tasks must match"])


if __name__ == "__main__":
    unittest.main()
