#!/usr/bin/python3
"""Predictions of one candidate's weights: the program behind `corestack soup greedy|learned --eval`.

    experiments/weight-space/evaluate.py CANDIDATE.safetensors OUT.npy [--split oof] [--part 0|1]

Loads the file into the network, recomputes the batch-norm statistics on training images, and writes the probabilities of a
split's rows, float32 [rows, classes]. Stands between corestack's mixing of weights and its scoring of predictions.
"""
import argparse
import pathlib

import network
import numpy as np
import torch


def predictor(folder):
    """A function (path, split, passes) -> probabilities [images, classes] of a file's weights, which reads its images once."""
    images = {}

    def of(split, rows=None):
        if split not in images:
            images[split] = network.tensor(folder / "images", split, rows)
        return images[split]

    def predict(path, split, passes=1, seed=0):
        net = network.recompute(network.load(path), of("train", network.STATISTICS_ROWS))
        return network.probabilities(net, of(split), passes, seed)
    return predict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("candidate", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--split", default="oof")
    parser.add_argument("--part", type=int, choices=(0, 1), help="every second row only, from the first or the second on")
    parser.add_argument("--folder", type=pathlib.Path, default=network.FOLDER, help="what train.py has left")
    options = parser.parse_args()
    torch.set_num_threads(1)
    p = predictor(options.folder)(options.candidate, options.split)
    with open(options.out, "wb") as file:
        np.save(file, p if options.part is None else p[options.part::2])


if __name__ == "__main__":
    main()
