"""Hints in messages: each is followed to a run that works, and there is no hint without a case (hints.py)."""

import concurrent.futures
import glob
import json
import os
import re
import shlex
import shutil
import tempfile
import unittest

import hints
from support import SOURCES, run

TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|//[^\n]*|/\*.*?\*/|\'(?:[^\'\\\n]|\\.)+\'|([A-Za-z_]\w*)|\S', re.S)
# What a hint names: an option, a setting, a command, one array or column of a file, an environment variable.
NAMED = re.compile(r"(?<![\w-])--[a-z%]|\b[a-z]+\.[a-z_]+=|\b(checks|missing|noise)=|FILE\.|#%s|CORESTACK_|TMPDIR|`corestack ")
# An option that a message is about stands first, and is none: "option --split: ...", "--save %s: ...".
SUBJECT = re.compile(r"^(options? )?(--[\w%-]+( %s)?(, | and | or )?)+(:|(?= (is|are|has|takes|needs a value)\b))")
# In a template of a report: "{key=value?words|words}".
CHOICE = re.compile(r"\{[\w.]+=\w+\?")
CONVERSION = re.compile(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j)?[a-zA-Z])")


def literals(path):
    """(line, text) of the string literals of a C file that have words; in the tool's files none of tables, which hold the help."""
    with open(path, encoding="utf-8") as file:
        source = re.sub(r"^[ \t]*#[ \t]*include.*", "", file.read(), flags=re.M)
    found, brackets, before, at, text = [], [], "", 0, None
    for token in TOKEN.finditer(source + ";"):
        word = token.group(0)
        if token.group(1) is not None:
            at, text = (source.count("\n", 0, token.start()) + 1, "") if text is None else (at, text)
            text += token.group(1)
        elif text is not None and re.match(r"PRI|CST_[A-Z_]*FORMATS", word):
            text += "s"
        elif not word.startswith(("//", "/*")):
            if text and " " in text and not ("/cli/" in path and brackets and brackets[-1] == "="):
                found.append((at, text))
            text = None
            if word in "([":
                brackets.append(word)
            elif word == "{":
                brackets.append("=" if before == "=" or brackets[-1:] == ["="] else word)
            elif word in ")]}" and brackets:
                brackets.pop()
            before = word
    return found


def all_hints():
    """{text: file:line}"""
    found = {}
    for path in sorted(p for f in ("src/**/*.[ch]", "cli/*.[ch]", "weights/*.[ch]") for p in glob.glob(f"{SOURCES}/{f}", recursive=True)):
        if path.endswith(("cli/help.c", "core/options.h", "cli/options.c", "report/page_template.h")):
            continue
        for line, text in literals(path):
            if NAMED.search(SUBJECT.sub("", CHOICE.sub("", text))):
                found[text] = f"{os.path.relpath(path, SOURCES)}:{line}"
    return found


def pattern(text):
    """What a format prints."""
    text = text.replace('\\"', '"').replace("\\n", "").replace("\\\\", "\\")
    parts = CONVERSION.split(text)
    kinds = [".*" if c != "%%" else "%" for c in CONVERSION.findall(text)] + [""]
    return re.compile("".join(re.escape(p) + k for p, k in zip(parts, kinds)), re.S)


def strings(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [value] if isinstance(value, str) else [s for v in value for s in strings(v)] if isinstance(value, list) else []


def execute(command, folder):
    """The exit status and what was said."""
    words = shlex.split(command)
    env = {"OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C", "COLUMNS": "2000"}
    if words[:1] == ["fit"] and not any("method" in w for w in words):
        words += ["--set", "evaluate.nested=false"]
    text = words[-1:] == ["TEXT"]
    words = words[:-1] if text else words
    done = run(*words, *([] if text or "--json" in words or "--help" in words else ["--json"]), cwd=folder, env=env)
    said = done.out
    if done.out.startswith("{"):
        said = "\n".join(strings(json.loads(done.out)))
    return done.code, f"{done.err}\n{said}"


def changed(command, step):
    """The command that a step of `follow` means."""
    if step.startswith("$ "):
        return step[2:]
    if step.startswith("+ "):
        return command + step[1:]
    old, new = (step[2:], "") if step.startswith("- ") else step.split(" > ")
    assert old in command, (command, step)
    return command.replace(old, new, 1)


def prepare(home):
    """The cases, each with a folder of its own: (command, the commands that follow, their folder, after what must be changed)."""
    world = os.path.join(home, "world")
    os.mkdir(world)
    os.chdir(world)
    hints.world()
    for i, (command, follow, make) in enumerate(hints.CASES):
        folders = [os.path.join(home, f"{i}{side}") for side in "ab"]
        for folder in folders:
            shutil.copytree(world, folder, symlinks=True)
            os.chdir(folder)
            if make:
                make()
        for step in filter(callable, follow):
            step()
        last, commands = command, []
        for step in (s for s in follow if isinstance(s, str)):
            last = changed(last, step)
            if step.startswith("$ "):
                commands.append(last)
                last = command
        if not commands or last != command:
            commands.append(last)
        yield command, commands, folders


def play(case):
    """The command, what it said, and what went wrong where it was followed."""
    command, commands, (before, after) = case
    code, said = execute(command, before)
    if code not in (0, 2):
        return command, said, f"exit status {code}"
    for line in commands:
        status, answer = execute(line, after)
        if status != 0:
            return command, said, f"{line}: {answer}"
        if code == 0 and line == commands[-1] and said == answer:
            return command, said, f"{line}: says the same"
    return command, said, ""


class Hints(unittest.TestCase):
    maxDiff = None

    def test_each_is_followed_and_none_lacks_a_case(self):
        texts = all_hints()
        patterns = {t: pattern(t) for t in texts}
        seen = set()
        start = os.getcwd()
        with tempfile.TemporaryDirectory(prefix="corestack-hints-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as home:
            self.addCleanup(os.chdir, start)
            with concurrent.futures.ThreadPoolExecutor(2) as workers:
                for command, said, wrong in workers.map(play, list(prepare(home))):
                    given = {t for t, p in patterns.items() if p.search(said)}
                    seen |= given
                    with self.subTest(command):
                        self.assertEqual(wrong, "", said)
            os.chdir(start)
        lacking = [f"{texts[t]}: {t}" for t in texts if t not in seen and not any(w in t for w in hints.UNTRIED)]
        self.assertEqual("\n".join(lacking), "", "hints without a case")


if __name__ == "__main__":
    unittest.main()
