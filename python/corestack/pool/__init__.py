"""From networks to pools: python -m corestack.pool runs networks on images and writes their predictions as a pool.

docs/export.md is the guide. The command needs torch and torchvision; `import corestack` imports nothing of this package.
"""
from __future__ import annotations

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
