"""Trajectory of the source's own implementation, stored: the check that catches a wrong mapping between parameters of equal shape.

A swapped pair of keys loads strictly and passes every comparison of this package with itself; only the source's own numbers tell.
`source_trajectory.npz` holds chunks of `parity.scripted_trajectory` made by the code that trained the checkpoint, and that checkpoint's sha256. It lies
beside a checkpoint that `training.export` wrote; `data/` has the one of the committed weights.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE_NAME = "source_trajectory.npz"
STORED = Path(__file__).parent / "data" / FILE_NAME


class SourceReference:
    """Some chunks `[n, B, 32, 128]` of the source's trajectory, and where they stand in it."""

    def __init__(self, chunks: np.ndarray, index: np.ndarray, source_sha256: str) -> None:
        self.chunks, self.index, self.source_sha256 = chunks, index, source_sha256

    @staticmethod
    def load(path: Path = STORED) -> SourceReference:
        with np.load(path) as stored:
            return SourceReference(stored["chunks"], stored["index"], str(stored["source_sha256"]))

    @staticmethod
    def of(source_dir: Path) -> SourceReference:
        """The one that came with the checkpoint, else that of the committed weights."""
        beside = source_dir / FILE_NAME
        return SourceReference.load(beside if beside.exists() else STORED)

    def difference(self, trajectory: np.ndarray) -> float:
        """Largest absolute difference of a trajectory `[N, B, 32, 128]` from the stored chunks."""
        return float(np.abs(trajectory[self.index] - self.chunks).max())
