"""The command line: a table of data sets, each with its layout and options; members by name; errors as one line each."""
from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np

from .._errors import Error, InputError
from .._library import version
from . import _boxes, _data, _export, _lm, _maps, _networks
from ._task import Member, Split

# The 19 kinds of ImageNet-C (Hendrycks and Dietterich 2019; the last four are its "extra" ones) in the paper's families.
KINDS = {
    "gaussian_noise": "noise", "shot_noise": "noise", "impulse_noise": "noise", "defocus_blur": "blur", "glass_blur": "blur",
    "motion_blur": "blur", "zoom_blur": "blur", "snow": "weather", "frost": "weather", "fog": "weather", "brightness": "weather",
    "contrast": "digital", "elastic_transform": "digital", "pixelate": "digital", "jpeg_compression": "digital",
    "speckle_noise": "noise", "gaussian_blur": "blur", "spatter": "digital", "saturate": "digital",
}  # fmt: skip
UNSET: dict[str, Any] = {"split": [], "ood": [], "val": None, "name": None, "training_counts": None, "classes": None, "test_share": None}


def divided(a: Namespace, sources: dict[str, Any], keys: Any, take: Any, labels: Any = lambda source: None) -> list[Split]:
    """A split of each source, oof divided into oof and test by --test-share (0.2 if there is no --split)."""
    part = a.test_share if a.test_share is not None or a.split else 0.2
    if part is not None and ("oof" not in sources or "test" in sources):
        raise InputError("--test-share: divides the split oof into oof and test; name oof and not test with --split")
    splits = [Split(name, source) for name, source in sources.items()]
    if part is None:
        return splits
    listed = keys(sources["oof"])
    rows = _data.divide(labels(sources["oof"]) or [0] * len(listed), listed, part, a.seed)
    halves = [Split(name, take(sources["oof"], half)) for name, half in zip(("oof", "test"), rows)]
    return [one for split in splits for one in (halves if split.name == "oof" else [split])]


def _class_names(a: Namespace, pool: _export.Pool) -> Optional[list[str]]:
    if a.classes is None:
        return pool.pool.get("classes")
    names = _data.text_lines(Path(a.classes))
    if len(set(names)) != len(names) or not names:
        raise InputError(f"{a.classes}: needs one name a line, each once, in the order of the models' outputs")
    return names


def _classification(a: Namespace, pool: _export.Pool, classes: Optional[Sequence[str]]) -> _data.Classification:
    if not classes:
        raise InputError("out-of-distribution images say nothing about the classes; name a split with labels too, or first")
    counts = _data.training_counts(a.training_counts, classes) if a.training_counts else pool.pool.get("training_counts")
    return _data.Classification(tuple(classes), tuple(counts) if counts else None)


def classify(a: Namespace, pool: _export.Pool) -> tuple[Any, list[Split]]:
    classes, sources = _class_names(a, pool), {}
    a.split = [("oof", a.val)] if a.val else a.split
    a.ood = [(a.name, a.data)] if a.name else a.ood
    for name, text in a.split:
        rows, names = _data.source(text, name)
        classes = classes or names
        sources[name] = rows.numbered(classes, text)
    splits = divided(a, sources, _data.Rows.keys, _data.Rows.take, lambda rows: rows.labels) if sources else []
    return _classification(a, pool, classes), [*splits, *(Split(n, _data.unlabelled(str(t), n), {"ood": True}) for n, t in a.ood)]


def corrupted(a: Namespace, pool: _export.Pool) -> tuple[Any, list[Split]]:
    """KIND/SEVERITY/CLASS/image, or FAMILY/KIND/SEVERITY/..., as conditions of one split."""
    places = [(k, s, f"{up}{k}/{s}") for k in a.kinds for s in a.severities for up in ("", "noise/", "blur/", "weather/", "digital/", "extra/")]
    held = {(k, s): place for k, s, place in places if os.path.isdir(os.path.join(a.data, place))}
    if not held:
        raise InputError(f"{a.data}: none of the folders KIND/SEVERITY is here; name the folder that holds gaussian_noise, ..., saturate")
    print(f"{a.data}: {len(held)} of {len(a.kinds) * len(a.severities)} conditions are here", file=sys.stderr)
    folders = list(held.values())
    rows, names = _data.source(os.path.join(a.data, folders[0]), a.name)
    classes = _class_names(a, pool) or names
    entry: dict[str, Any] = {"conditions": [{"shift": KINDS[k], "kind": k, "severity": s} for k, s in held]}
    chosen = a.rows or ("test" if "test" in pool.splits else "all")
    rows = replace(rows.numbered(classes, a.data), place=a.data, folders=folders)
    if chosen != "all":  # those images of a split of the pool, in its order
        entry["clean"] = chosen
        at = {path: i for i, path in enumerate(rows.items)}
        ids = np.load(pool.folder / pool.splits.get(chosen, {}).get("entry", {}).get("ids", f"{chosen}_ids.npy")).astype(str).tolist()
        if not set(ids) <= set(at):
            raise InputError(f"{a.data}: there is no image {min(set(ids) - set(at))} of split {chosen} in it")
        rows = rows.take([at[i] for i in ids])
    return _classification(a, pool, classes), [Split(a.name, rows, entry)]


