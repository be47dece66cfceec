"""Averages of checkpoints, and samples around them, from the command line: files, reports, what is refused."""

import os

import numpy as np

from support import PoolCase, run
from test_soup import tensors


def load(path):
    """Tensors of a file by name, and its metadata; of F32 and I64."""
    import json

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    kinds = {"F32": "<f4", "I64": "<i8"}
    return {
        name: np.frombuffer(data[slice(*e["data_offsets"])], kinds[e["dtype"]]).reshape(e["shape"])
        for name, e in header.items()
    }, metadata


class Averages(PoolCase):
    count = 6

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        self.files = []
        self.weights = []
        for i in range(self.count):
            weight = rng.normal(size=(3, 5)).astype(np.float32)
            self.weights.append(weight.astype(float))
            self.files.append(self.path(f"epoch{i}.safetensors"))
            with open(self.files[-1], "wb") as file:
                file.write(tensors.save([("step", "I64", (), np.int64(i).tobytes()),
                                         ("weight", "F32", weight.shape, weight.tobytes())]))
        self.out = self.path("out.safetensors")

    def test_average_and_continued_average(self):
        report = self.works("swa", *self.files, "-o", self.out, "--json").json()
        self.assertEqual(report, {"command": "swa", "kind": "average", "files": self.files, "checkpoints": 6,
                                  "out": self.out, "from": None, "notices": report["notices"]})
        self.assertEqual(len(report["notices"]), 1)  # of `step`, which is not the same everywhere
        self.assertIn("'step'", report["notices"][0])
        found, metadata = load(self.out)
        np.testing.assert_array_equal(found["weight"], np.mean(self.weights, 0).astype(np.float32))
        self.assertEqual(metadata["corestack.swa.count"], "6")
        part = self.path("part.safetensors")
        self.works("swa", *self.files[:2], "-o", part)
        result = self.works("swa", *self.files[2:], "--from", part, "-o", part)
        self.assertIn(f"mean of 6 checkpoints, 4 of them after those of {part} ", " ".join(result.out.split()) + " ")
        self.assertIn("'step'", result.out)
        self.assertEqual(result.err, "")
        again, metadata = load(part)
        np.testing.assert_allclose(again["weight"], found["weight"], rtol=1e-6, atol=1e-7)
        self.assertEqual(metadata["corestack.swa.count"], "6")

    def test_fit_and_sample(self):
        report = self.works("swag", "fit", *self.files, "-o", self.out, "--rank", "4", "--json").json()
        self.assertEqual(report, {"command": "swag", "kind": "fit", "files": self.files, "checkpoints": 6,
                                  "out": self.out, "rank": 4, "notices": report["notices"]})
        self.assertEqual(len(report["notices"]), 1)
        found, metadata = load(self.out)
        self.assertEqual((metadata["corestack.swag.count"], metadata["corestack.swag.rank"]), ("6", "4"))
        np.testing.assert_allclose(found["mean.weight"], np.mean(self.weights, 0), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(found["variance.weight"], np.var(self.weights, 0), rtol=1e-6)
        running = [np.mean(self.weights[:i + 1], 0) for i in range(self.count)]
        np.testing.assert_allclose(found["deviation.weight"],
                                   [self.weights[i] - running[i] for i in range(2, self.count)], rtol=1e-5, atol=1e-6)
        folder = self.path("samples")
        sample = ("swag", "sample", self.out, "-o", folder)
        report = self.works(*sample, "-n", "3", "--scale", "0.5", "--seed", "9", "--json").json()
        self.assertEqual(report, {"command": "swag", "kind": "sample", "model": self.out, "samples": 3, "rank": 4,
                                  "scale": 0.5, "seed": 9, "out": folder, "notices": []})
        one = self.works("swag", "sample", self.out, "-o", self.path("one"), "-n", "1", "--rank", "2")
        self.assertIn("1 sample around", one.out)
        self.assertIn(", rank 2,", " ".join(one.out.split()))
        names = [f"sample_0{i}.safetensors" for i in range(3)]
        self.assertEqual(sorted(os.listdir(folder)), names)
        first = [self.read(os.path.join(folder, name)) for name in names]
        self.assertEqual(len(set(first)), 3)
        more = self.path("more")
        self.works("swag", "sample", self.out, "-o", more, "-n", "5", "--seed", "9", "--threads", "3")
        self.assertEqual([self.read(os.path.join(more, name)) for name in names], first)
        mean = self.path("mean")
        self.works("swag", "sample", self.out, "-o", mean, "-n", "1", "--scale", "0")
        np.testing.assert_array_equal(load(os.path.join(mean, names[0]))[0]["weight"], found["mean.weight"])

    def test_scale_of_the_diagonal(self):
        """The paper's diagonal alone, normal with the variance itself, is that of scale 1, as the help says."""
        self.works("swag", "fit", *self.files, "-o", self.out)
        drawn = self.path("drawn")
        self.works("swag", "sample", self.out, "-o", drawn, "-n", "200", "--rank", "0", "--scale", "1")
        model = load(self.out)[0]
        values = np.array([load(os.path.join(drawn, name))[0]["weight"] for name in os.listdir(drawn)])
        ratio = (values.astype(float) - model["mean.weight"]).var(0) / model["variance.weight"]
        self.assertAlmostEqual(ratio.mean(), 1, delta=0.15)  # of 3,000 draws: some 0.026
        self.assertIn("1 with --rank 0", " ".join(self.works("swag", "sample", "--help").out.split()))

    def test_notices_of_the_rank(self):
        """Of few checkpoints there are few deviations: worth a word where more were asked for."""
        fit = ("swag", "fit", *self.files, "-o", self.out, "--json")
        usual = self.works(*fit).json()
        asked = self.works(*fit, "--rank", "20").json()
        self.assertEqual((usual["rank"], asked["rank"]), (6, 6))
        self.assertFalse([n for n in usual["notices"] if "rank" in n])
        self.assertTrue([n for n in asked["notices"] if "rank of 20" in n])
        self.assertIn("soup of 1 file\n", self.works("soup", "uniform", self.files[0], "-o", self.out).out)

    def test_bad_arguments(self):
        fit = ("swag", "fit", *self.files, "-o", self.out)
        self.fails("swa", "-o", self.out, says=["checkpoints"])
        self.fails("swa", *self.files, says=["-o"])
        self.fails("swa", *self.files, "-o", self.files[2], says=["an input of the command"])
        self.fails("swa", "-q", *self.files, "-o", self.out, "--from", self.files[0], says=["epoch0.safetensors"])
        self.fails("swag", says=["fit or sample"])
        self.fails("swag", "samples", says=["'sample'"])
        self.fails("swag", "fit", self.files[0], "-o", self.out, says=["two or more"])
        self.fails(*fit, "--rank", "x", says=["--rank"])
        self.fails(*fit, "--rank", "1", says=["rank"])
        self.works(*fit)
        sample = ("swag", "sample", self.out, "-o", self.path("dir"))
        self.fails("swag", "sample", "-o", self.path("dir"), says=["swag fit"])
        self.fails(*sample, "-n", "0", says=["--count"])
        self.fails(*sample, "--scale", "-1", says=["--scale", "'-1'"])
        self.fails(*sample, "--scale", "half", says=["--scale", "'half'"])
        self.fails(*sample, "--rank", "1", says=["rank"])
        self.fails("swag", "sample", self.out, "-o", self.folder, says=["not empty"])
        self.fails("swag", "sample", self.out, "-o", self.files[0], says=["name a new folder\n"])
        self.fails("swag", "sample", "-q", self.files[0], "-o", self.path("dir"), says=["epoch0.safetensors"])
        result = run("swag", "sample", self.out, "-n", "1", "-o", "/dev/full")
        self.assertEqual(result.code, 2)
