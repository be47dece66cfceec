"""Rows of docs/claims.md on propositions, lemmas, corollaries and remarks: functions of figures, as those of run.py."""
import math
import statistics


def verdict(met, cases):
    return "held" if met == cases else "held under conditions" if 2 * met >= cases else "did not hold"


def statement(*checks):
    """Of a theorem, proposition, lemma, corollary or remark: one exception is enough. A check is whether one case, or kind of cases, agrees."""
    return "held" if all(checks) else "did not hold"


def median(values):
    return statistics.median(values)


# ---- propositions, lemmas and corollaries: experiments/bounds ------------------------------------------------------

def runs(f):
    """Every fit that was looked at: (name, document)."""
    return [(f"{name}, `{preset}`", r) for name, presets in f["pools"].items() for preset, r in presets.items()]


def each_pool(f):
    """A document for each pool, with clusters at the paper's threshold of 0.85."""
    return {name: presets["paper"] for name, presets in f["pools"].items()}


BOUNDS = "experiments/bounds/run.py"
TESTS = "Small cases are also in tests/test_spectral.c."


def spectral_full(f):
    small, random = f["small"], f["small"]["random"]
    copies, heads = small["cases"]["copies"], small["cases"]["heads"]
    pools = each_pool(f)
    applies = sum(r["spectral"]["applies"] for r in pools.values())
    return ("Spectral proposition, (i): kappa of all members is at least s_max / (1 - (G - 1) mu)",
            statement(*(c["before"] >= c["before_claimed"] * (1 - 1e-9) for c in (copies, heads)), random["before"] == random["pools"]),
            f"Rule: no exception; epsilon is 0 in both that follow. Five copies of one model: kappa is {copies['before']:.3g}, and at least "
            f"{copies['before_claimed']:.3g} is said. Three heads with correlations 0.4, 0 and 0, the first twice: {heads['before']:.2f}, and at least "
            f"{heads['before_claimed']:.3g} is said. Copies that differ a little make it true: it held on {random['before']:,} of {random['pools']:,} random pools "
            f"of them. The assumption mu < 1/(G - 1) is met by {applies} of {len(pools)} real pools; (i) and (ii) say nothing of the others. {TESTS}", BOUNDS)


def spectral_after(kernel, f):
    n, random = kernel["normals"], f["small"]["random"]
    return ("Spectral proposition, (ii): kappa after the projection is at most (1 + (G - 1) mu) / (1 - (G - 1) mu)",
            statement(n["half_kappa"] <= n["half_claimed"] * (1 + 1e-9), random["after"] == random["pools"]),
            f"Rule: no exception. mu is a bound of CKA. Two normals with correlation 0.5, one a cluster, have a CKA of {n['at_half']:.2f}; kappa is "
            f"{n['half_kappa']:.3g}, and at most {n['half_claimed']:.2f} is said. With mu a bound of correlations it follows from Gershgorin's theorem "
            f"(held on {random['after']:,} of {random['pools']:,} random pools). {TESTS}", KERNEL)


def spectral_ratio(f):
    small, random = f["small"], f["small"]["random"]
    copies, heads = small["cases"]["copies"], small["cases"]["heads"]
    return ("Spectral proposition, (iii): the projection lowers kappa by a factor of at least the largest cluster",
            statement(*(c["ratio"] >= c["ratio_claimed"] * (1 - 1e-9) for c in (copies, heads)), random["ratio"] == random["pools"]),
            f"Rule: no exception; epsilon is 0 in both that follow. Five copies of one model: a factor of {copies['ratio']:.3g}, and at least "
            f"{copies['ratio_claimed']:.3g} is said. The three heads of (i): {heads['ratio']:.2f}, and at least {heads['ratio_claimed']:.3g} is said. Copies that differ a "
            f"little make it true, on {random['ratio']:,} of {random['pools']:,} random pools. {TESTS}", BOUNDS)


def regularised(f):
    random, pools = f["small"]["random"], each_pool(f)
    copies, null = f["small"]["penalised_copies"]["without"], f["small"]["penalised_copies"]["with"]
    cases = [row for r in pools.values() for row in r["regularised"]]
    met = sum(row["holds"] is True for row in cases)
    return ("Corollary: the projection lowers the condition number with a penalty, by a stated amount",
            statement(copies["change"] >= copies["claimed"], random["not_up"] == random["pools"], random["reduced"] == random["pools"], met == len(cases)),
            "Rule: no exception. The paper leaves eigenvalues of 0 out. With five exact copies of one model (epsilon 0, penalty 0.1) the condition number then falls by "
            f"{copies['change']:.3g}, and at least {copies['claimed']:.2f} is said, as is that it falls at all. With eigenvalues of 0 counted it falls by "
            f"{null['change']:.3g} there, and {null['claimed']:.3g} is said. Copies that differ a little make it true: it fell by the amount on {random['reduced']:,} of "
            f"{random['pools']:,} random pools of them, and in {met} of {len(cases)} cases of {len(pools)} real pools with three penalties each.", BOUNDS)


