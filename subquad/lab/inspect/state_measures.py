"""Measures of a sequence inside a model: rank of the state, its topics, spectrum of the input."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from subquad.lab.inspect.channels import Seen
from subquad.mixers.capabilities import Features

Floats = npt.NDArray[np.float64]


def effective_rank(features: Features) -> Floats:
    """Effective rank of the state S after each token, for each head ``[h, t]``: exp of the entropy
    of its normalised singular values, or how many directions are in use (Roy and Vetterli 2007).
    """
    s = torch.einsum("htk,htm->htkm", features.phi_k[0], features.v[0]).cumsum(1)
    values = torch.linalg.svdvals(s.double())
    p = values / values.sum(-1, keepdim=True).clamp(min=1e-30)
    entropy = -(p * p.clamp(min=1e-30).log()).sum(-1)
    found: Floats = entropy.exp().cpu().numpy()
    return found


def spectrum(seen: Seen) -> Floats:
    """Power spectrum of the batch's first sequence along time, from 0 to ½ cycle per token,
    averaged over the width and normalised to sum to 1."""
    x = seen.x[0] if seen.mask is None else seen.x[0][seen.mask[0]]
    power = torch.fft.rfft(x.double(), dim=0).abs().square().mean(1)
    found: Floats = (power / power.sum().clamp(min=1e-30)).cpu().numpy()
    return found


@dataclass(frozen=True)
class Topic:
    """One feature of φ, the tokens that write to it most and those that read from it most."""

    head: int
    feature: int
    writers: list[int]
    readers: list[int]


class Topics:
    """Running sums over a data set of one layer's φ(K) and φ(Q), for each token and feature."""

    def __init__(self, vocabulary: int, heads: int, width: int) -> None:
        self.width = width
        self.written, self.read = (np.zeros((vocabulary, heads * width)) for _ in range(2))
        self.count = np.zeros(vocabulary, dtype=np.int64)

    def add(self, tokens: npt.NDArray[np.int64], phi_q: Tensor, phi_k: Tensor) -> None:
        """Add one text: its tokens ``[t]``, and φ(Q) and φ(K) ``[h, t, k]``, which are normalised
        for each token and head."""
        for total, phi in ((self.read, phi_q), (self.written, phi_k)):
            share = phi / phi.sum(-1, keepdim=True).clamp(min=1e-30)
            np.add.at(total, tokens, share.transpose(0, 1).flatten(1).double().cpu().numpy())
        np.add.at(self.count, tokens, 1)

    def strongest(self, features_shown: int, tokens_shown: int, least: int) -> list[Topic]:
        """For each head, the features that differ most between tokens, with their top tokens."""
        enough = np.flatnonzero(self.count >= least)
        if not len(enough):
            return []
        written, read = (t[enough] / self.count[enough, None] for t in (self.written, self.read))
        spread = written.std(0)
        found = []
        for head in range(written.shape[1] // self.width):
            mine = np.arange(head * self.width, (head + 1) * self.width)
            for i in mine[np.argsort(-spread[mine], kind="stable")[:features_shown]]:
                writers, readers = (
                    [int(enough[j]) for j in np.argsort(-t[:, i], kind="stable")[:tokens_shown]]
                    for t in (written, read)
                )
                found.append(Topic(head, int(i % self.width), writers, readers))
        return found
