"""Texts from a language run: sampling, stop sequences, streaming, beam search, saved states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from subquad.errors import UsageError
from subquad.generation.beams import search
from subquad.generation.continuing import (
    STRIDE,
    Progress,
    Sampler,
    continue_rows,
    ignore,
    left_padded,
    prefill,
)
from subquad.generation.decoder import Decoder, Streams, decoder_for
from subquad.generation.requests import Request, check, new_tokens, prompt_ids
from subquad.generation.sampling import Sampling
from subquad.generation.saved import Saved, fingerprint
from subquad.generation.streaming import TextStream
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.outputs import TextOutput

#: A callback for streaming: called with the number of a text and the next part of it.
Listen = Callable[[int, str], None]


@dataclass(frozen=True)
class Text:
    """One generated text."""

    prompt: str
    text: str
    """The prompt and its continuation."""
    tokens: int
    """Number of generated tokens."""
    ended: str
    """Why it ended: ``length``, ``stop`` (a stop sequence) or ``end`` (the model ended it)."""
    score: float | None = None
    """Sum of the log-probabilities of the generated tokens; only for beam search."""


@dataclass(frozen=True)
class Texts:
    """Generated texts and what they cost."""

    texts: list[Text]
    """All samples of the first prompt, then of the second, …"""
    served_by: str
    """``step engine`` or ``torch scan``."""
    state_bytes: int
    """Size of the decoder state of one text at the end."""
    saved: Saved | None = None
    """The decoder state for continuing the text, if ``Request.save`` was set."""

    @property
    def tokens(self) -> int:
        return sum(text.tokens for text in self.texts)


def write(
    run: Run,
    request: Request,
    how: Sampling,
    *,
    watch: Progress = ignore,
    listen: Listen | None = None,
) -> Texts:
    """Generate texts with a language run.

    Args:
        run: a trained ``language`` run.
        request: the prompts, and what to generate for them.
        how: how tokens are sampled.
        watch: called with the progress.
        listen: called with each new part of a text, for streaming.

    Raises:
        UsageError: the run is of another task, prompt and length do not fit into the model's
            learned positions, or parts of the request contradict each other.
    """
    task, model = run.task.generates(), run.model
    if not isinstance(task, TextOutput) or not isinstance(model, CausalModel):
        raise UsageError(
            f"{run.path} is a {run.config.task} run, which cannot generate text; use a language run"
        )
    check(request, how)
    if request.state is not None:
        request.state.check(run, request.weights)
    rows = [prompt_ids(task, prompt, request) for prompt in request.prompts]
    length = new_tokens(run, rows, request)
    job = _Job(run, task, request, how, length, watch, listen)
    return job.beams(rows) if request.beams > 1 else job.samples(rows)


@dataclass
class _Row:
    """A text while it is being generated."""

    number: int
    prompt: str
    stream: TextStream
    pieces: list[str]
    tokens: int = 0
    ended: str = ""


@dataclass
class _Going:
    """The texts that have not ended yet, in the order of the decoder's rows."""

    rows: list[_Row]
    take: Callable[[_Row, int], None]

    def taken(self, drawn: Int[Tensor, "b k"]) -> Int[Tensor, "n"] | None:
        """Give each row its new tokens; return the rows that continue (None: all)."""
        for row, tokens in zip(self.rows, drawn.tolist(), strict=True):
            for token in tokens:
                self.take(row, token)
        on = [i for i, row in enumerate(self.rows) if not row.ended]
        if len(on) == len(self.rows):
            return None
        self.rows = [self.rows[i] for i in on]
        return torch.tensor(on, dtype=torch.long)


@dataclass
class _Job:
    """A request that is being processed."""

    run: Run
    task: TextOutput
    request: Request
    how: Sampling
    length: int
    watch: Progress
    listen: Listen | None

    def _decoder(self, rows: int) -> Decoder:
        assert isinstance(self.run.model, CausalModel)
        saved = self.request.state
        state = None if saved is None else saved.state
        return decoder_for(self.run.model, rows=rows, state=state, weights=self.request.weights)

    def _streams(self, prompts: int) -> Streams:
        """One random stream per sample, numbered within its prompt, so that the same prompt and
        seed give the same texts, whatever the other prompts are."""
        numbers = np.tile(np.arange(self.request.samples, dtype=np.uint64), prompts)
        return Streams(numbers, np.zeros_like(numbers))

    def samples(self, prompts: Sequence[list[int]]) -> Texts:
        ids = [row for row in prompts for _ in range(self.request.samples)]
        named = [p for p in self.request.prompts for _ in range(self.request.samples)]
        decode = self.task.tokenizer.decode
        texts = [
            _Row(i, prompt, TextStream(decode, self.request.stop, row), [])
            for i, (prompt, row) in enumerate(zip(named, ids, strict=True))
        ]
        decoder = self._decoder(len(texts))
        saved = self.request.state
        streams = self._streams(len(prompts)) if saved is None else saved.streams()
        tokens, mask = left_padded(ids)
        unread = prefill(decoder, tokens, self.how, streams, mask)
        exact = bool(self.request.stop) or self.request.save or self.listen is not None
        going = _Going(texts, self._take)
        sampler = Sampler(self.how, streams, going.taken, 1 if exact else STRIDE)
        continue_rows(decoder, unread, self.length, sampler, self.watch)
        for row in texts:
            self._say(row, row.stream.finish())
            row.ended = row.ended or "length"
        last = sampler.last
        assert last is not None, "at least one token is generated"
        kept = None
        if self.request.save:
            state = decoder.state().clone()
            kept = Saved.of(state, last, streams, fingerprint(self.run), self.request.weights)
        state_bytes = decoder.nbytes // len(last)
        finished = [Text(t.prompt, t.prompt + "".join(t.pieces), t.tokens, t.ended) for t in texts]
        return Texts(finished, decoder.name, state_bytes, kept)

    def _take(self, row: _Row, token: int) -> None:
        if row.ended:
            return
        row.tokens += 1
        if token == self.task.end:
            row.ended = "end"
            return
        self._say(row, row.stream.push(token))
        if row.stream.stopped:
            row.ended = "stop"

    def _say(self, row: _Row, piece: str) -> None:
        if piece:
            row.pieces.append(piece)
            if self.listen is not None:
                self.listen(row.number, piece)

    def _searched(self, before: int, prompts: int, done: int, of: int) -> None:
        self.watch(before * of + done, of * prompts)

    def beams(self, prompts: Sequence[list[int]]) -> Texts:
        finished: list[Text] = []
        state_bytes, name = 0, ""
        for n, (prompt, ids) in enumerate(zip(self.request.prompts, prompts, strict=True)):
            decoder = self._decoder(1)
            found = search(
                decoder,
                torch.tensor([ids]),
                self.length,
                beams=self.request.beams,
                end=self.task.end,
                watch=partial(self._searched, n, len(prompts)),
            )
            state_bytes, name = decoder.nbytes // self.request.beams, decoder.name
            for beam in found[: self.request.samples]:
                own = [t for t in beam.tokens if t != self.task.end]
                stream = TextStream(self.task.tokenizer.decode, after=ids)
                text = prompt + "".join(map(stream.push, own)) + stream.finish()
                ended = "end" if len(own) < len(beam.tokens) else "length"
                finished.append(Text(prompt, text, len(beam.tokens), ended, beam.score))
        return Texts(finished, name, state_bytes)
