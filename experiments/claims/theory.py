"""Rows of docs/claims.md on propositions, lemmas, corollaries and remarks: functions of figures, as those of run.py."""
import statistics


def verdict(met, cases):
    return "held" if met == cases else "held under conditions" if 2 * met >= cases else "did not hold"


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


def spectral(f):
    small, pools = f["small"], each_pool(f)
    copies, heads, random = small["cases"]["copies"], small["cases"]["heads"], small["random"]
    n = random["pools"]
    applies = sum(r["spectral"]["applies"] for r in pools.values())
    return ("Spectral proposition: kappa is at least (i), at most (ii) after the projection, and falls by (iii)", "did not hold",
            f"Rule: no exception. Five copies of one model: kappa {copies['before']:.3g}, where (i) says at least "
            f"{copies['before_claimed']:.3g}; it falls by a factor of {copies['ratio']:.3g}, where (iii) says {copies['ratio_claimed']:.3g}. "
            f"Three heads with correlations 0.4, 0 and 0, the first twice: {heads['before']:.3f}, where {heads['before_claimed']:.3g} is said. "
            f"Of {n:,} random pools with near copies (i) held on {random['before']:,}, (ii) on {random['after']:,}, (iii) on {random['ratio']:,}: "
            "(ii) follows for the mu of correlations. The assumption mu < 1/(G - 1) is met by "
            f"{applies} of {len(pools)} real pools, so (i) and (ii) say nothing on the others. " + TESTS, BOUNDS)


def regularised(f):
    random, pools = f["small"]["random"], each_pool(f)
    cases = [row for r in pools.values() for row in r["regularised"]]
    met = sum(row["holds"] for row in cases)
    return ("Corollary: the projection lowers the condition number with a penalty, by a stated amount",
            "held under conditions" if random["not_up"] == random["pools"] and met == len(cases) else "did not hold",
            f"Rule: without an exception it holds; exceptions for far copies alone are a condition. It went up on {random['pools'] - random['not_up']} "
            f"of {random['pools']:,} random pools with near copies, and fell by the stated amount on {random['reduced']:,}. On {len(pools)} real "
            f"pools with three penalties each the amount is met in {met} of {len(cases)}. With copies "
            "that differ by 0.18 and more a random search found failures (tests/test_spectral.c). Five exact copies: null eigenvalues are left out "
            f"of kappa as the paper has it, which does not move then, and a fall by {f['small']['penalised_copies']['claimed']:.2f} is said.", BOUNDS)


def ridge_moves(f):
    small, cases = f["small"]["ridge"], [row for _, r in runs(f) for row in r["stability"]["perturbations"]]
    met = sum(row["holds"] for row in cases)
    ours = sum(row["change"] <= row["bound"] for row in cases)
    return ("Ridge stability bound", "did not hold",
            f"Rule: no exception. x = 0.1, lambda = 1, y = 0, moved to 2.6 and 1: the weight moves by {small['change']:.3f} and "
            f"{small['claimed']:.1f} is said. Under planted noise in members' probabilities it was met in {met} of {len(cases)} cases, by factors "
            f"of {min(row['claimed'] / row['change'] for row in cases):,.0f} and more; the bound in docs/bounds.md, which needs no precondition, "
            f"in {ours}, by {min(row['bound'] / row['change'] for row in cases):.0f} and more. {TESTS}", BOUNDS)


def folds_move(f):
    small, cases = f["small"]["folds"], [r["stability"]["folds"] for _, r in runs(f)]
    met = sum(row["holds"] for row in cases)
    return ("Lemma: ridge weights of two folds differ by little, but for a term of order N^-1/2",
            "held under conditions" if met == len(cases) else "did not hold",
            "Rule: an exception to the first term is a condition, as the lemma has a second one without a constant; one on a real pool is a failure. A design of ones with targets 1, -1 and 1, 1 "
            f"in two folds has no weight without the second, so {small['claimed']:.0f} is said, and moves by {small['change']:.1f}. Met on {met} of "
            f"{len(cases)} fits of real pools, where the bound is at least {min(1 / row['ratio'] for row in cases):,.0f} times the change. {TESTS}",
            BOUNDS)


