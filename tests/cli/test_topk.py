"""Lists of the likeliest classes through the tool, against dense computations in NumPy: files, the pool, scores, predictions."""

import json
import os
import unittest

import numpy as np
from scipy.optimize import minimize

from support import PoolCase

ROWS, CLASSES, FOLDS = 150, 40, 3
SIZES = (1, 3, 8, 8, 12)  # of the lists; those of the last member have various lengths
NAMES = [f"m{k}" for k in range(len(SIZES))]


def softmax(z):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def member(rng, y, k, classes=CLASSES):
    z = rng.normal(size=(len(y), classes)) + (1 + k) * rng.normal(1, 1, size=(len(y), 1)) * (np.arange(classes) == y[:, None])
    return np.log(softmax(z))


def cut(logs, size, rest, various=None):
    """The arrays of a file."""
    order = np.argsort(-logs, axis=1, kind="stable")[:, :size].astype(np.int32)
    values = np.take_along_axis(logs, order, axis=1).astype(np.float32)
    if various is not None:
        order[np.arange(size)[None] >= various.integers(0, size + 1, len(logs))[:, None]] = -1
    arrays = {"indices": order, "logprobs": values}
    if rest:
        left = 1 - np.where(order >= 0, np.exp(values.astype(float)), 0).sum(axis=1)
        arrays["rest"] = np.log(np.maximum(left, 1e-9)).astype(np.float32)
    return arrays


def widen(arrays, classes=CLASSES):
    """What the documentation says that a list means: logarithms of all classes, not normalised."""
    out = np.empty((len(arrays["indices"]), classes))
    for i, (order, logs) in enumerate(zip(arrays["indices"], arrays["logprobs"].astype(float))):
        logs, order = logs[order >= 0], order[order >= 0]
        mass = np.exp(logs).sum()
        rest = np.exp(arrays["rest"][i].astype(float)) if "rest" in arrays else max(1 - mass, 0)
        tail = min([np.log(max(rest, 1e-7) / max(classes - len(order), 1))] + list(logs)) if len(order) < classes else 0
        out[i] = tail
        out[i, order] = logs
    return out


def pool_loss(w, x, y, prior=10.0, anchor=0.1):
    """NLL of the log-linear pool and its penalties, and the slope."""
    s = np.einsum("k,knc->nc", w, x)
    p = softmax(s)
    at = np.arange(len(y))
    slope = np.einsum("nc,knc->k", p, x) - x[:, at, y].sum(axis=1) + prior * (w - w.mean()) + anchor * (w - 1 / len(w))
    penalty = prior * ((w - w.mean()) ** 2).sum() / 2 + anchor * ((w - 1 / len(w)) ** 2).sum() / 2
    return -np.log(p[at, y]).sum() + penalty, slope


def pool_fit(x, y):
    return minimize(pool_loss, np.full(len(x), 1 / len(x)), args=(x, y), jac=True, method="BFGS", options={"gtol": 1e-9}).x


def scores(p, y):
    at = np.arange(len(y))
    own = p[at, y]
    rank = ((p > own[:, None]) | ((p == own[:, None]) & (np.arange(p.shape[1]) < y[:, None]))).sum(axis=1)
    top, hit = p.max(axis=1), rank == 0
    bins = np.minimum((top * 15).astype(int), 14)
    ece = sum(abs((top - hit)[bins == b].sum()) for b in range(15)) / len(y)
    nll = -np.log(own).mean()
    return {"nll": nll, "perplexity": np.exp(nll), "top1": hit.mean(), "top5": (rank < 5).mean(), "ece": ece,
            "brier": ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()}  # fmt: skip


