"""Second stage: the transformer. `python -m segue_drive.training.transformer_stage --source DIR --run DIR`

What a server does is what is trained: a chunk is made in two denoise steps on written context, from its own earlier chunks, and a change of
prompt or action may arrive between the two steps. Half of the steps are of that kind; the others denoise from any noise level. Predictions are of
the clean chunk, scored by `energy_score` with two noise samples, so that two steps give a sample and not an average. The director's task
shares the text experts and is trained beside.

A transformer without weights (`--from-nothing`, or no `--source`) learns the world more cheaply from squared errors of one sample: `squared_until`, at first on true
context alone: `served_from`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import key_mapping
from ..checkpoint import normalisation_of, read_source
from ..geometry import NUM_PICTURE_TOKENS
from ..key_mapping import load_strictly
from ..transformer import DriveTransformer
from ..vae import PictureAutoencoder
from .autoencoder_stage import add_arguments
from .checkpoints import Checkpoint, Stateful, StopRequest, WeightAverage
from .clip_batch import CROP_CHUNKS, ClipBatch, draw_batch, keep_own_chunks
from .clip_encoder import ClipEncoder, measure_normalisation
from .clip_forward import ClipText, denoise_clip, encode_clip_prompts, text_mask, write_clip
from .clip_pool import ClipPool
from .clips import render_clip
from .curves import CurveLog, draw, read
from .director_task import director_batch, director_loss, plans_right
from .energy_score import energy_score
from .held_out import HeldOut
from .idle_threads import IdleThreads
from .muon import Muon
from .plan_overrides import add_override_argument, overridden

VALIDATION_SEED = 770_000
NUM_SAMPLES = 2
FIRST_LEVEL = 0.5  # noise level at which the second of two serving steps starts


@dataclass(frozen=True)
class TransformerPlan:
    steps: int = 3000
    batch: int = 6  # clips of 8 chunks
    muon_rate: float = 1e-3
    adam_rate: float = 4e-4
    warmup: int = 40
    decay_from: float = 0.7
    average: float = 0.995
    served_from: float = 0.0  # share of the steps, the first ones, that denoise from any noise level on true context; none of the others' mix
    squared_until: float = 0.0  # share of the steps, the first ones, that score one sample by its squared error
    bfloat16: int = 0  # products of the passes and of Muon; weights, their average and all sums stay float32
    serving_share: float = 0.6  # of the steps in the serving configuration, the rest at any noise level
    full_noise_share: float = 0.5  # of the latter's chunks at level 1, where serving starts
    own_share: float = 0.6  # of the clips with own context
    most_depth: int = 6
    steer_share: float = 0.35  # of the changes that arrive between the two steps
    dispersion: float = 1.0
    sound_weight: float = 0.25
    director_every: int = 8
    director_batch: int = 24
    director_weight: float = 0.1
    pool_first: int = 200  # clips before the first step
    pool_capacity: int = 1500
    clips_per_step: float = 0.7
    validation_clips: int = 16
    measure_every: int = 100
    save_every: int = 50


def scored(samples: Tensor, truth: Tensor, plan: TransformerPlan) -> tuple[Tensor, dict[str, float]]:
    """samples `[S, B, N, 32, 128]`: the energy score of two, the squared error of one"""
    score = energy_score(samples, truth, plan.dispersion) if len(samples) > 1 else (samples[0] - truth).square().mean(-1)
    picture, sound = score[..., :NUM_PICTURE_TOKENS].mean(), score[..., NUM_PICTURE_TOKENS:].mean()
    return picture + plan.sound_weight * sound, {"picture": picture.item(), "sound": sound.item()}


def draw_levels(shape: torch.Size, plan: TransformerPlan) -> Tensor:
    """Noise levels in 0.03..1, many of them exactly 1."""
    level = torch.sigmoid(0.6 + 1.2 * torch.randn(shape)).clamp(0.03, 0.999)
    return torch.where(torch.rand(shape) < plan.full_noise_share, torch.ones(()), level)


class ServingPass:
    """The two denoise steps of every chunk of a batch, on its context."""

    def __init__(self, net: DriveTransformer, batch: ClipBatch, device: torch.device) -> None:
        self.net, self.batch, self.device = net, batch, device
        self.actions = batch.actions.to(device)
        self.text = encode_clip_prompts(net, batch.ids.to(device), batch.prompt_of_chunk.to(device))
        context = batch.context.to(device)
        self.written = write_clip(net, context, torch.randn_like(context), self.actions, self.text)

    def denoise(self, x: Tensor, level: Tensor, samples: int, late: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """x `[samples, B, N, 32, 128]`, level `[B, N]`"""
        text, actions = self.text, self.actions
        if late is not None:
            padding = torch.where(self.batch.ids == 0, -1e4, 0.0).to(self.device)
            text, actions = ClipText(text.keys, text.values, text_mask(padding, late[0].to(self.device))), late[1].to(self.device)
        flat = denoise_clip(
            self.net, x.flatten(0, 1), level.repeat(samples, 1), actions.repeat(samples, 1, 1), text.repeated(samples), self.written.repeated(samples),
        )
        return flat.float().unflatten(0, (samples, -1))

    def two_steps(self, samples: int, late: tuple[Tensor, Tensor] | None) -> Tensor:
        """Only the second step carries a gradient."""
        shape = (samples, *self.batch.truth.shape)
        noise = torch.randn(shape, device=self.device)
        ones = torch.ones(self.batch.depth.shape, device=self.device)
        with torch.no_grad():
            first = self.denoise(noise, ones, samples, late)
        x = noise + (FIRST_LEVEL - 1) * (noise - first)
        return self.denoise(x, FIRST_LEVEL * ones, samples)


class TransformerStage:
    name = "transformer"  # of the checkpoint and the log

    def __init__(self, run: Path, source: Path | None, plan: TransformerPlan, seed: int, device: torch.device, workers: int = 0, from_nothing: bool = False) -> None:
        """`from_nothing` takes only the autoencoder and the normalisation from `source`."""
        self.plan, self.run, self.device, self.from_nothing = plan, run, device, from_nothing or source is None
        self.rng = np.random.default_rng((seed, 3))
        torch.manual_seed(seed + 1)
        self.held_out = HeldOut.open()
        self.net = DriveTransformer()
        self.encoder, normalisation = starting_encoder(run, source, self.held_out, seed, device)
        if source is not None and not from_nothing:
            raw = read_source(source, "transformer")
            load_strictly(self.net, raw, key_mapping.TRANSFORMER, key_mapping.TRANSFORMER_DERIVED)
        else:
            initialise(self.net)
        self.net.to(device)
        self.encoder = ClipEncoder(self.encoder, normalisation, device)
        self.normalisation = normalisation
        self.pool = self.open_pool(run, plan.pool_capacity, seed, workers)
        parts = self.prepare_learning()
        self.average = WeightAverage(self.learnt, plan.average)
        self.checkpoint = Checkpoint(run / f"{self.name}.ckpt", {**parts, "average": self.average, "pool": self.pool}, self.rng)

    def open_pool(self, folder: Path, capacity: int, seed: int, workers: int = 0) -> ClipPool:
        return ClipPool(folder, capacity, seed, self.encoder, self.held_out, workers)

    def prepare_learning(self) -> dict[str, Stateful]:
        """Sets `learnt`, the module whose parameters change, and the optimisers; what of it a checkpoint keeps."""
        matrices = [
            p for name, p in self.net.named_parameters() if name.startswith(("picture_experts", "sound_experts")) and p.dim() == 2 and "modulation" not in name
        ]
        known = {id(p) for p in matrices}
        self.learnt: torch.nn.Module = self.net
        self.others = [p for p in self.net.parameters() if id(p) not in known]
        self.muon = Muon(matrices, self.plan.muon_rate)
        self.adam = torch.optim.AdamW(self.others, lr=self.plan.adam_rate, betas=(0.9, 0.97), weight_decay=0.0)
        return {"transformer": self.net, "muon": self.muon, "adam": self.adam}

    def serving_pass(self, batch: ClipBatch) -> ServingPass:
        return ServingPass(self.net, batch, self.device)

    def precision(self) -> torch.autocast:
        # without its cache, which would hand weights cast under no_grad, and so without a gradient, to later passes
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.plan.bfloat16 > 0, cache_enabled=False)

    def loss(self, batch: ClipBatch, num_samples: int = NUM_SAMPLES, serving_share: float | None = None) -> tuple[Tensor, dict[str, float]]:
        """`serving_share` in place of the plan's."""
        plan = self.plan
        run = self.serving_pass(batch)
        truth = batch.truth.to(self.device)
        if self.rng.random() < (plan.serving_share if serving_share is None else serving_share):
            steered = torch.from_numpy(self.rng.random(batch.depth.shape) < plan.steer_share)
            samples = run.two_steps(num_samples, batch.late(steered))
            keep_own_chunks(self.pool, batch, samples[0], plan.most_depth)
            kind = "serving"
        else:
            level = draw_levels(batch.depth.shape, plan).to(self.device)
            noise = torch.randn((num_samples, *truth.shape), device=self.device)
            wide = level[..., None, None]
            samples = run.denoise((1 - wide) * truth + wide * noise, level, num_samples)
            kind = "denoise"
        loss, facts = scored(samples, truth, plan)
        measure = "" if num_samples > 1 else "squared_"
        return loss, {f"{kind}_{measure}{name}": value for name, value in facts.items()}

    def train_step(self, step: int) -> dict[str, float]:
        plan = self.plan
        served = step >= plan.steps * plan.served_from
        num_samples = 1 if step < plan.steps * plan.squared_until else NUM_SAMPLES
        batch = draw_batch(self.pool, plan.batch, plan.own_share if served else 0.0, plan.most_depth, self.rng)
        with self.precision():
            loss, facts = self.loss(batch, num_samples, plan.serving_share if served else 0.0)
        if step % plan.director_every == 0:
            director = director_loss(self.net, *(t.to(self.device) for t in director_batch(self.rng, self.held_out, plan.director_batch)))
            loss = loss + plan.director_weight * director
            facts["director"] = director.item()
        share = rate_at(step, plan)
        self.muon.rate = plan.muon_rate * share
        for group in self.adam.param_groups:
            group["lr"] = plan.adam_rate * share
        self.adam.zero_grad(set_to_none=True)
        self.muon.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        self.adam.step()
        with self.precision():
            self.muon.step()
        self.average.update(self.net)
        return facts

    @torch.no_grad()
    def measure(self, validation: ClipPool) -> dict[str, float]:
        """On clips that training never sees, with the running average: squared errors comparable from run to run, and what serving gives."""
        state = torch.get_rng_state()
        torch.manual_seed(7)
        rng = np.random.default_rng(7)
        batch = draw_batch(validation, len(validation), 0.0, 0, rng, np.arange(len(validation)))
        run, truth = ServingPass(self.net, batch, self.device), batch.truth.to(self.device)
        ones = torch.ones(batch.depth.shape, device=self.device)
        blind = run.denoise(torch.randn((1, *truth.shape), device=self.device), ones, 1)[0]
        served = run.two_steps(NUM_SAMPLES, None)
        last = CROP_CHUNKS - 1
        picture = lambda t: t[..., :NUM_PICTURE_TOKENS, :]  # noqa: E731
        director_ids, learnt = director_batch(np.random.default_rng(77), self.held_out, 64)
        facts = {
            "val_error_full_noise": picture(blind - truth)[:, last].square().mean().item(),
            "val_error_first_chunk": picture(blind - truth)[:, 0].square().mean().item(),
            "val_error_sound": (blind - truth)[:, last, NUM_PICTURE_TOKENS:].square().mean().item(),
            "val_error_served": picture(served[0] - truth)[:, 1:].square().mean().item(),
            "val_score_served": energy_score(picture(served), picture(truth))[:, 1:].mean().item(),
            "val_std_served": (picture(served)[:, :, 1:].std() / picture(truth)[:, 1:].std()).item(),
            "val_motion_served": (motion(served[0]) / motion(truth)).item(),
            "val_director": plans_right(self.net, director_ids.to(self.device), learnt),
        }
        torch.set_rng_state(state)
        return facts

    def train(self, threads: IdleThreads, stop: StopRequest) -> int:
        plan = self.plan
        log = CurveLog(self.run / f"{self.name}.jsonl")
        step = self.checkpoint.resume()
        validation = self.open_pool(self.run / "validation", plan.validation_clips, VALIDATION_SEED)
        while len(validation) < plan.validation_clips and not stop.asked:
            validation.add()
        while len(self.pool) < min(plan.pool_first, plan.pool_capacity) and not stop.asked:
            threads.adapt()
            with self.precision():
                self.pool.add()
        sums: dict[str, list[float]] = {}
        while step < plan.steps and not stop.asked:
            threads.adapt()
            while self.pool.made < plan.pool_first + step * plan.clips_per_step:
                with self.precision():
                    self.pool.add()
            if step % plan.measure_every == 0:
                self.average.swap(self.learnt)
                measured = self.measure(validation)
                self.average.swap(self.learnt)
                log.write(step, **{name: float(np.mean(values)) for name, values in sums.items()}, **measured, clips=self.pool.made)
                sums.clear()
            for name, value in self.train_step(step).items():
                sums.setdefault(name, []).append(value)
            step += 1
            if step % plan.save_every == 0:
                self.save(step)
        self.save(step)
        self.pool.close()
        log.close()
        if step:
            draw(read(self.run / f"{self.name}.jsonl"), self.run / f"{self.name}_curves.png")
        return step

    def save(self, step: int) -> None:
        self.checkpoint.save(step, {"plan": asdict(self.plan), "held_out": self.held_out.sha256, "from_nothing": self.from_nothing, "normalisation": self.normalisation})


