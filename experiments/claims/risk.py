"""Rows of experiments/claims.md on the penalty, the bound of the risk, blending and out-of-fold estimates: functions of figures, like those of run.py."""
from theory import BOUNDS, RISK, TESTS, each_pool, parameters, runs, statement, verdict


# ---- penalty --------------------------------------------------------------------------------------------------------

def optimal_penalty(f):
    rows = f["penalty"]["sizes"]
    ratios = {k: [r["penalty"][k] / r["penalty"]["best"] for r in rows] for k in ("star", "mean")}
    risks = {k: [r["excess"][k] / r["excess"]["best"] for r in rows] for k in ("star", "mean")}
    return ("Proposition: lambda* minimises the expected excess risk, up to a factor that goes to 1 as N grows",
            statement(*(abs(r[-1] - 1) <= 0.1 for r in ratios.values()), intended=[risks["star"][-1] <= 1.1]),
            "Rule: as written, within 10% of the best penalty at the largest N; as intended, an excess risk within 10% of the least there. "
            f"Simulated: {f['penalty']['members']} members in {f['penalty']['clusters']} clusters with isotropic "
            "noise, a linear target and a known noise level, N = " + ", ".join(f"{r['n']:,}" for r in rows)
            + ". Added to X'X, as in the paper's formula of the ridge (`lambda.scale=sum`), lambda* is "
            + ", ".join(f"{v:.3f}" for v in ratios["star"]) + " times the best penalty, and its excess risk is " + ", ".join(f"{v:.3f}" for v in risks["star"])
            + " times the least. Added to X'X/n, the unit of the proof (`mean`), it is " + ", ".join(f"{v:.1f}" for v in ratios["mean"])
            + " times the best penalty, with " + ", ".join(f"{v:.1f}" for v in risks["mean"])
            + f" times the least excess risk. The penalty that minimises the risk as written in the proof falls from {rows[0]['formula']:.2f} to {rows[-1]['formula']:.3f}; "
            "lambda* of X'X/n does not fall.", RISK)


def penalty_interval(f):
    faint, bare, pools, sizes = f["penalty"]["faint"], f["penalty"]["bare"], f["pools"], f["penalty"]["sizes"]
    inside, inside_meta = (sum(p.get(key, False) for p in pools.values()) for key in ("inside", "inside_meta"))
    return ("Proposition: lambda* lies between the edge of the noise and the largest eigenvalue of the signal",
            statement(faint["edge"] <= faint["star"] <= faint["signal"], bare["star"] >= bare["edge"], all(r["inside"] == r["repeats"] for r in sizes), inside == len(pools)),
            f"Rule: no exception. One head in twenty members that are nine tenths noise: lambda* is {faint['star']:.1f}, {faint['edge']:.1f} to {faint['signal']:.1f} is claimed. Four "
            f"members without copies, three tenths noise: all eigenvalues are above the edge, so lambda* is {bare['star']:.3g}, at least {bare['edge']:.1f} is claimed. In the simulations of the previous "
            f"row it is inside in {sum(r['inside'] for r in sizes)} of {sum(r['repeats'] for r in sizes)} samples, and on {inside} of {len(pools)} real pools (`corestack inspect --set spectrum.of=oof`; {inside_meta} with `spectrum.of=meta`).", RISK)


def cv_elimination(f):
    rows = f["eliminated"]
    ratios = [r["bound"]["star"] / r["bound"]["cv"] for r in rows]
    mean = [r["bound"]["mean"] / r["bound"]["cv_mean"] for r in rows]
    return ("Corollary: lambda* in place of cross-validation does not change the bound of the theorem, up to a factor that goes to 1",
            statement(abs(ratios[-1] - 1) <= max(abs(ratios[0] - 1), 0.01)),
            "Rule: at the largest N the factor is within 1%, or closer to 1 than at the smallest. The bound (empirical risk plus the theorem's terms) with lambda*, relative to that with five-fold "
            "cross-validation, in the same simulations: " + ", ".join(f"{v:.3f} (N = {r['n']:,})" for v, r in zip(ratios, rows))
            + f". The theorem's terms are {rows[-1]['added']['star']:.3f} and {rows[-1]['added']['cv']:.3f} at the largest N. With lambda* added to X'X/n the factor is "
            + ", ".join(f"{v:.3f}" for v in mean) + ".", RISK)


