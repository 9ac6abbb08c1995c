"""The decoder alone, for encoded pictures and for what a server gives it. `python -m segue_drive.training.decoder_stage --source DIR --run DIR`

The encoder stays, so latents keep their meaning and the transformer is not touched. One part of a batch are encoded pictures, judged by PSNR. The other are
chunks that the graphs of `--model` made, some with an adapter (`served_chunks`), which no true picture belongs to exactly: their coarse picture stays what the decoder of before
shows, and how much neighbouring pixels differ in each small cell is brought to what true frames of the same moment hold there. In squared error that is the
amount to be expected from the latents, so plain skies stay plain; finer differences must not outgrow coarser ones (`weave`), or it is met by a grid. A patch
judge adds little. Resumes from `RUN/autoencoder.ckpt`.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from .. import key_mapping
from ..checkpoint import read_source
from ..key_mapping import load_strictly
from ..vae import PictureAutoencoder
from .autoencoder_stage import add_arguments, measure
from .checkpoints import Checkpoint, StopRequest, WeightAverage
from .curves import CurveLog, draw, read
from .discriminator import PatchDiscriminator, decoder_adversarial_loss, discriminator_loss, freeze
from .frames import as_tensor, measured_frames
from .held_out import HeldOut
from .idle_threads import IdleThreads
from .plan_overrides import add_override_argument, overridden
from .served_pool import GROUP_FRAMES, ServedPool
from .sharpness import gradient_amount, gradient_power, lag_difference, local_gradient

MEASURED_FRAMES = 80
VALIDATION_GROUPS = 6
VALIDATION_SEED = 1_000_003  # added to the run's seed
DEEP = 8  # own chunks behind a roll-out's frames that are measured
LAGS = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2), (2, 0), (0, 4), (4, 0))  # pixels; a grid differs at some and not at others, as no true picture does
CELLS = (8, 16)  # pixels
COARSE = 8  # pixels of a cell of the coarse picture; at 4 only finer detail would be free, and the decoder wove it
SHEET_COLUMNS = 8


@dataclass(frozen=True)
class DecoderPlan:
    steps: int = 7800
    encoded: int = 7  # encoded pictures in a batch
    served: int = 5  # and pictures of served chunks
    encoded_styled: int = 1  # of the encoded ones, in an adapter's style
    bfloat16: int = 1  # all but the last layer
    rate: float = 6e-4
    warmup: int = 50
    decay_from: float = 0.3  # share of the steps after which the rate falls to nothing
    average: float = 0.998
    fidelity: float = 3.0  # of the logarithm of each picture's squared error
    absolute: float = 4.0  # keeps plain areas plain, where a squared error leaves speckles
    served_cells: float = 1.5
    weave: float = 2.5
    coarse: float = 10.0
    aligned: float = 10.0  # absolute error of served chunks that lie on the true frames
    adversarial: float = 0.15
    judge_from: int = 150  # steps that the judge learns before it counts
    judge_rate: float = 3e-3
    pool_groups: int = 192
    pool_first: int = 24
    plain_groups: int = 72  # before any in a style
    steps_per_group: int = 48
    measure_every: int = 250
    save_every: int = 100


def cell_errors(decoded: Tensor, truth: Tensor) -> Tensor:
    """Squared error of each cell's variogram, relative to its mean over a batch: how much pixels differ at each of LAGS, in cells of two sizes."""
    errors = []
    for down, across in LAGS:
        ours, true = (lag_difference(picture, down, across) for picture in (decoded, truth))
        for cell in CELLS:
            held, wanted = (F.avg_pool2d(difference, cell) for difference in (ours, true))
            errors.append((held - wanted).square().mean() / wanted.mean().square().clamp_min(1e-6))
    return torch.stack(errors).mean()


def weave(decoded: Tensor, truth: Tensor) -> Tensor:
    """How much more of the truth's difference of neighbours a cell holds than of that over four pixels: a grid has the one without the other."""
    total = decoded.new_zeros(())
    for near, far in (((0, 1), (0, 4)), ((1, 0), (4, 0)), ((0, 2), (0, 4)), ((2, 0), (4, 0))):
        amounts = [F.avg_pool2d(lag_difference(picture, *lag), CELLS[1]) for picture in (decoded, truth) for lag in (near, far)]
        rows, columns = (min(amount.shape[axis] for amount in amounts) for axis in (-2, -1))
        ours_near, ours_far, true_near, true_far = (amount[..., :rows, :columns] for amount in amounts)
        total = total + F.relu(ours_near * true_far - ours_far * true_near).mean() / (true_near * true_far).mean().clamp_min(1e-6)
    return total / 4


def plain_levels(ours: Tensor, truth: Tensor) -> float:
    """Grey levels by which neighbours differ where the truth is plain: a grid shows here first."""
    plain = local_gradient(truth, CELLS[0]) < 0.5 / 127.5
    return 127.5 * local_gradient(ours, CELLS[0])[plain].mean().item()


