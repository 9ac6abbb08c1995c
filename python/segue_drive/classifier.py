"""The check of prompt adherence: a small network that names place, time, weather and road curve of a frame, fitted on renders only.

`python -m segue_drive.classifier --source DIR --out test/oracle --docs docs/model`
It never sees a generated frame while fitted, so it can judge them. Figures are on held-out renders and on their reconstructions
by the autoencoder, which bounds what a perfect transformer could score.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checkpoint import load_drive
from .geometry import FRAME_HEIGHT, FRAME_WIDTH
from .graphs import Graph
from .onnx_store import export_graph
from .vocabulary import ATTRIBUTES, PHRASES
from .world import Attributes, World, render
from .world.state import FULL_CURVE

SIZES = (5, 4, 4)  # classes of place, time, weather
CHANNELS = (3, 16, 32, 64, 64)
BATCH = 32


class Classifier(nn.Module):
    """uint8 frames `[B, 128, 224, 3]` -> logits of place `[B, 5]`, time `[B, 4]`, weather `[B, 4]`, and curve `[B, 1]` (-1 full left .. 1 full right)."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for narrow, wide in zip(CHANNELS[:-1], CHANNELS[1:]):
            layers += [nn.Conv2d(narrow, wide, 3, 2, 1), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS[-1] * 4 * 7, 64), nn.ReLU(), nn.Linear(64, sum(SIZES) + 1))

    def judge(self, small: Tensor) -> tuple[Tensor, ...]:
        """The same from half-size frames `[B, 3, 64, 112]` in -1..1."""
        return self.head(self.features(small)).split((*SIZES, 1), 1)

    def forward(self, rgb: Tensor) -> tuple[Tensor, ...]:
        return self.judge(F.avg_pool2d(rgb.permute(0, 3, 1, 2).float() / 127.5 - 1, 2))


def sample(rng: np.random.Generator) -> tuple[np.ndarray, tuple[float, ...]]:
    """A random render and its truth (place, time, weather, curve -1..1)."""
    attributes = Attributes.random(rng)
    world = World(int(rng.integers(1 << 31)), attributes, int(rng.integers(-1, 2)), int(rng.integers(4)))
    steer, speed = int(rng.integers(-1, 2)), int(rng.integers(1, 4))
    for _ in range(int(rng.integers(1, 8))):
        world.step(attributes, steer, speed)
    return render(world), (*attributes.as_tuple(), world.curve / FULL_CURVE)


def samples(count: int, seed: int) -> tuple[np.ndarray, Tensor]:
    """uint8 frames `[count, 128, 224, 3]` and truth `[count, 4]`"""
    rng = np.random.default_rng(seed)
    frames, truths = np.empty((count, FRAME_HEIGHT, FRAME_WIDTH, 3), np.uint8), []
    for i in range(count):
        frames[i], truth = sample(rng)
        truths.append(truth)
    return frames, torch.tensor(truths)


