"""What an export is made of: members, splits and a task, which says how a member's outputs become rows of a pool.

All of these are pickled and sent to the processes that run the members.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ._files import Sink


@dataclass(frozen=True)
class Member:
    """A model with its weights."""

    name: str  # in the manifest
    model: str  # a name of torchvision or timm, timm:NAME, or a factory: module:function or file.py:function
    weights: str = "none"  # none, default, the name of torchvision's weights, or the path of a checkpoint
    family: Optional[str] = None  # the one of the manifest; None takes the model's


class Loaded(NamedTuple):
    network: Any  # in eval mode, on the CPU
    transform: Any  # makes what the network takes of an image
    family: str


@dataclass(frozen=True)
class Options:
    """How predictions are made. All but device, workers, passes and timings change bytes and are kept with each split."""

    batch: int = 64
    dtype: str = "float32"  # of the file
    compute: str = "float32"  # or tf32, float16, bfloat16
    device: str = "cpu"
    threads: int = 1
    workers: int = 0  # processes that read images
    seed: int = 0
    image_size: Optional[int] = None
    transform: Optional[str] = None  # a factory
    passes: int = 20  # timed ones
    timings: bool = True


@dataclass(frozen=True)
class Split:
    """Rows in a fixed order. `source` is the task's; `entry` holds keys of the manifest that need no files."""

    name: str
    source: Any
    entry: dict[str, Any] = field(default_factory=dict)


class Task(ABC):
    """The adapter of a task or benchmark. A row is a line of an array, a map or the boxes of an image."""

    name: str  # of the manifest

    # ---- in the process that the user started

    @abstractmethod
    def head(self) -> dict[str, Any]:
        """The manifest's keys of the whole pool: task, classes, output, ..."""

    @abstractmethod
    def identity(self, split: Split) -> dict[str, Any]:
        """What, if it changes, makes other predictions: JSON, small (hashes of long lists)."""

    def check(self, member: Member) -> None:
        """An InputError if it is clear, without a network at hand, that the member cannot be loaded."""

    def member_identity(self, member: Member) -> dict[str, Any]:
        """The same for a member; here its model and the content of its weights."""
        from ._models import identity

        return identity(member)

    @abstractmethod
    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        """Writes labels, ids, ... into the pool's folder with _files.write_whole, and returns the split's entry of the
        manifest. Must give the same bytes when it is called again."""

    def count(self, split: Split) -> int:
        """Rows of a split."""
        return len(self.dataset(split, None))

    def extension(self) -> str:
        """Of the prediction files; "" for folders."""
        return ".npy"

    # ---- in the processes of the members

    @abstractmethod
    def load(self, member: Member, options: Options) -> Loaded:
        """The model with its weights. An InputError is shown as one line."""

    @abstractmethod
    def dataset(self, split: Split, transform: Any) -> Any:
        """len(d) rows; d[i] is a sample, with the transform (None: not to be read). No need for a base class."""

    @abstractmethod
    def collate(self, samples: list[Any]) -> Any:
        """A batch on the CPU."""

    def inputs(self, batch: Any, device: str) -> Any:
        """What the network gets, on the device."""
        return batch.to(device, non_blocking=True)

    def infer(self, network: Any, inputs: Any) -> Any:
        """The forward pass; this is what is timed and counted."""
        return network(inputs)

    @abstractmethod
    def rows(self, outputs: Any, batch: Any, options: Options) -> Any:
        """Rows for the sink, on the CPU, one for each sample of the batch."""

    @abstractmethod
    def sink(self, part: Path, final: Path, split: Split, options: Options) -> Sink:
        """Where rows go."""
