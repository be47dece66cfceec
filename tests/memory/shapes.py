"""Commands on pools of four times the memory budget: what the kernel counts as resident stays under the budget plus 48 MiB.

Arguments: the tool; names of cases, all without any.
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


def values(folder, rows, members, kind="f4"):
    """A regression pool. The test split has a fourth of the rows."""
    rng = numpy.random.default_rng(rows)
    models = [{"name": f"m{k}", "predictions": {}} for k in range(members)]
    described = {}
    for split, n in (("oof", rows), ("test", rows // 4)):
        targets = rng.standard_normal(n)
        numpy.save(folder / f"{split}.npy", targets)
        described[split] = {"targets": f"{split}.npy"}
        for k, model in enumerate(models):
            noise = (0.5 + 0.1 * k) * rng.standard_normal(n)
            numpy.save(folder / f"{split}{k}.npy", (targets + noise).astype(kind))
            model["predictions"][split] = f"{split}{k}.npy"
    return write(folder, {"task": "regression"}, described, models)


def write(folder, head, splits, models):
    text = {"corestack_pool": 1, **head, "splits": splits, "models": models}
    (folder / "pool.json").write_text(json.dumps(text))
    return str(folder / "pool.json")


def commands(folder, pool, which, fit):
    """Name and words of each command; the model of the fit is there for those after it."""
    model, out = str(folder / "m.cstack"), str(folder / "out.npy")
    known = {
        "fit": ["fit", pool, "-o", model, *fit],
        "predict": ["predict", model, pool, "--split", "oof", "-o", out],
        "evaluate": ["evaluate", model, pool, "--split", "test"],
        "compare": ["compare", pool, "--split", "test", "--methods", "average,greedy", "--resamples", "50"],
        "inspect": ["inspect", pool],
        "bound": ["bound", model, pool, "--split", "test"],
        "sweep": ["sweep", pool, "--split", "test", "--over", "pool.size=2:4:2", "--methods", "average", "--draws", "2"],
        "monitor": ["monitor", model, pool, "--split", "test"],
    }
    return [(name, known[name]) for name in which]


CASES = {
    # name: maker, commands, options of the fit
    "diffuse": (lambda f: classes(f, 12000, 400, 15, "f4"),
                ["fit", "predict", "evaluate", "compare", "inspect", "bound", "sweep", "monitor"], FIT),
    "values": (lambda f: values(f, 200000, 40), ["inspect"], FIT),
    "columns": (lambda f: classes(f, 40000, 200, 16, fortran=True), ["compare", "inspect"], FIT),
}


def most_resident(process):
    """VmHWM of a process that runs, in bytes; 0 once it has ended. What wait4 gives would count this process too."""
    try:
        with open(f"/proc/{process.pid}/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def peak_of(words):
    """Exit code, most resident bytes, CPU seconds and messages of a command."""
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=told)
        peak, ended = 0, 0
        while not ended:
            peak = max(peak, most_resident(process))
            time.sleep(0.002)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        return process.returncode, peak, usage.ru_utime + usage.ru_stime, told.read().decode()


def main():
    tool, *names = sys.argv[1:]
    problems = []
    for case, (make, which, fit) in CASES.items():
        if names and case not in names:
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
                if code != 0 and (what, code) != ("monitor", 1):  # 1: an alarm
                    problems.append(f"{case} {what}: exit {code}: {told[-500:]}")
                if peak > BUDGET + ROOM:
                    problems.append(f"{case} {what}: {peak // MIB} MiB resident, the budget is {BUDGET // MIB} MiB")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
