"""A clip of the world as one picture, its frames one below the other: `python -m segue_drive.world.clip --out FILE --place 0 --time 1 --weather 0 --steer -1`.

Values are indices into `vocabulary.PHRASES`. The fixtures of `test/oracle/clips` are `--place 0 --time 1 --weather 0 --steer -1` (forest-day-left) and
`--place 1 --time 0 --weather 0 --steer 1` (desert-dawn-right).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from . import Attributes, World, render


def clip(seed: int, attributes: Attributes, steer: int, speed: int, frames: int, turns_at: int = 4) -> np.ndarray:
    """uint8 `[frames, 128, 224, 3]`: straight on, and from frame `turns_at` on steered."""
    world, shown = World(seed, attributes, 0, speed), []
    for frame in range(frames):
        world.step(attributes, steer if frame >= turns_at else 0, speed)
        shown.append(render(world))
    return np.stack(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    for name, value in (("place", 0), ("time", 1), ("weather", 0), ("steer", 0), ("speed", 2), ("frames", 12), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    frames = clip(args.seed, Attributes(args.place, args.time, args.weather), args.steer, args.speed, args.frames)
    Image.fromarray(frames.reshape(-1, *frames.shape[2:])).save(args.out, optimize=True)


if __name__ == "__main__":
    main()
