"""The commands of README, of the pages in docs/ and of the examples work: each page from top to bottom, in a folder that has the examples.

A command is a line of a code block, or the last cell of a table's row, that begins with `corestack`, `make` or `python`. In a block with
lines that begin with `$`, those are the commands, and the lines below must be among those that they print. `make` only looks up its
targets. A block below the line `<!-- not run: REASON -->` is left out.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import golden
from support import SOURCES, TIMEOUT, TOOL, slow

ROOT = pathlib.Path(SOURCES)
QUICK = {"CONTRIBUTING.md", "examples/csv/README.md", "examples/concrete/README.md", "examples/multilabel/README.md"}
NOT_PAGES = {"docs/mistakes.md"}  # has commands that fail; test_mistakes.py runs them
COMMAND = r"(?:sudo )?(?:corestack|make|python3?) "
PART = re.compile(
    r"(?P<skipped><!-- not run: [^\n]+ -->\n+)?"
    r"(?:^```(?P<language>[^\n]*)\n(?P<fenced>.*?)^```|(?P<indented>(?:^    [^\n]*\n)+)|^\|[^\n]*\| `(?P<cell>" + COMMAND + r"[^`\n]*)` \|$)",
    re.M | re.S,
)
FITTED = {}  # command without its output: (what was run, the model)
PRELUDE = 'make() { command make -s -n -C "$SOURCES" "$@" >/dev/null; }; sudo() { "$@"; }; '


def commands(text):
    """(command, lines that the page shows below it)"""
    for part in PART.finditer(text):
        if part["skipped"] or (part["language"] or "") not in ("", "sh", "bash", "console"):
            continue
        block = part["cell"] or part["fenced"] or re.sub(r"^    ", "", part["indented"] or "", flags=re.M)
        lines = block.replace("\\\n", " ").splitlines()
        shows = any(line.startswith("$ ") for line in lines)
        found = None
        for line in lines:
            if re.match(r"\$ " if shows else COMMAND, line):
                if found:
                    yield found
                found = line.removeprefix("$ "), []
            elif found and shows and line.strip() not in ("", "..."):
                found[1].append(line)
        if found:
            yield found


def headings(text):
    """The anchors of a page's headings: lower case, hyphens for blanks, no punctuation."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)", text, flags=re.M)}


class Pages(unittest.TestCase):
    def environment(self, folder):
        os.mkdir(f"{folder}/bin")
        for name, program in (("corestack", TOOL), ("python", sys.executable)):
            os.symlink(program, f"{folder}/bin/{name}")
        os.mkdir(f"{folder}/clone")
        for name in ("examples", "experiments"):
            os.symlink(ROOT / name, f"{folder}/clone/{name}")
        return {"cwd": f"{folder}/clone", "capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 3 * TIMEOUT, "check": False,
                "env": {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "SOURCES": SOURCES, "PYTHONPATH": f"{SOURCES}/python",
                        "CORESTACK_LIBRARY": os.path.join(os.path.dirname(TOOL), "libcorestack.so"), "PYTHONDONTWRITEBYTECODE": "1"}}

    def test_links(self):
        """Every link to a file of the repository, or to a heading of a page, leads there."""
        for page in [*PAGES, *ROOT.glob("docs/appendix/*.md")]:
            for target in re.findall(r"\]\(([^)\s]*[./#][^)\s]*)\)", page.read_text(encoding="utf-8")):
                path, _, heading = target.partition("#")
                found = page.parent / path if path else page
                with self.subTest(page=str(page.relative_to(ROOT)), link=target):
                    if re.match(r"https?:|mailto:", target):
                        continue
                    self.assertTrue(found.exists())
                    if heading and found.suffix == ".md":
                        self.assertIn(heading, headings(found.read_text(encoding="utf-8")))

    @slow
    def test_tutorial(self):
        """docs/tutorial.md is what its program prints."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, ROOT / "scripts" / "tutorial.py"], **self.environment(folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
        self.assertEqual(golden.difference("tutorial.md", page, done.stdout), "", "see scripts/tutorial.py --write")

    def run_command(self, command, options):
        """Fits that pages share run once."""
        fit = re.fullmatch(r"(corestack fit examples/\w+(?: --preset \w+)?) -o (\S+)\s*", command)
        if fit and fit[1] in FITTED:
            done, model = FITTED[fit[1]]
            pathlib.Path(options["cwd"], fit[2]).write_bytes(model)
            return done
        done = subprocess.run(["bash", "-c", PRELUDE + command], **options)
        if fit and done.returncode == 0:
            FITTED[fit[1]] = done, pathlib.Path(options["cwd"], fit[2]).read_bytes()
        return done

    def run_page(self, page):
        with tempfile.TemporaryDirectory() as folder:
            options = self.environment(folder)
            for command, shown in commands((ROOT / page).read_text(encoding="utf-8")):
                done = self.run_command(command, options)
                with self.subTest(page=page, command=command):
                    self.assertEqual(done.returncode, 0, done.stdout[-500:] + done.stderr)
                    missing = re.findall(r"^-(?!--).*", golden.difference(page, "\n".join(shown), done.stdout), flags=re.M)
                    self.assertEqual(missing, [], f"not printed, or not in this order:\n{done.stdout}")


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
for name in (str(path.relative_to(ROOT)) for path in PAGES):
    if name in NOT_PAGES or not any(commands((ROOT / name).read_text(encoding="utf-8"))):
        continue

    @slow
    def test(self, name=name):
        self.run_page(name)

    test.slow = name not in QUICK
    setattr(Pages, "test_" + re.sub(r"\W", "_", name.removesuffix(".md")), test)
    del test


if __name__ == "__main__":
    unittest.main()
