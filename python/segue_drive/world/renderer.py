"""Draws a `World` as one frame: sky, panorama, ground with road, roadside objects far to near, rain or snow."""

from __future__ import annotations

import numpy as np

from ..geometry import FRAME_HEIGHT as H
from ..geometry import FRAME_WIDTH as W
from . import palettes as P
from .backdrops import CLOUDS, GROUND_NOISE, HORIZON, PANORAMA_WIDTH, PANORAMAS, RAIN_TILE, SNOW_TILE, STARS
from .palettes import colour
from .randomness import unit_hash
from .sprites import SIZES, SPRITES
from .state import World

F32 = np.float32
FOCAL = 78.0  # pixels
HALF_ROAD = 0.95  # world units
OBJECT_SPACING = 1.5  # world units, alternating sides
NEAREST_OBJECT = 0.9
LAMP_LIGHT = (255, 240, 205)

GROUND_ROW = np.arange(H - HORIZON).astype(F32)
DEPTH = FOCAL / (GROUND_ROW + 1.0)  # distance of each ground row
ROAD_HALF_WIDTH = FOCAL * HALF_ROAD / DEPTH  # pixels
COLUMN = np.arange(W).astype(F32) - W / 2 + 0.5
HEADLIGHT = (np.exp(-((COLUMN[None] / (ROAD_HALF_WIDTH[:, None] * 1.1 + 6)) ** 2)) * np.clip((GROUND_ROW[:, None] - 2) / 18, 0, 1)).astype(F32)


class _Light:
    """What time of day and weather make of colours."""

    def __init__(self, world: World) -> None:
        time, weather = world.time, world.weather
        self.night = float(time[P.NIGHT])
        self.overcast = float(weather @ P.OVERCAST)
        self.density = float(weather @ P.FOG_DENSITY)
        self.dimming = float(weather @ P.DIMMING)
        self.ambient = (time @ P.AMBIENT) * self.dimming
        fog = (time @ P.FOG_COLOUR) * (1 - 0.12 * weather[P.RAIN])
        if weather[P.SNOWFALL] > 0:
            snow = weather[P.SNOWFALL]
            fog = fog * (1 - 0.3 * snow) + 0.3 * snow * colour(225, 232, 245) * (1 - 0.8 * self.night)
        self.fog = fog
        self.sky_bottom = time @ P.SKY_BOTTOM


