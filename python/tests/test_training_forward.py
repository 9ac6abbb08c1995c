"""Training trains what serving runs: the clip-wide forward pass gives what the chunk-by-chunk one gives."""

from __future__ import annotations

import numpy as np
import torch

from segue_drive.geometry import MASKED
from segue_drive.parity import scripted_trajectory, trajectory_noise
from segue_drive.reference_rollout import reference_roll_out
from segue_drive.training.clip_forward import denoise_clip, encode_clip_prompts, text_mask, write_clip
from segue_drive.training.export import training_trajectory
from segue_drive.training.transformer_stage import initialise
from segue_drive.transformer import DriveTransformer


def _net(seed: int) -> DriveTransformer:
    torch.manual_seed(seed)
    net = DriveTransformer()
    initialise(net)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() == 2 and float(parameter.abs().max()) == 0:
                parameter.normal_(std=0.03)  # closed outputs would make any two passes agree
    return net.eval()


def test_the_training_pass_is_the_serving_roll_out() -> None:
    net = _net(1)
    prompts, actions = scripted_trajectory()
    served = reference_roll_out(net, prompts[:8], actions[:8], trajectory_noise())
    trained = training_trajectory(net)
    assert served.std() > 0.05
    assert np.abs(served - trained).max() < 1e-4


def test_a_chunk_sees_nothing_of_its_successors() -> None:
    net = _net(2)
    torch.manual_seed(0)
    chunks, noise = torch.randn(1, 8, 32, 128), torch.randn(1, 8, 32, 128)
    actions = torch.ones(1, 8, 2, dtype=torch.long)
    ids = torch.randint(4, 70, (1, 2, 12))
    text = encode_clip_prompts(net, ids, torch.zeros(1, 8, dtype=torch.long))
    level = torch.full((1, 8), 0.5)
    x = torch.randn(1, 8, 32, 128)

    def predict(context: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return denoise_clip(net, x, level, actions, text, write_clip(net, context, noise, actions, text))

    changed = chunks.clone()
    changed[:, 5] += 1
    before, after = predict(chunks), predict(changed)
    assert torch.equal(before[:, :6], after[:, :6])
    assert (before[:, 6:] - after[:, 6:]).abs().max() > 1e-3


def test_each_chunk_sees_its_own_prompt_only() -> None:
    padding = torch.tensor([[[0.0, MASKED], [0.0, 0.0]]])
    mask = text_mask(padding, torch.tensor([[0, 1]]))
    assert mask[0, 0].tolist() == [0.0, MASKED, MASKED, MASKED]
    assert mask[0, 1, 2:].tolist() == [0.0, 0.0] and mask[0, 1, 0] == MASKED
