"""What holds for every test: shapes are checked, seeds are fixed, fresh memory is NaN."""

import sys

from jaxtyping import install_import_hook

import tests.shapes_checked  # noqa: F401  # the hook finds it by name

# Shapes in signatures are enforced here and nowhere else, so the hook must come before subquad.
# Compiling and exporting go through test modules' own subprocesses: their graphs are made of the
# code that users run, without the checks.
assert not [name for name in sys.modules if name.split(".")[0] == "subquad"]
SHAPED = ["subquad.kernels", "subquad.mixers", "subquad.models", "subquad.generation"]
install_import_hook(SHAPED, "tests.shapes_checked.checked")

import pytest  # noqa: E402
import torch  # noqa: E402

# One thread: the tensors are tiny, and threads that wait for each other cost more than they give.
torch.set_num_threads(1)
# torch.empty is filled with NaN, so that nothing can rest on what memory happened to hold.
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
