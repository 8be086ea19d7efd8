"""The step engine against torch: outputs, states, and what it draws."""

import threading

import pytest
import torch

from subquad.errors import UsageError
from subquad.generation import EngineDecoder, Sampling, Streams, TorchDecoder, continue_tokens
from subquad.generation.decoder import engine_refuses
from subquad.generation.packing import pack, rounded
from subquad.kernels import status
from subquad.mixers.linear.feature_maps import FEATURE_MAPS
from subquad.models import CausalModel, ModelConfig

pytestmark = pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")


def model(length=60, phi="elu+1", scale=6.0, **changes):
    chosen = {"layers": 2, "d": 48, "heads": 3, "ff": 77, "positions": "sinusoidal"} | changes
    chosen = {"mixers": ("linear",), "mixer_options": {"linear": {"feature_map": phi}}} | chosen
    config = ModelConfig(**chosen)
    made = CausalModel(config, inputs=33, outputs=32, length=length).eval()
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(scale)
    return made


def differs(engine, torch_way, tokens):
    """The largest difference of outputs over a row of steps, relative to the largest output."""
    worst = 0.0
    for i in range(tokens.shape[1]):
        ours, theirs = (d.read(tokens[:, i : i + 1]) for d in (engine, torch_way))
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max()))
    return worst


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
@pytest.mark.parametrize("weights", ["fp32", "bf16", "int8"])
def test_outputs_equal_torch_on_the_same_rounded_weights(norm, positions, weights):
    made = model(norm=norm, positions=positions)
    for rows in (1, 2, 5):
        engine = EngineDecoder(made, rows=rows, weights=weights)
        assert differs(engine, TorchDecoder(engine.model), torch.randint(0, 32, (rows, 8))) < 2e-5


@pytest.mark.parametrize("length", [1, 2, 29, 30, 31, 64, 127])
def test_token_by_token_equals_the_whole(length):
    """B14: at every length, and twice the same bits."""
    made = model(scale=3.0)
    tokens = torch.randint(0, 32, (2, length))
    found = []
    for _ in range(2):
        engine = EngineDecoder(made, rows=2)
        found.append(torch.stack([engine.read(tokens[:, i : i + 1]) for i in range(length)], 1))
    with torch.inference_mode():
        whole = made(tokens)
    torch.testing.assert_close(found[0], whole, rtol=1e-5, atol=1e-5)
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("phi", FEATURE_MAPS)
@pytest.mark.parametrize(
    ("d", "heads", "ff"), [(16, 2, 16), (24, 8, 5), (64, 1, 130), (30, 5, 48), (1, 1, 1)]
)
def test_any_shape_and_feature_map(phi, d, heads, ff):
    made = model(phi=phi, d=d, heads=heads, ff=ff)
    for rows in (1, 3):
        engine = EngineDecoder(made, rows=rows)
        tokens = torch.randint(0, 32, (rows, 6))
        assert differs(engine, TorchDecoder(made), tokens) < 5e-5


