"""A process that claims, to be killed: it says what it did once that is durable, a line each.

Called by   test_claims_kill.py, as `python claiming_process.py <folder> <seed> [<what> <count>]`:
            with the last two it kills itself before it says `what` for the `count`-th time.
Calls       the embedded store.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgpack

from quinque.model.claim_ops import FillClaim, OpenClaims, ReadClaim, ReleaseClaims, SettleClaims
from quinque.model.families import JOBS
from quinque.model.stage_ops import Part, Publish, Stage
from quinque.model.work_ops import Add, Terms
from quinque.stores.embedded.store import EmbeddedStore

TERMS = Terms(86_400_000, 0, 60_000)
said: Counter[str] = Counter()
last_word = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else None


def main(folder: Path, seed: int) -> None:
    random = Random(seed)
    store = EmbeddedStore(folder, segment_bytes=20_000)
    view = store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    newest = max([view.settled, *(claim.number for claim in view.claims)])
    for claim in view.claims:
        if claim.number == newest and claim.state == 0:
            newest -= 1  # it is filled on
    for round_ in range(1_000_000):
        ids = store.run(Add(JOBS, b"w", [b"%d" % round_] * random.randint(1, 20), TERMS))
        say(store, "added", [id.decode() for id in ids])
        newest += 1
        for _ in range(random.randint(1, 3)):
            store.run(FillClaim(b"w", b"s", view.epoch, newest, random.randint(1, 9)))
            store.commit()
        sealed = store.run(FillClaim(b"w", b"s", view.epoch, newest, 0, seals=True))
        if sealed is None:
            newest -= 1
            continue
        rows = [
            row
            for chunk in store.run(ReadClaim(b"w", b"s", newest, 0, 99))
            for row in msgpack.unpackb(chunk)
        ]
        say(store, "claimed", [newest, [row[0].decode() for row in rows]])
        if random.random() < 0.5:
            store.run(SettleClaims(b"w", b"s", view.epoch, newest))
            say(store, "settled", newest)
        elif random.random() < 0.3:
            store.run(ReleaseClaims(b"w", b"s", view.epoch, newest))
            say(store, "released", newest)
        chunk = msgpack.packb([[0, 0, -1, 0, None, [b"%d" % round_] * 5]])
        number = store.stamp_us
        store.run(Stage(JOBS, b"p", b"k", b"r", number, 0, 0, 0, chunk))
        store.run(Publish(JOBS, b"p", b"k", b"r", number, [Part(0, 0, 1)], 5_000))
        say(store, "published", number)


def say(store: EmbeddedStore, what: str, of: Any) -> None:
    store.commit()
    said[what] += 1
    if (what, said[what]) == last_word:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.write(json.dumps([what, of]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