def projection(f):
    small, pools = f["small"]["projection"], {n: r["projected"] for n, r in each_pool(f).items()}
    met = sum(p["gain"] >= p["claimed"] * (1 - 1e-9) for p in pools.values())
    return ("Corollary: the projection makes ridge more stable by a factor of at least sqrt(K/G)", "did not hold",
            f"Rule: no exception. Five heads, four of them correlated by 0.249 and the fifth twice: {small['gain']:.3f}, where "
            f"{small['claimed']:.3f} is said. Met on {met} of {len(pools)} real pools at 0.85, by the norm of the design: "
            + "; ".join(f"{n} {p['gain']:.2f}, {p['claimed']:.2f}" for n, p in pools.items()) + f". {TESTS}", BOUNDS)


def traces(f):
    pools = each_pool(f)
    met = sum(r["spectral"]["trace_difference"] >= r["spectral"]["trace_claimed"] - 1e-9 for r in pools.values())
    return ("Effective dimension: the projection lowers the trace by K - G, at least the largest cluster less 1", verdict(met, len(pools)),
            f"Rule: met on every pool; it follows, as each diagonal entry is 1. Met on {met} of {len(pools)}: "
            + ", ".join(f"{n} {r['spectral']['trace_difference']:.0f} of {r['members']}" for n, r in pools.items())
            + ". Effective dimension at a penalty of 0.1, before and after: "
            + "; ".join(f"{n} {r['regularised'][1]['dimension_before']:.1f}, {r['regularised'][1]['dimension_after']:.1f}"
                        for n, r in pools.items()) + ".", BOUNDS)


def least_variance(f):
    cases = runs(f)
    met = sum(r["blending"]["minimum"] <= r["blending"]["best"] * (1 + 1e-9) for _, r in cases)
    outside = sum(not r["blending"]["mixture"] for _, r in cases)
    small = f["small"]["variance"]
    return ("Optimal blending: the least variance is (1'S^-1 1)^-1, no more than that of the best learner",
            verdict(met, len(cases)),
            f"Rule: met on every case; it follows. Met on {met} of {len(cases)}. "
            f"That equality needs a matrix of rank 1 is not so: [[1, 1], [1, 2]] has {small['minimum']:.3g} and {small['best']:.3g}. In {outside} of {len(cases)} cases "
            f"the weights have a negative one, so that no mixture attains the value. {TESTS}", BOUNDS)


def inverse_gap(f):
    cases = runs(f)
    met = sum(r["blending"]["inverse_rmse"]["holds"] for _, r in cases)
    ratios = [r["blending"]["inverse_rmse"]["claimed"] / max(r["blending"]["inverse_rmse"]["gap"], 1e-300) for _, r in cases
              if r["blending"]["inverse_rmse"]["gap"] > 1e-12]
    how = f", where the bound is {min(ratios):.3g} to {max(ratios):.3g} times the gap" if ratios else ""
    return ("Gap of inverse-RMSE weights is at most the largest eigenvalue times the squared distance of the weights", verdict(met, len(cases)),
            f"Rule: met on every case; it follows. Met on {met} of {len(cases)}{how}.", BOUNDS)


def laplace_gap(f):
    cases = [(n, r["blending"]["laplace"], r["blending"]["lead"]) for n, r in runs(f) if r["blending"]["lead"] is not None]
    met = sum(row["holds"] for _, row, _ in cases)
    clear = [(n, row["gap"], lead) for n, row, lead in cases if lead > 20]
    low, far = min(clear, key=lambda c: c[1]), max(clear, key=lambda c: c[2])
    return ("Gap of Laplace weights falls as exp(-2 dL / sigma^2)", "did not hold",
            f"Rule: no exception, with dL in nats and sigma = 1. Met on {met} of {len(cases)} fits with several members. At leads of more than 20 nats, "
            f"where less than 1e-17 is said, the gap is {low[1]:.1g} and more ({low[0]}; {far[1]:.1g} at the largest lead, {far[2]:,.0f} nats, {far[0]}). "
            "All weight goes to one learner, so the gap is that of the best single one and does not fall with dL.", BOUNDS)


