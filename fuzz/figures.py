"""Writes the figures of the fuzz targets into fuzz/figures.md, between the lines "<!-- fuzz: begin -->" and
"<!-- fuzz: end -->"; with --restore, the figures of that table into the build folder where it has fewer, so that they go on adding up.
Called by scripts/fuzz.sh with the build folder and the page.
"""
import datetime
import json
import pathlib
import platform
import subprocess
import sys

BEGIN, END = "<!-- fuzz: begin -->\n", "<!-- fuzz: end -->\n"
FOLDERS = ["src/data", "src/model"]
# What is in them besides: writers, prediction, folds, pools of arrays.
READERS = {"npy, npz": "data/readers/npy.c data/readers/npy_header.c data/files/zip.c data/files/bytes.c", "delimited text": "data/readers/csv.c data/readers/table.c",
           "rows, columns, ids": "data/readers/row_file.c data/readers/strings.c", "manifest": "data/readers/manifest.c data/readers/manifest_read.c",
           "reference errors": "data/readers/reference_errors.c", "COCO": "data/readers/coco.c data/readers/coco_scan.c",
           "PNG": "data/readers/png.c", "safetensors": "data/readers/safetensors.c data/readers/safetensors_header.c",
           "model file": "model/sections.c model/codec.c model/shift/sections.c", "pool, as it is loaded": "data/pool/open.c data/pool/masks.c data/pool/load.c data/pool/beside.c "
           "data/pool/convert.c data/pool/cases.c data/pool/maps.c"}


def share(files, kind):
    count = sum(f["summary"][kind]["count"] for f in files)
    covered = sum(f["summary"][kind]["covered"] for f in files)
    return f"{100 * covered / count:.1f}%" if count else "-"


def total(log):
    """Executions, seconds and the most edges of a target's runs."""
    rows = [list(map(int, line.split("\t"))) for line in log.read_text().splitlines()] if log.exists() else []
    return sum(r[0] for r in rows), sum(r[1] for r in rows), max((r[2] for r in rows), default=0)


def targets(build):
    for log in sorted((build / "figures").iterdir()):
        yield log.name, *total(log), len(list((build / "inputs" / log.name).glob("*")))


def restore(build, page):
    (build / "figures").mkdir(parents=True, exist_ok=True)
    for line in page.read_text().split(BEGIN)[1].split(END)[0].splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.strip("| ").split("|")]
        log = build / "figures" / cells[0]
        if len(cells) == 6 and cells[0] != "all" and cells[1].isdigit() and total(log)[0] < int(cells[1]):
            log.write_text("\t".join((cells[1], cells[2], cells[4])) + "\n")


def write(build, page):
    files = json.loads((build / "coverage.json").read_text())["data"][0]["files"]
    rows = list(targets(build))
    executions, seconds = sum(r[1] for r in rows), sum(r[2] for r in rows)
    compiler = subprocess.run(["clang", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    lines = ["| target | executions | CPU seconds | executions per second | edges | inputs kept |", "|---|---|---|---|---|---|"]
    for name, runs, spent, edges, found in rows:
        lines.append(f"| {name} | {runs:,} | {spent:,} | {runs / max(spent, 1):,.0f} | {edges:,} | {found:,} |")
    lines += [f"| all | {executions:,} | {seconds:,} | {executions / max(seconds, 1):,.0f} | | {sum(r[4] for r in rows):,} |", "",
              "Coverage of the readers by all inputs of all targets:", "",
              "| | lines | branches |", "|---|---|---|"]
    for name, sources in READERS.items():
        part = [f for f in files if any(f["filename"].endswith("/src/" + source) for source in sources.split())]
        if part:
            lines.append(f"| {name} | {share(part, 'lines')} | {share(part, 'branches')} |")
    for folder in FOLDERS:
        part = [f for f in files if f"/{folder}/" in f["filename"]]
        lines.append(f"| all of `{folder}/`, with writers | {share(part, 'lines')} | {share(part, 'branches')} |")
    lines += ["", f"{datetime.date.today()}, {compiler}, {platform.machine()}; AddressSanitizer and "
              "UndefinedBehaviorSanitizer, one thread per target, on a shared machine. `scripts/fuzz.sh --figures` "
              "writes these tables."]
    text = page.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    page.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail)
    print("\n".join(lines))


if __name__ == "__main__":
    todo = restore if sys.argv[1] == "--restore" else write
    todo(*map(pathlib.Path, sys.argv[-2:]))