def log_error(decoded: Tensor, truth: Tensor) -> Tensor:
    """Mean natural logarithm of each picture's squared error: PSNR up to a factor and a constant."""
    return ((decoded - truth).square().mean((1, 2, 3)) + 1e-5).log().mean()


def rate_at(step: int, plan: DecoderPlan) -> float:
    """Share of the full rate."""
    falling = (plan.steps - step) / max(1.0, plan.steps * (1 - plan.decay_from))
    return min((step + 1) / plan.warmup, 1.0, max(0.0, falling))


class Validation:
    """Deep roll-outs and chunks after true context, of clips that training never sees; and held-out renders."""

    def __init__(self, pool: ServedPool, teacher: torch.nn.Module) -> None:
        while pool.made < VALIDATION_GROUPS:
            pool.add()
        pool.close()
        self.renders, _ = measured_frames(MEASURED_FRAMES)
        depth, level = pool.arrays["depth"][: len(pool)], pool.arrays["level"][: len(pool)]
        deep = np.flatnonzero((depth >= DEEP) & (level == 1))[::3]
        self.latents, self.truth = torch.from_numpy(pool.arrays["served"][deep]).float(), as_tensor(pool.arrays["frames"][deep])
        self.before = decode(teacher, self.latents)

    def measure(self, autoencoder: PictureAutoencoder) -> dict[str, float]:
        ours = decode(autoencoder.decoder, self.latents)
        return {
            **measure(autoencoder, self.renders),
            "plain": plain_levels(decode(autoencoder.decoder, autoencoder.encoder(self.renders).detach()), self.renders),
            "served_gradient": (gradient_amount(ours).mean() / gradient_amount(self.truth).mean()).item(),
            "served_gradient_power": (gradient_power(ours).mean() / gradient_power(self.truth).mean()).item(),
        }

    def sheet(self, autoencoder: PictureAutoencoder, path: Path) -> None:
        """Held-out renders above their reconstructions, then roll-outs by the decoder of before above the same by this one."""
        pick = np.linspace(0, len(self.latents) - 1, 2 * SHEET_COLUMNS).astype(int)
        renders, ours = self.renders[: 2 * SHEET_COLUMNS], decode(autoencoder.decoder, self.latents[pick])
        again = decode(autoencoder.decoder, autoencoder.encoder(renders).detach())
        rows = []
        for above, below in ((renders, again), (self.before[pick], ours)):
            for first in range(0, 2 * SHEET_COLUMNS, SHEET_COLUMNS):
                rows += [torch.cat(list(pictures[first : first + SHEET_COLUMNS]), 2) for pictures in (above, below)]
        Image.fromarray(((torch.cat(rows, 1).permute(1, 2, 0) + 1) * 127.5).round().byte().numpy()).save(path)


@torch.no_grad()
def decode(decoder: torch.nn.Module, latents: Tensor) -> Tensor:
    return torch.cat([decoder(part).clamp(-1, 1) for part in latents.split(16)])


