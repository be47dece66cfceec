#!/usr/bin/python3
"""Writes experiments/claims.md from the figures that the experiments left, or checks that it says what they say.

    experiments/claims/run.py            # writes
    experiments/claims/run.py --check    # exit code 1 if experiments/claims.md is not what it would write

Verdicts are computed here from experiments/*/figures.json by the rule that stands with each claim.
"""
import argparse
import json
import pathlib
import sys

import risk
import theory
from theory import median, statement, verdict

ROOT = pathlib.Path(__file__).resolve().parents[2]

HEAD = """# Claims of the paper, checked

Each theorem, proposition, lemma, corollary and empirical claim of the paper that can be judged here: on planted worlds that meet
its assumptions, on small cases, on predictions of real pools. What cannot be judged is at the end.

{counts}
"""

RULES = """
The rule. *Statements* (theorem, proposition, lemma, corollary, remark; a row for each part that can fail by itself) *held* where no
case that was looked at and meets the assumptions is an exception, else they *did not hold*; a case is an exception only if no choice of
a constant that the paper leaves open in O() would help. *Measured* claims, all others, *held* where what the row asks is met in every
case (pools, pairs, families), *held under conditions* where it is met in at least half, else they *did not hold*. A statement that
held because it follows from a proof says so; the others held as far as we looked.

Figures and verdicts are computed by `experiments/claims/run.py` from what the experiments left in `experiments/*/figures.json`. The
command in each section makes these again; tables of real pools are in [results.md](results.md). Our pools are small and are not the paper's: a
measured claim that fails here may hold elsewhere, and the other way round.
"""

NOT_JUDGED = """## Not judged

- Scores on ImageNet-1K, ImageNet-C, ImageNet-O, ADE20K, COCO, iNaturalist-2021 and DomainNet-126, and what is said of single pairs of
  their models: these predictions are not public. Signs and orders of the same comparisons are judged above on small pools.
- Latency, memory and throughput on an A100, and orders of time in the complexity table other than CKA's: members here are small.
- The noise model (isotropic, sub-Gaussian residuals of each member around its mean given x): one training of each member does not
  show that mean. Planted worlds meet it. Lipschitz and norm limits of the gate: the paper gives no figures.
- Snapshot ensembles, MC dropout, Lasso and elastic net, which have no figures in the paper, and what it says of other methods in passing.
- The elbow of the CKA spectrum as a threshold, that something is new or the first, theorems of others (Marchenko-Pastur, Wolpert, Eckart-Young).
"""


# Methods of the paper's first table, as they are called here.
PAPER = ("best-single", "average", "performance-weighted", "ridge", "greedy", "deep-ensemble", "soup", "swag", "autogluon",
         "prototype", "paper")
FAMILIES = ("noise", "blur", "weather", "digital")


# ---- one function a claim: (title, verdict, sentences, command) -----------------------------------------------------

def lambda_near(f):
    ratios = {n: v["ratio"] for n, v in f.items() if v["ratio"]}
    met = sum(abs(r - 1) <= 0.05 for r in ratios.values())
    loss = [100 * (v["nll_star"] / v["nll_cv"] - 1) for v in f.values()]
    return ("lambda* lies within 5% of the cross-validated penalty", verdict(met, len(ratios)),
            f"Rule: |lambda*/CV - 1| at most 0.05. Met on {met} of {len(ratios)} pools. lambda*/CV goes from "
            f"{min(ratios.values()):.3g} to {max(ratios.values()):.3g} (median {median(ratios.values()):.3g}). The "
            "loss hardly depends on it on most pools: test NLL with lambda* differs from that with CV by "
            f"{min(loss):+.1f}% to "
            f"{max(loss):+.1f}%, median {median(loss):+.1f}%.", "experiments/lambda/run.py")


def lambda_faster(f):
    ridge = [v["ridge_ratio"] for v in f.values()]
    total = [v["total_ratio"] for v in f.values()]
    met = sum(t >= 3 for t in total)
    return ("lambda* makes training 3 to 5 times faster than cross-validation", verdict(met, len(total)),
            f"Rule: the whole fit at least 3 times as fast. Met on {met} of {len(total)} pools: the fit is "
            f"{min(total):.2f} to {max(total):.2f} times as fast (median {median(total):.2f}), its ridge stage alone "
            f"{min(ridge):.1f} to {max(ridge):.1f} times (median {median(ridge):.1f}). Cross-validation here reuses "
            "one eigendecomposition a fold, so there is little to save; a solver that starts anew for each penalty "
            "was not timed.",
            "experiments/lambda/run.py")


