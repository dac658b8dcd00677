"""Bodies that are known by themselves: by their names, which say how long they are.

Called by   load_events.py, load_jobs.py.
Calls       nothing.

    c1.0-5f3a9c-64    64 bytes: the name, and dots

Not here: what is done with them.
"""

from __future__ import annotations


def body_of(name: str) -> bytes:
    """The body with that name."""
    size_bytes = int(name.rpartition("-")[2])
    return (name.encode() + b"." * size_bytes)[: max(size_bytes, len(name))]


def name_of(body: bytes) -> str:
    """The name of a body; of one that is not as it was sent, all of it, which is no name."""
    name = body.rstrip(b".").decode("utf-8", "replace")
    return name if name.count("-") == 2 and body == body_of(name) else repr(body)
