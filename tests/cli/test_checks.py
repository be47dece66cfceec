"""Checks of the data before a fit: rows and columns in another order, leaks, copies, groups across folds, scale. Every figure
that a finding names is computed again with NumPy."""

import itertools
import json
import os
import re
import shutil
import tempfile
import unittest

import numpy as np

from support import SOURCES, run, sample, small, softmax


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-cli-")
        self.addCleanup(shutil.rmtree, self.folder)


class Checks(Cases):
    """Pools made on the spot: members that share their errors, as trained ones do."""

    rows, classes = 400, 4
    task = ()
    silenced = set()  # findings and refusals that checks=off was seen to leave out

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)
        self.labels = self.rng.integers(0, self.classes, self.rows)
        self.shared = self.rng.normal(size=(self.rows, self.classes))
        self.members = {name: self.member(2.0 + k / 4) for k, name in enumerate("abcd")}

    def member(self, skill, labels=None):
        scores = self.shared + 0.4 * self.rng.normal(size=self.shared.shape)
        scores[np.arange(self.rows), self.labels if labels is None else labels] += skill
        return softmax(2 * scores)

    def command(self, name, *arguments, members=None, labels=None, **files):
        folder = os.path.join(self.folder, "pool")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for member, values in (self.members if members is None else members).items():
            np.save(os.path.join(folder, f"oof_{member}.npy"), values)
        np.save(os.path.join(folder, "oof_labels.npy"), self.labels if labels is None else labels)
        for file, values in files.items():
            np.save(os.path.join(folder, f"oof_{file}.npy"), values)
        where = ("-o", os.path.join(self.folder, "model")) if name == "fit" else ()
        quick = ("--set", "evaluate.nested=false") if name == "fit" else ()
        return run(name, folder, "--json", *where, *quick, *self.task, *arguments)

    def finds(self, kind, *parts, among=None, **pool):
        """A fit of the pool has one finding, of this kind, with a notice of the same text that has these parts."""
        result = self.command("fit", **pool)
        self.assertEqual(result.code, 0, result.err)
        found = result.json()
        texts = [f["text"] for f in found["findings"] if f["kind"] == kind]
        self.assertEqual(len(texts), 1, found["findings"])
        self.assertIn(texts[0], found["notices"])
        for part in parts:
            self.assertIn(part, texts[0])
        if among is not None:
            self.assertEqual([f["members"] for f in found["findings"] if f["kind"] == kind], [among])
        if kind not in Checks.silenced:  # once for each
            Checks.silenced.add(kind)
            silent = self.command("fit", "--set", "checks=off", **pool)
            self.assertEqual((silent.code, silent.json()["findings"]), (0, []))
        return texts[0]

    def refused(self, *parts, **pool):
        """A fit of the pool ends with status 2 and one line that has these parts; so does a comparison, at the first of a kind."""
        kind = parts[0]
        for name, more in (("fit", ()), ("compare", ("--methods", "average")))[: 1 if kind in Checks.silenced else 2]:
            result = self.command(name, *more, **pool)
            self.assertEqual((result.code, result.out), (2, ""), result.err)
            self.assertEqual(result.err.count("\n"), 1)
            for part in (*parts, "checks=off"):
                self.assertIn(part, result.err)
        if kind not in Checks.silenced:
            Checks.silenced.add(kind)
            self.assertEqual(self.command("fit", "--set", "checks=off", **pool).code, 0)
        found = self.command("inspect", **pool).json()
        self.assertTrue(any(parts[0] in text for text in found["problems"]), found["problems"])
        return result.err

    def clean(self, **pool):
        found = self.command("fit", **pool).json()
        self.assertEqual(found["findings"], [])

    @staticmethod
    def swapped(values, a, b):
        order = np.arange(values.shape[1])
        order[[a, b]] = b, a
        return values[:, order]

    def best_order(self, values):
        """The permutation of columns with the best top-1, by trying all."""
        top = values.argmax(axis=1)
        score = {p: np.mean(np.array(p)[top] == self.labels) for p in itertools.permutations(range(self.classes))}
        best = max(score, key=score.get)
        return best, score[best], np.mean(top == self.labels)


