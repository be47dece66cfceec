"""Language models: documents of token ids -> members that list the likeliest tokens at each place (docs/topk.md).

Rows are the tokens of the documents but the first of each; groups are the documents. Files grow block by block, and
`.export/NAME.SPLIT.json` counts the rows that are done, so a run that was stopped goes on from there."""
from __future__ import annotations

import json
import math
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import InputError
from .._types import Array
from . import _files, _networks
from ._task import Member

BLOCK = 8192  # rows between two records of what is done


class Documents(NamedTuple):
    tokens: Array  # [tokens]
    number: Array  # [tokens]: of its document; tokens of a document are together
    size: int  # bytes of their text, 0: not known

    @property
    def rows(self) -> Array:
        """Places of the tokens that are predicted: all but the first of each document."""
        return np.flatnonzero(np.r_[False, self.number[1:] == self.number[:-1]])


def read(path: str, classes: int) -> Documents:
    """An npz with `tokens` and `documents`, and perhaps `bytes`."""
    try:
        with np.load(path, allow_pickle=False) as held:
            tokens, number = held["tokens"], held["documents"]
            size = int(held["bytes"]) if "bytes" in held else 0
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: needs an npz with tokens [N] and documents [N], integers: {_networks.line(error)}") from error
    if tokens.ndim != 1 or tokens.shape != number.shape or tokens.dtype.kind not in "iu" or number.dtype.kind not in "iu":
        raise InputError(f"{path}: tokens and documents are arrays of as many integers; found {tokens.shape} and {number.shape}")
    wrong = np.flatnonzero((tokens < 0) | (tokens >= classes))
    if wrong.size:
        raise InputError(f"{path}: token {int(tokens[wrong[0]])} at {int(wrong[0])} is not in 0 to {classes - 1}; is --classes the size of the vocabulary?")
    cuts = np.flatnonzero(np.r_[True, number[1:] != number[:-1]])
    if len(set(number[cuts].tolist())) != len(cuts):
        raise InputError(f"{path}: the tokens of a document have to be together; document {int(number[cuts[-1]])} or another comes twice")
    found = Documents(tokens.astype(np.int64), number, size)
    if not found.rows.size:
        raise InputError(f"{path}: no document has two tokens, so there is nothing to predict")
    return found


