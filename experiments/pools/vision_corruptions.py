"""Corruptions and domain shifts of small grey images: the fifteen families of ImageNet-C at five severities, made for 28x28.

Stands before corestack: vision.py scores its members on what this makes. Every family follows the idea of Hendrycks and
Dietterich (arXiv 1903.12261), in a simplified version. Paper: the evaluation under distribution shift of the experiments.

Images are float64 [N, side, side] in [0, 1]. A family is a function (x, level, rng) of the images, its parameter at one
severity and a random generator; `corrupted` clips what it returns to [0, 1] and rounds it to 1/255, as a file would.
"""
import numpy as np
from scipy import fft, ndimage


def gaussian_noise(x, deviation, rng):
    """x + N(0, deviation^2)"""
    return x + rng.normal(0.0, deviation, x.shape)


def shot_noise(x, photons, rng):
    """Poisson(photons * x) / photons"""
    return rng.poisson(photons * x) / photons


def impulse_noise(x, share, rng):
    """That share of the pixels becomes 0 or 1, either with probability one half."""
    salt = rng.random(x.shape) < 0.5
    return np.where(rng.random(x.shape) < share, salt, x)


def defocus_blur(x, radius, rng):
    """Convolution with a disk, whose weight at distance d is clip(radius + 1/2 - d, 0, 1), normalised."""
    reach = int(np.ceil(radius + 0.5))
    grid = np.arange(-reach, reach + 1)
    disk = np.clip(radius + 0.5 - np.hypot(grid[:, None], grid), 0.0, 1.0)
    return ndimage.convolve(x, disk[None] / disk.sum(), mode="nearest")


def glass_blur(x, level, rng):
    """Gaussian blur; `times` over, each pixel takes the value of one at most `reach` away in either direction; blur again."""
    deviation, reach, times = level
    x = ndimage.gaussian_filter(x, (0, deviation, deviation))
    images, rows, columns = np.ogrid[:x.shape[0], :x.shape[1], :x.shape[2]]
    for _ in range(times):
        down, right = rng.integers(-reach, reach + 1, (2, *x.shape))
        x = x[images, np.clip(rows + down, 0, x.shape[1] - 1), np.clip(columns + right, 0, x.shape[2] - 1)]
    return ndimage.gaussian_filter(x, (0, deviation, deviation))


def smeared(x, length, angles):
    """Mean of each image moved (linear interpolation) by -length/2 .. length/2 pixels along its angle, 2 steps a pixel."""
    steps = np.linspace(-length / 2, length / 2, 2 * int(np.ceil(length)) + 1)
    return np.stack([np.mean([ndimage.shift(image, (s * np.sin(a), s * np.cos(a)), order=1, mode="nearest")
                              for s in steps], axis=0) for image, a in zip(x, angles)])


def motion_blur(x, length, rng):
    """`smeared` along an angle drawn for each image"""
    return smeared(x, length, rng.uniform(0.0, np.pi, len(x)))


def zoomed(x, factor):
    """Each image enlarged about its centre by `factor`, linear interpolation."""
    scale = np.array([1.0, 1 / factor, 1 / factor])
    centre = (np.array(x.shape) - 1) / 2
    return ndimage.affine_transform(x, np.diag(scale), centre - scale * centre, order=1, mode="nearest")


def zoom_blur(x, largest, rng):
    """Mean of the image and of its enlargements by 1.05, 1.10, ... up to `largest`"""
    return np.mean([zoomed(x, factor) for factor in np.arange(1.0, largest + 1e-9, 0.05)], axis=0)


def plasma(shape, decay, rng):
    """Fractal noise in [0, 1]: Gaussian noise whose amplitude falls with the spatial frequency f as f^-(1 + log2 decay)."""
    frequency = np.hypot(fft.fftfreq(shape[1])[:, None], fft.rfftfreq(shape[2]))
    frequency[0, 0] = np.inf
    waves = fft.rfft2(rng.normal(size=shape)) * frequency ** -(1 + np.log2(decay))
    field = fft.irfft2(waves, shape[1:])
    low, high = field.min(axis=(1, 2), keepdims=True), field.max(axis=(1, 2), keepdims=True)
    return (field - low) / (high - low)


def snow(x, level, rng):
    """x + veil * (1 - x) / 2 + flakes: that share of the pixels is a flake of brightness 1/2..1, smeared along an angle of the
    image; smearing spreads its light over `length` pixels, of which a factor of 2 is given back."""
    share, length, veil = level
    flakes = np.where(rng.random(x.shape) < share, rng.uniform(0.5, 1.0, x.shape), 0.0)
    return x + veil * (1 - x) / 2 + 2 * smeared(flakes, length, rng.uniform(np.pi / 4, 3 * np.pi / 4, len(x)))


def frost(x, level, rng):
    """keep * x + ice * crystals, where crystals = 1 - |2 t - 1|^(1/2) with t fractal noise: bright veins along t = 1/2"""
    keep, ice = level
    return keep * x + ice * (1 - np.abs(2 * plasma(x.shape, 1.6, rng) - 1) ** 0.5)


def fog(x, level, rng):
    """(x + density * t) * m / (m + density) with t fractal noise and m the image's largest value"""
    density, decay = level
    most = x.max(axis=(1, 2), keepdims=True)
    return (x + density * plasma(x.shape, decay, rng)) * most / (most + density)


def brightness(x, offset, rng):
    """x + offset"""
    return x + offset


def contrast(x, factor, rng):
    """mean + factor * (x - mean), the mean being that of the image"""
    mean = x.mean(axis=(1, 2), keepdims=True)
    return mean + factor * (x - mean)


