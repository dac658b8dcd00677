"""A broker, or several that share a store, as something that runs operations.

Called by   spark/, cli/, the queues of this folder.
Calls       calls.py and work_calls.py (words and meanings), edge.py (connections).

    async with Broker("redis://one:4777,two:4777", password=…) as broker:
        view = await broker.run(OpenClaims(JOBS, b"orders", b"report", b"", lease_ms=60_000))

Nothing is connected before it is needed. When a broker does not answer, the next one is asked; when
all have been asked, a pause follows, twice as long each time. What may have been carried out is
asked again only if a repeat does no harm.

Threads and tasks may share one: each request has a connection to itself, and those are used again.

Not here: what an operation is (model/), waiting in the broker (server/waiters.py).
"""

from __future__ import annotations

import os
import random
import ssl
from collections.abc import Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Final

from quinque.client.addresses import Address, parse_broker_url
from quinque.client.aio.edge import Link, Lock, connect, sleep
from quinque.client.aio.typed_run import TypedRun
from quinque.client.calls import CALLS as OWN_CALLS
from quinque.client.calls import Call, Request, fill_waiting
from quinque.client.link import Reply
from quinque.client.own_calls import CALLS as OWN_ID_CALLS
from quinque.client.work_calls import CALLS as WORK_CALLS
from quinque.errors import BadSetting, NotDone, QuinqueError, StoreUnavailable, error_told
from quinque.model.claim_ops import FillClaim
from quinque.model.ops import Op

CALLS: Final = {**OWN_CALLS, **WORK_CALLS, **OWN_ID_CALLS}

# With 5 retries that is about 6 s: a broker that was killed is back by then.
_FIRST_PAUSE_S: Final = 0.2
_PAUSE_MOST_S: Final = 5.0
_CONNECT_MOST_S: Final = 5.0  # a host that is silent for longer is passed over
_IDLE_MOST: Final = 8  # connections that are kept for later

# Nothing was done; Redis's word for a server that has not read its data yet is among them.
_NOT_DONE: Final = frozenset({NotDone.code, "LOADING"})
_FULL: Final = "max number of clients reached"
# Something may have been done.
_UNKNOWN: Final = frozenset({StoreUnavailable.code})


