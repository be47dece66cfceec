"""The members of the paper's pools by name, and where a network of each can be had.

Paper: section "Experimental Setup" (fourteen backbones) and "Dense Prediction" (eight UperNet and seven Mask R-CNN
members). Nothing is imported here but for asking whether a package is installed.
"""
from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

__all__ = ["CLASSIFIERS", "DETECTORS", "LISTS", "SEGMENTERS", "Backbone", "chosen", "missing_line"]


@dataclass(frozen=True)
class Backbone:
    """One member of a pool of the paper.

    `title` is its name in the paper, `name` the member's name here. `torchvision`, `timm` and `transformers` are the
    names of trained networks in these packages, or None; packages are tried in this order.
    """

    title: str
    name: str
    family: str
    torchvision: Optional[str] = None
    timm: Optional[str] = None
    transformers: Optional[str] = None

    def sources(self) -> list[str]:
        """The networks as `--models` takes them: NAME of torchvision, timm:NAME or transformers:NAME."""
        named = [(self.torchvision, ""), (self.timm, "timm:"), (self.transformers, "transformers:")]
        return [prefix + name for name, prefix in named if name]


# Twelve are in torchvision. Its nearest RegNet, regnet_y_3_2gf, is another network than RegNetY-4.0GF.
CLASSIFIERS = (
    Backbone("ResNet-50", "resnet50", "cnn", "resnet50", "resnet50"),
    Backbone("ResNet-101", "resnet101", "cnn", "resnet101", "resnet101"),
    Backbone("ResNet-152", "resnet152", "cnn", "resnet152", "resnet152"),
    Backbone("EfficientNet-B0", "efficientnet_b0", "cnn", "efficientnet_b0", "efficientnet_b0"),
    Backbone("EfficientNet-B3", "efficientnet_b3", "cnn", "efficientnet_b3", "efficientnet_b3"),
    Backbone("EfficientNet-B7", "efficientnet_b7", "cnn", "efficientnet_b7", "tf_efficientnet_b7"),
    Backbone("RegNet-Y-040", "regnety_040", "cnn", None, "regnety_040"),
    Backbone("ViT-B/16", "vit_b_16", "transformer", "vit_b_16", "vit_base_patch16_224"),
    Backbone("ViT-L/16", "vit_l_16", "transformer", "vit_l_16", "vit_large_patch16_224"),
    Backbone("DeiT-S", "deit_s", "transformer", None, "deit_small_patch16_224"),
    Backbone("Swin-T", "swin_t", "hierarchical-transformer", "swin_t", "swin_tiny_patch4_window7_224"),
    Backbone("Swin-B", "swin_b", "hierarchical-transformer", "swin_b", "swin_base_patch4_window7_224"),
    Backbone("ConvNeXt-T", "convnext_tiny", "modernized-cnn", "convnext_tiny", "convnext_tiny"),
    Backbone("ConvNeXt-B", "convnext_base", "modernized-cnn", "convnext_base", "convnext_base"),
)

# torchvision has no UperNet and no network trained on ADE20K. Both ViT-Adapters are in their authors' repository only.
SEGMENTERS = (
    Backbone("UperNet Swin-T", "upernet_swin_t", "hierarchical-transformer", transformers="openmmlab/upernet-swin-tiny"),
    Backbone("UperNet Swin-B", "upernet_swin_b", "hierarchical-transformer", transformers="openmmlab/upernet-swin-base"),
    Backbone("UperNet Swin-L", "upernet_swin_l", "hierarchical-transformer", transformers="openmmlab/upernet-swin-large"),
    Backbone("UperNet ConvNeXt-T", "upernet_convnext_t", "modernized-cnn", transformers="openmmlab/upernet-convnext-tiny"),
    Backbone("UperNet ConvNeXt-S", "upernet_convnext_s", "modernized-cnn", transformers="openmmlab/upernet-convnext-small"),
    Backbone("UperNet ConvNeXt-B", "upernet_convnext_b", "modernized-cnn", transformers="openmmlab/upernet-convnext-base"),
    Backbone("UperNet ViT-Adapter-B", "upernet_vit_adapter_b", "transformer"),
    Backbone("UperNet ViT-Adapter-L", "upernet_vit_adapter_l", "transformer"),
)

# torchvision has one of the seven; the others are in mmdetection or in the authors' repositories.
DETECTORS = (
    Backbone("Mask R-CNN ResNet-50", "maskrcnn_resnet50_fpn", "cnn", "maskrcnn_resnet50_fpn"),
    Backbone("Mask R-CNN ResNet-101", "maskrcnn_resnet101_fpn", "cnn"),
    Backbone("Mask R-CNN ResNeXt-101", "maskrcnn_resnext101_fpn", "cnn"),
    Backbone("Mask R-CNN Swin-T", "maskrcnn_swin_t", "hierarchical-transformer"),
    Backbone("Mask R-CNN Swin-B", "maskrcnn_swin_b", "hierarchical-transformer"),
    Backbone("Mask R-CNN Swin-L", "maskrcnn_swin_l", "hierarchical-transformer"),
    Backbone("Mask R-CNN ConvNeXt-B", "maskrcnn_convnext_b", "modernized-cnn"),
)

LISTS = {"classification": CLASSIFIERS, "segmentation": SEGMENTERS, "detection": DETECTORS}


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def chosen(members: Sequence[Backbone]) -> tuple[list[tuple[Backbone, str]], list[Backbone]]:
    """The members that an installed package has, each with its network, and those that none has."""
    found, absent = [], []
    for member in members:
        for source in member.sources():
            if installed(source.split(":")[0] if ":" in source else "torchvision"):
                found.append((member, source))
                break
        else:
            absent.append(member)
    return found, absent


def missing_line(members: Sequence[Backbone], absent: Sequence[Backbone]) -> str:
    """One line about members that no installed package has: which package they need, or that a factory must give them."""
    needs: dict[str, list[str]] = {}
    for member in absent:
        source = next((s for s in member.sources()), "")
        needs.setdefault(source.split(":")[0] if ":" in source else "", []).append(member.title)
    parts = []
    for package, titles in needs.items():
        verb = "needs" if len(titles) == 1 else "need"
        names = ", ".join(titles)
        parts.append(f"{names} {verb} {package} (not installed)" if package
                     else f"{names}: in no package that is supported; name a factory, file.py:function")
    return f"{len(members) - len(absent)} of the paper's {len(members)} members: " + "; ".join(parts)
