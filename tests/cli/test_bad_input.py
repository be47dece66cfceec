"""Bad input: one line that names file and position, exit status 2, nothing written. Odd but valid
input: works, and says so."""

import gzip
import io
import os
import resource
import struct
import unittest
import zlib

import numpy as np

from support import PoolCase, run, sample


class BadInput(PoolCase):
    def change(self, name, split="oof"):
        """A writable copy of a member's predictions."""
        return self.members[name, split].copy()

    def test_shapes_differ(self):
        self.save("bob.oof.npy", self.change("bob")[:-1])
        self.fit_fails("bob.oof.npy", "119", "120")
        wide = np.concatenate([self.change("bob"), np.zeros((self.rows, 1), np.float32)], axis=1)
        self.save("bob.oof.npy", wide)
        self.fit_fails("bob.oof.npy", "4", "3")
        self.save("bob.oof.npy", self.change("bob").reshape(-1, 2, 3, 1))
        self.fit_fails("bob.oof.npy")

    def test_labels(self):
        labels = self.labels["oof"].copy()
        labels[41] = 3
        self.save("oof_labels.npy", labels)
        self.fit_fails("oof_labels.npy", "41", "3")
        labels[41] = -1
        self.save("oof_labels.npy", labels)
        self.fit_fails("oof_labels.npy", "41", "-1")
        half = self.labels["oof"].astype(np.float64)
        half[7] = 0.5
        self.save("oof_labels.npy", half)
        self.fit_fails("oof_labels.npy", "7", "0.5")
        self.save("oof_labels.npy", self.labels["oof"][:50])
        self.fit_fails("50", "120")
        os.remove(self.path("oof_labels.npy"))
        self.fit_fails("oof_labels.npy")

    def test_not_finite(self):
        for value, word in ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")):
            bad = self.change("cyd")
            bad[17, 2] = value
            self.save("cyd.oof.npy", bad)
            result = self.fit_fails("cyd.oof.npy", "row 17", "column 2")
            self.assertIn(word, result.err.lower())

    def test_logits_said_to_be_probabilities(self):
        self.save("bob.oof.npy", np.log(self.change("bob")) * 3)
        self.fit_fails("bob.oof.npy", "row 0", "logit")

    def test_probabilities_said_to_be_logits(self):
        self.manifest["output"] = "logit"
        self.write_manifest()
        self.fit_fails("ada.oof.npy", "probabilit")

    def test_rows_that_do_not_sum_to_one(self):
        bad = self.change("ada")
        bad[5] *= 0.9
        self.save("ada.oof.npy", bad)
        self.fit_fails("ada.oof.npy", "row 5")
        bad = self.change("ada")
        bad[6] = [1.2, -0.1, -0.1]
        self.save("ada.oof.npy", bad)
        self.fit_fails("ada.oof.npy", "row 6")

    def test_empty_and_truncated_files(self):
        whole = self.read(self.path("bob.oof.npy"))
        for content in (b"", whole[:5], whole[:60], whole[:-1], whole[: len(whole) // 2]):
            with open(self.path("bob.oof.npy"), "wb") as file:
                file.write(content)
            self.fit_fails("bob.oof.npy")
        self.save("bob.oof.npy", np.zeros((0, 3), np.float32))
        self.fit_fails("bob.oof.npy")
        os.remove(self.path("bob.oof.npy"))
        self.fit_fails("bob.oof.npy")

    def write_header(self, shape, descr="<f4", data=b"\0" * 64):
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        with open(self.path("bob.oof.npy"), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)

    def test_impossible_headers(self):
        for shape in (
            "(9223372036854775808, 3)", "(9223372036854775807, 3)", "(3074457345618258603, 3)",
            "(120, 4611686018427387904)", "(-120, 3)", "(99999999999999999999999999, 3)", "(120, 3",
        ):
            self.write_header(shape)
            self.fit_fails("bob.oof.npy")
        for descr in ("|V8", "<c8", "<f3", "zz", "<M8[s]"):
            self.write_header("(120, 3)", descr)
            self.fit_fails("bob.oof.npy")

    def test_objects_are_never_unpickled(self):
        trap = self.path("trap")

        class Bomb:
            def __reduce__(self):
                return (os.mkdir, (trap,))

        objects = np.empty((self.rows, self.classes), dtype=object)
        objects[:] = Bomb()
        buffer = io.BytesIO()
        np.save(buffer, objects, allow_pickle=True)
        with open(self.path("bob.oof.npy"), "wb") as file:
            file.write(buffer.getvalue())
        self.fit_fails("bob.oof.npy", "object")
        self.assertFalse(os.path.exists(trap))

    def write_zip(self, packed, claimed):
        """An archive of one deflated member bob.npy whose directory claims `claimed` bytes."""
        name = b"bob.npy"
        extra = struct.pack("<HHQ", 1, 8, claimed)  # zip64: the true size stands here
        fields = struct.pack("<HHHHHIIIHH", 45, 0, 8, 0, 33, 0, len(packed), 0xFFFFFFFF, len(name), len(extra))
        local = b"PK\x03\x04" + fields + name + extra + packed
        entry = b"PK\x01\x02" + struct.pack("<H", 45) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name + extra
        end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
        with open(self.path("bomb.npz"), "wb") as file:
            file.write(local + entry + end)

    def test_zip_bomb(self):
        self.manifest["models"][1]["predictions"]["oof"] = "bomb.npz"
        self.write_manifest()
        honest = io.BytesIO()
        np.save(honest, self.change("bob"))
        # What an honest header is followed by does not matter: it is not inflated.
        pack = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = pack.compress(honest.getvalue())
        for _ in range(64):
            packed += pack.compress(bytes(1 << 20))
        packed += pack.flush()
        self.assertLess(len(packed), 1 << 18)
        for claimed in (64 << 20, 72 << 30, 1 << 62, (1 << 63) + 5):
            self.write_zip(packed, claimed)
            self.fit_fails("bomb.npz")

    def test_broken_archives(self):
        self.manifest["models"][1]["predictions"]["oof"] = "bob.npz"
        self.write_manifest()
        np.savez_compressed(self.path("bob.npz"), bob=self.change("bob"))
        whole = self.read(self.path("bob.npz"))
        for content in (b"", whole[:100], whole[:-30], b"PK\x03\x04" + bytes(200)):
            with open(self.path("bob.npz"), "wb") as file:
                file.write(content)
            self.fit_fails("bob.npz")
        np.savez(self.path("bob.npz"), a=self.change("bob"), b=self.change("ada"))
        self.fit_fails("bob.npz")
        self.manifest["models"][1]["predictions"]["oof"] = "bob.npz#c"
        self.write_manifest()
        self.fit_fails("bob.npz", "c")

    def test_manifest(self):
        self.manifest["spltis"] = {}
        self.write_manifest()
        self.fit_fails("pool.json", "spltis")
        del self.manifest["spltis"]
        self.manifest["models"][2]["flop"] = 1
        self.write_manifest()
        self.fit_fails("pool.json", "flop")
        del self.manifest["models"][2]["flop"]
        self.manifest["models"][2]["name"] = "bob"
        self.write_manifest()
        self.fit_fails("pool.json", "bob")
        for content in ("", "{", "[]", '{"corestack_pool": 2}', "\0", "nonsense"):
            with open(self.pool, "w", encoding="utf-8") as file:
                file.write(content)
            self.fit_fails("pool.json")

    def test_paths_that_leave_the_folder(self):
        inner = self.path("inner")
        os.mkdir(inner)
        self.pool = os.path.join(inner, "pool.json")
        for split in ("oof", "test"):
            self.manifest["splits"][split]["labels"] = f"../{split}_labels.npy"
            for model in self.manifest["models"]:
                model["predictions"][split] = f"../{model['name']}.{split}.npy"
        self.write_manifest()
        self.fit_fails("pool.json", "../", "outside")
        self.fit("--allow-outside")
        self.manifest["splits"]["oof"]["labels"] = self.path("oof_labels.npy")
        self.write_manifest()
        os.remove(self.model)
        self.fit_fails("pool.json", "oof_labels.npy")

    def test_paths_that_leave_the_folder_and_come_back(self):
        self.manifest["splits"]["oof"]["labels"] = f"../{os.path.basename(self.folder)}/oof_labels.npy"
        self.write_manifest()
        self.fit_fails("pool.json", "splits.oof.labels", "'..'")
        self.fit("--allow-outside")
        os.remove(self.model)
        os.mkdir(self.path("sub"))
        for name in ("sub/../oof_labels.npy", "..", "sub/.."):
            self.manifest["splits"]["oof"]["labels"] = name
            self.write_manifest()
            self.fit_fails("pool.json", "'..'")
        os.rename(self.path("oof_labels.npy"), self.path("..oof..npy"))
        self.manifest["splits"]["oof"]["labels"] = "./..oof..npy"
        self.write_manifest()
        self.fit()

    def test_folds(self):
        folds = np.arange(self.rows) % 5
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()
        self.save("folds.npy", folds[:-3])
        self.fit_fails("folds.npy")
        self.save("folds.npy", folds * 0)
        self.fit_fails("fold")
        self.save("folds.npy", folds + 0.5)
        self.fit_fails("folds.npy", "0.5")
        folds[33] = -1
        self.save("folds.npy", folds)
        self.fit_fails("folds.npy", "row 33", "-1")

    def test_fewer_samples_than_folds(self):
        few = {s: np.array([0, 1, 2], np.int32) for s in ("oof", "test")}
        for split, labels in few.items():
            self.save(f"{split}_labels.npy", labels)
            for name in ("ada", "bob", "cyd"):
                self.save(f"{name}.{split}.npy", self.members[name, split][:3])
        self.fit_fails("3", "5")

    def test_budget_without_costs(self):
        for option, key in (("keep.max_flops", "flops"), ("keep.max_latency", "latency_ms")):
            self.fails("fit", self.pool, "-o", self.model, "--set", option + "=5", says=(key, option, "every member"))
            self.assertFalse(os.path.exists(self.model))

    def test_one_class(self):
        self.save("oof_labels.npy", np.zeros(self.rows, np.int32))
        result = run("fit", self.pool, "-o", self.model)
        self.assertIn(result.code, (0, 2), result.err)
        if result.code == 0:
            self.assertIn("class", result.out)

    def test_full_disk(self):
        full = 500
        self.fails("fit", self.pool, "-o", self.model, file_limit=full, says=["model.cstack"])
        self.fails("fit", self.pool, "-o", "/dev/full", says=["/dev/full", "No space"])
        self.fit()
        wanted = self.read(self.model)
        self.assertGreater(len(wanted), full)
        self.fails("fit", self.pool, "-o", self.model, file_limit=full, says=["model.cstack"])
        self.assertEqual(self.read(self.model), wanted)
        out = self.path("out.npy")
        self.assertGreater(self.rows * 3 * 4, full)
        self.fails("predict", self.model, self.pool, "--split", "oof", "-o", out, file_limit=full, says=["out.npy"])
        self.fails("predict", self.model, self.pool, "-o", "/dev/full", says=["/dev/full"])
        folds = self.path("folds.npy")
        self.save("many.npy", np.arange(500, dtype=np.int32) % 3)
        self.fails("folds", "-l", self.path("many.npy"), "-o", folds, file_limit=full, says=["folds.npy"])


class Ids(PoolCase):
    """Rows are joined by id, never by position."""

    def setUp(self):
        super().setUp()
        self.ids = np.array([f"img_{i:04d}" for i in range(self.rows)])
        self.save("oof_ids.npy", self.ids)
        self.manifest["splits"]["oof"]["ids"] = "oof_ids.npy"
        self.write_manifest()

    def write_csv(self, ids, predictions):
        self.manifest["models"][1]["predictions"]["oof"] = "bob.csv"
        self.write_manifest()
        with open(self.path("bob.csv"), "w", encoding="ascii") as file:
            file.write("id,p0,p1,p2\n")
            for key, row in zip(ids, predictions):
                file.write(",".join([str(key), *(repr(float(v)) for v in row)]) + "\n")

    def fitted(self):
        document = self.fit("--json", nested=True).json()
        return document["oof"], document["kept"], self.read(self.model)

    def test_another_order(self):
        predictions = self.members["bob", "oof"]
        self.write_csv(self.ids, predictions)
        wanted = self.fitted()
        order = np.random.default_rng(5).permutation(self.rows)
        self.write_csv(self.ids[order], predictions[order])
        self.assertEqual(self.fitted(), wanted)

    def test_wrong_ids(self):
        predictions = self.members["bob", "oof"]
        self.write_csv(self.ids[:-1], predictions[:-1])
        self.fit_fails("bob.csv", "img_0119")
        doubled = self.ids.copy()
        doubled[30] = "img_0029"
        self.write_csv(doubled, predictions)
        self.fit_fails("bob.csv", "img_0029")
        extra = self.ids.copy()
        extra[4] = "img_9999"
        self.write_csv(extra, predictions)
        self.fit_fails("bob.csv", "img_9999")
        self.write_csv(np.append(self.ids, "img_9999"), np.vstack([predictions, predictions[:1]]))
        self.fit_fails("bob.csv", "img_9999")

    def test_labels_without_ids(self):
        del self.manifest["splits"]["oof"]["ids"]
        self.write_csv(self.ids, self.members["bob", "oof"])
        self.fit_fails("bob.csv", "oof_labels.npy", "ids")
        files = [self.path("bob.csv"), self.path("cyd.oof.npy")]
        labels = ("--labels", self.path("oof_labels.npy"))
        self.fails("fit", *labels, *files, "-o", self.model, says=["bob.csv", "--ids"])
        self.fails("evaluate", files[0], *labels, says=["bob.csv", "--ids"])
        self.works("fit", *labels, "--ids", self.path("oof_ids.npy"), *files, "-o", self.model)
        with open(self.path("folds.csv"), "w", encoding="ascii") as file:
            file.write("id,fold\n" + "".join(f"{key},{i % 5}\n" for i, key in enumerate(self.ids)))
        self.manifest["models"][1]["predictions"]["oof"] = "bob.oof.npy"
        self.manifest["splits"]["oof"]["folds"] = "folds.csv"
        self.write_manifest()
        self.fit_fails("folds.csv", "oof_labels.npy", "ids")

    def test_split_ids(self):
        doubled = self.ids.copy()
        doubled[30] = "img_0029"
        self.save("oof_ids.npy", doubled)
        self.fit_fails("oof_ids.npy", "img_0029")
        self.save("oof_ids.npy", self.ids[:-1])
        self.fit_fails("119", "120")


class OddButValid(PoolCase):
    def test_constant_members_only(self):
        constant = np.full((self.rows, 3), 1 / 3, np.float32)
        self.save("flat.npy", constant)
        labels = self.path("oof_labels.npy")
        result = run("fit", "--labels", labels, self.path("flat.npy"), "-o", self.model, "--json")
        self.assertEqual(result.code, 0, result.err)
        document = result.json()
        self.assertIsNone(document["lambda"])
        self.assertLess(document["oof"]["nll"], np.log(3) + 0.05)
        result = run("inspect", "--labels", labels, self.path("flat.npy"), "--json")
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.json()["eigenvalues"], [])

    def test_constant_member(self):
        flat = np.full((self.rows, self.classes), 1 / 3, np.float32)
        self.save("bob.oof.npy", flat)
        document = self.fit("--json").json()
        reasons = {entry["name"]: entry["because"] for entry in document["dropped"]}
        self.assertEqual(reasons.get("bob"), "constant")
        self.assertIn("constant", self.fit().out)

    def test_one_member(self):
        path = self.path("ada.oof.npy")
        labels = self.path("oof_labels.npy")
        for preset in ("default", "paper", "prototype"):
            document = self.works(
                "fit", "--labels", labels, path, "-o", self.model, "--preset", preset, "--json"
            ).json()
            self.assertEqual(document["kept"], ["ada"])
        self.works("inspect", "--labels", labels, path)

    def test_two_identical_members(self):
        self.save("bob.oof.npy", self.members["ada", "oof"])
        only_redundancy = ("--set", "select.direction=none", "--set", "keep.fraction=0")
        document = self.fit("--json", *only_redundancy).json()
        self.assertEqual(document["models_kept"], 2)
        twin = [entry for entry in document["dropped"] if entry["because"] == "redundant"]
        self.assertEqual(len(twin), 1)
        self.assertEqual({twin[0]["name"], twin[0]["to"]}, {"ada", "bob"})
        self.assertAlmostEqual(twin[0]["cka"], 1, places=6)
        self.assertRegex(self.fit("--verbose", *only_redundancy).out, r"redundant; CKA 1\.0000 with (ada|bob)")

    def test_all_members_identical(self):
        for name in ("bob", "cyd"):
            self.save(f"{name}.oof.npy", self.members["ada", "oof"])
        self.assertEqual(self.fit("--json").json()["models_kept"], 1)

    def test_class_absent_from_a_fold(self):
        labels, _ = sample(self.rows, self.classes, 1)
        labels = np.where(labels == 2, 0, labels).astype(np.int32)
        labels[:3] = 2
        self.save("oof_labels.npy", labels)
        document = self.fit("--json").json()
        self.assertTrue(any("class 2" in text for text in document["notices"]), document["notices"])
        folds = np.arange(self.rows) % 5
        folds[:3] = 4
        self.save("folds.npy", folds)
        self.manifest["splits"]["oof"]["folds"] = "folds.npy"
        self.write_manifest()
        document = self.fit("--json").json()
        self.assertTrue(any("class" in text for text in document["notices"]), document["notices"])

    def test_npz_and_other_types(self):
        self.fit()
        wanted = self.read(self.model)
        bob = self.members["bob", "oof"]
        np.savez_compressed(self.path("all.npz"), ada=self.members["ada", "oof"], bob=bob)
        self.manifest["models"][1]["predictions"]["oof"] = "all.npz#bob"
        self.write_manifest()
        self.fit()
        self.assertEqual(self.read(self.model), wanted)
        self.manifest["models"][1]["predictions"]["oof"] = "bob.oof.npy"
        self.write_manifest()
        for array in (np.asfortranarray(bob), bob.astype(">f4"), bob.astype(np.float64)):
            self.save("bob.oof.npy", array)
            self.fit()
            self.assertEqual(self.read(self.model), wanted)

    def test_millions_of_empty_lines(self):
        """60 MiB of them in 60 KB."""
        text = b"id,label,a:0,a:1,b:0,b:1\n" + b"".join(b"%d,%d,0.2,0.8,0.3,0.7\n" % (i, i % 2) for i in range(150))
        table = self.path("t.csv.gz")
        for end in (b"", b"150,0,0.2,0.8,0.3,0.7"):
            with gzip.open(table, "wb") as file:
                file.write(text + (b"\n" * 3 + b"\r\n" * 3) * (7 << 20) + end)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            if end:
                self.fails("inspect", table, says=["t.csv.gz", "line 152 is empty"])
            else:
                self.works("inspect", table)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 3)

    def test_archives_that_programs_read_in_different_ways(self):
        """Each says two things, and which of them is read depends on the program."""
        other = io.BytesIO()
        np.savez(other, ada=self.members["cyd", "oof"])
        archive = io.BytesIO()
        np.savez(archive, ada=self.members["ada", "oof"])
        good = archive.getvalue()
        self.manifest["models"][0]["predictions"]["oof"] = "ada.npz#ada"
        self.write_manifest()

        def put(data):
            with open(self.path("ada.npz"), "wb") as file:
                file.write(data)

        put(good)
        self.fit()
        put(good.replace(b"ada.npy", b"eve.npy", 1))  # the name before the data
        self.fit_fails("ada.npz", "than the local header")
        # An archive in the comment of an archive, with its offsets right.
        inner = bytearray(other.getvalue())
        end = len(inner) - 22
        directory, = struct.unpack_from("<I", inner, end + 16)
        record = directory
        while inner[record:record + 4] == b"PK\1\2":
            offset, = struct.unpack_from("<I", inner, record + 42)
            struct.pack_into("<I", inner, record + 42, offset + len(good))
            record += 46 + sum(struct.unpack_from("<HHH", inner, record + 28))
        struct.pack_into("<I", inner, end + 16, directory + len(good))
        put(good[:-2] + struct.pack("<H", len(inner)) + inner)
        self.fit_fails("ada.npz", "has the end records of two archives")
        # Two end records, of 64 and of 32 bits.
        size, start = struct.unpack_from("<II", good, len(good) - 10)
        wide = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, size, start)
        wide += struct.pack("<IIQI", 0x07064b50, 0, len(good) - 22, 1)
        put(good[:-22] + wide + good[-22:])
        self.fit()
        put(good[:-22] + wide + good[-22:-6] + struct.pack("<I", start - 1) + good[-2:])
        self.fit_fails("ada.npz", "two end records")

    def test_long_names_are_not_cut_inside_a_character(self):
        for start in ("", "a"):  # every byte position; a cut character would not decode
            for k, model in enumerate(self.manifest["models"]):
                model["name"] = f"{start}{k}" + 120 * "é"
            self.write_manifest()
            self.fit()
            text = self.works("evaluate", self.model, self.pool, "--baselines", "--verbose").out
            self.assertIn(120 * "é", text)
        for start in ("", "a", "ab"):
            names = np.full(self.rows, start + 100 * "€")
            self.save("oof_labels.npy", names)
            result = self.fit_fails("oof_labels.npy", start + "€€€", "€...)")
            self.assertNotIn("�", result.err)

    def test_names_with_spaces_and_accents(self):
        self.manifest["models"][0]["name"] = "modèle n° 1 — \"été\""
        self.write_manifest()
        document = self.fit("--json").json()
        names = [member["name"] for member in document["members"]]
        self.assertIn("modèle n° 1 — \"été\"", names)
        self.works("predict", self.model, self.pool, "-o", self.path("out.npy"))


if __name__ == "__main__":
    unittest.main()