class Orders(Checks):
    def test_clean(self):
        self.clean()
        self.clean(members={"a": self.members["a"], "b": self.members["b"]})
        self.clean(members={"a": self.members["a"]})

    def test_labels_in_another_order(self):
        self.refused("the labels do not match the predictions", "agree with one another", labels=self.rng.permutation(self.labels))
        self.refused("the labels do not match the predictions", "row i + 1", labels=np.roll(self.labels, 1))
        self.refused("the labels do not match the predictions", "row i - 1", labels=np.roll(self.labels, -1))
        self.refused("the labels do not match the predictions", "reverse order", labels=self.labels[::-1])

    def test_agreement(self):
        labels = self.rng.permutation(self.labels)
        centred = {k: v.astype(float) - v.mean(axis=0) for k, v in self.members.items()}
        everything = sum(centred.values())
        agreement = []
        for values in centred.values():
            others = everything - values
            agreement.append((values * others).sum() / np.sqrt((values**2).sum() * (others**2).sum()))
        text = self.refused("agree with one another", labels=labels)
        self.assertIn(f"correlation {np.median(agreement):.2f}", text)

    def test_predictions_by_fold(self):
        folds = self.rng.integers(0, 5, self.rows)
        order = np.argsort(folds, kind="stable")
        self.refused(
            "one fold after another", members={k: v[order] for k, v in self.members.items()}, folds=folds
        )
        self.members["b"] = self.members["b"][order]
        self.finds("order", "'b'", "one fold after another", among=["b"], folds=folds)

    def test_member_in_another_order(self):
        values = self.members["b"]
        for moved, part in (
            (np.roll(values, 1, axis=0), "row i - 1"),
            (np.roll(values, -1, axis=0), "row i + 1"),
            (np.roll(values, 2, axis=0), "row i - 2"),
            (values[::-1], "reverse order"),
            (values[self.rng.permutation(self.rows)], "agrees with no other member"),
        ):
            self.members["b"] = moved
            self.finds("order", "'b'", part, among=["b"])
        self.finds("chance", "'b'", "another order", members={k: self.members[k] for k in "ab"}, among=["b"])

    def test_correlation(self):
        self.members["b"] = np.roll(self.members["b"], 1, axis=0)
        text = self.finds("order", "much better")
        values = self.members["b"].astype(float)
        hot = np.eye(self.classes)[self.labels]
        off, target = values - values.mean(axis=0), hot - hot.mean(axis=0)
        scale = np.sqrt((off**2).sum() * (target**2).sum())
        there = (off[1:] * target[:-1]).sum() / scale * self.rows / (self.rows - 1)
        first, second = map(float, re.findall(r"correlation ([-0-9.]+) instead of ([-0-9.]+)\)", text)[0])
        self.assertAlmostEqual(first, there, delta=0.012)
        self.assertAlmostEqual(second, (off * target).sum() / scale, delta=0.006)

    def test_columns_in_another_order(self):
        self.members["b"] = self.members["b"][:, [2, 0, 3, 1]]
        order, then, now = self.best_order(self.members["b"])
        text = self.finds("classes", f"{100 * then:.1f}% instead of {100 * now:.1f}%", among=["b"])
        self.assertIn(", ".join(f"column {c} behaves as class {order[c]}" for c in range(3)), text)
        self.members["b"] = self.swapped(self.members["a"], 1, 3)
        order, then, now = self.best_order(self.members["b"])
        self.assertEqual(order, (0, 3, 2, 1))
        self.finds(
            "classes", f"column 1 behaves as class 3, column 3 behaves as class 1; with that order top-1 would be {100 * then:.1f}%"
        )

    def test_classes_numbered_in_another_way(self):
        self.refused("number the classes in another order", "4 of 4 members", labels=(self.labels + 1) % self.classes)
        swapped = np.array([0, 3, 2, 1])[self.labels]
        self.refused("number the classes in another order", "column 1 behaves as class 3", labels=swapped)
        self.refused("number the classes in another order", "1 of 1", labels=swapped, members={"a": self.members["a"]})

    def test_single_class(self):
        self.finds("labels", "every row has class 0", labels=np.zeros(self.rows, np.int64))

    def test_noise_is_no_other_order(self):
        """Members that learned nothing agree less than good ones: a notice, and no error."""
        noise = self.rng.normal(size=self.shared.shape)
        for name in "abcd":
            self.members[name] = softmax(0.8 * noise + 1.2 * self.rng.normal(size=noise.shape))
        self.finds("chance", "no member is better than chance")


    def test_scored_rows(self):
        """Rows that are only scored: a notice that names the split."""
        folder = os.path.join(self.folder, "pool")
        self.command("fit")
        for member, values in self.members.items():
            np.save(os.path.join(folder, f"test_{member}.npy"), values)
        for labels, count in ((self.labels, 0), (np.roll(self.labels, 1), 1)):
            np.save(os.path.join(folder, "test_labels.npy"), labels)
            found = run("compare", folder, "--split", "test", "--methods", "average", "--json").json()
            self.assertEqual(found["findings"], [])
            self.assertEqual(sum("split 'test': the labels do not match" in n for n in found["notices"]), count)

    def test_wherever_labels_are(self):
        """Every command that reads labels says what a fit says of them, and goes on."""
        folder = os.path.join(self.folder, "pool")
        model = os.path.join(self.folder, "model")
        self.command("fit")
        labels = self.rng.integers(0, self.classes, self.rows)
        for member in self.members:
            np.save(os.path.join(folder, f"test_{member}.npy"), self.member(2.0, labels))
        alone = (os.path.join(folder, "test_a.npy"), "--labels", os.path.join(folder, "test_labels.npy"))
        words = "number the classes in another order"
        for shift in (0, 1):
            np.save(os.path.join(folder, "test_labels.npy"), (labels + shift) % self.classes)
            for command in (
                ("evaluate", model, folder),
                ("evaluate", *alone),
                ("monitor", model, folder, "--split", "test"),
                ("adapt", model, folder, "--split", "test", "-o", model + "2"),
                ("online", model, folder, "--split", "test"),
                ("bound", model, folder, "--split", "test"),
            ):
                result = run(*command, "--json")
                self.assertIn(result.code, (0, 1), result.err)
                told = sum(words in n for n in result.json()["notices"])
                self.assertEqual(told, shift, (command, result.json()["notices"]))
                text = run(*command)
                self.assertEqual(words in " ".join((text.out + text.err).split()), shift == 1, (command, text.out))


