"""`export --format onnx`: graphs that onnx's checker takes and that compute, operator by operator in NumPy, what `predict` does."""

import json
import os

import numpy as np

from support import SOURCES, PoolCase, run, sample, slow, small, softmax

try:
    import onnx

    import onnx_numpy
except ImportError:
    onnx = None


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class Graphs(PoolCase):
    rows, test_rows = 150, 80

    def setUp(self):
        super().setUp()
        self.graph, self.out = self.path("m.onnx"), self.path("out.npy")

    missing = None  # what keeps these tests from running; "": nothing

    def need(self):
        if Graphs.missing is None and onnx is None:
            Graphs.missing = "python3-onnx is not installed"
        elif Graphs.missing is None:
            self.fit("--method", "average")
            said = run("export", self.model, "--format", "onnx", "-o", self.graph).err
            Graphs.missing = "the tool is built without ONNX (protobuf-c)" if "has no format onnx" in said else ""
        if Graphs.missing:
            self.skipTest(Graphs.missing)

    def exported(self, *more, model=None):
        self.works("export", model or self.model, "--format", "onnx", "-o", self.graph, *more)
        found = onnx.load(self.graph)
        onnx.checker.check_model(found, full_check=True)
        return found

    def equal(self, graph, feeds, expected, what=None):
        """The graph's first output for float32 feeds {member: rows}; others come in by the input's name."""
        given = {i.name: feeds[i.doc_string if i.doc_string in feeds else i.name] for i in graph.graph.input}
        found = onnx_numpy.run(graph, given)
        first = found[graph.graph.output[0].name]
        self.assertEqual(first.dtype, np.float32)
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(first, expected.reshape(first.shape), atol=5e-7 * scale, rtol=0, err_msg=str(what))
        return found

    def predicted(self, *more):
        self.works("predict", self.model, self.pool, "--split", "test", "-o", self.out, *more)
        return np.load(self.out)

    def check(self, *options):
        """Fits the pool, exports and compares."""
        self.fit(*options)
        feeds = {name: rows for (name, split), rows in self.members.items() if split == "test"}
        return self.equal(self.exported(), feeds, self.predicted(), options)

    def use_values(self, targets, spread=0.3, outputs=1):
        """Makes the pool a regression."""
        rng = np.random.default_rng(3)
        self.manifest["task"], self.manifest["outputs"] = "regression", [f"y{d}" for d in range(outputs)]
        del self.manifest["output"], self.manifest["classes"]
        for split in ("oof", "test"):
            y = targets(rng, (len(self.labels[split]), outputs))
            self.save(f"{split}_labels.npy", y)
            for name in ("ada", "bob", "cyd"):
                rows = (y * np.exp(spread * rng.normal(size=y.shape))).astype(np.float32)
                self.members[name, split] = rows
                self.save(f"{name}.{split}.npy", rows)
        self.write_manifest()


