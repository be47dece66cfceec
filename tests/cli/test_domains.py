"""Domains: the manifest's column, --domains, scales and biases against SciPy, unknown domains, the file of the model, refusals."""

import json
import struct
import unittest

import numpy as np
from scipy.optimize import minimize

from support import PoolCase, slow, softmax

FAST = ("--set", "meta.learners=log-linear", "--set", "evaluate.nested=false")


def oracle(probabilities, labels, prior_scale=100.0, prior_bias=10.0):
    """The scale and biases of one domain's rows, by SciPy from the definition in docs/method.md."""
    logs = np.log(np.maximum(probabilities.astype(float), 1e-15))
    hot = np.eye(logs.shape[1])[labels]

    def loss(theta):
        z = theta[0] * logs + theta[1:]
        z = z - z.max(1, keepdims=True)
        total = np.log(np.exp(z).sum(1))
        off = np.exp(z - total[:, None]) - hot
        value = (total - (z * hot).sum(1)).sum() + prior_scale / 2 * (theta[0] - 1) ** 2 + prior_bias / 2 * (theta[1:] ** 2).sum()
        return value, np.concatenate([[(off * logs).sum() + prior_scale * (theta[0] - 1)], off.sum(0) + prior_bias * theta[1:]])

    start = np.concatenate([[1.0], np.zeros(logs.shape[1])])
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    return found.x


def applied(probabilities, theta):
    z = theta[0] * np.log(np.maximum(probabilities.astype(float), 1e-15)) + theta[1:]
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def nll(probabilities, labels):
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels].astype(float), 1e-15))


def sections(data):
    """{tag: (place of the payload, payload)} of a model file, as docs/model-format.md says."""
    found, at = {}, 24
    while at < len(data) - 4:
        length = struct.unpack_from("<Q", data, at + 8)[0]
        found[data[at:at + 4].decode()] = (at + 16, data[at + 16:at + 16 + length])
        at += 16 + length
    return found


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def resealed(data):
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def layer_of(data, classes):
    """{name: (rows, before, after, scale, biases)} of section DOMA."""
    payload, at, found = sections(data)["DOMA"][1], 4, {}
    for _ in range(struct.unpack_from("<I", payload)[0]):
        length = struct.unpack_from("<I", payload, at)[0]
        name = payload[at + 4:at + 4 + length].decode()
        rows, *numbers = struct.unpack_from(f"<Q{3 + classes}d", payload, at + 4 + length)
        found[name] = (rows, *numbers[:3], np.array(numbers[3:]))
        at += 4 + length + 8 * (4 + classes)
    assert at == len(payload)
    return found


