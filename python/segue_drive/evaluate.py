"""Does the stream show what was asked? Roll-outs through the ONNX graphs, judged by the classifier.

`python -m segue_drive.evaluate` prints adherence (share of frames named right) around a prompt switch, the road's curve
under steering and the engine's pitch.
`--sheet FILE` also writes a contact sheet: one stream a row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from .geometry import FRAME_HEIGHT, FRAME_WIDTH, NUM_TOKENS, TOKEN_DIM
from .rollout import DriveGraphs, SoundStream, decode, open_session, roll_out
from .start_chunks import BANK_SIZE
from .synth import LOWEST_PITCH
from .vocabulary import ATTRIBUTES, PHRASES, PROMPT_TEMPLATES
from .world.sound import engine_pitch

NUM_CHUNKS = 48  # 8 s
SWITCH_CHUNK = 24
# steering by chunk: straight, right, left, right; each is read in the last chunk before the next change
STEERING = ((0, 1), (8, 2), (16, 0), (32, 2))
CURVE_READ_CHUNKS = {"straight": 7, "right": 15, "left": 31, "right again": 47}
WINDOWS = {"before the switch": (20, 24), "+1.0 s": (30, 32), "+2.0 s": (36, 38), "last 1.3 s": (40, 48)}
SHEET_FRAMES = (0, 4, 10, 16, 24, 32, 40, 46, 50, 54, 58, 64, 72, 80, 88, 95)


def random_states(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.stack([rng.integers(0, size, count) for size in (5, 4, 4)], 1)


def free_prompt(state: np.ndarray, rng: np.random.Generator) -> str:
    """A prompt in any template with any synonym."""
    words = {name: PHRASES[name][value][int(rng.integers(3))] for name, value in zip(ATTRIBUTES, state)}
    return PROMPT_TEMPLATES[int(rng.integers(len(PROMPT_TEMPLATES)))].format(**words)


def scripted_actions(num_chunks: int, batch: int) -> np.ndarray:
    actions = np.empty((num_chunks, batch, 2), np.int64)
    actions[..., 1] = 2
    for first, steer in STEERING:
        actions[first:, :, 0] = steer
    return actions


def noise_of(batch: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    while True:
        yield rng.standard_normal((batch, NUM_TOKENS, TOKEN_DIM), np.float32)


class Judge:
    def __init__(self, path: Path) -> None:
        self._session = open_session(path)

    def __call__(self, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """frames `[..., 128, 224, 3]` -> answers `[..., 3]` and curve `[...]`"""
        flat = frames.reshape(-1, *frames.shape[-3:])
        parts = [self._session.run(None, {"rgb": flat[i : i + 16]}) for i in range(0, len(flat), 16)]
        place, time, weather, curve = (np.concatenate(p) for p in zip(*parts))
        answers = np.stack([place.argmax(1), time.argmax(1), weather.argmax(1)], 1)
        return answers.reshape(*frames.shape[:-3], 3), curve.reshape(frames.shape[:-3])


def evaluate(graphs: DriveGraphs, judge: Judge, batch: int, num_steps: int, seed: int, from_bank: bool) -> tuple[dict, np.ndarray]:
    """Figures and the frames `[B, 2 N, 128, 224, 3]`."""
    rng = np.random.default_rng(seed)
    before, after = random_states(rng, batch), random_states(rng, batch)
    before[: min(5, batch), 0] = np.arange(min(5, batch))
    first, second = ([free_prompt(state, rng) for state in states] for states in (before, after))
    prompts = [first if i < SWITCH_CHUNK else second for i in range(NUM_CHUNKS)]
    start = None
    if from_bank:
        index = before @ np.array([16, 4, 1])
        assert index.max() < BANK_SIZE
        start = graphs.run("start_bank", index=index[:, None].astype(np.int64))[0]
    chunks = roll_out(graphs, prompts, scripted_actions(NUM_CHUNKS, batch), noise_of(batch, seed), num_steps, start)
    frames = np.concatenate([decode(graphs, chunk) for chunk in chunks], 1)
    answers, curve = judge(frames)
    adherence = {}
    for name, (a, b) in WINDOWS.items():
        truth = before if b <= SWITCH_CHUNK else after
        hits = answers[:, 2 * a : 2 * b] == truth[:, None]
        adherence[name] = {attribute: round(float(hits[..., i].mean()), 3) for i, attribute in enumerate(ATTRIBUTES)}
    steering = {name: round(float(curve[:, 2 * chunk : 2 * chunk + 2].mean()), 3) for name, chunk in CURVE_READ_CHUNKS.items()}
    heard = engine_pitches(graphs, chunks[-1])
    obeyed = np.stack([np.sign(curve[:, 2 * c]) == s for c, s in ((15, 1), (31, -1), (47, 1))])
    return {
        "streams": batch, "steps": num_steps, "seed": seed, "start": "bank" if from_bank else "noise", "adherence": adherence,
        "engine_pitch_hz": {"generated_median": round(float(np.median(heard)), 1), "truth": round(engine_pitch(2 / 3), 1)},
        "curve": steering, "turns_with_the_right_sign": round(float(obeyed.mean()), 3),
    }, frames


def engine_pitches(graphs: DriveGraphs, chunk: np.ndarray) -> np.ndarray:
    """Hz at the end of a chunk `[B, 32, 128]`, from the control frame that the synthesiser hands on."""
    sound = SoundStream(graphs, len(chunk))
    for frame in range(2):
        sound.frame(chunk, frame)
    return LOWEST_PITCH * 2 ** ((sound.control[:, 0] + 2) / 2)


def contact_sheet(frames: np.ndarray, rows: int, path: Path) -> None:
    tiles = [np.concatenate([stream[i] for i in SHEET_FRAMES], 1) for stream in frames[:rows]]
    image = Image.fromarray(np.concatenate(tiles, 0))
    image.resize((len(SHEET_FRAMES) * FRAME_WIDTH // 2, rows * FRAME_HEIGHT // 2), Image.Resampling.BOX).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--classifier", type=Path, default=Path("test/oracle/classifier.onnx"))
    parser.add_argument("--streams", type=int, default=16, help="1..16")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--from-bank", action="store_true", help="start from encoded start chunks instead of noise")
    parser.add_argument("--sheet", type=Path)
    args = parser.parse_args()
    result, frames = evaluate(DriveGraphs(args.model / "weights"), Judge(args.classifier), args.streams, args.steps, args.seed, args.from_bank)
    print(json.dumps(result, indent=2))
    if args.sheet:
        contact_sheet(frames, min(8, args.streams), args.sheet)


if __name__ == "__main__":
    main()
