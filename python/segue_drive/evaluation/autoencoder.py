"""The autoencoder on held-out renders: the ceiling of what any transformer in front of it can show."""

from __future__ import annotations

from pathlib import Path

from ..checkpoint import load_drive
from ..training.autoencoder_stage import measure
from ..training.frames import measured_frames
from .lines import Line, number_line


def measure_autoencoder(source: Path, count: int) -> list[Line]:
    frames, _ = measured_frames(count)
    figures = measure(load_drive(source).autoencoder, frames)
    return [
        number_line("autoencoder: PSNR on held-out renders", figures["psnr"], "dB", at_least=31, count=count),
        number_line("autoencoder: gradient over the renderer's", figures["gradient_amount"], "ratio of mean |difference of neighbours|", at_least=0.8, count=count),
        number_line("autoencoder: squared gradient over the renderer's", figures["gradient_power"], "ratio", count=count),
    ]
