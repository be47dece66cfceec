"""predict --guard auto where the stack is less sure than it was: what the guard finds and how it mixes, against NumPy."""

import json
import os
import shutil
import struct
import sys
import tempfile
import unittest

import numpy as np

from support import SOURCES, run
from test_missing import crc32c, sections, without_sections

sys.path.insert(0, os.path.join(SOURCES, "tests", "oracles"))
import lean  # noqa: E402

CLASSES, MEMBERS, OOF, ROWS = lean.CLASSES, 4, 600, 240


def members(rng, rows, signal):
    labels = rng.integers(0, CLASSES, rows)
    z = signal * (2 * np.eye(CLASSES)[labels] + rng.normal(size=(rows, CLASSES)))
    found = [np.exp(z + 0.8 * rng.normal(size=z.shape)) for _ in range(MEMBERS)]
    return [(e / e.sum(1, keepdims=True)).astype(np.float32) for e in found], labels


class Lean(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="corestack-cli-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        rng = np.random.default_rng(8)
        cls.p, cls.labels, pool = {}, {}, {"corestack_pool": 1, "task": "classification", "classes": list("abcde"), "splits": {}}
        pool["models"] = [{"name": f"m{k}", "predictions": {}} for k in range(MEMBERS)]
        for split, (rows, signal) in {"oof": (OOF, 2.0), "same": (ROWS, 2.0), "dull": (ROWS, 1.2), "one": (60, 1.2)}.items():
            cls.p[split], cls.labels[split] = members(rng, rows, signal)
            if split == "one":  # one row, again and again
                cls.p[split] = [np.repeat(p[:1], rows, 0) for p in cls.p[split]]
            np.save(os.path.join(cls.folder, f"{split}.npy"), cls.labels[split])
            pool["splits"][split] = {"labels": f"{split}.npy"}
            for k, p in enumerate(cls.p[split]):
                np.save(os.path.join(cls.folder, f"m{k}.{split}.npy"), p)
                pool["models"][k]["predictions"][split] = f"m{k}.{split}.npy"
        cls.pool, cls.model = (os.path.join(cls.folder, name) for name in ("pool.json", "lean.cstack"))
        with open(cls.pool, "w", encoding="utf-8") as file:
            json.dump(pool, file)
        result = run("fit", cls.pool, "-o", cls.model, "-q", "--set", "evaluate.nested=false", "--set", "meta.learners=log-linear")
        assert result.code == 0, result.err

    def predicted(self, split, guard, *words, model=None):
        out = os.path.join(self.folder, "out.npy")
        result = run("predict", model or self.model, self.pool, "--split", split, "-o", out, "--guard", guard, "--json", *words)
        self.assertEqual(result.code, 0, result.err)
        return np.load(out), result.json(), result.err

    def fit(self):
        return lean.Fit(self.predicted("oof", "off")[0], np.mean(self.p["oof"], 0, dtype=np.float32), self.labels["oof"])

    def test_numpy(self):
        fit = self.fit()
        stack, _, _ = self.predicted("dull", "off")
        average = np.mean(self.p["dull"], 0, dtype=np.float32)
        mixed, document, err = self.predicted("dull", "auto")
        found = document["guard"]["batches"][0]
        _, _, _, accuracy, z = lean.look(fit, 0, stack)
        flat, sharp = lean.temperature(fit, 0, stack), lean.temperature(fit, 1, average)
        self.assertTrue(found["fired"])
        self.assertLess(found["z"], -4)
        self.assertEqual(found["unlike"], 0)  # levels do not see it
        self.assertIn("less confident", err)
        np.testing.assert_allclose([found["z"], found["accuracy"], found["lambda"]], [z, max(0, accuracy), 0.2], rtol=1e-3)
        np.testing.assert_allclose([found["flatten"], found["sharpen"]], [flat, sharp], atol=1e-3)
        np.testing.assert_allclose(mixed, lean.mix(stack, average, flat, sharp, np.full(ROWS, 0.2)), atol=2e-4)

    def test_rows_like_the_fit_keep_their_bytes(self):
        stack, _, _ = self.predicted("same", "off")
        for words in ([], ["--batch", "60"]):
            mixed, document, _ = self.predicted("same", "auto", *words)
            self.assertEqual(document["guard"]["fired"], 0)
            self.assertTrue(np.array_equal(stack, mixed))

    def test_warn_says_it_and_changes_nothing(self):
        stack, _, _ = self.predicted("dull", "off")
        same, document, err = self.predicted("dull", "warn")
        self.assertTrue(np.array_equal(stack, same))
        self.assertEqual(document["guard"]["fired"], 1)
        self.assertIn("less confident", err)

    def test_threads_do_not_matter(self):
        pages = [self.predicted("dull", "auto", "--threads", n, "--batch", 50)[0].tobytes() for n in (1, 3)]
        self.assertEqual(pages[0], pages[1])

    def test_one_row_again_and_again(self):
        page, document, _ = self.predicted("one", "auto")
        self.assertTrue(np.isfinite(page).all())
        np.testing.assert_allclose(page.sum(1), 1, atol=1e-5)
        self.assertTrue(np.isfinite(document["guard"]["batches"][0]["z"]))

    def test_without_the_section_levels_alone_decide(self):
        old = without_sections(self.model, os.path.join(self.folder, "old.cstack"), "LEAN")
        stack, _, _ = self.predicted("dull", "off")
        same, document, _ = self.predicted("dull", "auto", model=old)
        self.assertEqual(document["guard"]["fired"], 0)
        self.assertIsNone(document["guard"]["batches"][0]["z"])
        self.assertTrue(np.array_equal(stack, same))

    def test_spoilt_sections(self):
        """Numbers that cannot be are refused with their byte; none harms."""
        head, found = sections(self.model)
        body = dict(found)["LEAN"]
        spoilt = [body[:at] + value + body[at + len(value) :] for at, value in (
            (16, struct.pack("<I", 0)), (20, struct.pack("<d", 1.5)), (28, struct.pack("<d", float("nan"))),
            (36, struct.pack("<d", 9.0)), (44, bytes([1])), (44, bytes([255] * 6)))]
        for cut in spoilt + [body[:8] + struct.pack("<Q", len(body) - 17) + body[16:-1]]:
            parts = [b if t != "LEAN" else cut for t, b in found]
            path = os.path.join(self.folder, "spoilt.cstack")
            data = rebuilt(head, parts)
            with open(path, "wb") as file:
                file.write(data)
            result = run("show", path)
            self.assertEqual(result.code, 2, result.out)
            self.assertIn("byte", result.err)


def rebuilt(head, parts):
    body = b"".join(parts)
    data = head + struct.pack("<IQ", len(parts), 28 + len(body)) + body
    return data + struct.pack("<I", crc32c(data))
