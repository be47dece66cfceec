#!/usr/bin/python3
"""Typical mistakes and what the tool does about each: the table in docs/mistakes.md, and every message in mistakes.txt.

    tests/cli/mistakes.py          runs all of them and prints the table
    tests/cli/mistakes.py --write  writes both

Each mistake is one command on small files that are made here. Its outcome is an error (exit status 2), a notice, or right:
then the result equals that of the same data without the mistake, which `check` says.
"""

import gzip
import json
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("CORESTACK_TOOL", os.path.join(ROOT, "build-gcc", "corestack"))
os.environ.setdefault("CORESTACK_SOURCES", ROOT)

import numpy as np  # noqa: E402
from golden import difference  # noqa: E402
from support import SOURCES, run  # noqa: E402

PAGE = os.path.join(SOURCES, "docs", "mistakes.md")
ANSWERS = os.path.join(SOURCES, "tests", "cli", "mistakes.txt")
HEAD = """# Typical mistakes

What the tool does with data or commands that are not what they seem to be. An error has exit status 2, and nothing is
written. A notice is part of the report, and the command goes on. "Right" means that the result is that of the same data
without the oddity. Messages are shortened here; the tool also says what to do. `tests/cli/mistakes.py --write` generates
this page.

| | mistake | outcome | what the tool says |
|---|---|---|---|
"""

ROWS = 300
CLASSES = ("cat", "dog", "newt")
FIT = ("fit", "--labels", "y.npy", "a.npy", "b.npy", "c.npy", "-o", "m.cstack", "--set", "evaluate.nested=false")
FIT_CSV = ("fit", "--labels", "y.csv", "a.csv", "b.csv", "c.csv", "-o", "m.cstack", "--set", "evaluate.nested=false")
VALUES = ("--task", "regression")


# ---- the data without a mistake ----


def labels():
    return np.random.default_rng(1).integers(0, 3, ROWS)


def member(seed, skill=1.5, truth=None):
    """Probabilities of a member that is right in three of four rows."""
    truth = labels() if truth is None else truth
    classes = int(truth.max()) + 1
    scores = np.random.default_rng(seed).normal(size=(len(truth), classes))
    scores[np.arange(len(truth)), truth] += skill
    p = np.exp(1.2 * scores)
    return p / p.sum(axis=1, keepdims=True)


def zeros(seed):
    """The same with a probability of 0 in some rows."""
    p = member(seed)
    p[::7, seed % 3] = 0
    return p / p.sum(axis=1, keepdims=True)


def targets():
    return np.exp(np.random.default_rng(2).normal(3, 0.7, ROWS))


def values(seed, noise=6.0):
    return targets() + np.random.default_rng(seed).normal(scale=noise, size=ROWS)


def ids():
    return [f"s{i:04d}" for i in range(ROWS)]


def pool(**changed):
    """npy files of a classification; `changed` replaces some."""
    files = {"y": labels(), "a": member(11), "b": member(12), "c": member(13), **changed}
    for name, array in files.items():
        np.save(f"{name}.npy", array)


def table(path, header, *columns, separator=",", end="\n"):
    """A csv of columns: lists, or arrays of one or two dimensions."""
    cells = []
    for column in columns:
        wide = np.asarray(column)
        cells += list(wide.T) if wide.ndim == 2 else [wide]
    with open(path, "w", encoding="utf-8", newline="") as file:
        if header is not None:
            file.write(separator.join(header) + end)
        for row in zip(*cells):
            file.write(separator.join(cell if isinstance(cell, str) else repr(cell.item()) for cell in row) + end)


def tables(**changed):
    """csv files of the classification with ids; `changed` replaces a member's (header, columns...)."""
    table("y.csv", ["id", "label"], ids(), labels())
    for seed, name in enumerate("abc", 11):
        table(f"{name}.csv", *changed.get(name, (["id", *CLASSES], ids(), member(seed))))


def value_tables(**changed):
    """csv files of a regression."""
    table("y.csv", *changed.get("y", (["id", "target"], ids(), targets())))
    for seed, name in enumerate("abc", 11):
        table(f"{name}.csv", *changed.get(name, (["id", "prediction"], ids(), values(seed))))


