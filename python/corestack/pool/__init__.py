"""From networks to pools: python -m corestack.pool runs networks on images and writes their predictions as a pool.

docs/export.md is the guide. The command needs torch and torchvision; `import corestack` imports nothing of this package.
"""