def _sky(world: World, light: _Light) -> np.ndarray:
    time = world.time
    blend = (np.arange(HORIZON, dtype=F32) / HORIZON)[:, None] ** 1.3
    gradient = (time @ P.SKY_TOP) * (1 - blend) + light.sky_bottom * blend
    gradient = gradient * (1 - light.overcast) + light.overcast * (light.fog * (0.8 + 0.2 * blend))
    sky = np.repeat(gradient[:, None], W, 1)
    left = int(world.heading)
    cloud_colour = (P.SUN_COLOUR * time[:, None]).sum(0) * (1 - 0.85 * light.night) * light.dimming
    sky += (CLOUDS[:, left // 2 : left // 2 + W] * (0.55 * (1 - light.overcast * 0.6)))[..., None] * (cloud_colour - sky)
    if light.night > 0:
        sky += (STARS[:, left : left + W] * light.night * (1 - light.overcast))[..., None]
    for t in range(4):
        if time[t] > 0.02 and light.overcast < 0.99:
            _sun(sky, world, light, t)
    haze = 1 - np.exp(-light.density * 26)
    for place in range(5):
        if world.place[place] > 0.01:
            rgba, lights = PANORAMAS[place]
            rgba = rgba[:, left : left + W]
            alpha = rgba[..., 3:] * world.place[place]
            paint = rgba[..., :3] * light.ambient
            paint += (light.fog - paint) * haze
            if place == P.CITY and light.night > 0:
                paint += lights[:, left : left + W] * (light.night * (1 - haze))
            sky += alpha * (paint - sky)
    return sky


def _sun(sky: np.ndarray, world: World, light: _Light, t: int) -> None:
    x = ((200 + 260 * t - world.heading + PANORAMA_WIDTH / 2) % PANORAMA_WIDTH) - PANORAMA_WIDTH / 2 + W / 2
    if not -40 < x < W + 40:
        return
    distance = np.sqrt((np.arange(W, dtype=F32)[None] - x) ** 2 + (np.arange(HORIZON, dtype=F32)[:, None] - P.SUN_ROW[t]) ** 2)
    disc = np.clip(P.SUN_RADIUS[t] - distance + 0.5, 0, 1)
    glow = 0.45 * np.exp(-((distance / (P.SUN_RADIUS[t] * 2.2)) ** 2)) * (t != P.NIGHT)
    sky += (np.minimum(disc + glow, 1) * world.time[t] * (1 - light.overcast))[..., None] * (P.SUN_COLOUR[t] - sky)


def _ground(world: World, light: _Light) -> np.ndarray:
    place, weather = world.place, world.weather
    across = COLUMN[None] - (FOCAL * 0.5 * world.curve * DEPTH)[:, None]
    half = ROAD_HALF_WIDTH[:, None]
    aside = np.abs(across)
    along = DEPTH + world.distance
    fade = np.clip(1.6 - DEPTH / 14, 0, 1)  # far stripes would alias
    band = (np.clip(np.sin(along * (2 * np.pi / 3)) * 3, -1, 1) * 0.5 * fade + 0.5)[:, None]
    snow = float(weather[P.SNOWFALL]) * 0.45
    ground_light = (place @ P.GROUND_LIGHT) * (1 - snow) + snow * 0.92
    ground_dark = (place @ P.GROUND_DARK) * (1 - snow) + snow * 0.88
    road = (place @ P.ROAD) * (1 - 0.28 * weather[P.RAIN]) * (1 - 0.3 * snow) + 0.3 * snow * 0.8
    paint = np.repeat((ground_light * band + ground_dark * (1 - band))[:, None], W, 1)
    texture_x = (across / half * 6).astype(np.int32) & 63
    texture_z = (along * 4).astype(np.int32) & 63
    paint *= (1 + GROUND_NOISE[texture_z[:, None], texture_x] * (0.07 * fade)[:, None])[..., None]
    if place[P.COAST] > 0.01:
        sea = np.clip((across - half * 2.1) / (half * 0.05 + 0.6) + 0.5, 0, 1) * place[P.COAST]
        wave = (0.04 * np.sin(along * 2.1 + world.frame * 0.35))[:, None, None] * fade[:, None, None]
        paint += sea[..., None] * (colour(36, 112, 160) + wave - paint)
    on_road = np.clip(half - aside + 0.5, 0, 1)
    paint += np.clip(half * 1.13 - aside + 0.5, 0, 1)[..., None] * ((place @ P.SHOULDER) - paint)
    paint += on_road[..., None] * ((road * (1 + 0.05 * (band - 0.5)))[:, None] - paint)
    dash = (np.clip((np.sin(along * (2 * np.pi / 3)) + 0.1) * 4, 0, 1) * fade)[:, None]
    paint += (np.clip(half * 0.045 - aside + 0.5, 0, 1) * dash)[..., None] * (colour(240, 236, 220) - paint)
    paint *= light.ambient[None, None] + (HEADLIGHT * (light.night * 0.75))[..., None] * colour(*LAMP_LIGHT)
    if weather[P.RAIN] > 0:
        shine = 0.16 * weather[P.RAIN] * on_road * np.clip(1 - GROUND_ROW / 60, 0, 1)[:, None]
        paint += shine[..., None] * (light.sky_bottom * light.dimming * (1 - light.overcast * 0.4) - paint)
    paint += (1 - np.exp(-light.density * DEPTH))[:, None, None] * (light.fog - paint)
    return paint


def _objects(image: np.ndarray, world: World, light: _Light) -> None:
    nearest = int(np.floor((world.distance + NEAREST_OBJECT) / OBJECT_SPACING)) + 1
    places = [p for p in range(5) if world.place[p] > 0.02]
    for index in range(nearest + 19, nearest - 1, -1):
        z = index * OBJECT_SPACING - world.distance
        opacity = min(1, (29 - z) / 6)  # objects fade in at the far end
        if z < NEAREST_OBJECT or opacity <= 0:
            continue
        side = 1 if index & 1 else -1
        for place in places:
            if not (place == P.COAST and side > 0):  # the sea is on the right
                _object(image, world, light, place, index, side, z, opacity)


def _object(image: np.ndarray, world: World, light: _Light, place: int, index: int, side: int, z: float, opacity: float) -> None:
    offset, kind, size = (unit_hash(index, world.seed + salt) for salt in (0, 7, 13))
    variant = int(kind * 3) % 3
    sprite = SPRITES[place][variant]
    height = sprite.height * (0.85 + 0.3 * size) * FOCAL / z
    lateral = (1.5 + 1.3 * offset) * (1.0 if place != P.CITY else 1.25)
    if place == P.CITY and variant == 2:
        lateral = 1.25
    centre = FOCAL * 0.5 * world.curve * z + W / 2
    foot = HORIZON + FOCAL / z
    width = max(2, height * sprite.aspect)
    x0, y0 = centre + side * lateral * FOCAL * HALF_ROAD / z - width / 2, foot - height
    left, right, top, bottom = max(0, int(x0)), min(W, int(x0 + width) + 1), max(0, int(y0)), min(H, int(foot) + 1)
    if right <= left or bottom <= top:
        return
    mip = 0
    while mip < len(SIZES) - 1 and SIZES[mip] < height:
        mip += 1
    image_of = sprite.mips[mip]
    rows, columns = image_of.shape[:2]
    iy = ((np.arange(top, bottom) - y0) * (rows / height)).astype(int).clip(0, rows - 1)[:, None]
    ix = ((np.arange(left, right) - x0) * (columns / width)).astype(int).clip(0, columns - 1)
    texel = image_of[iy, ix]
    alpha = world.place[place] * opacity
    haze = 1 - np.exp(-light.density * z)
    lit = light.ambient + light.night * 0.55 * max(0, 1 - z / 9) * colour(*LAMP_LIGHT)
    cover = texel[..., 3:]
    paint = texel[..., :3] * (lit * (1 - haze)) + cover * (light.fog * haze)
    lights = sprite.lights[mip]
    if lights is not None and light.night > 0:
        paint = paint + lights[iy, ix] * (light.night * (1 - haze))
    region = image[top:bottom, left:right]
    region *= 1 - cover * alpha
    paint *= alpha
    region += paint


def _precipitation(image: np.ndarray, world: World, light: _Light) -> None:
    rain, snow = world.weather[P.RAIN], world.weather[P.SNOWFALL]
    if rain > 0.02:
        rng = np.random.default_rng(world.seed * 1000003 + world.frame)
        top, left = rng.integers(0, 128), rng.integers(0, 224)
        drops = RAIN_TILE[top : top + H, left : left + W] * (0.55 * rain)
        image += drops[..., None] * (colour(200, 210, 225) * (1 - 0.6 * light.night) - image)
    if snow > 0.02:
        flakes = np.roll(SNOW_TILE, (int(world.snow_y), -int(world.snow_x)), (0, 1)) * (0.85 * snow)
        image += flakes[..., None] * (colour(250, 252, 255) * (1 - 0.45 * light.night) - image)


def render(world: World) -> np.ndarray:
    """One frame, uint8 `[128, 224, 3]`. Changes nothing in the world."""
    light = _Light(world)
    image = np.empty((H, W, 3), F32)
    image[:HORIZON] = _sky(world, light)
    image[HORIZON:] = _ground(world, light)
    _objects(image, world, light)
    _precipitation(image, world, light)
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8)
