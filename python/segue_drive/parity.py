"""Parity of the exported graphs: C0 each graph against its PyTorch module, C1 a trajectory against an independent
roll-out and against stored numbers of the source's own code, and the director word by word against all its words computed anew.

`python -m segue_drive.parity --source DIR --weights models/drive/weights` prints the largest difference and tolerance of each check and fails past it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from .checkpoint import DriveModel, load_drive
from .geometry import DIRECTOR_WORDS, FRAMES_PER_CHUNK, NUM_PICTURE_TOKENS, NUM_TOKENS, TOKEN_DIM
from .graphs import Graph, build_graphs, example_inputs
from .picture_encoder import ENCODER_TOLERANCE
from .picture_reader import encode_picture, random_picture
from .reference_rollout import reference_roll_out
from .render_parity import check_renders
from .rollout import DriveGraphs, decode, roll_out
from .source_reference import SourceReference
from .start_chunks import BANK_SIZE, bank_attributes, render_start_chunks
from .vae import patchify
from .vocabulary import (
    ATTRIBUTES, BOS, DIRECTOR_PROMPT_WORDS, EDIT_TEMPLATES_ONE, EDIT_TEMPLATES_TWO, EOS, PAD, PHRASES, SEP, WORD_IDS, WORDS, canonical_phrases,
)

# Largest absolute difference allowed. Floats: rounding of fp32 sums in another order. Bytes and samples: one level, where rounding falls on the other side.
TOLERANCE = {"float32": 1e-4, "uint8": 1, "int16": 1}
TRAJECTORY_TOLERANCE = 1e-3  # rounding grows over 12 chunks that feed each other
TRAJECTORY_CHUNKS = 12
TRAJECTORY_BATCH = 2
LATENCY_RUNS = 40
DIRECTOR_PROMPTS = 64
DIRECTOR_BATCH = 4


def scripted_trajectory() -> tuple[list[list[str]], np.ndarray]:
    """Prompts `[N][B]` and actions `[N, B, 2]` with a switch, a turn and a change of speed."""
    before = ["drive through the forest at day with clear sky", "rain night city"]
    after = ["drive through the coast at night with rain", "dusk in the desert , clear"]
    prompts = [before if i < 6 else after for i in range(TRAJECTORY_CHUNKS)]
    actions = np.tile(np.array([1, 2]), (TRAJECTORY_CHUNKS, TRAJECTORY_BATCH, 1)).astype(np.int64)
    actions[3:, 0] = (0, 3)
    actions[8:, 1] = (2, 1)
    return prompts, actions


def trajectory_noise(batch: int = TRAJECTORY_BATCH, seed: int = 7) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    while True:
        yield rng.standard_normal((batch, NUM_TOKENS, TOKEN_DIM), np.float32)


def _check(name: str, difference: float, tolerance: float, **extra: object) -> dict:
    return {"check": name, "max_difference": float(difference), "tolerance": tolerance, "passed": bool(difference <= tolerance), **extra}


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max())


def check_component(name: str, graph: Graph, graphs: DriveGraphs) -> dict:
    """C0 for batches of 1, 2 and 5 on fresh inputs."""
    worst: dict[str, float] = {}
    for batch in (1, 2, 5):
        if name in ("text_encoder", "director_prefill", "director_logprob"):
            repeat = [value.repeat(3, *[1] * (value.dim() - 1))[:batch] for value in graph.example]
            inputs = dict(zip(graph.inputs, repeat))
        else:
            inputs = dict(zip(graph.inputs, example_inputs(graph.inputs, batch, seed=100 + batch)))
        ours = graphs.run(name, **{key: value.numpy() for key, value in inputs.items()})
        with torch.no_grad():
            theirs = graph.module(*inputs.values())
        theirs = theirs if isinstance(theirs, tuple) else (theirs,)
        for output, a, b in zip(graph.outputs, ours, theirs, strict=True):
            worst[output] = max(worst.get(output, 0.0), _difference(a, b.numpy()) / TOLERANCE[str(a.dtype)])
    share = max(worst.values())
    kinds = {output: str(value.dtype) for output, value in zip(graph.outputs, ours)}
    return _check(
        f"C0 {name}", share, 1.0, unit="share of the tolerance of the output's dtype",
        outputs={output: {"max_difference": worst[output] * TOLERANCE[kinds[output]], "tolerance": TOLERANCE[kinds[output]]} for output in graph.outputs},
    )


def check_mapping(model: DriveModel, source: SourceReference) -> dict:
    """The loaded weights against the source's own code: needs no graphs, so a conversion runs it first.

    Raises ValueError when the stored source trajectory belongs to another checkpoint: such a conversion can't be proven.
    """
    if source.source_sha256 != model.transformer_sha256:
        raise ValueError(f"the stored source trajectory is of checkpoint {source.source_sha256}, not {model.transformer_sha256}")
    trajectory = reference_roll_out(model.transformer, *scripted_trajectory(), trajectory_noise())
    return _check("C1 PyTorch trajectory against the source's own code", source.difference(trajectory), TRAJECTORY_TOLERANCE)


def check_trajectory(model: DriveModel, graphs: DriveGraphs, source: SourceReference) -> list[dict]:
    """C1: latents of a 12-chunk, 2-step roll-out with the same noise against PyTorch and against the source's own code; the last chunk's pixels."""
    prompts, actions = scripted_trajectory()
    ours = roll_out(graphs, prompts, actions, trajectory_noise())
    theirs = reference_roll_out(model.transformer, prompts, actions, trajectory_noise())
    pixels = _difference(decode(graphs, ours[-1]), decode(graphs, theirs[-1]))
    return [
        _check("C1 trajectory latents", _difference(ours, theirs), TRAJECTORY_TOLERANCE, chunks=TRAJECTORY_CHUNKS, steps=2, latent_std=float(theirs.std())),
        _check("C1 trajectory latents against the source's own code", source.difference(ours), TRAJECTORY_TOLERANCE),
        _check("C1 trajectory pixels of the last chunk", pixels, 2),
    ]


def director_prompts(count: int, seed: int = 3) -> list[list[int]]:
    """Ids of `<bos> state <sep> edit <eos>` for seeded states and edits of one or two attributes; the first is as long as any can be."""
    rng = np.random.default_rng(seed)
    texts = [("snowy mountains day clear sky", EDIT_TEMPLATES_TWO[0].format(a="early morning", b="pine forest"))]
    for _ in range(count - 1):
        state = canonical_phrases((int(rng.integers(5)), int(rng.integers(4)), int(rng.integers(4))))
        phrases = [str(rng.choice([p for values in PHRASES[name] for p in values])) for name in rng.permutation(ATTRIBUTES)[:2]]
        edit = EDIT_TEMPLATES_ONE[0].format(a=phrases[0]) if rng.random() < 0.5 else EDIT_TEMPLATES_TWO[0].format(a=phrases[0], b=phrases[1])
        texts.append((" ".join(state.values()), edit))
    return [[BOS, *(WORD_IDS[w] for w in state.split()), SEP, *(WORD_IDS[w] for w in edit.split()), EOS] for state, edit in texts]


def check_director(model: DriveModel, graphs: DriveGraphs) -> list[dict]:
    """C1: one pass over a prompt and then one per word, up to the whole context and in batches of prompts of different lengths, against all words
    computed anew: logits, and how many of the words chosen differ."""
    prompts, worst, others, words = director_prompts(DIRECTOR_PROMPTS), 0.0, 0, 0
    for first in range(0, len(prompts), DIRECTOR_BATCH):
        batch = prompts[first : first + DIRECTOR_BATCH]
        ids = np.array([prompt + [PAD] * (DIRECTOR_WORDS - len(prompt)) for prompt in batch], np.int64)
        at = np.array([[len(prompt) - 1] for prompt in batch], np.int64)
        logits, kv = graphs.run("director_prefill", ids=ids[:, :DIRECTOR_PROMPT_WORDS], position=at)
        while True:
            with torch.no_grad():
                anew = model.transformer.word_logits(torch.from_numpy(ids), torch.from_numpy(at)).numpy()
            worst = max(worst, _difference(logits, anew))
            word = logits.argmax(1)[:, None]
            others, words = others + int((word[:, 0] != anew.argmax(1)).sum()), words + len(batch)
            at = at + 1
            if at.max() == DIRECTOR_WORDS:
                break
            np.put_along_axis(ids, at, word, 1)
            logits, kv = graphs.run("director_step", word=word, position=at, kv=kv)
    return [
        _check("C1 director's logits, kept words against all computed anew", worst, TOLERANCE["float32"], prompts=len(prompts), words=words),
        _check("C1 director's words that differ from those of all computed anew", others, 0, prompts=len(prompts), words=words),
    ]


def check_picture_encoder(model: DriveModel, graphs: DriveGraphs) -> dict:
    """C0: a start chunk of 8-bit encoder weights against the float32 encoder's latents of the same rendered pictures."""
    rng = np.random.default_rng(11)
    pictures = np.stack([random_picture(rng, bank_attributes(index)) for index in range(0, BANK_SIZE, 10)])
    ours = graphs.run("vae_encode", rgb=pictures)[0][:, :NUM_PICTURE_TOKENS]
    theirs = patchify(torch.stack([encode_picture(model, pictures)] * FRAMES_PER_CHUNK, 1)).numpy()
    return _check("C0 vae_encode against the float32 encoder", _difference(ours, theirs), ENCODER_TOLERANCE)


