#!/usr/bin/python3
"""Golden files: what each command prints on the example pools, in tests/golden/.

    tests/cli/golden.py                      compares all of them and prints what differs
    tests/cli/golden.py --write              writes them
    tests/cli/golden.py NAME...              only these, for example `compare.digits`; also with --write
    tests/cli/golden.py --compare FILE FILE  compares two texts, the expected one first

The tool is CORESTACK_TOOL, or build-gcc/corestack. NAME.txt holds the command, standard output, standard error and an exit
status other than 0. NAME.json holds standard output with --json. Times and memory are replaced by T. Words and whole numbers
must agree exactly, since nothing else should depend on the machine. Other numbers may differ in the last printed digit of a
text, and by a relative 1e-6 in JSON: linear algebra rounds differently on other processors.
"""

import difflib
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("CORESTACK_TOOL", os.path.join(ROOT, "build-gcc", "corestack"))
os.environ.setdefault("CORESTACK_SOURCES", ROOT)

from support import SOURCES, run, small  # noqa: E402

FOLDER = os.path.join(SOURCES, "tests", "golden")
EXAMPLES = os.path.join(SOURCES, "examples")
POOLS = ("digits", "digits-small", "concrete", "regression", "segmentation", "detection", "detection-small", "multilabel")
COMMANDS = "fit predict online evaluate compare adapt monitor ablate sweep inspect show report profile bound folds soup swa swag export options".split()
# Fewer pixels than the default, since a fit on 50,000 takes several seconds.
SETTINGS = {"segmentation": ["--set", "segment.pixels=300"]}
OUTPUT = {"segmentation": ["--format", "labels", "-o", "maps"], "detection": ["-o", "fused.json"]}

# ---- what is run ----


def of_pool(pool):
    """(command, arguments, endings) in an order in which each finds the files that it reads."""
    settings = SETTINGS.get(pool, [])
    held_out = ["--split", "test", "--resamples", "20"]
    model = pool + ".cstack"
    both, text, json = (".txt", ".json"), (".txt",), (".json",)
    # Each run is repeated for JSON, so that of the large pool comes from the small one, and that of "concrete", which has the
    # keys of "regression", is left out.
    most = {"digits": text, "digits-small": json, "concrete": text, "multilabel": text}.get(pool, both)
    baselines = ["--baselines"] if pool in ("digits", "digits-small", "concrete") else []
    if pool != "detection-small":
        yield "inspect", [pool, *settings], most
        yield "fit", [pool, "-o", model, "--set", "evaluate.nested=false", *settings], most
        if pool in ("digits", "regression"):
            yield "fit-full", [pool, "-o", "full.cstack", "--set", "evaluate.nested=false", "--verbose"], text
        yield "predict", [model, pool, *OUTPUT.get(pool, ["-o", "out.npy"])], most
        if pool.startswith("digits"):
            yield "online", [model, pool, "--delay", "20"], most
        yield "show", [model, pool], json if pool == "digits-small" else text
        yield "evaluate", [model, pool, *baselines, "--resamples", "20"], most
        yield "compare", [pool, "--methods", "best-single,average,default", *held_out, *settings], most
        yield "bound", [model, pool], json if pool == "digits-small" else text
    if pool == "multilabel":
        return
    if pool not in ("digits", "concrete", "detection"):
        small = pool == "segmentation"
        sizes = ["--over", "pool.size=2" if small else "pool.size=2,4", "--draws", "1" if small else "2"]
        yield "ablate", [pool, *held_out, *settings], text if small else both
        yield "sweep", [pool, *sizes, "--split", "test", *settings], text if small else both


def cases():
    """(name, arguments, endings)"""
    both, text = (".txt", ".json"), (".txt",)
    for pool in POOLS:
        for command, arguments, endings in of_pool(pool):
            yield f"{command}.{pool}", [command.partition("-")[0], *arguments, "-t", "1"], endings
    yield "folds.digits", ["folds", "--labels", "digits/oof_labels.npy", "-o", "folds.npy"], both
    yield "folds.concrete", ["folds", "--labels", "concrete/oof_labels.npy", "--task", "regression", "-o", "folds.npy"], both
    yield "options", ["options"], text
    yield "help", ["--help"], text
    for command in COMMANDS:
        yield f"{command}.help", [command, "--help"], text
    yield "fit.help-all", ["fit", "--help", "all"], text


def home(pool):
    """The folder of an example, or of the small pool that is made of one."""
    example, _, size = pool.partition("-")
    if not size:
        return os.path.join(EXAMPLES, example)
    return os.path.dirname(small(example, 6) if example == "digits" else small(example, 4, 2))


