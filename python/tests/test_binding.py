"""The declarations that python/declarations.py makes of the headers, against a C compiler."""
from __future__ import annotations

import ctypes
import re
import runpy
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import ROOT

from corestack import _library as c
from corestack._errors import BY_STATUS

HEADERS = ROOT / "include" / "corestack"


class Binding(unittest.TestCase):
    def test_functions(self):
        functions = c._declared["FUNCTIONS"]
        self.assertGreater(len(functions), 80)
        expected = (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.POINTER(c.PoolConfig)])
        self.assertEqual(functions["cst_pool_open"], expected)
        self.assertEqual(functions["cst_model_free"], (None, [ctypes.c_void_p, ctypes.c_void_p]))
        self.assertEqual(functions["cst_safetensors_shape"][0], ctypes.POINTER(ctypes.c_int64))
        self.assertEqual(functions["cst_soup_uniform"][1][1], ctypes.POINTER(ctypes.c_char_p))

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_structs_and_constants(self):
        module = runpy.run_path(str(ROOT / "python" / "declarations.py"))
        lines = ["#include <corestack/more.h>", "#include <stdio.h>", "int main(void) {"]
        expected = []
        for name in module["Headers"](HEADERS).structs:
            struct = getattr(c, module["struct_name"](name))
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for field, _ in struct._fields_:
                where = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
                lines.append(f'printf("{name}.{field} %zu %zu\\n", {where});')
                place = getattr(struct, field)
                expected.append(f"{name}.{field} {place.offset} {place.size}")
        for name, value in c._declared.items():
            if isinstance(value, (int, float)) and name[0] != "_":
                lines.append(f'printf("{name} %g\\n", (double)(CST_{name}));')
                expected.append(f"{name} {value:g}")
        self.assertGreater(len(expected), 200)
        lines += ["return 0;", "}"]
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "layout.c"
            program.write_text("\n".join(lines))
            subprocess.run(["cc", "-I", str(ROOT / "include"), "-o", f"{folder}/layout", str(program)], check=True)
            out = subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(out.splitlines(), expected)

    def test_every_status_has_an_exception(self):
        codes = re.findall(r"X\(CST_\w+, (\d+),", (HEADERS / "status.h").read_text())
        self.assertEqual({int(code) for code in codes} - {0}, set(BY_STATUS))


if __name__ == "__main__":
    unittest.main()