class Domains(PoolCase):
    rows, test_rows = 360, 90

    def setUp(self):
        super().setUp()
        self.of = {"oof": np.array(["photo", "sketch", "clipart"])[np.arange(self.rows) % 3],
                   "test": np.array(["photo", "sketch", "clipart"])[np.arange(self.test_rows) // 30]}
        for split, of in self.of.items():
            for name in ("ada", "bob", "cyd"):
                z = np.log(self.members[name, split].astype(float))
                z[of == "sketch", 0] += 2.5
                z[of == "clipart"] *= 2.0
                self.members[name, split] = softmax(z)
                self.save(f"{name}.{split}.npy", self.members[name, split])
            self.save(f"{split}_d.npy", of)
            self.manifest["splits"][split]["domains"] = f"{split}_d.npy"
        self.save("folds.npy", np.arange(self.rows) // 3 % 3)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()

    def fitted(self, *more):
        self.works("fit", self.pool, "-o", self.model, "--quiet", *FAST, *more)
        return self.read(self.model)

    def predicted(self, *more, pool=None):
        self.works("predict", self.model, pool or self.pool, "-o", self.path("out.npy"), "--quiet", *more)
        return np.load(self.path("out.npy"))

    def held_out(self):
        """Every row predicted by a stack without a layer that was fitted without its fold."""
        self.works("compare", self.pool, "--methods", "default", "--set", "domain.aware=false", "--set", "meta.learners=log-linear",
                   "--save", self.path("held"), "--quiet", "--resamples", "0")
        return np.load(self.path("held/default.oof.npy"))

    def test_the_layer_is_the_optimum_on_held_out_predictions(self):
        data = self.fitted()
        held, found = self.held_out(), layer_of(data, 3)
        self.assertEqual(list(found), ["clipart", "photo", "sketch"])
        folds = np.load(self.path("folds.npy"))
        for name, (rows, before, after, scale, bias) in found.items():
            mine = self.of["oof"] == name
            expected = oracle(held[mine], self.labels["oof"][mine])
            self.assertEqual(rows, mine.sum())
            np.testing.assert_allclose([scale, *bias], expected, atol=1e-6)
            crossed = np.empty(self.rows)
            for f in range(3):
                out = mine & (folds == f)
                theta = oracle(held[mine & (folds != f)], self.labels["oof"][mine & (folds != f)])
                crossed[out] = nll(applied(held[out], theta), self.labels["oof"][out])
            self.assertAlmostEqual(before, nll(held[mine], self.labels["oof"][mine]).mean(), delta=1e-6)
            self.assertAlmostEqual(after, crossed[mine].mean(), delta=1e-6)
        with_layer = self.predicted()
        self.fitted("--set", "domain.aware=false")
        plain = self.predicted()
        for name, (_, _, _, scale, bias) in found.items():
            mine = self.of["test"] == name
            np.testing.assert_allclose(with_layer[mine], applied(plain[mine], np.array([scale, *bias])), atol=2e-7)
        self.assertLess(nll(with_layer, self.labels["test"]).mean(), nll(plain, self.labels["test"]).mean())

    def test_weights_count_and_priors_shrink(self):
        weights = np.where(self.of["oof"] == "sketch", 3.0, 1.0) * (1 + np.arange(self.rows) % 2)
        self.save("w.npy", weights)
        self.manifest["splits"]["oof"]["weights"] = "w.npy"
        self.write_manifest()
        data, held = self.fitted("--set", "domain.prior_bias=2", "--set", "domain.prior_scale=5"), self.held_out()
        even = weights / weights.mean()
        for name, (_, _, _, scale, bias) in layer_of(data, 3).items():
            mine = self.of["oof"] == name
            logs, labels, w = np.log(np.maximum(held[mine].astype(float), 1e-15)), self.labels["oof"][mine], even[mine]
            z = scale * logs + bias
            off = np.exp(z - z.max(1, keepdims=True))
            off = w[:, None] * (off / off.sum(1, keepdims=True) - np.eye(3)[labels])
            np.testing.assert_allclose(off.sum(0) + 2 * bias, 0, atol=1e-4)
            self.assertAlmostEqual((off * logs).sum() + 5 * (scale - 1), 0, delta=1e-3)
        self.fitted("--set", "domain.aware=true", "--set", "domain.prior_bias=1e12", "--set", "domain.prior_scale=1e12")
        shrunk = self.predicted()
        self.fitted("--set", "domain.aware=false")
        np.testing.assert_allclose(shrunk, self.predicted(), atol=1e-6)

    def test_same_bytes_whatever_threads_memory_and_form_of_the_column(self):
        first = self.fitted()
        self.assertEqual(first, self.fitted("--threads", 1))
        self.assertEqual(first, self.fitted("--memory", "64MiB"))
        for name, lines in (("d.csv", ["domain", *self.of["oof"]]), ("d.txt", list(self.of["oof"])),
                            ("two.csv", ["id,weight,domain", *(f"{i},2,{d}" for i, d in enumerate(self.of["oof"]))])):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            self.manifest["splits"]["oof"]["domains"] = name
            self.write_manifest()
            self.assertEqual(first, self.fitted(), name)
        files = [self.path(f"{m}.oof.npy") for m in ("ada", "bob", "cyd")]
        self.works("fit", *files, "--labels", self.path("oof_labels.npy"), "--folds", self.path("folds.npy"), "--domains",
                   self.path("d.csv"), "-o", self.model, "--quiet", *FAST)
        self.assertEqual(layer_of(first, 3)["sketch"][3], layer_of(self.read(self.model), 3)["sketch"][3])

    def test_ids_join_the_domains(self):
        ids = [f"row{i}" for i in range(self.rows)]
        self.save("ids.npy", np.array(ids))
        self.manifest["splits"]["oof"]["ids"] = "ids.npy"
        self.write_manifest()
        first = self.fitted()
        order = np.random.default_rng(1).permutation(self.rows)
        with open(self.path("d.csv"), "w", encoding="utf-8") as file:
            file.write("id,domain\n" + "".join(f"{ids[i]},{self.of['oof'][i]}\n" for i in order))
        self.manifest["splits"]["oof"]["domains"] = "d.csv"
        self.write_manifest()
        self.assertEqual(first, self.fitted())
        with open(self.path("d.csv"), "a", encoding="utf-8") as file:
            file.write("row9999,photo\n")
        self.assertIn("row9999", self.fails("fit", self.pool, "-o", self.model).err)

    def test_integers_are_names(self):
        self.fitted()
        words = self.predicted()
        for split, of in self.of.items():
            numbers = np.array([{"photo": 7, "sketch": -2, "clipart": 10}[d] for d in of])
            self.save(f"{split}_d.npy", numbers)
        data = self.fitted()
        self.assertEqual(list(layer_of(data, 3)), ["-2", "10", "7"])
        np.testing.assert_array_equal(words, self.predicted())

    def test_unknown_domains_and_rows_without_one(self):
        self.fitted()
        known = self.predicted()
        self.save("test_d.npy", np.where(self.of["test"] == "sketch", "oil painting", self.of["test"]))
        said = self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))
        self.assertIn("split 'test': 30 of 90 rows get the common scale and biases: the model does not know their domain "
                      "('oil painting')", said.err)
        new, unknown = np.load(self.path("out.npy")), self.of["test"] == "sketch"
        np.testing.assert_array_equal(new[~unknown], known[~unknown])
        with open(self.path("d.csv"), "w", encoding="utf-8") as file:
            file.write("row,domain\n" + "".join(f"{i},{'' if u else d}\n" for i, (u, d) in enumerate(zip(unknown, self.of["test"]))))
        self.manifest["splits"]["test"]["domains"] = "d.csv"
        self.write_manifest()
        said = self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))
        self.assertIn("30 of 90 rows have no domain", said.err)
        np.testing.assert_array_equal(np.load(self.path("out.npy")), new)
        del self.manifest["splits"]["test"]["domains"]
        self.write_manifest()
        said = self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))
        self.assertIn("the rows have no domains, and the model has scales and biases of 3 domains", said.err)
        common = np.load(self.path("out.npy"))
        np.testing.assert_array_equal(common[unknown], new[unknown])
        self.fitted("--set", "domain.aware=false")
        np.testing.assert_array_equal(common, self.predicted())
        self.manifest["splits"]["test"]["domain"] = "a description " * 30  # too long for a name
        self.write_manifest()
        np.testing.assert_array_equal(common, self.predicted())
        self.manifest["splits"]["test"]["domain"] = "sketch"  # of every row
        self.write_manifest()
        self.fitted()
        np.testing.assert_array_equal(self.predicted()[unknown], known[unknown])

    def test_auto_true_and_false(self):
        report = self.works("fit", self.pool, "-o", self.model, "--json", *FAST).json()
        self.assertTrue(report["domains"]["used"])
        self.assertLess(report["domains"]["nll_after"], report["domains"]["nll_before"] - 2 * report["domains"]["se"])
        self.assertEqual([d["domain"] for d in report["domains"]["list"]], ["clipart", "photo", "sketch"])
        text = self.works("fit", self.pool, "-o", self.model, "--verbose", *FAST).out
        self.assertIn("Domains\n", text)
        shown = self.works("show", self.model, "--json").json()
        self.assertEqual([d["scale"] for d in shown["domains"]["list"]], [d["scale"] for d in report["domains"]["list"]])
        self.assertIn("sketch", self.works("show", self.model).out)
        without = self.fitted("--set", "domain.aware=false")
        self.assertNotIn("DOMA", sections(without))
        self.save("oof_d.npy", np.random.default_rng(3).permutation(self.of["oof"]))  # says nothing
        said = self.works("fit", self.pool, "-o", self.model, "--json", *FAST)
        self.assertFalse(said.json()["domains"]["used"])
        self.assertIn("do not clearly lower the held-out NLL", " ".join(said.json()["notices"]))
        np.testing.assert_equal(sections(self.read(self.model))["LEAR"], sections(without)["LEAR"])
        self.assertIn("DOMA", sections(self.fitted("--set", "domain.aware=true")))
        self.assertNotIn("domains", self.works("fit", self.pool, "-o", self.model, "--json", "--preset", "prototype",
                                               "--set", "evaluate.nested=false").json())

    def test_one_domain_and_a_domain_of_two_rows(self):
        self.save("oof_d.npy", np.full(self.rows, "photo"))
        plain = self.fitted()
        self.assertNotIn("DOMA", sections(plain))
        said = self.works("fit", self.pool, "-o", self.model, "--json", *FAST, "--set", "domain.aware=true").json()
        self.assertIn("every row is of domain 'photo'", " ".join(said["notices"]))
        self.assertEqual(list(layer_of(self.read(self.model), 3)), ["photo"])
        few = self.of["oof"].astype("U20")
        few[[4, 11]] = "woodcut"
        self.save("oof_d.npy", few)
        rows, _, _, scale, bias = layer_of(self.fitted(), 3)["woodcut"]
        self.assertEqual(rows, 2)
        self.assertLess(max(abs(scale - 1), *abs(bias)), 0.2)  # two rows say little against the priors
        del self.manifest["splits"]["oof"]["domains"]
        self.write_manifest()
        self.assertEqual(plain, self.fitted())

    def test_scores_by_domain(self):
        self.fitted()
        report = self.works("evaluate", self.model, self.pool, "--split", "test", "--json", "--resamples", "50").json()
        out = self.predicted()
        for entry in report["domains"]:
            mine = self.of["test"] == entry["domain"]
            self.assertEqual(entry["samples"], 30)
            self.assertAlmostEqual(entry["nll"], nll(out[mine], self.labels["test"][mine]).mean(), places=6)
            self.assertAlmostEqual(entry["top1"], (out[mine].argmax(1) == self.labels["test"][mine]).mean())
            self.assertAlmostEqual(report["nll_in"][entry["domain"]], entry["nll"], places=9)
            low, high = report["top1_in"][entry["domain"] + "_ci"]
            self.assertLessEqual(low, entry["top1"])
            self.assertLessEqual(entry["top1"], high)
        found = self.works("compare", self.pool, "--methods", "average,default", "--split", "test", "--json", "--resamples", "50",
                           "--set", "meta.learners=log-linear").json()
        row = {r["method"]: r for r in found["rows"]}
        self.assertEqual(row["default"]["top1_in"]["sketch"], report["top1_in"]["sketch"])
        self.assertIn("sketch", row["average"]["difference"]["nll_in"])
        text = self.works("compare", self.pool, "--methods", "average,default", "--split", "test", "--resamples", "20",
                          "--set", "meta.learners=log-linear").out
        self.assertIn("Top-1 % in each domain", text)
        self.assertIn("NLL in each domain", text)

    def test_repeated_divisions_keep_the_domains(self):
        words = ["compare", self.pool, "--methods", "default", "--splits", "2", "--holdout", "0.3", "--resamples", "0", "--json", "--set",
                 "meta.learners=log-linear", "--set"]
        nll_of = [self.works(*words, f"domain.aware={aware}").json()["rows"][0]["nll"] for aware in ("true", "false")]
        self.assertLess(nll_of[0], nll_of[1] - 0.02)

    def test_conditions_repeat_the_domains(self):
        self.fitted()
        out = self.predicted()
        for name in ("ada", "bob", "cyd"):
            self.save(f"{name}.test.npy", np.stack([self.members[name, "test"]] * 2))
        self.manifest["splits"]["test"]["conditions"] = [{"kind": "a"}, {"kind": "b"}]
        self.write_manifest()
        np.testing.assert_array_equal(self.predicted().reshape(2, self.test_rows, 3), np.stack([out, out]))

    @slow
    def test_nested_scores_refit_the_layer(self):
        report = self.works("fit", self.pool, "-o", self.model, "--json", "--set", "meta.learners=log-linear").json()
        found = self.works("compare", self.pool, "--methods", "default", "--json", "--resamples", "0", "--set",
                           "meta.learners=log-linear").json()
        self.assertAlmostEqual(report["oof"]["nll"], found["rows"][0]["nll"], places=9)
        # Another label in a fold changes nothing of the predictions for that fold.
        self.works("compare", self.pool, "--methods", "default", "--save", self.path("a"), "--quiet", "--resamples", "0", "--set",
                   "meta.learners=log-linear", "--set", "domain.aware=true")
        fold = np.load(self.path("folds.npy")) == 1
        labels = self.labels["oof"].copy()
        labels[fold] = np.roll(labels[fold], 1)
        self.save("oof_labels.npy", labels)
        self.works("compare", self.pool, "--methods", "default", "--save", self.path("b"), "--quiet", "--resamples", "0", "--set",
                   "meta.learners=log-linear", "--set", "domain.aware=true", "--set", "checks=false")
        a, b = np.load(self.path("a/default.oof.npy")), np.load(self.path("b/default.oof.npy"))
        np.testing.assert_array_equal(a[fold], b[fold])
        self.assertTrue((a[~fold] != b[~fold]).any())

    def test_with_a_calibration_map(self):
        self.works("fit", self.pool, "-o", self.model, "--quiet", "--method", "default+temperature", *FAST)
        found = sections(self.read(self.model))
        self.assertIn("DOMA", found)
        theta = layer_of(self.read(self.model), 3)
        temperature = struct.unpack_from("<d", found["CALI"][1], 4)[0]
        out = self.predicted()
        self.fitted("--set", "domain.aware=false")
        plain = self.predicted()
        for name, (_, _, _, scale, bias) in theta.items():
            mine = self.of["test"] == name
            mapped = applied(plain[mine], np.array([scale, *bias]))
            np.testing.assert_allclose(out[mine], applied(mapped, np.array([1 / temperature, 0, 0, 0])), atol=1e-6)

    def test_damaged_and_hostile_files(self):
        data = self.fitted()
        at, payload = sections(data)["DOMA"]

        def changed(offset, new):
            return resealed(data[:at + offset] + new + data[at + offset + len(new):])

        name = 4 + 4 + len("clipart")
        for offset, new, text in (
            (0, struct.pack("<I", 0), "the number of domains"), (0, struct.pack("<I", 70000), "the number of domains"),
            (0, struct.pack("<I", 60000), "60000 domains are declared"), (8, b"zlipart", "ascending"), (8, b"photo\0x", "control"),
            (name + 8, struct.pack("<d", float("nan")), "NLL"), (name + 24, struct.pack("<d", float("inf")), "scale"),
            (name + 32, struct.pack("<d", 1e300), "bias"), (name, struct.pack("<q", -1), "rows"),
        ):
            with open(self.model, "wb") as file:
                file.write(changed(offset, new))
            self.assertIn(text, self.fails("predict", self.model, self.pool, "-o", self.path("o.npy")).err)
        for cut in range(0, len(payload), 7):  # lengths that do not fit
            with open(self.model, "wb") as file:
                file.write(resealed(data[:at - 8] + struct.pack("<Q", cut) + data[at:]))
            self.fails("show", self.model)

    def test_refusals(self):
        self.save("bad.npy", self.of["oof"][:50])
        cases = [({"domains": "bad.npy"}, "50"), ({"domains": "none.npy"}, "none.npy"), ({"domains": 3}, "domains")]
        for change, text in cases:
            manifest = json.loads(json.dumps(self.manifest))
            manifest["splits"]["oof"].update(change)
            with open(self.pool, "w", encoding="utf-8") as file:
                json.dump(manifest, file)
            self.assertIn(text, self.fails("fit", self.pool, "-o", self.model).err)
        self.save("long.npy", np.array(["x" * 300] * self.rows))
        self.manifest["splits"]["oof"]["domains"] = "long.npy"
        self.write_manifest()
        self.assertIn("longer than 255 bytes", self.fails("fit", self.pool, "-o", self.model).err)
        files = [self.path(f"{m}.oof.npy") for m in ("ada", "bob")]
        err = self.fails("fit", *files, "--task", "regression", "--labels", self.path("oof_labels.npy"), "--domains",
                         self.path("oof_d.npy"), "-o", self.model).err
        self.assertIn("domains are for classification", err)
        self.manifest["splits"]["oof"]["domains"] = "oof_d.npy"
        self.write_manifest()
        err = self.fails("fit", self.pool, "-o", self.model, "--set", "fit.balance=1", "--set", "meta.learners=log-linear", "--set",
                         "domain.aware=true").err
        self.assertIn("cannot be combined", err)
        self.works("fit", self.pool, "-o", self.model, "--set", "fit.balance=1", *FAST)

    def test_one_table_with_a_domain_column(self):
        with open(self.path("all.csv"), "w", encoding="utf-8") as file:
            file.write("id,y,domain," + ",".join(f"{m}:{c}" for m in ("ada", "bob", "cyd") for c in range(3)) + "\n")
            for i in range(self.rows):
                numbers = [repr(float(v)) for m in ("ada", "bob", "cyd") for v in self.members[m, "oof"][i]]
                file.write(f"s{i},{self.labels['oof'][i]},{self.of['oof'][i]}," + ",".join(numbers) + "\n")
        said = self.works("fit", self.path("all.csv"), "-o", self.model, *FAST)
        self.assertIn("domains from 'domain', 3 members", " ".join((said.out + said.err).split()))
        self.assertEqual(sorted(layer_of(self.read(self.model), 3)), ["clipart", "photo", "sketch"])


if __name__ == "__main__":
    unittest.main()
