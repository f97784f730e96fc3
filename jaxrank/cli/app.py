"""The commands, assembled."""

from typing import Annotated

import typer

from jaxrank import __version__
from jaxrank.cli.fit import fit
from jaxrank.cli.plan import plan
from jaxrank.cli.reproduce import reproduce
from jaxrank.cli.simulate import simulate

app = typer.Typer(
    name="jaxrank",
    help="Adaptive coarse ranking: every item in its tier, with a guarantee, from few noisy judgements.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# Given as short help, a summary is wrapped, not cut.
for command in (simulate, fit, plan, reproduce):
    app.command(short_help=(command.__doc__ or "").splitlines()[0])(command)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"jaxrank {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Adaptive coarse ranking: every item in its tier, with a guarantee, from few noisy judgements."""
