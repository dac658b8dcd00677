"""A message's body as a program sees it: decoded when it is looked at.

Called by   the messages of client/aio/, which are of this class.
Calls       a codec.

A body is decoded when the program reads it. A message that cannot be decoded is taken like any
other: the program holds it, and can give it back or bury it. It does not block other messages.

Not here: what can be done with a message (client/aio/jobs.py and its neighbours).
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from quinque.client.codecs import Codec
from quinque.errors import QuinqueError

# When something is raised while a message is worked on, and giving it back fails too, the first is
# what the program is to see: the message comes back when its lease has ended, or has gone with its
# queue.
UNHEARD: Final = QuinqueError


T = TypeVar("T")


class KeptBody(Generic[T]):
    """`body` is the value of the bytes that are kept; `_value` is there once it is decoded."""

    __slots__ = ("_codec", "_kept", "_value")

    def __init__(self, kept: bytes, codec: Codec[T]) -> None:
        self._kept = kept
        self._codec = codec
        self._value: T

    @property
    def body(self) -> T:
        """What the codec makes of it. Raises BadArgument, or whatever else the codec raises."""
        if not hasattr(self, "_value"):
            self._value = self._codec.decode(self._kept)
        return self._value
