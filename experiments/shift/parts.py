"""The scripts of single parts: each measures the pools that it is given and writes Markdown, which the section shows."""
import pathlib
import re
import subprocess
import sys
import time

import common

HERE = pathlib.Path(__file__).resolve().parent
TITLES = {
    "rules": "Rules for the guard",
    "adapt": "Learning from a few labels, and which rows to label",
    "online": "Learning online",
    "label_shift": "Label shift",
    "coverage": "Coverage of prediction sets",
    "monitor": "The monitor",
    "dense": "Segmentation and detection",
}


def known():
    return [name for name in TITLES if (HERE / f"{name}.py").exists()]


def measured(options, name, manifests):
    """{title, text, seconds, version, date}: what the script wrote."""
    print(f"experiments/shift/{name}.py", file=sys.stderr, flush=True)
    start = time.monotonic()
    done = subprocess.run([sys.executable, HERE / f"{name}.py", "--tool", options.tool, *map(str, manifests)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise common.ToolError(f"experiments/shift/{name}.py: exit {done.returncode}")
    return {"text": done.stdout, "seconds": round(time.monotonic() - start), **common.measured_with(options)}


def lines(stored):
    """The subsections of what is stored; headings of the scripts are one level lower."""
    found = []
    for name, title in TITLES.items():
        if name in stored:
            part = stored[name]
            text = re.sub(r"^#+ ", "#### ", part["text"].strip(), flags=re.M)
            found += [f"### {title}", "", f"`experiments/shift/{name}.py`, {part['seconds']} s; {part['version']} on {part['date']}.", "", *text.split("\n"), ""]
    return found
