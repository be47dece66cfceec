"""Subcommands of classification: any data, and the layouts of ImageNet-1K, -C and -O, iNaturalist and DomainNet."""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from . import _classify, _data
from ._classify import Classification, Rows
from ._command import Command, named, share
from ._engine import Pool
from ._task import Split, Task

# The 19 kinds of ImageNet-C (Hendrycks and Dietterich 2019; the last four are its "extra" ones) in the paper's families, in
# which gaussian_blur is not listed.
KINDS = {
    "gaussian_noise": "noise", "shot_noise": "noise", "impulse_noise": "noise",
    "defocus_blur": "blur", "glass_blur": "blur", "motion_blur": "blur", "zoom_blur": "blur",
    "snow": "weather", "frost": "weather", "fog": "weather", "brightness": "weather",
    "contrast": "digital", "elastic_transform": "digital", "pixelate": "digital", "jpeg_compression": "digital",
    "speckle_noise": "noise", "gaussian_blur": "blur", "spatter": "digital", "saturate": "digital",
}  # fmt: skip
SEVERITIES = (1, 2, 3, 4, 5)
DOMAINS = ("real", "clipart", "painting", "sketch")


def _known_classes(pool: Pool) -> Optional[list[str]]:
    return list(pool.head["classes"]) if pool.head else None


def _class_file(path: Optional[str]) -> Optional[list[str]]:
    """One name a line, in the order of the models' outputs."""
    if path is None:
        return None
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a list of classes: {error}") from error
    names = [line for line in lines if line]
    if len(set(names)) != len(names) or not names:
        raise InputError(f"{path}: needs one name a line, each once, in the order of the models' outputs")
    return names


def _task(pool: Pool, classes: list[str], counts: Optional[str]) -> Classification:
    held = tuple(_data.training_counts(counts, classes).tolist()) if counts else None
    known = pool.head.get("training_counts")
    return Classification(tuple(classes), held if held is not None or known is None else tuple(known))


def _halves(rows: Rows, part: float, seed: int) -> tuple[Rows, Rows]:
    assert rows.labels is not None
    first, second = _data.divide(list(rows.labels), rows.keys(), part, seed)
    return rows.take(first), rows.take(second)


def _without_labels(text: str, split: str) -> Rows:
    """Out-of-distribution rows: class folders or a plain folder of images."""
    if os.path.isdir(text):
        paths = _data.image_files(Path(text))
        if not paths:
            raise InputError(f"{text}: no images in the folder; files end in {', '.join(_data.EXTENSIONS)}")
        return Rows(_data.Images(text, tuple(paths), ()), None, tuple(paths))
    data = _data.source(text, split)
    if isinstance(data, _data.UserData):
        return Rows(data, None, None)
    return Rows(_data.Images(data.root, data.paths, ()), None, tuple(data.paths))


def _common(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--classes", metavar="FILE", help="class names in the order of the models' outputs, one a line (sorted names)")
    sub.add_argument("--training-counts", metavar="SOURCE", help="training folder, iNaturalist's train.json, or a file with a "
                     "number for each class")  # fmt: skip


# ---- classify


def _classify_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--split", type=named, action="append", default=[], metavar="NAME=SOURCE",
                     help="SOURCE: a folder of class folders, a list of lines 'path label' (LIST@FOLDER), or module:function of a "
                          "data set; can be repeated. corestack fits on the split oof")  # fmt: skip
    sub.add_argument("--ood", type=named, action="append", default=[], metavar="NAME=SOURCE", help="out-of-distribution images; labels are ignored")
    sub.add_argument("--test-share", type=share, metavar="S", help="this share of each class of the split oof becomes the split test")
    _common(sub)


def _classify_prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    if not arguments.split and not arguments.ood:
        raise InputError("--split: name at least one, like --split oof=FOLDER --split test=FOLDER")
    classes = _class_file(arguments.classes) or _known_classes(pool)
    splits: list[Split] = []
    for name, text in arguments.split:
        rows, classes = _classify.read(text, name, classes)
        if name == "oof" and arguments.test_share is not None:
            if any(other == "test" for other, _ in arguments.split):
                raise InputError("--test-share: divides oof into oof and test, and --split names test as well; use one of the two")
            rows, test = _halves(rows, arguments.test_share, arguments.seed)
            splits += [Split("oof", rows), Split("test", test)]
        else:
            splits.append(Split(name, rows))
    if arguments.test_share is not None and all(name != "oof" for name, _ in arguments.split):
        raise InputError("--test-share: divides the split oof, which no --split names")
    splits += [Split(name, _without_labels(text, name), {"ood": True}) for name, text in arguments.ood]
    if classes is None:
        raise InputError("--split: out-of-distribution images say nothing about the classes; name a split with labels too")
    return _task(pool, classes, arguments.training_counts), splits


# ---- imagenet, inaturalist: a validation set, divided


def _validation_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--val", required=True, metavar="SOURCE", help="validation images: a folder of class folders, or LIST@FOLDER with "
                     "lines 'path label' (or Kaggle's LOC_val_solution.csv)")  # fmt: skip
    sub.add_argument("--test-share", type=share, default=0.2, metavar="S", help="share of each class that becomes the split test (0.2)")
    _common(sub)