def paper_pac(f):
    cases = [(n, r) for n, r in runs(f) if r["pac_bayes"]["total"] is not None]
    vacuous = sum(r["pac_bayes"]["vacuous"] for _, r in cases)
    over = {n: r["pac_bayes"]["total"] / r["pac_bayes"]["trivial"] for n, r in cases}
    least, most = min(over, key=over.get), max(over, key=over.get)
    beyond = [r["holdout"]["bound"] - r["holdout"]["error"] for _, r in cases]
    return ("PAC-Bayes bound: says something of a stack of this size", "did not hold" if vacuous == len(cases) else verdict(len(cases) - vacuous, len(cases)),
            f"Rule: it is less than the squared error without any member. It is vacuous in {vacuous} of {len(cases)} fits, {over[least]:.1f} ({least}) to "
            f"{over[most]:,.0f} ({most}) times that error. Beside it the exact binomial bound of the top-1 error is {100 * min(beyond):.1f} to {100 * max(beyond):.1f} points "
            "above what is measured. All fits are in [results.md](results.md), \"Bounds\".", BOUNDS)


def no_leak(f):
    cases = [(n, r["leakage"]["permuted"], r["leakage"]["fit_leaks"]) for n, r in runs(f)]
    met = sum(not leaks for _, _, leaks in cases)
    above = max(cases, key=lambda c: c[1]["top1"] - c[1]["chance"])
    seen = max(cases, key=lambda c: c[1]["seen_top1"] - c[1]["chance"])
    return ("Nested scores are free of leaks", verdict(met, len(cases)),
            "Rule: with permuted labels nested top-1 is not above the commonest class at p < 0.001. "
            f"Met on {met} of {len(cases)} fits; the most above it is {100 * above[1]['top1']:.1f}% where chance is {100 * above[1]['chance']:.1f} ({above[0]}). Of the rows it was fitted on a fit "
            f"has up to {100 * seen[1]['seen_top1']:.1f}, chance {100 * seen[1]['chance']:.1f} ({seen[0]}). Where that is near chance too, the check says little; tests/test_leakage.c has a fit that is far above, and plants "
            "leaks that the checks see.", BOUNDS)


# ---- dependence: experiments/kernel ---------------------------------------------------------------------------------

KERNEL = "experiments/kernel/run.py"
RISK = "experiments/risk/run.py"


def dominance(f):
    n, small = f["normals"], f["small"]
    good = n["at_zero"] < 1e-12 and n["rising"] and small["square"]["cka"] > 0.2
    return ("CKA against Pearson: for normals 0 where the correlation is 0 (i), 0 for independent predictions alone (ii), above 0 for a square (iii)",
            verdict(good, 1),
            "Rule: (i) by the closed form for two normals and Gaussian kernels, (iii) by a sample; (ii) is a theorem on kernels (Gretton et al. "
            "2005; Fukumizu et al. 2008) that no sample can show. The population's HSIC at correlation 0 is "
            f"{n['at_zero']:.0e}. A normal and its square, N = 2,000: CKA {small['square']['cka']:.3f}, Pearson {small['square']['pearson']:.3f}. "
            f"Of a sample the CKA of independent predictions is not 0: {small['other']['cka']:.4f} there, as the estimate is biased.", KERNEL)


def monotone(f):
    n = f["normals"]
    return ("Remark: for normals CKA is a strictly rising function of the absolute correlation", verdict(n["rising"] and n["even"], 1),
            "Rule: the closed form rises on 1,000 steps from 0 to 1 and is even. It is no near one: CKA is "
            f"{n['at_half']:.3f} at a correlation of 0.5 and {n['at_nine']:.3f} at 0.9, so a threshold of 0.85 is a correlation of "
            f"{f['recovery'][0]['rho']:.3f}.", KERNEL)


def generalises(risk, seeds):
    pools = risk["pools"].values()
    removed, kept, other, pairs = (sum(p[k] for p in pools) for k in ("removed", "removed_kept", "kept_removed", "pairs"))
    return ("CKA pruning finds what Pearson pruning finds, and more", "did not hold" if kept else "held",
            f"Rule: no pair above the prototype's 0.95 in Pearson is below the paper's 0.85 in CKA. Of {pairs:,} pairs of {len(pools)} pools {removed} "
            f"are above 0.95, {kept} of them with a CKA of at most 0.85; {other} the other way round. That is the thresholds and not the measures: at 0.85 for "
            f"both, {sum(p['opposite'] for p in seeds.values())} of {sum(p['all'] for p in seeds.values())} pairs of six pools are found by Pearson alone.", RISK)


