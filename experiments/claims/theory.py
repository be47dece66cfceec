"""Rows of experiments/claims.md on propositions, lemmas, corollaries and remarks: functions of figures, like those of run.py."""
import math
import statistics


def verdict(met, cases):
    return "held" if cases and met == cases else "held under conditions" if cases and 2 * met >= cases else "did not hold"


def statement(*checks, intended=()):
    """Verdict on a theorem, proposition, lemma, corollary or remark: one exception is enough. A check says whether one case, or kind of cases, agrees.
    intended: the checks of the reading that the paper means, where its words say another."""
    if all(checks):
        return "held"
    return "false as written, holds as intended" if intended and all(intended) else "did not hold"


def median(values):
    return statistics.median(values)


# ---- propositions, lemmas and corollaries: experiments/bounds ------------------------------------------------------

def runs(f):
    """Every fit: (name, document)."""
    return [(f"{name}, `{preset}`", r) for name, presets in f["pools"].items() for preset, r in presets.items()]


def parameters(f):
    return [r["pac_bayes"]["dimensions"] - r["kept"] - 12 for r in each_pool(f).values() if r["pac_bayes"]["total"] is not None]


def each_pool(f):
    """A document for each pool, with clusters at the paper's threshold of 0.85."""
    return {name: presets["paper"] for name, presets in f["pools"].items()}


BOUNDS = "experiments/bounds/run.py"
TESTS = "tests/bounds/spectral.c has small cases too."


def spectral_full(kernel, f):
    small, random, ten = f["small"], f["small"]["random"], kernel["normals"]["ten"]
    copies = small["cases"]["copies"]
    pools = each_pool(f)
    applies = sum(r["spectral"]["applies"] for r in pools.values())
    return ("Spectral proposition, (i): kappa of all members is at least s_max / (1 - (G - 1) mu)",
            statement(copies["before"] >= copies["before_claimed"] * (1 - 1e-9), ten["kappa"] >= ten["claimed"], random["before"] == random["pools"]),
            f"Rule: no exception. In both cases epsilon is 0. Five copies of one model: kappa is {copies['before']:.3g}, at least "
            f"{copies['before_claimed']:.3g} is claimed. Ten normals of which two have a correlation of 0.4, so a CKA of {ten['cka']:.3f}, and one of these comes twice: "
            f"{ten['kappa']:.2f}, at least {ten['claimed']:.2f} is claimed. With copies that differ slightly it held on {random['before']:,} of {random['pools']:,} random "
            f"pools. The assumption mu < 1/(G - 1) is met by {applies} of {len(pools)} real pools; (i) and (ii) do not apply to the others. {TESTS}", BOUNDS)


def spectral_after(kernel, f):
    n, random = kernel["normals"], f["small"]["random"]
    return ("Spectral proposition, (ii): kappa after the projection is at most (1 + (G - 1) mu) / (1 - (G - 1) mu)",
            statement(n["half_kappa"] <= n["half_claimed"] * (1 + 1e-9), intended=[random["after"] == random["pools"]]),
            f"Rule: no exception. mu is a bound on CKA. Two normals with correlation 0.5, each a cluster, have a CKA of {n['at_half']:.2f}; kappa is "
            f"{n['half_kappa']:.3g}, at most {n['half_claimed']:.2f} is claimed. Intended: mu bounds correlations. Then it follows from Gershgorin's theorem "
            f"(held on {random['after']:,} of {random['pools']:,} random pools). {TESTS}", KERNEL)


def spectral_ratio(f):
    small, random = f["small"], f["small"]["random"]
    copies, heads = small["cases"]["copies"], small["cases"]["heads"]
    return ("Spectral proposition, (iii): the projection lowers kappa by a factor of at least the largest cluster",
            statement(*(c["ratio"] >= c["ratio_claimed"] * (1 - 1e-9) for c in (copies, heads)), random["ratio"] == random["pools"]),
            f"Rule: no exception. In both cases epsilon is 0. Five copies of one model: a factor of {copies['ratio']:.3g}, at least "
            f"{copies['ratio_claimed']:.3g} is claimed. The three heads of (i): {heads['ratio']:.2f}, at least {heads['ratio_claimed']:.3g} is claimed. With copies that differ "
            f"slightly it held on {random['ratio']:,} of {random['pools']:,} random pools. {TESTS}", BOUNDS)


