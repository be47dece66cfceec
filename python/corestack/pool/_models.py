"""Names and factories to networks with their weights and preprocessing. Nothing is fetched from a network."""
from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from ._task import Loaded, Member, Options

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training images, as torchvision has them
SIZE = 224


def need(module: str, package: str) -> Any:
    """The module, or one line on what to install."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken installation raises others than ImportError
        raise InputError(
            f"python -m corestack.pool needs {module}, which cannot be imported ({error}): pip install {package}, "
            f"or apt-get install python3-{package}"
        ) from error


def factory(text: str) -> Any:
    """The function that module:function or file.py:function names."""
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            path = Path(where)
            if not path.is_file():
                raise InputError(f"{text}: there is no file {where}")
            title = f"corestack_pool_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
            if title not in sys.modules:
                spec = importlib.util.spec_from_file_location(title, path)
                assert spec is not None and spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[title] = module
                try:
                    spec.loader.exec_module(module)
                except BaseException:
                    del sys.modules[title]
                    raise
            found = getattr(sys.modules[title], name, None)
        else:
            found = getattr(importlib.import_module(where), name, None)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{text}: {where} cannot be imported: {type(error).__name__}: {error}") from error
    if found is None:
        raise InputError(f"{text}: {where} has no function {name}")
    if not callable(found):
        raise InputError(f"{text}: {name} is not a function")
    return found


def call(text: str, **offered: Any) -> Any:
    """Calls a factory with those of the keywords that it takes."""
    function = factory(text)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        offered = {k: v for k, v in offered.items() if k in parameters}
    return function(**offered)


def is_factory(model: str) -> bool:
    return ":" in model and not model.startswith("timm:")


def weights_file(member: Member) -> Optional[Path]:
    """The checkpoint that the user named."""
    return Path(member.weights) if _is_path(member.weights) else None


def _is_path(weights: str) -> bool:
    return os.sep in weights or os.path.exists(weights) or weights.endswith((".pth", ".pt", ".bin", ".safetensors", ".ckpt"))


def identity(member: Member) -> dict[str, Any]:
    """For the records: a checkpoint counts by its content, wherever it lies."""
    path = weights_file(member)
    if path is None:
        return {"model": member.model, "weights": member.weights}
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 22):
                total.update(piece)
    except OSError as error:
        raise InputError(f"{member.name}: the weights {path} cannot be read: {error.strerror or error}") from error
    return {"model": member.model, "weights": f"{path.name} {total.hexdigest()[:16]}"}


def check(member: Member) -> None:
    """What can be said before a network is built: names, and that the files of weights are there."""
    path = weights_file(member)
    if path is not None and not path.is_file():
        raise InputError(f"{member.name}: there is no weights file {path}")
    if is_factory(member.model):
        factory(member.model)
        if path is None and member.weights not in ("none", "default"):
            raise InputError(f"{member.name}: there is no weights file {member.weights}")
    elif member.model.startswith("timm:") or not known_to_torchvision(member.model):
        _timm(member)
    elif path is None and member.weights != "none":
        local_weights(member, _named_weights(member).url)


def standard_transform(size: int = SIZE) -> Any:
    """Shorter side to size * 256 / 224, the middle square, ImageNet's mean and deviation."""
    presets = need("torchvision.transforms._presets", "torchvision")
    return presets.ImageClassification(crop_size=size, resize_size=round(size * 256 / 224), mean=MEAN, std=DEVIATION)


def load(member: Member, options: Options, classes: int) -> Loaded:
    """A classifier with `classes` outputs."""
    torch = need("torch", "torch")
    need("torchvision", "torchvision")
    # Weights that are drawn depend on the member's name alone, not on what ran before.
    torch.manual_seed(int.from_bytes(hashlib.sha256(f"{options.seed} {member.name}".encode()).digest()[:7], "little"))
    if is_factory(member.model):
        loaded = _from_factory(member, options, classes)
    elif member.model.startswith("timm:") or not known_to_torchvision(member.model):
        loaded = _from_timm(member, options, classes)
    else:
        loaded = _from_torchvision(member, options, classes)
    if options.transform is not None:
        loaded = loaded._replace(transform=call(options.transform, image_size=options.image_size or SIZE))
    return loaded


