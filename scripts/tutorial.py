#!/usr/bin/env python3
"""Runs the cells of docs/tutorial.py in this folder and prints docs/tutorial.md: their text, their code and what they print.

    scripts/tutorial.py [--write]      --write: into docs/tutorial.md
"""
import contextlib
import io
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(source):
    parts, names = ["<!-- written by scripts/tutorial.py from tutorial.py -->"], {}
    for kind, cell in re.findall(r"^# %%( \[markdown\])?\n(.*?)(?=^# %%|\Z)", source, flags=re.S | re.M):
        cell = cell.strip()
        if kind:
            parts.append(re.sub(r"^# ?", "", cell, flags=re.M))
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell, "docs/tutorial.py", "exec"), names)
        parts.append(f"```python\n{cell}\n```")
        if printed.getvalue():
            parts.append(f"```text\n{printed.getvalue().rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


text = page((DOCS / "tutorial.py").read_text(encoding="utf-8"))
if "--write" in sys.argv:
    (DOCS / "tutorial.md").write_text(text, encoding="utf-8")
else:
    print(text, end="")
