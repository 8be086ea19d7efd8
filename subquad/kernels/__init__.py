"""Fast C++ counterparts of the pure-torch implementations in ``subquad.mixers``.

The native core (``csrc/``) is optional. If it was built without a compiler, or is turned off with
``SUBQUAD_KERNELS=torch`` in the environment, mixers use their pure-torch implementations, the
functions here raise, and ``status()`` says why. For tests, ``SUBQUAD_KERNELS=baseline``, ``avx2``
or ``avx512`` selects an instruction set.

``import subquad`` does not load anything from here.
"""

from subquad.kernels.linear import Sums, causal_linear_attention, linear_attention
from subquad.kernels.loading import Status, status

__all__ = ["Status", "Sums", "causal_linear_attention", "linear_attention", "status"]
