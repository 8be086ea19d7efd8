"""torch.compile and torch.export leave the core's operators whole (for test_kernels_operators)."""

import torch

from subquad.mixers import linear


def compile_keeps_it_whole() -> None:
    mixer = linear.CausalLinearAttention(8, heads=2, form="native")
    x = torch.randn(2, 11, 8)
    right = mixer(x)
    right.sum().backward()
    gradient = mixer.projections.qkv.weight.grad.clone()
    mixer.zero_grad()
    seen = []

    def backend(graph, _):
        seen.append([str(n.target) for n in graph.graph.nodes if n.op == "call_function"])
        return graph.forward

    torch.testing.assert_close(torch.compile(mixer, backend=backend, fullgraph=True)(x), right)
    assert sum("subquad.causal_linear" in name for name in seen[0]) == 1
    torch._dynamo.reset()
    out = torch.compile(mixer, backend="aot_eager", fullgraph=True)(x)
    out.sum().backward()
    torch.testing.assert_close(out, right)
    torch.testing.assert_close(mixer.projections.qkv.weight.grad, gradient)


def export_keeps_it_whole() -> None:
    for cls in (linear.CausalLinearAttention, linear.LinearAttention):
        mixer = cls(8, heads=2, form="native").eval()
        t = torch.export.Dim("t", min=2, max=512)
        program = torch.export.export(mixer, (torch.randn(1, 6, 8),), dynamic_shapes=({1: t},))
        calls = [str(n.target) for n in program.graph.nodes if "subquad" in str(n.target)]
        assert len(calls) == 1
        x = torch.randn(1, 37, 8)
        torch.testing.assert_close(program.module()(x), mixer(x))


if __name__ == "__main__":
    compile_keeps_it_whole()
    export_keeps_it_whole()
