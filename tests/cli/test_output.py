"""The file behind -o: never an input, all of it or nothing, and of the kind that its name says."""

import os
import stat
import unittest

import numpy as np

from support import PoolCase, run


class NeverAnInput(PoolCase):
    """-o refuses every file that the command reads, by whatever name, and leaves it as it was."""

    def setUp(self):
        super().setUp()
        self.fit()
        self.ids = self.save("ids.npy", np.arange(self.rows))
        self.folds = self.save("folds.npy", (np.arange(self.rows) % 4).astype(np.int32))
        self.groups = self.save("groups.npy", np.arange(self.rows))
        self.manifest["splits"]["oof"].update(ids="ids.npy", folds="folds.npy", groups="groups.npy")
        np.savez(self.path("all.npz"), cyd=self.members["cyd", "oof"])
        self.manifest["models"][2]["predictions"]["oof"] = {"path": "all.npz#cyd", "ids": "cyd_ids.npy"}
        self.save("cyd_ids.npy", np.arange(self.rows))
        self.write_manifest()

    def refuses(self, output, *arguments):
        before = self.read(output) if os.path.exists(output) else None
        self.fails(*arguments, "-o", output, says=["-o", output])
        if before is not None:
            self.assertEqual(self.read(output), before)

    def test_files_of_a_manifest(self):
        names = "pool.json oof_labels.npy ids.npy folds.npy groups.npy ada.oof.npy all.npz cyd_ids.npy"
        for name in (*names.split(), "test_labels.npy", "bob.test.npy"):
            self.refuses(self.path(name), "fit", self.pool)
            self.refuses(self.path(name), "predict", self.model, self.pool)
        self.refuses(self.pool, "fit", self.folder)
        self.refuses(self.path("ada.oof.npy"), "fit", self.folder)
        self.refuses(self.model, "predict", self.model, self.pool)

    def test_files_of_a_folder(self):
        os.remove(self.pool)
        for name in ("all.npz", "cyd_ids.npy"):
            os.remove(self.path(name))
        for name in ("ada.oof.npy", "ada.test.npy", "oof_labels.npy", "folds.npy"):
            self.refuses(self.path(name), "fit", self.folder)

    def test_listed_files(self):
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob")]
        options = {"labels": "oof_labels.npy", "ids": "ids.npy", "folds": "folds.npy", "groups": "groups.npy"}
        given = [word for key, name in options.items() for word in (f"--{key}", self.path(name))]
        for output in (*files, *(self.path(name) for name in options.values())):
            self.refuses(output, "fit", *files, *given)
        with_folds = ("folds", "-l", self.path("oof_labels.npy"), "--groups", self.groups)
        self.refuses(self.path("oof_labels.npy"), *with_folds)
        self.refuses(self.groups, *with_folds)

    def test_other_names_of_the_same_file(self):
        link = self.path("link.npy")
        os.symlink("ada.oof.npy", link)
        self.refuses(link, "fit", self.pool)
        os.remove(link)
        os.link(self.path("ada.oof.npy"), link)
        self.refuses(link, "fit", self.pool)
        self.refuses(os.path.join(self.folder, ".", "ada.oof.npy"), "fit", self.pool)
        before = self.read(self.path("ada.oof.npy"))
        self.fails("fit", "pool.json", "-o", "ada.oof.npy", cwd=self.folder, says=["ada.oof.npy"])
        self.fails("fit", self.pool, "-o", "./ada.oof.npy", cwd=self.folder, says=["ada.oof.npy"])
        self.assertEqual(self.read(self.path("ada.oof.npy")), before)

    def test_a_named_file_that_is_not_there_yet(self):
        gone = self.path("bob.test.npy")
        os.remove(gone)
        self.refuses(gone, "fit", self.pool)
        self.refuses(os.path.join(self.folder, ".", "bob.test.npy"), "fit", self.pool)


class WholeOrNothing(PoolCase):
    def test_link(self):
        os.mkdir(self.path("store"))
        target = self.path("store/real.cstack")
        os.symlink("store/real.cstack", self.model)
        self.fails("fit", self.pool, "-o", self.model, says=["model.cstack", "link"])
        with open(target, "wb"):
            pass
        os.chmod(target, 0o640)
        self.fit()
        self.assertTrue(os.path.islink(self.model))
        self.assertFalse(os.path.islink(target))
        self.assertEqual(stat.S_IMODE(os.stat(target).st_mode), 0o640)
        self.assertEqual(os.listdir(self.path("store")), ["real.cstack"])
        self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))

    def test_report_that_cannot_be_printed(self):
        """Nothing is written, or replaced, where standard output fails."""
        self.fit()
        labels = self.path("oof_labels.npy")
        commands = (
            (["fit", self.pool, "-s", "keep.max=1"], "model.cstack"),
            (["predict", self.model, self.pool], "out.npy"),
            (["folds", "-l", labels], "folds.npy"),
        )
        for words, name in commands:
            for older in (False, True):
                output = self.path(name)
                if older and not os.path.exists(output):
                    with open(output, "wb") as file:
                        file.write(b"older")
                elif not older and os.path.exists(output):
                    output = self.path("other.cstack")
                before = self.listing()
                content = self.read(output) if older else None
                with open("/dev/full", "wb") as full:
                    result = run(*words, "-o", output, stdout=full)
                self.assertEqual(result.code, 2)
                self.assertEqual(result.err.count("\n"), 1, result.err)
                self.assertIn("standard output", result.err)
                self.assertEqual(self.listing(), before)
                if older:
                    self.assertEqual(self.read(output), content)

    def test_not_a_file(self):
        for words in (["fit", self.pool], ["predict", "m", self.pool], ["folds", "-l", "y.npy"]):
            self.fails(*words, "-o", "-", says=["-o -", "file"])
            self.fails(*words, "-o", self.path("a"), "--output", self.path("b"), says=["twice", "-o"])
            self.fails(*words, "-o", self.path("a"), "-ob", says=["twice", "-o"])
        self.fails("folds", "-l", "a", "-l", "b", "-o", "c.npy", says=["twice", "--labels"])
        self.fit("--set", "keep.max=2", "--set", "keep.fraction=0")


