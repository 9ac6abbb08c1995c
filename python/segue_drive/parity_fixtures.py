"""Stored references of parity for CI, which has no Python: `python -m segue_drive.parity_fixtures --source DIR`

Writes `test/engine/model/parity/fixtures/`: per level a JSON file and one of numbers (`.f32`, little-endian), computed in PyTorch from the source checkpoints.
Inputs are recipes that both sides can follow (`philox`); of large outputs a seeded subset of elements is kept, and the mean and root mean square of all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from .checkpoint import DriveModel, load_drive
from .director_graphs import DIRECTOR_KV_HEADS
from .geometry import DIRECTOR_WORDS, FRAME_HEIGHT, FRAME_WIDTH, HEAD_DIM, MASKED, NUM_HEADS, NUM_LAYERS, NUM_TOKENS, PROMPT_WORDS, SAMPLES_PER_CONTROL, TOKEN_DIM, WINDOW_CHUNKS
from .graphs import WINDOW_KEYS, WINDOW_VALUES, Graph, build_graphs
from .low_rank import ADAPTER_SHAPES
from .parity import director_prompts
from .philox import Counter, normal, uniform
from .reference_rollout import reference_roll_out
from .render_parity import CHUNKS as RENDER_CHUNKS
from .render_parity import COLOURS_AT_LEAST, DRIVES, NOISE_SEED, SSIM_AT_LEAST, histogram, thumbnail, thumbnail_ssim, true_frames
from .start_chunks import START_SPEED, bank_attributes, render_start_chunks
from .synth import NUM_BINS, neutral_control
from .transformer import time_rotation
from .vocabulary import DIRECTOR_PROMPT_WORDS, EOS, PAD, WORDS, canonical_prompt, encode_prompt
from .world import Attributes, World, render

FOLDER = Path("test/engine/model/parity/fixtures")
SUBSET = 320  # elements kept of an output
BATCH = 2
DENOISE, CONTEXT, SOUND = 0, 1, 2  # streams of noise, as in `src/engine/model/kernels/noise_streams.ts`
# Largest differences that rounding makes: of 32-bit sums in another order; of whole grey levels and samples, one; where sound adds up a phase for
# many frames, or pictures follow one another, a few more.
COMPONENT_TOLERANCE = {"float32": 1e-4, "uint8": 1, "int16": 1}
VIDEO_TOLERANCE, STORY_TOLERANCE, PIXEL_TOLERANCE, SOUND_TOLERANCE, LOGPROB_TOLERANCE = 5e-4, 5e-4, 2, 8, 1e-4

# A roll-out with a new prompt and turns, longer than the window.
VIDEO = {
    "seed": 1234, "lineage": 5, "prompts": ["drive through the forest at day with clear sky", "drive through the city at night with rain"], "switchAt": 4,
    "steer": [0, 0, 0, -1, -1, 1, 1, 0, 0], "speed": [2, 2, 3, 3, 1, 1, 0, 2, 2],
}
STORY = {"seed": 77, "lineage": 2, "prompt": canonical_prompt((2, 2, 0)), "attributes": [2, 2, 0], "chunks": 5, "steer": [0, 0, 1, 1, -1], "speed": 2}
TEXTS = 6


class Numbers:
    """Numbers of one level, in the order in which they were put; the JSON file says where."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self.count = 0

    def put(self, values: np.ndarray) -> list[int]:
        """`[offset, count]`"""
        flat = np.asarray(values, "<f4").reshape(-1)
        self._parts.append(flat)
        self.count += len(flat)
        return [self.count - len(flat), len(flat)]

    def write(self, path: Path) -> None:
        np.concatenate(self._parts).tofile(path)


def subset(size: int, seed: int) -> np.ndarray:
    """One seeded element of each of `SUBSET` equal parts; all where there are no more."""
    if size <= SUBSET:
        return np.arange(size)
    width = size / SUBSET
    drawn = uniform(Counter(seed), (SUBSET,)).astype(np.float64)
    return (np.floor(np.arange(SUBSET) * width) + np.floor(drawn * np.floor(width))).astype(np.int64)


def described(values: np.ndarray, tolerance: float, seed: int, numbers: Numbers) -> dict:
    flat = values.reshape(-1).astype(np.float64)
    return {
        "shape": list(values.shape), "tolerance": tolerance, "seed": seed, "at": numbers.put(flat[subset(len(flat), seed)]),
        "mean": float(flat.mean()), "rms": float(np.sqrt((flat * flat).mean())),
    }


