"""Requests from bytes: RESP arrays and inline lines, cut anywhere, within limits.

Called by   server/connection.py with what the socket gave.
Calls       wire/inline.py.

    *4\\r\\n  $4\\r\\nQADD\\r\\n  $3\\r\\nfoo\\r\\n  $2\\r\\n60\\r\\n  $5\\r\\nhello\\r\\n

Most chunks are whole requests with short arguments. Those are cut at every CR LF in one go, and a
request is taken if the announced lengths are the lengths of the pieces: a check that needs no loop
in Python. If they are not (a body with CR LF in it, a long body, an incomplete request, an inline
line), the careful reader continues from there. It alone keeps state between chunks, checks the
limits, and reports errors as Redis does.

Not here: the commands (server/dispatch.py). Why this is not hiredis: docs/decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quinque.errors import ProtocolBroken, TooLarge
from quinque.wire.inline import split_inline

_STAR: Final = ord("*")
_DOLLAR: Final = ord("$")
_HEADER_MOST_BYTES: Final = 32  # "*" or "$", a 64-bit number, CR LF
_INLINE_MOST_BYTES: Final = 64 << 10

# Lengths and counts that the quick way knows; longer arguments go the careful way.
_LENGTHS: Final = {b"$%d" % length: length for length in range(2048)}
_COUNTS: Final = {b"*%d" % count: count for count in range(1, 128)}
_QUICK_MOST_BYTES: Final = 256 << 10
# How many requests are compared together: at first this number, then twice as many when they are
# alike and half as many when they are not. So each is compared a few times, whatever follows it.
_ALIKE_FIRST: Final = 64
_ALIKE_LEAST: Final = 4
# Number of requests, with empty ones, that the careful reader takes at once: a request can have one
# byte, and 256 KB of such requests would take a quarter of a second.
_AT_ONCE_MOST: Final = 4096
# Number of arguments, and of escapes in lines, to read at once: each takes half a microsecond, and
# 256 KB of requests can have 40,000 arguments or 130,000 escapes.
_WORDS_AT_ONCE_MOST: Final = 8192


@dataclass(frozen=True)
class RequestLimits:
    args: int = 1 << 20
    arg_bytes: int = 64 << 20
    buffer_bytes: int = 128 << 20  # one unfinished request


class RequestReader:
    """Feed it bytes, get requests. Once `broken` is set it gives no more."""

    def __init__(self, limits: RequestLimits) -> None:
        self.set_limits(limits)
        self.broken: ProtocolBroken | None = None
        self.has_more = False  # bytes that were not looked at: feed it again, if with nothing
        self.escapes = 0  # in the lines of the last feed
        self._rest: list[bytes] = []  # bytes not read yet: the start of an argument or a line
        self._rest_bytes = 0
        self._need_bytes = 0  # no use looking before there are this many
        self._args: list[bytes] = []  # of the request under way
        self._args_left = 0
        self._args_bytes = 0

    def set_limits(self, limits: RequestLimits) -> None:
        """These limits hold for what is fed from here on."""
        self.limits = limits
        # The quick way looks at no limits: it is for those that it cannot pass.
        self._is_quick = (
            limits.args >= len(_COUNTS)
            and limits.arg_bytes >= len(_LENGTHS)
            and limits.buffer_bytes >= _QUICK_MOST_BYTES
        )

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The requests completed by `data`, in order; not all of them if it `has_more` then."""
        self.escapes = 0
        if self.broken is not None:
            return []
        requests: list[list[bytes]] = []
        if not self._rest and not self._args_left:
            at = _read_quickly(data, requests) if self._is_quick else 0
            if at < len(data):
                self._read_carefully(data, at, requests)
            return requests
        self._rest.append(data)
        self._rest_bytes += len(data)
        if self._rest_bytes >= self._need_bytes:
            data = b"".join(self._rest)
            self._rest.clear()
            self._rest_bytes = self._need_bytes = 0
            self.has_more = False
            self._read_carefully(data, 0, requests)
        return requests

    def refuse_large(self, args_most: int, bytes_most: int) -> None:
        """The request under way is refused, as Redis does it, if it will have more arguments or
        bytes than a client may send before it has authenticated."""
        if len(self._args) + self._args_left > args_most:
            self._refuse(f"unauthenticated multibulk length; at most {args_most} arguments")
        elif self.has_more:  # the bytes that were not looked at are those of other requests too
            return
        elif self._args_bytes + max(self._rest_bytes, self._need_bytes) > bytes_most:
            self._refuse(f"unauthenticated bulk length; at most {bytes_most} bytes")

    @property
    def buffered_bytes(self) -> int:
        """Return how many bytes of an incomplete request are buffered."""
        return self._args_bytes + self._rest_bytes

    def _read_carefully(self, data: bytes, at: int, requests: list[list[bytes]]) -> None:
        end = len(data)
        left, words_left = _AT_ONCE_MOST, _WORDS_AT_ONCE_MOST
        while at < end and self.broken is None:
            if words_left <= 0:
                self.has_more = True
                break
            if self._args_left:
                words_left -= 1
                following = self._read_arg(data, at)
                if following > at and not self._args_left:
                    requests.append(self._args)
                    self._args = []
                    self._args_bytes = 0
            elif not left:
                self.has_more = True
                break
            elif data[at] == _STAR:
                left -= 1
                following = self._read_count(data, at)
            else:
                left -= 1
                count, escapes = len(requests), self.escapes
                following = self._read_inline(data, at, requests)
                words_left -= self.escapes - escapes
                if len(requests) > count:
                    words_left -= len(requests[-1])
            if following == at:
                break
            at = following
        if at < end and self.broken is None:
            self._rest = [data[at:]]
            self._rest_bytes = end - at

    def _read_count(self, data: bytes, at: int) -> int:
        """Past the `*n` at `at`, or `at` when it is not all there."""
        stop = self._header_end(data, at, "too big mbulk count string")
        if stop < 0:
            return at
        count = _number(data[at + 1 : stop])
        if count is None or count > self.limits.args:
            self._refuse(f"invalid multibulk length; at most {self.limits.args} arguments")
            return at
        self._args_left = max(0, count)
        return stop + 2

    def _read_arg(self, data: bytes, at: int) -> int:
        """Past the argument at `at`, or `at` when it is not all there."""
        if data[at] != _DOLLAR:
            self._break(f"expected '$', got '{chr(data[at])}'")
            return at
        stop = self._header_end(data, at, "too big bulk count string")
        if stop < 0:
            return at
        size = _number(data[at + 1 : stop])
        if size is None or not 0 <= size <= self.limits.arg_bytes:
            self._refuse(f"invalid bulk length; at most {self.limits.arg_bytes} bytes")
            return at
        # By what is announced and not by what has come: a chunk may hold many other requests.
        if self._args_bytes + size > self.limits.buffer_bytes:
            self._refuse(f"a request of more than {self.limits.buffer_bytes} bytes")
            return at
        start = stop + 2
        if start + size + 2 > len(data):
            self._need_bytes = start + size + 2 - at
            return at
        self._args.append(data[start : start + size])
        self._args_bytes += size
        self._args_left -= 1
        return start + size + 2

    def _read_inline(self, data: bytes, at: int, requests: list[list[bytes]]) -> int:
        """Past the line at `at`, or `at` when it is not all there."""
        stop = data.find(b"\n", at)
        if (stop if stop >= 0 else len(data)) - at > _INLINE_MOST_BYTES:
            self._break("too big inline request")
            return at
        if stop < 0:
            return at
        line = data[at:stop].removesuffix(b"\r")
        self.escapes += line.count(b"\\")
        args = split_inline(line)
        if args is None:
            self._break("unbalanced quotes in request")
            return at
        if args:
            requests.append(args)
        return stop + 1

    def _header_end(self, data: bytes, at: int, too_long: str) -> int:
        """Return the index of the CR LF of a header, or -1."""
        stop = data.find(b"\r\n", at, at + _HEADER_MOST_BYTES)
        if stop < 0 and len(data) - at >= _HEADER_MOST_BYTES:
            self._break(too_long)
        return stop

    def _break(self, why: str) -> None:
        self._end(ProtocolBroken(why))

    def _refuse(self, why: str) -> None:
        self._end(TooLarge(why))

    def _end(self, broken: ProtocolBroken) -> None:
        self.broken = broken
        self.has_more = False
        self._rest.clear()
        self._args.clear()
        self._rest_bytes = self._args_bytes = 0


