"""A broker, or several that share a store, as something that runs operations.

Called by   spark/, cli/, the queues of this folder.
Calls       calls.py and work_calls.py (words and meanings), edge.py (connections).

    async with Broker("redis://one:4777,two:4777", password=…) as broker:
        view = await broker.run(OpenClaims(JOBS, b"orders", b"report", b"", lease_ms=60_000))

Nothing is connected before it is needed. When a broker does not answer, the next one is asked; when
all have been asked, a pause follows, twice as long each time. What may have been carried out is
asked again only if a repeat does no harm.

Threads and tasks may share one, and its connections are used again.

Not here: what an operation is (model/), waiting in the broker (server/waiters.py).
"""

from __future__ import annotations

import os
import random
import secrets
import ssl
from collections.abc import Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

from quinque.client.addresses import Address, parse_broker_url
from quinque.client.aio.edge import Link, Pool, connect, sleep
from quinque.client.aio.typed_run import TypedRun
from quinque.client.calls import CALLS as OWN_CALLS
from quinque.client.calls import Call, Request
from quinque.client.job_calls import CALLS as JOB_CALLS
from quinque.client.link import NotSent, Reply
from quinque.client.own_calls import CALLS as OWN_ID_CALLS
from quinque.client.work_calls import CALLS as WORK_CALLS
from quinque.errors import (
    BadSetting,
    Leaving,
    NoPermission,
    NotDone,
    OutcomeUnknown,
    QuinqueError,
    StoreUnavailable,
    error_told,
)
from quinque.model.ops import Op

CALLS: Final = {**OWN_CALLS, **WORK_CALLS, **JOB_CALLS, **OWN_ID_CALLS}

# With 5 retries that is about 6 s: a broker that was killed is back by then.
_FIRST_PAUSE_S: Final = 0.2
_PAUSE_MOST_S: Final = 5.0
_CONNECT_MOST_S: Final = 5.0  # a host that is silent for longer is passed over

