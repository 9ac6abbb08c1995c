"""Rewrites of an exported graph that the exporter and the runtime don't make: several nodes as the one operator that computes the same.

Only where the pattern is exact; what doesn't match stays as it was. Parity is measured on the rewritten graphs.
"""

from __future__ import annotations

from collections import defaultdict

import onnx


class _Uses:
    """Who makes and who reads each value of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.maker = {output: node for node in graph.node for output in node.output}
        self.readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.readers[name].append(node)

    def only_reader(self, name: str, kind: str) -> onnx.NodeProto | None:
        readers = self.readers[name]
        return readers[0] if len(readers) == 1 and readers[0].op_type == kind else None

    def products(self, name: str) -> dict[str, onnx.NodeProto] | None:
        """The two products that are all that reads `name`, by their second factor."""
        readers = self.readers[name]
        if [node.op_type for node in readers] != ["Mul", "Mul"] or any(node.input[0] != name for node in readers):
            return None
        return {node.input[1]: node for node in readers}


def _rotation(split: onnx.NodeProto, uses: _Uses) -> tuple[onnx.NodeProto, list[onnx.NodeProto]] | None:
    """The rotary embedding that starts with `split` as one node, and the nodes it replaces (the last one makes its output)."""
    if split.op_type != "Split" or len(split.output) != 2:
        return None
    first, second = (uses.products(name) for name in split.output)
    if first is None or second is None or set(first) != set(second) or len(first) != 2:
        return None
    for cos, sin in (tuple(first), tuple(first)[::-1]):
        difference, total = (uses.only_reader(first[angle].output[0], kind) for angle, kind in ((cos, "Sub"), (sin, "Add")))
        if difference is None or total is None:
            continue
        parts = [[first[cos].output[0], second[sin].output[0]], [first[sin].output[0], second[cos].output[0]]]
        joined = uses.only_reader(difference.output[0], "Concat")
        if [list(difference.input), list(total.input)] != parts or joined is None or list(joined.input) != [difference.output[0], total.output[0]]:
            continue
        tables = [uses.maker.get(angle) for angle in (cos, sin)]  # [B, T, E/2] with an axis of heads put in
        if any(table is None or table.op_type != "Unsqueeze" for table in tables):
            continue
        node = onnx.helper.make_node("RotaryEmbedding", [split.input[0], *(table.input[0] for table in tables)], list(joined.output), name=f"rotary_{split.name}")
        return node, [split, *first.values(), *second.values(), difference, total, joined]
    return None


def fuse_rotary_embeddings(graph: onnx.GraphProto) -> int:
    """Eight nodes each -> `RotaryEmbedding` (opset 23). Returns how many were fused."""
    uses = _Uses(graph)
    fused, gone = {}, set()
    for split in graph.node:
        found = _rotation(split, uses)
        if found is not None:
            node, replaced = found
            fused[id(replaced[-1])] = node
            gone.update(map(id, replaced))
    kept = [fused.get(id(node), node) for node in graph.node if id(node) in fused or id(node) not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    return len(fused)
