#!/usr/bin/env python3
"""Makes true out-of-fold pools from the classification tables of the R packages mlbench and modeldata: two to 26 classes.

The tables come from Debian's packages, without R (rdata.py). With --few there is also a pool NAME_few of six members, and
--members names others. Stands before corestack. Paper: the matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import common
import rdata

SIX = ["logistic", "lda", "extra_trees", "gradient_boosting", "svm_rbf", "mlp_a"]
SMALLEST_CLASS = 8  # rows; smaller classes are left out, since every fold needs several
MOST_TEST_ROWS = 2000


@dataclass
class Table:
    """A data frame: its name, the column of the labels, what is left out or limited, and its R package."""
    frame: str
    label: str
    ignored: tuple = ()
    limit: int = None
    without: tuple = ()
    package: str = "mlbench"


BIG = ("gaussian_process",)
TABLES = {
    "glass": Table("Glass", "Type"),
    "sonar": Table("Sonar", "Class"),
    "ionosphere": Table("Ionosphere", "Class"),
    "zoo": Table("Zoo", "type"),
    "votes": Table("HouseVotes84", "Class"),
    "cytology": Table("BreastCancer", "Class", ignored=("Id",)),
    "pima": Table("PimaIndiansDiabetes", "diabetes"),
    "vehicle": Table("Vehicle", "Class"),
    "soybean": Table("Soybean", "Class", without=BIG),
    "vowel": Table("Vowel", "Class", without=BIG),
    "satellite": Table("Satellite", "classes", limit=3000, without=BIG),
    "dna": Table("DNA", "Class", without=BIG),
    "letter": Table("LetterRecognition", "lettr", limit=4000, without=BIG),
    "attrition": Table("attrition", "Attrition", without=BIG, package="modeldata"),
    "cells": Table("cells", "class", ignored=("case",), without=BIG, package="modeldata"),
    "churn": Table("mlc_churn", "churn", ignored=("state",), limit=3000, without=BIG, package="modeldata"),
    "credit": Table("credit_data", "Status", limit=3000, without=BIG, package="modeldata"),
    "jobs": Table("hpc_data", "class", limit=3000, without=BIG, package="modeldata"),
}


def numbers(values):
    """The columns of one feature: as it is, as numbers if all its levels are numbers, else one 0/1 column for each level and
    one for missing values. Missing numbers are NaN."""
    if values.dtype != object:
        column = values.astype(np.float64)
        return [np.where(values == rdata.MISSING, np.nan, column) if values.dtype.kind == "i" else column]
    try:
        return [np.array([np.nan if v is None else float(v) for v in values])]
    except ValueError:
        texts = np.array([str(v) for v in values])
        return [(texts == level).astype(np.float64) for level in np.unique(texts)]


def load(name):
    """(features, labels, row numbers, class names) of a table, without rows that lack a number and without tiny classes."""
    table = TABLES[name]
    frame = rdata.columns(rdata.load(rdata.package(table.package), table.frame))
    labels = np.array([str(v) for v in frame.pop(table.label)])
    x = np.column_stack([c for key, values in frame.items() if key not in table.ignored for c in numbers(np.asarray(values))])
    kept = np.isfinite(x).all(axis=1)
    classes, counts = np.unique(labels[kept], return_counts=True)
    classes = classes[counts >= SMALLEST_CLASS]
    kept &= np.isin(labels, classes)
    x = x[:, x[kept].std(axis=0) > 0]
    return x[kept], np.searchsorted(classes, labels[kept]), np.flatnonzero(kept), classes.tolist()


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("data", choices=TABLES)
    parser.add_argument("--members", metavar="A,B,...", help="these members alone")
    parser.add_argument("--few", action="store_true", help="write also OUT_few with the members " + ", ".join(SIX))
    options = parser.parse_args()
    table = TABLES[options.data]
    x, y, ids, classes = load(options.data)
    test_rows = min(len(y) // 4, MOST_TEST_ROWS)
    members = common.classical_members(x.shape[1], options.seed, table.without)
    if options.members:
        wanted = options.members.split(",")
        unknown = set(wanted) - {m.name for m in members}
        if unknown:
            parser.error(f"no member {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in members)}")
        members = [m for m in members if m.name in wanted]
    pool = common.true_oof_pool(x, y, ids, classes, members, test_rows, options.seed, options.threads, table.limit)
    out = Path(options.out or common.default_folder(options.data))
    common.finish(out, pool)
    if options.few:
        common.finish(out.with_name(out.name + "_few"),
                      common.Pool(pool.classes, pool.splits, [m for m in pool.members if m.name in SIX]))


if __name__ == "__main__":
    main()