class Classification(Graphs):
    def test_default_and_names(self):
        self.need()
        for entry, name in zip(self.manifest["models"], ("3rd net", "a.b", "a b")):
            self.members[name, "test"] = self.members[entry["name"], "test"]
            entry["name"] = name
        self.manifest["classes"] = ["red", "green", "blue"]
        self.write_manifest()
        self.check("--method", "log-linear")
        graph = onnx.load(self.graph)
        self.assertEqual([i.name for i in graph.graph.input], ["_rd_net", "a_b", "a_b_2"])
        self.assertEqual({p.key: p.value for p in graph.metadata_props}, {"corestack.task": "classification", "corestack.classes": "red\ngreen\nblue"})
        self.assertEqual([o.name for o in graph.graph.output], ["probabilities"])
        first = self.read(self.graph)
        text = self.works("export", self.model, "-f", "onnx", "-o", self.graph, "--json").json()
        self.assertEqual((text["format"], text["members"], text["classes"]), ("onnx", 3, 3))
        self.assertEqual(self.read(self.graph), first)

    def test_rows_are_repaired_as_they_are_read(self):
        self.need()
        for k, name in enumerate(("ada", "bob", "cyd")):
            rows = self.members[name, "test"]
            rows[k::7] *= np.float32(1.0005)
            rows[3, :] = (1 + 5e-7, -5e-7, 0)
            self.save(f"{name}.test.npy", rows)
        self.check("--method", "average")

    def test_logits(self):
        self.need()
        self.manifest["output"] = "logit"
        for (name, split), rows in self.members.items():
            self.members[name, split] = np.log(rows) + 3
            self.save(f"{name}.{split}.npy", self.members[name, split])
        self.write_manifest()
        self.fit()
        feeds = {name: rows for (name, split), rows in self.members.items() if split == "test"}
        self.equal(self.exported("--values", "logit"), feeds, self.predicted())

    @slow
    def test_every_preset_method_and_map(self):
        self.need()
        methods = [m["name"] for m in self.works("compare", "--list-methods", "--json").json()["methods"]]
        for method in methods:
            if method not in ("deep-ensemble", "snapshot", "mc-dropout", "soup", "swag"):
                self.check("--method", method)
        for calibration in ("temperature", "vector", "isotonic", "platt"):
            self.check("--method", f"average+{calibration}")
        self.check("-p", "paper", "-s", "probability.map=simplex")
        self.check("-p", "prototype", "-s", "probability.map=simplex")

    def test_paper_and_prototype(self):
        self.need()
        self.check("-p", "paper")
        self.check("-p", "prototype")

    def test_decisions(self):
        self.need()
        costs = self.path("costs.csv")
        with open(costs, "w", encoding="utf-8") as file:
            file.write("0,1,5\n2,0,1\n9,1,0\n")
        for split, rows in (("oof", 150), ("test", 80)):  # a rare class and a frequent one, so that offsets help
            y = np.random.default_rng(rows).choice(3, rows, p=(0.7, 0.2, 0.1)).astype(np.int32)
            self.save(f"{split}_labels.npy", y)
            for k, name in enumerate(("ada", "bob", "cyd")):
                self.members[name, split] = sample(rows, 3, rows + k, 1.0, y)[1]
                self.save(f"{name}.{split}.npy", self.members[name, split])
        for options in (("--metric", "balanced-accuracy"), ("--cost-matrix", costs)):
            found = self.check(*options)
            np.testing.assert_array_equal(found["decisions"], self.predicted("--decide"))

    def test_domains(self):
        self.need()
        rng = np.random.default_rng(4)
        domains = {split: rng.integers(0, 2, len(y)) for split, y in self.labels.items()}
        for split in domains:
            with open(self.path(f"{split}.csv"), "w", encoding="utf-8") as file:
                file.write("domain\n" + "".join(f"{'zw'[d]}\n" for d in domains[split]))
            self.manifest["splits"][split]["domains"] = f"{split}.csv"
        self.write_manifest()
        self.fit("-s", "domain.aware=true")
        graph = self.exported()
        self.assertEqual({p.key: p.value for p in graph.metadata_props}["corestack.domains"], "w\nz")
        feeds = {name: rows for (name, split), rows in self.members.items() if split == "test"}
        feeds["domain"] = 1 - domains["test"]
        self.equal(graph, feeds, self.predicted())
        del self.manifest["splits"]["test"]["domains"]
        self.write_manifest()
        feeds["domain"] = np.full(self.test_rows, -1)
        self.equal(graph, feeds, self.predicted())

    def test_adapted(self):
        self.need()
        self.fit("-s", "keep.max=2", "-s", "select.rule=non-inferior")
        rng = np.random.default_rng(7)
        y = rng.integers(0, 3, 60).astype(np.int32)
        self.manifest["splits"]["new"] = {"labels": self.save("new_labels.npy", y)}
        for k, model in enumerate(self.manifest["models"]):
            rows = softmax(3 * (k == 2) * np.eye(3)[y] + rng.normal(size=(60, 3))).astype(np.float32)
            model["predictions"]["new"] = self.save(f"{model['name']}.new.npy", rows)
        for entry in self.manifest["splits"].values():
            entry["labels"] = os.path.basename(entry["labels"])
        for model in self.manifest["models"]:
            model["predictions"]["new"] = os.path.basename(model["predictions"]["new"])
        self.write_manifest()
        made = self.path("adapted.cstack")
        self.assertTrue(self.works("adapt", self.model, self.pool, "-o", made, "--json").json()["adapted"])
        self.model = made
        feeds = {name: rows for (name, split), rows in self.members.items() if split == "test"}
        self.equal(self.exported(), feeds, self.predicted())


