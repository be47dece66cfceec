"""Networks of torchvision by name, or from a user's factory, with weights. Nothing is downloaded."""
from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import os
import runpy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from ._task import Loaded, Member

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training images


def need(module: str, package: str) -> Any:
    """The module, or one line on what to install."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken installation raises others than ImportError
        raise InputError(f"python -m corestack.pool needs {module}, which cannot be imported ({error}): pip install {package}, "
                         f"or apt-get install python3-{package}") from error  # fmt: skip


@lru_cache(maxsize=None)
def factory(text: str) -> Any:
    """The function that module:function or file.py:function names."""
    where, _, name = text.rpartition(":")
    try:
        held = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    except (Exception, SystemExit) as error:
        raise InputError(f"{text}: {where} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(held.get(name)):
        raise InputError(f"{text}: {where} has no function {name}")
    return held[name]


def call(text: str, **offered: Any) -> Any:
    """Calls a factory with those of the keywords that it takes."""
    function = factory(text)
    try:
        parameters = inspect.signature(function).parameters
        everything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return function(**{k: v for k, v in offered.items() if everything or k in parameters})
    except (Exception, SystemExit) as error:
        raise InputError(f"{text} failed: {type(error).__name__}: {error}") from error


def weights_file(member: Member) -> Optional[Path]:
    """The checkpoint that the user named."""
    weights = member.weights
    return Path(weights) if os.sep in weights or os.path.exists(weights) or Path(weights).suffix else None


def identity(member: Member) -> dict[str, Any]:
    """A checkpoint counts by its content, wherever it lies."""
    path = weights_file(member)
    content = "" if path is None else f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    return {"model": member.model, "weights": content or member.weights}


def check(member: Member, kind: str) -> None:
    """Names and files of weights, before anything is computed."""
    path, models = weights_file(member), need("torchvision.models", "torchvision")
    named = path is None and ":" in member.model and member.weights not in ("none", "default")  # weights of a name, for a factory
    if named or (path is not None and not path.is_file()):
        raise InputError(f"{member.name}: there is no weights file {member.weights}")
    if ":" in member.model:
        factory(member.model)
        return
    listed = models.list_models(*([] if kind == "classification" else [getattr(models, kind)]))
    if member.model not in listed:
        near = difflib.get_close_matches(member.model, listed, 1) or listed[:1]
        raise InputError(f"{member.name}: torchvision has no model {member.model} for {kind}; did you mean {near[0]}? Others are given "
                         f"as a factory, file.py:function")  # fmt: skip
    if path is None and member.weights != "none":
        _local_weights(member)


def _local_weights(member: Member) -> tuple[Any, Path]:
    """The entry of torchvision's list, and the file where torch.hub would have put it."""
    known = need("torchvision.models", "torchvision").get_model_weights(member.model)
    names = {w.name.lower(): w for w in known}
    if not names or member.weights.lower() not in ("default", *names):
        raise InputError(f"{member.name}: torchvision has no weights {member.weights} for {member.model}; "
                         f"it has {', '.join(w.name for w in known) or 'none'}; give a checkpoint or --weights none")  # fmt: skip
    weights = known.DEFAULT if member.weights == "default" else names[member.weights.lower()]
    file = Path(need("torch", "torch").hub.get_dir()) / "checkpoints" / os.path.basename(weights.url)
    if not file.is_file():
        raise InputError(f"{member.name}: the weights file {file.name} is missing; it is looked for in {file.parent} (TORCH_HOME sets "
                         f"this). Nothing is downloaded: fetch {weights.url}, or give --weights FOLDER")  # fmt: skip
    return weights, file