def specialists(f):
    low, some = (sum(p[k] for p in f["pools"].values()) for k in ("moderate_low", "moderate"))
    return ("Specialists have a Pearson correlation near 0.6 and a CKA below 0.4; Pearson pruning removes them, CKA keeps them", "did not hold",
            f"Rule: a pair of that kind that Pearson pruning removes. Of {some} pairs with Pearson between 0.5 and 0.7 on {len(f['pools'])} pools {low} have a CKA below "
            "0.4; at 0.95 Pearson pruning removes none of them.", RISK)


def tempered(f):
    rows = {n: p["temperature"] for n, p in f["pools"].items()}
    met, cases = sum(r["claimed"] for r in rows.values()), sum(r["pairs"] for r in rows.values())
    return ("Calibrated and miscalibrated variants of one network: Pearson near 0, CKA high", verdict(met, cases),
            "Rule: Pearson below 0.3 and CKA above 0.85 for a member and itself at temperature 1/4 or 4. "
            f"Met for {met} of {cases} pairs; Pearson is never below {min(r['pearson_least'] for r in rows.values()):.2f}, and above CKA for "
            f"{sum(r['pearson_higher'] for r in rows.values())}. Medians of Pearson and CKA: "
            + "; ".join(f"{n} {r['pearson_median']:.3f}, {r['cka_median']:.3f}" for n, r in rows.items()) + ".", KERNEL)


def concentration(f):
    rows, pools = f["concentration"], f["pools"]
    above = sum(sum(r["hsic_above"].values()) for r in rows)
    good = all(v <= float(d) * r["repeats"] for r in rows for d, v in r["hsic_above"].items())
    loose = [r["bounds"]["0.05"] / r["hsic_95"] for r in rows]
    subsets = [s for p in pools.values() for s in p["subsets"]]
    far = {n: p["subsets"][-1] for n, p in pools.items()}
    rates = {rho: [r["hsic_95"] for r in rows if r["rho"] == rho] for rho in (0.0, 0.5)}
    return ("Lemma: the HSIC of N rows is within C sqrt(log(1 / delta) / N) of the population's, so that clusters are found from (C / epsilon)^2 rows",
            verdict(good, 1),
            "Rule: with C = 4, as the proof has it, farther in at most a share delta of samples, for delta 0.5, 0.1, 0.05 and 0.01. Two normals, "
            "whose HSIC is known, with correlation 0, 0.5 and 0.95 and N of 50, 200 and 800: farther in "
            f"{above} of {sum(4 * r['repeats'] for r in rows):,} cases. At delta 0.05 the bound is {min(loose):.0f} to {max(loose):.0f} times the "
            f"deviation that 95% of the samples keep; that falls as N^-1 at correlation 0 ({rates[0.0][0]:.4f}, {rates[0.0][1]:.4f}, "
            f"{rates[0.0][2]:.5f}) and as N^-1/2 at 0.5 ({rates[0.5][0]:.3f}, {rates[0.5][1]:.4f}, {rates[0.5][2]:.4f}): the statistic is degenerate, "
            "as the proof says of all, for independent predictions alone. The lemma is of a fixed bandwidth and of HSIC; clusters are made by CKA with the "
            "median bandwidth. With that, N = (4 / epsilon)^2 and a true CKA of 1 - epsilon, the estimate was farther than epsilon in "
            + ", ".join(f"{r['above']} of {r['repeats']} samples (epsilon {r['epsilon']}, N = {r['n']:,}, at most {r['most']:.3f})" for r in f["recovery"])
            + f". Random rows of real pools against all rows: farther than the bound in {sum(s['above'] for s in subsets)} of "
            f"{sum(s['pairs'] for s in subsets):,} pairs; 95% within " + ", ".join(f"{s['q95']:.3f} ({n}, N = {s['n']:,})" for n, s in far.items()) + ".",
            KERNEL)