def ece_bound(f):
    every = [m for v in f.values() for m in v["members"]]
    above, draws = sum(m["above"] for m in every), sum(m["draws"] for m in every)
    la, ld = sum(v["learners"]["above"] for v in f.values()), sum(v["learners"]["draws"] for v in f.values())
    worst = max(f, key=lambda n: sum(m["above"] for m in f[n]["members"]))
    share = sum(m["above"] for m in f[worst]["members"]) / sum(m["draws"] for m in f[worst]["members"])
    mean, far = (sum(m[k] for m in every) for k in ("above_mean", "far"))
    return ("Proposition and corollary: ECE of a blend is at most the largest ECE of what it blends", statement(above + la == 0),
            f"Rule: no exception. Of {draws:,} random blends of 2, 3 or 5 members, {above:,} "
            f"({100 * above / draws:.0f}%) are above it, {far:,} by more than 0.01; most often on `{worst}` "
            f"({100 * share:.0f}%), by at most {max(m['most'] for m in every):.3f}. {mean:,} "
            f"({100 * mean / draws:.0f}%) are above the weighted mean, the step that the proof takes. Of {ld} equal "
            f"blends of meta-learners, {la} are above the largest. The bound is false as a theorem. It fails where "
            "members are well calibrated and differ, as their average is underconfident, and is mostly met by "
            "meta-learners of the same members, which are nearly alike.",
            "experiments/ece/run.py")


def kappa_methods(f):
    rows = f["methods"]
    met = sum(v["multi_rho"] < 0 and v["multi_p"] < 0.05 for v in rows.values())
    several = ", ".join(f"{n} {v['multi_rho']:+.2f}" for n, v in rows.items())
    subsets = f["subsets"]
    low = sum(v["mean"] < 0 and v["p"] < 0.05 for v in subsets.values())
    high = sum(v["mean"] > 0 and v["p"] < 0.05 for v in subsets.values())
    return ("A lower condition number predicts higher accuracy", verdict(met + low, len(rows) + len(subsets)),
            f"Rule: rank correlation below 0 at p < 0.05. Over methods that use several members, met on {met} of "
            f"{len(rows)} pools ({several}; the paper: -0.91). Over random subsets of one size, met in {low} of "
            f"{len(subsets)} cases of a pool and a method; in {high} the sign is the other one, at p < 0.05. The 13 "
            "points of the paper's own figure give "
            f"{f['paper']:+.2f}.", "experiments/kappa/run.py")


def threshold_flat(f):
    spreads, best, more = {}, [], 0
    for name, rows in f.items():
        inner = [100 * r["top1"] for r in rows if 0.7999 < float(r["value"]) < 0.9001]
        top = max(rows, key=lambda r: r["top1"])
        more += top["models"] > next(r["models"] for r in rows if float(r["value"]) == 0.85)
        best.append(f"{name} {top['value']} with {top['models']} members")
        spreads[name] = (max(inner) - min(inner), 100 * max(r["top1"] for r in rows) - max(inner))
    met = sum(s <= 0.1 + 1e-9 and below <= 0.1 + 1e-9 for s, below in spreads.values())
    return ("Accuracy is flat for CKA thresholds in [0.80, 0.90], and best there", verdict(met, len(spreads)),
            "Rule: top-1 moves by at most 0.1 points in [0.80, 0.90] and no threshold is more than 0.1 better. Met on "
            f"{met} of {len(spreads)} pools. Movement, and distance to the best threshold of all, in points: "
            + "; ".join(f"{n} {s:.2f}, {b:.2f}" for n, (s, b) in spreads.items())
            + ". Best at: " + "; ".join(best) + ". A movement "
            "of one point may be chance on test sets of this size; but the best threshold keeps more members than 0.85 "
            f"does on {more} of {len(f)} pools.", "experiments/threshold/run.py")


def same_seeds(f):
    pairs = [v for p in f.values() for v in p["pairs"].values()]
    met = sum(c > 0.85 and p < 0.5 for c, p in pairs)
    opposite, total = sum(p["opposite"] for p in f.values()), sum(p["all"] for p in f.values())
    some = "; ".join(f"{n} " + ", ".join(f"{c:.3f} / {p:.3f}" for c, p in f[n]["pairs"].values()) for n in ("cifar10", "vision")
                     if n in f)
    return ("Same architecture, other seed: CKA above 0.85 while Pearson is below 0.5", verdict(met, len(pairs)),
            f"Rule: both at once, for pairs that differ in their seed alone. Met for {met} of {len(pairs)} pairs. CKA "
            f"/ Pearson: {some}. Pearson is never below {min(p for _, p in pairs):.2f} there. Of all {total} pairs of "
            f"these pools {sum(p['claimed'] for p in f.values())} show the pattern, {opposite} the opposite one "
            "(Pearson above 0.85, CKA not).",
            "experiments/seeds/run.py")


