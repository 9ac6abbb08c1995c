"""The model card, written from an evaluation's lines: `python -m segue_drive.evaluation.model_card --lines docs/model/evaluation.jsonl`

Nothing on the card is typed by hand: figures come from the lines, sizes and checksums from the manifest, the history from `lineage.json`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..checkpoint import SOURCE_FILES
from ..geometry import FRAME_HEIGHT, FRAME_WIDTH, FRAMES_PER_SECOND, SAMPLE_RATE
from ..training.held_out import HeldOut
from ..vocabulary import ATTRIBUTES, PHRASES


def row(line: dict) -> str:
    value = f"{100 * line['value']:.1f} %" if line["unit"] == "share" else f"{line['value']:g} {line['unit']}"
    interval = "" if "interval" not in line else "{:.1f}–{:.1f} %".format(*(100 * v for v in line["interval"])) if line["unit"] == "share" else "{:.3f}–{:.3f}".format(*line["interval"])
    verdict = {True: "yes", False: "**no**", None: ""}[line.get("passed")]
    return f"| {line['name']} | {value} | {interval} | {line.get('count', '')} | {line.get('bar', '')} | {verdict} | {line.get('note', '')} |"


def batch_size(plan: dict) -> int:
    """Of a stage's plan; the decoder's names both halves."""
    return plan["batch"] if "batch" in plan else plan["encoded"] + plan["served"]


def history(lineage: dict) -> list[str]:
    out = []
    if lineage.get("parent"):
        name, digest = next((n, d) for n, d in lineage["parent"].items() if n in SOURCE_FILES["transformer"])
        out.append(f"- Continued from earlier weights (`{name}` {digest[:12]}…), which **had been trained on all 80 combinations**.")
        out.append("  The held-out lists hold for the training after that, so the lines on held-out combinations show that nothing was forgotten, not that anything was inferred.")
    for part in ("autoencoder", "transformer"):
        entry = lineage.get(part)
        if isinstance(entry, dict):
            runs = [entry]
            while "before" in runs[0]:
                runs.insert(0, runs[0]["before"])
            steps = ", then ".join(f"{run['steps']} steps of {batch_size(run['plan'])}" for run in runs)
            out.append(f"- {part}: {steps} ({'pictures' if part == 'autoencoder' else 'clips of 8 chunks'}), held-out lists {entry['held_out'][:12]}….")
        elif entry:
            out.append(f"- {part}: {entry}.")
    return out


def card(lines: list[dict], manifest: dict, lineage: dict | None, held_out: HeldOut) -> str:
    barred = [line for line in lines if "bar" in line]
    missed = [line["name"] for line in barred if not line["passed"]]
    labels = {name: ", ".join(values[0] for values in PHRASES[name]) for name in ATTRIBUTES}
    text = [
        "# Model card: `drive`", "",
        f"An endless drive, generated: {FRAME_WIDTH}×{FRAME_HEIGHT} at {FRAMES_PER_SECOND} frames/s with {SAMPLE_RATE // 1000} kHz sound, steered by actions, described by a prompt, narrated in words.",
        "One set of weights: text, picture and sound share attention, each has experts of its own; two denoise steps make two frames.", "",
        *(f"- {name}: {words}" for name, words in labels.items()),
        "- actions: steer left, straight, right; speed 0 to 3", "",
        "It can show this world and nothing else. It was trained on renders of it alone, so it holds no pictures, voices or words of people.", "",
        "## Weights", "",
        f"`{', '.join(f'{name} {digest[:12]}…' for name, digest in manifest['upstream']['revision'].items())}`", "",
        *(history(lineage) if lineage else ["- As converted; no training of this repository."]), "",
        "## Measured", "",
        f"`make eval-model`: seeded cases; shares with 95 % Wilson intervals. {len(barred) - len(missed)} of {len(barred)} lines with a bar hold.", "",
        "| line | value | interval | n | bar | holds | |", "|---|---|---|---|---|---|---|", *map(row, lines), "",
        "## Does not hold", "", *([f"- {name}" for name in missed] or ["- Every bar is met."]), "",
        "## Held out", "", f"`python/held_out.json`, sha256 {held_out.sha256}: never shown by the training of this repository.", "",
        *(f"- {', '.join(PHRASES[name][value][0] for name, value in zip(ATTRIBUTES, combination))}" for combination in sorted(held_out.combinations)),
        *(f"- “{template}”" for template in held_out.templates), "",
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=Path, default=Path("docs/model/evaluation.jsonl"))
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--out", type=Path, default=Path("docs/model/card.md"))
    args = parser.parse_args()
    lines = [json.loads(line) for line in args.lines.read_text().splitlines()]
    manifest = json.loads((args.model / "manifest.json").read_text())
    args.out.write_text(card(lines, manifest, manifest["upstream"].get("lineage"), HeldOut.open()))


if __name__ == "__main__":
    main()
