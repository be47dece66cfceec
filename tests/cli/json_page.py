#!/usr/bin/python3
"""docs/json.md: the keys that every command prints with --json, from the golden files and a few runs more, and what docs/json.txt says of them.

    tests/cli/json_page.py --write    writes the page

The tool is CORESTACK_TOOL, or build-gcc/corestack. support.run() asks unknown() about every document of every test.
"""

import functools
import json
import os
import pathlib
import re
import struct
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CORESTACK_TOOL", str(ROOT / "build-gcc" / "corestack"))
os.environ.setdefault("CORESTACK_SOURCES", str(ROOT))
PAGE = ROOT / "docs" / "json.md"
SUFFIXES = ("_ci", "_se", "_mean", "_sd", "_entropy", "_energy", "_disagreement", "_mutual_information")
TASKS = {"digits": "classification", "concrete": "regression"}
ORDER = "fit evaluate compare ablate sweep inspect show report profile monitor export adapt bound predict folds options online soup swa swag".split()
INTRO = """# JSON reports

With `--json` every command prints one JSON document on standard output. Numbers have 10 significant digits; a number that does not exist or is not
finite is `null`. Shares such as `top1` are in [0, 1], and losses are means over rows in nats. Within a major version keys may be added, but none is
removed or changes its meaning.

`KEY_ci` is the 95% bootstrap interval `[low, high]` of `KEY`, `KEY_se` its standard error, and `KEY_mean` and `KEY_sd` are over draws. `[]` is a list,
and `NAME` a key that is a name. The second column says which tasks have a key, if not all do. `tests/cli/json_page.py` writes this page from what the
commands print. Resampling increases an ECE, so its interval may lie above its value. Scores by class and `worst` rows do not use row weights.

With `--csv`, `rows` of `compare`, `ablate` and `sweep` become lines, and of `evaluate` the model (`corestack`, or `predictions`) and its baselines. `KEY_ci`
becomes `KEY_low` and `KEY_high`, keys of `difference` get the prefix `difference_`, names in a list are joined by `;`, and `definition` and `weights`
are left out. Text that a spreadsheet would take for a formula gets an apostrophe in front.
"""


