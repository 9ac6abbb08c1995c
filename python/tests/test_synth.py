"""Sound: seamless over calls, right pitch, no clipping."""

from __future__ import annotations

import numpy as np
import torch

from segue_drive.geometry import SAMPLE_RATE
from segue_drive.synth import KNEE, FULL_SCALE, SoundSynthesiser, neutral_control
from segue_drive.world import Attributes, World, sound_controls


def _render(controls: list[np.ndarray], seed: int = 0) -> np.ndarray:
    """PCM of control frames `[8, 32]` a call, fed as un-normalised sound tokens."""
    synth = SoundSynthesiser(torch.zeros(32), torch.ones(32))
    rng = np.random.default_rng(seed)
    phase, control, tail = torch.zeros(1, 1), torch.from_numpy(neutral_control())[None], torch.zeros(1, 250)
    out = []
    for frame in controls:
        x = torch.zeros(1, 32, 128)
        x[0, 28:30] = torch.from_numpy(frame).reshape(2, 128)
        noise = torch.from_numpy(rng.random((1, 8, 251), np.float32))
        pcm, phase, control, tail = synth(x, torch.tensor([[1.0, 0.0]]), phase, control, tail, noise)
        out.append(pcm[0].numpy())
    return np.concatenate(out).astype(np.float64) / FULL_SCALE


def _drive(attributes: Attributes, speed: int, frames: int) -> list[np.ndarray]:
    world, out = World(3, attributes, 0, speed), []
    for _ in range(frames):
        world.step(attributes, 0, speed)
        out.append(sound_controls(world))
    return out


def test_silence_is_silent() -> None:
    assert np.abs(_render([np.tile(neutral_control(), (8, 1))] * 3)).max() == 0


def test_no_click_where_calls_meet() -> None:
    sound = _render(_drive(Attributes(0, 1, 0), 3, 12))
    jumps = np.abs(np.diff(sound))
    seams = jumps[np.arange(1, 12) * 2000 - 1]
    assert seams.max() <= np.quantile(jumps, 0.999)


def test_pitch_follows_the_control() -> None:
    frame = np.tile(neutral_control(), (8, 1))
    frame[:, 0] = 0  # an octave above the lowest pitch
    frame[:, 1] = 2 + 0.5 * np.log(0.3)
    sound = _render([frame] * 12)[4000:]
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    assert abs(np.argmax(spectrum) * SAMPLE_RATE / len(sound) - 84) < 1.2


def test_the_loudest_drive_does_not_reach_the_limiter_and_nothing_exceeds_it() -> None:
    assert np.abs(_render(_drive(Attributes(2, 1, 1), 3, 24))).max() < 1
    absurd = np.full((8, 32), 50.0, np.float32)
    wild = _render([absurd] * 2)
    assert np.isfinite(wild).all() and np.abs(wild).max() <= 1
    assert KNEE < 1
