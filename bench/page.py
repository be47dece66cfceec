"""The rows of the bench, and docs/benchmarks.md and docs/appendix/benchmarks.md, which are written from them."""
from floors import FLOOR_TEXT


def row(what, conditions, ours, against=None, theirs=None, target=None, at_most=None, seconds=None, floor=None, most=None,
        rss=None, limit=None, note="", stages=None, floors=None, error=None, most_error=None, before=None):
    """target: least ratio of their time to ours; at_most: largest of ours to theirs; seconds: most time; most: largest
    multiple of the floor; limit: most resident bytes; most_error: of `error`; before: the time of an
    older version in the same run. A target whose other side is missing is not met."""
    met = []
    if target:
        met.append(bool(theirs) and theirs / ours >= target)
    if at_most:
        met.append(bool(theirs) and ours <= at_most * theirs)
    if seconds:
        met.append(ours < seconds)
    if most:
        met.append(bool(floor) and ours <= most * floor)
    if limit:
        met.append(rss <= limit)
    if most_error:
        met.append(error <= most_error)
    goal = [f"{target}x" if target else "", f"at most {at_most:g} times" if at_most else "",
            f"under {clock(seconds)}" if seconds else "", f"{most}x floor" if most else "",
            memory_text(limit) if limit else "", f"error {most_error:g}" if most_error else ""]
    return {"what": what, "conditions": conditions, "ours_s": ours, "peer": against, "peer_s": theirs, "floor_s": floor,
            "rss": rss, "goal": ", ".join(g for g in goal if g), "met": all(met) if met else None, "note": note,
            "stages": stages, "floors": floors, "before": before}


def fit_row(what, conditions, document, **how):
    """A row of one fit, with its stages and the older version's time."""
    return row(what, conditions, document["wall"], rss=document["rss"], stages=document["seconds"],
               before=document["before"], **how)


def clock(seconds):
    if seconds is None:
        return ""
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    return ""


def memory_text(size):
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.3g} GiB"


def before_text(r):
    b = r["before"]
    if not b:
        return ""
    return f"{'over ' if b['ended'] else ''}{clock(b['seconds'])} ({b['seconds'] / r['ours_s']:.1f}x)"


def ratio_text(r):
    if not r["peer_s"]:
        return ""
    ratio = r["peer_s"] / r["ours_s"]
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def table(rows):
    out = ["| what | conditions | time | before | against | its time | ratio | floor | times floor | peak memory | target "
           "| met |", "|---" * 12 + "|"]
    notes = []
    for r in rows:
        mark = ""
        if r["note"]:
            notes.append(r["note"])
            mark = f" [{len(notes)}]"
        above = f"{r['ours_s'] / r['floor_s']:.1f}" if r["floor_s"] else ""
        met = {True: "met", False: "**not met**", None: ""}[r["met"]]
        out.append(f"| {r['what']}{mark} | {r['conditions']} | {clock(r['ours_s'])} | {before_text(r)} | {r['peer'] or ''} "
                   f"| {clock(r['peer_s'])} | {ratio_text(r)} | {clock(r['floor_s'])} | {above} | "
                   f"{memory_text(r['rss']) if r['rss'] else ''} | {r['goal']} | {met} |")
    return out + [""] + [f"{i}. {note}" for i, note in enumerate(notes, 1)]


def stage_cell(r, stage):
    seconds = r["stages"].get(stage) or 0
    least = (r["floors"] or {}).get(stage)
    return f"{seconds:.2f} ({seconds / least:.1f})" if least and seconds > 0.005 else f"{seconds:.2f}"


def stage_table(rows):
    rows = [r for r in rows if r["stages"]]
    if not rows:
        return []
    names = ["read", "cka", "select", "gate", "ridge", "blend", "drop", "nested", "total"]
    out = ["", "## Seconds by stage", "", "In brackets: times the stage's floor.", "", *FLOOR_TEXT, "",
           "| fit | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    return out + [f"| {r['what']}, {r['conditions'].split(', ', 3)[-1] if r['conditions'].startswith('N = ') else ''} | "
                  .replace(",  |", " |") + " | ".join(stage_cell(r, n) for n in names) + " |" for r in rows]


