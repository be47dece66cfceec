"""Soups, averages and samples from Python: what the library makes of a function that predicts."""
from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

import corestack
from corestack import io


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class Weights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        rng = np.random.default_rng(8)
        self.x = rng.normal(size=(120, 4))
        truth = rng.normal(size=(3, 4))
        self.y = (self.x @ truth.T + rng.gumbel(size=(120, 3))).argmax(axis=1)
        self.weights = [(truth + s * rng.normal(size=truth.shape)).astype(np.float32) for s in (0.5, 0.7, 2.0, 0.6)]
        self.paths = [self.folder / f"m{i}.safetensors" for i in range(4)]
        for path, weight in zip(self.paths, self.weights):
            io.write_safetensors(path, {"weight": weight})
        self.out = self.folder / "out.safetensors"
        self.calls = 0

    def predict(self, candidate):
        self.calls += 1
        return softmax(self.x @ io.read_safetensors(candidate)["weight"].T.astype(float))

    def nll(self, weight):
        return -np.log(softmax(self.x @ weight.T.astype(float))[np.arange(120), self.y]).mean()

    def test_uniform(self):
        report = corestack.soup(self.paths, self.out)
        self.assertEqual((report["kind"], len(report["files"])), ("uniform", 4))
        wanted = np.mean([w.astype(float) for w in self.weights], axis=0).astype(np.float32)
        np.testing.assert_array_equal(io.read_safetensors(self.out)["weight"], wanted)

    def test_greedy(self):
        report = corestack.soup(
            self.paths, self.out, kind="greedy", predict=self.predict, y=self.y, metric="nll"
        )
        order = sorted(range(4), key=lambda i: self.nll(self.weights[i]))
        mean = lambda chosen: np.mean([self.weights[i].astype(float) for i in chosen], axis=0).astype(np.float32)
        chosen = order[:1]
        for i in order[1:]:
            if self.nll(mean([*chosen, i])) <= self.nll(mean(chosen)):
                chosen.append(i)
        self.assertEqual(report["chosen"], [str(self.paths[i]) for i in sorted(chosen)])
        self.assertAlmostEqual(report["score"], self.nll(mean(chosen)), places=6)
        self.assertEqual((self.calls, report["evaluations"]), (7, 7))
        self.assertEqual(sorted(os.listdir(self.folder))[-1], "out.safetensors")
        np.save(self.folder / "y.npy", self.y)
        again = corestack.soup(
            self.paths, self.out, kind="greedy", predict=self.predict, y=self.folder / "y.npy", metric="nll"
        )
        self.assertEqual(again["steps"], report["steps"])

    def test_exceptions_come_out(self):
        class Burnt(Exception):
            pass

        def burn(candidate):
            raise Burnt(candidate)

        with self.assertRaises(Burnt):
            corestack.soup(self.paths, self.out, kind="greedy", predict=burn, y=self.y)
        self.assertFalse(self.out.exists())
        with self.assertRaisesRegex(corestack.Error, "cannot be scored"):
            corestack.soup(self.paths, self.out, kind="greedy", predict=lambda path: np.zeros((3, 3)), y=self.y)
        for wrong in ({"kind": "greedy"}, {"kind": "thick"}, {"kind": "greedy", "predict": burn},
                      {"kind": "greedy", "predict": burn, "y": self.y, "metric": "auc"},
                      {"kind": "greedy", "predict": burn, "y": np.array(["a"])}):
            with self.assertRaises(corestack.ArgumentError):
                corestack.soup(self.paths, self.out, **wrong)
        with self.assertRaises(corestack.ArgumentError):
            corestack.soup([], self.out)

    def test_averages_and_samples(self):
        corestack.swa(self.paths[:2], self.out)
        corestack.swa(self.paths[2:], self.out, start=self.out)
        mean = np.mean([w.astype(float) for w in self.weights], axis=0)
        np.testing.assert_allclose(io.read_safetensors(self.out)["weight"], mean, rtol=1e-5, atol=1e-6)
        model = self.folder / "swag.safetensors"
        corestack.swag_fit(self.paths, model, rank=3)
        found = io.read_safetensors(model)
        np.testing.assert_allclose(found["variance.weight"], np.var(self.weights, axis=0), rtol=1e-5)
        self.assertEqual(found["deviation.weight"].shape, (3, 3, 4))
        files = corestack.swag_sample(model, self.folder / "samples", samples=3, scale=0.0)
        self.assertEqual([os.path.basename(f) for f in files], [f"sample_0{i}.safetensors" for i in range(3)])
        for file in files:
            np.testing.assert_array_equal(io.read_safetensors(file)["weight"], found["mean.weight"])
        drawn = corestack.swag_sample(model, self.folder / "drawn", samples=2, seed=4)
        self.assertFalse(np.array_equal(*[io.read_safetensors(f)["weight"] for f in drawn]))
        private = self.folder / "private"
        private.mkdir(mode=0o700)
        corestack.swag_sample(model, private, samples=1)
        self.assertEqual((private.stat().st_mode & 0o777, len(os.listdir(private))), (0o700, 1))


if __name__ == "__main__":
    unittest.main()