def regularised(f):
    random, pools = f["small"]["random"], each_pool(f)
    copies, null = f["small"]["penalised_copies"]["without"], f["small"]["penalised_copies"]["with"]
    cases = [row for r in pools.values() for row in r["regularised"]]
    met = sum(row["holds"] is True for row in cases)
    return ("Corollary: the projection lowers the condition number with a penalty, by a stated amount",
            statement(copies["change"] >= copies["claimed"], random["not_up"] == random["pools"], random["reduced"] == random["pools"], met == len(cases)),
            "Rule: no exception. The paper leaves out eigenvalues of 0. With five exact copies of one model (epsilon 0, penalty 0.1) the condition number then falls by "
            f"{copies['change']:.3g}; at least {copies['claimed']:.2f} is claimed. With eigenvalues of 0 counted it falls by "
            f"{null['change']:.3g} there; {null['claimed']:.3g} is claimed. With copies that differ slightly it fell by the claimed amount on {random['reduced']:,} of "
            f"{random['pools']:,} random pools, and in {met} of {len(cases)} cases of {len(pools)} real pools with three penalties each.", BOUNDS)


def ridge_moves(f):
    small, cases = f["small"]["ridge"], [row for _, r in runs(f) for row in r["stability"]["perturbations"]]
    met = sum(row["holds"] is True for row in cases)
    ours = sum(row["change"] <= row["bound"] for row in cases)
    return ("Proposition: ridge weights move by at most a stated amount under perturbed inputs",
            statement(small["change"] <= small["claimed"] or not small["precondition"], met == len(cases)),
            f"Rule: no exception. One row, x = 0.1, y = 0, lambda = 1, moved to x = 2.6, y = 1, which the precondition allows: the weight moves by {small['change']:.3f}, "
            f"at most {small['claimed']:.1f} is claimed. Under added noise in members' probabilities it was met in {met} of {len(cases)} cases, with a bound "
            f"that is at least {min(row['claimed'] / row['change'] for row in cases):,.0f} times the change. The bound in [bounds.md](../docs/bounds.md), which needs no "
            f"precondition, was met in {ours} and is at least {min(row['bound'] / row['change'] for row in cases):.0f} times the change. {TESTS}", BOUNDS)


def folds_move(f):
    small, rates, cases = f["small"]["folds"], f["small"]["fold_rates"], [r["stability"]["folds"] for _, r in runs(f)]
    met = sum(row["holds"] is True for row in cases)
    ratios = [1 / row["ratio"] for row in cases if row["ratio"]]
    sizes = rates["sizes"]
    return ("Lemma: ridge weights of two folds differ by a stated amount and a term of order N^-1/2",
            statement(rates["slope"] <= -0.4, met == len(cases)),
            "Rule: on real pools the stated amount alone is enough; on simulated rows the excess over it falls about as N^-1/2 (a power of -0.4 or less), because the "
            f"constant of that term is not given. Met on {met} of {len(cases)} fits of real pools, where the amount is at least {min(ratios):,.0f} times the difference. "
            f"Simulated (a design of ones, random signs as targets): {100 * sizes[-1]['beyond']:.0f}% of the samples exceed it at N = {sizes[-1]['n']:,}, by at most "
            + ", ".join(f"{r['most']:.4f} (N = {r['n']:,})" for r in sizes) + f": a power of {rates['slope']:.2f}. So the additional term is needed: with two rows the amount can be "
            f"{small['claimed']:.0f} and the difference {small['change']:.1f}. {TESTS}", BOUNDS)


