"""What a member costs: multiply-adds of convolutions, matrix products and attention, each counted once as model tables do
(ResNet-50 at 224 pixels: 4.09e9), parameters, latency and peak memory."""
from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Counter(TorchDispatchMode):
    """Sums `total` over what runs inside `with`."""

    total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        name = str(function).split(".")[1]  # of "aten.mm.default"
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            a, b = args[1:3] if "add" in name else args[:2]
            self.total += a.numel() * b.shape[-1]
        elif name in ("convolution", "_convolution"):
            # Each input of a transposed convolution meets the whole kernel of its group; otherwise each output does.
            x, weight, transposed = args[0], args[1], args[6]
            self.total += (x if transposed else out).numel() * weight[0].numel()
        elif "scaled_dot_product" in name:
            query, key, value = args[:3]
            self.total += math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])
        return out


def flops(forward: Callable[[], Any]) -> int:
    """Of one forward pass. Gradients are on: without them PyTorch runs whole transformer layers as one operation."""
    with torch.enable_grad(), Counter() as counter:
        forward()
    return int(counter.total)


def timings(forward: Callable[[], Any], rows: int, device: str, passes: int) -> dict[str, float]:
    """Median time of a pass for one row; peak of PyTorch's memory on a GPU, of the process on a CPU."""
    on_gpu = device.startswith("cuda")

    def once() -> float:
        begin = time.perf_counter()
        forward()
        if on_gpu:
            torch.cuda.synchronize(device)
        return time.perf_counter() - begin

    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak of the past
    for _ in range(3 if on_gpu else 1):
        once()
    end, seconds = time.perf_counter() + 20.0, list[float]()
    while len(seconds) < passes and (len(seconds) < 3 or time.perf_counter() < end):
        seconds.append(once())
    status = Path("/proc/self/status").read_text(encoding="ascii").partition("VmHWM:")[2]
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else int((status or "0").split()[0]) * 1024
    return {"latency_ms": float(f"{1000.0 * float(np.median(seconds)) / rows:.4g}"), "memory_bytes": int(peak)}
