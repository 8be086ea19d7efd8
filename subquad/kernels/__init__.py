"""Compute only: fast twins of the pure-torch forms that stand in ``subquad.mixers``."""
