"""disqueue-node and disque-eventemitter, Disque's clients for Node.js, unchanged.

disqueue-node carries a suite of its own, which was written against Disque.
"""

from __future__ import annotations

import json

from tests.clients.programs import mocha, node
from tests.server.broker import RunningBroker


def test_the_suite_of_disqueue_node_passes(broker: RunningBroker) -> None:
    report = json.loads(mocha(broker, "disqueue-node"))

    assert report["failures"] == []
    assert (report["stats"]["tests"], report["stats"]["passes"]) == (21, 21)


def test_disque_eventemitter_hands_out_jobs_as_events(broker: RunningBroker, queue: str) -> None:
    assert node(broker, "emitter.js", queue) == "ok\n"