def load(member: Member, options: Any, kind: str, counts: Sequence[int], size: Optional[int],
         extras: Sequence[Mapping[str, Any]] = ({},)) -> Loaded:  # fmt: skip
    """`counts`: numbers of outputs that fit the data, the likeliest first. `size`: of images, for factories. `extras`:
    arguments of torchvision's builder. A checkpoint decides between counts and extras."""
    torch = need("torch", "torch")
    # Weights that are drawn depend on the member's name alone, not on what ran before.
    torch.manual_seed(int.from_bytes(hashlib.sha256(f"{options.seed} {member.name}".encode()).digest()[:7], "little"))
    make = _from_factory if ":" in member.model else _from_torchvision
    found = make(member, options, kind, counts, size, extras)
    if options.transform is not None:
        found = found._replace(transform=call(options.transform, image_size=size))
    found.network.eval()
    return found


def _from_factory(member: Member, options: Any, kind: str, counts: Sequence[int], size: Optional[int], extras: Any) -> Loaded:
    built = call(member.model, classes=counts[0], num_classes=counts[0], image_size=size, trained=member.weights == "default")
    network, transform = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not hasattr(network, "eval") or not hasattr(network, "parameters") or not (transform is None or callable(transform)):
        raise InputError(f"{member.model} returned {type(network).__name__}, not a torch.nn.Module, or one and its transform")
    path = weights_file(member)
    if path is not None:
        load_state(member, network, path)
    return Loaded(network, transform, member.model.rpartition(":")[2], getattr(network, "categories", None))


def _from_torchvision(member: Member, options: Any, kind: str, counts: Sequence[int], size: Optional[int], extras: Any) -> Loaded:
    models = need("torchvision.models", "torchvision")
    classify = kind == "classification"
    family = models.get_model_builder(member.model).__module__.rpartition(".")[2] if classify else member.model.split("_")[0]
    path, weights = weights_file(member), None
    if path is not None:
        weights = next((w for w in models.get_model_weights(member.model) if os.path.basename(w.url) == path.name), None)
    elif member.weights != "none":
        weights, path = _local_weights(member)
        if kind != "detection" and len(weights.meta["categories"]) not in counts:
            raise InputError(f"the weights {weights.name} have {len(weights.meta['categories'])} classes, the data have {counts[0]}; "
                             f"give a checkpoint of a model trained on these classes")  # fmt: skip
        counts = [len(weights.meta["categories"])]
    wrong: Optional[Exception] = None
    for count, extra in ((c, e) for c in counts for e in extras):
        try:
            backbone = {} if classify else {"weights_backbone": None}
            network = models.get_model(member.model, weights=None, num_classes=count, **backbone, **extra)
            if path is not None:
                load_state(member, network, path)
        except Exception as error:  # builders and load_state_dict raise several kinds
            wrong = wrong or error
        else:
            transform = weights.transforms() if weights and classify and options.image_size is None else None
            lists = (w.meta["categories"] for w in models.get_model_weights(member.model))
            return Loaded(network, transform, family, next((names for names in lists if len(names) == count), None))
    raise InputError(f"{member.model} cannot be made: {wrong}") from wrong


def load_state(member: Member, network: Any, path: Path) -> None:
    """A state dict, or one under a key like state_dict, with or without the prefix of parallel training."""
    torch = need("torch", "torch")
    try:
        if path.suffix == ".safetensors":
            from .. import io

            held: Any = {k: torch.from_numpy(v.copy()) for k, v in io.read_safetensors(path).items()}
        else:
            held = torch.load(path, map_location="cpu", weights_only=True)
        for key in ("state_dict_ema", "model_ema", "state_dict", "model", "model_state_dict", "net"):
            if isinstance(held.get(key), dict):
                held = held[key]
                break
        for prefix in ("module.", "_orig_mod."):
            if held and all(k.startswith(prefix) for k in held):
                held = {k[len(prefix):]: v for k, v in held.items()}
    except Exception as error:
        raise InputError(f"{path} is not a checkpoint of weights: {line(error)}") from error
    try:
        network.load_state_dict(held)
    except RuntimeError as error:
        raise InputError(f"{path} does not fit {member.model}: {line(str(error).partition(':')[2])}") from error


def line(error: object) -> str:
    return str(error).strip().partition("\n")[0]
