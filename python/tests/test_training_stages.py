"""Stages resume to the same weights, stop where they are asked to, and their parts do what their names say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from segue_drive.checkpoint import read_source
from segue_drive import key_mapping
from segue_drive.adapters import Adapter
from segue_drive.checkpoint import sha256_of
from segue_drive.key_mapping import source_state
from segue_drive.training.adapter_stage import AdapterPlan, AdapterStage
from segue_drive.training.autoencoder_stage import AutoencoderPlan, AutoencoderStage
from segue_drive.training.checkpoints import WeightAverage, write_atomically
from segue_drive.training.curves import CurveLog, draw, read
from segue_drive.training.energy_score import energy_score
from segue_drive.training.export import export, rotary_tables
from segue_drive.training.idle_threads import IdleThreads
from segue_drive.training.muon import orthogonalised
from segue_drive.training.plan_overrides import overridden
from segue_drive.training.render_ahead import RenderAhead
from segue_drive.training.sharpness import gradient_amount, psnr
from segue_drive.training.transformer_stage import TransformerPlan, TransformerStage, initialise
from segue_drive.transformer import DriveTransformer
from segue_drive.vae import PictureAutoencoder

CPU = torch.device("cpu")


class Never:
    asked = False


class After:
    """Asks to stop once it has been looked at `steps` times."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    @property
    def asked(self) -> bool:
        self._left -= 1
        return self._left < 0


def _autoencoder(run: Path, steps: int) -> AutoencoderStage:
    return AutoencoderStage(run, None, AutoencoderPlan(steps=steps, batch=1, adversarial_from=0.25, judge_alone=1, warmup=1), 1, CPU, False)


def test_a_resumed_autoencoder_ends_with_the_same_weights(tmp_path: Path) -> None:
    straight = _autoencoder(tmp_path / "a", 4)
    batches = straight.batches(0, 0)
    pictures = [batches.take() for _ in range(4)]
    for step in range(4):
        straight.train_step(step, pictures[step])
    first = _autoencoder(tmp_path / "b", 4)  # starts the generators anew
    for step in range(2):
        first.train_step(step, pictures[step])
    first.save(2)
    second = _autoencoder(tmp_path / "b", 4)
    assert second.checkpoint.resume() == 2
    for step in range(2, 4):
        second.train_step(step, pictures[step])
    for a, b in zip(straight.autoencoder.parameters(), second.autoencoder.parameters()):
        assert torch.equal(a, b)
    assert all(torch.equal(straight.average.values[k], second.average.values[k]) for k in straight.average.values)


def test_transformer_stage_trains_resumes_and_exports(tmp_path: Path) -> None:
    assert _autoencoder(tmp_path, 1).train(IdleThreads(1), Never()) == 1  # type: ignore[arg-type]
    torch.save([torch.zeros(16), torch.ones(16), torch.zeros(32), torch.ones(32)], tmp_path / "norm.pt")
    plan = TransformerPlan(steps=3, batch=1, pool_first=2, pool_capacity=3, clips_per_step=0.5, validation_clips=1, director_batch=2, measure_every=50, serving_share=1.0)

    def fresh() -> TransformerStage:
        return TransformerStage(tmp_path, None, plan, 1, CPU)

    assert fresh().train(IdleThreads(1), After(5)) < 3  # type: ignore[arg-type]
    resumed = fresh()
    assert resumed.train(IdleThreads(1), Never()) == 3  # type: ignore[arg-type]
    assert resumed.pool.depth.max() >= 1, "the model's own chunks are kept as context"
    assert set(read(tmp_path / "transformer.jsonl")) >= {"val_error_served", "val_std_served"}
    lineage = export(tmp_path, None, tmp_path / "out")
    assert lineage["parent"] is None and lineage["transformer"]["steps"] == 3
    stored = read_source(tmp_path / "out", "transformer")
    assert {"V.0.qkv.weight", "rc", "rs"} <= set(stored)