def ridge_moves(f):
    small, cases = f["small"]["ridge"], [row for _, r in runs(f) for row in r["stability"]["perturbations"]]
    met = sum(row["holds"] is True for row in cases)
    ours = sum(row["change"] <= row["bound"] for row in cases)
    return ("Proposition: ridge weights move by at most a stated amount under perturbed inputs",
            statement(small["change"] <= small["claimed"] or not small["precondition"], met == len(cases)),
            f"Rule: no exception. One row, x = 0.1, y = 0, lambda = 1, moved to x = 2.6, y = 1, which the precondition allows: the weight moves by {small['change']:.3f}, "
            f"and at most {small['claimed']:.1f} is said. Under planted noise in members' probabilities it was met in {met} of {len(cases)} cases, with a bound "
            f"that is at least {min(row['claimed'] / row['change'] for row in cases):,.0f} times the change; the bound in [bounds.md](bounds.md), which needs no "
            f"precondition, in {ours}, at least {min(row['bound'] / row['change'] for row in cases):.0f} times the change. {TESTS}", BOUNDS)


def folds_move(f):
    small, rates, cases = f["small"]["folds"], f["small"]["fold_rates"], [r["stability"]["folds"] for _, r in runs(f)]
    met = sum(row["holds"] is True for row in cases)
    ratios = [1 / row["ratio"] for row in cases if row["ratio"]]
    sizes = rates["sizes"]
    return ("Lemma: ridge weights of two folds differ by a stated amount and a term of order N^-1/2",
            statement(rates["slope"] <= -0.4, met == len(cases)),
            "Rule: on real pools the stated amount alone is enough; what is beyond it on planted rows falls about as N^-1/2 (a power of -0.4 or less), as the "
            f"constant of that term is not given. Met on {met} of {len(cases)} fits of real pools, where the amount is at least {min(ratios):,.0f} times the difference. "
            f"Planted (a design of ones, random signs as targets): {100 * sizes[-1]['beyond']:.0f}% of the samples are beyond it at N = {sizes[-1]['n']:,}, by at most "
            + ", ".join(f"{r['most']:.4f} (N = {r['n']:,})" for r in sizes) + f": a power of {rates['slope']:.2f}. So the term is needed: with two rows the amount can be "
            f"{small['claimed']:.0f} and the difference {small['change']:.1f}. {TESTS}", BOUNDS)


def projection(f):
    small, pools = f["small"]["projection"], {n: r["projected"] for n, r in each_pool(f).items()}
    met = sum(p["gain"] >= p["claimed"] * (1 - 1e-9) for p in pools.values())
    return ("Corollary: the projection makes ridge more stable by a factor of at least sqrt(K/G)",
            statement(small["gain"] >= small["claimed"], met == len(pools)),
            "Rule: no exception, by the norm of the design, with which the sensitivity is said to grow. Five heads, four of them correlated by 0.249, and a copy of the "
            f"fifth: {small['gain']:.3f}, and at least {small['claimed']:.3f} is said. Met on {met} of {len(pools)} real pools. Factor, and what is said: "
            + "; ".join(f"{n} {p['gain']:.2f}, {p['claimed']:.2f}" for n, p in pools.items()) + f". {TESTS}", BOUNDS)


def traces(f):
    pools = each_pool(f)
    met = sum(r["spectral"]["trace_difference"] >= r["spectral"]["trace_claimed"] - 1e-9 for r in pools.values())
    return ("Proposition: the projection lowers the trace by at least the largest cluster less 1", statement(met == len(pools)),
            f"Rule: no exception; it follows, as each diagonal entry is 1 and the trace falls by K - G. Met on {met} of {len(pools)} pools. By how much, of how many members: "
            + ", ".join(f"{n} {r['spectral']['trace_difference']:.0f} of {r['members']}" for n, r in pools.items())
            + ". Effective dimension at a penalty of 0.1, before and after: "
            + "; ".join(f"{n} {r['regularised'][1]['dimension_before']:.1f}, {r['regularised'][1]['dimension_after']:.1f}"
                        for n, r in pools.items()) + ".", BOUNDS)


def least_variance(f):
    cases, random = [(n, r) for n, r in runs(f) if r["blending"]["minimum"] is not None], f["small"]["blends"]
    met = sum(r["blending"]["minimum"] <= r["blending"]["best"] * (1 + 1e-9) for _, r in cases)
    outside = sum(not r["blending"]["mixture"] for _, r in cases)
    return ("Theorem on blending, (i) and (ii): the least variance is (1'S^-1 1)^-1, no more than that of the best learner, by stated weights",
            statement(met == len(cases), random["weights"] == random["cases"], random["least"] == random["cases"]),
            f"Rule: no exception; it follows. {random['least']:,} and {random['weights']:,} of {random['cases']:,} random covariances have this minimum and these weights, by the "
            f"equations of a constrained minimum. No more than the best learner's on {met} of {len(cases)} fits of real pools. In {outside} of these a weight is negative, so that no mixture, "
            f"which the theorem asks for, attains the value. {TESTS}", BOUNDS)


def equal_variance(f):
    small = f["small"]["variance"]
    return ("Theorem on blending, (iii): the least variance equals the best learner's only where the covariance has rank 1",
            statement(abs(small["minimum"] / small["best"] - 1) > 1e-9 or small["rank"] == 1),
            f"Rule: no exception. The covariance [[1, 1], [1, 2]] has rank {small['rank']}, least variance {small['minimum']:.3g} and best learner {small['best']:.3g}. With rank 1 and "
            f"several learners it has no inverse, which the theorem assumes. {TESTS}", BOUNDS)