def projection(f):
    small, pools = f["small"]["projection"], {n: r["projected"] for n, r in each_pool(f).items()}
    met = sum(p["gain"] >= p["claimed"] * (1 - 1e-9) for p in pools.values())
    return ("Corollary: the projection makes ridge more stable by a factor of at least sqrt(K/G)",
            statement(small["gain"] >= small["claimed"], met == len(pools)),
            "Rule: no exception, for the norm of the design, with which the paper says that the sensitivity grows. Five heads, four of them correlated by 0.249, and a copy of the "
            f"fifth: {small['gain']:.3f}, at least {small['claimed']:.3f} is claimed. Met on {met} of {len(pools)} real pools. Factor, and the claimed one: "
            + "; ".join(f"{n} {p['gain']:.2f}, {p['claimed']:.2f}" for n, p in pools.items()) + f". {TESTS}", BOUNDS)


def traces(f):
    pools = each_pool(f)
    met = sum(r["spectral"]["trace_difference"] >= r["spectral"]["trace_claimed"] - 1e-9 for r in pools.values())
    return ("Proposition: the projection lowers the trace by at least the size of the largest cluster minus 1", statement(met == len(pools)),
            f"Rule: no exception. It follows, because each diagonal entry is 1 and the trace falls by K - G. Met on {met} of {len(pools)} pools. Decrease, and number of members: "
            + ", ".join(f"{n} {r['spectral']['trace_difference']:.0f} of {r['members']}" for n, r in pools.items())
            + ". Effective dimension at a penalty of 0.1, before and after: "
            + "; ".join(f"{n} {r['regularised'][1]['dimension_before']:.1f}, {r['regularised'][1]['dimension_after']:.1f}"
                        for n, r in pools.items()) + ".", BOUNDS)


# ---- dependence: experiments/kernel ---------------------------------------------------------------------------------

KERNEL = "experiments/kernel/run.py"
RISK = "experiments/risk/run.py"
PEARSON = 0.95  # the prototype's threshold


def dominance(f):
    n, small = f["normals"], f["small"]
    return ("Proposition: CKA is 0 for normals if and only if the correlation is 0 (i), 0 if and only if the predictions are independent (ii), and above 0 for a normal and its square (iii)",
            statement(n["at_zero"] < 1e-12 and n["rising"], small["square"]["cka"] > 10 * small["other"]["cka"]),
            "Rule: (i) the closed form for two normals and Gaussian kernels is 0 at 0 and increases; (iii) the CKA of a sample is more than ten times that of independent draws; (ii) is a "
            "theorem on kernels (Gretton et al. 2005; Fukumizu et al. 2008) that no sample can test. HSIC at correlation 0: "
            f"{n['at_zero']:.0e}. A normal and its square, N = 2,000: CKA {small['square']['cka']:.3f}, Pearson {small['square']['pearson']:.3f}. "
            f"In a sample the CKA of independent predictions is not 0 but {small['other']['cka']:.4f}, because the estimate is biased.", KERNEL)


def monotone(f):
    n = f["normals"]
    return ("Remark: for normals CKA is a strictly increasing function of the absolute correlation", statement(n["rising"], n["even"]),
            "Rule: the closed form increases at each of 1,000 steps from 0 to 1 and has the same values below 0. CKA is much smaller: "
            f"{n['at_half']:.3f} at a correlation of 0.5 and {n['at_nine']:.3f} at 0.9, so a threshold of 0.85 corresponds to a correlation of "
            f"{f['recovery'][0]['rho']:.3f}.", KERNEL)


def generalises(risk, seeds):
    pools = risk["pools"].values()
    removed, kept, other, pairs = (sum(p[k] for p in pools) for k in ("removed", "removed_kept", "kept_removed", "pairs"))
    more, of = (sum(p[k] for p in seeds.values()) for k in ("opposite", "all"))
    return ("CKA pruning at 0.85 finds what Pearson pruning at 0.95 finds, and more", verdict(removed - kept if other else 0, removed),
            f"Rule: CKA finds the pairs that Pearson finds, and others. Of {pairs:,} pairs of {len(pools)} pools {removed} are above 0.95 in Pearson, {kept} of them not above 0.85 in CKA; "
            f"{other} are found only by CKA. This is due to the thresholds, not the measures: with 0.85 for both, {more} of {of} pairs of {len(seeds)} pools are found only by Pearson.", RISK)


