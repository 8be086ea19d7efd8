"""An HTML page that classifies text while it is typed. It contains the weights, the tokenizer, a
forward pass in plain JavaScript, and a self-test."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

import subquad
from subquad.data.batches import Examples, collate
from subquad.data.tokenizers import Tokenizer
from subquad.errors import UsageError
from subquad.export.encoder_plan import plan, weights
from subquad.export.payload import Precision
from subquad.export.reference import TOLERANCE
from subquad.export.rendering import Page, PageFiles, write_page
from subquad.export.vocabulary import reading
from subquad.models import Classifier
from subquad.run import Run
from subquad.tasks.outputs import ClassOutput

FILES = PageFiles(
    template="classify.html.j2",
    worker=(
        "computing.js",
        "tokens.js",
        "subwords.js",
        "arithmetic.js",
        "mixers.js",
        "classifier.js",
    ),
    script=("shared.js", "classes.js"),
)

#: Texts that are hard to tokenize: markup, case, width, combining marks, joined emoji, white space.
TEXTS = (
    "",
    " \n\t\u3000",
    "<b>Isn't</b> it \u2018GOOD\u2019?! \ufb01nally &amp; <script>alert(1)</script>",
    "\U0001f98a \U0001f469\u200d\U0001f469\u200d\U0001f467 caf\u00e9 cafe\u0301 \u6f22\u5b57",
    "\u039f\u0394\u039f\u03a3 \u0130stanbul STRASSE \u1e9e \u2163 \u00b2\u00bd \uff21\uff22 a_b",
)


def write(run: Run, shown: ClassOutput, out: Path, precision: Precision = "f16") -> Page:
    """Write the classifier ``run`` as a page.

    Args:
        run: a run whose model is a ``Classifier``.
        shown: its classes and tokenizer.
        out: the file to write.
        precision: "f16" or "f32", the precision of the weight matrices.

    Raises:
        UsageError: pages do not support this run; the message gives the reason.
    """
    config, model = run.task.config, run.model.cpu()
    try:
        if not isinstance(model, Classifier):
            raise UsageError(f"pages do not support {type(model).__name__}")
        about: dict[str, Any] = {"plan": plan(model, config.model)}
        about["vocabulary"] = reading(shown.tokenizer)
        about["frame"] = _frame(shown.tokenizer)
        seen, about["tensors"], data = weights(model, precision)
    except UsageError as error:
        raise UsageError(f"{run.path} cannot be exported to a page: {error}") from None
    about |= {
        "name": run.path.resolve().name,
        "made_by": f"subquad {subquad.__version__}",
        "mixer": ", ".join(dict.fromkeys(config.model.layer_mixers())),
        "parameters": sum(p.numel() for p in model.parameters()),
        "precision": precision,
        "labels": shown.classes,
        "temperature": shown.temperature,
        "length": config.data.length,
        "weights_sha256": hashlib.sha256(data).hexdigest(),
        "test": reference(seen, shown.tokenizer, config.data.length),
    }
    return write_page(out, FILES, about, data)


def _frame(tokenizer: Tokenizer) -> tuple[int, int] | None:
    """The special tokens before and after a text."""
    frame = tokenizer.frame
    if frame is None or not (frame.before or frame.after):
        return None
    if len(frame.before) != 1 or len(frame.after) != 1:
        raise UsageError(
            "its tokenizer puts more or less than one special token before and after a text; use "
            "--to onnx"
        )
    return frame.before[0], frame.after[0]


def reference(model: Classifier, tokenizer: Tokenizer, length: int) -> dict[str, Any]:
    """Test texts, their token ids, and torch's logits with the page's rounded weights."""
    texts = [*TEXTS, _long(tokenizer, length)]
    rows = tokenizer.ragged(texts, length)
    batch = collate(Examples(rows), np.arange(len(texts)))
    with torch.inference_mode():
        logits = model(batch.tokens, batch.mask)
    return {
        "texts": texts,
        "ids": [rows[i].tolist() for i in range(len(texts))],
        "logits": base64.b64encode(logits.float().numpy().tobytes()).decode(),
        "tolerance": TOLERANCE,
    }


def _long(tokenizer: Tokenizer, length: int) -> str:
    """A text of more than ``length`` tokens from all over the vocabulary."""
    known = len(tokenizer)
    return " ".join(tokenizer.token((7919 * i + 3) % known) for i in range(length + 9))
