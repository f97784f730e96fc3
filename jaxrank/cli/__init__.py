"""The command line. JAX is imported inside the commands, so that help is instant."""

import sys


def main() -> None:
    """Entry point of the `jaxrank` program."""
    try:
        from jaxrank.cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("the jaxrank command needs typer: install the extra with  pip install 'jaxrank[cli]'")
    app()