def specialists(f):
    low, some = (sum(p[k] for p in f["pools"].values()) for k in ("moderate_low", "moderate"))
    removed = low if 0.7 > PEARSON else 0
    return ("Specialists have a Pearson correlation near 0.6 and a CKA below 0.4; Pearson pruning removes them, CKA keeps them", verdict(removed, low),
            f"Rule: such pairs are above the prototype's Pearson threshold of {PEARSON}. Of {some} pairs with Pearson between 0.5 and 0.7 on {len(f['pools'])} pools {low} "
            f"have a CKA below 0.4; Pearson pruning removes {removed} of these.", RISK)


def tempered(f):
    rows = {n: p["temperature"] for n, p in f["pools"].items()}
    met, cases = sum(r["claimed"] for r in rows.values()), sum(r["pairs"] for r in rows.values())
    return ("Calibrated and miscalibrated variants of one network: Pearson near 0, CKA high", verdict(met, cases),
            "Rule: Pearson below 0.3 and CKA above 0.85 for a member and itself at temperature 1/4 or 4. "
            f"Met for {met} of {cases} pairs; Pearson is never below {min(r['pearson_least'] for r in rows.values()):.2f}, and exceeds CKA for "
            f"{sum(r['pearson_higher'] for r in rows.values())}. Medians of Pearson and CKA: "
            + "; ".join(f"{n} {r['pearson_median']:.3f}, {r['cka_median']:.3f}" for n, r in rows.items()) + ".", KERNEL)


def concentration(f):
    rows, pools, recovery = f["concentration"], f["pools"], f["recovery"]
    above, cases = sum(sum(r["hsic_above"].values()) for r in rows), sum(len(r["bounds"]) * r["repeats"] for r in rows)
    loose = [r["bounds"]["0.05"] / r["hsic_95"] for r in rows]
    subsets = [s for p in pools.values() for s in p["subsets"]]
    far = {n: p["subsets"][-1] for n, p in pools.items()}
    rates = {rho: ", ".join(f"{r['hsic_95']:.2g}" for r in rows if r["rho"] == rho) for rho in (0.0, 0.5)}
    sizes = sorted({r["n"] for r in rows})
    return ("Lemma: the HSIC of N rows is within C sqrt(log(1 / delta) / N) of the population's, so (C / epsilon)^2 rows are enough to find clusters",
            statement(*(v <= float(d) * r["repeats"] for r in rows for d, v in r["hsic_above"].items()), *(r["above"] <= 0.05 * r["repeats"] for r in recovery)),
            "Rule: with C = 4, as in the proof, at most a share delta of the samples deviate more, for delta 0.5, 0.1, 0.05 and 0.01; with (C / epsilon)^2 rows CKA is within epsilon "
            "in 95% of the samples. Two normals, whose HSIC is known, with correlation 0, 0.5 and 0.95 and N of " + ", ".join(map(str, sizes)) + f": {above} of {cases:,} cases deviate more. "
            f"The bound is wide: at delta 0.05 it is {min(loose):.0f} to {max(loose):.0f} times the 95% quantile of the deviation ({rates[0.0]} at correlation 0; {rates[0.5]} at 0.5). "
            "CKA with the median bandwidth, which the clusters use, deviates by more than epsilon in "
            + "; ".join(f"{r['above']} of {r['repeats']} samples (epsilon {r['epsilon']}, N = {r['n']:,}, at most {r['most']:.3f})" for r in recovery)
            + f". For random rows of real pools, compared with all rows, the deviation exceeds the bound in {sum(s['above'] for s in subsets)} of "
            f"{sum(s['pairs'] for s in subsets):,} pairs; the 95% quantiles are " + ", ".join(f"{s['q95']:.3f} ({n}, N = {s['n']:,})" for n, s in far.items()) + ".",
            KERNEL)


