"""Puts trained adapters into a converted model without converting anew: `python -m segue_drive.install_adapters --source DIR [--adapters FOLDER]`

Checks the files, compares the adapted graphs with PyTorch on merged weights, and writes them into the model: checksums into `manifest.json`, checks into
`report.json`, the list into `model.yaml`. Fails, changing nothing, when one misses. What is no longer in the folder is taken off the lists.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import torch

from .adapters import FOLDER, Adapter, compatibility, file_entries, read_adapters
from .checkpoint import load_drive
from .convert import MAX_BYTES, ConversionError
from .parity import check_adapter, parity_levels
from .rollout import DriveGraphs


def install(source: Path, folder: Path, model_folder: Path) -> list[dict]:
    """Returns the checks. Raises AdapterError or ConversionError."""
    manifest, report = (json.loads((model_folder / f"{name}.json").read_text()) for name in ("manifest", "report"))
    model = load_drive(source)
    base = model.transformer_sha256
    converted_from = manifest["adapter_compatibility"]["base"]
    if converted_from != base:
        raise ConversionError(f"the model was converted from {converted_from}, --source has {base}")
    adapters = read_adapters(model_folder, base, folder)
    graphs = DriveGraphs(model_folder / "weights")
    checks = [check for adapter in adapters for check in check_adapter(model, graphs, adapter)]
    failed = [check for check in checks if not check["passed"]]
    if failed:
        raise ConversionError(f"parity missed: {failed}")
    others = {name: entry for name, entry in manifest["files"].items() if not name.startswith(f"{FOLDER}/")}
    total = sum(entry["bytes"] for entry in others.values()) + sum((folder / f"{adapter.id}.safetensors").stat().st_size for adapter in adapters)
    if total > MAX_BYTES:
        raise ConversionError(f"{total} bytes of weights, at most {MAX_BYTES} allowed")
    target = model_folder / FOLDER
    target.mkdir(exist_ok=True)
    for adapter in adapters:
        path = folder / f"{adapter.id}.safetensors"
        if path.resolve() != (target / path.name).resolve():
            shutil.copyfile(path, target / path.name)
    manifest["files"] = file_entries(model_folder) | others
    manifest["adapter_compatibility"] = compatibility(base)
    earlier = [check for check in report["parity"] if not check["check"].startswith("C1 adapter ") or check["check"].startswith("C1 adapter seeded ")]
    report["parity"], report["total_bytes"] = [*earlier, *checks], total
    report["parity_levels"] = parity_levels(report["parity"])
    manifest["parity"] = {level: entry["status"] for level, entry in report["parity_levels"].items()}
    for name, document in (("manifest", manifest), ("report", report)):
        (model_folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    authored = model_folder / "model.yaml"
    authored.write_text(with_adapters(authored.read_text(), adapters))
    return checks


def with_adapters(text: str, adapters: list[Adapter]) -> str:
    """The authoring file with its section `adapters` anew, at its end; all else stays as it was written, with its comments."""
    rest = re.sub(r"(?m)^\n?adapters:\n(?:[ #].*\n)*", "", text)
    rows = [f"  {adapter.id}: {{ title: {adapter.title}, file: {FOLDER}/{adapter.id}.safetensors, kind: lora }}\n" for adapter in adapters]
    return rest if not rows else rest.rstrip("\n") + "\n\nadapters:\n" + "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="folder with the source checkpoints that the model was converted from")
    parser.add_argument("--model", type=Path, default=Path("models/drive"))
    parser.add_argument("--adapters", type=Path, help="folder of trained adapters; without it those that lie in the model")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for check in install(args.source, args.adapters or args.model / FOLDER, args.model):
        print(f"{check['check']}: {check['max_difference']:.3g} (tolerance {check['tolerance']:g})")


if __name__ == "__main__":
    main()
