"""``python -m subquad``, and what the command ``subquad`` starts."""

import sys


def main() -> None:
    """Run the command. An interrupt while it is still being loaded is answered as any later one."""
    try:
        from subquad.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("subquad: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
