#!/usr/bin/python3
"""The members of the paper's pools, as `python -m corestack.pool --models` takes them: fourteen backbones, eight UperNet and
seven Mask R-CNN.

    experiments/paper_members.py classification|segmentation|detection [WEIGHTS]

Prints those that an installed package has, and names the others on standard error. Networks of timm and transformers are made by the
functions of this file, which downloads nothing. With WEIGHTS, which are a folder with checkpoints NAME.pth, default or none, torchvision's
own networks for segmentation or detection that have such weights stand in for the members that are missing.
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
STAND_INS = {
    "segmentation": ["fcn_resnet50", "fcn_resnet101", "deeplabv3_resnet50", "deeplabv3_resnet101", "lraspp_mobilenet_v3_large"],
    "detection": ["fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2", "maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2",
                  "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2", "fcos_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large"],
}  # fmt: skip


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


def chosen(kind, weights=""):
    """Members as --models takes them, and what is said about the others. A folder of weights has a checkpoint of each member."""
    found, absent = [], []
    for title, name, source in LISTS[kind]:
        package, _, network = (source or "").partition(":")
        if not source:
            absent.append(f"{title} (in no package that is known here; name a factory)")
        elif not installed(package):
            absent.append(f"{title} ({package} is not installed)")
        elif os.path.isdir(weights) and not os.path.isfile(os.path.join(weights, f"{name}.pth")):
            absent.append(f"{title} (no {name}.pth in {weights})")
        elif package == "torchvision":
            found.append(network if network == name else f"{name}={network}")
        else:
            found.append(f"{name}={os.path.realpath(__file__)}:{name}")
    return found, absent


def has_default(kind, network):
    """Whether the trained weights of torchvision are on this machine. Those for segmentation have other classes than ADE20K."""
    if kind == "segmentation":
        return False
    import torch
    from torchvision import models

    file = os.path.basename(models.get_model_weights(network).DEFAULT.url)
    return os.path.isfile(os.path.join(torch.hub.get_dir(), "checkpoints", file))


def stand_ins(kind, weights, taken):
    """torchvision's networks for the task that have weights and are not taken, and those that have none."""
    names = [n for n in STAND_INS.get(kind, []) if n not in taken and installed("torchvision")]
    if os.path.isdir(weights):
        having = [n for n in names if os.path.isfile(os.path.join(weights, f"{n}.pth"))]
    else:
        having = [n for n in names if weights == "none" or (weights == "default" and has_default(kind, n))]
    return having, [n for n in names if n not in having]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in LISTS:
        sys.exit(__doc__)
    kind, weights = sys.argv[1], "".join(sys.argv[2:])
    members, others = chosen(kind, weights)
    if others:
        print(f"{len(members)} of the paper's {len(LISTS[kind])} members; without {', '.join(others)}", file=sys.stderr)
    if others and weights and kind in STAND_INS:
        more, bare = stand_ins(kind, weights, members)
        members += more
        print(f"stand-ins of torchvision, which are not the paper's members: {', '.join(more) or 'none'}"
              + (f"; without weights here: {', '.join(bare)}" if bare else ""), file=sys.stderr)
    print(" ".join(members))
