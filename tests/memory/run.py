"""A fit of a pool four times the memory budget stays within the budget and gives the same model; so do predictions.

Arguments: the tool, the program that writes pools (bench/pool.c).
"""
import filecmp
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUDGET = 128 << 20
SHAPE = ("16384", "512", "16", "f32")  # 512 MiB


def run(*words):
    """JSON of a command, and the most bytes it had resident."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    text = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}")
    return text, usage.ru_maxrss * 1024


def main():
    tool, maker = sys.argv[1:]
    problems = []

    def within(what, peak, budget=BUDGET):
        print(f"{what}: {peak / 2**20:.0f} MiB of {budget >> 20}")
        if peak > budget:
            problems.append(f"{what} takes {peak} bytes, more than the budget of {budget}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([maker, str(folder / "pool"), *SHAPE, "1"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        pool = str(folder / "pool" / "pool.json")
        size = sum(file.stat().st_size for file in (folder / "pool").glob("m*.npy"))
        if size < 4 * BUDGET:
            problems.append(f"the pool has {size} bytes, less than four times the budget")
        little, much = str(folder / "little.cstack"), str(folder / "much.cstack")
        fit = [tool, "fit", pool, "--json", "--set", "evaluate.nested=false"]
        text, peak = run(*fit, "-o", little, "--memory", str(BUDGET))
        within("fit", peak)
        told = json.loads(text)["peak_rss_bytes"]
        if not 0.5 * peak <= told <= peak:
            problems.append(f"peak_rss_bytes says {told} where the system says {peak}")
        run(*fit, "-o", much, "--memory", "4GiB", "--threads", "1")
        if not filecmp.cmp(little, much, shallow=False):
            problems.append("the model depends on the memory budget")
        out, again = str(folder / "little.npy"), str(folder / "much.npy")
        _, peak = run(tool, "predict", little, pool, "--split", "oof", "-o", out, "--memory", str(BUDGET))
        within("predict", peak)
        run(tool, "predict", much, pool, "--split", "oof", "-o", again)
        if not filecmp.cmp(out, again, shallow=False):
            problems.append("predictions depend on the memory budget")
        labels = str(folder / "pool" / "oof_labels.npy")
        _, peak = run(tool, "evaluate", out, "--labels", labels, "--json", "--memory", str(BUDGET))
        within("evaluate", peak)
        # So little that the file itself is more than its share of it.
        _, peak = run(tool, "evaluate", out, "--labels", labels, "--json", "--memory", str(64 << 20))
        within("evaluate, file on disk", peak, 64 << 20)
        _, peak = run(tool, "compare", pool, "--methods", "average,greedy", "--resamples", "100", "--json", "--memory",
                      str(BUDGET))
        within("compare", peak)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