def _validation_prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    rows, classes = _classify.read(arguments.val, "val", _class_file(arguments.classes) or _known_classes(pool))
    oof, test = _halves(rows, arguments.test_share, arguments.seed)
    return _task(pool, classes, arguments.training_counts), [Split("oof", oof), Split("test", test)]


# ---- imagenet-c


def _corrupted_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--data", required=True, type=Path, metavar="FOLDER", help="KIND/SEVERITY/CLASS/image, or FAMILY/KIND/SEVERITY/...")
    sub.add_argument("--rows", default=None, metavar="SPLIT", help="the images of this split of the pool, or all (test if the pool has "
                     "it, so that no image of the fit is scored)")  # fmt: skip
    sub.add_argument("--kinds", nargs="+", metavar="KIND", help="(all of the 19 that are there)")
    sub.add_argument("--severities", nargs="+", type=int, default=list(SEVERITIES), metavar="S", help="(1 2 3 4 5)")
    sub.add_argument("--name", default="corrupted", help="of the split (corrupted)")
    sub.add_argument("--classes", metavar="FILE", help="class names, one a line, if the pool is new (sorted names)")


def _kind_folders(root: Path, kinds: Optional[list[str]]) -> dict[str, str]:
    """Kind to its folder below root."""
    if not root.is_dir():
        raise InputError(f"{root}: there is no folder of this name")
    found: dict[str, str] = {}
    for kind in kinds or KINDS:
        if kind not in KINDS:
            raise InputError(f"--kinds: {kind} is not one of {', '.join(KINDS)}")
        places = [kind, *(f"{family}/{kind}" for family in ("noise", "blur", "weather", "digital", "extra"))]
        place = next((p for p in places if (root / p).is_dir()), None)
        if place is not None:
            found[kind] = place
        elif kinds:
            raise InputError(f"{root}: there is no folder {kind} here")
    if not found:
        raise InputError(f"{root}: none of the folders gaussian_noise, ..., saturate is here; name the folder that holds them")
    if len(found) < len(kinds or KINDS):
        missing = ", ".join(k for k in KINDS if k not in found)
        print(f"{root}: {len(found)} of the 19 kinds are here; without {missing}", file=sys.stderr)
    return found


def _corrupted_prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    root: Path = arguments.data
    places = _kind_folders(root, arguments.kinds)
    for severity in arguments.severities:
        if severity not in SEVERITIES:
            raise InputError(f"--severities: {severity} is not one of 1 to 5")
    conditions = [(kind, s) for kind in places for s in sorted(set(arguments.severities))]
    folders = [f"{places[kind]}/{s}" for kind, s in conditions]
    for folder in folders:
        if not (root / folder).is_dir():
            raise InputError(f"{root}: there is no folder {folder}; name the severities that are there with --severities")
    first = _data.class_folders(root / folders[0])
    for folder in folders[1:]:
        if set(_data.image_files(root / folder)) != set(first.paths):
            other = sorted(set(first.paths) ^ set(_data.image_files(root / folder)))[0]
            raise InputError(f"{root}: {other} is in only one of {folders[0]} and {folder}; all conditions need the same images")
    classes = _class_file(arguments.classes) or _known_classes(pool) or _data.class_names(root / folders[0])
    images = _data.Images(str(root), first.paths, first.labels, tuple(folders))
    rows = _classify.number(images, classes, str(root))
    entry: dict[str, Any] = {"conditions": [{"shift": KINDS[k], "kind": k, "severity": s} for k, s in conditions]}
    chosen = arguments.rows or ("test" if "test" in pool.content.get("splits", ()) else "all")
    if chosen != "all":
        rows = _rows_of(pool, chosen, rows, root)
        entry["clean"] = chosen
        print(f"{arguments.name}: the {len(rows.labels or ()):,} images of split {chosen}", file=sys.stderr)
    return _task(pool, classes, None), [Split(arguments.name, Rows(rows.data, rows.labels, rows.ids, len(conditions)), entry)]


def _rows_of(pool: Pool, split: str, rows: Rows, root: Path) -> Rows:
    """The corrupted images of a split, in its order and with its ids."""
    import numpy as np

    entry = pool.split(split).get("entry", {})
    if "ids" not in entry:
        raise InputError(f"--rows: the pool has no split {split} with ids; use --rows all")
    ids = [i.decode() if isinstance(i, bytes) else str(i) for i in np.load(pool.folder / entry["ids"]).tolist()]
    at = {path: i for i, path in enumerate(rows.ids or ())}
    names: dict[str, int] = {}
    for path, i in at.items():
        names[os.path.basename(path)] = -1 if os.path.basename(path) in names else i
    order = []
    for name in ids:
        row = at.get(name, names.get(os.path.basename(name), -1))
        if row < 0:
            raise InputError(f"{root}: there is no image {name} of split {split} in it; is it made of the same images?")
        order.append(row)
    taken = rows.take(order)
    if "labels" in entry and np.load(pool.folder / entry["labels"]).tolist() != list(taken.labels or ()):
        raise InputError(f"{root}: classes of its images differ from those of split {split}")
    return Rows(taken.data, taken.labels, tuple(ids))


