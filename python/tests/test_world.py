"""The world is the ground truth: deterministic, and unchanged since the weights were trained on it."""

from __future__ import annotations

import hashlib

import numpy as np

from segue_drive.world import Attributes, World, render, sound_controls
from segue_drive.world.styles import STYLES, luminance, noir, synthwave


def _drive(seed: int) -> tuple[bytes, bytes]:
    before, after = Attributes(2, 1, 0), Attributes(3, 3, 1)
    world = World(seed, before, 1, 3)
    pictures, sounds = hashlib.sha256(), hashlib.sha256()
    for i in range(20):
        world.step(before if i < 6 else after, 1 if i < 10 else -1, 3 if i < 15 else 1)
        pictures.update(render(world).tobytes())
        sounds.update(np.round(sound_controls(world), 4).tobytes())
    return pictures.hexdigest(), sounds.hexdigest()


def test_the_same_seed_gives_the_same_drive() -> None:
    assert _drive(5) == _drive(5)
    assert _drive(5)[0] != _drive(6)[0]


def test_rendering_changes_nothing() -> None:
    world = World(1, Attributes(0, 3, 1))
    assert np.array_equal(render(world), render(world))


def test_a_change_of_attributes_fades_in_ten_frames() -> None:
    world = World(1, Attributes(0, 1, 0))
    for i in range(10):
        world.step(Attributes(1, 1, 0), 0, 2)
        assert abs(world.place.sum() - 1) < 1e-5
        assert abs(world.place[1] - (i + 1) / 10) < 1e-5


def test_steering_bends_the_road() -> None:
    curves = []
    for steer in (-1, 0, 1):
        world = World(1, Attributes(0, 1, 0))
        for _ in range(12):
            world.step(Attributes(0, 1, 0), steer, 2)
        curves.append(world.curve)
    assert curves[0] < -0.04 and curves[1] == 0 and curves[2] > 0.04


def test_styles_go_by_luminance_alone_and_are_the_same_every_time() -> None:
    frames = np.random.default_rng(1).integers(0, 256, (2, 8, 14, 3), np.uint8)
    for style in STYLES.values():
        styled = style(frames)
        assert styled.shape == frames.shape and styled.dtype == np.uint8 and np.array_equal(styled, style(frames)) and np.array_equal(styled[1], style(frames[1]))
        grey = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, 1)
        assert (np.diff(luminance(style(grey))) >= -1e-3).all(), "what was brighter stays brighter"
    assert (noir(frames).max(-1) == noir(frames).min(-1)).all()
    ends = synthwave(np.array([[0, 0, 0], [255, 255, 255]], np.uint8))
    assert ends[0, 2] > ends[0, 1] and (ends[1] > 210).all()
