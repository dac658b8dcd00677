"""Send a command on a connection of redis-py's pool, without the overhead of its client.

Called by   sync.py.
Calls       redis-py's pool and connections.

`Redis.execute_command` needs a third of the time of a call for its measurements. A lease and its
completion are only two calls, so this matters. Connections, their health checks and retries are
those of redis-py.

Not here: clusters, and subclasses of redis.Redis, whose own methods are used.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, TypeGuard

from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import ResponseError

try:
    import hiredis

    _pack: Any = hiredis.pack_command
except ImportError:  # redis-py does without it, and is slower
    _pack = None

# Pools of versions that do not have it want the name of the command.
_IS_KNOWN: Final = hasattr(AbstractConnection, "should_reconnect")
NAMED: Final = () if _IS_KNOWN else ("EVALSHA",)


def has_way(db: Any) -> TypeGuard[Redis]:
    """Return whether this client may be bypassed: it is redis-py's own class, with a pool."""
    return (
        _IS_KNOWN and type(db) is Redis and db.connection is None and not db.connection_pool.cache
    )


def ask(db: Redis, words: tuple[Any, ...]) -> Any:
    """Return the reply, never decoded. Raises the errors of redis-py."""
    pool = db.connection_pool
    connection: Any = pool.get_connection()

    def send() -> Any:
        return _exchange(connection, words)

    def give_up(error: Exception) -> None:
        connection.disconnect()

    try:
        return connection.retry.call_with_retry(send, give_up)
    finally:
        if connection.should_reconnect():
            connection.disconnect()
        pool.release(connection)


def ask_once(db: Redis, words: tuple[Any, ...]) -> Any:
    """The answer, never decoded. The command is sent once, whatever retries the client is set to.

    Raises what redis-py raises, which closes a connection that fails here.
    """
    connection: Any = db.connection
    if connection is not None:
        with getattr(db, "single_connection_lock", nullcontext()):
            return _exchange(connection, words)
    pool: Any = db.connection_pool
    connection = pool.get_connection(*NAMED)
    try:
        return _exchange(connection, words)
    finally:
        if _IS_KNOWN and connection.should_reconnect():
            connection.disconnect()
        pool.release(connection)


def _exchange(connection: Any, words: tuple[Any, ...]) -> Any:
    try:
        if _pack is None or not isinstance(connection, AbstractConnection):
            connection.send_command(*words)
        else:
            # It accepts arguments of any type, which redis-py would check one by one. But it would
            # crash if a signal handler raised while it converts a number.
            plain = tuple([b"%d" % word if type(word) is int else word for word in words])
            connection.send_packed_command([_pack(plain)])
        return connection.read_response(disable_decoding=True)
    except ResponseError:
        raise
    except BaseException:
        # A signal handler may raise between the two. The next command would get this reply.
        connection.disconnect()
        raise