def value_pool(**changed):
    files = {"y": targets(), "a": values(11), "b": values(12), "c": values(13), **changed}
    for name, array in files.items():
        np.save(f"{name}.npy", array)


def manifest(**changed):
    """A manifest with costs and two splits."""
    pool()
    for name, seed in (("a", 21), ("b", 22), ("c", 23)):
        np.save(f"{name}_test.npy", member(seed, truth=labels()[:60]))
    models = [
        {"name": n, "flops": f, "latency_ms": f, "predictions": {"oof": f"{n}.npy", "test": f"{n}_test.npy"}}
        for n, f in (("a", 4.0), ("b", 2.0), ("c", 3.0))
    ]
    document = {"corestack_pool": 1, "task": "classification", "classes": 3, "output": "probability", "models": models,
                "splits": {"oof": {"labels": "y.npy"}, "test": {}}}
    document.update(changed)
    with open("pool.json", "w", encoding="utf-8") as file:
        json.dump(document, file)


def same_as(make, command):
    """A check that a fit equals that of other data."""

    def check(document):
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                make()
                other = run(*command, "--json").json()
            finally:
                os.chdir(before)
        scores = [[(m["name"], m.get("nll", m.get("rmse"))) for m in d["members"]] for d in (document, other)]
        return document["kept"] == other["kept"] and scores[0] == scores[1]

    return check


# ---- the mistakes ----

LIST = []


def mistake(title, outcome, command=FIT, check=None):
    def add(make):
        LIST.append((title, outcome, command, make, check))
        return make

    return add


CLEAN = same_as(tables, FIT_CSV)
CLEAN_VALUES = same_as(value_tables, (*FIT_CSV, *VALUES))


@mistake("labels are numbered from 1", "error")
def _():
    pool(y=labels() + 1)


@mistake("the rows of the labels are in another order than those of the predictions", "error")
def _():
    pool(y=np.random.default_rng(3).permutation(labels()))


@mistake("the labels are one row off, since a header line was counted", "error")
def _():
    pool(y=np.roll(labels(), 1))


@mistake("the labels number the classes in another order than the predictions", "error")
def _():
    pool(y=np.array([2, 0, 1])[labels()])


@mistake("there is one label more than there are predictions", "error")
def _():
    pool(y=np.append(labels(), 0))


@mistake("the labels are one-hot rows", "error")
def _():
    pool(y=np.eye(3)[labels()])


@mistake("the labels are measurements, and the task is not given", "error")
def _():
    pool(y=targets())


@mistake("the labels are names, and no file says which column is which", "notice")
def _():
    pool(y=np.array(CLASSES)[labels()])


@mistake("the labels are names, and `--class-names cat,dog,newt` gives the order of the columns", "right",
         (*FIT, "--class-names", "cat,dog,newt"), same_as(pool, FIT))
def _():
    pool(y=np.array(CLASSES)[labels()])


@mistake("a label is missing in a csv file", "error", FIT_CSV)
def _():
    tables()
    table("y.csv", ["id", "label"], ids(), [*map(str, labels()[:-1]), ""])


@mistake("predictions in percent", "error")
def _():
    pool(b=100 * member(12))


@mistake("logits, and nothing says so", "error")
def _():
    pool(a=3 * np.log(member(11)) + 1, b=3 * np.log(member(12)) + 1, c=3 * np.log(member(13)) + 1)


@mistake("log-probabilities, and nothing says so", "error")
def _():
    pool(b=np.log(member(12)))


@mistake("probabilities that are declared to be logits", "error", (*FIT, "--values", "logit"))
def _():
    pool()


@mistake("percentages that are declared to be logits", "error", (*FIT, "--values", "logit"))
def _():
    pool(a=100 * member(11), b=100 * member(12), c=100 * member(13))


@mistake("predicted classes instead of probabilities", "error")
def _():
    pool(b=member(12).argmax(axis=1))


@mistake("independent scores between 0 and 1 that do not sum to 1", "error")
def _():
    pool(b=np.sqrt(member(12)))


@mistake("rows of NaN, where a model failed", "error")
def _():
    p = member(12)
    p[[7, 80]] = np.nan
    pool(b=p)


