"""Commands that give a hint, and what follows it: the cases of test_hints.py.

case(command, follow, make): `make` changes the files of `world` in a folder of the case, the command gives a message with a hint,
and what follows it ends in a run that works. `follow` is one or several of
    "+ WORDS"    the command with more words          "- WORDS"   without these
    "OLD > NEW"  with something else instead          "$ WORDS"   another command, before the last one or instead of it
    a function that changes files; then the command is run again.
"""

import json
import os

import numpy as np

import support
from mistakes import CLASSES, ROWS, ids, labels, member, pool, table, tables, targets, value_tables, values
from support import run, small
from test_soup import HOOK, tensors

FIT = "fit --labels y.npy a.npy b.npy c.npy -o new.cstack"
VALUES = "fit --labels v/y.npy v/a.npy v/b.npy --task regression -o new.cstack"
TABLES = "fit --labels y.csv a.csv b.csv c.csv -o new.cstack"
CASES = []


def case(command, *follow, make=None):
    CASES.append((command, follow, make))


# ---- the files ----


def save(**arrays):
    """npy files; a double underscore is a slash."""
    for name, array in arrays.items():
        np.save(name.replace("__", "/") + ".npy", array)


def manifest(path="pool.json", **changed):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    document.update(changed)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def checkpoint(path, seed, **more):
    rng = np.random.default_rng(seed)
    arrays = {"weight": rng.normal(size=(3, 4)).astype(np.float32), "bias": rng.normal(size=3).astype(np.float32), **more}
    kinds = {"f2": "F16", "f4": "F32", "f8": "F64", "i8": "I64"}
    with open(path, "wb") as file:
        file.write(tensors.save([(n, kinds[a.dtype.str[1:]], a.shape, a.tobytes()) for n, a in arrays.items()]))


def made(*command):
    result = run(*command, *(["--set", "evaluate.nested=false"] if command[0] == "fit" else []))
    assert result.code == 0, (command, result.err)


