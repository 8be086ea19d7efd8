"""The generation loop, which all decoding strategies share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from subquad.generation.decoder import Decoder, Streams
from subquad.generation.sampling import Sampling
from subquad.shapes import Mask, Tokens

#: A callback that is called with (tokens generated so far, tokens in total).
Progress = Callable[[int, int], None]
#: Tokens generated between two progress reports; Ctrl-C also waits for this many.
STRIDE = 16


def ignore(done: int, total: int) -> None:
    """The default callback, which does nothing."""


@dataclass(frozen=True)
class Extension:
    """The result of one iteration of the loop."""

    tokens: Int[Tensor, "n k"]
    """The new tokens of the rows that continue; the loop ends if there are none."""
    rows: Int[Tensor, "n"] | None = None
    """Indices of these rows among the decoder's rows, possibly with repetitions; None if all rows
    continue in the same order."""


class Strategy(ABC):
    """A decoding strategy: sampling (here), beam search (``beams``)."""

    @abstractmethod
    def extend(self, decoder: Decoder, unread: Tokens, most: int, /) -> Extension:
        """Read ``unread`` ``[b, t]`` and continue each row by at most ``most`` tokens, the last of
        which is not read yet."""


def continue_rows(
    decoder: Decoder, unread: Tokens, steps: int, strategy: Strategy, watch: Progress = ignore
) -> None:
    """Continue the decoder's rows with ``strategy`` by ``steps`` tokens, or until no row continues.

    ``unread`` ``[b, t]`` are tokens that the decoder has yet to read. Afterwards, the decoder still
    has all rows that took part in the last iteration.
    """
    done = 0
    while done < steps:
        new = strategy.extend(decoder, unread, steps - done)
        done += new.tokens.shape[1]
        watch(done, steps)
        if done == steps or not len(new.tokens):
            return
        if new.rows is not None:
            decoder.select(new.rows)
        unread = new.tokens[:, -1:]


@dataclass
class Sampler(Strategy):
    """Random sampling, with a separate random stream for each row."""

    how: Sampling
    streams: Streams
    taken: Callable[[Int[Tensor, "b k"]], Int[Tensor, "n"] | None]
    """Receives the new tokens of each row and returns the rows that continue (None: all)."""
    stride: int = STRIDE
    """Tokens between two calls of ``taken``."""
    last: Int[Tensor, "b"] | None = None
    """The last token of each row that took part in the last iteration."""

    def extend(self, decoder: Decoder, unread: Tokens, most: int, /) -> Extension:
        made = decoder.run(unread[:, -1], min(self.stride, most), self.how, self.streams)
        self.last = made[:, -1]
        rows = self.taken(made)
        if rows is None:
            return Extension(made)
        if len(rows):
            self.streams.keep(rows)
        return Extension(made[rows], rows)


def prefill(
    decoder: Decoder, prompt: Tokens, how: Sampling, streams: Streams, mask: Mask | None = None
) -> Int[Tensor, "b 1"]:
    """Read ``prompt`` ``[b, t]`` except for each row's last token, and return the last tokens.
    Where ``mask`` is False, a token is padding; the last token of a row must not be."""
    if how.repetition_penalty != 1:
        streams.note(prompt, decoder.model.outputs, mask)
    if prompt.shape[1] > 1:
        decoder.read(prompt[:, :-1], None if mask is None else mask[:, :-1])
    return prompt[:, -1:]


def continue_tokens(
    decoder: Decoder,
    prompt: Tokens,
    steps: int,
    how: Sampling,
    *,
    mask: Mask | None = None,
    streams: Streams | None = None,
    watch: Progress = ignore,
) -> Int[Tensor, "b steps"]:
    """Sample ``steps`` tokens after a prompt.

    Args:
        decoder: a decoder with ``b`` rows.
        prompt: ``[b, t]``, padded on the left; at least one real token per row.
        steps: number of tokens to generate.
        how: how tokens are sampled.
        mask: ``[b, t]``, False where the prompt is padding; None if there is no padding.
        streams: random streams of the rows; by default, those numbered 0 to b - 1.
        watch: called with the progress.

    Returns:
        The new tokens ``[b, steps]``; the decoder has read all of them except the last.
    """
    streams = streams or Streams.fresh(len(prompt))
    made = [prompt[:, :0]]
    sampler = Sampler(how, streams, taken=made.append)
    continue_rows(decoder, prefill(decoder, prompt, how, streams, mask), steps, sampler, watch)
    return torch.cat(made, dim=1)


def left_padded(
    rows: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "b t"], Tensor | None]:
    """Rows padded on the left to the same length, and the mask of real tokens (None if all are)."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
    if all(len(row) == longest for row in rows):
        return tokens, None
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(longest) >= (longest - lengths).unsqueeze(1)