def cv_risk(f):
    rows = f["penalty"]["sizes"]
    ratios, mean = ([r["excess"][k] / r["excess"]["cv"] for r in rows] for k in ("star", "mean"))
    return ("lambda* in place of cross-validation loses nothing (\"without optimality loss\")", statement(abs(ratios[-1] - 1) <= 0.1),
            "Rule: within 10% at the largest N. Excess risk with lambda*, relative to that with five-fold cross-validation, in the same simulations: "
            + ", ".join(f"{v:.3f} (N = {r['n']:,})" for v, r in zip(ratios, rows)) + "; added to X'X/n instead of X'X " + ", ".join(f"{v:.1f}" for v in mean)
            + f". Cross-validation is within {100 * (max(r['excess']['cv'] / r['excess']['best'] for r in rows) - 1):.0f}% of the best. The row on the 5% has real pools.", RISK)


# ---- the bound of the risk ------------------------------------------------------------------------------------------

def rademacher(f):
    cases = f["rademacher"]["planted"] + list(f["rademacher"]["pools"].values())
    met = sum(c["measured"] <= c["bound"] * 1.01 for c in cases)
    ratios = [c["measured"] / c["bound"] for c in cases]
    return ("Proposition: empirical Rademacher complexity of weights of norm B is at most B sqrt(tr / N)", statement(met == len(cases)),
            f"Rule: no exception beyond 1%, since it is estimated from 400 draws of signs. It follows from Jensen's inequality. Met on {met} of {len(cases)} designs (three simulated, "
            f"{len(f['rademacher']['pools'])} pools): {min(ratios):.2f} to {max(ratios):.2f} of the bound. It is about linear functions of fixed columns; the paper also counts the parameters of the gate, which are not columns.", RISK)


def theorem_holds(f):
    rows, units = f["theorem"], f["units"]
    sides = [(r, r[s]) for r in rows for s in ("full", "kept")]
    above, cases = sum(s["above"] for _, s in sides), sum(r["repeats"] for r, _ in sides)
    gap = [(s["term"] + s["phi"]) / s["gap"] for _, s in sides if s["gap"] > 0.005]
    return ("Theorem: the PAC-Bayes bound of the risk holds with probability 1 - delta",
            statement(*(s["above"] <= 0.05 * r["repeats"] for r, s in sides), *(u["above"] <= 0.05 * u["repeats"] for u in units)),
            "Rule: the risk of the posterior is above the bound in at most 5% of the samples of each case, delta 0.05. Simulated, with everything bounded: 4 clusters of 1, 3 and 8 copies, N from "
            f"{rows[0]['n']} to {rows[-1]['n']:,}, no gate. Above in {above} of {cases:,} samples; the bound adds at least {min(gap):.0f} times what is needed on average. With "
            "the target in units a thousand times smaller, the loss grows by a million and the bound by about a thousand; the risk is above it in "
            + ", ".join(f"{u['above']} of {u['repeats']} (N = {u['n']:,})" for u in units)
            + ". The divergence term is that for losses in [0, 1], which the theorem does not state: its targets are bounded by any B_y. The prior is made from the rows that are counted, "
            "as the paper admits.", RISK)


def theorem_excess(f):
    rows = f["theorem"]
    sides = [(r, r[s]) for r in rows for s in ("full", "kept")]
    above, cases = sum(s["excess_above"] for _, s in sides), sum(r["repeats"] for r, _ in sides)
    worst, side = max(sides, key=lambda c: c[1]["excess_above"])
    where = "." if above == 0 else (
        f", namely in {'all' if side['excess_above'] == worst['repeats'] else side['excess_above']} of the {worst['repeats']} with {worst['members']} members and "
        f"N = {worst['n']:,}{'' if side['excess_above'] == above else ' and in ' + str(above - side['excess_above']) + ' other'}. There the excess is {side['excess']:.3f} on average and the bound adds "
        f"{side['term'] + side['phi']:.3f}.")
    last = rows[-1]["kept"]
    return ("The PAC-Bayes bound bounds the excess risk, which falls as N^-1/2", statement(*(s["excess_above"] <= 0.05 * r["repeats"] for r, s in sides)),
            "Rule: the risk exceeds that of the best linear weights by more than the bound adds in at most 5% of the samples of each case, in the simulations of the previous row, with a loss of the order of 1. "
            f"It exceeds it in {above} of {cases:,} samples{where} At the largest N the excess is {last['excess']:.4f} and the bound adds {last['term'] + last['phi']:.3f}.", RISK)


