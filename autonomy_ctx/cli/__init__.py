"""The command `autonomy-ctx`; needs the extra: `pip install 'autonomy-ctx[cli]'`."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process, and leave with its exit code."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"autonomy-ctx needs {error.name}: pip install 'autonomy-ctx[cli]'\n")
        raise SystemExit(2) from None
    from autonomy_ctx.cli.app import run

    raise SystemExit(run(sys.argv[1:]))