def known_to_torchvision(model: str) -> bool:
    models = need("torchvision.models", "torchvision")
    if not hasattr(models, "list_models"):
        raise InputError("torchvision 0.14 or later is needed")
    return model in models.list_models()


def _from_factory(member: Member, options: Options, classes: int) -> Loaded:
    try:
        built = call(member.model, classes=classes, num_classes=classes, image_size=options.image_size or SIZE)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{member.name}: {member.model} failed: {type(error).__name__}: {error}") from error
    network, transform = split_built(member, built)
    transform = transform or standard_transform(options.image_size or SIZE)
    if not hasattr(network, "eval") or not hasattr(network, "parameters"):
        raise InputError(f"{member.name}: {member.model} returned {type(network).__name__}, not a torch.nn.Module")
    path = weights_file(member)
    if path is not None:
        load_state(member, network, path)
    elif member.weights not in ("none", "default"):
        raise InputError(f"{member.name}: there is no weights file {member.weights}")
    return Loaded(network, transform, member.model.rpartition(":")[2])


def split_built(member: Member, built: Any) -> tuple[Any, Any]:
    """What a factory returned, as a network and its transform (None: it has none)."""
    network, *rest = built if isinstance(built, tuple) and built else (built,)
    if len(rest) > 1 or (rest and rest[0] is not None and not callable(rest[0])):
        raise InputError(f"{member.name}: {member.model} returned {len(rest) + 1} values; return a network, or a network and its transform")
    return network, rest[0] if rest else None


def _from_torchvision(member: Member, options: Options, classes: int) -> Loaded:
    models = need("torchvision.models", "torchvision")
    builder = models.get_model_builder(member.model) if hasattr(models, "get_model_builder") else None
    family = _family(builder, member.model)
    standard = standard_transform(options.image_size or SIZE)
    path = weights_file(member)
    known = models.get_model_weights(member.model)
    make = partial(models.get_model, member.model, weights=None, num_classes=classes)
    if options.image_size is not None and member.model.startswith("vit_"):
        make = partial(make, image_size=options.image_size)  # their weights are for one size
    if path is not None:
        network = _build(member, make)
        load_state(member, network, path)
        official = [w for w in known if os.path.basename(w.url) == path.name]
        return Loaded(network, official[0].transforms() if official and options.image_size is None else standard, family)
    if member.weights == "none":
        return Loaded(_build(member, make), standard, family)
    weights = _named_weights(member)
    file = local_weights(member, weights.url)
    if len(weights.meta["categories"]) != classes:
        raise InputError(
            f"{member.name}: the weights {weights.name} have {len(weights.meta['categories'])} classes, the data have {classes}; "
            "give a checkpoint of a model trained on these classes"
        )
    network = _build(member, make)
    load_state(member, network, file)
    return Loaded(network, weights.transforms() if options.image_size is None else standard, family)


def _named_weights(member: Member) -> Any:
    """The entry of torchvision's list."""
    known = need("torchvision.models", "torchvision").get_model_weights(member.model)
    names = {w.name.lower(): w for w in known}
    if not names:
        raise InputError(f"{member.name}: torchvision has no trained weights for {member.model}; give a checkpoint or --weights none")
    if member.weights != "default" and member.weights.lower() not in names:
        raise InputError(
            f"{member.name}: torchvision has no weights {member.weights} for {member.model}; it has {', '.join(w.name for w in known)}"
        )
    return known.DEFAULT if member.weights == "default" else names[member.weights.lower()]


