#!/usr/bin/python3
"""Under shift: the guard, adaptation and the monitor against the average and the stack without them, condition by condition.

    experiments/shift/run.py [--pools DIR]... [--only POOL]... [--draws N] [--quick]
    experiments/shift/run.py [--pools DIR]... --part all         # the pages of single parts, beside this script
"""
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
import conditions  # noqa: E402
import costs  # noqa: E402
import parts  # noqa: E402
import streams  # noqa: E402
from conditions import BATCH, mean_error  # noqa: E402

POOLS = ["cifar10", "vision", "mnist_c"]
GUARD, STACK, AVERAGE = "default, guard", "default", "average"
FIXED = "default, guard, shuffled, fixed shares"
OFF = ("--guard", "off")
# Methods besides the average: words of predict, words of fit, whether rows are in random order.
METHODS = {
    "average+temperature": (OFF, ("--method", "average+temperature"), False),
    STACK: (OFF, (), False),
    "default, non-negative": (OFF, ("--set", "loglinear.nonnegative=true"), False),
    "paper": (OFF, ("--preset", "paper"), False),
    "paper, guard": (("--batch", BATCH), ("--preset", "paper"), False),
    GUARD: (("--batch", BATCH), (), False),
    "default, guard, shuffled": (("--batch", BATCH), (), True),
    FIXED: (("--batch", BATCH, "--label-shift", "fixed"), (), True),
}
LABELLED = (10, 50)
ADAPT_AIMS = {"cifar10": 0.99, "vision": 0.57}  # NLL with 50 labels
WORSE_AIM = 0.15


def more_options(parser):
    parser.add_argument("--draws", type=int, default=3, metavar="N", help="random choices of the rows that get labels (3)")
    parser.add_argument("--streams", type=int, default=1000, metavar="N", help="clean streams for false alarms of the monitor (1000; 0: no monitor)")
    parser.add_argument("--repeats", type=int, default=20, metavar="N", help="orders of the clean rows, cut into batches (20)")
    parser.add_argument("--part", action="append", choices=[*parts.known(), "all"], metavar="NAME",
                        help=f"run this script instead, which writes a page beside this one, or all of them ({', '.join(parts.known())})")
    parser.add_argument("--monitor-only", action="store_true", help="measure the monitor again and keep the other figures")
    parser.add_argument("--quick", action="store_true", help="one draw, few streams and batches: to see that all works")


# ---- one pool -------------------------------------------------------------------------------------------------------

def scores(options, manifest, split):
    """{method: (NLL, error)} of [conditions, rows]."""
    loss = {AVERAGE: conditions.losses(split.average(), split.labels)}
    for method, (words, fit, shuffled) in METHODS.items():
        loss[method] = conditions.losses(conditions.predicted(options, manifest, split, words, fit, shuffled), split.labels)
    return loss


def summary(loss, reference, clean=None):
    """Means and standard errors over images, and of the reference (the guard) minus this method."""
    row = {}
    for place, key in enumerate(("nll", "error")):
        row[key], row[f"{key}_se"] = mean_error(loss[place])
        row[f"to_{key}"], row[f"to_{key}_se"] = mean_error(reference[place] - loss[place])
        row[f"clean_{key}"] = mean_error(clean[place])[0] if clean else None
    return row


def conditions_worse(split, loss, held, method=GUARD):
    """By NLL and by error, the conditions in which the guard is worse than the better of average and stack."""
    found = {}
    for place, key in enumerate(("nll", "error")):
        some = conditions.worse(loss[method][place], loss[AVERAGE][place], loss[STACK][place], split.listed)
        chosen = [i for i, c in enumerate(split.listed) if any(c is s[0] for s in some)]
        found[key] = {"share": len(some) / len(split), "held_share": float(held[chosen].sum() / max(1, held.sum())),
                      "conditions": [[c["kind"], c["severity"], gap, error] for c, gap, error in some]}
    return found


