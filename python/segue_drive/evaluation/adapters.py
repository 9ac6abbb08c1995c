"""Do adapters show, how soon after a live switch, and what is left of the place: `python -m segue_drive.evaluation.run --parts adapters`

Each case is a drive of its own that goes without an adapter until its window is full, and from there on, from the same state and noise, in each style,
at scale 0.5 and 0, and without one again. Styles are judged by colours (`style_judge`), places by light and edges (`place_judge`), both fitted on renders only, beside what they say of other renders.
`python -m segue_drive.evaluation.adapters --sheet docs/model/adapters.png` draws the contact sheet.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..adapters import Adapter, read_adapters
from ..geometry import WINDOW_CHUNKS
from ..rollout import DriveGraphs, StreamState, denoise_chunk, encode_prompts, write_chunk
from ..training.held_out import HeldOut
from ..vocabulary import canonical_prompt
from ..world import Attributes, World, render
from ..world.styles import STYLES
from .cases import TURN_CHUNK, Case, chunk_noise, make_cases, time_to_stay
from .lines import Line, number_line, share_line
from .place_judge import PlaceJudge
from .streams import NUM_STEPS, decode_frame
from .style_judge import PLAIN, StyleJudge, unseen_renders

SWITCH = WINDOW_CHUNKS + 1  # the window holds nothing in the style, and nothing of the start
STYLED_CHUNKS = 9  # 1.5 s
BATCH = 4
FITTED_ON = 500  # renders
SHEET_STATES = ((0, 1, 0), (1, 2, 0), (2, 3, 1), (3, 1, 0), (4, 0, 3), (2, 1, 0))
STRIP_STATES = ((3, 2, 0), (0, 1, 0))
STRIP_CHUNKS = (-1, 0, 1, 2, 3, 5)  # from the switch on
Update = dict[str, np.ndarray] | None


class Drive:
    """A batch of streams that can be forked: a fork goes on from the same state with the same noise."""

    def __init__(self, graphs: DriveGraphs, cases: list[Case]) -> None:
        self._graphs, self._cases = graphs, cases
        self._state = StreamState(len(cases))
        self._noise = [case.noise() for case in cases]
        self._text = encode_prompts(graphs, [case.prompts[0] for case in cases])

    def fork(self) -> Drive:
        other = copy.copy(self)
        other._state, other._noise = copy.copy(self._state), copy.deepcopy(self._noise)
        return other

    def chunk(self, adapter: Update) -> np.ndarray:
        actions = np.array([case.action(min(self._state.chunk_index, SWITCH)) for case in self._cases], np.int64)
        steer, speed = actions[:, :1], actions[:, 1:]
        x = denoise_chunk(self._graphs, self._state, self._text, steer, speed, chunk_noise(self._noise), NUM_STEPS, adapter=adapter)
        write_chunk(self._graphs, self._state, self._text, steer, speed, x, chunk_noise(self._noise), adapter)
        return x

    def put(self, x: np.ndarray) -> None:
        """A given chunk in place of a generated one: a start picture."""
        standing = np.ones((len(x), 1), np.int64)
        write_chunk(self._graphs, self._state, self._text, standing, standing, x, chunk_noise(self._noise))


def through_autoencoder(graphs: DriveGraphs, frames: np.ndarray) -> np.ndarray:
    """Encoded and decoded by the graphs. uint8 `[N, 128, 224, 3]`"""
    parts = [graphs.run("vae_encode", rgb=np.ascontiguousarray(frames[i : i + 8]))[0] for i in range(0, len(frames), 8)]
    return np.concatenate([decode_frame(graphs, x, 0) for x in parts])


def measure_adapters(graphs: DriveGraphs, adapters: list[Adapter], count: int, seed: int, fitted_on: int = FITTED_ON) -> list[Line]:
    cases = make_cases("trained", count, seed + 3, HeldOut.open())
    renders, truth = unseen_renders(fitted_on)
    styles = StyleJudge(renders)
    judges = {adapter.id: PlaceJudge(STYLES[adapter.id](renders), truth) for adapter in adapters}
    seen = {adapter.id: _Seen() for adapter in adapters}
    for first in range(0, count, BATCH):
        part = cases[first : first + BATCH]
        drive, places = Drive(graphs, part), np.array([case.before[0] for case in part])
        for _ in range(SWITCH):
            drive.chunk(None)
        base = drive.fork()
        untouched = [base.chunk(None) for _ in range(STYLED_CHUNKS)]
        plain = decode_frame(graphs, untouched[-1], 1)
        world = np.stack([_drive_like(case, (seed, 78, first + i)) for i, case in enumerate(part)])
        for adapter in adapters:
            _follow(graphs, adapter, drive, untouched, plain, world, places, judges[adapter.id], styles, seen[adapter.id])
    lines = []
    for adapter in adapters:
        lines += seen[adapter.id].lines(adapter.id, count)
    return lines


class _Seen:
    """What was seen of one adapter, a list entry a case."""

    def __init__(self) -> None:
        self.shown: list[np.ndarray] = []  # bool [STYLED_CHUNKS]: is the last frame of each chunk in the style
        self.gone: list[np.ndarray] = []  # the same for plain, after switching off
        self.places: list[bool] = []
        self.world_places: list[bool] = []
        self.world_style: list[bool] = []
        self.between: list[bool] = []
        self.off_difference = 0.0

    def lines(self, name: str, count: int) -> list[Line]:
        shown, gone = np.array(self.shown), np.array(self.gone)
        on, off = [time_to_stay(row) for row in shown], [time_to_stay(row) for row in gone]
        settled = shown[:, 3:]
        ratio = sum(self.places) / max(1, sum(self.world_places))
        return [
            share_line(f"adapter {name}: frames in the style from 0.5 to 1.5 s after the switch", int(settled.sum()), settled.size, 0.95, "told by colours, by a judge fitted on renders only; the six frames of a case aren't independent"),
            share_line(f"adapter {name}: the world's own renders in the style, named right by the same judge", sum(self.world_style), count, note="its ceiling"),
            share_line(f"adapter {name}: a live switch shows within 1.5 s and stays", sum(t is not None for t in on), count, 0.95),
            number_line(f"adapter {name}: median time until a live switch shows", float(np.median([9.9 if t is None else t for t in on])), "s", at_most=1.0, count=count),
            share_line(f"adapter {name}: gone within 1.5 s of being switched off", sum(t is not None for t in off), count, 0.95),
            number_line(f"adapter {name}: median time until it is gone", float(np.median([9.9 if t is None else t for t in off])), "s", count=count),
            share_line(f"adapter {name}: place right after 1.5 s in the style", sum(self.places), count),
            share_line(f"adapter {name}: place right in the world's own renders in the style", sum(self.world_places), count, note="the ceiling"),
            number_line(f"adapter {name}: place adherence over the ceiling", ratio, "ratio", at_least=0.9, count=count),
            number_line(f"adapter {name}: scale 0 against the plain graphs, largest difference of latents", self.off_difference, "latent", at_most=0.0, count=count),
            share_line(f"adapter {name}: at scale 0.5 the style's score lies between those at 0 and 1", sum(self.between), count, 0.95),
        ]


def _follow(
    graphs: DriveGraphs, adapter: Adapter, drive: Drive, untouched: list[np.ndarray], plain: np.ndarray, world: np.ndarray, places: np.ndarray,
    judge: PlaceJudge, styles: StyleJudge, seen: _Seen,
) -> None:
    rows = len(places)
    on, half, zero = drive.fork(), drive.fork(), drive.fork()
    update = adapter.graph_inputs(rows)
    style = styles.names.index(adapter.id)
    frames = [decode_frame(graphs, on.chunk(update), 1) for _ in range(STYLED_CHUNKS)]
    seen.shown += list(np.stack([styles(f) == style for f in frames], 1))
    after = [decode_frame(graphs, on.chunk(None), 1) for _ in range(STYLED_CHUNKS)]
    seen.gone += list(np.stack([styles(f) == styles.names.index(PLAIN) for f in after], 1))
    seen.places += (judge(frames[-1]) == places).tolist()
    known = through_autoencoder(graphs, STYLES[adapter.id](world))
    seen.world_places += (judge(known) == places).tolist()
    seen.world_style += (styles(known) == style).tolist()
    for _ in range(STYLED_CHUNKS):
        halfway = half.chunk(adapter.graph_inputs(rows, 0.5))
    scores = [styles.score(f, adapter.id) for f in (plain, decode_frame(graphs, halfway, 1), frames[-1])]
    seen.between += ((scores[0] < scores[1]) & (scores[1] < scores[2])).tolist()
    for chunk in untouched[:2]:  # one denoised, and one that has seen what was written of it
        seen.off_difference = max(seen.off_difference, float(np.abs(zero.chunk(adapter.graph_inputs(rows, 0.0)) - chunk).max()))


def _drive_like(case: Case, seed: tuple[int, ...]) -> np.ndarray:
    """The last frame of a drive of the world that was asked and steered as the case was."""
    attributes = Attributes(*case.before)
    world = World(int(np.random.default_rng(seed).integers(1 << 31)), attributes, 0, case.speed)
    for chunk in range(SWITCH + STYLED_CHUNKS):
        steer, speed = case.action(min(chunk, SWITCH))
        for _ in range(2):
            world.step(attributes, steer - 1, speed)
    return render(world)


def contact_sheet(graphs: DriveGraphs, adapters: list[Adapter], path: Path, seed: int) -> None:
    """Above: the same moments plain and in each style. Below: live switches, from the chunk before on."""
    updates: list[Update] = [None, *(adapter.graph_inputs(1) for adapter in adapters)]
    scenes = []
    for i, state in enumerate(SHEET_STATES):
        drive = _started(graphs, state, (seed, 300, i))
        forks = [drive.fork() for _ in updates]
        for _ in range(WINDOW_CHUNKS):
            last = [fork.chunk(update) for fork, update in zip(forks, updates)]
        scenes.append(np.concatenate([decode_frame(graphs, x, 1)[0] for x in last], 1))
    rows = [np.concatenate(scenes[i : i + 2], 1) for i in range(0, len(scenes), 2)]
    for i, (adapter, state) in enumerate(zip(adapters, STRIP_STATES)):
        drive, strip = _started(graphs, state, (seed, 301, i)), {}
        for chunk in range(-WINDOW_CHUNKS, max(STRIP_CHUNKS) + 1):
            strip[chunk] = decode_frame(graphs, drive.chunk(None if chunk < 0 else adapter.graph_inputs(1)), 1)[0]
        rows.append(np.concatenate([strip[chunk] for chunk in STRIP_CHUNKS], 1))
    Image.fromarray(np.concatenate(rows)).save(path, optimize=True)


def _started(graphs: DriveGraphs, state: tuple[int, int, int], seed: tuple[int, int, int]) -> Drive:
    """A stream from the start bank, past its first chunks."""
    drive = Drive(graphs, [Case(state, state, (canonical_prompt(state),) * 2, 1, 2, False, seed)])
    drive.put(graphs.run("start_bank", index=np.array([[state[0] * 16 + state[1] * 4 + state[2]]]))[0])
    for _ in range(TURN_CHUNK):
        drive.chunk(None)
    return drive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--adapters", type=Path, help="folder of adapters to look at instead of the model's own")
    parser.add_argument("--sheet", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=2026)
    args = parser.parse_args()
    torch.set_num_threads(1)
    base = json.loads((args.model / "manifest.json").read_text())["adapter_compatibility"]["base"]
    contact_sheet(DriveGraphs(args.model / "weights"), read_adapters(args.model, base, args.adapters), args.sheet, args.seed)


if __name__ == "__main__":
    main()
