#!/usr/bin/python3
"""A pool of language models: lists of their 256 likeliest tokens, fits on 256, 64 and 16 of them, and the same pool without lists.

    all.sh                        from the packages to figures.json and the table of docs/language-models.md
    run.py                        the same from trained models on; what is there already is kept
    run.py --members NAME...      only the lists of these models; several runs at a time may share the work
    run.py --page                 writes the table again from figures.json

CORESTACK_TOOL and CORESTACK_LIBRARY name the tool and the library (build/corestack, build/libcorestack.so). All that is fitted is fitted on `oof`; `test` is scored.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import sentencepiece
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CORESTACK_LIBRARY", str(ROOT / "build" / "libcorestack.so"))

import models  # noqa: E402
from corestack.pool import _lm  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WORK = models.FOLDER
FIGURES = HERE / "figures.json"
PAGE = ROOT / "docs" / "language-models.md"
TOOL = os.environ.get("CORESTACK_TOOL", str(ROOT / "build" / "corestack"))
MEMBERS = [*models.GRAMS, *models.NETWORKS]
TOPS = (256, 64, 16)
METHODS = "default,best-single,best-single+temperature,average,average+temperature,greedy,greedy+temperature,log-linear"
SHAPES = {"k": (1024, 1020, 1), "l": (512, 448, 2), "t": (128, 96, 8)}  # by the first letter: context, stride, windows at a time


def sizes():
    """Bytes of text of each piece; of those that are not text 0."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(WORK / "pieces.model"))
    found = [1 if pieces.is_byte(i) else len(pieces.id_to_piece(i).replace("\u2581", " ").encode()) for i in range(models.SIZE)]
    return np.array([0 if pieces.is_control(i) or pieces.is_unknown(i) else n for i, n in enumerate(found)])


def cut(length):
    """Of each document so many tokens at most."""
    for split in ("oof", "test"):
        with np.load(WORK / f"{split}.npz") as held:
            tokens, number = held["tokens"], held["documents"]
        first = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
        kept = np.arange(len(number)) - first[number] < length
        np.savez(WORK / f"cut_{split}.npz", tokens=tokens[kept], documents=number[kept], bytes=sizes()[tokens[kept]].sum())


