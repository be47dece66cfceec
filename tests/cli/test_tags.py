"""Members tagged as parts of ensembles: their rows in a comparison of every task, and the FLOPs of each."""

import json
import os

import numpy as np

from support import SOURCES, PoolCase, sample

DETECTION = os.path.join(SOURCES, "examples", "detection")
SEGMENTATION = os.path.join(SOURCES, "examples", "segmentation")
KINDS = ("deep-ensemble", "snapshot", "mc-dropout", "soup", "swag")

# name, FLOPs of a pass, tag: kind, of, passes
MEMBERS = [
    ("plain", 7, None), ("deep_1", 2, ("deep-ensemble", "net", 1)), ("deep_2", 2, ("deep-ensemble", "net", None)),
    ("snap_1", 3, ("snapshot", "run", 1)), ("snap_2", 3, ("snapshot", "run", 1)), ("snap_3", 3, ("snapshot", "run", 1)),
    ("drop_1", 5, ("mc-dropout", "net", 10)), ("drop_2", 5, ("mc-dropout", "net", 30)),
    ("soup", 11, ("soup", "net", 8)), ("swag_1", 13, ("swag", "net", 20)), ("swag_2", 13, ("swag", "net", 10)),
]  # fmt: skip
# What a row's members weigh, and their FLOPs: passes times cost, for a soup the cost of one network.
ROWS = {
    "deep-ensemble": ({"deep_1": 1 / 2, "deep_2": 1 / 2}, 2 + 2),
    "snapshot": ({"snap_1": 1 / 3, "snap_2": 1 / 3, "snap_3": 1 / 3}, 3 * 3),
    "mc-dropout": ({"drop_1": 10 / 40, "drop_2": 30 / 40}, 10 * 5 + 30 * 5),
    "soup": ({"soup": 1}, 11),
    "swag": ({"swag_1": 20 / 30, "swag_2": 10 / 30}, 20 * 13 + 10 * 13),
}
ALL = 7 + 4 + 9 + 200 + 11 + 390


def tagged(entry, tag):
    if tag:
        entry["ensemble"] = {"kind": tag[0], "of": tag[1], **({"passes": tag[2]} if tag[2] else {})}
    return entry