def check_log_probabilities(model: DriveModel, graphs: DriveGraphs) -> dict:
    """C2: of sampled words, by the graph, against logits that are computed anew for every word. Batch membership is a server's matter and tested there."""
    prompts, worst, count = director_prompts(DIRECTOR_PROMPTS, seed=4), 0.0, 0
    rng = np.random.default_rng(12)
    for first in range(0, len(prompts), DIRECTOR_BATCH):
        batch = prompts[first : first + DIRECTOR_BATCH]
        ids = np.array([prompt + rng.integers(3, len(WORDS), DIRECTOR_WORDS - len(prompt)).tolist() for prompt in batch], np.int64)
        ours = graphs.run("director_logprob", ids=ids)[0]
        for at in range(min(map(len, batch)) - 1, DIRECTOR_WORDS - 1, 4):
            with torch.no_grad():
                logits = model.transformer.word_logits(torch.from_numpy(ids), torch.full((len(batch), 1), at))
            theirs = torch.log_softmax(logits, -1).gather(1, torch.from_numpy(ids[:, at + 1 : at + 2])).numpy()[:, 0]
            worst, count = max(worst, _difference(ours[:, at], theirs)), count + len(batch)
    return _check("C2 log-probabilities of sampled words against those computed anew", worst, TOLERANCE["float32"], words=count)


