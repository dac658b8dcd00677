"""The body of a message, decoded when the program reads it.

Called by   the messages of client/aio/, which are of this class.
Calls       a codec.

A message whose body cannot be decoded is taken like any other: the program holds it, and can return
it to the queue or bury it. It does not block other messages.

Not here: what can be done with a message (client/aio/jobs.py and its neighbours).
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from quinque.client.codecs import Codec
from quinque.errors import QuinqueError

# If an error is raised while a program works on a message, and the attempt to return the message
# fails too, the program gets the first error. The message is delivered again when its lease ends,
# or was removed with its queue.
UNHEARD: Final = QuinqueError


T = TypeVar("T")


class KeptBody(Generic[T]):
    """`body` is the decoded value of the stored bytes; `_value` exists once it is decoded."""

    __slots__ = ("_codec", "_kept", "_value")

    def __init__(self, kept: bytes, codec: Codec[T]) -> None:
        self._kept = kept
        self._codec = codec
        self._value: T

    @property
    def body(self) -> T:
        """The decoded body. Raises BadArgument, or another error of the codec."""
        if not hasattr(self, "_value"):
            self._value = self._codec.decode(self._kept)
        return self._value
