"""Third stage: a LoRA adapter per style, base frozen.
`python -m segue_drive.training.adapter_stage --source DIR --run DIR --out models/drive/adapters [--styles noir synthwave] [--adapters models/drive/adapters]`

The same mix of serving and denoising as the transformer's stage, on clips in the style. A switch happens amid chunks without it, so context is drawn
three ways: all styled, none, or styled from some chunk on; targets are always styled. What was written without the adapter is written without it here.
Each style resumes by itself; its file is written when its plan is done. `--adapters` starts from earlier files, also of another base: a few steps then suffice.
Afterwards `python -m segue_drive.convert` (another base) or `python -m segue_drive.install_adapters` (the same one) proves and lists the files.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..adapters import Adapter
from ..checkpoint import sha256_of, source_path
from ..geometry import NUM_PICTURE_TOKENS
from ..world.styles import STYLES, TITLES
from .adapted_linear import AdaptedLayers, tensors_of
from .autoencoder_stage import add_arguments
from .checkpoints import Stateful, StopRequest
from .clip_batch import CROP_CHUNKS, ClipBatch, draw_batch
from .clip_pool import ClipPool
from .idle_threads import IdleThreads
from .plan_overrides import add_override_argument, overridden
from .styled_clip_pool import StyledClipPool, with_context
from .transformer_stage import NUM_SAMPLES, ServingPass, TransformerPlan, TransformerStage, motion, rate_at


@dataclass(frozen=True)
class AdapterPlan(TransformerPlan):
    """`rate` drives the two factors; the rates of the base and the director's numbers have no use here."""

    steps: int = 300
    batch: int = 3
    warmup: int = 10
    decay_from: float = 0.5
    average: float = 0.97
    rank: int = 6  # two styles of this rank and the base are below 30 MB
    alpha: float = 6.0
    rate: float = 2e-3
    plain_context_share: float = 0.35  # of the clips: no context is styled, each chunk is the first of a switch
    switch_context_share: float = 0.3  # of the clips: styled from some chunk on
    plain_adapted_share: float = 0.2  # of the clips with context that isn't styled: it was written with the adapter all the same, as a start picture is
    dispersion: float = 0.75
    pool_first: int = 40
    pool_capacity: int = 200
    clips_per_step: float = 0.25
    validation_clips: int = 6
    measure_every: int = 50
    save_every: int = 25