def ordering(f):
    same = {k: sum(v["orders"][k]["same"] for v in f.values()) for k in ("top1", "ece", "nll")}
    pairs = {k: sum(v["orders"][k]["pairs"] for v in f.values()) for k in ("top1", "ece", "nll")}
    known = {m for v in f.values() for m in v["rows"]} & set(PAPER)
    first = sum(v["rows"]["paper"]["top1"] == max(r["top1"] for m, r in v["rows"].items() if m in known) for v in f.values())
    beats = sum(v["rows"]["paper"]["top1"] > v["rows"]["prototype"]["top1"] for v in f.values())
    default = sum(v["rows"]["default"]["nll"] <= 1.005 * min(r["nll"] for r in v["rows"].values()) for v in f.values())
    return ("The order of methods: CoRe-Stack+ first, its prototype second, then AutoGluon, ridge, greedy, averages, single",
            verdict(first, len(f)),
            "Rule: CoRe-Stack+ to the letter (`paper`) has the best top-1 of the methods that the paper's table has. "
            f"Met on {first} of {len(f)} pools; it beats its prototype on {beats}. Pairs of methods in the paper's "
            f"order: {same['top1']} of {pairs['top1']} pairs by top-1, {same['ece']} of {pairs['ece']} by ECE, "
            f"{same['nll']} of {pairs['nll']} by NLL, where chance gives half and differences within noise are counted "
            "too. `default`, which "
            f"is not in the paper, is within 0.5% of the best NLL on {default} of {len(f)}.", "experiments/clean/run.py")


def ablation(f):
    counts = {"S1": 0, "S2": 0, "S3": 0, "S4": 0}
    rules = {"S1": lambda a, b: b["top1"] > a["top1"] and b["kappa"] < a["kappa"],
             "S2": lambda a, b: b["top1"] > a["top1"] and b["ece"] < a["ece"],
             "S3": lambda a, b: b["seconds"] * 3 <= a["seconds"],
             "S4": lambda a, b: b["top1"] > a["top1"] and b["ece"] < a["ece"]}
    for rows in f.values():
        for at, stage in enumerate(counts, 1):
            counts[stage] += rules[stage](rows[at - 1], rows[at])
    top1 = {n: 100 * (rows[-1]["top1"] - rows[0]["top1"]) for n, rows in f.items()}
    return ("Gains of the components in the ablation", verdict(sum(counts.values()), 4 * len(f)),
            "Rule: S1 raises top-1 and lowers kappa; S2 and S4 raise top-1 and lower ECE; S3 cuts the time to a "
            "third. Met by "
            + ", ".join(f"{s} on {c}" for s, c in counts.items())
            + f" of {len(f)} pools. From the prototype to all four, top-1 changes by "
            + ", ".join(f"{v:+.2f} ({n})" for n, v in top1.items()) + " points (the paper: +0.9). S1 lowers kappa on "
            f"{sum(rows[1]['kappa'] < rows[0]['kappa'] for rows in f.values())} and top-1 on "
            f"{sum(rows[1]['top1'] < rows[0]['top1'] for rows in f.values())}: at 0.85 it drops members that are of "
            "use. Seconds are of "
            "a shared machine; the experiment on lambda* times both rules in turns.", "experiments/ablation/run.py")


def corruption(f):
    met = sum(v["paper"][k] < v["prototype"][k] for v in f.values() for k in ("noise", "blur", "weather", "digital"))
    text = "; ".join(f"{n} `paper` {100 * v['paper']['mce']:.1f}%, `prototype` {100 * v['prototype']['mce']:.1f}%, `average` "
                     f"{100 * v['average']['mce']:.1f}%, `default` {100 * v['default']['mce']:.1f}%" for n, v in f.items())
    return ("CoRe-Stack+ lowers the error of its prototype in all four families of corruptions", verdict(met, 4 * len(f)),
            f"Rule: mean error of a family below the prototype's. Met in {met} of {4 * len(f)} cases. Plain mCE: "
            f"{text}. Lowest of "
            "all methods: " + ", ".join(f"`{min(v, key=lambda m: v[m]['mce'])}` on {n}" for n, v in f.items())
            + ". `default` can fail under strong shift, for a reason: see the note on it in [results.md](results.md).",
            "experiments/corruptions/run.py")


def shift(f):
    rows = f["vision"]
    targets = ("rotated", "scaled", "translated")
    met = sum(rows["paper"][t] > rows["prototype"][t] for t in targets)
    return ("CoRe-Stack+ gains under every domain shift", verdict(met, 3),
            f"Rule: top-1 above the prototype's on each target. Met on {met} of 3: "
            + "; ".join(f"{t} `paper` {100 * rows['paper'][t]:.1f}, `prototype` {100 * rows['prototype'][t]:.1f}, `average` "
                        f"{100 * rows['average'][t]:.1f}, `default` {100 * rows['default'][t]:.1f}" for t in targets) + ".",
            "experiments/domain-shift/run.py")