def clean_batches(options, manifest, repeats):
    """Random batches of the clean test rows: how many keep their bytes, and the change in NLL."""
    rows = len(common.array(manifest, common.split_of(manifest, "test")["labels"]))
    whole = rows // BATCH * BATCH
    if not whole:
        return None
    order = np.concatenate([conditions.draws(rows, 1000 + r)[:whole] for r in range(repeats)])
    split = conditions.Split(manifest, "test", rows=order)
    split.name = f"test x {repeats}"
    off, guard = (conditions.predicted(options, manifest, split, words)[0] for words in (OFF, ("--batch", BATCH)))
    same = [off[i:i + BATCH].tobytes() == guard[i:i + BATCH].tobytes() for i in range(0, len(order), BATCH)]
    nll = [conditions.losses(p, split.labels)[0].mean() for p in (off, guard)]
    whole = [conditions.predicted(options, manifest, conditions.Split(manifest, "test"), words)[0] for words in (OFF, ("--batch", BATCH))]
    ordered = [whole[0][i:i + BATCH].tobytes() == whole[1][i:i + BATCH].tobytes() for i in range(0, rows, BATCH)]
    return {"batches": len(same), "ordered": [sum(ordered), len(ordered)], "unchanged": float(np.mean(same)), "nll": float(nll[0]), "nll_change": float(nll[1] / nll[0] - 1)}


def adapted(options, manifest, split, count):
    """(NLL, error) [conditions, rows] of the stack adapted to `count` labels of each condition, the mean over draws of the rows
    that got no label."""
    pairs = [conditions.losses(page, split.labels) for page in conditions.adapted(options, manifest, split, count, options.draws)]
    return tuple(conditions.mean_known([pair[place] for pair in pairs]) for place in (0, 1))


def adaptation(options, split, loss, count):
    """That against the guard and the stack without labels, on the same rows."""
    row = {"labels": count, "draws": options.draws}
    for place, key in enumerate(("nll", "error")):
        values = loss[labelled_name(count)][place]
        row[key], row[f"{key}_se"] = mean_error(values)
        for name, method in (("guard", GUARD), ("stack", STACK)):
            row[f"{key}_to_{name}"], row[f"{key}_to_{name}_se"] = mean_error(values - loss[method][place])
            gaps = [mean_error(v) for v in values - loss[method][place]]
            row[f"{key}_worse_than_{name}"] = [[c["kind"], c["severity"], gap, error] for c, (gap, error) in zip(split.listed, gaps)
                                               if gap > 2 * error and gap > 1e-12]
    return row


def labelled_name(count):
    return f"default, {count} labels"


def by(split, loss, key):
    """{value of the key of conditions: {method: [NLL, error]}}."""
    values = list(dict.fromkeys(c[key] for c in split.listed))
    return {str(value): {method: [mean_error(np.asarray(v)[[c[key] == value for c in split.listed]])[0] for v in pair]
                         for method, pair in loss.items()} for value in values}


def domains(options, manifest):
    """{target: {method: [NLL, its standard error, error, its standard error]}} of the other labelled splits."""
    found = {}
    for name in common.domain_splits(json.loads(manifest.read_text())):
        split = conditions.Split(manifest, name)
        loss = scores(options, manifest, split)
        loss.update({labelled_name(count): adapted(options, manifest, split, count) for count in LABELLED})
        found[name] = {method: [*mean_error(pair[0]), *mean_error(pair[1])] for method, pair in loss.items()}
    return found


def one_pool(options, name, manifest):
    document = json.loads(manifest.read_text())
    split = conditions.Split(manifest, common.worn_split(document))
    loss = scores(options, manifest, split)
    loss.update({labelled_name(count): adapted(options, manifest, split, count) for count in LABELLED})
    clean = scores(options, manifest, conditions.Split(manifest, "test"))
    held = conditions.judged(name, split.listed)
    rows = {}
    for method, values in loss.items():
        rows[method] = summary(values, loss[GUARD], clean.get(method))
        rows[method]["held"] = summary([v[held] for v in values], [v[held] for v in loss[GUARD]])
    acted = int((np.abs(loss[GUARD][0] - loss[STACK][0]).max(axis=1) > 0).sum())
    found = {"methods": rows, "worse": conditions_worse(split, loss, held),
             "worse_shuffled": conditions_worse(split, loss, held, "default, guard, shuffled"), "acted": acted, "conditions": len(split), "held": int(held.sum()),
             "clean": clean_batches(options, manifest, options.repeats),
             "adapt": {str(count): adaptation(options, split, loss, count) for count in LABELLED},
             "families": by(split, loss, "shift"), "severities": by(split, loss, "severity"), "domains": domains(options, manifest),
             "monitor": streams.measured(options, manifest, split, options.streams), "time": costs.share_of_time(options, manifest)}
    shape = {"samples": len(split.labels), "conditions": len(split), "classes": conditions.count_classes(split), "models_in": len(split.members)}
    return found, {"shape": shape}


