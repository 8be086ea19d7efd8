"""Every form equals its definition: outputs, gradients, first and last states, at any length."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from subquad.kernels import status
from subquad.mixers import fnet, linear, pooling, softmax
from subquad.mixers.fastformer import bidirectional as fastformer
from subquad.mixers.fastformer import causal as fastformer_causal
from subquad.mixers.fastformer.causal import PooledState
from subquad.mixers.fnet.transforms import TRANSFORMS
from subquad.mixers.linear.feature_maps import FEATURE_MAPS
from tests.cases import CASES, Case
from tests.checks import close, same

LENGTHS = [0, 1, 2, 3, 17, 63, 64, 65, 127, 128, 130]
NO_CORE = pytest.mark.skipif(not status().native, reason=f"no native core: {status().reason}")
FORMS = [
    pytest.param(name, marks=[NO_CORE] if name == "native" else []) for name in linear.CAUSAL_FORMS
]
FAST = [form for form in FORMS if form.values != ("quadratic",)]


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()


def some(b: int, t: int) -> Tensor:
    return torch.rand(b, t) < 0.7


def gradients(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    if not y.requires_grad:  # no tokens and no state: nothing depends on anything
        return [torch.zeros_like(i) for i in inputs]
    weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.dtype)
    return list(torch.autograd.grad((y * weight).sum(), inputs, materialize_grads=True))


def compare(found: dict[str, Tensor], expected: dict[str, Tensor], inputs: list[Tensor]) -> None:
    """All outputs, and the gradients through all of them together."""
    for name, tensor in expected.items():
        close(found[name].detach(), tensor.detach(), name)
    flat = [torch.cat([o.flatten() for o in outputs.values()]) for outputs in (found, expected)]
    for i, pair in enumerate(zip(*(gradients(y, inputs) for y in flat), strict=True)):
        close(*pair, f"gradient of input {i}", 1e-10)


@pytest.mark.parametrize("begun", [False, True], ids=["from-nothing", "continued"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("t", LENGTHS)
@pytest.mark.parametrize("form", FAST)
def test_linear_forms(form: str, t: int, masked: bool, begun: bool) -> None:
    k, m = (4, 3) if t % 2 else (2, 5)
    inputs = [normal(2, 2, t, k), normal(2, 2, t, k), normal(2, 2, t, m)]
    mask = some(2, t) if masked else None
    state = None
    if begun:
        inputs += [normal(2, 2, k, m), normal(2, 2, k).detach().abs().requires_grad_()]
        state = linear.LinearState(s=inputs[3], z=inputs[4])
    outputs = []
    for name in (form, "quadratic"):
        y, end = linear.CAUSAL_FORMS[name](*inputs[:3], mask=mask, state=state)
        outputs.append({"y": y} | end.tensors())
    compare(*outputs, inputs)


@pytest.mark.parametrize("phi", list(FEATURE_MAPS.values()), ids=list(FEATURE_MAPS))
@pytest.mark.parametrize("k", [1, 3, 17, 24, 64, 96])
@pytest.mark.parametrize("form", FAST)
def test_x14_linear_forms_at_any_head_size(form: str, k: int, phi) -> None:
    inputs = [normal(1, 2, 70, k), normal(1, 2, 70, k), normal(1, 2, 70, 2)]
    outputs = []
    for name in (form, "quadratic"):
        y, end = linear.CAUSAL_FORMS[name](*inputs, phi=phi)
        outputs.append({"y": y} | end.tensors())
    compare(*outputs, inputs)


@pytest.mark.parametrize("phi", list(FEATURE_MAPS.values()), ids=list(FEATURE_MAPS))
def test_linear_both_ways_is_the_last_causal_output_for_every_token(phi) -> None:
    """The last token of a causal row reads the whole row, as every token does both ways."""
    q, k, v = normal(2, 2, 70, 3), normal(2, 2, 70, 3), normal(2, 2, 70, 5)
    mask = some(2, 70)
    both = linear.bidirectional(q, k, v, phi=phi, mask=mask)
    for i in (0, 33, 69):
        asked = torch.cat([q[:, :, 70 - 69 :], q[:, :, i : i + 1]], dim=2)
        last = linear.quadratic(asked, k, v, phi=phi, mask=mask)[0][:, :, -1]
        close(both[:, :, i].detach(), last.detach(), f"token {i}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS)
def test_b14_linear_forms_at_low_precision_stay_near_the_exact_result(
    form: str, dtype: torch.dtype
) -> None:
    """Only the inputs and the output are rounded; what is between is fp32."""
    q, k, v = (normal(1, 2, 300, 16, dtype=dtype).detach() for _ in range(3))
    y, end = linear.CAUSAL_FORMS[form](q, k, v)
    exact, exact_end = linear.quadratic(q.double(), k.double(), v.double())
    assert y.dtype == dtype
    close(y.double(), exact, "y", max(1e-5, 2 * torch.finfo(dtype).eps))
    close(end.s.double(), exact_end.s, "s", 1e-5)
    close(end.z.double(), exact_end.z, "z", 1e-5)


def test_forms_are_the_same_under_autocast() -> None:
    """B02: autocast would take every product of the sums to half precision."""
    q, k, v = (normal(2, 2, 100, 4, dtype=torch.float32).detach() for _ in range(3))
    x, mask = torch.randn(2, 9, 8), some(2, 9)

    def everything() -> dict[str, Tensor]:
        found = {"both ways": linear.bidirectional(q, k, v), "softmax": softmax.definition(q, k, v)}
        for name, form in linear.CAUSAL_FORMS.items():
            if name == "native" and not status().native:
                continue
            y, end = form(q, k, v)
            found |= {name: y, f"{name} s": end.s, f"{name} z": end.z}
        found |= {"fnet": fnet.definition(x, mask), "full": fnet.full(x)}
        found |= {"by products": fnet.by_products(x, mask), "by groups": fnet.by_groups(x, mask)}
        heads, scores = x.unflatten(-1, (2, 4)).transpose(1, 2), x[..., :2].mT
        start = fastformer_causal.beginning(heads)
        for name, way in fastformer_causal.FORMS.items():
            found[f"prefix {name}"] = way(heads, scores, start)[0]
        return found | {"pool": pooling.pool(x, torch.randn_like(x[..., :2]) * 0, mask)}

    expected = everything()
    with torch.autocast("cpu", torch.bfloat16):
        found = everything()
    for name, tensor in expected.items():
        same(found[name], tensor, name)


@pytest.mark.parametrize("k", [1, 3, 17, 64])
@pytest.mark.parametrize(("q", "t"), [(1, 1), (5, 5), (65, 65), (3, 70), (1, 130)])
def test_softmax_fused(q: int, t: int, k: int) -> None:
    inputs = [normal(2, 2, q, k), normal(2, 2, t, k), normal(2, 2, t, 3)]
    allowed = torch.rand(2, q, t) < 0.6
    allowed[0, 0] = False  # a query that may read nothing
    for permitted in (None, allowed):
        found, expected = (f(*inputs, permitted) for f in (softmax.fused, softmax.definition))
        compare({"y": found}, {"y": expected}, inputs)


@pytest.mark.parametrize("begun", [False, True], ids=["from-nothing", "continued"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("t", LENGTHS)
@pytest.mark.parametrize("form", ["chunked", "recurrent"])
def test_prefix_pooling_forms(form: str, t: int, masked: bool, begun: bool) -> None:
    inputs = [normal(2, 2, t, 3), normal(2, 2, t)]
    mask = some(2, t) if masked else None
    start = fastformer_causal.beginning(inputs[0])
    if begun:
        inputs += [normal(2, 2, 3), normal(2, 2).detach().abs().requires_grad_()]
        start = PooledState(largest=torch.randn(2, 2).double(), total=inputs[2], weight=inputs[3])
    outputs, ends = [], []
    for name in (form, "quadratic"):
        y, end = fastformer_causal.FORMS[name](*inputs[:2], start, mask)
        outputs.append({"y": y, "total": end.total, "weight": end.weight})
        ends.append(end.largest)
    same(*ends, "the largest score")
    compare(*outputs, inputs)


@pytest.mark.parametrize("form", list(fastformer_causal.FORMS))
@pytest.mark.parametrize("height", [1e2, 1e4, 1e30])
def test_prefix_pooling_survives_any_scores(form: str, height: float) -> None:
    """A large score to come must not drown the small ones before it: each prefix has its own."""
    x = torch.arange(1.0, 131.0).view(1, 1, 130, 1)
    scores = torch.zeros(1, 1, 130)
    scores[..., 100] = height
    scores[..., 3] = -height
    start = fastformer_causal.beginning(x)
    means = fastformer_causal.FORMS[form](x, scores, start)[0].flatten()
    counted = torch.cat([x.flatten()[:3], x.flatten()[4:]])
    close(means[99], counted[:99].mean(), "before the large score", 1e-5)
    same(means[100:], torch.full((30,), 101.0), "from the large score on")
    same(means[0], torch.tensor(1.0), "the first")


@pytest.mark.parametrize("chosen", [{}, {"columns": 1}, {"columns": 5, "value": "own"}], ids=str)
@pytest.mark.parametrize("t", [1, 2, 65])
def test_fastformer_fused(t: int, chosen: dict) -> None:
    module = fastformer.Fastformer(8, heads=2, **chosen).double()
    x, mask = normal(3, t, 8), some(3, t)
    mask[0] = False
    for m in (None, mask):
        chain, again, w = module.chain(x), module.chain(x), module.transform.weight
        expected = nn.functional.linear(fastformer.additive_attention(chain, m), w)
        found = fastformer.fused(again, w, m)
        if m is not None:
            found, expected = (y.masked_fill(~m.unsqueeze(-1), 0) for y in (found, expected))
        compare({"y": found}, {"y": expected}, [x, *module.parameters()])


def test_one_causal_column_ends_where_the_bidirectional_fastformer_is() -> None:
    """With one column the last token has pooled what every token pools both ways."""
    x = normal(2, 70, 8).detach()
    both, causal = (Case("fastformer", c, {"columns": 1})() for c in (False, True))
    causal.load_state_dict(both.state_dict())
    close(causal(x)[:, -1].detach(), both(x)[:, -1].detach(), "the last token")


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize("t", [1, 2, 3, 8, 65, 127])
def test_fnet_forms(t: int, d: int) -> None:
    x, mask = normal(4, t, d), some(4, t)
    mask[0], mask[1] = True, False
    for form in (fnet.by_products, fnet.by_groups):
        compare({"y": form(x, mask)}, {"y": fnet.definition(x, mask)}, [x])
    for name in TRANSFORMS:
        compare({"y": fnet.full(x, name)}, {"y": fnet.definition(x, None, name)}, [x])
        grouped, expected = fnet.by_groups(x, mask, name), fnet.definition(x, mask, name)
        compare({"y": grouped}, {"y": expected}, [x])


def test_fnet_takes_the_form_for_long_rows_beyond_product_max() -> None:
    t = fnet.PRODUCT_MAX + 8
    x, mask = torch.randn(3, t, 4, dtype=torch.float64), some(3, t)
    close(fnet.FNet(4)(x, mask), fnet.definition(x, mask), "long rows", 1e-10)


def unchecked(program: str, **values: object) -> None:
    """Run ``program`` in an interpreter without the shape hook, as users run the code."""
    head = "import torch; from tests.cases import Case; from tests.checks import close, rows\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + program, *map(str, values.values())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_exported_is_eager() -> None:
    """torch.export, made at one length, is right at others; a mask is an input of the graph."""
    unchecked(EXPORT, names=",".join(case.name for case in CASES if not case.causal))


EXPORT = """
import sys
from torch.export import Dim, export
for name in sys.argv[1].split(","):
    module = Case(name, False, dtype=torch.float32)()
    b, t = Dim("b", min=1, max=64), Dim("t", min=2, max=500)
    shapes = {"x": {0: b, 1: t}, "mask": {0: b, 1: t}}
    mask = torch.rand(3, 16) < 0.7
    graph = export(module, (rows(3, 16, torch.float32), mask), dynamic_shapes=shapes).module()
    for b, t in ((1, 2), (2, 17), (3, 300)):
        x, mask = rows(b, t, torch.float32, seed=t), torch.rand(b, t) < 0.7
        close(graph(x, mask), module(x, mask), f"{name} exported, at {b}x{t}")
        close(graph(x, mask | True), module(x), f"{name} exported, at {b}x{t} without padding")
"""


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_x01_compiled_is_eager(case: Case) -> None:
    unchecked(COMPILE, name=case.name, causal=case.causal)


COMPILE = """
import sys
name, causal = sys.argv[1], sys.argv[2] == "True"
for dtype in (torch.float32, torch.bfloat16):
    module = Case(name, causal, dtype=dtype)()
    fast = torch.compile(module, dynamic=True)
    for t in (3, 64, 130):
        x, mask = rows(2, t, dtype), torch.rand(2, t) < 0.7
        for m in (None, mask):
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            y, z = fast(a, m), module(b, m)
            close(y.detach(), z.detach(), f"{dtype} compiled at {t}")
            y.square().sum().backward(), z.square().sum().backward()
            allowed = 0.05 if dtype == torch.bfloat16 else 1e-4
            close(a.grad, b.grad, f"{dtype} gradients compiled at {t}", allowed)
"""
