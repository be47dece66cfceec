"""The parts of an export: members, splits, and the task, which turns outputs of networks into files of a pool."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

BINDING = ("dtype", "compute", "seed", "image_size", "transform")  # options that all members of a split have in common


class Member(NamedTuple):
    name: str
    model: str  # as --models has it
    weights: str = "none"


class Loaded(NamedTuple):
    network: Any  # in eval mode
    transform: Any  # makes the network's input of an image; None: the task's
    family: str
    categories: Optional[Sequence[str]] = None  # of the outputs, where the weights say them


class Split(NamedTuple):
    name: str
    source: Any  # rows in a fixed order, in the task's form
    entry: dict[str, Any] = {}  # keys of the manifest that need no files


class Task:
    """Classification, segmentation or detection on certain classes. Each has besides, with the options of the command:
    head(), the manifest's keys of the whole pool; identity(split), which says that it is the same as in an earlier run;
    write_split(split, folder), which writes labels and ids and returns the manifest's entry; load(member, options), Loaded;
    dataset(split, transform), samples by number; inputs(batch, device) of a network; rows(outputs, batch, options), the
    predictions on the CPU; and save(path, split, options, batches) for the rows of all batches."""

    extension = ".npy"  # of prediction files; "" for folders

    def fixed(self) -> dict[str, Any]:
        """What all splits of a pool have in common and the manifest does not say."""
        return {}

    def collate(self, samples: list[Any]) -> Any:
        return samples

    def infer(self, network: Any, inputs: Any) -> Any:
        """The forward pass, which is timed and counted."""
        return network(inputs)