def test_a_transformer_from_nothing_takes_no_weights_of_the_source(tmp_path: Path) -> None:
    source = _source(tmp_path / "source")
    (source / "lineage.json").write_text(json.dumps({"parent": {"dit.pt": "a"}, "transformer": {"steps": 5}, "autoencoder": {"steps": 9}}))
    plan = TransformerPlan(
        steps=4, batch=1, warmup=1, bfloat16=1, served_from=0.5, squared_until=0.75, serving_share=1.0, own_share=1.0, pool_first=1, pool_capacity=2, clips_per_step=0.0,
        validation_clips=1, director_batch=2, measure_every=1,
    )
    stage = TransformerStage(tmp_path / "run", source, plan, 1, CPU, from_nothing=True)
    taken = TransformerStage(tmp_path / "other", source, plan, 1, CPU)
    assert not torch.equal(stage.net.picture_experts[0].query_key_value.weight, taken.net.picture_experts[0].query_key_value.weight)
    assert all(torch.equal(a, b) for a, b in zip(stage.encoder.encoder.parameters(), taken.encoder.encoder.parameters()))
    before = {name: parameter.clone() for name, parameter in stage.net.named_parameters()}
    assert stage.train(IdleThreads(1), Never()) == 4  # type: ignore[arg-type]
    curves = read(tmp_path / "run" / "transformer.jsonl")
    assert {name: [step for step, _ in curves[name]] for name in ("denoise_squared_picture", "serving_squared_picture")} == {
        "denoise_squared_picture": [1, 2], "serving_squared_picture": [3],
    }
    unchanged = {name for name, parameter in stage.net.named_parameters() if torch.equal(parameter, before[name])}
    assert not {name for name in unchanged if name.startswith(("picture_", "sound_", "token_position", "modulation"))}, "a gradient is lost"
    lineage = export(tmp_path / "run", source, tmp_path / "out")
    assert lineage["transformer"]["from_nothing"] and "before" not in lineage["transformer"] and lineage["autoencoder"] == {"steps": 9}


def test_numbers_of_a_plan_come_from_the_command_line() -> None:
    plan = overridden(TransformerPlan(), ["steps=7", "muon_rate=2e-3"])
    assert (plan.steps, plan.muon_rate, plan.batch) == (7, 2e-3, TransformerPlan.batch)
    with pytest.raises(ValueError, match="speed"):
        overridden(TransformerPlan(), ["speed=1"])
    with pytest.raises(ValueError):
        overridden(TransformerPlan(), ["steps=many"])


def test_rendering_ahead_keeps_the_order_and_begins_where_it_is_told() -> None:
    for workers in (0, 2):
        ahead = RenderAhead(abs, 5, workers)
        assert [ahead.take() for _ in range(12)] == list(range(5, 17))
        ahead.close()
        ahead.close()


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    write_atomically({"step": 1}, path)

    class Unwritable:
        def __reduce__(self):
            raise RuntimeError("disk is full")

    with pytest.raises(RuntimeError):
        write_atomically({"step": Unwritable()}, path)
    assert torch.load(path, weights_only=False) == {"step": 1}


def test_swapping_the_average_twice_changes_nothing() -> None:
    module = nn.Linear(3, 3)
    average = WeightAverage(module, 0.9)
    with torch.no_grad():
        module.weight.add_(1)
    before = module.weight.detach().clone()
    average.update(module)
    average.swap(module)
    assert not torch.equal(module.weight, before)
    average.swap(module)
    assert torch.equal(module.weight, before)


def test_the_energy_score_prefers_the_true_spread() -> None:
    torch.manual_seed(0)
    truth = torch.randn(4000, 16)
    scores = {spread: float(energy_score(spread * torch.randn(2, 4000, 16), truth).mean()) for spread in (0.0, 0.5, 1.0, 1.6)}
    assert min(scores, key=scores.__getitem__) == 1.0


