"""`profile`: what a model costs when it predicts, next to other methods and to the paper's table."""

import json
import os
import shutil
import tempfile
import unittest

import numpy as np
from support import DIGITS, SOURCES, PoolCase, run, small

EXAMPLES = os.path.join(SOURCES, "examples")
TIMES = ("single_p50_us", "single_p99_us", "batch_p50_us", "batch_p99_us", "meta_throughput")
PAPER = {  # the paper's tables "Inference efficiency on a single A100 GPU" and "ImageNet-1K classification"
    "best-single": (0.831, 1, 0.07, 1.9, 4.1, 526), "average": (0.839, 14, 1.0, 19.6, 28.4, 312), "ridge": (0.842, 14, 1.0, 19.8, 28.4, 309),
    "deep-ensemble": (0.836, 5, 0.36, 8.6, 11.2, 441), "prototype": (0.845, 9, 0.64, 12.1, 16.6, 398), "paper": (0.854, 6, 0.59, 11.4, 17.9, 528)}  # fmt: skip


def without_times(found):
    """A report without what differs from run to run."""
    found = json.loads(json.dumps(found))
    for key in ("peak_rss_bytes", "seconds"):
        del found[key]
    for row in found["rows"]:
        for key in TIMES + ("latency_ms", "throughput", "seconds"):
            row.pop(key)
    return found