def paper_pac(f):
    cases = [(n, r) for n, r in runs(f) if r["pac_bayes"]["total"] is not None]
    says = sum(not r["pac_bayes"]["vacuous"] for _, r in cases)
    over = {n: r["pac_bayes"]["total"] / r["pac_bayes"]["trivial"] for n, r in cases}
    least, most = min(over, key=over.get), max(over, key=over.get)
    beyond = [r["holdout"]["bound"] - r["holdout"]["error"] for _, r in cases]
    return ("The PAC-Bayes bound is informative for stacks of this size", verdict(says, len(cases)),
            f"Rule: it is less than the squared error without any member. Met in {says} of {len(cases)} fits: it is {over[least]:.1f} ({least}) to "
            f"{over[most]:,.0f} ({most}) times that error. For comparison, the exact binomial bound on the top-1 error is {100 * min(beyond):.1f} to {100 * max(beyond):.1f} points "
            "above the measured error. All fits are in [results.md](results.md), \"Bounds\".", BOUNDS)


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
            "Rule: no exception, for preset `paper`, the same B before and after, and mu = 1/(K - 1), the largest value that the assumption allows before the projection. Phi contains sqrt(G + 12 + parameters of the "
            f"gate), of which G is a small part. Met on {met} of {len(gains)} pools. Factor, and the claimed one: "
            + "; ".join(f"{n} {g:.2f}, {c:.2f}" for n, (g, c) in gains.items())
            + ". In simulations without a gate B is not the same, because the weights of copies share one effect. Phi before, with K for G, and after: "
            + "; ".join(f"{r['full']['phi'] * r['copies'] ** 0.5:.4f} and {r['kept']['phi']:.4f} ({r['copies']} copies)" for r in last)
            + ". The risk rises, " + "; ".join(f"{r['full']['risk']:.2f} to {r['kept']['risk']:.2f}" for r in last) + ", because a mean of copies has less noise.", RISK)


def factor_least(f):
    pools = {n: (r["members"] / r["clusters"], r["largest_cluster"]) for n, r in each_pool(f).items()}
    met = sum(mean >= most for mean, most in pools.values())
    return ("sqrt(K / G) is at least the square root of the largest cluster", statement(met == len(pools)),
            f"Rule: no exception. K / G is the mean size of a cluster, so never above the largest. Met on {met} of {len(pools)} pools, where all members are one cluster. Mean and largest size at 0.85: "
            + "; ".join(f"{n} {mean:.1f}, {most}" for n, (mean, most) in pools.items()) + ".", BOUNDS)


def compared(f):
    """{pool: (fit of `paper`, fit of the prototype)} where both have the paper's bound."""
    return {n: (r, f["prototype"][n]) for n, r in each_pool(f).items()
            if r["pac_bayes"]["total"] is not None and f["prototype"][n]["pac_bayes"]["total"] is not None}


def contains(f):
    rows = compared(f)
    phi = sum(r["pac_bayes"]["phi"] <= p["pac_bayes"]["phi"] for r, p in rows.values())
    same = sum(r["pac_bayes"]["dimensions"] <= p["pac_bayes"]["dimensions"] for r, p in rows.values())
    return ("Corollary: CoRe-Stack+ contains its prototype, so its Phi is no larger", statement(phi == len(rows)),
            f"Rule: Phi no larger on each pool. Met on {phi} of {len(rows)}. Phi counts members, aggregators and the gate's parameters; the prototype has six aggregators and no gate. The count of `paper` is smaller on "
            f"{same} of {len(rows)} pools, so the result is the same with one B for both. Phi of `paper` and of `prototype`, and counts: "
            + "; ".join(f"{n} {r['pac_bayes']['phi']:.2f} ({r['pac_bayes']['dimensions']:.0f}), {p['pac_bayes']['phi']:.2f} ({p['pac_bayes']['dimensions']:.0f})" for n, (r, p) in rows.items())
            + ". A sigmoid is never 0 or 1, so the prototype is only a limit of gates. A larger class cannot have a smaller complexity.", BOUNDS)