# ---- imagenet-o


def _ood_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--data", required=True, metavar="FOLDER", help="images, in class folders or not")
    sub.add_argument("--name", default="imagenet-o", help="of the split (imagenet-o)")


def _ood_prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    classes = _known_classes(pool)
    if classes is None:
        raise InputError(f"{arguments.pool}: out-of-distribution images are added to a pool; make it with imagenet first")
    return _task(pool, classes, None), [Split(arguments.name, _without_labels(arguments.data, arguments.name), {"ood": True})]


# ---- domainnet


def _domain_arguments(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="DOMAIN/CLASS/image, or lists DOMAIN_list.txt or DOMAIN_test.txt "
                     "with lines 'path label'")  # fmt: skip
    sub.add_argument("--domains", nargs="+", default=list(DOMAINS), metavar="DOMAIN", help=f"({' '.join(DOMAINS)})")
    sub.add_argument("--domain", type=named, action="append", default=[], metavar="NAME=SOURCE", help="another place for a domain's images")
    sub.add_argument("--meta", nargs="+", metavar="DOMAIN", help="domains whose images, but for --test-share, make the split oof (all); "
                     "'real' alone transfers without labels of the others")  # fmt: skip
    sub.add_argument("--test-share", type=share, default=0.2, metavar="S", help="of each class of a domain of --meta (0.2)")
    _common(sub)


def _domain_source(root: Path, domain: str) -> str:
    for name in (f"{domain}_list.txt", f"{domain}_test.txt", f"{domain}.txt", domain):
        if (root / name).exists():
            return str(root / name)
    raise InputError(f"{root}: there is no list or folder of domain {domain}; name its place with --domain {domain}=SOURCE")


def _domain_prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    own = dict(arguments.domain)
    domains = [*arguments.domains, *(d for d in own if d not in arguments.domains)]
    unknown = next((d for d in arguments.meta or () if d not in domains), None)
    if unknown is not None:
        raise InputError(f"--meta: {unknown} is not one of the domains {', '.join(domains)}")
    held = {d: _data.source(own.get(d) or _domain_source(arguments.data, d), d) for d in domains}
    other = next((d for d, images in held.items() if not isinstance(images, _data.Images)), None)
    if other is not None:
        raise InputError(f"--domain {other}: use a folder or a list; data sets of your own go through classify")
    wanted = _class_file(arguments.classes) or _known_classes(pool)
    if wanted is not None:  # of the 345 classes, say
        held = {d: images.take([i for i, c in enumerate(images.labels) if c in set(wanted) or c.isdecimal()]) for d, images in held.items()}
    classes = wanted or _data.list_classes(
        tuple(c for images in held.values() for c in images.labels), tuple(p for images in held.values() for p in images.paths)
    )
    splits: list[Split] = []
    parts: list[tuple[str, Rows]] = []
    for domain, images in held.items():
        rows = _classify.number(_below(images, arguments.data), classes, domain)
        if domain in (arguments.meta or domains):
            meta, rows = _halves(rows, arguments.test_share, arguments.seed)
            parts.append((domain, meta))
        splits.append(Split(domain, rows, {"domain": domain}))
    return _task(pool, classes, arguments.training_counts), [Split("oof", _joined(parts)), *splits]


def _below(images: _data.Images, root: Path) -> _data.Images:
    """With paths relative to the folder of all domains, so that ids differ between domains."""
    prefix = os.path.relpath(images.root, root)
    if prefix == ".":
        return images
    return _data.Images(str(root), tuple(f"{prefix}/{p}" for p in images.paths), images.labels)


def _joined(parts: list[tuple[str, Rows]]) -> Rows:
    images = [rows.data for _, rows in parts]
    data = _data.Images(images[0].root, tuple(p for i in images for p in i.paths), ())
    labels = tuple(label for _, rows in parts for label in rows.labels or ())
    column = tuple(domain for domain, rows in parts for _ in rows.labels or ())
    return Rows(data, labels, tuple(data.paths), columns=(("domains", column),))


COMMANDS = [
    Command("classify", "any classification data", _classify_arguments, _classify_prepare),
    Command("imagenet", "ImageNet-1K: the validation images, divided into oof and test", _validation_arguments, _validation_prepare),
    Command("imagenet-c", "ImageNet-C: 19 kinds of corruption at 5 severities, as conditions of one split", _corrupted_arguments,
            _corrupted_prepare, defaults={"dtype": "float16"}),  # fmt: skip
    Command("imagenet-o", "ImageNet-O: out-of-distribution images", _ood_arguments, _ood_prepare),
    Command("inaturalist", "iNaturalist-2021: 10,000 classes, with training counts", _validation_arguments, _validation_prepare,
            defaults={"dtype": "float16"}),  # fmt: skip
    Command("domainnet", "DomainNet: a split for each domain, and oof of several with a domain for each row", _domain_arguments,
            _domain_prepare),  # fmt: skip
]
