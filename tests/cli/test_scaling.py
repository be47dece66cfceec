"""Files with many names, chosen to collide or in an unlucky order: four times as many cost about four times the time, and an interrupt ends reading them at once."""

import itertools
import json
import os
import resource
import signal
import struct
import subprocess
import time
import unittest
import zipfile

from support import TOOL, PoolCase

SHORT = bool(os.environ.get("CST_SHORT_TESTS"))  # under sanitizers
MOST = 10  # times the processor time for four times the names; 16 is the square
LITTLE = 0.5  # seconds, below which nothing is said
SHORTEST = 4 if SHORT else 1  # part of each size


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def colliding(count):
    """Names of one hash where that is 33 times the last plus a byte, as in libzip."""
    bits = max(1, (count - 1).bit_length())
    return itertools.islice(("".join(pairs) for pairs in itertools.product(("Az", "BY"), repeat=bits)), count)


class Scaling(PoolCase):
    def spend(self, *arguments):
        before = used()
        finished = subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=120, check=False)
        if os.environ.get("CORESTACK_SHOW"):
            print(finished.returncode, finished.stderr[:160].decode(), round(used() - before, 2), flush=True)
        self.assertIn(finished.returncode, (0, 2), finished.stderr)
        return used() - before

    def grows(self, write, count, *arguments):
        """write(n) makes the files; the tool is then run with the arguments."""
        count //= SHORTEST
        write(count // 4)
        small = self.spend(*arguments)
        write(count)
        large = self.spend(*arguments)
        if large > LITTLE:
            self.assertLess(large, MOST * max(small, LITTLE / 8), f"{small:.2f} s for {count // 4}, {large:.2f} s for {count}")

    def text(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)

    def pool_of(self, splits, members, **more):
        self.manifest.update(more)
        self.manifest["splits"] = {f"s{i}": {"labels": "oof_labels.npy"} for i in range(splits)}
        self.manifest["models"] = [
            {"name": f"m{k}", "predictions": {f"s{i}": "ada.oof.npy" for i in range(splits)}} for k in range(members)]
        self.write_manifest()

    # ---- manifests

    def test_files(self):
        self.grows(lambda n: self.pool_of(n // 100, 100), 40000, "inspect", self.pool, "--split", "none")

    def test_splits(self):
        self.grows(lambda n: self.pool_of(n, 1), 10000, "inspect", self.pool, "--split", "none")

    def test_members(self):
        self.grows(lambda n: self.pool_of(1, n), 10000, "inspect", self.pool, "--split", "none")

    def test_files_beside_an_output(self):
        self.grows(lambda n: self.pool_of(n // 20, 20), 20000, "fit", self.pool, "-o", self.model)

    # ---- many arrays of one file, whose directory is read once

    def members_in(self, archive):
        self.manifest["splits"] = {"oof": {"labels": "oof_labels.npy"}}
        self.manifest["models"] = [
            {"name": f"m{k}", "predictions": {"oof": f"{archive}#a{k:06d}"}} for k in range(1000)]
        self.write_manifest()

    def test_members_of_one_archive(self):
        with open(self.path("ada.oof.npy"), "rb") as file:
            array = file.read()

        def write(count):
            with zipfile.ZipFile(self.path("all.npz"), "w") as archive:
                for k in range(count):
                    archive.writestr(f"a{k:06d}.npy", array if k < 1000 else b"")
            self.members_in("all.npz")

        write(1000)
        few = self.spend("inspect", self.pool)
        write(2000)
        many = self.spend("inspect", self.pool)
        self.assertLess(many, 4 * few + 3 * LITTLE)

    def test_members_of_one_file_of_tensors(self):
        rows = self.rows * self.classes
        with open(self.path("ada.oof.npy"), "rb") as file:
            array = file.read()[-4 * rows:]

        def write(count):
            header = {f"a{k:06d}": {"dtype": "F32", "shape": [self.rows, self.classes] if k < 1000 else [0],
                                    "data_offsets": [min(k, 1000) * 4 * rows, min(k + 1, 1000) * 4 * rows]}
                      for k in range(count)}
            text = json.dumps(header).encode()
            with open(self.path("all.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + 1000 * array)
            self.members_in("all.safetensors")

        write(1000)
        few = self.spend("inspect", self.pool)
        write(50000 // SHORTEST)
        many = self.spend("inspect", self.pool)
        self.assertLess(many, 2 * few + 3 * LITTLE)

    def test_class_names(self):
        self.grows(lambda n: self.pool_of(1, 1, classes=list(colliding(n))), 200000, "inspect", self.pool)

    def test_conditions(self):
        def write(n):
            self.pool_of(2, 1)
            self.manifest["splits"]["s0"]["conditions"] = [{"shift": "x", "kind": name} for name in colliding(n)]
            self.write_manifest()
        self.grows(write, 100000, "inspect", self.pool)

    def test_unknown_keys(self):
        def write(n):
            with open(self.pool, "w", encoding="utf-8") as file:
                json.dump({**self.manifest, **dict.fromkeys(colliding(n), 1)}, file)
        self.grows(write, 200000, "inspect", self.pool)

    def test_clean_splits(self):
        def write(n):
            self.pool_of(n, 1)
            for i in range(n - 1):
                self.manifest["splits"][f"s{i}"].update(clean=f"s{n - 1}", conditions=[{"shift": "x"}])
            self.write_manifest()
        self.grows(write, 8000, "inspect", self.pool)

    # ---- other files

    def archive(self, name, names):
        records = [struct.pack("<4s4H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, len(n), 0) + n for n in names]
        entries, at = [], 0
        for n, record in zip(names, records):
            entries.append(struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, len(n), 0, 0, 0, 0, 0, at) + n)
            at += len(record)
        bytes_ = sum(map(len, entries))
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(names) % 65536, len(names) % 65536, bytes_, at, 0)
        with open(self.path(name), "wb") as file:
            file.writelines([*records, *entries, end])
        return self.path(name)

    def test_members_of_an_archive(self):
        archive = self.path("a.npz")
        self.grows(lambda n: self.archive("a.npz", [x.encode() for x in colliding(n)]), 9600,
                   "inspect", "--labels", f"{archive}#y", f"{archive}#p")

    def test_members_of_one_name(self):
        archive = self.path("a.npz")
        self.grows(lambda n: self.archive("a.npz", [b"%d" % i for i in range(n - 1)] + [b"0.npy"]), 9600,
                   "inspect", "--labels", f"{archive}#y", f"{archive}#p")

    def test_tensors(self):
        def write(n):
            header = {x: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, x in enumerate(colliding(n))}
            text = json.dumps(header).encode()
            with open(self.path("a.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + bytes(4 * n))
        tensors = self.path("a.safetensors")
        self.grows(write, 200000, "inspect", "--labels", f"{tensors}#y", f"{tensors}#p")

    def test_columns(self):
        self.grows(lambda n: self.text("p.csv", ",".join(colliding(n)) + "\n" + ",".join(["0"] * n) + "\n"), 400000,
                   "inspect", "--labels", self.path("oof_labels.npy"), self.path("p.csv"))

    def test_ids(self):
        def write(n):
            rows = "".join(f"{x},0.5,0.5\n" for x in colliding(n))
            self.text("p.csv", "id,a,b\n" + rows)
            self.text("q.csv", "id,a,b\n" + "".join(reversed(rows.splitlines(True))))
            self.text("y.csv", "id,label\n" + "".join(f"{x},{i % 2}\n" for i, x in enumerate(colliding(n))))
        self.grows(write, 60000, "evaluate", "--labels", self.path("y.csv"), self.path("p.csv"), "--resamples", "0")

    def test_images_and_categories(self):
        def write(n):
            self.text("gt.json", json.dumps({
                "images": [{"id": 65536 * (n - i), "width": 9, "height": 9} for i in range(n)],
                "categories": [{"id": 65536 * (n - i), "name": x} for i, x in enumerate(colliding(n))],
                "annotations": [{"id": i, "image_id": 65536 * (i + 1), "category_id": 65536 * (i + 1), "bbox": [1, 1, 2, 2],
                                 "area": 4, "iscrowd": 0} for i in range(n)]}))
            self.text("d.json", "[]")
            self.text("pool.json", json.dumps({
                "corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
                "models": [{"name": "m", "predictions": {"oof": "d.json"}}]}))
        self.grows(write, 40000, "inspect", self.pool, "--split", "oof")

    # ---- interrupts

    @unittest.skipIf(SHORT, "sanitizers take long to end a program")
    def test_an_interrupt_ends_work_on_many_members(self):
        """Arrays of members x members, which nobody may fill with zeros or free in one go of seconds."""
        self.pool_of(1, 9999)
        for wait in (1.5, 3):
            process = subprocess.Popen([TOOL, "inspect", self.pool, "--split", "s0"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            _, errors = process.communicate(timeout=120)
            self.assertLess(time.monotonic() - start, 3, errors)
            self.assertEqual(process.returncode, -signal.SIGINT, errors)

    @unittest.skipIf(SHORT, "sanitizers take long to end a program")
    def test_an_interrupt_ends_reading(self):
        self.pool_of(600, 600)  # reading takes seconds
        for after in (0.1, 0.5, 1.0):
            process = subprocess.Popen([TOOL, "inspect", self.pool, "--split", "none"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            time.sleep(after)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 2)
            self.assertIn(process.returncode, (2, -signal.SIGINT), errors)


if __name__ == "__main__":
    unittest.main()
