#!/usr/bin/python3
"""Predictions of one candidate's weights: the program behind `corestack soup greedy|learned --eval`.

    experiments/weight-space/evaluate.py CANDIDATE.safetensors OUT.npy [--split oof] [--part 0|1]
    experiments/weight-space/evaluate.py CANDIDATE.safetensors OUT.npy --ask SOCKET

Loads the file into the network, recomputes the batch-norm statistics on training images, and writes the probabilities of a
split's rows, float32 [rows, classes]. With --ask, a process that has PyTorch loaded already (make_pool.py) does the same: most of
the time of one evaluation is that of starting. Stands between corestack's mixing of weights and its scoring of predictions.
"""
import argparse
import json
import pathlib
import socket
import sys


def predictor(folder):
    """A function (path, split, passes) -> probabilities [images, classes] of a file's weights, which reads its images once."""
    import network
    images = {}

    def of(split, rows=None):
        if split not in images:
            images[split] = network.tensor(folder / "images", split, rows)
        return images[split]

    def predict(path, split, passes=1, seed=0):
        net = network.recompute(network.load(path), of("train", network.STATISTICS_ROWS))
        return network.probabilities(net, of(split), passes, seed)
    return predict


def write(path, p, part):
    import numpy as np
    with open(path, "wb") as file:
        np.save(file, p if part is None else p[part::2])


def serve(listener, predict, part=None):
    """Answers requests [candidate, out] on a socket with what went wrong, or nothing, until the socket is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rw") as stream:
            try:
                candidate, out = json.loads(stream.readline())
                write(out, predict(candidate, "oof"), part)
                stream.write("")
            except Exception as error:  # whatever it is, the one who asked shall say it
                stream.write(repr(error))


def ask(path, candidate, out):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(json.dumps([str(candidate.resolve()), str(out.resolve())]).encode() + b"\n")
        connection.shutdown(socket.SHUT_WR)
        sys.exit(connection.makefile().read() or 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("candidate", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--split", default="oof")
    parser.add_argument("--part", type=int, choices=(0, 1), help="every second row only, from the first or the second on")
    parser.add_argument("--folder", type=pathlib.Path, help="what train.py has left (data/weight-space)")
    parser.add_argument("--ask", type=pathlib.Path, metavar="SOCKET", help="of make_pool.py")
    options = parser.parse_args()
    if options.ask:
        ask(options.ask, options.candidate, options.out)
    import network
    import torch
    torch.set_num_threads(1)
    write(options.out, predictor(options.folder or network.FOLDER)(options.candidate, options.split), options.part)


if __name__ == "__main__":
    main()
