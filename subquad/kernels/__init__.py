"""Compute only: fast twins of the pure-torch forms that stand in ``subquad.mixers``.

The native core (``csrc/``) is optional: without a compiler at installation, or with
``SUBQUAD_KERNELS=torch`` in the environment, ``status()`` says why it is not in use, the functions
here raise, and the mixers take their pure-torch forms. ``SUBQUAD_KERNELS=baseline`` (``avx2``,
``avx512``) asks for an instruction set by name, for tests.

Nothing here is loaded by ``import subquad``.
"""

from subquad.kernels.linear import Sums, causal_linear_attention, linear_attention
from subquad.kernels.loading import Status, status

__all__ = ["Status", "Sums", "causal_linear_attention", "linear_attention", "status"]