def blocks(kernel, bounds):
    small, pools = kernel["small"], each_pool(bounds)
    within = {n: r for n, r in pools.items() if r["largest_cluster"] > 1}
    met = sum(r["epsilon_pearson"] <= r["epsilon"] for r in within.values())
    across = sum(r["mu_pearson"] <= r["mu"] for r in pools.values())
    return ("Lemma on blocks: CKA of at least 1 - epsilon in a cluster makes correlations 1 - O(epsilon), CKA of at most mu across makes them at most mu",
            "did not hold",
            f"Rule: no exception. One prediction of five classes and the same with its classes turned: CKA {small['turned']['least_cka']:.3g}, "
            f"correlation {small['turned']['correlation']:.2f}; x and -x: {small['minus']['cka']:.3g} and {small['minus']['pearson']:.3g}. Across: "
            f"two normals with correlation {small['half']['pearson']:.2f} have a CKA of {small['half']['cka']:.2f}. On real pools at 0.85 correlations within "
            f"clusters are nearer to 1 than CKA on {met} of {len(within)}; across them the largest correlation is at most the largest CKA on {across} of "
            f"{len(pools)}. Small cases are also in tests/test_spectral.c.", KERNEL)


def largest(f):
    turned, rows = f["small"]["turned"], f["conference"]
    return ("Lemma: the largest eigenvalue is at least the largest cluster times 1 - epsilon", "did not hold",
            f"Rule: no exception. Five predictions that are one with its classes turned have CKA {turned['least_cka']:.3g}, so epsilon 0; the largest "
            f"eigenvalue is {turned['largest']:.3f}, and {turned['claimed']:.0f} is said. With epsilon of the absolute correlations: unit diagonal and c times a "
            "symmetric conference matrix of order n has the largest eigenvalue 1 + c sqrt(n - 1), less than the n c that is said for c above 1 / (n - sqrt(n - 1)): "
            + "; ".join(f"n = {r['order']}, above {r['fails_above']:.4f} (of at most {r['most']:.3f}), up to {r['worst']:.2f} times" for r in rows)
            + ". It follows where no correlation within the cluster is negative. (i) and (iii) of the spectral proposition rest on it. "
            "tests/test_spectral.c has three classes, and n = 6.", KERNEL)


def smallest(f):
    row = f["small"]["least"]
    return ("Lemma: the smallest eigenvalue is at most 1 - (G - 1) mu", "did not hold",
            "Rule: no exception. Three heads with correlations 0.4, 0 and 0, one a cluster: "
            f"{row['measured']:.1f}, and at most {row['claimed']:.1f} is said. Gershgorin's discs bound it from below, not from above. {TESTS}", BOUNDS)


# ---- penalty, risk and out-of-fold estimates: experiments/risk ------------------------------------------------------

def optimal_penalty(f):
    rows = f["penalty"]["sizes"]
    ratios = [r["penalty"]["star"] / r["penalty"]["best"] for r in rows]
    met = sum(abs(r - 1) <= 0.1 for r in ratios)
    last = rows[-1]
    return ("Proposition: lambda* minimises the expected excess risk, up to a factor that goes to 1 as N grows", "held" if met == len(rows) else "did not hold",
            f"Rule: within 10% of the best penalty at each N. Planted: {f['penalty']['members']} members in {f['penalty']['clusters']} clusters with isotropic "
            "noise, a linear target, the noise known. lambda* over the best penalty at N = " + ", ".join(f"{r['n']:,}" for r in rows) + ": "
            + ", ".join(f"{v:.1f}" for v in ratios) + ". Its excess risk over the least: "
            + ", ".join(f"{r['excess']['star'] / r['excess']['best']:.1f}" for r in rows)
            + f". lambda* does not fall with N, the best penalty does; so does that of the proof's own formula ({rows[0]['formula']:.2f} to "
            f"{last['formula']:.3f}).", RISK)


def penalty_interval(f):
    faint, pools = f["penalty"]["faint"], f["pools"]
    inside = sum(p["inside"] for p in pools.values())
    return ("Proposition: lambda* lies between the edge of the noise and the largest eigenvalue of the signal", "did not hold",
            "Rule: no exception. One head in twenty members of which nine tenths are noise: "
            f"lambda* is {faint['star']:.1f}, and {faint['edge']:.1f} to {faint['signal']:.1f} is said; with nothing below the edge it is 0. "
            f"In the worlds of the row before it is inside in {sum(r['inside'] for r in f['penalty']['sizes'])} of "
            f"{sum(r['repeats'] for r in f['penalty']['sizes'])} samples, and on {inside} of {len(pools)} real pools (`corestack inspect`).", RISK)


