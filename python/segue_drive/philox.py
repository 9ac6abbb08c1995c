"""The server's noise (`src/engine/model/philox.ts`), written anew: Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

Key = (seed, lineage); counter = (index of the block of four words, chunk, step, stream). Stored references draw from it, so that both sides can make their inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_WORD = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Counter:
    seed: int
    lineage: int = 0
    chunk: int = 0
    step: int = 0
    stream: int = 0


def words(counter: Counter, count: int) -> np.ndarray:
    """The first `count` words of a draw, as float64 (each is exact)."""
    block = np.arange(-(-count // 4), dtype=np.uint64)
    c = [block, *(np.full(len(block), v, np.uint64) for v in (counter.chunk, counter.step, counter.stream))]
    k = [counter.seed, counter.lineage]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & _WORD, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & _WORD]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1).reshape(-1)[:count].astype(np.float64)


def normal(counter: Counter, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal samples, float32 (Box–Muller in double)."""
    size = int(np.prod(shape))
    drawn = words(counter, -(-size // 4) * 4).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log((drawn[:, 0] + 1) * 2.0**-32)), drawn[:, 1] * (2 * np.pi * 2.0**-32)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:size].astype(np.float32).reshape(shape)


def uniform(counter: Counter, shape: tuple[int, ...]) -> np.ndarray:
    """Samples of [0, 1), float32, each a multiple of 2^-24."""
    return (np.floor(words(counter, int(np.prod(shape))) / 256) * 2.0**-24).astype(np.float32).reshape(shape)
