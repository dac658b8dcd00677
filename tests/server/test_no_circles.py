"""With the cycle collector off, as in a broker, no request is kept for ever."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from tests.server.test_odd_requests import ODD, ROWS
from tests.transcripts.stage import Stage

# Errors that are made before it is known whether they are raised.
REFUSED = [
    [b"GETJOB", b"NOPE", b"FROM", b"q"],
    [b"GETJOB", b"TIMEOUT"],
    [b"GETJOB", b"NOPE"],
]


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "later"])
def test_nothing_is_left_behind_by_any_command(tmp_path: Path, is_late: bool) -> None:
    """Whether the store answers at once or later, as one on Redis does."""
    chance = random.Random(37)
    rounds = [REFUSED]
    for row in ROWS:
        first = row.name.encode().split(b"|")
        least = max(0, abs(row.arity) - len(first))
        rounds.append([[*first, *chance.choices(ODD, k=least + more)] for more in range(3)])
    with Stage(tmp_path, 2, is_late=is_late) as stage:
        stage.send("a", [[b"PING"]])
        stage.settle()
        gc.collect()
        gc.freeze()  # what is there already need not be looked at
        gc.disable()
        try:
            for requests in rounds:
                for number, words in enumerate(requests):
                    stage.send(f"{number}", [words])
                stage.settle() if is_late else stage.go_on(3)
                for number in range(len(requests)):  # one may wait
                    stage.leave(f"{number}")

                assert gc.collect() == 0, requests
        finally:
            gc.enable()
            gc.unfreeze()
