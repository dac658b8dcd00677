"""An app whose handlers do what a message says: what the tests' worker processes run.

Called by   `quinque work tests.worker.worked_app:app`, started by stage.py.
Calls       the broker that $BROKER names.

    {"do": "double", "of": 4}      returns 8
    {"do": "raise"}                raises
    {"do": "raise once", …}        raises at the first delivery, and then waits
    {"do": "die"}                  kills its process, each time
    {"do": "die once"}             kills its process at the first delivery
    {"do": "wait", "for": "q"}     waits for a job in the queue q
    {"do": "hang"}                 asks nothing, and does not end
    {"do": "fork"}                 forks a process, ends it with SIGTERM, and returns how it ended

Not here: the tests.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import get_context
from typing import Any

import quinque
from quinque.worker import App, Message

app = App(os.environ["BROKER"])
PREFIX = os.environ["PREFIX"]
LEASE_S = float(os.environ["LEASE"])


def obey(order: dict[str, Any], message: Message) -> Any:
    match order["do"]:
        case "double":
            return order["of"] * 2
        case "raise once" if message.deliveries == 1:
            raise ValueError("as it was told, once")
        case "raise":
            raise ValueError("as it was told")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die once" if message.deliveries == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            threading.Event().wait()
        case "fork":
            child = get_context("fork").Process(target=signal.pause)
            child.start()
            child.terminate()
            child.join(10)
            child.kill()
            return child.exitcode
        case "wait" | "raise once":
            with quinque.connect(app.url) as queues:
                gate = queues.jobs(order["for"]).take(timeout=60)
                assert gate is not None
                gate.ack()
    return {"deliveries": message.deliveries}


async def obey_soon(order: dict[str, Any], message: Message) -> Any:
    return obey(order, message)


SETTINGS: dict[str, Any] = {
    "codec": "json",
    "max_deliveries": 2,
    "backoff": (0, 0),
    "results": f"{PREFIX}results",
}

app.add(f"{PREFIX}jobs", obey, **SETTINGS)
app.add(f"{PREFIX}soon", obey_soon, **SETTINGS)
app.add(f"{PREFIX}events", obey, family="events", group="g", lease=300, **SETTINGS)
app.add(f"{PREFIX}items", obey_soon, family="items", lease=LEASE_S, **SETTINGS)
app.add(f"{PREFIX}reliable", obey, family="reliable", lease=LEASE_S, **SETTINGS)
app.add(f"{PREFIX}tube", obey, family="tubes", **SETTINGS)
