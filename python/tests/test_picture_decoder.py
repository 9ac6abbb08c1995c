"""The served decoder computes what the trained one does."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F

from segue_drive.geometry import NUM_TOKENS, TOKEN_DIM
from segue_drive.picture_decoder import VaeDecode, shuffle_pixels, unshuffled_order
from segue_drive.vae import PictureAutoencoder, unpatchify_frame


def test_shuffling_channels_last_is_pixel_shuffle() -> None:
    x = torch.randn(2, 3 * 16, 5, 7)
    ours = shuffle_pixels(x[:, unshuffled_order(3, 4)].permute(0, 2, 3, 1), 4)
    assert torch.equal(ours.permute(0, 3, 1, 2), F.pixel_shuffle(x, 4))


def test_pixels_are_those_of_the_trained_decoder_for_either_frame() -> None:
    torch.manual_seed(0)
    model = SimpleNamespace(autoencoder=PictureAutoencoder().eval(), latent_mean=torch.randn(16), latent_std=0.5 + torch.rand(16))
    with torch.no_grad():
        model.autoencoder.decoder.position.normal_()
        model.autoencoder.decoder.output.weight.mul_(8)  # pictures of all levels: a decoder that isn't trained makes grey ones
        graph, x = VaeDecode(model).eval(), torch.randn(3, NUM_TOKENS, TOKEN_DIM)
        for frame in range(2):
            tokens = x[:, :28, 64 * frame : 64 * (frame + 1)]
            latents = unpatchify_frame(tokens) * model.latent_std[:, None, None] + model.latent_mean[:, None, None]
            expected = ((model.autoencoder.decoder(latents).clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1)
            ours = graph(x, torch.eye(2)[[frame] * 3])
            assert expected.float().std() > 20
            assert ours.shape == expected.shape and ours.dtype == torch.uint8
            difference = (ours.int() - expected.int()).abs()
            assert difference.max() <= 1 and (difference > 0).float().mean() < 1e-3
