"""asynctnt and asynctnt-queue, unchanged, on a broker's Tarantool port: every verb, many requests
at once on one connection, sessions, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asynctnt
import pytest
from asynctnt_queue import Queue
from asynctnt_queue.task import Status

from tests.clients.tarantool_clients import (
    connection,
    made,
    play,
    refused,
    told,
)
from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import LISTEN
from tests.server.resp import Client
from tests.servers import stores

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 127, 128, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, -0.0, 1e300),
    *("", "text", "ü" * 40, "x" * 70_000, b"", b"\xff\x00\xfe", b"\xc1", b"\xc1\xc1 mark"),
    *([], {}, [[], {}], [1, None, "a", b"\xff", [2.5]], {"key": {"inner": [1, {"a": None}]}}),
    *(
        {1: "number as key", -2: []},
        list(range(500)),
        {str(number): number for number in range(40)},
    ),
]


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    flags = stores.store_flags(request, request.param)
    with start_broker(tmp_path_factory.mktemp("broker"), *LISTEN, *flags) as running:
        yield running


@pytest.fixture
def tube(queue: str) -> str:
    """The name of a tube that no other test uses."""
    return queue.replace("[", "_").rstrip("]")


def test_every_verb(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube, "fifottl")
        queue = Queue(client)
        mails = queue.tube(tube)

        put = await mails.put({"to": "all"}, pri=2, ttl=60, ttr=30)
        delayed = await mails.put("later", delay=60)
        taken = await mails.take()
        assert (put.task_id, put.status, put.data) == (0, Status.READY, {"to": "all"})
        assert (delayed.task_id, delayed.status) == (1, Status.DELAYED)
        assert (taken.task_id, taken.status, taken.data) == (0, Status.TAKEN, {"to": "all"})
        assert (await taken.touch(1)).status == Status.TAKEN
        assert (await taken.release()).status == Status.READY
        assert (await (await mails.take(0)).release(delay=30)).status == Status.DELAYED
        assert (await mails.take(0)) is None
        assert (await mails.bury(0)).status == Status.BURIED
        assert (await mails.peek(0)).status == Status.BURIED
        assert await mails.kick(5) == 1
        assert (await (await mails.take()).ack()).status == Status.EXECUTED
        assert (await mails.delete(1)).status == Status.EXECUTED
        assert await mails.statistics() == (await queue.statistics())[tube]
        assert await mails.statistics() == {
            "tasks": {"ready": 0, "taken": 0, "delayed": 0, "buried": 0, "done": 2, "total": 0},
            "calls": {
                **dict.fromkeys(("ack", "bury", "kick", "delete", "touch"), 1),
                **dict.fromkeys(("put", "release"), 2),
                "take": 3,
                **dict.fromkeys(("ttl", "ttr", "delay"), 0),
            },
        }
        assert await told(client, f"queue.tube.{tube}:drop") == [True]

    play(broker, scene)


def test_data_come_back_as_they_were(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube)
        mails = Queue(client).tube(tube)

        put = await asyncio.gather(*(mails.put(value) for value in VALUES))
        taken = await asyncio.gather(*(mails.take(0) for _ in VALUES))

        # Bytes that are UTF-8 are text to whoever takes them.
        wanted = ["" if value == b"" and isinstance(value, bytes) else value for value in VALUES]
        for tasks in (put, taken):
            assert [task.data for task in tasks] == wanted
            assert [type(task.data) for task in tasks] == [type(value) for value in wanted]

    play(broker, scene)


def test_waiting_takes_hold_up_nothing_and_are_served_in_order(
    broker: RunningBroker, tube: str
) -> None:
    async def scene(one: asynctnt.Connection) -> None:
        await made(one, tube)
        await made(one, tube + "_other")
        mails, other = Queue(one).tube(tube), Queue(one).tube(tube + "_other")

        takes = [asyncio.create_task(mails.take()) for _ in range(20)]
        short = asyncio.create_task(mails.take(0.05))
        assert (await other.put("x")).task_id == 0
        assert (await other.take()).data == "x"
        assert await short is None
        for number in range(20):
            await mails.put(number)

        assert [(await take).data for take in takes] == list(range(20))

    play(broker, scene)


def test_takes_and_puts_that_come_together_are_one_order(broker: RunningBroker, tube: str) -> None:
    """More takes than tasks, in one go: the first have them, and the others wait."""

    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube)
        mails = Queue(client).tube(tube)

        calls = [mails.put("a"), mails.put("b"), *(mails.take(60) for _ in range(4))]
        first, second, *takes = [asyncio.create_task(call) for call in calls]
        await asyncio.gather(first, second, *takes[:2])
        assert [take.done() for take in takes] == [True, True, False, False]
        await asyncio.gather(*(mails.put(data) for data in "cd"))

        assert [(await take).data for take in takes] == ["a", "b", "c", "d"]
        acked = await asyncio.gather(
            *(mails.ack(number) for number in (0, 1, 7, 2, 3)), return_exceptions=True
        )
        assert [getattr(answer, "status", None) for answer in acked] == [
            *(Status.EXECUTED, Status.EXECUTED, None, Status.EXECUTED, Status.EXECUTED)
        ]

    play(broker, scene)


def test_fifty_workers_on_one_connection(broker: RunningBroker, tube: str) -> None:
    done: list[int] = []

    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube)
        mails = Queue(client).tube(tube)

        async def work(number: int) -> None:
            for round in range(4):
                await mails.put(number * 10 + round)
                task = await mails.take()
                done.append(task.data)
                assert (await task.ack()).status == Status.EXECUTED

        await asyncio.gather(*(work(number) for number in range(50)))

        assert (await mails.statistics())["tasks"]["done"] == 200

    play(broker, scene)
    assert sorted(done) == sorted(number * 10 + round for number in range(50) for round in range(4))


def test_a_client_that_goes_leaves_its_tasks(broker: RunningBroker, tube: str) -> None:
    """Those it took come back, and what it waited for is not taken."""

    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube)
        mails = Queue(client).tube(tube)
        await mails.put("a")
        gone = connection(broker)
        await gone.connect()
        theirs = Queue(gone).tube(tube)
        assert (await theirs.take()).data == "a"
        waits = [asyncio.create_task(theirs.take()) for _ in range(3)]
        await gone.ping()

        await gone.disconnect()
        await asyncio.gather(*waits, return_exceptions=True)
        again = await mails.take(60)
        assert (again.task_id, again.data) == (0, "a")
        assert (await mails.put("b")).status == Status.READY
        assert (await mails.take(0)).data == "b"

    play(broker, scene)


def test_a_session_is_shared_and_found_again(broker: RunningBroker, tube: str) -> None:
    async def scene(one: asynctnt.Connection) -> None:
        name = await made(one, tube)
        for data in "abc":
            await told(one, f"{name}:put", data)
        async with connection(broker) as two, connection(broker) as three:
            [session] = await told(one, "queue.identify")
            assert isinstance(session, bytes)
            assert len(session) == 16
            assert await told(two, "queue.identify", session) == [session]
            await told(one, f"{name}:take")
            assert await told(two, f"{name}:ack", 0) == [[0, "-", "a"]]
            assert await refused(three, "queue.identify", b"\0" * 16) == (
                *(32, "The UUID 00000000-0000-0000-0000-000000000000 is unknown."),
            )
            assert await refused(three, "queue.identify", "") == (32, "Invalid UUID format.")
            assert await told(three, "queue.identify", "worker 7") == ["worker 7"]
            assert await told(two, "queue.identify", "worker 7") == ["worker 7"]
            await told(three, f"{name}:take")
            assert await refused(one, f"{name}:ack", 1) == (32, "Task was not taken")
            assert await told(two, f"{name}:release", 1) == [[1, "r", "b"]]

    play(broker, scene)


def test_a_session_outlives_its_connections_for_a_while(broker: RunningBroker, tube: str) -> None:
    async def scene(one: asynctnt.Connection) -> None:
        name = await made(one, tube)
        await told(one, f"{name}:put", "a")
        assert await told(one, "queue.cfg", {"ttr": 600}) == []
        try:
            async with connection(broker) as two:
                [session] = await told(two, "queue.identify")
                await told(two, f"{name}:take")
            async with connection(broker) as three:
                assert await told(three, f"{name}:take", 0) == []
                assert await told(three, "queue.identify", session) == [session]
                assert await told(three, f"{name}:ack", 0) == [[0, "-", "a"]]
        finally:
            await told(one, "queue.cfg", {"ttr": 0})
        assert (await refused(one, "queue.cfg", {"ttr": -1}))[1] == "Invalid value of ttr: -1"
        assert (await refused(one, "queue.cfg", {"x": 1}))[1] == "Unknown option x"

    play(broker, scene)


def test_a_full_tube_makes_puts_wait(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        name = await made(client, tube, "limfifottl", capacity=2)
        await asyncio.gather(*(told(client, f"{name}:put", data) for data in "ab"))

        assert await told(client, f"{name}:put", "c") == [None]
        assert (await client.call16(f"{name}:put", ["c"])).body == [[None]]
        assert await told(client, f"{name}:put", "c", {"timeout": 0.05}) == [None]
        waits = [
            asyncio.create_task(told(client, f"{name}:put", data, {"timeout": 60})) for data in "cd"
        ]
        for id in (0, 1):
            assert await told(client, f"{name}:delete", id) == [[id, "-", "ab"[id]]]
        assert [await put for put in waits] == [[[2, "r", "c"]], [[3, "r", "d"]]]

    play(broker, scene)


def test_lanes(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        name = await made(client, tube, "utube")
        for data, lane in (("a", 1), ("b", "1"), ("c", "two"), ("d", None)):
            await told(client, f"{name}:put", data, {"utube": lane} if lane else {})

        assert await told(client, f"{name}:take", 0, {"utube": "two"}) == [[2, "t", "c"]]
        assert await told(client, f"{name}:take", 0) == [[0, "t", "a"]]
        assert await told(client, f"{name}:take", 0) == [[3, "t", "d"]]
        assert await told(client, f"{name}:take", 0) == []
        next_one = asyncio.create_task(told(client, f"{name}:take"))
        await told(client, f"{name}:ack", 0)
        assert await next_one == [[1, "t", "b"]]
        assert await told(client, f"{name}:release_all") == []
        assert (await told(client, "queue.statistics", tube))[0]["tasks"]["ready"] == 3

    play(broker, scene)


def test_a_release_may_change_the_task(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        name = await made(client, tube, "fifottl")
        await told(client, f"{name}:put", {"tries": 0})
        await told(client, f"{name}:put", "other")
        await told(client, f"{name}:take")

        changed = {"pri": 9, "data": {"tries": 1, "by": b"\xff"}}
        assert await told(client, f"{name}:release", 0, changed) == [[0, "r", changed["data"]]]
        assert [(await told(client, f"{name}:take"))[0][0] for _ in range(2)] == [1, 0]

    play(broker, scene)


def test_both_protocols_see_the_same_tasks(
    broker: RunningBroker, tube: str, client: Client
) -> None:
    async def scene(one: asynctnt.Connection) -> None:
        name = await made(one, tube)
        client.call("TUBE.PUT", tube, b"from RESP")
        client.call("TUBE.PUT", tube, b"\xc1\xff")
        await told(one, f"{name}:put", "from IPROTO")
        await told(one, f"{name}:put", [1, 2])

        assert await told(one, f"{name}:take") == [[0, "t", "from RESP"]]
        assert await told(one, f"{name}:take") == [[1, "t", b"\xc1\xff"]]
        assert client.call("TUBE.TAKE", tube, 0) == [2, b"t", b"from IPROTO"]
        assert client.call("TUBE.TAKE", tube, 0) == [3, b"t", b"\x92\x01\x02"]
        waiting = asyncio.create_task(told(one, f"{name}:take"))
        await one.ping()
        client.call("TUBE.PUT", tube, b"x")
        assert await waiting == [[4, "t", "x"]]

    play(broker, scene)


ERRORS: list[tuple[str, list[Any], int, str]] = [
    ("{}:ack", [99], 32, "Task was not taken"),
    ("{}:release", [99], 32, "Task was not taken"),
    ("{}:touch", [99, 1], 32, "Task was not taken"),
    ("{}:peek", [99], 32, "Task 99 not found"),
    ("{}:bury", [99], 32, "Task 99 not found"),
    ("{}:delete", [99], 32, "Task 99 not found"),
    ("{}:touch", [0, 1], 32, "fifo queue does not support touch"),
    ("{}:ack", ["0"], 18, "Supplied key type of part 0 does not match index part type:"),
    ("{}:peek", [-1], 18, "Supplied key type of part 0 does not match index part type:"),
    ("{}:peek", [], 18, "Supplied key type of part 0 does not match index part type:"),
    ("{}:put", [], 39, "Tuple field 3 required by space format is missing"),
    ("{}:put", [1, {"pri": -1}], 23, "Tuple field 6 type does not match one required"),
    ("{}:put", [1, {"pri": 1.5}], 23, "Tuple field 6 type does not match one required"),
    ("{}:put", [1, {"ttl": "x"}], 32, "attempt to compare string with number"),
    ("{}:put", [1, 2], 32, "attempt to index a number value"),
    ("{}:take", ["x"], 32, "attempt to compare string with number"),
    ("{}:kick", ["foo"], 32, "'for' limit must be a number"),
    ("{}:pow", [2], 33, "Procedure '{}:pow' is not defined"),
    ("{}_none:put", [1], 33, "Procedure '{}_none:put' is not defined"),
    ("truncate", [], 33, "Procedure 'truncate' is not defined"),
    ("queue.create_tube", ["x", "heap"], 32, "Unknown tube type heap"),
    ("queue.create_tube", ["", "fifo"], 70, "Invalid identifier ''"),
    ("queue.statistics", ["no such"], 32, "there is no tube 'no such'; use queue.create_tube"),
    ("queue.tube", [7], 32, "argument #1 should be string or nil"),
]


def test_errors_have_the_numbers_and_texts_of_the_original(
    broker: RunningBroker, tube: str
) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        name = await made(client, tube)
        await told(client, f"{name}:put", "x")
        await told(client, f"{name}:take")

        for function, args, number, text in ERRORS:
            found = await refused(client, function.format(name), *args)
            assert (found[0], found[1].startswith(text.format(name))) == (number, True), found
        assert await refused(client, "queue.create_tube", tube, "fifo") == (
            *(32, f"Space '{tube}' already exists"),
        )
        assert await refused(client, f"{name}:drop") == (
            *(32, "There are taken tasks in the tube"),
        )
        await told(client, f"{name}:ack", 0)
        waiting = asyncio.create_task(told(client, f"{name}:take", 60))
        await client.ping()
        assert await refused(client, f"{name}:drop") == (
            *(32, "There are consumers connected the tube"),
        )
        await told(client, f"{name}:put", "y")
        assert await waiting == [[1, "t", "y"]]
        # What does nothing is no error, whatever it is done to.
        assert await told(client, f"{name}:touch", 1, 0) == []
        assert await told(client, f"{name}:kick", 0) == [0]
        assert await told(client, f"{name}:truncate") == []
        assert await told(client, f"{name}:drop") == [True]

    play(broker, scene)


def test_what_clients_evaluate(broker: RunningBroker, tube: str) -> None:
    exists = "local name = ... ; return queue.tube[name] ~= nil"
    create = "local name, type, cfg = ... ; queue.create_tube(name, type, cfg)"

    async def scene(client: asynctnt.Connection) -> None:
        async def evaluated(expression: str, *args: Any) -> Any:
            return (await client.eval(expression, list(args))).body

        assert await evaluated(exists, tube) == [False]
        assert await evaluated(create, tube, "fifo", {"if_not_exists": True}) == []
        assert await evaluated(exists, tube) == [True]
        assert (
            await evaluated(
                f"if not queue.tube.{tube} then queue.create_tube('{tube}', 'fifottl') end"
            )
            == []
        )
        assert await evaluated(f"return queue.tube['{tube}']:put('x', {{ttl = 5}})") == [
            [0, "r", "x"]
        ]
        for _ in range(2):
            assert await evaluated(f"if queue.tube.{tube} then queue.tube.{tube}:drop() end") == []
        assert await evaluated(exists, tube) == [False]
        for expression in ("return 1 + 1", "os.exit(", "while true do end", "", "\0", "queue"):
            with pytest.raises(
                asynctnt.exceptions.TarantoolDatabaseError,
                match="eval supports only one call of a function",
            ):
                await client.eval(expression)

    play(broker, scene)


def test_other_names_of_the_module_and_the_old_call(broker: RunningBroker, tube: str) -> None:
    async def scene(client: asynctnt.Connection) -> None:
        await made(client, tube)
        mails = Queue(client, namespace="box.queue").tube(tube)

        assert (await mails.put("x")).task_id == 0
        assert tube in (await told(client, "box.queue.tube"))[0]
        assert await told(client, "queue.tube", tube) == [True]
        assert await told(client, "queue.state") == ["RUNNING"]
        assert await told(client, "queue.stats", tube) == [await mails.statistics()]
        assert (await client.call16(f"queue.tube.{tube}:take", [0])).body == [[0, "t", "x"]]
        assert (await client.call16(f"queue.tube.{tube}:take", [0])).body == []
        assert (await client.call16(f"queue.tube.{tube}:kick", [1])).body == [[0]]
        assert (await client.call16("queue.stats", [tube])).body == [[await mails.statistics()]]

    play(broker, scene)
