#!/usr/bin/env python3
"""The part of the sources that computes a prediction as one text of C99, for `corestack export --format c`.

    runtime_c.py SOURCES OUT.c FILE...      FILE: the sources that it is taken from; OUT.c: the text as an array of bytes

Every file goes through the compiler's preprocessor without the headers of the system, whose macros and types stay as they are. What the
root functions need, directly or not, is kept; all of it becomes static, and names that two files use for different things get a number.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOTS = ["cst_predict_chunks"]
# Written anew: without messages, and for processors without these registers.
OWN = {
    "cst_fail": """static cst_status cst_fail(cst_context *context, cst_status code, const char *format, ...) {
    (void)context;
    (void)format;
    return code;
}""",
    "cst_wide_registers": """static cst_registers cst_wide_registers(void) {
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return CST_REGISTERS_AVX2;
#endif
    return CST_REGISTERS_BASE;
}""",
}
OPAQUE = ("struct cst_context {", "struct cst_run {")
HEAD = """#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
#if defined(__GNUC__)
#define INLINED inline __attribute__((always_inline))
#else
#define INLINED inline
#endif
#if defined(__GNUC__) && defined(__x86_64__)
#define FOR_AVX2 __attribute__((target("avx2")))
#else
#define FOR_AVX2
#endif
"""


def preprocess(root, path, empty):
    done = subprocess.run(
        [os.environ.get("CC", "cc"), "-E", "-P", "-std=c17", "-nostdinc", "-undef", "-D__x86_64__", "-D__GNUC__=12", "-DCST_SMALL"]
        + ["-D_POSIX_C_SOURCE=200809L", "-I", empty, "-I", root / "include", "-I", root / "src", path],
        stdout=subprocess.PIPE, check=True, text=True,
    )  # fmt: skip
    return done.stdout


def items(text):
    """Declarations and definitions of a file, one after the other."""
    start = depth = 0
    at = 0
    while at < len(text):
        c = text[at]
        if c in "\"'":
            at += 1
            while text[at] != c:
                at += 2 if text[at] == "\\" else 1
        elif c in "({[":
            depth += 1
        elif c in ")}]":
            depth -= 1
        ends = c == ";" and depth == 0
        if c == "}" and depth == 0:  # the end of a function, but not of a struct or of values
            ends = bool(re.match(r"[^=]*\)\s*(__attribute__\s*\(\(.*?\)\)\s*)*\{", text[start : at + 1], re.S)) and not re.match(
                r"\s*(typedef|enum|struct)\b[^(]*\{", text[start : at + 1]
            )
        if ends:
            yield text[start : at + 1].strip()
            start = at + 1
        at += 1


def is_function(item):
    return item.endswith("}")


def head_of(item):
    return item[: item.index("{")].strip()


def names_of(item):
    """What an item defines."""
    try:
        return names_of_(item)
    except AttributeError:
        sys.exit(f"cannot read: {item[:300]}")


def names_of_(item):
    if item.startswith("_Static_assert"):
        return []
    plain = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", item)
    if is_function(item):
        return [re.search(r"(\w+)\s*\($", plain[: plain.index("(") + 1]).group(1)]
    found = re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", plain)
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", plain):
        found += re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    if plain.startswith("typedef"):
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", plain)
        called = re.search(r"(\w+)\s*\([^()]*\)\s*;$", plain)
        pointer = pointer or called
        found.append(pointer.group(1) if pointer and "{" not in plain else re.search(r"(\w+)\s*(\[[^\]]*\])*\s*;$", plain).group(1))
    elif "=" in plain and not plain.startswith("enum"):
        found.append(re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", plain[: plain.index("=")].strip()).group(1))
    return found


def collect(root, files):
    """Items in their order, with the names that they define."""
    seen, owner, kept = set(), {}, []
    with tempfile.TemporaryDirectory() as empty:
        for name in set(re.findall(r"(?m)^#\s*include\s*<([^>]+)\.h>", "".join(p.read_text() for p in root.glob("src/**/*.[ch]")))):
            if name.startswith("corestack/"):
                continue
            Path(empty, name + ".h").parent.mkdir(exist_ok=True, parents=True)
            Path(empty, name + ".h").write_text("")
        for number, path in enumerate(files):
            own, renamed = [], {}
            for item in items(preprocess(root, path, empty)):
                if item in seen or item == ";" or item.startswith(OPAQUE):
                    continue
                seen.add(item)
                for name in names_of(item):
                    if owner.setdefault(name, path) != path and not name.lower().startswith("cst_"):
                        renamed[name] = f"{name}_{number}"
                own.append(item)
            for item in own:
                for name, other in renamed.items():
                    item = re.sub(rf"(?<![.>\w]){name}\b", other, item)
                kept.append((item, names_of(item)))
    return kept


def reach(kept):
    home = {}
    kept = [(text, [name]) for name, text in OWN.items()] + [k for k in kept if not set(k[1]) & set(OWN)]
    for index, (_, names) in enumerate(kept):
        for name in names:
            home.setdefault(name, []).append(index)
    wanted, left = set(), list(ROOTS)
    tokens = re.compile(r'"(?:\\.|[^"\\])*"|\b[A-Za-z_]\w*')
    while left:
        for index in home.get(left.pop(), []):
            if index not in wanted:
                wanted.add(index)
                left += tokens.findall(kept[index][0])
    return [kept[i] for i in sorted(wanted)]


def render(kept):
    types, functions, tables = [], [], []
    for item, names in kept:
        if is_function(item):
            item = re.sub(r"^(static\s+|inline\s+|extern\s+)*", "", item)
            item = re.sub(r'__attribute__\s*\(\(\s*target\("avx2"\)\s*\)\)\s*', "FOR_AVX2 ", item)
            item = re.sub(r"(static\s+)?inline\s+__attribute__\(\(always_inline\)\)", "INLINED", item)
            item = re.sub(r"^__attribute__\(\(always_inline\)\)", "INLINED", item)
            functions.append(re.sub(r"^(FOR_AVX2\s+)?(?:static\s+)?", r"static \1", item, count=1))
        elif "=" in item and not item.startswith(("typedef", "enum")):
            tables.append(item if item.startswith("static") else "static " + item)
        else:
            types.append(item)
    # Forward declarations of structs that are only pointed at.
    heads = [re.sub(r"\s+", " ", head_of(f)) + ";" for f in functions]
    return "\n".join([HEAD, *types, *tables, *heads, "", *functions, ""])


def main():
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    text = render(reach(collect(root, sys.argv[3:])))
    if out.suffix == ".txt":
        out.write_text(text)
        return
    data = text.encode()
    rows = [",".join(str(b) for b in data[i : i + 32]) for i in range(0, len(data), 32)]
    out.write_text(
        "/* Made by scripts/runtime_c.py. */\n#include <stddef.h>\nextern const unsigned char cst_runtime_text[];\n"
        "extern const size_t cst_runtime_size;\n"
        "const unsigned char cst_runtime_text[] = {\n" + ",\n".join(rows) + "};\n"
        f"const size_t cst_runtime_size = {len(data)};\n"
    )


if __name__ == "__main__":
    main()
