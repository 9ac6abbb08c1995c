"""Sound from control frames: a harmonic oscillator bank and shaped noise, 24 kHz, seamless from call to call.

A control frame (96 a second) is `[log pitch, 8 harmonic levels, 20 noise-band levels, 3 unused]`. Levels are interpolated from the
previous control frame to the current one, so a call needs only the last frame of the call before: no look-ahead.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from .geometry import CONTROL_DIM, CONTROLS_PER_FRAME, NUM_PICTURE_TOKENS, SAMPLE_RATE, SAMPLES_PER_CONTROL, SAMPLES_PER_FRAME

NUM_HARMONICS = 8
NUM_BANDS = 20
BAND_CENTRES = np.geomspace(60, 10000, NUM_BANDS).astype(np.float32)  # Hz
LOWEST_PITCH = 42.0  # Hz, at log pitch -2; one octave per 2 units
FLOOR = 1e-3  # amplitude that a level of "silent" stands for
HARMONIC_OFFSET, BAND_OFFSET = 2.0, 2.3
BLOCK = 2 * SAMPLES_PER_CONTROL  # noise blocks overlap by half
NUM_BINS = BLOCK // 2 + 1
OSCILLATOR_GAIN, NOISE_GAIN = 0.5, 0.7
KNEE = 0.7  # above this the limiter bends; below it the sound is untouched
FULL_SCALE = 32000


def neutral_control() -> np.ndarray:
    """The control frame of silence `[32]`: lowest pitch, all amplitudes 0. State before the first call."""
    control = np.zeros(CONTROL_DIM, np.float32)
    control[0] = -2
    control[1 : 1 + NUM_HARMONICS] = HARMONIC_OFFSET + 0.5 * math.log(FLOOR)
    control[1 + NUM_HARMONICS : 1 + NUM_HARMONICS + NUM_BANDS] = BAND_OFFSET + 0.5 * math.log(FLOOR)
    return control


def _ramps() -> np.ndarray:
    """`[9, 2000]`: weight of each of the 9 control frames (the previous one first) in each sample of a picture frame."""
    weights = np.zeros((CONTROLS_PER_FRAME + 1, SAMPLES_PER_FRAME))
    for hop in range(CONTROLS_PER_FRAME):
        rise = (np.arange(SAMPLES_PER_CONTROL) + 1) / SAMPLES_PER_CONTROL
        span = slice(hop * SAMPLES_PER_CONTROL, (hop + 1) * SAMPLES_PER_CONTROL)
        weights[hop, span], weights[hop + 1, span] = 1 - rise, rise
    return weights


def _band_shape() -> np.ndarray:
    """`[20, 251]`: gain of each spectrum bin per band, linear over log2 of frequency."""
    bins = np.log2(np.fft.rfftfreq(BLOCK, 1 / SAMPLE_RATE) + 1)
    return np.stack([np.interp(bins, np.log2(BAND_CENTRES), unit) for unit in np.eye(NUM_BANDS)])


def _half_inverse_dft() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cosine and sine parts of the real inverse DFT for samples 0..250, `[251, 251]` each, and the window's gain for all 500.

    Sample 500 - j is the cosine part minus the sine part of sample j, so half of the matrix is enough.
    """
    k, j = np.arange(NUM_BINS)[:, None], np.arange(NUM_BINS)[None]
    angle = 2 * np.pi * ((k * j) % BLOCK) / BLOCK
    twice = np.where((k == 0) | (k == NUM_BINS - 1), 1.0, 2.0) / BLOCK
    window = np.hanning(BLOCK + 1)[:-1] * math.sqrt(BLOCK) * NOISE_GAIN
    return twice * np.cos(angle), -twice * np.sin(angle), window


class SoundSynthesiser(nn.Module):
    """One picture frame of sound. `mean`, `std` `[32]` undo the normalisation of the sound tokens."""

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        ramps = _ramps()
        cosine, sine, window = _half_inverse_dft()
        constants = {
            "ramps": ramps, "phase_ramps": ramps.cumsum(1) / SAMPLE_RATE, "band_shape": _band_shape(),
            "cosine": cosine, "sine": sine, "window": window, "harmonics": np.arange(1, NUM_HARMONICS + 1)[:, None],
        }
        for name, value in constants.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(value)).float(), persistent=False)
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", std.clone())

    def forward(self, x: Tensor, frame: Tensor, phase: Tensor, control: Tensor, tail: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        """x `[B, 32, 128]`, frame `[B, 2]` one-hot, phase `[B, 1]` cycles, control `[B, 32]`, tail `[B, 250]`, noise `[B, 8, 251]` in 0..1
        -> pcm int16 `[B, 2000]`, phase, control, tail."""
        sound = x[:, NUM_PICTURE_TOKENS:].reshape(-1, 2, CONTROLS_PER_FRAME, CONTROL_DIM)
        fresh = (sound * frame[:, :, None, None]).sum(1) * self.std + self.mean
        controls = torch.cat([control[:, None], fresh], 1)  # [B, 9, 32]
        pitch = LOWEST_PITCH * torch.exp2((controls[..., :1].clamp(-3, 3) + 2) * 0.5)
        harmonic = controls[..., 1 : 1 + NUM_HARMONICS].clamp(max=HARMONIC_OFFSET) - HARMONIC_OFFSET
        amplitude = (torch.exp(harmonic * 2) - FLOOR).clamp(min=0)
        band = fresh[..., 1 + NUM_HARMONICS : 1 + NUM_HARMONICS + NUM_BANDS].clamp(max=BAND_OFFSET) - BAND_OFFSET
        gain = ((torch.exp(band * 2) - FLOOR).clamp(min=0)) @ self.band_shape  # [B, 8, 251]

        turns = phase[:, :, None] + pitch.transpose(1, 2) @ self.phase_ramps  # [B, 1, 2000] cycles
        cycles = turns * self.harmonics
        waves = torch.sin((cycles - cycles.floor()) * (2 * math.pi))
        tone = (waves * (amplitude.transpose(1, 2) @ self.ramps)).sum(1)

        angle = noise * (2 * math.pi)
        even, odd = (gain * torch.cos(angle)) @ self.cosine, (gain * torch.sin(angle)) @ self.sine
        blocks = torch.cat([even + odd, (even - odd)[..., 1 : NUM_BINS - 1].flip(-1)], -1) * self.window  # [B, 8, 500]
        first, second = blocks.split(SAMPLES_PER_CONTROL, -1)
        hiss = (first + torch.cat([tail[:, None], second[:, :-1]], 1)).flatten(1)

        y = tone * OSCILLATOR_GAIN + hiss
        loud = y.abs()
        limited = torch.where(loud <= KNEE, y, y.sign() * (KNEE + (1 - KNEE) * torch.tanh((loud - KNEE) / (1 - KNEE))))
        pcm = (limited * FULL_SCALE).round().to(torch.int16)
        end = turns[:, :, -1]
        return pcm, end - end.floor(), fresh[:, -1], second[:, -1]