class TwoClasses(Checks):
    classes = 2

    def test_swapped_columns(self):
        self.members["b"] = self.members["b"][:, ::-1]
        now = np.mean(self.members["b"].argmax(axis=1) == self.labels)
        self.finds("classes", "'b'", f"{100 * (1 - now):.1f}% instead of {100 * now:.1f}%", among=["b"])
        self.refused("another order than the columns", "column 0 behaves as class 1", labels=1 - self.labels, members=self.members)

    def test_rare_class(self):
        """All predict the common class; the rank of the rows is inverted."""
        self.labels = (self.rng.random(self.rows) < 0.1).astype(np.int64)
        for name in "abcd":
            score = self.shared[:, 0] + 0.3 * self.rng.normal(size=self.rows) + 2 * self.labels
            rare = 0.3 / (1 + np.exp(-score))
            self.members[name] = np.stack([1 - rare, rare], axis=1).astype(np.float32)
        self.clean()
        rare = self.members["b"][:, 1]
        self.members["b"] = np.stack([0.7 + rare, 0.3 - rare], axis=1)
        self.finds("inverted", "'b'", "1 - p", among=["b"])


class Leaks(Checks):
    def test_labels_themselves(self):
        hot = np.eye(self.classes, dtype=np.float32)[self.labels]
        self.refused("'leak' gives probability 1 to the label in every one of 400 rows", members={**self.members, "leak": hot})
        soft = (0.1 + 0.6 * hot).astype(np.float32)
        self.refused("'leak' gives probability 0.7 to the label", members={**self.members, "leak": soft})

    def test_far_better(self):
        seen = self.member(9.0)
        errors = {k: int((v.argmax(axis=1) != self.labels).sum()) for k, v in {**self.members, "leak": seen}.items()}
        least = min((n, k) for k, n in errors.items() if k != "leak")
        self.assertLess(5 * errors["leak"], least[0])
        self.finds(
            "leak",
            f"'leak' may be too good to be true: wrong in {errors['leak']} of 400 rows",
            f"the next best, '{least[1]}', in {least[0]}",
            members={**self.members, "leak": seen},
            among=["leak"],
        )

    def test_right_where_the_others_err_together(self):
        """Labels with some of them changed: no better than a good member, but its errors are its own."""
        told = np.where(self.rng.random(self.rows) < 0.08, self.rng.integers(0, self.classes, self.rows), self.labels)
        leak = (0.05 + 0.8 * np.eye(self.classes)[told]).astype(np.float32)
        others = sum(v.astype(float) for v in self.members.values()).argmax(axis=1)
        hard = others != self.labels
        self.finds(
            "leak",
            f"of {hard.sum()} rows where the other members are wrong together it is right in {(told == self.labels)[hard].sum()}",
            members={**self.members, "leak": leak},
            among=["leak"],
        )

    def test_good_and_honest(self):
        """Half the errors of the others, and among them."""
        self.members["good"] = self.member(4.0)
        self.clean()

    def test_errors_of_their_own(self):
        """Members whose errors have nothing in common at all, as in made-up pools: none stands out."""
        self.clean(members={f"m{k}": sample(self.rows, self.classes, k, 1.5 + k / 3, self.labels)[1] for k in range(5)})