def local_weights(member: Member, url: str) -> Path:
    """Where torch.hub would have put the file."""
    torch = need("torch", "torch")
    file = Path(torch.hub.get_dir()) / "checkpoints" / os.path.basename(url)
    if not file.is_file():
        raise InputError(
            f"{member.name}: the weights file {file.name} is missing; it is looked for in {file.parent} (TORCH_HOME sets this). "
            f"Nothing is downloaded: fetch {url}, or give --weights FOLDER"
        )
    return file


def _build(member: Member, builder: Any) -> Any:
    try:
        return builder()
    except Exception as error:
        raise InputError(f"{member.name}: {member.model} cannot be built: {type(error).__name__}: {error}") from error


def _family(builder: Any, model: str) -> str:
    module = getattr(builder, "__module__", "")
    return module.rpartition(".")[2] if module else model.rstrip("0123456789").rstrip("_")


def _timm(member: Member) -> tuple[Any, str]:
    """The package and the name in it."""
    name = member.model[5:] if member.model.startswith("timm:") else member.model
    try:
        timm = importlib.import_module("timm")
    except ImportError:
        near = _near(name)
        raise InputError(
            f"{member.name}: torchvision has no model {name}{near}, and timm is not installed (pip install timm)"
        ) from None
    if not timm.is_model(name.split(".")[0]):
        raise InputError(f"{member.name}: neither torchvision nor timm has a model {name}{_near(name)}")
    return timm, name


def _from_timm(member: Member, options: Options, classes: int) -> Loaded:
    timm, name = _timm(member)
    os.environ["HF_HUB_OFFLINE"] = "1"
    path = weights_file(member)
    if path is None and member.weights not in ("none", "default"):
        raise InputError(f"{member.name}: weights of timm models are none, default or a file, not {member.weights}")
    try:
        network = timm.create_model(name, pretrained=member.weights == "default", num_classes=classes)
    except Exception as error:
        raise InputError(
            f"{member.name}: timm cannot make {name}: {error}. Nothing is downloaded: the weights must be in the local cache"
            .replace("\n", " ")
        ) from error
    if path is not None:
        load_state(member, network, path)
    config = timm.data.resolve_data_config({}, model=network)
    if options.image_size is not None:
        config["input_size"] = (3, options.image_size, options.image_size)
    return Loaded(network, timm.data.create_transform(**config), name.split("_")[0].split(".")[0])


def _near(name: str) -> str:
    import difflib

    models = need("torchvision.models", "torchvision")
    close = difflib.get_close_matches(name, models.list_models(), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def load_state(member: Member, network: Any, path: Path) -> None:
    """Weights from a checkpoint: a state dict, or one under a key like state_dict, with or without the prefix of parallel training."""
    torch = need("torch", "torch")
    try:
        if path.suffix == ".safetensors":
            from .. import io

            held: Any = {k: torch.from_numpy(v.copy()) for k, v in io.read_safetensors(path).items()}
        else:
            keywords = {"weights_only": True} if "weights_only" in inspect.signature(torch.load).parameters else {}
            held = torch.load(path, map_location="cpu", **keywords)
    except FileNotFoundError:
        raise InputError(f"{member.name}: there is no weights file {path}") from None
    except Exception as error:
        raise InputError(f"{member.name}: {path} is not a checkpoint of weights: {str(error).splitlines()[0]}") from error
    for key in ("state_dict_ema", "model_ema", "state_dict", "model", "model_state_dict", "net"):
        if isinstance(held, dict) and isinstance(held.get(key), dict):
            held = held[key]
            break
    if not isinstance(held, dict):
        raise InputError(f"{member.name}: {path} holds {type(held).__name__}, not a state dict; save model.state_dict()")
    for prefix in ("module.", "_orig_mod."):
        if held and all(isinstance(k, str) and k.startswith(prefix) for k in held):
            held = {k[len(prefix) :]: v for k, v in held.items()}
    try:
        network.load_state_dict(held)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(f"{member.name}: {path} does not fit {member.model}: {lines[1] if len(lines) > 1 else lines[0]}") from error
