"""Models by name, such as ``sentence-transformers/all-MiniLM-L6-v2``: fetched through
``huggingface_hub``, where that is installed."""

import re
from pathlib import Path

from subquad.errors import SubquadError

#: What a body needs; weights in other formats are left where they are.
_FILES = ("*.json", "*.safetensors", "*.model", "*/config.json")
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def folder_of(name: str) -> Path:
    """The folder called ``name``; if there is none and it looks like the name of a model (and not
    like a mistyped path into a folder that does exist), the folder that it is downloaded into.

    Raises:
        SubquadError: there is none, and it cannot be fetched; the message says how to get it.
    """
    folder = Path(name)
    if folder.exists() or not _NAME.fullmatch(name) or folder.parent.exists():
        return folder
    how = (
        f"download its config.json, model.safetensors and tokenizer.json into a folder and give "
        f"that, for example with: hf download {name} --local-dir FOLDER"
    )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise SubquadError(
            f"{name}: no such folder; to fetch a model of this name, install huggingface_hub (the "
            f"extra `hub`), or {how}"
        ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except Exception as error:  # whatever the network or the hub says
        said = str(error).strip().splitlines()
        reason = said[0].rstrip(".") if said else type(error).__name__
        raise SubquadError(f"{name} cannot be fetched ({reason}): {how}") from None
