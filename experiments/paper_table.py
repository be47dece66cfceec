#!/usr/bin/python3
"""One table of the paper, computed once and written in every form: NAME.json, .txt, .csv, .md and .tex.

    experiments/paper_table.py NAME compare|ablate|sweep POOL [options as of the command line]

NAME.json is written last; experiments/paper.sh takes a table for done when it is there.
"""
import argparse
import os
import pathlib
import sys

import corestack


def values(text):
    """KEY=LO:HI:STEP or KEY=A,B,C"""
    key, _, rest = text.partition("=")
    if ":" not in rest:
        return key, rest.split(",")
    low, high, step = (float(v) for v in rest.split(":"))
    found = [low + i * step for i in range(int((high - low) / step + 1e-9) + 1)]
    return key, [int(v) if key == "pool.size" else round(v, 10) for v in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", type=pathlib.Path)
    parser.add_argument("command", choices=("compare", "ablate", "sweep"))
    parser.add_argument("pool")
    for option in ("split", "methods", "ood", "clean", "reference-errors"):
        parser.add_argument(f"--{option}")
    for option in ("splits", "resamples"):
        parser.add_argument(f"--{option}", type=int)
    parser.add_argument("--holdout", type=float)
    parser.add_argument("--over", type=values)
    parser.add_argument("--set", action="append", default=[])
    options = vars(parser.parse_args())
    name, command, pool = options.pop("name"), options.pop("command"), options.pop("pool")
    settings = dict(text.split("=", 1) for text in options.pop("set"))
    over = options.pop("over")
    keywords = {key: value for key, value in options.items() if value is not None}
    if "methods" in keywords:
        keywords["methods"] = keywords["methods"].split(",")
    if over:
        keywords["over"], keywords["values"] = over
    report = getattr(corestack, command)(pool, options=settings or None, **keywords)
    forms = {".txt": report.summary() + "\n", ".csv": report.to_csv(), ".md": report.to_markdown(), ".tex": report.to_latex(),
             ".json": report.to_json() + "\n"}
    for end, text in forms.items():
        partial = name.with_name(name.name + end + ".partial")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, name.with_name(name.name + end))


if __name__ == "__main__":
    try:
        main()
    except corestack.Error as error:
        sys.exit(f"paper_table.py: {error}")
