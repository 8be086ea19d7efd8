"""The loop of all generation: tokens after tokens, by a decoding strategy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from subquad.generation.decoder import Decoder, Streams
from subquad.generation.sampling import Sampling
from subquad.shapes import Mask, Tokens

#: Called with the number of tokens made so far, of how many.
Progress = Callable[[int, int], None]
#: Tokens drawn between two looks at the world (progress, Ctrl-C).
STRIDE = 16


def ignore(done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Extension:
    """What one turn of the loop made."""

    tokens: Int[Tensor, "n k"]
    """The new tokens of the rows that go on; no rows end the loop."""
    rows: Int[Tensor, "n"] | None = None
    """Which of the decoder's rows these are, in this order (a row may be there twice); None: all
    of them as they stand."""


class Strategy(ABC):
    """A decoding strategy: sampling (here), beam search (``beams``)."""

    @abstractmethod
    def extend(self, decoder: Decoder, unread: Tokens, most: int, /) -> Extension:
        """Read ``unread`` ``[b, t]`` and continue each row by at most ``most`` tokens, of which the
        last has not been read."""


def continue_rows(
    decoder: Decoder, unread: Tokens, steps: int, strategy: Strategy, watch: Progress = ignore
) -> None:
    """Let ``strategy`` continue the decoder's rows, which have yet to read ``unread`` ``[b, t]``,
    by ``steps`` tokens, or until no row goes on. The decoder is left with every row that took part
    in the last turn."""
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
    """Rows drawn at random, each from its own stream."""

    how: Sampling
    streams: Streams
    taken: Callable[[Int[Tensor, "b k"]], Int[Tensor, "n"] | None]
    """Given the new tokens of each row; answers which rows go on (None: all)."""
    stride: int = STRIDE
    """Tokens between two calls of ``taken``."""
    last: Int[Tensor, "b"] | None = None
    """The last token of each row that took part in the last turn."""

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
    """Read all of ``prompt`` ``[b, t]`` but its last tokens, and return those. Where ``mask`` is
    False a token is padding; the last of a row never is."""
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
    """Draw ``steps`` new tokens ``[b, steps]`` after ``prompt`` ``[b, t]`` (at least one real token
    each, the last of them at the end). The decoder has then read all but the last of them."""
    streams = streams or Streams.fresh(len(prompt))
    made = [prompt[:, :0]]
    sampler = Sampler(how, streams, taken=made.append)
    continue_rows(decoder, prefill(decoder, prompt, how, streams, mask), steps, sampler, watch)
    return torch.cat(made, dim=1)


def left_padded(
    rows: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "b t"], Tensor | None]:
    """Rows that end together, and which tokens are real (None: all)."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
    if all(len(row) == longest for row in rows):
        return tokens, None
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(longest) >= (longest - lengths).unsqueeze(1)
