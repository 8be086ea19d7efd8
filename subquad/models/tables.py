"""Tables of embeddings that have another size than a model needs: cut, or positions repeated."""

import torch
from torch import Tensor

from subquad.errors import SubquadError


def tokens(weight: Tensor, vocabulary: int, where: str) -> Tensor:
    """The rows ``[vocabulary, d]`` that a tokenizer can reach; checkpoints often have more, because
    a round number of rows is faster on some hardware.

    Raises:
        SubquadError: there are fewer.
    """
    if len(weight) < vocabulary:
        raise SubquadError(
            f"{where} has vectors for {len(weight):,} tokens, but its tokenizer has "
            f"{vocabulary:,}: they do not belong together"
        )
    return weight[:vocabulary]


def positions(weight: Tensor, length: int) -> Tensor:
    """Learned positions ``[length, d]``: the first ones, or all of them over and over.

    Repetition is how Longformer (Beltagy et al. 2020, arXiv 2004.05150, section 5) starts from
    RoBERTa: attention to near tokens is then right everywhere but at the seams.
    """
    if len(weight) >= length:
        return weight[:length]
    return torch.cat([weight] * -(-length // len(weight)))[:length]
