"""Tests that need the source checkpoints take them from SEGUE_DRIVE_SOURCE and are skipped without it; all others need only the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return REPOSITORY / "models" / "drive"


@pytest.fixture(scope="session")
def source_folder() -> Path:
    folder = os.environ.get("SEGUE_DRIVE_SOURCE")
    if not folder:
        pytest.skip("SEGUE_DRIVE_SOURCE is not set")
    return Path(folder)