def tail(f):
    v = f["vision_longtail"]
    rows, groups = v["rows"], v["groups"]
    last = "tail" if "tail" in groups else "mid"
    gain = {g: 100 * (rows["paper"][g] - rows["prototype"][g]) for g in ("head", last)}
    met = (gain[last] > 0) + (gain[last] > gain["head"])
    none = "" if "tail" in groups else "No class of this pool has fewer than 20 training images, so mid stands for tail. "
    return ("CoRe-Stack+ gains most on rare classes", verdict(met, 2),
            f"Rule: the gain over the prototype is positive on the rarest group, and larger than on head. {none}Gain: "
            f"{gain[last]:+.1f} "
            f"points on {last}, {gain['head']:+.1f} on head.", "experiments/long-tail/run.py")


def ood(f):
    cases = {n: r for n, r in f.items() if "deep-ensemble" in r}
    if not cases:
        return None
    met = sum(r["paper"]["ood_auroc_entropy"] > r["deep-ensemble"]["ood_auroc_entropy"] for r in cases.values())
    return ("Predictive entropy of CoRe-Stack+ tells out-of-distribution rows better than deep ensembles do",
            verdict(met, len(cases)),
            f"Rule: higher AUROC by entropy. Met in {met} of {len(cases)} cases: "
            + "; ".join(f"{n} `paper` {100 * r['paper']['ood_auroc_entropy']:.1f}, `deep-ensemble` "
                        f"{100 * r['deep-ensemble']['ood_auroc_entropy']:.1f}, `default` "
                        f"{100 * r['default']['ood_auroc_entropy']:.1f}" for n, r in cases.items())
            + f". Weak evidence: one pool, where `paper` keeps {min(r['paper']['models'] for r in cases.values())} of its "
            "members and the deep ensemble is three small CNNs. SWAG, which the paper says it matches, has a claim of its own.",
            "experiments/ood/run.py")


def one_soup(f):
    chosen = f["choices"]["greedy"]
    return "" if len(chosen) > 1 else ("The greedy soup holds one fine-tuning, as no mean with another scored higher on `oof`; it is the "
                                       "best single member as well. ")


def weight_order(f):
    few = {k: f["orders"][k]["weight_space"] for k in ("top1", "nll", "ece")}
    same, pairs = (sum(v[i] for v in few.values()) for i in (0, 1))
    rows = f["rows"]
    return ("Soups and SWAG in the first table: by top-1 the average of all, soup, SWAG, deep ensemble, best single; SWAG first in "
            "NLL and ECE", verdict(same, pairs),
            f"Rule: each pair of these five in the paper's order, by top-1, NLL and ECE. Met for {same} of {pairs} pairs ("
            + ", ".join(f"{k} {v[0]} of {v[1]}" for k, v in few.items()) + "). "
            + "; ".join(f"`{m}` top-1 {100 * rows[m]['top1']:.2f}, NLL {rows[m]['nll']:.4f}, ECE {rows[m]['ece']:.4f}"
                        for m in ("average", "deep-ensemble", "soup", "swag", "best-single"))
            + ". " + one_soup(f) + "One small network on one data set; its deep ensemble has five seeds, its SWAG 30 samples. Pairs within noise are "
            "counted too.", "experiments/weight-space/run.py")


def weight_clean(f):
    rows, others = f["rows"], ("deep-ensemble", "soup", "swag")
    met = sum(s * (rows["paper"][k] - rows[m][k]) > 0 for m in others for k, s in (("top1", 1), ("nll", -1), ("ece", -1)))
    return ("CoRe-Stack+ beats deep ensembles, soups and SWAG on clean images", verdict(met, 9),
            f"Rule: `paper` has the higher top-1 and the lower NLL and ECE than each of the three. Met in {met} of 9 cases. "
            + "; ".join(f"`{m}` top-1 {100 * rows[m]['top1']:.2f}, NLL {rows[m]['nll']:.4f}, ECE {rows[m]['ece']:.4f}" for m in ("paper", "default", *others))
            + f". `paper` keeps {rows['paper']['models']} of the members, `default` {rows['default']['models']}.", "experiments/weight-space/run.py")


