"""predict --guard and --batch: which batches change, what is said, files without the guard's section, and damaged ones."""

import json
import os
import shutil
import struct
import tempfile
import unittest

import numpy as np

from support import run
from test_missing import crc32c, sections, without_sections

CLASSES, MEMBERS = 4, 5


def members(rng, rows, noise):
    labels = rng.integers(0, CLASSES, rows)
    z = 3 * np.eye(CLASSES)[labels] + rng.normal(size=(rows, CLASSES))
    found = [np.exp(z + (0.3 + 0.2 * k + noise) * rng.normal(size=z.shape)) for k in range(MEMBERS)]
    return [(e / e.sum(1, keepdims=True)).astype(np.float32) for e in found], labels


class Guard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="corestack-cli-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        rng = np.random.default_rng(3)
        pool = {"corestack_pool": 1, "task": "classification", "classes": list("abcd"), "splits": {}}
        pool["models"] = [{"name": f"m{k}", "flops": 10.0 ** k, "predictions": {}} for k in range(MEMBERS)]
        parts = {"oof": [(600, 0)], "clean": [(300, 0)], "shifted": [(300, 3)], "mixed": [(230, 0), (200, 3)], "few": [(49, 3)]}
        for split, of in parts.items():
            drawn = [members(rng, rows, noise) for rows, noise in of]
            np.save(os.path.join(cls.folder, f"{split}.npy"), np.concatenate([y for _, y in drawn]))
            pool["splits"][split] = {"labels": f"{split}.npy"}
            for k in range(MEMBERS):
                np.save(os.path.join(cls.folder, f"m{k}.{split}.npy"), np.concatenate([p[k] for p, _ in drawn]))
                pool["models"][k]["predictions"][split] = f"m{k}.{split}.npy"
        # Conditions: the clean rows, then the shifted ones.
        np.save(os.path.join(cls.folder, "two.npy"), np.load(os.path.join(cls.folder, "clean.npy")))
        pool["splits"]["two"] = {"labels": "two.npy", "conditions": [{"kind": "none", "severity": 1}, {"kind": "noise", "severity": 1}]}
        for k in range(MEMBERS):
            both = [np.load(os.path.join(cls.folder, f"m{k}.{split}.npy")) for split in ("clean", "shifted")]
            np.save(os.path.join(cls.folder, f"m{k}.two.npy"), np.stack(both))
            pool["models"][k]["predictions"]["two"] = f"m{k}.two.npy"
        cls.pool, cls.model = (os.path.join(cls.folder, name) for name in ("pool.json", "guard.cstack"))
        with open(cls.pool, "w", encoding="utf-8") as file:
            json.dump(pool, file)
        result = run("fit", cls.pool, "-o", cls.model, "-q", "--set", "evaluate.nested=false", "--set", "keep.max=2")
        assert result.code == 0, result.err

    def predict(self, split, *arguments, model=None, pool=None):
        out = os.path.join(self.folder, "out.npy")
        result = run("predict", model or self.model, pool or self.pool, "--split", split, "-o", out, "--json", *arguments)
        self.assertEqual(result.code, 0, result.err)
        return np.load(out), json.loads(result.out).get("guard"), result.err

    def test_clean_rows_keep_their_bytes(self):
        for more in ([], ["--batch", "100"], ["--guard", "warn"]):
            p, found, said = self.predict("clean", *more)
            self.assertEqual(found["fired"], 0)
            self.assertEqual(said, "")
            self.assertEqual(p.tobytes(), self.predict("clean", "--guard", "off")[0].tobytes())

    def test_shifted_rows_lean_on_all_members(self):
        off, found, said = self.predict("shifted", "--guard", "off")
        self.assertIsNone(found)
        self.assertEqual(said, "")
        p, found, said = self.predict("shifted")
        self.assertEqual((found["fired"], found["members"], found["others"]), (1, MEMBERS, MEMBERS - 2))
        self.assertGreater(found["others_flops"], 0)
        self.assertIn("FLOPs a row", said)
        self.assertGreater(np.abs(p - off).max(), 0.01)
        warned, found, said = self.predict("shifted", "--guard", "warn")
        self.assertEqual((found["mode"], found["fired"], found["members"]), ("warn", 1, 0))
        self.assertIn("unlike", said)
        self.assertEqual(warned.tobytes(), off.tobytes())

    def test_batches_and_conditions(self):
        off = self.predict("mixed", "--guard", "off")[0]
        p, found, _ = self.predict("mixed", "--batch", "100")
        self.assertEqual([b["rows"] for b in found["batches"]], [100, 100, 100, 130])
        self.assertEqual([b["fired"] for b in found["batches"]], [False, False, True, True])
        self.assertEqual(p[:200].tobytes(), off[:200].tobytes())
        p, found, _ = self.predict("two")
        self.assertEqual([(b["condition"], b["first"], b["fired"]) for b in found["batches"]], [(0, 0, False), (1, 300, True)])
        self.assertEqual(p[0].tobytes(), self.predict("clean")[0].tobytes())
        self.assertEqual(p[1].tobytes(), self.predict("shifted")[0].tobytes())

    def test_small_batches_are_not_tested(self):
        off = self.predict("shifted", "--guard", "off")[0]
        p, found, said = self.predict("shifted", "--batch", "20")
        self.assertEqual(found["tested"], 0)
        self.assertEqual(said.count("fewer than 50 rows"), 1)
        self.assertEqual(p.tobytes(), off.tobytes())
        self.assertEqual(self.predict("few")[1]["tested"], 0)

    def test_threads_and_tables(self):
        one, three = (self.predict("shifted", "-t", t)[0] for t in ("1", "3"))
        self.assertEqual(one.tobytes(), three.tobytes())
        table = os.path.join(self.folder, "out.csv")
        result = run("predict", self.model, self.pool, "--split", "shifted", "-o", table)
        self.assertEqual(result.code, 0, result.err)
        self.assertIn("rows 0 to 299", result.out)
        np.testing.assert_allclose(np.loadtxt(table, delimiter=",", skiprows=1), one, atol=1e-6)

    def test_members_that_are_not_there(self):
        with open(self.pool, encoding="utf-8") as file:
            pool = json.load(file)
        kept = [line.split()[0] for line in run("show", self.model).out.split("Members")[1].splitlines()[2:4]]
        for gone in ("from the pool", "from the disk"):
            with self.subTest(gone):
                less = os.path.join(self.folder, "less.json")
                models = [m for m in pool["models"] if m["name"] in kept] if gone == "from the pool" else pool["models"]
                other = next(m["name"] for m in pool["models"] if m["name"] not in kept)
                path = os.path.join(self.folder, f"{other}.shifted.npy")
                with open(less, "w", encoding="utf-8") as file:
                    json.dump({**pool, "models": models}, file)
                if gone == "from the disk":
                    with open(path, "rb") as file:
                        whole = file.read()
                    os.truncate(path, len(whole) // 2)
                out, said = self.predict("shifted", pool=less)[1:]
                self.assertEqual(out["fired"], 1)
                self.assertEqual(out["members"], 2 if gone == "from the pool" else MEMBERS - 1)
                self.assertIn("missing", said)
                if gone == "from the disk":
                    self.assertIn(f"without member '{other}'", said)
                    with open(path, "wb") as file:
                        file.write(whole)

    def test_files_of_older_versions(self):
        old = without_sections(self.model, os.path.join(self.folder, "old.cstack"), "NOVE", "CONF", "LEAN")
        p, found, said = self.predict("shifted", model=old)
        self.assertEqual((found["mode"], found["tested"], said), ("auto", 0, ""))
        p, found, said = self.predict("shifted", "--guard", "auto", model=old)
        self.assertEqual((found["tested"], found["batches"]), (0, []))
        self.assertEqual(said.count("the guard is off"), 1)
        self.assertEqual(p.tobytes(), self.predict("shifted", "--guard", "off")[0].tobytes())

    def test_damaged_sections_are_refused(self):
        with open(self.model, "rb") as file:
            data = file.read()
        body = dict(sections(self.model)[1])["NOVE"]
        at, length = data.index(body) + 16, len(body) - 16
        bad = os.path.join(self.folder, "bad.cstack")
        rng = np.random.default_rng(0)
        places = [0, 4, *rng.integers(0, length - 4, 60).tolist()]
        refused = 0
        for place in places:
            hostile = data[:at + place] + b"\xff\xff\xff\xff" + data[at + place + 4:-4]
            with open(bad, "wb") as file:
                file.write(hostile + struct.pack("<I", crc32c(hostile)))
            result = run("predict", bad, self.pool, "--split", "shifted", "-o", os.path.join(self.folder, "bad.npy"))
            self.assertIn(result.code, (0, 2), result.err)
            refused += result.code == 2
        self.assertGreater(refused, len(places) // 2)

    def test_wrong_options(self):
        out = ["-o", os.path.join(self.folder, "wrong.npy")]
        for more, said in ((["--guard", "on"], "not auto, warn or off"), (["--batch", "0"], "--batch"),
                           (["--batch", "x"], "--batch"), (["--guard", "off", "--batch", "100"], "which is off")):
            result = run("predict", self.model, self.pool, "--split", "clean", *out, *more)
            self.assertEqual(result.code, 2)
            self.assertIn(said, result.err)


if __name__ == "__main__":
    unittest.main()
