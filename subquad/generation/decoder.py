"""Decoders read tokens, sample tokens and keep decoder states. There are two: the step engine (C++,
for linear attention with or without convolutions below it) and torch ``scan`` (any causal model).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from subquad.errors import UsageError
from subquad.generation.packing import Weights, pack, rounded_model, unsupported
from subquad.generation.sampling import CATEGORICAL, Head, Sampling, core_arguments, draw
from subquad.generation.state_layout import StateLayout
from subquad.models import CausalModel, ModelState
from subquad.shapes import Mask, Tokens

#: The engine reads prompts of up to this many tokens step by step; longer ones go through torch.
SHORT = 8


@dataclass
class Streams:
    """The random stream of each row, and the tokens that each row contains so far."""

    samples: npt.NDArray[np.uint64]
    """The number of each row's random stream."""
    drawn: npt.NDArray[np.uint64]
    """How many random numbers each row has used."""
    seen: Bool[Tensor, "b v"] | None = None
    """The tokens that each row contains; only kept for a repetition penalty."""

    @classmethod
    def fresh(cls, rows: int, first: int = 0) -> "Streams":
        """Unused streams with the numbers ``first``, ``first + 1``, …, one for each of ``rows``."""
        return cls(np.arange(first, first + rows, dtype=np.uint64), np.zeros(rows, np.uint64))

    def note(self, tokens: Tokens, outputs: int, mask: Mask | None = None) -> None:
        """Record that the rows contain ``tokens`` ``[b, t]`` where ``mask`` is True."""
        if self.seen is None:
            self.seen = torch.zeros(len(tokens), outputs, dtype=torch.bool)
        tokens = tokens.cpu()
        real = tokens < outputs  # a start token is never sampled
        if mask is not None:
            real = real & mask.cpu()
        rows = torch.arange(len(tokens)).unsqueeze(1).expand_as(tokens)
        self.seen[rows[real], tokens[real]] = True

    def draw(self, outputs: Float[Tensor, "b v"], how: Sampling, head: Head) -> Int[Tensor, "b"]:
        """Sample the next token of each row, in torch."""
        tokens = draw(outputs, how, self.samples, self.drawn, head=head, seen=self.seen)
        self.drawn = self.drawn + np.uint64(1)
        if self.seen is not None:
            self.note(tokens.unsqueeze(1), self.seen.shape[1])
        return tokens

    def keep(self, rows: Int[Tensor, "n"]) -> None:
        """Keep only these rows, in this order."""
        at = rows.cpu().numpy()
        self.samples, self.drawn = self.samples[at], self.drawn[at]
        self.seen = None if self.seen is None else self.seen[rows.cpu()].clone()


class Decoder(ABC):
    """A batch of sequences that are read and continued, each with its own decoder state."""

    #: The name to show to users.
    name: str
    model: CausalModel
    head: Head

    @abstractmethod
    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        """Read ``tokens`` ``[b, t]``, at least one per row, and return the outputs (usually logits)
        after the last one. Where ``mask`` ``[b, t]`` is False, a token is padding."""

    @torch.inference_mode()
    def run(
        self, tokens: Int[Tensor, "b"], steps: int, how: Sampling, streams: Streams
    ) -> Int[Tensor, "b steps"]:
        """Generate ``steps`` tokens per row, beginning by reading ``tokens`` ``[b]``. The last
        sampled token has not been read yet; ``streams`` is updated."""
        out = tokens.new_zeros(len(tokens), steps)
        for i in range(steps):
            tokens = streams.draw(self.read(tokens.unsqueeze(1)), how, self.head)
            out[:, i] = tokens
        return out

    @abstractmethod
    def select(self, rows: Int[Tensor, "n"]) -> None:
        """Continue with these rows, in this order; rows that are listed twice are copied."""

    @abstractmethod
    def state(self) -> ModelState:
        """A copy of the decoder states of all rows."""

    @property
    def nbytes(self) -> int:
        """Total size of the decoder states of all rows."""
        return self.state().nbytes


class TorchDecoder(Decoder):
    """Decodes with any causal model, using its ``scan``."""

    name = "torch scan"

    def __init__(
        self, model: CausalModel, *, state: ModelState | None = None, head: Head = CATEGORICAL
    ) -> None:
        self.model = model
        self.head = head
        self._state = state

    @torch.inference_mode()
    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        logits, self._state = self.model.scan(tokens, self._state, mask)
        return logits[:, -1].float()

    def select(self, rows: Int[Tensor, "n"]) -> None:
        if self._state is not None:
            self._state = self._state.select(rows.to(self._state.position.device))

    def state(self) -> ModelState:
        if self._state is None:
            raise UsageError("there is no decoder state yet: read at least one token first")
        return self._state


