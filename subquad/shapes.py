"""One legend of dimension letters, and the shapes that every room of the house speaks.

======  ==============================================================
letter  meaning
======  ==============================================================
b       batch: independent rows
t       time: position in the sequence (the papers' N)
s       time where some tokens are left out
d       width of the model (FNet's d_h, Fastformer's d)
h       heads
k       width of a query or key in one head (the papers' D or C)
m       width of a value in one head (the papers' M)
v       vocabulary: tokens, pixel values
c       classes
======  ==============================================================

Shapes are checked in tests only (the test suite installs jaxtyping's import hook); in use they
are plain annotations and cost nothing.
"""

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

#: Hidden vectors of a batch of sequences.
Sequence: TypeAlias = Float[Tensor, "b t d"]
#: True = a real token. Padding may stand anywhere in the row: left, right or inside.
Mask: TypeAlias = Bool[Tensor, "b t"]
#: Token ids or pixel values.
Tokens: TypeAlias = Int[Tensor, "b t"]
#: Index of each real token among the real tokens of its row.
Positions: TypeAlias = Int[Tensor, "b t"]
#: Queries and keys, split into heads.
Heads: TypeAlias = Float[Tensor, "b h t k"]
#: Values, split into heads.
Values: TypeAlias = Float[Tensor, "b h t m"]
#: One vector per row.
Pooled: TypeAlias = Float[Tensor, "b d"]
#: Unnormalised log-probabilities.
Logits: TypeAlias = Float[Tensor, "b *t v"]