def growth_tables(data):
    out = ["", "## Growth", "", "Seconds of a fit by stage, two threads, without nested evaluation. Members are peaked, "
           "or diffuse where the entropy of their mean, in nats, is given. The last line is the exponent: the slope of log "
           "seconds over log size, where every time is above 5 ms."]
    for t in data["tables"]:
        fixed = ", ".join(f"{k} = {v:,}" for k, v in t["fixed"].items())
        out += ["", f"Preset `{t['preset']}`, {fixed}:", "", f"| {t['axis']} | " + " | ".join(t["stages"]) + " |",
                "|---" * (len(t["stages"]) + 1) + "|"]
        out += ["| " + f"{line[0]:,} | " + " | ".join(f"{v:.3f}" for v in line[1:]) + " |" for line in t["lines"]]
        if t["slopes"]:
            out.append("| exponent | " + " | ".join("" if s is None else f"{s:.2f}" for s in t["slopes"]) + " |")
    return out


def rates_text(m):
    if "rates_2" not in m:
        return ""
    one, two = m["rates_1"], m["rates_2"]
    memory = ", ".join(f"{name} {4e-9 * two[key]:.1f} GB/s ({4e-9 * one[key]:.1f})"
                       for name, key in (("read", "read"), ("copied", "copy")))
    functions = ", ".join(f"{1e-9 * two[key]:.2f} ({1e-9 * one[key]:.2f}) billion {name} a second"
                          for name, key in (("exponentials", "exp"), ("logarithms", "log")))
    return f"On two threads (one): memory {memory}; by the library's own loops {functions}."


ORDER = ["paper", "default", "diffuse", "diffuse_nested", "forty", "many_members", "one_pool", "stacks", "threads", "cka", "greedy",
         "bootstrap", "predict", "startup", "lists", "lists_growth", "growth", "huge", "search", "lists_large"]


def rows_of(results):
    return [{"before": None, "floors": None, "stages": None, **r} for name in ORDER if isinstance(results.get(name), list)
            for r in results[name]]


def page(results):
    """The text of docs/benchmarks.md: times, memory and peers."""
    m = results["machine"]
    text = ["# Benchmarks", "", f"`make bench` writes this page. {m['cpu']}, {m['cores']} cores, {m['memory'] / 2**30:.0f} GiB. Both sides take turns, and "
            "the lowest time of each counts. [appendix/benchmarks.md](appendix/benchmarks.md) has the conditions of measurement, the targets that were not met, "
            "floors, times of older versions, seconds by stage, and growth with rows, classes and members.", "",
            "| what | conditions | time | peak memory | against | its time |", "|---|---|---|---|---|---|"]
    text += [f"| {r['what']} | {r['conditions']} | {clock(r['ours_s'])} | {memory_text(r['rss']) if r['rss'] else ''} | {r['peer'] or ''} | "
             f"{clock(r['peer_s'])} |" for r in rows_of({name: rows for name, rows in results.items() if name != "lists_growth"})]
    return "\n".join(text) + "\n"


def appendix(results):
    """The text of docs/appendix/benchmarks.md."""
    m = results["machine"]
    disk = f"{m['read_disk'] / 1e9:.2f} GB/s around it" if m["read_disk"] else "the disk cannot be read around it"
    text = ["# Benchmarks in full", "",
            f"Written by `make bench` (bench/run.sh; the last rows, with much larger pools, by `bench/run.sh --large huge search lists_large`). {m['cpu']}, "
            f"{m['cores']} cores, {m['memory'] / 2**30:.0f} GiB, Linux {m['kernel']}, Python {m['python']}.", "",
            f"Measured in the same run: SGEMM {m['sgemm_2'] / 1e9:.0f} GFLOP/s on two threads, {m['sgemm_1'] / 1e9:.0f} "
            f"on one; reading a file just written {m['read_cached'] / 1e9:.2f} GB/s from the page cache, {disk}. "
            f"{rates_text(m)} The first touch of a page of memory took {m['page_fault'] * 1e6:.1f} µs. "
            f"The load of the machine was {m['load']:.1f} at the start.", "",
            "Both sides take turns, A B A B, and the lowest time of each counts; fits of a minute or more are made once. Imports "
            "of the peers are not counted, our times are of whole processes. Peak memory is the kernel's, mapped files "
            "included. Pools are made by bench/pool.c, with peaked members unless a row says diffuse: softmax of normal "
            "noise plus 4 + 3 z on the true class; rows with a low z look like wrong labels, and noise=off keeps them. `before` is "
            "an older version of corestack in the same run (`--against TOOL`)."
            + (f" OPENBLAS_CORETYPE was {m['blas']} on both sides." if m.get("blas") else ""), ""]
    rows = rows_of(results)
    text += table(rows) + stage_table(rows)
    if "growth" in results:
        text += growth_tables(results["growth"])
    return "\n".join(text).rstrip() + "\n"
