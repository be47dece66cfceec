"""`predict --like` and `--column`: predictions in the form of a sample submission."""

import csv
import os
import re
import unittest

import numpy as np
from support import SOURCES, PoolCase

CONCRETE = os.path.join(SOURCES, "examples", "concrete", "pool.json")


class Form(PoolCase):
    """A pool whose test split has ids and no labels; classes cat, dog and cow."""

    names = ["cat", "dog", "cow"]

    def setUp(self):
        super().setUp()
        self.ids = [f"img_{i:03d}" for i in range(self.test_rows)]
        for split, rows in (("oof", self.rows), ("test", self.test_rows)):
            ids = self.ids if split == "test" else [f"row{i}" for i in range(rows)]
            self.save(f"{split}_ids.npy", np.array(ids))
            self.manifest["splits"][split]["ids"] = f"{split}_ids.npy"
        del self.manifest["splits"]["test"]["labels"]
        self.manifest["classes"] = self.names
        self.write_manifest()
        self.fit("--method", "average")
        self.p = sum(self.members[name, "test"].astype(float) for name in ("ada", "bob", "cyd")) / 3
        self.order = np.random.default_rng(7).permutation(self.test_rows)
        self.out = self.path("submission.csv")

    def form(self, header, row, name="sample.csv"):
        """A sample with the ids in another order; row: what follows an id, or a function of its place."""
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for place, i in enumerate(self.order):
                writer.writerow([self.ids[i], *(row(place) if callable(row) else row)])
        return self.path(name)

    def like(self, form, *more, **keywords):
        return self.works("predict", self.model, self.pool, "--like", form, "-o", self.out, *more, **keywords)

    def like_fails(self, form, *says, more=()):
        self.fails("predict", self.model, self.pool, "--like", form, "-o", self.out, *more, says=says)

    def written(self):
        with open(self.out, newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    def check(self, header, columns):
        rows = self.written()
        self.assertEqual(rows[0], header)
        self.assertEqual([row[0] for row in rows[1:]], [self.ids[i] for i in self.order])
        found = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
        np.testing.assert_allclose(found, self.p[self.order][:, columns], atol=1e-7)


class Classes(Form):
    def test_columns_by_name(self):
        for header in (["id", "cow", "cat", "dog"], ["image", "COW", "Cat", "dog"], ["id", "p_cow", "p_cat", "p_dog"],
                       ["id", "cow_prob", "cat_prob", "dog_prob"], ["id", "is cow?", "is cat?", "is dog?"]):
            said = self.like(self.form(header, [0.3, 0.3, 0.4])).out
            self.check(header, [2, 0, 1])
            self.assertIn("one class a column, by name", said)
        self.like(self.form(["id", "dog", "cat"], [0, 0]))
        self.check(["id", "dog", "cat"], [1, 0])

    def test_a_column_named_after_a_class(self):
        said = self.like(self.form(["id", "cow"], [0])).out
        self.check(["id", "cow"], [2])
        self.assertIn("probability of class 'cow'", said)

    def test_labels(self):
        expected = [self.names[c] for c in self.p[self.order].argmax(1)]
        said = self.like(self.form(["id", "label"], ["cat"])).out
        self.assertEqual([row[1] for row in self.written()[1:]], expected)
        self.assertIn("the most probable class", said)
        said = self.like(self.form(["id", "label"], [0])).out
        self.assertEqual([int(row[1]) for row in self.written()[1:]], list(self.p[self.order].argmax(1)))
        self.assertIn("by number from 0", " ".join(said.split()))

    def test_other_columns_are_copied(self):
        form = self.form(["id", "cat", "Usage"], lambda i: [0, "Public" if i % 2 else "Private"])
        self.like_fails(form, "column 'Usage' is none of the classes (cat, dog, cow)", "--column")
        self.like(form, "--column", "cat")
        rows = self.written()
        self.assertEqual(rows[0], ["id", "cat", "Usage"])
        self.assertEqual([row[2] for row in rows[1:3]], ["Private", "Public"])
        np.testing.assert_allclose([float(row[1]) for row in rows[1:]], self.p[self.order, 0], atol=1e-7)

    def test_ids_anywhere(self):
        with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
            file.write("cat;dog;cow;name\r\n" + "".join(f"0;0;1;{self.ids[i]}\r\n" for i in self.order))
        self.like(self.path("sample.csv"))
        rows = self.written()
        self.assertEqual(rows[0], ["cat", "dog", "cow", "name"])
        self.assertEqual([row[3] for row in rows[1:]], [self.ids[i] for i in self.order])

    def test_cells_are_copied_byte_for_byte(self):
        odd = ["-abc", "@user", "=x", "'=y", '"q""uoted, one"', "  lead", "tail ", '"-z"', "+1 2"]
        plain = ["-abc", "@user", "=x", "=y", 'q"uoted, one', "lead", "tail", "-z", "+1 2"]
        self.ids[: len(odd)] = plain
        self.save("test_ids.npy", np.array(self.ids))
        text = "".join(f"{one}, =1+1 ,0,0,0\n" for one in odd + self.ids[len(odd) :])
        with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
            file.write("id, @note,cat,dog,'-cow\n" + text)
        self.manifest["classes"] = self.names = ["cat", "dog", "-cow"]
        self.write_manifest()
        self.fit("--method", "average")
        self.fails("predict", self.model, self.pool, "--like", self.path("sample.csv"), "-o", self.out, says=["@note"])
        self.like(self.path("sample.csv"), "--column", "dog")
        with open(self.out, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], "id, @note,cat,dog,'-cow")
        for one, line in zip(odd, lines[1:]):
            self.assertRegex(line, "^" + re.escape(one + ", =1+1 ,0,") + r"[0-9.e-]+,0$")
        with self.subTest("files that are made up have the mark, and say so"):
            found = self.works("predict", self.model, self.pool, "-o", self.out)
            self.assertIn("(7, such as '-abc')", found.err)
            self.assertEqual([row[0] for row in self.written()][:4], ["id", "'-abc", "'@user", "'=x"])
            found = self.works("predict", self.model, self.pool, "-o", self.out, "--formulas", "keep")
            self.assertEqual(found.err, "")
            self.assertEqual([row[0] for row in self.written()], ["id", *self.ids])
            self.fails("predict", self.model, self.pool, "-o", self.out, "--formulas", "none", says=["not mark or keep"])

    def test_ids_that_differ(self):
        form = self.form(["id", "cat"], [0])
        with open(form, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for change, says in ((lines[:-1], [self.ids[self.order[-1]]]), ([*lines, "img_999,0"], ["img_999"]), ([*lines, lines[5]], [lines[5].split(",")[0]]),
                             ([lines[0], "img_777,0", *lines[2:]], ["img_777"])):
            with open(form, "w", encoding="utf-8") as file:
                file.write("\n".join(change) + "\n")
            self.like_fails(form, *says)

    def test_what_is_no_sample(self):
        form = self.form(["id", "horse"], ["horse"])
        self.like_fails(self.form(["id", "cat", "horse"], [0, 0]), "column 'horse' is none of the classes")
        self.like_fails(self.form(["id", "score"], [0.5]), "column 'score' is none of the classes")
        self.like_fails(self.form(["id"], []), "no column besides the ids")
        self.like_fails(self.form(["id", "cat"], [0]), "has no column 'dog' to fill", "id, cat", more=["--column", "dog"])
        self.like_fails(self.path("nowhere.csv"), "nowhere.csv")
        self.like_fails(self.form([self.ids[0], "0.1"], [0.2]), "first line must name the columns")
        self.fails("predict", self.model, self.pool, "--like", form, "-o", self.path("x.npy"), says=["--like", ".csv"])
        self.fails("predict", self.model, self.pool, "--like", form, "-o", form, says=["an input of the command"])

    def test_round_trip_digits(self):
        self.like(self.form(["id", *self.names], [0, 0, 0]))
        self.works("predict", self.model, self.pool, "-o", self.path("p.npy"))
        found = np.array([[float(c) for c in row[1:]] for row in self.written()[1:]], dtype=np.float32)
        np.testing.assert_array_equal(found, np.load(self.path("p.npy"))[self.order])

    def test_ids_of_an_unlabelled_split(self):
        self.works("predict", self.model, self.pool, "-o", self.out)
        self.assertEqual([row[0] for row in self.written()], ["id", *self.ids])
        self.assertEqual(self.written()[0], ["id", *self.names])
        files = [self.path(f"{name}.npy") for name in ("ada", "bob", "cyd")]
        for name, file in zip(("ada", "bob", "cyd"), files):
            np.save(file, self.members[name, "test"])
        self.works("predict", self.model, *files, "--ids", self.path("test_ids.npy"), "-o", self.out)
        self.assertEqual([row[0] for row in self.written()[1:]], self.ids)

    def test_without_ids_rows_go_by_position(self):
        files = [self.path(f"{name}.npy") for name in ("ada", "bob", "cyd")]
        for name, file in zip(("ada", "bob", "cyd"), files):
            np.save(file, self.members[name, "test"])
        form = self.form(["id", "cat"], [0])
        said = self.works("predict", self.model, *files, "--like", form, "-o", self.out).out
        self.assertIn("in the order of the predictions, which have no ids", " ".join(said.split()))
        np.testing.assert_allclose([float(row[1]) for row in self.written()[1:]], self.p[:, 0], atol=1e-7)
        with open(form, "a", encoding="utf-8") as file:
            file.write("more,0\n")
        self.fails("predict", self.model, *files, "--like", form, "-o", self.out, says=["61 rows", "60 were predicted, without ids"])

    def test_one_column(self):
        said = self.works("predict", self.model, self.pool, "--column", "dog", "-o", self.out).out
        self.assertIn("probability of class 'dog'", said)
        rows = self.written()
        self.assertEqual(rows[0], ["id", "dog"])
        np.testing.assert_allclose([float(row[1]) for row in rows[1:]], self.p[:, 1], atol=1e-7)
        self.fails("predict", self.model, self.pool, "--column", "target", "-o", self.path("x.csv"), says=["--column target", "3 classes"])
        self.fails("predict", self.model, self.pool, "--column", "dog", "-o", self.path("x.npy"), says=["--column", ".csv"])


class TwoClasses(Form):
    classes = 2
    names = ["no", "yes"]

    def test_probability_of_the_second_class(self):
        for cells in ([0.5], [0], [1]):
            said = self.like(self.form(["id", "target"], cells)).out
            self.check(["id", "target"], [1])
            self.assertIn("column 'target': probability of class 'yes'", said)
        self.like(self.form(["id", "no"], [0.5]))
        self.check(["id", "no"], [0])

    def test_labels(self):
        self.like(self.form(["PassengerId", "Survived"], lambda i: [i % 2]))
        self.assertEqual([int(row[1]) for row in self.written()[1:]], list(self.p[self.order].argmax(1)))
        self.like(self.form(["id", "answer"], ["no"]))
        self.assertEqual([row[1] for row in self.written()[1:]], [self.names[c] for c in self.p[self.order].argmax(1)])

    def test_one_column(self):
        said = self.works("predict", self.model, self.pool, "--column", "target", "-o", self.out, "--json").json()
        self.assertEqual(said["columns"], "column 'target': probability of class 'yes'")
        self.assertEqual(self.written()[0], ["id", "target"])
        np.testing.assert_allclose([float(row[1]) for row in self.written()[1:]], self.p[:, 1], atol=1e-7)


class Numbers(PoolCase):
    """Classes without names, and integer ids."""

    def test_columns_by_number(self):
        self.save("test_ids.npy", np.arange(1000, 1060))
        self.manifest["splits"]["test"]["ids"] = "test_ids.npy"
        self.write_manifest()
        self.fit("--method", "average")
        p = sum(self.members[name, "test"].astype(float) for name in ("ada", "bob", "cyd")) / 3
        out = self.path("out.csv")
        for header in ("id,class_2,class_0,class_1", "id,2,0,1"):
            with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
                file.write(header + "\n" + "".join(f"{i},0,0,0\n" for i in range(1059, 999, -1)))
            self.works("predict", self.model, self.pool, "--like", self.path("sample.csv"), "-o", out)
            found = np.loadtxt(out, delimiter=",", skiprows=1)
            np.testing.assert_array_equal(found[:, 0], np.arange(1059, 999, -1))
            np.testing.assert_allclose(found[:, 1:], p[::-1][:, [2, 0, 1]], atol=1e-7)
        with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
            file.write("id,cat,dog,cow\n" + "".join(f"{i},0,0,0\n" for i in range(1000, 1060)))
        self.fails("predict", self.model, self.pool, "--like", self.path("sample.csv"), "-o", out, says=["column 'cat'", "--class-names"])


class OneFile(PoolCase):
    """A stranger's pool as one file: from the file to a submission in two commands."""

    BOOKS = os.path.join(SOURCES, "..", "shared", "pools", "books")

    @unittest.skipUnless(os.path.isdir(BOOKS), "no shared pools")
    def test_books(self):
        names = ("ridge", "xgboost_depth5", "xgboost_depth7", "catboost", "lightgbm")
        rows = {}
        for split in ("oof", "test"):
            columns = [np.load(os.path.join(self.BOOKS, f"{name}.{split}.npy")).ravel() for name in names]
            labels = np.load(os.path.join(self.BOOKS, f"{split}_labels.npy"))
            rows[split] = len(labels)
            with open(self.path(f"books_{split}.csv"), "w", encoding="utf-8") as file:
                file.write(",".join(["id", *(["votes"] if split == "oof" else []), *names]) + "\n")
                for i, row in enumerate(zip(*columns)):
                    target = [f"{labels[i]:.9g}"] if split == "oof" else []
                    file.write(",".join([f"{split}{i}", *target, *(f"{v:.9g}" for v in row)]) + "\n")
        order = np.random.default_rng(5).permutation(rows["test"])
        with open(self.path("sample_submission.csv"), "w", encoding="utf-8") as file:
            file.write("id,votes\n" + "".join(f"test{i},0\n" for i in order))
        self.works("fit", self.path("books_oof.csv"), "--task", "regression", "--label-column", "votes", "-o", self.model,
                   "--set", "evaluate.nested=false")
        self.works("predict", self.model, self.path("books_test.csv"), "--like", self.path("sample_submission.csv"),
                   "-o", self.path("submission.csv"))
        with open(self.path("submission.csv"), encoding="utf-8") as file:
            lines = [line.split(",") for line in file.read().splitlines()]
        self.assertEqual(lines[0], ["id", "votes"])
        self.assertEqual([line[0] for line in lines[1:]], [f"test{i}" for i in order])
        self.works("predict", self.model, os.path.join(self.BOOKS, "pool.json"), "-o", self.path("p.npy"))
        expected = np.load(self.path("p.npy")).ravel()[order]
        np.testing.assert_allclose([float(line[1]) for line in lines[1:]], expected, rtol=1e-5, atol=1e-3)


class Values(PoolCase):
    def test_regression(self):
        self.works("fit", CONCRETE, "-o", self.model, "--set", "evaluate.nested=false")
        self.works("predict", self.model, CONCRETE, "-o", self.path("p.npy"))
        ids = np.load(os.path.join(os.path.dirname(CONCRETE), "test_ids.npy"))
        with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
            file.write("Id,SalePrice\n" + "".join(f"{i},0\n" for i in ids[::-1]))
        said = self.works("predict", self.model, CONCRETE, "--like", self.path("sample.csv"), "-o", self.path("out.csv")).out
        self.assertIn("column 'SalePrice': the predicted value", said)
        found = np.loadtxt(self.path("out.csv"), delimiter=",", skiprows=1, usecols=1, dtype=np.float32)
        np.testing.assert_array_equal(found, np.load(self.path("p.npy"))[::-1].ravel())
        self.works("predict", self.model, CONCRETE, "--column", "strength", "-o", self.path("out.csv"))
        with open(self.path("out.csv"), encoding="utf-8") as file:
            self.assertEqual(file.readline(), "id,strength\n")

    def test_other_tasks(self):
        pool = os.path.join(SOURCES, "examples", "detection", "pool.json")
        self.works("fit", pool, "--method", "wbf", "-o", self.model, "--set", "evaluate.nested=false")
        with open(self.path("sample.csv"), "w", encoding="utf-8") as file:
            file.write("id,x\n1,0\n")
        self.fails("predict", self.model, pool, "--like", self.path("sample.csv"), "-o", self.path("out.csv"), says=["not supported for detection"])


if __name__ == "__main__":
    unittest.main()
