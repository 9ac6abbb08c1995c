"""A run's checkpoints -> the source folder that `segue_drive.convert` reads. `python -m segue_drive.training.export --run DIR [--source DIR] --out DIR`

Writes `transformer.safetensors`, `autoencoder.safetensors` and `normalisation.safetensors` from the running averages, `source_trajectory.npz` made by the training code from the weights in memory (so a
wrong key mapping anywhere behind it is found by its numbers), and `lineage.json`. What the run didn't train is taken from `--source`, with what its
`lineage.json` says; of what it trained further that stands behind, as `before`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import key_mapping
from ..checkpoint import NORM_NAMES, normalisation_of, read_source, sha256_of, source_sha256, write_source
from ..geometry import NUM_TOKENS, TOKEN_DIM, WINDOW_CHUNKS
from ..key_mapping import load_strictly, source_state
from ..parity import TRAJECTORY_BATCH, scripted_trajectory, trajectory_noise
from ..source_reference import FILE_NAME
from ..transformer import DriveTransformer, space_angles, time_rotation
from ..vae import PictureAutoencoder
from ..vocabulary import encode_prompt
from .clip_forward import denoise_clip, encode_clip_prompts, write_clip
from .transformer_stage import FIRST_LEVEL, load_average

LINEAGE_FILE = "lineage.json"
TRAJECTORY_CHUNKS = WINDOW_CHUNKS + 1  # as many as a clip of the training code has
STORED_CHUNKS = (0, 3, 5, 6, 7)  # around the change of action and of prompt


@torch.no_grad()
def training_trajectory(net: DriveTransformer) -> np.ndarray:
    """The first chunks of `parity.scripted_trajectory`, `[8, B, 32, 128]`, by the forward pass that training uses."""
    prompts, actions = scripted_trajectory()
    prompts, pressed = prompts[:TRAJECTORY_CHUNKS], torch.from_numpy(actions[:TRAJECTORY_CHUNKS]).transpose(0, 1)
    source = trajectory_noise()
    noise = torch.from_numpy(np.stack([next(source) for _ in range(2 * TRAJECTORY_CHUNKS)])).transpose(0, 1)
    start, context = noise[:, ::2], noise[:, 1::2]
    ids = torch.tensor([[encode_prompt(prompts[0][row]), encode_prompt(prompts[-1][row])] for row in range(TRAJECTORY_BATCH)])
    after = torch.tensor([int(now != prompts[0]) for now in prompts]).expand(TRAJECTORY_BATCH, -1)
    text = encode_clip_prompts(net, ids, after)
    made = torch.zeros(TRAJECTORY_BATCH, TRAJECTORY_CHUNKS, NUM_TOKENS, TOKEN_DIM)
    ones = torch.ones(TRAJECTORY_BATCH, TRAJECTORY_CHUNKS)
    for chunk in range(TRAJECTORY_CHUNKS):  # what stands at later places is seen by nobody yet
        written = write_clip(net, made, context, pressed, text)
        first = denoise_clip(net, start, ones, pressed, text, written)
        x = start + (FIRST_LEVEL - 1) * (start - first)
        made[:, chunk] = denoise_clip(net, x, FIRST_LEVEL * ones, pressed, text, written)[:, chunk]
    return made.transpose(0, 1).numpy()


def rotary_tables() -> dict[str, Tensor]:
    """The tables that a source checkpoint carries: of as many chunks as a clip has."""
    cos, sin = time_rotation(torch.arange(TRAJECTORY_CHUNKS))
    space = space_angles()
    tables = {}
    for key, time, part in (("rc", cos, space.cos()), ("rs", sin, space.sin())):
        tables[key] = torch.cat([time[:, None].expand(-1, NUM_TOKENS, -1), part.float()[None].expand(TRAJECTORY_CHUNKS, -1, -1)], -1).flatten(0, 1)
    return tables


def export(run: Path, source: Path | None, out: Path) -> dict:
    """Returns the lineage. Raises FileNotFoundError when neither the run nor `source` has a part."""
    out.mkdir(parents=True, exist_ok=True)
    history = {} if source is None or not (source / LINEAGE_FILE).exists() else json.loads((source / LINEAGE_FILE).read_text())
    lineage: dict = {"parent": None if source is None else history.get("parent") or source_sha256(source)}
    transformer, autoencoder = DriveTransformer(), PictureAutoencoder()
    parts = (("transformer", transformer, key_mapping.TRANSFORMER, key_mapping.TRANSFORMER_DERIVED), ("autoencoder", autoencoder, key_mapping.AUTOENCODER, ()))
    normalisation = None
    for name, module, rules, derived in parts:
        path = run / f"{name}.ckpt"
        if path.exists():
            stored = torch.load(path, map_location="cpu", weights_only=False)
            if source is not None:  # buffers that aren't trained
                load_strictly(module, read_source(source, name), rules, derived)
            load_average(module, stored)
            facts = stored["facts"]
            if facts.get("from_nothing"):
                earlier = {"from_nothing": True}
            else:
                earlier = {"before": history[name]} if isinstance(history.get(name), dict) else {}
            lineage[name] = {"steps": stored["step"], "plan": facts["plan"], "held_out": facts["held_out"], **earlier}
            normalisation = facts.get("normalisation", normalisation)
        elif source is not None:
            load_strictly(module, read_source(source, name), rules, derived)
            lineage[name] = history.get(name, "of the parent")
        else:
            raise FileNotFoundError(f"{path} is missing, and no --source to take the {name} from")
    state = source_state(transformer, key_mapping.TRANSFORMER) | rotary_tables()
    written = write_source(out, "transformer", state)
    write_source(out, "autoencoder", source_state(autoencoder, key_mapping.AUTOENCODER))
    values = normalisation_of(source) if source is not None else normalisation or torch.load(run / "norm.pt", weights_only=True)
    write_source(out, "normalisation", dict(zip(NORM_NAMES, values, strict=True)))
    chunks = training_trajectory(transformer.eval())
    np.savez_compressed(out / FILE_NAME, chunks=chunks[list(STORED_CHUNKS)], index=np.array(STORED_CHUNKS), source_sha256=sha256_of(written))
    (out / LINEAGE_FILE).write_text(json.dumps(lineage, indent=2) + "\n")
    return lineage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(json.dumps(export(args.run, args.source, args.out), indent=2))


if __name__ == "__main__":
    main()
