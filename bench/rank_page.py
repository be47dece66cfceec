"""The tables and figures of docs/clusters.md that bench/ranks.py writes."""
import math

from common import ROOT
from page import clock

PAGE = ROOT / "docs" / "clusters.md"
BEGIN, END = "<!-- written by bench/ranks.py --page -->", "<!-- end of what bench/ranks.py writes -->"
TICKS = [(0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36000, "10 h"),
         (360000, "100 h"), (3600000, "1,000 h"), (36000000, "10,000 h"), (3.6e9, "1,000,000 h")]
COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#9c6b4e", "#a463f2", "#97bbf5"]


def size(count):
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def table(head, lines):
    first, *rest = ["| " + " | ".join(line) + " |" for line in [head, *lines]]
    return [first, "|---" * len(head) + "|", *rest, ""]


def duration(seconds):
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 60:.3g} min" if seconds >= 120 else clock(seconds)


def rows_text(count):
    most, power = f"{count:.1e}".split("e")
    return ("" if most == "1.0" else f"{most} x ") + f"10^{int(power)}"


# ---- what was measured

def stages_table(results, model):
    base = results["rates"]["base"]
    cost = model.costs(results)
    rows, classes, members = base[0]["shape"]
    more = results["rates"]["members"][0]["shape"][2]
    out = [f"A fit of {rows:,} rows, {classes} classes and {members} members without nested evaluation, one thread per rank. "
           f"Repeated: the share of the computation that every rank repeats, from runs with {more} members on one and on two "
           "ranks. Bytes: received by rank 0 of two ranks, as counted and by the formula `bytes_of` in bench/ranks.py.", ""]
    lines = []
    for name, c in cost.items():
        one = base[0]["stages"][name]["seconds_computing"]
        by_formula = model.bytes_of(name, rows, classes, members, min(rows, results["machine"]["sample"]), c["rounds"])
        share = f"{100 * c['repeated']:.0f}%" if one > 1e-3 else ""
        lines.append([name, clock(one), share, f"{c['rounds']}", size(c["bytes"]), size(by_formula)])
    return out + table(["stage", "one rank", "repeated", "rounds", "bytes", "formula"], lines)


def links_table(results, model):
    lines = []
    for ranks, timed in results["rounds"].items():
        way = model.link(timed)
        lines.append([f"{ranks} ranks, shared memory", clock(way["latency"]), size(way["rate"]) + "/s"])
    for run in results["links"]:
        way = model.link(run["rounds"])
        lines.append([f"{run['ranks']} hosts, {run['delay_ms']} ms, {run['rate_mbit']} Mbit/s", clock(way["latency"]),
                      size(way["rate"]) + "/s"])
    return ["Rounds of messages, measured by bench-ranks (bench/ranks.c) with `mpi/backend.c`. An allreduce takes latency + "
            "bytes / rate. Hosts are network namespaces whose links have a one-way delay and a limited rate "
            "(tests/ranks/hosts.py). A round takes two consecutive messages between two hosts, and four between four.", ""] + table(
                ["ranks", "latency of a round", "rate"], lines)


def checks_table(results, model):
    lines, worst = [], 1
    for name, run, predicted in model.checks(results):
        ratio = predicted["seconds"] / run["seconds"]
        worst = max(worst, ratio, 1 / ratio)
        waited = sum(s["seconds_waiting"] for s in run["stages"].values())
        lines.append([name, f"{sum(s['rounds'] for s in run['stages'].values())}",
                      f"{clock(run['seconds'] - waited)} + {clock(waited)}",
                      f"{clock(predicted['computing'])} + {clock(predicted['waiting'])}", clock(run["seconds"]),
                      clock(predicted["seconds"]), f"{ratio:.2f}"])
    cores = results["machine"]["cores"]
    return ["The model compared with measurements, as computing + communication. The model divides the computing time of one "
            "rank among the ranks, except for the repeated share. That share comes from one and two ranks in shared memory; all "
            "other rows test the model. Communication follows from the rounds, the bytes and the links above. More than "
            f"{cores} ranks share the {cores} cores, and measured communication includes waiting for slower ranks. The largest "
            f"error is a factor of {worst:.2f}.", ""] + table(
                ["ranks", "rounds", "measured", "predicted", "total measured", "total predicted", "ratio"], lines)


