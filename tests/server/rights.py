"""Users who may do only some things, for tests of what each is refused."""

from __future__ import annotations

from pathlib import Path

from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal

_USERS = """
[users.boss]
password = "b"
rights = ["read", "write", "admin"]

[users.packer]
password = "p"
queues = ["orders.*"]

[users.reader]
password = "r"
rights = ["read"]

[users.jobber]
password = "j"
families = ["jobs"]

[users.eventful]
password = "e"
families = ["events"]
"""
NO_SECRET = Refusal("NOPERM User packer has no permissions to access queue 'secret'")


def user_flags(folder: Path) -> tuple[str, str]:
    """What a broker is started with that knows these users."""
    path = folder / "users.toml"
    path.write_text(_USERS)
    return "--users", str(path)


def login(broker: RunningBroker, name: str) -> Client:
    """A client of that user, whose password is the first letter of the name."""
    client = broker.connect()
    assert client.call("AUTH", name, name[0]) == b"OK"
    return client
