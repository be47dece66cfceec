"""Random pools, random damage, random limits and random commands: what no one thought of.

Every run is made from a number. `CORESTACK_RANDOM=NUMBER` runs that one alone and shows its commands. Whatever the input:

- a command ends in time, by itself, with exit status 0, 2 or 3 (1 where its answer can be "no");
- when it fails it prints one line on standard error and nothing on standard output, and its folder is as before;
- when it works its JSON holds finite numbers, and its output is the same bytes with other threads and less memory;
- a model that was fitted can be used, and its probabilities are finite and sum to 1.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np
from support import TOOL, softmax

LONG = bool(os.environ.get("CORESTACK_LONG"))
RUNS = 3000 if LONG else 60
SECONDS = 3600 if LONG else 40
SANITIZED = "ASAN_OPTIONS" in os.environ  # shadow memory needs all addresses
ENDS_WITHIN = 240 if SANITIZED else 60
COMMANDS = ("inspect", "fit", "compare", "folds", "predict", "evaluate", "bound", "ablate", "sweep")
TASKS = ("classification", "classification", "regression", "segmentation", "detection")


def options():
    """The table behind --set."""
    done = subprocess.run([TOOL, "options", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["options"]


class RandomPool:
    """A folder with a small pool of a random task in random formats."""

    def __init__(self, draw, folder):
        self.draw, self.folder = draw, folder
        self.rng = np.random.default_rng(draw.getrandbits(32))
        self.task = draw.choice(TASKS)
        self.classes = draw.choice((2, 2, 3, 5, 11))
        self.rows = draw.choice((1, 2, 7, 20, 33, 64, 130))
        self.members = draw.randint(1, 5)
        self.splits = ["oof"] + (["test"] if draw.random() < 0.6 else [])
        self.files = []
        getattr(self, "make_" + self.task)()

    def path(self, name):
        return os.path.join(self.folder, name)

    def noted(self, name):
        self.files.append(name)
        return name

    def write_array(self, stem, array):
        """In a random format; the name that a manifest gives it."""
        kind = self.draw.choice(("npy", "npy", "npz", "csv" if array.ndim <= 2 else "npy"))
        if self.draw.random() < 0.3:
            array = np.asfortranarray(array)
        if kind == "npy":
            np.save(self.path(stem + ".npy"), array)
        elif kind == "npz":
            save = self.draw.choice((np.savez, np.savez_compressed))
            save(self.path(stem + ".npz"), **{self.draw.choice(("arr_0", "x")): array})
        else:
            table = array.reshape(len(array), -1)
            lines = [",".join(repr(v) if isinstance(v, float) else str(v) for v in row) for row in table.tolist()]
            header = ",".join(f"c{j}" for j in range(table.shape[1]))
            with open(self.path(stem + ".csv"), "w", encoding="utf-8") as file:
                file.write("\n".join([header, *lines]) + "\n")
        return self.noted(f"{stem}.{kind}")

    def side(self, split, rows):
        """Ids, folds, groups and weights, each of them at times."""
        found = {}
        if self.draw.random() < 0.3:
            found["ids"] = self.write_array(f"{split}_ids", self.rng.permutation(10 * rows)[:rows].astype("i8"))
        if self.draw.random() < 0.3:
            found["folds"] = self.write_array(f"{split}_folds", self.rng.integers(0, 3, rows).astype("i4"))
        if self.draw.random() < 0.2:
            found["groups"] = self.write_array(f"{split}_groups", self.rng.integers(0, 1 + rows // 2, rows).astype("i8"))
        if self.draw.random() < 0.2:
            found["weights"] = self.write_array(f"{split}_weights", self.rng.random(rows) * 3)
        return found

    def write_manifest(self, **more):
        manifest = {"corestack_pool": 1, "task": self.task, "splits": {}, "models": [], **more}
        for split in self.splits:
            manifest["splits"][split] = self.sides[split]
        for k in range(self.members):
            model = {"name": f"m{k}", "predictions": {s: self.made[k, s] for s in self.splits}}
            if self.draw.random() < 0.3:
                model["flops"] = 10 ** self.draw.uniform(0, 12)
            manifest["models"].append(model)
        with open(self.path("pool.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        self.noted("pool.json")

    def make_classification(self):
        self.made, self.sides = {}, {}
        kind = self.draw.choice(("f2", "f4", "f8"))
        logits = self.draw.random() < 0.2
        for split in self.splits:
            labels = self.rng.integers(0, self.classes, self.rows)
            self.sides[split] = {"labels": self.write_array(f"{split}_labels", labels.astype(self.draw.choice(("u1", "i4", "i8")))),
                                 **self.side(split, self.rows)}
            for k in range(self.members):
                scores = self.rng.normal(size=(self.rows, self.classes)) * self.draw.choice((0.1, 1, 8))
                scores[np.arange(self.rows), labels] += self.draw.choice((0, 1, 3))
                values = scores if logits else softmax(scores)
                self.made[k, split] = self.write_array(f"m{k}.{split}", values.astype(kind))
        self.write_manifest(classes=self.classes, output="logit" if logits else "probability")

    def make_regression(self):
        self.made, self.sides = {}, {}
        outputs = self.draw.choice((1, 1, 2))
        for split in self.splits:
            targets = self.rng.normal(size=(self.rows, outputs)) * 10 ** self.draw.uniform(-3, 3)
            self.sides[split] = {"targets": self.write_array(f"{split}_targets", targets), **self.side(split, self.rows)}
            for k in range(self.members):
                values = targets + self.rng.normal(size=targets.shape) * self.draw.choice((0.1, 1, 5))
                self.made[k, split] = self.write_array(f"m{k}.{split}", values.astype("f4"))
        self.write_manifest(outputs=outputs)

    def make_segmentation(self):
        self.made, self.sides = {}, {}
        cases = min(self.rows, self.draw.choice((1, 3, 6)))
        shape = self.draw.choice(((4, 5), (9, 3), (2, 4, 3)))
        for split in self.splits:
            masks = self.rng.integers(0, self.classes, (cases, *shape)).astype("u1")
            self.sides[split] = {"labels": self.write_array(f"{split}_masks", masks)}
            for k in range(self.members):
                maps = softmax(self.rng.normal(size=(masks.size, self.classes)) + 2 * np.eye(self.classes)[masks.reshape(-1)])
                self.made[k, split] = self.write_array(f"m{k}.{split}", maps.reshape(*masks.shape, self.classes))
        self.write_manifest(classes=self.classes, layout="channels-last")

    def make_detection(self):
        self.made, self.sides = {}, {}
        images = min(self.rows, 12)
        for split in self.splits:
            truth = [{"id": n + 1, "image_id": 1 + n % images, "category_id": 1 + n % 2, "iscrowd": 0, "area": 400.0,
                      "bbox": [float(x) for x in self.rng.integers(0, 60, 2)] + [20.0, 20.0]} for n in range(2 * images)]
            document = {"images": [{"id": i + 1, "width": 100, "height": 100} for i in range(images)], "annotations": truth,
                        "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]}
            with open(self.path(f"{split}_truth.json"), "w", encoding="utf-8") as file:
                json.dump(document, file)
            self.sides[split] = {"annotations": self.noted(f"{split}_truth.json")}
            for k in range(self.members):
                boxes = [{"image_id": t["image_id"], "category_id": t["category_id"], "score": float(self.rng.random()),
                          "bbox": [t["bbox"][0] + float(self.rng.normal()), t["bbox"][1], 20.0, 20.0]}
                         for t in truth if self.rng.random() < 0.8]
                with open(self.path(f"m{k}.{split}.json"), "w", encoding="utf-8") as file:
                    json.dump(boxes, file)
                self.made[k, split] = self.noted(f"m{k}.{split}.json")
        self.write_manifest()

    def damage(self):
        """One file of the pool is spoilt. What was done, for the message of a failure."""
        name = self.draw.choice(self.files)
        path = self.path(name)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        how = self.draw.choice(("bytes", "bytes", "cut", "twice", "empty", "gone", "folder", "other", "digits", "repeat"))
        if how == "bytes":
            for _ in range(self.draw.randint(1, 8)):
                data[self.draw.randrange(len(data))] = self.draw.randrange(256)
        elif how == "cut":
            del data[self.draw.randrange(len(data)):]
        elif how == "twice":
            data += bytes(data)
        elif how == "digits":  # other sizes, counts and numbers, in headers and texts
            places = [i for i, b in enumerate(data[:4096]) if chr(b).isdigit()]
            for i in self.draw.sample(places, min(len(places), self.draw.randint(1, 4))):
                data[i] = ord(self.draw.choice("0123456789-."))
        elif how == "repeat":
            at = self.draw.randrange(len(data))
            data[at:at] = bytes(data[at:at + 16]) * self.draw.choice((10, 4000))
        elif how == "other":
            with open(self.path(self.draw.choice(self.files)), "rb") as file:
                data = file.read()
        os.remove(path)
        if how == "folder":
            os.mkdir(path)
        elif how != "gone":
            with open(path, "wb") as file:
                file.write(b"" if how == "empty" else data)
        return f"{how} {name}"


class Random(unittest.TestCase):
    table = options()
    ran = refused = 0

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-random-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def tree(self, folder):
        found = {}
        for parent, _, files in os.walk(folder):
            found[parent] = None
            for name in files:
                with open(os.path.join(parent, name), "rb") as file:
                    found[os.path.join(parent, name)] = file.read()
        return found

    def execute(self, arguments, limits=()):
        temporary = os.path.join(self.folder, "tmp")
        os.makedirs(temporary, exist_ok=True)

        def prepare():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for which, value in limits:
                resource.setrlimit(which, (value, value))

        self.trace.append(" ".join(arguments) + (f"   limits {limits}" if limits else ""))
        try:
            done = subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=ENDS_WITHIN, preexec_fn=prepare, check=False, cwd=self.place,
                                  env={**os.environ, "TMPDIR": temporary})
        except subprocess.TimeoutExpired:
            self.fail(f"does not end within {ENDS_WITHIN} s")
        type(self).ran += 1
        self.assertEqual(os.listdir(temporary), [], "files in TMPDIR")
        return done

    def judge(self, done, before, limited):
        """Whether it worked; what a failure has to look like is checked here."""
        error = done.stderr.decode()
        if limited and done.returncode == 127 and "error while loading shared libraries" in error:
            return False  # the tool did not start
        self.assertIn(done.returncode, (0, 1, 2, 3), error)
        if done.returncode == 0 or (done.returncode == 1 and done.stdout):
            return done.returncode == 0
        type(self).refused += 1
        if not limited:
            self.assertEqual(done.returncode, 2, error)
        self.assertEqual(done.stdout, b"", error)
        self.assertTrue(error.startswith("corestack") and error.endswith("\n") and error[:-1].isprintable(), error)
        self.assertEqual(set(before), set(self.tree(self.place)), "files that the failure left")
        self.assertEqual(before, self.tree(self.place), "files that the failure changed")
        return False

    def random_settings(self, draw):
        found = []
        for option in draw.sample(self.table, draw.choice((0, 0, 1, 2, 4))):
            kind = option["type"]
            if kind == "boolean":
                value = draw.choice(("true", "false"))
            elif kind in ("integer", "number", "real"):
                low, high = float(option.get("least", 0)), min(float(option.get("most", 100)), 200)
                value = draw.choice((low, high, draw.uniform(low, max(low, high)), -1, 0, 1))
                value = str(int(value)) if kind == "integer" else repr(value)
            else:
                value = draw.choice([*option.get("choices", []), option["default"], "nonsense"])
            found += ["--set", f"{option['key']}={value}"]
        return found

    def random_limits(self, draw):
        if SANITIZED or draw.random() < 0.7:
            return ()
        mebi = 1 << 20
        return (draw.choice(((resource.RLIMIT_AS, draw.randint(60, 900) * mebi), (resource.RLIMIT_DATA, draw.randint(8, 600) * mebi),
                             (resource.RLIMIT_NOFILE, draw.randint(3, 40)), (resource.RLIMIT_FSIZE, draw.randint(0, 65536)),
                             (resource.RLIMIT_STACK, draw.randint(128, 16384) * 1024))),)

    def check_json(self, text):
        def refuse(name):
            self.fail(f"{name} in JSON")

        return json.loads(text, parse_constant=refuse)

    def one_command(self, draw, pool):
        command = draw.choice(COMMANDS)
        source = "pool"
        out = "out" + draw.choice((".npy", ".csv", ""))
        model = "model.cstack"
        arguments = [command]
        if command == "folds":
            labels = draw.choice([f for f in pool.files if "label" in f or "target" in f or "mask" in f] or pool.files)
            arguments += ["--labels", f"pool/{labels}", "-o", out, "-L", str(draw.randint(1, 6))]
        elif command == "fit":
            arguments += [source, "-o", model, "--preset", draw.choice(("default", "compact", "best", "paper", "prototype"))]
        elif command in ("predict", "evaluate", "bound"):
            arguments += [model, source, "--split", draw.choice(pool.splits)]
            arguments += ["-o", out] if command == "predict" else []
        else:
            arguments += [source]
        if command in ("compare", "ablate", "sweep"):
            arguments += ["--resamples", str(draw.choice((0, 20)))]
        if command == "compare" and draw.random() < 0.6:
            arguments += ["--methods", "best-single,average,default"]
        if command == "sweep":
            arguments += ["--over", draw.choice(("keep.fraction=0.2:1:0.4", "pool.size=1:3:1", "seed=1,2"))]
        if command in ("fit", "inspect", "compare", "ablate", "sweep"):
            arguments += self.random_settings(draw)
        return arguments + ["--json", "--quiet"]

    def outputs(self, before):
        now = self.tree(self.place)
        return {path: data for path, data in now.items() if path not in before or before[path] != data}

    def again(self, arguments, before, made):
        """The same command with other threads and little memory: the same bytes."""
        for path in made:
            if made[path] is not None:
                os.remove(path)
            if path in before and before[path] is not None:
                with open(path, "wb") as file:
                    file.write(before[path])
        for path in sorted((p for p in made if made[p] is None and p not in before), reverse=True):
            os.rmdir(path)
        done = self.execute([*arguments, "--threads", "3", "--memory", "64MiB"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(self.outputs(before), made, "other bytes with other threads and memory")

    def check_predictions(self, task, made):
        for path, data in made.items():
            if not path.endswith(".npy") or not data:
                continue
            values = np.load(path)
            self.assertTrue(np.isfinite(values).all(), path)
            if task in ("classification", "segmentation") and values.ndim > 1:
                self.assertLess(np.abs(values.sum(axis=-1) - 1).max(initial=0), 1e-5, path)

    def one(self, number):
        draw = random.Random(number)
        self.trace = []
        self.place = os.path.join(self.folder, f"run{number}")
        os.makedirs(os.path.join(self.place, "pool"))
        try:
            pool = RandomPool(draw, os.path.join(self.place, "pool"))
            good = self.execute(["fit", "pool", "-o", "model.cstack", "--quiet", "--set", "folds.count=2"])
            self.judge_first(good)
            if draw.random() < 0.5:
                self.trace.append(pool.damage())
            for _ in range(draw.randint(1, 3)):
                self.one_step(draw, pool)
        except AssertionError as error:
            raise AssertionError(f"run {number}: " + " | ".join(self.trace) + f": {error}") from None
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    def judge_first(self, done):
        self.assertIn(done.returncode, (0, 2), done.stderr.decode())
        if done.returncode == 2:
            self.assertEqual(done.stderr.count(b"\n"), 1)
            with open(os.path.join(self.place, "model.cstack"), "wb") as file:
                file.write(b"no model")

    def one_step(self, draw, pool):
        arguments = self.one_command(draw, pool)
        limits = self.random_limits(draw)
        before = self.tree(self.place)
        done = self.execute(arguments, limits)
        if not self.judge(done, before, bool(limits)):
            return
        if not limits or limits[0][0] != resource.RLIMIT_FSIZE:
            self.check_json(done.stdout)
        made = self.outputs(before)
        self.check_predictions(pool.task if arguments[0] == "predict" else "", made)
        if draw.random() < 0.5:
            self.again(arguments, before, made)

    def test_runs(self):
        alone = os.environ.get("CORESTACK_RANDOM")
        if alone:
            self.one(int(alone))
            return
        start = time.monotonic()
        first = int(os.environ.get("CORESTACK_RANDOM_FIRST", "0"))
        for number in range(first, first + RUNS):
            if time.monotonic() - start > SECONDS:
                break
            with self.subTest(number=number):
                self.one(number)
        print(f"{type(self).ran} commands on {number - first + 1} random pools, {type(self).refused} refused")


if __name__ == "__main__":
    unittest.main()
