#!/usr/bin/python3
"""Exports stacks of every example pool to ONNX, by every preset and method, and compares what onnxruntime computes with
`corestack predict`: at most 1e-6, of a regression in units of the targets' standard deviation.

    experiments/serving/onnx_check.py [--tool build/corestack] [--runtime DIR] [--pool NAME]... [--quick]

DIR has node_modules/onnxruntime-node (npm install --ignore-scripts onnxruntime-node). Without it npm fetches it into build/npm.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import onnx_numpy  # noqa: E402

PRESETS = ["default", "compact", "best", "paper", "prototype"]
EXTRA = {
    "classification": [["--metric", "mcc"], ["--metric", "f1-macro"], ["--cost-matrix", "COSTS"], *(["-m", "default+" + map] for map in ("temperature", "vector", "isotonic", "platt")),
                       ["-m", "greedy+isotonic"], ["-p", "paper", "-s", "probability.map=simplex"]],
    "regression": [["--target-transform", name] for name in ("log1p", "sqrt", "log")],
    "multilabel": [], "segmentation": [],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    parser.add_argument("--runtime", type=pathlib.Path)
    parser.add_argument("--pool", action="append")
    parser.add_argument("--quick", action="store_true", help="presets only")
    return parser.parse_args()


def runtime(given):
    folder = given or ROOT / "build" / "npm"
    if not (folder / "node_modules" / "onnxruntime-node").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, "onnxruntime-node"], check=True)
    return folder


def members(pool, split):
    """Each member's predictions [rows, columns] of a split, as they are in its file."""
    manifest = json.loads((pool / "pool.json").read_text())
    columns = len(manifest.get("classes") or manifest.get("outputs"))
    found = {}
    for model in manifest["models"]:
        if split not in model["predictions"]:
            continue
        data = np.load(pool / model["predictions"][split])
        if isinstance(data, np.lib.npyio.NpzFile):
            data = data[data.files[0]]
        data = np.asarray(data, np.float32)
        if manifest.get("layout") == "channels-first":
            data = np.moveaxis(data, 1, -1)
        found[model["name"]] = np.ascontiguousarray(data.reshape(-1, columns))
    return found, manifest


class Check:
    def __init__(self, tool, folder, node):
        self.tool, self.folder, self.node = tool, folder, node
        self.worst, self.count, self.failed = 0.0, 0, 0

    def run(self, *words):
        return subprocess.run([self.tool, *map(str, words)], capture_output=True, text=True)

    def one(self, name, pool, split, options):
        model, graph, out = self.folder / "m.cstack", self.folder / "m.onnx", self.folder / "p.npy"
        what = f"{name} {split} {' '.join(options)}"
        if "COSTS" in options:
            classes = len(json.loads((pool / "pool.json").read_text())["classes"])
            np.savetxt(self.folder / "costs.csv", 1 - np.eye(classes) + np.triu(np.ones((classes, classes)), 1), delimiter=",")
            options = [options[0], str(self.folder / "costs.csv")]
        fit = self.run("fit", pool, "-o", model, "-q", "-s", "evaluate.nested=false", *options)
        if fit.returncode != 0:
            print(f"  -       {what}: {fit.stderr.strip()[:90]}")
            return
        given, manifest = members(pool, split)
        logits = manifest.get("output") == "logit"
        exported = self.run("export", model, "--format", "onnx", "-o", graph, "-q", *(["--values", "logit"] if logits else []))
        predicted = self.run("predict", model, pool, "--split", split, "-o", out, "-q",
                            *(["--guard", "off"] if manifest["task"] in ("classification", "segmentation") else []))
        if exported.returncode or predicted.returncode:
            self.failed += 1
            print(f"  FAILED  {what}: {exported.stderr} {predicted.stderr}")
            return
        expected = np.load(out)
        if manifest["task"] == "segmentation":
            expected = np.moveaxis(expected, 1, -1) if manifest.get("layout") == "channels-first" and expected.shape[-1] != len(manifest["classes"]) else expected
        expected = expected.reshape(-1, next(iter(given.values())).shape[1]).astype(np.float64)
        proto = onnx.load(graph)
        onnx.checker.check_model(proto, full_check=True)
        feeds = {i.name: given[i.doc_string] for i in proto.graph.input}
        rows = min(len(expected), 20000)
        found = self.compute(graph, {k: v[:rows] for k, v in feeds.items()}, rows, expected.shape[1])
        own = onnx_numpy.run(proto, {k: v[:500] for k, v in feeds.items()})
        scale = 1.0
        if manifest["task"] == "regression":
            scale = np.load(pool / manifest["splits"]["oof"]["labels"]).std()
        off = np.abs(found - expected[:rows]).max() / scale
        numpy_off = np.abs(next(iter(own.values())) - expected[:500]).max() / scale
        if len(own) > 1:
            self.run("predict", model, pool, "--split", split, "-o", out, "-q", "--decide")
            other = (np.fromfile(self.folder / "out.i64", np.int64) != np.load(out)[:rows]).sum()
            self.failed += other > 0
            what += f": {other} of {rows} decisions differ"
        self.worst, self.count = max(self.worst, off), self.count + 1
        self.failed += not off <= 1e-6
        print(f"  {'ok' if off <= 1e-6 else 'FAILED':6}  {what}: {off:.1e} by onnxruntime, {numpy_off:.1e} by NumPy, {len(feeds)} inputs, "
              f"{len(proto.graph.node)} nodes, {graph.stat().st_size} bytes", flush=True)

    def compute(self, graph, feeds, rows, columns):
        inputs = []
        for number, (name, data) in enumerate(feeds.items()):
            file = self.folder / f"{number}.f32"
            data.tofile(file)
            inputs.append({"name": name, "file": str(file), "columns": data.shape[1]})
        job = {"model": str(graph), "rows": rows, "inputs": inputs, "out": str(self.folder / "out.f32"), "decisions": str(self.folder / "out.i64")}
        script = pathlib.Path(__file__).with_name("onnx_run.mjs")
        subprocess.run(["node", script, self.node], input=json.dumps(job), text=True, check=True, stdout=subprocess.PIPE)
        return np.fromfile(self.folder / "out.f32", np.float32).reshape(rows, columns)


def main():
    given = arguments()
    node = runtime(given.runtime).resolve()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(given.tool, pathlib.Path(folder), node)
        for pool in sorted((ROOT / "examples").iterdir()):
            if not (pool / "pool.json").exists() or (given.pool and pool.name not in given.pool):
                continue
            manifest = json.loads((pool / "pool.json").read_text())
            if manifest["task"] == "detection":
                continue
            options = [["-p", preset] for preset in PRESETS]
            if not given.quick:
                listed = check.run("compare", "--list-methods", "--json")
                methods = [m["name"] for m in json.loads(listed.stdout)["methods"]]
                options += [["-m", m] for m in methods if m not in PRESETS] + EXTRA[manifest["task"]]
            for each in options:
                check.one(pool.name, pool, "test", each)
    print(f"{check.count} graphs, {check.failed} failed, largest difference {check.worst:.1e}")
    return int(check.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
