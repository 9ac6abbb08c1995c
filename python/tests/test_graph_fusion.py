"""Rewrites of exported graphs: the same result from fewer nodes, and nothing touched that only looks alike."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from segue_drive.graph_fusion import fuse_rotary_embeddings

HEADS, TOKENS, HALF = 3, 4, 8


def rotation_model(total_kind: str = "Add", swapped: bool = False) -> onnx.ModelProto:
    """`rotate` of the transformer as the exporter writes it; other arguments give what looks like it but is something else."""
    value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", *shape])  # noqa: E731
    joined = ["sum", "difference"] if swapped else ["difference", "sum"]
    nodes = [
        helper.make_node("Unsqueeze", ["cos", "axis"], ["cos4"]), helper.make_node("Unsqueeze", ["sin", "axis"], ["sin4"]),
        helper.make_node("Split", ["x"], ["first", "second"], axis=3, num_outputs=2),
        helper.make_node("Mul", ["first", "cos4"], ["a"]), helper.make_node("Mul", ["second", "sin4"], ["b"]), helper.make_node("Sub", ["a", "b"], ["difference"]),
        helper.make_node("Mul", ["first", "sin4"], ["c"]), helper.make_node("Mul", ["second", "cos4"], ["d"]), helper.make_node(total_kind, ["c", "d"], ["sum"]),
        helper.make_node("Concat", joined, ["y"], axis=-1),
    ]
    inputs = [value("x", HEADS, TOKENS, 2 * HALF), value("cos", TOKENS, HALF), value("sin", TOKENS, HALF)]
    axis = onnx.numpy_helper.from_array(np.array([1]), "axis")
    graph = helper.make_graph(nodes, "rotation", inputs, [value("y", HEADS, TOKENS, 2 * HALF)], [axis])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def run(model: onnx.ModelProto) -> np.ndarray:
    rng = np.random.default_rng(0)
    angles = rng.standard_normal((2, TOKENS, HALF), np.float32)
    x = rng.standard_normal((2, HEADS, TOKENS, 2 * HALF), np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "cos": np.cos(angles), "sin": np.sin(angles)})[0]


def test_a_rotation_becomes_one_node_with_the_same_result() -> None:
    model = rotation_model()
    before = run(model)
    assert fuse_rotary_embeddings(model.graph) == 1
    assert "RotaryEmbedding" in [node.op_type for node in model.graph.node] and len(model.graph.node) == 3
    assert np.abs(run(model) - before).max() < 1e-6


@pytest.mark.parametrize("other", [rotation_model(total_kind="Sub"), rotation_model(swapped=True)])
def test_what_only_looks_like_a_rotation_stays(other: onnx.ModelProto) -> None:
    before = [node.SerializeToString() for node in other.graph.node]
    assert fuse_rotary_embeddings(other.graph) == 0
    assert [node.SerializeToString() for node in other.graph.node] == before