class Tags(PoolCase):
    def write_members(self, task, values, labels):
        """A pool of MEMBERS; values(name, split, number) are the predictions, labels(split) the truth."""
        for split in ("oof", "test"):
            self.save(f"{split}_labels.npy", labels(split))
            for number, (name, _, _) in enumerate(MEMBERS):
                self.save(f"{name}.{split}.npy", values(name, split, number))
        self.manifest["models"] = [
            tagged({"name": n, "flops": f, "predictions": {s: f"{n}.{s}.npy" for s in ("oof", "test")}}, tag)
            for n, f, tag in MEMBERS
        ]
        if task == "regression":
            self.manifest = {"corestack_pool": 1, "task": task, "models": self.manifest["models"],
                             "splits": {s: {"targets": f"{s}_labels.npy"} for s in ("oof", "test")}}
        self.write_manifest()

    def compared(self, *more):
        document = self.works("compare", self.pool, "--split", "test", "-m", ",".join(("average", *KINDS)), "-r", "0",
                              "--json", *more).json()
        return {row["method"]: row for row in document["rows"]}

    def check_costs(self, rows):
        names = [name for name, _, _ in MEMBERS]
        self.assertAlmostEqual(rows["average"]["flops_rel"], 1)
        for kind, (weights, flops) in ROWS.items():
            self.assertAlmostEqual(rows[kind]["flops_rel"], flops / ALL, places=9, msg=kind)
            self.assertEqual(rows[kind]["models"], len(weights))
            np.testing.assert_allclose(rows[kind]["weights"], [weights.get(n, 0) for n in names], atol=1e-12)
            group = "run" if kind == "snapshot" else "net"
            many = "" if len(weights) == 1 else "s"
            self.assertEqual(rows[kind]["detail"], f"of '{group}', {len(weights)} member{many}; 1 candidate")

    def test_classification(self):
        made = {}

        def values(name, split, number):
            made[name, split] = sample(len(self.labels[split]), 3, 100 + number + 50 * (split == "test"), 1.0,
                                       self.labels[split])[1]
            return made[name, split]

        self.write_members("classification", values, self.labels.get)
        rows = self.compared("--save", self.path("out"))
        self.check_costs(rows)
        for kind, (weights, _) in ROWS.items():
            mean = sum(w * made[n, "test"].astype(float) for n, w in weights.items())
            nll = -np.log(mean[np.arange(self.test_rows), self.labels["test"]]).mean()
            self.assertAlmostEqual(rows[kind]["nll"], nll, places=6, msg=kind)
            np.testing.assert_allclose(np.load(self.path(f"out/{kind}.test.npy")), mean, atol=1e-6)
        every = [r["method"] for r in self.works("compare", self.pool, "--split", "test", "-r", "0", "--json").json()["rows"]]
        self.assertEqual(every[every.index("deep-ensemble") + 1], "deep-ensemble+temperature")
        self.assertEqual(every[every.index("average") + 1], "average+temperature")
        self.assertEqual(len(set(every)), len(every))
        for model in self.manifest["models"]:
            if model.get("ensemble", {}).get("kind") == "deep-ensemble":
                model.pop("ensemble")
        self.write_manifest()
        every = [r["method"] for r in self.works("compare", self.pool, "--split", "test", "-r", "0", "--json").json()["rows"]]
        self.assertFalse([m for m in every if m.startswith("deep-ensemble")])

    def test_regression(self):
        rng = np.random.default_rng(5)
        targets = {s: rng.normal(size=n) for s, n in (("oof", self.rows), ("test", self.test_rows))}
        made = {}

        def values(name, split, number):
            made[name, split] = targets[split] + rng.normal(scale=0.2 + 0.05 * number, size=len(targets[split]))
            return made[name, split]

        self.write_members("regression", values, targets.get)
        rows = self.compared()
        self.check_costs(rows)
        for kind, (weights, _) in ROWS.items():
            mean = sum(w * made[n, "test"] for n, w in weights.items())
            self.assertAlmostEqual(rows[kind]["rmse"], np.sqrt(np.mean((mean - targets["test"]) ** 2)), places=6, msg=kind)
        # of two deep ensembles the one whose mean has the least squared error, not the one whose members have
        for split in ("oof", "test"):
            error = np.resize([2.0, -2.0], len(targets[split]))
            for name, values_of in (("snap_1", targets[split] + error), ("snap_2", targets[split] - error)):
                self.save(f"{name}.{split}.npy", values_of)
        for model in self.manifest["models"]:
            if model["name"] in ("snap_1", "snap_2"):
                model["ensemble"] = {"kind": "deep-ensemble", "of": "other"}
        self.write_manifest()
        row = self.compared_one("deep-ensemble")
        self.assertLess(row["rmse"], 1e-5)
        self.assertEqual(row["detail"], "of 'other', 2 members; 2 candidates")
        self.assertAlmostEqual(sum(row["weights"]), 1)
        for model in self.manifest["models"]:
            model.pop("ensemble", None)
        self.write_manifest()
        self.fails("compare", self.pool, "-m", "swag", says=["swag", "ensemble"])
        every = self.works("compare", self.pool, "-r", "0", "--json").json()["rows"]
        self.assertFalse({row["method"] for row in every} & set(KINDS))

    def test_outputs_that_differ_in_their_group(self):
        """Each output of a regression takes the better ensemble; so does the detail of the row."""
        rng = np.random.default_rng(6)
        targets = {s: rng.normal(size=(n, 2)) for s, n in (("oof", self.rows), ("test", self.test_rows))}
        noise = {"deep_1": (0.1, 0.1), "deep_2": (0.1, 0.1), "snap_1": (0.9, 0.9), "snap_2": (0.9, 0.9)}

        def values(name, split, number):
            return targets[split] + rng.normal(size=targets[split].shape) * noise.get(name, (0.5, 0.5))

        self.write_members("regression", values, targets.get)
        for model in self.manifest["models"]:
            if model["name"] in ("snap_1", "snap_2"):
                model["ensemble"] = {"kind": "deep-ensemble", "of": "other"}
        self.write_manifest()
        self.assertEqual(self.compared_one("deep-ensemble")["detail"], "of 'net', 2 members; 2 candidates")
        noise.update(deep_1=(0.1, 0.9), deep_2=(0.1, 0.9), snap_1=(0.9, 0.1), snap_2=(0.9, 0.1))
        for name in noise:
            for split in ("oof", "test"):
                self.save(f"{name}.{split}.npy", values(name, split, 0))
        row = self.compared_one("deep-ensemble")
        self.assertEqual(row["detail"], "groups differ between outputs; 2 candidates")
        self.assertEqual(row["models"], 4)

    def compared_one(self, kind):
        return self.works("compare", self.pool, "--split", "test", "-m", kind, "-r", "0", "--json").json()["rows"][0]

    def copied(self, folder, tags):
        """The manifest of an example, its paths leading there, with tags on its members."""
        with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        os.symlink(folder, self.path("data"))

        def inside(value):
            return {k: f"data/{v}" if isinstance(v, str) and k != "domain" else v for k, v in value.items()}

        self.manifest["splits"] = {name: inside(split) for name, split in self.manifest["splits"].items()}
        for number, model in enumerate(self.manifest["models"]):
            model["predictions"] = inside(model["predictions"])
            model["flops"] = 2 ** number
            model.pop("ensemble", None)
            tagged(model, tags.get(number))
        self.write_manifest()

    def test_segmentation(self):
        self.copied(SEGMENTATION, {0: ("deep-ensemble", "net", 1), 1: ("deep-ensemble", "net", 1),
                                   2: ("swag", "net", 30), 3: ("soup", "net", 30)})
        call = ("compare", self.pool, "--split", "test", "--allow-outside", "-r", "0", "--json", "-m")
        rows = {r["method"]: r for r in self.works(*call, "deep-ensemble,soup,swag").json()["rows"]}
        whole = 1 + 2 + 30 * 4 + 8
        for kind, flops in (("deep-ensemble", 3), ("swag", 120), ("soup", 8)):
            self.assertAlmostEqual(rows[kind]["flops_rel"], flops / whole, places=9)
            self.assertIsNotNone(rows[kind]["miou"])

    def test_detection(self):
        self.copied(DETECTION, {0: ("deep-ensemble", "net", 1), 1: ("deep-ensemble", "net", 1),
                                2: ("swag", "net", 30), 3: ("soup", "net", 30)})
        call = ("compare", self.pool, "--split", "test", "--allow-outside", "-r", "0", "--json", "-m")
        rows = {r["method"]: r for r in self.works(*call, "deep-ensemble,soup,swag").json()["rows"]}
        whole = 1 + 2 + 30 * 4 + 8
        for kind, flops in (("deep-ensemble", 3), ("swag", 120), ("soup", 8)):
            self.assertAlmostEqual(rows[kind]["flops_rel"], flops / whole, places=9)
            self.assertGreater(rows[kind]["AP"], 0)

    def test_cost_is_that_of_all_passes(self):
        self.manifest["models"][0].update(flops=10, ensemble={"kind": "swag", "of": "x", "passes": 30})
        self.write_manifest()
        members = self.works("inspect", self.pool, "--json").json()["members"]
        self.assertEqual((members[0]["flops"], members[0]["passes"]), (300, 30))
        self.assertEqual([m["passes"] for m in members[1:]], [1, 1])
        fitted = self.fit("--json").json()["members"]
        self.assertEqual([(m["flops"], m["passes"]) for m in fitted], [(m["flops"], m["passes"]) for m in members])

    def test_one_member_is_too_few(self):
        self.manifest["models"][0]["ensemble"] = {"kind": "deep-ensemble", "of": "x"}
        self.write_manifest()
        result = self.fails("compare", self.pool, "-m", "deep-ensemble", says=["deep-ensemble", "too few", "two"])
        self.assertNotIn("none", result.err)


if __name__ == "__main__":
    import unittest

    unittest.main()
