"""A client as one line, in the layout of Redis's CLIENT LIST.

Called by   client.py.
Calls       nothing.

    id=3 addr=127.0.0.1:36264 laddr=127.0.0.1:4777 fd=8 name= age=0 idle=0 flags=N db=0 ...

Tools split such a line at spaces and at the first "=", so no value may have a space in it.

Not here: which clients are listed (client.py).
"""

from __future__ import annotations

from quinque.server.client import Client


def client_line(client: Client, now_s: float) -> bytes:
    """The line, without its end; `now_s` is monotonic."""
    command = client.last_command
    fields: dict[str, object] = {
        "id": client.id,
        "addr": client.address,
        "laddr": client.local_address,
        "fd": client.file_number,
        "name": client.name.decode(),
        "age": int(now_s - client.created_s),
        "idle": int(now_s - client.active_s),
        "flags": _flags(client),
        "db": 0,
        "sub": 0,
        "psub": 0,
        "ssub": 0,
        "multi": -1 if client.transaction is None else len(client.transaction.requests),
        "qbuf": client.buffered_bytes,
        "qbuf-free": 0,
        "argv-mem": 0,
        "multi-mem": 0 if client.transaction is None else client.transaction.size_bytes,
        "rbs": 0,
        "rbp": 0,
        "obl": client.out_bytes,
        "oll": 0,
        "omem": client.unsent_bytes,
        "tot-mem": client.buffered_bytes + client.out_bytes + client.unsent_bytes,
        "events": "r",
        "cmd": command.name.lower() if command is not None else "NULL",
        "user": client.user.name if client.user is not None else "(none)",
        "redir": -1,
        "resp": client.protocol,
        "lib-name": client.lib_name.decode(),
        "lib-ver": client.lib_version.decode(),
    }
    return " ".join(f"{name}={value}" for name, value in fields.items()).encode()


def _flags(client: Client) -> str:
    flags = ""
    if client.is_monitor:
        flags += "O"
    if client.waits():
        flags += "b"
    if client.transaction is not None:
        flags += "x"
    # Only a unix socket has no port.
    if client.address.endswith(":0"):
        flags += "U"
    return flags or "N"
