"""The commands `quinque claims …`: subscriptions that read queues in claims, such as Spark queries.

Not here: reading in claims (client and Spark), the commands on the wire (dialects/claims.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.asking import (
    NothingFound,
    as_bytes,
    asks,
    complete_queue,
    confirm,
    queue_argument,
    yes_option,
)
from quinque.cli.exit_codes import DONE
from quinque.cli.shown import Output
from quinque.errors import many
from quinque.model.claim_ops import ClaimState, DropClaims, FindClaims

if TYPE_CHECKING:
    from quinque.client.sync.broker import Broker
    from quinque.model.claim_ops import SubscriptionView

_COLUMNS: Final = {
    "queue": "queue",
    "subscription": "subscription",
    "group": "group",
    "claims": "claims",
    "messages": "messages",
    "backlog": "backlog",
    "last_seen_s": "last seen",
    "stalled": "stalled",
}
_OPEN: Final = (ClaimState.FILLING, ClaimState.SEALED)


@click.group()
def claims() -> None:
    """List, show and drop subscriptions, which read queues in claims."""


@claims.command("ls")
@click.argument(
    "name", metavar="[QUEUE]", required=False, default=None, shell_complete=complete_queue
)
@asks
def list_claims(broker: Broker, out: Output, name: str | None) -> int:
    """List all subscriptions, or those of QUEUE, with what they hold."""
    found = broker.run(FindClaims(None if name is None else as_bytes(name)))
    if found or out.as_json:
        out.rows([_summary(view) for view in found], _COLUMNS)
    else:
        out.nothing("no subscriptions" + (f" of {name}" if name is not None else ""))
    return DONE


@claims.command()
@queue_argument()
@click.argument("subscription", metavar="SUBSCRIPTION")
@asks
def show(broker: Broker, out: Output, name: str, subscription: str) -> int:
    """Show a SUBSCRIPTION of QUEUE and each of its claims."""
    for view in _found(broker, name, subscription):
        out.one(
            _summary(view)
            | {
                "shard": view.shard if view.shards > 1 else None,
                "epoch": view.epoch,
                "lease_s": view.lease_ms / 1000,
                "release_s": view.release_ms / 1000 or None,
                "claims": [
                    {
                        "number": claim.number,
                        "state": claim.state.name.lower(),
                        "messages": claim.messages,
                        "read_attempts": claim.plays,
                        "age_s": claim.age_ms / 1000,
                    }
                    for claim in view.claims
                ],
            }
        )
    return DONE


@claims.command()
@queue_argument()
@click.argument("subscription", metavar="SUBSCRIPTION")
@yes_option
@asks
def drop(broker: Broker, out: Output, name: str, subscription: str, is_sure: bool) -> int:
    """Remove a SUBSCRIPTION of QUEUE. The messages of its open claims return to the queue."""
    found = _found(broker, name, subscription)
    confirm(f"drop the subscription {subscription} of {name}", is_sure)
    returned = 0
    for view in found:
        returned += broker.run(DropClaims(view.queue, view.subscription, view.shard)) or 0
    fields = {"queue": name, "subscription": subscription, "returned": returned}
    out.done(
        f"dropped subscription {subscription} of {name}; {many(returned, 'message')} returned",
        fields,
    )
    return DONE


def _found(broker: Broker, name: str, subscription: str) -> list[SubscriptionView]:
    """Return the subscription, once for each shard of its queue. Raises NothingFound."""
    views = broker.run(FindClaims(as_bytes(name)))
    found = [view for view in views if view.subscription == as_bytes(subscription)]
    if not found:
        raise NothingFound(f"no subscription {subscription} of {name}")
    return found


def _summary(view: SubscriptionView) -> dict[str, Any]:
    open_claims = [claim for claim in view.claims if claim.state in _OPEN]
    return {
        "queue": view.queue,
        "subscription": view.subscription,
        "group": view.group or None,
        "claims": len(open_claims),
        "messages": sum(claim.messages for claim in open_claims),
        "backlog": view.backlog,
        "last_seen_s": view.unrenewed_ms / 1000,
        "stalled": view.is_stalled,
    }
