#!/usr/bin/python3
"""The members of the paper's pools, as `python -m corestack.pool --models` takes them: fourteen backbones, eight UperNet and
seven Mask R-CNN.

    experiments/paper_members.py classification|segmentation|detection

Prints those that an installed package has, and names the others on standard error. Networks of timm and transformers are made by the
functions of this file, which downloads nothing.
"""
import importlib.util
import os
import sys

# title in the paper, name of the member, and its network in torchvision, timm or transformers (None: in no such package)
CLASSIFIERS = [
    *((f"ResNet-{n}", f"resnet{n}", f"torchvision:resnet{n}") for n in (50, 101, 152)),
    *((f"EfficientNet-{b}", f"efficientnet_{b.lower()}", f"torchvision:efficientnet_{b.lower()}") for b in ("B0", "B3", "B7")),
    ("RegNet-Y-040", "regnety_040", "timm:regnety_040"),  # torchvision's regnet_y_3_2gf is another network
    ("ViT-B/16", "vit_b_16", "torchvision:vit_b_16"),
    ("ViT-L/16", "vit_l_16", "torchvision:vit_l_16"),
    ("DeiT-S", "deit_s", "timm:deit_small_patch16_224"),
    ("Swin-T", "swin_t", "torchvision:swin_t"),
    ("Swin-B", "swin_b", "torchvision:swin_b"),
    ("ConvNeXt-T", "convnext_tiny", "torchvision:convnext_tiny"),
    ("ConvNeXt-B", "convnext_base", "torchvision:convnext_base"),
]
SEGMENTERS = [
    *((f"UperNet Swin-{s[0].upper()}", f"upernet_swin_{s[0]}", f"transformers:openmmlab/upernet-swin-{s}") for s in ("tiny", "base", "large")),
    *((f"UperNet ConvNeXt-{s[0].upper()}", f"upernet_convnext_{s[0]}", f"transformers:openmmlab/upernet-convnext-{s}")
      for s in ("tiny", "small", "base")),
    ("UperNet ViT-Adapter-B", "upernet_vit_adapter_b", None),
    ("UperNet ViT-Adapter-L", "upernet_vit_adapter_l", None),
]  # fmt: skip
DETECTORS = [
    ("Mask R-CNN ResNet-50", "maskrcnn_resnet50_fpn", "torchvision:maskrcnn_resnet50_fpn"),
    *((f"Mask R-CNN {title}", f"maskrcnn_{name}", None) for title, name in (
        ("ResNet-101", "resnet101_fpn"), ("ResNeXt-101", "resnext101_fpn"), ("Swin-T", "swin_t"), ("Swin-B", "swin_b"), ("Swin-L", "swin_l"),
        ("ConvNeXt-B", "convnext_b"))),
]  # fmt: skip
LISTS = {"classification": CLASSIFIERS, "segmentation": SEGMENTERS, "detection": DETECTORS}


def _timm(name, classes, trained):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import timm

    network = timm.create_model(name, pretrained=trained, num_classes=classes)
    return network, timm.data.create_transform(**timm.data.resolve_data_config({}, model=network))


def _upernet(name, classes, trained):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    if trained:
        return transformers.UperNetForSemanticSegmentation.from_pretrained(name, local_files_only=True)
    config = transformers.UperNetConfig.from_pretrained(name, local_files_only=True, num_labels=classes)
    return transformers.UperNetForSemanticSegmentation(config)


def _factory(source):
    package, _, name = source.partition(":")
    make = _timm if package == "timm" else _upernet

    def build(classes, trained):
        return make(name, classes, trained)

    return build


# A function for each network of timm and transformers, with trained weights or for a checkpoint.
for _list in LISTS.values():
    for _, _name, _source in _list:
        if _source and not _source.startswith("torchvision:"):
            globals()[_name] = _factory(_source)


def installed(package):
    return importlib.util.find_spec(package) is not None


def chosen(kind):
    """Members as --models takes them, and what is said about the others."""
    found, absent = [], []
    for title, name, source in LISTS[kind]:
        package, _, network = (source or "").partition(":")
        if not source:
            absent.append(f"{title} (in no package that is known here; name a factory)")
        elif not installed(package):
            absent.append(f"{title} ({package} is not installed)")
        elif package == "torchvision":
            found.append(network if network == name else f"{name}={network}")
        else:
            found.append(f"{name}={os.path.realpath(__file__)}:{name}")
    return found, absent


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LISTS:
        sys.exit(__doc__)
    members, others = chosen(sys.argv[1])
    if others:
        print(f"{len(members)} of the paper's {len(LISTS[sys.argv[1]])} members; without {', '.join(others)}", file=sys.stderr)
    print(" ".join(members))