def make_input(recipe: dict) -> np.ndarray:
    """What a recipe says: see `recipes`."""
    shape = tuple(recipe["shape"])
    match recipe["draw"]:
        case "values":
            return np.array(recipe["values"], recipe["dtype"]).reshape(shape)
        case "normal":
            return normal(Counter(recipe["seed"]), shape)
        case "uniform":
            return uniform(Counter(recipe["seed"]), shape)
        case "ints":
            return np.floor(uniform(Counter(recipe["seed"]), shape).astype(np.float64) * (recipe["high"] - recipe["low"]) + recipe["low"]).astype(np.int64)
        case "blocks":  # squares of one colour, so that a picture is more than noise
            side = recipe["side"]
            batch, height, width, colours = shape
            coarse = np.floor(uniform(Counter(recipe["seed"]), (batch, height // side, width // side, colours)).astype(np.float64) * 256)
            return coarse.repeat(side, 1).repeat(side, 2).astype(np.uint8)
    raise ValueError(f"no such draw: {recipe['draw']}")


def recipes(component: str, names: list[str], first_seed: int) -> dict[str, dict]:
    """For each input of a component how to make it: given values, or a draw of `philox` with its own seed."""
    cos, sin = (table.numpy() for table in time_rotation(torch.tensor([3, 11])))
    texts = ["drive through the city at night with rain", "coast day clear"]
    given: dict[str, np.ndarray] = {
        "t": np.array([[1.0], [0.5]], np.float32), "t_next": np.array([[0.5], [0.0]], np.float32), "t_prev": np.array([[1.0], [0.03]], np.float32),
        "pin_frames": np.array([[1, 0], [0, 0]], np.float32), "steer": np.array([[0], [2]]), "speed": np.array([[3], [1]]), "time_cos": cos, "time_sin": sin,
        "tmask": np.where(np.arange(PROMPT_WORDS) < 9, 0, MASKED).astype(np.float32).reshape(1, 1, 1, -1).repeat(BATCH, 0),
        "window_mask": np.where(np.arange(WINDOW_CHUNKS) < 2, MASKED, 0).astype(np.float32).reshape(1, 1, 1, -1).repeat(BATCH, 0),
        "frame": np.eye(2, dtype=np.float32), "control": neutral_control()[None].repeat(BATCH, 0), "index": np.array([[14], [63]]),
        "recolour": np.array([[1.0], [0.25]], np.float32), "level": np.array([[0.4], [0.0]], np.float32),
        "adapter_scale": np.array([[0.02], [0.01]], np.float32),  # of factors drawn far larger than learnt ones
        "position": np.array([[8], [DIRECTOR_PROMPT_WORDS - 1]]) if component == "director_prefill" else np.array([[9], [30]]),
    }
    if component == "text_encoder":
        given["ids"] = np.array([encode_prompt(text) for text in texts])
    window = {"draw": "normal", "shape": [BATCH, NUM_LAYERS, NUM_HEADS, NUM_TOKENS, HEAD_DIM]}
    words = DIRECTOR_PROMPT_WORDS if component == "director_prefill" else DIRECTOR_WORDS
    drawn: dict[str, dict] = {
        **{name: {"draw": "normal", "shape": [BATCH, NUM_TOKENS, TOKEN_DIM]} for name in ("x", "eps", "prev", "pin", "before", "like")},
        **dict.fromkeys((*WINDOW_KEYS, *WINDOW_VALUES), window),
        **{name: {"draw": "normal", "shape": [BATCH, NUM_LAYERS, NUM_HEADS, PROMPT_WORDS, HEAD_DIM]} for name in ("tk", "tv")},
        "phase": {"draw": "uniform", "shape": [BATCH, 1]}, "tail": {"draw": "uniform", "shape": [BATCH, SAMPLES_PER_CONTROL]},
        "noise": {"draw": "uniform", "shape": [BATCH, 8, NUM_BINS]},
        "ids": {"draw": "ints", "shape": [BATCH, words], "low": 3, "high": len(WORDS)}, "word": {"draw": "ints", "shape": [BATCH, 1], "low": 3, "high": len(WORDS)},
        "kv": {"draw": "normal", "shape": [BATCH, DIRECTOR_KV_HEADS, DIRECTOR_WORDS, HEAD_DIM]},
        **{name: {"draw": "normal", "shape": [BATCH, *shape]} for name, shape in ADAPTER_SHAPES.items()},
        "rgb": {"draw": "blocks", "shape": [BATCH, FRAME_HEIGHT, FRAME_WIDTH, 3], "side": 32},
    }
    out = {}
    for place, name in enumerate(names):
        if name in given:
            value = given[name]
            out[name] = {"draw": "values", "dtype": str(value.dtype), "shape": list(value.shape), "values": value.reshape(-1).tolist()}
        else:
            dtype = {"ints": "int64", "blocks": "uint8"}.get(drawn[name]["draw"], "float32")
            out[name] = {**drawn[name], "dtype": dtype, "seed": first_seed + place}
    return out


@torch.no_grad()
def call(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = graph.module(*(torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in graph.inputs))
    return {name: value.numpy() for name, value in zip(graph.outputs, out if isinstance(out, tuple) else (out,), strict=True)}


def components(built: dict[str, Graph], numbers: Numbers) -> dict:
    """C0"""
    out = {}
    for place, name in enumerate(sorted(built)):
        inputs = recipes(name, built[name].inputs, 1000 * (place + 1))
        given = call(built[name], {key: make_input(recipe) for key, recipe in inputs.items()})
        outputs = {key: described(v, COMPONENT_TOLERANCE[str(v.dtype)], 1000 * (place + 1) + 500 + i, numbers) for i, (key, v) in enumerate(given.items())}
        out[name] = {"inputs": inputs, "outputs": outputs}
    return out


def _noise(seed: int, lineage: int, chunks: int) -> Iterator[np.ndarray]:
    for chunk in range(chunks):
        for stream in (DENOISE, CONTEXT):
            yield normal(Counter(seed, lineage, chunk, 0, stream), (1, NUM_TOKENS, TOKEN_DIM))


def video(model: DriveModel, numbers: Numbers) -> dict:
    chunks = len(VIDEO["steer"])
    prompts = [[VIDEO["prompts"][int(chunk >= VIDEO["switchAt"])]] for chunk in range(chunks)]
    actions = np.array([[(steer + 1, speed)] for steer, speed in zip(VIDEO["steer"], VIDEO["speed"])], np.int64)
    latents = reference_roll_out(model.transformer, prompts, actions, _noise(VIDEO["seed"], VIDEO["lineage"], chunks))[:, 0]
    return {**VIDEO, "chunks": [described(chunk, VIDEO_TOLERANCE, 7000 + i, numbers) for i, chunk in enumerate(latents)]}


def story(built: dict[str, Graph], model: DriveModel, numbers: Numbers, folder: Path) -> dict:
    """A picture is encoded, goes on, is decoded and sounds."""
    chunks, attributes = STORY["chunks"], Attributes(*STORY["attributes"])
    world = World(4321, attributes, 0, STORY["speed"])
    for _ in range(7):
        world.step(attributes, 0, STORY["speed"])
    Image.fromarray(render(world)).save(folder / "c1_picture.png", optimize=True)
    start, entry = call(built["vae_encode"], {"rgb": render(world)[None]}).values()
    actions = np.array([[(steer + 1, STORY["speed"])] for steer in STORY["steer"]], np.int64)
    latents = reference_roll_out(model.transformer, [[STORY["prompt"]]] * chunks, actions, _noise(STORY["seed"], STORY["lineage"], chunks), start=start)
    carried = {"phase": np.zeros((1, 1), np.float32), "control": neutral_control()[None], "tail": np.zeros((1, SAMPLES_PER_CONTROL), np.float32)}
    frames, sound = [], []
    for chunk in range(chunks):
        for frame in (0, 1):
            at = {"x": latents[chunk], "frame": np.eye(2, dtype=np.float32)[frame : frame + 1]}
            number = 8000 + 10 * chunk + frame
            frames.append(described(call(built["vae_decode"], at)["rgb"], PIXEL_TOLERANCE, number, numbers))
            noise = uniform(Counter(STORY["seed"], STORY["lineage"], chunk, frame, SOUND), (1, 8, NUM_BINS))
            made = call(built["audio_synth"], {**at, **carried, "noise": noise})
            sound.append(described(made["pcm"], SOUND_TOLERANCE, number + 2, numbers))
            carried = {name: made[f"{name}_next"] for name in carried}
    return {
        **STORY, "entry": int(entry[0, 0]), "latents": [described(chunk, STORY_TOLERANCE, 9000 + i, numbers) for i, chunk in enumerate(latents)],
        "frames": frames, "sound": sound,
    }


@torch.no_grad()
def texts(model: DriveModel) -> list[dict]:
    """Greedy words after prompts, all computed anew for each word, with their log-probabilities."""
    out = []
    for prompt in director_prompts(TEXTS, seed=9):
        ids, tokens, logprobs = list(prompt), [], []
        while len(ids) < DIRECTOR_WORDS and (not tokens or tokens[-1] != EOS):
            padded = torch.tensor([ids + [PAD] * (DIRECTOR_WORDS - len(ids))])
            scores = torch.log_softmax(model.transformer.word_logits(padded, torch.tensor([[len(ids) - 1]])), -1)[0]
            tokens.append(int(scores.argmax()))
            logprobs.append(float(scores[tokens[-1]]))
            ids.append(tokens[-1])
        out.append({"prompt": prompt, "endIds": [EOS], "tokens": tokens, "logprobs": logprobs})
    return out


@torch.no_grad()
def scored_texts(model: DriveModel) -> list[dict]:
    """C2: log-probabilities of words that were drawn at random, so that none is near 0."""
    out = []
    for place, prompt in enumerate(director_prompts(TEXTS, seed=10)):
        count = min(6 + 2 * place, DIRECTOR_WORDS - len(prompt))
        tokens = make_input({"draw": "ints", "seed": 600 + place, "shape": [count], "low": 3, "high": len(WORDS)}).tolist()
        ids = prompt + tokens
        padded = torch.tensor([ids + [PAD] * (DIRECTOR_WORDS - len(ids))])
        logits = [model.transformer.word_logits(padded, torch.tensor([[at - 1]]))[0] for at in range(len(prompt), len(ids))]
        out.append({"prompt": prompt, "tokens": tokens, "logprobs": [float(torch.log_softmax(row, -1)[token]) for row, token in zip(logits, tokens)]})
    return out


def renders(folder: Path) -> dict:
    """C4: of the renderer's own frames luma thumbnails (of the first chunk; one picture, a drive a row) and histograms of colours (of all)."""
    drives, sheet = [], []
    for index in DRIVES:
        true = true_frames(index)
        sheet.append(np.concatenate([thumbnail(frame) for frame in true[0]], 1))
        prompt = encode_prompt(canonical_prompt(bank_attributes(index).as_tuple()))
        drives.append({"index": index, "promptIds": prompt, "colours": [round(float(share), 6) for share in histogram(true)]})
    Image.fromarray(np.concatenate(sheet)).save(folder / "c4_thumbnails.png", optimize=True)
    first, second = sheet[0][:, :56], sheet[0][:, 56:]
    return {
        "noiseSeed": NOISE_SEED, "chunks": RENDER_CHUNKS, "speed": START_SPEED, "ssimAtLeast": SSIM_AT_LEAST, "coloursAtLeast": COLOURS_AT_LEAST, "drives": drives,
        "knownSsim": thumbnail_ssim(first, second),  # of the first drive's two thumbnails, by scikit-image
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    model = load_drive(args.source)
    built = build_graphs(model, render_start_chunks(model))
    first, second = Numbers(), Numbers()
    documents = {
        "c0": components(built, first), "c1": {"video": video(model, second), "texts": {"logprobTolerance": LOGPROB_TOLERANCE, "cases": texts(model)}, "story": story(built, model, second, args.out)},
        "c2": {"tolerance": LOGPROB_TOLERANCE, "cases": scored_texts(model)}, "c4": renders(args.out),
        "revision": model.source_sha256,  # of the manifest that these references belong to
    }
    first.write(args.out / "c0.f32")
    second.write(args.out / "c1.f32")
    for name, document in documents.items():
        (args.out / f"{name}.json").write_text(json.dumps(document) + "\n")
    print(json.dumps({path.name: path.stat().st_size for path in sorted(args.out.iterdir())}))


if __name__ == "__main__":
    main()
