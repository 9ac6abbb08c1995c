"""The endless drive that the model was trained on: a deterministic pseudo-3D renderer with sound. Ground truth for every check."""

from .renderer import render
from .sound import sound_controls
from .state import Attributes, World

__all__ = ["Attributes", "World", "render", "sound_controls"]
