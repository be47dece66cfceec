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
    ("S1", "Nyström with m = ⌈√N⌉ landmarks", "how they are drawn",
     "uniformly: `cka.estimator=nystrom`, `cka.landmark_rule=uniform` in `paper`; else exact or by residual", "paper", ["cka.estimator=exact"]),
    ("S1", "the same", "how often", "once; `cka.draws` averages", "paper", ["cka.draws=10"]),
    ("S1", "a removal needs a retained model of strictly lower risk", "which one; the risk",
     "the similar one; NLL or squared error: `redundancy.ties=keep` in `paper`, `prototype`; else `drop`", "paper", ["redundancy.ties=drop"]),
    ("S1", "prototype: Pearson correlation", "the threshold", "`pearson.threshold=0.95`", "prototype", ["pearson.threshold=0.9"]),
    ("S2", "a two-layer gate of at most 15,000 parameters, trained end to end", "width, training", "`gate.*`; the head is refitted", "paper",
     ["gate.mode=prototype"]),
    ("S3", "λ\\* from the out-of-fold Gram, γ = K/N", "all or kept members; no signal (one member)", "kept; then GCV: `spectrum.of=oof` in `paper`, `prototype`; else `meta`", "paper",
     ["spectrum.of=meta"]),
    ("S3", "the ridge is (X'X + λI)⁻¹X'y and the prior N(0, I/λ\\*); the proof of λ\\* is in units of X'X/n", "which of the two",
     "the formulas: `lambda.scale=sum` in `paper`; else `mean`", "paper", ["lambda.scale=mean"]),
    ("S3", "σ² from the median of the smallest eigenvalues or the Marchenko-Pastur equation", "which; how many",
     "`lambda.noise=median`, the lower half", "paper", ["lambda.noise=mp"]),
    ("S3", "λ\\* for ridge and elastic net", "the lasso", "λ\\* for all three; `elastic_net.l1_ratio=0.5`", "paper", ["lambda.rule=cv"]),
    ("S3", "prototype: cross-validated λ", "the grid (its cost table: 50 points)", "61 points, 1e-8 to 100; for l1 relative to the largest", "prototype",
     ["lambda.rule=gcv"]),
    ("S4", "L held out, H of the same loss", "the noise; whether H has the penalty",
     "each learner's own; it has: `blend.evidence=same-loss` in `paper`, `prototype`; else `nll`", "paper", ["blend.evidence=nll"]),
    ("S4", "models leave by near-zero mass", "how near", "below 1e-6 of the blend; `refit.drop=false`", "paper", ["refit.drop=true"]),
    ("S4", "predictions are blended", "how scores become probabilities", "`probability.map=clip`, before the blend", "paper",
     ["probability.map=simplex"]),
    ("all", "", "", "`paper` as it was before these options", "paper",
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
    return common.table(["stage", "the paper", "left open", "our choice", "changed to", *pools], rows)


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
