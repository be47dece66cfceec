"""Rows of whole fits, and of log-linear pools beside other optimisers. Each is called with the rates of the machine."""
import json

import numpy as np

import floors
from common import (ALL_MEMBERS, BUILD, CORES, DIFFUSE, FORTY, HUGE, IMAGENET, MANY_MEMBERS, MIDDLE, PEER, SEARCH, SMOKE,
                    STACKED, WORK, drop_pool, fit, fits, kernels, peer, pool, pool_bytes, read_from_disk, run, turns)
from page import fit_row, row

NO_NESTING = "evaluate.nested=false"
ALL_ROWS = "noise=off"  # in diffuse pools, rows that no member gets right look like wrong labels
DIFFUSELY = "diffuse, noise=off"
SLACK = 48 << 20  # resident memory may be above a budget by this


def shape_text(shape):
    return "N = {:,}, C = {:,}, K = {}".format(*shape)


def write_input(predictions, labels):
    path = WORK / "input.bin"
    WORK.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        np.array([len(predictions), len(labels), predictions[0].shape[1]], np.int32).tofile(file)
        for p in predictions:
            np.ascontiguousarray(p, np.float32).tofile(file)
        labels.astype(np.int32).tofile(file)
    return path


def arrays(manifest):
    folder = manifest.parent
    names = sorted(folder.glob("m*.oof.npy"))
    return [np.load(name, mmap_mode="r") for name in names], np.load(folder / "oof_labels.npy")


def least_refits(document):
    """Fits that drop-and-refit makes at least: every member left out once, each that went, and a last pass."""
    redundant = sum(d["because"] == "redundant" for d in document["dropped"])
    first = document["models_in"] - redundant
    gone = first - document["models_kept"]
    return first, (first + gone + (document["models_kept"] if gone else 0)) if first > 1 else 0


def positions(document, without):
    """Members of the first fit, before drop-and-refit, as positions."""
    names = [m["name"] for m in document["members"]]
    gone = {d["name"] for d in document["dropped"] if d["because"] in without}
    return ",".join(str(i) for i, name in enumerate(names) if name not in gone)


def paper(about):
    """ImageNet shape, the paper's preset without nesting, alone and with refit.drop, against NumPy and PyTorch."""
    small = pool(*PEER)
    nodrop, drop = [NO_NESTING], [NO_NESTING, "refit.drop=true"]
    kept = positions(fit(small, *nodrop), ("redundant",))

    def ours():
        document = fit(small, *nodrop)
        return document["wall"], document

    def theirs():
        document = peer("paper_numpy.py", small, CORES, "none", kept)
        return document["seconds"]["total"], document

    (mine, _), (other, _) = turns(ours, theirs)
    whole = fit(small, *drop)
    first, refits = least_refits(whole)
    one = peer("paper_numpy.py", small, CORES, "one", kept)
    estimate = one["seconds"]["total"] + refits * one["seconds"]["drop"] * (first + whole["models_kept"]) / (2 * first)
    full = pool(*IMAGENET)
    plain = fits(full, *nodrop)
    theirs_full = peer("paper_numpy.py", full, CORES, "none", positions(plain, ("redundant",)))
    document = fits(full, *drop)
    first_full, refits_full = least_refits(document)
    size = pool_bytes(full)
    flops = floors.paper_flops(*IMAGENET, first_full, refits_full)
    least = floors.paper(full, size, flops, about)
    least_plain = floors.paper(full, size, floors.paper_flops(*IMAGENET, first_full, 0), about)
    shape = f"{shape_text(PEER)}, {len(kept.split(','))} members after CKA on both sides"
    whole_shape = f"{shape_text(IMAGENET)}, float32, no nesting"
    return [
        row("paper preset", shape, mine, "NumPy and PyTorch, two threads", other, target=10),
        row("paper preset with drop-and-refit", shape, whole["wall"], "NumPy and PyTorch, two threads", estimate, target=10,
            note=f"one refit of the peer measured, times the {refits} that the drops found here take at least, "
                 "smaller as members go"),
        fit_row("paper preset with drop-and-refit, ImageNet shape", whole_shape, document, seconds=10,
                floor=least["total"], most=4, floors=least,
                note=f"{first_full} members after CKA, {document['models_kept']} kept, at least {refits_full} refits; "
                     f"floor: {sum(flops.values()) / 1e12:.2f} TFLOP, {size / 1e9:.2f} GB"),
        fit_row("paper preset, ImageNet shape", whole_shape, plain, against="NumPy and PyTorch, two threads",
                theirs=theirs_full["seconds"]["total"], target=10, floor=least_plain["total"], most=3, floors=least_plain,
                note="the peer measured once"),
    ]


