"""Every model of the registry can be given to torch's own tracers, and stays what it was:
``torch.export`` with free batch and length, ``torch.compile`` in one graph, AOTInductor's package.

Traced in a process of its own, without the checks of shapes (``traced_models``).
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from subquad.mixers import names

MODELS = [*names(causal=False), *(f"causal:{name}" for name in names(causal=True))]
#: Largest difference from eager.
TOLERANCE = 1e-5


def traced(kind: str, models: list[str], **environment: str) -> dict[str, float | str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.traced_models", kind, *models],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def equal(outcome: float | str) -> None:
    assert isinstance(outcome, float), outcome
    assert outcome < TOLERANCE


@pytest.fixture(scope="module")
def exported():
    return traced("exported", MODELS)


@pytest.fixture(scope="module")
def compiled():
    return traced("compiled", MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_exported_with_free_batch_and_length_is_eager(exported, model):
    equal(exported[model])


@pytest.mark.parametrize("model", MODELS)
def test_compiled_in_one_graph_is_eager(compiled, model):
    equal(compiled[model])


def test_without_the_native_core_linear_attention_is_exported_too():
    models = ["linear", "causal:linear"]
    for outcome in traced("exported", models, SUBQUAD_KERNELS="torch").values():
        equal(outcome)


@pytest.fixture
def need_compiler():
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++")):
        pytest.skip("NOT TESTED: no C++ compiler, which Inductor needs")


@pytest.mark.long
@pytest.mark.usefixtures("need_compiler")
@pytest.mark.parametrize("kind", ["by_inductor", "ahead_of_time"])
@pytest.mark.parametrize("model", ["fastformer", "causal:linear"])
def test_inductor_is_eager(kind, model):
    equal(traced(kind, [model])[model])
