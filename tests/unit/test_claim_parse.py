"""CLAIM.* STAGE.* MESSAGES.* LIFECYCLE.* become operations, or are refused with what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from quinque.dialects.command import Session, Wait
from quinque.errors import BadArgument, LimitReached
from quinque.model.claim_ops import (
    ClaimState,
    ClaimView,
    DropClaims,
    FillClaim,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NAME_MOST_BYTES, SPAN_MOST_MS
from quinque.model.look_ops import BrowsePlaces, DividePlaces, FindRecords, ReadRecord
from quinque.model.stage_ops import DropStage, FindStages, Part, Publish, Stage, StageView
from quinque.model.states import State
from quinque.server.commands.table import all_commands

ROWS = {row.name: row for row in all_commands()}
EXACT_MOST = (1 << 53) - 1


class Everyone:
    """A session that may see every queue."""

    def sees_all(self) -> bool:
        return True

    def sees(self, queue: bytes) -> bool:
        return True


def parsed(text: str) -> Any:
    """What a request becomes; EMPTY stands for no bytes, LONG for a name that is too long."""
    argv = [_WORDS.get(word, word.encode()) for word in text.split()]
    row = ROWS[argv[0].decode().upper()]
    assert row.parse is not None
    count, arity = len(argv), row.arity
    assert count == arity or (arity < 0 and count >= -arity), "this is refused before it is parsed"
    return row.parse(argv, cast(Session, Everyone())) if row.with_session else row.parse(argv)


_WORDS = {"EMPTY": b"", "LONG": bytes(NAME_MOST_BYTES + 1)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("CLAIM.OPEN q s", OpenClaims(JOBS, b"q", b"s", b"", 60_000)),
        ("claim.open q s family EVENTS", OpenClaims(EVENTS, b"q", b"s", b"s", 60_000)),
        ("CLAIM.OPEN q s GROUP g", OpenClaims(EVENTS, b"q", b"s", b"g", 60_000)),
        ("CLAIM.OPEN EMPTY s", OpenClaims(JOBS, b"", b"s", b"", 60_000)),
        (
            "CLAIM.OPEN q s SHARD 3 RELEASE 5000 LEASE 4000 FAMILY jobs",
            OpenClaims(JOBS, b"q", b"s", b"", 4_000, 5_000, 3),
        ),
        ("CLAIM.PLAY q s 2 7", PlayClaim(b"q", b"s", 2, 7)),
        ("CLAIM.PLAY q s 2 7 SHARD 1 KEEP 500", PlayClaim(b"q", b"s", 2, 7, 500, 1)),
        ("CLAIM.SETTLE q s 2 0", SettleClaims(b"q", b"s", 2, 0)),
        ("CLAIM.SETTLE q s 2 7 SHARD 1", SettleClaims(b"q", b"s", 2, 7, 1)),
        ("CLAIM.RELEASE q s 2 7 SHARD 1", ReleaseClaims(b"q", b"s", 2, 7, 1)),
        ("CLAIM.RENEW q s 2 SHARD 1", RenewClaims(b"q", b"s", 2, 1)),
        ("CLAIM.PURGE q s 7 SHARD 1", PurgeClaims(b"q", b"s", 7, 1)),
        ("CLAIM.DROP q s SHARD 1", DropClaims(b"q", b"s", 1)),
        ("CLAIM.INFO q s SHARD 1", LookAtClaims(b"q", b"s", 1)),
        ("CLAIM.LIST", FindClaims(None, 10_000)),
        ("CLAIM.LIST q", FindClaims(b"q", 10_000)),
        ("CLAIM.MARK q s 7 ack IDS a b", MarkClaim(b"q", b"s", 7, Outcome.ACK, [b"a", b"b"])),
        (
            "CLAIM.MARK q s 7 NACK DELAY 1500 REASON IDS SHARD 2 IDS IDS",
            MarkClaim(b"q", b"s", 7, Outcome.NACK, [b"IDS"], 1_500, b"IDS", 2),
        ),
        (
            "CLAIM.MARK q s 7 DEAD REASON broken IDS a",
            MarkClaim(b"q", b"s", 7, Outcome.DEAD, [b"a"], reason=b"broken"),
        ),
        (
            "STAGE.ADD jobs q sink run 0 1 2 3 rows",
            Stage(JOBS, b"q", b"sink", b"run", 0, 1, 2, 3, b"rows"),
        ),
        (
            "STAGE.ADD jobs q sink run 0 1 2 3 rows WRITER me",
            Stage(JOBS, b"q", b"sink", b"run", 0, 1, 2, 3, b"rows", b"me"),
        ),
        (
            f"STAGE.ADD events q sink run 0 1 {EXACT_MOST} 3 EMPTY",
            Stage(EVENTS, b"q", b"sink", b"run", 0, 1, EXACT_MOST, 3, b""),
        ),
        (
            "STAGE.PUBLISH jobs q sink run 4 PARTS 0 9 2 1 8 3",
            Publish(JOBS, b"q", b"sink", b"run", 4, [Part(0, 9, 2), Part(1, 8, 3)], 5_000),
        ),
        (
            "STAGE.PUBLISH jobs q sink run 4 KEEP 1000 COUNT 10 PARTS",
            Publish(JOBS, b"q", b"sink", b"run", 4, [], 10, 1_000),
        ),
        ("STAGE.DROP q sink run 4", DropStage(b"q", b"sink", b"run", 4)),
        ("STAGE.LIST", FindStages(None, 10_000)),
        ("MESSAGES.PAGE jobs q 0 0", BrowsePlaces(JOBS, b"q", 0, 0, 1_000)),
        (
            "MESSAGES.PAGE events q 5 9 SHARD 2 COUNT 7 STATES dead,LEASED,dead",
            BrowsePlaces(EVENTS, b"q", 5, 9, 7, [State.DEAD, State.LEASED], 2),
        ),
        ("MESSAGES.DIVIDE jobs q 8", DividePlaces(JOBS, b"q", 8)),
        (
            "MESSAGES.DIVIDE jobs q 8 STATES ready,delayed SHARD 1",
            DividePlaces(JOBS, b"q", 8, [State.READY, State.DELAYED], 1),
        ),
        ("LIFECYCLE.SHARDS", FindRecords()),
        ("LIFECYCLE.READ 0 1", ReadRecord(0, 1, 10_000)),
        ("LIFECYCLE.READ 16383 1 COUNT 5", ReadRecord(16_383, 1, 5)),
    ],
)
def test_a_request_becomes_its_operation(text: str, wanted: object) -> None:
    assert parsed(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted", "timeout_ms"),
    [
        ("CLAIM.FILL q s 2 7 COUNT 10", FillClaim(b"q", b"s", 2, 7, 10), 0),
        ("CLAIM.FILL q s 2 7 COUNT 0 SEAL", FillClaim(b"q", b"s", 2, 7, 0, seals=True), 0),
        (
            "CLAIM.FILL q s 2 7 SHARD 1 TIMEOUT 200 SEAL UNTIL 99 COUNT 10",
            FillClaim(b"q", b"s", 2, 7, 10, 99, seals=True, shard=1),
            200,
        ),
    ],
)
def test_a_fill_waits_if_it_is_told_to(text: str, wanted: FillClaim, timeout_ms: int) -> None:
    wait = parsed(text)

    assert isinstance(wait, Wait)
    assert (wait.op, wait.queues, wait.timeout_ms) == (wanted, (b"q",), timeout_ms)


def test_who_waits_for_a_claim_waits_in_a_line_that_no_group_is_in() -> None:
    lines = [
        parsed(f"CLAIM.FILL q {name} 1 1 COUNT 1 TIMEOUT 5 SHARD {shard}").group
        for name in ("a", "b")
        for shard in (0, 1)
    ]

    assert len(set(lines)) == 4
    assert all(len(line) > NAME_MOST_BYTES for line in lines)


@pytest.mark.parametrize(
    ("text", "wanted", "is_packed"),
    [
        ("CLAIM.READ q s 7", ReadClaim(b"q", b"s", 7, 0, EXACT_MOST), False),
        (
            "CLAIM.READ q s 7 PACKED SHARD 1 CHUNKS 2 CHUNK 3",
            ReadClaim(b"q", b"s", 7, 3, 2, 1),
            True,
        ),
    ],
)
def test_a_claim_is_read_in_chunks(text: str, wanted: ReadClaim, is_packed: bool) -> None:
    wait = parsed(text)

    assert (wait.op, wait.detail, wait.timeout_ms) == (wanted, is_packed, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CLAIM.OPEN q EMPTY", "subscription must not be empty"),
        ("CLAIM.OPEN q LONG", "subscription has 1025 bytes; at most 1024"),
        ("CLAIM.OPEN LONG s", "queue has 1025 bytes; at most 1024"),
        ("CLAIM.OPEN EMPTY s FAMILY events", "queue must not be empty"),
        (
            "CLAIM.OPEN q s FAMILY tubes",
            "family 'tubes' is not one of events, jobs, reliable, items",
        ),
        ("CLAIM.OPEN q s FAMILY", "CLAIM.OPEN has no value after 'FAMILY'"),
        ("CLAIM.OPEN q s GROUP EMPTY", "GROUP must not be empty"),
        (
            "CLAIM.OPEN q s GROUP g FAMILY jobs",
            "GROUP requires an events queue; jobs have no groups",
        ),
        ("CLAIM.OPEN q s LEASE 0", f"LEASE 0 is not within 1 and {SPAN_MOST_MS}"),
        ("CLAIM.OPEN q s LEASE 1s", "LEASE '1s' is not a whole number"),
        ("CLAIM.OPEN q s LEASE 10 RELEASE 9", "RELEASE 9 is less than LEASE 10"),
        ("CLAIM.OPEN q s SHARD 16384", "SHARD 16384 is not within 0 and 16383"),
        ("CLAIM.OPEN q s SOON", "CLAIM.OPEN has no option 'SOON'"),
        (
            "CLAIM.FILL q s 1 1 SEAL SEAL",
            "CLAIM.FILL requires COUNT: 1 or more, or 0 to SEAL the claim as it is",
        ),
        (
            "CLAIM.FILL q s 1 1 COUNT 0",
            "CLAIM.FILL requires COUNT: 1 or more, or 0 to SEAL the claim as it is",
        ),
        ("CLAIM.FILL q s 0 1 COUNT 1", f"epoch 0 is not within 1 and {EXACT_MOST}"),
        ("CLAIM.FILL q s 1 0 COUNT 1", f"number 0 is not within 1 and {EXACT_MOST}"),
        ("CLAIM.FILL q s 1 1 COUNT -1", f"COUNT -1 is not within 0 and {EXACT_MOST}"),
        ("CLAIM.FILL q s 1 1 COUNT 1 TIMEOUT 0", f"TIMEOUT 0 is not within 1 and {SPAN_MOST_MS}"),
        ("CLAIM.FILL q s 1 1 COUNT 1 NOW", "CLAIM.FILL has no option 'NOW'"),
        ("CLAIM.READ q s 0", f"number 0 is not within 1 and {EXACT_MOST}"),
        ("CLAIM.READ q s 1 CHUNKS 0", f"CHUNKS 0 is not within 1 and {EXACT_MOST}"),
        ("CLAIM.READ q s 1 ALL", "CLAIM.READ has no option 'ALL'"),
        ("CLAIM.PLAY q s 1 x", "number 'x' is not a whole number"),
        ("CLAIM.PLAY q s 1 1 LEAVE 3", "CLAIM.PLAY has no option 'LEAVE'"),
        ("CLAIM.MARK q s 1 LOST IDS a", "outcome 'LOST' is not one of ACK, NACK, DEAD"),
        ("CLAIM.MARK q s 1 ACK IDS EMPTY", "id must not be empty"),
        ("CLAIM.MARK q s 1 ACK SHARD 1", "CLAIM.MARK requires IDS and at least one id"),
        ("CLAIM.MARK q s 1 ACK WHY x IDS a", "CLAIM.MARK has no option 'WHY'"),
        ("CLAIM.MARK q s 1 DEAD DELAY 5 IDS a", "DELAY requires NACK, not DEAD"),
        ("CLAIM.MARK q s 1 DEAD REASON LONG IDS a", "REASON has 1025 bytes; at most 1024"),
        ("CLAIM.SETTLE q s 1 1 NOW", "CLAIM.SETTLE has no option 'NOW'"),
        ("CLAIM.RELEASE q s 1 -1", f"number -1 is not within 0 and {EXACT_MOST}"),
        ("CLAIM.RENEW q s first", "epoch 'first' is not a whole number"),
        ("CLAIM.PURGE q s 1 SHARD", "CLAIM.PURGE has no value after 'SHARD'"),
        ("CLAIM.DROP q s NOW", "CLAIM.DROP has no option 'NOW'"),
        ("CLAIM.INFO q s ALL", "CLAIM.INFO has no option 'ALL'"),
        ("CLAIM.LIST LONG", "queue has 1025 bytes; at most 1024"),
        (
            "STAGE.ADD lists q s r 0 0 0 0 x",
            "family 'lists' is not one of events, jobs, reliable, items",
        ),
        ("STAGE.ADD jobs q EMPTY r 0 0 0 0 x", "sink must not be empty"),
        ("STAGE.ADD jobs q s EMPTY 0 0 0 0 x", "run must not be empty"),
        ("STAGE.ADD jobs q s r -1 0 0 0 x", f"number -1 is not within 0 and {EXACT_MOST}"),
        ("STAGE.ADD jobs q s r 0 p 0 0 x", "part 'p' is not a whole number"),
        (
            f"STAGE.ADD jobs q s r 0 0 {EXACT_MOST + 1} 0 x",
            f"attempt {EXACT_MOST + 1} is not within 0 and {EXACT_MOST}",
        ),
        ("STAGE.ADD jobs q s r 0 0 0 1.5 x", "chunk '1.5' is not a whole number"),
        ("STAGE.PUBLISH jobs q s r 0 COUNT 5", "STAGE.PUBLISH requires PARTS"),
        (
            "STAGE.PUBLISH jobs q s r 0 PARTS 1 2",
            "PARTS must be three numbers each, but 2 values follow",
        ),
        ("STAGE.PUBLISH jobs q s r 0 PARTS 1 2 x", "chunks 'x' is not a whole number"),
        ("STAGE.PUBLISH jobs q s r 0 PARTS 1 2 3 1 4 3", "part 1 is given twice"),
        ("STAGE.PUBLISH jobs q s r 0 NOW PARTS", "STAGE.PUBLISH has no option 'NOW'"),
        ("STAGE.DROP q s r x", "number 'x' is not a whole number"),
        ("MESSAGES.PAGE jobs q 0 end", "until 'end' is not a whole number"),
        (
            "MESSAGES.PAGE jobs q 0 0 STATES lost",
            "state 'lost' is not one of ready, delayed, leased, dead",
        ),
        ("MESSAGES.PAGE jobs q 0 0 COUNT 0", f"COUNT 0 is not within 1 and {EXACT_MOST}"),
        ("MESSAGES.PAGE jobs q 0 0 ALL", "MESSAGES.PAGE has no option 'ALL'"),
        ("MESSAGES.DIVIDE jobs q 0", f"parts 0 is not within 1 and {EXACT_MOST}"),
        ("MESSAGES.DIVIDE jobs q 2 ALL", "MESSAGES.DIVIDE has no option 'ALL'"),
        ("LIFECYCLE.READ 16384 0", "shard 16384 is not within 0 and 16383"),
        ("LIFECYCLE.READ 0 -1", f"start -1 is not within 0 and {EXACT_MOST}"),
        ("LIFECYCLE.READ 0 0 ALL", "LIFECYCLE.READ has no option 'ALL'"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(BadArgument) as caught:
        parsed(text)

    assert str(caught.value) == said


SUBSCRIPTION = SubscriptionView(JOBS, b"q", b"s", b"", 0, 1, 1, 0, 0, 0, 0, False, 0, 0, 0)
CLAIM = ClaimView(1, ClaimState.FILLING, 0, 0, 0, 0, 0)
BATCH = StageView(b"q", b"sink", b"run", 1, False, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "most", "more", "refused"),
    [
        (
            "CLAIM.LIST",
            [SUBSCRIPTION] * 10_000,
            [SUBSCRIPTION] * 10_001,
            "all subscriptions and their claims are over 10000 rows in one reply: name a queue",
        ),
        (
            "CLAIM.LIST q",
            [replace(SUBSCRIPTION, claims=[CLAIM] * 9_999)],
            [replace(SUBSCRIPTION, claims=[CLAIM] * 10_000)],
            "these claims are over 10000 rows in one reply: CLAIM.INFO returns one subscription",
        ),
        (
            "CLAIM.LIST",
            [replace(SUBSCRIPTION, queue=b"x" * 1024)] * 4_000,
            [replace(SUBSCRIPTION, queue=b"x" * 1024)] * 4_100,
            (
                "the names of all subscriptions and their claims have 4202500 bytes, and at most"
                " 4194304 are sent in one reply: name a queue"
            ),
        ),
        (
            "STAGE.LIST",
            [BATCH] * 10_000,
            [BATCH] * 10_001,
            (
                "all batches are over 10000 rows in one reply: publish or drop some of them with"
                " STAGE.PUBLISH and STAGE.DROP"
            ),
        ),
    ],
)
def test_a_listing_has_so_many_rows_and_bytes_at_most(
    text: str, most: list[Any], more: list[Any], refused: str
) -> None:
    reply = cast(Any, ROWS[text.split()[0]].reply)

    assert len(reply(parsed(text), most, Everyone())) == len(most)
    with pytest.raises(LimitReached) as caught:
        reply(parsed(text), more, Everyone())
    assert str(caught.value) == refused
