"""Bytes of a model file of many classes, and section ABSP, unpacked in NumPy and written again in the form of ABSE."""
import json
import os
import shutil
import struct
import tempfile
import unittest

import numpy as np

from support import PoolCase, run
from test_missing import Refit, crc32c, sections


def column(body, at, count):
    """One column of 20-bit numbers, and where it ends."""
    step = struct.unpack_from("<d", body, at)[0]
    size = (20 * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(body, "u1", size, at + 8), bitorder="little")[: 20 * count].reshape(count, 20)
    values = bits.astype(np.int64) @ (1 << np.arange(20))
    return (values - ((values >> 19) << 20)) * step, at + 8 + size


def plain(body, members):
    """Section ABSE with the numbers of section ABSP, and its refits."""
    out, at, refits = body[16:20], 20, []
    for _ in range(struct.unpack_from("<I", body, 16)[0]):
        biases = struct.unpack_from("<I", body, at + 8)[0]
        end = at + 56 + 8 * (members * (members + 1) // 2 + 4 * members)
        out, at = out + body[at:end], end
        if biases > 64:
            rest, at = column(body, at, biases)
            tilt = np.empty((biases, members))
            for k in range(members):
                tilt[:, k], at = column(body, at, biases)
            out += rest.tobytes() + tilt.tobytes()
        else:
            end = at + 8 * biases * (members + 1)
            out, at = out + body[at:end], end
    assert at == len(body)
    section = b"ABSE" + struct.pack("<IQ", 0, len(out)) + out
    at = 20
    for _ in range(struct.unpack_from("<I", section, 16)[0]):
        refits.append(Refit(section, at, members))
        at = refits[-1].end
    return section, refits


def write(path, head, bodies):
    data = head + struct.pack("<IQ", len(bodies), 28 + sum(map(len, bodies))) + b"".join(bodies)
    with open(path, "wb") as file:
        file.write(data + struct.pack("<I", crc32c(data)))
    return path


class Packed(PoolCase):
    rows, test_rows, classes = 400, 60, 67  # odd: the last byte of a column is half full

    def setUp(self):
        super().setUp()
        self.fit("--set", "select.direction=none", "--set", "meta.learners=log-linear")
        self.head, found = sections(self.model)
        self.bodies = dict(found)

    def predict(self, model):
        out = self.path("out.npy")
        self.works("predict", model, self.pool, "-o", out, "--missing", "allow", "--guard", "off")
        with open(out, "rb") as file:
            return file.read()

    def test_both_forms_predict_the_same_bytes(self):
        self.assertNotIn("ABSE", self.bodies)
        section, _ = plain(self.bodies["ABSP"], 3)
        old = write(self.path("old.cstack"), self.head,
                    [section if tag == "ABSP" else body for tag, body in self.bodies.items()])
        none = write(self.path("none.cstack"), self.head, [b for tag, b in self.bodies.items() if tag != "ABSP"])
        self.assertEqual(self.predict(self.model), self.predict(none))
        del self.manifest["models"][1]["predictions"]["test"]
        self.write_manifest()
        self.assertEqual(self.predict(self.model), self.predict(old))
        self.assertNotEqual(self.predict(self.model), self.predict(none))

    def test_biases_are_those_of_the_stack(self):
        """With every member there, e - T w is what the fit found without rounding."""
        _, (refit,) = plain(self.bodies["ABSP"], 3)
        learner = self.bodies["LEAR"][24:]
        _, n, m = struct.unpack_from("<3I", learner)
        w, bias = np.split(np.frombuffer(learner, "<f8", n + m, 20), [n])
        self.assertEqual((n, m), (3, self.classes))
        most = np.abs(refit.rest).max() + np.abs(refit.tilt).max(0) @ np.abs(w)
        self.assertLess(np.abs(refit.rest - refit.tilt @ w - bias).max(), 1e-5 * most)

    def test_damaged(self):
        packed = self.bodies["ABSP"]
        section, _ = plain(packed, 3)
        cases = {
            "one model": [b for t, body in self.bodies.items() for b in ((section, body) if t == "ABSP" else (body,))],
            "are left": [body[:8] + struct.pack("<Q", len(body) - 32) + body[16:-16] if t == "ABSP" else body
                         for t, body in self.bodies.items()],
            "not 0": [body[:-1] + bytes([body[-1] | 0x80]) if t == "ABSP" else body for t, body in self.bodies.items()],
            "the step of": [body[:-168 - 8] + struct.pack("<d", -1) + body[-168:] if t == "ABSP" else body
                            for t, body in self.bodies.items()],
        }
        for says, bodies in cases.items():
            bad = write(self.path("bad.cstack"), self.head, bodies)
            self.fails("predict", bad, self.pool, "-o", self.path("bad.npy"), says=[says])


class Thousand(unittest.TestCase):
    def test_a_thousand_named_classes(self):
        """14 members and named classes, with the default preset, stay below 100 KB."""
        folder = tempfile.mkdtemp(prefix="corestack-size-")
        self.addCleanup(shutil.rmtree, folder)
        rng = np.random.default_rng(1)
        rows, classes, members = 500, 1000, 14
        labels = rng.permutation(np.arange(rows) * 2 % classes)
        np.save(os.path.join(folder, "labels.npy"), labels)
        shared = rng.normal(size=(rows, classes)).astype(np.float32)
        models = []
        for k in range(members):
            logits = shared + rng.normal(size=(rows, classes)).astype(np.float32)
            logits[np.arange(rows), labels] += 3 + 0.3 * k
            np.save(os.path.join(folder, f"m{k}.npy"), (2 * logits).astype(np.float16))
            models.append({"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}})
        pool, model = (os.path.join(folder, name) for name in ("pool.json", "model.cstack"))
        with open(pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": [f"class {c}" for c in range(classes)],
                       "output": "logit", "splits": {"oof": {"labels": "labels.npy"}}, "models": models}, file)
        result = run("fit", pool, "-o", model, "--set", "evaluate.nested=false", "--set", "select.direction=none")
        self.assertEqual(result.code, 0, result.err)
        found = {tag: len(body) for tag, body in sections(model)[1]}
        self.assertLessEqual({"CLAS", "ABSP", "NOVE", "CONF", "LEAN", "MONI"}, set(found))
        kept = struct.unpack_from("<I", dict(sections(model)[1])["TASK"], 24)[0]
        self.assertEqual(kept, members)
        # Sections that grow with the rows, at their most: references of 32,768 rows, two predictions of each class.
        most = {"NOVE": 10000, "CONF": 8000 + 3 * 2 * classes + classes + 100}
        total = sum(max(length, most.get(tag, 0)) for tag, length in found.items()) + 28
        self.assertLess(total, 100000, found)


if __name__ == "__main__":
    unittest.main()
