"""From models to pools: python -m corestack.pool runs models on images and writes their predictions with a manifest.

docs/export.md is the guide. torch and torchvision are needed for the command, timm is used where it is installed; nothing
is downloaded. Nothing of this package is imported by `import corestack`.
"""
