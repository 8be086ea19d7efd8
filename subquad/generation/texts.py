"""Texts from a language run: many prompts, stop sequences, streaming, beams, saved states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
from subquad.generation.packing import Weights
from subquad.generation.sampling import Sampling
from subquad.generation.saved import Saved, fingerprint
from subquad.generation.streaming import TextStream
from subquad.models import CausalModel
from subquad.run import Run
from subquad.tasks.outputs import TextOutput

#: Tokens of a text, if nobody says how many.
USUAL_LENGTH = 200
#: Called with the number of a text and the piece of it that has become certain.
Listen = Callable[[int, str], None]


@dataclass(frozen=True)
class Text:
    """One generated text."""

    prompt: str
    text: str
    """The prompt and what follows it."""
    tokens: int
    """Tokens made."""
    ended: str
    """Why it ends there: ``length``, ``stop`` (a stop sequence) or ``end`` (it ended itself)."""
    score: float | None = None
    """Sum of log-probabilities of the tokens made, of beams."""


@dataclass(frozen=True)
class Texts:
    """Generated texts and what they cost."""

    texts: list[Text]
    """All samples of the first prompt, then of the second, …"""
    served_by: str
    """``step engine`` or ``torch scan``."""
    state_bytes: int
    """Size of the state of one text at the end."""
    saved: Saved | None = None
    """Where the one text can be continued, if that was asked for."""

    @property
    def tokens(self) -> int:
        return sum(text.tokens for text in self.texts)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be written."""

    prompts: Sequence[str] = ("",)
    samples: int = 1
    """Texts for each prompt."""
    length: int | None = None
    """Most tokens of each text; None = ``USUAL_LENGTH``, or what fits learned positions."""
    stop: Sequence[str] = ()
    """A text ends before the first of these."""
    beams: int = 1
    """More than 1: the likeliest texts that a search of this width finds, instead of samples."""
    weights: Weights = "fp32"
    """Precision of the step engine's weights."""
    state: Saved | None = None
    """Continue from here; a prompt is read after it."""
    save: bool = False
    """Also return where the text can be continued."""


def write(
    run: Run,
    request: Request,
    how: Sampling,
    *,
    watch: Progress = ignore,
    listen: Listen | None = None,
) -> Texts:
    """Write texts with a language run.

    Raises:
        UsageError: the run is of another task, a prompt and length do not fit the positions that
            the model has learned, or parts of the request do not go together.
    """
    task, model = run.task.generates(), run.model
    if not isinstance(task, TextOutput) or not isinstance(model, CausalModel):
        raise UsageError(f"{run.path} is a {run.config.task} run; it writes no texts")
    _check(request, how)
    if request.state is not None:
        request.state.check(run, request.weights)
    rows = [_ids(task, prompt, request) for prompt in request.prompts]
    length = _length(run, rows, request)
    job = _Job(run, task, request, how, length, watch, listen)
    return job.beams(rows) if request.beams > 1 else job.samples(rows)


def _check(request: Request, how: Sampling) -> None:
    one = len(request.prompts) * request.samples == 1
    if (request.state is not None or request.save) and not one:
        raise UsageError("a state belongs to one text: give one prompt, and one sample of it")
    if "" in request.stop:
        raise UsageError("a stop sequence is empty")
    if request.state is not None and how.repetition_penalty != 1:
        raise UsageError("a saved state does not tell which tokens its text holds: no penalty")
    if request.beams > 1:
        if request.state is not None or request.save or request.stop:
            raise UsageError("beams know no saved states and no stop sequences")
        if request.samples > request.beams:
            raise UsageError(f"{request.beams} beams give at most {request.beams} texts a prompt")
        if how != Sampling(seed=how.seed):
            raise UsageError("beams take the likeliest: temperature, top-k and so on mean nothing")


def _ids(task: TextOutput, prompt: str, request: Request) -> list[int]:
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError("the prompt is not valid UTF-8 text") from None
    before = [task.start] if request.state is None else [request.state.token]
    return [*before, *task.tokenizer.encode([prompt])[0]]


def _length(run: Run, rows: Sequence[list[int]], request: Request) -> int:
    longest = max(map(len, rows))
    read = 0 if request.state is None else int(request.state.state.position[0])
    limit = run.config.data.length
    if run.config.model.positions != "learned":
        return request.length or USUAL_LENGTH
    room = limit - read - longest + 1
    length = request.length or max(1, min(USUAL_LENGTH, room))
    if length > room:
        raise UsageError(
            f"a prompt of {read + longest - 1} tokens and {length} more go beyond the {limit} "
            f"positions that {run.path} has learned; ask for at most {max(room, 0)}, "
            "or train with --positions none above a convolution"
        )
    return length


@dataclass
class _Row:
    """A text in the making."""

    number: int
    prompt: str
    stream: TextStream
    pieces: list[str]
    tokens: int = 0
    ended: str = ""


@dataclass
class _Going:
    """The texts that have not ended, as the decoder's rows stand."""

    rows: list[_Row]
    take: Callable[[_Row, int], None]

    def taken(self, drawn: Int[Tensor, "b k"]) -> Int[Tensor, "n"] | None:
        """Give each row its new tokens; return the rows that go on (None: all)."""
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
    """A request in hand."""

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
        """A sample's random stream is its number among those of its prompt: the same prompt and
        seed give the same texts, whichever other prompts stand beside it."""
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
        assert last is not None, "at least one token is drawn"
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
        if token == self.task.start:
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
                end=self.task.start,
                watch=partial(self._searched, n, len(prompts)),
            )
            state_bytes, name = decoder.nbytes // self.request.beams, decoder.name
            for beam in found[: self.request.samples]:
                own = [t for t in beam.tokens if t != self.task.start]
                stream = TextStream(self.task.tokenizer.decode, after=ids)
                text = prompt + "".join(map(stream.push, own)) + stream.finish()
                ended = "end" if len(own) < len(beam.tokens) else "length"
                finished.append(Text(prompt, text, len(beam.tokens), ended, beam.score))
        return Texts(finished, name, state_bytes)


def read_prompts(path: Path | str) -> list[str]:
    """The lines of a file.

    Raises:
        UsageError: it is empty.
    """
    lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    if not lines:
        raise UsageError(f"{path} is empty: one prompt per line is expected")
    return lines
