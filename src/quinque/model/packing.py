"""Values as MessagePack, by a packer that is kept.

Called by   the journal and all that makes parts of its records.
Calls       nothing.

A msgpack.Packer that has no memory for its result keeps what it has packed, and puts it before the
next one. So it is emptied after each failure.

Not here: what is packed.
"""

from __future__ import annotations

from typing import Any

import msgpack


class Packing:
    def __init__(self) -> None:
        packer = msgpack.Packer(use_bin_type=True)
        self._pack = packer.pack
        self._reset = packer.reset

    def pack(self, value: Any) -> bytes:
        """The value, packed. Raises what msgpack raises; the next value is packed alone."""
        try:
            packed: bytes = self._pack(value)
        except BaseException:
            self._reset()
            raise
        return packed