class Broker(TypedRun):
    """Pickled, it is what it was made from; connections stay where they are."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 5,
    ) -> None:
        """`ca`, `certificate` and `key` are files (PEM), for rediss://. Raises BadSetting."""
        told = parse_broker_url(url)
        self._made_from = (url, username, password, ca, certificate, key, timeout_s, retries)
        self._addresses = told.addresses
        self._shown = told.shown
        self._username = told.username if username is None else username
        self._password = told.password if password is None else password
        if told.scheme != "rediss" and (ca or certificate or key):
            raise BadSetting("ca, certificate and key are for rediss://")
        self._tls = _tls(ca, certificate, key) if told.scheme == "rediss" else None
        self._timeout_s = timeout_s
        self._retries = retries
        self._lock = Lock()
        self._idle: list[Link] = []
        self._process_id = os.getpid()
        self._at = 0  # which of the addresses answered last

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """The result of each operation; they are asked for together, so that they cost one turn of
        the broker and one sync of its disk. The first error is raised when all are carried out."""
        calls = [_call_of(op) for op in ops]
        requests = [call.requests(op) for call, op in zip(calls, ops, strict=True)]
        is_safe = all(call.is_safe for call in calls)
        absent = [
            call.absent
            for call, some in zip(calls, requests, strict=True)
            for _ in range(len(some))
        ]
        replies = await self._ask(
            [each for some in requests for each in some], absent, is_safe=is_safe
        )
        results, at = [], 0
        for call, op, some in zip(calls, ops, requests, strict=True):
            results.append(call.result(op, replies[at : at + len(some)]))
            at += len(some)
        return results

    async def call(self, *words: bytes | str | int) -> Any:
        """The reply to any command, as RESP2 has it. Asked again only if nothing was done."""
        return (await self._ask([words], is_safe=False))[0]

    async def close(self) -> None:
        """Connections that are not in use are closed; it may be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    async def __aenter__(self) -> Broker:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Broker({self._shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _broker_again, self._made_from

    async def _carry_out(self, op: Op, wait_ms: int) -> Any:
        if wait_ms and isinstance(op, FillClaim):
            return await self._fill_waiting(op, wait_ms)
        return (await self.run_all([op]))[0]

    async def _fill_waiting(self, op: FillClaim, wait_ms: int) -> Any:
        """In slices, each answered well within the time that an answer may take."""
        until_s = monotonic() + wait_ms / 1000
        while True:
            left_ms = max(int(1000 * min(until_s - monotonic(), self._timeout_s / 2)), 0)
            replies = await self._ask([fill_waiting(op, left_ms)], is_safe=True)
            claim = CALLS[FillClaim].result(op, replies)
            if claim is not None or monotonic() >= until_s:
                return claim

    async def _ask(
        self,
        requests: Sequence[Request],
        absent: Sequence[type[QuinqueError] | None] = (),
        *,
        is_safe: bool,
    ) -> list[Any]:
        """The replies to requests that are sent together, None for one that is refused with the
        error which says that. Raises what the first other refused one says.

        Raises NotDone when nobody could be asked, StoreUnavailable when it is not known what came
        of it.
        """
        if not requests:
            return []
        failure: QuinqueError = NotDone("nobody was asked")
        for pause_s in self._pauses():
            if pause_s:
                await sleep(pause_s)
            try:
                replies = _without(absent, await self._ask_once(requests))
            except NotDone as error:
                failure = error
            except StoreUnavailable as error:
                if not is_safe:
                    raise
                failure = error
            else:
                refusals = [str(reply) for reply in replies if isinstance(reply, Reply)]
                if not refusals:
                    return replies
                failure = error_told(refusals[0])
                if not _may_repeat(refusals, is_safe=is_safe, is_alone=len(requests) == 1):
                    break
            self._at += 1
        try:
            raise failure
        finally:
            del failure  # or its traceback would hold this frame, and this frame the error

    def _pauses(self) -> Iterator[float]:
        """How long to wait before each try: not at all before each address was tried once."""
        count = len(self._addresses)
        for number in range((self._retries + 1) * count):
            turn = number // count
            pause_s = min(_FIRST_PAUSE_S * 2 ** (turn - 1), _PAUSE_MOST_S) if turn else 0.0
            # Many clients that lost the same broker do not come back in the same moment.
            yield 0.0 if number % count else pause_s * random.uniform(0.5, 1.0)

    async def _ask_once(self, requests: Sequence[Request]) -> list[Any]:
        address = self._addresses[self._at % len(self._addresses)]
        link = self._idle_link() or await self._connect(address)
        try:
            replies = await link.ask(requests, self._timeout_s)
        except OSError as error:
            raise StoreUnavailable(
                f"the connection to {link.address} was lost ({error}): what was asked may be done"
            ) from error
        except BaseException:  # interrupted: its reply would be taken for another's
            link.close()
            raise
        self._keep(link)
        return replies

    def _idle_link(self) -> Link | None:
        with self._lock:
            if self._process_id != os.getpid():  # a child must not speak on its parent's
                self._process_id, self._idle = os.getpid(), []
            while self._idle:
                link = self._idle.pop()
                if link.is_fit:
                    return link
                link.close()
        return None

    def _keep(self, link: Link) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_MOST:
                self._idle.append(link)
                return
        link.close()

    async def _connect(self, address: Address) -> Link:
        """Raises NotDone, or what the broker says to who asks."""
        try:
            link = await connect(address, self._tls, min(self._timeout_s, _CONNECT_MOST_S))
        except ssl.SSLCertVerificationError as error:
            raise BadSetting(
                f"{address} is not who it should be: {error.verify_message}"
            ) from error
        except OSError as error:
            raise NotDone(f"no broker answers at {address} ({error})") from error
        # A broker that has no room, or does not like the client's certificate, says so only now.
        who = [self._username] if self._username else []
        first = ["AUTH", *who, self._password] if self._password else ["PING"]
        try:
            [reply] = await link.ask([first], self._timeout_s)
        except OSError as error:
            raise NotDone(f"no broker answers at {address} ({error})") from error
        if isinstance(reply, Reply) and (self._password or not str(reply).startswith("NOPERM")):
            link.close()
            refusal = error_told(str(reply))
            raise NotDone(str(refusal)) if str(refusal) == _FULL else refusal
        return link


def _call_of(op: Op) -> Call:
    call = CALLS.get(type(op))
    if call is None:
        raise TypeError(f"{type(op).__name__} cannot be asked for over the wire")
    return call


def _without(absent: Sequence[type[QuinqueError] | None], replies: list[Any]) -> list[Any]:
    """The replies, None for a refusal that says that there is nothing."""
    for at, kind in enumerate(absent):
        reply = replies[at]
        if kind is not None and isinstance(reply, Reply) and str(reply).split()[0] == kind.code:
            replies[at] = None
    return replies


def _may_repeat(refusals: Sequence[str], *, is_safe: bool, is_alone: bool) -> bool:
    """Whether to ask again: of several requests, those that were not refused are carried out."""
    codes = {refusal.partition(" ")[0] for refusal in refusals}
    return codes <= (_NOT_DONE | _UNKNOWN if is_safe else _NOT_DONE) and (is_safe or is_alone)


def _tls(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (ca, certificate, key)))
        raise BadSetting(f"{named}: these are not the files (PEM) that TLS needs") from error
    return context


def _broker_again(
    url: str,
    username: str | None,
    password: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
    timeout_s: float,
    retries: int,
) -> Broker:
    return Broker(
        url,
        username=username,
        password=password,
        ca=ca,
        certificate=certificate,
        key=key,
        timeout_s=timeout_s,
        retries=retries,
    )
