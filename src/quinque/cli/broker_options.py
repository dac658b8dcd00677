"""The options that choose a broker, and the brokers that have names.

Called by   cli/asking.py, cli/prompt.py, cli/pipeline.py.
Calls       nothing.

    quinque queue ls --url production

    # ~/.config/quinque/brokers.toml
    [production]
    url = "rediss://q1.example:4777,q2.example:4777"
    username = "ann"
    ca = "/etc/ssl/ours.pem"

Options of the command line override the credentials of the URL, or of the broker in the file. Those
of the environment are used only if these are missing, so that the password of one broker is not
sent to another.

Not here: what a URL means (client/addresses.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from quinque.client.secret_files import FILE_SUFFIX, secret_of
from quinque.errors import BadSetting
from quinque.model.urls import split_url

Command = TypeVar("Command", bound=Callable[..., Any])

URL: Final = "redis://127.0.0.1:4777"
URL_VARIABLE: Final = "QUINQUE_URL"
PASSWORD: Final = "QUINQUE_PASSWORD"
VARIABLES: Final = (
    *(URL_VARIABLE, URL_VARIABLE + FILE_SUFFIX, "QUINQUE_USERNAME"),
    *(PASSWORD, PASSWORD + FILE_SUFFIX),
)
SAID: Final = ("url", "username", "password", "ca", "certificate", "key")


class _Url(click.Option):
    """The URL of the broker. It may have a password, so a file can have it too."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return _secret(ctx, URL_VARIABLE) if self.envvar else None


class _Credential(click.Option):
    """A user name or a password. The variable is used only if the broker sets none of its own."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        url = ctx.params.get("url") or os.environ.get(URL_VARIABLE, "")
        username, _, password = split_url(url).netloc.rpartition("@")[0].partition(":")
        in_file = ctx.default_map or {}
        has_password = bool(password) or "password" in in_file
        has_username = bool(username) or "username" in in_file
        if has_password or (has_username and self.name == "username"):
            return None
        if self.name == "username":
            return super().resolve_envvar_value(ctx)
        return _secret(ctx, PASSWORD)


def broker_options(default: str | None) -> Callable[[Command], Command]:
    """Add the options that choose a broker. Without a `default`, a broker is used only if an option
    names it: the environment does not count either."""

    def with_options(command: Command) -> Command:
        for option in (
            click.option("--key", default=None, metavar="FILE",
                         help="Key file of the client certificate (PEM)."),
            click.option("--certificate", default=None, metavar="FILE",
                         help="Client certificate file (PEM), if the broker requires one."),
            click.option("--ca", default=None, metavar="FILE",
                         help="CA certificate file (PEM) to verify the broker. For rediss://."),
            click.option("--password", cls=_Credential, default=None, envvar=PASSWORD,
                         help="Password, if not in the URL. Prefer QUINQUE_PASSWORD, or set "
                              "QUINQUE_PASSWORD_FILE to a file that has it."),
            click.option("--username", cls=_Credential, default=None, envvar="QUINQUE_USERNAME",
                         help="User name, if not in the URL. Or set QUINQUE_USERNAME."),
            click.option(
                "--url",
                cls=_Url,
                default=default,
                envvar=None if default is None else URL_VARIABLE,
                show_default=default is not None,
                # Read first: the entry of the file gives the defaults of the other options.
                is_eager=True,
                callback=_known_url,
                shell_complete=_complete_name,
                help="URL of the broker, or of several (redis://h1:4777,h2:4777), or a name in "
                     "brokers.toml."
                + ("" if default is None else " Or set QUINQUE_URL, or set QUINQUE_URL_FILE to a "
                   "file that has the URL."),
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return with_options


def brokers_file() -> Path:
    """Return the path of brokers.toml, if the file exists."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(folder) / "quinque" / "brokers.toml"


def _secret(ctx: click.Context, variable: str) -> str | None:
    """Return the value of the variable or of its file. Raises BadParameter."""
    try:
        return secret_of(os.environ, variable) or None
    except BadSetting as error:
        if ctx.resilient_parsing:  # the shell completes a command and shows no errors
            return None
        raise click.BadParameter(str(error), ctx, param_hint=variable + FILE_SUFFIX) from error


def _known_url(ctx: click.Context, option: click.Parameter, url: str | None) -> str | None:
    """Return the URL, or the URL of the broker of this name. Raises BadParameter."""
    if not url or "://" in url:
        return url
    known = _brokers().get(url)
    if not isinstance(known, dict) or not isinstance(known.get("url"), str):
        raise click.BadParameter(
            f"{url} is not a URL (redis://, rediss:// or unix://) and not the name of a broker "
            f"in {brokers_file()}"
        )
    unknown = ", ".join(sorted(known.keys() - set(SAID)))
    if unknown:
        raise click.BadParameter(f"{brokers_file()}: broker {url} has unknown keys: {unknown}")
    ctx.default_map = {**(ctx.default_map or {}), **known}
    return str(known["url"])


def _complete_name(
    ctx: click.Context, option: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    try:
        return [CompletionItem(name) for name in _brokers() if name.startswith(incomplete)]
    except click.BadParameter:
        return []


def _brokers() -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(brokers_file().read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # also if it is not TOML
        raise click.BadParameter(f"{brokers_file()}: {error}") from error