class Values(Graphs):
    def test_regression(self):
        self.need()
        self.use_values(lambda rng, shape: rng.gamma(2, size=shape) + 0.01, outputs=2)
        for options in (("--target-transform", "log1p"), ("--target-transform", "sqrt"), ("--target-transform", "log"), ("-p", "paper"), ("-p", "prototype"), ()):
            self.check(*options)
        self.assertEqual(onnx.load(self.graph).graph.output[0].name, "values")
        self.fails("export", self.model, "-f", "onnx", "-o", self.path("x"), "--values", "logit", says=["for regression"])

    def test_ranges_and_log_odds(self):
        self.need()
        self.use_values(lambda rng, shape: rng.beta(2, 3, size=shape), spread=0.05)
        for (name, split), rows in self.members.items():
            np.clip(rows, 0.001, 0.999, out=rows)
            self.save(f"{name}.{split}.npy", rows)
        self.check("--target-transform", "logit")
        self.members["ada", "test"][:4, 0] = (0, 1, 1.5, -0.2)  # outside the domain
        self.save("ada.test.npy", self.members["ada", "test"])
        self.equal(self.exported(), {name: rows for (name, split), rows in self.members.items() if split == "test"}, self.predicted())
        self.assertLessEqual(self.check()["values"].max(), 1)

    def test_multilabel(self):
        self.need()
        self.manifest["task"], self.manifest["outputs"] = "multilabel", ["a", "b"]
        del self.manifest["classes"]
        rng = np.random.default_rng(5)
        for split in ("oof", "test"):
            y = rng.integers(0, 2, (len(self.labels[split]), 2)).astype(np.int32)
            self.save(f"{split}_labels.npy", y)
            for name in ("ada", "bob", "cyd"):
                rows = sigmoid(2 * y - 1 + rng.normal(size=y.shape)).astype(np.float32)
                self.members[name, split] = rows
                self.save(f"{name}.{split}.npy", rows)
        self.write_manifest()
        for method in ("default", "average", "log-odds-average", "greedy", "logistic"):
            self.check("--method", method)


class Refusals(Graphs):
    def test_usage(self):
        self.fails("export", self.model, "-o", self.graph, says=["--format is required: onnx"])
        self.fails("export", self.model, "-f", "onyx", "-o", self.graph, says=["there is no format 'onyx'; did you mean 'onnx'?"])
        self.fails("export", "-f", "onnx", "-o", self.graph, says=["no model given"])
        self.fails("export", self.model, self.pool, "-f", "onnx", "-o", self.graph, says=["unexpected argument"])

    def test_detection(self):
        pool = small("detection", 2, 6)
        self.works("fit", pool, "-o", self.model, "-s", "evaluate.nested=false", "--method", "nms")
        self.fails("export", self.model, "-f", "onnx", "-o", self.graph, says=["detection", "no format carries"])

    def test_what_stays_is_said(self):
        self.need()
        self.fit()
        notices = self.works("export", self.model, "-f", "onnx", "-o", self.graph, "--json").json()["notices"]
        self.assertTrue(any("absent" in text for text in notices), notices)
        self.assertTrue(any("guard" in text for text in notices), notices)


class Examples(Graphs):
    @slow
    def test_segmentation(self):
        self.need()
        pool = os.path.join(SOURCES, "examples", "segmentation", "pool.json")
        for preset in ("default", "paper"):  # the gate of the second has large coefficients behind it
            self.check_maps(pool, preset)

    def check_maps(self, pool, preset):
        self.works("fit", pool, "-p", preset, "-o", self.model, "-s", "evaluate.nested=false", "-s", "segment.pixels=1000")
        self.works("predict", self.model, pool, "--split", "test", "--format", "maps", "-o", self.out)
        with open(pool, encoding="utf-8") as file:
            models = {m["name"]: m["predictions"]["test"] for m in json.load(file)["models"]}
        graph = self.exported()
        feeds = {}
        for given in graph.graph.input:
            with np.load(os.path.join(os.path.dirname(pool), models[given.doc_string])) as file:
                feeds[given.doc_string] = np.moveaxis(file[file.files[0]].astype(np.float32), 1, -1).reshape(-1, 11)[:2000]
        expected = np.load(self.out)
        expected = np.moveaxis(expected, 1, -1) if expected.shape[-1] != 11 else expected
        self.equal(graph, feeds, expected.reshape(-1, 11)[:2000])