def weight_worn(f):
    shift, families = f["shift"], ("noise", "blur", "weather", "digital")
    met = sum(shift["paper"][k] < shift[m][k] for m in ("soup", "swag") for k in families)
    return ("CoRe-Stack+ errs less than soups and SWAG under each family of corruptions", verdict(met, 8),
            f"Rule: the lower mean error of a family. Met in {met} of 8 cases. mCE: "
            + ", ".join(f"`{m}` {100 * shift[m]['mce']:.1f}" for m in ("paper", "default", "soup", "swag", "deep-ensemble")) + ".", "experiments/weight-space/run.py")


def weight_shift(f):
    rows, shift = f["rows"], f["shift"]
    targets = ("rotated", "scaled", "translated")

    def drop(method, target):
        return rows[method]["top1"] - shift[method][target]

    met = sum(drop(m, t) > drop("paper", t) for m in ("deep-ensemble", "soup") for t in targets)
    above = sum(shift["soup"][t] > shift["deep-ensemble"][t] for t in targets)
    return ("Deep ensembles and model soups degrade under domain shift more than CoRe-Stack+; soups lie above deep ensembles there",
            verdict(met + above, 9),
            "Rule: top-1 falls further from clean to each target than that of `paper` does, and the soup's top-1 on each target is "
            f"above the deep ensemble's. Met in {met} of 6 and {above} of 3 cases. {one_soup(f)}Top-1 on clean and on "
            f"{', '.join(targets)}: " + "; ".join(
                f"`{m}` {100 * rows[m]['top1']:.1f}, " + ", ".join(f"{100 * shift[m][t]:.1f}" for t in targets)
                for m in ("paper", "default", "deep-ensemble", "soup", "swag")) + ".", "experiments/weight-space/run.py")


def weight_ood(f):
    met = sum(r["swag"] > r["deep-ensemble"] for r in f["ood"].values()) + sum(
        abs(r["paper"] - r["swag"]) <= 0.01 for r in f["ood"].values())
    return ("Entropy of SWAG tells out-of-distribution rows better than deep ensembles do, and CoRe-Stack+ matches it",
            verdict(met, 2 * len(f["ood"])),
            "Rule: AUROC by entropy of SWAG above the deep ensemble's; that of `paper` within one point of SWAG's. Met in "
            f"{met} of {2 * len(f['ood'])} cases: " + "; ".join(
                f"against {o} " + ", ".join(f"`{m}` {100 * r[m]:.1f}" for m in ("paper", "swag", "deep-ensemble", "soup", "default"))
                for o, r in f["ood"].items()) + ".", "experiments/weight-space/run.py")


def shrinks(f):
    cells = {n: (v["rows"]["paper"], v["rows"]["ridge"], v["rows"]["average"]) for n, v in f.items()}
    few = {n for n, (p, r, _) in cells.items() if p["models"] <= 0.65 * r["models"] and p["flops_rel"] <= 0.59}
    kept = {n for n, (p, r, _) in cells.items() if p["top1"] >= r["top1"]}
    average = sum(p["top1"] >= a["top1"] for p, _, a in cells.values())
    return ("CoRe-Stack+ keeps 35 to 57% fewer members and up to 41% less FLOPs at no loss of accuracy", verdict(len(few & kept), len(cells)),
            "Rule: at most 65% of the members and 59% of the FLOPs, and top-1 not below that of a ridge of all. Met on "
            f"{len(few & kept)} of {len(cells)} pools: the first on {len(few)}, the second on {len(kept)} (not below the average of all on {average}). Members, FLOPs, top-1 and the ridge's: "
            + "; ".join(f"{n} {p['models']} of {r['models']}, {p['flops_rel']:.2f}, {100 * p['top1']:.2f}, {100 * r['top1']:.2f}"
                        for n, (p, r, _) in cells.items()) + ".", "experiments/clean/run.py")


def pareto(f):
    beaten = {n: [m for m, r in v["rows"].items() if m in PAPER and m != "paper" and r["flops_rel"] <= v["rows"]["paper"]["flops_rel"]
                  and r["top1"] >= v["rows"]["paper"]["top1"] and (r["flops_rel"], -r["top1"]) != (v["rows"]["paper"]["flops_rel"], -v["rows"]["paper"]["top1"])]
              for n, v in f.items()}
    met = sum(not b for b in beaten.values())
    best = sum(v["rows"]["paper"]["top1"] == max(r["top1"] for m, r in v["rows"].items() if m in PAPER) for v in f.values())
    return ("Nothing is as accurate as CoRe-Stack+ at any FLOPs, nor as cheap at its accuracy", verdict(met + best, 2 * len(f)),
            "Rule: of the methods of the paper's table none has as few FLOPs and as high a top-1, and none a higher top-1. Met on "
            f"{met} and {best} of {len(f)} pools" + "".join(f"; {n}: {', '.join(f'`{m}`' for m in b)}" for n, b in beaten.items() if b)
            + ". Where it keeps one member it is the best single one.", "experiments/clean/run.py")


