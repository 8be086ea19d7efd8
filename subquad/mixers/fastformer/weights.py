"""What the bidirectional and the causal Fastformer share: the weights and all options.

Global vectors are computed in a chain of ``columns``. The first column holds the queries, each
further one its own keys. Each is pooled into a global vector, which interacts with the tokens of
the next column; the last one interacts with the values. The paper has two columns: query and key.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from subquad.mixers.base import Mixer, at_own_precision, head_width
from subquad.mixers.capabilities import Channel, Explanation
from subquad.mixers.pooling import softmax_over_time
from subquad.shapes import Mask, Sequence

Interaction = Literal["product", "add", "concat"]
Value = Literal["query", "own"]
ScoreOver = Literal["all_heads", "own_head"]
Scale = Literal["head", "width"]

#: One vector for all tokens, or one per token.
Globals: TypeAlias = Float[Tensor, "b one d"]

#: The largest number of columns.
COLUMNS = 64


@at_own_precision
def meet(
    kind: Interaction, g: Globals, x: Sequence, join: Float[Tensor, "d two_d"] | None = None
) -> Float[Tensor, "b t e"]:
    """The interaction ∗ of a global vector ``g``, ``[b, 1, d]`` or one per token, with the tokens
    of a column. ``"concat"`` gives ``[b, t, 2d]``, projected back by ``join`` ``[d, 2d]``."""
    if kind == "product":
        return g * x
    if kind == "add":
        return g + x
    both = torch.cat([g.expand_as(x), x], dim=-1)
    return both if join is None else nn.functional.linear(both, join.to(both.dtype))


@dataclass(frozen=True)
class Chain:
    """The projections of a sequence, and how its columns are scored and interact."""

    columns: tuple[Sequence, ...]
    """The queries, then the keys of each further column, ``[b, t, d]``."""
    v: Sequence
    scores: tuple[Float[Tensor, "h d"], ...]
    """The score vectors of all heads, per column."""
    scale: float
    """Scores are divided by this."""
    interaction: Interaction = "product"
    join: tuple[Float[Tensor, "d two_d"], ...] = ()
    """With ``"concat"``, a projection for each column after the first."""

    def joined(self, column: int) -> Tensor | None:
        """The projection of a concatenated ``column`` (counted from 0) back to width d."""
        return self.join[column - 1] if self.join else None

    def wide(self) -> "Chain":
        """The same in fp32 (or fp64 if given)."""
        to = torch.promote_types(self.v.dtype, torch.float32)
        return replace(
            self,
            columns=tuple(x.to(to) for x in self.columns),
            v=self.v.to(to),
            scores=tuple(w.to(to) for w in self.scores),
            join=tuple(w.to(to) for w in self.join),
        )


class AdditiveAttention(Mixer):
    """The weights of a Fastformer.

    Args:
        d: model width, a multiple of ``heads``.
        heads: number of attention heads.
        columns: columns in the chain, 1 to 64; the paper's 2 are query and key.
        query_residual: add the query to the output.
        value: values are the ``"query"``, or have their ``"own"`` projection.
        interaction: how a global vector is combined with tokens: element-wise ``"product"``,
            ``"add"``, or ``"concat"`` followed by a projection.
        score_over: the score vectors read the features of ``"all_heads"``, or of their
            ``"own_head"`` only.
        scale: scores are divided by the square root of the ``"head"`` width, or of the whole
            ``"width"``.
    """

    def __init__(
        self,
        d: int,
        *,
        heads: int,
        columns: int = 2,
        query_residual: bool = True,
        value: Value = "query",
        interaction: Interaction = "product",
        score_over: ScoreOver = "all_heads",
        scale: Scale = "head",
    ) -> None:
        super().__init__(d)
        width = head_width(d, heads)
        if not isinstance(columns, int) or isinstance(columns, bool) or not 1 <= columns <= COLUMNS:
            raise ValueError(f"columns={columns!r} is not a whole number from 1 to {COLUMNS}")
        if not isinstance(query_residual, bool):
            raise ValueError(f"query_residual={query_residual!r} is not true or false")
        self.columns, self.query_residual = columns, query_residual
        self.own_value = _known("value", value, Value) == "own"
        self.interaction: Interaction = interaction
        concat = _known("interaction", interaction, Interaction) == "concat"
        self.own_head = _known("score_over", score_over, ScoreOver) == "own_head"
        self.scale = math.sqrt(width if _known("scale", scale, Scale) == "head" else d)
        #: Queries, the keys of each further column, and own values, in this order.
        self.qk = nn.Linear(d, (columns + self.own_value) * d)
        reads = width if self.own_head else d
        self.score_q = nn.Linear(reads, heads, bias=False)
        more = columns - 1
        self.score_k = nn.Linear(reads, more * heads, bias=False) if more else None
        self.join = nn.Linear(2 * d, more * d, bias=False) if more and concat else None
        self.transform = nn.Linear(2 * d if concat else d, d)

    def chain(self, x: Sequence) -> Chain:
        """The projections of a row."""
        parts = self.qk(x).chunk(self.columns + self.own_value, dim=-1)
        d, more = x.shape[-1], self.columns - 1
        keys = () if self.score_k is None else self.score_k.weight.chunk(more)
        scores = (self.score_q.weight, *keys)
        return Chain(
            columns=tuple(parts[: self.columns]),
            v=parts[-1] if self.own_value else parts[0],
            scores=tuple(_block_diagonal(w) for w in scores) if self.own_head else scores,
            scale=self.scale,
            interaction=self.interaction,
            join=() if self.join is None else self.join.weight.split(d),
        )

    @abstractmethod
    def scores(self, x: Sequence, mask: Mask | None = None) -> list[Float[Tensor, "b t h"]]:
        """The scores behind α, and behind β of each further column, for every head and token."""

    def explain(self, x: Sequence, mask: Mask | None = None) -> Explanation:
        names = ["α, global query"]
        if self.columns > 1:
            names += ["β, global key", *(f"β{i}, global key {i}" for i in range(2, self.columns))]
        found = zip(names, self.scores(x, mask), strict=True)
        return Explanation({name: Channel(softmax_over_time(s, mask), s) for name, s in found})


def _block_diagonal(w: Float[Tensor, "h k"]) -> Float[Tensor, "h d"]:
    """Score vectors over each head's own features, expanded to vectors over all features."""
    h, k = w.shape
    blocks = torch.eye(h, dtype=w.dtype, device=w.device).unsqueeze(-1) * w
    return blocks.reshape(h, h * k)


def _known(name: str, chosen: str, kind: object) -> str:
    known = get_args(kind)
    if chosen not in known:
        raise ValueError(f"{name}={chosen!r} is not one of {', '.join(known)}")
    return chosen