def blocks(kernel, bounds):
    small, pools = kernel["small"], each_pool(bounds)
    within = {n: r for n, r in pools.items() if r["largest_cluster"] > 1}
    met = sum(r["epsilon_pearson"] <= r["epsilon"] for r in within.values())
    across = sum(r["mu_pearson"] <= r["mu"] for r in pools.values())
    turned, minus, half = small["turned"], small["minus"], small["half"]
    return ("Lemma on blocks: if CKA is at least 1 - epsilon within clusters and at most mu across, correlations are 1 - O(epsilon) within and at most mu across",
            statement(turned["least_cka"] < 1 or turned["correlation"] > 1 - 1e-6, minus["cka"] < 1 or minus["pearson"] > 1 - 1e-6, abs(half["pearson"]) <= half["cka"]),
            f"Rule: no exception. In the following cases epsilon is 0. Within: a prediction of five classes and the same with its classes rotated have CKA {turned['least_cka']:.3g} and "
            f"correlation {turned['correlation']:.2f}; x and -x have {minus['cka']:.3g} and {minus['pearson']:.3g}. Across: two normals with correlation {half['pearson']:.2f} have a CKA of "
            f"{half['cka']:.2f}. On real pools at 0.85, correlations within clusters are closer to 1 than CKA on {met} of {len(within)}; across clusters the largest correlation is at most the "
            f"largest CKA on {across} of {len(pools)}. {TESTS}", KERNEL)


def largest(f, bounds):
    turned, rows, random = f["small"]["turned"], f["conference"], bounds["small"]["random"]
    return ("Lemma: the largest eigenvalue is at least the largest cluster times 1 - O(epsilon)",
            statement(turned["least_cka"] < 1 or turned["largest"] >= turned["claimed"] - 1e-6, intended=[random["top"] == random["pools"]]),
            f"Rule: no exception. Five predictions that are one prediction with its classes rotated have CKA {turned['least_cka']:.3g}, so epsilon is 0; the largest "
            f"eigenvalue is {turned['largest']:.3g}, at least {turned['claimed']:.0f} is claimed. Intended: epsilon from the correlations, none of them negative. Then it follows ({random['top']:,} of {random['pools']:,} random pools). With "
            "epsilon from their absolute values and 1 for the constant in O() it does not: correlations of one size and both signs have an eigenvalue that is smaller than claimed by a factor of up to "
            + ", ".join(f"{r['worst']:.2f} (n = {r['order']})" for r in rows)
            + f". Parts (i) and (iii) of the spectral proposition depend on this lemma. {TESTS}", KERNEL)


def smallest(f):
    row = f["small"]["least"]
    return ("Lemma: the smallest eigenvalue is at most 1 - (G - 1) mu", statement(row["measured"] <= row["claimed"] * (1 + 1e-9)),
            "Rule: no exception. In the following case epsilon is 0. Three heads with correlations 0.4, 0 and 0, each a cluster, so that mu = 0.4: the smallest eigenvalue is "
            f"{row['measured']:.1f}, at most {row['claimed']:.1f} is claimed. Gershgorin's discs bound it from below, not from above. {TESTS}", BOUNDS)


# ---- gate: experiments/gate -----------------------------------------------------------------------------------------

