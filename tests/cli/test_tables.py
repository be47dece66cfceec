"""Csv as it is found: which column is what, classes by name, compressed files, formats that cannot be read."""

import csv
import gzip
import json
import os
import shutil
import tempfile
import unicodedata
import unittest

import numpy as np

from support import run, small

ROWS = 240


def table(header, *columns, delimiter=","):
    """Text of a csv; header: None for none."""
    rows = [[value if isinstance(value, str) else repr(value.item() if hasattr(value, "item") else value)
             for value in row] for row in zip(*columns)]
    lines = ([header] if header is not None else []) + [delimiter.join(row) for row in rows]
    return "\n".join(lines) + "\n"


def scores(document):
    """Of the members one by one: what was read."""
    return [[member[key] for key in ("top1", "nll", "rmse", "r2") if key in member] for member in document["members"]]


class Tables(unittest.TestCase):
    """A folder for files, and fits of them."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-cli-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.draw = np.random.default_rng(7)
        self.model = self.path("m.cstack")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(self.path(name), mode, **({} if mode == "wb" else {"encoding": "utf-8", "newline": ""})) as file:
            file.write(text)
        return self.path(name)

    def fit(self, *arguments):
        return run("fit", *arguments, "-o", self.model, "--json", "--set", "evaluate.nested=false")

    def model_classes(self):
        return run("show", self.model, "--json").json()["class_names"]

    def fits(self, *arguments):
        result = self.fit(*arguments)
        self.assertEqual(result.code, 0, result.err)
        document = result.json()
        document["said"] = " | ".join(document.get("notices", []))
        return document

    def refused(self, *arguments, says=()):
        result = self.fit(*arguments)
        self.assertEqual(result.code, 2, result.out + result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        for text in says:
            self.assertIn(text, result.err)
        return result.err


class Regression(Tables):
    """Ids and other columns are no outputs."""

    def setUp(self):
        super().setUp()
        self.y = self.draw.normal(size=ROWS) * 3
        self.p = [self.y + self.draw.normal(size=ROWS) * s for s in (1.0, 1.4)]
        self.ids = 5000 + self.draw.permutation(ROWS)
        np.save(self.path("y.npy"), self.y)
        for name, p in zip("ab", self.p):
            np.save(self.path(f"{name}.npy"), p)
        self.plain = self.fits("--task", "regression", "--labels", self.path("y.npy"), self.path("a.npy"), self.path("b.npy"))

    def same(self, document):
        """As the fit of arrays: not a number differs."""
        self.assertEqual(scores(document), scores(self.plain))
        self.assertEqual(document["weights"], self.plain["weights"])

    def members(self, header, *columns, **how):
        return [self.write(f"{name}.csv", table(header, *[p if column is None else column for column in columns], **how))
                for name, p in zip("ab", self.p)]

    def labels(self, name="id"):
        return self.write("y.csv", table(f"{name},y", self.ids, self.y))

    def test_id_columns_of_other_names(self):
        for name in ("customer_id", "PassengerId", "Row ID", "userID", "ID", "uuid", "key", "index", "Id", "id_code"):
            with self.subTest(name):
                found = self.fits("--task", "regression", "--labels", self.labels(name), *self.members(f"{name},pred", self.ids, None))
                self.same(found)
                if name not in ("ID", "Id", "Row ID"):
                    self.assertIn(f"column '{name}' holds the sample ids", found["said"])

    def test_an_id_column_that_no_rule_knows_is_refused_with_the_cure(self):
        labels = self.labels()
        members = self.members("house,pred", self.ids, None)
        said = self.refused("--task", "regression", "--labels", labels, *members, says=("house", "--id-column"))
        self.assertIn("looks like sample ids", said)
        self.same(self.fits("--task", "regression", "--labels", labels, *members, "--id-column", "house"))

    def test_columns_beside_the_predictions(self):
        folds = np.arange(ROWS) % 5
        np.save(self.path("f.npy"), folds)
        arrays = [self.path(f"{name}.npy") for name in "ab"]
        with_folds = self.fits("--task", "regression", "--labels", self.path("y.npy"), "--folds", self.path("f.npy"), *arrays)
        for header, columns in (("fold,y_true,y_pred", (folds, self.y, None)), ("y_true,pred", (self.y, None)),
                                ("fold,target,oof", (folds, self.y, None)), ("y_pred,fold", (None, folds))):
            with self.subTest(header):
                found = self.fits("--task", "regression", "--labels", self.path("y.npy"), *self.members(header, *columns))
                self.assertEqual(scores(found), scores(self.plain))
                self.assertEqual(found["weights"], (with_folds if "fold" in header else self.plain)["weights"])
                self.assertEqual("the folds are those of" in found["said"], "fold" in header)
        others = ("a", np.roll(folds, 1)), ("a", folds % 1), ("a", folds - 1), ("a", ["x"] * ROWS)
        for name, other in others:  # files differ, one fold, a negative one, text
            members = self.members("y_pred,fold", None, folds)
            self.write("a.csv", table("y_pred,fold", self.p[0], other))
            found = self.fits("--task", "regression", "--labels", self.path("y.npy"), *members)
            self.same(found)
            self.assertIn("the column of folds is ignored", found["said"])

    def test_labels_in_a_member_that_differ_are_refused(self):
        wrong = self.y.copy()
        wrong[17] += 1
        members = self.members("y_true,y_pred", wrong, None)
        self.refused("--task", "regression", "--labels", self.path("y.npy"), *members, says=("y_true", "row 17"))

    def test_labels_of_many_columns(self):
        other = self.draw.normal(size=ROWS)
        labels = self.write("books.csv", table("id,pages,stars,price", self.ids, other, other, self.y))
        members = self.members("id,pred", self.ids, None)
        self.refused("--task", "regression", "--labels", labels, *members, says=("pages, stars, price", "--label-column"))
        self.same(self.fits("--task", "regression", "--labels", labels, *members, "--label-column", "price"))
        self.same(self.fits("--task", "regression", "--labels", labels + "#price", *members))
        self.same(self.fits("--task", "regression", "--labels", labels, *members, "--label-column", "4"))
        self.refused("--task", "regression", "--labels", labels, *members, "--label-column", "cost", says=("'cost'", "price"))

    def test_several_outputs(self):
        other = self.draw.normal(size=ROWS)
        labels = self.write("y.csv", table("id,height,mass", self.ids, self.y, other))
        members = [self.write(f"{name}.csv", table("id,mass,height", self.ids, other + p - self.y, p)) for name, p in zip("ab", self.p)]
        found = self.fits("--task", "regression", "--labels", labels, *members)
        np.save(self.path("y2.npy"), np.stack([self.y, other], 1))
        for name, p in zip("ab", self.p):
            np.save(self.path(f"{name}2.npy"), np.stack([p, other + p - self.y], 1))
        arrays = [self.path(f"{name}2.npy") for name in "ab"]
        plain = self.fits("--task", "regression", "--labels", self.path("y2.npy"), *arrays)
        self.assertEqual(list(found["weights"].values()), list(plain["weights"].values()))

    def test_names_of_outputs(self):
        members = self.members("id,price", self.ids, None)
        found = self.fits("--task", "regression", "--labels", self.labels(), *members, "--class-names", "price")
        self.same(found)
        self.refused("--task", "regression", "--labels", self.labels(), *members, "--class-names", "price,stars", says=("1",))

    def test_headerless_ids(self):
        labels = self.write("y.csv", table(None, self.ids, self.y))
        members = self.members(None, self.ids, None)
        self.refused("--task", "regression", "--labels", labels, *members, says=("--id-column",))
        self.same(self.fits("--task", "regression", "--labels", labels, *members, "--id-column", "1"))


class Classes(Tables):
    """Columns of classes are matched by name."""

    names = ("cat", "dog", "bird")

    def setUp(self):
        super().setUp()
        self.y = self.draw.integers(3, size=ROWS)
        self.p = []
        for noise in (1.0, 1.5):
            scores = 2 * np.eye(3)[self.y] + self.draw.normal(size=(ROWS, 3)) * noise
            p = np.exp(scores)
            self.p.append(p / p.sum(1, keepdims=True))
        self.text = [self.names[label] for label in self.y]
        np.save(self.path("y.npy"), self.y)
        np.save(self.path("f.npy"), np.arange(ROWS) % 5)  # those that are made depend on the order of the classes
        for name, p in zip("ab", self.p):
            np.save(self.path(f"{name}.npy"), p)
        self.plain = self.fits("--labels", self.path("y.npy"), self.path("a.npy"), self.path("b.npy"))

    def fit(self, *arguments):
        return super().fit(*arguments, "--folds", self.path("f.npy"))

    def member(self, name, p, header, order=(0, 1, 2)):
        """header: names of the classes in their own order, or None."""
        text = None if header is None else ",".join(header[c] for c in order)
        return self.write(f"{name}.csv", table(text, *p[:, list(order)].T))

    def same(self, document):
        np.testing.assert_allclose(scores(document), scores(self.plain), atol=1e-6)

    def accuracy(self, *arguments):
        """Of the fitted stack on the same rows, by its own csv, whose columns are named."""
        out = self.path("out.csv")
        result = run("predict", self.model, *arguments, "-o", out)
        self.assertEqual(result.code, 0, result.err)
        with open(out, encoding="utf-8") as file:
            rows = list(csv.reader(file))
        return rows[0], np.array([[float(x) for x in row] for row in rows[1:]])

    def test_headers_in_different_orders(self):
        for prefix, suffix in (("", ""), ("p_", ""), ("prob_", ""), ("class_", ""), ("", "_proba"), ("resnet_", "")):
            with self.subTest(prefix + suffix):
                header = [prefix + name + suffix for name in self.names]
                files = [self.member("a", self.p[0], header), self.member("b", self.p[1], header, (2, 0, 1))]
                found = self.fits("--labels", self.path("y.npy"), *files)
                self.same(found)
                self.assertIn("matched by name", found["said"])

    def test_prefixes_that_differ(self):
        files = [self.member("a", self.p[0], ["p_" + n for n in self.names]), self.member("b", self.p[1], self.names, (1, 2, 0))]
        self.same(self.fits("--labels", self.path("y.npy"), *files))
        files = [self.member("a", self.p[0], ["net_" + n for n in self.names]),
                 self.member("b", self.p[1], ["vgg_" + n for n in self.names], (1, 2, 0))]
        self.same(self.fits("--labels", self.path("y.npy"), *files))

    def test_numbers_are_classes(self):
        for header in (("0", "1", "2"), ("p0", "p1", "p2"), ("class_0", "class_1", "class_2"), ("a_0.0", "a_1.0", "a_2.0")):
            with self.subTest(header):
                files = [self.member("a", self.p[0], header, (1, 0, 2)), self.member("b", self.p[1], header, (2, 0, 1))]
                self.same(self.fits("--labels", self.path("y.npy"), *files))

    def test_numbers_from_one(self):
        header = ("1", "2", "3")
        labels = self.write("y.csv", table("label", self.y + 1))
        files = [self.member("a", self.p[0], ["p" + h for h in header], (1, 0, 2)), self.member("b", self.p[1], ["p" + h for h in header])]
        self.same(self.fits("--labels", labels, *files))
        found = self.fits("--labels", self.path("y.npy"), *files)
        self.same(found)
        self.assertIn("class numbers starting at 0", found["said"])

    def test_labels_in_a_member_are_compared(self):
        header = "y_true,cat,dog,bird"
        right = [self.write(f"{n}.csv", table(header, self.y, *p.T)) for n, p in zip("ab", self.p)]
        found = self.fits("--labels", self.path("y.npy"), *right)
        self.same(found)
        self.assertIn("not used: y_true", found["said"])
        wrong = self.write("b.csv", table(header, self.y[::-1], *self.p[1].T))
        self.refused("--labels", self.path("y.npy"), right[0], wrong, says=("b.csv", "y_true", "another order"))

    def test_names_that_differ_are_refused(self):
        files = [self.member("a", self.p[0], self.names), self.member("b", self.p[1], ("cat", "dog", "fish"))]
        self.refused("--labels", self.path("y.npy"), *files, says=("b.csv", "fish", "cat, dog, bird"))
        files[1] = self.member("b", self.p[1], ("x", "z", "w"))
        self.refused("--labels", self.path("y.npy"), *files, says=("b.csv", "x, z, w", "cat, dog, bird"))

    def test_labels_of_text(self):
        labels = self.write("y.csv", table("species", self.text))
        files = [self.member("a", self.p[0], ["p_" + n for n in self.names]), self.member("b", self.p[1], self.names, (2, 0, 1))]
        self.same(self.fits("--labels", labels, *files))
        header, rows = self.accuracy(*files)
        self.assertEqual(sorted(header), sorted(self.names))
        right = np.mean([header[k] == t for k, t in zip(rows.argmax(1), self.text)])
        self.assertGreater(right, 0.7)
        bad = self.write("y.csv", table("species", ["fish", *self.text[1:]]))
        self.refused("--labels", bad, *files, says=("fish", "bird, cat, dog"))

    def test_labels_of_text_beside_arrays(self):
        order = np.argsort(self.names)  # columns are taken in alphabetical order
        for name, p in zip("ab", self.p):
            np.save(self.path(f"s_{name}.npy"), p[:, order])
        files = [self.path("s_a.npy"), self.path("s_b.npy")]
        for labels in (self.write("y.csv", table("species", self.text)), self.path("t.npy")):
            np.save(self.path("t.npy"), np.array(self.text))
            found = self.fits("--labels", labels, *files)
            self.same(found)
            self.assertIn("alphabetical order: bird, cat, dog", found["said"])
        found = self.fits("--labels", self.path("t.npy"), self.path("a.npy"), self.path("b.npy"), "--class-names", "cat,dog,bird")
        self.same(found)
        self.assertNotIn("alphabetical", found["said"])
        self.refused("--labels", self.path("t.npy"), *files, "--class-names", "cat,dog", says=("bird", "cat, dog"))

    def test_prediction_with_columns_in_another_order(self):
        files = [self.member("a", self.p[0], self.names), self.member("b", self.p[1], self.names)]
        self.fits("--labels", self.path("y.npy"), *files)
        header, rows = self.accuracy(*files)
        self.assertEqual(tuple(header), self.names)
        files = [self.member("a", self.p[0], self.names, (2, 1, 0)), self.member("b", self.p[1], self.names, (1, 2, 0))]
        again, others = self.accuracy(*files)
        self.assertEqual(again, header)
        np.testing.assert_array_equal(rows, others)

    def test_files_without_names_beside_others(self):
        files = [self.member("a", self.p[0], self.names), self.member("b", self.p[1], None)]
        found = self.fits("--labels", self.path("y.npy"), *files)
        self.same(found)
        self.assertIn("have no names", found["said"])

    def test_a_single_column_is_named(self):
        y = (self.y > 0).astype(int)
        p = np.clip(0.3 + 0.4 * y + self.draw.normal(size=ROWS) * 0.1, 0.01, 0.99)
        labels = self.write("y.csv", table("id,label", np.arange(100, 100 + ROWS), ["no" if t == 0 else "yes" for t in y]))
        member = self.write("a.csv", table("id,p_no", np.arange(100, 100 + ROWS), 1 - p))
        self.assertEqual([self.fits("--labels", labels, member)["classes"], self.model_classes()], [2, ["yes", "no"]])
        other = self.write("b.csv", table("id,p_yes", np.arange(100, 100 + ROWS), p))
        self.refused("--labels", labels, member, other, says=("p_yes", "class 1 (no)"))
        member = self.write("a.csv", table("id,p_yes", np.arange(100, 100 + ROWS), p))
        self.assertGreater(self.fits("--labels", labels, member)["members"][0]["top1"], 0.9)


def exported(folder, pool, split, labels=True, classes=None):
    """One csv of a split of a pool of arrays: id, y, fold, and a column for each member, or for each class of it."""
    manifest = pool
    spec = manifest["splits"][split]
    read = lambda name: np.load(os.path.join(folder, name))
    y = read(spec["labels"])
    ids = read(spec["ids"]) if "ids" in spec else np.arange(len(y)) + 1000
    columns, header = [ids], ["id"]
    if labels:
        columns.append(y)
        header.append("y")
        if "folds" in spec:
            columns.append(read(spec["folds"]))
            header.append("fold")
    for model in manifest["models"]:
        p = read(model["predictions"][split])
        if p.ndim == 1 or p.shape[1] == 1:
            columns.append(p.reshape(-1))
            header.append(model["name"])
        else:
            for c in range(p.shape[1]):
                columns.append(p[:, c])
                header.append(f"{model['name']}:{classes[c] if classes else c}")
    return table(",".join(header), *columns)


def written(path):
    """The predictions in a csv, and their ids."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return rows[0], [row[0] for row in rows[1:]], np.array([[float(x) for x in row[1:]] for row in rows[1:]])