def tighter(f):
    fewer = {n: v for n, v in compared(f).items() if v[0]["kept"] < v[1]["kept"]}
    met = sum(r["pac_bayes"]["total"] < p["pac_bayes"]["total"] for r, p in fewer.values())
    return ("Corollary: the bound is tighter than the prototype's where CoRe-Stack+ keeps fewer members", statement(met == len(fewer)),
            f"Rule: no exception. Met on {met} of {len(fewer)} pools. Bound of `paper` and of `prototype`, and members: "
            + "; ".join(f"{n} {r['pac_bayes']['total']:.2f} ({r['kept']}), {p['pac_bayes']['total']:.2f} ({p['kept']})" for n, (r, p) in fewer.items())
            + ". The gate's parameters outweigh the members that it saves.", BOUNDS)


def gate_capacity(f):
    c, gates, kept = f["small"]["capacity"], parameters(f), [r["kept"] for r in each_pool(f).values()]
    return ("The gate's sqrt(p / N) is about 0.011 at N = 128,000, negligible compared with sqrt(G / N)",
            statement(abs(c["gate"] / c["stated"] - 1) <= 0.1, c["gate"] <= 0.1 * c["leading"]),
            f"Rule: 0.011 within 10%, and at most a tenth of sqrt(G / N), with the paper's 15,000 parameters and six members. sqrt(15,000 / 128,000) is {c['gate']:.3f}, and sqrt(6 / 128,000) is "
            f"{c['leading']:.4f}. Gates of preset `paper` have {min(gates):.0f} to {max(gates):.0f} parameters on our pools, with {min(kept)} to {max(kept)} members.", BOUNDS)


# ---- blending -------------------------------------------------------------------------------------------------------

def least_variance(f):
    cases, random = [(n, r) for n, r in runs(f) if r["blending"]["minimum"] is not None], f["small"]["blends"]
    met = sum(r["blending"]["minimum"] <= r["blending"]["best"] * (1 + 1e-9) for _, r in cases)
    outside = sum(not r["blending"]["mixture"] for _, r in cases)
    return ("Theorem on blending, (i) and (ii): the least variance is (1'S^-1 1)^-1, no more than that of the best learner, by stated weights",
            statement(met == len(cases), random["weights"] == random["cases"], random["least"] == random["cases"]),
            f"Rule: no exception. It follows. {random['least']:,} and {random['weights']:,} of {random['cases']:,} random covariances have this minimum and these weights, by the "
            f"equations of a constrained minimum. No more than the best learner's on {met} of {len(cases)} fits of real pools. In {outside} of these a weight is negative, so no mixture, "
            f"which the theorem requires, attains the value. {TESTS}", BOUNDS)


def equal_variance(f):
    small = f["small"]["variance"]
    return ("Theorem on blending, (iii): the least variance equals the best learner's only where the covariance has rank 1",
            statement(abs(small["minimum"] / small["best"] - 1) > 1e-9 or small["rank"] == 1),
            f"Rule: no exception. The covariance [[1, 1], [1, 2]] has rank {small['rank']}, least variance {small['minimum']:.3g} and best learner {small['best']:.3g}. With rank 1 and "
            f"several learners the covariance has no inverse, which the theorem assumes. {TESTS}", BOUNDS)


def inverse_gap(f):
    cases = [(n, r) for n, r in runs(f) if r["blending"]["inverse_rmse"]["holds"] is not None]
    met = sum(r["blending"]["inverse_rmse"]["holds"] for _, r in cases)
    ratios = [r["blending"]["inverse_rmse"]["claimed"] / r["blending"]["inverse_rmse"]["gap"] for _, r in cases if r["blending"]["inverse_rmse"]["gap"] > 1e-12]
    how = f"; with several learners the bound is {min(ratios):.3g} to {max(ratios):.3g} times the gap" if ratios else ""
    return ("Proposition: the gap of inverse-RMSE weights is at most the largest eigenvalue times the squared distance of the weights", statement(met == len(cases)),
            f"Rule: no exception. It follows. Met on {met} of {len(cases)} fits{how}.", BOUNDS)


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
            + " of a variance of 1, and factors of " + ", ".join(f"{r['claimed']:.1g}" for r in small) + f" are claimed. One learner gets all the weight, so the gap tends to that of the "
            f"best single one. Real pools, with sigma and the constant 1: met on {met} of {len(cases)} fits with several learners; at leads of more than 20 nats, where less than 1e-17 "
            f"is claimed, the gap is {low[1]:.1g} or more ({low[0]}; {far[1]:.1g} at the largest lead, {far[2]:,.0f} nats, {far[0]}). {TESTS}", BOUNDS)