class AdapterStage(TransformerStage):
    name = "adapter"
    plan: AdapterPlan
    pool: StyledClipPool

    def __init__(self, style: str, run: Path, source: Path, plan: AdapterPlan, seed: int, device: torch.device, workers: int = 0) -> None:
        self.style, self.base = style, sha256_of(source_path(source, "transformer"))
        super().__init__(run, source, plan, seed, device, workers)

    def open_pool(self, folder: Path, capacity: int, seed: int, workers: int = 0) -> ClipPool:
        return StyledClipPool(folder, capacity, seed, self.encoder, self.held_out, workers, STYLES[self.style])

    def prepare_learning(self) -> dict[str, Stateful]:
        self.layers = AdaptedLayers(self.net, self.plan.rank, self.plan.alpha)
        self.net.to(self.device)
        self.learnt = self.layers
        self.adam = torch.optim.AdamW(self.layers.parameters(), lr=self.plan.rate, betas=(0.9, 0.97), weight_decay=0.0)
        return {"layers": self.layers, "adam": self.adam, "base": _SameBase(self.base)}

    def serving_pass(self, batch: ClipBatch) -> ServingPass:
        return self._pass_with(batch, self._draw_styled(len(batch.truth)), self.rng.random(len(batch.truth)) < self.plan.plain_adapted_share)

    def _draw_styled(self, clips: int) -> np.ndarray:
        """`[B, N]`: which chunks of the context are in the style."""
        kind, plan = self.rng.random(clips), self.plan
        first = np.where(kind < plan.plain_context_share, CROP_CHUNKS, 0)
        switched = (kind >= plan.plain_context_share) & (kind < plan.plain_context_share + plan.switch_context_share)
        first = np.where(switched, self.rng.integers(1, CROP_CHUNKS, clips), first)
        return np.arange(CROP_CHUNKS) >= first[:, None]

    def _pass_with(self, batch: ClipBatch, styled: np.ndarray, all_adapted: np.ndarray, pool: StyledClipPool | None = None) -> ServingPass:
        seen = torch.from_numpy(styled)
        changed = with_context(batch, (pool or self.pool).plain_of(batch), seen)
        batch.context, batch.depth = changed.context, changed.depth
        adapted = (seen | torch.from_numpy(all_adapted)[:, None]).float().to(self.device)
        self.layers.set_scale(adapted[..., None, None])
        run = ServingPass(self.net, batch, self.device)
        self.layers.set_scale(1.0)
        return run

    def train_step(self, step: int) -> dict[str, float]:
        plan = self.plan
        with self.precision():
            loss, facts = self.loss(draw_batch(self.pool, plan.batch, plan.own_share, plan.most_depth, self.rng))
        for group in self.adam.param_groups:
            group["lr"] = plan.rate * rate_at(step, plan)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.layers.parameters(), 1.0)
        self.adam.step()
        self.average.update(self.layers)
        return facts

    @torch.no_grad()
    def measure(self, validation: ClipPool) -> dict[str, float]:
        """Squared errors of served chunks against the styled truth: in the chunk of a switch, and amid styled chunks."""
        assert isinstance(validation, StyledClipPool)
        state = torch.get_rng_state()
        torch.manual_seed(7)
        facts = {}
        count = len(validation)
        for name, share in (("switch", 0.0), ("styled", 1.0)):
            batch = draw_batch(validation, count, 0.0, 0, np.random.default_rng(7), np.arange(count))
            run = self._pass_with(batch, np.full((count, CROP_CHUNKS), share > 0), np.zeros(count, bool), validation)
            served, truth = run.two_steps(NUM_SAMPLES, None), batch.truth.to(self.device)
            error = (served[0] - truth)[:, 1:]
            facts[f"val_error_{name}"] = error[:, :, :NUM_PICTURE_TOKENS].square().mean().item()
            facts[f"val_error_{name}_sound"] = error[:, :, NUM_PICTURE_TOKENS:].square().mean().item()
            facts[f"val_motion_{name}"] = (motion(served[0]) / motion(truth)).item()
        torch.set_rng_state(state)
        return facts

    def start_from(self, adapter: Adapter) -> None:
        self.layers.start_from(adapter)
        self.average.restart(self.layers)

    def save(self, step: int) -> None:
        super().save(step)
        self.adapter().write(self.run / f"{self.style}.safetensors")  # to look at while training goes on

    def adapter(self) -> Adapter:
        """The running average."""
        return Adapter(self.style, TITLES[self.style], self.plan.rank, self.plan.alpha, self.base, tensors_of(self.average.values))


class _SameBase:
    """In the checkpoint, so that a run isn't resumed on other weights."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256

    def state_dict(self) -> dict[str, str]:
        return {"sha256": self._sha256}

    def load_state_dict(self, state: dict[str, str]) -> None:
        if state["sha256"] != self._sha256:
            raise ValueError(f"this run is of base {state['sha256']}, --source has {self._sha256}: take another --run, and --adapters to start from what it has learnt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--styles", nargs="+", choices=list(STYLES), default=list(STYLES))
    parser.add_argument("--adapters", type=Path, help="folder of earlier adapters to start from")
    parser.add_argument("--out", type=Path, required=True, help="folder for the finished files")
    add_override_argument(parser)
    args = parser.parse_args()
    if args.source is None:
        parser.error("--source: an adapter needs a base")
    threads, stop = IdleThreads(args.threads), StopRequest()
    plan = overridden(AdapterPlan(), args.overrides)
    for style in args.styles:
        run = args.run / f"{style}-{sha256_of(source_path(args.source, 'transformer'))[:8]}"  # another base is another run
        stage = AdapterStage(style, run, args.source, plan, args.seed, torch.device(args.device), args.render_workers)
        earlier = args.adapters / f"{style}.safetensors" if args.adapters else None
        if earlier is not None and earlier.exists() and not stage.checkpoint.path.exists():
            stage.start_from(Adapter.read(earlier, None))
        step = stage.train(threads, stop)
        print(f"{style}: ended at step {step}")
        if stop.asked:
            return
        stage.adapter().write(args.out / f"{style}.safetensors")


if __name__ == "__main__":
    main()
