#!/usr/bin/env python3
"""Writes the ctypes declarations of the public headers: constants, callbacks, structs and functions.

    python/declarations.py include/corestack OUT.py

cst_pool_config becomes PoolConfig, cst_log_fn LOG_FN, CST_TASK_DETECTION TASK_DETECTION. Pointers to text are c_char_p,
those to structs and callbacks have their type, all others are void *.
"""
import itertools
import re
import sys
from pathlib import Path

SCALARS = {
    "char": "c_char", "int": "c_int", "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint32_t": "c_uint32",
    "uint64_t": "c_uint64", "size_t": "c_size_t", "double": "c_double", "float": "c_float", "void": "None",
}  # fmt: skip


def struct_name(name):
    return "".join(part.capitalize() for part in name[4:].split("_"))


class Headers:
    def __init__(self, folder):
        paths = [path for path in sorted(Path(folder).glob("*.h")) if path.name != "mpi.h"]  # of a library of its own
        paths.sort(key=lambda path: path.name != "predict.h")  # the others include it
        text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        self.text = text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.constants = dict(re.findall(r"^#define CST_(\w+) (-?[\d.]+)$", text, flags=re.M))
        self.enums = dict((name, body) for body, name in re.findall(r"typedef enum \w+ \{([^}]*)\} (\w+);", text))
        self.structs = dict((name, body) for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", text))
        self.callbacks = re.findall(r"typedef ([\w ]+?[ *]*)\(\*(cst_\w+)\)\(([^;]*)\);", text)
        self.functions = re.findall(r"CST_API\s+([\w\s]+?[\s*]+)(cst_\w+)\(([^;]*?)\)\s*(?:CST_PRINTF\([^)]*\))?;", text)

    def kind(self, text, indexed=False):
        """What the declaration `text`, with or without a name, is to ctypes."""
        text = " ".join(re.sub(r"\b(const|struct)\b", " ", text).replace("*", " * ").split())
        word, stars = text.split()[0], text.count("*")
        if stars == 0:
            if word in SCALARS:
                return SCALARS[word]
            if word in self.enums:
                return "c_int"
            if any(word == name for _, name, _ in self.callbacks):
                return word[4:].upper()
            raise SystemExit(f"declarations.py: no type for '{text}'")
        if word == "char" and stars == 1:
            return "c_char_p"
        if word in self.structs and stars == 1:
            return f"POINTER({struct_name(word)})"
        if stars == 1 and indexed and word in SCALARS and word != "void":
            return f"POINTER({SCALARS[word]})"
        return "c_void_p" if stars == 1 else "POINTER(c_void_p)"

    def arguments(self, text):
        parts = [] if text.strip() in ("", "void") else text.split(",")
        return [self.kind(part) for part in parts]

    def callback(self, result, arguments):
        return f"CFUNCTYPE({', '.join([self.kind(result), *(self.kind(part, True) for part in arguments.split(','))])})"

    def fields(self, body):
        for field in filter(None, (" ".join(part.split()) for part in re.split(r";(?![^(]*\))", body))):
            if pointer := re.match(r"([\w ]+[ *]*)\(\*(\w+)\)\((.*)\)$", field):
                yield pointer[2], self.callback(pointer[1], pointer[3])
                continue
            kind, name, length = re.match(r"(.*?)(\w+)(\[\w+\])?$", field).groups()
            ctype = self.kind(kind)
            if ctype == "POINTER(c_void_p)" and "char" in kind:
                ctype = "POINTER(c_char_p)"
            yield name, f"{ctype} * {length[1:-1].replace('CST_', '')}" if length else ctype

    def struct(self, name):
        yield f"\n\nclass {struct_name(name)}(Structure):\n    _fields_ = ["
        for field, ctype in self.fields(self.structs[name]):
            yield f'        ("{field}", {ctype}),'
        yield "    ]"

    def lines(self):
        yield '"""Made from the headers by python/declarations.py."""'
        yield "from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64"
        yield "from ctypes import c_size_t, c_uint8, c_uint32, c_uint64, c_void_p"
        yield ""
        for name, value in self.constants.items():
            yield f"{name} = {value}"
        for body in self.enums.values():
            value = -1
            for item in filter(None, (part.strip() for part in body.split(","))):
                name, _, given = (part.strip() for part in item.partition("="))
                if "(" in name:  # a list by a macro
                    continue
                value = int(given, 0) if given else value + 1
                yield f"{name[4:]} = {value}"
        told = " ".join(arguments for _, _, arguments in self.callbacks)
        first = [name for name in self.structs if re.search(rf"\b{name}\b", told)]
        yield from itertools.chain.from_iterable(map(self.struct, first))
        for result, name, arguments in self.callbacks:
            yield f"{name[4:].upper()} = {self.callback(result, arguments)}"
        yield from itertools.chain.from_iterable(self.struct(name) for name in self.structs if name not in first)
        yield "\n\nFUNCTIONS = {"
        for result, name, arguments in self.functions:
            kind = self.kind(result, indexed=True)
            types = [
                "POINTER(c_char_p)" if re.search(r"const char \*const \*", " ".join(part.split())) else ctype
                for part, ctype in zip(arguments.split(","), self.arguments(arguments))
            ]
            yield f'    "{name}": ({kind}, [{", ".join(types)}]),'
        yield "}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    Path(sys.argv[2]).write_text("\n".join(Headers(sys.argv[1]).lines()) + "\n", encoding="utf-8")