class Wide(Tables):
    """One table for all members."""

    def check_pool(self, folder, task):
        with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        train = self.write("train.csv", exported(folder, manifest, "oof"))
        test = self.write("test.csv", exported(folder, manifest, "test", labels=False))
        pool = os.path.join(folder, "pool.json")
        every = ("--set", "select.direction=none")  # a table does not say what members cost
        plain = run("fit", pool, "-o", self.path("plain.cstack"), "--set", "evaluate.nested=false", *every)
        self.assertEqual(plain.code, 0, plain.err)
        done = run("predict", self.path("plain.cstack"), pool, "--split", "test", "-o", self.path("plain.npy"))
        self.assertEqual(done.code, 0, done.err)
        found = self.fits(train, *every, *(["--task", task] if task != "classification" else []))
        self.assertIn("ids from 'id', labels from 'y'", found["said"])
        out = self.path("submission.csv")
        done = run("predict", self.model, test, "-o", out)
        self.assertEqual(done.code, 0, done.err)
        _, ids, values = written(out)
        expected = np.load(self.path("plain.npy")).reshape(len(values), -1)
        np.testing.assert_allclose(values, expected, rtol=2e-6, atol=1e-7)
        self.assertEqual(len(set(ids)), len(ids))

    def test_an_example_of_regression(self):
        self.check_pool(os.path.dirname(small("concrete")), "regression")

    def test_an_example_of_classes(self):
        self.check_pool(os.path.dirname(small("digits")), "classification")

    def binary(self, rows=ROWS):
        y = self.draw.integers(2, size=rows)
        p = [np.round(1 / (1 + np.exp(-(2 * y - 1) * 1.5 - self.draw.normal(size=rows) * s)), 6) for s in (1.0, 1.4, 1.2)]
        return y, p

    def test_binary_members(self):
        y, p = self.binary()
        ids = [f"u{i}" for i in self.draw.permutation(ROWS)]
        groups = self.draw.integers(60, size=ROWS)
        weights = self.draw.integers(1, 4, size=ROWS)
        wide = self.write("wide.csv", table("customer_id,target,group,weight,lgb,xgb,cat", ids, y, groups, weights, *p))
        found = self.fits(wide)
        self.assertEqual(found["models_in"], 3)
        self.assertIn("ids from 'customer_id', labels from 'target', groups from 'group', weights from 'weight', 3 members: lgb, xgb, cat",
                      found["said"])
        files = [self.write(f"{n}.csv", table("id,p", ids, c)) for n, c in zip(("lgb", "xgb", "cat"), p)]
        parts = {name: self.write(f"the_{name}.csv", table(f"id,{name}", ids, c))
                 for name, c in (("label", y), ("group", groups), ("weight", weights))}
        plain = self.fits("--labels", parts["label"], "--groups", parts["group"], "--weights", parts["weight"], *files)
        self.assertEqual(found["weights"], plain["weights"])
        self.assertEqual(scores(found), scores(plain))
        order = self.draw.permutation(ROWS)
        labels = self.write("labels.csv", table("customer_id,label", [ids[i] for i in order], y[order]))
        bare = self.write("bare.csv", table("customer_id,lgb,xgb,cat", ids, *p))
        self.assertEqual(self.fits("--labels", labels, bare)["models_in"], 3)
        self.assertEqual(run("predict", self.model, bare, "-o", self.path("o.csv")).code, 0)
        self.assertEqual(written(self.path("o.csv"))[1], ids)

    def test_columns_of_a_file(self):
        y, p = self.binary()
        wide = self.write("wide.csv", table("id,target,fold,group,lgb,xgb,other", np.arange(ROWS) + 7, y, np.arange(ROWS) % 4,
                                            np.arange(ROWS) // 2, *p))
        whole = self.fits(wide)
        found = self.fits("--labels", wide + "#target", "--folds", wide + "#fold", "--groups", wide + "#group",
                          wide + "#lgb", wide + "#xgb", wide + "#other")
        self.assertEqual(found["weights"], whole["weights"])
        self.assertEqual(scores(found), scores(whole))
        self.refused("--labels", wide + "#nothing", wide + "#lgb", says=("'nothing'", "lgb, xgb, other"))
        manifest = {"corestack_pool": 1, "task": "classification", "classes": 2,
                    "splits": {"oof": {"labels": "wide.csv#target", "folds": "wide.csv#fold", "ids": "wide.csv#id"}},
                    "models": [{"name": n, "predictions": {"oof": f"wide.csv#{n}"}} for n in ("lgb", "xgb", "other")]}
        self.write("pool.json", json.dumps(manifest))
        self.assertEqual(self.fits(self.path("pool.json"))["models_in"], 3)
        manifest["models"][0]["predictions"]["oof"] = "../wide.csv#lgb"
        self.write("pool.json", json.dumps(manifest))
        self.refused(self.path("pool.json"), says=("..",))

    def test_classes_by_name_and_in_any_order(self):
        names = ("cat", "dog", "bird")
        y = self.draw.integers(3, size=ROWS)
        p = [np.exp(2 * np.eye(3)[y] + self.draw.normal(size=(ROWS, 3))) for _ in range(2)]
        p = [q / q.sum(1, keepdims=True) for q in p]
        order = (2, 0, 1)
        for mark in (":", "__"):
            header = ["id", "label", *[f"a{mark}{n}" for n in names], *[f"b{mark}{names[c]}" for c in order]]
            columns = [np.arange(ROWS) + 3, [names[c] for c in y], *p[0].T, *p[1][:, order].T]
            found = self.fits(self.write("wide.csv", table(",".join(header), *columns)))
            self.assertEqual(found["models_in"], 2)
            self.assertGreater(found["members"][0]["top1"], 0.8)
            self.assertGreater(min(m["top1"] for m in found["members"]), 0.7)
        done = run("predict", self.model, self.path("wide.csv"), "-o", self.path("o.csv"))
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(written(self.path("o.csv"))[0], ["id", "bird", "cat", "dog"])

    def test_columns_that_are_no_predictions(self):
        y, p = self.binary()
        title = [f"book {i % 50}" for i in range(ROWS)]
        wide = self.write("wide.csv", table("id,title,target,lgb,xgb", np.arange(ROWS), title, y, *p[:2]))
        self.refused(wide, says=("title", "text"))
        wide = self.write("wide.csv", table("id,nr,target,lgb,xgb", np.arange(ROWS), np.arange(ROWS) + 50, y, *p[:2]))
        self.refused(wide, says=("'nr'", "--id-column"))
        wide = self.write("wide.csv", table("id,age,target,lgb,xgb", np.arange(ROWS), self.draw.integers(20, 60, ROWS), y, *p[:2]))
        self.refused(wide, says=("age",))
        wide = self.write("wide.csv", table("id,y,target,lgb,xgb", np.arange(ROWS), y, y, *p[:2]))
        self.refused(wide, says=("'y'", "'target'", "--label-column"))
        self.assertEqual(self.fits(wide, "--label-column", "target")["models_in"], 2)

    def test_labels_that_are_missing_or_no_classes(self):
        y, p = self.binary()
        wide = self.write("wide.csv", table("id,bought,lgb,xgb", np.arange(ROWS) + 9, y, *p[:2]))
        self.refused(wide, says=("has no labels", "--label-column"))
        self.assertEqual(self.fits(wide, "--label-column", "bought")["models_in"], 2)
        wide = self.write("wide.csv", table("id,price,lgb,xgb", np.arange(ROWS) + 9, y + 0.25, *p[:2]))
        self.refused(wide, "--label-column", "price", says=("--task regression",))

    def test_a_prediction_needs_no_labels(self):
        y, p = self.binary()
        y, p = y[:150], [q[:150] for q in p[:2]]
        names = np.array(["no", "yes"])[y]
        for labels, task in ((y, "classification"), (names, "classification"), (np.round(np.log(p[0]), 4), "regression")):
            self.fits(self.write("train.csv", table("id,y,a,b", np.arange(150), labels, *p)), "--task", task)
            written = []
            for word in (None, "", "NaN", "?", "NA", "-1", "half"):
                texts = [str(one) for one in labels] if word is None else [word] * 150
                if word == "half":
                    texts = [str(one) if i % 2 else "" for i, one in enumerate(labels)]
                test = self.write("test.csv", table("id,y,a,b", np.arange(150), texts, *p))
                done = run("predict", self.model, test, "-o", self.path("o.csv"))
                self.assertEqual(done.code, 0, done.err)
                with open(self.path("o.csv"), encoding="utf-8") as file:
                    written.append(file.read())
            self.assertEqual(len(set(written)), 1)
        self.write("train.csv", table("id,y,a,b", np.arange(150), np.where(np.arange(150) < 9, -1, y), *p))
        self.refused(self.path("train.csv"), says=("row 0", "rows without a label cannot be used"))

    def test_one_member_of_several_classes_with_its_labels(self):
        y = self.draw.integers(3, size=ROWS)
        p = np.exp(2 * np.eye(3)[y] + self.draw.normal(size=(ROWS, 3)))
        p /= p.sum(1, keepdims=True)
        one = self.write("net.csv", table("id,y,cat,dog,bird", np.arange(ROWS) + 5, y, *p.T))
        found = self.fits(one)
        self.assertEqual((found["models_in"], found["kept"]), (1, ["net"]))
        self.assertGreater(found["members"][0]["top1"], 0.7)

    def test_logits_of_binary_members(self):
        y, p = self.binary()
        z = [np.round(np.log(q / (1 - q)), 5) for q in p]
        for k in (2, 3):
            wide = self.write("wide.csv", table("id,y," + ",".join("abc"[:k]), np.arange(ROWS) + 9, y, *z[:k]))
            self.refused(wide, says=("logits", "--values logit"))
            found = self.fits(wide, "--values", "logit")
            self.assertEqual([m["name"] for m in found["members"]], list("abc"[:k]))
            self.assertGreater(min(m["top1"] for m in found["members"]), 0.7)
            test = self.write("test.csv", table("id," + ",".join("abc"[:k]), np.arange(ROWS), *z[:k]))
            done = run("predict", self.model, test, "--values", "logit", "-o", self.path("o.csv"))
            self.assertEqual(done.code, 0, done.err)

    def test_marks_of_splits_in_names(self):
        y, p = self.binary()
        self.fits(self.write("train.csv", table("id,y,oof_lgb,xgb_oof", np.arange(ROWS), y, *p[:2])))
        test = self.write("test.csv", table("id,test_lgb,xgb_test", np.arange(ROWS), *p[:2]))
        self.assertEqual(run("predict", self.model, test, "-o", self.path("o.csv")).code, 0)
        both = self.write("both.csv", table("id,y,oof_lgb,test_lgb,x", np.arange(ROWS), y, *p))
        self.refused(both, says=("test_lgb", "'lgb'"))
        classes = self.write("both.csv", table("id,y,oof_a:0,oof_a:1,test_a:0,test_a:1", np.arange(ROWS), y, 1 - p[0], p[0], 1 - p[1], p[1]))
        self.refused(classes, says=("test_a:0", "'a'"))

    def test_cells_that_are_missing(self):
        y, p = self.binary()
        gaps = [str(x) for x in p[0]]
        for i, word in ((5, ""), (6, "NA"), (7, "nan"), (8, "None")):
            gaps[i] = word
        wide = self.write("wide.csv", table("id,target,lgb,xgb", np.arange(ROWS) + 9, y, gaps, p[1]))
        self.refused(wide, says=("wide.csv", "--missing allow"))
        found = self.fits(wide, "--missing", "allow")
        self.assertEqual([m["name"] for m in found["members"]], ["lgb", "xgb"])

    def test_compressed(self):
        y, p = self.binary()
        text = table("id,target,lgb,xgb", np.arange(ROWS) + 9, y, *p[:2])
        plain = self.fits(self.write("wide.csv", text))
        packed = gzip.compress(text.encode())
        found = self.fits(self.write("wide.csv.gz", packed))
        self.assertEqual(found["weights"], plain["weights"])
        self.assertEqual(scores(found), scores(plain))
        half = len(text) // 2
        parts = gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode()) + bytes(64)
        self.assertEqual(scores(self.fits(self.write("parts.csv.gz", parts))), scores(plain))
        self.assertEqual(self.fits("--labels", self.path("wide.csv.gz#target"), self.path("wide.csv.gz#lgb"))["models_in"], 1)
        self.refused(self.write("cut.csv.gz", packed[:-20]), says=("cut.csv.gz", "truncated"))
        self.refused(self.write("cut.csv.gz", packed[:30]), says=("cut.csv.gz", "truncated"))
        damaged = bytearray(packed)
        damaged[len(packed) // 2] ^= 255
        self.refused(self.write("bad.csv.gz", bytes(damaged)), says=("bad.csv.gz", "damaged"))
        self.refused(self.write("bad.csv.gz", text), says=("bad.csv.gz", "not a gzip file"))
        self.refused(self.write("named.csv", packed), says=("named.csv", "gzip", ".gz"))


class ByName(Tables):
    """Files as competitions have them: what they are is in their names and columns."""

    def setUp(self):
        super().setUp()
        self.rows = 150
        self.y = self.draw.integers(2, size=self.rows)
        self.p = {n: np.round(1 / (1 + np.exp(3 - 6 * self.y + 2 * self.draw.normal(size=self.rows))), 6) for n in ("lgb", "xgb", "net")}
        self.ids = [f"r{i}" for i in range(self.rows)]

    def files(self, pattern, label=None, columns=("id", "prediction")):
        """One csv for each member, with the labels in a column of its own."""
        header, label = (",".join(columns), []) if label is None else (f"id,{label},prediction", [self.y])
        return [self.write(pattern % name, table(header, self.ids, *label, p)) for name, p in self.p.items()]

    def test_labels_beside_the_predictions(self):
        labels = self.write("y.csv", table("id,y", self.ids, self.y))
        plain = self.fits("--labels", labels, *self.files("%s.csv"))
        for label, options in (("target", ()), ("bought", ("--label-column", "bought"))):
            found = self.fits(*self.files("oof_%s.csv", label), *options)
            self.assertEqual(found["weights"], plain["weights"])
            self.assertIn(f"labels from '{label}'", found["said"])
        self.refused(*self.files("oof_%s.csv", "bought"), "--label-column", "bougth", says=("no column 'bougth'", "id, bought, prediction"))
        np.save(self.path("a.npy"), self.p["lgb"])
        self.refused(self.path("a.npy"), "--label-column", "y", says=("no file is a csv", "--labels"))
        plain = self.path("m.cstack")
        for pattern in ("sub_%s.csv", "submission_%s.csv", "pred_%s.csv", "test_%s.csv", "%s_sub.csv", "%s_test.csv", "%s_oof_preds.csv"):
            done = run("predict", plain, *self.files(pattern), "-o", self.path("o.csv"))
            self.assertEqual(done.code, 0, done.err)
        done = run("predict", plain, *self.files("other_%s.csv"), "-o", self.path("o.csv"), "--missing", "allow")
        self.assertEqual(done.code, 2)
        self.assertIn("matched by name", done.err)
        self.assertNotIn("--missing", done.err)

    def test_a_folder(self):
        for pattern in ("sub_%s.csv", "submission_%s.csv", "preds_%s.csv", "%s_test.csv"):
            folder = self.path("f")
            os.mkdir(folder)
            self.files("f/oof_%s.csv", "target")
            self.files("f/" + pattern)
            self.write("f/sample_submission.csv", "id,prediction\n")
            self.write("f/sub_blend.csv", "id,prediction\n")
            self.assertEqual([m["name"] for m in self.fits(folder)["members"]], ["lgb", "net", "xgb"])
            done = run("predict", self.model, folder, "-o", self.path("o.csv"))
            self.assertEqual(done.code, 0, done.err)
            shutil.rmtree(folder)
        os.mkdir(folder)
        self.files("f/%s.csv")
        done = run("predict", self.model, folder, "-o", self.path("o.csv"))
        self.assertEqual(done.code, 0, done.err)
        shutil.rmtree(folder)
        folder = self.path("f")  # out-of-fold ones, for all that is known
        os.mkdir(folder)
        for name, p in self.p.items():
            np.save(f"{folder}/pred_{name}.npy", p)
        np.save(f"{folder}/y.npy", self.y)
        self.assertEqual([m["name"] for m in self.fits(folder)["members"]], ["lgb", "net", "xgb"])


class Formats(Tables):
    """What cannot be read, by name and by first bytes."""

    def test_formats(self):
        labels = self.path("y.npy")
        np.save(labels, np.arange(ROWS) % 2)
        starts = {"xlsx": b"PK\x03\x04", "parquet": b"PAR1", "feather": b"ARROW1\0\0", "pkl": b"\x80\x04\x95", "joblib": b"\x80\x03",
                  "pt": b"PK\x03\x04", "pth": b"PK\x03\x04", "h5": b"\x89HDF\r\n\x1a\n", "xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
                  "csv.zst": b"\x28\xb5\x2f\xfd", "rds": b"\x1f\x8b", "csv.xz": b"\xfd7zXZ\0", "csv.bz2": b"BZh9", "zip": b"PK\x03\x04"}
        cures = {"xlsx": "csv", "parquet": "corestack.io", "feather": "corestack.io", "pkl": "numpy.save", "pt": "numpy.save",
                 "csv.zst": "zstd -d", "rds": "write.csv", "h5": "numpy.save"}
        for ending, start in starts.items():
            with self.subTest(ending):
                said = self.refused("--labels", labels, self.write("p." + ending, start + bytes(100)), says=("p." + ending,))
                self.assertIn("npy, npz, safetensors, csv", said)
                self.assertIn(cures.get(ending, ""), said)
        for magic, word in ((b"PAR1", "Parquet"), (b"\x80\x04\x95", "pickle"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip")):
            for name in ("p.npy", "p.csv", "p"):
                with self.subTest(word=word, name=name):
                    self.assertIn(word, self.refused("--labels", labels, self.write(name, magic + bytes(100)), says=(name,)))
        self.refused("--labels", labels, self.write("p.npy", b"hello, this is text"), says=("csv",))
        self.refused("--labels", labels, self.write("p", "[[0.1, 0.9], [0.2, 0.8]]"), says=("JSON",))
        self.refused("--labels", labels, self.write("p.json", " [[0.1, 0.9], [0.2, 0.8]]"), says=("JSON", "csv"))


class Causes(Tables):
    """Why numbers are no probabilities: the likeliest cause, and no wrong fit where it is obeyed."""

    def setUp(self):
        super().setUp()
        self.y = self.draw.integers(3, size=ROWS)
        scores = 2 * np.eye(3)[self.y] + self.draw.normal(size=(ROWS, 3))
        self.scores = scores
        self.p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        np.save(self.path("y.npy"), self.y)

    def both(self, array, says, name="a"):
        """The same of an npy and of a csv without and with a header."""
        files = [self.path(f"{name}.npy"), self.write(f"{name}.csv", table(None, *array.T)),
                 self.write(f"{name}h.csv", table(",".join(f"c{k}" for k in range(array.shape[1])), *array.T))]
        np.save(files[0], array)
        for file in files:
            with self.subTest(os.path.basename(file)):
                said = self.refused("--labels", self.path("y.npy"), file, says=says)
                if "logit" not in " ".join(says):
                    self.assertNotIn("logit", said)

    def logits(self, file, *says):
        return self.refused("--labels", self.path("y.npy"), file, "--values", "logit", says=says)

    def test_percentages(self):
        self.both(np.round(100 * self.p, 3), ("percentages", "divide by 100"))
        np.save(self.path("a.npy"), 100 * self.p)
        self.logits(self.path("a.npy"), "percentages", "divide by 100")
        y, one = (self.y > 0).astype(int), 100 * (1 - self.p[:, 0])
        np.save(self.path("y.npy"), y)
        np.save(self.path("a.npy"), one)
        self.refused("--labels", self.path("y.npy"), self.path("a.npy"), says=("percentages",))
        self.logits(self.path("a.npy"), "percentages")

    def test_ids(self):
        for ids in (np.arange(ROWS), np.arange(ROWS) + 1, 70000 + 3 * self.draw.permutation(ROWS)):
            array = np.column_stack([ids, self.p])
            self.both(array, ("sample ids",))
            np.save(self.path("a.npy"), array)
            self.logits(self.path("a.npy"), "sample ids")
            array = np.column_stack([ids, self.scores])
            for file in (self.path("a.npy"), self.write("a.csv", table("Kunde,a,b,c", *array.T))):
                np.save(self.path("a.npy"), array)
                self.logits(file, "sample ids")

    def test_the_cure_of_ids_works(self):
        ids = 70000 + 3 * self.draw.permutation(ROWS)
        labels = self.write("y.csv", table("Kunde,label", ids[::-1], self.y[::-1]))
        file = self.write("a.csv", table("Kunde,c0,c1,c2", ids, *self.p.T))
        said = self.refused("--labels", self.path("y.npy"), file, says=("--id-column 'Kunde'",))
        self.assertNotIn("logit", said)
        plain = self.fits("--labels", labels, file, "--id-column", "Kunde")
        self.assertGreater(plain["members"][0]["top1"], 0.7)
        file = self.write("a.csv", table(None, ids, *self.p.T))
        labels = self.write("y.csv", table(None, ids[::-1], self.y[::-1]))
        self.refused("--labels", self.path("y.npy"), file, says=("--id-column 1",))
        self.assertEqual(scores(self.fits("--labels", labels, file, "--id-column", "1")), scores(plain))

    def test_labels_beside_probabilities(self):
        self.both(np.column_stack([self.y, self.p]), ("labels or folds",))

    def test_logits_and_logarithms(self):
        self.both(np.round(self.scores, 5), ("logits", "--values logit"))
        self.both(np.log(self.p), ("logarithms of probabilities", "--values logit"))
        np.save(self.path("a.npy"), np.log(self.p))
        np.save(self.path("b.npy"), self.p)
        logarithms = self.fits("--labels", self.path("y.npy"), self.path("a.npy"), "--values", "logit")
        plain = self.fits("--labels", self.path("y.npy"), self.path("b.npy"))
        self.assertAlmostEqual(logarithms["members"][0]["nll"], plain["members"][0]["nll"], 6)
        self.logits(self.path("b.npy"), "every row", "probability")

    def test_logarithms_of_zero(self):
        p = self.p.copy()
        p[::7, 0] = 0
        p /= p.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            logarithms = np.log(p)
        np.save(self.path("b.npy"), p)
        plain = self.fits("--labels", self.path("y.npy"), self.path("b.npy"))
        np.save(self.path("a.npy"), logarithms)
        self.refused("--labels", self.path("y.npy"), self.path("a.npy"), says=("-infinity", "--values logit"))
        for file in (self.path("a.npy"), self.write("a.csv", table("a,b,c", *logarithms.T))):
            found = self.fits("--labels", self.path("y.npy"), file, "--values", "logit")
            self.assertAlmostEqual(found["members"][0]["nll"], plain["members"][0]["nll"], 6)
        for row, what in (([-np.inf] * 3, "needs a finite one"), ([0, np.inf, 0], "column 1 is infinity")):
            logarithms[5] = row
            np.save(self.path("a.npy"), logarithms)
            self.logits(self.path("a.npy"), "row 5", what)

    def test_other_numbers(self):
        self.both(np.round(255 * self.p), ("8-bit",))
        self.both(self.draw.multinomial(17, self.p), ("counts or votes",))
        np.save(self.path("y.npy"), (self.y > 0).astype(int))
        classes = self.write("a.csv", table("id,pred", np.arange(ROWS), self.y))
        self.refused("--labels", self.path("y.npy"), classes, says=("predict_proba",))

    def test_messages_name_the_column_of_the_file(self):
        names = ("a", "b", "c")
        files = [self.write("p.csv", table("a,b,c", *self.p.T))]
        wrong = self.p.copy()
        wrong[5, 2] = 7.0  # class c, which is the first column of the second file
        files.append(self.write("q.csv", table("c,a,b", wrong[:, 2], wrong[:, 0], wrong[:, 1])))
        self.refused("--labels", self.path("y.npy"), *files, says=("q.csv", "row 5", "line 7"))


class Hints(Tables):
    """What an error names as the likeliest cause."""

    def setUp(self):
        super().setUp()
        self.y = self.draw.integers(0, 3, ROWS)
        p = self.draw.random((2, ROWS, 3)) + 1e-3
        p[:, np.arange(ROWS), self.y] += 1
        self.p = p / p.sum(axis=2, keepdims=True)
        for name, value in zip("yab", [self.y, *self.p]):
            np.save(self.path(f"{name}.npy"), value)

    def says(self, text, labels="y.npy", members=("a.npy", "b.npy"), *options):
        members = [self.path(name) for name in members]
        self.refused("--labels", self.path(labels), *members, *options, says=[text])

    def test_predicted_classes(self):
        np.save(self.path("c.npy"), self.p[1].argmax(axis=1))
        self.says("1 class instead of 3; one column looks like predicted classes", members=("a.npy", "c.npy"))
        self.says("one column for each (predict_proba)", members=("c.npy",))
        classes = table("y,a,b,c", self.y, *(p.argmax(axis=1) for p in (*self.p, self.p[0])))
        self.refused(self.write("w.csv", classes), says=["whole numbers, as predicted classes are"])

    def test_rows_of_zeros(self):
        self.p[0][::5] = 0
        np.save(self.path("c.npy"), self.p[0])
        self.says("was the row not predicted? Then write NaN there", members=("c.npy", "b.npy"))

    def test_one_column_more(self):
        ids = self.draw.permutation(ROWS) + 100
        for header, key in ((None, "1"), ("who,0,1,2", "who")):
            self.write("a.csv", table(header and header[4:], *self.p[0].T))
            self.write("b.csv", table(header, ids, *self.p[1].T))
            for members in (("a.csv", "b.csv"), ("b.csv", "a.csv")):
                told = '--id-column "who"' if key == "who" else "remove it"
                self.says(told if members[0] == "a.csv" else "looks like sample ids", members=members)

    def test_labels(self):
        for value, text in (
            (self.y * 1.5 + 0.25, "give --task regression"),
            (np.where(self.y == 1, np.nan, self.y), "remove the row from every file"),
            (np.where(np.arange(ROWS) == 7, -1, self.y), "rows without a label cannot be used"),
            (self.y - 1, "if they start at -1, add 1"),
            (self.y * 5 + 5, "--class-names"),
            (self.draw.integers(0, 90, ROWS), "for a regression give --task regression"),
            (np.eye(3, dtype=int)[self.y], "of one-hot labels, their argmax"),
        ):
            np.save(self.path("z.npy"), value)
            self.says(text, labels="z.npy")
        self.write("z.csv", table("id,label", np.arange(ROWS), ["" if i == 9 else str(y) for i, y in enumerate(self.y)]))
        self.says("every row needs a label", labels="z.csv")
        np.save(self.path("z.npy"), 2 * (self.y > 0) - 1)
        np.save(self.path("c.npy"), self.p[0][:, 1])
        self.fits("--labels", self.path("z.npy"), self.path("c.npy"))

    def test_labels_of_text_with_one_that_is_none(self):
        names = np.array(["cat", "dog", "newt"], object)[self.y]
        for word, says in (("nan", "row 7 is 'nan': the label is missing"), ("3", "4 different names (3, cat, dog, newt)")):
            names[7] = word
            self.write("z.csv", table("label", names))
            self.says(says, labels="z.csv")
        np.save(self.path("z.npy"), np.where(names == "3", "nan", names).astype(str))
        self.says("row 7 is 'nan'", labels="z.npy")

    def test_several_labels_for_one_row(self):
        several = (self.draw.random((ROWS, 3)) < 0.5).astype(int)
        np.save(self.path("z.npy"), several)
        self.says("multi-label", labels="z.npy")
        self.write("z.csv", table("id,cat,dog,newt", np.arange(ROWS), *several.T))
        self.says("multi-label", labels="z.csv")

    def test_a_class_without_a_column(self):
        y = self.write("z.csv", table("label", np.array(["cat", "dog", "newt"])[self.y]))
        p, ones = self.p[0], np.ones(ROWS)
        for header, word in (("cat,dog,newt", "'dog'"), ("p_cat,p_dog,p_newt", "'dog'"), ("p0,p1,p2", "'1'")):
            self.write("a.csv", table(header, *p.T))
            self.write("b.csv", table(",".join(header.split(",")[::2]), p[:, 0], ones - p[:, 0]))
            labels = "z.csv" if "cat" in header else "y.npy"
            self.says(f"no column of class {word}", labels=labels, members=("a.csv", "b.csv"))

    def test_headers_that_are_no_utf_8(self):
        rows = table(None, *self.p[0].T).encode()
        self.write("l.csv", b"k\xe4tze,dog,newt\n" + rows)
        said = self.refused("--labels", self.path("y.npy"), self.path("l.csv"), says=["l.csv: the class name", "not valid UTF-8"])
        self.assertNotIn("255", said)
        self.write("l.csv", b"y,k\xe4tze,dog\n" + table(None, self.y % 2, *self.p[:, :, 1]).encode())
        said = self.refused(self.path("l.csv"), says=["l.csv: line 1", "not valid UTF-8"])

    def test_a_cell_that_is_infinite(self):
        y, p = self.y % 2, self.p[:, :, 1].copy()
        self.fits(self.write("train.csv", table("id,y,a,b", np.arange(ROWS), y, *p)))
        for value in (np.inf, 1.5):
            p[1, 9] = value
            test = self.write("test.csv", table("id,a,b", np.arange(ROWS), *p))
            done = run("predict", self.model, test, "-o", self.path("o.csv"))
            self.assertEqual(done.code, 2)
            self.assertIn("test.csv#b: row 9 (line 11, column 3)", done.err)

    def test_columns_that_name_something(self):
        patient = np.arange(ROWS) // 4
        p = [q[:, 1] for q in self.p]
        path = self.write("w.csv", table("patient_id,y,a,b", patient, (self.y == 1) * 1, *p))
        self.refused(path, says=["'patient_id' is no member's predictions", "--groups"])
        self.refused(path, "--task", "regression", says=["'patient_id' is no member's predictions", "--groups"])
        stars = self.write("s.csv", table("id,stars,a,b", np.arange(ROWS), self.y + 1, *p))
        self.refused(stars, says=["if these are the labels, give --label-column 'stars'"])
        for options in ((), ("--task", "regression")):
            document = self.fits(path, "--groups", f"{path}#patient_id", *options)
            self.assertEqual([m["name"] for m in document["members"]], ["a", "b"])


class Odd(Tables):
    """Tables as other programs write them: read right, or refused with the reason."""

    def setUp(self):
        super().setUp()
        self.rows = 60
        self.y = self.draw.integers(3, size=self.rows)
        scores = 2 * np.eye(3)[self.y] + self.draw.normal(size=(self.rows, 3))
        self.p = np.round(np.exp(scores) / np.exp(scores).sum(1, keepdims=True), 6)
        self.v = np.round(self.y + self.draw.normal(size=self.rows), 4)
        self.ids = np.arange(self.rows) + 100
        np.save(self.path("y.npy"), self.y)
        np.save(self.path("p.npy"), self.p)
        self.plain = self.fits("--labels", self.path("y.npy"), self.path("p.npy"))
        self.with_ids = self.write("yi.csv", table("id,label", self.ids, self.y))
        self.values = self.write("yv.csv", table("id,y", self.ids, self.y + 0.5))

    def test_read_as_they_are_meant(self):
        p, ids, n = self.p, self.ids, self.rows
        quoted = [[f'"{x}"' for x in column] for column in p.T]
        texts = {
            "quotes": table('"cat","dog","bird"', *quoted),
            "mark": "\ufeff" + table("cat,dog,bird", *p.T),
            "semicolons": table("cat;dog;bird", *p.T, delimiter=";"),
            "tabs": table("cat\tdog\tbird", *p.T, delimiter="\t"),
            "commas at the end": table("cat,dog,bird,", *p.T, [""] * n),
            "commas at the end, no header": table(None, *p.T, [""] * n),
            "index": table(",cat,dog,bird", np.arange(n), *p.T),
            "index and ids": table("Unnamed: 0,cat,dog,bird", np.arange(n), *p.T),
            "lines of Windows": table("cat,dog,bird", *p.T).replace("\n", "\r\n"),
            "lines of old Macs": table("cat,dog,bird", *p.T).replace("\n", "\r"),
            "spaces": table("cat , dog, bird ", *p.T, delimiter=" , "),
            "savetxt": table("# cat,dog,bird", *p.T),
            "empty lines at the end": table("cat,dog,bird", *p.T) + "\n\n",
            "exponents": table("cat,dog,bird", *[[f"{x:.6e}" for x in column] for column in p.T]),
        }
        for name, text in texts.items():
            with self.subTest(name):
                self.assertEqual(scores(self.fits("--labels", self.path("y.npy"), self.write("p.csv", text))), scores(self.plain))
        texts = {
            "ids behind a mark": "\ufeff" + table("id,cat,dog,bird", ids, *p.T),
            "index and ids": table("Unnamed: 0,id,cat,dog,bird", np.arange(n)[::-1], ids, *p.T),
            "ids last": table("cat,dog,bird,id", *p.T, ids),
            "labels beside": table("id,y_true,cat,dog,bird", ids, self.y, *p.T),
            "folds beside": table("id,fold,cat,dog,bird", ids, ids % 5, *p.T),
        }
        for name, text in texts.items():
            with self.subTest(name):
                self.assertEqual(scores(self.fits("--labels", self.with_ids, self.write("p.csv", text))), scores(self.plain))

    def test_labels_of_many_kinds(self):
        one = np.round(1 - self.p[:, 0], 6)
        binary = (self.y > 0).astype(int)
        np.save(self.path("y.npy"), binary)
        np.save(self.path("p.npy"), one)
        plain = scores(self.fits("--labels", self.path("y.npy"), self.path("p.npy")))
        member = self.write("p.csv", table("id,proba", self.ids, one))
        for words in (("False", "True"), ("no", "yes"), ("0", "1"), ("0.0", "1.0"), ("neg", "pos"), ("a", "b")):
            with self.subTest(words):
                labels = self.write("y.csv", table("id,label", self.ids, [words[t] for t in binary]))
                given = ["--positive", "b"] if words[1] == "b" else []
                found = self.fits("--labels", labels, member, *given)
                self.assertEqual(scores(found), plain)
                self.assertEqual(f"probability of '{words[1]}'" in found["said"], not words[0].startswith("0") and not given)
        labels = self.write("y.csv", table("id,fold,species", self.ids, self.ids % 3, [("cat", "dog", "bird")[t] for t in self.y]))
        member = self.write("p.csv", table("id,cat,dog,bird", self.ids, *self.p.T))
        self.assertEqual(scores(self.fits("--labels", labels, member)), scores(self.plain))
        labels = self.write("y.csv", table("label", self.y + 1))
        self.refused("--labels", labels, self.write("p.csv", table("cat,dog,bird", *self.p.T)), says=("subtract 1",))
        labels = self.write("y.csv", table("cat,dog,bird", *np.eye(3, dtype=int)[self.y].T))
        self.refused("--labels", labels, self.path("p.csv"), says=("one-hot",))

    def test_ids_that_look_the_same(self):
        def forms(kind, pattern):
            return [unicodedata.normalize(kind, pattern % i) for i in range(self.rows)]

        cases = [(forms("NFC", p), forms("NFD", p), "NFD) and there") for p in ("é%d", "a_\u0439%d", "\ud55c%d", "\u304c%d")]
        cases += [(b, a, "NFC) and there") for a, b, _ in cases]
        plain = forms("NFC", "a %d")
        cases += [(plain, [x.replace(" ", "\u00a0") for x in plain], "not shown"), (plain, [x + "\u200b" for x in plain], "not shown"),
                  (plain, [x.upper() for x in plain], "but 'a 0' is; ids are compared as text"), (forms("NFC", "é%d"), forms("NFC", "e%d"), "remove it")]
        for ours, theirs, word in cases:
            labels = self.write("l.csv", table("id,label", ours, self.y))
            self.refused("--labels", labels, self.write("q.csv", table("id,a,b,c", theirs, *self.p.T)), says=("is extra", word))

    def test_ids_that_lost_digits(self):
        ids = 2**53 + np.arange(self.rows)
        for kind in (np.float64, np.float32):
            np.save(self.path("ids.npy"), ids.astype(kind))
            self.refused("--labels", self.path("y.npy"), "--ids", self.path("ids.npy"), self.path("p.npy"), says=("occurs twice", "as integers or text"))
        labels = self.write("l.csv", table("id,label", [f"{i:.5e}" for i in ids], self.y))
        self.refused("--labels", labels, self.path("p.npy"), says=("occurs twice", "as integers or text"))

    def test_refused_with_the_reason(self):
        p, ids, n = self.p, self.ids, self.rows
        comma = [[str(x).replace(".", ",") for x in column] for column in p.T]
        cases = {
            "decimal commas": (table("a;b;c", *comma, delimiter=";"), "decimal point"),
            "decimal commas in quotes": (table("a,b,c", *[[f'"{x}"' for x in column] for column in comma]), "decimal point"),
            "spaces between columns": (table(None, *p.T, delimiter=" "), "separated by spaces"),
            "bars between columns": (table("a|b|c", *p.T, delimiter="|"), "bars"),
            "percent signs": (table("a,b,c", *[[f"{100 * x}%" for x in column] for column in p.T]), "percent sign"),
            "a name is missing": (table("a,,c", *p.T), "no name"),
            "a name is missing at the end": (table("a,b", *p.T), "line 2 has 3 cells"),
            "a comment": ("# by hand\n" + table("a,b,c", *p.T), "is line 1 a comment"),
            "the separator of a spreadsheet": ("sep=,\n" + table("a,b,c", *p.T), "line 2 has 3 cells"),
            "two headers": (table("a,b,c", *p.T) + "a,b,c\n", ""),
            "an empty line": (table("a,b,c", *p.T) + "\n1,0,0\n", "is empty, but data follow"),
            "the largest probability": (table("a,b,c,top", *p.T, p.max(1)), "MEMBER:CLASS"),
            "predicted class": (table("pred,a,b,c", p.argmax(1), *p.T), "labels or folds"),
            "mixed separators": (table("a,b,c", *p.T) + "1;0;0\n", "has 1 cells"),
            "UTF-16": (table("a,b,c", *p.T).encode("utf-16"), "UTF-16"),
            "Latin 1": (table("\xe4,b,c", *p.T).encode("latin-1"), "UTF-8"),
            "a sum below": (table("a,b,c", *p.T) + "20,20,20\n", "61 rows"),
        }
        for name, (text, word) in cases.items():
            with self.subTest(name):
                self.refused("--labels", self.path("y.npy"), self.write("q.csv", text), says=(word,))
        cases = {
            "a sum below": (table("id,a,b,c", ids, *p.T) + "Total,20,20,20\n", "'Total'"),
            "an id twice": (table("id,a,b,c", np.append(ids[:-1], ids[0]), *p.T), "occurs twice"),
            "zeros in front": (table("id,a,b,c", [f"{x:05d}" for x in ids], *p.T), "but '100' is"),
            "ids as fractions": (table("id,a,b,c", [f"{x}.0" for x in ids], *p.T), "but '100' is"),
            "a row is missing": (table("id,a,b,c", ids[1:], *p[1:].T), "'100'"),
        }
        for name, (text, word) in cases.items():
            with self.subTest(name):
                self.refused("--labels", self.with_ids, self.write("q.csv", text), says=(word,))
        value = [str(x) for x in self.v]
        cases = {
            "thousands": ([f'"{1000 * x + 5000:,.2f}"' for x in self.v], "thousands"),
            "a currency": ([f"${x + 9}" for x in self.v], "unit"),
            "an empty cell": (["", *value[1:]], "is empty"),
            "NA": (["NA", *value[1:]], "missing value"),
            "NA below": ([*value[1:], "NA"], "missing value"),
        }
        for name, (column, word) in cases.items():
            with self.subTest(name):
                file = self.write("q.csv", table("id,pred", ids, column))
                self.refused("--task", "regression", "--labels", self.values, file, says=("q.csv", word))
        files = [self.write(f"{name}.csv", table("id,mu,sigma", ids, self.v, self.v + 0.25)) for name in "qr"]
        self.refused("--task", "regression", "--labels", self.values, *files, says=("mu, sigma", "FILE.csv#COLUMN"))
