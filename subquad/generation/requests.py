"""What to generate in a language run, and whether it is possible."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from subquad.errors import UsageError
from subquad.generation.packing import Weights
from subquad.generation.sampling import Sampling
from subquad.generation.saved import Saved
from subquad.run import Run
from subquad.tasks.outputs import TextOutput

#: Default number of tokens to generate.
USUAL_LENGTH = 200


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to generate."""

    prompts: Sequence[str] = ("",)
    samples: int = 1
    """Number of texts for each prompt."""
    length: int | None = None
    """Maximum number of tokens to generate for each text; by default 200, or as many as fit into
    learned positions."""
    stop: Sequence[str] = ()
    """Stop sequences; a text ends before the first of them."""
    beams: int = 1
    """Beam width; if more than 1, texts are found by beam search instead of sampling."""
    weights: Weights = "fp32"
    """Precision of the step engine's weights."""
    state: Saved | None = None
    """A saved decoder state to continue from; the prompt, if any, is read after it."""
    save: bool = False
    """Also return the decoder state, for continuing the text later."""


def check(request: Request, how: Sampling) -> None:
    """Check that the parts of a request go together.

    Raises:
        UsageError: they contradict each other.
    """
    one = len(request.prompts) * request.samples == 1
    if (request.state is not None or request.save) and not one:
        raise UsageError(
            f"a saved state belongs to a single text, but {len(request.prompts)} prompts with "
            f"--samples {request.samples} were given: use one prompt and --samples 1"
        )
    if "" in request.stop:
        raise UsageError("a stop sequence is empty; it must contain at least one character")
    if request.state is not None and how.repetition_penalty != 1:
        raise UsageError(
            "--repetition-penalty cannot be used with --state, because a saved state does not "
            "record which tokens the text contains: omit one of them"
        )
    if request.beams > 1:
        if request.state is not None or request.save or request.stop:
            raise UsageError(
                "--beams cannot be combined with --state, --save-state or --stop: omit one of them"
            )
        if request.samples > request.beams:
            raise UsageError(
                f"--samples {request.samples} is more than --beams {request.beams}: a search finds "
                "at most as many texts as it has beams"
            )
        if how != Sampling(seed=how.seed):
            raise UsageError(
                "--beams cannot be combined with --temperature, --top-k, --top-p, --min-p or "
                "--repetition-penalty: omit them"
            )


def prompt_ids(task: TextOutput, prompt: str, request: Request) -> list[int]:
    """The token ids of a prompt, preceded by the start token or by a saved state's last token.

    Raises:
        UsageError: the prompt contains half of a surrogate pair.
    """
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError("the prompt is not valid UTF-8 text") from None
    before = [task.start] if request.state is None else [request.state.token]
    return [*before, *task.tokenizer.encode([prompt])[0]]


def new_tokens(run: Run, rows: Sequence[list[int]], request: Request) -> int:
    """The maximum number of tokens to generate after the prompts ``rows``.

    Raises:
        UsageError: prompt and continuation do not fit into the model's learned positions.
    """
    longest = max(map(len, rows))
    read = 0 if request.state is None else int(request.state.state.position[0])
    limit = run.config.data.length
    if run.config.model.positions != "learned":
        return request.length or USUAL_LENGTH
    room = limit - read - longest + 1
    length = request.length or max(1, min(USUAL_LENGTH, room))
    if length > room:
        raise UsageError(
            f"a prompt of {read + longest - 1} tokens plus {length} new ones exceed the {limit} "
            f"positions that {run.path} has learned: use --length {room}, or train with "
            "--positions none above a convolution"
            if room > 0
            else f"a prompt of {read + longest - 1} tokens fills all {limit} positions that "
            f"{run.path} has learned: shorten it, or train with --positions none above a "
            "convolution"
        )
    return length


def read_prompts(path: Path | str) -> list[str]:
    """The prompts in a file, one per line.

    Raises:
        UsageError: the file is empty.
    """
    lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    if not lines:
        raise UsageError(f"{path} is empty; it must contain one prompt per line")
    return lines