def elastic_transform(x, deviation, rng):
    """Each pixel taken from where a smooth random field points: Gaussian noise blurred by 3 pixels, then scaled so that each
    coordinate has that standard deviation in pixels; linear interpolation."""
    field = ndimage.gaussian_filter(rng.normal(size=(2, *x.shape)), (0, 0, 3, 3))
    field *= deviation / field.std(axis=(2, 3), keepdims=True)
    grid = np.indices(x.shape[1:])
    return np.stack([ndimage.map_coordinates(image, grid + field[:, i], order=1, mode="nearest")
                     for i, image in enumerate(x)])


def box_means(side, cells):
    """[cells, side]: row c averages the pixels in [c, c + 1) * side / cells, those cut by an edge in proportion."""
    edges = np.arange(cells + 1) * side / cells
    pixels = np.arange(side)
    inside = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.maximum(inside, 0.0) * cells / side


def pixelate(x, cells, rng):
    """Means over a grid of cells x cells boxes, each then drawn as one box (nearest neighbour)."""
    side = x.shape[1]
    down = box_means(side, cells)
    back = np.minimum(((np.arange(side) + 0.5) * cells / side).astype(int), cells - 1)
    return (down @ x @ down.T)[:, back][:, :, back]


JPEG_LUMINANCE = np.array([
    [16, 11, 10, 16, 24, 40, 51, 61], [12, 12, 14, 19, 26, 58, 60, 55], [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62], [18, 22, 37, 56, 68, 109, 103, 77], [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101], [72, 92, 95, 98, 112, 100, 103, 99]])


def jpeg_compression(x, quality, rng):
    """What is lossy in JPEG: 8x8 blocks (edges repeated to a multiple of 8), cosine transform of 255 x - 128, rounded to the
    luminance table of the standard's annex K scaled as libjpeg does for this quality (below 50), and back."""
    table = np.clip((JPEG_LUMINANCE * (5000 // quality) + 50) // 100, 1, 255)
    count, side = len(x), x.shape[1]
    blocks = -(-side // 8)
    padded = np.pad(x, ((0, 0), (0, 8 * blocks - side), (0, 8 * blocks - side)), mode="edge")
    tiles = padded.reshape(count, blocks, 8, blocks, 8).transpose(0, 1, 3, 2, 4)
    waves = fft.dctn(np.rint(255 * tiles) - 128, axes=(-2, -1), norm="ortho")
    tiles = (fft.idctn(np.rint(waves / table) * table, axes=(-2, -1), norm="ortho") + 128) / 255
    return tiles.transpose(0, 1, 3, 2, 4).reshape(padded.shape)[:, :side, :side]


# shift, family, parameter at severity 1 .. 5
FAMILIES = [
    ("noise", gaussian_noise, (0.08, 0.12, 0.18, 0.26, 0.38)),
    ("noise", shot_noise, (60, 25, 12, 5, 3)),
    ("noise", impulse_noise, (0.03, 0.06, 0.09, 0.17, 0.27)),
    ("blur", defocus_blur, (0.8, 1.2, 1.6, 2.1, 2.7)),
    ("blur", glass_blur, ((0.3, 1, 1), (0.4, 1, 2), (0.5, 1, 3), (0.5, 2, 2), (0.6, 2, 3))),
    ("blur", motion_blur, (2.0, 3.5, 5.0, 7.0, 9.0)),
    ("blur", zoom_blur, (1.1, 1.2, 1.3, 1.45, 1.6)),
    ("weather", snow, ((0.02, 2, 0.05), (0.04, 3, 0.1), (0.06, 3, 0.15), (0.09, 4, 0.2), (0.12, 4, 0.25))),
    ("weather", frost, ((1.0, 0.3), (0.9, 0.4), (0.8, 0.5), (0.7, 0.6), (0.6, 0.7))),
    ("weather", fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))),
    ("weather", brightness, (0.1, 0.2, 0.3, 0.4, 0.5)),
    ("digital", contrast, (0.4, 0.3, 0.2, 0.1, 0.05)),
    ("digital", elastic_transform, (0.7, 1.0, 1.4, 1.8, 2.3)),
    ("digital", pixelate, (20, 16, 13, 10, 7)),
    ("digital", jpeg_compression, (25, 18, 15, 10, 7)),
]

CONDITIONS = [{"shift": shift, "kind": family.__name__, "severity": severity}
              for shift, family, levels in FAMILIES for severity in range(1, len(levels) + 1)]


def corrupted(x, seed):
    """[conditions, N, side, side] float32 of images [N, side, side] in [0, 1], in the order of CONDITIONS. Every condition
    draws from a generator of its own."""
    settings = [(family, level) for _, family, levels in FAMILIES for level in levels]
    made = [np.clip(family(x.astype(np.float64), level, np.random.default_rng([seed, number])), 0.0, 1.0)
            for number, (family, level) in enumerate(settings)]
    return (np.rint(np.stack(made) * 255) / 255).astype(np.float32)


def rotated(x, seed):
    """Every image turned by 30 degrees counter-clockwise about its centre, linear interpolation, zeros from outside."""
    return ndimage.rotate(x, 30.0, axes=(2, 1), reshape=False, order=1).clip(0.0, 1.0)


def scaled(x, seed):
    """Resolution halved: means of 2x2 pixels, each drawn as one box of 2x2."""
    return pixelate(x.astype(np.float64), x.shape[1] // 2, None)


def translated(x, seed):
    """Every image moved by 4 pixels in one of the eight directions, drawn for each; zeros from outside."""
    directions = [(down, right) for down in (-4, 0, 4) for right in (-4, 0, 4) if (down, right) != (0, 0)]
    drawn = np.random.default_rng(seed).integers(0, len(directions), len(x))
    return np.stack([ndimage.shift(image, directions[d], order=0) for image, d in zip(x, drawn)])