def motion(chunks: Tensor) -> Tensor:
    """Mean absolute difference of consecutive chunks' picture tokens."""
    return (chunks[:, 1:, :NUM_PICTURE_TOKENS] - chunks[:, :-1, :NUM_PICTURE_TOKENS]).abs().mean()


def rate_at(step: int, plan: TransformerPlan) -> float:
    falling = (plan.steps - step) / max(1.0, plan.steps * (1 - plan.decay_from))
    return min((step + 1) / plan.warmup, 1.0, max(0.0, falling))


def initialise(net: DriveTransformer) -> None:
    """For a training from nothing: gates open, modulations and outputs closed, small output matrices."""
    for name, p in net.named_parameters():
        if name.endswith("modulation"):
            with torch.no_grad():
                p.normal_(std=0.02)
                p[2] += 1
                p[5] += 1
        elif name.endswith(("attention_output.weight", "feedforward_out.weight")):
            torch.nn.init.normal_(p, std=0.02 / 12**0.5)
        elif name.startswith(("picture_output", "sound_output", "modulation_projection", "output_modulation")):
            torch.nn.init.zeros_(p)
        elif name in ("token_position", "word_position"):
            torch.nn.init.normal_(p, std=0.02)
        elif name == "word_embedding.weight":
            torch.nn.init.normal_(p, std=0.5)


