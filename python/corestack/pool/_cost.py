"""What a member costs on a device: multiply-adds, parameters, latency, peak memory.

`flops` counts a multiply-add once, as the tables of model collections do (ResNet-50 at 224 pixels: 4.09e9, ViT-B/16: 17.56e9).
Counted are convolutions, matrix products and both products of attention, by the operations that run, so functional code
(Swin) counts as well; everything else is left out.
"""
from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._task import Options, Task


def _product(args: Any) -> int:
    """a [..., n, k] times b [..., k, m]"""
    a, b = args
    return int(a.numel()) * int(b.shape[-1])


def _convolution(args: Any, out: Any) -> int:
    x, weight, transposed = args[0], args[1], args[6]
    # Each input of a transposed convolution meets the whole kernel of its group; otherwise each output does.
    return int(x.numel() if transposed else out.numel()) * int(weight[0].numel())


def _attention(args: Any) -> int:
    query, key, value = args[:3]
    rows = int(math.prod(query.shape[:-1]) * key.shape[-2])
    return rows * (int(query.shape[-1]) + int(value.shape[-1]))


def multiply_adds(name: str, args: Any, out: Any) -> int:
    """Of one operation of PyTorch, by its name ("aten.mm.default")."""
    short = name.split(".")[1] if "." in name else name
    if short in ("mm", "bmm"):
        return _product(args[:2])
    if short in ("addmm", "baddbmm"):
        return _product(args[1:3])
    if short in ("mv", "dot", "addmv"):
        return int(args[-2].numel()) if short != "addmv" else int(args[1].numel())
    if short in ("convolution", "_convolution"):
        return _convolution(args, out)
    if "scaled_dot_product" in short:
        return _attention(args)
    return 0


class Counter(TorchDispatchMode):
    """Sums `total` over what runs inside `with`."""

    def __init__(self) -> None:
        super().__init__()
        self.total: int = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.total += multiply_adds(str(function), args, out)
        return out


def flops(task: Task, network: Any, inputs: Any) -> int:
    """Multiply-adds of one forward pass. Gradients are on: without them PyTorch runs whole transformer layers as one
    operation."""
    with torch.enable_grad(), Counter() as counter:
        task.infer(network, inputs)
    return int(counter.total)


def params(network: Any) -> int:
    return sum(int(p.numel()) for p in network.parameters())


def _resident_peak() -> float:
    """Bytes of this process, the most since the last call of _forget_peak."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    return 0.0


def _forget_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass  # the peak since the process began is an upper bound


def timings(task: Task, network: Any, inputs: Any, rows: int, options: Options) -> dict[str, float]:
    """latency_ms: median over passes of the time of a batch, divided by its rows. memory_bytes: peak while these run; what
    PyTorch allocated on a GPU, what the process held in memory on a CPU."""
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"

    def once() -> float:
        if on_gpu:
            torch.cuda.synchronize(device)
        begin = time.perf_counter()
        task.infer(network, inputs)
        if on_gpu:
            torch.cuda.synchronize(device)
        return time.perf_counter() - begin

    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    else:
        _forget_peak()
    end = time.perf_counter() + 20.0
    for _ in range(3 if on_gpu else 1):
        once()
    seconds: list[float] = []
    while len(seconds) < options.passes and (len(seconds) < 3 or time.perf_counter() < end):
        seconds.append(once())
    seconds.sort()
    middle = (seconds[(len(seconds) - 1) // 2] + seconds[len(seconds) // 2]) / 2
    peak = float(torch.cuda.max_memory_allocated(device)) if on_gpu else _resident_peak()
    return {"latency_ms": float(f"{1000.0 * middle / rows:.4g}"), "memory_bytes": int(peak)}