class EngineDecoder(Decoder):
    """Decodes with the C++ step engine, for linear-attention models. It reads the weights once per
    token for all rows, its states have a fixed size, and it allocates no memory while decoding.

    Args:
        model: the model.
        rows: batch size.
        state: decoder state to continue from; omitted, decoding begins from an empty state.
        weights: precision of the weight matrices. Long prompts are read by torch with the same
            rounded weights.
        head: what the model's outputs stand for.

    Raises:
        UsageError: the engine is not installed or cannot run this model.
    """

    name = "step engine"

    def __init__(
        self,
        model: CausalModel,
        *,
        rows: int,
        state: ModelState | None = None,
        weights: Weights = "fp32",
        head: Head = CATEGORICAL,
    ) -> None:
        from subquad.kernels.loading import CORE, REASON

        if CORE is None:
            raise UsageError(f"the step engine is not available: {REASON}")
        self.core = CORE
        self.packed = pack(model, weights)
        self.model = rounded_model(model, weights)
        self.head = head
        if CORE.block_bytes(self.packed.spec) != len(self.packed.block):
            raise AssertionError("the packed weights do not fill the engine's plan")
        threads = torch.get_num_threads()
        self.layout = StateLayout(self.packed.layers)
        self.size = CORE.state_floats(self.packed.spec)
        self.engine = CORE.Engine(self.packed.spec, self.packed.block.data_ptr(), threads)
        self.engine.reserve(rows)
        self.streams: list[int] = [self.engine.add() for _ in range(rows)]
        if state is not None:
            self._write(state)

    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        if mask is not None or tokens.shape[1] > SHORT:
            with torch.inference_mode():
                logits, state = self.model.scan(tokens, self.state(), mask)
            self._write(state)
            return logits[:, -1].clone()
        for i in range(tokens.shape[1]):
            now = tokens[:, i].to(torch.int32).contiguous()
            where = self.engine.step(self.streams, now.data_ptr())
        padded = -(-self.model.outputs // 16) * 16
        logits = _floats(where, len(self.streams) * padded).view(-1, padded)
        return logits[:, : self.model.outputs].clone()

    def run(
        self, tokens: Int[Tensor, "b"], steps: int, how: Sampling, streams: Streams
    ) -> Int[Tensor, "b steps"]:
        now = tokens.to(torch.int32).contiguous().clone()
        drawn = torch.zeros(len(tokens), steps, dtype=torch.int32)
        samples, first = np.ascontiguousarray(streams.samples), streams.drawn.copy()
        seen = 0 if streams.seen is None else streams.seen.data_ptr()
        self.engine.run(
            self.streams,
            now.data_ptr(),
            steps,
            core_arguments(how, self.head),
            samples.ctypes.data,
            first.ctypes.data,
            seen,
            drawn.data_ptr(),
        )
        streams.drawn = streams.drawn + np.uint64(steps)
        return drawn.to(tokens.dtype)

    def select(self, rows: Int[Tensor, "n"]) -> None:
        old, wanted = self.streams, rows.tolist()
        kept: set[int] = set()
        new = []
        for row in wanted:  # the first use of a row keeps its stream, further uses get copies
            new.append(self.engine.clone(old[row]) if row in kept else old[row])
            kept.add(row)
        for row, stream in enumerate(old):
            if row not in kept:
                self.engine.remove(stream)
        self.streams = new
        self.engine.reserve(len(new))

    def state(self) -> ModelState:
        positions = [self.engine.position(stream) for stream in self.streams]
        each = [(self._floats(s), p) for s, p in zip(self.streams, positions, strict=True)]
        return ModelState(torch.tensor(positions), self.layout.read(each))

    def _write(self, state: ModelState) -> None:
        for row, stream in enumerate(self.streams):
            position = int(state.position[row])
            self.layout.write(self._floats(stream), state.layers, row, position)
            self.engine.set_position(stream, position)

    def _floats(self, stream: int) -> Tensor:
        """The engine's state of one sequence, without a copy."""
        return _floats(self.engine.state(stream), self.size)


def _floats(address: int, count: int) -> Tensor:
    """The engine's memory as a tensor, without a copy."""
    import ctypes

    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def decoder_for(
    model: CausalModel,
    *,
    rows: int,
    state: ModelState | None = None,
    weights: Weights = "fp32",
    head: Head = CATEGORICAL,
) -> Decoder:
    """A decoder for ``model``: the step engine if it supports the model, otherwise torch.

    Args:
        model: the model, on the CPU for the step engine.
        rows: batch size.
        state: decoder state to continue from, as returned by ``Decoder.state``.
        weights: precision of the step engine's weights, "fp32", "bf16" or "int8".
        head: what the model's outputs stand for; by default, one logit per token.

    Raises:
        UsageError: ``weights`` is not "fp32", but the step engine does not support the model.
    """
    reason = engine_refuses(model)
    if reason is None:
        return EngineDecoder(model, rows=rows, state=state, weights=weights, head=head)
    if weights != "fp32":
        raise UsageError(
            f"weights={weights} needs the step engine, which cannot run this model: {reason}"
        )
    return TorchDecoder(model, state=state, head=head)


def engine_refuses(model: CausalModel) -> str | None:
    """The reason why the step engine cannot run ``model``, or None if it can."""
    from subquad.kernels.loading import CORE, REASON

    if CORE is None:
        return str(REASON)
    if next(model.parameters()).device.type != "cpu":
        return "the model is not on the CPU"
    return unsupported(model)