def starting_encoder(run: Path, source: Path | None, held_out: HeldOut, seed: int, device: torch.device) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    """The encoder and normalisation that the source was trained with; or those of this run's own autoencoder."""
    autoencoder = PictureAutoencoder()
    if source is not None:
        load_strictly(autoencoder, read_source(source, "autoencoder"), key_mapping.AUTOENCODER)
        return autoencoder.encoder, normalisation_of(source)
    stored = torch.load(run / "autoencoder.ckpt", map_location="cpu", weights_only=False)
    load_average(autoencoder, stored)
    path = run / "norm.pt"
    if not path.exists():
        clips = [render_clip(seed, 1_000_000 + i, held_out) for i in range(64)]
        torch.save(list(measure_normalisation(autoencoder.encoder, clips, device)), path)
    return autoencoder.encoder.cpu(), tuple(torch.load(path, weights_only=True))


def load_average(module: torch.nn.Module, stored: dict, name: str = "average") -> None:
    """The running average of a checkpoint into a module that has the same parameters."""
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            parameter.copy_(stored["parts"][name]["values"][key])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--from-nothing", action="store_true", help="with --source: take only its autoencoder, and start the transformer at random weights")
    add_override_argument(parser)
    args = parser.parse_args()
    threads, stop = IdleThreads(args.threads), StopRequest()
    plan = overridden(TransformerPlan(), args.overrides)
    stage = TransformerStage(args.run, args.source, plan, args.seed, torch.device(args.device), args.render_workers, args.from_nothing)
    print(f"ended at step {stage.train(threads, stop)}")


if __name__ == "__main__":
    main()
