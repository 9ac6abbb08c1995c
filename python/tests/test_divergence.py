"""Layers of a graph beside those of its module: the same within rounding, and the first that isn't is the one that was altered."""

from __future__ import annotations

import copy
from pathlib import Path

import onnx
import pytest
import torch

from segue_drive import divergence
from segue_drive.checkpoint import DriveModel, load_drive
from segue_drive.divergence import UnlikeGraph, compare_layers, first_past
from segue_drive.geometry import NUM_TOKENS, TOKEN_DIM
from segue_drive.graphs import Graph, build_graphs, example_inputs
from segue_drive.restored_source import restore
from segue_drive.start_chunks import BANK_SIZE


@pytest.fixture(scope="module")
def source(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    restore(model_folder, folder)
    return folder


@pytest.fixture(scope="module")
def model(source: Path) -> DriveModel:
    return load_drive(source)


@pytest.fixture(scope="module")
def denoise(model: DriveModel) -> Graph:
    return build_graphs(model, torch.zeros(BANK_SIZE, NUM_TOKENS, TOKEN_DIM))["denoise_step"]


def altered(denoise: Graph, layer: str) -> Graph:
    """The same graph with the weights of one output of a layer of its module raised by a tenth of the layer's largest."""
    module = copy.deepcopy(denoise.module)
    weight = module.get_submodule(layer).weight
    with torch.no_grad():
        weight[0] += 0.1 * weight.abs().max()
    return Graph(module, denoise.inputs, denoise.outputs, denoise.example)


def test_the_shipped_graph_follows_its_module_in_every_layer_and_expert(denoise: Graph, model_folder: Path) -> None:
    rows = compare_layers(denoise, model_folder / "weights" / "denoise_step.onnx", example_inputs(denoise.inputs, 1, 3))
    assert first_past(rows) is None
    assert len(rows) == 57 + 1  # condition, inputs, six layers of two experts with four layers each, outputs; and what the graph gives
    assert [row.layer for row in rows if "sound_experts.2." in row.layer] == [f"transformer.sound_experts.2.{name}" for name in ("query_key_value", "attention_output", "feedforward_in", "feedforward_out")]
    assert max(row.relative for row in rows) < divergence.RELATIVE_TOLERANCE / 10


@pytest.mark.parametrize("layer", ["transformer.picture_experts.3.feedforward_out", "transformer.sound_experts.0.query_key_value", "transformer.noise_projection", "transformer.picture_output"])
def test_an_altered_weight_is_found_in_its_layer(denoise: Graph, model_folder: Path, layer: str) -> None:
    rows = compare_layers(altered(denoise, layer), model_folder / "weights" / "denoise_step.onnx", example_inputs(denoise.inputs, 1, 3))
    first = first_past(rows)
    assert first is not None and first.layer == layer


def test_a_weight_altered_in_the_graph_is_found_as_well_and_the_command_fails(source: Path, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = onnx.load(model_folder / "weights" / "denoise_step.onnx")
    node = next(node for node in graph.graph.node if node.name == "node_linear_17")  # of layer 1, the ninth product after the fourth of the first
    stored = next(tensor for tensor in graph.graph.initializer if tensor.name == node.input[1])
    values = onnx.numpy_helper.to_array(stored).copy()
    values[5, 7] += 0.1
    stored.CopyFrom(onnx.numpy_helper.from_array(values, stored.name))
    onnx.save(graph, tmp_path / "denoise_step.onnx")
    assert divergence.main(["--source", str(source), "--graph", "denoise_step", "--weights", str(tmp_path), "--batch", "1"]) == 1
    assert "first past 0.0001: transformer.sound_experts.1.attention_output" in capsys.readouterr().out


def test_a_graph_of_other_layers_is_refused_by_the_first_that_it_lacks(denoise: Graph, model_folder: Path) -> None:
    with pytest.raises(UnlikeGraph, match=r"transformer\.noise_level \(192, 64\): the graph has no such product"):
        compare_layers(denoise, model_folder / "weights" / "text_encoder.onnx", example_inputs(denoise.inputs, 1, 3))
