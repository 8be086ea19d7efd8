"""The letters used for tensor dimensions, and the shapes that are shared by all packages.

======  ==============================================================
letter  meaning
======  ==============================================================
b       batch size: independent sequences ("rows")
t       sequence length (the papers' N)
s       sequence length where it may differ from t, such as cached keys
d       model width, or hidden size (FNet's d_h, Fastformer's d)
h       number of heads
k       query and key width per head (the papers' D or C)
m       value width per head (the papers' M)
v       vocabulary size: tokens or pixel values
c       number of classes
======  ==============================================================

Shapes are checked in tests only, where the test suite installs jaxtyping's import hook. In normal
use they are plain annotations and cost nothing.
"""

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

#: Hidden states of a batch of sequences.
Sequence: TypeAlias = Float[Tensor, "b t d"]
#: True at real tokens, False at padding. Padding may be anywhere: left, right or in the middle.
Mask: TypeAlias = Bool[Tensor, "b t"]
#: Token ids or pixel values.
Tokens: TypeAlias = Int[Tensor, "b t"]
#: Index of each real token among the real tokens of its sequence.
Positions: TypeAlias = Int[Tensor, "b t"]
#: Queries or keys, split into heads.
Heads: TypeAlias = Float[Tensor, "b h t k"]
#: Values, split into heads.
Values: TypeAlias = Float[Tensor, "b h t m"]
#: One vector per sequence.
Pooled: TypeAlias = Float[Tensor, "b d"]
#: Unnormalised log-probabilities.
Logits: TypeAlias = Float[Tensor, "b *t v"]