def world():
    """Pools and models of every task; folders v (regression), s (segmentation), d (detection) and w (weights)."""
    for folder in "vsw":
        os.mkdir(folder)
    pool()
    tables()
    truth = {"oof": labels(), "test": labels()[:60], "new": labels()[60:100], "bare": None}
    for split, y in list(truth.items())[1:]:
        y = labels()[:50] if y is None else y
        save(**{f"y_{split}": y, **{f"{n}_{split}": member(s, truth=y) for s, n in enumerate("abc", 21)}})
    document = {
        "corestack_pool": 1, "task": "classification", "classes": 3, "output": "probability",
        "splits": {"oof": {"labels": "y.npy"}, "test": {"labels": "y_test.npy"}, "new": {"labels": "y_new.npy"}, "bare": {}},
        "models": [{"name": n, "flops": 2.0, "latency_ms": 2.0, "predictions": {
            "oof": f"{n}.npy", **{s: f"{n}_{s}.npy" for s in ("test", "new", "bare")}}} for n in "abc"]}
    with open("pool.json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    made("fit", "pool.json", "-o", "m.cstack")
    save(v__y=targets(), v__a=values(11), v__b=values(12), v__c=values(13))
    made("fit", "--labels", "v/y.npy", "v/a.npy", "v/b.npy", "--task", "regression", "-o", "v/v.cstack")
    rng = np.random.default_rng(3)
    masks = rng.integers(0, 3, (6, 8, 8)).astype(np.int32)
    save(s__y=masks)
    for name in "ab":
        scores = rng.random((6, 8, 8, 3)) + np.eye(3)[masks]
        save(**{f"s__{name}": (scores / scores.sum(-1, keepdims=True)).astype(np.float32)})
    document = {"corestack_pool": 1, "task": "segmentation", "classes": 3, "splits": {"oof": {"labels": "y.npy"}},
                "models": [{"name": n, "predictions": {"oof": f"{n}.npy"}} for n in "ab"]}
    with open("s/pool.json", "w", encoding="utf-8") as file:
        json.dump(document, file)
    made("fit", "s/pool.json", "-o", "s/s.cstack", "--preset", "prototype")
    os.symlink(os.path.dirname(small("detection", 2, 6)), "d")
    with open("d/pool.json", encoding="utf-8") as file:
        os.symlink("d/" + json.load(file)["models"][0]["predictions"]["oof"], "boxes.json")
    made("fit", "d/pool.json", "-o", "d.cstack", "--set", "folds.count=2")
    for k in range(4):
        checkpoint(f"w/{k}.safetensors", k)
    made("swa", "w/0.safetensors", "w/1.safetensors", "-o", "w/mean.safetensors")
    made("swag", "fit", *[f"w/{k}.safetensors" for k in range(4)], "-o", "w/swag.safetensors")
    x = rng.normal(size=(40, 4))
    save(w__y=np.arange(40) % 3)
    with open("w/x.f64", "wb") as file:
        file.write(np.array(x.shape, np.int64).tobytes() + x.tobytes())


# ---- commands and options ----

for name in ("adapt", "bound", "monitor", "online", "predict", "profile", "show", "evaluate", "fit", "soup", "swa", "swag"):
    case(name + {"soup": " uniform -o s.safetensors", "swa": " -o s.safetensors"}.get(name, ""), f"$ {name} --help")
case("swag fit -o s.safetensors", "$ swag fit --help", "$ swag fit w/0.safetensors w/1.safetensors -o s.safetensors")
case("swag sample w/0.safetensors w/1.safetensors -n 1 -o drawn", "w/0.safetensors w/1.safetensors > w/swag.safetensors")
case("monitor m.cstack", "$ monitor --help", "+ pool.json")
case("fit --labelz y.npy a.npy b.npy -o new.cstack", "--labelz > --labels")
case("fit --zzzzzzz y.npy", "$ fit --help")
case("--zzzzzzz", "$ help")
case("zzzzzzz", "$ help")
case("", "$ help")
case("help zzzzzz", "$ help")
case(FIT + " -t 1 --threads 2", "-  --threads 2")
case(FIT + " -t 1 -t 2", "-  -t 2")
case(FIT + " --seed", "+ 1")
case("adapt m.cstack pool.json --split new --suggest 3 -o n.cstack", "- -o n.cstack")
case("adapt m.cstack pool.json --split new --suggest 3 --unlabeled bare", "- --unlabeled bare")
case("adapt m.cstack pool.json --split new --row-labels k.npy -o n.cstack", "+ --rows r.npy",
     make=lambda: save(r=np.arange(20), k=labels()[60:80]))
case("bound m.cstack pool.json --shift label", "+ --batch-split new")
case("bound m.cstack pool.json --sets sets.npy", "+ --batch-split new")
case("compare pool.json --methods zzzzzzzzzzzz", "$ compare --list-methods", "zzzzzzzzzzzz > average")
case("compare pool.json --methods averag,ridge -r 20", "averag, > average,")
case("compare pool.json --methods average -r 20 --set seed=1", "--set seed=1 > --seed 1")
case("compare pool.json --methods average -r 20 --set zzzzzzz=1", "$ options", "- --set zzzzzzz=1")
case("sweep pool.json --methods average --over zzzzzz=1,2", "$ options", "zzzzzz > cka.threshold", "=1,2 > =0.9,1", "average > default")
case("sweep pool.json --methods average", "+ --over pool.size=2:3:1")
case("sweep pool.json --methods average --over seed=0,1 --seed 3", "- --seed 3")
case("sweep pool.json --methods average --over seed=0,1 --draws 3", "seed=0,1 > pool.size=2,3")
case("sweep pool.json --methods average --over pool.size=2,3 --set folds.cuont=3", "cuont > count")
case(FIT + " --set zzzzzzz=1", "$ options", "- --set zzzzzzz=1")
case(FIT + " --seed 1 --set seed=2", "- --set seed=2")
case(FIT + " --preset paper --method average", "- --method average")
case("evaluate a_test.npy", "+ --labels y_test.npy")
case("evaluate a_test.npy y_test.npy", "y_test.npy > --labels y_test.npy")
case("evaluate a_test.npy --labels y_test.npy --baselines", "- --baselines")
case("evaluate boxes.json", "+ --annotations d/oof.json")
case("evaluate boxes.json y.npy --annotations d/oof.json", " y.npy > ")
case("evaluate boxes.json --annotations d/oof.json --task classification", "- --task classification")
case("evaluate boxes.json --annotations d/oof.json --labels y.npy", "- --labels y.npy")
case("evaluate s/a.npy --task segmentation", "+ --labels s/y.npy", "+ --classes 3")
case("evaluate s/a.npy s/y.npy --task segmentation --labels s/y.npy", " s/y.npy > ", "+ --classes 3")
case("evaluate s/a.npy --task segmentation --labels s/y.npy --classes 3 --baselines", "- --baselines")
case("evaluate s/s.cstack s/pool.json --split oof --boundary 2", "- --boundary 2")
case("evaluate s/l.npy --task segmentation --labels s/y.npy", "+ --classes 3", make=lambda: save(s__l=np.load("s/y.npy")))
case("folds y.npy -o f.npy", "y.npy > --labels y.npy")
case("folds -o f.npy", "+ --labels y.npy")
case("monitor m.cstack pool.json a_new.npy b_new.npy c_new.npy", "$ monitor m.cstack pool.json --state m.state",
     "$ monitor m.cstack a_test.npy b_test.npy c_test.npy --state m.state",
     make=lambda: save(a_new=member(21)[:40], b_new=member(22)[:40], c_new=member(23)[:40]))
case("online m.cstack pool.json --pending 5 --delay 9", "--pending 5 > --pending 10")
case("predict m.cstack pool.json -o o.csv --column cat", "--column cat > --like sample.csv",
     make=lambda: table("sample.csv", ["id", "0", "1", "2"], [str(i) for i in range(60)], np.zeros((60, 3))))
case("predict v/v.cstack v/a.npy v/b.npy -o o.npy --level 0.8", "+ --intervals i.npy")
case("predict m.cstack pool.json -o o.npy --guard off --label-shift em", "--guard off > --guard warn")
case("predict m.cstack pool.json -o o.npy --guard off --batch 9", "- --guard off")
case("profile m.cstack pool.json --repeats 3 --seconds 1", "- --seconds 1")
case("compare pool.json --methods average -r 20 --csv --markdown TEXT", "- --markdown")
HOOKED = f"soup greedy w/0.safetensors w/1.safetensors -o s.safetensors --eval '{HOOK} w/x.f64' --labels w/y.npy"
case(HOOKED.replace(f"--eval '{HOOK} w/x.f64'", ""), f"+ --eval '{HOOK} w/x.f64'")
case(HOOKED.replace("--labels w/y.npy", ""), "+ --labels w/y.npy")
case(HOOKED + " --task regression --values probability", "- --task regression")

# Hints that no test can bring about, and words that are no hint, by a part of the text.
UNTRIED = (
    "set TMPDIR",  # a disk that is full
    "Without --methods, the presets",  # part of a list that was asked for
)