# Nothing was done; Redis's word for a server that has not read its data yet is among them.
_NOT_DONE: Final = frozenset({NotDone.code, Leaving.code, "LOADING"})
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
        connections: int = 4,
    ) -> None:
        """`ca`, `certificate` and `key` are files (PEM), for rediss://. The tasks of an event loop
        share up to so many `connections`; whoever waits for a message has one of its own, as each
        thread has that asks. Raises BadSetting."""
        told = parse_broker_url(url)
        self._made_from: dict[str, Any] = {
            "url": url,
            "username": username,
            "password": password,
            "ca": ca,
            "certificate": certificate,
            "key": key,
            "timeout_s": timeout_s,
            "retries": retries,
            "connections": connections,
        }
        self._addresses = told.addresses
        self._shown = told.shown
        self._username = told.username if username is None else username
        self._password = told.password if password is None else password
        for name, least in (("timeout_s", 0.001), ("retries", 0), ("connections", 1)):
            if not self._made_from[name] >= least:
                raise BadSetting(f"{name} {self._made_from[name]} is less than {least}")
        if told.scheme != "rediss" and (ca or certificate or key):
            raise BadSetting("ca, certificate and key are for rediss://")
        self._tls = _tls(ca, certificate, key) if told.scheme == "rediss" else None
        self._timeout_s = timeout_s
        self._retries = retries
        self._pool = Pool(connections)
        self._session = _new_session()
        self._at = 0  # which of the addresses answered last
        _BROKERS.add(self)

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """The result of each operation; they are asked for together, so that they cost one turn of
        the broker and one sync of its disk. The first error is raised when all are carried out."""
        calls = [_call_of(op) for op in ops]
        requests = [call.requests(op) for call, op in zip(calls, ops, strict=True)]
        absent = [
            call.absent
            for call, some in zip(calls, requests, strict=True)
            for _ in range(len(some))
        ]
        replies = await self._ask(
            [each for some in requests for each in some],
            absent,
            is_safe=all(call.may_repeat(op) for call, op in zip(calls, ops, strict=True)),
            is_of_session=any(call.is_of_session for call in calls),
        )
        results, at = [], 0
        for call, op, some in zip(calls, ops, requests, strict=True):
            results.append(call.result(op, replies[at : at + len(some)]))
            at += len(some)
        return results

    async def call(self, *words: bytes | str | int) -> Any:
        """The reply to any command, as RESP2 has it. Asked again only if nothing was done."""
        [reply] = await self._ask([words], is_safe=False, is_alone=True)
        return reply

    async def close(self) -> None:
        """Connections are closed, as soon as they are not in use; it may be used again."""
        self._pool.close()

    def begin_anew(self) -> None:
        """Its connections are another process's, and so is its session."""
        self._pool.forget()
        self._session = _new_session()

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
        return _broker_again, (self._made_from,)

    async def _carry_out(self, op: Op, wait_ms: int) -> Any:
        call = _call_of(op)
        if not wait_ms or call.waiting is None:
            requests = call.requests(op)
            replies = await self._ask(
                requests,
                (call.absent,) * len(requests) if call.absent else (),
                is_safe=call.may_repeat(op),
                is_of_session=call.is_of_session,
            )
            return call.result(op, replies)
        # In slices, each answered well within the time that an answer may take.
        until_s = monotonic() + wait_ms / 1000
        while True:
            left_ms = max(int(1000 * min(until_s - monotonic(), self._timeout_s / 2)), 0)
            replies = await self._ask(
                call.waiting(op, left_ms),
                is_safe=call.may_repeat(op),
                is_of_session=call.is_of_session,
                is_alone=True,
            )
            found = call.result(op, replies)
            if (found is not None and found != []) or monotonic() >= until_s:
                return found

    async def _ask(
        self,
        requests: Sequence[Request],
        absent: Sequence[type[QuinqueError] | None] = (),
        *,
        is_safe: bool,
        is_of_session: bool = False,
        is_alone: bool = False,
    ) -> list[Any]:
        """The replies to requests that are sent together, None for one that is refused with the
        error which says that. Raises what the first other refused one says.

        Raises NotDone when nothing was done, OutcomeUnknown when it is not known what came of it.
        """
        if not requests:
            return []
        failure: QuinqueError
        unknown: OutcomeUnknown | None = None
        first, count = self._at, len(self._addresses)
        for number in range((self._retries + 1) * count):
            if number:
                await sleep(self._pause_s(number))
            at = (first + number) % count
            try:
                link = await self._link(at, is_of_session=is_of_session, is_alone=is_alone)
                replies = await self._ask_once(link, requests, is_alone=is_alone)
            except (NotDone, OutcomeUnknown) as error:
                failure, may_repeat = error, is_safe or isinstance(error, NotDone)
                self._leave(at)
            else:
                self._at = at
                if absent:
                    _forgive(absent, replies)
                refusals = [str(reply) for reply in replies if type(reply) is Reply]
                if not refusals:
                    return replies
                is_all = len(refusals) == len(requests)
                failure = _error(refusals, is_all=is_all)
                may_repeat = _may_repeat(refusals, is_safe=is_safe, is_all=is_all)
            if isinstance(failure, OutcomeUnknown):
                unknown = failure
            if not may_repeat:
                break
        if unknown is not None and isinstance(failure, NotDone):
            failure = unknown  # what was asked before may be done
        try:
            raise failure
        finally:
            del failure, unknown  # or tracebacks would hold this frame, and this frame the errors

    def _leave(self, at: int) -> None:
        """Whoever asks next does not begin with the broker that did not answer."""
        if self._at == at:
            self._at = (at + 1) % len(self._addresses)

    def _pause_s(self, number: int) -> float:
        """How long to wait before a try: not at all before each address was tried once."""
        turn, at = divmod(number, len(self._addresses))
        if at or not turn:
            return 0.0
        # Many clients that lost the same broker do not come back in the same moment.
        pause_s: float = min(_FIRST_PAUSE_S * 2 ** (turn - 1), _PAUSE_MOST_S)
        return pause_s * random.uniform(0.5, 1.0)

    async def _link(self, at: int, *, is_of_session: bool, is_alone: bool) -> Link:
        """A connection to that broker; of the client's session, if asked for, so that what is taken
        on one of them is acked on any. Raises NotDone, or what the broker says to who asks."""
        link = await self._pool.link(self._addresses[at], self._connect, is_alone=is_alone)
        if not is_of_session or link.session == self._session:
            return link
        try:
            identify = [["TUBE.IDENTIFY", self._session]]
            [reply] = await link.ask(identify, self._timeout_s, is_alone=is_alone)
            if isinstance(reply, Reply):
                raise error_told(str(reply))
        except OSError as error:
            self._pool.keep(link)
            raise NotDone(f"no broker answers at {link.address} ({error})") from error
        except BaseException:
            self._pool.keep(link)
            raise
        link.session = self._session
        return link

    async def _ask_once(
        self, link: Link, requests: Sequence[Request], *, is_alone: bool
    ) -> list[Any]:
        try:
            return await link.ask(requests, self._timeout_s, is_alone=is_alone)
        except NotSent as error:
            raise NotDone(f"the connection to {link.address} was lost ({error})") from error
        except OSError as error:
            raise OutcomeUnknown(
                f"the connection to {link.address} was lost ({error}): what was asked may be done"
            ) from error
        finally:
            self._pool.keep(link)

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
        first = ["AUTH", *who, self._password] if who or self._password else ["PING"]
        try:
            [reply] = await link.ask([first], self._timeout_s, is_alone=True)
        except OSError as error:
            raise NotDone(f"no broker answers at {address} ({error})") from error
        if isinstance(reply, Reply) and (first != ["PING"] or not _is_of_code(reply, NoPermission)):
            link.close()
            refusal = error_told(str(reply))
            raise NotDone(str(refusal)) if str(refusal) == _FULL else refusal
        return link


