"""Usage: help, version, unknown words, streams; pages that must follow the tool."""

import fcntl
import functools
import glob
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import unittest

from support import SOURCES, TOOL, PoolCase, run

COMMANDS = """fit predict online evaluate compare adapt monitor ablate sweep inspect show report profile bound folds soup swa swag export options help""".split()
PARTS = {"soup": ["uniform", "greedy"], "swag": ["fit", "sample"]}


@functools.cache
def options_in(*words):
    """Long options in one page of help."""
    return set(re.findall(r"^ {2}(?:-\w,| {3}) --([a-z-]+)", run(*words, "--help", "all").out, re.MULTILINE))


def options_of(command):
    """Long options in the help of a command and its parts, of the sections before the examples."""
    return set().union(*(options_in(command, *part) for part in [[], *([p] for p in PARTS.get(command, []))]))


def on_terminal(words, size, columns):
    """What the tool prints on a terminal of `size` columns, with COLUMNS set to `columns` unless None."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, size, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    if columns is not None:
        environment["COLUMNS"] = columns
    parts = []
    with subprocess.Popen([TOOL, *words], stdout=follower, stdin=subprocess.DEVNULL, env=environment) as process:

        def end():
            """Marks the end. A terminal that its last writer closes can lose what was not read yet."""
            process.wait()
            os.write(follower, b"\0")

        ended = threading.Thread(target=end)
        ended.start()
        while not parts or not parts[-1].endswith(b"\0"):
            parts.append(os.read(leader, 65536))
        ended.join()
    os.close(follower)
    os.close(leader)
    return b"".join(parts)[:-1].decode().replace("\r\n", "\n")


def words_of(text):
    """Without line breaks; a list without spaces may be broken after any comma."""
    return " ".join(re.sub(r",\s+", ",", text).split())


class Usage(PoolCase):
    def test_version(self):
        for word in ("--version", "-V"):
            result = self.works(word)
            self.assertRegex(result.out, r"^corestack \d+\.\d+\.\d+\n$")

    def test_help_lists_every_command(self):
        texts = {self.works(*words).out for words in (["--help"], ["-h"], ["help"])}
        self.assertEqual(len(texts), 1)
        for command in COMMANDS:
            self.assertRegex(texts.copy().pop(), rf"(?m)^  {command} ")

    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            first = self.works(command, "--help").out
            self.assertEqual(first, self.works("help", command).out)
            self.assertRegex(first, rf"Example:\n  corestack {command}")
            self.assertIn("--json", first)
            self.assertEqual(self.works(command, "--help", "all").out, self.works("help", command, "all").out)
            for part in PARTS.get(command, []):
                text = self.works(command, part, "--help").out
                self.assertEqual(text, self.works("help", command, part).out)
                self.assertRegex(text, rf"Example:\n  corestack {command} {part} ")
                self.assertIn(f"  {part} ", first)

    def test_fit_help_shows_common_options_and_where_the_rest_are(self):
        table = {spec["key"]: spec for spec in self.works("options", "--json").json()["options"]}
        for command in ("fit", "inspect", "compare", "ablate", "sweep"):
            self.assertIn("`corestack options` lists all", self.works(command, "--help").out)
            text = self.works(command, "--help", "all").out
            shown = re.findall(r"^ {2}([a-z]\w*\.\w+) ", text, re.MULTILINE)
            self.assertEqual(len(shown), 10, command)
            plain = words_of(text)
            for key in shown:
                self.assertIn(words_of(f"{key} {table[key]['help']} Default: {table[key]['default']}."), plain)
            self.assertIn(f"`corestack options` lists all {len(table)} options of --set.", text)

    def test_help_offers_nothing_that_the_command_refuses(self):
        for command in ("adapt", "online", "monitor"):
            for words in ([], ["all"]):
                self.assertNotRegex(self.works(command, "--help", *words).out, r"--(task|ignore|layout)\b")

    def test_help_has_no_line_of_more_than_three_commands(self):
        """Without `all`, except headings and names of options."""
        seen = [line.strip() for command in COMMANDS for line in set(self.works(command, "--help").out.splitlines())]
        self.assertEqual({line for line in seen if seen.count(line) > 3 and re.match(r"(-\w, )?--[a-z-]+ .*  ", line)}, set())

    def pages(self):
        """Every page of help, and what else is wrapped."""
        yield ["--help"]
        yield ["options"]
        yield ["compare", "--list-methods"]
        for command in COMMANDS:
            yield [command, "--help"]
            yield [command, "--help", "all"]
            yield from ([command, part, "--help"] for part in PARTS.get(command, []))

    def test_help_fits_100_columns(self):
        for words in self.pages():
            text = self.works(*words).out
            self.assertLessEqual(max(map(len, text.splitlines())), 100, words)
            self.assertNotRegex(text, r"(?m) $", words)

    def test_help_fits_the_terminal(self):
        """By its size, and by COLUMNS before it; an example is never broken, so that it can be copied."""
        few = (["--help"], ["options"], ["fit", "--help"])
        for size, columns, width, pages in ((60, None, 60, self.pages()), (200, None, 100, few), (200, "72", 72, few),
                                            (60, "junk", 60, few), (0, None, 100, few)):
            for words in pages:
                lines = on_terminal(words, size, columns).split("Example:")[0].splitlines()
                self.assertLessEqual(max(map(len, lines)), width, (words, size, columns))
                same = words_of(self.works(*words).out.split("Example:")[0])
                self.assertEqual(words_of("\n".join(lines)), same, words)

    def test_whole_numbers_are_decimal_digits(self):
        labels = self.path("oof_labels.npy")
        seeded = (("fit", self.pool, "-o", self.model), ("inspect", self.pool), ("compare", self.pool),
                  ("evaluate", self.model, self.pool), ("bound", self.model, self.pool),
                  ("folds", "--labels", labels, "-o", self.path("f.npy")))
        for value in ("+5", " 5", "5 ", "0x5", "5e0", "5.0", "", "-0", "--5"):
            for command in seeded if value in ("+5", "5.0") else seeded[:1]:
                self.fails(*command, f"--seed={value}", says=["seed", f"'{value}'", "whole number from 0 to 9007199254740992"])
        self.fails("evaluate", self.model, self.pool, "-r", "+3", says=["--resamples", "'+3'", "whole number from 0"])
        self.fails("inspect", self.pool, "--threads", "99999999999999999999", says=["--threads", "from 0 to 1024"])
        for value in ("+1", "--1", "-", " -1"):
            self.fails("inspect", self.pool, f"--ignore={value}", says=["--ignore", f"'{value}'"])
        self.works("inspect", self.pool, "--seed=007")
        self.fails("inspect", self.pool, "--ignore=-1", says=["--ignore is for segmentation"])  # it is a number

    def test_mistyped_words(self):
        self.fails(says=["corestack help"])
        self.fails("fitt", says=["'fitt'", "'fit'"])
        self.fails("zzzzzz", says=["'zzzzzz'", "corestack help"])
        self.fails("--nonsense", says=["--nonsense"])
        self.fails("help", "zzz", says=["'zzz'"])
        self.fails("fit", "--lables", "x", says=["--lables", "--labels"])
        self.fails("fit", "--threads=x", self.pool, "-o", self.model, says=["--threads", "'x'"])
        self.fails("fit", "--threads", "-1", self.pool, "-o", self.model, says=["--threads"])
        self.fails("fit", "-z", says=["-z"])
        self.fails("fit", "-o", says=["-o", "MODEL"])
        self.fails("fit", "--preset", says=["--preset"])
        self.fails("fit", "--quiet=1", says=["--quiet", "no value"])
        self.fails("fit", self.pool, says=["-o"])
        self.fails("fit", "-o", self.model, says=["pool.json"])
        self.fails("fit", self.pool, "-o", self.model, "--color", "red", says=["'red'"])
        self.fails("fit", self.pool, "-o", self.model, "--preset", "worst", says=["'worst'"])
        self.fails("fit", self.pool, "-o", self.model, "--set", "seed", says=["KEY=VALUE"])
        self.fails(
            "fit", self.pool, "-o", self.model, "--set", "cka.treshold=1",
            says=["cka.treshold", "cka.threshold"],
        )
        self.fails(
            "fit", self.pool, "-o", self.model, "--set", "cka.threshold=2",
            says=["cka.threshold", "'2'", "0 to 1"],
        )
        self.fails("fit", self.pool, "-o", self.model, "--seed", "1.5", says=["seed", "1.5"])
        self.fails(
            "fit", self.pool, "-o", self.model, "--seed", "-1", says=["seed", "0 to 9007199254740992"]
        )
        for value in ("9007199254740993", "0x10", "1e3", "5.0"):
            for option in (("--seed", value), ("--set", f"seed={value}")):
                self.fails("fit", self.pool, "-o", self.model, *option, says=["seed", f"'{value}'", "0 to 9007199254740992"])
        for command in (("fit", self.pool, "-o", self.model), ("inspect", self.pool)):
            self.fails(*command, "--seed", "1", "--set", "seed=2", says=["twice", "--seed 1", "--set seed=2"])
            self.fails(*command, "--set", "seed=2", "--seed", "1", says=["twice", "--seed 1", "--set seed=2"])
        self.fails("fit", self.pool, "-o", self.model, "--split", "nope", says=["nope"])
        self.fails("fit", self.path("none.json"), "-o", self.model, says=["none.json"])
        self.fails("fit", self.pool, "-o", self.path("no/such/m"), says=["no/such"])
        self.fails("fit", self.pool, "-o", self.folder, says=["folder"])
        self.fails("predict", "-o", "x", says=["model"])
        self.fails("evaluate", says=["model"])
        self.fails("evaluate", self.path("ada.oof.npy"), says=["--labels"])
        self.fails("folds", "-o", "f.npy", says=["--labels"])
        self.fails("folds", "extra", "-o", "f.npy", says=["'extra'"])

    def test_words_that_nobody_mistypes(self):
        for length in (49, 150):
            result = self.fails("x" * length, says=["`corestack help` lists them"])
            self.assertNotIn("did you mean", result.err)

    def test_options_of_a_segmentation(self):
        """Said where the task has no such thing, instead of being passed over."""
        for words in (["--ignore", "3"], ["--layout", "channels-first"]):
            says = [words[0], "is for segmentation, and the task is classification"]
            self.fails("inspect", self.pool, *words, says=says)
            self.fails("fit", self.pool, "-o", self.model, *words, says=says)
            self.fails("evaluate", self.path("ada.oof.npy"), "--labels", self.path("oof_labels.npy"), *words, says=says)
        self.fails("evaluate", self.path("ada.oof.npy"), "--labels", self.path("oof_labels.npy"), "--boundary", "3",
                   says=["--boundary"])

    def test_control_characters_do_not_reach_the_terminal(self):
        result = self.fails("fit", "a\033[2Jb\nc.json", "-o", self.model)
        self.assertNotIn("\033", result.err)
        # C1 and a turn of direction: what is written is still UTF-8, which `fails` decodes.
        result = self.fails("fit", "a\u009b31m\u202ec.json", "-o", self.model)
        self.assertIn("a??31m???c.json", result.err)

    def test_standard_output_full_or_closed(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = run("help", stdout=full)
        self.assertEqual(result.code, 2)
        self.assertIn("No space left", result.err)
        closed = subprocess.run(
            ["/bin/sh", "-c", '"$0" options >&-', TOOL], stderr=subprocess.PIPE, check=False
        )
        self.assertEqual(closed.returncode, 2)
        self.assertIn(b"standard output", closed.stderr)

    def test_closed_output_does_not_land_in_the_model(self):
        closed = subprocess.run(
            ["/bin/sh", "-c", '"$0" fit "$1" -o "$2" >&-', TOOL, self.pool, self.model],
            stderr=subprocess.PIPE,
            check=False,
        )
        self.assertEqual(closed.returncode, 2)
        self.assertFalse(os.path.exists(self.model))

    def test_color(self):
        fit = ("fit", self.pool, "-o", self.model)
        self.assertNotIn("\033", self.works(*fit).out)
        self.assertNotIn("\033", self.works(*fit, "--color=never").out)
        self.assertIn("\033[1m", self.works(*fit, "--color", "always").out)

    def test_nothing_but_results_on_standard_output(self):
        result = self.fit("--json")
        json.loads(result.out)
        self.assertEqual(result.err, "")


class Pages(unittest.TestCase):
    def test_options_page_is_current(self):
        with open(os.path.join(SOURCES, "docs", "options.md"), encoding="utf-8") as file:
            self.assertEqual(
                run("options", "--markdown").out,
                file.read(),
                "run: build/corestack options --markdown > docs/options.md",
            )

    def test_options_as_json(self):
        document = run("options", "--json").json()
        self.assertEqual(document["command"], "options")
        keys = [spec["key"] for spec in document["options"]]
        self.assertIn("cka.threshold", keys)
        self.assertEqual(len(keys), len(set(keys)))
        threshold = document["options"][keys.index("cka.threshold")]
        self.assertEqual(threshold["paper"], "0.85")
        self.assertEqual((threshold["least"], threshold["most"]), (0, 1))
        measure = document["options"][keys.index("redundancy.measure")]
        self.assertEqual(measure["choices"], ["cka", "pearson", "none"])

    def test_manual_pages_name_every_option(self):
        for command in COMMANDS[:-1]:
            with open(os.path.join(SOURCES, f"docs/man/corestack-{command}.1"), encoding="utf-8") as file:
                page = file.read().replace("\\-", "-")
            named = set(re.findall(r"--([a-z-]+)", page.split(".SH OPTIONS")[1].split(".SH EXIT")[0]))
            mentioned = {"set"} if command == "options" else set()
            self.assertEqual(named - mentioned, options_of(command), command)
        self.assertEqual(len(glob.glob(os.path.join(SOURCES, "docs/man/*.1"))), len(COMMANDS))

    def test_completions_name_every_option(self):
        for name in ("corestack.bash", "_corestack", "corestack.fish"):
            with open(os.path.join(SOURCES, "completions", name), encoding="utf-8") as file:
                text = file.read()
            for command in COMMANDS:
                self.assertIn(command, text)
                for option in options_of(command):
                    self.assertRegex(text, rf"(--|-l ){option}\b", f"{name} lacks --{option}")

    def test_bash_completion(self):
        script = (
            f'source {SOURCES}/completions/corestack.bash; PATH="{os.path.dirname(TOOL)}:$PATH"; '
            "compopt() { :; }; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
            '_corestack; echo "${COMPREPLY[@]}"'
        )

        def complete(line):
            done = subprocess.run(
                ["/bin/bash", "-c", script, "bash", line], stdout=subprocess.PIPE, check=True
            )
            return done.stdout.decode().split()

        self.assertEqual(complete("corestack ins"), ["inspect"])
        self.assertEqual(complete("corestack soup gr"), ["greedy"])
        self.assertEqual(complete("corestack soup greedy --metric t"), ["top1"])
        self.assertEqual(complete("corestack fit --pre"), ["--preset"])
        self.assertEqual(complete("corestack fit --preset pa"), ["paper"])
        self.assertIn("cka.threshold=", complete("corestack fit --set cka."))
        for command in COMMANDS:
            offered = {word[2:] for word in complete(f"corestack {command} --")}
            if command in PARTS:
                self.assertEqual(offered, {"help"}, command)
            else:
                self.assertEqual(offered, options_of(command), command)
        for command, parts in PARTS.items():
            for part in parts:
                offered = {word[2:] for word in complete(f"corestack {command} {part} --")}
                self.assertEqual(offered, options_in(command, part), part)


if __name__ == "__main__":
    unittest.main()