# ---- on paper

def main_stages(model, results, most=6):
    """Stages by what they take at the two ends of the strong scaling."""
    a = model.ASSUMED
    network = next(iter(a["networks"].values()))
    ends = [model.cluster(results, a["rows"], ranks, network) for ranks in (a["ranks"][0], a["ranks"][-1])]
    share = {name: max(sum(of[name][k] for k in ("computing", "reading", "waiting")) / model.total(of) for of in ends)
             for name in ends[0]}
    return sorted(share, key=share.get, reverse=True)[:most]


def first_to_wait(stages):
    name = max(stages, key=lambda n: sum(stages[n][k] for k in ("computing", "reading", "waiting")))
    s = stages[name]
    what = max(("computing", "reading", "waiting"), key=lambda k: s[k])
    return name, {"computing": "computing", "reading": "storage", "waiting": "network"}[what]


def scaling_table(results, model, rows_for):
    a = model.ASSUMED
    names = main_stages(model, results)
    fast, slow = a["networks"].values()
    lines = []
    for ranks in a["ranks"]:
        rows = rows_for(ranks)
        stages = model.cluster(results, rows, ranks, fast)
        other = model.total(stages) - sum(sum(stages[n][k] for k in ("computing", "reading", "waiting")) for n in names)
        all_of_it = model.total(stages)
        name, why = first_to_wait(stages)
        each = [duration(sum(stages[n][k] for k in ("computing", "reading", "waiting"))) for n in names]
        lines.append([f"{ranks:,}", rows_text(rows), *each, duration(other), f"**{duration(all_of_it)}**",
                      duration(model.total(model.cluster(results, rows, ranks, slow))), f"{name}: {why}",
                      f"{ranks * a['threads'] * all_of_it / 3600:,.0f}"])
    heads = list(a["networks"])
    return table(["ranks", "rows", *names, "other", f"total, {heads[0]}", f"total, {heads[1]}", "bottleneck", "core hours"], lines)


def bytes_table(results, model):
    a = model.ASSUMED
    ranks = 512
    out = []
    for label, network in a["networks"].items():
        stages = model.cluster(results, a["rows"], ranks, network)
        out.append((label, stages))
    lines = []
    for name in out[0][1]:
        s, t = out[0][1][name], out[1][1][name]
        lines.append([name, duration(s["computing"]), duration(s["reading"]), f"{s['rounds']:,.0f}", size(s["bytes"]),
                      duration(s["waiting"]), duration(t["waiting"])])
    return table(["stage", "computing", "storage", "rounds", "bytes per rank", f"network, {out[0][0]}", f"network, {out[1][0]}"],
                 lines)


