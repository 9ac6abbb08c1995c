"""The mapping covers both sides exactly, and a wrong one can't pass: strictness finds gaps, the source's trajectory finds swaps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from segue_drive.convert import ConversionError, convert
from segue_drive.key_mapping import AUTOENCODER, TRANSFORMER, TRANSFORMER_DERIVED, KeyMappingError, load_strictly, source_state
from segue_drive.parity import TRAJECTORY_TOLERANCE, scripted_trajectory, trajectory_noise
from segue_drive.reference_rollout import reference_roll_out
from segue_drive.source_reference import SourceReference
from segue_drive.transformer import DriveTransformer
from segue_drive.vae import PictureAutoencoder

SWAPPED = TRANSFORMER | {"te.weight": "previous_noise_level.weight", "tp.weight": "noise_level.weight"}


def random_transformer(seed: int) -> DriveTransformer:
    torch.manual_seed(seed)
    net = DriveTransformer()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 1.0)
    return net


@pytest.mark.parametrize(("module", "rules"), [(DriveTransformer, TRANSFORMER), (PictureAutoencoder, AUTOENCODER)])
def test_maps_every_parameter_and_reads_back_the_same_values(module: type, rules: dict[str, str]) -> None:
    source, target = module(), module()
    report = load_strictly(target, source_state(source, rules), rules)
    assert not report.unmatched_source and not report.unmatched_target
    assert len(report.mapped) == len(target.state_dict())
    for key, value in source.state_dict().items():
        assert torch.equal(value, target.state_dict()[key])


def test_a_source_key_without_a_rule_is_refused() -> None:
    source = source_state(DriveTransformer(), TRANSFORMER) | {"extra.weight": torch.zeros(3)}
    with pytest.raises(KeyMappingError, match="extra.weight"):
        load_strictly(DriveTransformer(), source, TRANSFORMER, TRANSFORMER_DERIVED)


def test_a_missing_rule_is_refused_and_loads_nothing() -> None:
    rules = {source: target for source, target in TRANSFORMER.items() if source != "qs"}
    target = random_transformer(1)
    before = {key: value.clone() for key, value in target.state_dict().items()}
    with pytest.raises(KeyMappingError, match="query_scale"):
        load_strictly(target, source_state(random_transformer(2), TRANSFORMER), rules)
    assert all(torch.equal(value, target.state_dict()[key]) for key, value in before.items())


def test_two_sources_for_one_target_are_refused() -> None:
    rules = TRANSFORMER | {"te.weight": "previous_noise_level.weight"}
    with pytest.raises(KeyMappingError, match="noise_level.weight"):
        load_strictly(DriveTransformer(), source_state(DriveTransformer(), TRANSFORMER), rules)


def test_a_shape_that_differs_is_refused() -> None:
    source = source_state(DriveTransformer(), TRANSFORMER) | {"pos": torch.zeros(31, 192)}
    with pytest.raises(KeyMappingError, match=r"31, 192"):
        load_strictly(DriveTransformer(), source, TRANSFORMER)


def test_a_swap_between_equal_shapes_loads_but_misses_the_source_trajectory() -> None:
    truth = random_transformer(3)
    prompts, actions = scripted_trajectory()
    roll = lambda net: reference_roll_out(net, prompts, actions, trajectory_noise())  # noqa: E731
    stored = roll(truth)
    reference = SourceReference(stored[[0, 11]], np.array([0, 11]), "none")
    right, wrong = DriveTransformer(), DriveTransformer()
    load_strictly(right, source_state(truth, TRANSFORMER), TRANSFORMER)
    load_strictly(wrong, source_state(truth, TRANSFORMER), SWAPPED)
    assert reference.difference(roll(right)) == 0
    assert reference.difference(roll(wrong)) > 10 * TRAJECTORY_TOLERANCE


def test_conversion_with_swapped_keys_fails_and_writes_nothing(source_folder, tmp_path) -> None:
    with pytest.raises(ConversionError, match="source's own code"):
        convert(source_folder, tmp_path, SWAPPED)
    assert not list(tmp_path.iterdir())
