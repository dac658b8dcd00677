"""redis-py, the newest: RESP3 by default, RESP2, pipelines, waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.server.broker import RunningBroker, start_broker, wait_until


@pytest.fixture(params=[None, 2, 3], ids=["default", "resp2", "resp3"])
def connected(broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client with redis-py's own settings, and one for each protocol."""
    options = {} if request.param is None else {"protocol": request.param}
    with redis.Redis(port=broker.port, **options) as client:
        yield client


@pytest.fixture
def text(broker: RunningBroker) -> Iterator[redis.Redis]:
    with redis.Redis(port=broker.port, decode_responses=True) as client:
        yield client


def test_an_event_goes_round(connected: redis.Redis, queue: str) -> None:
    body = bytes(range(256))

    event_id = connected.execute_command("QADD", queue, 60, body)

    assert connected.execute_command("QGET", queue, "g") == [event_id, body]
    assert connected.execute_command("QACK", queue, "g", event_id) == 1
    assert connected.execute_command("QGET", queue, "g") is None


def test_replies_can_be_text(text: redis.Redis, queue: str) -> None:
    event_id = text.execute_command("QADD", queue, 60, "grüße")

    assert text.execute_command("QGET", queue, "g") == [event_id, "grüße"]


def test_counts_are_a_dictionary_in_resp3(text: redis.Redis, queue: str) -> None:
    text.execute_command("QADD", queue, 60, "x")

    ((name, groups),) = text.execute_command("QSTATUS", queue, "GROUPS", "g")

    assert name == queue
    assert groups["g"] == {
        "total": 1,
        "inprogress": 0,
        "redo": 0,
        "done": 0,
        "available": 1,
        "consumers": 0,
    }


def test_a_pipeline_gives_every_reply_in_order(connected: redis.Redis, queue: str) -> None:
    pipeline = connected.pipeline(transaction=False)
    for number in range(500):
        pipeline.execute_command("QADD", queue, 60, number)
        pipeline.execute_command("QGET", queue, "g", "EX", 0)

    replies = pipeline.execute()

    assert replies[1::2] == [[id, b"%d" % n] for n, id in enumerate(replies[::2])]


def test_a_pipeline_is_a_transaction_unless_it_is_told_otherwise(
    connected: redis.Redis, queue: str
) -> None:
    pipeline = connected.pipeline()
    for number in range(500):
        pipeline.execute_command("QADD", queue, 60, number)
        pipeline.execute_command("QGET", queue, "g", "EX", 0)

    replies = pipeline.execute()

    assert replies[1::2] == [[id, b"%d" % n] for n, id in enumerate(replies[::2])]


def test_a_transaction_may_hold_an_error_and_is_not_run_with_a_wrong_command(
    text: redis.Redis, queue: str
) -> None:
    with text.pipeline() as pipeline:
        pipeline.execute_command("QADD", queue, "soon", "x")
        pipeline.execute_command("RQ.PUSH", queue, "x")
        error, ids = pipeline.execute(raise_on_error=False)
    with text.pipeline() as broken:
        broken.execute_command("RQ.PUSH", queue, "x")
        broken.execute_command("NOSUCH")
        with pytest.raises(redis.ResponseError, match="unknown command 'NOSUCH'"):
            broken.execute()

    assert "expireSeconds 'soon' is not a number" in str(error)
    assert len(ids) == 1
    assert text.execute_command("RQ.INFO", queue)[1] == 1


def test_a_pipeline_may_hold_an_error(text: redis.Redis, queue: str) -> None:
    pipeline = text.pipeline(transaction=False)
    pipeline.execute_command("QADD", queue, "soon", "x")
    pipeline.execute_command("PING")

    error, pong = pipeline.execute(raise_on_error=False)

    assert isinstance(error, redis.ResponseError)
    assert "expireSeconds 'soon' is not a number" in str(error)
    assert pong is True


def test_a_reader_waits(connected: redis.Redis, broker: RunningBroker, queue: str) -> None:
    with redis.Redis(port=broker.port) as other, broker.connect() as looking:
        connection = connected.connection_pool.get_connection()
        connection.send_command("QNOTIFY", "g", 60, queue)
        wait_until(lambda: b" flags=b " in looking.call("CLIENT", "LIST"))

        other.execute_command("QADD", queue, 60, "x")

        assert connection.read_response() == queue.encode()
        connected.connection_pool.release(connection)


def test_what_redis_py_asks_of_a_server_works(connected: redis.Redis) -> None:
    assert connected.ping() is True
    assert connected.echo("x") == b"x"
    assert connected.info()["redis_version"] == "7.0.0"
    settings = connected.config_get("fsync")
    assert {_text(name): _text(value) for name, value in settings.items()} == {"fsync": "always"}
    assert connected.config_set("slowlog-max-len", 128)
    assert connected.client_setname("me")
    assert _text(connected.client_getname()) == "me"
    assert connected.client_id() in {int(row["id"]) for row in connected.client_list()}
    assert connected.client_info()["name"] == "me"
    assert connected.command_count() > 20
    assert isinstance(connected.slowlog_get(), list)
    assert connected.memory_stats()["keys.count"] >= 0
    assert connected.select(0)
    assert len(connected.time()) == 2


def test_the_library_says_who_it_is(connected: redis.Redis) -> None:
    assert connected.client_info()["lib-name"] == "redis-py"


def test_redis_py_speaks_resp3_unless_told_otherwise(broker: RunningBroker) -> None:
    with redis.Redis(port=broker.port) as client:
        assert client.client_info()["resp"] == "3"


def test_errors_have_their_classes(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("guarded")
    with start_broker(folder, "--requirepass", "secret") as guarded:
        for password in (None, "wrong"):
            # Without this it tries again for several seconds.
            once = Retry(NoBackoff(), 0)
            with (
                redis.Redis(port=guarded.port, password=password, retry=once) as nobody,
                pytest.raises(redis.AuthenticationError),
            ):
                nobody.ping()
        with redis.Redis(port=guarded.port, password="secret") as somebody:
            assert somebody.ping() is True


def test_a_client_comes_back_after_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        start_broker(tmp_path_factory.mktemp("restarted")) as running,
        redis.Redis(port=running.port) as client,
    ):
        client.execute_command("QADD", "q", 60, "kept")

        running.kill()
        running.restart()

        assert client.execute_command("QGET", "q", "g")[1] == b"kept"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
