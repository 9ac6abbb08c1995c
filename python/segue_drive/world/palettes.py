"""Colours and weather strengths, each indexed as in `vocabulary.PHRASES`: place, time of day, weather. Colours are RGB in 0..1."""

from __future__ import annotations

import numpy as np

PLACES = ("forest", "desert", "city", "coast", "snowy mountains")
TIMES = ("dawn", "day", "dusk", "night")
WEATHERS = ("clear", "rain", "fog", "snowfall")
FOREST, DESERT, CITY, COAST, MOUNTAINS = range(5)
DAWN, DAY, DUSK, NIGHT = range(4)
CLEAR, RAIN, FOG, SNOWFALL = range(4)


def colour(red: float, green: float, blue: float) -> np.ndarray:
    return np.array((red, green, blue), np.float32) / 255


def _table(*rows: tuple[float, float, float]) -> np.ndarray:
    return np.stack([colour(*row) for row in rows])


# per place
GROUND_LIGHT = _table((58, 104, 48), (214, 170, 104), (110, 112, 116), (226, 205, 150), (232, 238, 246))
GROUND_DARK = _table((72, 122, 56), (226, 184, 118), (122, 124, 130), (236, 216, 164), (216, 226, 240))
ROAD = _table((84, 84, 88), (112, 100, 92), (66, 68, 76), (92, 94, 102), (120, 126, 138))
SHOULDER = _table((200, 200, 190), (232, 220, 190), (230, 200, 70), (240, 240, 240), (200, 70, 60))

# per time of day
SKY_TOP = _table((70, 96, 170), (60, 130, 225), (70, 50, 120), (6, 8, 26))
SKY_BOTTOM = _table((255, 190, 170), (180, 220, 250), (250, 120, 60), (22, 28, 58))
AMBIENT = _table((235, 205, 200), (255, 255, 255), (225, 165, 140), (52, 60, 100))
FOG_COLOUR = _table((225, 200, 200), (205, 212, 220), (170, 125, 120), (30, 34, 48))
SUN_COLOUR = _table((255, 235, 190), (255, 255, 230), (255, 170, 70), (225, 230, 245))
SUN_ROW = np.array([40, 12, 44, 14], np.float32)  # pixels from the top
SUN_RADIUS = np.array([9, 8, 12, 7], np.float32)  # pixels

# per weather
OVERCAST = np.array([0, 0.85, 0.7, 0.75], np.float32)
FOG_DENSITY = np.array([0.006, 0.028, 0.17, 0.035], np.float32)  # per world unit of distance
DIMMING = np.array([1, 0.72, 0.92, 0.95], np.float32)