def inverse_gap(f):
    cases = [(n, r) for n, r in runs(f) if r["blending"]["inverse_rmse"]["holds"] is not None]
    met = sum(r["blending"]["inverse_rmse"]["holds"] for _, r in cases)
    ratios = [r["blending"]["inverse_rmse"]["claimed"] / r["blending"]["inverse_rmse"]["gap"] for _, r in cases if r["blending"]["inverse_rmse"]["gap"] > 1e-12]
    how = f"; where there are several learners the bound is {min(ratios):.3g} to {max(ratios):.3g} times the gap" if ratios else ""
    return ("Proposition: the gap of inverse-RMSE weights is at most the largest eigenvalue times the squared distance of the weights", statement(met == len(cases)),
            f"Rule: no exception; it follows. Met on {met} of {len(cases)} fits{how}.", BOUNDS)


def laplace_gap(f):
    small = f["small"]["laplace"]
    cases = [(n, r["blending"]["laplace"], r["blending"]["lead"]) for n, r in runs(f) if r["blending"]["lead"] is not None and r["blending"]["laplace"]["holds"] is not None]
    met = sum(row["holds"] is True for _, row, _ in cases)
    clear = [(n, row["gap"], lead) for n, row, lead in cases if lead > 20]
    low, far = min(clear, key=lambda c: c[1]), max(clear, key=lambda c: c[2])
    return ("Proposition: the gap of Laplace weights falls as exp(-2 dL / sigma^2)",
            statement(small[-1]["gap"] <= small[0]["gap"]),
            "Rule: no exception; the constant is not given, so the gap must fall as the lead dL grows. Two learners with equal variances and independent errors, leads of "
            + ", ".join(f"{r['lead']:,.0f}" for r in small) + " nats: gaps of " + ", ".join(f"{r['gap']:.3f}" for r in small)
            + " of a variance of 1, and a factor of " + ", ".join(f"{r['claimed']:.1g}" for r in small) + f" is said. All weight goes to one learner, so the gap tends to that of the "
            f"best single one. Real pools, with sigma and the constant 1: met on {met} of {len(cases)} fits with several learners; at leads of more than 20 nats, where less than 1e-17 "
            f"is said, the gap is {low[1]:.1g} and more ({low[0]}; {far[1]:.1g} at the largest lead, {far[2]:,.0f} nats, {far[0]}). {TESTS}", BOUNDS)


def paper_pac(f):
    cases = [(n, r) for n, r in runs(f) if r["pac_bayes"]["total"] is not None]
    says = sum(not r["pac_bayes"]["vacuous"] for _, r in cases)
    over = {n: r["pac_bayes"]["total"] / r["pac_bayes"]["trivial"] for n, r in cases}
    least, most = min(over, key=over.get), max(over, key=over.get)
    beyond = [r["holdout"]["bound"] - r["holdout"]["error"] for _, r in cases]
    return ("The PAC-Bayes bound says something of stacks of this size", verdict(says, len(cases)),
            f"Rule: it is less than the squared error without any member. Met in {says} of {len(cases)} fits: it is {over[least]:.1f} ({least}) to "
            f"{over[most]:,.0f} ({most}) times that error. Beside it, the exact binomial bound of the top-1 error is {100 * min(beyond):.1f} to {100 * max(beyond):.1f} points "
            "above what is measured. All fits are in [results.md](results.md), \"Bounds\".", BOUNDS)


def no_leak(f):
    cases = [(n, r["leakage"]["permuted"], r["leakage"]["fit_leaks"]) for n, r in runs(f)]
    met = sum(leaks is False for _, _, leaks in cases)
    above = max(cases, key=lambda c: c[1]["top1"] - c[1]["chance"])
    seen = max(cases, key=lambda c: c[1]["seen_top1"] - c[1]["chance"])
    raised = {flag: [n for n, r in runs(f) if r["leakage"][flag]] for flag in ("rows_leak", "members_leak")}
    others = "; ".join(f"`{flag}` on {', '.join(names) if names else 'none'}" for flag, names in raised.items())
    return ("Nested scores are free of leaks", verdict(met, len(cases)),
            "Rule: with permuted labels nested top-1 is not above the commonest class at p < 0.001. "
            f"Met on {met} of {len(cases)} fits; the most above it is {100 * above[1]['top1']:.1f}% where chance is {100 * above[1]['chance']:.1f} ({above[0]}). On the rows it was fitted on a fit "
            f"has up to {100 * seen[1]['seen_top1']:.1f}, chance {100 * seen[1]['chance']:.1f} ({seen[0]}). Where that is near chance too, the check says little; tests/test_leakage.c has a fit that is far above, and plants "
            f"leaks that the checks see. What the other two flags of `--leakage` say, of pools and not of the fit: {others}.", BOUNDS)


# ---- dependence: experiments/kernel ---------------------------------------------------------------------------------

KERNEL = "experiments/kernel/run.py"
RISK = "experiments/risk/run.py"
PEARSON = 0.95  # the prototype's threshold


def dominance(f):
    n, small = f["normals"], f["small"]
    return ("Proposition: CKA is 0 for normals just where the correlation is 0 (i), 0 just for independent predictions (ii), and above 0 for a square (iii)",
            statement(n["at_zero"] < 1e-12 and n["rising"], small["square"]["cka"] > 10 * small["other"]["cka"]),
            "Rule: (i) the closed form for two normals and Gaussian kernels is 0 at 0 and rises; (iii) the CKA of a sample is more than ten times that of independent draws; (ii) is a "
            "theorem on kernels (Gretton et al. 2005; Fukumizu et al. 2008) that no sample can show. HSIC at correlation 0: "
            f"{n['at_zero']:.0e}. A normal and its square, N = 2,000: CKA {small['square']['cka']:.3f}, Pearson {small['square']['pearson']:.3f}. "
            f"In a sample the CKA of independent predictions is not 0 but {small['other']['cka']:.4f}, as the estimate is biased.", KERNEL)


