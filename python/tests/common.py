"""What the tests share: the example pool as arrays, and the command-line tool."""
from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

logging.getLogger("corestack").addHandler(logging.NullHandler())  # notices about tiny data are not printed

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DIGITS = EXAMPLES / "digits"
QUICK = {"evaluate_nested": False}
FAST = ["--set", "evaluate.nested=false"]
# The tool built from the same sources; make test says where.
TOOL = os.environ.get("CORESTACK_TOOL", str(ROOT / "build" / "corestack"))

needs_tool = unittest.skipUnless(os.access(TOOL, os.X_OK), f"{TOOL} is not built")


def digits(folder=DIGITS):
    """(manifest, {member: oof}, {member: test}, labels, test labels, folds)"""
    manifest = json.loads((folder / "pool.json").read_text())
    oof = {m["name"]: np.load(folder / m["predictions"]["oof"]) for m in manifest["models"]}
    test = {m["name"]: np.load(folder / m["predictions"]["test"]) for m in manifest["models"]}
    folds = np.load(folder / "oof_folds.npy")
    return manifest, oof, test, np.load(folder / "oof_labels.npy"), np.load(folder / "test_labels.npy"), folds


@functools.cache
def small_digits(members=5, every=6):
    """The folder of a pool of some members of digits and of one in `every` rows. It is made once."""
    folder = Path(tempfile.mkdtemp(prefix="corestack-small-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    manifest = json.loads((DIGITS / "pool.json").read_text())
    manifest["models"] = manifest["models"][:: len(manifest["models"]) // members][:members]
    (folder / "pool.json").write_text(json.dumps(manifest))
    for files in (*manifest["splits"].values(), *(model["predictions"] for model in manifest["models"])):
        for name in files.values():
            np.save(folder / name, np.load(DIGITS / name)[::every])
    return folder


def run_tool(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def toy(rows=240, classes=3, members=4, seed=0):
    """Probabilities of members of differing quality, and labels."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, rows)
    preds = {}
    for k in range(members):
        logits = random.normal(size=(rows, classes))
        logits[np.arange(rows), y] += 0.5 + 0.5 * k
        p = np.exp(logits)
        preds[f"model{k}"] = (p / p.sum(axis=1, keepdims=True)).astype(np.float32)
    return preds, y


def toy_values(rows=200, outputs=2, members=4, seed=0):
    random = np.random.default_rng(seed)
    y = random.normal(size=(rows, outputs)) * np.array([1, 10])[:outputs]
    preds = {f"model{k}": y + random.normal(size=y.shape) * (0.3 + 0.2 * k) for k in range(members)}
    return preds, y


def without_times(document):
    """A report without what differs from run to run."""
    if isinstance(document, dict):
        return {k: without_times(v) for k, v in document.items() if k not in ("seconds", "seconds_scored", "peak_rss_bytes")}
    if isinstance(document, list):
        return [without_times(v) for v in document]
    return document


def printed(*arguments):
    """The report that the tool prints."""
    return without_times(json.loads(run_tool(*arguments, "--json")))


class Folder(unittest.TestCase):
    """Tests with a folder of their own, `path`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name)
