"""Writing the graphs so that each weight is stored once: large initialisers of all graphs live in one shared data file.

ONNX Runtime maps the file, so graphs with common weights share its pages. Graphs must be loaded by path, beside the data file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import torch
from onnx.external_data_helper import set_external_data

from .graph_fusion import fuse_rotary_embeddings
from .graphs import Graph

OPSET = 23
MAX_BATCH = 16
SHARED_FILE = "drive.weights"
SMALLEST_SHARED = 4096  # bytes; smaller tensors stay in their graph
ALIGNMENT = 4096  # bytes; a mapped tensor starts on a page


def export_graph(graph: Graph) -> onnx.ModelProto:
    """Traces one graph with a dynamic batch axis of 1..16."""
    batch = torch.export.Dim("B", min=1, max=MAX_BATCH)
    axes = tuple({0: batch} for _ in graph.example)
    if any(name.startswith("k0") for name in graph.inputs):  # modules that take the window as *args
        fixed = graph.inputs.index("k0")
        axes = (*axes[:fixed], axes[fixed:])
    with torch.no_grad():
        program = torch.onnx.export(
            graph.module, graph.example, input_names=graph.inputs, output_names=graph.outputs, dynamic_shapes=axes,
            dynamo=True, external_data=False, opset_version=OPSET, verbose=False,
        )
    model = program.model_proto
    fuse_rotary_embeddings(model.graph)
    for node in model.graph.node:  # stack traces of the exporting machine don't belong in a published file
        del node.metadata_props[:]
        node.doc_string = ""
    for holder in (model.graph, *model.functions):
        del holder.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
        value.doc_string = ""
    del model.metadata_props[:]
    return model


def write_shared(models: dict[str, onnx.ModelProto], folder: Path) -> None:
    """Writes `<name>.onnx` for each model and `drive.weights` beside them."""
    offsets: dict[str, int] = {}
    with (folder / SHARED_FILE).open("wb") as data:
        for model in models.values():
            for tensor in model.graph.initializer:
                raw = onnx.numpy_helper.to_array(tensor).tobytes()
                if len(raw) < SMALLEST_SHARED:
                    continue
                digest = hashlib.sha256(raw).hexdigest()
                if digest not in offsets:
                    data.write(b"\0" * (-data.tell() % ALIGNMENT))
                    offsets[digest] = data.tell()
                    data.write(raw)
                tensor.raw_data = raw
                set_external_data(tensor, SHARED_FILE, offset=offsets[digest], length=len(raw))
                tensor.ClearField("raw_data")
                for typed in ("float_data", "int32_data", "int64_data"):
                    tensor.ClearField(typed)
    for name, model in models.items():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
