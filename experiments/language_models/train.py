"""Trains the networks that are not there yet: python3 train.py [NAME ...]."""
import os
import sys

import numpy as np
import torch

import models

TOKENS = 4_000_000  # of the training documents, other ones for every network

if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    for name in sys.argv[1:] or models.NETWORKS:
        if not (models.FOLDER / f"{name}.pth").exists():
            models.train(name, np.load(models.FOLDER / "train.npy"), TOKENS)
