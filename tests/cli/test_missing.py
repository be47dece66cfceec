"""--missing allow: rows, ids, folds and files that members lack, with the weights solved again in NumPy."""

import json
import os
import struct

import numpy as np

from support import SOURCES, PoolCase, small

CONCRETE = os.path.join(SOURCES, "examples", "concrete")
DIGITS_PART = small("digits", 8, 2)


def crc32c(data):
    table = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ 0x82F63B78 if c & 1 else c >> 1
        table.append(c)
    c = 0xFFFFFFFF
    for byte in data:
        c = table[(c ^ byte) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


def sections(path):
    with open(path, "rb") as file:
        data = file.read()
    at, found = 24, []
    for _ in range(struct.unpack_from("<I", data, 12)[0]):
        length = struct.unpack_from("<Q", data, at + 8)[0]
        found.append((data[at : at + 4].decode(), data[at : at + 16 + length]))
        at += 16 + length
    return data[:12], found


def without_sections(path, out, *tags):
    head, found = sections(path)
    kept = [body for tag, body in found if tag not in tags]
    data = head + struct.pack("<IQ", len(kept), 28 + sum(map(len, kept))) + b"".join(kept)
    with open(out, "wb") as file:
        file.write(data + struct.pack("<I", crc32c(data)))
    return out


def without_refits(path, out):
    return without_sections(path, out, "ABSE")


class Refit:
    """One refit of section ABSE, solved for some members."""

    def __init__(self, body, at, members):
        head = struct.unpack_from("<4I5d", body, at)
        self.learner, self.output, biases, self.bounded = head[:4]
        self.share, self.pair, self.pull, self.loss, self.least = head[4:]
        at += 56
        numbers = members * (members + 1) // 2 + 4 * members + biases * (members + 1)
        values = np.frombuffer(body, "<f8", numbers, at)
        self.end = at + 8 * numbers
        self.curvature = np.zeros((members, members))
        low = np.tril_indices(members)
        self.curvature[low] = values[: len(low[0])]
        self.curvature = self.curvature + np.tril(self.curvature, -1).T
        rest = values[len(low[0]) :]
        self.slope, self.ridge, self.l1, self.center = rest[: 4 * members].reshape(4, members)
        self.rest = rest[4 * members : 4 * members + biases]
        self.tilt = rest[4 * members + biases :].reshape(biases, members)

    def solve(self, there):
        s = np.flatnonzero(there)
        matrix = self.curvature[np.ix_(s, s)] + np.diag(self.ridge[s]) + self.pair / len(s)
        b = self.slope[s] + (self.pull * self.center[s] / self.center[s].sum() if self.pull else 0)
        w = np.linalg.solve(matrix, b)
        return w, self.rest - self.tilt[:, s] @ w


def read_refits(path):
    found = dict(sections(path)[1])
    members = struct.unpack_from("<3I", found["TASK"], 16)[2]
    names, mix, at = [], [], 16
    for _ in range(members):
        length = struct.unpack_from("<I", found["MEMB"], at)[0]
        names.append(found["MEMB"][at + 4 : at + 4 + length].decode())
        mix.append(struct.unpack_from("<d", found["MEMB"], at + 4 + length)[0])
        at += 12 + length
    body, at, refits = found["ABSE"], 20, []
    for _ in range(struct.unpack_from("<I", body, 16)[0]):
        refits.append(Refit(body, at, members))
        at = refits[-1].end
    return names, np.array(mix), refits


def log_linear(refit, mix, probabilities, there):
    """[members][rows][classes] of those there to probabilities."""
    s = np.flatnonzero(there)
    classes = probabilities.shape[2]
    w, bias = refit.solve(there)
    logs = np.log((1 - mix[s, None, None]) * probabilities[s] + mix[s, None, None] / classes)
    z = np.einsum("k,krc->rc", w, logs) + bias
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


class Missing(PoolCase):
    def drop(self, name, split, rows):
        values = self.members[name, split].copy()
        values[rows] = np.nan
        self.save(f"{name}.{split}.npy", values)

    def predict(self, *more, model=None):
        out = self.path("out.npy")
        self.works("predict", model or self.model, self.pool, "-o", out, *more)
        return np.load(out)

    def test_rows_that_are_nan(self):
        self.fit("--set", "select.direction=none", "--set", "meta.learners=log-linear")
        names, mix, refits = read_refits(self.model)
        self.drop("ada", "test", slice(3, 20))
        self.drop("bob", "test", slice(10, 30))
        self.fails("predict", self.model, self.pool, "-o", self.path("out.npy"),
                   says=["ada.test.npy: row 3, column 0 is NaN", "--missing allow"])
        found = self.predict("--missing", "allow")
        told = self.works("predict", self.model, self.pool, "-o", self.path("out.npy"), "--missing", "allow").err
        self.assertIn("split 'test': 27 of 60 rows were not predicted by every member; for them the weights", told)
        self.assertNotIn("absent (", told)
        members = np.stack([self.members[n, "test"] for n in names]).astype(float)
        gone = {"ada": range(3, 20), "bob": range(10, 30), "cyd": ()}
        for row in range(self.test_rows):
            there = np.array([row not in gone[n] for n in names])
            if not there.all():
                expected = log_linear(refits[0], mix, members[:, row : row + 1], there)
                np.testing.assert_allclose(found[row], expected[0], atol=2e-6)

    def test_pool_of_probabilities_is_solved_again(self):
        """The same in NumPy for a learner that reads 8 times the probabilities in the place of their logarithms."""
        self.fit("--set", "select.direction=none", "--set", "meta.learners=logistic")
        names, _, refits = read_refits(self.model)
        self.assertEqual(len(refits), 1)
        members = np.stack([self.members[n, "test"] for n in names]).astype(float)
        for absent in range(len(names)):
            pool = {"models": [m for m in self.manifest["models"] if m["name"] != names[absent]]}
            with open(self.pool, "w", encoding="utf-8") as file:
                json.dump(dict(self.manifest, **pool), file)
            there = np.arange(len(names)) != absent
            w, bias = refits[0].solve(there)
            z = 8 * np.einsum("k,krc->rc", w, members[there]) + bias
            expected = np.exp(z) / np.exp(z).sum(1, keepdims=True)
            np.testing.assert_allclose(self.predict("--missing", "allow"), expected, atol=2e-6)

    def test_blends_do_not_say_that_weights_are_scaled(self):
        del self.manifest["models"][1]["predictions"]["test"]
        self.write_manifest()
        for learners in (None, "temperature+log-linear", "log-linear,vector+log-linear", "average+temperature"):
            chosen = ("--set", f"meta.learners={learners}") if learners else ()
            self.fit("--set", "select.direction=none", *chosen)
            told = self.works("predict", self.model, self.pool, "-o", self.path("out.npy"), "--missing", "allow").err
            self.assertIn("1 of the model's 3 members is absent", told, learners)
            self.assertNotIn("only scaled", told, learners)

    def test_row_that_nobody_predicted(self):
        self.fit()
        for name in ("ada", "bob", "cyd"):
            self.drop(name, "test", [7])
        self.fails("predict", self.model, self.pool, "-o", self.path("out.npy"), "--missing", "allow",
                   says=["row 7: no member of the model predicted it"])
        scored = self.works("evaluate", self.model, self.pool, "--missing", "allow", "--json").json()
        self.assertIn("split 'test': no member predicted 1 of 60 rows; they are left out", scored["notices"])
        rest = np.arange(self.test_rows) != 7
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.test.npy", self.members[name, "test"][rest])
        self.save("test_labels.npy", self.labels["test"][rest])
        self.assertAlmostEqual(scored["nll"], self.works("evaluate", self.model, self.pool, "--json").json()["nll"], places=9)

    def test_fit_uses_what_is_there(self):
        whole = self.fit("--json", nested=True).json()
        self.drop("ada", "oof", slice(0, 30))
        self.drop("bob", "oof", slice(20, 60))
        self.fit_fails("ada.oof.npy: row 0, column 0 is NaN", "--missing allow")
        part = self.fit("--json", "--missing", "allow", nested=True).json()
        self.assertEqual(part["samples"], self.rows)
        self.assertTrue(any("2 of 3 members lack predictions ('bob' lacks 40 of 120 rows" in n for n in part["notices"]))
        self.assertLess(part["oof"]["nll"], 1.4 * whole["oof"]["nll"])
        scores = {m["name"]: m["nll"] for m in part["members"]}
        truth = self.members["ada", "oof"][np.arange(30, self.rows), self.labels["oof"][30:]]
        self.assertAlmostEqual(scores["ada"], -np.log(truth.astype(float)).mean(), places=5)

    def test_rows_of_nobody_are_left_out_of_a_fit(self):
        for name in ("ada", "bob", "cyd"):
            self.drop(name, "oof", slice(50, 60))
        found = self.fit("--json", "--missing", "allow").json()
        self.assertEqual(found["samples"], self.rows - 10)
        self.assertTrue(any("no member predicted 10 of 120 rows" in n for n in found["notices"]))

    def test_partly_nan_is_an_error(self):
        values = self.members["ada", "oof"].copy()
        values[5, 1] = np.nan
        self.save("ada.oof.npy", values)
        self.fails("fit", self.pool, "-o", self.model, "--missing", "allow",
                   says=["ada.oof.npy: row 5, column 1 is NaN", "every column"])
        values[5, 1] = np.inf
        self.save("ada.oof.npy", values)
        self.fails("fit", self.pool, "-o", self.model, "--missing", "allow", says=["is infinity"])

    def test_folds_of_minus_one(self):
        folds = np.arange(self.rows) % 4
        folds[:20] = -1
        self.save("folds.npy", folds)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()
        self.fit_fails("folds.npy: row 0 is fold -1", "--missing allow")
        for name in ("ada", "bob", "cyd"):  # never predicted: zeros, as an array that was not filled
            values = self.members[name, "oof"].copy()
            values[:20] = 0
            self.save(f"{name}.oof.npy", values)
        found = self.fit("--json", "--missing", "allow").json()
        self.assertEqual(found["samples"], self.rows - 20)
        self.assertTrue(any("20 of 120 rows have no fold" in n for n in found["notices"]))
        for name in ("ada", "bob", "cyd"):  # the same rows as NaN: nothing is filled in
            self.drop(name, "oof", slice(0, 20))
        self.assertFalse([n for n in self.fit("--json", "--missing", "allow").json()["notices"] if "filled in" in n])
        model = self.read(self.model)
        self.save("folds.npy", folds[20:])
        self.save("oof_labels.npy", self.labels["oof"][20:])
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.oof.npy", self.members[name, "oof"][20:])
        self.fit()
        self.assertEqual(model, self.read(self.model))

    def test_absent_ids_and_empty_cells(self):
        def table(name, split, ids, rows, empty=()):
            path = self.path(f"{name}.{split}.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("id,a,b,c\n")
                for i in rows:
                    cells = "," * 2 if i in empty else ",".join(repr(float(v)) for v in self.members[name, split][i])
                    file.write(f"{ids[i]},{cells}\n")

        for split, rows in (("oof", self.rows), ("test", self.test_rows)):
            ids = [f"s{i}" for i in range(rows)]
            with open(self.path(f"{split}_labels.csv"), "w", encoding="utf-8") as file:
                file.write("id,label\n" + "".join(f"{i},{y}\n" for i, y in zip(ids, self.labels[split])))
            self.manifest["splits"][split]["labels"] = f"{split}_labels.csv"
            for name in ("ada", "bob", "cyd"):
                empty = range(5, 9) if name == "bob" else ()
                table(name, split, ids, [i for i in range(rows) if name != "ada" or i % 7], empty)
        for model in self.manifest["models"]:
            model["predictions"] = {s: f"{model['name']}.{s}.csv" for s in ("oof", "test")}
        self.manifest["classes"] = ["a", "b", "c"]
        self.write_manifest()
        self.fit_fails("id 's0'", "is missing", "--missing allow")
        self.fit("--missing", "allow")
        from_tables = self.predict("--missing", "allow")
        for split, rows in (("oof", self.rows), ("test", self.test_rows)):
            self.drop("ada", split, [i for i in range(rows) if i % 7 == 0])
            self.drop("bob", split, slice(5, 9))
            self.manifest["splits"][split]["labels"] = f"{split}_labels.npy"
        for model in self.manifest["models"]:
            model["predictions"] = {s: f"{model['name']}.{s}.npy" for s in ("oof", "test")}
        self.write_manifest()
        self.fit("--missing", "allow")
        np.testing.assert_array_equal(from_tables, self.predict("--missing", "allow"))

    def test_member_without_file(self):
        self.fit("--set", "select.direction=none")
        self.drop("bob", "test", slice(None))
        as_rows = self.predict("--missing", "allow")
        del self.manifest["models"][1]["predictions"]["test"]
        self.write_manifest()
        self.fails("predict", self.model, self.pool, "-o", self.path("out.npy"), says=["'bob'", "--missing allow"])
        np.testing.assert_array_equal(as_rows, self.predict("--missing", "allow"))
        told = "split 'test': 1 of the model's 3 members is absent ('bob'); the weights of the others were computed again"
        self.assertIn(told, self.works("predict", self.model, self.pool, "-o", self.path("out.npy"), "--missing", "allow").err)
        scored = self.works("evaluate", self.model, self.pool, "--missing", "allow", "--json").json()
        self.assertIn(told, scored["notices"])
        truth = as_rows[np.arange(self.test_rows), self.labels["test"]].astype(float)
        self.assertAlmostEqual(scored["nll"], -np.log(truth).mean(), places=5)
        self.fails("compare", self.pool, "--split", "test", "--missing", "allow", says=["member 'bob'", "'test'"])
        del self.manifest["models"][1]
        self.write_manifest()
        np.testing.assert_array_equal(as_rows, self.predict("--missing", "allow"))
        self.manifest["models"] = [{"name": "dan", "predictions": {"test": "ada.test.npy"}}]
        self.write_manifest()
        self.fails("predict", self.model, self.pool, "-o", self.path("out.npy"), "--missing", "allow",
                   says=["no member of the model"])

    def test_member_without_any_row_cannot_be_fitted(self):
        self.drop("cyd", "oof", slice(None))
        self.fails("fit", self.pool, "-o", self.model, "--missing", "allow", says=["member 'cyd' predicted no row"])

    def test_option(self):
        self.fails("fit", self.pool, "-o", self.model, "--missing", "maybe", says=["'maybe' is not allow or error"])
        model = self.read(self.fit() and self.model)
        self.fit("--missing", "error")
        self.assertEqual(model, self.read(self.model))
        self.fit("--missing", "allow")
        self.assertEqual(model, self.read(self.model))

    def test_weights_of_opposite_signs_are_not_magnified(self):
        """Of 1.5, -1 and .5 without the first: no weights of 3 and -2, which would be sums of nothing."""
        rng = np.random.default_rng(5)
        for split, rows in (("oof", self.rows), ("test", self.test_rows)):
            one = np.eye(3)[self.labels[split]]
            noise = 3 * rng.normal(size=(rows, 3))  # in ada, and alone in bob
            for name, scores in (("ada", 3 * one + noise), ("bob", noise), ("cyd", one + rng.normal(size=(rows, 3)))):
                scores = np.exp(scores - scores.max(1, keepdims=True))
                self.members[name, split] = (scores / scores.sum(1, keepdims=True)).astype(np.float32)
                self.save(f"{name}.{split}.npy", self.members[name, split])
        weights = self.fit("--method", "ridge", "--json").json()["weights"]
        self.assertLess(weights["bob"], -0.2)
        self.assertGreater(weights["cyd"], 0)
        del self.manifest["models"][0]["predictions"]["test"]
        self.write_manifest()
        found = self.works("evaluate", self.model, self.pool, "--missing", "allow", "--json").json()
        truth = self.members["cyd", "test"][np.arange(self.test_rows), self.labels["test"]]
        self.assertLess(found["nll"], 1.2 * -np.log(truth).mean())

    def test_old_models_are_scaled_with_a_notice(self):
        self.fit("--set", "select.direction=none")
        old = without_refits(self.model, self.path("old.cstack"))
        np.testing.assert_array_equal(self.predict(), self.predict(model=old))
        self.drop("bob", "test", slice(None))
        solved = self.predict("--missing", "allow")
        result = self.works("predict", old, self.pool, "-o", self.path("out.npy"), "--missing", "allow")
        self.assertIn("only scaled", result.err)
        self.assertTrue((np.load(self.path("out.npy")) != solved).any())


class MissingBoxes(PoolCase):
    def test_only_weights_are_scaled(self):
        folder = os.path.join(SOURCES, "examples", "detection")
        with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
            self.manifest = json.load(file)
        for name in os.listdir(folder):
            if name != "pool.json":
                os.symlink(os.path.join(folder, name), self.path(name))
        del self.manifest["models"][1]["predictions"]["test"]
        self.write_manifest()
        for method, scaled in (("nms", False), ("hill-climbing", True)):
            self.works("fit", folder, "-o", self.model, "--method", method, "--set", "evaluate.nested=false")
            told = self.works("predict", self.model, self.pool, "-o", self.path("out.json"), "--missing", "allow", "--allow-outside").err
            self.assertIn("1 of the model's 4 members is absent ('ssd')", told)
            self.assertEqual("only scaled" in told, scaled)


class Measured(PoolCase):
    """Solving again against scaling and against fitting again, for each kept member of two examples."""

    def losses(self, example, loss, *settings):
        with open(os.path.join(example, "pool.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.works("fit", example, "-o", self.model, "--set", "evaluate.nested=false", *settings)
        old = without_refits(self.model, self.path("old.cstack"))
        names = read_refits(self.model)[0]
        total = np.zeros(2)
        for name in names:
            part = dict(manifest, models=[m for m in manifest["models"] if m["name"] != name])
            folder = self.path("part")
            if not os.path.isdir(folder):
                os.mkdir(folder)
                for entry in os.listdir(example):
                    if entry != "pool.json":
                        os.symlink(os.path.join(example, entry), os.path.join(folder, entry))
            with open(os.path.join(folder, "pool.json"), "w", encoding="utf-8") as file:
                json.dump(part, file)
            for i, model in enumerate((self.model, old)):
                out = self.path("out.npy")
                self.works("predict", model, folder, "--allow-outside", "--missing", "allow", "-o", out)
                total[i] += loss(np.load(out))
        return total / len(names)

    def test_classification(self):
        labels = np.load(os.path.join(os.path.dirname(DIGITS_PART), "test_labels.npy"))
        for learners in (("--set", "select.direction=none"), ("--set", "select.direction=none", "--set", "meta.learners=vector+log-linear")):
            solved, scaled = self.losses(os.path.dirname(DIGITS_PART), lambda p: -np.log(p[np.arange(len(p)), labels]).mean(), *learners)
            self.assertLess(solved, scaled - 0.003, learners)

    def test_linear_pool_is_the_refit(self):
        """With the same prior, what is solved from the model is the linear pool of the other members' data."""
        self.works("fit", CONCRETE, "-o", self.model, "--set", "evaluate.nested=false", "--set", "meta.learners=log-linear")
        names, _, refits = read_refits(self.model)
        with open(os.path.join(CONCRETE, "pool.json"), encoding="utf-8") as file:
            files = {m["name"]: m["predictions"] for m in json.load(file)["models"]}
        x = np.stack([np.load(os.path.join(CONCRETE, files[n]["oof"])).ravel() for n in names], 1).astype(float)
        y = np.load(os.path.join(CONCRETE, "oof_labels.npy")).ravel().astype(float)
        location, scale = y.mean(), y.std()
        x, y = (x - location) / scale, (y - location) / scale
        self.assertEqual(len(refits), 1)
        for absent in range(len(names)):
            there = np.arange(len(names)) != absent
            part = x[:, there]
            penalty = refits[0].pull * np.eye(part.shape[1])
            center = 1 / np.mean((part - y[:, None]) ** 2, 0) ** self.power()
            center /= center.sum()
            gram = np.cov(part.T, bias=True)
            cross = (part - part.mean(0)).T @ y / len(y)
            expected = np.linalg.solve(gram + penalty, cross + refits[0].pull * center)
            w, bias = refits[0].solve(there)
            np.testing.assert_allclose(w, expected, rtol=0, atol=1e-6)
            raw = location * (1 - expected.sum()) + scale * (y.mean() - part.mean(0) @ expected)
            self.assertAlmostEqual(bias[0], raw, places=5)

    def power(self):
        options = self.works("options", "--json").json()["options"]
        return float(next(o["default"] for o in options if o["key"] == "linear_pool.center"))

    def test_regression(self):
        target = np.load(os.path.join(CONCRETE, "test_labels.npy")).ravel()
        solved, scaled = self.losses(CONCRETE, lambda p: np.mean((p.ravel() - target) ** 2))
        self.assertLess(solved, scaled)