def cv_elimination(f):
    rows = f["penalty"]["sizes"]
    ratios = [r["excess"]["star"] / r["excess"]["cv"] for r in rows]
    return ("Corollary: lambda* in place of cross-validation leaves the excess risk as it is, up to a factor that goes to 1",
            "held" if abs(ratios[-1] - 1) <= 0.1 and ratios[-1] <= ratios[0] else "did not hold",
            "Rule: within 10% at the largest N. Excess risk with lambda* over that with five-fold cross-validation, same worlds: "
            + ", ".join(f"{v:.1f} (N = {r['n']:,})" for v, r in zip(ratios, rows))
            + f". Cross-validation is within {100 * (max(r['excess']['cv'] / r['excess']['best'] for r in rows) - 1):.0f}% of the best.", RISK)


def theorem_holds(f):
    rows = f["theorem"]
    sides = [r[s] for r in rows for s in ("full", "kept")]
    cases = sum(2 * r["repeats"] for r in rows)
    above, excess = sum(s["above"] for s in sides), sum(s["excess_above"] for s in sides)
    worst = max(rows, key=lambda r: r["full"]["excess_above"])
    gap = [(s["term"] + s["phi"]) / s["gap"] for s in sides if s["gap"] > 0.005]
    units = f["units"]
    missed = max(u["above"] / u["repeats"] for u in units)
    return ("Theorem: the PAC-Bayes bound holds; as a bound of the excess risk it falls as N^-1/2",
            "did not hold" if above > 0.05 * cases or missed > 0.05 else "held under conditions" if excess else "held",
            "Rule: risk of the posterior above its empirical risk by more than the bound in at most 5% of samples, delta 0.05; a failure as a bound of the "
            f"excess over the best linear weights is a condition. Planted, all bounded: 4 clusters of 1, 3 and 8 copies, N from {rows[0]['n']} to {rows[-1]['n']:,}, no gate. Risk: "
            f"above in {above} of {cases:,} samples; the bound is {min(gap):.0f} and more times the mean gap. Excess: above in {excess:,}, "
            f"{worst['full']['excess_above']} of {worst['repeats']} with {worst['members']} members and N = {worst['n']:,} (excess {worst['full']['excess']:.3f}, "
            f"bound {worst['full']['term'] + worst['full']['phi']:.3f}), since lambda* leaves an excess that does not fall with N. The same target in units a thousand times smaller, where loss grows by a million and the "
            "bound by about a thousand: risk above the bound in " + ", ".join(f"{u['above']} of {u['repeats']} (N = {u['n']:,})" for u in units)
            + ". The theorem is of losses in [0, 1] and does not say so; nor may the prior be made from the rows that are counted.", RISK)


def factor(risk, bounds):
    pools = {n: r for n, r in each_pool(bounds).items() if r["pac_bayes"]["total"] is not None}

    def gain(r):
        more, before, after = r["pac_bayes"]["dimensions"], r["members"], r["kept"]  # kept members, aggregators, parameters of the gate
        mu = 1 / (before - 1)  # the larger, the larger the gain; more is not incoherent before the projection
        return ((more + before - after) / more * (1 + (before - 1) * mu) / (1 + (after - 1) * mu)) ** 0.5

    gains = {n: (gain(r), (r["members"] / r["kept"]) ** 0.5) for n, r in pools.items()}
    met = sum(g >= c * (1 - 1e-9) for g, c in gains.values() if c > 1)
    cases = sum(c > 1 for _, c in gains.values())
    last = [r for r in risk["theorem"] if r["copies"] > 1 and r["n"] == risk["theorem"][-1]["n"]]
    return ("The projection makes Phi, and the bound, smaller by sqrt(K / G), at least sqrt of the largest cluster", "did not hold" if met < cases else "held",
            f"Rule: met on every pool. Phi has sqrt(G + 12 + parameters of the gate) sqrt(1 + (G - 1) mu). Met on {met} of {cases} pools by preset `paper`, with mu = 1/(K - 1), the "
            "most that the assumption allows before the projection: "
            + "; ".join(f"{n} {g:.3f} where {c:.2f} is said" for n, (g, c) in gains.items() if c > 1)
            + ". Without a gate, in planted worlds, B is not what it was: weights of copies share one effect. Phi before (G = K) and after: "
            + "; ".join(f"{r['copies']} copies {r['full']['phi'] * r['copies'] ** 0.5:.4f}, {r['kept']['phi']:.4f}" for r in last)
            + ", and the risk goes up, " + "; ".join(f"{r['full']['risk']:.2f} to {r['kept']['risk']:.2f}" for r in last)
            + ", as a mean of copies has less noise. K / G is the mean size of a cluster, so never above the largest.", RISK)


