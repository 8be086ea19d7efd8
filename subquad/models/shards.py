"""Reads weights saved by ``transformers``: one safetensors file, or several with an index."""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from subquad.errors import SubquadError

_PICKLE = "pytorch_model.bin"
#: Converts it in its folder; ``weights_only`` unpickles tensors and nothing else.
_CONVERT = (
    'convert it there with python -c "import torch, safetensors.torch as s; '
    "s.save_file({n: t.clone().contiguous() for n, t in "
    "torch.load('pytorch_model.bin', weights_only=True).items()}, "
    "'model.safetensors', {'format': 'pt'})\""
)
#: Other files in which transformers saves weights.
_OTHERS = (
    _PICKLE,
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors in ``path``, or in the files listed in ``path`` + ``.index.json``.

    Raises:
        SubquadError: neither exists, or a file or tensor is missing or damaged.
    """
    index = path.with_name(f"{path.name}.index.json")
    if path.exists() or not index.exists():
        _refuse_others(path)
        return _one(path)
    where = _listed(index)
    found: dict[str, Tensor] = {}
    for name in sorted(set(where.values())):
        found |= _one(path.with_name(name))
    if missing := sorted(where.keys() - found.keys()):
        raise SubquadError(f"{index} lists tensors that are not in its files: {_few(missing)}")
    if extra := sorted(found.keys() - where.keys()):
        raise SubquadError(f"{index} does not list all tensors of its files: {_few(extra)}")
    return found


def _listed(index: Path) -> dict[str, str]:
    """The file of each tensor."""
    try:
        where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        plain = {str(name): str(file) for name, file in where.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SubquadError(f"{index} is not an index of weights: {error!r}") from None
    if outside := next((file for file in plain.values() if Path(file).name != file), None):
        raise SubquadError(f"{index} lists {outside!r}, which is not a file in the same folder")
    return plain


def _one(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise SubquadError(f"{path} is missing") from None
    except (OSError, SafetensorError) as error:
        raise SubquadError(f"{path} cannot be read: {error}") from None


def _refuse_others(path: Path) -> None:
    there = next((name for name in _OTHERS if path.with_name(name).exists()), None)
    if not path.exists() and there is not None:
        raise SubquadError(
            f"{path.parent} contains {there}, but only safetensors files are read (a pickle could "
            f"run code); {_CONVERT if there == _PICKLE else f'save the model as {path.name}'}"
        )


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