def monotone(f):
    n = f["normals"]
    return ("Remark: for normals CKA is a strictly rising function of the absolute correlation", statement(n["rising"], n["even"]),
            "Rule: the closed form rises at each of 1,000 steps from 0 to 1 and has the same values below 0. CKA is much the smaller: "
            f"{n['at_half']:.3f} at a correlation of 0.5 and {n['at_nine']:.3f} at 0.9, so that a threshold of 0.85 is a correlation of "
            f"{f['recovery'][0]['rho']:.3f}.", KERNEL)


def generalises(risk, seeds):
    pools = risk["pools"].values()
    removed, kept, other, pairs = (sum(p[k] for p in pools) for k in ("removed", "removed_kept", "kept_removed", "pairs"))
    more, of = (sum(p[k] for p in seeds.values()) for k in ("opposite", "all"))
    return ("CKA pruning at 0.85 finds what Pearson pruning at 0.95 finds, and more", verdict(removed - kept if other else 0, removed),
            f"Rule: pairs that Pearson finds are found by CKA, and others. Of {pairs:,} pairs of {len(pools)} pools {removed} are above 0.95 in Pearson, {kept} of them not above 0.85 in CKA; "
            f"{other} are found by CKA alone. That is the thresholds and not the measures: with 0.85 for both, {more} of {of} pairs of {len(seeds)} pools are found by Pearson alone.", RISK)


def specialists(f):
    low, some = (sum(p[k] for p in f["pools"].values()) for k in ("moderate_low", "moderate"))
    removed = low if 0.7 > PEARSON else 0
    return ("Specialists have a Pearson correlation near 0.6 and a CKA below 0.4; Pearson pruning removes them, CKA keeps them", verdict(removed, low),
            f"Rule: pairs of that kind are above the prototype's threshold, {PEARSON} in Pearson. Of {some} pairs with Pearson between 0.5 and 0.7 on {len(f['pools'])} pools {low} "
            f"have a CKA below 0.4; Pearson pruning removes {removed} of these.", RISK)