def outputs(names=()):
    """{file: text} of the cases that are named, or of all. Cases before them that make what they read are run as well."""
    found = {}
    for name in ("COLUMNS", "CLICOLOR_FORCE", "FORCE_COLOR"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="corestack-golden-") as folder:
        for pool in POOLS:
            os.symlink(home(pool), os.path.join(folder, pool))
        for name, arguments, endings in cases():
            command, _, pool = name.partition(".")
            needed = command == "fit" and any(n.endswith("." + pool) for n in names)
            if names and name not in names and not needed:
                continue
            for ending in endings:
                done = run(*arguments, *(["--json"] if ending == ".json" else []), cwd=folder, env={"OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"})
                text = done.out
                if ending == ".txt":
                    text = f"$ corestack {' '.join(arguments)}\n{text}"
                    text += f"---- standard error\n{done.err}" if done.err else ""
                    text += f"---- exit status {done.code}\n" if done.code else ""
                if text and (not names or name in names):
                    found[name + ending] = without_times(text, ending)
                if os.path.isdir(os.path.join(folder, "maps")):  # predict does not replace a folder
                    os.rename(os.path.join(folder, "maps"), os.path.join(folder, f"maps{len(os.listdir(folder))}"))
    return found


# ---- times ----


def without_times(text, ending):
    return "".join(json_lines(text) if ending == ".json" else text_lines(text))


def json_lines(text):
    inside = False  # an object of times
    for line in text.splitlines(keepends=True):
        if re.match(r'\s*"seconds\w*": \{', line):
            inside = True
        if inside or re.match(r'\s*"(seconds\w*|peak_rss_bytes)": [-\d]', line):
            line = re.sub(r": [-+.\de]+", ': "T"', line)
        line = re.sub(r'"modified": "[^"]*"', '"modified": "T"', line)
        if "}" in line:
            inside = False
        yield line


def text_lines(text):
    title = None  # of a table with a column of seconds, whose width follows its numbers
    text = re.sub(r"(?m)^(  time .*,)\n {22}", r"\1 ", text)  # where it breaks, follows its numbers
    for line in text.splitlines(keepends=True):
        line = re.sub(r"file modified \S+", "file modified T", line)
        if re.match(r"\s*(time\s|peak memory\s|Seconds: |[\d.]+ s$)", line):
            line = re.sub(r"\d+(\.\d+)?", "T", line)
        line = re.sub(r"\bin \d+(\.\d+)? s\b", "in T s", line)
        found = re.match(r".* K (.*FLOPs)?(?P<column> +s)(?=\s)", line)
        if found:
            title = found
        elif ":" in line:
            title = None
        if title and (found or re.fullmatch(r" *[\d.]+", line[slice(*title.span("column"))])):
            first, end = title.span("column")
            line = line[:first] + ("  s" if found else "  T") + line[end:]
        yield line


# ---- comparison ----

NUMBER = re.compile(r"(?<![\w.+-])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]|\.\d)")


def unit(number):
    """The value of a number's last printed digit."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def near(expected, actual, ending):
    """Whether two numbers, as printed, are as good as equal."""
    if expected == actual:
        return True
    if not set(".e") & set(expected + actual):
        return False
    a, b = float(expected), float(actual)
    if ending == ".json":
        return abs(a - b) <= max(1e-6 * max(abs(a), abs(b)), 1e-9)
    return abs(a - b) <= 1.01 * max(unit(expected), unit(actual))


def difference(name, expected, actual):
    """A unified diff of two outputs, without lines that differ by rounding; empty where nothing is left."""
    ending = os.path.splitext(name)[1]
    old, new = expected.splitlines(), actual.splitlines()
    words = [[NUMBER.sub("#", line) for line in lines] for lines in (old, new)]
    blocks = difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
    for i, j, count in blocks:
        for k in range(count):
            a, b = NUMBER.findall(old[i + k]), NUMBER.findall(new[j + k])
            if all(near(x, y, ending) for x, y in zip(a, b)):
                new[j + k] = old[i + k]
    return "\n".join(difflib.unified_diff(old, new, name, "now", lineterm=""))


def stored(name):
    try:
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def differences(names=()):
    """{file: unified diff} of what is not as it was, and of files without a case."""
    found = outputs(names)
    result = {name: difference(name, stored(name), text) for name, text in found.items()}
    if not names:
        left = set(os.listdir(FOLDER) if os.path.isdir(FOLDER) else ()) - set(found)
        result.update({name: difference(name, stored(name), "") for name in left})
    return {name: text for name, text in result.items() if text}


def write(names=()):
    found = outputs(names)
    os.makedirs(FOLDER, exist_ok=True)
    for name in set() if names else set(os.listdir(FOLDER)) - set(found):
        os.remove(os.path.join(FOLDER, name))
    for name, text in found.items():
        if difference(name, stored(name), text) or not stored(name):  # roundings stay as they are
            with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
                file.write(text)
            print(f"tests/golden/{name}")


def main(arguments):
    if arguments[:1] == ["--compare"]:
        expected, actual = (open(name, encoding="utf-8").read() for name in arguments[1:])
        diff = difference(arguments[1], expected, actual)
        print(diff, end="\n" if diff else "")
        return bool(diff)
    if arguments[:1] == ["--write"]:
        return write(arguments[1:])
    diffs = differences(arguments)
    print("\n".join(diffs.values()))
    return bool(diffs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
