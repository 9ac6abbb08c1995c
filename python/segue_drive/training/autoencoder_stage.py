"""First stage: the picture autoencoder. `python -m segue_drive.training.autoencoder_stage --source DIR --run DIR`

With `--source` the decoder is fine-tuned and the encoder stays as it is, so latents keep the meaning that a trained transformer knows.
Without it, both are trained from nothing. Resumes from `RUN/autoencoder.ckpt`; SIGTERM ends it with a checkpoint.
"""

from __future__ import annotations

import argparse
import functools
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
from .checkpoints import Checkpoint, StopRequest, WeightAverage
from .curves import CurveLog, draw, read
from .discriminator import PatchDiscriminator, decoder_adversarial_loss, discriminator_loss, freeze
from .frames import as_tensor, measured_frames, training_batch
from .held_out import HeldOut
from .idle_threads import IdleThreads
from .plan_overrides import add_override_argument, overridden
from .render_ahead import RenderAhead
from .sharpness import gradient_amount, gradient_power, gradients, local_gradient, psnr

MEASURED_FRAMES = 80
MEASURE_EVERY = 200  # steps
SAVE_EVERY = 100


@dataclass(frozen=True)
class AutoencoderPlan:
    """Weights are relative to the mean absolute error.

    The judge is off: in 500 steps at .05 it raised the gradient from .83 to .92 of the renderer's, but by a grid of four pixels in plain skies.
    """

    steps: int = 3000
    batch: int = 8
    rate: float = 8e-4
    warmup: int = 50
    decay_from: float = 0.6  # share of the steps after which the rate falls to nothing
    average: float = 0.99
    latent_noise: float = 0.15  # largest; a server's latents are predictions, not encodings
    squared: float = 2.0
    edges: float = 0.5
    coarse_edges: float = 0.25
    local_edges: float = 0.5  # how much edge, where: keeps texture whose exact place no latent can hold
    adversarial: float = 0.0
    adversarial_from: float = 0.25  # share of the steps after which the judge counts
    judge_alone: int = 100  # steps that the judge learns before
    judge_rate: float = 2e-3
    latent_size: float = 2e-3  # only while the encoder learns


def picture_loss(decoded: Tensor, truth: Tensor, plan: AutoencoderPlan) -> tuple[Tensor, dict[str, float]]:
    difference = decoded - truth
    absolute = difference.abs().mean()
    edges = sum(g.abs().mean() for g in gradients(difference))
    coarse = sum(g.abs().mean() for g in gradients(F.avg_pool2d(difference, 2)))
    local = sum((local_gradient(decoded, cell) - local_gradient(truth, cell)).abs().mean() for cell in (4, 8))
    loss = absolute + plan.squared * difference.square().mean() + plan.edges * edges + plan.coarse_edges * coarse + plan.local_edges * local
    return loss, {"absolute": absolute.item(), "edges": edges.item(), "local_edges": local.item()}


def rate_at(step: int, plan: AutoencoderPlan) -> float:
    """Share of the full rate."""
    falling = (plan.steps - step) / max(1.0, plan.steps * (1 - plan.decay_from))
    return min((step + 1) / plan.warmup, 1.0, max(0.0, falling))


@torch.no_grad()
def reconstruct(autoencoder: PictureAutoencoder, frames: Tensor) -> Tensor:
    return torch.cat([autoencoder.decoder(autoencoder.encoder(part)).clamp(-1, 1) for part in frames.split(16)])


def measure(autoencoder: PictureAutoencoder, frames: Tensor) -> dict[str, float]:
    """On held-out renders: mean PSNR, and the gradient's amount and power as shares of the render's."""
    ours = reconstruct(autoencoder, frames)
    return {
        "psnr": psnr(ours, frames).mean().item(),
        "gradient_amount": (gradient_amount(ours).mean() / gradient_amount(frames).mean()).item(),
        "gradient_power": (gradient_power(ours).mean() / gradient_power(frames).mean()).item(),
    }


def contact_sheet(autoencoder: PictureAutoencoder, frames: Tensor, path: Path, columns: int = 8) -> None:
    """Renders above their reconstructions."""
    ours = reconstruct(autoencoder, frames)
    pixels = [((t.permute(0, 2, 3, 1) + 1) * 127.5).round().byte().numpy() for t in (frames, ours)]
    rows = []
    for first in range(0, len(frames) - columns + 1, columns):
        rows += [np.concatenate(list(p[first : first + columns]), 1) for p in pixels]
    Image.fromarray(np.concatenate(rows)).save(path, optimize=True)


