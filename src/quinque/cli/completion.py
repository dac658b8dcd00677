"""The command `quinque completion`: scripts with which a shell completes commands, options and
queue names.

Called by   cli/main.py.
Calls       click, which knows the shells.

Not here: the names of queues (cli/asking.py:complete_queue).
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_QUINQUE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    eval "$(quinque completion bash)"                                   in ~/.bashrc
    eval "$(quinque completion zsh)"                                    in ~/.zshrc
    quinque completion fish > ~/.config/fish/completions/quinque.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    click.echo(kind(ctx.find_root().command, {}, "quinque", _VARIABLE).source())
