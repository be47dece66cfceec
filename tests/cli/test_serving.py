"""libcorestack-predict, the library for services: the same bytes as libcorestack, for other processors too."""

import functools
import gzip
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from support import SOURCES, TOOL, run, slow

BUILD = Path(TOOL).parent
EXAMPLES = Path(SOURCES, "examples")
SMALL, FULL = BUILD / "tests" / "replay_predict", BUILD / "tests" / "replay_full"
FOLDER = tempfile.TemporaryDirectory()


@functools.lru_cache
def model(name):
    path = os.path.join(FOLDER.name, name + ".cstack")
    done = run("fit", EXAMPLES / name / "pool.json", "-o", path)
    assert done.code == 0, done.err
    return path


@functools.lru_cache
def expected(name):
    return subprocess.run([FULL, model(name)], stdout=subprocess.PIPE, check=True).stdout


REGRESSION, MULTILABEL = re.compile(r"task = \(cst_task\)1"), re.compile(r"task = \(cst_task\)4")
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # the programs here end without freeing
PAGE = """<!doctype html><script type="module">
import { load } from "./index.js";
let said;
try {
  const stack = await load();
  const rows = await Promise.all(stack.members.map(async (_, k) => new Float32Array(await (await fetch(`./${k}`)).arrayBuffer())));
  said = stack.predict(rows);
} catch (error) {
  said = String(error);
}
await fetch("./said", { method: "POST", body: said });
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    said = queue.Queue()  # what pages posted

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.said.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()


POOLS = sorted(path.parent.name for path in EXAMPLES.glob("*/pool.json"))


@unittest.skipUnless(SMALL.exists(), "libcorestack-predict is not built with sanitizers")
class Serving(unittest.TestCase):
    def same(self, program, *pools):
        for name in pools:
            with self.subTest(pool=name):
                found = subprocess.run([*program, model(name)], stdout=subprocess.PIPE, check=False).stdout
                self.assertEqual(found, expected(name))
                self.assertIn(b"allocations 0\n", found)

    def test_the_small_library_gives_the_same_bytes(self):
        self.same([SMALL], "digits")

    @slow
    def test_on_every_example_pool(self):
        self.assertGreaterEqual(len(POOLS), 5)
        self.same([SMALL], *POOLS)

    @slow
    def test_rows_of_pools_as_the_tool_predicts_them(self):
        compared = 0
        for name in POOLS:
            members = re.findall(r"(?m)^member ([^\s']+)$", expected(name).decode())
            files = [EXAMPLES / name / f"{member}.test.npy" for member in members]
            if not all(file.exists() for file in files):
                continue
            with self.subTest(pool=name), tempfile.TemporaryDirectory() as work:
                rows, out = [Path(work, file.stem) for file in files], Path(work, "tool.npy")
                for file, raw in zip(files, rows):
                    numbers = np.load(file).astype(np.float64)
                    if '"logit"' in (EXAMPLES / name / "pool.json").read_text():
                        numbers = np.exp(numbers - numbers.max(-1, keepdims=True))
                        numbers /= numbers.sum(-1, keepdims=True)
                    raw.write_bytes(numbers.astype("<f4").tobytes())
                for program in SMALL, FULL:
                    subprocess.run([program, model(name), *rows, Path(work, program.name)], check=True)
                found = Path(work, SMALL.name).read_bytes()
                self.assertEqual(found, Path(work, FULL.name).read_bytes())
                done = run("predict", model(name), EXAMPLES / name / "pool.json", "-o", out)
                self.assertEqual(done.code, 0, done.err)
                # A pool of halves divides rows by their sums before they are rounded to float32.
                np.testing.assert_allclose(np.frombuffer(found, "<f4"), np.load(out).ravel(), rtol=2e-6, atol=1e-9)
                compared += 1
        self.assertGreaterEqual(compared, 4)

    @slow
    def test_built_as_cplusplus(self):
        with tempfile.TemporaryDirectory() as work:
            program = Path(work, "replay")
            source = Path(SOURCES, "tests/serving/replay.c")
            subprocess.run(
                ["g++", "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", Path(SOURCES, "include"), source]
                + ["-x", "none", BUILD / "libcorestack-predict.a", "-Wl,--gc-sections", "-lm", "-o", program],
                check=True,
            )
            self.same([program], "digits", "concrete")

    def cross(self, compiler, *flags, emulator=()):
        """Builds library and program for another processor, in parallel, and compares on every pool."""
        sources = (BUILD / "predict_sources.txt").read_text().split() + [os.path.join(SOURCES, "tests/serving/replay.c")]
        with tempfile.TemporaryDirectory() as work:
            started = [
                subprocess.Popen(
                    [compiler, *flags, "-std=c17", "-Os", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
                    + ["-D_POSIX_C_SOURCE=200809L", "-DCST_SMALL", "-I", os.path.join(SOURCES, "include"), "-I", os.path.join(SOURCES, "src")]
                    + ["-c", source, "-o", os.path.join(work, f"{i}.o")]
                )
                for i, source in enumerate(sources)
            ]
            self.assertEqual([p.wait() for p in started], [0] * len(started))
            program = os.path.join(work, "replay")
            objects = [os.path.join(work, f"{i}.o") for i in range(len(sources))]
            subprocess.run([compiler, *flags, *objects, "-lm", "-o", program], check=True)
            self.same([*emulator, program], *POOLS)

    def exported(self, path, *flags):
        """The model as C99 gives the bits of the library for made-up rows, in one call and row by row."""
        members = re.findall(r"(?m)^member ([^\s']+)$", subprocess.run([FULL, path], stdout=subprocess.PIPE, check=False).stdout.decode())
        with tempfile.TemporaryDirectory() as work:
            source, program = Path(work, "model.c"), Path(work, "exported")
            self.assertEqual(run("export", path, "--format", "c", "-o", source).code, 0)
            classes = int(re.search(r"stack_classes = (\d+)", source.read_text()).group(1))
            subprocess.run(
                ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", *flags]
                + [source, Path(SOURCES, "tests/serving/exported.c"), "-lm", "-o", program],
                check=True,
            )
            rng = np.random.default_rng(5)
            files = [Path(work, str(k)) for k in range(len(members))]
            for file in files:
                rows = rng.random((300, classes)) ** 3 + 1e-5
                if not REGRESSION.search(source.read_text()) and not MULTILABEL.search(source.read_text()):
                    rows /= rows.sum(axis=1, keepdims=True)
                file.write_bytes(rows.astype("<f4").tobytes())
            subprocess.run([program, str(classes), *files, Path(work, "out")], stdout=subprocess.DEVNULL, check=True)
            subprocess.run([FULL, path, *files, Path(work, "library")], check=True)
            self.assertEqual(Path(work, "out").read_bytes(), Path(work, "library").read_bytes())
            with open(Path(work, "0"), "r+b") as file:
                file.write(np.float32(np.nan).tobytes())
            done = subprocess.run([program, str(classes), *files, Path(work, "out")], check=False)
            self.assertEqual(done.returncode, 12)  # CST_ERROR_INPUT

    def test_export_to_c(self):
        self.exported(model("digits"), "-O1")

    @slow
    def test_export_to_c_of_every_pool_and_kind(self):
        for name in POOLS:
            if name != "detection":
                with self.subTest(pool=name):
                    self.exported(model(name), "-O3" if name == "digits" else "-O1")
        for name, *how in [
            ("digits", "--preset", "paper"),
            ("digits", "--preset", "prototype"),
            ("digits", "--method", "mlp"),
            ("digits", "--method", "greedy+temperature"),
            ("digits", "--method", "average+isotonic"),
            ("concrete", "--target-transform", "log1p"),
            ("concrete", "--preset", "paper"),
        ]:
            with self.subTest(pool=name, how=how), tempfile.TemporaryDirectory() as work:
                path = os.path.join(work, "m.cstack")
                done = run("fit", EXAMPLES / name / "pool.json", *how, "-o", path)
                self.assertEqual(done.code, 0, done.err)
                self.exported(path, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

    def test_export_to_c_refuses(self):
        for arguments, text in [(["--name", "a-b"], "no name in C"), (["--values", "logit"], "takes probabilities")]:
            done = run("export", model("digits"), "--format", "c", "-o", os.path.join(FOLDER.name, "x.c"), *arguments)
            self.assertNotEqual(done.code, 0)
            self.assertIn(text, done.err)

    made = None  # folder of scripts/wasm.sh

    def package(self, path, folder):
        if not Serving.made:
            Serving.made = os.path.join(FOLDER.name, "wasm")
            subprocess.run([Path(SOURCES, "scripts/wasm.sh"), Serving.made], stdout=subprocess.DEVNULL, check=True)
        with mock.patch.dict(os.environ, CORESTACK_WASM=Serving.made):
            done = run("export", path, "--format", "wasm", "-o", folder)
        self.assertEqual(done.code, 0, done.err)

    def test_export_to_webassembly(self):
        with tempfile.TemporaryDirectory() as work, mock.patch.dict(os.environ, CORESTACK_WASM=work):
            out = Path(work, "out")
            done = run("export", model("digits"), "--format", "wasm", "-o", out)
            self.assertIn("type `make wasm`", done.err)
            Path(work, "corestack.wasm").write_text("w")
            done = run("export", model("digits"), "--format", "wasm", "-o", out)
            self.assertIn("package.json", done.err)
            self.assertEqual(os.listdir(work), ["corestack.wasm"])  # nothing half-done stays
            for name in "package.json", "index.js", "index.d.ts":
                Path(work, name).write_text(name)
            done = run("export", model("digits"), "--format", "wasm", "-o", out)
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual((out / "index.js").read_text(), "index.js")
            self.assertEqual((out / "model.cstack").read_bytes(), Path(model("digits")).read_bytes())
            done = run("export", model("digits"), "--format", "wasm", "--values", "logit", "-o", Path(work, "new"))
            self.assertIn("takes probabilities", done.err)
            done = run("export", model("digits"), "--format", "wasm", "-o", out)
            self.assertIn("not empty", done.err)

    @slow
    def test_package_of_webassembly(self):
        if not shutil.which("emcc") or not shutil.which("node"):
            self.skipTest("no emcc or node: apt-get install emscripten nodejs")
        for name in "digits", "concrete", "multilabel":
            with self.subTest(pool=name), tempfile.TemporaryDirectory() as work:
                folder = Path(work, "package")
                self.package(model(name), folder)
                self.assertLess(len(gzip.compress((folder / "corestack.wasm").read_bytes(), 9)), 80000)
                listed = json.loads((folder / "package.json").read_text())["files"]
                self.assertEqual(sorted(listed + ["package.json"]), sorted(os.listdir(folder)))
                members = re.findall(r"(?m)^member ([^\s']+)$", expected(name).decode())
                rng = np.random.default_rng(7)
                classes = {"digits": 10, "concrete": 1, "multilabel": 6}[name]
                files = [Path(work, str(k)) for k in range(len(members))]
                for file in files:
                    rows = rng.random((700, classes)) + 1e-4
                    rows /= rows.sum(axis=1, keepdims=True) if name == "digits" else 2
                    file.write_bytes(rows.astype("<f4").tobytes())
                subprocess.run([FULL, model(name), *files, Path(work, "library")], check=True)
                done = subprocess.run(
                    ["node", Path(SOURCES, "tests/serving/package.mjs"), folder, Path(work, "node"), *files],
                    stdout=subprocess.PIPE, check=True,
                )  # fmt: skip
                said = json.loads(done.stdout)
                self.assertEqual((said["members"], said["classes"]), (members, classes))
                self.assertIn("row 0, class 0: the prediction is nan", said["message"])
                for end in "", ".present":
                    self.assertEqual(Path(work, "node" + end).read_bytes(), Path(work, "library" + end).read_bytes())
                if name == "digits":
                    best = np.frombuffer(Path(work, "node").read_bytes(), "<f4").reshape(-1, 10).argmax(axis=1)
                    self.assertEqual(said["decided"], list(best[:5]))

    @slow
    def test_package_in_chromium(self):
        browser = shutil.which("chromium")
        if not shutil.which("emcc") or not browser:
            self.skipTest("no emcc or chromium: apt-get install emscripten chromium")
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work, "package")
            self.package(model("digits"), folder)
            count = len(re.findall(r"(?m)^member [^\s']+$", expected("digits").decode()))
            rng = np.random.default_rng(8)
            rows = (rng.random((count, 50, 10)) + 1e-4).astype("<f8")
            rows = (rows / rows.sum(axis=2, keepdims=True)).astype("<f4")
            for k in range(count):
                Path(folder, str(k)).write_bytes(rows[k].tobytes())
            Path(folder, "page.html").write_text(PAGE)
            handler = functools.partial(Quiet, directory=folder)
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page = f"http://127.0.0.1:{server.server_port}/page.html"
            opened = subprocess.Popen(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}/profile", "--remote-debugging-port=0", page],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                said = Quiet.said.get(timeout=120)
            finally:
                opened.kill()
                opened.wait()
            server.shutdown()
            server.server_close()
            files = [Path(folder, str(k)) for k in range(count)]
            subprocess.run([FULL, model("digits"), *files, Path(work, "library")], check=True)
            self.assertEqual(said, Path(work, "library").read_bytes())

    @slow
    def test_32_bits(self):
        flags = ["-m32", "-msse2", "-mfpmath=sse", "-idirafter", "/usr/include/x86_64-linux-gnu"]
        works = subprocess.run(
            ["gcc", *flags, "-x", "c", "-", "-o", os.devnull], input=b"#include <errno.h>\nint main(void){return 0;}",
            stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if works.returncode:
            self.skipTest("no 32-bit C library: apt-get install gcc-multilib")
        self.cross("gcc", *flags)

    @slow
    def test_big_endian(self):
        if not shutil.which("s390x-linux-gnu-gcc") or not shutil.which("qemu-s390x"):
            self.skipTest("no compiler or emulator: apt-get install gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user")
        # This processor's compiler computes float as double unless told otherwise.
        self.cross("s390x-linux-gnu-gcc", "-fexcess-precision=fast", emulator=["qemu-s390x", "-L", "/usr/s390x-linux-gnu"])


if __name__ == "__main__":
    unittest.main()
