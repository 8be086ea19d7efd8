"""Look inside a run: which words each head weights, which it prefers, and whether context matters.

::

    OUT/
      inspect.html     the page to look at
      inspect.json     its numbers
      text-1.png …     heat maps of each text, for use in a paper
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from subquad.data.batches import Examples, collate
from subquad.data.files import STDIN
from subquad.data.ragged import Ragged
from subquad.data.source import open_source
from subquad.data.tokenizers import Tokenizer
from subquad.errors import SubquadError, UsageError
from subquad.lab.inspect.channels import Seen, watched
from subquad.lab.inspect.inspection import Head, Inspection, Text
from subquad.lab.inspect.likings import Likings, judge
from subquad.lab.inspect.page import document, page, picture
from subquad.lab.inspect.state_measures import Topic, Topics, effective_rank, spectrum
from subquad.lab.progress import Progress, Watch, ignore
from subquad.models import Classifier
from subquad.run import EVALUATION_BATCH, Run
from subquad.storage import write_atomically, write_text
from subquad.tasks.texts import cut_at, skipped

__all__ = ["ROWS", "Head", "Inspection", "Text", "inspect"]

#: Texts to read from a file, and how many of them to show if no texts are given.
ROWS, DRAWN = 1000, 3
#: Tokens to list for each head and for each topic, and features to list for each head.
FAVOURITES, TOPIC_TOKENS, FEATURES = 10, 6, 4


@dataclass
class _Gathered:
    """Sums over the data set; their shapes follow from the first batch."""

    likings: dict[tuple[int, str], Likings] = field(default_factory=dict)
    topics: dict[int, Topics] = field(default_factory=dict)
    rows: int = 0
    cut: int = 0
    """Number of texts that fill the model's maximum length."""


def inspect(
    run: Run,
    texts: Sequence[str] = (),
    *,
    file: str | None = None,
    rows: int = ROWS,
    out: Path,
    watch: Watch = ignore,
) -> Inspection:
    """Analyse how a trained run processes text, and write a page about it to the folder ``out``.

    Args:
        run: a trained run that reads text.
        texts: texts to show in detail; without any, the first few of ``file`` are shown.
        file: a data set over which the heads' preferences are computed.
        rows: the number of texts to read from ``file``.
        out: folder for ``inspect.html``, ``inspect.json`` and one PNG per text.
        watch: called with the progress.

    Raises:
        UsageError: there is nothing to look at, or the run does not read text.
        SubquadError: the file cannot be read or contains no texts.
    """
    tokenizer = run.task.tokenizer
    if tokenizer is None:
        raise UsageError(
            f"{run.path} is a {run.config.task} run, which does not read text; inspect needs one "
            "that does"
        )
    if not texts and file is None:
        raise UsageError("nothing to look at: give a text or --file FILE")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; inspect needs a directory")
    read, left_out, notes = _read(run, file, rows) if file is not None else ([], "", [])
    whole = list(texts) or read[:DRAWN]
    shown = [_text(run, tokenizer, text) for text in whole]
    gathered = _Gathered()
    length = run.config.data.length
    for done, group in _batches(run, read or whole):
        gathered.cut += int((group.lengths >= length).sum())
        _gather(run, len(tokenizer) + 1, group, gathered)
        watch(Progress(done, f"{gathered.rows} rows"))
    heads = list(_heads(gathered, tokenizer))
    found = Inspection(
        run=run.path.name,
        task=run.config.task,
        layers=list(run.config.model.layer_mixers()),
        texts=shown,
        heads=heads,
        topics=_named(gathered, tokenizer),
        judgement=judge([h.correlation for h in heads]),
        data=Path(file).name if file is not None else "",
        rows=gathered.rows,
        skipped=left_out,
        notes=[*notes, *filter(None, [cut_at(length, gathered.cut, len(read))])] if read else [],
        page=out / "inspect.html",
    )
    for i, text in enumerate(shown, 1):
        if text.weights:
            drawn = picture(text, found.layers)
            write_atomically(out / f"text-{i}.png", drawn)
    write_text(out / "inspect.json", json.dumps(document(found), ensure_ascii=False) + "\n")
    write_text(found.page, page(found))
    return found


def _read(run: Run, file: str, rows: int) -> tuple[list[str], str, list[str]]:
    """The first texts of a file, a note about skipped rows, and notes about how it was read."""
    source = open_source(file, run.config.data.reading(), labelled=False)
    read = [record.text for record in islice(source.records(), rows)]
    left_out = skipped(source)
    if not read:
        name = "standard input" if file == STDIN else file
        raise SubquadError(f"{name} contains no texts" + (f": {left_out}" if left_out else ""))
    return read, left_out, [source.detected]