@pytest.mark.parametrize("width", [1, 2, 5, 40])
@pytest.mark.parametrize("local", [1, 3])
@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_convolutions_at_the_bottom(width, local, weights):
    mixers = ("convolution",) * local + ("linear",) * (3 - local)
    options = {"convolution": {"width": width}}
    made = model(mixers=mixers, mixer_options=options, layers=3, d=30, scale=3.0)
    tokens = torch.randint(0, 32, (2, 23))
    engine = EngineDecoder(made, rows=2, weights=weights)
    torch_way = TorchDecoder(engine.model)
    assert differs(engine, torch_way, tokens[:, :5]) < 5e-5
    engine.read(tokens), torch_way.read(tokens)  # long: torch reads it, and the state is written
    engine.select(torch.tensor([1, 0, 1]))
    torch_way.select(torch.tensor([1, 0, 1]))
    assert differs(engine, torch_way, tokens[:, :5].repeat(2, 1)[:3]) < 5e-5
    ours, theirs = engine.state(), torch_way.state()
    for mine, torchs in zip(ours.layers, theirs.layers, strict=True):
        for name, tensor in mine.tensors().items():
            torch.testing.assert_close(tensor, torchs.tensors()[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_neighbours_in_a_picture(weights):
    """Taps far apart: what lies between them weighs nothing."""
    made = model(
        mixers=("masked_convolution", "masked_convolution", "linear"),
        mixer_options={"masked_convolution": {"row": 7, "above": 2, "side": 1, "width": 2}},
        layers=3,
        positions="none",
    )
    for rows in (1, 3):
        engine = EngineDecoder(made, rows=rows, weights=weights)
        tokens = torch.randint(0, 32, (rows, 40))
        assert differs(engine, TorchDecoder(engine.model), tokens) < 2e-5


def test_convolutions_elsewhere_are_left_to_torch():
    made = model(mixers=("linear", "convolution"))
    assert engine_refuses(made).startswith(
        "layer 1, CausalConvolution, is above another kind of layer"
    )


def test_a_tied_head():
    made = model(tied=True)
    assert differs(EngineDecoder(made, rows=2), TorchDecoder(made), torch.ones(2, 5).long()) < 2e-5


@pytest.mark.parametrize("weights", ["fp32", "bf16", "int8"])
def test_4096_steps_stay_within_1e_4(weights):
    made = model(scale=3.0, layers=2, d=64, heads=4, ff=128)
    tokens = torch.randint(0, 32, (1, 4096))
    engine = EngineDecoder(made, rows=1, weights=weights)
    with torch.inference_mode():
        whole = engine.model(tokens)[0]
    steps = torch.cat([engine.read(tokens[:, i : i + 1]) for i in range(4096)])
    assert float((steps - whole).abs().max()) < 1e-4 * float(whole.abs().max())
    assert torch.equal(steps.argmax(-1), whole.argmax(-1))


def test_far_positions():
    """Sines of large angles: position 100,000 differs from torch no more than position 10."""
    made = model(layers=1)
    for position in (10, 100_000, 1_000_000):
        engine = EngineDecoder(made, rows=1)
        with torch.no_grad():
            _, state = made.scan(torch.tensor([[3]]))
        state.position.fill_(position)
        theirs = TorchDecoder(made, state=state)
        engine._write(state)
        assert differs(engine, theirs, torch.randint(0, 32, (1, 4))) < 2e-5


@pytest.mark.parametrize(
    "how",
    [
        Sampling(seed=5),
        Sampling(temperature=0.0),
        Sampling(temperature=0.7, top_k=5),
        Sampling(temperature=1.5, top_p=0.6, seed=2),
        Sampling(min_p=0.2, repetition_penalty=1.4),
        Sampling(top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=0.8, seed=9),
    ],
)
def test_it_draws_what_torch_draws(how):
    made = model(scale=4.0)
    prompt = torch.randint(0, 32, (4, 5))
    ours = continue_tokens(EngineDecoder(made, rows=4), prompt, 40, how)
    theirs = continue_tokens(TorchDecoder(made), prompt, 40, how)
    assert torch.equal(ours, theirs)


def test_states_go_both_ways():
    made = model()
    tokens = torch.randint(0, 32, (3, 20))
    engine, theirs = EngineDecoder(made, rows=3), TorchDecoder(made)
    engine.read(tokens), theirs.read(tokens)  # longer than SHORT: read in parallel
    assert differs(engine, theirs, torch.randint(0, 32, (3, 3))) < 2e-5
    a, b = engine.state(), theirs.state()
    assert a.position.tolist() == b.position.tolist() == [23] * 3
    for mine, other in zip(a.layers, b.layers, strict=True):
        torch.testing.assert_close(mine.s, other.s, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(mine.z, other.z, rtol=1e-4, atol=1e-4)
    resumed = EngineDecoder(made, rows=3, state=b)
    assert differs(resumed, theirs, torch.randint(0, 32, (3, 3))) < 2e-5


def test_rows_are_copied_dropped_and_reordered():
    made = model()
    tokens = torch.randint(0, 32, (4, 6))
    engine, theirs = EngineDecoder(made, rows=4), TorchDecoder(made)
    for decoder in (engine, theirs):
        decoder.read(tokens)
        decoder.select(torch.tensor([2, 0, 2, 2, 1]))
    assert differs(engine, theirs, torch.randint(0, 32, (5, 3))) < 2e-5
    assert len(set(engine.streams)) == 5


def test_streams_are_independent():
    """A stream's outputs do not depend on which others are there, or at what position."""
    made = model()
    alone = EngineDecoder(made, rows=1)
    tokens = torch.randint(0, 32, (1, 9))
    expected = [alone.read(tokens[:, i : i + 1]) for i in range(9)]
    engine = EngineDecoder(made, rows=3)
    others, mine = engine.streams[:2], engine.streams[2:]
    for i in range(9):
        engine.streams = [*others, *mine] if i % 2 else mine
        now = tokens[:, i : i + 1].expand(len(engine.streams), 1)
        assert torch.equal(engine.read(now)[-1:], expected[i])


def test_any_number_of_threads_gives_the_same_bits():
    made = model(d=64, heads=4, ff=100)
    prompt, found = torch.randint(0, 32, (5, 3)), []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            engine = EngineDecoder(made, rows=5)
            tokens = continue_tokens(engine, prompt, 25, Sampling(seed=1))
            found.append((tokens, engine.state().layers[-1].s))
    finally:
        torch.set_num_threads(before)
    for tokens, s in found[1:]:
        assert torch.equal(tokens, found[0][0])
        assert torch.equal(s, found[0][1])


def test_memory_is_flat_over_tokens_and_streams():
    def resident():
        with open("/proc/self/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    made = model()
    engine = EngineDecoder(made, rows=2)
    start, streams = torch.zeros(2, dtype=torch.long), Streams.fresh(2)
    engine.run(start, 2_000, Sampling(), streams)
    before = resident()
    engine.run(start, 20_000, Sampling(), streams)
    for _ in range(1_000):
        engine.select(torch.tensor([0, 1, 0, 1, 1]))
        engine.select(torch.tensor([3, 2]))
    assert resident() - before < 2_000
    assert len(engine.streams) == 2


def test_engines_live_side_by_side_in_threads():
    made = model()
    expected = continue_tokens(EngineDecoder(made, rows=1), torch.ones(1, 2).long(), 30, Sampling())
    found = []

    def work():
        engine = EngineDecoder(made, rows=1)
        found.append(continue_tokens(engine, torch.ones(1, 2).long(), 30, Sampling()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(torch.equal(one, expected) for one in found)


def test_what_it_cannot_do_is_refused():
    other = CausalModel(
        ModelConfig(mixers=("linear", "softmax"), layers=2, d=16, heads=2, ff=16),
        inputs=5,
        outputs=4,
        length=9,
    )
    with pytest.raises(
        UsageError, match=r"layer 1 is CausalSoftmaxAttention; the engine supports linear"
    ):
        pack(other)
    for changes, why in (
        ({"mixer_dense": True}, "mixer_dense"),
        ({"gelu": "exact"}, "tanh approximation"),
        ({"projection": True}, "projection"),
    ):
        with pytest.raises(UsageError, match=why):
            pack(model(**changes))
    assert pack(model(share_mixers=True)).block.any()
    engine = EngineDecoder(model(positions="learned", length=4), rows=1)
    with pytest.raises(ValueError, match="beyond those learned"):
        engine.run(torch.zeros(1).long(), 5, Sampling(), Streams.fresh(1))
    with pytest.raises(ValueError, match="no such token"):
        engine.read(torch.tensor([[33]]))
    with pytest.raises(ValueError, match="no such stream"):
        engine.engine.remove(7)


def test_int8_keeps_the_largest_of_each_row():
    w = torch.randn(5, 40)
    error = (rounded(w, "int8") - w).abs().amax(1)
    assert (error <= w.abs().amax(1) / 127 / 2 + 1e-7).all()
    assert torch.equal(rounded(torch.zeros(2, 3), "int8"), torch.zeros(2, 3))