class Csv(PoolCase):
    def setUp(self):
        super().setUp()
        self.fit()
        self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))
        self.wanted = np.load(self.path("out.npy"))
        self.out = self.path("out.csv")

    def lines(self):
        with open(self.out, encoding="utf-8") as file:
            return file.read().splitlines()

    def predict(self):
        return self.works("predict", self.model, self.pool, "-o", self.out, "--json").json()

    def scores(self, path, labels):
        document = self.works("evaluate", path, "--labels", labels, "--json").json()
        return [document[key] for key in ("samples", "top1", "nll", "brier")]

    def test_without_names_and_ids(self):
        document = self.predict()
        self.assertEqual((document["out"], document["samples"]), (self.out, self.test_rows))
        lines = self.lines()
        self.assertEqual(lines[0], "class_0,class_1,class_2")
        got = np.array([line.split(",") for line in lines[1:]], np.float32)
        np.testing.assert_array_equal(got, self.wanted)
        labels = self.path("test_labels.npy")
        self.assertEqual(self.scores(self.out, labels), self.scores(self.path("out.npy"), labels))

    def test_names_and_ids(self):
        ids = [f'img "{i}", x' for i in range(self.test_rows)]
        self.save("ids.npy", np.array(ids))
        self.manifest["splits"]["test"]["ids"] = "ids.npy"
        self.manifest["classes"] = ["cat", "7", "dog, wet"]
        self.write_manifest()
        self.fit()
        self.predict()
        lines = self.lines()
        self.assertEqual(lines[0], 'id,cat,7,"dog, wet"')
        self.assertTrue(lines[5].startswith('"img ""4"", x",'), lines[5])
        labels = self.path("labels.csv")
        order = np.random.default_rng(3).permutation(self.test_rows)
        with open(labels, "w", encoding="ascii") as file:
            file.write("id,label\n")
            for i in order:
                name = ids[i].replace('"', '""')
                file.write(f'"{name}",{self.labels["test"][i]}\n')
        self.assertEqual(
            np.round(self.scores(self.out, labels), 9).tolist(),
            np.round(self.scores(self.path("out.npy"), self.path("test_labels.npy")), 9).tolist(),
        )

    def test_two_classes_named_by_numbers(self):
        labels = (np.arange(40) % 2).astype(np.int32)
        p = np.random.default_rng(1).dirichlet([1, 1], 40).astype(np.float32)
        files = [self.save("y.npy", labels), self.save("p.npy", p), self.save("q.npy", p[:, ::-1])]
        model = self.path("two.cstack")
        self.works("fit", "-l", *files, "-o", model)
        self.works("predict", model, *files[1:], "-o", self.out)
        self.assertEqual(self.lines()[0], "class_0,class_1")
        self.assertEqual(self.scores(self.out, files[0])[0], 40)

    def test_other_kinds(self):
        for name in ("out.npz", "out.txt", "out", "csv"):
            self.fails(
                "predict", self.model, self.pool, "-o", self.path(name), says=[name, ".npy", ".csv"]
            )
        labels = self.path("oof_labels.npy")
        self.fails("folds", "-l", labels, "-o", self.path("f.csv"), says=["f.csv", ".npy"])
        self.fails("predict", self.model, self.pool, "-o", self.out, file_limit=1100, says=["out.csv"])

    def test_conditions(self):
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.hard.npy", np.stack([self.members[name, "test"]] * 2))
        self.manifest["splits"]["hard"] = {
            "labels": "test_labels.npy", "conditions": [{"severity": 1}, {"severity": 2}]
        }
        for model in self.manifest["models"]:
            model["predictions"]["hard"] = f"{model['name']}.hard.npy"
        self.write_manifest()
        words = ("predict", self.model, self.pool, "--split", "hard", "-o")
        self.fails(*words, self.out, says=["conditions", ".npy"])
        self.works(*words, self.path("hard.npy"))
        got = np.load(self.path("hard.npy"))
        np.testing.assert_array_equal(got, np.stack([self.wanted, self.wanted]))


if __name__ == "__main__":
    unittest.main()