def flat_hessians(f):
    r = f["laplace"]
    return ("Remark: Laplace weights are small for learners with flat Hessians", statement(r["flat"] < r["curved"]),
            "Rule: of two learners with the same loss, the one with the flat Hessian has the smaller weight. Weights are proportional to exp(-L - log det H / 2): with log det H of 0 and 13.8 "
            f"the flat one has {r['flat']:.4f} and the curved one {r['curved']:.4f}.", RISK)


# ---- out-of-fold estimates ------------------------------------------------------------------------------------------

def leak_definition(f, bounds):
    pools = f["pools"]
    nested = [r["leakage"]["permuted"] is not None and not r["leakage"]["fit_leaks"] for _, r in runs(bounds)]
    beat = sum(p["best"] > p["chance"] for p in pools.values())
    return ("Definition and proposition: out-of-fold features are independent of their own label, given the other folds", statement(beat == 0, intended=nested),
            "Rule: no exception; as intended, no label reaches its own features by way of the fit, so that permuted labels leave nested scores at chance. Features that are independent of the label, as the definition says, would predict nothing, but "
            f"the best member's out-of-fold predictions beat the commonest class on {beat} of {len(pools)} pools, by "
            f"{100 * min(p['best'] - p['chance'] for p in pools.values()):.0f} points or more. By construction they are independent given x_i too; "
            f"with permuted labels nested scores are at chance in {sum(nested)} of {len(nested)} fits.", RISK)


def no_leak(f):
    cases = [(n, r["leakage"]["permuted"], r["leakage"]["fit_leaks"]) for n, r in runs(f)]
    met = sum(leaks is False for _, _, leaks in cases)
    above = max(cases, key=lambda c: c[1]["top1"] - c[1]["chance"])
    seen = max(cases, key=lambda c: c[1]["seen_top1"] - c[1]["chance"])
    raised = {flag: [n for n, r in runs(f) if r["leakage"][flag]] for flag in ("rows_leak", "members_leak")}
    others = "; ".join(f"`{flag}` for {' and '.join(names) if names else 'none'}" for flag, names in raised.items())
    return ("Nested scores are free of leaks", verdict(met, len(cases)),
            "Rule: with permuted labels, nested top-1 is not above the frequency of the commonest class at p < 0.001. "
            f"Met on {met} of {len(cases)} fits; the largest excess is {100 * above[1]['top1']:.1f}% where chance is {100 * above[1]['chance']:.1f} ({above[0]}). On the rows it was fitted on, a fit "
            f"reaches up to {100 * seen[1]['seen_top1']:.1f} where chance is {100 * seen[1]['chance']:.1f} ({seen[0]}). If that is near chance too, the check says little; tests/bounds/leakage.c has a fit that is far above chance, and planted "
            f"leaks that the checks find. The other two flags of `--leakage` are about pools, not about the fit: {others}.", BOUNDS)


def unbiased(f):
    r = f["out_of_fold"]
    return ("Corollary: out-of-fold risk is unbiased", statement(abs(r["bias"]) <= 3 * r["error"]),
            f"Rule: the mean difference to the true mean risk of the folds' fits is within three standard errors of 0, over {r['repeats']:,} simulated samples of N = {r['n']}, five folds. It is "
            f"{r['bias']:+.4f} (standard error {r['error']:.4f}) at a risk of {r['risk']:.3f}. It is unbiased for these fits, as the paper states. The fit to all rows has {r['whole']:.3f}, and the "
            f"least of {r['models']} such estimates is too small by {-r['picked']:.3f} (standard error {r['picked_error']:.4f}).", RISK)