def rademacher(f):
    cases = f["rademacher"]["planted"] + list(f["rademacher"]["pools"].values())
    met = sum(c["measured"] <= c["bound"] * 1.01 for c in cases)
    ratios = [c["measured"] / c["bound"] for c in cases]
    return ("Proposition: empirical Rademacher complexity of weights of norm B is at most B sqrt(tr / N)", verdict(met, len(cases)),
            f"Rule: met on every design; it follows by Jensen's inequality. Met on {met} of {len(cases)} (three planted, {len(f['rademacher']['pools'])} pools), by 400 "
            f"draws of signs: {min(ratios):.2f} to {max(ratios):.2f} of the bound. It is of linear functions of fixed columns: the parameters of a gate, which d_eff counts, are none.",
            RISK)


def unbiased(f):
    r = f["out_of_fold"]
    good = abs(r["bias"]) <= 3 * r["error"]
    return ("Corollary: out-of-fold risk is unbiased", verdict(good, 1),
            f"Rule: within three standard errors of the true mean risk of the folds' fits, {r['repeats']:,} planted samples of N = {r['n']}, five folds: "
            f"{r['bias']:+.4f} (standard error {r['error']:.4f}) at a risk of {r['risk']:.3f}. It is of these fits, not of the one to all rows, whose risk is "
            f"{r['whole']:.3f}; and not of the best of several: the least of {r['models']} estimates is {-r['picked']:.3f} too small (standard error "
            f"{r['picked_error']:.4f}).", RISK)


def leak_definition(f):
    pools = f["pools"]
    beat = sum(p["best"] > p["chance"] for p in pools.values())
    return ("Definition and proposition: out-of-fold features are independent of their own label, given the other folds", "did not hold",
            "Rule: no exception. As it is written features that are independent of the label predict nothing; "
            f"the best member's out-of-fold predictions beat the commonest class on {beat} of {len(pools)} pools, by "
            f"{100 * min(p['best'] - p['chance'] for p in pools.values()):.0f} points and more. What holds by construction is independence given x_i as well; "
            "that nothing else comes in is the row on nested scores.", RISK)


def flat_hessians(f):
    r = f["laplace"]
    return ("Remark: Laplace weights are small for learners with flat Hessians", "did not hold",
            "Rule: by the formula. Weights go as exp(-L - log det H / 2), so that of two learners with one loss and log det H of 0 and 13.8 "
            f"the flat one has {r['flat']:.4f} and the curved one {r['curved']:.4f}: flat Hessians are weighed up.", RISK)


def gate_capacity(f):
    rows = 128000
    stated, true, leading = 0.011, (15000 / rows) ** 0.5, (6 / rows) ** 0.5
    return ("The gate's sqrt(p / N) is about 0.011 at N = 128,000, negligible beside sqrt(G / N)", "did not hold",
            f"Rule: by arithmetic. sqrt(15,000 / 128,000) is {true:.3f}; {stated} is that of 15 parameters, and more than sqrt(6 / 128,000) = {leading:.4f} too. "
            f"Gates of preset `paper` have {min(g for g in parameters(f)):.0f} to {max(g for g in parameters(f)):.0f} parameters on our pools, beside "
            f"{min(r['kept'] for r in each_pool(f).values())} to {max(r['kept'] for r in each_pool(f).values())} members.", BOUNDS)


def parameters(f):
    return [r["pac_bayes"]["dimensions"] - r["kept"] - 12 for r in each_pool(f).values() if r["pac_bayes"]["total"] is not None]