class Profile(PoolCase):
    COSTS = {"flops": (1e9, 2e9, 4e9), "latency_ms": (1.5, 2.5, 7.0), "memory_bytes": (1e9, 3e9, 2e9)}

    def give(self, **costs):
        for model in self.manifest["models"]:
            for key in self.COSTS:
                model.pop(key, None)
        for key, values in costs.items():
            for model, value in zip(self.manifest["models"], values):
                if value is not None:
                    model[key] = value
        self.write_manifest()

    def profiled(self, *more):
        return self.works("profile", self.model, self.pool, "--repeats", "100", *more, "--json").json()

    def by_method(self, *more):
        return {row["method"]: row for row in self.profiled(*more)["rows"]}

    def test_costs_of_members_are_summed(self):
        self.give(**self.COSTS)
        self.fit("--method", "average")
        for parallel in (False, True):
            rows = self.by_method("--methods", "best-single,average,greedy", "--batch", "20", *(["--parallel"] if parallel else []))
            self.assertEqual(list(rows), ["stack", "best-single", "average", "greedy"])
            for name, row in rows.items():
                self.assertEqual(row["models"], {"stack": 3, "average": 3, "best-single": 1}.get(name, row["models"]))
                if name == "greedy":
                    continue
                # The third member is the best one (PoolCase); the stack is the average.
                used = [2] if name == "best-single" else [0, 1, 2]
                flops, latency, memory = ([self.COSTS[key][k] for k in used] for key in ("flops", "latency_ms", "memory_bytes"))
                whole = max if parallel else sum
                self.assertEqual(row["flops"], sum(flops))
                self.assertAlmostEqual(row["flops_rel"], sum(flops) / 7e9, places=9)
                self.assertAlmostEqual(row["members_latency_ms"], whole(latency), places=9)
                self.assertEqual(row["members_memory_bytes"], whole(memory))
                self.assertAlmostEqual(row["latency_ms"], whole(latency) + row["batch_p50_us"] / 1e3 / 20, places=7)
                self.assertAlmostEqual(row["throughput"] * row["latency_ms"], 1e3, places=4)
                self.assertAlmostEqual(row["memory_bytes"], whole(memory) + row["meta_memory_bytes"], delta=1)

    def test_passes_count(self):
        self.give(**self.COSTS)
        self.manifest["models"][0]["ensemble"] = {"kind": "mc-dropout", "of": "net", "passes": 10}
        self.write_manifest()
        self.fit("--method", "average")
        row = self.by_method("--methods", "none")["stack"]
        self.assertEqual((row["flops"], row["members_latency_ms"], row["members_memory_bytes"]), (16e9, 24.5, 6e9))

    def test_a_cost_that_is_missing(self):
        self.give(flops=self.COSTS["flops"], latency_ms=(1, None, 3))
        self.fit("--method", "average")
        found = self.profiled("--methods", "best-single")
        stack, best = found["rows"]
        self.assertEqual((stack["latency_ms"], stack["throughput"], stack["memory_bytes"], stack["members_latency_ms"]), (None,) * 4)
        self.assertGreater(best["latency_ms"], 3)
        self.assertIsNone(best["memory_bytes"])
        said = "\n".join(found["notices"])
        self.assertIn("member 'bob' has no latency_ms in the manifest, so methods that use it have no latency", said)
        self.assertIn("no member has memory_bytes in the manifest", said)
        self.assertNotIn("flops", said)

    def test_times_and_sizes(self):
        self.fit("--preset", "paper")
        found = self.profiled("--batch", "32")
        self.assertEqual(found["measured"]["batch"], 32)
        self.assertEqual((found["measured"]["samples"], found["measured"]["unit"], found["measured"]["calls"]), (60, "samples", 100))
        self.assertTrue(found["measured"]["cpu"])
        for row in found["rows"]:
            self.assertEqual((row["single_calls"], row["batch_calls"]), (100, 100))
            for kind in ("single", "batch"):
                self.assertGreater(row[f"{kind}_p50_us"], 0)
                self.assertLessEqual(row[f"{kind}_p50_us"], row[f"{kind}_p99_us"])
            # The mean call takes at least half of the median one, and 100 calls no more than 100 of the slowest.
            self.assertLessEqual(row["meta_throughput"], 2 * 32e6 / row["batch_p50_us"])
            # A batch needs at least what its members predict and what comes out.
            self.assertGreaterEqual(row["meta_memory_bytes"], (row["models"] + 1) * 32 * self.classes * 4)
        stack = found["rows"][0]
        self.assertEqual(stack["model_bytes"], os.path.getsize(self.model))
        # Two layers: members to 32 units, 32 units to 12 gates, each with biases.
        self.assertEqual(stack["gate_parameters"], 32 * stack["models"] + 32 + 12 * 32 + 12)
        rows = {row["method"]: row for row in found["rows"]}
        self.assertEqual(rows["paper"]["gate_parameters"], stack["gate_parameters"])
        self.assertEqual(rows["paper"]["models"], stack["models"])
        self.assertEqual(rows["average"]["gate_parameters"], 0)

    def test_fewer_calls_than_a_percentile_needs(self):
        self.fit()
        found = self.works("profile", self.model, self.pool, "--repeats", "99", "--methods", "none", "--json").json()
        row = found["rows"][0]
        self.assertEqual((row["single_calls"], row["single_p99_us"], row["batch_p99_us"]), (99, None, None))
        self.assertGreater(row["single_p50_us"], 0)
        self.assertTrue(any("fewer than 100 times" in text for text in found["notices"]))
        timed = self.works("profile", self.model, self.pool, "--seconds", "0.01", "--methods", "none", "--json").json()
        self.assertEqual(timed["measured"]["seconds"], 0.01)
        self.assertGreaterEqual(timed["rows"][0]["single_calls"], 100)

    def test_batch_of_the_split(self):
        self.fit()
        found = self.profiled("--methods", "none")
        self.assertEqual(found["measured"]["batch"], 60)
        self.assertTrue(any("batches have 60 samples" in text for text in found["notices"]))
        self.assertEqual(self.profiled("--methods", "none", "--batch", "1")["measured"]["batch"], 1)

    def test_scores_are_those_of_compare_and_evaluate(self):
        self.fit()
        rows = self.by_method()
        self.assertEqual(list(rows), ["stack", "best-single", "average", "ridge", "greedy", "prototype", "paper"])
        compared = self.works("compare", self.pool, "--split", "test", "-r", "0", "--json").json()["rows"]
        compared = {row["method"]: row for row in compared}
        scored = self.works("evaluate", self.model, self.pool, "--json").json()
        for name, row in rows.items():
            for key in ("top1", "ece", "nll", "brier"):
                self.assertAlmostEqual(row[key], (scored if name == "stack" else compared[name])[key], places=9, msg=f"{name}: {key}")

    def test_deep_ensembles_where_they_are_tagged(self):
        for model in self.manifest["models"][:2]:
            model["ensemble"] = {"kind": "deep-ensemble", "of": "net"}
        self.write_manifest()
        self.fit()
        self.assertEqual(self.by_method()["deep-ensemble"]["models"], 2)

    def test_the_paper_s_figures(self):
        self.fit()
        paper = self.profiled("--methods", "none")["paper"]
        self.assertEqual((paper["device"], paper["data"], paper["batch"]), ("one NVIDIA A100 GPU", "ImageNet-1K", 256))
        keys = ("top1", "models", "flops_rel", "latency_ms", "memory_gb", "throughput")
        self.assertEqual({row["method"]: tuple(row[key] for key in keys) for row in paper["rows"]}, PAPER)
        text = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "none").out
        self.assertIn("Reported by the paper, not measured here: ImageNet-1K, one NVIDIA A100 GPU", text)

    def test_all_but_times_repeats(self):
        self.give(**self.COSTS)
        self.fit()
        first = without_times(self.profiled("--threads", "1"))
        second = without_times(self.profiled("--threads", "3"))
        self.assertEqual((first["measured"].pop("threads"), second["measured"].pop("threads")), (1, 3))
        self.assertEqual(first, second)

    def test_without_labels(self):
        self.fit()
        del self.manifest["splits"]["test"]["labels"]
        self.write_manifest()
        found = self.profiled("--methods", "average")
        self.assertEqual([row["method"] for row in found["rows"]], ["stack", "average"])
        self.assertNotIn("top1", found["rows"][0])
        self.assertIsNone(found["seen_in_fitting"])
        self.assertTrue(any("there are no scores: split 'test' has no labels" in text for text in found["notices"]))
        self.assertGreater(found["rows"][1]["batch_p50_us"], 0)
        self.manifest["splits"]["test"]["ood"] = True
        self.write_manifest()
        self.assertNotIn("top1", self.profiled("--methods", "average")["rows"][0])

    def test_without_rows_to_fit_on(self):
        self.fit("--method", "average")
        files = [self.path(f"{name}.test.npy") for name in ("ada", "bob", "cyd")]
        del self.manifest["splits"]["oof"]
        for model in self.manifest["models"]:
            del model["predictions"]["oof"]
        self.write_manifest()
        found = self.profiled()
        self.assertEqual([row["method"] for row in found["rows"]], ["stack"])
        self.assertTrue(any("no other methods were fitted and measured" in text for text in found["notices"]))
        self.fails("profile", self.model, self.pool, "--methods", "ridge", says=["no split 'oof'"])
        renamed = [self.path(f"{name}.npy") for name in ("ada", "bob", "cyd")]
        for old, new in zip(files, renamed):
            shutil.copy(old, new)
        found = self.works("profile", self.model, *renamed, "--labels", self.path("test_labels.npy"), "--repeats", "5", "-m", "best-single,average", "--json").json()
        self.assertEqual((found["split"], found["rows"][2]["method"]), ("oof", "average"))

    def test_rows_of_the_fit(self):
        self.fit()
        found = self.profiled("--split", "oof", "--methods", "none")
        self.assertTrue(found["seen_in_fitting"])
        self.assertTrue(any("optimistic" in text for text in found["notices"]))

    def test_members_that_lack_rows(self):
        self.fit()
        gaps = self.members["bob", "test"].copy()
        gaps[::2] = np.nan
        self.save("bob.test.npy", gaps)
        self.assertEqual(self.profiled("--missing", "allow", "--methods", "none")["measured"]["samples"], 30)
        gaps[:] = np.nan
        self.save("bob.test.npy", gaps)
        self.fails("profile", self.model, self.pool, "--missing", "allow", says=["'test'", "member"])

    def test_what_does_not_fit_together(self):
        self.fit("--method", "average")
        for words, says in (
            (["--split", "nope"], "no split 'nope'"), (["--batch", "0"], "option --batch: '0' is not a whole number from 1"),
            (["--batch", "-3"], "--batch"), (["--batch", "1e9"], "--batch"), (["--repeats", "0"], "--repeats"),
            (["--seconds", "0"], "--seconds"), (["--seconds", "nan"], "--seconds"), (["--seconds", "1", "--repeats", "9"], "remove one"),
            (["--methods", "ridg"], "did you mean 'ridge'"), (["--methods", "none,average"], "unknown method 'none'"),
            (["--methods", "snapshot"], "method snapshot: needs members with its tag"), (["--set", "meta.learner=x"], "unknown option"),
            (["--json", "--csv"], "--csv")):  # fmt: skip
            with self.subTest(words):
                self.fails("profile", self.model, self.pool, *words, says=[says])
        self.fails("profile", says=["no model given"])
        self.fails("profile", self.model, says=["no pool given"])
        self.fails("profile", self.pool, self.pool, says=["not a corestack model"])
        self.fails("profile", self.model, DIGITS, says=["3 classes, but the pool has 10"])
        self.fails("profile", self.model, os.path.join(EXAMPLES, "concrete", "pool.json"), says=["the tasks must match"])
        self.manifest["models"] = self.manifest["models"][:2]
        self.write_manifest()
        self.fails("profile", self.model, self.pool, says=["needs member 'cyd'"])

    def test_tables(self):
        self.give(**self.COSTS)
        self.fit()
        lines = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "average", "--csv").out.splitlines()
        header = lines[0].split(",")
        self.assertEqual(len(lines), 3)
        for key in ("method", "top1", "latency_ms", "memory_bytes", "throughput", "single_p50_us", "meta_memory_bytes", "model_bytes"):
            self.assertIn(key, header)
        lines = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "average", "--markdown").out.splitlines()
        self.assertIn("| latency (ms) | peak memory (bytes) | throughput (1/s) |", lines[0])
        latex = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "average", "--latex").out
        self.assertIn("Latency (ms)} $\\downarrow$ & \\textbf{Peak Mem (GB)} $\\downarrow$ & \\textbf{Throughput (1/s)}", latex)
        self.give(latency_ms=(1, 1, 1), memory_bytes=(2e6, 3e6, 4e6))
        small = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "none", "--latex").out
        self.assertIn("Peak Mem (MB)", small)
        self.assertNotIn("Peak Mem (GB)", small)
        columns = latex.split("begin{tabular}{")[1].split("}")[0]
        self.assertEqual({line.count("&") for line in latex.splitlines() if "&" in line}, {len(columns) - 1})
        text = self.works("profile", self.model, self.pool, "--repeats", "9", "--methods", "average", "--verbose").out
        for part in ("From end to end", "Meta-layer, measured here", "Members, as the manifest gives them", "latency (ms)"):
            self.assertIn(part, text)


