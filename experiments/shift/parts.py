"""The scripts of single parts. Each measures the pools that it is given and prints Markdown, which is kept as NAME.md beside it."""
import os
import pathlib
import subprocess
import sys

import common

HERE = pathlib.Path(__file__).resolve().parent
# What each is about, the form in which it takes pools, whether it takes --tool.
PARTS = {
    "rules": ("rules for the guard and their rivals", "folder", True),
    "adapt": ("a few labels, picked at random or by `--suggest`", "folder", False),
    "online": ("`corestack online` on streams", "folder", True),
    "label_shift": ("`--label-shift` where only class shares change, and elsewhere", "manifest", True),
    "coverage": ("coverage of prediction sets", "manifest", True),
    "monitor": ("the monitor: alarms, and the error of the expected accuracy", "folder", False),
    "dense": ("the guard of segmentations", "pools", True),
}


def known():
    return [name for name in PARTS if (HERE / f"{name}.py").exists()]


def measure(options, name, manifests):
    """Runs a script and keeps what it prints."""
    print(f"experiments/shift/{name}.py", file=sys.stderr, flush=True)
    _, form, tool = PARTS[name]
    words = {"folder": [str(m.parent) for m in manifests], "manifest": [str(m) for m in manifests],
             "pools": [word for folder in options.folders for word in ("--pools", str(folder))]}[form]
    words += ["--tool", str(pathlib.Path(options.tool).resolve())] if tool else []
    library = {"CORESTACK_LIBRARY": str(pathlib.Path(options.tool).resolve().with_name("libcorestack.so"))}
    done = subprocess.run([sys.executable, HERE / f"{name}.py", *words], stdout=subprocess.PIPE, text=True, check=False, env={**library, **os.environ})
    if done.returncode != 0:
        raise common.ToolError(f"experiments/shift/{name}.py: exit {done.returncode}")
    text = done.stdout.strip()
    (HERE / f"{name}.md").write_text(text + "\n" if text.startswith("# ") else f"# {PARTS[name][0]}: {name}.py\n\n{text}\n")


def links():
    """One sentence with the pages that there are."""
    pages = [f"[{title}](shift/{name}.md)" for name, (title, _, _) in PARTS.items() if (HERE / f"{name}.md").exists()]
    return [f"More tables: {'; '.join(pages)}.", ""] if pages else []