def parity_levels(checks: list[dict]) -> dict[str, dict]:
    """Status of each level, and the check of it that came nearest to its tolerance."""
    levels: dict[str, dict] = {}
    for level in sorted({check["check"].split()[0] for check in checks}):
        own = [check for check in checks if check["check"].split()[0] == level]
        nearest = max(own, key=lambda c: c["max_difference"] / c["tolerance"] if c["tolerance"] else float(c["max_difference"] > 0))
        levels[level] = {
            "status": "passed" if all(check["passed"] for check in own) else "failed", "checks": len(own),
            "worst": {key: nearest[key] for key in ("check", "max_difference", "tolerance")},
        }
    return levels


def check_all(model: DriveModel, built: dict[str, Graph], weights: Path, source: SourceReference) -> list[dict]:
    graphs = DriveGraphs(weights)
    return [
        *(check_component(name, graph, graphs) for name, graph in built.items()), *check_director(model, graphs), *check_trajectory(model, graphs, source),
        check_picture_encoder(model, graphs), check_log_probabilities(model, graphs), *check_renders(graphs),
    ]


def measure_latency(built: dict[str, Graph], weights: Path) -> dict[str, dict[str, float]]:
    """Milliseconds per call, batch of 1, one thread: median, and the fastest call (what the core does undisturbed)."""
    graphs, result = DriveGraphs(weights), {}
    for name, graph in built.items():
        inputs = {key: value.numpy()[:1] for key, value in zip(graph.inputs, graph.example)}
        times = []
        for _ in range(LATENCY_RUNS):
            start = time.perf_counter()
            graphs.run(name, **inputs)
            times.append(time.perf_counter() - start)
        result[name] = {"p50": round(float(np.median(times)) * 1e3, 3), "fastest": round(min(times) * 1e3, 3)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=Path("models/drive/weights"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = load_drive(args.source)
    source = SourceReference.of(args.source)
    checks = [check_mapping(model, source)]
    checks += check_all(model, build_graphs(model, render_start_chunks(model)), args.weights, source)
    for check in checks:
        print(f"{'pass' if check['passed'] else 'FAIL'}  {check['check']}: {check['max_difference']:.3g} (tolerance {check['tolerance']:g})")
    sys.exit(0 if all(check["passed"] for check in checks) else 1)


if __name__ == "__main__":
    main()
