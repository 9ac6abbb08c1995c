"""Makes the pictures beside it: moments of the world that no training stream and no start bank shows, one per file, named after what they show.

    PYTHONPATH=python python test/oracle/renders/make_renders.py
"""

from pathlib import Path

from PIL import Image

from segue_drive.vocabulary import PHRASES
from segue_drive.world import Attributes, World, render

HERE = Path(__file__).parent
SEED = 900_000
MOMENTS = (Attributes(0, 1, 0), Attributes(2, 3, 0), Attributes(4, 2, 0))

for number, attributes in enumerate(MOMENTS):
    world = World(SEED + number, attributes, 0, 2)
    for _ in range(9):
        world.step(attributes, 0, 2)
    name = "-".join(PHRASES[key][value][0] for key, value in zip(("place", "time", "weather"), attributes.as_tuple()))
    Image.fromarray(render(world)).save(HERE / f"{name.replace(' ', '_')}.png", optimize=True)