@mistake("rows of NaN with `--missing allow`", "notice", (*FIT, "--missing", "allow"))
def _():
    p = member(12)
    p[[7, 80]] = np.nan
    pool(b=p)


@mistake("predictions of the test rows instead of the out-of-fold rows", "error")
def _():
    pool(b=member(12)[:90])


@mistake("an id column with another name than id, for regression", "right", (*FIT_CSV, *VALUES), CLEAN_VALUES)
def _():
    value_tables(**{n: (["customer_id", "prediction"], ids(), values(s)) for s, n in enumerate("abc", 11)})


@mistake("a column of numbers with an unknown name next to regression predictions", "error", (*FIT_CSV, *VALUES))
def _():
    value_tables(**{n: (["customer", "amount"], np.arange(1000, 1000 + ROWS), values(s)) for s, n in enumerate("abc", 11)})


@mistake("files of `fold,y_true,y_pred`", "right", (*FIT_CSV, *VALUES), same_as(value_pool, (*FIT, *VALUES)))
def _():
    value_tables(y=(["target"], targets()), **{n: (["fold", "y_true", "y_pred"], np.arange(ROWS) % 5, targets(), values(s)) for s, n in enumerate("abc", 11)})


@mistake("a table of several columns as labels", "error", (*FIT_CSV, *VALUES))
def _():
    value_tables(y=(["id", "age", "price", "rooms"], ids(), np.arange(ROWS) % 40, targets(), np.arange(ROWS) % 5))


@mistake("the same with `--label-column price`", "right", (*FIT_CSV, *VALUES, "--label-column", "price"), CLEAN_VALUES)
def _():
    value_tables(y=(["id", "age", "price", "rooms"], ids(), np.arange(ROWS) % 40, targets(), np.arange(ROWS) % 5))


@mistake("a first column of ids without a header", "error", FIT_CSV)
def _():
    tables(b=(None, np.arange(5000, 5000 + ROWS), member(12)))
    table("y.csv", ["label"], labels())
    table("a.csv", None, member(11))
    table("c.csv", None, member(13))


@mistake("the classes are in another order in one csv file", "right", FIT_CSV, CLEAN)
def _():
    tables(b=(["id", "newt", "cat", "dog"], ids(), member(12)[:, [2, 0, 1]]))


@mistake("one csv file names other classes", "error", FIT_CSV)
def _():
    tables(b=(["id", "cat", "dog", "bird"], ids(), member(12)))


@mistake("the rows of one csv file are in another order, with ids", "right", FIT_CSV, CLEAN)
def _():
    order = np.random.default_rng(4).permutation(ROWS)
    tables(b=(["id", *CLASSES], [ids()[i] for i in order], member(12)[order]))


@mistake("a csv file lacks some ids", "error", FIT_CSV)
def _():
    tables(b=(["id", *CLASSES], ids()[:-20], member(12)[:-20]))


@mistake("an id is there twice", "error", FIT_CSV)
def _():
    tables(b=(["id", *CLASSES], [*ids()[:-1], "s0007"], member(12)))


@mistake("a spreadsheet cut the zeros at the front of the ids", "error", FIT_CSV)
def _():
    tables(b=(["id", *CLASSES], np.arange(ROWS), member(12)))
    table("y.csv", ["id", "label"], [f"{i:05d}" for i in range(ROWS)], labels())
    for seed, name in ((11, "a"), (13, "c")):
        table(f"{name}.csv", ["id", *CLASSES], [f"{i:05d}" for i in range(ROWS)], member(seed))


@mistake("semicolons and decimal commas", "error", FIT_CSV)
def _():
    tables()
    table("b.csv", ["id", *CLASSES], ids(), [[f"{v:.6f}".replace(".", ",") for v in row] for row in member(12)], separator=";")


@mistake("a byte order mark and the line ends of Windows", "right", FIT_CSV, CLEAN)
def _():
    tables()
    table("b.csv", ["\ufeffid", *CLASSES], ids(), member(12), end="\r\n")


@mistake("a last line with a total", "error", FIT_CSV)
def _():
    tables()
    with open("b.csv", "a", encoding="utf-8") as file:
        file.write("total," + ",".join(repr(float(v)) for v in member(12).sum(axis=0)) + "\n")


