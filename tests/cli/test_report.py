"""`report` and `--html`: one page that holds its data, its script and nothing from elsewhere."""

import base64
import hashlib
import json
import os
import re
import unittest

import numpy as np
from support import PoolCase, run, sample, slow, small

HOSTILE = '</script><img src=x onerror=alert(1)>&"'


class Page:
    """The parts of a page."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.size = os.path.getsize(path)
        self.policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', self.text).group(1)
        self.scripts = re.findall(r"<script([^>]*)>(.*?)</script>", self.text, re.DOTALL)
        self.style = re.search(r"<style>(.*?)</style>", self.text, re.DOTALL).group(1)
        self.raw = self.scripts[0][1]
        self.data = json.loads(self.raw)


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


class Report(PoolCase):
    def page(self, name="page.html"):
        return Page(self.path(name))

    def report(self, *more):
        return self.works("report", self.model, self.pool, "-o", self.path("page.html"), "-r", "50", *more)

    def test_structure(self):
        self.fit()
        shown = self.report("--json").json()
        page = self.page()
        self.assertEqual([attributes for attributes, _ in page.scripts], [' type="application/json" id="data"', ""])
        policy = dict(part.strip().split(" ", 1) for part in page.policy.split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["script-src"], digest(page.scripts[1][1]))
        self.assertEqual(policy["style-src"], digest(page.style))
        self.assertEqual((policy["base-uri"], policy["form-action"], policy["trusted-types"]), ("'none'",) * 3)
        self.assertNotRegex(page.text, r'<[^>]*\sstyle=|<link|<img|<iframe|\shref="http|\ssrc=|https?://(?!www\.w3\.org/)|@import|url\(')
        self.assertEqual(list(page.data), ["corestack", "evaluate", "show", "inspect", "bound", "monitor", "fit"])
        self.assertNotIn("fit", page.data["show"])
        self.assertEqual(sum(step["chosen"] for step in page.data["fit"]["path"]), 1)
        self.assertTrue(all(test["a"] == "corestack" for test in page.data["evaluate"]["tests"]))
        self.assertEqual({key: page.data["evaluate"][key] for key in ("nll", "confused", "worst")},
                         {key: shown[key] for key in ("nll", "confused", "worst")})
        self.assertEqual(page.data["show"]["model"], self.model)
        cka = self.works("inspect", self.pool, "--json").json()["cka"]
        self.assertEqual(page.data["inspect"]["cka_packed"], [round(1e4 * cka[i][j]) for i, j in ((0, 1), (0, 2), (1, 2))])
        self.assertEqual(self.listing(), sorted(set(self.listing()) | {"page.html"}))

    def test_same_bytes_and_nothing_measured(self):
        self.fit("--html", self.path("fit.html"))
        self.assertTrue(self.report().out.startswith("corestack report: split test, "))
        first = self.read(self.path("page.html"))
        self.report("--threads", "2")
        self.assertEqual(self.read(self.path("page.html")), first)
        once = self.read(self.path("fit.html"))
        self.fit("--html", self.path("fit.html"))
        self.assertEqual(self.read(self.path("fit.html")), once)
        for name in ("page.html", "fit.html"):
            self.assertNotRegex(self.page(name).raw, "seconds|peak_rss|modified")

    def test_hostile_names_are_escaped(self):
        self.manifest["models"][0]["name"] = HOSTILE
        self.manifest["classes"] = ["a", "b", "<script>alert(2)</script>"]
        self.write_manifest()
        self.fit("--html", self.path("fit.html"))
        self.report()
        for name in ("page.html", "fit.html"):
            page = self.page(name)
            self.assertEqual(len(page.scripts), 2)
            self.assertNotRegex(page.raw, "[<>&]")
        names = [m["name"] for m in self.page("fit.html").data["fit"]["members"]]
        self.assertEqual(names[0], HOSTILE)

    def test_other_commands(self):
        self.works("compare", self.pool, "--split", "test", "-m", "best-single,average", "-r", "20", "--html", self.path("compare.html"))
        self.works("inspect", self.pool, "--html", self.path("inspect.html"))
        self.assertEqual(list(self.page("compare.html").data), ["corestack", "compare"])
        self.assertEqual(list(self.page("inspect.html").data), ["corestack", "inspect"])
        self.works("sweep", self.pool, "--split", "test", "--over", "seed=0,1", "-m", "average", "--html", self.path("sweep.html"))
        self.assertEqual(list(self.page("sweep.html").data), ["corestack", "sweep"])
        self.fit()
        self.works("monitor", self.model, self.pool, "--split", "oof,test", "--html", self.path("monitor.html"))
        data = self.page("monitor.html").data
        self.assertEqual(list(data), ["corestack", "monitor", "show", "fit"])
        self.assertEqual(data["show"]["model"], self.model)
        self.assertNotIn("pool", data["show"])
        self.assertEqual(["members" in batch for batch in data["monitor"]["batches"]], [False, True])

    def test_pool_without_the_split_of_the_fit(self):
        self.fit()
        del self.manifest["splits"]["oof"]
        for model in self.manifest["models"]:
            del model["predictions"]["oof"]
        self.write_manifest()
        self.report()
        data = self.page().data
        self.assertNotIn("pool", data["show"])
        self.assertNotIn("baselines", data["evaluate"])

    def test_refused(self):
        self.fit()
        self.fails("report", self.model, self.pool, says=["-o FILE"])
        self.fails("report", self.model, self.pool, "-o", self.model, says=["-o"])
        self.fails("inspect", self.pool, "--html", self.path("ada.oof.npy"), says=["--html"])
        self.fails("fit", self.pool, "-o", self.path("a"), "--html", self.path("a"), says=["--html", "-o"])

    def test_pages_of_other_tasks(self):
        pool = small("regression")
        self.works("fit", pool, "-o", self.model, "--set", "evaluate.nested=false", "--html", self.path("fit.html"))
        self.works("report", self.model, pool, "-o", self.path("page.html"), "-r", "10")
        self.assertEqual(self.page().data["evaluate"]["task"], "regression")
        self.assertEqual(self.page("fit.html").data["fit"]["task"], "regression")

    @slow
    def test_sizes(self):
        digits = os.path.join(os.environ["CORESTACK_SOURCES"], "examples", "digits", "pool.json")
        self.works("fit", digits, "-o", self.model, "--html", self.path("fit.html"))
        self.works("report", self.model, digits, "-o", self.path("page.html"))
        self.assertLess(self.page().size, 200_000)
        self.assertLess(self.page("fit.html").size, 200_000)
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 3, 150).astype(np.int32)
        self.save("many_labels.npy", labels)
        models = []
        for k in range(300):
            self.save(f"m{k}.npy", sample(150, 3, k, 0.5 + k / 300, labels)[1])
            models.append({"name": f"m{k}", "flops": 100 + k, "predictions": {"oof": f"m{k}.npy"}})
        self.manifest = {"corestack_pool": 1, "task": "classification", "classes": 3, "splits": {"oof": {"labels": "many_labels.npy"}}, "models": models}
        self.write_manifest()
        self.fit("--html", self.path("fit.html"))
        self.report("--split", "oof")
        self.assertLess(self.page("fit.html").size, 600_000)
        self.assertLess(self.page().size, 600_000)


class Wrong(PoolCase):
    """Classes, confusions and worst rows of `evaluate`, against NumPy."""

    def test_against_numpy(self):
        ids = [f"r{i}" for i in range(self.test_rows)]
        self.save("test_ids.npy", np.array(ids))
        self.manifest["splits"]["test"]["ids"] = "test_ids.npy"
        self.write_manifest()
        self.fit()
        found = self.works("evaluate", self.model, self.pool, "--baselines", "--json").json()
        out = self.path("p.npy")
        self.works("predict", self.model, self.pool, "--split", "test", "-o", out)
        p = np.load(out).astype(float)
        labels = self.labels["test"]
        predicted = p.argmax(1)
        nll = -np.log(p[np.arange(len(p)), labels])
        for c, one in enumerate(found["per_class"]):
            mine = labels == c
            self.assertEqual(one["samples"], mine.sum())
            self.assertAlmostEqual(one["top1"], (predicted[mine] == c).mean(), places=9)
            self.assertAlmostEqual(one["precision"], (labels[predicted == c] == c).mean(), places=9)
            self.assertAlmostEqual(one["nll"], nll[mine].mean(), places=6)
        pairs = {(a, b): ((labels == a) & (predicted == b)).sum() for a in range(3) for b in range(3) if a != b}
        self.assertEqual({(a, b): n for a, b, n in found["confused"]}, {pair: n for pair, n in pairs.items() if n})
        counts = [n for _, _, n in found["confused"]]
        self.assertEqual(counts, sorted(counts, reverse=True))
        worst = np.argsort(-nll, kind="stable")[:10]
        self.assertEqual([one["id"] for one in found["worst"]], [ids[i] for i in worst])
        for one, i in zip(found["worst"], worst):
            self.assertEqual((one["label"], one["predicted"]), (labels[i], predicted[i]))
            self.assertAlmostEqual(one["probability_label"], p[i, labels[i]], places=6)
            self.assertAlmostEqual(one["probability"], p[i].max(), places=6)
        self.assertEqual(len(found["baselines"][0]["reliability"]), 15)

    def test_of_values(self):
        pool = small("concrete", every=3)
        self.works("fit", pool, "-o", self.model, "--set", "evaluate.nested=false")
        found = self.works("evaluate", self.model, pool, "--json").json()
        self.works("predict", self.model, pool, "--split", "test", "-o", self.path("p.npy"))
        predicted = np.load(self.path("p.npy")).astype(float).ravel()
        with open(pool, encoding="utf-8") as file:
            manifest = json.load(file)
        target = np.load(os.path.join(os.path.dirname(pool), manifest["splits"]["test"]["labels"])).astype(float).ravel()
        error = predicted - target
        order = np.argsort(predicted, kind="stable")
        self.assertEqual(len(found["ranges"]), 5)
        for k, one in enumerate(found["ranges"]):
            rows = order[k * len(order) // 5 : (k + 1) * len(order) // 5]
            self.assertEqual(one["samples"], len(rows))
            for key, value in (("rmse", np.sqrt((error[rows] ** 2).mean())), ("bias", error[rows].mean()),
                               ("low", predicted[rows].min()), ("high", predicted[rows].max())):
                self.assertAlmostEqual(one[key] / value, 1, places=5)
        level = found["levels"].index(found["ranges"][0]["level"])
        inside = sum(one["coverage"] * one["samples"] for one in found["ranges"])
        self.assertAlmostEqual(inside / len(order), found["coverage"][level], places=9)
        worst = np.argsort(-np.abs(error), kind="stable")[:10]
        for one, i in zip(found["worst"], worst, strict=True):
            self.assertAlmostEqual(one["target"], target[i], places=6)
            self.assertAlmostEqual(one["predicted"] / predicted[i], 1, places=6)

    def test_reliability_of_pixels(self):
        pool = small("segmentation")
        self.works("fit", pool, "-o", self.model, "--set", "evaluate.nested=false", "--set", "folds.count=3")
        found = self.works("evaluate", self.model, pool, "--json").json()
        bins = [one for one in found["reliability"] if one["count"]]
        self.assertEqual(sum(one["count"] for one in bins), found["pixels"])
        self.assertTrue(all(one["lower"] <= one["confidence"] <= one["upper"] + 1e-9 for one in bins))
        right = sum(one["count"] * one["accuracy"] for one in bins) / found["pixels"]
        gap = sum(one["count"] * abs(one["accuracy"] - one["confidence"]) for one in bins) / found["pixels"]
        self.assertAlmostEqual(gap, found["ece"], places=9)
        self.assertGreater(right, 0.3)

    def test_rows_without_ids_and_of_a_file(self):
        weights = np.ones(self.test_rows)
        weights[:7] = 0  # left out: rows are numbered in the split
        self.save("test_weights.npy", weights)
        self.manifest["splits"]["test"]["weights"] = "test_weights.npy"
        self.write_manifest()
        self.fit()
        found = self.works("evaluate", self.model, self.pool, "--json").json()
        self.assertEqual(sum(one["samples"] for one in found["per_class"]), self.test_rows - 7)
        for one in found["worst"]:
            self.assertGreaterEqual(one["row"], 7)
            self.assertEqual(self.labels["test"][one["row"]], one["label"])
        alone = run("evaluate", self.path("ada.test.npy"), "--labels", self.path("test_labels.npy"), "--json").json()
        right = self.members["ada", "test"].argmax(1) == self.labels["test"]
        self.assertEqual(sum(n for _, _, n in alone["confused"]), (~right).sum())


if __name__ == "__main__":
    unittest.main()
