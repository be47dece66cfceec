"""Commands that give a hint, and what follows it: the cases of test_hints.py.

case(command, follow, make): `make` changes the files of `world` in a folder of the case, the command gives a message with a hint,
and what follows it ends in a run that works. `follow` is one or several of
    "+ WORDS"    the command with more words          "- WORDS"   without these
    "OLD > NEW"  with something else instead          "$ WORDS"   another command, before the last one or instead of it
    a function that changes files; then the command is run again.
"""

import json
import os
import shlex
import shutil

import numpy as np

import mistakes
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
case("export m.cstack -o m.onnx", "$ export --help")
case("export d.cstack --format onnx -o d.onnx", "$ predict d.cstack d --split test -o d.json")


def no_package():
    os.environ["CORESTACK_WASM"] = "package"


def make_wasm():  # stands for emscripten
    os.mkdir("package")
    for name in "package.json", "index.js", "index.d.ts", "corestack.wasm":
        with open(os.path.join("package", name), "w", encoding="utf-8") as file:
            file.write(name)


case("export m.cstack --format wasm -o p", make_wasm, make=no_package)
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
case(FIT + " --alpha 0.1", "+ --cascade")
case(FIT + " --cascade", "+ --alpha 0.2 --set cascade.loss=1000")
case(FIT + " --cascade --alpha 0.2 --set cascade.loss=0", "cascade.loss=0 > cascade.loss=1000")
case(FIT + " --cascade --alpha 0.00001", "0.00001 > 0.2")
case(FIT + " --cascade --set folds.kind=time", "- --cascade", "- --set folds.kind=time")
case(VALUES + " --cascade", "- --cascade")
case("predict m.cstack b.npy a.npy c.npy -o p.npy --cascade", "$ " + FIT.replace("new.cstack", "m.cstack") + " --cascade")
case(FIT + " --metric auc --set metric=mcc", "- --metric auc", "- --set metric=mcc")
case(FIT + " --metric cost", "--metric cost > --cost-matrix costs.csv", make=lambda: np.savetxt("costs.csv", 1 - np.eye(len(CLASSES)), delimiter=","))
case("predict s/s.cstack s/pool.json --split oof -o new --decide", "--decide > --format labels")
case("predict m.cstack pool.json --split test -o new.csv --decide --column label", "- --column label")
case(FIT + " --label-noise 0", "- --label-noise 0")
case(FIT + " --label-noise human --set noise=off", "- --label-noise human")
case(FIT + " --label-noise human", "--label-noise human > --set noise=off", make=lambda: save(y=np.where(np.arange(ROWS) % 9 == 0, (labels() + 1) % 3, labels())))
case(VALUES + " --set noise=human", "- --set noise=human")
case(FIT + " --ids ids.npy", "+ --folds time", make=lambda: save(ids=np.array([f"2021-03-14T{i // 60:02}:{i % 60:02}" for i in range(ROWS)])))
case(FIT + " --folds f.npy --set folds.kind=time", "- --folds f.npy", "- --set folds.kind=time", make=lambda: save(f=np.arange(ROWS) % 3))
case(f"compare --labels y.npy a.npy b.npy --methods ridge --resamples 0 --folds time --set folds.gap={ROWS}", f"- --set folds.gap={ROWS}")
case(FIT + " --folds time --order o.npy", "+ --set folds.count=2", "- --order o.npy", "- --folds time", make=lambda: save(o=np.arange(ROWS) // ((ROWS + 2) // 3)))
case(VALUES.replace("v/y.npy", "low.npy") + " --set target.transform=log", "- --set target.transform=log",
     make=lambda: save(low=np.load("v/y.npy") - np.load("v/y.npy").mean()))
case(VALUES.replace("v/y.npy", "up.npy") + " --metric rmsle", "+ --set target.transform=none", make=lambda: save(up=np.abs(np.load("v/y.npy"))))
case("fit s/pool.json -o new.cstack --set folds.kind=time", "- --set folds.kind=time")
case("folds --labels y.npy --time --groups y.npy -o new.npy", "- --groups y.npy", "- --time")
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
case("evaluate boxes.json --against boxes.json", "+ --annotations d/oof.json")
case("evaluate s/a.npy --task segmentation", "+ --labels s/y.npy", "+ --classes 3")
case("evaluate s/a.npy s/y.npy --task segmentation --labels s/y.npy", " s/y.npy > ", "+ --classes 3")
case("evaluate s/a.npy --task segmentation --labels s/y.npy --classes 3 --baselines", "- --baselines")
case("evaluate s/s.cstack s/pool.json --split oof --boundary 2", "- --boundary 2")
case("predict s/s.cstack s/pool.json --split oof -o new --id-map ids", "+ --format png", "- --id-map ids",
     make=lambda: open("ids", "w", encoding="utf-8").write("[7, 8, 9]"))
case("predict m.cstack pool.json -o new.npy --id-map cityscapes", "- --id-map cityscapes")
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
case("predict even.cstack pool.json -o o.npy --label-shift fixed", "- --label-shift fixed",
     make=lambda: made("fit", "pool.json", "-o", "even.cstack", "--set", "fit.balance=1"))
case("profile m.cstack pool.json --repeats 3 --seconds 1", "- --seconds 1")
case("compare pool.json --methods average -r 20 --csv --markdown TEXT", "- --markdown")
HOOKED = f"soup greedy w/0.safetensors w/1.safetensors -o s.safetensors --eval '{HOOK} w/x.f64' --labels w/y.npy"
case(HOOKED.replace(f"--eval '{HOOK} w/x.f64'", ""), f"+ --eval '{HOOK} w/x.f64'")
case(HOOKED.replace("--labels w/y.npy", ""), "+ --labels w/y.npy")
case(HOOKED + " --task regression --values probability", "- --task regression")

# ---- values and labels ----

LOGITS = {n: 3 * np.log(member(k)) + 1 for k, n in enumerate("abc", 11)}


def without_rows(name="b", rows=(7, 80), source=None):
    p = np.array(source if source is not None else member(12))
    p[list(rows)] = np.nan
    save(**{name: p})


def folds_of_minus_one():
    save(folds=np.maximum(np.arange(ROWS) // 50 - 1, -1))


case(FIT, "+ --values logit", make=lambda: save(**LOGITS))
case(FIT, "+ --values logit", make=lambda: save(a=np.log(member(11)), b=np.log(member(12)), c=np.log(member(13))))
case(FIT, "+ --missing allow", make=without_rows)
case(FIT + " --folds folds.npy", "+ --missing allow", make=folds_of_minus_one)
case(FIT, "+ --set checks=off", make=lambda: save(b=np.eye(3)[labels()]))
case(FIT, "+ --task regression", "$ " + FIT.replace("y.npy a", "t.npy v/a").replace("b.npy c", "v/b.npy v/c") + " --task regression",
     make=lambda: save(y=targets(), t=targets()))
CASES.pop()
case("fit --labels v/y.npy v/a.npy v/b.npy v/c.npy -o new.cstack", "+ --task regression")
case("fit --labels v/n.npy v/a.npy v/b.npy v/c.npy -o new.cstack", "+ --task regression",
     make=lambda: save(v__n=np.round(targets()).astype(int)))
case(VALUES + " --values logit", "- --values logit")
case("fit --labels y.npy a.npy -o new.cstack", "+ --class-names 10,20,30", make=lambda: save(y=10 * labels() + 10))
case(FIT, "+ --class-names cat,dog,newt", make=lambda: save(y=np.array(CLASSES)[labels()]))
case(FIT, "+ --class-names cat,dog,newt", make=lambda: save(y=np.array(["cat", "dog"])[np.minimum(labels(), 1)]))
TWO = "fit --labels two.npy one.npy -o new.cstack"


def two(names="dog cat"):
    y = (labels() > 0).astype(int)
    save(two=np.array(names.split())[y], one=0.3 + 0.4 * y + np.random.default_rng(0).normal(size=ROWS) * 0.1)


case(TWO, "+ --positive cat", make=two)
case(TWO, "+ --positive yes", make=lambda: two("no yes"))
case(TWO + " --positive cow", "cow > cat", make=two)
case(TWO + " --positive cow", "- --positive cow", make=lambda: two("no yes"))
case(TWO + " --positive dog --class-names dog,cat", "- --positive dog", make=two)
case(VALUES + " --positive 1", "- --positive 1")
case(VALUES, "+ --missing allow", lambda: without_rows("v/b", range(9), values(12)),
     make=lambda: save(v__b=np.where(np.arange(ROWS) < 9, 0, values(12))))
case(VALUES, "+ --missing allow", lambda: without_rows("v/b", (7,), values(12)),
     make=lambda: save(v__b=np.where(np.arange(ROWS) == 7, 1e7, values(12))))
case(TABLES, "+ --missing allow", make=lambda: table("b.csv", ["id", *CLASSES], ids()[:-20], member(12)[:-20]))
case(TABLES, "+ --missing allow", make=lambda: table("b.csv", ["id", *CLASSES], ids(), [[*(["NA"] * 3)] if i == 7 else
     [repr(float(v)) for v in row] for i, row in enumerate(member(12))]))
case(TABLES, "+ --missing allow", make=lambda: table("b.csv", ["id", *CLASSES], ids(), [[""] * 3 if i == 7 else
     [repr(float(v)) for v in row] for i, row in enumerate(member(12))]))
case("predict m.cstack b_test.npy c_test.npy -o o.npy", "+ --missing allow")
case("predict m.cstack pool.json -o o.npy", "+ --missing allow", make=lambda: manifest(models=[
    {"name": n, "predictions": {s: f"{n}_{s}.npy" for s in (("new",) if n == "a" else ("new", "test"))}} for n in "abc"],
    splits={"test": {}, "new": {}}))
case(FIT + " --folds folds.npy --groups g.npy", "$ folds --labels y.npy --groups g.npy -o folds.npy",
     f"$ {FIT} --folds folds.npy --groups g.npy", make=lambda: save(folds=np.arange(ROWS) % 5, g=np.arange(ROWS) // 3))

# ---- tables ----

case("fit --labels v/y.csv v/a.csv v/b.csv v/c.csv --task regression -o new.cstack", "+ --label-column price",
     make=lambda: os.chdir("v") or value_tables(y=(["id", "age", "price", "rooms"], ids(), np.arange(ROWS) % 40, targets(), np.arange(ROWS) % 5)))
case("fit --labels v/y.csv v/a.csv --task regression -o new.cstack", "v/a.csv > v/a.csv#amount", "+ --id-column customer",
     make=lambda: os.chdir("v") or value_tables(y=(["customer", "target"], np.arange(1000, 1000 + ROWS), targets()),
                                                a=(["customer", "amount"], np.arange(1000, 1000 + ROWS), values(11))))
case("fit --labels v/y.csv v/a.csv v/b.csv v/c.csv --task regression -o new.cstack", "+ --folds v/a.csv#fold",
     make=lambda: os.chdir("v") or value_tables(y=(["target"], targets()), **{n: (
         ["fold", "y_true", "y_pred"], np.arange(ROWS) % k, targets(), values(s)) for s, k, n in ((11, 5, "a"), (12, 4, "b"), (13, 5, "c"))}))
case(TABLES, "+ --id-column 1", make=lambda: [table("y.csv", None, np.arange(5000, 5000 + ROWS), labels())] + [
    table(f"{n}.csv", None, *([np.arange(5000, 5000 + ROWS)] if n == "b" else []), member(k)) for k, n in enumerate("abc", 11)])
CASES.pop()

# ---- archives and settings ----

case(FIT.replace("a.npy", "two.npz"), "two.npz > two.npz#p", make=lambda: np.savez("two.npz", p=member(11), q=member(12)))
case("evaluate w/0.safetensors --labels y.npy", "0.safetensors > two.safetensors#p", make=lambda: checkpoint("w/two.safetensors", 1, p=member(11)))
for laplace in ("--set fit.balance=1 --set meta.learners=ridge", "--set fit.balance=1 --set refit.drop=true",
                "--set fit.balance=1 --set domain.aware=true"):
    case(f"{FIT} {laplace}", "fit.balance=1 > fit.balance=0")
case(FIT + " --set blend.rule=laplace", "+ --set meta.learners=ridge,log-linear")
case(FIT + " --preset paper --set cka.threshold=0.33977", "$ " + FIT + " --preset paper --set cka.threshold=0.33977 --set cka.draws=10",
     "$ " + FIT + " --preset paper --set cka.threshold=0.33977 --set cka.estimator=exact")
case(FIT + " --set cka.draws=3", "- --set cka.draws=3",
     "$ " + FIT + " --set cka.draws=3 --set cka.estimator=nystrom --set cka.landmark_rule=uniform --set cka.lsh=off")
case("fit s/pool.json -o new.cstack --preset prototype --set segment.balance=0.5", "segment.balance=0.5 > segment.balance=0")
case("fit pool.json -o new.cstack --split bare", "+ --labels y_bare.npy", "pool.json > a_bare.npy b_bare.npy", "- --split bare",
     make=lambda: save(y_bare=labels()[:50]))
case("compare pool.json --methods average -r 20 --splits 2", "+ --holdout 0.2")
case("compare pool.json --methods average -r 20 --splits 2 --holdout 0.2 --save saved", "- --splits 2 --holdout 0.2")
OWN = "compare pool.json --methods average -r 20 --split test --with"
case(OWN + " average=a_test.npy", "average=a_test.npy > mine=a_test.npy")
case("compare pool.json --methods average -r 20 --with mine=m.cstack", "+ --split test")
case(OWN + " =a_test.npy", "=a_test.npy > mine=a_test.npy")
case(OWN + " a_test.npy --splits 2", "- --splits 2", "- --with a_test.npy")
case(OWN + " a_test.npy --ood new", "- --ood new", "- --with a_test.npy")
case("compare pool.json --methods average -r 20 --with a.npy --holdout 0.2", "- --holdout 0.2", "- --with a.npy")
case(OWN.replace("test", "test,new") + " a_test.npy", "test,new > test", "- --with a_test.npy")
case(OWN.replace("test", "test,new") + " a_test.npy", "a_test.npy > mine=test:a_test.npy,new:a_new.npy")
case(OWN.replace("--split test", "--split new") + " a_new.npy", "--split new > --split test", "a_new.npy > a_test.npy",
     make=lambda: (manifest(splits={"oof": {"labels": "y.npy"}, "test": {"labels": "y_test.npy"}, "bare": {}, "new": {
         "labels": "y_new.npy", "conditions": [{"shift": "noise", "kind": k, "severity": 1} for k in "ab"]}}),
         save(**{f"{n}_new": np.stack([np.load(f"{n}_new.npy")] * 2) for n in "abc"})))
case(OWN + " mine=new:a_new.npy", "mine=new:a_new.npy > mine=new:a_new.npy,test:a_test.npy")
case(OWN + " logs.npy", lambda: save(logs=np.load("a_test.npy")), make=lambda: save(logs=np.log(np.load("a_test.npy"))))
case(OWN + " unlike.npy", lambda: save(unlike=np.load("a_test.npy")), make=lambda: save(unlike=np.load("a_test.npy") - 2))
SETS = "bound m.cstack pool.json --split test --batch-split new"
case(SETS + " --by class --shift label", "- --shift label", "$ " + SETS + " --shift label")
case(SETS + " --by domain", "- --by domain")
case("bound m.cstack pool.json --split test --by class", "+ --batch-split new")
case(SETS + " --risk 1", "+ --miss-cost costs.npy", make=lambda: save(costs=np.ones(3)))
case(SETS + " --risk 0 --miss-cost costs.npy", "--risk 0 > --risk 1", make=lambda: save(costs=np.ones(3)))
case(SETS + " --risk 1 --miss-cost row.csv", "row.csv > costs.csv", make=lambda: (
    np.savetxt("row.csv", np.ones((1, 3)), delimiter=" "), np.savetxt("costs.csv", np.ones(3))))
case(SETS + " --risk 1 --miss-cost costs.npy --by class", "- --by class", make=lambda: save(costs=np.ones(3)))
case("evaluate m.cstack pool.json --split bare", "--split bare > --split test --ood bare")
case("compare pool.json --methods average,best-single -r 20 TEXT", "TEXT > --verbose TEXT")

# ---- what else says which option helps ----

case("show m.cstack --threads TEXT", "--threads > --threads 1")
case("TEXT", "$ help")
case("fit -o new.cstack", "$ fit --help", "+ --labels y.npy a.npy b.npy")
case("adapt m.cstack pool.json --split new -o n.cstack --missing allow", "- --missing allow")
case("bound m.cstack pool.json --missing allow", "- --missing allow")
case("online m.cstack pool.json --split new --delay 20 --state st", "--state st > --state st2 --pending 21",
     make=lambda: made("online", "m.cstack", "pool.json", "--state", "st", "--pending", "10"))
case(VALUES, "+ --missing allow", lambda: save(v__b=np.where(values(12) < 1, np.nan, np.log(np.maximum(values(12), 1)))),
     make=lambda: save(v__b=np.log(np.maximum(values(12), 1))))
case("evaluate m.cstack pool.json --split test,bare", "--split test,bare > --split test --ood bare")
case("compare --labels y.npy a.npy b.npy c.npy --folds f.npy --methods average,paper -r 20 --splits 2", "+ --holdout 0.2",
     make=lambda: save(f=np.arange(ROWS) % 5))


def without_file(path, split="oof", remove=False):
    """A manifest whose first member lacks a split, or is not there."""
    with open(path, encoding="utf-8") as file:
        models = json.load(file)["models"]
    if remove:
        models = models[1:]
    else:
        del models[0]["predictions"][split]
    manifest(path, models=models)


case("fit pool.json -o new.cstack", lambda: without_file("pool.json", remove=True), make=lambda: without_file("pool.json"))
case("fit e/pool.json -o new.cstack --set folds.count=2", lambda: without_file("e/pool.json", remove=True),
     make=lambda: shutil.copytree(os.path.realpath("d"), "e") and without_file("e/pool.json"))
LIKE = "predict m.cstack a_test.npy b_test.npy c_test.npy -o o.csv --like sample.csv"
case(LIKE, "+ --class-names cat,dog,newt", make=lambda: table("sample.csv", ["id", *CLASSES], ids()[:60], np.zeros((60, 3))))
case(LIKE, "+ --class-names cat,dog,newt", make=lambda: table("sample.csv", ["id", "label"], ids()[:60], ["cat"] * 60))


def links():
    os.mkdir("p")
    shutil.copy("pool.json", "p")
    for name in [f"{n}{s}.npy" for n in "yabc" for s in ("", "_test", "_new", "_bare")]:
        os.symlink(f"../{name}", f"p/{name}")


case("fit p/pool.json -o new.cstack", "+ --allow-outside", make=links)
case("predict dom.cstack a_test.npy b_test.npy c_test.npy -o o.npy", "+ --domains t.npy", make=lambda: save(
    t=np.arange(60) % 2, o=np.arange(ROWS) % 2) or made(*FIT.replace("new", "dom").split(), "--domains", "o.npy", "--set", "domain.aware=true"))
case("evaluate s/a.npy --task segmentation --labels s/y.npy", "+ --classes 3")
case("evaluate s/q.npy --task segmentation --labels s/k.npy --classes 3", "+ --layout channels-last",
     make=lambda: save(s__q=np.full((6, 3, 8, 3), 1 / 3), s__k=np.zeros((6, 3, 8), int)))
case(FIT, lambda: save(y=labels()), make=lambda: save(y=np.where(np.arange(ROWS) == 9, 7, labels())))
case("fit --labels v/y.csv v/a.csv v/b.csv v/c.csv -o new.cstack", "+ --task regression", make=lambda: os.chdir("v") or value_tables())
case(FIT.replace("b.npy", "b.csv"), "+ --ids ids.npy", make=lambda: save(ids=np.array(ids())))
case(FIT, "+ --values logit", make=lambda: save(**{n: np.log(member(k)) - np.log(member(k)).mean(1, keepdims=True) for k, n in enumerate("abc", 11)}))
case(FIT, "+ --missing allow", lambda: without_rows(rows=(7,)), make=lambda: save(b=np.where(np.arange(ROWS)[:, None] == 7, 0, member(12))))
case("fit --labels v/y.csv v/a.csv v/b.csv v/c.csv --task regression -o new.cstack", "+ --id-column customer",
     make=lambda: os.chdir("v") or value_tables(y=(["id", "target"], np.arange(1000, 1000 + ROWS), targets()), **{
         n: (["customer", "amount"], np.arange(1000, 1000 + ROWS), values(s)) for s, n in enumerate("abc", 11)}))
case(LIKE, "+ --column foo", make=lambda: table("sample.csv", ["id", "foo", "bar"], ids()[:60], np.zeros((60, 2))))


def wide(*city):
    table("wide.csv", [*city, "y", "a", "b"], *[[f"p{i % 7}" for i in range(ROWS)]] * len(city), targets(), values(11), values(12))


case("fit wide.csv --task regression -o new.cstack", wide, make=lambda: wide("city"))


# ---- labels, names and columns that only the user knows ----

LIST = "fit a.csv b.csv c.csv -o new.cstack"


def with_columns(names, *columns):
    """Tables of the members with more columns."""
    for seed, name in enumerate("abc", 11):
        table(f"{name}.csv", ["id", *names, *CLASSES], ids(), *columns, member(seed))


def numbered(*names, b=()):
    """Tables whose ids are whole numbers."""
    for seed, name in enumerate("abc", 11):
        extra = b if name == "b" else ()
        table(f"{name}.csv", ["serial", *extra, *CLASSES], np.arange(1000, 1000 + ROWS), *[labels()] * len(extra), member(seed))
    table("y.csv", ["serial", *names], np.arange(1000, 1000 + ROWS), labels(), *[np.arange(ROWS) % 50] * (len(names) - 1))


def unknown(names):
    """Members whose model of fold 0 did not know class 2."""
    folds = np.arange(ROWS) % 5
    for k, name in enumerate("abc", 11):
        p = member(k)
        p[folds == 0, 2] *= name not in names
        save(**{name: p / p.sum(axis=1, keepdims=True)})
    save(f=folds)


def one_table(*columns):
    table("wide.csv", ["id", *[name for name, _ in columns], "a", "b"], ids(), *[c for _, c in columns], member(11)[:, 1], member(12)[:, 1])


TWO = np.minimum(labels(), 1)
SEVERAL = (np.random.default_rng(5).random((ROWS, 3)) < 0.5).astype(int)
case(FIT.replace("b.npy", "b.csv"), "+ --id-column serial --ids y.csv", make=lambda: numbered("label"))
case(FIT + " --folds f.npy --preset paper", "+ --missing allow", lambda: without_rows("c", range(0, ROWS, 5), member(13)), make=lambda: unknown("c"))
case(FIT + " --folds f.npy", "$ folds --labels y.npy -o f.npy", f"$ {FIT} --folds f.npy", lambda: save(b=member(12), c=member(13)), make=lambda: unknown("abc"))
case(LIST, "+ --label-column label", make=lambda: with_columns(["label", "target"], labels(), labels()))
case(LIST + " --label-column species", "species > label", make=lambda: with_columns(["label"], labels()))
case("fit a.npy b.npy c.npy -o new.cstack --label-column species", "--label-column species > --labels y.npy")
case("fit wide.csv -o new.cstack", "+ --label-column stars", lambda: one_table(("stars", TWO)), make=lambda: one_table(("stars", TWO + 1)))
case("fit wide.csv -o new.cstack", "+ --groups wide.csv#ward", make=lambda: one_table(("y", TWO), ("ward", np.arange(ROWS) % 40)))
case(TABLES, "$ fit --labels y.csv#u v/p.npy v/q.npy -o new.cstack", make=lambda: table("y.csv", ["id", "u", "v", "w"], ids(), SEVERAL) or save(
    v__p=member(11, truth=SEVERAL[:, 0]), v__q=member(12, truth=SEVERAL[:, 0])))
for names in ((ids(), ids()), (np.arange(ROWS) / 7, np.arange(ROWS) / 3)):
    case(FIT + " --ids ids.csv", "ids.csv > ids.csv#serial", "ids.csv#serial > ids.csv --id-column serial",
         make=lambda columns=names: table("ids.csv", ["serial", "other"], *columns))
case(FIT, "+ --ids ids.npy", lambda: save(b=member(12)), make=lambda: save(
    b=np.column_stack([np.arange(1000, 1000 + ROWS), member(12)]), ids=np.arange(1000, 1000 + ROWS)))
case(FIT, "+ --values logit", make=lambda: save(**{n: np.sqrt(member(k)) for k, n in enumerate("abc", 11)}))
case(FIT, "+ --values logit", make=lambda: save(**{n: np.where(member(k) < 0.3, -np.inf, np.log(member(k))) for k, n in enumerate("abc", 11)}))
case("fit --labels k.npy x.npy z.npy --task multilabel -o new.cstack", "+ --values logit", make=lambda: save(
    k=np.eye(3, dtype=int)[labels()], x=np.log(member(11) / (1 - member(11))), z=np.log(member(12) / (1 - member(12)))))
case("fit --labels k.npy x.npy z.npy --task multilabel -o new.cstack --cost-matrix c.csv", "- --cost-matrix c.csv", make=lambda: save(
    k=np.eye(3, dtype=int)[labels()], x=member(11), z=member(12)))
case("compare pool.json --split bare --methods average -r 20", "--split bare > --split test --ood bare")
case("evaluate m.cstack pool.json --split new --ood test", "--split new > --split test", "--ood test > --ood bare",
     make=lambda: manifest(splits={"oof": {"labels": "y.npy"}, "test": {"labels": "y_test.npy"}, "new": {}, "bare": {}}))
case("predict m.cstack a_test.npy b_test.npy c_test.npy --ids i.npy -o o.csv", "+ --formulas keep", make=lambda: save(i=np.array([f"@{k}" for k in range(60)])))
case("predict v/v.cstack v/a.npy v/b.npy v/c.npy -o o.npy --intervals i.npy --level 0.999", "0.999 > 0.99")
case("predict m.cstack pool.json --split late -o o.npy --missing allow", "--split late > --split test", make=lambda: manifest(
    splits={"test": {}, "late": {}}, models=[{"name": n, "predictions": {"late" if n == "d" else "test": f"{n[0].replace('d', 'a')}_test.npy"}} for n in "abcd"]))
case("predict m.cstack a.csv b.csv c.csv --missing allow -o o.csv", "+ --ids all.csv", make=lambda: table("all.csv", ["id"], [*ids(), "new"]) or table(
    "b.csv", ["id", *CLASSES], [*ids(), "new"], np.vstack([member(12), member(12)[:1]])))
case("evaluate m.cstack pool.json", "+ --class-names cat,dog,newt", make=lambda: save(y_test=np.array(CLASSES)[labels()[:60]]))
case(TABLES, tables, make=lambda: table("y.csv", ["label"], labels()) or [
    table(f"{n}.csv", ["level", *CLASSES], labels(), member(k)) for k, n in enumerate("abc", 11)])
case(FIT, "+ --values logit", make=lambda: save(**{n: 5 * np.sqrt(member(k)) + 1 for k, n in enumerate("abc", 11)}))
case(FIT, lambda: save(**{n: member(k) for k, n in enumerate("abc", 11)}), "+ --ids i.npy", make=lambda: save(i=np.arange(1000, 1000 + ROWS), **{
    n: np.column_stack([np.arange(1000, 1000 + ROWS), member(k)]) for k, n in enumerate("abc", 11)}))


# ---- hints to change the data: the mistakes of docs/mistakes.md, mended as their messages say ----


def edit(path, change):
    return lambda: np.save(path, change(np.load(path)))


def lines(path, change):
    """Changes the list of a text file's lines."""

    def rewrite():
        with open(path, encoding="utf-8") as file:
            text = change(file.readlines())
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(text)

    return rewrite


def no_last_row():
    for name in "yabc":
        lines(f"{name}.csv", lambda rows: rows[:-1])()


MENDED = {
    "labels are numbered from 1": edit("y.npy", lambda y: y - 1),
    "the labels number the classes in another order than the predictions": edit("y.npy", np.array([1, 2, 0]).__getitem__),
    "the labels are one-hot rows": edit("y.npy", lambda y: y.argmax(1)),
    "a label is missing in a csv file": no_last_row,
    "predictions in percent": edit("b.npy", lambda p: p / 100),
    "log-probabilities, and nothing says so": edit("b.npy", np.exp),
    "probabilities that are declared to be logits": "--values logit > --values probability",
    "independent scores between 0 and 1 that do not sum to 1": edit("b.npy", lambda p: p / p.sum(1, keepdims=True)),
    "an id is there twice": lines("b.csv", lambda rows: rows[:-1] + [rows[-1].replace("s0007", ids()[-1])]),
    "one csv file names other classes": lines("b.csv", lambda rows: [rows[0].replace("bird", "newt")] + rows[1:]),
    "a spreadsheet cut the zeros at the front of the ids": lines("b.csv", lambda rows: rows[:1] + [
        f"{row.split(',', 1)[0]:0>5},{row.split(',', 1)[1]}" for row in rows[1:]]),
    "a last line with a total": lines("b.csv", lambda rows: rows[:-1]),
    "semicolons and decimal commas": lines("b.csv", lambda rows: rows[:1] + [row.replace(",", ".") for row in rows[1:]]),
    "a member that is the labels": " b.npy > ",
    "a budget that no member meets": "keep.max_latency=1 > keep.max_latency=2",
    "a budget, and no member has a cost": " --set keep.max_latency=1 > ",
    "a split with a misspelt name": "tset > test",
    "an output with the name of an input": "-o a.npy > -o other",
}
LISTED = {title: (shlex.join(command), make) for title, _, command, make, _ in mistakes.LIST}
for name, step in MENDED.items():
    case(LISTED[name][0], step, make=LISTED[name][1])

# Words that are no hint, and hints that no test brings about, by a part of the text.
UNTRIED = (
    "set TMPDIR",  # a disk that is full
    "readRDS",  # R
    "Without --methods, the presets",  # part of a list that was asked for
    "domain.aware=auto:", "loglinear.nonnegative=true has no effect", "same-loss compares",  # say what a setting did
    "(--json lists", "--json lists them all", "--verbose",  # the option of a longer report
    'missing=\\"allow\\"',  # of a pool in memory
    "wait for each other: start at most", "each rank on %s may use", "give fewer --threads",  # ranks and cores of a machine
    "too many to select from",  # more than 400 members: test_regression.py
    "which --label-column names",  # the option that the message is about
    "CKA is approximate",  # thousands of rows
    "a learned gate needs labels",  # the tool has no pool of one class
    "folds [{folds.source=pool!}",  # no hint
    "(--preset compact looks for such sets)", "maps --format labels", "POOL --split test",  # of the screen of a fit: test_screen.py
)


def misplaced(split, place):
    """A detection pool `dd` whose first member has its boxes elsewhere in a split, and its model `e.cstack`."""
    shutil.copytree(os.path.dirname(small("detection", 4, 1)), "dd")
    run("fit", "dd", "-o", "e.cstack", "--set", "evaluate.nested=false")
    with open("dd/pool.json", encoding="utf-8") as file:
        name = json.load(file)["models"][0]["predictions"][split]
    with open("dd/" + name, encoding="utf-8") as file:
        boxes = json.load(file)
    for box in boxes:
        box["bbox"] = place(*box["bbox"])
    with open("dd/" + name, "w", encoding="utf-8") as file:
        json.dump(boxes, file)


def without_first(split):
    with open("dd/pool.json", encoding="utf-8") as file:
        pool = json.load(file)
    del pool["models"][0]["predictions"][split]
    with open("dd/pool.json", "w", encoding="utf-8") as file:
        json.dump(pool, file)


def corners(x, y, w, h):
    return [x, y, x + w, y + h]


def tiny(x, y, w, h):
    return [x + w / 3, y + h / 3, w / 9, h / 9]


case("fit dd -o n.cstack", "+ --set checks=off", make=lambda: misplaced("oof", corners))
case("predict e.cstack dd -o o.json", lambda: without_first("test"), "+ --missing allow", make=lambda: misplaced("test", tiny))


# ---- lists of the likeliest classes ----


def lists():
    """Files of members that list two of three classes, and a model `l.cstack` of them."""
    for k, name in enumerate("lmn", 11):
        order = np.argsort(-member(k), axis=1)[:, :2]
        np.savez(f"{name}.npz", indices=order, logprobs=np.log(np.take_along_axis(member(k), order, axis=1)))
    run("fit", "--labels", "y.npy", "l.npz", "m.npz", "n.npz", "--classes", "3", "-o", "l.cstack", "-s", "evaluate.nested=false")


LISTS = "fit --labels y.npy l.npz m.npz n.npz -o new.cstack"
case(LISTS, "+ --classes 3", make=lists)
case(LISTS + " --classes 3 --missing allow", "- --missing allow", make=lists)
case(LISTS + " --classes 3 --values logit", "- --values logit", make=lists)
case("predict l.cstack l.npz m.npz n.npz -o o.npy", "o.npy > o.npz", make=lists)
case("predict l.cstack l.npz m.npz n.npz -o o.npy", "+ --decide", make=lists)
case("predict l.cstack l.npz m.npz n.npz -o o.npz --like a.csv", "- --like a.csv", make=lists)
case("predict m.cstack a.npy b.npy c.npy -o o.npy --top 2", "- --top 2")
