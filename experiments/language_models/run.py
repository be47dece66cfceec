#!/usr/bin/python3
"""A pool of language models: lists of their 256 likeliest tokens, fits on 256, 64 and 16 of them, and the same pool without lists.

    all.sh                        from the packages to figures.json and the table of docs/language-models.md
    run.py                        the same from trained models on; what is there already is kept
    run.py --members NAME...      only the lists of these models; several runs at a time may share the work
    run.py --page                 writes the table again from figures.json

CORESTACK_TOOL names the tool (build/corestack). All that is fitted is fitted on `oof`; `test` is scored.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import sentencepiece

import models

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = models.FOLDER
TOOL = os.environ.get("CORESTACK_TOOL", str(ROOT / "build" / "corestack"))
MEMBERS = [*models.GRAMS, *models.NETWORKS]
TOPS = (256, 64, 16)
SHAPES = {"k": (1024, 1020, 1), "l": (512, 448, 2), "t": (128, 96, 8)}  # by the first letter: context, stride, windows at a time


def sizes():
    """Bytes of text of each piece; of those that are not text 0."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(WORK / "pieces.model"))
    found = [1 if pieces.is_byte(i) else len(pieces.id_to_piece(i).replace("\u2581", " ").encode()) for i in range(models.SIZE)]
    return np.array([0 if pieces.is_control(i) or pieces.is_unknown(i) else n for i, n in enumerate(found)])


def cut(length):
    """Of each document so many tokens at most."""
    for split in ("oof", "test"):
        with np.load(WORK / f"{split}.npz") as held:
            tokens, number = held["tokens"], held["documents"]
        first = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
        kept = np.arange(len(number)) - first[number] < length
        np.savez(WORK / f"cut_{split}.npz", tokens=tokens[kept], documents=number[kept], bytes=sizes()[tokens[kept]].sum())


def write_member(name):
    context, stride, batch = SHAPES[name[0]]
    subprocess.run([sys.executable, "-m", "corestack.pool", "lm", WORK / "members" / name, "--classes", str(models.SIZE), "--top", str(TOPS[0]),
                    "--split", f"oof={WORK / 'cut_oof.npz'}", "--split", f"test={WORK / 'cut_test.npz'}", "--models", f"{name}={HERE / 'models.py'}:{name}",
                    "--context", str(context), "--stride", str(stride), "--batch-size", str(batch), "--dtype", "float32", "--threads", "1"],
                   check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", nargs="+", choices=MEMBERS)
    parser.add_argument("--length", type=int, default=400, help="tokens of each document, at most")
    a = parser.parse_args()
    if not (WORK / "cut_test.npz").exists():
        cut(a.length)
    for name in a.members or MEMBERS:
        write_member(name)


if __name__ == "__main__":
    main()
