"""Trajectory of the source's own implementation, stored: the check that catches a wrong mapping between parameters of equal shape.

A swapped pair of keys loads strictly and passes every comparison of this package with itself; only the source's own numbers tell.
`data/source_trajectory.npz` holds chunks of `parity.scripted_trajectory` made by the code that trained the checkpoint, and that checkpoint's sha256.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

STORED = Path(__file__).parent / "data" / "source_trajectory.npz"


class SourceReference:
    """Some chunks `[n, B, 32, 128]` of the source's trajectory, and where they stand in it."""

    def __init__(self, chunks: np.ndarray, index: np.ndarray, source_sha256: str) -> None:
        self.chunks, self.index, self.source_sha256 = chunks, index, source_sha256

    @staticmethod
    def load(path: Path = STORED) -> SourceReference:
        with np.load(path) as stored:
            return SourceReference(stored["chunks"], stored["index"], str(stored["source_sha256"]))

    def difference(self, trajectory: np.ndarray) -> float:
        """Largest absolute difference of a trajectory `[N, B, 32, 128]` from the stored chunks."""
        return float(np.abs(trajectory[self.index] - self.chunks).max())