def measure(options, pools):
    if options.known and (options.part or options.monitor_only):
        for name in parts.known():
            if options.part and (name in options.part or "all" in options.part):
                parts.measure(options, name, pools.values())
        alarms = {}
        for name, manifest in pools.items():
            if options.monitor_only:
                split = conditions.Split(manifest, common.worn_split(json.loads(manifest.read_text())))
                alarms[name] = streams.measured(options, manifest, split, options.streams)
        figures, page = (common.read_json(pathlib.Path(__file__).parent / f"{key}.json") for key in ("figures", "page"))
        for name in alarms:
            figures[name]["monitor"] = alarms[name]
        return figures, page
    if options.quick:
        options.draws, options.streams, options.repeats = 1, 20, 2
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        figures[name], page["pools"][name] = one_pool(options, name, manifest)
    if options.known:
        page["thousand"] = [costs.thousand_classes(options, members) for members in (6, 14)]
    return figures, page


# ---- the section ----------------------------------------------------------------------------------------------------

def met(yes):
    return "yes" if yes else "**no**"


def against(row, key, scale, digits):
    """Whether the guard is at or below a method, beyond noise."""
    gap, error = row[f"to_{key}"], row[f"to_{key}_se"]
    return f"{scale * gap:+.{digits}f} ± {scale * error:.{digits}f}, {met(gap <= 2 * error)}"


def aims(figures, page):
    """What is asked for, and what was reached: a row for each aim, a column for each pool."""
    pools = list(figures)

    def row(aim, cell):
        return [aim, *(cell(n, figures[n]) for n in pools)]

    rows = []
    for method in (AVERAGE, STACK):
        for key, scale, digits, unit in (("nll", 1, 3, "NLL"), ("error", 100, 2, "error, points")):
            rows.append(row(f"corrupted {unit}: guard minus `{method}`, at most 0 beyond noise",
                            lambda n, f, m=method, k=key, s=scale, d=digits: against(f["methods"][m], k, s, d)))
    for key, said in (("worse", "in the order of the file"), ("worse_shuffled", "shuffled")):
        for loss, name in (("nll", "NLL"), ("error", "error")):
            rows.append(row(f"conditions worse than the better of `average` and `default` by {name}, {said}: at most {100 * WORSE_AIM:.0f}%",
                            lambda n, f, k=key, o=loss: f"{100 * f[k][o]['share']:.0f}%, {met(f[k][o]['share'] <= WORSE_AIM)}"))
    rows.append(row("clean batches with the same bytes: at least 99%", lambda n, f: "" if not f["clean"] else
                    f"{100 * f['clean']['unchanged']:.1f}% of {f['clean']['batches']}, {met(f['clean']['unchanged'] >= 0.99)}"))
    rows.append(row("clean NLL: change of at most 0.1%", lambda n, f: "" if not f["clean"] else
                    f"{100 * f['clean']['nll_change']:+.3f}%, {met(abs(f['clean']['nll_change']) <= 0.001)}"))
    rows.append(row("NLL with 50 labels, on the other rows: at most 0.99 (`cifar10`), 0.57 (`vision`)", lambda n, f: adapt_cell(n, f["adapt"]["50"])))
    for than, said in (("stack", "`default`"), ("guard", "guard")):
        rows.append(row(f"NLL with 10 labels minus {said} without: at most 0 beyond noise", lambda n, f, t=than: ten_cell(f["adapt"]["10"], t)))
    rows.append(row("monitor: false alarms in at most 1% of clean streams", lambda n, f: "" if not f["monitor"] else
                    f"{100 * f['monitor']['false_alarms']:.1f}% of {f['monitor']['streams']:,}, {met(f['monitor']['false_alarms'] <= 0.01)}"))
    rows.append(row("monitor: kinds of severity 3 and above found within 200 rows: at least 90%", lambda n, f: "" if not f["monitor"] else
                    f"{f['monitor']['found']} of {f['monitor']['kinds']} ({f['monitor']['conditions_found']} of {f['monitor']['conditions']} conditions), {met(f['monitor']['found'] >= 0.9 * f['monitor']['kinds'])}"))
    rows.append(row("guard's share of prediction time: below 10%", lambda n, f: "" if not f["time"] else
                    f"{100 * f['time']['share']:.1f}%, {met(f['time']['share'] < 0.1)}"))
    lines = common.table(["aim", *(f"`{n}`" for n in pools)], rows)
    files = [f"{t['bytes'] / 1000:.1f} kB with {t['members']} members ({t['without'] / 1000:.1f} kB without what serves the guard, label shift and the monitor), {met(t['bytes'] < 100000)}"
             for t in page.get("thousand", [])]
    if files:
        lines += [f"Model file for 1,000 classes, below 100 kB: {'; '.join(files)}.", ""]
    return lines


