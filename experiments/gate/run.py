#!/usr/bin/python3
"""What the gate reaches: planted functions of the members' predictions, by gates of growing width.

    experiments/gate/run.py

Leaves experiments/gate/figures.json. First the family of the paper's proposition, the sum over aggregators of gate times aggregator
without any head, trained here by PyTorch on exact values; then the gate of the tool with its ridge, on labels drawn with the planted
probability. That some gate is near is a theorem on networks (Cybenko 1989, Hornik 1991, Leshno et al. 1993); what training finds is measured.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

MEMBERS = 5
WIDTHS = (2, 8, 32, 128)
STEPS = 1500
ROWS = 10000


def aggregators(p):
    """The twelve of the paper for class 1 of two classes: they are functions of p there. [rows][12]"""
    mean, sd, median, spread = p.mean(1), p.std(1, unbiased=False), p.quantile(0.5, 1), p.amax(1) - p.amin(1)
    m, b = mean.clamp(1e-6, 1 - 1e-6), p[:, 0].clamp(1e-6, 1 - 1e-6)
    entropy = -(m * m.log() + (1 - m) * (1 - m).log())
    divergence = b * (b / m).log() + (1 - b) * ((1 - b) / (1 - m)).log()
    return torch.stack([mean, sd, median, spread, p.quantile(0.25, 1), p.quantile(0.75, 1), entropy, mean * sd, mean**2, spread * sd, sd**2,
                        divergence], 1)


# name: function of p, all continuous. The first three lie between 0 and the sum of the aggregators, the others do not.
FUNCTIONS = {
    "largest": lambda p: p.amax(1),
    "product": lambda p: p[:, 0] * p[:, 1],
    "wave": lambda p: p.mean(1) * torch.sin(4 * (p[:, 0] + p[:, 1])) ** 2,
    "negative": lambda p: -0.5 * p.mean(1),
    "large": lambda p: 6 + 0 * p[:, 0],
}


def extreme(p):
    """Members weighed by how far they are from a half."""
    far = (p - 0.5) ** 2 + 1e-3
    return (far * p).sum(1) / far.sum(1)


# A design of one row a class treats classes alike: with two classes it has the functions with h(1 - p) = 1 - h(p) alone.
ALIKE = {"extreme": extreme, "ripple": lambda p: 0.5 + 0.45 * torch.sin(3 * np.pi * (p.mean(1) - 0.5))}


def draw(rng, rows):
    """Members that agree in part, inside [0.02, 0.98]: a compact set."""
    z = rng.standard_normal((rows, 1)) * 1.5 + rng.standard_normal((rows, MEMBERS))
    return torch.tensor(0.02 + 0.96 / (1 + np.exp(-z)), dtype=torch.float32)


def train(function, width, seed):
    """Root mean square and largest error on other rows."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    gate = torch.nn.Sequential(torch.nn.Linear(MEMBERS, width), torch.nn.ReLU(), torch.nn.Linear(width, 12), torch.nn.Sigmoid())
    optimiser = torch.optim.Adam(gate.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, STEPS)
    p = draw(rng, 20000)
    a, h = aggregators(p), function(p)
    for step in range(STEPS):
        at = torch.randint(len(p), (512,))
        loss = (((gate(p[at]) * a[at]).sum(1) - h[at]) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    q = draw(rng, 20000)
    with torch.no_grad():
        error = ((gate(q) * aggregators(q)).sum(1) - function(q)).abs()
    return {"width": width, "parameters": sum(t.numel() for t in gate.parameters()), "rms": float((error**2).mean().sqrt()),
            "largest": float(error.max())}


def family(seed):
    out = {}
    rng = np.random.default_rng(seed)
    p = draw(rng, 20000)
    total = aggregators(p).sum(1)
    for name, function in FUNCTIONS.items():
        h = function(p)
        outside = torch.maximum(-h, h - total).clamp(min=0)  # no gate in [0, 1] comes nearer
        out[name] = {"deviation": float(h.std(unbiased=False)), "rms_least": float((outside**2).mean().sqrt()), "widths":
                     [train(function, w, seed) for w in WIDTHS]}
    return out


def tool(options):
    """Root mean square error of the planted probability, by the gates of the tool and a ridge."""
    rng = np.random.default_rng(options.seed)
    out = {}
    for name, function in ALIKE.items():
        folder = pathlib.Path(tempfile.mkdtemp())
        try:
            p = {split: draw(rng, ROWS) for split in ("oof", "test")}
            chance = {split: function(v).numpy() for split, v in p.items()}
            manifest = {"corestack_pool": 1, "task": "classification", "output": "probability", "classes": ["no", "yes"], "splits": {}, "models": [
                {"name": f"m{k}", "predictions": {}} for k in range(MEMBERS)]}
            for split, values in p.items():
                np.save(folder / f"{split}.npy", (rng.random(ROWS) < chance[split]).astype(np.int64))
                manifest["splits"][split] = {"labels": f"{split}.npy"}
                for k, model in enumerate(manifest["models"]):
                    np.save(folder / f"m{k}.{split}.npy", np.stack([1 - values[:, k].numpy(), values[:, k].numpy()], 1))
                    model["predictions"][split] = f"m{k}.{split}.npy"
            (folder / "pool.json").write_text(json.dumps(manifest))
            fits = [("none", 0), ("prototype", 0)] + [("learned", w) for w in WIDTHS[1:]]
            own = {"deviation": float(chance["test"].std()), "fits": []}
            for mode, width in fits:
                words = ["--set", f"gate.mode={mode}"] + (["--set", f"gate.hidden={width}"] if width else [])
                common.run_tool(options, "fit", folder / "pool.json", "-o", folder / "stack.cstack", "--preset", "paper", "--set",
                                "redundancy.measure=none", "--set", "meta.learners=ridge", "--set", "lambda.rule=cv", "--set", "refit.drop=false", "--set",
                                "evaluate.nested=false", "--seed", options.seed, *words)
                common.run_tool(options, "predict", folder / "stack.cstack", folder / "pool.json", "--split", "test", "-o", folder / "out.npy")
                error = np.load(folder / "out.npy")[:, 1] - chance["test"]
                own["fits"].append({"mode": mode, "width": width, "rms": float(np.sqrt((error**2).mean()))})
            out[name] = own
        finally:
            shutil.rmtree(folder)
    return out


def measure(options, pools):
    torch.set_num_threads(1)
    return {"family": family(options.seed), "tool": tool(options), "rows": ROWS}


if __name__ == "__main__":
    common.run_figures(__doc__, "gate", [], measure)