def default_row(what, shape, about, *settings, kind="f32", spread="peaked", text="", **how):
    """A fit of the default preset with its floors."""
    manifest = pool(*shape, kind, spread)
    document = fits(manifest, *settings, preset="default")
    least = floors.default(manifest, shape, pool_bytes(manifest), document, about)
    score = f", nested NLL {document['oof']['nll']:.4f}" if document["oof"].get("nested") else ""
    return fit_row(what, f"{shape_text(shape)}, {text}{'float16' if kind == 'f16' else 'float32'}", document,
                   floor=least["total"], floors=least, note=f"{document['models_kept']} members kept{score}", **how)


def default(about):
    """The default preset with its nested selection on the ImageNet shape."""
    return [default_row("default preset, nested, ImageNet shape", IMAGENET, about, seconds=10)]


def diffuse(about):
    """The default preset without nesting on a large pool of diffuse members, with ample memory and with little."""
    return large_diffuse(about, "default preset", [NO_NESTING, ALL_ROWS], 15)


def diffuse_nested(about):
    """The same with nested selection."""
    return large_diffuse(about, "default preset, nested", [ALL_ROWS], 60)


def large_diffuse(about, what, settings, seconds):
    ample = default_row(what, DIFFUSE, about, *settings, kind="f16", spread="diffuse", text=f"{DIFFUSELY}, ", seconds=seconds)
    manifest = pool(*DIFFUSE, "f16", "diffuse")
    rounds = 2 if ample["ours_s"] < 60 else 1
    small = min((fit(manifest, *settings, preset="default", memory="256MiB") for _ in range(rounds)),
                key=lambda d: d["wall"])
    return [ample, row(f"{what}, --memory 256MiB", ample["conditions"], small["wall"], "ample memory", ample["ours_s"],
                       at_most=1.3, rss=small["rss"], limit=(256 << 20) + SLACK, stages=small["seconds"],
                       floors=ample["floors"], floor=ample["floor_s"])]


def forty(about):
    """The default preset, nested, with forty diffuse members."""
    return [default_row("default preset, nested", FORTY, about, ALL_ROWS, spread="diffuse", text=f"{DIFFUSELY}, ", seconds=18)]


def many_members(about):
    """The default preset without nesting, with 250 diffuse members of a small pool."""
    return [default_row("default preset", MANY_MEMBERS, about, NO_NESTING, ALL_ROWS, spread="diffuse", text=f"{DIFFUSELY}, ",
                        seconds=12)]


def search(about):
    """The default preset, nested, with 1,000 members (--large)."""
    manifest = pool(*SEARCH, "f16", "diffuse")
    looked, _, held, _ = run([BUILD / "corestack", "inspect", manifest, "--json", "--quiet"])
    document = fit(manifest, ALL_ROWS, preset="default")
    document["before"] = None
    out = [row("inspect", f"{shape_text(SEARCH)}, diffuse, float16", looked, rss=held, seconds=60),
           fit_row("default preset, nested", f"{shape_text(SEARCH)}, {DIFFUSELY}, float16", document, seconds=300,
                   note=f"{document['models_kept']} members kept")]
    drop_pool(manifest)
    return out


def huge(about):
    """17.75 GB in float16 inside 2 GiB (--large)."""
    manifest = pool(*HUGE, "f16")
    size = pool_bytes(manifest)
    disk = read_from_disk(manifest)
    document = fit(manifest, NO_NESTING, preset="default", memory="2GiB")
    document["before"] = None
    disk = min(disk, read_from_disk(manifest))
    least = {**floors.default(manifest, HUGE, size, document, about), "read": disk}
    out = [fit_row("default preset, 17.75 GB", f"{shape_text(HUGE)}, float16, --memory 2GiB", document,
                   against="reading the files from disk", theirs=disk, at_most=12, seconds=150, limit=(2 << 30) + SLACK,
                   floor=max(disk, least["total"] - least["read"]), floors=least,
                   note=f"{document['models_kept']} members kept; the files are out of the page cache before the fit")]
    drop_pool(manifest)
    return out


def one_pool(about):
    """One log-linear pool of all members by us, SciPy's L-BFGS and PyTorch, and the default preset beside SciPy."""
    out = []
    for spread in ("diffuse", "peaked"):
        manifest = pool(*ALL_MEMBERS, spread=spread)
        path, result = write_input(*arrays(manifest)), WORK / "pool.json"
        sides = {"ours": [], "lbfgs": [], "torch": []}
        for at in range(2):
            ours = kernels(path, "loglinear", CORES)
            result.write_text(json.dumps(ours))
            sides["ours"].append(ours["loglinear"])
            for name in ("lbfgs", "torch"):
                sides[name].append(peer("peers.py", name, path, result))
        mine = min(sides["ours"])
        best = {name: min(sides[name], key=lambda d: d["seconds"]) for name in ("lbfgs", "torch")}
        text = f"{shape_text(ALL_MEMBERS)}, {spread}"
        for name, title, target in (("lbfgs", "SciPy's L-BFGS with BLAS", 1.5), ("torch", "PyTorch's L-BFGS", 2)):
            other = best[name]
            reached = "" if other["reached"] else f", which ended {other['least'] / other['ours'] - 1:.1e} above our loss"
            out.append(row("log-linear pool of all members", text, mine, title, other["seconds"],
                           target=target if spread == "diffuse" else None,
                           note=f"the same objective to 1e-6, from probabilities in memory; {other['evaluations']} "
                                f"evaluations of the peer{reached}"))
        if spread == "diffuse":
            document = fits(manifest, NO_NESTING, ALL_ROWS, preset="default")
            least = floors.default(manifest, ALL_MEMBERS, pool_bytes(manifest), document, about)
            out.append(fit_row("default preset", text + ", noise=off, float32", document,
                               against="SciPy's one pool of all members", theirs=best["lbfgs"]["seconds"], at_most=4,
                               floor=least["total"], floors=least))
        path.unlink()
    return out


