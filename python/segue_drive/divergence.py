"""Where an exported graph leaves its PyTorch module: the output of every layer of both, one after the other, for work on a port.

`python -m segue_drive.divergence --source SOURCE --graph denoise_step` prints, per linear layer and per output of the graph, in the order in which they run, the
largest difference and that in relation to the layer's largest value, and names the first that is past tolerance; then it fails. What differs
before the first layer named is within rounding: the fault is in that layer's weights, or between it and the one above.

A layer of the module is found in the graph by order and by the shape of its weights: the exporter keeps the order of products, and neither their names nor their layout.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor, nn

from .checkpoint import load_drive
from .geometry import NUM_TOKENS, TOKEN_DIM
from .graphs import Graph, build_graphs, example_inputs
from .start_chunks import BANK_SIZE, render_start_chunks

RELATIVE_TOLERANCE = 1e-4  # of a layer's largest value: rounding of fp32 sums in another order stays below a tenth of it
WITH_START_CHUNKS = ("start_bank", "vae_encode", "video_encode")  # their weights are made of rendered pictures


class UnlikeGraph(ValueError):
    """The graph hasn't the layers of the module: they can't be compared one by one."""


@dataclass(frozen=True)
class LayerDifference:
    layer: str
    largest: float
    relative: float  # to the largest value of the module's output; that of a difference from zero is infinite
    passed: bool


def _module_layers(graph: Graph, inputs: tuple[Tensor, ...]) -> tuple[list[tuple[str, nn.Linear, Tensor]], list[Tensor]]:
    """Every linear layer that runs, in order, with its output; and the module's outputs."""
    ran: list[tuple[str, nn.Linear, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda layer, _, output, name=name: ran.append((name, layer, output.detach().clone())))
        for name, layer in graph.module.named_modules() if isinstance(layer, nn.Linear)
    ]
    try:
        with torch.no_grad():
            outputs = graph.module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return ran, list(outputs) if isinstance(outputs, tuple) else [outputs]


def _products(model: onnx.ModelProto) -> list[tuple[onnx.NodeProto, tuple[int, ...]]]:
    """Products with a stored matrix, in the graph's order, and the matrix's axes."""
    stored = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        weights = [stored[name] for name in node.input if len(stored.get(name, ())) == 2]
        if node.op_type in ("MatMul", "Gemm") and weights:
            found.append((node, weights[0]))
    return found


def _matched(ran: list[tuple[str, nn.Linear, Tensor]], products: list[tuple[onnx.NodeProto, tuple[int, ...]]]) -> list[onnx.NodeProto]:
    """The product of each layer. Raises UnlikeGraph, naming the first layer without one."""
    nodes, at = [], 0
    for name, layer, _ in ran:
        wanted = sorted(layer.weight.shape)
        while at < len(products) and sorted(products[at][1]) != wanted:
            at += 1
        if at == len(products):
            raise UnlikeGraph(f"{name} {tuple(layer.weight.shape)}: the graph has no such product after that of the layer before; it has {len(products)} products, the module ran {len(ran)} layers")
        nodes.append(products[at][0])
        at += 1
    return nodes


def _difference(layer: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> LayerDifference:
    if ours.shape != theirs.shape:
        raise UnlikeGraph(f"{layer}: the graph gives {ours.shape}, the module {theirs.shape}")
    difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    largest, scale = (float(x.max(initial=0.0)) for x in (difference, np.abs(theirs.astype(np.float64))))
    relative = largest / scale if scale > 0 else (0.0 if largest == 0 else float("inf"))
    # A difference that is no number is past every tolerance.
    return LayerDifference(layer, largest, relative, bool(relative <= tolerance))


def compare_layers(graph: Graph, path: Path, inputs: tuple[Tensor, ...], tolerance: float = RELATIVE_TOLERANCE) -> list[LayerDifference]:
    """Every layer of `graph.module` against the ONNX graph at `path` (its weights beside it), on the same inputs, in the order in which they run; then the outputs.

    Raises UnlikeGraph where the two can't be laid side by side.
    """
    model = onnx.load(path)
    ran, outputs = _module_layers(graph, inputs)
    nodes = _matched(ran, _products(model))
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(node.output[0]) for node in nodes if node.output[0] not in known)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {name: value.numpy() for name, value in zip(graph.inputs, inputs, strict=True)}
    taken = {value.name for value in session.get_inputs()}
    names = [node.output[0] for node in nodes] + list(graph.outputs)
    values = session.run(names, {name: value for name, value in feeds.items() if name in taken})
    rows = []
    for (name, layer, output), node, value in zip(ran, nodes, values):
        # Where the product has no bias of its own, a node behind it adds it.
        without = output if layer.bias is None or node.op_type == "Gemm" else output - layer.bias.detach()
        rows.append(_difference(name, value, without.numpy().reshape(value.shape) if without.numel() == value.size else without.numpy(), tolerance))
    rows += [_difference(f"output {name}", value, output.numpy(), tolerance) for name, value, output in zip(graph.outputs, values[len(nodes) :], outputs, strict=True)]
    return rows


def first_past(rows: list[LayerDifference]) -> LayerDifference | None:
    return next((row for row in rows if not row.passed), None)


def report(rows: list[LayerDifference], tolerance: float) -> str:
    width = max(len(row.layer) for row in rows)
    lines = [f"{'ok  ' if row.passed else 'FAIL'}  {row.layer:<{width}}  largest {row.largest:.3e}  relative {row.relative:.3e}" for row in rows]
    first = first_past(rows)
    lines.append(f"all {len(rows)} within {tolerance:g}" if first is None else f"first past {tolerance:g}: {first.layer}, relative {first.relative:.3e}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="folder with the source checkpoints")
    parser.add_argument("--graph", required=True, help="name of the graph, without .onnx")
    parser.add_argument("--weights", type=Path, default=Path("models/drive/weights"))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("--tolerance", type=float, default=RELATIVE_TOLERANCE, help="largest difference, in relation to a layer's largest value")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = load_drive(args.source)
    graphs = build_graphs(model, render_start_chunks(model) if args.graph in WITH_START_CHUNKS else torch.zeros(BANK_SIZE, NUM_TOKENS, TOKEN_DIM))
    if args.graph not in graphs:
        parser.error(f"no graph {args.graph}, there are {', '.join(graphs)}")
    graph = graphs[args.graph]
    # Words are no numbers that can be drawn: those that the graph was exported with.
    inputs = graph.example if {"ids", "word"} & set(graph.inputs) else example_inputs(graph.inputs, args.batch, args.seed)
    try:
        rows = compare_layers(graph, args.weights / f"{args.graph}.onnx", inputs, args.tolerance)
    except UnlikeGraph as unlike:
        print(f"{args.graph}: {unlike}", file=sys.stderr)
        return 2
    print(report(rows, args.tolerance))
    return 0 if first_past(rows) is None else 1


if __name__ == "__main__":
    sys.exit(main())
