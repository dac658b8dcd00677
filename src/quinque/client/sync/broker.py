"""A client of one broker, or of several brokers that share a store. It runs operations.

Called by   spark/, cli/, the queues of this folder.
Calls       calls.py and work_calls.py (words and meanings), edge.py (connections).

    with Broker("redis://one:4777,two:4777", password=…) as broker:
        view = broker.run(OpenClaims(JOBS, b"orders", b"report", b"", lease_ms=60_000))

The client connects on the first request. If a broker does not answer, the client tries the next
one. After a round of all brokers it pauses, twice as long each time. A request that may have been
carried out is sent again only if it is safe to repeat.

Threads and tasks can share one client. Connections are reused.

Not here: what an operation is (model/), waiting in the broker (server/waiters.py).
"""

from __future__ import annotations

import os
import random
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

from quinque.client.addresses import Address, parse_broker_url
from quinque.client.calls import CALLS as OWN_CALLS
from quinque.client.calls import Call, Request
from quinque.client.checks import as_whole_setting
from quinque.client.homes import ASKED, Home, check_home, home_of
from quinque.client.job_calls import CALLS as JOB_CALLS
from quinque.client.link import NotSent, Reply
from quinque.client.login import login_words, tls_context, untrusted, why_closed, with_advice
from quinque.client.own_calls import CALLS as OWN_ID_CALLS
from quinque.client.refusals import are_repeated, error_of, forgive, is_of_code
from quinque.client.spans import Seconds, as_setting_s
from quinque.client.sync.edge import Link, Pool, connect, leave_to_parent, sleep
from quinque.client.sync.interrupted import INTERRUPTED, LATE_S, sheltered
from quinque.client.sync.typed_run import TypedRun
from quinque.client.work_calls import CALLS as WORK_CALLS
from quinque.errors import (
    BadSetting,
    ConnectionLost,
    NoPermission,
    NotABroker,
    NotConnected,
    NotDone,
    OutcomeUnknown,
    QuinqueError,
    StoreClosed,
    error_told,
)
from quinque.model.giving_back import HANDING_OUT, giving_back
from quinque.model.ops import Delivery, FindReady, Op, Reserve

CALLS: Final = {**OWN_CALLS, **WORK_CALLS, **JOB_CALLS, **OWN_ID_CALLS}

# With 5 retries that is about 6 s: a broker that was killed is back by then.
_FIRST_PAUSE_S: Final = 0.2
_PAUSE_MOST_S: Final = 5.0
_CONNECT_MOST_S: Final = (
    5.0  # the client tries the next broker if one does not answer within this time
)

_SETTING_MOST: Final = 1_000_000_000  # in effect no limit, and a number that the system takes
_FULL: Final = "max number of clients reached"
_UNKNOWN_COMMAND: Final = "ERR unknown command"
_CLOSED: Final = "the client was closed while it waited for a message"