@mistake("one wide file with all models", "right", ("fit", "wide.csv", *VALUES, "-o", "m.cstack", "--set", "evaluate.nested=false"), CLEAN_VALUES)
def _():
    table("wide.csv", ["id", "y", "a", "b", "c"], ids(), targets(), values(11), values(12), values(13))


@mistake("a csv.gz file", "right", ("fit", "--labels", "y.csv", "a.csv", "b.csv.gz", "c.csv", *FIT_CSV[6:]), CLEAN)
def _():
    tables()
    with open("b.csv", "rb") as file, gzip.open("b.csv.gz", "wb") as packed:
        packed.write(file.read())


@mistake("a parquet file", "error", ("fit", "--labels", "y.npy", "a.npy", "b.parquet", *FIT[6:]))
def _():
    pool()
    with open("b.parquet", "wb") as file:
        file.write(b"PAR1" + bytes(64) + b"PAR1")


@mistake("a pickle file", "error", ("fit", "--labels", "y.npy", "a.npy", "b.pkl", *FIT[6:]))
def _():
    pool()
    with open("b.pkl", "wb") as file:
        file.write(b"\x80\x04\x95" + bytes(64))


@mistake("a member that saw the labels in training: right on every row", "notice")
def _():
    pool(b=member(12, skill=9))


@mistake("a member that is the labels", "error")
def _():
    pool(b=np.eye(3)[labels()])


@mistake("a member that is the target, for regression", "error", (*FIT, *VALUES))
def _():
    value_pool(b=targets())


@mistake("a member that is the row number, for regression", "notice", (*FIT, *VALUES))
def _():
    value_pool(b=np.arange(ROWS, dtype=float))


@mistake("two class columns of a member are swapped", "notice")
def _():
    pool(b=member(12)[:, [1, 0, 2]])


@mistake("the rows of a member are in another order", "notice")
def _():
    pool(b=np.random.default_rng(6).permutation(member(12)))


@mistake("a member predicts the other class of two", "notice", ("fit", "--labels", "y.npy", "a.npy", "b.npy", "c.npy", *FIT[6:]))
def _():
    truth = np.minimum(labels(), 1)
    pool(y=truth, a=member(11, truth=truth)[:, 1], b=member(12, truth=truth)[:, 0], c=member(13, truth=truth)[:, 1])


@mistake("the same predictions under two names", "notice")
def _():
    pool(c=member(12))


@mistake("a member with one prediction for all rows", "notice")
def _():
    pool(b=np.tile([0.2, 0.5, 0.3], (ROWS, 1)))


@mistake("a member predicts the logarithm of the target", "notice", (*FIT, *VALUES))
def _():
    value_pool(b=np.log(np.maximum(values(12), 1)))


@mistake("regression: the targets are shuffled", "error", (*FIT, *VALUES))
def _():
    value_pool(y=np.random.default_rng(7).permutation(targets()))


