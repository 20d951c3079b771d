"""The command line: `spdsl COMMAND`. The commands are in `spdsl.commands`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C before a command has begun is no reason for a traceback."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # where a terminal knows no ±, a table with ? is better than none
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The command line needs typer and rich: pip install 'spdsl[cli]'")
    from spdsl.commands.app import app

    app()


if __name__ == "__main__":
    main()