class Copies(Checks):
    def test_copies_and_constants(self):
        self.finds("identical", "'a' and 'z' are the same predictions under 2 names", members={**self.members, "z": self.members["a"]})
        flat = np.full((self.rows, self.classes), 1 / self.classes)
        self.finds("constant", "'e' and 'f' give every sample the same", members={**self.members, "e": flat, "f": flat})

    def test_columns(self):
        values = self.members["b"].copy()
        values[:, 2] = 0
        count = (self.labels == 2).sum()
        zero = values / values.sum(axis=1, keepdims=True)
        self.finds("columns", f"'b' gives class 2 probability 0 in every row, although {count} rows", members={**self.members, "b": zero})
        values = self.members["b"].copy()
        values[:, 1] = values[:, 2] = (values[:, 1] + values[:, 2]) / 2
        self.finds("columns", "columns 1 and 2 of 'b' are the same numbers", members={**self.members, "b": values})

    def test_scale(self):
        twice = softmax(self.members["b"].astype(float))
        self.finds("scale", "'b'", "softmax", members={**self.members, "b": twice})
        self.members["b"] = softmax(20 * np.log(self.member(1.0)))
        nll = -np.log(np.maximum(self.members["b"][np.arange(self.rows), self.labels].astype(float), 1e-15)).mean()
        if (self.members["b"][np.arange(self.rows), self.labels] == 0).any():
            self.members["b"] = (0.999999 * self.members["b"] + 0.00000025).astype(np.float32)
            nll = -np.log(self.members["b"][np.arange(self.rows), self.labels].astype(float)).mean()
        self.finds("scale", f"'b': NLL {nll:.3f} is above", "overconfidence", among=["b"])

    def test_zeros(self):
        """What a tree gives: said by inspect, and no notice of a fit."""
        hard = np.eye(self.classes)[self.members["a"].argmax(axis=1)]
        members = {**self.members, "tree": hard}
        wrong = (hard.argmax(axis=1) != self.labels).sum()
        found = self.command("fit", members=members).json()
        self.assertEqual([f["kind"] for f in found["findings"]], ["scale"])
        self.assertIn(f"probability 0 in {wrong} of 400 rows", found["findings"][0]["text"])
        self.assertEqual([n for n in found["notices"] if "'tree'" in n], [])
        self.assertEqual(self.command("inspect", members=members).json()["problems"], [found["findings"][0]["text"]])

    def test_predicted_classes(self):
        """Members that say 0 or 1 alone, where most do."""
        hard = {k: np.eye(self.classes)[v.argmax(axis=1)] for k, v in self.members.items()}
        found = self.command("fit", members=hard).json()
        said = [f["text"] for f in found["findings"] if "predict_proba" in f["text"]]
        self.assertEqual(len(said), 1)
        self.assertIn(said[0], found["notices"])

    def test_near_uniform(self):
        """A little above the NLL of the uniform distribution, within noise: nothing is said."""
        self.members["b"] = softmax(0.02 * self.rng.normal(size=self.shared.shape))
        found = self.command("inspect").json()
        self.assertFalse(any("uniform" in text for text in found["problems"]), found["problems"])

    def test_class_that_a_fold_did_not_know(self):
        folds = np.arange(self.rows) % 4

        def without(values, fold, c):
            damaged = values.copy()
            damaged[folds == fold, c] = 0
            return damaged / damaged.sum(axis=1, keepdims=True)

        bad = without(self.members["b"], 1, 2)
        rows, hit = np.sum(folds == 1), np.sum((folds == 1) & (self.labels == 2))
        parts = ("'b' gives class 2 the probability 0", f"all {rows} rows of fold 1 (the first is row 1)", f"{hit} have that class", "NaN")
        members = {**self.members, "b": bad}
        self.finds("folds", *parts, among=["b"], members=members, folds=folds)
        absent = np.where((folds == 1)[:, None], np.nan, bad)

        def nested(members, *more):
            return self.command("fit", "--set", "evaluate.nested=true", "--set", "select.direction=none", *more, members=members, folds=folds).json()

        by_default, as_it_is = nested(members), nested(members, "--set", "checks=off")
        nan = nested({**self.members, "b": absent}, "--missing", "allow")
        self.assertLess(by_default["oof"]["nll"], as_it_is["oof"]["nll"])
        self.assertLess(nan["oof"]["nll"], as_it_is["oof"]["nll"])
        # what the fit takes is the mean of the others
        others, taken = [self.members[k][folds == 1, 2] for k in "acd"], bad.copy()
        taken[folds == 1] *= 1 - np.mean(others, axis=0)[:, None]
        taken[folds == 1, 2] = np.mean(others, axis=0)
        same = nested({**self.members, "b": taken})
        self.assertAlmostEqual(same["oof"]["nll"], by_default["oof"]["nll"], 6)
        compared = self.command("compare", "--set", "select.direction=none", "--methods", "default", members=members, folds=folds).json()
        self.assertEqual([f["kind"] for f in compared["findings"]], ["folds"])
        self.assertAlmostEqual(compared["rows"][0]["nll"], by_default["oof"]["nll"], 9)
        # the letter of the paper: told, not mended
        paper = [nested(members, "--preset", "paper", *more) for more in ((), ("--set", "checks=off"))]
        self.assertEqual(paper[0]["oof"], paper[1]["oof"])
        self.assertIn("folds", [f["kind"] for f in paper[0]["findings"]])
        # a constant that is not 0, and a class that is rare but known
        small = np.where((folds == 1)[:, None] & (np.arange(self.classes) == 2), 1e-6, bad)
        self.finds("folds", "class 2 the probability 1e-06", members={**self.members, "b": small}, folds=folds)
        floor = np.where((folds == 1)[:, None] & (np.arange(self.classes) == 2), 1e-13, self.members["b"])
        floor /= floor.sum(axis=1, keepdims=True)  # no longer constant
        self.finds("folds", "class 2 the probability", members={**self.members, "b": floor}, folds=folds)
        self.finds("folds", "every member", "StratifiedKFold", members={k: without(v, 1, 2) for k, v in self.members.items()}, folds=folds)

    def test_sorted_folds(self):
        order = np.argsort(self.labels, kind="stable")
        folds = self.labels[order]  # each fold is a class that its models did not see
        members = {k: np.where(np.eye(self.classes, dtype=bool)[folds], 0, v[order]) for k, v in self.members.items()}
        members = {k: v / v.sum(axis=1, keepdims=True) for k, v in members.items()}
        self.refused("every member gives class 0 the probability 0", "StratifiedKFold", labels=folds, members=members, folds=folds)

    def test_groups(self):
        groups = np.arange(self.rows) // 4
        folds = self.rng.integers(0, 5, self.rows)
        split = sum(len(set(folds[groups == g])) > 1 for g in set(groups))
        self.finds("groups", f"the folds split {split} of 100 groups, with {4 * split} rows", "corestack folds --groups", groups=groups, folds=folds)
        self.clean(groups=groups, folds=groups % 5)
        self.clean(groups=groups)

    def test_weights(self):
        weights = self.rng.uniform(0.5, 2, self.rows)
        found = self.command("fit", weights=weights).json()
        self.assertEqual(found["findings"], [])
        self.assertAlmostEqual(found["effective_samples"], weights.sum() ** 2 / (weights**2).sum(), places=6)
        weights[7] = 1e7
        self.finds("weights", "row 7 has 99.99", "1.0 rows", weights=weights)
        self.assertIn("(effectively 1.0, by their weights)", run("compare", os.path.join(self.folder, "pool"), "--methods", "average").out)


