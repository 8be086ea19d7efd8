"""``--precision auto`` is the faster one: measured once, kept, not asked where it is known."""

import json
from dataclasses import replace

import pytest
import torch

from subquad import checkpoint
from subquad.cli.info import facts
from subquad.models import arithmetic, precision
from subquad.models.arithmetic import Times
from subquad.models.precision import resolve
from subquad.training import train
from tests.unit.test_training import tiny

CPU = torch.device("cpu")
SLOWER, FASTER = Times(bf16=0.016, fp32=0.010), Times(bf16=0.004, fp32=0.010)


@pytest.fixture
def announced(monkeypatch, tmp_path):
    """A processor that announces bf16; ``announced(times)`` says what measuring finds."""
    measured = []

    def machine(times):
        arithmetic.times.cache_clear()
        monkeypatch.setattr(arithmetic, "measure", lambda: measured.append(times) or times)
        return measured

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(precision, "native_bf16", lambda _: True)
    yield machine
    arithmetic.times.cache_clear()


@pytest.mark.parametrize(("times", "chosen"), [(SLOWER, "fp32"), (FASTER, "bf16")])
def test_auto_is_the_faster_one_and_measured_once(announced, times, chosen):
    measured = announced(times)
    assert resolve("auto", CPU) == resolve("auto", CPU) == chosen
    arithmetic.times.cache_clear()  # as in another process
    assert resolve("auto", CPU) == chosen
    assert measured == [times]
    kept = json.loads(arithmetic.cache_file().read_text())
    assert list(kept.values()) == [{"bf16": times.bf16, "fp32": times.fp32}]
    assert torch.__version__ in next(iter(kept))
    assert [resolve(p, CPU) for p in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"KEY": {"bf16": 0.1}}', '{"KEY": {"bf16": -1.0, "fp32": "x"}}']
)
def test_a_cache_that_says_nothing_is_written_anew(announced, content):
    measured = announced(FASTER)
    arithmetic.cache_file().parent.mkdir(parents=True)
    arithmetic.cache_file().write_text(content.replace("KEY", arithmetic._key()))
    assert resolve("auto", CPU) == "bf16"
    assert measured == [FASTER]
    assert json.loads(arithmetic.cache_file().read_text())[arithmetic._key()]["bf16"] == 0.004


def test_others_measurements_stay(announced):
    announced(FASTER)
    arithmetic.cache_file().parent.mkdir(parents=True)
    arithmetic.cache_file().write_text('{"another": {"bf16": 1.0, "fp32": 2.0}}')
    resolve("auto", CPU)
    assert len(json.loads(arithmetic.cache_file().read_text())) == 2


def test_without_a_place_for_a_cache_it_is_measured(announced, monkeypatch, tmp_path):
    measured = announced(SLOWER)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert resolve("auto", CPU) == "fp32"
    assert measured == [SLOWER]


def test_nothing_is_measured_where_bf16_is_not_announced(announced, monkeypatch):
    measured = announced(FASTER)
    monkeypatch.setattr(precision, "native_bf16", lambda _: False)
    assert resolve("auto", CPU) == "fp32"
    assert "not measured" in facts()["bf16 or fp32"]
    assert not measured


def test_info_says_both_figures_and_where_they_are(announced):
    announced(SLOWER)
    found = facts()
    assert found["default precision"] == "fp32"
    assert "16.0 ms in bf16, 10.0 ms in fp32" in found["bf16 or fp32"]
    assert str(arithmetic.cache_file()) in found["bf16 or fp32"]


def test_measuring_measures_and_draws_nothing():
    before = torch.get_rng_state()
    with torch.inference_mode():
        found = arithmetic.measure()
    assert torch.equal(torch.get_rng_state(), before)
    assert found.bf16 > 0
    assert found.fp32 > 0


def test_a_run_that_goes_on_keeps_its_precision(announced, tmp_path):
    announced(FASTER)
    config = tiny(steps=4, precision="auto", save_every=1)
    first = train(config, tmp_path / "run")
    assert first.config.training.precision == "bf16"
    announced(SLOWER)
    arithmetic.cache_file().unlink()
    longer = train(config, tmp_path / "run", resume=True)
    assert longer.config.training.precision == "bf16"
    assert checkpoint.checkpoints(tmp_path / "run")
    again = train(replace(config), tmp_path / "new")
    assert again.config.training.precision == "fp32"