@functools.cache
def described():
    lines = (ROOT / "docs" / "json.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


@functools.cache
def metrics():
    return set(re.findall(r'"([a-z0-9_]+)"', (ROOT / "src" / "stats" / "metric_list.c").read_text(encoding="utf-8")))


def meaning(path):
    """(whether its keys are names, text) of a path such as fit.dropped.name, by its longest end that is known; None if none is."""
    for start in range(len(path)):
        for names in (False, True):
            text = described().get(".".join(path[start:]) + "{}" * names)
            if text:
                return names, text
    return (False, "a metric ([metrics.md](metrics.md))") if path[-1] in metrics() else None


def paths(value, path):
    """(path, list?) of every key, in the order of the document; keys that are names as NAME."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, list):
            yield from paths(item, path)
        if not isinstance(item, dict):
            continue
        named = (meaning(path) or (False,))[0]
        for key, inner in item.items():
            below = (*path, "NAME" if named else key)
            yield below, isinstance(inner, list) and any(isinstance(x, dict) for x in inner)
            yield from paths(inner, below)


def base(path):
    """The path without endings such as _ci."""
    key = path[-1]
    for suffix in SUFFIXES:
        key = key.removesuffix(suffix)
    return (*path[:-1], key)


def unknown(document, command):
    """Keys that docs/json.txt does not describe."""
    return sorted({".".join(path) for path, _ in paths(document, (command,)) if path[-1] != "NAME" and not meaning(path) and not meaning(base(path))})


def runs(folder):
    """(command, pool, document) of what the golden files lack."""
    from support import run, small

    digits, concrete = small("digits", 4), small("concrete", 4)
    for i, name in enumerate("ab"):
        header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        (pathlib.Path(folder) / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", i, 1))
    files = ["a.safetensors", "b.safetensors"]
    rng = np.random.default_rng(0)
    lists = pathlib.Path(folder) / "lists"
    lists.mkdir()
    np.save(lists / "oof_labels.npy", labels := rng.integers(0, 20, 60))
    for name in "ab":
        indices = (labels[:, None] + rng.integers(0, 3, (60, 1)) + np.arange(4)) % 20
        np.savez(lists / f"oof_{name}.npz", indices=indices, logprobs=np.log([[0.5, 0.2, 0.1, 0.05]] * 60))
    for pool, arguments in (
        ("topk", ["fit", lists, "-o", "l.cstack", "--classes", "20"]),
        ("topk", ["evaluate", "l.cstack", lists, "--split", "oof", "--baselines"]),
        ("topk", ["compare", lists, "--classes", "20"]),
        ("digits", ["fit", digits, "-o", "m.cstack", "--metric", "f1-macro", "--cascade"]),
        ("concrete", ["fit", concrete, "-o", "r.cstack", "--metric", "mae"]),
        ("digits", ["adapt", "m.cstack", digits, "--split", "test", "-o", "adapted.cstack"]),
        ("digits", ["monitor", "m.cstack", digits, "--split", "test"]),
        ("digits", ["profile", "m.cstack", digits, "--methods", "average", "--seconds", "0.01"]),
        ("digits", ["predict", "m.cstack", digits, "-o", "p.npy", "--cascade"]),
        ("digits", ["predict", "m.cstack", digits, "-o", "p.npy", "--label-shift", "em"]),
        ("digits", ["show", "adapted.cstack"]),
        ("digits", ["compare", "--list-methods"]),
        ("digits", ["options"]),
        ("digits", ["export", "m.cstack", "--format", "c", "-o", "m.c"]),
        ("digits", ["soup", "uniform", *files, "-o", "soup.safetensors"]),
        ("digits", ["swa", *files, "-o", "swa.safetensors"]),
        ("digits", ["swag", "fit", *files, "-o", "swag.safetensors"]),
        ("digits", ["swag", "sample", "swag.safetensors", "-n", "2", "-o", "samples"]),
    ):
        done = run(*arguments, "--json", "-t", "1", cwd=folder)
        assert done.code == 0, (arguments, done.err)
        yield arguments[0], pool, done.json()


def documents():
    for file in sorted((ROOT / "tests" / "golden").glob("*.json")):
        command, pool, _ = file.name.split(".")
        yield command, pool, json.loads(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="corestack-json-") as folder:
        yield from runs(folder)


def page():
    found, tasks, lists = {}, {}, set()
    for command, pool, document in documents():
        example = pool.partition("-")[0]
        task = TASKS.get(example, example)
        tasks.setdefault(command, set()).add(task)
        for path, many in paths(document, (command,)):
            found.setdefault(command, {}).setdefault(path, set()).add(task)
            lists.update({path} if many else ())
    text, used = [INTRO], set()
    for command in ORDER:
        if command not in found:
            continue
        text.append(f"## {command}\n\n| key | tasks | value |\n|---|---|---|")
        parents = {}
        for path in found[command]:  # keys of one object together, in the order in which they were first seen
            parents.setdefault(path[:-1], []).append(path)
        for path in below(parents, (command,)):
            _, said = meaning(path) or meaning(base(path)) or (False, "")
            used.update(k for k in described() if matches(k, path) or matches(k, base(path)))
            if path[-1] == "NAME" or base(path) != path and base(path) in found[command]:
                continue
            shown = ".".join(p + "[]" * ((command, *path[1:i + 2]) in lists) for i, p in enumerate(path[1:]))
            of = found[command][path]
            text.append(f"| `{shown}` | {', '.join(sorted(of)) if of != tasks[command] else ''} | {said} |".replace(" |  | ", " | | "))
        text.append("")
    text.append("## Further keys\n\nWith other options, tasks and splits (conditions, several splits, groups, `--ood`: [robustness.md](robustness.md)); "
                "`PARENT.KEY` or `COMMAND.KEY`.\n\n| key | value |\n|---|---|")
    text += [f"| `{key.replace('{}', '')}` | {said} |" for key, said in described().items() if key not in used]
    return "\n".join(text) + "\n"


def matches(key, path):
    parts = tuple(key.replace("{}", "").split("."))
    return path[len(path) - len(parts):] == parts


def below(parents, path):
    for child in parents.get(path, ()):
        yield child
        yield from below(parents, child)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    PAGE.write_text(page(), encoding="utf-8")