@mistake("folds that split groups", "notice", (*FIT, "--folds", "folds.npy", "--groups", "groups.npy"))
def _():
    pool(folds=np.arange(ROWS) % 5, groups=np.arange(ROWS) // 3)


@mistake("a class that the model of one fold did not know", "notice", (*FIT, "--folds", "folds.npy"))
def _():
    folds = np.arange(ROWS) % 5
    p = member(12)
    p[folds == 0, 2] = 0
    pool(folds=folds, b=p / p.sum(axis=1, keepdims=True))


@mistake("one row with nearly all of the weight", "notice", (*FIT, "--weights", "w.npy"))
def _():
    pool(w=np.where(np.arange(ROWS) == 7, 1e7, 1.0))


@mistake("labels of scored rows numbered from another class", "notice", ("evaluate", "a.npy", "--labels", "y.npy"))
def _():
    pool(y=(labels() + 1) % 3)


@mistake("folds of -1 for rows without out-of-fold predictions", "error", (*FIT, "--folds", "folds.npy"))
def _():
    pool(folds=np.maximum(np.arange(ROWS) // 50 - 1, -1))


@mistake("the same with `--missing allow`", "notice", (*FIT, "--folds", "folds.npy", "--missing", "allow"))
def _():
    pool(folds=np.maximum(np.arange(ROWS) // 50 - 1, -1))


@mistake("a budget that no member meets", "error", ("fit", "pool.json", "-o", "m.cstack", "--set", "keep.max_latency=1"))
def _():
    manifest()


@mistake("a budget, and no member has a cost", "error", (*FIT, "--set", "keep.max_latency=1"))
def _():
    pool()


@mistake("a split with a misspelt name", "error", ("predict", "m.cstack", "pool.json", "--split", "tset", "-o", "out.npy"))
def _():
    manifest()
    run("fit", "pool.json", "-o", "m.cstack", "--set", "evaluate.nested=false")


@mistake("a prediction without a member that the model needs", "error", ("predict", "m.cstack", "b.npy", "c.npy", "-o", "out.npy"))
def _():
    pool()
    run(*FIT, "--set", "refit.drop=false")


@mistake("the same with `--missing allow`", "notice", ("predict", "m.cstack", "b.npy", "c.npy", "-o", "out.npy", "--missing", "allow"))
def _():
    pool()
    run(*FIT, "--set", "refit.drop=false")


@mistake("scores on the fit rows", "notice", ("evaluate", "m.cstack", "pool.json", "--split", "oof"))
def _():
    manifest()
    run("fit", "pool.json", "-o", "m.cstack", "--set", "evaluate.nested=false")


@mistake("files `oof_NAME.csv` with the labels in a column, and no option", "right", ("fit", "oof_a.csv", "oof_b.csv", "oof_c.csv", *FIT[6:]), CLEAN)
def _():
    names = np.array(CLASSES)[labels()]
    for seed, name in enumerate("abc", 11):
        table(f"oof_{name}.csv", ["id", "target", *CLASSES], ids(), names, member(seed))


@mistake("the label column has another name, and `--label-column` names it", "right",
         ("fit", "a.csv", "b.csv", "c.csv", *FIT[6:], "--label-column", "species"), CLEAN)
def _():
    names = np.array(CLASSES)[labels()]
    for seed, name in enumerate("abc", 11):
        table(f"{name}.csv", ["id", "species", *CLASSES], ids(), names, member(seed))


@mistake("a prediction of files `sub_NAME.csv` after a fit of `oof_NAME.csv`, with an empty label column", "right",
         ("predict", "m.cstack", "sub_a.csv", "sub_b.csv", "sub_c.csv", "-o", "out.npy"), lambda document: document["samples"] == ROWS)
def _():
    tables()
    for seed, name in enumerate("abc", 11):
        os.rename(f"{name}.csv", f"oof_{name}.csv")
        table(f"sub_{name}.csv", ["id", "target", *CLASSES], ids(), [""] * ROWS, member(seed))
    run("fit", "--labels", "y.csv", "oof_a.csv", "oof_b.csv", "oof_c.csv", *FIT[6:])


@mistake("a wide test table whose label column is empty", "notice", ("predict", "m.cstack", "test.csv", "-o", "out.npy"))
def _():
    columns = values(11), values(12), values(13)
    table("wide.csv", ["id", "y", "a", "b", "c"], ids(), targets(), *columns)
    table("test.csv", ["id", "y", "a", "b", "c"], ids(), [""] * ROWS, *columns)
    run("fit", "wide.csv", *VALUES, "-o", "m.cstack", "--set", "evaluate.nested=false")


@mistake("log-probabilities with -inf for probabilities of 0, and `--values logit`", "right", (*FIT, "--values", "logit"),
         same_as(lambda: pool(**{n: zeros(s) for s, n in enumerate("abc", 11)}), FIT))
def _():
    with np.errstate(divide="ignore"):
        pool(**{n: np.log(zeros(s)) for s, n in enumerate("abc", 11)})


@mistake("one target is -999 where the value is not known", "notice", (*FIT, *VALUES))
def _():
    value_pool(y=np.where(np.arange(ROWS) == 5, -999.0, targets()))


@mistake("one label of text is `nan`", "error", ("fit", "--labels", "y.csv", "a.npy", "b.npy", "c.npy", *FIT[6:]))
def _():
    pool()
    table("y.csv", ["label"], [*np.array(CLASSES)[labels()][:-1], "nan"])


@mistake("several labels for one row", "error")
def _():
    pool(y=(np.random.default_rng(5).random((ROWS, 3)) < 0.5).astype(int))


@mistake("a csv file has no column for one of three classes", "error", FIT_CSV)
def _():
    tables(b=(["id", "cat", "newt"], ids(), member(12)[:, [0, 2]]))


@mistake("accents in the ids of one file are separate characters (Unicode NFD)", "error", FIT_CSV)
def _():
    tables(b=(["id", *CLASSES], [f"e\u0301{i}" for i in ids()], member(12)))
    table("y.csv", ["id", "label"], [f"\u00e9{i}" for i in ids()], labels())
    table("a.csv", ["id", *CLASSES], [f"\u00e9{i}" for i in ids()], member(11))


@mistake("ids of 17 digits as floating-point numbers", "error", (*FIT, "--ids", "ids.npy"))
def _():
    pool(ids=(2**53 + np.arange(ROWS)).astype(float))


@mistake("a csv file that a program saved as Latin-1", "error", ("fit", "--labels", "y.npy", "a.csv", "b.npy", *FIT[6:]))
def _():
    pool()
    with open("a.csv", "w", encoding="latin-1") as file:
        file.write("K\u00e4tzchen,dog,newt\n" + "".join(",".join(map(repr, map(float, row))) + "\n" for row in member(11)))


@mistake("a wide table whose labels are in a column that no rule knows", "error", ("fit", "wide.csv", "-o", "m.cstack"))
def _():
    table("wide.csv", ["id", "stars", "a", "b"], ids(), 1 + labels(), member(11)[:, 1], member(12)[:, 1])


@mistake("a prediction of files with other names, and `--missing allow`", "error",
         ("predict", "m.cstack", "new_b.npy", "new_c.npy", "-o", "out.npy", "--missing", "allow"))
def _():
    pool(new_b=member(12), new_c=member(13))
    run(*FIT)


@mistake("an output with the name of an input", "error", (*FIT[:-3], "a.npy", *FIT[-2:]))
def _():
    pool()


# ---- detection ----

FIT_BOXES = ("fit", "pool.json", "-o", "m.cstack", "--set", "evaluate.nested=false")
IMAGES = 30


def boxes(**changed):
    """Three detectors of two categories in images of 640 x 480; `changed`: a function of each box of one."""
    rng = np.random.default_rng(4)
    images = [{"id": i, "width": 640, "height": 480} for i in range(1, IMAGES + 1)]
    annotations, found = [], {name: [] for name in "abc"}
    for image in images:
        for n in range(4):
            box = [10 + 75 * n + rng.integers(10), 10 + rng.integers(120), 40 + rng.integers(20), 40 + rng.integers(60)]
            box = [float(v) for v in box]
            category = int(rng.integers(1, 3))
            annotations.append({"id": len(annotations) + 1, "image_id": image["id"], "category_id": category, "bbox": box,
                                "area": box[2] * box[3], "iscrowd": 0})
            for mine in found.values():
                for right in (True, False):
                    if rng.random() < (0.8 if right else 0.3):
                        moved = np.clip(box + rng.normal(scale=2.5 if right else 30, size=4), 1, 300).tolist()
                        mine.append({"image_id": image["id"], "category_id": category, "bbox": [round(v, 2) for v in moved],
                                     "score": round(float(rng.beta(5 if right else 2, 3)), 4)})
    truth = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "bus"}]}
    if "truth" in changed:
        changed.pop("truth")(truth)
    document = {"corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
                "models": [{"name": name, "predictions": {"oof": f"{name}.json"}} for name in "abc"]}
    files = {"pool": document, "gt": truth, **{n: [b for b in map(changed.get(n, dict), mine) if b] for n, mine in found.items()}}
    for name, content in files.items():
        with open(f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(content, file)


def with_box(change):
    return lambda box: {**box, "bbox": change(*box["bbox"])}


@mistake("detection: one detector has corners (x1, y1, x2, y2)", "notice", FIT_BOXES)
def _():
    boxes(b=with_box(lambda x, y, w, h: [x, y, x + w, y + h]))


@mistake("detection: all detectors have corners", "error", FIT_BOXES)
def _():
    corners = with_box(lambda x, y, w, h: [x, y, x + w, y + h])
    boxes(a=corners, b=corners, c=corners)


@mistake("detection: coordinates are fractions of the image", "notice", FIT_BOXES)
def _():
    boxes(b=with_box(lambda x, y, w, h: [x / 640, y / 480, w / 640, h / 480]))


@mistake("detection: boxes are centres and sizes", "notice", FIT_BOXES)
def _():
    boxes(b=with_box(lambda x, y, w, h: [x + w / 2, y + h / 2, w, h]))


@mistake("detection: boxes are those of a resized image", "notice", FIT_BOXES)
def _():
    boxes(b=with_box(lambda *box: [0.4 * v for v in box]))


@mistake("detection: category ids are numbered from 0", "error", FIT_BOXES)
def _():
    boxes(b=lambda box: {**box, "category_id": box["category_id"] - 1})


@mistake("detection: two categories are exchanged", "notice", FIT_BOXES)
def _():
    boxes(b=lambda box: {**box, "category_id": 3 - box["category_id"]})


@mistake("detection: image ids are one too high", "error", FIT_BOXES)
def _():
    boxes(b=lambda box: {**box, "image_id": box["image_id"] + 1})


@mistake("detection: boxes are those of the next image", "notice", FIT_BOXES)
def _():
    boxes(b=lambda box: {**box, "image_id": box["image_id"] % IMAGES + 1})


@mistake("detection: a detector has found nothing", "notice", FIT_BOXES)
def _():
    boxes(b=lambda box: None)


@mistake("detection: scores in percent", "error", FIT_BOXES)
def _():
    boxes(b=lambda box: {**box, "score": 100 * box["score"]})


@mistake("detection: a box has a negative width", "error", FIT_BOXES)
def _():
    boxes(b=with_box(lambda x, y, w, h: [x + w, y, -w, h]))


@mistake("detection: the annotations in place of the results", "error", FIT_BOXES)
def _():
    boxes()
    with open("gt.json", "rb") as file, open("b.json", "wb") as copy:
        copy.write(file.read())


# ---- maps ----

FIT_MAPS = ("fit", "pool.json", "-o", "m.cstack", "--set", "evaluate.nested=false", "--set", "folds.count=3")


def maps(masks=None, **changed):
    """Three networks of four classes on six images of 24 x 30 pixels; `changed`: a function of the maps of one."""
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(6, 4, 24, 30))
    for axis in (2, 3):
        noise = sum(np.roll(noise, n, axis) for n in range(-2, 3))
    truth = noise.argmax(1)
    for name in "abc":
        scores = 2.5 * np.eye(4)[truth] + rng.normal(size=(*truth.shape, 4))
        p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.save(f"{name}.npy", np.ascontiguousarray(changed.get(name, lambda p: p)(p)).astype(np.float32))
    np.save("y.npy", (masks or (lambda y: y))(truth).astype(np.int16))
    with open("pool.json", "w", encoding="utf-8") as file:
        json.dump({"corestack_pool": 1, "task": "segmentation", "classes": 4, "splits": {"oof": {"labels": "y.npy"}},
                   "models": [{"name": name, "predictions": {"oof": f"{name}.npy"}} for name in "abc"]}, file)


def same_maps(make=maps):
    """Whether the members' scores are those of the maps without the oddity."""
    def check(document):
        make()
        plain = run(*FIT_MAPS, "--json").json()
        return [m["nll"] for m in document["members"]] == [m["nll"] for m in plain["members"]]
    return check


@mistake("segmentation: the maps of one network are flipped left to right", "notice", FIT_MAPS)
def _():
    maps(b=lambda p: p[:, :, ::-1])


@mistake("segmentation: the maps of one network are upside down", "notice", FIT_MAPS)
def _():
    maps(b=lambda p: p[:, ::-1])


@mistake("segmentation: one network has the classes in another order", "notice", FIT_MAPS)
def _():
    maps(b=lambda p: p[..., [2, 0, 1, 3]])


@mistake("segmentation: every network has the classes in another order than the masks", "error", FIT_MAPS)
def _():
    maps(masks=lambda y: np.array([2, 0, 1, 3])[y])


@mistake("segmentation: the masks are flipped", "error", FIT_MAPS)
def _():
    maps(masks=lambda y: y[:, :, ::-1])


@mistake("segmentation: the maps of one network are those of the next image", "notice", FIT_MAPS)
def _():
    maps(b=lambda p: np.roll(p, -1, 0))


@mistake("segmentation: one network has the classes first, the others last", "right", FIT_MAPS, same_maps())
def _():
    maps(b=lambda p: p.transpose(0, 3, 1, 2))


@mistake("segmentation: height and width are exchanged", "error", FIT_MAPS)
def _():
    maps(b=lambda p: p.transpose(0, 2, 1, 3))


@mistake("segmentation: maps of half the size", "error", FIT_MAPS)
def _():
    maps(b=lambda p: p[:, ::2, ::2])


@mistake("segmentation: label maps in place of probabilities", "error", FIT_MAPS)
def _():
    maps(b=lambda p: p.argmax(-1))


@mistake("segmentation: logits, and nothing says so", "error", FIT_MAPS)
def _():
    maps(b=np.log)


@mistake("segmentation: masks are numbered from 1", "error", FIT_MAPS)
def _():
    maps(masks=lambda y: y + 1)


@mistake("segmentation: pixels of -1 do not count, and nothing says so", "error", FIT_MAPS)
def _():
    maps(masks=lambda y: np.where(np.arange(30) % 7 == 0, -1, y))


@mistake("segmentation: the same with `--ignore -1`", "right", (*FIT_MAPS, "--ignore", "-1"),
         same_maps(lambda: maps(masks=lambda y: np.where(np.arange(30) % 7 == 0, 255, y))))
def _():
    maps(masks=lambda y: np.where(np.arange(30) % 7 == 0, -1, y))


# ---- what happens ----


def runs():
    """For each mistake: title, expected outcome, actual outcome, what was said, and whether a right result is right."""
    before = os.getcwd()
    for title, expected, command, make, check in LIST:
        with tempfile.TemporaryDirectory(prefix="corestack-mistake-") as folder:
            os.chdir(folder)
            try:
                make()
                done = run(*command, "--json", env={"OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"})
                document = json.loads(done.out) if done.code == 0 else {}
                said = document.get("notices", [])
                said += [line.partition(": ")[2].removeprefix("notice: ") for line in done.err.splitlines()]
                actual = "error" if done.code == 2 else f"exit status {done.code}" if done.code else "notice" if said else "right"
                good = True
                if check and done.code == 0:
                    actual = "right"
                    good = check(document)
            finally:
                os.chdir(before)
        yield title, expected, actual, said, good


def brief(line):
    """The clauses of a message up to the first that ends after seven words."""
    kept, *more = re.split(r"(?<=[;:.])(?<!i\.e\.) ", line.replace(" (checks=off skips this check)", ""))
    for clause in more:
        if len(kept.split()) >= 7:
            return kept.rstrip(";:.,") + " ..."
        kept += " " + clause
    return kept


def cell(said):
    return "<br>".join(brief(line).replace("|", "\\|").replace("<", "&lt;") for line in said)


def page(found):
    return HEAD + "".join(
        f"| {i} | {title} | {actual} | {cell(said)} |\n" for i, (title, _, actual, said, _) in enumerate(found, 1)
    )


def answers(found):
    """The same with every message as it is."""
    return "".join(f"{i} {title}\n" + "".join(f"    {line}\n" for line in said) for i, (title, _, _, said, _) in enumerate(found, 1))


def stored(path=PAGE):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    results = list(runs())
    texts = {PAGE: page(results), ANSWERS: answers(results)}
    for title, expected, actual, _, good in results:
        if actual != expected or not good:
            print(f"{title}: expected {expected}, found {actual}{'' if good else ', with another result'}", file=sys.stderr)
    if sys.argv[1:] == ["--write"]:
        for path, text in texts.items():
            if difference(path, stored(path), text):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    else:
        print(texts[PAGE])