def tighter(f):
    rows = {n: (r, f["prototype"][n]) for n, r in each_pool(f).items()
            if r["pac_bayes"]["total"] is not None and f["prototype"][n]["pac_bayes"]["total"] is not None}
    fewer = {n: v for n, v in rows.items() if v[0]["kept"] < v[1]["kept"]}
    met = sum(r["pac_bayes"]["total"] < p["pac_bayes"]["total"] for r, p in fewer.values())
    phi = sum(r["pac_bayes"]["phi"] <= p["pac_bayes"]["phi"] for r, p in rows.values())
    return ("Corollaries: CoRe-Stack+ contains its prototype, its Phi is no larger, and its bound is tighter where it keeps fewer members", "did not hold"
            if met < len(fewer) or phi < len(rows) else "held",
            f"Rule: Phi no larger on each pool, the bound smaller on each where it keeps fewer members. Met on {phi} of {len(rows)} and {met} of {len(fewer)}. Phi of "
            "`paper` and of `prototype`: " + "; ".join(f"{n} {r['pac_bayes']['phi']:.2f} ({r['kept']} members), {p['pac_bayes']['phi']:.2f} ({p['kept']})"
                                                     for n, (r, p) in rows.items())
            + ". Six aggregators without a gate became twelve and its parameters, which Phi counts. A sigmoid is never 0 or 1, so that the prototype is a limit of gates and "
            "none of them.", BOUNDS)


# ---- gate: experiments/gate -----------------------------------------------------------------------------------------

def universal(f):
    family = f["family"]
    inside = {n: r for n, r in family.items() if r["rms_least"] == 0}
    outside = {n: r for n, r in family.items() if r["rms_least"] > 0}
    tool = f["tool"]
    return ("Proposition: the gate comes near every continuous function of predictions and aggregators", "did not hold",
            "Rule: no exception. Gates lie in [0, 1] and aggregators are not negative, so what is reached lies between 0 and their sum: "
            + "; ".join(f"`{n}` cannot be reached nearer than {r['rms_least']:.2f} (root mean square), trained gates come to {r['widths'][-1]['rms']:.2f}" for n, r in outside.items())
            + ". Between 0 and the sum it follows from the theorems on networks of one hidden layer (Cybenko 1989, Hornik 1991; for ReLU Leshno et al. 1993) where aggregators are functions of "
            "p, as with two classes; they say that some gate of some width is near, of which no fit is a proof, and not which training finds it. Trained here, root mean square error at widths "
            + ", ".join(str(w["width"]) for w in next(iter(family.values()))["widths"]) + ": "
            + "; ".join(f"`{n}` " + ", ".join(f"{w['rms']:.4f}" for w in r["widths"]) + f" (largest {r['widths'][-1]['largest']:.2f}, deviation of the function {r['deviation']:.2f})"
                        for n, r in inside.items())
            + f". The tool's gate and ridge on {f['rows']:,} labels drawn with a planted probability that treats both classes alike, as its design does: " + "; ".join(
                f"`{n}` " + ", ".join(f"{w['rms']:.4f} ({w['mode']}{' ' + str(w['width']) if w['width'] else ''})" for w in r["fits"]) for n, r in tool.items())
            + ".", "experiments/gate/run.py")


# ---- time and sizes: experiments/complexity -------------------------------------------------------------------------

COMPLEXITY = "experiments/complexity/run.py"


def cka_growth(f):
    g = f["growth"]
    met = (g["slopes"]["exact"] <= 2.2) + (g["slopes"]["nystrom"] <= 1.2)
    return ("CKA takes K^2 N^2 exactly and K^2 N log N with sqrt(N) landmarks", "held" if met == 2 else "did not hold",
            f"Rule: user seconds grow with a power of N of at most 2.2 and 1.2, {g['members']} members, last step, one run. Exact "
            f"{g['slopes']['exact']:.2f}, with landmarks {g['slopes']['nystrom']:.2f}. Seconds: " + "; ".join(
                how + " " + ", ".join(f"{r['seconds']:.2f} (N = {r['rows']:,})" for r in g[rule]) for rule, how in (("exact", "exact"), ("nystrom", "landmarks")))
            + ". By count the products of features of all pairs of members take K^2 N m^2 / 2, and m^2 = N there: the order is K^2 N^2, with a small "
            "constant ([redundancy.md](redundancy.md)).", COMPLEXITY)


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
