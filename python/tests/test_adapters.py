"""Adapters: what is refused and why, and that the graphs compute what merged weights would."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from segue_drive.adapters import FOLDER, TARGETS, Adapter, AdapterError, read_adapters, seeded_adapter
from segue_drive.checkpoint import sha256_of, source_path
from segue_drive.graphs import CleanWrite, CleanWriteAdapted, DenoiseStep, DenoiseStepAdapted, example_inputs
from segue_drive.install_adapters import install, with_adapters
from segue_drive.low_rank import ADAPTER_INPUTS
from segue_drive.parity import parity_levels, scripted_trajectory, trajectory_noise
from segue_drive.rollout import DriveGraphs, roll_out
from segue_drive.training.adapted_linear import AdaptedLayers, tensors_of
from segue_drive.training.clip_forward import denoise_clip, encode_clip_prompts, write_clip
from segue_drive.transformer import DriveTransformer
from segue_drive.vocabulary import encode_prompt

BASE = "a" * 64
FIRST = "picture_experts.0.attention_output.lora_A"


def random_transformer(seed: int) -> DriveTransformer:
    torch.manual_seed(seed)
    net = DriveTransformer()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5 if parameter.dim() == 2 and "position" not in name else 0.3)
    return net.eval()


def written(folder: Path, adapter: Adapter) -> Path:
    path = folder / f"{adapter.id}.safetensors"
    adapter.write(path)
    return path


def test_a_file_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    adapter = seeded_adapter(1, BASE, rank=3)
    again = Adapter.read(written(tmp_path, adapter), BASE)
    assert (again.id, again.title, again.rank, again.alpha, again.base) == (adapter.id, adapter.title, 3, 3.0, BASE)
    assert set(again.tensors) == set(adapter.tensors) and all(torch.equal(value, again.tensors[key]) for key, value in adapter.tensors.items())


def test_a_layer_may_be_left_out(tmp_path: Path) -> None:
    adapter = seeded_adapter(1, BASE)
    few = replace(adapter, tensors={key: value for key, value in adapter.tensors.items() if key.startswith("picture_experts.2.feedforward_out")})
    inputs = Adapter.read(written(tmp_path, few), BASE).graph_inputs(2)
    assert not inputs["attention_up"].any() and inputs["feedforward_up"][1, 2].any() and not inputs["feedforward_up"][:, [0, 1, 3, 4, 5]].any()


@pytest.mark.parametrize(("change", "named"), [
    (lambda t: t | {"sound_experts.0.feedforward_out.lora_A": torch.zeros(8, 192)}, "sound_experts.0.feedforward_out.lora_A"),
    (lambda t: t | {"picture_experts.6.attention_output.lora_A": torch.zeros(8, 192)}, "picture_experts.6.attention_output.lora_A"),
    (lambda t: {f"unet.{key}": value for key, value in t.items()}, "matches no layer"),
    (lambda t: {}, "matches no layer"),
    (lambda t: t | {FIRST: torch.zeros(8, 191)}, r"attention_output.lora_A is \[8, 191\], must be \[8, 192\]"),
    (lambda t: t | {FIRST: torch.zeros(7, 192)}, r"\[7, 192\], must be \[8, 192\]"),
    (lambda t: {key: value for key, value in t.items() if key != FIRST}, "lora_B without picture_experts.0.attention_output.lora_A"),
    (lambda t: t | {FIRST: torch.full((8, 192), torch.nan)}, "finite"),
    (lambda t: t | {FIRST: torch.ones(8, 192, dtype=torch.float16)}, "float32"),
    (lambda t: {key: torch.zeros_like(value) if key.endswith("B") else value for key, value in t.items()}, "changes nothing"),
])
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, change, named: str) -> None:
    adapter = seeded_adapter(1, BASE)
    with pytest.raises(AdapterError, match=named):
        Adapter.read(written(tmp_path, replace(adapter, tensors=change(adapter.tensors))), BASE)


def test_another_base_is_refused_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, seeded_adapter(1, BASE))
    with pytest.raises(AdapterError, match=f"seeded.safetensors: was trained on base {BASE}, the model has {'b' * 64}"):
        Adapter.read(path, "b" * 64)


def test_metadata_that_is_missing_or_wrong_is_refused(tmp_path: Path) -> None:
    adapter = seeded_adapter(1, BASE)
    save_file(adapter.tensors, tmp_path / "seeded.safetensors", {"id": "seeded", "rank": "8"})
    with pytest.raises(AdapterError, match="lacks title, alpha, base"):
        Adapter.read(tmp_path / "seeded.safetensors", BASE)
    adapter.write(tmp_path / "other.safetensors")
    with pytest.raises(AdapterError, match="its id is 'seeded'"):
        Adapter.read(tmp_path / "other.safetensors", BASE)
    with pytest.raises(AdapterError, match="rank 9"):
        Adapter.read(written(tmp_path, seeded_adapter(1, BASE, rank=9)), BASE)


@pytest.mark.parametrize(("plain", "adapted", "names"), [
    (DenoiseStep, DenoiseStepAdapted, ["x", "eps", "prev", "pin", "pin_frames", "t", "t_prev", "t_next"]),
    (CleanWrite, CleanWriteAdapted, ["x", "eps", "prev", "t_prev"]),
])
@torch.no_grad()
def test_rows_of_a_batch_have_their_own_adapter(plain: type, adapted: type, names: list[str]) -> None:
    """Two rows with different adapters and scales, and a third at 0, against a merged transformer each."""
    net = random_transformer(2)
    names = [*names, "steer", "speed", "time_cos", "time_sin", "tk", "tv", "tmask", *(f"{kind}{i}" for kind in "kv" for i in range(7)), "window_mask"]
    inputs = example_inputs(names, 3, 5)
    adapters, scales = [seeded_adapter(1, BASE), seeded_adapter(2, BASE, rank=3), seeded_adapter(3, BASE)], (1.0, 0.6, 0.0)
    rows = [adapter.graph_inputs(1, scale) for adapter, scale in zip(adapters, scales)]
    update = [torch.from_numpy(np.concatenate([row[name] for row in rows])) for name in ADAPTER_INPUTS]
    together = adapted(net)(*inputs, *update)
    together = together if isinstance(together, tuple) else (together,)
    for row, (adapter, scale) in enumerate(zip(adapters, scales)):
        alone = plain(adapter.merged(net, scale))(*(value[row : row + 1] for value in inputs))
        for ours, theirs in zip(together, alone if isinstance(alone, tuple) else (alone,)):
            assert (ours[row] - theirs[0]).abs().max() < 1e-4


@pytest.fixture(scope="module")
def graphs(model_folder) -> DriveGraphs:
    return DriveGraphs(model_folder / "weights")


def test_the_committed_graphs_at_scale_0_are_the_plain_ones(graphs) -> None:
    prompts, actions = scripted_trajectory()
    adapter = seeded_adapter(4, BASE)
    streams = [roll_out(graphs, prompts[:3], actions[:3], trajectory_noise(), adapter=None if scale is None else adapter.graph_inputs(2, scale)) for scale in (None, 0.0, 0.5, 1.0)]
    assert np.array_equal(streams[0], streams[1])
    half, whole = (np.abs(stream - streams[0]).mean() for stream in streams[2:])
    assert 0.01 < half < whole


def test_the_committed_adapters_fit_the_manifest(model_folder) -> None:
    manifest = json.loads((model_folder / "manifest.json").read_text())
    section = manifest["adapter_compatibility"]
    assert section["kinds"] == ["lora"] and section["max_rank"] == 8 and {name: tuple(shape) for name, shape in section["targets"].items()} == TARGETS
    assert section["base"] == next(iter(manifest["upstream"]["revision"].values()))
    for adapter in read_adapters(model_folder, section["base"]):
        assert f"adapters/{adapter.id}.safetensors" in manifest["files"]


@torch.no_grad()
def test_training_computes_what_merged_weights_compute() -> None:
    net = random_transformer(3)
    merged_from, adapter = copy.deepcopy(net), seeded_adapter(5, BASE, rank=4)
    layers = AdaptedLayers(net, 4, 4.0)
    layers.start_from(adapter)
    assert set(tensors_of(dict(layers.named_parameters()))) == set(adapter.tensors)
    ids, actions = torch.tensor([[encode_prompt("coast dusk fog")] * 2]), torch.ones(1, 3, 2, dtype=torch.long)
    chunks, noise = torch.randn(1, 3, 32, 128), torch.randn(1, 3, 32, 128)

    def run(transformer: DriveTransformer) -> torch.Tensor:
        text = encode_clip_prompts(transformer, ids, torch.zeros(1, 3, dtype=torch.long))
        return denoise_clip(transformer, noise, torch.ones(1, 3), actions, text, write_clip(transformer, chunks, noise, actions, text))

    assert (run(net) - run(adapter.merged(merged_from))).abs().max() < 1e-4
    layers.set_scale(0.0)
    assert torch.equal(run(net), run(merged_from))
    assert [name for name, p in net.named_parameters() if p.requires_grad and "lora" not in name] == []


def test_installing_proves_and_lists_the_files_or_changes_nothing(source_folder, model_folder, tmp_path: Path) -> None:
    model, trained = tmp_path / "drive", tmp_path / "trained"
    shutil.copytree(model_folder, model, ignore=shutil.ignore_patterns(FOLDER))
    base = sha256_of(source_path(source_folder, "transformer"))
    written(trained, seeded_adapter(6, "c" * 64, rank=2))
    before = [(model / f"{name}.json").read_bytes() for name in ("manifest", "report")]
    with pytest.raises(AdapterError, match="was trained on base c"):
        install(source_folder, trained, model)
    assert before == [(model / f"{name}.json").read_bytes() for name in ("manifest", "report")] and not (model / FOLDER).exists()
    written(trained, seeded_adapter(6, base, rank=2))
    assert all(check["passed"] for check in install(source_folder, trained, model))
    report = json.loads((model / "report.json").read_text())
    assert report["parity_levels"] == parity_levels(report["parity"])
    entry = json.loads((model / "manifest.json").read_text())["files"][f"{FOLDER}/seeded.safetensors"]
    assert entry["sha256"] == sha256_of(model / FOLDER / "seeded.safetensors")
    assert "adapters:\n  seeded: { title: Seeded, file: adapters/seeded.safetensors, kind: lora }\n" in (model / "model.yaml").read_text()


def test_the_list_in_the_authoring_file_is_replaced_and_nothing_else(model_folder) -> None:
    text = (model_folder / "model.yaml").read_text()
    bare = with_adapters(text, [])
    one = with_adapters(text, [seeded_adapter(1, BASE)])
    assert bare in (text, text.split("\nadapters:\n")[0]) and one.startswith(bare.rstrip("\n")) and one.count("adapters:\n") == 1
    assert with_adapters(one, [seeded_adapter(1, BASE)]) == one and with_adapters(one, []) == bare
    assert with_adapters("a: 1\n\nadapters:\n  x: y\n  # z\nb: 2\n", []) == "a: 1\nb: 2\n"