class EveryTask(unittest.TestCase):
    def test_every_task(self):
        """Each row's scores are those of `compare`, and the model's those of `evaluate`."""
        for pool, unit, key, names in (("regression", "samples", "rmse", "best-single,ridge"), ("detection", "images", "AP", "best-single,wbf,greedy"),
                                       ("segmentation", "cases", "miou", "best-single,average")):  # fmt: skip
            with self.subTest(pool), tempfile.TemporaryDirectory() as folder:
                path = small(pool, 4, 2)
                model = os.path.join(folder, "m.cstack")
                settings = ["--set", "segment.pixels=300"] if pool == "segmentation" else []

                def done(*words):
                    result = run(*words, "--json")
                    self.assertEqual(result.code, 0, result.err)
                    return result.json()

                done("fit", path, "-o", model, "--method", "average", *settings)
                found = done("profile", model, path, "--methods", names, "--repeats", "3", "--batch", "4", *settings)
                self.assertEqual((found["task"], found["measured"]["unit"], found["measured"]["batch"]), (pool, unit, 4))
                compared = {row["method"]: row for row in done("compare", path, "--split", "test", "-m", names, "-r", "0", *settings)["rows"]}
                self.assertEqual([row["method"] for row in found["rows"]], ["stack", *names.split(",")])
                self.assertEqual(found["rows"][0][key], done("evaluate", model, path)[key])
                for row in found["rows"][1:]:
                    self.assertAlmostEqual(row[key], compared[row["method"]][key], places=6, msg=row["method"])
                    self.assertEqual(row["models"], compared[row["method"]]["models"])
                    self.assertGreater(row["single_p50_us"], 0)
                    self.assertGreater(row["meta_throughput"], 0)

    def test_presets(self):
        """Presets become models of every task."""
        for pool in ("regression", "detection"):
            with self.subTest(pool), tempfile.TemporaryDirectory() as folder:
                path = small(pool, 4, 2)
                model = os.path.join(folder, "m.cstack")
                self.assertEqual(run("fit", path, "-o", model, "--preset", "prototype", "--set", "evaluate.nested=false").code, 0)
                result = run("profile", model, path, "--methods", "prototype", "--repeats", "3", "--json")
                self.assertEqual(result.code, 0, result.err)
                stack, row = result.json()["rows"]
                for key in ("models", "flops", "meta_memory_bytes", "gate_parameters", *[k for k in ("rmse", "AP") if k in row]):
                    self.assertEqual(stack[key], row[key], key)


if __name__ == "__main__":
    unittest.main()
