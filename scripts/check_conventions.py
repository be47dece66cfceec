#!/usr/bin/env python3
"""Checks the public headers against docs/conventions.md: names, the order of parameters, the types of counts.

    scripts/check_conventions.py [INCLUDE_DIR]
"""
import re
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "include") / "corestack"
COUNTS = r"(rows|members|classes|columns|outputs|count|resamples|splits|draws|levels|\w+_count)"
SCALARS = r"(int|int8_t|int32_t|int64_t|uint8_t|uint64_t|size_t|double|float|char|void)"
failed = False


def refuse(where, text):
    global failed
    failed = True
    print(f"{where}: {text} (docs/conventions.md)", file=sys.stderr)


def is_result(parameter):
    """A pointer through which the function gives something: not to const, and to a number or a pointer."""
    return (
        "*" in parameter
        and not re.search(r"\bconst\b[^*]*\*", parameter)
        and (parameter.count("*") > 1 or re.match(SCALARS + r"\b", parameter) is not None)
        and not re.search(r"\*(user|self|text)$", parameter)
    )


def check_function(header, result, name, parameters):
    where = f"{header}: {name}"
    if re.search(r"_(new|destroy|delete|make)$", name):
        refuse(where, "makers are called _create, _open or _load, and the end of an object _free or _close")
    if any("cst_context *" in parameter for parameter in parameters[1:]):
        refuse(where, "the context is the first parameter")
    results = [is_result(parameter) for parameter in parameters]
    makes = re.search(r"_(create|open|load|from_\w+|create_with|open_files|load_memory)$", name) and any(results)
    if makes and not results[0 if name.startswith("cst_context_create") else 1]:
        refuse(where, "what a maker gives comes right after the context")
    if not makes and True in results and not all(results[results.index(True) :]):
        refuse(where, "results come after everything else")
    if name.endswith("_free") and (result != "void" or len(parameters) > 2):
        refuse(where, "a _free takes the context and the object, and returns nothing")
    for parameter in parameters:
        if re.search(rf"^(int|int32_t|size_t) {COUNTS}$", parameter):
            refuse(where, f"counts are int64_t, not '{parameter}'")


for path in sorted(FOLDER.glob("*.h")):
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
    for result, name, parameters in re.findall(r"CST_API\s+([\w\s]+?[\s*]+)(cst_\w+)\(([^;]*?)\)[^;)]*;", text):
        parts = [" ".join(part.split()) for part in parameters.split(",")]
        check_function(path.name, result.strip(), name, [part for part in parts if part != "void"])
    for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", text):
        for field in body.split(";"):
            if re.search(rf"^(int|int32_t|size_t) {COUNTS}$", " ".join(field.split())):
                refuse(f"{path.name}: {name}", f"counts are int64_t, not '{' '.join(field.split())}'")
sys.exit(failed)
