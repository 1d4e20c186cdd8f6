"""What the commands of `cutaway drill` share: options, the default command, errors in two languages.

Where a file cannot be read, nobody knows yet in which language to say so; the error brings both, and the
group, which saw the arguments, picks one.
"""

from typing import Any

import click

from interview.errors import DrillError
from interview.text import Language

lang_option = click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Results for programs on stdout."
)
seed_option = click.option(
    "--seed", type=int, help="Which parameters are drawn; default: fresh ones."
)


class AskByDefault(click.Group):
    """`drill`, `drill memory` and `drill --kind numeric` mean `drill ask ...`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `ask` in front unless a command, or help, is named."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["ask", *args]
        ctx.obj = language_of(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it could not do is said in the language that was asked for."""
        try:
            return super().invoke(ctx)
        except DrillError as error:
            raise DrillError(error.text, ctx.obj) from error


def language_of(args: list[str]) -> Language:
    """What `--lang` says; English without it."""
    pairs = zip(["", *args], args, strict=False)
    return "zh" if any((a, b) == ("--lang", "zh") or b == "--lang=zh" for a, b in pairs) else "en"
