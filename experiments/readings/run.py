#!/usr/bin/python3
"""What the paper says, what it leaves open, what we chose, and what the choice changes: the table in docs/method.md.

    experiments/readings/run.py [--pools DIR]... [--only POOL]... [--tool TOOL]
    experiments/readings/run.py --write-only      # measures nothing: writes the table again from figures.json

Each row changes one option of preset `paper` or `prototype`. The figures are nested scores of split oof.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAGE = common.ROOT / "docs" / "method.md"
FIGURES = pathlib.Path(__file__).with_name("figures.json")
BEGIN, END = "<!-- begin readings: experiments/readings/run.py -->", "<!-- end readings -->"
POOLS = {"digits": "nll", "cifar10": "nll", "concrete": "rmse"}

# Stage, what the paper says, what it leaves open, what is chosen where, preset that is changed, settings of the other reading.
ROWS = [
    ("S1", "CKA above tau = 0.85, Nyström with m = ⌈√N⌉ landmarks", "how landmarks are drawn",
     "`cka.estimator=nystrom`, `cka.landmark_rule=uniform` in `paper`; `auto` and `residual` elsewhere", "paper", ["cka.estimator=exact"]),
    ("S1", "a removed model resembles a kept one and some kept model has strictly lower risk", "whether they are the same one; the risk",
     "the same one; NLL, in a regression the squared error: `redundancy.ties=keep` in `paper` and `prototype`, `drop` elsewhere", "paper",
     ["redundancy.ties=drop"]),
    ("S1", "the prototype removes by Pearson correlation", "the threshold", "`pearson.threshold=0.95`", "prototype", ["pearson.threshold=0.9"]),
    ("S2", "a gate of two layers, at most 15,000 parameters, trained with the meta-regression loss", "width, training, its rows",
     "32 units, Adam, early stopping (`gate.*`); the head is refitted", "paper", ["gate.mode=prototype"]),
    ("S3", "λ\\* from the normalised Gram of the out-of-fold columns, γ = K/N", "all or the kept members, out-of-fold columns or meta-features",
     "kept members: `spectrum.of=oof` in `paper` and `prototype`, `meta` elsewhere", "paper", ["spectrum.of=meta"]),
    ("S3", "σ² by the median of the smallest eigenvalues, or by the Marchenko-Pastur equation", "which; how many are smallest",
     "`lambda.noise=median`, of the lower half", "paper", ["lambda.noise=mp"]),
    ("S3", "λ\\* is the ridge's", "penalties of elastic net and lasso", "λ\\* for all three (`elastic_net.l1_ratio=0.5`); the lasso is often empty", "paper",
     ["lambda.rule=cv"]),
    ("S3", "the prototype's λ by cross-validation on a log-spaced grid", "the grid (50 points in its cost table)", "61 points from 1e-8 to 100", "prototype",
     ["lambda.rule=gcv"]),
    ("S4", "L and H of one loss, in the marginal likelihood", "the noise; held-out or training loss; H with the prior",
     "held-out squared error as below: `blend.evidence=same-loss` in `paper`", "paper", ["blend.evidence=nll"]),
    ("S4", "gate and posterior take a model out by near-zero mass", "what near zero is",
     "no learner with a weight of 1e-6 or more reads it; `refit.drop=false`", "paper", ["refit.drop=true"]),
    ("S4", "scores are blended", "how linear scores become probabilities", "`probability.map=clip` at 1e-6, in all presets, before the blend", "paper",
     ["probability.map=simplex"]),
    ("all", "the sum of these", "", "what `paper` was until now", "paper",
     ["cka.estimator=auto", "redundancy.ties=drop", "spectrum.of=meta", "blend.evidence=nll", "refit.drop=true"]),
]


def nested(options, manifest, preset, settings):
    words = [w for s in settings for w in ("--set", s)]
    report = common.corestack(options, "fit", manifest, "--preset", preset, "-o", "/dev/null", "--seed", options.seed, *words)
    return {"score": report["oof"][POOLS[manifest.parent.name]], "kept": report["models_kept"]}


def measure(options):
    found = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name, manifest in common.find_pools(options, list(POOLS)).items():
        found[name] = {preset: nested(options, manifest, preset, []) for preset in ("paper", "prototype")}
        for *_, preset, settings in ROWS:
            found[name][" ".join([preset, *settings])] = nested(options, manifest, preset, settings)
        FIGURES.write_text(json.dumps({"version": common.version(options), **found}, indent=1) + "\n")


def table(found):
    pools = [p for p in POOLS if p in found]

    def cell(pool, preset, settings):
        before, after = found[pool][preset], found[pool][" ".join([preset, *settings])]
        show = (lambda f: f"{f['score']:.4f} ({f['kept']})") if POOLS[pool] == "nll" else (lambda f: f"{f['score']:.3f} ({f['kept']})")
        return show(before) + " → " + show(after)

    rows = [[stage, says, still, ours, "`" + "`, `".join(settings) + "`" + (" in `prototype`" if preset == "prototype" else ""),
             *(cell(p, preset, settings) for p in pools)] for stage, says, still, ours, preset, settings in ROWS]  # fmt: skip
    return common.table(["", "the paper", "left open", "our choice", "changed to", *pools], rows)


def main():
    options = common.arguments(__doc__)
    if not options.write_only:
        measure(options)
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(table(json.loads(FIGURES.read_text()))).strip() + "\n" + END + after)


if __name__ == "__main__":
    main()
