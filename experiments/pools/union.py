#!/usr/bin/env python3
"""Makes true out-of-fold tabular pools with 20 or 40 classes from the union of MNIST and Fashion-MNIST.

The features are 16 principal components, as in the letter-like sets of the UCI collection; 40 classes add every class turned by
90 degrees. Stands before corestack. Paper: the matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
import numpy as np
from sklearn.decomposition import PCA

import common
from images import FASHION_CLASSES, load_fashion, load_mnist, shrink

OOF_ROWS, TEST_ROWS, COMPONENTS = 3500, 3500, 16


def union(classes, seed):
    """(features [N, 16], labels [N], ids [N], class names). The components are those of 5,000 rows that are then left
    out; an id is the row number in MNIST followed by Fashion-MNIST, whichever way the image is turned."""
    (digits, digit_labels), (clothes, clothes_labels) = load_mnist(), load_fashion()
    x = shrink(np.concatenate([digits, clothes]).astype(np.float32) / 255)
    y = np.concatenate([digit_labels, 10 + clothes_labels])
    names = [f"digit {c}" for c in range(10)] + FASHION_CLASSES
    order = np.random.default_rng(seed).permutation(len(y))
    if classes == 40:
        turned = order[: len(order) // 2]
        x[turned] = np.rot90(x[turned].reshape(-1, 14, 14), axes=(1, 2)).reshape(-1, 196)
        y[turned] += 20
        names += [f"{name}, turned" for name in names]
    apart, kept = np.split(np.random.default_rng(seed + 1).permutation(len(y)), [5000])
    features = PCA(COMPONENTS, random_state=seed).fit(x[apart]).transform(x[kept])
    return features, y[kept], kept, names


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, choices=(20, 40), default=20)
    options = parser.parse_args()
    x, y, ids, names = union(options.classes, options.seed)
    members = common.classical_members(COMPONENTS, options.seed, without=("gaussian_process",))
    pool = common.true_oof_pool(x, y, ids, names, members, TEST_ROWS, options.seed, options.threads, OOF_ROWS)
    common.finish(options.out or common.default_folder(f"union{options.classes}"), pool)


if __name__ == "__main__":
    main()
