"""The types of settings that are network addresses: several to listen on, or one to announce.

Called by   config.py, whose table gives every setting a kind.
Calls       address.py, list_kinds.py.

Not here: all other types (setting_kinds.py), the format of an address (address.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from quinque.errors import BadSetting
from quinque.server.address import is_every_host, parse_address
from quinque.server.list_kinds import Several
from quinque.server.setting_kinds import Kind


@dataclass(frozen=True)
class Addresses(Several):
    """Places to listen on."""

    allows_unix: bool = True

    metavar = "ADDRESS"

    @property
    def shape(self) -> str:
        return "host:port or unix:path" if self.allows_unix else "host:port"

    def check(self, text: str) -> None:
        try:
            address = parse_address(text)
        except BadSetting as exc:
            raise BadSetting(f"{exc}; write {self.allowed}") from None
        if address.is_unix and not self.allows_unix:
            raise self.refusal(text)


class Reachable(Kind[str]):
    """A place where others reach this broker, or nothing: no port that is yet to be chosen, and no
    host that stands for all of them."""

    metavar = "ADDRESS"

    @property
    def shape(self) -> str:
        return "host:port"

    @property
    def allowed(self) -> str:
        return "host:port with a host and a port that other machines can connect to"

    def value(self, text: str) -> str:
        if text:
            try:
                address = parse_address(text)
            except BadSetting:
                raise self.refusal(text) from None
            if address.is_unix or not address.port or is_every_host(address.host):
                raise self.refusal(text)
        return text
