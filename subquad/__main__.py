"""``python -m subquad``."""

from subquad.cli import main

main()
