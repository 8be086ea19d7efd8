"""The checker that jaxtyping's import hook applies to every function of subquad in tests."""

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception


def checked(function):
    """beartype, except for methods that return ``Self``: jaxtyping hands over the function without
    its class, and beartype cannot say then what ``Self`` is."""
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