def adapt_cell(name, row):
    aim = ADAPT_AIMS.get(name)
    text = f"{row['nll']:.3f} ± {row['nll_se']:.3f}"
    return text if aim is None else f"{text}, {met(row['nll'] <= aim)}"


def ten_cell(row, than):
    gap, error = row[f"nll_to_{than}"], row[f"nll_to_{than}_se"]
    some = len(row[f"nll_worse_than_{than}"])
    return f"{gap:+.3f} ± {error:.3f}, {met(gap <= 2 * error)}; worse in {some} condition{'s' * (some != 1)}"


def methods_table(f):
    heads = ["method", "clean NLL", "clean top-1 %", "corrupted NLL", "corrupted error %", "guard minus method, NLL", "guard minus method, error",
             "NLL, kinds held out", "error %, kinds held out"]
    rows = [[m, common.number(r["clean_nll"], 3), "" if r["clean_error"] is None else f"{100 - 100 * r['clean_error']:.2f}",
             f"{r['nll']:.3f} ± {r['nll_se']:.3f}", f"{100 * r['error']:.2f} ± {100 * r['error_se']:.2f}",
             *(["", ""] if m == GUARD else [f"{r['to_nll']:+.3f} ± {r['to_nll_se']:.3f}", f"{100 * r['to_error']:+.2f} ± {100 * r['to_error_se']:.2f}"]),
             f"{r['held']['nll']:.3f}", f"{100 * r['held']['error']:.2f}"] for m, r in f["methods"].items()]
    return common.table(heads, rows)


def listed(some, scale, digits):
    return ", ".join(f"{kind} {severity:g} ({scale * gap:+.{digits}f} ± {scale * error:.{digits}f})" for kind, severity, gap, error in some) or "none"


def tables(figures, page):
    lines = []
    for name, f in figures.items():
        p = page["pools"][name]
        worse = f["worse"]
        lines += [f"### {name}, condition by condition", "", common.shape(p["shape"], name), "", *methods_table(f),
                  f"The guard changed predictions in {f['acted']} of {f['conditions']} conditions. Worse than the better of `average` and `default` by over two "
                  f"standard errors, by NLL: {listed(worse['nll']['conditions'], 1, 3)}. By error, in points: {listed(worse['error']['conditions'], 100, 1)}. "
                  f"Among the kinds held out: {100 * worse['nll']['held_share']:.0f}% by NLL, {100 * worse['error']['held_share']:.0f}% by error.", ""]
        ten = f["adapt"]["10"]
        lines += [f"With 10 labels worse by over two standard errors, by NLL, than `default` without labels: {listed(ten['nll_worse_than_stack'], 1, 3)}; than the "
                  f"guard without labels: {listed(ten['nll_worse_than_guard'], 1, 3)}.", ""]
        if f["clean"]:
            lines += [f"Clean batches in the order of the file: {f['clean']['ordered'][0]} of {f['clean']['ordered'][1]} keep their bytes.", ""]
        if f["monitor"]:
            lines += [streams.sentence(f["monitor"]), ""]
    return lines


def section(figures, page):
    return [f"Every condition is a stream by itself, predicted by `corestack predict` in batches of {BATCH} rows, in the order of the files (rows of `vision` are sorted by class) or, where "
            f"\"shuffled\" is said, in a random order. `{GUARD}` is the command with its "
            f"defaults; `{STACK}` is the same model with `--guard off`. ± is one standard error over images, of paired differences too; each image "
            "counts with all its conditions. \"yes\" means that the aim is met; a difference is within noise if it is at most two standard errors. "
            "The rules were chosen on `oof` rows, on clean test batches and on every second kind of corruption in alphabetical order; \"kinds held out\" "
            "are the other kinds.", "", *aims(figures, page), *tables(figures, page), *parts.links(),
            common.conditions(page, [f"predict MODEL POOL --batch {BATCH}", "adapt MODEL POOL --split labelled -o MODEL2"], resamples=False)]


if __name__ == "__main__":
    common.run(__doc__, "shift", "Under shift", POOLS, measure, section, tables, common.needs(
        "classification", more=lambda d: common.plain_files(d) or (None if common.worn_split(d) else "it has no labelled split with `conditions`")),
        more_options)
