"""subquad: sequence models whose cost does not grow with the square of the length."""

__version__ = "0.1.0"