class FewRows(Checks):
    """What is clear with 60 rows is said, and nothing of honest members."""

    rows = 60

    def test_orders(self):
        self.clean()
        shifted = {**self.members, "b": np.roll(self.members["b"], 1, axis=0)}
        self.finds("order", "'b'", "row i - 1", members=shifted, among=["b"])
        self.finds("chance", "no member is better than chance", labels=self.rng.permutation(self.labels))


class Absent(Checks):
    """Zeros, -999 and so on where a member predicted nothing."""

    task = ("--task", "regression")

    def setUp(self):
        super().setUp()
        self.labels = 40 + 10 * self.rng.normal(size=self.rows)
        noise = 5 * self.rng.normal(size=self.rows)
        self.members = {n: self.labels + noise + 2 * self.rng.normal(size=self.rows) for n in "abcd"}

    def test_values(self):
        absent = np.arange(self.rows) % 5 == 2
        for value in (0, -999):
            members = {**self.members, "b": np.where(absent, value, self.members["b"])}
            self.finds("absent", f"'b' gives {value} to {absent.sum()} of {self.rows} rows", "--missing allow", members=members, among=["b"])
        # What is cut off at 0 or rounded is a prediction.
        self.clean(members={**self.members, "b": np.maximum(self.members["b"], 35)})
        self.clean(members={**self.members, "b": np.round(self.members["b"])})

    def test_far(self):
        members = {**self.members, "b": np.where(np.arange(self.rows) == 7, 1e6, self.members["b"])}
        self.finds("scale", "'b' gives 1e+06 to row 7", members=members, among=["b"])

    def test_targets(self):
        absent = np.arange(self.rows) % 8 == 2
        self.refused(f"{absent.sum()} of {self.rows} targets are -999", labels=np.where(absent, -999, self.labels))

    def test_single_targets(self):
        for value in (-999, 1e6):
            labels = np.where(np.arange(self.rows) == 7, value, self.labels)
            self.refused(f"the target of row 7 is {value:.6g}, far from the others", labels=labels)
        labels = 200 + self.labels
        members = {n: 200 + v for n, v in self.members.items()}
        labels[7] = -1
        self.finds("labels", "the target of row 7 is -1, far from the others", members=members, labels=labels)
        members = {n: np.where(np.arange(self.rows) == 7, 0, v) for n, v in members.items()}
        self.clean(members=members, labels=labels)  # they predict it

    def test_ids_as_an_output(self):
        ids = 5000.0 + self.rng.permutation(self.rows)
        members = {k: np.stack([ids, v], axis=1) for k, v in self.members.items()}
        self.refused("output 0 is the target itself in every member", members=members, labels=np.stack([ids, self.labels], axis=1))

    def test_probabilities(self):
        labels = (self.labels > 40).astype(int)
        members = {k: 1 / (1 + np.exp((40 - v) / 4)) for k, v in self.members.items()}
        absent = np.arange(self.rows) % 5 == 2
        self.task = ()
        self.finds("absent", "'b' gives 0 to", members={**members, "b": np.where(absent, 0, members["b"])}, labels=labels, among=["b"])


