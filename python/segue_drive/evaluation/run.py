"""The evaluation: `python -m segue_drive.evaluation.run --model models/drive --out docs/model/evaluation.jsonl`

Every line is printed as JSON. Adherence is judged by a classifier that was fitted on renders only; a case counts when place, time and weather of its
frame are all named right. `--source` adds the autoencoder's own figures, `--soak-minutes` the long roll-out, `--stills` pictures for a blind reader,
`--baseline-graphs` how fast the graphs are against others (see `speed_ratio`).
Exits with 1 when a line with a bar misses it.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ..adapters import read_adapters
from ..director import measure as measure_director
from ..evaluate import Judge
from ..geometry import WINDOW_CHUNKS
from ..picture_reader import random_picture
from ..rollout import DriveGraphs
from ..training.held_out import HeldOut
from ..training.sharpness import gradient_amount, gradient_power
from ..vocabulary import ATTRIBUTES, PHRASES, canonical_prompt
from ..world import Attributes, World, render, sound_controls
from .against_renders import after_true_context, colours_of_roll_outs
from .adapters import measure_adapters
from .autoencoder import measure_autoencoder
from .cases import FAMILIES, LAST_CHUNK, SWITCH_CHUNK, Case, make_cases, time_to_stay
from .fewer_steps import measure_fewer_steps
from .given_video import GivenVideo
from .lines import Line, number_line, share_line
from .soak import soak
from .sound_judge import heard_controls, judge_sound
from .speed import measure_speed
from .speed_ratio import measure_ratio
from .streams import decode_frame, run_cases, steer_response

BATCH = 4
STILLS = 24
STATE_BYTES = 2 * 6 * 3 * 32 * 64 * 4  # keys and values of one chunk of the window


class Evaluation:
    def __init__(self, model: Path, classifier: Path, cases: int, seed: int) -> None:
        self.model, self.cases, self.seed = model, cases, seed
        self.graphs, self.judge, self.held_out = DriveGraphs(model / "weights"), Judge(classifier), HeldOut.open()
        self.lines: list[Line] = []
        self.stills: list[tuple[np.ndarray, tuple[int, ...]]] = []

    def add(self, *lines: Line) -> None:
        for line in lines:
            self.lines.append(line)
            print(line.as_json(), flush=True)

    def _batches(self, cases: list[Case]) -> list[list[Case]]:
        return [cases[i : i + BATCH] for i in range(0, len(cases), BATCH)]

    def _seen(self, chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        frames = decode_frame(self.graphs, chunk, 1)
        answers, curve = self.judge(frames)
        return frames, answers, curve

    def family(self, name: str) -> None:
        """Adherence before and 1.5 s after a switch; for trained cases also when it was reached, steering, sound and sharpness."""
        cases = make_cases(name, self.cases, self.seed, self.held_out)
        before, after, turns, sound, reached, frames, changes = [], [], [], [], [], [], []
        for part in self._batches(cases):
            chunks = run_cases(self.graphs, part)
            wanted = [np.array([getattr(case, when) for case in part]) for when in ("before", "after")]
            for chunk, truth, hits, turned in ((SWITCH_CHUNK - 1, wanted[0], before, 1), (LAST_CHUNK, wanted[1], after, -1)):
                pictures, answers, curve = self._seen(chunks[chunk])
                hits += (answers == truth).tolist()
                turns += [np.sign(c) == turned * case.first_turn for c, case in zip(curve, part)]
                controls = heard_controls(self.graphs, chunks[chunk - 1 : chunk + 1])
                sound += [judge_sound(c, tuple(t), case.speed) for c, t, case in zip(controls, truth.tolist(), part)]
                frames += list(zip(pictures, part, [chunk] * len(part)))
            if name == "trained":
                right = [(self._seen(chunks[c])[1] == wanted[1]).all(1) for c in range(SWITCH_CHUNK, LAST_CHUNK)]
                right.append(np.all(np.array(after[-len(part) :]), 1))
                shown = [decode_frame(self.graphs, chunks[c], f) for c, f in ((LAST_CHUNK - 1, 1), (LAST_CHUNK, 0), (LAST_CHUNK, 1))]
                changes += [_change(list(three)) for three in zip(*shown)]
                reached += [time_to_stay(row) for row in np.array(right).T]
        self._adherence(name, before, after)
        if name != "trained":
            return
        self.add(
            share_line("switch: all three right within 1.5 s and from then on", sum(t is not None for t in reached), len(reached), 0.95),
            number_line("switch: median time until all three are right", float(np.median([t for t in reached if t is not None] or [9.9])), "s", count=len(reached)),
            share_line("steering: sign of the road's curve", int(sum(turns)), len(turns), 0.98),
            share_line("sound: matches speed", sum(s for s, _ in sound), len(sound), 0.95),
            share_line("sound: matches weather", sum(w for _, w in sound), len(sound), 0.95),
        )
        steered = [bool(all(hit)) for hit, case in zip(after, cases) if case.steered]
        self.add(share_line("switch between the two denoise steps: all three right after 1.5 s", sum(steered), len(steered), 0.95))
        self._against_the_world(frames, changes)
        order = np.random.default_rng((self.seed, 55)).permutation(len(frames))[:STILLS]
        for index in order:
            picture, case, chunk = frames[index]
            self.stills.append((picture, case.before if chunk < SWITCH_CHUNK else case.after))

    def _adherence(self, name: str, before: list, after: list) -> None:
        everything = {"trained": before + after, "held_out_combinations": after, "held_out_phrasings": before + after}[name]
        label = name.replace("_", " ")
        for i, attribute in enumerate(ATTRIBUTES):
            self.add(share_line(f"adherence, {label}: {attribute}", sum(hit[i] for hit in everything), len(everything)))
        self.add(share_line(f"adherence, {label}: all three", sum(all(hit) for hit in everything), len(everything), 0.95 if name == "trained" else 0.85))

    def _against_the_world(self, frames: list[tuple[np.ndarray, Case, int]], changes: list[tuple[float, float]]) -> None:
        """Of generated frames against renders of drives that were asked and steered the same way."""
        made = _as_tensor([picture for picture, _, _ in frames])
        drives = [_drive_like(case, chunk, (self.seed, 77, i)) for i, (_, case, chunk) in enumerate(frames)]
        true = _as_tensor([shown[-1] for shown, _ in drives])
        known = [judge_sound(c, case.before if chunk < SWITCH_CHUNK else case.after, case.speed) for (_, c), (_, case, chunk) in zip(drives, frames)]
        moved = [_change(shown) for (shown, _), (_, _, chunk) in zip(drives, frames) if chunk == LAST_CHUNK]
        inside, across = np.mean(changes, 0) / np.mean(moved, 0)
        standing = [change for change, (_, case, chunk) in zip(changes, [f for f in frames if f[2] == LAST_CHUNK]) if case.speed == 0 and case.after[2] in (0, 2)]
        self.add(
            number_line("change from frame to frame inside a chunk over the world's", float(inside), "ratio", count=len(changes)),
            number_line("change from frame to frame across chunks over the world's", float(across), "ratio", count=len(changes)),
            number_line("flicker: change across chunks while standing, clear or foggy", float(np.mean([a for _, a in standing] or [0])), "grey levels of 255", count=len(standing)),
            number_line("sharpness: gradient of roll-out frames over the renderer's", float(gradient_amount(made).mean() / gradient_amount(true).mean()), "ratio of mean |difference of neighbours|", at_least=0.8, count=len(frames)),
            share_line("sound judge on the world's own sound: weather", sum(w for _, w in known), len(known), note="the ceiling of how sound can match weather here"),
            number_line("sharpness: squared gradient of roll-out frames over the renderer's", float(gradient_power(made).mean() / gradient_power(true).mean()), "ratio", count=len(frames)),
        )

    def image_to_video(self) -> None:
        """Stories that start from renders of unseen moments, in all 80 combinations; asked for in words, as the picture is."""
        rng = np.random.default_rng((self.seed, 200))
        right, held, read = [], [], []
        for first in range(0, self.cases, BATCH):
            attributes = [Attributes.random(rng) for _ in range(min(BATCH, self.cases - first))]
            states = np.array([a.as_tuple() for a in attributes])
            start, entry = self.graphs.run("vae_encode", rgb=np.stack([random_picture(rng, a) for a in attributes]))
            cases = [Case(a.as_tuple(), a.as_tuple(), (canonical_prompt(a.as_tuple()),) * 2, 1, 2, False, (self.seed, 201, first + i)) for i, a in enumerate(attributes)]
            _, answers, _ = self._seen(run_cases(self.graphs, cases, SWITCH_CHUNK + 1, start)[-1])
            right += (answers[:, :2] == states[:, :2]).all(1).tolist()
            held += [a.as_tuple() in self.held_out.combinations for a in attributes]
            index = entry[:, 0].astype(int)
            read += ((index // 16 == states[:, 0]) & (index // 4 % 4 == states[:, 1])).tolist()
        unseen = [r for r, h in zip(right, held) if h]
        self.add(
            share_line("image to video: place and time of the start image after 2 s", sum(right), len(right), 0.9, f"renders of unseen moments, all combinations; held-out ones {sum(unseen)} of {len(unseen)}"),
            share_line("image without words: place and time are read right", sum(read), len(read), 0.9),
        )

    def given_video(self) -> None:
        for line in GivenVideo(self.graphs, self.judge, self.held_out, self.cases, self.seed).measure():
            self.add(line)

    def director(self) -> None:
        figures = measure_director(self.model, max(200, self.cases), self.seed)
        count = int(figures["edits"])  # type: ignore[call-overload]
        plan, raw = (figures[key]["all"] for key in ("plan_right_by_templates", "plan_right_raw_text"))  # type: ignore[index]
        self.add(
            share_line("plan: new state exactly right", round(plan * count), count, 0.97),
            share_line("narration: names the new place, time and weather", round(float(figures["narration_names_the_state"]) * count), count, 0.97),  # type: ignore[arg-type]
            share_line("plan from raw text, without the prompt processor", round(raw * count), count),
        )

    def steering_between_steps(self) -> None:
        cases = make_cases("trained", min(self.cases, 100), self.seed + 1, self.held_out)
        response = np.concatenate([steer_response(self.graphs, part) for part in self._batches(cases)])
        self.add(
            number_line("change between the two denoise steps: share of a full change in its own chunk, median", float(np.median(response)), "share", count=len(response)),
            number_line("change between the two denoise steps: the same, 5th percentile", float(np.quantile(response, 0.05)), "share", count=len(response)),
        )

    def batched_as_alone(self) -> None:
        cases = make_cases("trained", 4, self.seed + 2, self.held_out)
        together = run_cases(self.graphs, cases)
        alone = np.concatenate([run_cases(self.graphs, [case]) for case in cases], 1)
        self.add(number_line("four sessions batched against alone, largest difference of latents", float(np.abs(together - alone).max()), "latent", at_most=1e-2, count=len(cases)))

    def adapters(self) -> None:
        base = json.loads((self.model / "manifest.json").read_text())["adapter_compatibility"]["base"]
        self.add(*measure_adapters(self.graphs, read_adapters(self.model, base), self.cases, self.seed))

    def fewer_steps(self) -> None:
        for line in measure_fewer_steps(self.graphs, self.judge, self.cases, self.seed, self.held_out):
            self.add(line)

    def size(self) -> None:
        total = sum(path.stat().st_size for folder in ("weights", "adapters") for path in (self.model / folder).glob("*"))
        self.add(
            number_line("size of the weights, with adapters", total / 1e6, "MB", at_most=30),
            number_line("live state of a session", WINDOW_CHUNKS * STATE_BYTES / 1e6, "MB of keys and values", at_most=25),
        )

    def write_stills(self, folder: Path) -> None:
        """`stills.png` and the words to choose from for the reader; the truth in a file of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        columns = min(6, len(self.stills))
        rows = [np.concatenate([p for p, _ in self.stills[i : i + columns]], 1) for i in range(0, len(self.stills) // columns * columns, columns)]
        Image.fromarray(np.concatenate(rows)).save(folder / "stills.png", optimize=True)
        words = {name: [values[0] for values in PHRASES[name]] for name in ATTRIBUTES}
        (folder / "words.json").write_text(json.dumps(words, indent=2) + "\n")
        truth = [{name: words[name][value] for name, value in zip(ATTRIBUTES, state)} for _, state in self.stills]
        (folder / "truth.json").write_text(json.dumps(truth, indent=2) + "\n")


def _drive_like(case: Case, chunk: int, seed: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """A drive of the world that is asked and steered as the case is: its last three frames at the end of a chunk, and its mean control frame `[32]`
    over two chunks."""
    world = World(int(np.random.default_rng(seed).integers(1 << 31)), Attributes(*case.before), 0, case.speed)
    frames, controls = [], []
    for now in range(chunk + 1):
        attributes = Attributes(*(case.before if now < SWITCH_CHUNK else case.after))
        steer, speed = case.action(now)
        for part in range(2):
            world.step(attributes, steer - 1, speed)
            if now >= chunk - 1:
                controls.append(sound_controls(world)[-1])
            if (now, part) in ((chunk - 1, 1), (chunk, 0), (chunk, 1)):
                frames.append(render(world))
    return frames, np.mean(controls, 0)


def _change(frames: list[np.ndarray]) -> tuple[float, float]:
    """Mean absolute change of pixels from the second last frame to the last (inside a chunk), and to the second last from the one before (across)."""
    first, second, third = (frame.astype(np.int16) for frame in frames)
    return float(np.abs(third - second).mean()), float(np.abs(second - first).mean())


def _as_tensor(frames: list[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 127.5 - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--classifier", type=Path, default=Path("test/oracle/classifier.onnx"))
    parser.add_argument("--source", type=Path, help="source checkpoints: adds the autoencoder's PSNR and sharpness on held-out renders")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--soak-minutes", type=int, default=0)
    parser.add_argument("--parts", nargs="*", help="only these: size, speed, ratio, batch, director, a family of cases, image, video, steering, colours, fewer steps, adapters, true context, autoencoder, soak")
    parser.add_argument("--stills", type=Path)
    parser.add_argument("--baseline-graphs", type=Path, help="folder of other graphs for the same work: adds the ratio of frames/s")
    parser.add_argument("--out", type=Path, help="also write the lines to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    run = Evaluation(args.model, args.classifier, args.cases, args.seed)
    measures: dict[str, Callable[[], object]] = {
        "size": run.size, "speed": lambda: run.add(*measure_speed(run.graphs)), "batch": run.batched_as_alone, "director": run.director,
        **{name: functools.partial(run.family, name) for name in FAMILIES}, "image": run.image_to_video, "steering": run.steering_between_steps,
        "colours": lambda: run.add(*colours_of_roll_outs(run.graphs, args.cases, args.seed, run.held_out)),
        "video": run.given_video,
        "fewer steps": run.fewer_steps,
    }
    if (args.model / "adapters").exists():
        measures["adapters"] = run.adapters
    if args.source:
        measures["true context"] = lambda: run.add(*after_true_context(run.graphs, args.source, args.cases, args.seed, run.held_out))
        measures["autoencoder"] = lambda: run.add(*measure_autoencoder(args.source, args.cases))
    if args.baseline_graphs:
        measures["ratio"] = lambda: run.add(*measure_ratio(args.model / "weights", args.baseline_graphs))
    if args.soak_minutes:
        measures["soak"] = lambda: run.add(*soak(run.graphs, run.judge, args.soak_minutes, args.seed, run.held_out))
    unknown = set(args.parts or ()) - set(measures)
    if unknown:
        parser.error(f"no such parts here: {sorted(unknown)}; there are {list(measures)}")
    for name, measure in measures.items():
        if not args.parts or name in args.parts:
            measure()
    if args.stills:
        run.write_stills(args.stills)
    if args.out:
        args.out.write_text("".join(line.as_json() + "\n" for line in run.lines))
    missed = [line.name for line in run.lines if line.passed is False]
    print(json.dumps({"missed": missed}), file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