def neural(f):
    loss = {n: 100 * (v["rows"]["ridge"]["top1"] - v["rows"]["mlp"]["top1"]) for n, v in f.items()}
    met = sum(v > 0 for v in loss.values())
    return ("A neural meta-learner is less accurate than ridge stacking (the paper: by 1.0 points)", verdict(met, len(f)),
            f"Rule: lower top-1. Met on {met} of {len(f)} pools, by " + ", ".join(f"{v:.2f} ({n})" for n, v in loss.items())
            + " points. By NLL `mlp` is the better one on "
            f"{sum(v['rows']['mlp']['nll'] < v['rows']['ridge']['nll'] for v in f.values())}.", "experiments/clean/run.py")


def calibrated(clean, weight):
    cases = {n: v["rows"] for n, v in clean.items() if "deep-ensemble" in v["rows"]} | {"weight_space": weight["rows"]}
    ratios = {n: r["deep-ensemble"]["ece"] / r["paper"]["ece"] for n, r in cases.items()}
    met = sum(v >= 2.1 for v in ratios.values())
    none = sum(r["paper"]["ece"] <= r["average+temperature"]["ece"] for r in (v["rows"] for v in clean.values()))
    return ("Without temperature scaling ECE is at most 1/2.1 of the deep ensemble's", verdict(met, len(cases)),
            f"Rule: ECE of the deep ensemble at least 2.1 times that of `paper`. Met on {met} of {len(cases)} pools that have one: "
            + ", ".join(f"{n} {v:.1f}" for n, v in ratios.items())
            + f" times. The average of all with temperature scaling has a larger ECE than `paper` without on {none} of {len(clean)} pools.",
            "experiments/clean/run.py")


def collapse(clean, members):
    stacks = ("ridge", "autogluon", "log-linear", "prototype", "paper")
    cases = [(n, m, v["rows"][m]["ece"], members["pools"][n]) for n, v in clean.items() for m in stacks if n in members["pools"]]
    met = sum(e > p["ece_worst"] for _, _, e, p in cases)
    best = sum(e > p["ece_best"] for _, _, e, p in cases)
    average = sum(v["rows"]["average"]["ece"] > members["pools"][n]["ece_worst"] for n, v in clean.items() if n in members["pools"])
    return ("Stacks often have a larger ECE than the worst single model", verdict(met, len(cases)),
            f"Rule: larger ECE on split test, {', '.join(f'`{m}`' for m in stacks)}. Met in {met} of {len(cases)} cases of a pool and a stack; larger than the "
            f"best calibrated member's in {best}. The plain average has a larger one than the worst member on {average} of {len(clean)} pools.",
            "experiments/clean/run.py")


def conditioned(f):
    rows = {n: v["paper"]["kappa_before"] for n, v in f["pools"].items()}
    met = sum(v > 100 for v in rows.values())
    return ("Heterogeneous pools are ill-conditioned: kappa far above 100", verdict(met, len(rows)),
            f"Rule: kappa of all members above 100 on split test. Met on {met} of {len(rows)} pools: "
            + ", ".join(f"{n} {v:,.0f}" for n, v in rows.items()) + ".", theory.BOUNDS)


def gate_conditions(f):
    met = sum(rows[2]["kappa"] < rows[1]["kappa"] * (1 - 1e-9) for rows in f.values())
    return ("The gate lowers the condition number without pruning", verdict(met, len(f)),
            f"Rule: kappa falls when the gate is added (S2). Met on {met} of {len(f)} pools. kappa is of the members, which the gate leaves as they are; in the paper's own table it is 281 before "
            "and after.", "experiments/ablation/run.py")


def laplace_drops(f):
    met = sum(rows[4]["models"] < rows[3]["models"] for rows in f.values())
    return ("The Laplace blend drops a member", verdict(met, len(f)),
            f"Rule: fewer members when it is added (S4). Met on {met} of {len(f)} pools: " + ", ".join(f"{n} {rows[3]['models']} to {rows[4]['models']}" for n, rows in f.items()) + ".",
            "experiments/ablation/run.py")


def dense(f):
    pools = {n: f[n] for n in ("camvid", "camvid_recordings", "bccd") if n in f}
    gains = {n: (100 * (r["paper"]["test"] - r["prototype"]["test"]), 100 * (r["paper"]["test"] - r["ridge"]["test"])) for n, r in pools.items()}
    met = sum((a > 0) + (b > 0) for a, b in gains.values())
    return ("Dense prediction: CoRe-Stack+ gains in mIoU and AP over its prototype and ridge stacking", verdict(met, 2 * len(pools)),
            f"Rule: higher mIoU or AP than each. Met in {met} of {2 * len(pools)} cases; points over the prototype and over ridge: "
            + "; ".join(f"{n} {a:+.1f}, {b:+.1f} (keeps {pools[n]['paper']['models']} of {pools[n]['average']['models']})" for n, (a, b) in gains.items())
            + ". Threshold and gate see pixels and boxes as rows without a place; what the project ships is in [results.md](results.md).",
            "experiments/dense/run.py")