class Values(Checks):
    task = ("--task", "regression")

    def setUp(self):
        super().setUp()
        self.labels = 40 + 10 * self.rng.normal(size=self.rows)
        noise = 5 * self.rng.normal(size=self.rows)
        self.members = {n: (0.9 * self.labels + 4 + noise + 2 * self.rng.normal(size=self.rows)).astype(np.float32) for n in "abcd"}

    def test_orders(self):
        self.clean()
        self.refused("the targets do not match the predictions", labels=self.rng.permutation(self.labels))
        self.refused("the targets do not match the predictions", "row i + 1", labels=np.roll(self.labels, 1))
        self.refused("the sign of the targets", labels=-self.labels)
        self.finds("order", "'b'", "row i - 1", members={**self.members, "b": np.roll(self.members["b"], 1)}, among=["b"])
        self.finds("order", "'b'", "no other member", members={**self.members, "b": self.rng.permutation(self.members["b"])}, among=["b"])
        self.finds("inverted", "'b'", "the sign", members={**self.members, "b": -self.members["b"]}, among=["b"])

    def test_alike_neighbours(self):
        """Targets of rows that follow one another are alike, so that shifted ones are not at chance."""
        wave = np.sin(np.arange(self.rows) / 4) * 20
        labels = self.labels + wave
        members = {k: (v + wave).astype(np.float32) for k, v in self.members.items()}
        self.clean(members=members, labels=labels)
        self.refused("row i + 1", members=members, labels=np.roll(labels, 1))
        late = self.finds("order", "row i - 1", members=members, labels=np.roll(labels, -1))
        self.assertIn("unless they are forecasts", late)

    def test_target_itself(self):
        self.refused("'t' is the target itself", members={**self.members, "t": self.labels})
        self.refused("'t' is the target itself times a factor", members={**self.members, "t": 3 * self.labels + 7})
        self.finds("ids", "'t' is the number of each row", members={**self.members, "t": np.arange(self.rows)}, among=["t"])
        self.refused("the targets are the numbers of the rows", labels=np.arange(self.rows) + 1.0)

    def test_too_good(self):
        """Its errors share nothing with those of the others."""
        leak = self.labels + 2.5 * self.rng.normal(size=self.rows)

        def error(values):
            return np.sqrt(1 - np.corrcoef(values, self.labels)[0, 1] ** 2)

        best = min(self.members, key=lambda k: error(self.members[k]))
        share = error(leak.astype(np.float32)) / error(self.members[best])
        self.finds("leak", f"its error is {100 * share:.0f}% of that of the next best, '{best}'", members={**self.members, "leak": leak}, among=["leak"])
        honest = self.labels + 0.5 * (self.members["a"] - 0.9 * self.labels - 4)
        self.clean(members={**self.members, "good": honest})

    def test_scale(self):
        for values, part in (
            (self.members["b"] / 1000, "a factor of 1000"),
            ((self.members["b"] - 40) / 10, "standardised"),
            (self.members["b"] + 100, "target = "),
            (np.log(self.members["b"]), "the logarithm"),
        ):
            self.finds("scale", "'b'", part, members={**self.members, "b": values}, among=["b"])
        slope, offset = np.polyfit(self.members["b"].astype(float) + 100, self.labels, 1)
        self.finds("scale", f"target = {slope:.4g} * prediction - {-offset:.4g}", members={**self.members, "b": self.members["b"] + 100})

    def test_outputs(self):
        other = self.rng.normal(size=self.rows)
        labels = np.stack([self.labels, other], axis=1)
        members = {k: np.stack([v, other + 0.5 * self.rng.normal(size=self.rows)], axis=1) for k, v in self.members.items()}
        self.clean(members=members, labels=labels)
        self.finds("classes", "'b'", "output 0 behaves as 1", members={**members, "b": members["b"][:, ::-1]}, labels=labels)
        self.refused("output 0 behaves as 1", members=members, labels=labels[:, ::-1])


