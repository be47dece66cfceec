"""Running the tool, and small pools made on the spot."""

import atexit
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

import numpy as np

import json_page

TOOL = os.environ["CORESTACK_TOOL"]
SOURCES = os.environ["CORESTACK_SOURCES"]
DIGITS = os.path.join(SOURCES, "examples", "digits", "pool.json")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in a shell's background job; what is started would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)
TIMEOUT = 300  # seconds; under sanitizers a fit of the example takes a while


def slow(test):
    """Marks a test that takes more than two seconds: `make test` leaves it to `make check`."""
    test.slow = True
    return test


class Result:
    def __init__(self, finished):
        self.code = finished.returncode
        self.out = finished.stdout.decode()
        self.err = finished.stderr.decode()

    def json(self):
        return json.loads(self.out)


def run(*arguments, file_limit=None, stdout=subprocess.PIPE, env=None, cwd=None, data=None):
    """Runs the tool. file_limit: largest file it may write, in bytes. data: what standard input, a pipe, has (else it is empty)."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

    if file_limit is not None and "GCOV_ERROR_FILE" in os.environ:
        # Counts of coverage, cut off by the limit, would spoil those of other runs.
        env = {"GCOV_PREFIX": tempfile.gettempdir() + "/corestack-cut-off", **(env or {})}
    finished = subprocess.run(
        [TOOL, *[str(a) for a in arguments]],
        **({"stdin": subprocess.DEVNULL} if data is None else {"input": data}),
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        preexec_fn=limit if file_limit is not None else None,  # starting a process with one takes much longer
        env={**os.environ, **(env or {})},
        cwd=cwd,
        check=False,
    )
    if finished.stdout is None:
        finished.stdout = b""
    if "--json" in arguments and finished.returncode == 0 and finished.stdout.startswith(b"{"):
        document = json.loads(finished.stdout)
        undescribed = json_page.unknown(document, document.get("command", ""))
        assert not undescribed, f"docs/json.txt does not say what these keys are: {undescribed}"
    return Result(finished)


def heed(numbers):
    """In a child: these signals act as usual. A shell's background jobs ignore SIGINT, and so would what they start."""
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of SIGQUIT


def nameless(folder):
    """Whether the file system of a folder has files without a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600))
    except (AttributeError, OSError):
        return False
    return os.path.exists("/proc/self/fd")


def softmax(scores):
    scores = scores - scores.max(axis=1, keepdims=True)
    e = np.exp(scores)
    return (e / e.sum(axis=1, keepdims=True)).astype(np.float32)


def sample(rows, classes, seed, skill=2.0, labels=None):
    """Labels and one member's probabilities that know something of them."""
    rng = np.random.default_rng(seed)
    if labels is None:
        labels = rng.permutation(np.arange(rows) % classes).astype(np.int32)
    scores = rng.normal(size=(rows, classes))
    scores[np.arange(rows), labels] += skill
    return labels, softmax(scores)


@functools.cache
def small(example, members=5, every=6):
    """The manifest of a pool made of some members of an example and of one in `every` rows or images. It is made once."""
    home = os.path.join(SOURCES, "examples", example)
    folder = tempfile.mkdtemp(prefix="corestack-small-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(os.path.join(home, "pool.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    models = manifest["models"]
    manifest["models"] = models = models[:: max(1, len(models) // members)][:members]
    files = [name for split in manifest["splits"].values() for name in split.values()]
    files += [name for model in models for name in model["predictions"].values()]
    for name in files:
        thin(os.path.join(home, name), os.path.join(folder, name), every)
    path = os.path.join(folder, "pool.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return path


def thin(source, path, every):
    """Copies some rows of a file, or the boxes of some images."""
    if source.endswith(".npy"):
        np.save(path, np.load(source)[::every])
    elif source.endswith(".npz"):
        np.savez(path, np.load(source)["arr_0"][::every])
    else:
        with open(source, encoding="utf-8") as file:
            content = json.load(file)
        if isinstance(content, list):
            content = [box for box in content if box["image_id"] % every == 0]
        else:
            content["images"] = [image for image in content["images"] if image["id"] % every == 0]
            content["annotations"] = [box for box in content["annotations"] if box["image_id"] % every == 0]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


class PoolCase(unittest.TestCase):
    """A case with a temporary folder that holds a pool of three members, two splits and ids."""

    rows, test_rows, classes = 120, 60, 3

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-cli-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.labels = {}
        self.members = {}
        for split, rows, seed in (("oof", self.rows, 1), ("test", self.test_rows, 2)):
            labels, _ = sample(rows, self.classes, seed)
            self.labels[split] = labels
            self.save(f"{split}_labels.npy", labels)
            for k, name in enumerate(("ada", "bob", "cyd")):
                _, predictions = sample(rows, self.classes, 10 * seed + k, 1.5 + k / 2, labels)
                self.members[name, split] = predictions
                self.save(f"{name}.{split}.npy", predictions)
        self.manifest = {
            "corestack_pool": 1,
            "task": "classification",
            "classes": self.classes,
            "output": "probability",
            "splits": {
                "oof": {"labels": "oof_labels.npy"},
                "test": {"labels": "test_labels.npy"},
            },
            "models": [
                {"name": name, "predictions": {s: f"{name}.{s}.npy" for s in ("oof", "test")}}
                for name in ("ada", "bob", "cyd")
            ],
        }
        self.pool = self.path("pool.json")
        self.model = self.path("model.cstack")
        self.write_manifest()

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, name, array):
        np.save(self.path(name), array)
        return self.path(name)

    def write_manifest(self):
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(self.manifest, file)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def listing(self):
        return sorted(os.listdir(self.folder))

    def works(self, *arguments, **keywords):
        result = run(*arguments, **keywords)
        self.assertEqual(result.code, 0, result.err)
        return result

    def fails(self, *arguments, says=(), code=2, **keywords):
        """The command fails with one line on stderr that holds every text of `says`, prints
        nothing and leaves the folder as it was."""
        before = self.listing()
        result = run(*arguments, **keywords)
        self.assertEqual(result.code, code, result.err or result.out)
        self.assertEqual(result.out, "")
        self.assertEqual(result.err.count("\n"), 1, result.err)
        self.assertTrue(result.err.startswith("corestack"), result.err)
        for text in says:
            self.assertIn(text, result.err)
        self.assertEqual(self.listing(), before)
        return result

    def fit(self, *more, nested=False, **keywords):
        """A model of the pool. nested: also with nested scores, which take five times as long."""
        quick = () if nested or any("evaluate.nested" in str(word) for word in more) else ("--set", "evaluate.nested=false")
        return self.works("fit", self.pool, "-o", self.model, *quick, *more, **keywords)

    def fit_fails(self, *says, **keywords):
        return self.fails("fit", self.pool, "-o", self.model, says=says, **keywords)

    def make_maps(self, cases, side):
        """Instead of that pool: one of maps of two members, with `cases` squares, and a model of it."""
        rng = np.random.default_rng(3)
        masks = rng.integers(0, 3, (cases, side, side)).astype(np.int32)
        self.save("masks.npy", masks)
        for name in "ab":
            scores = rng.random((cases, side, side, 3)) + np.eye(3)[masks]
            self.save(f"{name}.npy", (scores / scores.sum(-1, keepdims=True)).astype(np.float32))
        self.manifest = {
            "corestack_pool": 1, "task": "segmentation", "classes": 3, "splits": {"oof": {"labels": "masks.npy"}},
            "models": [{"name": n, "predictions": {"oof": f"{n}.npy"}} for n in "ab"],
        }
        self.write_manifest()
        self.fit("--preset", "prototype")
