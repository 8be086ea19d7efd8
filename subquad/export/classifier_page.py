"""One HTML page that classifies texts as they are typed: weights, tokenizer, a plain JavaScript
forward pass and a self-test in it."""

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
from subquad.export.rendering import Page, Pieces, write_page
from subquad.export.vocabulary import reading
from subquad.models import Classifier
from subquad.run import Run
from subquad.tasks.outputs import ClassOutput

PIECES = Pieces(
    template="classify.html.j2",
    worker=(
        "computing.js",
        "tokens.js",
        "pieces.js",
        "arithmetic.js",
        "mixers.js",
        "classifier.js",
    ),
    script=("shared.js", "classes.js"),
)

#: What a tokenizer could trip over: markup, case, width, marks, joined emoji, spaces.
TEXTS = (
    "",
    " \n\t\u3000",
    "<b>Isn't</b> it \u2018GOOD\u2019?! \ufb01nally &amp; <script>alert(1)</script>",
    "\U0001f98a \U0001f469\u200d\U0001f469\u200d\U0001f467 caf\u00e9 cafe\u0301 \u6f22\u5b57",
    "\u039f\u0394\u039f\u03a3 \u0130stanbul STRASSE \u1e9e \u2163 \u00b2\u00bd \uff21\uff22 a_b",
)


def write(run: Run, shown: ClassOutput, out: Path, precision: Precision = "f16") -> Page:
    """Write the classifier ``run`` as one page that shows ``shown``.

    Raises:
        UsageError: the page does not implement this run; the reason is given.
    """
    config, model = run.task.config, run.model.cpu()
    try:
        if not isinstance(model, Classifier):
            raise UsageError(f"a page has no code for a {type(model).__name__}")
        about: dict[str, Any] = {"plan": plan(model, config.model)}
        about["vocabulary"] = reading(shown.tokenizer)
        seen, about["tensors"], data = weights(model, precision)
    except UsageError as error:
        raise UsageError(f"{run.path} cannot become a page: {error}") from None
    about |= {
        "name": run.path.resolve().name,
        "made_by": f"subquad {subquad.__version__}",
        "mixer": ", ".join(dict.fromkeys(config.model.layer_mixers())),
        "parameters": sum(p.numel() for p in model.parameters()),
        "precision": precision,
        "labels": shown.classes,
        "temperature": shown.temperature,
        "length": config.data.length,
        "frame": shown.tokenizer.frame,
        "weights_sha256": hashlib.sha256(data).hexdigest(),
        "test": reference(seen, shown.tokenizer, config.data.length),
    }
    return write_page(out, PIECES, about, data)


def reference(model: Classifier, tokenizer: Tokenizer, length: int) -> dict[str, Any]:
    """Texts, their token ids, and what torch answers on the weights that the page has."""
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
    """A text of tokens from the whole vocabulary that is longer than ``length`` tokens."""
    known = len(tokenizer)
    return " ".join(tokenizer.token((7919 * i + 3) % known) for i in range(length + 9))