def write_member(name):
    context, stride, batch = SHAPES[name[0]]
    subprocess.run([sys.executable, "-m", "corestack.pool", "lm", WORK / "members" / name, "--classes", str(models.SIZE), "--top", str(TOPS[0]),
                    "--split", f"oof={WORK / 'cut_oof.npz'}", "--split", f"test={WORK / 'cut_test.npz'}", "--models", f"{name}={HERE / 'models.py'}:{name}",
                    "--context", str(context), "--stride", str(stride), "--batch-size", str(batch), "--dtype", "float32", "--threads", "1"],
                   check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip


def pool(names, top):
    """A pool of lists of `top` tokens, cut from the longest ones."""
    folder = WORK / f"top{top}"
    folder.mkdir(exist_ok=True)
    manifest = {"corestack_pool": 1, "task": "classification", "classes": models.SIZE, "splits": {}, "models": [{"name": n, "predictions": {}} for n in names]}
    for split in ("oof", "test"):
        manifest["splits"][split] = {kind: f"{split}.{kind}.npy" for kind in ("labels", "groups")}
        for kind in ("labels", "groups"):
            np.save(folder / f"{split}.{kind}.npy", np.load(WORK / "members" / names[0] / f"{split}.{kind}.npy"))
        for model in manifest["models"]:
            name = model["name"]
            indices, logs, rest = (np.load(WORK / "members" / name / f"{name}.{split}.{kind}.npy", mmap_mode="r") for kind in ("indices", "logprobs", "rest"))
            left = np.logaddexp(rest, np.logaddexp.reduce(logs[:, top:], 1, initial=-np.inf))
            for kind, array in (("indices", indices[:, :top]), ("logprobs", logs[:, :top]), ("rest", np.minimum(left, 0))):
                np.save(folder / f"{name}.{split}.{kind}.npy", array)
            model["predictions"][split] = f"{name}.{split}.indices.npy"
    (folder / "pool.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return folder


def listed_losses(folder, weights):
    """NLL of each token of `test` by the log-linear pool of lists: docs/topk.md in NumPy."""
    labels = np.load(folder / "test.labels.npy")
    held = {n: [np.load(folder / f"{n}.test.{kind}.npy", mmap_mode="r") for kind in ("indices", "logprobs", "rest")] for n in weights}
    out = np.empty(len(labels))
    for begin in range(0, len(labels), 512):
        part = slice(begin, begin + 512)
        at = np.arange(len(labels[part]))
        score = np.zeros((len(at), models.SIZE), np.float32)  # above that of a token that nobody lists
        for name, weight in weights.items():
            indices, logs, rest = (column[part] for column in held[name])
            tail = np.minimum(np.maximum(rest, math.log(1e-7)) - math.log(models.SIZE - logs.shape[1]), logs.min(1))
            score[at[:, None], indices] += weight * (logs - tail[:, None])
        top = score.max(1)
        np.exp(score - top[:, None], out=(shares := np.empty_like(score)))
        out[part] = np.log(shares.sum(1, dtype=float)) + top - score[at, labels[part]]
    return out


class Dense:
    """Log-probabilities of all tokens, a document at a time, by the windows that the lists are from."""

    def __init__(self, names):
        self.built = [(getattr(models, name)(), SHAPES[name[0]]) for name in names]
        for model, _ in self.built:
            if isinstance(model, torch.nn.Module):
                model.eval()

    def documents(self, split, every):
        held = _lm.read(str(WORK / f"cut_{split}.npz"), models.SIZE)
        for number in np.unique(held.number)[::every]:
            tokens = held.tokens[held.number == number]
            one = _lm.Documents(tokens, np.zeros(len(tokens), int), 0)
            x = np.empty((len(self.built), len(tokens) - 1, models.SIZE), np.float32)
            for of, (model, (context, stride, _)) in zip(x, self.built):
                for begin, done, end in _lm.windows(one, context, stride):
                    of[done:end] = _lm.scores(model, tokens[None, begin:end])[0, done - begin:].numpy()
            yield number, x, tokens[1:]


def pooled(x, weights):
    """Scores of the log-linear pool and their normalisers."""
    score = np.tensordot(weights, x, 1)
    top = score.max(1)
    return score, np.log(np.exp(score - top[:, None]).sum(1, dtype=float)) + top


def dense(weights, every):
    """The pool of all 16,384 log-probabilities: a step of Newton's method on `oof` from the weights of the longest lists, and losses
    of the documents of `test`, every so many, with both weights."""
    names = list(weights)
    models_, w = Dense(names), np.array([weights[n] for n in names], np.float32)
    slope, curve = np.zeros(len(w)), np.zeros((len(w), len(w)))
    for _, x, labels in models_.documents("oof", 1):
        score, normaliser = pooled(x, w)
        p = np.exp(score - normaliser[:, None].astype(np.float32))
        weighted = np.einsum("nc,knc->kn", p, x)
        slope += (weighted - x[:, np.arange(len(labels)), labels]).sum(1)
        flat = x.reshape(len(w), -1)
        curve += (flat * p.ravel()) @ flat.T - weighted @ weighted.T
    found = w - np.linalg.solve(curve, slope)
    losses = {}
    for number, x, labels in models_.documents("test", every):
        at = np.arange(len(labels))
        losses[int(number)] = [normaliser - score[at, labels] for score, normaliser in (pooled(x, w), pooled(x, found.astype(np.float32)))]
    return dict(zip(names, found.tolist())), losses


def bootstrap(losses, documents, draws=5000):
    """Means over tokens with 95% intervals over documents; losses [tokens] or [tokens, columns]."""
    number = np.unique(documents, return_inverse=True)[1]
    counts = np.bincount(number)
    sums = np.stack([np.bincount(number, column) for column in np.atleast_2d(losses.T)], 1)
    drawn = np.random.default_rng(0).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), draws)
    low, high = np.percentile(drawn @ sums / (drawn @ counts)[:, None], [2.5, 97.5], 0)
    return [{"nll": float(n), "nll_ci": [float(l), float(h)]} for n, l, h in zip(sums.sum(0) / counts.sum(), low, high)]