def windows(held: Documents, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """(first token, first token whose next is predicted here, end): each next token once, from at least context - stride others."""
    cuts = np.flatnonzero(np.r_[True, held.number[1:] != held.number[:-1], True])
    for first, end in zip(cuts[:-1].tolist(), cuts[1:].tolist()):
        done, last = first, end - 1  # the last token predicts nothing
        while done < last:
            begin = first if done == first else done - (context - stride)
            until = min(begin + context, last)
            yield begin, done, until
            done = until


def scores(model: Any, tokens: Array) -> Any:
    """Log-probabilities [B, T, V] of what a module or a function returns for tokens [B, T]."""
    import torch

    with torch.no_grad():
        out = model(torch.from_numpy(tokens) if isinstance(model, torch.nn.Module) else tokens)
        out = out if isinstance(out, np.ndarray) else _files.logits_of(out)
        out = torch.as_tensor(out).float()
        if out.ndim != 3 or tuple(out.shape[:2]) != tokens.shape:
            raise InputError(f"the model returned {tuple(out.shape)} for {tokens.shape} tokens; it returns [documents, tokens, vocabulary]")
        return torch.log_softmax(out, 2)


def predicted(model: Any, held: Documents, a: Namespace, skip: int) -> Iterator[list[Array]]:
    """Indices, log-probabilities, rest and the label's log-probability, batch by batch, after the first `skip` rows."""
    import torch

    waiting: list[tuple[int, int, int]] = []
    before = 0

    def run() -> list[Array]:
        parts = []
        padded = np.zeros((len(waiting), max(end - begin for begin, _, end in waiting)), np.int64)
        for row, (begin, _, end) in zip(padded, waiting):
            row[:end - begin] = held.tokens[begin:end]
        logs = scores(model, padded)
        if logs.shape[2] != a.classes:
            raise InputError(f"the model has a vocabulary of {logs.shape[2]}; --classes {a.classes}")
        for of, (begin, done, end) in zip(logs, waiting):
            part = of[done - begin:end - begin]
            if not torch.isfinite(part.max(1).values).all():
                raise InputError(f"the scores of token {done} or after it are not finite")
            top = part.topk(a.top, 1)
            own = part.gather(1, torch.from_numpy(held.tokens[done + 1:end + 1])[:, None])[:, 0]
            rest = torch.logsumexp(part.scatter(1, top.indices, -math.inf), 1)
            parts.append((top.indices.numpy(), top.values.numpy(), rest.numpy(), own.double().numpy()))
        return [np.concatenate(columns) for columns in zip(*parts)]

    for window in windows(held, a.context, a.stride):
        before += window[2] - window[1]
        if before <= skip:  # what is done ends where a batch does
            continue
        waiting.append(window)
        if len(waiting) == a.batch_size:
            yield run()
            waiting.clear()
    if waiting:
        yield run()


def save(name: str, split: str, model: Any, held: Documents, a: Namespace) -> float:
    """Writes the three files of a member and returns its mean NLL."""
    rows = len(held.rows)
    stem = f"{_files.file_name(name)}.{_files.file_name(split)}"
    record = a.pool / _files.WORK / f"{stem}.json"
    kinds = {"indices": ("int32" if a.classes > 65536 else "uint16", a.top), "logprobs": (a.dtype, a.top), "rest": (a.dtype, 0)}
    asked = {"top": a.top, "dtype": a.dtype, "context": a.context, "stride": a.stride, "rows": rows, "batch_size": a.batch_size}
    done, loss = 0, 0.0
    if record.exists():
        told = json.loads(record.read_bytes())
        if told["asked"] != asked:
            raise InputError(f"{stem}: was begun with {told['asked']} and now has {asked}; give the same options, or a new folder")
        done, loss = told["done"], told["loss"]
    if done == rows:
        return loss / rows
    files = {}
    for kind, (dtype, width) in kinds.items():
        path = a.pool / f"{stem}.{kind}.npy"
        shape = (rows, width) if width else (rows,)
        files[kind] = np.lib.format.open_memmap(path, "r+" if done else "w+", np.dtype(dtype), shape)  # type: ignore[no-untyped-call]
    marked, begin, since = done, time.monotonic(), done
    for indices, logs, rest, own in predicted(model(), held, a, done):
        part = slice(done, done + len(own))
        files["indices"][part], files["logprobs"][part], files["rest"][part] = indices, np.minimum(logs, 0), np.minimum(rest, 0)
        done, loss = done + len(own), loss - float(own.sum())
        if done - marked >= BLOCK or done == rows:
            for file in files.values():
                file.flush()
            _files.write_json(record, {"asked": asked, "done": done, "loss": loss})
            marked = done
            if not a.quiet:
                print(f"{name} {split}: {done:,} of {rows:,} tokens, {(done - since) / (time.monotonic() - begin):,.0f} a second", file=sys.stderr, flush=True)
    return loss / rows


def run(a: Namespace) -> None:
    from ._command import members

    if a.stride is None:
        a.stride = max(1, a.context // 2)
    if a.stride > a.context or a.top > a.classes:
        raise InputError("--stride is at most --context, and --top at most --classes")
    torch = _networks.need("torch", "torch")
    torch.set_num_threads(a.threads or len(os.sched_getaffinity(0)))
    splits = {name: read(path, a.classes) for name, path in a.split}
    chosen = members(a.models, a.weights)
    path = a.pool / "pool.json"
    held: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {"models": [], "splits": {}}
    files: dict[str, Any] = {model["name"]: model for model in held["models"]}
    entries: dict[str, Any] = held["splits"]
    with _files.locked(a.pool / _files.WORK / "lock", wait=False):
        for split, documents in splits.items():
            rows, stem = documents.rows, _files.file_name(split)
            _files.write_npy(a.pool / f"{stem}.labels.npy", documents.tokens[rows].astype(np.int32))
            _files.write_npy(a.pool / f"{stem}.groups.npy", documents.number[rows])
            entries[split] = {"labels": f"{stem}.labels.npy", "groups": f"{stem}.groups.npy", **({"bytes": documents.size} if documents.size else {})}
        for member in chosen:
            built: list[Any] = []

            def model(member: Member = member, built: list[Any] = built) -> Any:
                if not built:
                    built.append(build(member, a.classes))
                return built[0]

            for split, documents in splits.items():
                loss = save(member.name, split, model, documents, a)
                bits = f", {loss * len(documents.rows) / math.log(2) / documents.size:.4f} bits a byte" if documents.size else ""
                print(f"{member.name} {split}: NLL {loss:.4f} a token, perplexity {math.exp(loss):.2f}{bits}", flush=True)
                entry = files.setdefault(member.name, {"name": member.name, "predictions": {}})
                entry["predictions"][split] = f"{_files.file_name(member.name)}.{_files.file_name(split)}.indices.npy"
        _files.write_json(path, {"corestack_pool": 1, "task": "classification", "classes": a.classes, "splits": entries, "models": list(files.values())})


def build(member: Member, classes: int) -> Any:
    """What the factory returns: a module, in eval mode and with its weights, or a function."""
    if ":" not in member.model:
        raise InputError(f"--models: {member.model!r} is not module:function or file.py:function")
    model = _networks.call(member.model, classes=classes, num_classes=classes)
    if not callable(model):
        raise InputError(f"{member.model} returned {type(model).__name__}; a factory returns a module, or a function of tokens [B, T]")
    if hasattr(model, "eval"):
        model.eval()
        file = _networks.weights_file(member)
        if file is not None:
            _networks.load_state(member, model, file)
    return model


def add_options(sub: ArgumentParser, positive: Any, named: Any) -> None:
    sub.add_argument("--split", required=True, type=named, action="append", metavar="NAME=FILE.npz",
                     help="tokens and documents [N], and bytes: of their text, for bits a byte; can be repeated")
    sub.add_argument("--classes", required=True, type=positive, metavar="V", help="size of the vocabulary")
    sub.add_argument("--models", required=True, nargs="+", metavar="NAME=FILE.py:FACTORY[@WEIGHTS]",
                     help="returns a torch module or a function: token ids [B, T] to logits or log-probabilities [B, T, V]")
    sub.add_argument("--weights", default="default", metavar="W", help="a checkpoint, or a folder with NAME.pth for each model")
    sub.add_argument("--top", type=positive, default=64, metavar="K", help="tokens that are listed in a row (%(default)s)")
    sub.add_argument("--context", type=positive, default=512, metavar="T", help="tokens that a model gets at most (%(default)s)")
    sub.add_argument("--stride", type=positive, metavar="T", help="new tokens in a window of a long document (half of the context)")
    sub.add_argument("--batch-size", type=positive, default=8, metavar="N", help="windows (%(default)s)")
    sub.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="of the log-probabilities (%(default)s)")
    sub.add_argument("--threads", type=positive, metavar="N", help="(the cores)")
    sub.add_argument("--quiet", action="store_true", help="no progress")
