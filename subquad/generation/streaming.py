"""Tokens of one text becoming text: characters are held back until they are whole, and text that
may be the beginning of a stop sequence until it is none."""

from collections.abc import Callable, Sequence

from subquad.errors import UsageError

#: What a decoder shows for bytes that are not (yet) a character.
UNFINISHED = "\ufffd"


class TextStream:
    """``push`` token ids, get text. The pieces joined, ``finish`` included, are the decoded ids up
    to the first stop sequence. ``after`` are ids that stand before and have been given out."""

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        stop: Sequence[str] = (),
        after: Sequence[int] = (),
    ) -> None:
        if "" in stop:
            raise UsageError("a stop sequence is empty")
        self._decode = decode
        self._stop = stop
        self._held = max((len(s) for s in stop), default=1) - 1
        self._ids: list[int] = list(after[-1:])
        #: Ids before this one are a whole number of characters, and given out.
        self._from = 0
        #: Characters of ``decode(ids[from:])`` that are context or have been given out.
        self._given = len(decode(self._ids))
        self._pending = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that this token makes certain."""
        if self.stopped:
            return ""
        self._ids.append(token)
        text = self._decode(self._ids[self._from :])
        whole = text.rstrip(UNFINISHED)
        self._pending += whole[self._given :]
        self._given = max(self._given, len(whole))
        if whole == text and self._given:  # the last token stays as context: words need its space
            self._from = len(self._ids) - 1
            self._given = len(self._decode(self._ids[self._from :]))
        return self._release(self._held)

    def finish(self) -> str:
        """What is left when no more tokens come."""
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
