"""The keys of one queue, as Redis Work Queue documents them.

Called by   working.py, cleaning.py.
Calls       nothing.

    <p>:queue                    LIST    ids that wait: in on the left, out on the right
    <p>:processing               LIST    ids that were handed out, the newest on the left
    <p>:item:<id>                STRING  the item's data; without it there is no such item
    <p>:lease:<id>               STRING  the session that holds the item; it expires
    <p>:leased_by_session:<id>   STRING  the same, in the old generation of clients
    <p>:cleaning                 LIST    what a cleaner of the old generation has under way

In a script the first key is `<p>:`, and the names above are what comes after it.

Not here: the commands on them (scripts/).
"""

from __future__ import annotations

import re
from typing import Final

from quinque.errors import BadArgument
from quinque.workqueue.key_prefix import KeyPrefix

_GLOB: Final = re.compile(rb"[*?\[\]\\^]")
# In a cluster, what is between the first { and the } after it chooses the slot, if it is not empty.
_TAG: Final = re.compile(r"[^{]*\{[^}]+\}")


class Keys:
    def __init__(self, prefix: KeyPrefix) -> None:
        self.prefix = _raw(prefix.of(":"))
        self.queue = _raw(prefix.of(":queue"))
        self.processing = _raw(prefix.of(":processing"))
        self.cleaning = _raw(prefix.of(":cleaning"))
        # With an id after it, a key of that item.
        self.item = _raw(prefix.of(":item:"))
        self.lease = _raw(prefix.of(":lease:"))
        self._name = prefix.prefix
        self.has_tag = _TAG.match(prefix.prefix) is not None

    @property
    def items_pattern(self) -> bytes:
        """Return the pattern with which SCAN finds the items of this queue, and no others."""
        return _GLOB.sub(rb"\\\g<0>", self.item) + b"*"

    def no_tag(self) -> BadArgument:
        """The error for a queue whose keys a cluster would spread."""
        return BadArgument(
            f"in a cluster, the prefix of a queue needs a hash tag: use {{{self._name}}} instead "
            f"of {self._name}"
        )


def raw_id(id: str) -> bytes:
    return id.encode("utf-8", "surrogateescape")


def _raw(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
