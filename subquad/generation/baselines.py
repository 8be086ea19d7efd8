"""Baselines for decoding from a constant-size state (Katharopoulos et al. 2020, tables 1 and 4):
decoders that read the prefix again for each token, or copy their whole state at each step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from subquad.generation.continuing import continue_tokens
from subquad.generation.decoder import Decoder
from subquad.generation.sampling import CATEGORICAL, Head, Sampling
from subquad.models import CausalModel, ModelState
from subquad.shapes import Mask, Tokens


class RecomputingDecoder(Decoder):
    """Keeps the tokens instead of a state and reads them all again for each token, like the softmax
    baseline in the paper's table 1."""

    name = "recomputation"

    def __init__(self, model: CausalModel, *, head: Head = CATEGORICAL) -> None:
        self.model = model
        self.head = head
        self._prefix: Tokens | None = None

    @torch.inference_mode()
    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        assert mask is None, "the baselines do not support padding"
        self._prefix = tokens if self._prefix is None else torch.cat([self._prefix, tokens], dim=1)
        outputs: Tensor = self.model(self._prefix)[:, -1].float()
        return outputs

    def select(self, rows: Int[Tensor, "n"]) -> None:
        if self._prefix is not None:
            self._prefix = self._prefix[rows.to(self._prefix.device)]

    def state(self) -> ModelState:
        raise AssertionError("recomputation has no state")

    @property
    def nbytes(self) -> int:
        return 0


class CopyingDecoder(Decoder):
    """Runs ``scan`` with autograd enabled, so that a cache cannot grow in place and is copied at
    every token, like the "stateful" softmax in the paper's table 4."""

    name = "copied state"

    def __init__(self, model: CausalModel, *, head: Head = CATEGORICAL) -> None:
        self.model = model
        self.head = head
        self._state: ModelState | None = None

    def read(self, tokens: Tokens, mask: Mask | None = None) -> Float[Tensor, "b v"]:
        # Autograd cannot keep tensors made in inference mode, hence the clone.
        with torch.inference_mode(False), torch.enable_grad():
            outputs, self._state = self.model.scan(tokens.clone(), self._state, mask)
            return outputs[:, -1].float()

    def select(self, rows: Int[Tensor, "n"]) -> None:
        if self._state is not None:
            self._state = self._state.select(rows.to(self._state.position.device))

    def state(self) -> ModelState:
        assert self._state is not None, "nothing has been read"
        return self._state


def recompute_tokens(
    model: CausalModel, prompt: Tokens, steps: int, how: Sampling, head: Head = CATEGORICAL
) -> Int[Tensor, "b steps"]:
    """The same tokens as ``continue_tokens``, computed by reading the whole prefix for each one."""
    return continue_tokens(RecomputingDecoder(model, head=head), prompt, steps, how)