def universal(f):
    family = f["family"]
    inside = {n: r for n, r in family.items() if r["rms_least"] == 0}
    outside = {n: r for n, r in family.items() if r["rms_least"] > 0}
    widths = ", ".join(str(w["width"]) for w in next(iter(family.values()))["widths"])
    near = [r["widths"][-1]["rms"] <= r["deviation"] / 5 for r in inside.values()]
    return ("Proposition: the gate approximates every continuous function of predictions and aggregators", statement(not outside, intended=near),
            "Rule: no exception; as intended, the trained error at the largest width is at most a fifth of the function's standard deviation for functions between 0 and the sum of the aggregators. Gates are in [0, 1] and aggregators are non-negative, so only functions between 0 and the sum of the aggregators can be approximated. Functions outside, and the least error of any gate "
            "(root mean square): " + "; ".join(f"`{n}` {r['rms_least']:.2f}, trained {r['widths'][-1]['rms']:.2f}" for n, r in outside.items())
            + ". Between 0 and the sum, the case of the proof, it follows from theorems on networks with one hidden layer (Cybenko 1989, Hornik 1991, Leshno et al. 1993), if aggregators "
            f"are functions of the predictions. Errors after training there, root mean square with {widths} hidden units: "
            + "; ".join(f"`{n}` " + ", ".join(f"{w['rms']:.3f}" for w in r["widths"]) + f" (standard deviation of the function: {r['deviation']:.2f})" for n, r in inside.items())
            + f". Errors of the tool's gate and ridge on {f['rows']:,} labels drawn with a known probability: " + "; ".join(
                f"`{n}` " + ", ".join(f"{w['rms']:.3f} ({ {'none': 'no gate', 'prototype': 'prototype'}.get(w['mode']) or str(w['width']) + ' units'})" for w in r["fits"])
                for n, r in f["tool"].items()) + ".", "experiments/gate/run.py")


# ---- time and sizes: experiments/complexity -------------------------------------------------------------------------

COMPLEXITY = "experiments/complexity/run.py"


def cka_growth(f):
    g = f["growth"]
    a, b = g["nystrom"][-2:]
    products = math.log(b["rows"] * b["landmarks"] ** 2 / (a["rows"] * a["landmarks"] ** 2)) / math.log(b["rows"] / a["rows"])
    return ("With sqrt(N) landmarks CKA takes K^2 N log N", statement(products <= 1.2),
            f"Rule: the number of products grows with a power of N of at most 1.2. All pairs of members take K^2 N m^2 / 2 products of features, with m landmarks ({b['landmarks']} for {b['rows']:,} "
            f"rows, {a['landmarks']} for {a['rows']:,}). That is a power of {products:.2f}, as for exact CKA, with a smaller constant ([method.md](../docs/method.md#s1-redundancy)). User seconds for {g['members']} members, one "
            "run on a shared machine: " + "; ".join(how + " " + ", ".join(f"{r['seconds']:.2f} (N = {r['rows']:,})" for r in g[rule]) for rule, how in (("exact", "exact"), ("nystrom", "landmarks")))
            + ".", COMPLEXITY)


def few_landmarks(f):
    rows = f["landmarks"]
    met = sum(r["crossed"] == 0 for r in rows.values())
    return ("sqrt(N) uniform landmarks are enough for CKA", verdict(met, len(rows)),
            f"Rule: no pair changes sides of the threshold 0.85. Met on {met} of {len(rows)} pools. Pairs that change sides, largest error and median error: "
            + "; ".join(f"{n} {r['crossed']} of {r['pairs']}, {r['most']:.1g}, {r['median']:.1g}" for n, r in rows.items())
            + ". These have ten classes; on other pools the error of a pair can exceed 0.05 ([method.md](../docs/method.md)).", COMPLEXITY)


def hashing(f):
    h = f["hashing"]
    return ("Hashing misses few pairs of members", verdict(h["found"] >= 0.95 * h["pairs"], 1),
            f"Rule: 95% of the pairs above the threshold are found, {h['members']} members. Found: {h['found']:,} of {h['pairs']:,}.", COMPLEXITY)


def gate_share(complexity, bounds):
    rows = {n: g for n, g in complexity["gates"].items() if g}
    small = max(max(g["parameters"] for g in rows.values()), max(parameters(bounds)))
    met = (small < 15000) + sum(g["share"] < 0.01 for g in rows.values())
    return ("The gate has fewer than 15,000 parameters and takes less than 1% of a prediction", verdict(met, 1 + len(rows)),
            f"Rule: both, with 32 hidden units and all members. At most {small:,.0f} parameters. Its operations relative to the members' FLOPs, where all are known: "
            + "; ".join(f"{n} {100 * g['share']:.3g}%" for n, g in rows.items()) + ". The members of some pools take only a few thousand operations each.", COMPLEXITY)