def beside_ensembles(corruptions, domains, weight):
    """{pool: (figures of `paper`, of the deep ensemble)} under corruption and domain shift."""
    cases = {name: [{**{k: rows[m][k] for k in (*FAMILIES, "mce")}, "gap": rows[m]["delta"], "targets": domains[name][m]["average"]}
                    for m in ("paper", "deep-ensemble")] for name, rows in corruptions.items() if "deep-ensemble" in rows}
    cases["weight_space"] = [{**{k: weight["shift"][m][k] for k in (*FAMILIES, "mce")},
                              "gap": weight["shift"][m]["mce"] - 1 + weight["rows"][m]["top1"], "targets": weight["shift"][m]["average"]}
                             for m in ("paper", "deep-ensemble")]
    return cases


def worn(corruptions, domains, weight):
    cases = beside_ensembles(corruptions, domains, weight)
    met = {n: (sum(a[k] < b[k] for k in FAMILIES), a["gap"] < b["gap"]) for n, (a, b) in cases.items()}
    return ("Under corruption CoRe-Stack+ errs and degrades less than deep ensembles", verdict(sum(map(sum, met.values())), 5 * len(cases)),
            f"Rule: a lower error in each of four families of corruptions, a smaller gap to clean error. Met in {sum(map(sum, met.values()))} of {5 * len(cases)} cases. "
            + "; ".join(f"{n}: {families} of 4 families, gap {'smaller' if gap else 'larger'} (`paper` and `deep-ensemble`: error {100 * cases[n][0]['mce']:.1f} and {100 * cases[n][1]['mce']:.1f}, gap "
                        f"{100 * cases[n][0]['gap']:.1f} and {100 * cases[n][1]['gap']:.1f})" for n, (families, gap) in met.items())
            + ". Pools of small networks on Fashion-MNIST.", "experiments/corruptions/run.py")


def shifted(corruptions, domains, weight):
    cases = beside_ensembles(corruptions, domains, weight)
    met = sum(a["targets"] > b["targets"] for a, b in cases.values())
    return ("Under domain shift CoRe-Stack+ is more accurate than deep ensembles", verdict(met, len(cases)),
            f"Rule: a higher mean top-1 over three targets. Met on {met} of {len(cases)} pools: "
            + "; ".join(f"{n} {100 * a['targets']:.1f}, `deep-ensemble` {100 * b['targets']:.1f}" for n, (a, b) in cases.items()) + ".", "experiments/domain-shift/run.py")


def retained(complexity):
    shares = complexity["retained"]
    met = sum(all(0.4 <= v <= 0.5 for k, v in rows.items() if int(k) > 4) for rows in shares.values())
    return ("As a pool grows CKA at 0.85 keeps 40 to 50% of it", verdict(met, len(shares)),
            f"Rule: the share is 0.4 to 0.5 at each size from 8 on, mean of 40 random subsets. Met on {met} of {len(shares)} pools. Shares from 4 members to all: "
            + "; ".join(f"{n} {list(v.values())[0]:.2f} to {list(v.values())[-1]:.2f}" for n, v in shares.items())
            + ". What is kept does not grow with the pool but with how many different members it has.", theory.COMPLEXITY)


def rising(sizes):
    cells = {n: [r for r in rows if r["method"] == "default"] for n, rows in sizes.items()}
    few = {n: [r for r in rows if int(r["value"]) <= 14] for n, rows in cells.items()}
    top1 = sum(all(b["top1_mean"] > a["top1_mean"] for a, b in zip(v, v[1:])) for v in few.values())
    ece = sum(all(b["ece_mean"] < a["ece_mean"] for a, b in zip(v, v[1:])) for v in few.values())
    return ("Accuracy and ECE improve with each member up to 14", verdict(top1 + ece, 2 * len(few)),
            f"Rule: from each size to the next up to 14 mean top-1 of `default` rises, and mean ECE falls; random subsets. Met on {top1} and {ece} of {len(few)} pools. Top-1 and ECE by members: "
            + "; ".join(f"{n} " + ", ".join(f"{100 * r['top1_mean']:.1f} and {r['ece_mean']:.3f} ({r['value']})" for r in rows) for n, rows in cells.items()) + ".", "experiments/pool-size/run.py")


