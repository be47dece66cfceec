"""Alarms of `corestack monitor`: over clean streams, which should give none, and within the first rows of each corruption."""
import subprocess

import numpy as np

import common
import conditions

ROWS = 1000  # of a clean stream
FIRST = 200  # rows of a corruption
DRAWS = 3
SEVERE = 3


def alarm(options, model, pool, words):
    """Whether the monitor, which sees these rows as its first ones, ends with an alarm."""
    done = subprocess.run([options.tool, "monitor", str(model), str(pool.path), *words, "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise common.ToolError(f"corestack monitor: exit {done.returncode}: {done.stderr.strip()}")
    return done.returncode == 1


def clean_streams(options, manifest, model, count):
    """Alarms over `count` streams of random test rows."""
    split = conditions.Split(manifest, "test")
    rows = len(split.labels)
    with conditions.Pool(split, 0) as pool:
        return sum(alarm(options, model, pool, pool.add("stream", conditions.draws(rows, 10000 + i)[:ROWS], labels=False)) for i in range(count))


def early(options, split, model):
    """[conditions]: the share of draws in which FIRST random rows of a condition of severity SEVERE and above raise an alarm."""
    found = {}
    for number, condition in enumerate(split.listed):
        if condition["severity"] < SEVERE:
            continue
        with conditions.Pool(split, number) as pool:
            found[number] = np.mean([alarm(options, model, pool, pool.add("stream", conditions.draws(len(split.labels), 600 + d)[:FIRST], labels=False))
                                     for d in range(DRAWS)])
    return found


def measured(options, manifest, split, count):
    """A condition counts as found if most draws raise the alarm, a kind if most draws of its severities from SEVERE on do. Nothing for 0 streams."""
    if not count:
        return None
    model = conditions.fitted(options, manifest)

    def compute():
        found = early(options, split, model)
        return {"alarms": clean_streams(options, manifest, model, count), "conditions": list(found), "share": list(found.values())}

    arrays = conditions.stored(options, manifest, ["monitor", split.name, count, ROWS, FIRST, DRAWS], compute)
    share = {int(n): float(s) for n, s in zip(arrays["conditions"], arrays["share"])}
    kinds = list(dict.fromkeys(split.listed[n]["kind"] for n in share))
    missed = [[split.listed[n]["kind"], split.listed[n]["severity"], s] for n, s in share.items() if s <= 0.5]
    return {"streams": count, "rows": ROWS, "false_alarms": float(arrays["alarms"]) / count, "kinds": len(kinds),
            "found": sum(np.mean([s for n, s in share.items() if split.listed[n]["kind"] == kind]) > 0.5 for kind in kinds), "conditions": len(share), "conditions_found": len(share) - len(missed),
            "missed": missed}


def sentence(found):
    missed = ", ".join(f"{kind} {severity:g}" for kind, severity, _ in found["missed"]) or "none"
    return (f"Monitor: alarms in {100 * found['false_alarms']:.1f}% of {found['streams']:,} streams of {found['rows']:,} random clean rows; within {FIRST} "
            f"random rows in most of {DRAWS} draws under {found['conditions_found']} of {found['conditions']} conditions of severity {SEVERE} and above. "
            f"Not found: {missed}.")
