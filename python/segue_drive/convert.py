"""Conversion of the source checkpoints to what the server loads: `python -m segue_drive.convert --source DIR --out models/drive`.

Writes `weights/*.onnx`, `weights/drive.weights`, `vocabulary.json`, `processor.json`, `manifest.json` and `report.json`. Fails, leaving the
previous files in place, when a key is unmatched on either side, a shape differs or parity is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import onnx
import torch

from . import key_mapping
from .checkpoint import DriveModel, load_drive, sha256_of
from .graphs import Graph, build_graphs
from .key_mapping import MappingReport
from .onnx_store import MAX_BATCH, OPSET, SHARED_FILE, export_graph, write_shared
from .parity import check_all, check_mapping, measure_latency, parity_levels
from .picture_reader import NUM_RENDERS, SEED
from .processor_data import processor_json, vocabulary_json
from .source_reference import SourceReference
from .start_chunks import BANK_SIZE, FIRST_SEED, START_SPEED, render_start_chunks
from .stored_weights import StoredWeights

CONVERSION_VERSION = "1"
MAX_BYTES = 30_000_000  # all weights of the repository live here, once

# Which source checkpoints' parameters each component holds, as prefixes of the target names.
COMPONENT_PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "text_encoder": {"transformer": ("word_embedding", "word_position", "text_experts", "query_scale")},
    "director_prefill": {"transformer": ("word_", "text_experts", "text_output_norm", "query_scale")},
    "director_step": {"transformer": ("word_", "text_experts", "text_output_norm", "query_scale")},
    "denoise_step": {"transformer": (
        "picture_", "sound_", "token_position", "query_scale", "output_modulation", "noise_", "previous_noise_level", "steer_", "speed_", "modulation_projection",
    )},
    "clean_write": {"transformer": (
        "picture_input", "sound_input", "picture_experts", "sound_experts", "token_position", "query_scale", "noise_", "previous_noise_level", "steer_",
        "speed_", "modulation_projection",
    )},
    "vae_decode": {"autoencoder": ("decoder",), "normalisation": ("latent_mean", "latent_std")},
    "audio_synth": {"normalisation": ("sound_mean", "sound_std")},
    "start_bank": {"normalisation": ("latent_mean", "latent_std", "sound_mean", "sound_std")},
    "vae_encode": {"autoencoder": ("encoder",), "normalisation": ("latent_mean", "latent_std")},
    "director_logprob": {"transformer": ("word_", "text_experts", "text_output_norm", "query_scale")},
}


def _signature(values: list[onnx.ValueInfoProto]) -> list[dict]:
    out = []
    for value in values:
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else "B" for dim in tensor.shape.dim]
        out.append({"name": value.name, "dtype": onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, "shape": shape})
    return out


def _component_mapping(name: str, model: DriveModel, stored: StoredWeights | None = None) -> list[dict]:
    """Every source key of a component: source file and key, target name, shape, and where its values lie, unless export folded them into others."""
    reports = {"transformer": (model.transformer_mapping, model.transformer), "autoencoder": (model.autoencoder_mapping, model.autoencoder)}
    rows = []

    def add(part: str, source: str, target: str, value: torch.Tensor) -> None:
        places = [] if stored is None else stored.places(name, target, value)
        rows.append({"file": model.source_file(part), "source": source, "target": target, "shape": list(value.shape), **({"stored": places} if places else {})})

    for part, prefixes in COMPONENT_PARTS[name].items():
        if part == "normalisation":
            for key in prefixes:
                add(part, key, key, getattr(model, key))
            continue
        report, module = reports[part]
        parameters = module.state_dict()
        for source, (target, _, _) in report.mapped.items():
            if target.startswith(prefixes):
                add(part, source, target, parameters[target])
    return rows


def _uncovered(model: DriveModel) -> list[str]:
    """Target parameters that no component declares; must be empty."""
    covered = {row["target"] for name in COMPONENT_PARTS for row in _component_mapping(name, model)}
    reports = (model.transformer_mapping, model.autoencoder_mapping)
    return sorted(target for report in reports for target, _, _ in report.mapped.values() if target not in covered)


def build_manifest(model: DriveModel, folder: Path, lineage: dict | None, checks: list[dict]) -> dict:
    components, stored = {}, StoredWeights(folder)
    for name in COMPONENT_PARTS:
        graph = onnx.load(folder / f"{name}.onnx", load_external_data=False)
        components[name] = {
            "file": f"weights/{name}.onnx", "shared": f"weights/{SHARED_FILE}",
            "inputs": _signature(list(graph.graph.input)), "outputs": _signature(list(graph.graph.output)),
            "key_mapping": _component_mapping(name, model, stored),
        }
    return {
        "model": "drive",
        "conversion_version": CONVERSION_VERSION,
        "upstream": {
            "source": "PyTorch checkpoints of the drive research model (transformer, autoencoder, normalisation)",
            "revision": model.source_sha256,
            **({} if lineage is None else {"lineage": lineage}),  # how this repository trained them (`training.export`)
        },
        "opset": OPSET,
        "batch": {"axis": 0, "min": 1, "max": MAX_BATCH},
        "dtype_policy": {"weights": "float32", "compute": "float32", "start_bank": "float16, widened on read", "vae_encode": "int8 per output channel, widened at load", "pixels": "uint8", "sound": "int16"},
        "adapter_compatibility": {
            "base": model.transformer_sha256, "kinds": ["lora"],
            "targets": ["picture_experts.*", "sound_experts.*", "text_experts.*"],
            "note": "low-rank updates are added to the source weights before conversion; the graphs take none at run time",
        },
        "start_bank": {"entries": BANK_SIZE, "first_seed": FIRST_SEED, "speed": START_SPEED, "content": "encoded renders, not generated"},
        "picture_reader": {"reads": ["place", "time", "weather"], "fitted_on": f"{NUM_RENDERS} renders of trained combinations, seed {SEED}"},
        "files": {
            f"weights/{path.name}": {"sha256": sha256_of(path), "bytes": path.stat().st_size} for path in sorted(folder.iterdir()) if path.is_file()
        },
        "parity": {level: entry["status"] for level, entry in parity_levels(checks).items()},
        "components": components,
    }


def _mapping_summary(report: MappingReport) -> dict:
    dtypes: dict[str, int] = {}
    for _, _, dtype in report.mapped.values():
        dtypes[dtype] = dtypes.get(dtype, 0) + 1
    return {
        "mapped": len(report.mapped), "derived": report.derived, "unmatched_source": report.unmatched_source,
        "unmatched_target": report.unmatched_target, "wrong_shape": report.wrong_shape, "source_dtypes": dtypes,
        "parameters": sum(torch.Size(shape).numel() for _, shape, _ in report.mapped.values()),
    }


def build_report(model: DriveModel, checks: list[dict], latency: dict[str, dict[str, float]], total_bytes: int) -> dict:
    return {
        "keys": {
            "transformer": _mapping_summary(model.transformer_mapping), "autoencoder": _mapping_summary(model.autoencoder_mapping),
            "parameters_in_no_component": _uncovered(model),
        },
        "total_bytes": total_bytes,
        "parity_levels": parity_levels(checks),
        "parity": checks,
        "latency_ms_one_thread_batch_1": latency,
        "latency_note": "measured on the converting machine while other work shared its cores; the fastest call is closer to an idle core than the median",
    }


def convert(source: Path, out: Path, transformer_rules: dict[str, str] = key_mapping.TRANSFORMER) -> dict:
    """Runs the conversion; returns the report. Raises KeyMappingError or ConversionError."""
    model = load_drive(source, transformer_rules)
    if _uncovered(model):
        raise ConversionError(f"parameters in no component: {_uncovered(model)}")
    reference = SourceReference.of(source)
    mapping_check = check_mapping(model, reference)
    if not mapping_check["passed"]:
        raise ConversionError(f"the loaded weights don't compute what the source does: {mapping_check}")
    built: dict[str, Graph] = build_graphs(model, render_start_chunks(model))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_shared({name: export_graph(graph) for name, graph in built.items()}, folder)
        total = sum(path.stat().st_size for path in folder.iterdir())
        if total > MAX_BYTES:
            raise ConversionError(f"{total} bytes of weights, at most {MAX_BYTES} allowed")
        checks = [mapping_check, *check_all(model, built, folder, reference)]
        failed = [check for check in checks if not check["passed"]]
        if failed:
            raise ConversionError(f"parity missed: {failed}")
        report = build_report(model, checks, measure_latency(built, folder), total)
        weights = out / "weights"
        weights.mkdir(parents=True, exist_ok=True)
        history = source / "lineage.json"
        manifest = build_manifest(model, folder, json.loads(history.read_text()) if history.exists() else None, checks)
        for path in sorted(folder.iterdir()):
            fresh = weights / f"{path.name}.new"
            shutil.copyfile(path, fresh)
            os.replace(fresh, weights / path.name)  # a server that has the old file mapped keeps it
    documents = {"manifest": manifest, "report": report, "vocabulary": vocabulary_json(), "processor": processor_json()}
    for name, document in documents.items():
        (out / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    return report


def record(source: Path, out: Path) -> dict:
    """Measures parity of the graphs that `out` has and writes its manifest and report anew; the weights stay as they are. Returns the report.

    Raises ConversionError, with nothing written, when a check fails.
    """
    model, reference = load_drive(source), SourceReference.of(source)
    folder = out / "weights"
    checks = [check_mapping(model, reference), *check_all(model, build_graphs(model, render_start_chunks(model)), folder, reference)]
    failed = [check for check in checks if not check["passed"]]
    if failed:
        raise ConversionError(f"parity missed: {failed}")
    old = json.loads((out / "report.json").read_text())
    history = source / "lineage.json"
    manifest = build_manifest(model, folder, json.loads(history.read_text()) if history.exists() else None, checks)
    report = build_report(model, checks, old["latency_ms_one_thread_batch_1"], sum(path.stat().st_size for path in folder.iterdir()))
    for name, document in {"manifest": manifest, "report": report}.items():
        (out / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    return report


class ConversionError(RuntimeError):
    """The converted files are not what they should be; nothing was replaced."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="folder with the source checkpoints")
    parser.add_argument("--out", type=Path, default=Path("models/drive"))
    parser.add_argument("--record", action="store_true", help="only measure parity of the graphs in --out and write manifest and report")
    args = parser.parse_args()
    torch.set_num_threads(1)
    report = (record if args.record else convert)(args.source, args.out)
    for check in report["parity"]:
        print(f"{check['check']}: {check['max_difference']:.3g} (tolerance {check['tolerance']:g})")
    print(f"{report['total_bytes']} bytes; ms {report['latency_ms_one_thread_batch_1']}", file=sys.stderr)


if __name__ == "__main__":
    main()
