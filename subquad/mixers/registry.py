"""Mixers by name: the built-in ones, those registered in Python, and those that other packages
declare as entry points.

A package adds a mixer with two lines of its ``pyproject.toml``::

    [project.entry-points."subquad.mixers"]
    name = "module:entry"    # an Entry

Entry points are loaded when an unknown name is looked up or all names are listed, not at import.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from subquad import plugins
from subquad.errors import SubquadError
from subquad.mixers.base import CausalMixer, Mixer

GROUP = "mixers"


@dataclass(frozen=True)
class Entry:
    """One row of the table that ``subquad mixers`` prints.

    Args:
        bidirectional: the class that reads whole sequences, or None.
        causal: the class that can stream, or None.
        cost: time complexity, as text.
        source: authors and year.
        aliases: former names, which still work but are not listed.
    """

    bidirectional: type[Mixer] | None
    causal: type[CausalMixer] | None
    cost: str
    source: str
    aliases: tuple[str, ...] = ()

    def cls(self, causal: bool) -> type[Mixer] | None:
        return self.causal if causal else self.bidirectional


class Registry(Mapping[str, Entry]):
    """A read-only mapping from names and aliases to entries."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries: dict[str, Entry] = {}
        self._names: dict[str, str] = {}
        self._searched = False
        for name, entry in entries.items():
            self.register(name, entry)

    def register(self, name: str, entry: Entry) -> None:
        """Add a mixer.

        Raises:
            SubquadError: it is not an ``Entry`` of mixer classes, or a name is already taken.
        """
        if not isinstance(entry, Entry):
            raise SubquadError(f"mixer {name!r} must be an Entry, not {entry!r}")
        for cls, base in ((entry.bidirectional, Mixer), (entry.causal, CausalMixer)):
            if cls is not None and not (isinstance(cls, type) and issubclass(cls, base)):
                raise SubquadError(f"mixer {name!r}: {cls!r} is not a subclass of {base.__name__}")
        if entry.bidirectional is None and entry.causal is None:
            raise SubquadError(f"mixer {name!r} has no class in either direction")
        for one in (name, *entry.aliases):
            if one in self._names:
                owner = self._names[one]
                there = self._entries[owner]
                found = there.bidirectional or there.causal
                assert found is not None
                raise SubquadError(
                    f"mixer {name!r}: the name {one!r} already belongs to {found.__module__}."
                    f"{found.__qualname__}; register it under another name"
                )
        self._entries[name] = entry
        self._names |= dict.fromkeys((name, *entry.aliases), name)

    def canonical(self, name: str) -> str:
        """The listed name that ``name`` is an alias of; unknown names are returned unchanged."""
        if name not in self._names:
            self._search()
        return self._names.get(name, name)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[self.canonical(name)]

    def __iter__(self) -> Iterator[str]:
        self._search()
        return iter(self._entries)

    def __len__(self) -> int:
        self._search()
        return len(self._entries)

    def _search(self) -> None:
        if self._searched:
            return
        self._searched = True  # a plugin may ask for mixers while it is loaded
        try:
            for name, entry in [
                (p.name, plugins.loaded(p, "mixer")) for p in plugins.points(GROUP)
            ]:
                if self._entries.get(name) is not entry:
                    self.register(name, entry)
        except BaseException:
            self._searched = False
            raise
