"""What generation asks of a model: read tokens, draw tokens, keep states. Two ways to serve it: the
step engine (C++: linear attention, convolutions below it) and torch ``scan`` (everything)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from subquad.errors import UsageError
from subquad.generation.memory import Memory
from subquad.generation.packing import Weights, pack, rounded_model, unsupported
from subquad.generation.sampling import CATEGORICAL, Head, Sampling, core_arguments, draw
from subquad.models import CausalModel, ModelState
from subquad.shapes import Mask, Tokens

#: Prompts up to this many tokens are stepped through by the engine; longer ones are read at once.
SHORT = 8


@dataclass
class Streams:
    """The random streams of the rows, and what their texts hold."""

    samples: npt.NDArray[np.uint64]
    """The number of each row's random stream."""
    drawn: npt.NDArray[np.uint64]
    """Numbers already taken from it."""
    seen: Bool[Tensor, "b v"] | None = None
    """Tokens in each text; kept where a repetition penalty asks for it."""

    @classmethod
    def fresh(cls, rows: int, first: int = 0) -> "Streams":
        """Rows ``first``, ``first + 1``, … from their beginning."""
        return cls(np.arange(first, first + rows, dtype=np.uint64), np.zeros(rows, np.uint64))

    def note(self, tokens: Tokens, outputs: int, mask: Mask | None = None) -> None:
        """Remember that the texts hold ``tokens`` ``[b, t]`` where ``mask`` is True."""
        if self.seen is None:
            self.seen = torch.zeros(len(tokens), outputs, dtype=torch.bool)
        tokens = tokens.cpu()
        real = tokens < outputs  # a start token is read only
        if mask is not None:
            real = real & mask.cpu()
        rows = torch.arange(len(tokens)).unsqueeze(1).expand_as(tokens)
        self.seen[rows[real], tokens[real]] = True

    def draw(self, outputs: Float[Tensor, "b v"], how: Sampling, head: Head) -> Int[Tensor, "b"]:
        """The next token of each row, by torch."""
        tokens = draw(outputs, how, self.samples, self.drawn, head=head, seen=self.seen)
        self.drawn = self.drawn + np.uint64(1)
        if self.seen is not None:
            self.note(tokens.unsqueeze(1), self.seen.shape[1])
        return tokens

    def keep(self, rows: Int[Tensor, "n"]) -> None:
        """Go on with these rows only, in this order."""
        at = rows.cpu().numpy()
        self.samples, self.drawn = self.samples[at], self.drawn[at]
        self.seen = None if self.seen is None else self.seen[rows.cpu()].clone()


class Decoder(ABC):
    """Rows of tokens that are read and continued, each with a state of its own."""

    #: For people: what does the work.
    name: str
    model: CausalModel
    head: Head

    @abstractmethod
    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        """Read ``tokens`` ``[b, t]`` (at least one each), or those that ``mask`` marks as real;
        return the outputs after the last."""

    @torch.inference_mode()
    def run(
        self, tokens: Int[Tensor, "b"], steps: int, how: Sampling, streams: Streams
    ) -> Int[Tensor, "b steps"]:
        """``steps`` times: read a token per row, draw its next. The last drawn has not been read;
        ``streams`` is brought up to date."""
        out = tokens.new_zeros(len(tokens), steps)
        for i in range(steps):
            tokens = streams.draw(self.read(tokens.unsqueeze(1)), how, self.head)
            out[:, i] = tokens
        return out

    @abstractmethod
    def select(self, rows: Int[Tensor, "n"]) -> None:
        """Go on with copies of these rows, in this order (a row may be there twice)."""

    @abstractmethod
    def state(self) -> ModelState:
        """A copy of what the rows remember."""

    @property
    def nbytes(self) -> int:
        """Size of the states, all rows together."""
        return self.state().nbytes


class TorchDecoder(Decoder):
    """Any causal model, by its own ``scan``."""

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
            raise UsageError("nothing has been read, so there is no state")
        return self._state


class EngineDecoder(Decoder):
    """A linear-attention model by the C++ step engine: the weights are read once per token for all
    rows, states are fixed in size, and nothing is allocated.

    ``weights`` rounds the matrices; long prompts are read by torch with the same rounded weights.

    Raises:
        UsageError: the engine is not there, or cannot run this model.
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
            raise UsageError(f"the step engine is not there: {REASON}")
        self.core = CORE
        self.packed = pack(model, weights)
        self.model = rounded_model(model, weights)
        self.head = head
        if CORE.block_bytes(self.packed.spec) != len(self.packed.block):
            raise AssertionError("the packed weights do not fill the engine's plan")
        threads = torch.get_num_threads()
        self.memory = Memory(self.packed.layers)
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
        wide = -(-self.model.outputs // 16) * 16
        logits = _floats(where, len(self.streams) * wide).view(-1, wide)
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
        for row in wanted:  # the first use of a row keeps its stream, others get copies
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
        return ModelState(torch.tensor(positions), self.memory.read(each))

    def _write(self, state: ModelState) -> None:
        for row, stream in enumerate(self.streams):
            position = int(state.position[row])
            self.memory.write(self._floats(stream), state.layers, row, position)
            self.engine.set_position(stream, position)

    def _floats(self, stream: int) -> Tensor:
        """The engine's own memory."""
        return _floats(self.engine.state(stream), self.size)


def _floats(address: int, count: int) -> Tensor:
    """Memory of the engine as a tensor, without a copy."""
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
    """The step engine where it can serve, else torch.

    Raises:
        UsageError: narrower weights were asked for and only torch can serve; the reason is given.
    """
    reason = engine_refuses(model)
    if reason is None:
        return EngineDecoder(model, rows=rows, state=state, weights=weights, head=head)
    if weights != "fp32":
        raise UsageError(f"weights={weights} needs the step engine, which cannot serve: {reason}")
    return TorchDecoder(model, state=state, head=head)


def engine_refuses(model: CausalModel) -> str | None:
    """Why torch has to serve this model; None if the step engine can."""
    from subquad.kernels.loading import CORE, REASON

    if CORE is None:
        return str(REASON)
    if next(model.parameters()).device.type != "cpu":
        return "the model is not on the CPU"
    return unsupported(model)
