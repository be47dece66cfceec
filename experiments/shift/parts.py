"""The scripts of single parts. Each measures the pools that it is given and prints Markdown, which is kept as NAME.md beside it."""
import os
import pathlib
import subprocess
import sys

import common

HERE = pathlib.Path(__file__).resolve().parent
# What each is about, whether it takes folders (else manifests), and its other words.
PARTS = {
    "rules": ("rules for the guard and their rivals", True, True),
    "adapt": ("a few labels, picked at random or by `--suggest`", False, False),
    "online": ("`corestack online` on streams", True, True),
    "label_shift": ("`--label-shift` where only class shares change, and elsewhere", False, True),
    "coverage": ("coverage of prediction sets", False, True),
    "monitor": ("the monitor: alarms, and the error of the expected accuracy", False, True),
    "dense": ("the guard of segmentations and detections", False, True),
}


def known():
    return [name for name in PARTS if (HERE / f"{name}.py").exists()]


def measure(options, name, manifests):
    """Runs a script and keeps what it prints."""
    print(f"experiments/shift/{name}.py", file=sys.stderr, flush=True)
    _, folders, tool = PARTS[name]
    words = [str(m.parent if folders else m) for m in manifests] + (["--tool", options.tool] if tool else [])
    library = {"CORESTACK_LIBRARY": str(pathlib.Path(options.tool).with_name("libcorestack.so"))}
    done = subprocess.run([sys.executable, HERE / f"{name}.py", *words], stdout=subprocess.PIPE, text=True, check=False, env={**library, **os.environ})
    if done.returncode != 0:
        raise common.ToolError(f"experiments/shift/{name}.py: exit {done.returncode}")
    text = done.stdout.strip()
    (HERE / f"{name}.md").write_text(text + "\n" if text.startswith("# ") else f"# {PARTS[name][0]}: {name}.py\n\n{text}\n")


def links():
    """One sentence with the pages that there are."""
    pages = [f"[{title}](shift/{name}.md)" for name, (title, _, _) in PARTS.items() if (HERE / f"{name}.md").exists()]
    return [f"More tables: {'; '.join(pages)}.", ""] if pages else []
