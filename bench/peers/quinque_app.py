"""Quinque: a plain function, which runs in threads, and one of the event loop."""

from __future__ import annotations

import os

import quinque
from bench.peers.noted import QUEUE, URL, note
from quinque.worker import App


async def note_async(added_ns: int) -> None:
    note(added_ns)


app, async_app = App(os.environ[URL]), App(os.environ[URL])
app.add(QUEUE, note, codec="json")
async_app.add(QUEUE, note_async, codec="json")

add_many = quinque.connect(os.environ[URL]).jobs(QUEUE, codec="json").add_many
