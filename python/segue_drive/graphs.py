"""The graphs that the server runs, as PyTorch modules with the exact inputs and outputs of the exported files.

B is 1..16 and the first axis everywhere. Levels, masks and embeddings: see `transformer`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .checkpoint import DriveModel
from .director_graphs import DIRECTOR_KV_HEADS, DirectorPrefill, DirectorStep
from .geometry import (
    CONTEXT_NOISE, CONTROL_DIM, CONTROLS_PER_FRAME, DIRECTOR_WORDS, FRAME_HEIGHT, FRAME_WIDTH, HEAD_DIM, MASKED, NUM_HEADS, NUM_LAYERS,
    NUM_PICTURE_TOKENS, NUM_SOUND_TOKENS, NUM_TIME_PAIRS, NUM_TOKENS, PROMPT_WORDS, SAMPLES_PER_CONTROL, TOKEN_DIM, WINDOW_CHUNKS,
)
from .picture_decoder import VaeDecode
from .picture_encoder import VaeEncode
from .picture_reader import PictureReader
from .synth import NUM_BINS, SoundSynthesiser, neutral_control
from .transformer import DriveTransformer, space_angles, time_rotation
from .vocabulary import DIRECTOR_PROMPT_WORDS, WORDS, encode_prompt

WINDOW_KEYS = [f"k{i}" for i in range(WINDOW_CHUNKS)]  # k0 is the oldest chunk, k6 the newest
WINDOW_VALUES = [f"v{i}" for i in range(WINDOW_CHUNKS)]
_WINDOW = [*WINDOW_KEYS, *WINDOW_VALUES, "window_mask"]
_TEXT = ["tk", "tv", "tmask"]
_ACTION_AND_TIME = ["steer", "speed", "time_cos", "time_sin"]


def frame_mask() -> Tensor:
    """`[2, NUM_TOKENS, TOKEN_DIM]`: 1 where a value belongs to frame 0 / frame 1 of the chunk."""
    first = torch.zeros(NUM_TOKENS, TOKEN_DIM)
    first[:NUM_PICTURE_TOKENS, : TOKEN_DIM // 2] = 1
    first[NUM_PICTURE_TOKENS : NUM_PICTURE_TOKENS + NUM_SOUND_TOKENS // 2] = 1
    return torch.stack([first, 1 - first])


class TextEncoder(nn.Module):
    def __init__(self, transformer: DriveTransformer) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.transformer.encode_text(ids)


class DirectorLogprob(nn.Module):
    """Log-probability of each word of `ids [B, T]` after the first, given the ones before it: `[B, T - 1]`, natural logarithm."""

    def __init__(self, transformer: DriveTransformer) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, ids: Tensor) -> Tensor:
        scores = torch.log_softmax(self.transformer.all_word_logits(ids), -1)
        return torch.gather(scores[:, :-1], 2, ids[:, 1:, None])[:, :, 0]


class _ChunkGraph(nn.Module):
    def __init__(self, transformer: DriveTransformer) -> None:
        super().__init__()
        self.transformer = transformer
        angles = space_angles()
        self.register_buffer("space_cos", angles.cos().float()[None], persistent=False)
        self.register_buffer("space_sin", angles.sin().float()[None], persistent=False)

    def _rotation(self, time_cos: Tensor, time_sin: Tensor) -> tuple[Tensor, Tensor]:
        def full(time: Tensor, space: Tensor) -> Tensor:
            batch = time.shape[0]
            return torch.cat([time[:, None].expand(-1, NUM_TOKENS, -1), space.expand(batch, -1, -1)], -1)[:, None]

        return full(time_cos, self.space_cos), full(time_sin, self.space_sin)

    def _run(self, x, prev, noise, t_prev, steer, speed, time_cos, time_sin, text, window, with_output):
        blocks = [[block.split(1, 1) for block in part] for part in (window[:WINDOW_CHUNKS], window[WINDOW_CHUNKS : 2 * WINDOW_CHUNKS])]
        keys, values = ([[block[layer] for block in part] for layer in range(NUM_LAYERS)] for part in blocks)
        mask = window[-1].repeat_interleave(NUM_TOKENS, 3)
        condition = self.transformer.condition(noise, t_prev, steer, speed)
        return self.transformer.predict(
            x, prev, condition, self._rotation(time_cos, time_sin), text, keys, values, mask, with_output,
        )


class DenoiseStep(_ChunkGraph):
    """One Euler step from noise level t to t_next. Frames with `pin_frames` 1 follow `pin` instead: what was already seen stays."""

    def __init__(self, transformer: DriveTransformer) -> None:
        super().__init__(transformer)
        self.register_buffer("frame_mask", frame_mask(), persistent=False)

    def forward(self, x, eps, prev, pin, pin_frames, t, t_prev, t_next, steer, speed, time_cos, time_sin, tk, tv, tmask, *window):
        prediction, _, _ = self._run(x, prev, t, t_prev, steer, speed, time_cos, time_sin, (tk, tv, tmask), window, True)
        free = prediction + (t_next / t)[:, :, None] * (x - prediction)
        pinned = (1 - t_next)[:, :, None] * pin + t_next[:, :, None] * eps
        weights = pin_frames[:, :, None, None] * self.frame_mask
        return free + (weights[:, 0] + weights[:, 1]) * (pinned - free)


class CleanWrite(_ChunkGraph):
    """Keys and values that later chunks attend to, from the finished chunk at CONTEXT_NOISE; and that noised chunk itself."""

    def forward(self, x, eps, prev, t_prev, steer, speed, time_cos, time_sin, tk, tv, tmask, *window):
        noised = (1 - CONTEXT_NOISE) * x + CONTEXT_NOISE * eps
        noise = torch.full_like(t_prev, CONTEXT_NOISE)
        _, keys, values = self._run(noised, prev, noise, t_prev, steer, speed, time_cos, time_sin, (tk, tv, tmask), window, False)
        return torch.stack(keys, 1), torch.stack(values, 1), noised


class StartBank(nn.Module):
    """Encoded start chunks; index = place * 16 + time * 4 + weather. Real (rendered) frames, not generated ones."""

    def __init__(self, chunks: Tensor) -> None:
        super().__init__()
        self.register_buffer("chunks", chunks.half())

    def forward(self, index: Tensor) -> Tensor:
        return self.chunks[index[:, 0]].float()


@dataclass
class Graph:
    module: nn.Module
    inputs: list[str]
    outputs: list[str]
    example: tuple[Tensor, ...]


def example_inputs(names: list[str], batch: int = 2, seed: int = 0) -> tuple[Tensor, ...]:
    """Seeded inputs of plausible size for each name, for export and parity."""
    g = torch.Generator().manual_seed(seed)
    cos, sin = time_rotation(torch.randint(0, 5000, (batch,), generator=g))
    one_hot = torch.eye(2)[torch.randint(0, 2, (batch,), generator=g)]

    def make(name: str) -> Tensor:
        if name in WINDOW_KEYS or name in WINDOW_VALUES:
            return torch.randn(batch, NUM_LAYERS, NUM_HEADS, NUM_TOKENS, HEAD_DIM, generator=g)
        match name:
            case "x" | "eps" | "prev" | "pin":
                return torch.randn(batch, NUM_TOKENS, TOKEN_DIM, generator=g)
            case "t":
                return 0.3 + 0.7 * torch.rand(batch, 1, generator=g)
            case "t_next":
                return 0.3 * torch.rand(batch, 1, generator=g)
            case "t_prev":
                return torch.full((batch, 1), CONTEXT_NOISE)
            case "steer":
                return torch.randint(0, 3, (batch, 1), generator=g)
            case "speed":
                return torch.randint(0, 4, (batch, 1), generator=g)
            case "time_cos":
                return cos
            case "time_sin":
                return sin
            case "tk" | "tv":
                return torch.randn(batch, NUM_LAYERS, NUM_HEADS, PROMPT_WORDS, HEAD_DIM, generator=g)
            case "tmask":
                return torch.where(torch.arange(PROMPT_WORDS) < 9, 0.0, MASKED).expand(batch, 1, 1, -1).clone()
            case "window_mask":
                return torch.where(torch.arange(WINDOW_CHUNKS) < 2, MASKED, 0.0).expand(batch, 1, 1, -1).clone()
            case "frame":
                return one_hot
            case "pin_frames":
                return torch.tensor([1.0, 0.0]).expand(batch, -1).clone()
            case "phase":
                return torch.rand(batch, 1, generator=g)
            case "control":
                return torch.from_numpy(neutral_control()).expand(batch, -1).clone()
            case "tail":
                return 0.02 * torch.randn(batch, SAMPLES_PER_CONTROL, generator=g)
            case "noise":
                return torch.rand(batch, CONTROLS_PER_FRAME, NUM_BINS, generator=g)
            case "index":
                return torch.randint(0, 80, (batch, 1), generator=g)
            case "word":
                return torch.randint(3, len(WORDS), (batch, 1), generator=g)
            case "position":
                return torch.randint(8, DIRECTOR_WORDS, (batch, 1), generator=g)
            case "kv":
                return torch.randn(batch, DIRECTOR_KV_HEADS, DIRECTOR_WORDS, HEAD_DIM, generator=g)
            case "rgb":  # smooth, as pictures are
                coarse = torch.rand(batch, 3, 4, 7, generator=g)
                picture = nn.functional.interpolate(coarse, (FRAME_HEIGHT, FRAME_WIDTH), mode="bilinear", align_corners=False)
                return (picture.permute(0, 2, 3, 1) * 255).round().to(torch.uint8).contiguous()
        raise ValueError(f"no example for input {name}")

    return tuple(make(name) for name in names)


def build_graphs(model: DriveModel, start_chunks: Tensor) -> dict[str, Graph]:
    """All graphs by file name (without `.onnx`). `start_chunks [80, NUM_TOKENS, TOKEN_DIM]`."""
    transformer = model.transformer
    ids = torch.tensor([encode_prompt("drive through the city at night with rain"), encode_prompt("coast day clear")])
    script = torch.randint(3, len(WORDS), (2, DIRECTOR_PROMPT_WORDS), generator=torch.Generator().manual_seed(1))
    whole = torch.randint(3, len(WORDS), (2, DIRECTOR_WORDS), generator=torch.Generator().manual_seed(2))
    denoise = ["x", "eps", "prev", "pin", "pin_frames", "t", "t_prev", "t_next", *_ACTION_AND_TIME, *_TEXT, *_WINDOW]
    write = ["x", "eps", "prev", "t_prev", *_ACTION_AND_TIME, *_TEXT, *_WINDOW]
    synth = SoundSynthesiser(model.sound_mean, model.sound_std)
    graphs = {
        "text_encoder": Graph(TextEncoder(transformer), ["ids"], ["tk", "tv", "tmask"], (ids,)),
        "denoise_step": Graph(DenoiseStep(transformer), denoise, ["x_next"], example_inputs(denoise)),
        "clean_write": Graph(CleanWrite(transformer), write, ["k", "v", "prev_next"], example_inputs(write)),
        "vae_decode": Graph(VaeDecode(model), ["x", "frame"], ["rgb"], example_inputs(["x", "frame"])),
        "audio_synth": Graph(
            synth, ["x", "frame", "phase", "control", "tail", "noise"], ["pcm", "phase_next", "control_next", "tail_next"],
            example_inputs(["x", "frame", "phase", "control", "tail", "noise"]),
        ),
        "director_prefill": Graph(DirectorPrefill(transformer), ["ids", "position"], ["logits", "kv"], (script, torch.tensor([[8], [DIRECTOR_PROMPT_WORDS - 1]]))),
        "director_step": Graph(DirectorStep(transformer), ["word", "position", "kv"], ["logits", "kv_next"], example_inputs(["word", "position", "kv"])),
        "start_bank": Graph(StartBank(start_chunks), ["index"], ["x"], example_inputs(["index"])),
        "director_logprob": Graph(DirectorLogprob(transformer), ["ids"], ["logprobs"], (whole,)),
        "vae_encode": Graph(VaeEncode(model, start_chunks, PictureReader.of(model)), ["rgb"], ["x", "entry"], example_inputs(["rgb"])),
    }
    for graph in graphs.values():
        graph.module.eval()
    return graphs