# Figures that a row is made of, and the row, in the order of the paper: statements, then what is measured.
STATEMENTS = [("kernel", theory.dominance), ("kernel", theory.monotone), ("kernel", theory.concentration),
              (("kernel", "bounds"), theory.blocks), ("kernel", theory.largest), ("bounds", theory.smallest), ("bounds", theory.spectral_full),
              (("kernel", "bounds"), theory.spectral_after), ("bounds", theory.spectral_ratio), ("bounds", theory.regularised), ("risk", risk.optimal_penalty),
              ("risk", risk.penalty_interval), ("risk", risk.cv_elimination), ("risk", risk.cv_risk), ("bounds", theory.ridge_moves),
              ("bounds", theory.projection), ("bounds", theory.folds_move), ("gate", theory.universal), ("bounds", risk.contains),
              ("bounds", risk.tighter), ("bounds", risk.gate_capacity), ("risk", risk.rademacher), ("bounds", theory.traces),
              ("risk", risk.theorem_holds), ("risk", risk.theorem_excess), (("risk", "bounds"), risk.factor), ("bounds", risk.factor_least),
              ("bounds", risk.least_variance), ("bounds", risk.equal_variance), ("bounds", risk.inverse_gap), ("bounds", risk.laplace_gap),
              ("risk", risk.flat_hessians), ("risk", risk.leak_definition), ("risk", risk.unbiased), ("ece", ece_bound),
              ("complexity", theory.cka_growth)]
MEASURED = [(("risk", "seeds"), theory.generalises), ("kernel", theory.tempered), ("seeds", same_seeds), ("risk", theory.specialists),
            ("bounds", conditioned), (("clean", "risk"), collapse),
            ("lambda", lambda_near), ("lambda", lambda_faster), (("complexity", "bounds"), theory.gate_share), ("bounds", risk.paper_pac),
            ("bounds", risk.no_leak), (("clean", "weight-space"), calibrated), ("complexity", theory.few_landmarks), ("complexity", theory.hashing),
            ("kappa", kappa_methods), ("threshold", threshold_flat), ("clean", ordering), ("clean", shrinks), ("clean", pareto), ("clean", neural),
            ("ablation", ablation), ("ablation", gate_conditions), ("ablation", laplace_drops), ("complexity", retained), ("pool-size", rising),
            ("corruptions", corruption), (("corruptions", "domain-shift", "weight-space"), worn), (("corruptions", "domain-shift", "weight-space"), shifted),
            ("dense", dense), ("domain-shift", shift), ("long-tail", tail), ("ood", ood), ("weight-space", weight_order), ("weight-space", weight_clean),
            ("weight-space", weight_worn), ("weight-space", weight_shift), ("weight-space", weight_ood)]
VERDICTS = ("held", "held under conditions", "did not hold")


def counted(rows):
    return ", ".join(f"{sum(said == v for _, said, _, _ in rows)} {v}" for v in VERDICTS if any(said == v for _, said, _, _ in rows))


def judge_all(claims, missing):
    out = []
    for names, judge in claims:
        paths = [ROOT / "experiments" / name / "figures.json" for name in ([names] if isinstance(names, str) else names)]
        absent = [path.parent.name for path in paths if not path.exists()]
        judgement = None if absent else judge(*(json.loads(path.read_text()) for path in paths))
        if judgement:
            out.append(judgement)
        missing += absent
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", default=str(ROOT / "experiments" / "claims.md"))
    options = parser.parse_args()
    missing = []
    parts = {"statement": judge_all(STATEMENTS, missing), "measured claim": judge_all(MEASURED, missing)}
    judged = [row for rows in parts.values() for row in rows]
    counts = f"Of {len(judged)} rows: {counted(judged)}. " + " ".join(f"{what[0].upper()}{what[1:]}s ({len(rows)}): {counted(rows)}." for what, rows in parts.items())
    text = HEAD.format(counts=counts)
    for what, rows in parts.items():
        text += f"\n| {what} | verdict |\n|---|---|\n" + "".join(f"| {t} | {v} |\n" for t, v, _, _ in rows)
    text += RULES
    for title, said, sentences, command in judged:
        text += f"\n## {title}\n\n**{said[0].upper()}{said[1:]}.** {sentences}\n\nCommand: `{command}`\n"
    text += "\n" + NOT_JUDGED
    if missing:
        sys.exit(f"no figures of {', '.join(sorted(set(missing)))}: run experiments/all.sh")
    out = pathlib.Path(options.out)
    if options.check:
        if not out.exists() or out.read_text() != text:
            sys.exit(f"{out.name} is not what experiments/claims/run.py writes from the figures")
        return
    out.write_text(text)
    for title, said, _, _ in judged:
        print(f"{said}: {title}")


if __name__ == "__main__":
    main()
