#!/usr/bin/python3
"""Cascades beside other ways to stop early, on the test splits of pools; and the guarantee over divisions of their rows.

    run.py FOLDER...                every classification below examples/ and the folders -> figures.json, tables.md, docs/cascades.md
    run.py --resplits 200 POOL...   fits on random halves of each pool's rows, judged on the others -> figures.json, tables.md
    run.py --page                   writes the tables from figures.json again

CORESTACK_TOOL names the tool (build/corestack). All that is chosen is chosen on `oof`; `test` is scored.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np
from scipy.stats import beta

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIGURES = HERE / "figures.json"
PAGE = ROOT / "docs" / "cascades.md"
TABLES = HERE / "tables.md"
SHOWN = ["cifar10", "digits", "genres", "vision"]  # on the page
TOOL = os.environ.get("CORESTACK_TOOL", str(ROOT / "build" / "corestack"))
ALPHA = 0.005
QUICK = ["--set", "evaluate.nested=false", "--set", "checks=false"]
ALONE = ["--set", "cascade.loss=1000"]  # only the guarantee limits it
STACK = ["--set", "meta.learners=log-linear", "--set", "select.direction=none", "--set", "redundancy.measure=none"]


def tool(*arguments):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def member(folder, manifest, model, split):
    p = np.load(folder / model["predictions"][split]).astype(np.float64)
    p = p[:, 0] if p.ndim == 2 and p.shape[1] == 1 else p
    if model.get("output", manifest.get("output")) == "logit":
        p = softmax(p) if p.ndim == 2 else 1 / (1 + np.exp(-p))
    p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    return p / p.sum(axis=1, keepdims=True)


def predict(model, pool, split, *more):
    with tempfile.TemporaryDirectory() as place:
        out = pathlib.Path(place) / "p.npy"
        report = json.loads(tool("predict", model, pool, "--split", split, "-o", out, "--guard", "off", "--json", *more))
        p = np.load(out).astype(np.float64)
        return (np.stack([1 - p, p], axis=1) if p.ndim == 1 else p), report


def nll(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15))


def score(name, cost, p, stack, y):
    """Differences from the stack on the same rows, with paired standard errors."""
    rows = len(y)
    loss = nll(p, y) - nll(stack, y)
    right = (p.argmax(1) == y).astype(float) - (stack.argmax(1) == y)
    return {"name": name, "cost": float(cost), "nll": loss.mean(), "nll_se": loss.std() / rows ** .5, "top1": 100 * right.mean(),
            "top1_se": 100 * right.std() / rows ** .5, "disagree": float((p.argmax(1) != stack.argmax(1)).mean())}


def two_stages(members, cost, stack):
    """After one member, and after the mean of two, a row stops with a confidence of 0.9 (AutoGluon's first two stages)."""
    out, spent = stack.copy(), np.ones(len(stack))
    for size in (2, 1) if len(members) > 2 else (1,):
        p = members[:size].mean(0)
        stop = p.max(1) >= 0.9
        out[stop], spent[stop] = p[stop], cost[:size].sum()
    return out, spent.mean()


def agreement(members, cost, stack):
    """Tiers of two and four members; a row stops where all of a tier agree, with their mean (ABC)."""
    out, spent = stack.copy(), np.ones(len(stack))
    for size in (4, 2):
        if size >= len(members):
            continue
        told = members[:size].argmax(2)
        stop = (told == told[0]).all(0)
        out[stop], spent[stop] = members[:size].mean(0)[stop], cost[:size].sum()
    return out, spent.mean()


def idk(held, held_stack, members, cost, stack):
    """The member and threshold of least cost for which at most ALPHA of the rows of the fit disagree with the stack (IDK)."""
    best = (1.0, 0, 2.0)
    for k, p in enumerate(held):
        order = np.argsort(-p.max(1), kind="stable")
        wrong = np.cumsum((p.argmax(1) != held_stack.argmax(1))[order])
        stops = int(np.searchsorted(wrong, ALPHA * len(p), side="right"))
        if stops:
            share = stops / len(p)
            best = min(best, (cost[k] + 1 - share if share < 1 else cost[k], k, p.max(1)[order[stops - 1]]))
    _, k, threshold = best
    stop = members[k].max(1) >= threshold
    return np.where(stop[:, None], members[k], stack), np.where(stop, cost[k], 1 + cost[k] * (threshold <= 1)).clip(max=1).mean()


def measure(path, place):
    manifest = json.loads(path.read_text())
    splits = manifest["splits"]
    if manifest["task"] != "classification" or not {"oof", "test"} <= set(splits):
        return None
    folder, model = path.parent, place / "m.cstack"
    missing = ["--missing", "allow"] if folder.name == "flusight" else []
    fit = json.loads(tool("fit", path, "-o", model, "--cascade", "--json", *QUICK, *missing))["cascade"]
    y = np.load(folder / splits["test"]["labels"]).astype(int)
    stack, _ = predict(model, path, "test", *missing)
    told, report = predict(model, path, "test", "--cascade", *missing)
    entry = {"pool": folder.name, "rows": len(y), "members": len(fit["order"]), "cost_of": fit["cost_of"], "tested": fit["tested"],
             "stack_nll": nll(stack, y).mean(), "stack_top1": 100 * (stack.argmax(1) == y).mean(),
             "rules": [score("cascade", report["cascade"]["cost"], told, stack, y)]}
    if missing:
        return entry
    models = {m["name"]: m for m in manifest["models"]}
    cost = np.diff([0] + [s["cost"] for s in fit["stages"]]) if len(fit["stages"]) == len(fit["order"]) else None
    held, test = (np.stack([member(folder, manifest, models[n], s) for n in fit["order"]]) for s in ("oof", "test"))
    held_y = np.load(folder / splits["oof"]["labels"]).astype(int)
    held_stack, _ = predict(model, path, "oof")
    tool("fit", path, "-o", model, "--cascade", *QUICK, *ALONE)
    told, report = predict(model, path, "test", "--cascade")
    entry["rules"].append(score("cascade, guarantee alone", report["cascade"]["cost"], told, stack, y))
    if cost is not None and len(cost) > 1:
        for name, (p, spent) in (("confidence 0.9, two stages", two_stages(test, cost, stack)),
                                 ("agreement (ABC)", agreement(test, cost, stack)),
                                 ("IDK, one member", idk(held, held_stack, test, cost, stack))):
            entry["rules"].append(score(name, spent, p, stack, y))
        best = min(range(len(held)), key=lambda k: nll(held[k], held_y).mean())
        entry["rules"].append(score("best member", cost[best], test[best], stack, y))
    return entry


def resplit(path, count, place):
    """Fits on a random half of all labelled rows; how many of the other half are decided otherwise than by the stack."""
    manifest = json.loads(path.read_text())
    both = [np.concatenate([member(path.parent, manifest, m, s) for s in ("oof", "test")]).astype(np.float32)
            for m in manifest["models"]]
    labels = np.concatenate([np.load(path.parent / manifest["splits"][s]["labels"]) for s in ("oof", "test")])
    extra = STACK if len(labels) > 10000 else []
    made = {"corestack_pool": 1, "task": "classification", "classes": manifest["classes"], "output": "probability",
            "splits": {s: {"labels": f"{s}.npy"} for s in ("oof", "test")},
            "models": [{"name": m["name"], **({"flops": m["flops"]} if "flops" in m else {}),
                        "predictions": {s: f"{k}.{s}.npy" for s in ("oof", "test")}} for k, m in enumerate(manifest["models"])]}
    pool, model = place / "pool.json", place / "m.cstack"
    pool.write_text(json.dumps(made))
    rows = []
    for seed in range(count):
        order = np.random.default_rng(seed).permutation(len(labels))
        for split, part in (("oof", order[:len(order) // 2]), ("test", order[len(order) // 2:])):
            np.save(place / f"{split}.npy", labels[part])
            for k, p in enumerate(both):
                np.save(place / f"{k}.{split}.npy", p[part])
        fit = json.loads(tool("fit", pool, "-o", model, "--cascade", "--seed", seed, "--json", *QUICK, *ALONE, *extra))["cascade"]
        stack, _ = predict(model, pool, "test")
        told, report = predict(model, pool, "test", "--cascade")
        rows.append([fit["failed"], fit["tested"], int((stack.argmax(1) != told.argmax(1)).sum()), len(told),
                     report["cascade"]["cost"], bool(fit["stops"])])
    failed, held = np.array([r[2] for r in rows]), np.array([r[3] for r in rows])
    low = np.where(failed > 0, beta.ppf(0.05, np.maximum(failed, 1), held - failed + 1), 0)
    return {"pool": path.parent.name, "resplits": count, "rows": int(held[0]), "stops": sum(r[5] for r in rows),
            "cost": np.mean([r[4] for r in rows]), "rate": (failed / held).mean(), "largest": (failed / held).max(),
            "above": int((failed > ALPHA * held).sum()), "surely_above": int((low > ALPHA).sum()), "log_linear": bool(extra)}


def save(key, value):
    """Other figures stay, also those of a run beside this one."""
    figures = {"pools": [], "resplits": [], **(json.loads(FIGURES.read_text()) if FIGURES.exists() else {})}
    figures[key] = value(figures[key])
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")


def rules(entries):
    lines = ["| pool | rule | cost, % of the stack | NLL | top-1, points | other class, % |", "|---|---|---|---|---|---|"]
    for entry in entries:
        head = f"{entry['pool']}: {entry['members']} members, NLL {entry['stack_nll']:.4f}, top-1 {entry['stack_top1']:.2f}"
        for rule in entry["rules"]:
            lines.append(f"| {head} | {rule['name']} | {100 * rule['cost']:.1f} | {rule['nll']:+.4f} ± {rule['nll_se']:.4f} | "
                         f"{rule['top1']:+.2f} ± {rule['top1_se']:.2f} | {100 * rule['disagree']:.2f} |")
            head = ""
    return lines


def write(path, tables):
    text = path.read_text()
    for mark, table in tables.items():
        first, last = f"<!-- {mark} -->\n", f"<!-- end {mark} -->"
        start, end = text.index(first) + len(first), text.index(last)
        text = text[:start] + "\n".join(table) + "\n" + text[end:]
    path.write_text(text)


def page():
    figures = json.loads(FIGURES.read_text())
    halves = ["| pool | divisions | rows judged | with stops | mean cost, % | mean rate, % | largest, % | above 0.5% | surely above |",
              "|---|---|---|---|---|---|---|---|---|"]
    for r in figures["resplits"]:
        halves.append(f"| {r['pool']}{' (log-linear pool)' if r['log_linear'] else ''} | {r['resplits']} | {r['rows']} | {r['stops']} | "
                      f"{100 * r['cost']:.1f} | {100 * r['rate']:.3f} | {100 * r['largest']:.2f} | {r['above']} | {r['surely_above']} |")
    write(TABLES, {"rules": rules(figures["pools"]), "resplits": halves})
    write(PAGE, {"rules": rules(e for e in figures["pools"] if e["pool"] in SHOWN)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--resplits", type=int)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    for path in given.folders if given.resplits else []:
        with tempfile.TemporaryDirectory() as place:
            made = resplit(path / "pool.json", given.resplits, pathlib.Path(place))
        print(made, flush=True)
        save("resplits", lambda old, made=made: [r for r in old if r["pool"] != made["pool"]] + [made])
    found = []
    for path in sorted(p for folder in [ROOT / "examples", *given.folders] for p in folder.glob("*/pool.json")):
        if given.resplits or given.page or path.parent.name in [e["pool"] for e in found]:
            continue
        with tempfile.TemporaryDirectory() as place:
            made = measure(path, pathlib.Path(place))
        if made:
            found.append(made)
            print(made["pool"], [(r["name"], round(r["cost"], 3), round(r["nll"], 4)) for r in made["rules"]], flush=True)
    if found:
        save("pools", lambda _: found)
    if PAGE.exists():
        page()


if __name__ == "__main__":
    main()
