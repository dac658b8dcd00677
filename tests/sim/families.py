"""What clients do, a class for each family: producers and consumers with habits of the real ones.

A client has one connection. It does one thing after the other, as the seed chooses, and tells the
history what it asked and what it read. When its connection is lost it does not know what became of
its last request, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, ClassVar

from tests.sim.client import Connection, Lost, Moment, Refused
from tests.sim.history import History, Hold, Message
from tests.sim.network import Network

JITTER_S = 0.25  # of the lease of a job
FOREVER_S = 1e18
EPSILON_S = 0.002  # the broker's time is in whole milliseconds

# Errors that say that nothing changed.
NOTHING_DONE = ("DISKFULL", "NOTDONE", "PAUSED", "MAXLEN", "WRONGTYPE", "BUSY", "LEAVING")
UNKNOWN = ("UNAVAILABLE",)

Held = list[tuple[Message, Hold]]


class Agent:
    """A client of one family."""

    family: ClassVar[str]

    def __init__(
        self,
        name: str,
        network: Network,
        address: tuple[str, int],
        history: History,
        random: Random,
        queues: list[str],
    ) -> None:
        self.name = name
        self._network = network
        self._address = address
        self.history = history
        self.random = random
        self.queues = queues
        self.connection: Connection | None = None
        self.held: dict[bytes, tuple[Message, Hold]] = {}
        self.is_over = False
        self.moment = Moment(0.0, 0.0)  # of the last reply

    # -- the life of a client ------------------------------------------------------------------

    async def live(self) -> None:
        """Do one thing after the other until told to stop."""
        random = self.random
        while not self.is_over:
            try:
                if self.connection is None or self.connection.is_lost:
                    self._lose_all()
                    self.connection = Connection(self._network, self._address)
                await random.choice(self.habits())()
                if random.random() < 0.02:
                    self._leave()
            except Refused as error:
                if not str(error).startswith(NOTHING_DONE):
                    self.history.fail(f"{self.name}: {error}")
            except (Lost, ConnectionRefusedError):
                self.history.count(f"{self.family} lost")
                await asyncio.sleep(random.random())
            pause = random.random()
            if pause < 0.5:
                await asyncio.sleep(random.choice((0.0, 0.001, 0.02, 0.5)) * random.random())
        self._leave()

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        raise NotImplementedError

    async def drained(self) -> list[bytes]:
        """The bodies of all messages that are left, whatever their state."""
        raise NotImplementedError

    async def check_end(self) -> None:
        """What is left is what must be."""
        self.history.check_end(self.family, await self.drained())

    def _leave(self) -> None:
        """Disconnect, in one of the ways that clients have."""
        connection, random = self.connection, self.random
        if connection is not None and not connection.is_lost:
            random.choice((connection.close, connection.abort, connection.half_close))()
        self.connection = None
        self._lose_all()

    def _lose_all(self) -> None:
        """Forget the messages of a lost connection: the broker may return them to their queues."""
        self.held.clear()

    def delivered(self, message: Message, lease_s: float) -> Hold:
        """The last reply delivered this message."""
        assert self.connection is not None
        return self.history.delivered(message, self.name, self.connection, lease_s)

    # -- requests ------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def ask(self, *words: bytes | str | int, within_s: float = 30.0) -> Any:
        """The reply; None for an error that says that nothing was done. Raises Lost, and Refused
        for other errors."""
        assert self.connection is not None
        name = words[0] if isinstance(words[0], str) else str(words[0])
        self.history.count(name)
        self.history.note(self.now_s, self.name, f"{shown(words)} …")
        try:
            reply = await self.connection.call(*words, within_s=within_s)
        except Refused as error:
            text = str(error)
            self.history.note(self.now_s, self.name, f"{name} -> {text}")
            self.history.count(f"-{text.split()[0]}")
            if text.startswith(UNKNOWN):
                raise Lost from None
            if "internal error" in text:
                self.history.fail(f"{self.name}: {shown(words)}: {text}")
            raise
        except Lost:
            self.history.note(self.now_s, self.name, f"{name} -> no reply")
            raise
        self.moment = self.connection.moment
        self.history.note(self.now_s, self.name, f"{name} -> {shown(reply)}")
        if self.connection.strays:
            self.history.fail(f"{self.name}: replies without a request: {self.connection.strays}")
        return reply

    async def add(self, messages: list[Message], *words: bytes | str | int) -> Any:
        """Add these messages with one request. None if they were refused."""
        try:
            reply = await self.ask(*words)
        except Refused as error:
            if not str(error).startswith(NOTHING_DONE):
                self.history.fail(f"{self.name}: {shown(words)}: {error}")
            for message in messages:
                message.added = "refused"
            return None
        for message in messages:
            message.added = "stored"
        return reply

    async def remove(self, messages: list[Message], *words: bytes | str | int) -> Any:
        """Send a request that removes these messages; they are uncertain until its reply."""
        before = [it.is_uncertain for it in messages]
        for message in messages:
            message.is_uncertain = True
        try:
            reply = await self.ask(*words)
        except Refused:
            reply = None
        for message, was in zip(messages, before, strict=True):
            message.is_uncertain = was
        return reply

    async def give_back(self, message: Message, *words: bytes | str | int) -> Any:
        """Send a request that gives the message back. It may end the lease of another consumer."""
        message.releases += 1
        for hold in message.holds:
            hold.is_given_back = True
        try:
            return await self.ask(*words)
        finally:
            message.releases -= 1
            for hold in message.holds:
                hold.is_given_back = True

    def message(self, queue: str) -> Message:
        room = self.random.choice((0, 0, 0, 10, 300, 5_000))
        return self.history.new(self.family, queue, room)

    def queue(self) -> str:
        return self.random.choice(self.queues)

    def some_held(self) -> tuple[bytes, Message, Hold] | None:
        if not self.held:
            return None
        id = self.random.choice(list(self.held))
        return id, *self.held[id]


def shown(value: Any) -> str:
    """A request or a reply, short."""
    text = repr(value)
    while "...." in text:
        text = text.replace("....", "")
    return text if len(text) < 300 else text[:297] + "…"


class Jobs(Agent):
    family = "jobs"

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._add, self._add, self._get, self._get, self._end, self._end, self._look]

    async def _add(self) -> None:
        random, queue = self.random, self.queue()
        message = self.message(queue)
        words: list[bytes | str | int] = ["ADDJOB", queue, message.body, 0]
        retry_s = random.choice((0, 1, 2, 5, 20, None))
        message.once = retry_s == 0
        message.lease_s = 300 if retry_s is None else retry_s
        if retry_s is not None:
            words += ["RETRY", retry_s]
        if random.random() < 0.2:
            words += ["DELAY", random.choice(("0.5", "1", "3", "20"))]
        if random.random() < 0.1:
            words += ["MAXLEN", random.choice((1, 2, 100))]
        if random.random() < 0.1:
            words += ["ASYNC"]
        id = await self.add([message], *words)
        if id is not None:
            message.id = id

    async def _get(self) -> None:
        random = self.random
        words: list[bytes | str | int] = ["GETJOB"]
        words += random.choice(([], ["NOHANG"], ["TIMEOUT", random.choice((1, 100, 3_000))]))
        if len(words) == 1:
            words += ["TIMEOUT", 20_000]
        if random.random() < 0.4:
            words += ["COUNT", random.choice((1, 2, 10))]
        words += ["WITHCOUNTERS", "FROM", *random.sample(self.queues, random.randint(1, 2))]
        for queue, id, body, _, nacks, _, _ in await self._taken(words):
            message = self.history.find(self.family, body)
            self._check_queue(message, queue, nacks)
            message.id = id
            hold = self.delivered(message, self._lease_s(message))
            self.held[id] = message, hold

    def _lease_s(self, message: Message) -> float:
        return message.lease_s - JITTER_S - EPSILON_S

    async def _taken(self, words: list[bytes | str | int]) -> list[Any]:
        return await self.ask(*words) or []

    def _check_queue(self, message: Message, queue: bytes, nacks: int) -> None:
        if message.queue.encode() != queue:
            self.history.fail(f"{message.body[:40]!r} of {message.queue} came from {queue!r}")

    async def _end(self) -> None:
        """Finish a job, or give it back."""
        found = self.some_held()
        if found is None:
            return
        id, message, _ = found
        random = self.random
        if random.random() < 0.3:
            await asyncio.sleep(random.choice((0.5, 2, 7)))
        way = random.choice(("ACKJOB", "ACKJOB", "FASTACK", "DELJOB", "NACK", "WORKING", "forget"))
        if way == "forget":
            del self.held[id]
        elif way == "NACK":
            del self.held[id]
            words: list[bytes | str | int] = [way, id]
            if random.random() < 0.3:
                words += ["DELAY", random.choice(("0.2", "2"))]
            await self.give_back(message, *words)
        elif way == "WORKING":
            try:
                await self.ask(way, id)
            except Refused as error:
                if str(error).startswith("NOJOB") and message.must_be_there:
                    self.history.fail(f"{message.body[:40]!r} is unknown to the broker: lost")
        else:
            del self.held[id]
            others = [message]
            if self.held and random.random() < 0.3:
                more = random.choice(list(self.held))
                others.append(self.held.pop(more)[0])
            count = await self.remove(others, way, *[it.id for it in others])
            if count is not None:
                if count < sum(it.must_be_there for it in others):
                    self.history.fail(f"{way} of {[it.body[:20] for it in others]}: lost")
                for it in others:
                    it.removed = it.removed or self.moment

    async def _look(self) -> None:
        queue = self.queue()
        way = self.random.choice(("QLEN", "QSTAT", "QPEEK", "SHOW", "JSCAN", "ENQUEUE", "DEQUEUE"))
        if way == "QPEEK":
            await self.ask(way, queue, self.random.choice((3, -3)))
        elif way == "JSCAN":
            await self.ask(way, 0, "COUNT", 10)
        elif way in ("SHOW", "ENQUEUE", "DEQUEUE"):
            found = self.some_held()
            if found is not None:
                if way == "DEQUEUE" and found[1].once:
                    return
                await self.give_back(found[1], way, found[0])
        else:
            await self.ask(way, queue)

    async def drained(self) -> list[bytes]:
        found = []
        cursor: bytes = b"0"
        while True:
            cursor, jobs = await self.ask("JSCAN", cursor, "COUNT", 1_000, "REPLY", "all")
            for job in jobs:
                fields = dict(zip(job[::2], job[1::2], strict=True))
                found.append(fields[b"body"])
            if cursor == b"0":
                return found


class Reliable(Agent):
    family = "reliable"

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._push, self._push, self._pop, self._pop, self._ack, self._ack, self._recover]

    async def _push(self) -> None:
        queue = self.queue()
        messages = [self.message(queue) for _ in range(self.random.choice((1, 1, 3)))]
        ids = await self.add(messages, "RQ.PUSH", queue, *[it.body for it in messages])
        if ids is not None and len(messages) > 1 and len(ids) != len(messages):
            self.history.fail(f"{self.name}: {len(messages)} pushed, {ids!r}")

    async def _pop(self) -> None:
        random = self.random
        words: list[bytes | str | int] = ["RQ.POP", "COUNT", random.choice((1, 2, 5))]
        if random.random() < 0.5:
            words += ["BLOCK", random.choice((0, 10, 3_000))]
        queue = self.queue()
        words.append(queue)
        reply = await self.ask(*words)
        for _, id, body in reply or []:
            self._hold(id, body)

    def _hold(self, id: bytes, body: bytes) -> None:
        message = self.history.find(self.family, body)
        message.id = id
        # Only RECOVER gives it to another.
        hold = self.delivered(message, FOREVER_S)
        hold.is_given_back = self.history.recovered.get(message.queue, 0.0) >= self.moment.from_s
        self.held[id] = message, hold

    async def _ack(self) -> None:
        found = self.some_held()
        if found is None:
            return
        id, message, _ = found
        del self.held[id]
        if self.random.random() < 0.2:
            return
        count = await self.remove([message], "RQ.ACK", message.queue, id)
        if count is not None:
            self.history.removed(message, self.moment, count == [id])

    async def _recover(self) -> None:
        queue = self.queue()
        elapsed_ms = self.random.choice((0, 1_000, 10_000))
        for message in self.history.messages.values():
            if message.family == self.family and message.queue == queue:
                for hold in message.holds:
                    hold.is_given_back = True
        recovered = self.history.recovered
        recovered[queue] = FOREVER_S  # at some time from now on
        reply = await self.ask("RQ.RECOVER", queue, self.random.choice((1, 10)), elapsed_ms)
        recovered[queue] = self.moment.to_s
        for id, body in reply or []:
            self._hold(id, body)

    async def drained(self) -> list[bytes]:
        found = []
        for queue in self.queues:
            for words in (["RQ.INSPECT", queue], ["RQ.INSPECT", queue, "PENDING"]):
                start = 0
                while True:
                    try:
                        rows = await self.ask(*words, start, 1_000)
                    except Refused:  # EMPTYKEY
                        break
                    if not rows:
                        break
                    found += [row[1] for row in rows]
                    start += len(rows)
        return found


class Items(Agent):
    family = "items"

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._add, self._add, self._lease, self._lease, self._complete, self._complete]

    async def _add(self) -> None:
        queue = self.queue()
        messages = [self.message(queue) for _ in range(self.random.choice((1, 1, 3)))]
        words: list[bytes | str | int] = ["WQ.ADD", queue]
        for message in messages:
            message.id = message.body[:40].rstrip(b".")
            words += [message.id, message.body]
        await self.add(messages, *words)

    async def _lease(self) -> None:
        random, queue = self.random, self.queue()
        lease_ms = random.choice((500, 2_000, 20_000))
        words: list[bytes | str | int] = ["WQ.LEASE", queue, lease_ms]
        if random.random() < 0.5:
            words += ["COUNT", random.choice((1, 4))]
        if random.random() < 0.5:
            words += ["BLOCK", random.choice((0, 10, 3_000))]
        for id, body in await self.ask(*words) or []:
            message = self.history.find(self.family, body)
            lease_s = lease_ms / 1000 - EPSILON_S
            hold = self.delivered(message, lease_s)
            self.held[id] = message, hold

    async def _complete(self) -> None:
        found = self.some_held()
        if found is None:
            return
        id, message, _ = found
        if self.random.random() < 0.3:
            await asyncio.sleep(self.random.choice((0.3, 3)))
        del self.held[id]
        if self.random.random() < 0.3:
            return
        count = await self.remove([message], "WQ.COMPLETE", message.queue, id)
        if count is not None:
            # An item whose lease has ended, or that another has, is completed all the same.
            self.history.removed(message, self.moment, count == 1)

    async def drained(self) -> list[bytes]:
        found = []
        for queue in self.queues:
            for state in ("queued", "processing"):
                rows = await self.ask("WQ.PEEK", queue, "STATE", state, "COUNT", 10_000)
                found += [row[3] for row in rows or []]
        return found


class Events(Agent):
    family = "events"
    groups = ("one", "two")

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._add, self._add, self._get, self._get, self._get, self._end, self._end]

    async def _add(self) -> None:
        queue = self.queue()
        message = self.message(queue)
        twins = [self.history.also(f"events/{group}", message) for group in self.groups]
        await self.add([message, *twins], "QADD", queue, 86_400, message.body)

    async def _get(self) -> None:
        random, queue = self.random, self.queue()
        group = random.choice(self.groups)
        lease_s = random.choice((0, 1, 5, 30))
        reply = await self.ask("QGET", queue, group, "EX", lease_s)
        if reply is None:
            return
        id, body = reply
        message = self.history.find(f"events/{group}", body)
        if message.queue != queue:
            self.history.fail(f"{body[:40]!r} of {message.queue} came from {queue}")
        if not lease_s:
            # Acked when it was delivered; if the reply had been lost, nobody would know.
            self.delivered(message, 0.0)
            message.removed = self.moment
            return
        hold = self.delivered(message, lease_s - EPSILON_S)
        self.held[b"%s %s" % (group.encode(), id)] = message, hold

    async def ask(self, *words: bytes | str | int, within_s: float = 30.0) -> Any:
        """Like that of others. A delivery that is an ack too may be lost with its reply."""
        is_ack = words[0] == "QGET" and words[-1] == 0
        try:
            return await super().ask(*words, within_s=within_s)
        except Lost:
            if is_ack:
                family = f"events/{words[2]!s}"
                for message in self.history.messages.values():
                    if message.family == family and message.queue == words[1]:
                        message.is_uncertain = True
            raise

    async def _end(self) -> None:
        found = self.some_held()
        if found is None:
            return
        key, message, _ = found
        group, _, id = key.partition(b" ")
        del self.held[key]
        way = self.random.choice(("ack", "ack", "release", "extend", "forget"))
        if way == "ack":
            if await self.remove([message], "QACK", message.queue, group, id) == 1:
                self.history.removed(message, self.moment, did=True)
        elif way == "release":
            await self.give_back(message, "QRELEASE", message.queue, group, id)
        elif way == "extend":  # the lease may be shortened
            await self.give_back(message, "QEXTEND", message.queue, group, 3, id)

    async def check_end(self) -> None:
        for group in self.groups:
            found = []
            for queue in self.queues:
                while (reply := await self.ask("QGET", queue, group, "EX", 10_000)) is not None:
                    found.append(reply[1])
            self.history.check_end(f"events/{group}", found)


class Tubes(Agent):
    family = "tubes"
    kinds = ("fifo", "fifottl", "limfifottl", "utube", "utubettl")

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._put, self._put, self._take, self._take, self._end, self._end, self._kick]

    def _kind(self, tube: str) -> str:
        return self.kinds[sum(tube.encode()) % len(self.kinds)]

    async def _put(self) -> None:
        random, tube = self.random, self.queue()
        kind = self._kind(tube)
        await self.ask("TUBE.CREATE", tube, kind, "IFNOTEXISTS")
        message = self.message(tube)
        words: list[bytes | str | int] = ["TUBE.PUT", tube, message.body]
        if kind.endswith("ttl"):
            message.lease_s = random.choice((1, 3, 600))
            words += ["TTL", 1_000_000, "TTR", int(message.lease_s)]
            words += random.choice(([], [], ["DELAY", "0.5"], ["PRI", "3"]))
        else:
            message.lease_s = FOREVER_S
        if kind.startswith("utube"):
            words += ["UTUBE", random.choice(("x", "y"))]
        task = await self.add([message], *words)
        if task is not None:
            message.id = task[0]

    async def _take(self) -> None:
        tube = self.queue()
        await self.ask("TUBE.CREATE", tube, self._kind(tube), "IFNOTEXISTS")
        words: list[bytes | str | int] = ["TUBE.TAKE", tube, self.random.choice(("0", "0.01", "3"))]
        task = await self.ask(*words)
        if task is None:
            return
        id, state, body = task
        message = self.history.find(self.family, body)
        if message.queue != tube or state != b"t":
            self.history.fail(f"{body[:40]!r} of {message.queue} came from {tube} as {state!r}")
        message.id = id
        hold = self.delivered(message, message.lease_s - EPSILON_S)
        self.held[b"%s %d" % (tube.encode(), id)] = message, hold

    async def _end(self) -> None:
        found = self.some_held()
        if found is None:
            return
        key, message, _ = found
        if self.random.random() < 0.2:
            await asyncio.sleep(self.random.choice((0.5, 4)))
        del self.held[key]
        way = self.random.choice(("ack", "ack", "release", "bury", "delete", "forget"))
        tube, id = message.queue, int(key.rpartition(b" ")[2])
        try:
            if way in ("ack", "delete"):
                name = f"TUBE.{way.upper()}"
                if await self.remove([message], name, tube, id) is not None:
                    self.history.removed(message, self.moment, did=True)
            elif way in ("release", "bury"):
                await self.give_back(message, f"TUBE.{way.upper()}", tube, id)
        except Refused as error:
            if not str(error).startswith(("NOTTAKEN", "NOTASK", *NOTHING_DONE)):
                raise

    async def _kick(self) -> None:
        tube = self.queue()
        await self.ask("TUBE.CREATE", tube, self._kind(tube), "IFNOTEXISTS")
        await self.ask("TUBE.KICK", tube, self.random.choice((1, 10)))

    async def drained(self) -> list[bytes]:
        found = []
        for tube in self.queues:
            await self.ask("TUBE.CREATE", tube, self._kind(tube), "IFNOTEXISTS")
            for state in ("ready", "taken", "delayed", "buried"):
                rows = await self.ask("TUBE.BROWSE", tube, "STATE", state, "COUNT", 10_000)
                found += [row[2] for row in rows]
                if state == "taken" and rows:  # all clients have left
                    self.history.fail(f"{tube}: taken, and nobody has it: {rows[0]!r}")
        return found


class Talker(Agent):
    """Sends many requests at once, of which each reply says whose it is. It reads slowly."""

    family = "talk"

    def habits(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._talk]

    async def _talk(self) -> None:
        random, connection = self.random, self.connection
        assert connection is not None
        expected: list[tuple[asyncio.Future[Any], bytes]] = []
        for number in range(random.choice((1, 3, 20))):
            name = b"%s-%d-%d" % (self.name.encode(), self._round, number)
            size_bytes = random.choice((0, 0, 0, 100, 2_000, 2_000, 70_000))
            kind = random.choice(("ECHO", "ECHO", "PING", "unknown", "wait"))
            if kind == "unknown":
                expected.append((connection.send(b"NO" + name), b"NO" + name))
            elif kind == "wait":
                # It blocks, so that the next ones wait in line; its reply is null.
                connection.send("GETJOB", "TIMEOUT", random.choice((1, 30)), "FROM", name)
            else:
                text = name + b"/" * size_bytes
                expected.append((connection.send(kind, text), text))
            if random.random() < 0.2:
                await asyncio.sleep(random.random() * 0.01)
        self._round += 1
        self.history.count("talk")
        for reply, text in expected:
            try:
                async with asyncio.timeout(60):
                    said = await reply
            except Refused as error:
                said = text if text.decode() in str(error) else str(error).encode()
            except TimeoutError:
                connection.abort()
                raise Lost from None
            if said != text:
                self.history.fail(f"{self.name}: {text[:40]!r} was answered by {said[:80]!r}")
        if connection.strays:
            self.history.fail(f"{self.name}: replies without a request: {connection.strays}")

    _round = 0

    async def check_end(self) -> None:
        pass


FAMILIES: dict[str, type[Agent]] = {
    it.family: it for it in (Jobs, Events, Tubes, Reliable, Items, Talker)
}
