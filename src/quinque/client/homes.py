"""Check that the brokers of one URL share a store, as far as they report it.

Called by   aio/broker.py, when it connects to one of several brokers.
Calls       nothing.

A store in a folder belongs to one broker, which keeps its id for as long as the folder exists.
Brokers on Redis do not report which Redis they use.

Not here: URLs (addresses.py).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from quinque.client.addresses import Address
from quinque.errors import BadSetting

ASKED: Final = (("HELLO",), ("INFO", "server"))
_STORE: Final = b"quinque_store:"


class Home(NamedTuple):
    node_id: bytes
    is_shared: bool  # True also if that is unknown


def home_of(replies: list[Any]) -> Home | None:
    """Return the store that the broker reported, or None if it did not, or does not permit it."""
    hello, info = replies
    if not isinstance(hello, list) or len(hello) < 2 or not isinstance(info, bytes):
        return None
    told = [line.removeprefix(_STORE) for line in info.splitlines() if line.startswith(_STORE)]
    return Home(hello[1], told[0] != b"embedded") if told else None


def check_home(homes: dict[Address, Home], address: Address, home: Home) -> None:
    """Note the store of a broker. Raises BadSetting if another broker of the URL uses another
    store."""
    for other, theirs in list(homes.items()):  # another thread may add one meanwhile
        is_other = other != address and theirs.node_id != home.node_id
        if is_other and not (theirs.is_shared and home.is_shared):
            raise BadSetting(
                f"url: {address} and {other} do not share a store; list only brokers of one "
                "store in the URL"
            )
    homes[address] = home