def fit(num_renders: int, num_steps: int, seed: int) -> Classifier:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed + 1)
    frames, truth = samples(num_renders, seed + 2)
    small = torch.cat([F.avg_pool2d(torch.from_numpy(part).permute(0, 3, 1, 2).float() / 127.5 - 1, 2).half() for part in np.array_split(frames, 40)])
    del frames
    model = Classifier()
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for step in range(num_steps):
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * (1 - step / num_steps) + 1e-5
        index = torch.from_numpy(rng.integers(0, num_renders, BATCH))
        x, y = small[index].float(), truth[index]
        # reconstructions and generated frames are softer than renders: blur every second sample
        soft = torch.rand(BATCH, 1, 1, 1) < 0.5
        x = torch.where(soft, F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1), x)
        x = x + 0.03 * torch.randn_like(x)
        place, hour, weather, curve = model.judge(x)
        loss = sum(F.cross_entropy(logits, y[:, i].long()) for i, logits in enumerate((place, hour, weather))) + 2 * (curve[:, 0] - y[:, 3]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    return model.eval()


@torch.no_grad()
def score(model: Classifier, frames: np.ndarray, truth: Tensor) -> dict:
    """Accuracy and confusion matrix (rows truth, columns answer) per attribute; mean error and correlation of the curve."""
    outputs = [model(torch.from_numpy(part)) for part in np.array_split(frames, max(1, len(frames) // 64))]
    result: dict = {"frames": len(frames)}
    for i, name in enumerate(ATTRIBUTES):
        answer = torch.cat([o[i] for o in outputs]).argmax(1)
        confusion = torch.zeros(SIZES[i], SIZES[i], dtype=torch.long)
        for t, a in zip(truth[:, i].long(), answer):
            confusion[t, a] += 1
        result[name] = {"accuracy": round((answer == truth[:, i]).float().mean().item(), 4), "confusion": confusion.tolist()}
    curve = torch.cat([o[3] for o in outputs])[:, 0]
    result["curve"] = {
        "mean_absolute_error": round((curve - truth[:, 3]).abs().mean().item(), 4),
        "correlation": round(torch.corrcoef(torch.stack([curve, truth[:, 3]]))[0, 1].item(), 4),
    }
    return result


@torch.no_grad()
def reconstruct(source_dir: Path, frames: np.ndarray) -> np.ndarray:
    autoencoder = load_drive(source_dir).autoencoder
    out = np.empty_like(frames)
    for i in range(0, len(frames), 16):
        x = torch.from_numpy(frames[i : i + 16]).permute(0, 3, 1, 2).float() / 127.5 - 1
        y = autoencoder.decoder(autoencoder.encoder(x)).clamp(-1, 1)
        out[i : i + 16] = ((y.permute(0, 2, 3, 1) + 1) * 127.5).round().byte().numpy()
    return out


def as_markdown(report: dict) -> str:
    lines = [
        "# Classifier of the embedded model's world", "",
        f"`test/oracle/classifier.onnx` names place, time, weather and road curve of one frame. Fitted on {report['fitted_on']} renders for {report['steps']} steps,",
        "never on generated frames. It is the judge of prompt adherence and steering in the tests; its own errors bound what they can prove.", "",
    ]
    for key, title in (("renders", "Held-out renders"), ("reconstructions", "The same frames through the autoencoder")):
        part = report[key]
        lines += [f"## {title} ({part['frames']})", "", "| | accuracy |", "|---|---|"]
        lines += [f"| {name} | {part[name]['accuracy']:.4f} |" for name in ATTRIBUTES]
        lines += ["", f"Curve: mean absolute error {part['curve']['mean_absolute_error']}, correlation {part['curve']['correlation']} (-1 full left, 1 full right).", ""]
        for name in ATTRIBUTES:
            labels = report["labels"][name]
            lines += ["| " + " | ".join([f"{name}: truth \\ answer", *labels]) + " |", "|---" * (len(labels) + 1) + "|"]
            lines += ["| " + " | ".join([label, *map(str, row)]) + " |" for label, row in zip(labels, part[name]["confusion"])]
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="folder of the source checkpoints (for the reconstructions)")
    parser.add_argument("--out", type=Path, default=Path("test/oracle"))
    parser.add_argument("--docs", type=Path, default=Path("docs/model"))
    parser.add_argument("--renders", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=123)
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.time()
    model = fit(args.renders, args.steps, args.seed)
    frames, truth = samples(args.held_out, args.seed + 1000)
    report = {
        "labels": {name: [values[0] for values in PHRASES[name]] for name in ATTRIBUTES}, "curve": "-1 full left .. 1 full right",
        "fitted_on": args.renders, "steps": args.steps, "seed": args.seed,
        "renders": score(model, frames, truth), "reconstructions": score(model, reconstruct(args.source, frames), truth),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    args.docs.mkdir(parents=True, exist_ok=True)
    graph = Graph(model, ["rgb"], ["place", "time", "weather", "curve"], (torch.from_numpy(frames[:2]),))
    (args.out / "classifier.onnx").write_bytes(export_graph(graph).SerializeToString(deterministic=True))
    (args.out / "classifier.json").write_text(json.dumps(report, indent=2) + "\n")
    (args.docs / "classifier.md").write_text(as_markdown(report))
    for key in ("renders", "reconstructions"):
        print(key, {name: report[key][name]["accuracy"] for name in ATTRIBUTES}, report[key]["curve"])
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
