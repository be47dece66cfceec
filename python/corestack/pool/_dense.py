"""Networks of maps and of boxes: names of torchvision and transformers, or factories, with their weights. Nothing is
fetched from a network."""
from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .._errors import InputError
from . import _models
from ._task import Member, Options

TRANSFORMERS = "transformers:"


class Found(NamedTuple):
    network: Any
    transform: Any  # the factory's, or None
    family: str
    categories: Optional[list[str]]  # of the outputs, if the weights say them


def seed(member: Member, options: Options) -> None:
    """Weights that are drawn depend on the member's name alone, not on what ran before."""
    torch = _models.need("torch", "torch")
    torch.manual_seed(int.from_bytes(hashlib.sha256(f"{options.seed} {member.name}".encode()).digest()[:7], "little"))


def network(member: Member, options: Options, kind: str, counts: Sequence[int],
            extras: Sequence[Mapping[str, Any]] = ({},)) -> Found:
    """A network of torchvision.models.`kind` or of a factory.

    `counts`: the numbers of outputs that fit the data, the likeliest first; a checkpoint decides between them. `extras`:
    forms that a checkpoint may have, as arguments of torchvision's builder."""
    seed(member, options)
    if member.model.startswith(TRANSFORMERS):
        return _from_transformers(member, kind, counts)
    if _models.is_factory(member.model):
        return _from_factory(member, options, counts)
    return _from_torchvision(member, kind, counts, extras)


def _from_factory(member: Member, options: Options, counts: Sequence[int]) -> Found:
    try:
        built = _models.call(member.model, classes=counts[0], num_classes=counts[0], image_size=options.image_size)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{member.name}: {member.model} failed: {type(error).__name__}: {error}") from error
    made, transform = _models.split_built(member, built)
    if not hasattr(made, "eval") or not hasattr(made, "parameters"):
        raise InputError(f"{member.name}: {member.model} returned {type(made).__name__}, not a torch.nn.Module")
    path = _models.weights_file(member)
    if path is not None:
        _models.load_state(member, made, path)
    elif member.weights not in ("none", "default"):
        raise InputError(f"{member.name}: there is no weights file {member.weights}")
    return Found(made, transform, member.model.rpartition(":")[2], getattr(made, "categories", None))


def _from_torchvision(member: Member, kind: str, counts: Sequence[int], extras: Sequence[Mapping[str, Any]]) -> Found:
    models = _models.need("torchvision.models", "torchvision")
    if not hasattr(models, "list_models"):
        raise InputError("torchvision 0.14 or later is needed")
    listed = models.list_models(getattr(models, kind))
    if member.model not in listed:
        raise InputError(f"{member.name}: torchvision has no model {member.model} for {kind}; it has {', '.join(listed)}. "
                         f"Others can be given as a factory, file.py:function")

    def build(count: int, **extra: Any) -> Any:
        try:
            return models.get_model(member.model, weights=None, weights_backbone=None, num_classes=count, **extra)
        except Exception as error:
            raise InputError(f"{member.name}: {member.model} cannot be built: {type(error).__name__}: {error}") from error

    family = member.model.split("_")[0]
    path = _models.weights_file(member)
    if path is None and member.weights == "none":
        return Found(build(counts[0]), None, family, None)
    known = models.get_model_weights(member.model)
    if path is not None:
        names = next((w.meta["categories"] for w in known if os.path.basename(w.url) == path.name), None)
        first: Optional[InputError] = None
        for count in counts:
            for extra in extras:
                made = build(count, **extra)
                try:
                    _models.load_state(member, made, path)
                    return Found(made, None, family, names if names and len(names) == count else None)
                except InputError as error:
                    first = first or error
        assert first is not None
        raise first
    by_name = {w.name.lower(): w for w in known}
    if member.weights != "default" and member.weights.lower() not in by_name:
        raise InputError(f"{member.name}: torchvision has no weights {member.weights} for {member.model}; it has "
                         f"{', '.join(w.name for w in known) or 'none'}")
    weights = known.DEFAULT if member.weights == "default" else by_name[member.weights.lower()]
    categories = list(weights.meta["categories"])
    if len(categories) not in counts:
        raise InputError(f"{member.name}: the weights {weights.name} have {len(categories)} classes, the data have {counts[0]}; "
                         f"give a checkpoint of a model trained on these classes")
    file = _models.local_weights(member, weights.url)
    made = build(len(categories), **extras[-1])
    _models.load_state(member, made, file)
    return Found(made, None, family, categories)


def _from_transformers(member: Member, kind: str, counts: Sequence[int]) -> Found:
    if kind != "segmentation":
        raise InputError(f"{member.name}: {member.model}: networks of transformers are for segmentation; wrap a detector in "
                         f"a factory, file.py:function")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise InputError(f"{member.name}: transformers is not installed ({error}): pip install transformers") from error
    name = member.model[len(TRANSFORMERS):]
    path = _models.weights_file(member)
    try:
        upernet = "upernet" in name.lower()
        builder = transformers.UperNetForSemanticSegmentation if upernet else transformers.AutoModelForSemanticSegmentation
        made = builder.from_pretrained(name, local_files_only=True)
    except Exception as error:
        raise InputError(f"{member.name}: transformers cannot load {name}: {str(error).splitlines()[0]}. Nothing is "
                         f"downloaded: the files must be in the local cache (HF_HOME), or give the path of a folder") from error
    if path is not None:
        _models.load_state(member, made, path)
    labels = getattr(made.config, "num_labels", counts[0])
    if labels not in counts:
        raise InputError(f"{member.name}: {name} has {labels} classes, the data have {counts[0]}")
    return Found(made, None, Path(name).name.split("-")[0], None)