def domains(a: Namespace, pool: _export.Pool) -> tuple[Any, list[Split]]:
    """DOMAIN/CLASS/image: a split for each domain, and oof of parts of those of --meta with a column of domains."""
    if not set(a.meta or ()) <= set(a.domains):
        raise InputError(f"--meta: names other domains than {', '.join(a.domains)}")
    sources = {d: _data.source(os.path.join(a.data, d), d) for d in a.domains}
    classes = _class_names(a, pool) or sorted({c for _, names in sources.values() for c in names})
    splits, parts, wanted = [], [], set(classes)
    for domain, (rows, _) in sources.items():
        rows = rows.take([i for i, c in enumerate(rows.labels or ()) if c in wanted]).numbered(classes, domain)  # of the 345 classes, say
        paths = [f"{domain}/{item}" for item in rows.items]
        rows = replace(rows, place=a.data, items=paths, ids=paths, domains=[domain] * len(paths))
        if domain in (a.meta or a.domains):
            first, second = _data.divide(rows.labels or (), paths, a.test_share, a.seed)
            parts.append(rows.take(first))
            rows = rows.take(second)
        splits.append(Split(domain, replace(rows, domains=None), {"domain": domain}))
    joined = {k: [v for part in parts for v in getattr(part, k)] for k in _data.LISTS}
    return _classification(a, pool, classes), [Split("oof", replace(parts[0], **joined)), *splits]


def ade20k(a: Namespace, pool: _export.Pool) -> tuple[Any, list[Split]]:
    names = _class_names(a, pool) if a.classes is not None and not a.classes.isdecimal() else None
    size = a.map_size if a.map_size is not None else pool.pool.get("map_size", 128)
    cases = {name: _maps.cases(a.data, part) for name, part in a.split or [("oof", "validation")]}
    splits = divided(a, cases, lambda held: [case.name for case in held], lambda held, rows: [held[i] for i in rows])
    return _maps.Segmentation(len(names) if names else int(a.classes or 150), tuple(names) if names else None, size), splits


def coco(a: Namespace, pool: _export.Pool) -> tuple[Any, list[Split]]:
    def source(text: str) -> _boxes.Source:
        file, at, folder = text.rpartition("@")
        data = a.data or Path()
        return _boxes.Source(Path(folder), Path(file)) if at else _boxes.Source(data / text, data / f"annotations/instances_{text}.json")

    sources = {name: source(text) for name, text in a.split or [("oof", "val2017")]}
    categories = next(iter(sources.values())).categories()
    if any(s.categories() != categories for s in sources.values()):
        raise InputError("--split: the annotation files have different categories")
    splits = divided(a, sources, lambda s: [str(i["id"]) for i in s.read()["images"]], lambda s, rows: s._replace(rows=tuple(rows)))
    return _boxes.Detection(categories, a.lowest_score, a.boxes), splits


class DataSet(NamedTuple):
    help: str
    splits: Callable[[Namespace, _export.Pool], tuple[Any, list[Split]]]
    options: str  # the names of its options (OPTIONS)
    defaults: dict[str, Any] = {}  # of these and of shared options
    task: str = "classification"


SETS = {
    "classify": DataSet("any classification data", classify, "split ood test-share classes training-counts"),
    "imagenet": DataSet("ImageNet-1K: the validation images, divided into oof and test", classify,
                        "val test-share classes training-counts", {"test_share": 0.2}),
    "imagenet-c": DataSet("ImageNet-C: 19 kinds of corruption at 5 severities, as conditions of one split", corrupted,
                          "data rows kinds severities name classes", {"dtype": "float16", "name": "corrupted"}),
    "imagenet-o": DataSet("ImageNet-O: out-of-distribution images", classify, "data name", {"name": "imagenet-o"}),
    "inaturalist": DataSet("iNaturalist-2021: 10,000 classes, with training counts", classify,
                           "val test-share classes training-counts", {"dtype": "float16", "test_share": 0.2}),
    "domainnet": DataSet("DomainNet: a split for each domain, and oof of several with a domain for each row", domains,
                         "data domains meta test-share classes training-counts", {"test_share": 0.2}),
    "ade20k": DataSet("ADE20K, or masks in its layout: maps of semantic segmentation", ade20k,
                      "data split test-share map-size classes", {"batch_size": 4, "dtype": "float16"}, "segmentation"),
    "coco": DataSet("COCO, or boxes in its form: detection", coco, "data split test-share lowest-score boxes", {"batch_size": 4},
                    "detection"),
}  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InputError(f"{message}; {self.prog} --help lists the options")


