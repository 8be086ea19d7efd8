"""Settings by name, as flags and keyword arguments give them, into the configuration of a run."""

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from subquad import mixers
from subquad.data.memory import plain
from subquad.errors import UsageError
from subquad.tasks import Config, task_class
from subquad.tasks.registry import has, meaningless
from subquad.transfer import inherit

Values = dict[str, Any]

_BUDGET = ("steps", "epochs", "minutes")


#: What keyword arguments are called like, and the field that it is.
_NAMES = {"mixer": "mixers", "mixer_option": "mixer_options"}
#: Fields that nobody sets.
_SETTLED = ("path", "pad", "columns")
_KINDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "True or False"}


def from_arguments(task: str, arguments: Mapping[str, Any]) -> Values:
    """Keyword arguments, called as the flags are (``mixer``, ``label_smoothing``), as values for
    ``configure``; None = not given.

    Raises:
        UsageError: a value of another type than the setting's; or there is no such setting.
    """
    defaults = task_class(task).defaults()
    found: Values = {}
    for argument, value in arguments.items():
        name = _NAMES.get(argument, argument)
        part = defaults.part_of(name)
        if part is None or name in _SETTLED:
            raise UsageError(meaningless(task, argument if part is None else name))
        if value is None:
            continue
        if name == "mixers":
            found[name] = value if isinstance(value, str) else ",".join(value)
        elif name == "mixer_options":
            items = value.items() if isinstance(value, Mapping) else None
            found[name] = tuple(value) if items is None else tuple(map(_written, items))
        else:
            hint = get_type_hints(type(getattr(defaults, part)))[name]
            found[name] = _typed(argument, value, hint)
    return found


def _written(item: tuple[str, Any]) -> str:
    key, value = item
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"


def _typed(name: str, value: Any, hint: Any) -> Any:
    """``value``, if it is of the setting's type; a scalar of NumPy as Python's."""
    value = plain(value)
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    kind = next((kind for kind in _KINDS if kind in kinds), None)
    if kind is None:
        return value
    fits = isinstance(value, (int, float) if kind is float else kind)
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"{name}={value!r} must be {_KINDS[kind]}")
    return kind(value)


def configure(task: str, path: str, values: Values) -> Config:
    """The task's defaults with the given values (None = not given) on top.

    Raises:
        UsageError: a value that cannot be, or is of another task; it is named.
    """
    cls = task_class(task)
    config = cls.defaults()
    given = {name: value for name, value in values.items() if value not in (None, ())}
    for name in given:
        if not has(cls, name):
            raise UsageError(meaningless(task, name))
    if any(name in given for name in _BUDGET):
        given = dict.fromkeys(_BUDGET) | given
    if "mixers" in given:
        given["mixers"] = tuple(name.strip() for name in given["mixers"].split(","))
    if "mixer_options" in given:
        used = given.get("mixers", config.model.mixers)
        used += (mixers.ATTENTION,) if given.get("hybrid") else ()
        given["mixer_options"] = _mixer_options(given["mixer_options"], used, cls.causal)
    config = config.having(**given | {"path": path})
    if config.training.start is None:
        return config
    return inherit(config, given.keys())


def options_of(mixer: str, given: tuple[str, ...], *, causal: bool) -> dict[str, Any]:
    """The options of one mixer from ``KEY=VALUE`` texts; raises as ``configure``."""
    return _mixer_options(given, (mixer,), causal).get(mixer, {})


def _mixer_options(
    given: tuple[str, ...], used: tuple[str, ...], causal: bool
) -> dict[str, dict[str, Any]]:
    """``KEY=VALUE`` goes to every used mixer that has KEY; ``NAME.KEY=VALUE`` to NAME only."""
    chosen: dict[str, dict[str, Any]] = {}
    try:
        known = {name: mixers.options(name, causal=causal) for name in used}
    except ValueError as error:
        raise UsageError(str(error)) from None
    for item in given:
        key, equals, value = item.partition("=")
        only, dot, option = key.rpartition(".")
        takers = [n for n in known if option in known[n] and (not dot or n == only)]
        if not equals or not takers:
            having = "; ".join(f"{n}: {', '.join(known[n]) or 'none'}" for n in known)
            raise UsageError(
                f"--mixer-option {item!r}: expected KEY=VALUE with an option of the mixers in use"
                f" ({having})"
            )
        for name in takers:
            if option in chosen.get(name, {}):
                raise UsageError(
                    f"--mixer-option {item!r}: {name}.{option} was already given as "
                    f"{chosen[name][option]!r}; give it once"
                )
            chosen.setdefault(name, {})[option] = _value(value)
    return chosen


def _value(text: str) -> Any:
    """Numbers, true, false and null are what they look like; the rest is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
