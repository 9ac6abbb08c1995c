"""C4 in small: stories of the start bank go on, and what is shown is compared with what the renderer shows of the same drives.

Each of a dozen drives has one chunk of true context (its start bank entry, an encoded render). The next chunk is compared frame by frame (SSIM of small
luma pictures), five chunks by their colours (intersection of histograms). CI does the same through the server's kernels against stored figures of the renders; the
 evaluation has the long versions with intervals.
"""

from __future__ import annotations

import numpy as np
from skimage.metrics import structural_similarity

from .geometry import FRAME_HEIGHT, FRAME_WIDTH, FRAMES_PER_CHUNK, NUM_TOKENS, TOKEN_DIM
from .philox import Counter, normal
from .rollout import DriveGraphs, decode, roll_out
from .start_chunks import FIRST_SEED, START_SPEED, bank_attributes
from .vocabulary import canonical_prompt
from .world import World, render

# Every place, time and weather; none of the held-out combinations.
DRIVES = (4, 21, 43, 62, 65, 6, 23, 44, 50, 70, 8, 29)
CHUNKS = 5
NOISE_SEED = 404
THUMBNAIL_CELL = 4  # pixels
LEVELS = 4  # of each colour: 64 bins
# Nine tenths of what the autoencoder alone reaches when it encodes and decodes the true frames (0.982 and 0.946). The picture that stands still has an SSIM
# of 0.875, another drive of the dozen 0.27. Bars are fixed numbers: a wrong decoder would lower a ceiling that is measured with it.
SSIM_AT_LEAST = 0.88
COLOURS_AT_LEAST = 0.85


def thumbnail(frame: np.ndarray) -> np.ndarray:
    """uint8 `[128, 224, 3]` -> luma `[32, 56]`, in whole numbers so that every implementation agrees."""
    luma = (frame.astype(np.int64) @ np.array([77, 150, 29])) >> 8
    cells = luma.reshape(FRAME_HEIGHT // THUMBNAIL_CELL, THUMBNAIL_CELL, FRAME_WIDTH // THUMBNAIL_CELL, THUMBNAIL_CELL)
    return (cells.sum((1, 3)) // THUMBNAIL_CELL**2).astype(np.uint8)


def histogram(frames: np.ndarray) -> np.ndarray:
    """uint8 `[..., 3]` -> share of pixels in each of 64 joint bins of red, green and blue."""
    level = frames.reshape(-1, 3).astype(np.int64) * LEVELS // 256
    counts = np.bincount(level @ np.array([LEVELS * LEVELS, LEVELS, 1]), minlength=LEVELS**3)
    return counts / counts.sum()


def intersection(a: np.ndarray, b: np.ndarray) -> float:
    """1 where both are equal, 0 where they have no colour in common (Swain and Ballard, 1991)."""
    return float(np.minimum(a, b).sum())


def thumbnail_ssim(a: np.ndarray, b: np.ndarray) -> float:
    return float(structural_similarity(a, b, win_size=7, data_range=255))


def true_frames(index: int) -> np.ndarray:
    """What comes after a start bank entry, `[CHUNKS, 2, 128, 224, 3]`: straight ahead as the entry is."""
    attributes = bank_attributes(index)
    world = World(FIRST_SEED + index, attributes, 0, START_SPEED)
    frames = []
    for _ in range((1 + CHUNKS) * FRAMES_PER_CHUNK):
        world.step(attributes, 0, START_SPEED)
        frames.append(render(world))
    return np.stack(frames[FRAMES_PER_CHUNK:]).reshape(CHUNKS, FRAMES_PER_CHUNK, FRAME_HEIGHT, FRAME_WIDTH, 3)


def generated_frames(graphs: DriveGraphs, index: int) -> np.ndarray:
    """The same, generated, with the noise that the server draws."""
    start = graphs.run("start_bank", index=np.array([[index]], np.int64))[0]
    noise = (normal(Counter(NOISE_SEED, index, chunk, 0, stream), (1, NUM_TOKENS, TOKEN_DIM)) for chunk in range(1 + CHUNKS) for stream in (0, 1))
    prompts = [[canonical_prompt(bank_attributes(index).as_tuple())]] * (1 + CHUNKS)
    actions = np.tile(np.array([1, START_SPEED], np.int64), (1 + CHUNKS, 1, 1))
    return np.stack([decode(graphs, chunk)[0] for chunk in roll_out(graphs, prompts, actions, noise, start=start)[1:]])


def compare(made: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """SSIM of the first chunk, intersection of the colours of all."""
    ssim = np.mean([thumbnail_ssim(thumbnail(a), thumbnail(b)) for a, b in zip(made[0], true[0])])
    return float(ssim), intersection(histogram(made), histogram(true))


def check_renders(graphs: DriveGraphs) -> list[dict]:
    """Mean over the drives, as what is missing to 1 so that less is better."""
    ssim, colours = np.mean([compare(generated_frames(graphs, index), true_frames(index)) for index in DRIVES], 0)
    return [
        {"check": f"C4 {name}", "max_difference": float(1 - value), "tolerance": round(1 - bar, 4), "passed": bool(value >= bar), "unit": "what is missing to 1", "drives": len(DRIVES)}
        for name, value, bar in (("SSIM of the chunk after true context", ssim, SSIM_AT_LEAST), ("colours of five chunks", colours, COLOURS_AT_LEAST))
    ]