def test_orthogonalised_updates_have_singular_values_near_one() -> None:
    torch.manual_seed(0)
    for shape in ((2, 24, 96), (2, 96, 24)):
        values = torch.linalg.svdvals(orthogonalised(torch.randn(*shape)))
        assert 0.6 < float(values.min()) and float(values.max()) < 1.4


def test_psnr_and_gradient_of_known_pictures() -> None:
    black, grey = torch.full((1, 3, 8, 8), -1.0), torch.full((1, 3, 8, 8), -0.8)
    assert abs(float(psnr(grey, black)) - 20) < 1e-3  # a tenth of the range
    stripes = torch.tensor([-1.0, 1.0]).repeat(4).expand(1, 3, 8, 8)
    assert float(gradient_amount(stripes)) == 2.0 and float(gradient_amount(black)) == 0.0


def test_curves_are_read_back_and_drawn(tmp_path: Path) -> None:
    log = CurveLog(tmp_path / "log.jsonl")
    log.write(1, loss=2.0, note="text is kept, not drawn")
    log.write(2, loss=1.0)
    log.close()
    series = read(tmp_path / "log.jsonl")
    assert series == {"loss": [(1, 2.0), (2, 1.0)]}
    draw(series, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["note"].startswith("text")
    assert np.isfinite(series["loss"][0][1])


def _source(folder: Path) -> Path:
    """A base of random weights, as training exports one."""
    folder.mkdir()
    torch.manual_seed(9)
    net = DriveTransformer()
    initialise(net)
    torch.nn.init.normal_(net.picture_output.weight, std=0.05)
    torch.save(source_state(net, key_mapping.TRANSFORMER) | rotary_tables(), folder / "dit.pt")
    torch.save(source_state(PictureAutoencoder(), key_mapping.AUTOENCODER), folder / "vae.pt")
    torch.save([torch.zeros(16), torch.ones(16), torch.zeros(32), torch.ones(32)], folder / "norm.pt")
    return folder


def test_adapter_stage_trains_only_the_adapter_resumes_and_starts_from_an_earlier_one(tmp_path: Path) -> None:
    source = _source(tmp_path / "source")
    plan = AdapterPlan(steps=4, batch=1, warmup=1, pool_first=2, pool_capacity=2, clips_per_step=0.0, validation_clips=1, measure_every=50)

    def fresh(folder: str, base: Path = source) -> AdapterStage:
        return AdapterStage("noir", tmp_path / folder, base, plan, 1, CPU)

    straight = fresh("a")
    before = {name: value.clone() for name, value in straight.net.state_dict().items() if "lora" not in name}
    assert straight.train(IdleThreads(1), Never()) == 4  # type: ignore[arg-type]
    assert all(torch.equal(value, straight.net.state_dict()[name]) for name, value in before.items()), "the base is frozen"
    assert (np.asarray(straight.pool.plain[0], np.float32) != np.asarray(straight.pool.tokens[0], np.float32)).any()
    assert fresh("b").train(IdleThreads(1), After(4)) < 4  # type: ignore[arg-type]
    resumed = fresh("b")
    assert resumed.train(IdleThreads(1), Never()) == 4  # type: ignore[arg-type]
    ours, theirs = straight.adapter(), resumed.adapter()
    assert all(torch.equal(ours.tensors[key], theirs.tensors[key]) for key in ours.tensors)
    written = Adapter.read(tmp_path / "b" / "noir.safetensors", sha256_of(source / "dit.pt"))
    assert written.title == "Noir" and any(value.any() for key, value in written.tensors.items() if key.endswith("lora_B"))
    later = fresh("c")
    later.start_from(written)
    assert all(torch.equal(value, written.tensors[key]) for key, value in later.adapter().tensors.items())
    other = _source(tmp_path / "other")
    torch.save(torch.load(other / "dit.pt", weights_only=True) | {"pos": torch.zeros(32, 192)}, other / "dit.pt")
    with pytest.raises(ValueError, match="take another --run"):
        fresh("b", other).train(IdleThreads(1), Never())  # type: ignore[arg-type]
