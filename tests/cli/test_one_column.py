"""Two classes in one column: labels of every kind, predictions in one column again, all readers."""

import json
import os
import shutil
import tempfile
import unittest

import numpy as np

from support import run
from test_soup import tensors

ROWS = 150


def table(path, header, *columns):
    with open(path, "w", encoding="utf-8") as file:
        file.write(header + "\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in zip(*columns))


class OneColumn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="corestack-cli-")
        self.addCleanup(shutil.rmtree, folder)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder)
        rng = np.random.default_rng(4)
        self.y = rng.integers(0, 2, ROWS)
        z = (2 * self.y - 1)[:, None] * (0.4 + 0.2 * np.arange(5)) + rng.normal(size=(ROWS, 5))
        self.p = (1 / (1 + np.exp(-z))).astype(np.float32)
        self.ids = [f"s{i}" for i in range(ROWS)]
        for k, p in enumerate(self.p.T):
            np.save(f"m{k}.npy", p)
            os.makedirs("two", exist_ok=True)
            np.save(f"two/m{k}.npy", np.stack([1 - p, p], axis=1))
        np.save("y.npy", self.y)
        self.members = [f"m{k}.npy" for k in range(5)]
        self.plain = self.fit(labels="y.npy")

    def fit(self, *more, labels=None, members=None, out="m.cstack", code=0):
        given = [] if labels is None else ["--labels", labels]
        result = run("fit", *given, *(members or self.members), *more, "-o", out, "--json", "--set", "evaluate.nested=false")
        self.assertEqual(result.code, code, result.err)
        return result.err if code else [[m.get(key) for key in ("top1", "nll")] for m in result.json()["members"]]

    def right(self, *command):
        result = run(*command)
        self.assertEqual(result.code, 0, result.err)
        return result

    def test_labels_of_every_kind(self):
        kinds = {
            "signs": 2 * self.y - 1, "float": self.y.astype(float), "bool": self.y == 1, "minus": (2.0 * self.y - 1),
            "yes": np.array(["no", "yes"])[self.y], "True": np.array(["False", "True"])[self.y],
            "unknown": np.array(["unknown", "positive"])[self.y],
        }
        for name, labels in kinds.items():
            np.save(f"{name}.npy", labels)
            table(f"{name}.csv", "label", labels)
            for file in (f"{name}.npy", f"{name}.csv"):
                with self.subTest(file):
                    self.assertEqual(self.fit(labels=file), self.plain)
        two = [f"two/{name}" for name in self.members]
        self.assertEqual(self.fit(labels="signs.npy", members=two), self.fit(labels="y.npy", members=two))
        np.save("signs3.npy", np.where(np.arange(ROWS) == 5, 0, 2 * self.y - 1))
        self.assertIn("row 0 is label -1" if self.y[0] == 0 else "label -1", self.fit(labels="signs3.npy", code=2))

    def test_positive(self):
        np.save("cd.npy", np.array(["dog", "cat"])[self.y])
        self.assertIn("the labels are cat, dog, and nothing says which", self.fit(labels="cd.npy", code=2))
        self.assertEqual(self.fit("--positive", "cat", labels="cd.npy"), self.plain)
        self.assertEqual(self.right("show", "m.cstack", "--json").json()["class_names"], ["dog", "cat"])
        self.assertIn("is to be 'cow'", self.fit("--positive", "cow", labels="cd.npy", code=2))
        self.fit("--positive", "cat", labels="cd.npy", members=[f"two/{name}" for name in self.members], out="two.cstack")
        # the model says it where rows are scored
        top1 = self.right("evaluate", "m.cstack", "--labels", "cd.npy", *self.members, "--json").json()["top1"]
        self.right("predict", "m.cstack", *self.members, "-o", "out.npy")
        scored = self.right("evaluate", "out.npy", "--labels", "cd.npy", "--positive", "cat", "--json").json()
        self.assertEqual(scored["top1"], top1)
        self.assertGreater(top1, 0.7)
        # numbers, of which the smaller one is positive, also where the model alone knows
        np.save("12.npy", 2 - self.y)
        self.assertEqual(self.fit("--positive", "1", labels="12.npy"), self.plain)
        self.assertEqual(self.right("evaluate", "m.cstack", "--labels", "12.npy", *self.members, "--json").json()["top1"], top1)
        np.save("turned.npy", 1 - self.y)
        self.assertEqual(self.fit("--positive", "0", labels="turned.npy"), self.plain)
        self.assertEqual(self.right("evaluate", "m.cstack", "--labels", "turned.npy", *self.members, "--json").json()["top1"], top1)

    def test_three_classes_and_regression(self):
        np.save("three.npy", np.arange(ROWS) % 3)
        np.save("abc.npy", np.array(list("abc"))[np.arange(ROWS) % 3])
        for labels in ("three.npy", "abc.npy"):
            error = self.fit(labels=labels, code=2)
            self.assertIn("the predictions are one column", error)
        self.fit("--task", "regression", labels="y.npy", out="r.cstack")
        self.assertEqual(self.right("show", "r.cstack", "--json").json()["task"], "regression")

    def test_every_reader(self):
        files = {k: [] for k in ("column", "csv", "with_ids", "tensors")}
        for k, p in enumerate(self.p.T):
            for kind, made in files.items():
                os.makedirs(kind, exist_ok=True)
                made.append(f"{kind}/m{k}.{'npy' if kind == 'column' else 'csv'}")
            np.save(files["column"][k], p[:, None])
            table(files["csv"][k], "p", p)
            table(files["with_ids"][k], "id,prediction", self.ids, p)
            files["tensors"][k] = f"all.safetensors#m{k}"
        with open("all.safetensors", "wb") as file:
            file.write(tensors.save([(f"m{k}", "F32", (ROWS,), p.tobytes()) for k, p in enumerate(self.p.T)]))
        table("y.csv", "id,label", self.ids, self.y)
        table("wide.csv", "id,y," + ",".join(f"m{k}" for k in range(5)), self.ids, self.y, *self.p.T)
        for kind, members in files.items():
            with self.subTest(kind):
                labels = "y.csv" if kind == "with_ids" else "y.npy"
                np.testing.assert_allclose(self.fit(labels=labels, members=members), self.plain, rtol=1e-6)
        np.testing.assert_allclose(self.fit(members=["wide.csv"]), self.plain, rtol=1e-6)
        votes, logits = [], []
        for k, p in enumerate(self.p.T.astype(np.float64)):
            np.save(f"v{k}.npy", (p > 0.5).astype(np.float32))
            np.save(f"l{k}.npy", np.log(p / (1 - p)))
            votes.append(f"v{k}.npy")
            logits.append(f"l{k}.npy")
        np.testing.assert_allclose(self.fit("--values", "logit", labels="y.npy", members=logits), self.plain, rtol=1e-5)
        self.assertIn("declare output", self.fit(labels="y.npy", members=logits, code=2))
        result = self.right("fit", "--labels", "y.npy", *votes, "-o", "v.cstack", "--set", "evaluate.nested=false")
        self.assertIn("give only probabilities 0 and 1", result.out + result.err)

    def test_one_column_comes_out(self):
        both = [f"two/{name}" for name in self.members]
        self.right("predict", "m.cstack", *both, "-o", "both.npy")
        both = np.load("both.npy")
        self.assertEqual(both.shape, (ROWS, 2))
        said = self.right("predict", "m.cstack", *self.members, "-o", "one.npy").out
        self.assertIn("one column: probability of class '1'", said)
        np.testing.assert_allclose(np.load("one.npy"), both[:, 1], atol=1e-6)
        self.right("predict", "m.cstack", *self.members, "-o", "one.csv")
        with open("one.csv", encoding="utf-8") as file:
            self.assertEqual(file.readline(), "probability\n")
        self.assertEqual(np.loadtxt("one.csv", skiprows=1).shape, (ROWS,))
        table("wide.csv", "id,y," + ",".join(f"m{k}" for k in range(5)), self.ids, np.array(["no", "yes"])[self.y], *self.p.T)
        self.fit(members=["wide.csv"], out="w.cstack")
        self.right("predict", "w.cstack", "wide.csv", "-o", "wide_out.csv")
        with open("wide_out.csv", encoding="utf-8") as file:
            self.assertEqual(file.readline(), "id,yes\n")
        scores = [
            self.right("evaluate", out, *labels, "--json").json()["nll"]
            for out, labels in (("one.npy", ("--labels", "y.npy")), ("one.csv", ("--labels", "y.npy")),
                                ("wide_out.csv", ("--labels", "wide.csv", "--label-column", "y")))
        ]  # fmt: skip
        np.testing.assert_allclose(scores, scores[0], rtol=1e-5)

    def test_a_manifest_and_compare(self):
        with open("pool.json", "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": ["other", "tde"], "output": "probability",
                       "splits": {"oof": {"labels": "y.npy"}},
                       "models": [{"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}} for k in range(5)]}, file)
        self.fit(members=["pool.json"], out="p.cstack")
        self.right("predict", "p.cstack", "pool.json", "--split", "oof", "-o", "pool.csv")
        with open("pool.csv", encoding="utf-8") as file:
            self.assertEqual(file.readline(), "tde\n")
        os.mkdir("saved")
        self.right("compare", "pool.json", "--methods", "average", "--resamples", "0", "--save", "saved", "--with", "mine=m4.npy")
        average = np.load("saved/average.oof.npy")
        np.testing.assert_allclose(average, self.p.mean(axis=1), atol=1e-6)
        self.assertEqual(self.fit("--positive", "tde", members=["pool.json"]), self.plain)
        self.assertIn("the positive one last", self.fit("--positive", "other", members=["pool.json"], code=2))


if __name__ == "__main__":
    unittest.main()
