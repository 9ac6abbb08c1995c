"""The whole training: `python -m segue_drive.training.run --run DIR --out SOURCE_DIR`, what `make train` and `make train-gpu` call.

Autoencoder, transformer with director, export. Each stage resumes where it was, so the same command goes on after an interruption. `--source` continues
from earlier checkpoints. Afterwards `python -m segue_drive.convert --source SOURCE_DIR` makes what the server loads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from .autoencoder_stage import AutoencoderPlan, AutoencoderStage, add_arguments
from .checkpoints import StopRequest
from .export import export
from .idle_threads import IdleThreads
from .plan_overrides import overridden
from .transformer_stage import TransformerPlan, TransformerStage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder for the exported checkpoints")
    parser.add_argument("--autoencoder", action="append", default=[], metavar="NAME=VALUE", help="another number for the autoencoder's plan")
    parser.add_argument("--transformer", action="append", default=[], metavar="NAME=VALUE", help="another number for the transformer's plan")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")  # TF32 on a GPU; nothing on a CPU
    threads, stop = IdleThreads(args.threads), StopRequest()
    picture = AutoencoderStage(args.run, args.source, overridden(AutoencoderPlan(), args.autoencoder), args.seed, device, args.source is not None)
    picture.train(threads, stop, args.render_workers)
    if not stop.asked:
        plan = overridden(TransformerPlan(), args.transformer)
        TransformerStage(args.run, args.source, plan, args.seed, device, args.render_workers).train(threads, stop)
    if stop.asked:
        print("stopped; the same command goes on")
        return
    print(json.dumps(export(args.run, args.source, args.out)))


if __name__ == "__main__":
    main()
