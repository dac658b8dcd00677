"""Find the verbs of a queue by its family, which the broker returns.

Called by   cli/queue.py, message.py, dead.py, bench.py, when they run.
Calls       TYPE; the verbs of each family.

Not here: the verbs (verbs.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quinque.cli.asking import NothingFound
from quinque.cli.event_verbs import EventVerbs
from quinque.cli.job_verbs import JobVerbs
from quinque.cli.own_verbs import ItemVerbs, ReliableVerbs
from quinque.cli.tube_verbs import TubeVerbs
from quinque.cli.verbs import Verbs
from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.model.families import Family
from quinque.model.queue_ops import FindFamilies

VERBS: Final[dict[Family, type[Verbs]]] = {
    verbs.family: verbs for verbs in (EventVerbs, JobVerbs, ReliableVerbs, ItemVerbs, TubeVerbs)
}


def verbs_of(broker: Broker, queue: bytes, otherwise: Family | None = None) -> Verbs:
    """Return the verbs of the queue. If the queue does not exist, use the family `otherwise`.

    Raises NothingFound if the queue does not exist and `otherwise` is None.
    """
    [family] = broker.run(FindFamilies([queue]))
    family, is_new = family or otherwise, family is None
    if family is None:
        raise NothingFound(f"no queue {queue.decode('utf-8', 'backslashreplace')}")
    verbs = VERBS[family](broker, queue)
    verbs.is_new = is_new
    return verbs


def given(verbs: Verbs, known: frozenset[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given. Raises BadSetting if the family does not have one of
    them."""
    found = {name: value for name, value in options.items() if value is not None}
    for name in found:
        if name not in known:
            others = ", ".join(sorted(map(_option, known & options.keys())))
            verbs.refuse(
                f"{_option(name)}",
                f"the supported options are {others}" if others else "remove the option",
            )
    return found


def refuse_without_dead(verbs: Verbs) -> None:
    """Raise BadSetting if messages of the queue cannot be dead."""
    if not verbs.has_dead:
        verbs.refuse("dead messages", "only queues of jobs and tubes have dead messages")


def refuse_other_family(verbs: Verbs, wished: str | None) -> None:
    """Raise BadSetting if the queue belongs to another family than the option says."""
    if wished is not None and wished != verbs.family.name:
        raise BadSetting(
            f"{verbs.queue.decode('utf-8', 'backslashreplace')} is a queue of the family"
            f" {verbs.family.name}, not {wished}"
        )


def _option(name: str) -> str:
    return "--unique" if name == "key" else f"--{name.replace('_', '-')}"