class Broker(TypedRun):
    """A client of a broker. Pickling it keeps its arguments, not its connections."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        timeout_s: Seconds = 30.0,
        retries: int = 5,
        connections: int = 4,
    ) -> None:
        """`ca`, `certificate` and `key` are PEM files for rediss://. The tasks of an event loop
        share up to `connections` connections. A task that blocks on a queue uses its own
        connection, and so does each thread. Raises BadSetting."""
        told = parse_broker_url(url)
        timeout_s = as_setting_s("timeout_s", timeout_s)
        retries = as_whole_setting("retries", retries)
        connections = as_whole_setting("connections", connections)
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
        self.shown = told.shown  # the URL, without the password
        username = told.username if username is None else username
        password = told.password if password is None else password
        self._login = login_words(username, password)
        for name, least in (("timeout_s", 0.001), ("retries", 0), ("connections", 1)):
            if not least <= self._made_from[name] <= _SETTING_MOST:
                told_as = self._made_from[name]
                raise BadSetting(f"{name} {told_as} is not between {least} and {_SETTING_MOST}")
        if told.scheme != "rediss" and (ca or certificate or key):
            raise BadSetting("ca, certificate and key require a rediss:// URL")
        self._tls = tls_context(ca, certificate, key) if told.scheme == "rediss" else None
        self._certificate = certificate
        self._timeout_s = timeout_s
        self._retries = retries
        self._pool = Pool(connections)
        self._session = _new_session()
        self._closings = 0  # how often it was closed
        self._waiting = set[Link]()  # connections on which a caller waits for a message
        self._homes: dict[Address, Home] = {}
        self._at = 0  # which of the addresses answered last
        _BROKERS.add(self)

    def run_all(self, ops: Sequence[Op]) -> list[Any]:
        """Run the operations together and return their results. They need one round trip and one
        sync of the disk. The first error is raised after all operations are carried out."""
        calls = [_call_of(op) for op in ops]
        requests = [call.requests(op) for call, op in zip(calls, ops, strict=True)]
        absent = [
            call.absent
            for call, some in zip(calls, requests, strict=True)
            for _ in range(len(some))
        ]
        replies = self._ask(
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

    def call(self, *words: bytes | str | int) -> Any:
        """Send any command and return its reply as RESP2. It is retried only if nothing was
        done."""
        [reply] = self._ask([words], is_safe=False, is_alone=True)
        return reply

    def close(self) -> None:
        """Close the connections when they are no longer in use. A task that waits for a message
        takes nothing and raises StoreClosed. The client can be used again."""
        self._closings += 1
        self._pool.close()
        for link in list(self._waiting):
            link.hang_up()

    def begin_anew(self) -> None:
        """Forget the connections and the session, which belong to the parent process."""
        self._pool.forget()
        self._waiting.clear()
        self._session = _new_session()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Broker({self.shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _broker_again, (self._made_from,)

    def _carry_out(self, op: Op, wait_ms: int) -> Any:
        if wait_ms and isinstance(op, Reserve):
            return self._reserve(op, wait_ms)
        call = _call_of(op)
        if not wait_ms or call.waiting is None:
            requests = call.requests(op)
            replies = self._ask(
                requests,
                (call.absent,) * len(requests) if call.absent else (),
                is_safe=call.may_repeat(op),
                is_of_session=call.is_of_session,
                op=op,
            )
            return call.result(op, replies)
        return self._wait(call, op, wait_ms, self._closings)

    def _reserve(self, op: Reserve, wait_ms: int) -> list[Delivery]:
        """Reserve events. If there are none, wait with a command that reports an event and does
        not take it, then reserve again. `close` ends the whole wait."""
        until_s, since = monotonic() + wait_ms / 1000, self._closings
        call, ready = _call_of(op), FindReady(op.family, op.group, [op.queue])
        found: list[Delivery] = self._carry_out(op, 0)
        while not found and (left_ms := int(1000 * (until_s - monotonic()))) > 0:
            self._wait(_call_of(ready), ready, left_ms, since)
            found = call.result(
                op,
                self._ask(call.requests(op), is_safe=False, is_alone=True, op=op, since=since),
            )
        return found

    def _wait(self, call: Call, op: Op, wait_ms: int, since: int) -> Any:
        """Carry out an operation that waits, unless the client was closed `since`."""
        # In slices, each answered well within the time that an answer may take.
        until_s = monotonic() + wait_ms / 1000
        while True:
            left_ms = max(int(1000 * min(until_s - monotonic(), self._timeout_s / 2)), 0)
            replies = self._ask(
                call.waiting(op, left_ms) if call.waiting is not None else call.requests(op),
                is_safe=call.may_repeat(op),
                is_of_session=call.is_of_session,
                is_alone=True,
                op=op,
                since=since,
            )
            found = call.result(op, replies)
            if (found is not None and found != []) or monotonic() >= until_s:
                return found

    def _ask(
        self,
        requests: Sequence[Request],
        absent: Sequence[type[QuinqueError] | None] = (),
        *,
        is_safe: bool,
        is_of_session: bool = False,
        is_alone: bool = False,
        op: Op | None = None,
        since: int | None = None,
    ) -> list[Any]:
        """Send the requests of `op` together and return their replies. A reply with the error
        `absent` is returned as None; raise the first other error reply. If the caller is
        interrupted, return the messages that `op` has received to their queue.

        Raises NotDone if no request was carried out, OutcomeUnknown if that is unknown, and
        StoreClosed if the client was closed since the program began to wait (`since`).
        """
        if not requests:
            return []
        failure: QuinqueError
        unknown: OutcomeUnknown | None = None
        first, count = self._at, len(self._addresses)
        for number in range((self._retries + 1) * count):
            if number:
                sleep(self._pause_s(number))
            at = (first + number) % count
            try:
                if since is not None and since != self._closings:
                    raise StoreClosed(_CLOSED)
                link = self._link(at, is_of_session=is_of_session, is_alone=is_alone)
                replies = self._ask_once(link, requests, op, is_alone=is_alone, since=since)
            except (NotDone, OutcomeUnknown) as error:
                failure, may_repeat = error, is_safe or isinstance(error, NotDone)
                self._leave(at)
            except BadSetting:
                self._leave(at)  # the broker at this address may be another one now
                raise
            else:
                self._at = at
                if absent:
                    forgive(absent, replies)
                refusals = [str(reply) for reply in replies if type(reply) is Reply]
                if not refusals:
                    return replies
                if refusals[0].startswith(_UNKNOWN_COMMAND):
                    self._refuse_other_servers(self._addresses[at])
                is_all = len(refusals) == len(requests)
                failure = error_of(refusals, replies)
                may_repeat = are_repeated(refusals, is_safe=is_safe, is_all=is_all)
            if isinstance(failure, OutcomeUnknown):
                unknown = failure
            if not may_repeat:
                break
        if unknown is not None and isinstance(failure, NotDone):
            failure = unknown  # the earlier request may have been carried out
        try:
            raise failure
        finally:
            del failure, unknown  # or tracebacks would hold this frame, and this frame the errors

    def _refuse_other_servers(self, address: Address) -> None:
        """Raise NotABroker if a command is unknown because the server is not a broker: Redis speaks
        the same protocol."""
        reply: Any = None
        with suppress(OSError, QuinqueError):
            link = self._connect(address)
            try:
                [reply] = link.ask([["COMMAND", "INFO", "QUEUES"]], self._timeout_s)
            finally:
                link.close()
        if reply == [None]:
            raise NotABroker(self.shown)

    def _leave(self, at: int) -> None:
        """Start the next request with another broker, since this one did not answer."""
        if self._at == at:
            self._at = (at + 1) % len(self._addresses)

    def _pause_s(self, number: int) -> float:
        """Return the pause before the next attempt: 0 until each address was tried once."""
        turn, at = divmod(number, len(self._addresses))
        if at or not turn:
            return 0.0
        # A random part, so that many clients that lost the same broker do not return at the same
        # moment.
        pause_s: float = min(_FIRST_PAUSE_S * 2 ** (turn - 1), _PAUSE_MOST_S)
        return pause_s * random.uniform(0.5, 1.0)

    def _link(self, at: int, *, is_of_session: bool, is_alone: bool) -> Link:
        """Return a connection to that broker. With a session, the connection joins the client's
        session, so that a task taken on one connection is acked on any. Raises NotDone, or the
        error with which the broker refuses the login."""
        address = self._addresses[at]
        if not is_of_session:
            return self._pool.link(address, self._connect, is_alone=is_alone)
        if not self._pool.holds(address):
            self._pool.hold(self._joined(address, is_alone=True))
        return self._joined(address, is_alone=is_alone)

    def _joined(self, address: Address, *, is_alone: bool) -> Link:
        """Return a connection that has joined the client's session. Raises as `_link` does."""
        link = self._pool.link(address, self._connect, is_alone=is_alone)
        if link.session == self._session:
            return link
        try:
            identify = [["TUBE.IDENTIFY", self._session]]
            [reply] = link.ask(identify, self._timeout_s)
            if isinstance(reply, Reply):
                if str(reply).startswith(_UNKNOWN_COMMAND):
                    self._refuse_other_servers(address)
                # The request itself was not sent, and a connection may join a session again.
                if are_repeated([str(reply)], is_safe=True, is_all=True):
                    raise NotDone(str(error_told(str(reply))))
                raise error_told(str(reply))
        except OSError as error:
            self._pool.keep(link)
            raise NotConnected(f"no broker answers at {link.address} ({error})") from error
        except QuinqueError:
            self._pool.keep(link)
            raise
        except INTERRUPTED:
            link.abandon(identify, is_alone=is_alone)
            self._pool.keep(link)
            raise
        link.session = self._session
        return link

    def _ask_once(
        self,
        link: Link,
        requests: Sequence[Request],
        op: Op | None = None,
        *,
        is_alone: bool,
        since: int | None = None,
    ) -> list[Any]:
        if since is not None:
            return self._wait_once(link, requests, op, since)
        try:
            return link.ask(requests, self._timeout_s)
        except NotSent as error:
            raise NotConnected(f"lost the connection to {link.address} ({error})") from error
        except OSError as error:
            raise ConnectionLost(
                f"lost the connection to {link.address} ({error}); the request may have been "
                "carried out"
            ) from error
        except INTERRUPTED:
            if isinstance(op, HANDING_OUT):
                sheltered(self._give_back, link, requests, op, is_alone)
            else:
                link.abandon(requests, is_alone=is_alone)
            raise
        finally:
            self._pool.keep(link)

    def _wait_once(
        self, link: Link, requests: Sequence[Request], op: Op | None, since: int
    ) -> list[Any]:
        """Do the same as `_ask_once`, on a connection that `close` ends. Then return the messages
        that the broker delivered nevertheless, and raise StoreClosed."""
        # Before the check: a thread that closes the client after the check finds the connection.
        self._waiting.add(link)
        try:
            if since != self._closings:
                self._pool.keep(link)
                raise StoreClosed(_CLOSED)
            replies = self._ask_once(link, requests, op, is_alone=True)
        except (NotDone, OutcomeUnknown):
            if since != self._closings:
                raise StoreClosed(_CLOSED) from None
            raise
        finally:
            self._waiting.discard(link)
        if since == self._closings:
            return replies
        with suppress(OSError, QuinqueError):
            if isinstance(op, HANDING_OUT) and not any(type(it) is Reply for it in replies):
                self._give_back_apart(link.address, op, replies)
        raise StoreClosed(_CLOSED)

    def _give_back_apart(self, address: Address, op: Op, replies: list[Any]) -> None:
        """Return the delivered messages to their queue on a connection of its own, so that the pool
        of a closed client stays empty."""
        for back in giving_back(op, _call_of(op).result(op, replies)):
            call = CALLS.get(type(back))
            if call is None:
                continue
            link = self._connect(address)
            try:
                if call.is_of_session:
                    link.ask([["TUBE.IDENTIFY", self._session]], self._timeout_s)
                link.ask(call.requests(back), self._timeout_s)
            finally:
                link.close()

    def _give_back(self, link: Link, requests: Sequence[Request], op: Op, is_alone: bool) -> None:
        """Return the messages that the operation delivered to their queue, if the broker reports
        them in time."""
        with suppress(OSError, QuinqueError):
            replies = link.late_replies(requests, LATE_S, is_alone=is_alone)
            if any(type(reply) is Reply for reply in replies):
                return
            if not self._pool.is_of_now(link):
                self._give_back_apart(link.address, op, replies)
                return
            for back in giving_back(op, _call_of(op).result(op, replies)):
                if type(back) not in CALLS:
                    continue
                call = _call_of(back)
                link = self._link(self._at, is_of_session=call.is_of_session, is_alone=False)
                self._ask_once(link, call.requests(back), is_alone=False)

    def _connect(self, address: Address) -> Link:
        """Connect. Raises NotDone, or the error with which the broker refuses the login."""
        try:
            link = connect(address, self._tls, min(self._timeout_s, _CONNECT_MOST_S))
        except ssl.SSLCertVerificationError as error:
            raise untrusted(address, error) from error
        except OSError as error:
            raise NotConnected(f"no broker answers at {address} ({self._why(error)})") from error
        # A broker that is full, or does not accept the client's certificate, reports it only now.
        first: Request = ["AUTH", *self._login] if self._login else ["PING"]
        # If there is another broker, pass over one that accepts the connection and does not reply.
        is_alone = len(self._addresses) == 1
        timeout_s = self._timeout_s if is_alone else min(self._timeout_s, _CONNECT_MOST_S)
        try:
            [reply] = link.ask([first], timeout_s)
            if isinstance(reply, Reply) and (first[0] == "AUTH" or not _is_forbidden(reply)):
                refusal = with_advice(error_told(str(reply)))
                raise NotDone(str(refusal)) if str(refusal) == _FULL else refusal
            if not is_alone:
                home = home_of(link.ask(ASKED, timeout_s))
                if home is not None:
                    check_home(self._homes, address, home)
        except OSError as error:
            raise NotConnected(f"no broker answers at {address} ({self._why(error)})") from error
        except BaseException:
            link.close()
            raise
        return link

    def _why(self, error: OSError) -> str:
        """Return why a broker does not answer on a new connection."""
        return why_closed(error, is_tls=self._tls is not None, certificate=self._certificate)


def _call_of(op: Op) -> Call:
    call = CALLS.get(type(op))
    if call is None:
        raise TypeError(f"{type(op).__name__} is not available over the wire")
    return call


def _is_forbidden(reply: Reply) -> bool:
    return is_of_code(reply, NoPermission)


def _new_session() -> str:
    """Return a session name that is not a UUID: the broker must know a UUID already."""
    return f"client-{secrets.token_hex(16)}"


def _begin_in_child() -> None:
    """Forget the parent's connections. A child must not use them, nor end their session."""
    leave_to_parent()
    for broker in _BROKERS:
        broker.begin_anew()


_BROKERS: Final = WeakSet[Broker]()
os.register_at_fork(after_in_child=_begin_in_child)


def _broker_again(made_from: dict[str, Any]) -> Broker:
    return Broker(**made_from)