def figure(path, title, results, model, rows_for):
    """Seconds over ranks, both logarithmic: a line a stage, all of it in black, and what perfect scaling would be."""
    a = model.ASSUMED
    network = next(iter(a["networks"].values()))
    names = main_stages(model, results)
    series = {n: [] for n in [*names, "all"]}
    for ranks in a["ranks"]:
        stages = model.cluster(results, rows_for(ranks), ranks, network)
        for n in names:
            series[n].append(sum(stages[n][k] for k in ("computing", "reading", "waiting")))
        series["all"].append(model.total(stages))
    strong = rows_for(a["ranks"][0]) == rows_for(a["ranks"][-1])
    series["perfect"] = [series["all"][0] * (a["ranks"][0] / r if strong else 1) for r in a["ranks"]]
    top = next(s for s, _ in TICKS if s >= max(max(v) for v in series.values()))
    low = max(s for s, _ in TICKS if s <= max(min(min(v) for v in series.values()), top / 1e5))
    left, wide, high, upper = 60, 430, 300, 34

    def at(i, seconds):
        x = left + wide * i / (len(a["ranks"]) - 1)
        return x, upper + high * math.log(top / max(seconds, 1e-9)) / math.log(top / low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{upper + high + 46}" font-family="sans-serif" '
           'font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>', f'<text x="{left}" y="18">{title}</text>',
           f'<clipPath id="inside"><path d="M{left} {upper}h{wide}v{high}h-{wide}z"/></clipPath>']
    for seconds, label in TICKS:
        if low <= seconds <= top:
            y = at(0, seconds)[1]
            out.append(f'<path d="M{left} {y:.1f}h{wide}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4:.1f}" '
                       f'text-anchor="end">{label}</text>')
    for i, ranks in enumerate(a["ranks"]):
        out.append(f'<text x="{at(i, 1)[0]:.1f}" y="{upper + high + 18}" text-anchor="middle">{ranks:,}</text>')
    out.append(f'<text x="{left + wide / 2}" y="{upper + high + 38}" text-anchor="middle">ranks</text>')
    for i, (name, values) in enumerate(series.items()):
        colour = {"all": "#000", "perfect": "#999"}.get(name) or COLOURS[i % len(COLOURS)]
        points = " ".join("{:.1f},{:.1f}".format(*at(j, v)) for j, v in enumerate(values))
        dash = ' stroke-dasharray="4 4"' if name == "perfect" else ""
        out.append(f'<polyline points="{points}" clip-path="url(#inside)" fill="none" stroke="{colour}" '
                   f'stroke-width="{3 if name == "all" else 2}"{dash}/>')
        y = upper + 14 + 20 * i
        out.append(f'<path d="M{left + wide + 16} {y - 4}h18" stroke="{colour}" stroke-width="3"{dash}/>'
                   f'<text x="{left + wide + 40}" y="{y}">{name}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def paper_text(results, model, figures):
    a = model.ASSUMED

    def strong(ranks):
        return a["rows"]

    def weak(ranks):
        return ranks * a["rows_of_a_rank"]
    if figures:
        figure(PAGE.parent / "clusters-strong.svg", "10^8 rows in all", results, model, strong)
        figure(PAGE.parent / "clusters-weak.svg", f"{a['rows_of_a_rank']:,} rows per rank", results, model, weak)
    whole = a["rows"] * a["classes"] * a["members"] * a["bytes"]
    enough = math.ceil(whole / (0.375 * a["memory"]))
    passes = sum(model.READS.values())
    text = ["### Estimated: 8 to 4,096 ranks", "",
            f"These times are extrapolated: a default fit of {rows_text(a['rows'])} rows, {a['classes']:,} classes and "
            f"{a['members']} members in float16, {size(whole)}. Nested evaluation takes another four to five times as long. "
            "Assumptions:", "",
            f"- A rank has {a['threads']} threads with {a['thread_gain']:.0%} of linear speed-up and {size(a['memory'])} of "
            f"memory, and reads {size(a['disk'])}/s from storage.",
            f"- Predictions stay in memory if they fit into three eighths of it, for {rows_text(a['rows'])} rows from {enough} "
            f"ranks on. They are then read from storage once. Fewer ranks read them up to {passes} times, "
            f"{size(passes * whole)} in total.",
            "- Work on samples grows with members and classes by the exponents measured above. Work on all rows grows in "
            "proportion to rows, classes and members. Both are extrapolated far, so times are good to a factor of a few; how "
            "they depend on the number of ranks is better known.",
            "- Messages travel along a binomial tree of ranks, without other traffic.", "",
            "Strong scaling, the same rows on more ranks:", ""]
    text += scaling_table(results, model, strong)
    text += ["![Strong scaling](clusters-strong.svg)", "",
             f"Weak scaling, {a['rows_of_a_rank']:,} rows on every rank:", ""]
    text += scaling_table(results, model, weak)
    text += ["![Weak scaling](clusters-weak.svg)", "", "Strong scaling on 512 ranks, by stage:", ""]
    return text + bytes_table(results, model)


def page_text(results, model, figures):
    m = results["machine"]
    text = [BEGIN, "", "### Measured", "",
            f"Measured by `/usr/bin/python3 bench/ranks.py --measure` on {m['cores']} cores of {m['cpu']}, {m['mpi']}, load "
            f"{m['load']:.1f} at the start. `--page` writes these tables from bench/ranks.json.", ""]
    text += stages_table(results, model) + links_table(results, model) + checks_table(results, model)
    return "\n".join(text + paper_text(results, model, figures) + [END])


def write_page(results, model, keep):
    """Into docs/clusters.md where `keep`, else only made and printed."""
    made = page_text(results, model, keep)
    if not keep:
        print(made)
        return
    page = PAGE.read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"bench: {PAGE} lacks the lines {BEGIN} and {END}")
    PAGE.write_text(page[:page.index(BEGIN)] + made + page[page.index(END) + len(END):])