def _read_quickly(data: bytes, requests: list[list[bytes]]) -> int:
    """Take whole requests with short arguments from the start. Return where they end."""
    if data[:1] != b"*" or len(data) > _QUICK_MOST_BYTES:
        return 0
    pieces = data.split(b"\r\n")
    # After the last CR LF comes nothing, or the start of something unfinished.
    last = len(pieces) - 1
    at = 0
    length_of = _LENGTHS.get
    together = _ALIKE_FIRST
    while at < last:
        count = _COUNTS.get(pieces[at])
        if count is None:
            break
        width = 1 + 2 * count
        alike = min(together, (last - at) // width)
        if alike >= _ALIKE_LEAST:
            if _read_alike(pieces, at, alike, width, requests):
                at += alike * width
                together *= 2
                continue
            together = max(_ALIKE_LEAST, together // 2)
        following = at + width
        if following > last:
            break
        args = pieces[at + 2 : following : 2]
        if list(map(length_of, pieces[at + 1 : following : 2])) != list(map(len, args)):
            break
        requests.append(args)
        at = following
    else:
        return len(data) - len(pieces[last])
    return sum(map(len, pieces[:at])) + 2 * at


def _read_alike(
    pieces: list[bytes], at: int, alike: int, width: int, requests: list[list[bytes]]
) -> bool:
    """Take the next `alike` requests if they have as many arguments each, checked column by column.
    Return whether they do."""
    end = at + alike * width
    if pieces[at:end:width] != [pieces[at]] * alike:
        return False
    length_of = _LENGTHS.get
    for column in range(at + 1, at + width, 2):
        announced = pieces[column:end:width]
        lengths = list(map(len, pieces[column + 1 : end + 1 : width]))
        # Mostly a column has one length, and comparing is cheaper than looking up.
        if announced == [announced[0]] * alike:
            if lengths != [length_of(announced[0])] * alike:
                return False
        elif list(map(length_of, announced)) != lengths:
            return False
    requests += [pieces[row + 2 : row + width : 2] for row in range(at, end, width)]
    return True


def _number(text: bytes) -> int | None:
    """A decimal number in its one way of writing, as Redis reads lengths."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or (digits[:1] == b"0" and text != b"0"):
        return None
    return int(text)
