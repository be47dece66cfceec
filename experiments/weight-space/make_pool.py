#!/usr/bin/python3
"""Mixes and samples the checkpoints of train.py with `corestack soup`, `swa` and `swag`, and writes the pool `weight_space`.

    nice experiments/weight-space/make_pool.py [--work FOLDER] [--out FOLDER] [--tool build/corestack]

What is done is not done again. The greedy soup is chosen on split `oof` alone; no other split is looked at
by anything that chooses. Paper: the weight-space baselines of the experiments.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

import network  # first: puts the other modules on the path
import common
import evaluate
import networks
import numpy as np
import splits
import torch
import train
import vision
from images import FASHION_CLASSES

SAMPLES, SCALE, DROPOUT_PASSES = 30, 0.5, 20


@dataclass
class Source:
    """A member made from weights: its name, the files whose predictions are averaged, passes with dropout on, and its tag."""
    name: str
    files: list
    passes: int = 1
    tag: dict = None


class Mixer:
    """Calls the tool on checkpoints; a result that exists for the same inputs and words is not made again."""
    def __init__(self, work, tool, quick):
        self.work, self.tool, self.quick = work, tool, quick
        self.predict = evaluate.predictor(work)
        self.folder = work / "mixed"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tunings = sorted((work / "checkpoints").glob("finetune_*.safetensors"))[:3 if quick else None]
        self.tail = sorted((work / "checkpoints").glob("tail_*.safetensors"))

    def make(self, name, words, inputs, more=()):
        """corestack WORDS INPUTS -o FOLDER/NAME MORE --json; its document is kept as NAME.json."""
        out, note = self.folder / name, self.folder / f"{name}.json"
        key = hashlib.sha256(json.dumps([words, [str(m) for m in more]]).encode())
        for path in inputs:
            key.update(path.read_bytes())
        if note.exists() and out.exists() and json.loads(note.read_text())["key"] == key.hexdigest():
            return json.loads(note.read_text())["document"]
        if out.is_dir():
            shutil.rmtree(out)
        call = [self.tool, *words, *map(str, inputs), "-o", str(out), *map(str, more), "--json", "--quiet"]
        print("corestack " + " ".join(words), file=sys.stderr, flush=True)
        began = time.perf_counter()
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(call)}: exit {done.returncode}")
        document = json.loads(done.stdout)
        note.write_text(json.dumps({"key": key.hexdigest(), "seconds": round(time.perf_counter() - began, 1),
                                    "document": document}, indent=1) + "\n")
        return document

    def chosen(self, kind, name, part=None):
        """A soup that is chosen on oof, or, to see how much its own score flatters it, on one half of oof."""
        labels = self.work / "images" / "oof.labels.npy"
        if part is not None:
            half = self.folder / f"oof.labels.{part}.npy"
            common.save(half, np.load(labels)[part::2])
            labels = half
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            place = pathlib.Path(folder) / "ask"
            listener.bind(str(place))
            listener.listen()
            threading.Thread(target=evaluate.serve, args=(listener, self.predict, part), daemon=True).start()
            program = f"'{sys.executable}' '{pathlib.Path(evaluate.__file__).resolve()}' --ask \"$CORESTACK_ASK\""
            os.environ["CORESTACK_ASK"] = str(place)  # not a part of the command, which the tool remembers
            self.make(f"{name}.safetensors", ["soup", kind], self.tunings,
                      ["--eval", program, "--labels", labels])
            listener.shutdown(socket.SHUT_RDWR)

    def run(self):
        self.make("soup_uniform.safetensors", ["soup", "uniform"], self.tunings)
        self.chosen("greedy", "soup_greedy")
        for part in (0, 1):
            self.chosen("greedy", f"half_{part}", part)
        self.make("swa.safetensors", ["swa"], self.tail)
        self.make("swag.safetensors", ["swag", "fit"], self.tail, ["--rank", len(self.tail) - 1])
        self.make("swag_samples", ["swag", "sample"], [self.folder / "swag.safetensors"],
                  ["-n", 3 if self.quick else SAMPLES, "--scale", SCALE])

    def sources(self):
        """All members that are made from weights."""
        def tag(kind, of, passes=1):
            return {"kind": kind, "of": of, "passes": passes}

        def checkpoints(pattern, kind=None):
            return [Source(path.stem, [path], 1, kind) for path in sorted((self.work / "checkpoints").glob(pattern))]

        samples = sorted((self.folder / "swag_samples").glob("*.safetensors"))
        mixed = {name: [self.folder / f"{name}.safetensors"] for name in ("soup_uniform", "soup_greedy", "swa")}
        return [*checkpoints("seed_*.safetensors", tag("deep-ensemble", "cnn")),
                *checkpoints("finetune_*.safetensors"),
                *checkpoints("snapshot_*.safetensors", tag("snapshot", "snapshots")),
                Source("dropout", [self.work / "checkpoints" / "seed_0.safetensors"], DROPOUT_PASSES,
                       tag("mc-dropout", "seed_0", DROPOUT_PASSES)),
                Source("soup_uniform", mixed["soup_uniform"]),
                Source("soup_greedy", mixed["soup_greedy"], 1, tag("soup", "start_0")), Source("swa", mixed["swa"]),
                Source("swag", samples, 1, tag("swag", "tail", len(samples)))]


def choices(mixer, data):
    """What the chosen soups hold, and how they do on the half of oof that they were not chosen on."""
    def document(name):
        return json.loads((mixer.folder / f"{name}.safetensors.json").read_text())["document"]

    labels, halves = data.splits["oof"].labels, []
    for part in (0, 1):
        p = mixer.predict(mixer.folder / f"half_{part}.safetensors", "oof")
        hits = p.argmax(axis=1) == labels
        halves.append({"own": float(hits[part::2].mean()), "other": float(hits[1 - part::2].mean())})
    share = np.mean([h["other"] for h in halves])
    greedy = document("soup_greedy")
    return {"files": len(mixer.tunings), "greedy": [pathlib.Path(path).stem for path in greedy["chosen"]],
            "halves": halves,
            "standard_error": float(np.sqrt(4 * share * (1 - share) / len(labels)))}


def predictions(source, data, predict, folder):
    """Predictions of a member by split, the mean over its files; kept in the folder as long as the files stay as they are."""
    key = hashlib.sha256(json.dumps([source.passes, len(source.files)]).encode())
    for path in source.files:
        key.update(path.read_bytes())
    note = folder / f"{source.name}.member.json"
    if note.exists() and json.loads(note.read_text())["key"] == key.hexdigest():
        return {name: np.load(folder / f"{source.name}.{name}.npy") for name in data.splits}
    began, found = time.process_time(), {}
    for name, split in data.splits.items():
        p = np.mean([predict(path, name, source.passes, i) for i, path in enumerate(source.files)], axis=0, dtype=np.float64)
        p = p.reshape(len(split.conditions), len(split.ids), -1).astype(np.float16) if split.conditions else p.astype(np.float32)
        found[name] = p
        common.save(folder / f"{source.name}.{name}.npy", p)
    seconds = round(time.process_time() - began, 1)
    note.write_text(json.dumps({"key": key.hexdigest(), "seconds": seconds}) + "\n")
    print(f"{source.name:18s} {seconds:7.1f} s to predict", flush=True)
    return found


def cost():
    """(FLOPs, parameters) of one pass, counted as networks.Network counts."""
    model = networks.Network(None, 0, 0)
    model.net, model.side = network.build().eval(), network.SIDE
    return model.cost()


def pool_of(mixer, data, folder):
    """The pool: everything made from weights of the one network, then the models of other kinds."""
    pool = common.Pool(FASHION_CLASSES, data.splits)
    pool.training_counts = np.bincount(data.y, minlength=len(FASHION_CLASSES))
    flops, params = cost()
    for source in mixer.sources():
        pool.members.append(common.Trained(source.name, "cnn", predictions(source, data, mixer.predict, folder), flops, params,
                                           source.tag))
    others = mixer.work / "others"
    for run in train.other_runs(1):
        for name in run.names:
            facts = json.loads((others / f"{name}.member.json").read_text())
            pool.members.append(vision.trained(others, name, run, data.splits, facts))
    return pool


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, default=network.FOLDER, help="what train.py has left")
    parser.add_argument("--out", type=pathlib.Path, default=common.default_folder("weight_space"))
    parser.add_argument("--tool", default=str(network.ROOT / "build" / "corestack"))
    parser.add_argument("--quick", action="store_true", help="fewer samples and candidates: to see that everything works")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mixer = Mixer(options.work, options.tool, options.quick)
    mixer.run()
    options.out.mkdir(parents=True, exist_ok=True)
    data = splits.read(options.work / "images")
    pool = pool_of(mixer, data, options.out)
    (options.out / "choices.json").write_text(json.dumps(choices(mixer, data), indent=1) + "\n")
    common.finish(options.out, pool)


if __name__ == "__main__":
    main()
