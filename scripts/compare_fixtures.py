"""Compares two folders of fixtures: numbers to a relative 1e-7 (of the largest of an array, since
processors differ in the last digits), everything else exactly.

    scripts/compare_fixtures.py COMMITTED COMPUTED
"""
import json
import pathlib
import re
import sys

import numpy as np

NUMBER = re.compile(r"([-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)")
TOLERANCE = 1e-7


def differing(a, b):
    """The largest difference, relative to the scale of the array."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    if a.shape != b.shape:
        return np.inf
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    a, b = np.where(np.isfinite(a), a, 0), np.where(np.isfinite(b), b, 0)
    scale = max(np.abs(a).max(initial=0), 1e-300)
    return np.abs(a - b).max(initial=0) / scale


def tensors(path):
    """The header of a safetensors file, and its tensors: floats of 32 and 64 bits as such, others as bytes."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    table = json.loads(content[8:start])
    table.pop("__metadata__", None)
    kinds = {"F32": "<f4", "F64": "<f8"}
    return content[:start], [np.frombuffer(content[start:][slice(*e["data_offsets"])], kinds.get(e["dtype"], "u1"))
                             for e in table.values()]


def compare_tensors(left, right):
    """What differs between two safetensors files, or None."""
    (head, a), (other, b) = tensors(left), tensors(right)
    if head != other:
        return "the header differs"
    if any(x.dtype == np.uint8 and not np.array_equal(x, y) for x, y in zip(a, b)):
        return "bytes differ"
    worst = max((differing(x, y) for x, y in zip(a, b)), default=0)
    return None if worst <= TOLERANCE else f"numbers differ by {worst:.1e}"


def compare(left, right):
    """What differs between two files, or None."""
    if left.read_bytes() == right.read_bytes():
        return None
    if left.suffix == ".npy":
        a, b = np.load(left), np.load(right)
        if a.dtype != b.dtype:
            return f"{a.dtype} became {b.dtype}"
        worst = differing(a, b)
        return None if worst <= TOLERANCE else f"numbers differ by {worst:.1e}"
    if left.suffix == ".safetensors" and left.parent.name == "weight_space":
        return compare_tensors(left, right)
    try:
        texts = left.read_text(), right.read_text()
    except UnicodeDecodeError:
        return "bytes differ"
    # Arrays are compared one by one: a text splits at its statements and brackets.
    parts = [re.split(r"[;{}\[\]]", text) for text in texts]
    if len(parts[0]) != len(parts[1]):
        return "the structure differs"
    worst = 0
    for a, b in zip(*parts):
        if NUMBER.sub("#", a).split() != NUMBER.sub("#", b).split():
            return f"text differs: {a.strip()[:60]!r}"
        worst = max(worst, differing([float(x) for x in NUMBER.findall(a)],
                                     [float(x) for x in NUMBER.findall(b)]))
    return None if worst <= TOLERANCE else f"numbers differ by {worst:.1e}"


def main():
    committed, computed = (pathlib.Path(argument) for argument in sys.argv[1:3])
    files = [sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
             for root in (committed, computed)]
    failed = 0
    for name in sorted(set(files[0]) | set(files[1])):
        if name not in files[1]:
            problem = "no script in tests/oracles writes it"
        elif name not in files[0]:
            problem = "written by a script and not in the repository"
        else:
            problem = compare(committed / name, computed / name)
        if problem:
            print(f"{name}: {problem}")
            failed += 1
    print(f"{len(files[0])} fixtures, {failed} not as computed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
