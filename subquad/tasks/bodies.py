"""Bodies of transformers as tasks: vectors of texts, or a language model."""

from torch import Tensor

from subquad.models import foreign, tables
from subquad.tasks.embed import Embed
from subquad.tasks.language import Language

#: Tables with a row for each token.
_TOKENS = ("embedding.tokens.weight", "head.weight")


def task_of(body: foreign.Body) -> Embed | Language:
    """The task that uses a body as it is."""
    return Language.of(body) if body.family.causal else Embed.of(body)


def tensors_of(body: foreign.Body, *, vocabulary: int, length: int) -> dict[str, Tensor]:
    """A body's tensors with as many tokens and positions as a run needs.

    Raises:
        SubquadError: the body has vectors for fewer tokens.
    """
    made = dict(body.tensors)
    for name, tensor in body.tensors.items():
        if name.endswith(_TOKENS):
            made[name] = tables.tokens(tensor, vocabulary, str(body.tokenizer.parent))
        elif name.endswith("embedding.positions.weight"):
            made[name] = tables.positions(tensor, length)
    return made