def stacks(about):
    """scikit-learn's stacks on the same members."""
    manifest = pool(*STACKED)
    out = []
    for what, title in (("logistic", "scikit-learn's LogisticRegression on the logs of the members"),
                        ("stacking", "scikit-learn's StackingClassifier of fitted members")):
        (mine, document), (theirs, other) = turns(
            lambda: (lambda d: (d["wall"], d))(fit(manifest, preset="default")),
            lambda: (lambda d: (d["seconds"], d))(peer("peers.py", what, manifest)), 1)
        out.append(row("default preset, nested", shape_text(STACKED), mine, title, theirs,
                       note=f"held-out NLL {document['oof']['nll']:.4f}, the peer's {other['nll']:.4f}; the peer: a fit and "
                            "its five-fold predictions"))
    return out


def threads(about):
    """The same fit on one thread and on two; the models must be the same bytes."""
    manifest = pool(*MIDDLE)
    out = []
    for preset, settings in (("paper", [NO_NESTING]), ("default", [NO_NESTING])):
        def one(n):
            def call():
                document = fit(manifest, *settings, preset=preset, threads=n, model=WORK / f"threads{n}.cstack")
                return document["wall"], document
            return call
        (two_s, two), (one_s, alone) = turns(one(2), one(1))
        same = (WORK / "threads1.cstack").read_bytes() == (WORK / "threads2.cstack").read_bytes()
        out.append(row(f"{preset} preset, two threads", shape_text(MIDDLE), two_s, "one thread", one_s,
                       target=1.8, rss=two["rss"],
                       note=("models the same to the byte" if same else "**models differ**")
                       + f"; {two['cpu']:.1f} CPU seconds on two threads, {alone['cpu']:.1f} on one, "
                         f"{two['cpu'] / two_s:.2f} cores busy"))
        if not same:
            raise SystemExit("bench: one and two threads gave different models")
    return out


def growth(about):
    """Seconds of a fit by stage as N, C and K grow."""
    base = {"N": 2000, "C": 100, "K": 8}
    sizes = {"N": [1000, 2000, 4000, 8000, 16000], "C": [50, 100, 200, 400, 800], "K": [4, 8, 16, 32]}
    if SMOKE:
        base, sizes = {"N": 500, "C": 20, "K": 4}, {"N": [500, 700], "C": [20, 30], "K": [4, 5]}
    stages = ("read", "cka", "select", "gate", "ridge", "blend", "drop", "total")
    tables = []
    sides = (("paper", [NO_NESTING]), ("default", [NO_NESTING]))
    for preset, settings in sides:
        for axis, values in sizes.items():
            lines = []
            for value in values:
                shape = {**base, axis: value}
                manifest = pool(shape["N"], shape["C"], shape["K"])
                seconds = quickest(manifest, *settings, preset=preset)
                lines.append([value] + [seconds.get(stage) or 0 for stage in stages])
                if shape != base:
                    drop_pool(manifest)
            x = np.log([line[0] for line in lines])
            slopes = [float(np.polyfit(x, np.log([line[1 + j] for line in lines]), 1)[0])
                      if all(line[1 + j] > 0.005 for line in lines) else None for j in range(len(stages))]
            tables.append({"preset": preset, "axis": axis, "stages": stages, "lines": lines, "slopes": slopes,
                           "fixed": {k: v for k, v in base.items() if k != axis}})
    return {"tables": tables + [entropy_growth(preset, settings, stages) for preset, settings in sides]}


def entropy_growth(preset, settings, stages):
    """Seconds of a fit by stage as diffuse members become less sure."""
    shape = (500, 80, 4) if SMOKE else (10000, 200, 10)
    lines = []
    for nats in (0.5, 2) if SMOKE else (0.1, 0.5, 1, 2, 3, 4):
        manifest = pool(*shape, spread=nats)
        seconds = quickest(manifest, *settings, ALL_ROWS, preset=preset)
        lines.append([nats] + [seconds.get(stage) or 0 for stage in stages])
        drop_pool(manifest)
    return {"preset": preset, "axis": "nats", "stages": stages, "lines": lines, "slopes": None,
            "fixed": dict(zip("NCK", shape))}


def quickest(manifest, *settings, preset):
    return min((fit(manifest, *settings, preset=preset)["seconds"] for _ in range(2)), key=lambda s: s["total"])
