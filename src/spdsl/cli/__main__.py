"""`python -m spdsl.cli`."""

from spdsl.cli import main

if __name__ == "__main__":  # child processes that are spawned import this module again
    main()