def tempered(f):
    rows = {n: p["temperature"] for n, p in f["pools"].items()}
    met, cases = sum(r["claimed"] for r in rows.values()), sum(r["pairs"] for r in rows.values())
    return ("Calibrated and miscalibrated variants of one network: Pearson near 0, CKA high", verdict(met, cases),
            "Rule: Pearson below 0.3 and CKA above 0.85 for a member and itself at temperature 1/4 or 4. "
            f"Met for {met} of {cases} pairs; Pearson is never below {min(r['pearson_least'] for r in rows.values()):.2f}, and is the larger of the two for "
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
    return ("Lemma: the HSIC of N rows is within C sqrt(log(1 / delta) / N) of the population's, so that clusters are found from (C / epsilon)^2 rows",
            statement(*(v <= float(d) * r["repeats"] for r in rows for d, v in r["hsic_above"].items()), *(r["above"] <= 0.05 * r["repeats"] for r in recovery)),
            "Rule: with C = 4, as the proof has it, at most a share delta of the samples are farther, for delta 0.5, 0.1, 0.05 and 0.01; of (C / epsilon)^2 rows CKA is within epsilon "
            "in 95% of the samples. Two normals, whose HSIC is known, with correlation 0, 0.5 and 0.95 and N of " + ", ".join(map(str, sizes)) + f": farther in {above} of {cases:,} cases. "
            f"The bound is wide: at delta 0.05 it is {min(loose):.0f} to {max(loose):.0f} times the deviation that 95% of the samples keep ({rates[0.0]} at correlation 0; {rates[0.5]} at 0.5). "
            "CKA with the median bandwidth, which clusters are made by: farther than epsilon in "
            + "; ".join(f"{r['above']} of {r['repeats']} samples (epsilon {r['epsilon']}, N = {r['n']:,}, at most {r['most']:.3f})" for r in recovery)
            + f". Random rows of real pools against all rows: farther than the bound in {sum(s['above'] for s in subsets)} of "
            f"{sum(s['pairs'] for s in subsets):,} pairs; 95% within " + ", ".join(f"{s['q95']:.3f} ({n}, N = {s['n']:,})" for n, s in far.items()) + ".",
            KERNEL)


def blocks(kernel, bounds):
    small, pools = kernel["small"], each_pool(bounds)
    within = {n: r for n, r in pools.items() if r["largest_cluster"] > 1}
    met = sum(r["epsilon_pearson"] <= r["epsilon"] for r in within.values())
    across = sum(r["mu_pearson"] <= r["mu"] for r in pools.values())
    turned, minus, half = small["turned"], small["minus"], small["half"]
    return ("Lemma on blocks: CKA of at least 1 - epsilon in a cluster makes correlations 1 - O(epsilon), CKA of at most mu across makes them at most mu",
            statement(turned["least_cka"] < 1 or turned["correlation"] > 1 - 1e-6, minus["cka"] < 1 or minus["pearson"] > 1 - 1e-6, abs(half["pearson"]) <= half["cka"]),
            f"Rule: no exception; epsilon is 0 in those that follow. Within: one prediction of five classes and the same with its classes turned have CKA {turned['least_cka']:.3g} and "
            f"correlation {turned['correlation']:.2f}; x and -x {minus['cka']:.3g} and {minus['pearson']:.3g}. Across: two normals with correlation {half['pearson']:.2f} have a CKA of "
            f"{half['cka']:.2f}. On real pools at 0.85 correlations within clusters are nearer to 1 than CKA on {met} of {len(within)}; across them the largest correlation is at most the "
            f"largest CKA on {across} of {len(pools)}. {TESTS}", KERNEL)


def largest(f):
    turned, rows = f["small"]["turned"], f["conference"]
    return ("Lemma: the largest eigenvalue is at least the largest cluster times 1 - O(epsilon)", statement(turned["least_cka"] < 1 or turned["largest"] >= turned["claimed"] - 1e-6),
            f"Rule: no exception. Five predictions that are one with its classes turned have CKA {turned['least_cka']:.3g}, so epsilon is 0; the largest "
            f"eigenvalue is {turned['largest']:.3g}, and at least {turned['claimed']:.0f} is said. With epsilon of the correlations it follows where none within the cluster is negative. With "
            "epsilon of their absolute values and 1 for the constant in O() it does not: correlations of one size and both signs have an eigenvalue up to "
            + ", ".join(f"{r['worst']:.2f} times (n = {r['order']})" for r in rows)
            + f" smaller than said. (i) and (iii) of the spectral proposition rest on it. {TESTS}", KERNEL)


def smallest(f):
    row = f["small"]["least"]
    return ("Lemma: the smallest eigenvalue is at most 1 - (G - 1) mu", statement(row["measured"] <= row["claimed"] * (1 + 1e-9)),
            "Rule: no exception; epsilon is 0 in what follows. Three heads with correlations 0.4, 0 and 0, one a cluster, so that mu = 0.4 is a bound: the smallest eigenvalue is "
            f"{row['measured']:.1f}, and at most {row['claimed']:.1f} is said. Gershgorin's discs bound it from below, not from above. {TESTS}", BOUNDS)


# ---- penalty, risk and out-of-fold estimates: experiments/risk ------------------------------------------------------

def optimal_penalty(f):
    rows = f["penalty"]["sizes"]
    ratios = [r["penalty"]["star"] / r["penalty"]["best"] for r in rows]
    return ("Proposition: lambda* minimises the expected excess risk, up to a factor that goes to 1 as N grows", statement(abs(ratios[-1] - 1) <= 0.1),
            f"Rule: within 10% of the best penalty at the largest N. Planted: {f['penalty']['members']} members in {f['penalty']['clusters']} clusters with isotropic "
            "noise, a linear target, the noise known. lambda* over the best penalty at N = " + ", ".join(f"{r['n']:,}" for r in rows) + ": "
            + ", ".join(f"{v:.1f}" for v in ratios) + ". Its excess risk over the least: "
            + ", ".join(f"{r['excess']['star'] / r['excess']['best']:.1f}" for r in rows)
            + f". lambda* does not fall with N, the best penalty does; so does the one that minimises the risk as the proof writes it ({rows[0]['formula']:.2f} to "
            f"{rows[-1]['formula']:.3f}).", RISK)


def penalty_interval(f):
    faint, bare, pools, sizes = f["penalty"]["faint"], f["penalty"]["bare"], f["pools"], f["penalty"]["sizes"]
    inside = sum(p["inside"] for p in pools.values())
    return ("Proposition: lambda* lies between the edge of the noise and the largest eigenvalue of the signal",
            statement(faint["edge"] <= faint["star"] <= faint["signal"], bare["star"] >= bare["edge"], all(r["inside"] == r["repeats"] for r in sizes), inside == len(pools)),
            f"Rule: no exception. One head in twenty members of which nine tenths are noise: lambda* is {faint['star']:.1f}, and {faint['edge']:.1f} to {faint['signal']:.1f} is said. Four "
            f"members without copies, three tenths noise: all eigenvalues are above the edge, so lambda* is {bare['star']:.3g}, and at least {bare['edge']:.1f} is said. In the worlds of the row "
            f"before it is inside in {sum(r['inside'] for r in sizes)} of {sum(r['repeats'] for r in sizes)} samples, and on {inside} of {len(pools)} real pools (`corestack inspect`).", RISK)


def cv_elimination(f):
    rows = f["eliminated"]
    ratios = [r["bound"]["star"] / r["bound"]["cv"] for r in rows]
    return ("Corollary: lambda* in place of cross-validation leaves the bound of the theorem as it is, up to a factor that goes to 1",
            statement(abs(ratios[-1] - 1) <= max(abs(ratios[0] - 1), 0.01)),
            "Rule: at the largest N the factor is within 1%, or nearer to 1 than at the smallest. The bound (empirical risk and what the theorem adds) with lambda* over that with five-fold "
            "cross-validation, worlds of the rows before: " + ", ".join(f"{v:.3f} (N = {r['n']:,})" for v, r in zip(ratios, rows))
            + f". What the theorem adds is smaller with lambda* ({rows[-1]['added']['star']:.3f} and {rows[-1]['added']['cv']:.3f} at the largest N), the empirical risk larger, and it stays so.", RISK)


def cv_risk(f):
    rows = f["penalty"]["sizes"]
    ratios = [r["excess"]["star"] / r["excess"]["cv"] for r in rows]
    return ("lambda* in place of cross-validation loses nothing (\"without optimality loss\")", statement(abs(ratios[-1] - 1) <= 0.1),
            "Rule: within 10% at the largest N. Excess risk with lambda* over that with five-fold cross-validation, same worlds: "
            + ", ".join(f"{v:.1f} (N = {r['n']:,})" for v, r in zip(ratios, rows))
            + f". Cross-validation is within {100 * (max(r['excess']['cv'] / r['excess']['best'] for r in rows) - 1):.0f}% of the best. On real pools the loss hardly depends on it (next row).", RISK)


def theorem_holds(f):
    rows, units = f["theorem"], f["units"]
    sides = [(r, r[s]) for r in rows for s in ("full", "kept")]
    above, cases = sum(s["above"] for _, s in sides), sum(r["repeats"] for r, _ in sides)
    gap = [(s["term"] + s["phi"]) / s["gap"] for _, s in sides if s["gap"] > 0.005]
    return ("Theorem: the PAC-Bayes bound of the risk holds with probability 1 - delta",
            statement(*(s["above"] <= 0.05 * r["repeats"] for r, s in sides), *(u["above"] <= 0.05 * u["repeats"] for u in units)),
            "Rule: the risk of the posterior is above the bound in at most 5% of the samples of each case, delta 0.05. Planted, everything bounded: 4 clusters of 1, 3 and 8 copies, N from "
            f"{rows[0]['n']} to {rows[-1]['n']:,}, no gate. Above in {above} of {cases:,} samples; what the bound adds is {min(gap):.0f} and more times what is needed on average. The same "
            "with the target in units a thousand times smaller, so that the loss grows by a million and the bound by about a thousand: above in "
            + ", ".join(f"{u['above']} of {u['repeats']} (N = {u['n']:,})" for u in units)
            + ". The divergence term is that of losses in [0, 1], which the theorem does not say: its targets are bounded by any B_y. The prior is made from the rows that are counted as well, "
            "which the paper grants.", RISK)


def theorem_excess(f):
    rows = f["theorem"]
    sides = [(r, r[s]) for r in rows for s in ("full", "kept")]
    above, cases = sum(s["excess_above"] for _, s in sides), sum(r["repeats"] for r, _ in sides)
    worst, side = max(sides, key=lambda c: c[1]["excess_above"])
    return ("The PAC-Bayes bound is a bound of the excess risk, which falls as N^-1/2", statement(*(s["excess_above"] <= 0.05 * r["repeats"] for r, s in sides)),
            "Rule: the risk is above that of the best linear weights by more than what the bound adds in at most 5% of the samples of each case; worlds of the row before, loss of the order of 1. "
            f"It is so in {above} of {cases:,} samples. These are {'all' if side['excess_above'] == worst['repeats'] else side['excess_above']} of the {worst['repeats']} with {worst['members']} members and "
            f"N = {worst['n']:,}{'' if side['excess_above'] == above else ', and ' + str(above - side['excess_above']) + ' other'}. There the excess is {side['excess']:.3f} on average and the bound adds "
            f"{side['term'] + side['phi']:.3f}: it does fall with N, but lambda* leaves an excess that does not.", RISK)


def factor(risk, bounds):
    pools = {n: r for n, r in each_pool(bounds).items() if r["pac_bayes"]["total"] is not None and r["kept"] < r["members"]}

    def gain(r):
        more, before, after = r["pac_bayes"]["dimensions"], r["members"], r["kept"]  # kept members, aggregators, parameters of the gate
        mu = 1 / (before - 1)  # the larger, the larger the gain; more is not incoherent before the projection
        return ((more + before - after) / more * (1 + (before - 1) * mu) / (1 + (after - 1) * mu)) ** 0.5

    gains = {n: (gain(r), (r["members"] / r["kept"]) ** 0.5) for n, r in pools.items()}
    met = sum(g >= c * (1 - 1e-9) for g, c in gains.values())
    last = [r for r in risk["theorem"] if r["copies"] > 1 and r["n"] == risk["theorem"][-1]["n"]]
    return ("The projection makes Phi smaller by a factor of sqrt(K / G)", statement(met == len(gains)),
            "Rule: no exception, preset `paper`, the same B before and after, mu = 1/(K - 1), the most that the assumption allows before the projection. Phi has sqrt(G + 12 + parameters of the "
            f"gate), of which G is a small part. Met on {met} of {len(gains)} pools. Factor, and what is said: "
            + "; ".join(f"{n} {g:.2f}, {c:.2f}" for n, (g, c) in gains.items())
            + ". In planted worlds without a gate B is not the same: weights of copies share one effect. Phi before, with K for G, and after: "
            + "; ".join(f"{r['full']['phi'] * r['copies'] ** 0.5:.4f} and {r['kept']['phi']:.4f} ({r['copies']} copies)" for r in last)
            + "; the risk goes up, " + "; ".join(f"{r['full']['risk']:.2f} to {r['kept']['risk']:.2f}" for r in last) + ", as a mean of copies has less noise.", RISK)


def factor_least(f):
    pools = {n: (r["members"] / r["clusters"], r["largest_cluster"]) for n, r in each_pool(f).items()}
    met = sum(mean >= most for mean, most in pools.values())
    return ("sqrt(K / G) is at least the square root of the largest cluster", statement(met == len(pools)),
            f"Rule: no exception. K / G is the mean size of a cluster, so never above the largest. Met on {met} of {len(pools)} pools, where all members are one cluster. Mean and largest at 0.85: "
            + "; ".join(f"{n} {mean:.1f}, {most}" for n, (mean, most) in pools.items()) + ".", BOUNDS)


def rademacher(f):
    cases = f["rademacher"]["planted"] + list(f["rademacher"]["pools"].values())
    met = sum(c["measured"] <= c["bound"] * 1.01 for c in cases)
    ratios = [c["measured"] / c["bound"] for c in cases]
    return ("Proposition: empirical Rademacher complexity of weights of norm B is at most B sqrt(tr / N)", statement(met == len(cases)),
            f"Rule: no exception, but for 1%, as it is a mean of 400 draws of signs; it follows from Jensen's inequality. Met on {met} of {len(cases)} designs (three planted, "
            f"{len(f['rademacher']['pools'])} pools): {min(ratios):.2f} to {max(ratios):.2f} of the bound. It is of linear functions of fixed columns; the parameters of a gate, which the paper "
            "counts among the columns, are none.", RISK)


def unbiased(f):
    r = f["out_of_fold"]
    return ("Corollary: out-of-fold risk is unbiased", statement(abs(r["bias"]) <= 3 * r["error"]),
            f"Rule: the mean difference to the true mean risk of the folds' fits is within three standard errors of 0, {r['repeats']:,} planted samples of N = {r['n']}, five folds. It is "
            f"{r['bias']:+.4f} (standard error {r['error']:.4f}) at a risk of {r['risk']:.3f}. So it is of these fits, as the paper has it; the fit to all rows has {r['whole']:.3f}, and the "
            f"least of {r['models']} such estimates is {-r['picked']:.3f} too small (standard error {r['picked_error']:.4f}).", RISK)


def leak_definition(f):
    pools = f["pools"]
    beat = sum(p["best"] > p["chance"] for p in pools.values())
    return ("Definition and proposition: out-of-fold features are independent of their own label, given the other folds", statement(beat == 0),
            "Rule: no exception. As it is written, features that are independent of the label predict nothing; "
            f"the best member's out-of-fold predictions beat the commonest class on {beat} of {len(pools)} pools, by "
            f"{100 * min(p['best'] - p['chance'] for p in pools.values()):.0f} points and more. What holds by construction is independence given x_i as well; "
            "whether anything else comes in is the next row.", RISK)


def flat_hessians(f):
    r = f["laplace"]
    return ("Remark: Laplace weights are small for learners with flat Hessians", statement(r["flat"] < r["curved"]),
            "Rule: of two learners with the same loss the one with the flat Hessian has the smaller weight. Weights go as exp(-L - log det H / 2): with log det H of 0 and 13.8 "
            f"the flat one has {r['flat']:.4f} and the curved one {r['curved']:.4f}.", RISK)


def gate_capacity(f):
    c, gates, kept = f["small"]["capacity"], parameters(f), [r["kept"] for r in each_pool(f).values()]
    return ("The gate's sqrt(p / N) is about 0.011 at N = 128,000, negligible beside sqrt(G / N)",
            statement(abs(c["gate"] / c["stated"] - 1) <= 0.1, c["gate"] <= 0.1 * c["leading"]),
            f"Rule: 0.011 within 10%, and at most a tenth of sqrt(G / N), with the paper's 15,000 parameters and six members. sqrt(15,000 / 128,000) is {c['gate']:.3f}, and sqrt(6 / 128,000) is "
            f"{c['leading']:.4f}. Gates of preset `paper` have {min(gates):.0f} to {max(gates):.0f} parameters on our pools, beside {min(kept)} to {max(kept)} members.", BOUNDS)


def parameters(f):
    return [r["pac_bayes"]["dimensions"] - r["kept"] - 12 for r in each_pool(f).values() if r["pac_bayes"]["total"] is not None]


def compared(f):
    """{pool: (fit of `paper`, fit of the prototype)} where the paper's bound is there for both."""
    return {n: (r, f["prototype"][n]) for n, r in each_pool(f).items()
            if r["pac_bayes"]["total"] is not None and f["prototype"][n]["pac_bayes"]["total"] is not None}


def contains(f):
    rows = compared(f)
    phi = sum(r["pac_bayes"]["phi"] <= p["pac_bayes"]["phi"] for r, p in rows.values())
    same = sum(r["pac_bayes"]["dimensions"] <= p["pac_bayes"]["dimensions"] for r, p in rows.values())
    return ("Corollary: CoRe-Stack+ contains its prototype, so its Phi is no larger", statement(phi == len(rows)),
            f"Rule: Phi no larger on each pool. Met on {phi} of {len(rows)}. Phi counts members, aggregators and the gate's parameters, six aggregators without a gate in the prototype: fewer on "
            f"{same} of {len(rows)} pools, so that it is the same with one B for both. Phi of `paper` and of `prototype`, and counts: "
            + "; ".join(f"{n} {r['pac_bayes']['phi']:.2f} ({r['pac_bayes']['dimensions']:.0f}), {p['pac_bayes']['phi']:.2f} ({p['pac_bayes']['dimensions']:.0f})" for n, (r, p) in rows.items())
            + ". A sigmoid is never 0 or 1, so that the prototype is a limit of gates and none of them. A larger class has no smaller complexity.", BOUNDS)


def tighter(f):
    fewer = {n: v for n, v in compared(f).items() if v[0]["kept"] < v[1]["kept"]}
    met = sum(r["pac_bayes"]["total"] < p["pac_bayes"]["total"] for r, p in fewer.values())
    return ("Corollary: the bound is tighter than the prototype's where CoRe-Stack+ keeps fewer members", statement(met == len(fewer)),
            f"Rule: no exception. Met on {met} of {len(fewer)} pools. Bound of `paper` and of `prototype`, and members: "
            + "; ".join(f"{n} {r['pac_bayes']['total']:.2f} ({r['kept']}), {p['pac_bayes']['total']:.2f} ({p['kept']})" for n, (r, p) in fewer.items())
            + ". The gate's parameters outweigh the members that it does without.", BOUNDS)


# ---- gate: experiments/gate -----------------------------------------------------------------------------------------

def universal(f):
    family = f["family"]
    inside = {n: r for n, r in family.items() if r["rms_least"] == 0}
    outside = {n: r for n, r in family.items() if r["rms_least"] > 0}
    widths = ", ".join(str(w["width"]) for w in next(iter(family.values()))["widths"])
    return ("Proposition: the gate comes near every continuous function of predictions and aggregators", statement(not outside),
            "Rule: no exception. Gates lie in [0, 1] and aggregators are not negative, so what is reached lies between 0 and the aggregators' sum. Functions outside, and how near any gate can "
            "come (root mean square): " + "; ".join(f"`{n}` {r['rms_least']:.2f}, trained {r['widths'][-1]['rms']:.2f}" for n, r in outside.items())
            + ". Between 0 and the sum, which the proof speaks of, some gate is near by theorems on networks with one hidden layer (Cybenko 1989, Hornik 1991, Leshno et al. 1993), if aggregators "
            f"are functions of the predictions. What training finds there, root mean square at {widths} hidden units: "
            + "; ".join(f"`{n}` " + ", ".join(f"{w['rms']:.3f}" for w in r["widths"]) + f" (the function's deviation is {r['deviation']:.2f})" for n, r in inside.items())
            + f". The tool's gate and ridge, {f['rows']:,} labels drawn with a planted probability: " + "; ".join(
                f"`{n}` " + ", ".join(f"{w['rms']:.3f} ({ {'none': 'no gate', 'prototype': 'prototype'}.get(w['mode']) or str(w['width']) + ' units'})" for w in r["fits"])
                for n, r in f["tool"].items()) + ".", "experiments/gate/run.py")


# ---- time and sizes: experiments/complexity -------------------------------------------------------------------------

COMPLEXITY = "experiments/complexity/run.py"


def cka_growth(f):
    g = f["growth"]
    a, b = g["nystrom"][-2:]
    products = math.log(b["rows"] * b["landmarks"] ** 2 / (a["rows"] * a["landmarks"] ** 2)) / math.log(b["rows"] / a["rows"])
    return ("With sqrt(N) landmarks CKA takes K^2 N log N", statement(products <= 1.2),
            f"Rule: the number of products grows with a power of N of at most 1.2. All pairs of members take K^2 N m^2 / 2 products of features, with m landmarks: {b['landmarks']} of {b['rows']:,} "
            f"rows, {a['landmarks']} of {a['rows']:,}; a power of {products:.2f}, that of exact CKA, with a smaller constant ([redundancy.md](redundancy.md)). User seconds of {g['members']} members, one "
            "run on a shared machine: " + "; ".join(how + " " + ", ".join(f"{r['seconds']:.2f} (N = {r['rows']:,})" for r in g[rule]) for rule, how in (("exact", "exact"), ("nystrom", "landmarks")))
            + ".", COMPLEXITY)


def few_landmarks(f):
    rows = f["landmarks"]
    met = sum(r["crossed"] == 0 for r in rows.values())
    return ("sqrt(N) uniform landmarks are enough for CKA", verdict(met, len(rows)),
            f"Rule: no pair comes to the other side of 0.85. Met on {met} of {len(rows)} pools. Pairs that do, the largest error and the median: "
            + "; ".join(f"{n} {r['crossed']} of {r['pairs']}, {r['most']:.1g}, {r['median']:.1g}" for n, r in rows.items())
            + ". These have ten classes; on other pools the error of a pair can exceed 0.05 ([method.md](method.md)).", COMPLEXITY)


def hashing(f):
    h = f["hashing"]
    return ("Hashing leaves out pairs of members at a low rate", verdict(h["found"] >= 0.95 * h["pairs"], 1),
            f"Rule: 95% of the pairs above the threshold are found, {h['members']} members. {h['found']:,} of {h['pairs']:,}.", COMPLEXITY)


def gate_share(complexity, bounds):
    rows = {n: g for n, g in complexity["gates"].items() if g}
    small = max(max(g["parameters"] for g in rows.values()), max(parameters(bounds)))
    met = (small < 15000) + sum(g["share"] < 0.01 for g in rows.values())
    return ("The gate has fewer than 15,000 parameters and takes less than 1% of a prediction", verdict(met, 1 + len(rows)),
            f"Rule: both, with 32 hidden units and all members. At most {small:,.0f} parameters. Its operations beside the members' FLOPs, where all are known: "
            + "; ".join(f"{n} {100 * g['share']:.3g}%" for n, g in rows.items()) + ". Members of some pools are a few thousand operations each.", COMPLEXITY)
