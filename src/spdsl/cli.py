"""The command line: `spdsl <group> <command>`. Each group is a module in `spdsl.commands`."""

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
        import typer
    except ImportError:
        sys.exit("The command line needs typer and rich: pip install 'spdsl[cli]'")
    from spdsl.commands import features
    from spdsl.commands.report import report
    from spdsl.commands.reproduce import reproduce

    app = typer.Typer(help="Supervised learning on SPD matrices.", no_args_is_help=True, add_completion=False)
    app.callback()(lambda: None)  # keeps group names in use even while there is a single group
    app.add_typer(features.app, name="features", help="Turn a folder of media into an SPD stack.")
    app.command()(reproduce)
    app.command()(report)
    app()


if __name__ == "__main__":
    main()
