"""Declared mapping from the source checkpoints' parameter names to this package's, applied strictly.

A rule is `source pattern -> target pattern`; `{i}` stands for a layer number. Every source key and every target parameter must be
used exactly once; shapes must agree. Keys of tables that the definition computes itself are listed in `DERIVED` and compared, not loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

_EXPERT = {"qkv.weight": "query_key_value.weight", "o.weight": "attention_output.weight", "f1.weight": "feedforward_in.weight", "f2.weight": "feedforward_out.weight"}
_LINEAR = {"weight": "weight", "bias": "bias"}


def _linear(source: str, target: str) -> dict[str, str]:
    return {f"{source}.{s}": f"{target}.{t}" for s, t in _LINEAR.items()}


TRANSFORMER: dict[str, str] = {
    **{f"{letter}.{{i}}.{s}": f"{name}_experts.{{i}}.{t}" for letter, name in (("V", "picture"), ("A", "sound"), ("T", "text")) for s, t in _EXPERT.items()},
    "V.{i}.tab": "picture_experts.{i}.modulation",
    "A.{i}.tab": "sound_experts.{i}.modulation",
    "T.{i}.g1": "text_experts.{i}.attention_norm",
    "T.{i}.g2": "text_experts.{i}.feedforward_norm",
    **_linear("inp", "picture_input"),
    **_linear("ainp", "sound_input"),
    **_linear("out", "picture_output"),
    **_linear("aout", "sound_output"),
    **_linear("te", "noise_level"),
    **_linear("tp", "previous_noise_level"),
    **_linear("t2", "noise_projection"),
    **_linear("ad", "modulation_projection"),
    **_linear("fad", "output_modulation"),
    "ast.weight": "steer_embedding.weight",
    "asp.weight": "speed_embedding.weight",
    "emb.weight": "word_embedding.weight",
    "pos": "token_position",
    "tpos": "word_position",
    "g": "text_output_norm",
    "lmb": "word_bias",
    "qs": "query_scale",
    "frq": "noise_frequencies",
}
# Rotary tables of 8 chunks: the definition makes its own.
TRANSFORMER_DERIVED = ("rc", "rs")


def _half(side: str, name: str, layers: dict[str, str]) -> dict[str, str]:
    out = {f"{side}.pos": f"{name}.position"}
    for source, target in layers.items():
        out |= _linear(f"{side}.{source}", f"{name}.{target}")
    return out


_BLOCKS = {f"r{level}.{s}": f"{stage}.{t}" for level, stage in enumerate(("fine", "middle", "coarse")) for s, t in (("a", "first"), ("b", "second"))}
AUTOENCODER: dict[str, str] = {
    **_half("e", "encoder", {"i": "input", "d1": "to_middle", "d2": "to_coarse", "o": "output", **_BLOCKS}),
    **_half("d", "decoder", {"i": "input", "u2": "to_middle", "u1": "to_fine", "o": "output", **_BLOCKS}),
}


class KeyMappingError(ValueError):
    """The mapping doesn't cover source and target exactly; the message lists what is left over."""


@dataclass
class MappingReport:
    """What a strict load did: `mapped` source key -> (target key, shape, dtype); both unmatched lists are empty after success."""

    mapped: dict[str, tuple[str, tuple[int, ...], str]] = field(default_factory=dict)
    derived: list[str] = field(default_factory=list)
    unmatched_source: list[str] = field(default_factory=list)
    unmatched_target: list[str] = field(default_factory=list)
    wrong_shape: list[str] = field(default_factory=list)


def target_of(key: str, rules: dict[str, str]) -> str | None:
    match = re.fullmatch(r"([A-Za-z]\w*)\.(\d+)\.(.+)", key)
    if match and f"{match[1]}.{{i}}.{match[3]}" in rules:
        return rules[f"{match[1]}.{{i}}.{match[3]}"].replace("{i}", match[2])
    return rules.get(key)


def load_strictly(module: nn.Module, source: dict[str, Tensor], rules: dict[str, str], derived: tuple[str, ...] = ()) -> MappingReport:
    """Copies `source` into `module` by `rules`. Raises KeyMappingError, with nothing loaded, unless both sides match exactly."""
    report = MappingReport()
    wanted = module.state_dict()
    state: dict[str, Tensor] = {}
    for key, value in source.items():
        if key in derived:
            report.derived.append(key)
            continue
        target = target_of(key, rules)
        if target is None or target not in wanted or target in state:
            report.unmatched_source.append(key)
        elif wanted[target].shape != value.shape:
            report.wrong_shape.append(f"{key} {tuple(value.shape)} -> {target} {tuple(wanted[target].shape)}")
        else:
            state[target] = value.to(torch.float32)
            report.mapped[key] = (target, tuple(value.shape), str(value.dtype).removeprefix("torch."))
    report.unmatched_target = sorted(set(wanted) - set(state))
    if report.unmatched_source or report.unmatched_target or report.wrong_shape:
        raise KeyMappingError(
            f"source keys without a target: {report.unmatched_source}; target parameters without a source: {report.unmatched_target}; "
            f"shapes that differ: {report.wrong_shape}"
        )
    module.load_state_dict(state, strict=True)
    return report


def source_state(module: nn.Module, rules: dict[str, str]) -> dict[str, Tensor]:
    """The module's parameters under the source's names: what `load_strictly` undoes. Raises KeyMappingError for a parameter without a rule."""
    back = {target: source for source, target in rules.items()}
    out = {}
    for key, value in module.state_dict().items():
        layer = re.search(r"\.(\d+)\.", key)
        source = back.get(key) or (back.get(key.replace(f".{layer[1]}.", ".{i}.", 1), "").replace("{i}", layer[1]) if layer else "")
        if not source:
            raise KeyMappingError(f"parameter {key} has no source key")
        out[source] = value.detach().clone()
    return out
