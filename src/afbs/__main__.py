"""`python -m afbs` is `afbs`."""

from afbs.cli import main

if __name__ == "__main__":
    main()