class AutoencoderStage:
    def __init__(self, run: Path, source: Path | None, plan: AutoencoderPlan, seed: int, device: torch.device, keep_encoder: bool) -> None:
        self.plan, self.run, self.device = plan, run, device
        self.rng, self.seed = np.random.default_rng((seed, 1)), seed
        torch.manual_seed(seed)
        self.held_out = HeldOut.open()
        self.autoencoder = PictureAutoencoder()
        if source is not None:
            load_strictly(self.autoencoder, read_source(source, "autoencoder"), key_mapping.AUTOENCODER)
        self.autoencoder.to(device)
        self.keep_encoder = keep_encoder
        freeze(self.autoencoder.encoder, keep_encoder)
        self.judge = PatchDiscriminator().to(device)
        trained = [p for p in self.autoencoder.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(trained, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.judge_optimiser = torch.optim.AdamW(self.judge.parameters(), lr=plan.judge_rate, betas=(0.5, 0.95), weight_decay=0.0)
        self.average = WeightAverage(self.autoencoder, plan.average)
        self.checkpoint = Checkpoint(
            run / "autoencoder.ckpt",
            {"autoencoder": self.autoencoder, "judge": self.judge, "optimiser": self.optimiser, "judge_optimiser": self.judge_optimiser, "average": self.average},
            self.rng,
        )

    def batches(self, first: int, workers: int) -> RenderAhead[np.ndarray]:
        return RenderAhead(functools.partial(training_batch, seed=self.seed, held_out=self.held_out, count=self.plan.batch), first, workers)

    def train_step(self, step: int, pictures: np.ndarray) -> dict[str, float]:
        """`pictures`: uint8 `[B, 128, 224, 3]`"""
        plan = self.plan
        frames = as_tensor(pictures).to(self.device)
        with torch.set_grad_enabled(not self.keep_encoder):
            latents = self.autoencoder.encoder(frames)
        spread = plan.latent_noise * torch.rand(len(frames), 1, 1, 1, device=self.device)
        decoded = self.autoencoder.decoder(latents + spread * torch.randn_like(latents))
        loss, facts = picture_loss(decoded, frames, plan)
        if not self.keep_encoder:
            loss = loss + plan.latent_size * latents.square().mean()
        first_judged = plan.adversarial_from * plan.steps
        judged = step >= first_judged and plan.adversarial > 0
        if judged:
            freeze(self.judge, True)
            fooled = decoder_adversarial_loss(self.judge, decoded)
            loss = loss + plan.adversarial * fooled
            facts["fooled"] = fooled.item()
        for group in self.optimiser.param_groups:
            group["lr"] = plan.rate * rate_at(step, plan)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for g in self.optimiser.param_groups for p in g["params"]], 1.0)
        self.optimiser.step()
        self.average.update(self.autoencoder)
        if plan.adversarial > 0 and step >= first_judged - plan.judge_alone:
            freeze(self.judge, False)
            for group in self.judge_optimiser.param_groups:
                group["lr"] = plan.judge_rate
            self.judge_optimiser.zero_grad(set_to_none=True)
            judge_loss = discriminator_loss(self.judge, frames, decoded)
            judge_loss.backward()
            self.judge_optimiser.step()
            facts["judge"] = judge_loss.item()
        return facts

    def train(self, threads: IdleThreads, stop: StopRequest, workers: int = 0) -> int:
        """Runs to the end of the plan or to a request to stop; the steps done."""
        log = CurveLog(self.run / "autoencoder.jsonl")
        step = self.checkpoint.resume()
        truth, _ = measured_frames(MEASURED_FRAMES)
        batches = self.batches(step, workers)
        sums: dict[str, list[float]] = {}
        while step < self.plan.steps and not stop.asked:
            threads.adapt()
            for name, value in self.train_step(step, batches.take()).items():
                sums.setdefault(name, []).append(value)
            step += 1
            if step % SAVE_EVERY == 0:
                self.save(step)
            if step % MEASURE_EVERY == 0 or step == 1:
                self.average.swap(self.autoencoder)
                measured = measure(self.autoencoder.cpu(), truth)
                contact_sheet(self.autoencoder, truth[:32], self.run / "autoencoder.png")
                self.autoencoder.to(self.device)
                self.average.swap(self.autoencoder)
                log.write(step, **{name: float(np.mean(values)) for name, values in sums.items()}, **measured)
                sums.clear()
        self.save(step)
        batches.close()
        log.close()
        if step > 1:
            draw(read(self.run / "autoencoder.jsonl"), self.run / "autoencoder_curves.png")
        return step

    def save(self, step: int) -> None:
        self.checkpoint.save(step, {"plan": asdict(self.plan), "held_out": self.held_out.sha256, "keep_encoder": self.keep_encoder})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, help="folder of checkpoints, logs and sheets")
    parser.add_argument("--source", type=Path, help="folder with source checkpoints to continue from")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--render-workers", type=int, default=0, help="processes that render ahead; 0 renders between steps")
    parser.add_argument("--device", default="cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--train-encoder", action="store_true", help="with --source: latents change their meaning, so the transformer must start from nothing")
    add_override_argument(parser)
    args = parser.parse_args()
    threads, stop = IdleThreads(args.threads), StopRequest()
    plan = overridden(AutoencoderPlan(), args.overrides)
    keep_encoder = args.source is not None and not args.train_encoder
    stage = AutoencoderStage(args.run, args.source, plan, args.seed, torch.device(args.device), keep_encoder)
    print(f"ended at step {stage.train(threads, stop, args.render_workers)}")


if __name__ == "__main__":
    main()