class Examples(unittest.TestCase):
    def test_clean(self):
        for name in ("digits", "concrete", "regression", "segmentation", "detection"):
            found = run("inspect", os.path.join(SOURCES, "examples", name), "--json", "-s", "segment.pixels=500").json()
            notices = [f for f in found["findings"] if "probability 0" not in f["text"]]
            self.assertEqual(notices, [], name)


class Others(Cases):
    """Maps and boxes."""

    def copy(self, name):
        folder = os.path.join(self.folder, name)
        shutil.copytree(os.path.join(SOURCES, "examples", name), folder)
        return folder

    def test_maps(self):
        folder = self.copy("segmentation")
        path = os.path.join(folder, "fpn.oof.npz")
        maps = np.load(path)["arr_0"]
        for moved, part in ((maps[:, :, ::-1], "upside down"), (maps[..., ::-1], "left to right"), (maps[:, np.roll(np.arange(11), 1)], "column")):
            np.savez(path, moved)
            found = run("inspect", folder, "--json", "-s", "segment.pixels=500").json()
            self.assertTrue(any("'fpn'" in f["text"] and part in f["text"] for f in found["findings"]), found["findings"])
        path = os.path.join(folder, "fpn.test.npz")
        masks = os.path.join(folder, "test_labels.npz")
        np.savez(path, np.load(path)["arr_0"][:, :, ::-1])
        found = run("evaluate", path, "--labels", masks, "--task", "segmentation", "--classes", "11", "--ignore", "11", "--json").json()
        self.assertTrue(any("upside down" in n for n in found["notices"]), found["notices"])

    def boxes(self, change, *names):
        folder = self.copy("detection")
        with open(os.path.join(folder, "oof.json"), encoding="utf-8") as file:
            sizes = {i["id"]: (i["width"], i["height"]) for i in json.load(file)["images"]}
        for name in names:
            path = os.path.join(folder, f"{name}.oof.json")
            with open(path, encoding="utf-8") as file:
                boxes = json.load(file)
            for box in boxes:
                box["bbox"] = change(*box["bbox"], *sizes[box["image_id"]])
            with open(path, "w", encoding="utf-8") as file:
                json.dump(boxes, file)
        result = run("fit", folder, "--json", "-o", os.path.join(self.folder, "model"), "--set", "evaluate.nested=false")
        shutil.rmtree(folder)
        return result

    def test_boxes(self):
        changes = {
            "fractions of the image: multiply": lambda x, y, w, h, W, H: [x / W, y / H, w / W, h / H],
            "YOLO": lambda x, y, w, h, W, H: [(x + w / 2) / W, (y + h / 2) / H, w / W, h / H],
            "corners (x1": lambda x, y, w, h, W, H: [x, y, x + w, y + h],
        }
        for part, change in changes.items():
            found = self.boxes(change, "ssd").json()
            self.assertEqual([f["kind"] for f in found["findings"]], ["boxes"])
            self.assertIn("'ssd' hits", found["notices"][0])
            self.assertIn(part, found["notices"][0])
        folder = self.copy("detection")
        model = os.path.join(self.folder, "model")
        for name, *boxes in (("test.json",), ("ssd.test.json", changes["corners (x1"])):
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                read = json.load(file)
            for change in boxes:
                for box in read:
                    box["bbox"] = change(*box["bbox"], 1, 1)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(read, file)
        run("fit", folder, "-o", model, "--set", "evaluate.nested=false")
        for command in (
            ("evaluate", model, folder),
            ("compare", folder, "--split", "test", "--methods", "wbf"),
            ("evaluate", os.path.join(folder, "ssd.test.json"), "--annotations", os.path.join(folder, "test.json")),
        ):
            told = [n for n in run(*command, "--json").json()["notices"] if "corners (x1" in n]
            self.assertEqual(len(told), 1, command)
        shutil.rmtree(folder)
        everyone = self.boxes(changes["corners (x1"], "ssd", "fcos", "yolo", "center_a")
        self.assertEqual(everyone.code, 2)
        self.assertIn("corners (x1", everyone.err)