def tool(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def compared(folder, methods):
    return json.loads(tool("compare", folder, "--split", "test", "--methods", methods, "--json"))


def fitted(folder):
    """The weights of the log-linear pool."""
    tool("fit", folder, "--method", "log-linear", "-o", folder / "model.cstack", "--set", "evaluate.nested=false")
    return {m["name"]: m["weight"] for m in json.loads(tool("show", folder / "model.cstack", "--json"))["members"]}


def measure(every):
    names = [n for n in MEMBERS if (WORK / "members" / n / "pool.json").exists()]
    folders = {top: pool(names, top) for top in TOPS}
    with ThreadPoolExecutor() as beside:  # the tool compares while NumPy computes
        reports = {top: beside.submit(compared, folder, METHODS if top == TOPS[0] else "default,log-linear") for top, folder in folders.items()}
        longest = fitted(folders[TOPS[0]])
        weights, losses = dense(longest, every)
    found = {"members": names, "pools": {}}
    labels, groups = (np.load(folders[TOPS[0]] / f"test.{kind}.npy") for kind in ("labels", "groups"))
    sampled = np.isin(groups, np.unique(groups)[::every])
    columns = []
    for top, folder in folders.items():
        report = reports[top].result()
        rows = {r["method"]: {k: r[k] for k in ("nll", "nll_ci", "detail", "difference", "weights") if k in r} for r in report["rows"]}
        for row in rows.values():
            row["difference"] = {k: v for k, v in row.get("difference", {}).items() if k.startswith("nll")}
        ours = listed_losses(folder, {n: w for n, w in zip(report["members"], rows["log-linear"]["weights"]) if w})
        if abs(ours.mean() - rows["log-linear"]["nll"]) > 1e-5:
            raise RuntimeError(f"{folder}: NumPy has {ours.mean()} for the log-linear pool, the tool {rows['log-linear']['nll']}")
        columns.append(ours[sampled])
        if top == TOPS[0]:
            equal = listed_losses(folder, dict.fromkeys(names, 1 / len(names)))
            rows["average of logits"] = bootstrap(equal, groups)[0]
        found["pools"][top] = {"rows": rows, "label_listed": float(listed_labels(folder, names, labels))}
    of = groups[sampled]
    losses = np.concatenate([np.stack(losses[n], 1) for n in np.unique(of).tolist()])
    columns = np.stack([losses[:, 1], losses[:, 0], *columns], 1)
    means, changes = bootstrap(columns, of), bootstrap(columns - columns[:, :1], of)
    found["dense"] = {"weights": weights, "tokens": len(of), "documents": len(np.unique(of)),
                      "rows": {name: {**mean, "change": change} for name, mean, change in zip(("dense", "dense, weights of 256", *map(str, TOPS)), means, changes)}}
    with np.load(WORK / "cut_test.npz") as held:
        size = int(held["bytes"])
    found.update(tokens=len(labels), documents=len(np.unique(groups)), bytes=size, oof=len(np.load(folders[TOPS[0]] / "oof.labels.npy")))
    FIGURES.write_text(json.dumps(found, indent=1) + "\n")


def listed_labels(folder, names, labels):
    """The share of the tokens of `test` that a member lists."""
    return np.any([(np.load(folder / f"{n}.test.indices.npy", mmap_mode="r") == labels[:, None]).any(1) for n in names], 0).mean()


def page():
    found = json.loads(FIGURES.read_text())
    scale = found["tokens"] / found["bytes"] / math.log(2)
    scores = found["pools"][str(TOPS[0])]["rows"]
    lines = ["", f"{found['tokens']:,} tokens of {found['documents']} documents, {found['bytes']:,} bytes, scored; fitted on {found['oof']:,} tokens of others. Lists of {TOPS[0]}.", "",
             "| method | NLL per token | perplexity | bits per byte | NLL more than `default` |", "|---|--:|--:|--:|--:|"]

    def interval(row, digits=4):
        return f"{row['nll']:.{digits}f} [{row['nll_ci'][0]:.{digits}f}, {row['nll_ci'][1]:.{digits}f}]"

    for name, row in sorted(scores.items(), key=lambda item: item[1]["nll"]):
        title = f"{name} (`{row['detail']}`)" if name == "best-single" else name
        more = interval(row["difference"]) if row.get("difference") else ""
        lines.append(f"| {title} | {interval(row)} | {math.exp(row['nll']):.2f} | {row['nll'] * scale:.4f} | {more} |")
    sample = found["dense"]
    lines += ["", f"Lists against all {models.SIZE:,} log-probabilities, `log-linear`, on {sample['tokens']:,} tokens of {sample['documents']} of these documents:", "",
              "| rows | NLL per token | perplexity | more than dense | tokens that a member lists |", "|---|--:|--:|--:|--:|"]
    for name, row in sample["rows"].items():
        share = f"{found['pools'][name]['label_listed']:.2%}" if name in found["pools"] else ""
        title = f"lists of {name}" if name in found["pools"] else name
        lines.append(f"| {title} | {interval(row)} | {math.exp(row['nll']):.2f} | {'' if name == 'dense' else interval(row['change'], 5)} | {share} |")
    head, rest = PAGE.read_text().split("<!-- tables -->")
    PAGE.write_text(head + "<!-- tables -->\n" + "\n".join(lines) + "\n\n<!-- end tables -->" + rest.split("<!-- end tables -->")[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", nargs="+", choices=MEMBERS)
    parser.add_argument("--length", type=int, default=200, help="tokens of each document, at most; without lists a document takes 64 KiB for each token and member")
    parser.add_argument("--every", type=int, default=4, help="of so many documents one is scored without lists")
    parser.add_argument("--page", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    if not a.page:
        if not (WORK / "cut_test.npz").exists():
            cut(a.length)
        for name in a.members or MEMBERS:
            write_member(name)
    if not a.page and not a.members:
        measure(a.every)
    if not a.members:
        page()


if __name__ == "__main__":
    main()
