"""Commands on pools beyond the memory budget, of many shapes: what the system says they had resident stays under the
budget and 48 MiB.

Arguments: the tool; words that the names of cases must contain, or --long for the large ones too.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy

MIB = 1 << 20
BUDGET = 64 * MIB
ROOM = 48 * MIB
FIT = ["--set", "evaluate.nested=false"]
LEAN = [*FIT, "--preset", "paper"]


def softmax(scores):
    scores -= scores.max(1, keepdims=True)
    numpy.exp(scores, out=scores)
    scores /= scores.sum(1, keepdims=True)
    return scores


def classes(folder, rows, count, members, kind="f2", fortran=False, splits=("oof", "test"), conditions=0):
    """A pool of diffuse members. The test split has a fourth of the rows."""
    rng = numpy.random.default_rng(rows + count)
    models = [{"name": f"m{k}", "predictions": {}} for k in range(members)]
    described = {}
    for split in splits:
        n = rows if split == "oof" else max(rows // 4, count)
        labels = rng.integers(0, count, n).astype(numpy.int32)
        labels[: min(n, count)] = numpy.arange(min(n, count))
        numpy.save(folder / f"{split}.npy", labels)
        described[split] = {"labels": f"{split}.npy"}
        clear = 2 + 3 * rng.standard_normal(n, dtype=numpy.float32)
        shape = (n, count)
        for k, model in enumerate(models):
            name = f"{split}{k}.npy"
            out = numpy.lib.format.open_memmap(folder / name, mode="w+", dtype=kind, shape=shape, fortran_order=fortran)
            step = max(1, 1 << 21) // count + 1
            for a in range(0, n, step):
                b = min(n, a + step)
                scores = rng.standard_normal((b - a, count), dtype=numpy.float32)
                scores[numpy.arange(b - a), labels[a:b]] += clear[a:b]
                out[a:b] = softmax(scores)
            del out
            model["predictions"][split] = name
    return write(folder, {"task": "classification", "classes": count, "output": "probability"}, described, models)


def values(folder, rows, members, kind="f4", outputs=1):
    rng = numpy.random.default_rng(rows)
    models = [{"name": f"m{k}", "predictions": {}} for k in range(members)]
    described = {}
    for split, n in (("oof", rows), ("test", rows // 4)):
        targets = rng.standard_normal((n, outputs))
        numpy.save(folder / f"{split}.npy", targets if outputs > 1 else targets[:, 0])
        described[split] = {"targets": f"{split}.npy"}
        for k, model in enumerate(models):
            got = (targets + (0.5 + 0.1 * k) * rng.standard_normal((n, outputs))).astype(kind)
            numpy.save(folder / f"{split}{k}.npy", got if outputs > 1 else got[:, 0])
            model["predictions"][split] = f"{split}{k}.npy"
    return write(folder, {"task": "regression", "outputs": outputs}, described, models)


def write(folder, head, splits, models):
    text = {"corestack_pool": 1, **head, "splits": splits, "models": models}
    (folder / "pool.json").write_text(json.dumps(text))
    return str(folder / "pool.json")


def commands(folder, pool, which, fit):
    """Name and words of each command; the model of the fit is there for those after it."""
    model, out = str(folder / "m.cstack"), str(folder / "out.npy")
    known = {
        "fit": ["fit", pool, "-o", model, *fit],
        "nested": ["fit", pool, "-o", str(folder / "n.cstack")],
        "predict": ["predict", model, pool, "--split", "oof", "-o", out],
        "evaluate": ["evaluate", model, pool, "--split", "test"],
        "compare": ["compare", pool, "--split", "test", "--methods", "average,greedy", "--resamples", "50"],
        "inspect": ["inspect", pool],
        "bound": ["bound", model, pool, "--split", "test"],
        "sweep": ["sweep", pool, "--split", "test", "--over", "pool.size=2:4:2", "--methods", "average", "--draws", "2"],
        "profile": ["profile", model, pool, "--split", "test"],
        "adapt": ["adapt", model, pool, "--split", "test", "-o", str(folder / "a.cstack")],
        "monitor": ["monitor", model, pool, "--split", "test"],
        "online": ["online", model, pool, "--split", "test", "-o", out],
    }
    return [(name, known[name]) for name in which]


MOST = ["fit", "predict", "evaluate", "compare", "inspect", "bound", "sweep", "monitor", "adapt", "profile", "online"]
SOME = ["fit", "predict", "evaluate", "compare", "inspect"]
CASES = {
    # name: large, maker, commands, options of the fit
    "rows": (False, lambda f: classes(f, 1000000, 2, 34), ["fit", "predict", "evaluate"], LEAN),
    "regression": (False, lambda f: values(f, 600000, 40), ["fit", "predict", "evaluate"], FIT),
    "fortran": (False, lambda f: classes(f, 40000, 200, 16, fortran=True), ["predict_average"], LEAN),
    "wide": (True, lambda f: classes(f, 2000, 20000, 4), SOME, FIT),
    "members": (True, lambda f: classes(f, 13000, 10, 500, "f4"), MOST, LEAN),
    "diffuse": (True, lambda f: classes(f, 12000, 400, 15, "f4"), MOST, FIT),
    "doubles": (True, lambda f: classes(f, 20000, 200, 8, "f8"), MOST, FIT),
    "columns": (True, lambda f: classes(f, 40000, 200, 8, "f4", fortran=True), MOST, LEAN),
    "long": (True, lambda f: classes(f, 2000000, 2, 16), MOST, LEAN),
    "outputs": (True, lambda f: values(f, 100000, 16, "f8", 20), SOME, FIT),
    "many_values": (True, lambda f: values(f, 2000000, 32), MOST, FIT),
}
CASES["fortran"] = (False, CASES["fortran"][1], ["compare", "inspect"], LEAN)


def peak_of(words):
    """Exit code, most resident bytes, CPU seconds and messages of a command."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=told)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        return process.returncode, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, told.read().decode()


def main():
    tool, *words = sys.argv[1:]
    large = "--long" in words
    words = [word for word in words if word != "--long"]
    problems = []
    for case, (is_large, make, which, fit) in CASES.items():
        if (words and case not in words) or (is_large and not large):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            pool = make(folder)
            size = sum(file.stat().st_size for file in folder.glob("oof*.npy"))
            for what, line in commands(folder, pool, which, fit):
                start = time.monotonic()
                code, peak, cpu, told = peak_of([tool, *line, "--json", "--memory", str(BUDGET)])
                print(f"{case} ({size // MIB} MiB) {what}: {peak // MIB} of {(BUDGET + ROOM) // MIB} MiB, "
                      f"{cpu:.1f} s CPU, {time.monotonic() - start:.1f} s", flush=True)
                if code not in (0, 1) or (code == 1 and what != "monitor"):
                    problems.append(f"{case} {what}: exit {code}: {told[-500:]}")
                if peak > BUDGET + ROOM:
                    problems.append(f"{case} {what} had {peak // MIB} MiB resident, the budget is {BUDGET // MIB}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