class Words(Checks):
    def test_nested_off(self):
        found = self.command("fit").json()
        self.assertIsNone(found["oof"]["nll"])
        self.assertIn("evaluate.nested is false", found["oof"]["why"])
        text = run("fit", os.path.join(self.folder, "pool"), "-o", os.path.join(self.folder, "m"), "--set", "evaluate.nested=false", "-v").out
        self.assertNotIn("top-1 -", text)
        self.assertIn("best member: ", text)
        self.assertNotIn("why", self.command("fit", "--set", "evaluate.nested=true").json()["oof"])

    def test_first_row_of_the_path(self):
        found = self.command("fit", "--set", "keep.fraction=0").json()
        text = run("fit", os.path.join(self.folder, "pool"), "-o", os.path.join(self.folder, "m"), "--set", "evaluate.nested=false", "-v").out
        first = found["path"][0]["members"]
        self.assertEqual(len(first), 1)
        self.assertRegex(text, rf"\n +>? +1 .* \+ {first[0]}\n")

    def test_constant_columns(self):
        """Columns of the meta-design that are constant are no concern of the user's."""
        for preset in ("default", "paper"):
            found = self.command("fit", "--preset", preset, members={k: self.members[k] for k in "ab"}).json()
            self.assertFalse(any("meta-design" in n for n in found["notices"]), found["notices"])

    def test_units_of_tests(self):
        out = run("compare", small("concrete", 5, 3), "--methods", "default,average", "-r", 200, "--verbose").out
        self.assertIn("squared error: in units of the variance of the target", out)
        self.assertNotIn("0.0000 ", out.split("Paired tests")[1].split("Condition")[0])