def _encode(run: Run, texts: Sequence[str], *, cut: bool = True) -> Ragged:
    """Token ids as the task feeds them to its model; without ``cut``, not truncated."""
    return run.task.rows(texts, run.config.data.length if cut else None)


def _look(run: Run, tokens: Ragged) -> tuple[torch.Tensor, list[Seen], torch.Tensor]:
    batch = collate(Examples(tokens), np.arange(len(tokens))).to(run.device)
    with watched(run.model) as seen:
        logits = run.task.outputs(run.model, batch)
    ids = batch.tokens
    if isinstance(run.model, Classifier) and run.model.cls is not None:
        ids = torch.nn.functional.pad(ids, (1, 0), value=-1)  # the CLS token
    return ids, seen, logits


@torch.inference_mode()
def _text(run: Run, tokenizer: Tokenizer, text: str) -> Text:
    ragged = _encode(run, [text])
    whole = _encode(run, [text], cut=False)
    ids, layers, logits = _look(run, ragged)
    t = ids.shape[1]  # a mixer with fixed length also sees padding, which is cut off here
    answer = run.task.answer(run.model, logits[0])
    unread = len(whole.values) - len(ragged.values)
    made = Text([_word(tokenizer, int(i)) for i in ids[0]], answer, {}, unread)
    for n, seen in enumerate(layers):
        explained = seen.explained()
        for name, channel in explained.channels.items():
            made.weights[n, name] = channel.weights[0, :t].double().cpu().numpy()
        if explained.attention is not None:
            made.maps[n] = explained.attention[0, :, :t, :t].double().cpu().numpy()
        if explained.features is not None:
            made.ranks[n] = effective_rank(explained.features)
        if explained.frequencies:
            made.spectra[n] = spectrum(seen)
    return made


def _batches(run: Run, texts: list[str]) -> Iterator[tuple[float, Ragged]]:
    for i in range(0, len(texts), EVALUATION_BATCH):
        yield i / len(texts), _encode(run, texts[i : i + EVALUATION_BATCH])


@torch.inference_mode()
def _gather(run: Run, vocabulary: int, group: Ragged, gathered: _Gathered) -> None:
    ids, layers, _ = _look(run, group)
    real, t = layers[0].mask, ids.shape[1]
    tokens = ids.cpu().numpy() % vocabulary  # maps the CLS token, -1, to the last id
    mask = np.ones_like(tokens, dtype=bool) if real is None else real[:, :t].cpu().numpy()
    for n, seen in enumerate(layers):
        explained = seen.explained()
        for name, channel in explained.channels.items():
            lifts = channel.weights[:, :t].double().cpu().numpy() * mask.sum(1)[:, None, None]
            scores = channel.scores[:, :t].double().cpu().numpy()
            kept = gathered.likings.setdefault((n, name), Likings(vocabulary, lifts.shape[-1]))
            for row, lift, score, there in zip(tokens, lifts, scores, mask, strict=True):
                kept.add(row[there], lift[there], score[there])
        if explained.features is not None:
            phi_q, phi_k = explained.features.phi_q, explained.features.phi_k
            _, h, _, k = phi_k.shape
            topics = gathered.topics.setdefault(n, Topics(vocabulary, h, k))
            for i, there in enumerate(mask):
                topics.add(tokens[i][there], phi_q[i][:, there], phi_k[i][:, there])
    gathered.rows += len(group)


def _heads(gathered: _Gathered, tokenizer: Tokenizer) -> Iterator[Head]:
    for (layer, channel), kept in gathered.likings.items():
        for i, correlation in enumerate(kept.correlations()):
            liked = kept.favourites(i, FAVOURITES)
            words = [(_word(tokenizer, token), lift) for token, lift in liked]
            yield Head(layer, channel, i, correlation, words)


def _named(
    gathered: _Gathered, tokenizer: Tokenizer
) -> dict[int, list[tuple[Topic, list[str], list[str]]]]:
    least = 5 if gathered.rows > 100 else 1
    return {
        n: [
            (t, [_word(tokenizer, i) for i in t.writers], [_word(tokenizer, i) for i in t.readers])
            for t in topics.strongest(FEATURES, TOPIC_TOKENS, least)
        ]
        for n, topics in gathered.topics.items()
    }


def _word(tokenizer: Tokenizer, token: int) -> str:
    """A readable form of a token: white space is made visible, special tokens are named."""
    if token == tokenizer.unknown:
        return "‹unknown›"
    if not 0 <= token < len(tokenizer) or token == tokenizer.separator:
        return "‹start›"
    shown = tokenizer.decode([token])
    marks = {" ": "␣", "\n": "⏎", "\t": "⇥"}
    return "".join(marks.get(c, c) for c in shown) if shown.strip() != shown or not shown else shown
