"""The kinds of setting that are places on the network: many to listen on, one to be told to others.

Called by   config.py, whose table gives every setting a kind; config_sources.py.
Calls       address.py.

Not here: kinds that are no places (setting_kinds.py), what an address looks like (address.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from quinque.errors import BadSetting
from quinque.server.address import is_every_host, parse_address
from quinque.server.setting_kinds import Kind, toml_string


@dataclass(frozen=True)
class Addresses(Kind[list[str]]):
    """Places to listen on: a list in TOML, parted by commas in text."""

    allows_unix: bool = True

    metavar = "ADDRESS"
    is_repeatable = True

    @property
    def shape(self) -> str:
        return "host:port or unix:path" if self.allows_unix else "host:port"

    def value(self, text: str) -> list[str]:
        return self.value_of_list(text.split(","))

    def value_of_list(self, texts: list[str]) -> list[str]:
        """The addresses; an empty text adds none, so that "" can say "nowhere"."""
        kept = [text.strip() for text in texts if text.strip()]
        for text in kept:
            try:
                address = parse_address(text)
            except BadSetting as exc:
                raise BadSetting(f"{exc}; write {self.allowed}") from None
            if address.is_unix and not self.allows_unix:
                raise self.refusal(text)
        return kept

    def value_of_toml(self, given: object) -> list[str]:
        if not isinstance(given, list):
            return super().value_of_toml(given)
        for text in given:
            if not isinstance(text, str):
                raise self.refusal(text)
        return self.value_of_list(given)

    def text(self, value: list[str]) -> str:
        return ",".join(value)

    def toml(self, value: list[str]) -> str:
        return "[" + ", ".join(toml_string(text) for text in value) + "]"


class Reachable(Kind[str]):
    """A place where others reach this broker, or nothing: no port that is yet to be chosen, and no
    host that stands for all of them."""

    metavar = "ADDRESS"

    @property
    def shape(self) -> str:
        return "host:port"

    @property
    def allowed(self) -> str:
        return "host:port, with a host and a port that others can connect to"

    def value(self, text: str) -> str:
        if text:
            try:
                address = parse_address(text)
            except BadSetting:
                raise self.refusal(text) from None
            if address.is_unix or not address.port or is_every_host(address.host):
                raise self.refusal(text)
        return text