def _call_of(op: Op) -> Call:
    call = CALLS.get(type(op))
    if call is None:
        raise TypeError(f"{type(op).__name__} cannot be asked for over the wire")
    return call


def _error(refusals: Sequence[str], *, is_all: bool) -> QuinqueError:
    """What the first says; unless nothing was done of it, and of others something was."""
    error = error_told(refusals[0])
    if isinstance(error, StoreUnavailable):
        return OutcomeUnknown(str(error))
    if isinstance(error, NotDone) and not is_all:
        return OutcomeUnknown(f"a part of what was asked is not done: {error}")
    return error


def _new_session() -> str:
    """No UUID, which a broker would have to know."""
    return f"client-{secrets.token_hex(16)}"


def _forgive(absent: Sequence[type[QuinqueError] | None], replies: list[Any]) -> None:
    """A refusal that says that there is nothing is None."""
    for at, kind in enumerate(absent):
        reply = replies[at]
        if kind is not None and isinstance(reply, Reply) and _is_of_code(reply, kind):
            replies[at] = None


def _is_of_code(reply: Reply, kind: type[QuinqueError]) -> bool:
    return str(reply).partition(" ")[0] == kind.code


def _may_repeat(refusals: Sequence[str], *, is_safe: bool, is_all: bool) -> bool:
    """Whether to ask again: of several requests, those that were not refused are carried out."""
    codes = {refusal.partition(" ")[0] for refusal in refusals}
    return codes <= (_NOT_DONE | _UNKNOWN if is_safe else _NOT_DONE) and (is_safe or is_all)


def _tls(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        named = ", ".join(filter(None, (ca, certificate, key)))
        raise BadSetting(f"{named}: these are not the files (PEM) that TLS needs") from error
    return context


def _begin_in_child() -> None:
    """A child must not speak on its parent's connections, nor end their session."""
    for broker in _BROKERS:
        broker.begin_anew()


_BROKERS: Final = WeakSet[Broker]()
os.register_at_fork(after_in_child=_begin_in_child)


def _broker_again(made_from: dict[str, Any]) -> Broker:
    return Broker(**made_from)
