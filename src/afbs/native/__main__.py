"""`python -m afbs.native` says in a line whether there are native kernels, and which."""

from __future__ import annotations

import sys

from afbs.native.library import best, why_not


def main() -> None:
    level = best()
    found = f"level {level}" if level else f"none; training is torch's alone, because {why_not()}"
    sys.stdout.write(f"Native kernels: {found}.\n")


if __name__ == "__main__":
    main()