class Lists(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.path("lists")
        os.mkdir(self.folder)
        rng = np.random.default_rng(48)
        self.x, self.y = {}, {}
        for split in ("oof", "test"):
            y = self.y[split] = rng.integers(0, CLASSES, ROWS)
            self.save(f"{split}_labels.npy", y)
            wide = []
            for k, size in enumerate(SIZES):
                arrays = cut(member(rng, y, k), size, k % 2 == 0, rng if k == len(SIZES) - 1 else None)
                wide.append(widen(arrays))
                np.savez(self.path(f"{split}_m{k}.npz"), **arrays)
            self.x[split] = np.array(wide)
        self.folds = np.arange(ROWS) % FOLDS
        self.save("oof_folds.npy", self.folds)

    def save(self, name, array):
        np.save(self.path(name), array)

    def run_on(self, *arguments, **others):
        command, *rest = arguments
        return self.works(command, *rest, "--classes", CLASSES, **others)

    def predicted(self, *more):
        out = self.path("out.npz")
        self.works("predict", self.model, self.folder, "-o", out, *more)
        return dict(np.load(out))

    def same(self, row, p, y):
        for key, value in scores(p, y).items():
            self.assertLess(abs(row[key] - value), 1e-6, key)

    def test_every_method_against_dense_rows(self):
        x, y = self.x["oof"], self.y["oof"]
        q = softmax(x)
        test, t = softmax(self.x["test"]), self.y["test"]
        at = np.arange(ROWS)
        nll = -np.log(q[:, at, y]).mean(axis=1)
        best = int(nll.argmin())
        w = pool_fit(x, y)
        power = minimize(lambda b: -np.log(softmax(b[0] * np.log(q.mean(axis=0)))[at, y]).sum(), [1.0], method="BFGS").x[0]
        counts, losses = np.zeros(len(q)), []
        picks = []
        for _ in range(25):
            tried = [-np.log((counts @ q[:, at, y] + q[k, at, y]) / (counts.sum() + 1)).mean() for k in range(len(q))]
            picks.append(int(np.argmin(tried)))
            losses.append(min(tried))
            counts[picks[-1]] += 1
        greedy = np.bincount(picks[: int(np.argmin(losses)) + 1], minlength=len(q)) / (np.argmin(losses) + 1)
        expected = {
            "best-single": test[best],
            "average": test.mean(axis=0),
            "average+temperature": softmax(power * np.log(test.mean(axis=0))),
            "greedy": np.einsum("k,knc->nc", greedy, test),
            "log-linear": softmax(np.einsum("k,knc->nc", w, self.x["test"])),
        }
        found = self.run_on("compare", self.folder, "--split", "test", "-m", ",".join(expected), "-r", 0, "--json").json()
        for row in found["rows"]:
            with self.subTest(row["method"]):
                self.same(row, expected[row["method"]], t)
        self.assertLess(np.abs(np.array(found["rows"][-1]["weights"]) - w).max(), 1e-5)
        # and a model of each predicts what was scored
        for method in ("best-single+temperature", "average", "greedy+temperature", "log-linear", "default"):
            with self.subTest(method):
                self.run_on("fit", self.folder, "-o", self.model, "--method", method, "-s", "evaluate.nested=false")
                scored = self.works("evaluate", self.model, self.folder, "--split", "test", "--json").json()
                row, = self.run_on("compare", self.folder, "--split", "test", "-m", method, "-r", 0, "--json").json()["rows"]
                self.assertEqual((scored["nll"], scored["ece"]), (row["nll"], row["ece"]))

    def test_the_fit_and_its_predictions(self):
        fit = self.run_on("fit", self.folder, "-o", self.model, "--json").json()
        self.assertEqual((fit["task"], fit["classes"]), ("topk", CLASSES))
        for k, entry in enumerate(fit["members"]):
            self.assertLess(abs(entry["nll"] + np.log(softmax(self.x["oof"][k])[np.arange(ROWS), self.y["oof"]]).mean()), 1e-6)
        nested = np.empty((ROWS, CLASSES))
        for f in range(FOLDS):
            inside = self.folds != f
            w = pool_fit(self.x["oof"][:, inside], self.y["oof"][inside])
            nested[~inside] = softmax(np.einsum("k,knc->nc", w, self.x["oof"][:, ~inside]))
        found, = self.run_on("compare", self.folder, "-m", "log-linear", "-r", 0, "--json").json()["rows"]
        self.same(found, nested, self.y["oof"])
        self.run_on("fit", self.folder, "-o", self.model, "--method", "log-linear", "-s", "evaluate.nested=false")
        w = pool_fit(self.x["oof"], self.y["oof"])
        dense = np.log(softmax(np.einsum("k,knc->nc", w, self.x["test"])))
        out = self.predicted()
        self.assertEqual(out["indices"].shape, (ROWS, max(SIZES)))
        self.assertEqual([out[key].dtype for key in ("indices", "logprobs", "rest")], [np.int32, np.float32, np.float32])
        for i in range(ROWS):
            order = out["indices"][i][out["indices"][i] >= 0]
            self.assertTrue(np.allclose(out["logprobs"][i][: len(order)], dense[i, order], atol=5e-6))
            self.assertTrue(np.all(np.diff(out["logprobs"][i][: len(order)]) <= 0))
            self.assertAlmostEqual(np.exp(out["rest"][i]), 1 - np.exp(dense[i, order]).sum(), places=5)
            self.assertEqual(order[0], dense[i].argmax())
        self.assertEqual(self.predicted("--top", 2)["indices"].tolist(), out["indices"][:, :2].tolist())
        # what is predicted is a member's file itself
        alone = self.works("evaluate", self.path("out.npz"), "--labels", self.path("test_labels.npy"), "--classes", CLASSES, "--json")
        self.assertLess(abs(alone.json()["top1"] - scores(np.exp(dense), self.y["test"])["top1"]), 1e-9)

    def test_a_linear_mix_and_its_temperature_are_fitted_together(self):
        def mixed(at, split):
            logs = at[-1] * np.log(np.einsum("k,knc->nc", softmax(at[:-1]), softmax(self.x[split][kept])))
            return np.log(softmax(logs))[np.arange(ROWS), self.y[split]]

        fit = self.run_on("fit", self.folder, "-o", self.model, "-s", "evaluate.nested=false", "--json").json()
        kept = [NAMES.index(name) for name in fit["kept"]]
        power = 1 / float(self.works("show", self.model, "--json").json()["calibration"]["detail"].split("=")[1])
        ours = np.append(np.log(list(fit["weights"].values())), power)
        best = minimize(lambda at: -mixed(at, "oof").sum(), np.append(np.zeros(len(kept)), 1.0), method="BFGS")
        self.assertEqual(fit["learners"][0]["name"], "linear")
        self.assertLess(-mixed(ours, "oof").sum(), best.fun + 2e-3)
        nll = self.works("evaluate", self.model, self.folder, "--split", "test", "--json").json()["nll"]
        self.assertLess(abs(nll + mixed(ours, "test").mean()), 1e-4)

    def test_lists_of_all_or_some_classes_are_dense_pools(self):
        rng = np.random.default_rng(5)
        y = rng.integers(0, 6, ROWS)
        for size in (6, 2):
            folders = [self.path(f"{kind}{size}") for kind in ("lists", "dense")]
            for folder in folders:
                os.mkdir(folder)
                np.save(f"{folder}/labels.npy", y)
                np.save(f"{folder}/folds.npy", self.folds)
            for k in range(3):
                arrays = cut(member(rng, y, k, 6), size, False)
                np.savez(f"{folders[0]}/m{k}.npz", **arrays)
                np.save(f"{folders[1]}/m{k}.npy", softmax(widen(arrays, 6)))
            options = [("--classes", 6), ()]
            rows = [self.works("compare", f, "-m", "average,best-single", "-r", 0, "--json", *o).json()["rows"] for f, o in zip(folders, options)]
            for a, b in zip(*rows):
                for key in ("nll", "top1", "ece"):
                    self.assertLess(abs(a[key] - b[key]), 1e-6, (size, a["method"], key))
            found = [self.works("inspect", f, "--json", *o).json() for f, o in zip(folders, options)]
            for key in ("cka", "pearson"):
                self.assertLess(np.abs(np.array(found[0][key]) - np.array(found[1][key])).max(), 1e-6, (size, key))

    def test_files(self):
        self.run_on("fit", self.folder, "-o", self.model, "-s", "evaluate.nested=false")
        first = self.predicted()
        parts = self.path("parts")
        os.mkdir(parts)
        for k in range(len(SIZES)):
            arrays = np.load(self.path(f"test_m{k}.npz"))
            for key in arrays:
                kind = {"indices": np.int64, "logprobs": np.float64, "rest": np.float32}[key]
                np.save(f"{parts}/m{k}.{key}.npy", arrays[key].astype(kind))
        out = self.path("again.npz")
        self.works("predict", self.model, *(f"{parts}/m{k}.indices.npy" for k in range(len(SIZES))), "-o", out)
        for key, value in first.items():
            self.assertTrue(np.array_equal(np.load(out)[key], value), key)

    def test_rows_that_stay_on_disk(self):
        rng = np.random.default_rng(6)
        rows, size, classes = 55_000, 40, 1000
        y = rng.integers(0, classes, rows)
        np.save(self.path("y.npy"), y)
        names = []
        for k in range(2):
            order = (y[:, None] + rng.integers(0, 20, (rows, 1)) + 7 * np.arange(size)) % classes
            arrays = {"indices": order.astype(np.int32), "logprobs": np.log(softmax(rng.normal(size=(rows, size))) * 0.9).astype(np.float16)}
            names.append(self.path(f"b{k}.npz"))
            (np.savez_compressed if k == 1 else np.savez)(names[-1], **arrays)
        said = []
        for memory in ((), ("--memory", "64MiB")):
            self.works("fit", *names, "--labels", self.path("y.npy"), "--classes", classes, "-o", self.model, "-s", "evaluate.nested=false", *memory)
            out = self.path("out.npz")
            self.works("predict", self.model, *names, "-o", out, "--top", 2 * size, *memory)  # written in two pieces
            said.append((open(self.model, "rb").read(), {key: value for key, value in np.load(out).items()}))
        self.assertEqual(said[0][0], said[1][0])
        for key, value in said[0][1].items():
            self.assertTrue(np.array_equal(value, said[1][1][key]), key)
        self.works("predict", self.model, *names, "-o", self.path("likeliest.npy"), "--decide")
        self.assertTrue(np.array_equal(np.load(self.path("likeliest.npy")), said[0][1]["indices"][:, 0]))

    def test_what_is_refused(self):
        arrays = dict(np.load(self.path("oof_m1.npz")))

        def broken(says, **changed):
            with self.subTest(says):
                np.savez(self.path("oof_m1.npz"), **{**arrays, **changed})
                self.fails("fit", self.folder, "-o", self.model, "--classes", CLASSES, says=["oof_m1.npz", *says])

        def at(key, value, column=1):
            changed = arrays[key].copy()
            changed[7, column] = value
            return {key: changed}

        broken(["row 7, column 1", "class 40 is not one of 0 to 39"], **at("indices", 40))
        broken(["row 7", "listed twice"], **at("indices", arrays["indices"][7, 0]))
        broken(["row 7, column 1", "above 0"], **at("logprobs", 0.5))
        broken(["row 7, column 1", "NaN"], **at("logprobs", np.nan))
        broken(["row 0", "sum to 2.97", "more than 1"], logprobs=arrays["logprobs"] * 0 - 0.01)
        broken(["shape (149, 3)", "(150, 3)"], logprobs=arrays["logprobs"][1:])
        np.savez(self.path("oof_m1.npz"), **arrays)
        lists, dense = self.path("oof_m1.npz"), self.save("dense.npy", softmax(self.x["oof"][0])) or self.path("dense.npy")
        for files, more, says in (([dense, lists], (), ["lists the likeliest classes"]), ([lists, dense], (), ["all members list", "or none"]),
                                  ([self.path("oof_m0.npz"), lists], ("--task", "multilabel"), ["task classification"])):  # fmt: skip
            self.fails("fit", *files, "--labels", self.path("oof_labels.npy"), "-o", self.model, "--classes", CLASSES, *more, says=says)
        np.savetxt(self.path("x.csv"), np.column_stack([arrays["indices"], arrays["logprobs"]]), delimiter=",")
        self.fails("fit", self.path("x.csv"), "--labels", self.path("oof_labels.npy"), "-o", self.model, "--classes", CLASSES, says=["npz", "indices"])
        self.fails("fit", self.folder, "-o", self.model, says=["number of all classes", "--classes"])
        self.fails("fit", self.folder, "-o", self.model, "--classes", CLASSES, "--missing", "allow", says=["missing predictions", "remove"])
        self.run_on("fit", self.folder, "-o", self.model, "-s", "evaluate.nested=false")
        for command, says in ((("export", self.model, "--format", "onnx", "-o", self.path("x.onnx")), "topk"), (("monitor", self.model, self.folder), "topk")):
            self.fails(*command, says=[says])

    def test_what_is_found(self):
        arrays = dict(np.load(self.path("oof_m2.npz")))
        other = np.random.default_rng(1).permutation(ROWS)
        np.savez(self.path("oof_m1.npz"), **{key: value[other] for key, value in arrays.items()})
        np.savez(self.path("oof_m2.npz"), **{**arrays, "indices": np.full_like(arrays["indices"], -1)})
        for command in (("fit", self.folder, "-o", self.model, "-s", "evaluate.nested=false"), ("inspect", self.folder)):
            found = self.run_on(*command, "--json").json()["findings"]
            self.assertEqual([(f["kind"], f["members"]) for f in found], [("constant", ["m2"]), ("chance", ["m1"])])
        np.save(self.path("oof_labels.npy"), self.y["oof"][other[other]])
        found = self.run_on("inspect", self.folder, "--json").json()["findings"]
        self.assertIn("no member is better than chance", found[1]["text"])
        for name in NAMES:
            np.savez(self.path(f"oof_{name}.npz"), **{**arrays, "indices": np.full_like(arrays["indices"], -1)})
        self.fails("fit", self.folder, "-o", self.model, "--classes", CLASSES, says=["'m0'", "no class in any row", "nothing to fit"])

    def test_bits_per_byte(self):
        manifest = {"corestack_pool": 1, "task": "classification", "classes": CLASSES,
                    "splits": {"oof": {"labels": "oof_labels.npy"}, "test": {"labels": "test_labels.npy", "bytes": 700}},
                    "models": [{"name": name, "predictions": {s: f"{s}_{name}.npz" for s in self.y}} for name in NAMES]}  # fmt: skip
        with open(self.path("pool.json"), "w") as file:
            json.dump(manifest, file)
        rows = {split: self.works("compare", self.folder, "-m", "average", "--split", split, "-r", 20, "--json").json()["rows"][0] for split in self.y}
        self.assertIsNone(rows["oof"]["bits_per_byte"])
        row, scale = rows["test"], ROWS / np.log(2) / 700
        for bits, nats in zip([row["bits_per_byte"], *row["bits_per_byte_ci"]], [row["nll"], *row["nll_ci"]]):
            self.assertAlmostEqual(bits, nats * scale, places=9)

    def test_groups_are_drawn_together(self):
        y = self.y["oof"]
        self.save("oof_groups.npy", np.arange(ROWS) // 10)
        row, = self.run_on("compare", self.folder, "-m", "average", "-r", 400, "--json").json()["rows"]
        loss = -np.log(softmax(self.x["oof"]).mean(axis=0)[np.arange(ROWS), y]).reshape(-1, 10).mean(axis=1)
        rng = np.random.default_rng(0)
        drawn = loss[rng.integers(0, len(loss), (4000, len(loss)))].mean(axis=1)
        low, high = np.percentile(drawn, [2.5, 97.5])
        self.assertLess(abs((row["nll_ci"][1] - row["nll_ci"][0]) / (high - low) - 1), 0.2)


if __name__ == "__main__":
    unittest.main()
