"""Every declaration of corestack._library against the headers: fields by a C compiler, functions by their text."""
from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from common import ROOT

from corestack import _library as c
from corestack._errors import BY_STATUS

HEADERS = ROOT / "include" / "corestack"
STRUCTS = {
    "cst_array": c.Array,
    "cst_pool_arrays": c.PoolArrays,
    "cst_pool_config": c.PoolConfig,
    "cst_metrics": c.Metrics,
    "cst_reliability_bin": c.ReliabilityBin,
    "cst_guard": c.Guard,
    "cst_guard_batch": c.GuardBatch,
    "cst_bound_batch": c.BoundBatch,
    "cst_predicted_values": c.PredictedValues,
    "cst_value_metrics": c.ValueMetrics,
    "cst_segmentation_scores": c.SegmentationScores,
    "cst_evaluate_options": c.EvaluateOptions,
    "cst_bound_options": c.BoundOptions,
    "cst_adapter_options": c.AdapterOptions,
    "cst_adapter_state": c.AdapterState,
    "cst_adapt_options": c.AdaptOptions,
    "cst_profile_options": c.ProfileOptions,
    "cst_sweep_options": c.SweepOptions,
    "cst_compare_options": c.CompareOptions,
    "cst_option_spec": c.OptionSpec,
}
CONSTANTS = {
    "CST_TASK_CLASSIFICATION": c.CLASSIFICATION,
    "CST_TASK_REGRESSION": c.REGRESSION,
    "CST_TASK_SEGMENTATION": c.SEGMENTATION,
    "CST_TASK_DETECTION": c.DETECTION,
    "CST_OUTPUT_PROBABILITY": c.PROBABILITY,
    "CST_OUTPUT_LOGIT": c.LOGIT,
    "CST_NUMBER_FLOAT32": c.FLOAT32,
    "CST_NUMBER_FLOAT64": c.FLOAT64,
    "CST_NUMBER_FLOAT16": c.FLOAT16,
    "CST_LEVELS_MAX": c.LEVELS_MAX,
    "CST_DTYPE_U64 + 1": c.DTYPE_COUNT,
}
ENUMS = "cst_status|cst_task|cst_output|cst_log_level|cst_number|cst_map_format|cst_layout|cst_dtype|cst_guard_mode|cst_label_method|cst_bound_weights"
SCALARS = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "void": None,
}


def sources():
    for header in sorted(HEADERS.glob("*.h")):
        yield re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)


def kind_of(text):
    """What a C type is to ctypes: a scalar's class, "text" for char *, or "pointer"."""
    text = " ".join(re.sub(r"\b(const|struct)\b", " ", text).split())
    if re.fullmatch(r"cst_\w+_fn( \w+)?", text):
        return text.split()[0]
    if re.search(r"\bchar \*( ?\w+)?$", text):
        return "text"
    if "*" in text:
        return "pointer"
    word = text.split()[0]
    return ctypes.c_int if re.fullmatch(ENUMS, word) else SCALARS.get(word, word)


def kind_of_ctypes(kind):
    if kind is c.LOG:
        return "cst_log_fn"
    if kind is c.PROGRESS:
        return "cst_progress_fn"
    if kind is ctypes.c_char_p:
        return "text"
    if kind is ctypes.c_void_p or (isinstance(kind, type) and issubclass(kind, ctypes._Pointer)):
        return "pointer"
    return kind


class Binding(unittest.TestCase):
    def test_functions(self):
        found = {}
        for text in sources():
            for result, name, arguments in re.findall(r"CST_API\s+([\w\s]+?[\s*]+)(cst_\w+)\(([^;]*)\);", text):
                parts = [] if arguments.strip() == "void" else arguments.split(",")
                found[name] = (kind_of(result), [kind_of(part) for part in parts])
        self.assertGreater(len(found), 80)
        for name, (result, arguments) in c.FUNCTIONS.items():
            with self.subTest(name):
                here = (kind_of_ctypes(result), [kind_of_ctypes(kind) for kind in arguments])
                self.assertEqual(here, found[name])

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_structs_and_constants(self):
        lines = ["#include <corestack/corestack.h>", "#include <stdio.h>", "int main(void) {"]
        expected = []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
            for field, _ in struct._fields_:
                where = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
                lines.append(f'printf("{name}.{field} %zu %zu\\n", {where});')
                place = getattr(struct, field)
                expected.append(f"{name}.{field} {place.offset} {place.size}")
        for name, value in CONSTANTS.items():
            lines.append(f'printf("{name} %d\\n", (int)({name}));')
            expected.append(f"{name} {value}")
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
