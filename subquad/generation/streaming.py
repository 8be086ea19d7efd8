"""Streaming detokenisation of one text: incomplete characters are held back until they are
complete, and possible beginnings of a stop sequence until it is clear that they are none."""

from collections.abc import Callable, Sequence

from subquad.errors import UsageError

#: What tokenizers decode incomplete UTF-8 sequences to.
UNFINISHED = "\ufffd"


class TextStream:
    """Turns token ids into text as they arrive.

    The concatenated results of ``push``, followed by that of ``finish``, are the decoded text up to
    the first stop sequence.

    Args:
        decode: the tokenizer's function from ids to text.
        stop: stop sequences.
        after: ids of the preceding text, which has already been shown.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        stop: Sequence[str] = (),
        after: Sequence[int] = (),
    ) -> None:
        if "" in stop:
            raise UsageError("a stop sequence is empty; it must contain at least one character")
        self._decode = decode
        self._stop = stop
        self._held = max((len(s) for s in stop), default=1) - 1
        self._ids: list[int] = list(after[-1:])
        #: Ids before this index form complete characters, which have been returned.
        self._from = 0
        #: Characters of ``decode(ids[from:])`` that are context or have been returned.
        self._given = len(decode(self._ids))
        self._pending = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Add a token and return the text that is now certain."""
        if self.stopped:
            return ""
        self._ids.append(token)
        text = self._decode(self._ids[self._from :])
        whole = text.rstrip(UNFINISHED)
        self._pending += whole[self._given :]
        self._given = max(self._given, len(whole))
        if whole == text and self._given:  # keep the last token: it decides about a leading space
            self._from = len(self._ids) - 1
            self._given = len(self._decode(self._ids[self._from :]))
        return self._release(self._held)

    def finish(self) -> str:
        """The remaining text, when there are no more tokens."""
        if not self.stopped:
            self._pending += self._decode(self._ids[self._from :])[self._given :]
        return self._release(0)

    def _release(self, held: int) -> str:
        ends = [at for s in self._stop if (at := self._pending.find(s)) >= 0]
        if ends:
            text, self._pending, self.stopped = self._pending[: min(ends)], "", True
            return text
        certain = max(len(self._pending) - held, 0)
        text, self._pending = self._pending[:certain], self._pending[certain:]
        return text