def _number(kind: Callable[[str], Any], low: float, high: float, words: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return parse


def _named(text: str) -> list[str]:
    if not all(text.partition("=")):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=...")
    return text.split("=", 1)


_POSITIVE = _number(int, 1, 2**31, "a whole number from 1")
_NATURAL = _number(int, 0, 2**63 - 1, "a whole number from 0 to 2^63 - 1")
_REPEATED = {"type": _named, "action": "append", "default": [], "metavar": "NAME=SOURCE"}
OPTIONS: dict[str, dict[str, Any]] = {  # of data sets
    "data": {"type": Path, "metavar": "FOLDER", "help": "of the data set, in its layout"},
    "val": {"required": True, "metavar": "SOURCE", "help": "validation images: a folder of class folders, or a data set"},
    "split": {**_REPEATED, "help": "a split of the pool; corestack fits on oof. SOURCE: a folder of class folders or module:function "
              "of a data set; of ade20k and coco a part like validation or val2017, or FILE.json@FOLDER; can be repeated"},
    "ood": {**_REPEATED, "help": "out-of-distribution images; labels are ignored"},
    "test-share": {"type": _number(float, 1e-9, 1 - 1e-9, "a number between 0 and 1"), "metavar": "S",
                   "help": "this share of each class of oof becomes the split test (0.2 without --split)"},
    "classes": {"metavar": "FILE", "help": "class names in the order of the models' outputs, one a line (sorted names; ade20k: or a number)"},
    "training-counts": {"metavar": "SOURCE", "help": "training folder, iNaturalist's train.json, or a file with a number a line"},
    "rows": {"metavar": "SPLIT", "help": "the images of this split of the pool, or all (test if there is one: images of no fit)"},
    "kinds": {"nargs": "+", "choices": list(KINDS), "default": list(KINDS), "metavar": "KIND", "help": "(those that are there)"},
    "severities": {"nargs": "+", "type": int, "choices": range(1, 6), "default": [1, 2, 3, 4, 5], "metavar": "S", "help": "(1 2 3 4 5)"},
    "name": {"help": "of the split (%(default)s)"},
    "domains": {"nargs": "+", "default": ["real", "clipart", "painting", "sketch"], "metavar": "DOMAIN", "help": "(%(default)s)"},
    "meta": {"nargs": "+", "metavar": "DOMAIN", "help": "domains whose images, but for --test-share, make the split oof (all)"},
    "map-size": {"type": _number(int, 0, 4096, "a number of pixels from 0 to 4096"), "metavar": "PIXELS",
                 "help": "pixels that are kept per side; 0: all of the mask's (128)"},
    "lowest-score": {"type": _number(float, 0, 1 - 1e-9, "a number from 0 to below 1"), "default": 0.05, "metavar": "S",
                     "help": "boxes with lower scores are left out (0.05)"},
    "boxes": {"type": _POSITIVE, "default": 100, "metavar": "N", "help": "kept per image, the best ones (100)"},
}  # fmt: skip
SHARED: dict[str, dict[str, Any]] = {
    "models": {"nargs": "+", "metavar": "[NAME=]MODEL[@WEIGHTS]", "help": "MODEL: a name of torchvision, or a factory module:function or "
               "file.py:function. WEIGHTS as --weights. Without this, the members that the pool has already"},
    "weights": {"default": "default", "metavar": "W", "help": "none (drawn at random), default (the trained ones in torch's local cache), a "
                "name of torchvision's weights, a checkpoint, or a folder with NAME.pth for each member (default)"},
    "image-size": {"type": _POSITIVE, "metavar": "PIXELS", "help": "side of the images that networks get (that of the weights, 224 or 512)"},
    "transform": {"metavar": "FACTORY", "help": "module:function that returns the preprocessing, for all members"},
    "batch-size": {"type": _POSITIVE, "default": 64, "metavar": "N", "help": "(%(default)s)"},
    "dtype": {"choices": ("float16", "float32"), "default": "float32", "help": "of the files (%(default)s)"},
    "compute": {"choices": ("float32", "tf32", "float16", "bfloat16"), "default": "float32", "help": "arithmetic (float32)"},
    "seed": {"type": _NATURAL, "default": 0, "metavar": "N", "help": "of drawn weights and of divisions (0)"},
    "device": {"metavar": "D", "help": "cpu, cuda or cuda:NUMBER (cuda if there is one)"},
    "workers": {"type": _NATURAL, "metavar": "N", "help": "threads that read images (on a GPU up to 8, else none)"},
    "threads": {"type": _POSITIVE, "metavar": "N", "help": "of the computation on a CPU (the cores)"},
    "passes": {"type": _POSITIVE, "default": 20, "metavar": "N", "help": "timed forward passes (20)"},
    "no-timings": {"action": "store_true", "help": "leave latency and memory out of the manifest"},
    "quiet": {"action": "store_true", "help": "no progress"},
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="python -m corestack.pool", description="Runs models on data and writes their predictions as a pool, which "
                  "corestack fit and compare take. Members that are finished are skipped; nothing is downloaded.")  # fmt: skip
    top.add_argument("--version", action="version", version=f"corestack {version}")
    inside = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, data in SETS.items():
        sub = inside.add_parser(name, help=data.help, description=f"{data.help[:1].upper()}{data.help[1:]}.")
        sub.add_argument("pool", type=Path, metavar="POOL", help="folder of the pool; made if it is not there, else added to")
        for option in data.options.split():
            sub.add_argument(f"--{option}", **{**OPTIONS[option], **({"required": True} if option == "data" and name != "coco" else {})})
        for option, keywords in SHARED.items():
            sub.add_argument(f"--{option}", **keywords)
        sub.set_defaults(**{**UNSET, **data.defaults})
    what = "language models: documents of token ids, and the likeliest tokens at each place"
    sub = inside.add_parser("lm", help=what, description=f"{what[:1].upper()}{what[1:]}.")
    sub.add_argument("pool", type=Path, metavar="POOL", help="folder of the pool; made if it is not there, else added to")
    _lm.add_options(sub, _POSITIVE, _named)
    return top


def members(texts: Sequence[str], weights: str) -> list[Member]:
    found = []
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or "@" in name:
            name, rest = "", text
        model, at, own = rest.partition("@")
        if not model or (at and not own) or text.startswith("="):
            raise InputError(f"--models: {text!r} is not of the form [NAME=]MODEL[@WEIGHTS]")
        name = name or model.rpartition(":")[2]
        found.append(Member(name, model, own or _weights(name, model, weights, len(texts))))
    return found


def _weights(name: str, model: str, weights: str, count: int) -> str:
    if count > 1 and os.path.isfile(weights):
        raise InputError(f"--weights {weights} is one file for {count} models; give a folder with NAME.pth for each, or MODEL@FILE")
    places = [f"{stem}{end}" for stem in (name, model) for end in (".pth", ".pt", ".safetensors", "-????????.pth")]
    found = [str(path) for place in places for path in sorted(Path(weights).glob(place))] if os.path.isdir(weights) else [weights]
    if not found:
        raise InputError(f"{name}: there is no {name}.pth in {weights} (or .pt, .safetensors)")
    return found[0]


def run(a: Namespace) -> None:
    if a.command == "lm":
        return _lm.run(a)
    data, cores = SETS[a.command], len(os.sched_getaffinity(0))
    torch, pool = _networks.need("torch", "torch"), _export.Pool(a.pool)
    try:
        a.device = str(torch.zeros(1, device=a.device or ("cuda" if torch.cuda.is_available() else "cpu")).device)
    except Exception as error:
        raise InputError(f"--device: {a.device} cannot be used: {_networks.line(error)}") from error
    if a.device == "cpu" and a.compute in ("tf32", "float16"):
        raise InputError(f"--compute {a.compute} needs a GPU; a CPU has float32 and bfloat16")
    if len(dict(a.split)) < len(a.split):
        raise InputError("--split: a split is named twice")
    chosen = members(a.models, a.weights) if a.models else [Member(*held["member"]) for held in pool.members.values() if "cost" in held]
    if not chosen:
        raise InputError(f"--models: name the models; there is no pool in {a.pool} yet")
    task, splits = data.splits(a, pool)
    if not splits:
        raise InputError("--split: name at least one, like --split oof=FOLDER --split test=FOLDER")
    for member in chosen:
        _networks.check(member, data.task)
    a.threads = a.threads or cores
    a.workers = a.workers if a.workers is not None else 0 if a.device == "cpu" else min(8, cores)
    _export.export(_export.Request(a.pool, task, chosen, splits, a))


def main(argv: Optional[Sequence[str]] = None) -> int:
    try:
        run(parser().parse_args(argv))
        return 0
    except (Error, OSError, UnicodeError) as error:  # UnicodeError: names of files
        for line in str(error).splitlines():
            print(f"corestack.pool: error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("corestack.pool: stopped; the same command goes on from here", file=sys.stderr)
        return 130