class DecoderStage:
    def __init__(self, run: Path, source: Path, model: Path, plan: DecoderPlan, seed: int, device: torch.device, workers: int) -> None:
        self.plan, self.run, self.device = plan, run, device
        self.rng = np.random.default_rng((seed, 5))
        torch.manual_seed(seed)
        self.held_out = HeldOut.open()
        self.autoencoder = PictureAutoencoder()
        load_strictly(self.autoencoder, read_source(source, "autoencoder"), key_mapping.AUTOENCODER)
        freeze(self.autoencoder, True)
        self.teacher = copy.deepcopy(self.autoencoder.decoder).to(device)
        pool = ServedPool(run / "validation", VALIDATION_GROUPS, model, source, seed + VALIDATION_SEED, workers, plan.plain_groups)
        self.validation = Validation(pool, self.autoencoder.decoder)
        freeze(self.autoencoder.decoder, False)
        self.autoencoder.to(device)
        self.judge = PatchDiscriminator().to(device)
        self.optimiser = torch.optim.AdamW(self.autoencoder.decoder.parameters(), lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.judge_optimiser = torch.optim.AdamW(self.judge.parameters(), lr=plan.judge_rate, betas=(0.5, 0.95), weight_decay=0.0)
        self.average = WeightAverage(self.autoencoder, plan.average)
        self.pool = ServedPool(run / "pool", plan.pool_groups, model, source, seed, workers, plan.plain_groups)
        parts = {"autoencoder": self.autoencoder, "judge": self.judge, "optimiser": self.optimiser, "judge_optimiser": self.judge_optimiser}
        self.checkpoint = Checkpoint(run / "autoencoder.ckpt", {**parts, "average": self.average, "pool": self.pool}, self.rng)

    def _encoded_rows(self) -> np.ndarray:
        styled = self.pool.arrays["styled"][: len(self.pool)]
        count = min(self.plan.encoded_styled, int(styled.sum()))
        rows = [self.rng.choice(np.flatnonzero(kind), size) for kind, size in ((styled, count), (~styled, self.plan.encoded - count)) if size]
        return np.sort(np.concatenate(rows))

    def _decoded(self, latents: Tensor) -> Tensor:
        """The last layer in float32: bfloat16 rounds pixels to half a grey level, so speckles below that would go unseen."""
        decoder = self.autoencoder.decoder
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.bfloat16 > 0):
            features = decoder.features(latents)
        return decoder.pixels(features.float())

    def train_step(self, step: int) -> dict[str, float]:
        plan = self.plan
        frames, encoded = self.pool.rows(("frames", "encoded"), self._encoded_rows())
        rows = np.sort(self.rng.integers(0, len(self.pool), plan.served))
        true_frames, served, depth, level = self.pool.rows(("frames", "served", "depth", "level"), rows)
        truth, moment = as_tensor(frames).to(self.device), as_tensor(true_frames).to(self.device)
        latents = torch.from_numpy(np.concatenate([encoded, served])).float().to(self.device)
        decoded, shown = self._decoded(latents).split((plan.encoded, plan.served))
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16):
            before = self.teacher(latents[plan.encoded :]).float()
        aligned = torch.from_numpy(((depth == 0) | (level < 0.8)).astype(np.float32)).view(-1, 1, 1, 1).to(self.device)
        fidelity, absolute, served_cells = log_error(decoded, truth), (decoded - truth).abs().mean(), cell_errors(shown, moment)
        coarse = (F.avg_pool2d(shown, COARSE) - F.avg_pool2d(before, COARSE)).abs().mean()
        on_truth = (aligned * (shown - moment).abs()).mean()
        loss = plan.fidelity * fidelity + plan.absolute * absolute + plan.served_cells * served_cells + plan.coarse * coarse + plan.aligned * on_truth
        woven = weave(shown, moment)
        loss = loss + plan.weave * woven
        facts = {"weave": woven, "log_error": fidelity, "absolute": absolute, "served_cells": served_cells, "coarse": coarse, "on_truth": on_truth}
        if plan.adversarial > 0 and step >= plan.judge_from:
            freeze(self.judge, True)
            facts["fooled"] = decoder_adversarial_loss(self.judge, shown)
            loss = loss + plan.adversarial * facts["fooled"]
        for group in self.optimiser.param_groups:
            group["lr"] = plan.rate * rate_at(step, plan)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.autoencoder.decoder.parameters(), 1.0)
        self.optimiser.step()
        self.average.update(self.autoencoder)
        if plan.adversarial > 0:
            facts["judge"] = self._judge_step(moment, shown, step)
        return {name: value.item() for name, value in facts.items()}

    def _judge_step(self, moment: Tensor, shown: Tensor, step: int) -> Tensor:
        freeze(self.judge, False)
        for group in self.judge_optimiser.param_groups:
            group["lr"] = self.plan.judge_rate * rate_at(step, self.plan)
        self.judge_optimiser.zero_grad(set_to_none=True)
        loss = discriminator_loss(self.judge, moment, shown)
        loss.backward()
        self.judge_optimiser.step()
        return loss

    def train(self, threads: IdleThreads, stop: StopRequest) -> int:
        """Runs to the end of the plan or to a request to stop; the steps done."""
        log = CurveLog(self.run / "decoder.jsonl")
        step = self.checkpoint.resume()
        sums: dict[str, list[float]] = {}
        while step < self.plan.steps and not stop.asked:
            threads.adapt()
            while self.pool.made < self.plan.pool_first + step // self.plan.steps_per_group and not stop.asked:
                self.pool.add()
            for name, value in self.train_step(step).items():
                sums.setdefault(name, []).append(value)
            step += 1
            if step % self.plan.save_every == 0:
                self.save(step)
            if step % self.plan.measure_every == 0:
                log.write(step, pool=len(self.pool) // GROUP_FRAMES, **{name: float(np.mean(values)) for name, values in sums.items()}, **self.measure())
                sums.clear()
        self.save(step)
        self.pool.close()
        log.close()
        if step > self.plan.measure_every:
            draw(read(self.run / "decoder.jsonl"), self.run / "decoder_curves.png")
        return step

    def measure(self) -> dict[str, float]:
        self.average.swap(self.autoencoder)
        self.autoencoder.cpu()
        figures = self.validation.measure(self.autoencoder)
        self.validation.sheet(self.autoencoder, self.run / "decoder.png")
        self.autoencoder.to(self.device)
        self.average.swap(self.autoencoder)
        return figures

    def save(self, step: int) -> None:
        self.checkpoint.save(step, {"plan": asdict(self.plan), "held_out": self.held_out.sha256, "keep_encoder": True})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--model", type=Path, default=Path("models/drive"), help="converted model whose chunks are decoded")
    add_override_argument(parser)
    args = parser.parse_args()
    if args.source is None:
        parser.error("--source is needed: there is no decoder to go on from")
    threads, stop = IdleThreads(args.threads), StopRequest()
    plan = overridden(DecoderPlan(), args.overrides)
    stage = DecoderStage(args.run, args.source, args.model, plan, args.seed, torch.device(args.device), args.render_workers)
    print(f"ended at step {stage.train(threads, stop)}")


if __name__ == "__main__":
    main()
