"""The commands of claims: CLAIM.OPEN CLAIM.FILL CLAIM.READ CLAIM.SETTLE and the others.

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py, claim_replies.py.

A reader names its subscription, and gets the messages of the queue in numbered claims.

Not here: claims (model/claim_ops.py), their effect on messages (engine/claims/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quinque.dialects.args import read_name
from quinque.dialects.claim_replies import (
    GROUP,
    reply_claim,
    reply_fill,
    reply_list,
    reply_read,
    reply_subscription,
)
from quinque.dialects.command import Command, Right, Session, Wait, plain_reply
from quinque.dialects.listings import seen_by
from quinque.dialects.options import (
    EXACT_MOST,
    Options,
    read_any_queue,
    read_family,
    read_number,
    read_queue_of,
)
from quinque.errors import BadArgument, WrongArity, printable
from quinque.model.claim_ops import (
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
)
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.limits import COUNTS_MOST, NAME_MOST_BYTES
from quinque.wire.resp import Value

# A reader renews several times in a lease. A reader that has not responded for a minute has most
# likely died.
_LEASE_MS: Final = 60_000
_OUTCOMES: Final = {outcome.name.encode(): outcome for outcome in Outcome}


def parse_open(argv: list[bytes]) -> OpenClaims:
    """CLAIM.OPEN queue subscription [FAMILY family] [GROUP group] [LEASE ms] [RELEASE ms] [SHARD n]

    Open the subscription on the queue and replace its previous reader. Returns the subscription
    with the epoch that the other commands need. FAMILY is jobs, or events if GROUP is given.
    """
    subscription = read_name("subscription", argv[2])
    opened = OpenClaims(JOBS, argv[1], subscription, b"", _LEASE_MS)
    family: Family | None = None
    options = Options("CLAIM.OPEN", argv, 3)
    for word in options:
        match word:
            case b"FAMILY":
                family = read_family(options.value())
            case b"GROUP":
                opened.group = read_name("GROUP", options.value())
            case b"LEASE":
                opened.lease_ms = options.span_ms(least=1)
            case b"RELEASE":
                opened.release_ms = options.span_ms()
            case b"SHARD":
                opened.shard = options.shard()
            case _:
                raise options.refused()
    opened.family = family or (EVENTS if opened.group else JOBS)
    opened.queue = read_queue_of(opened.family, argv[1])
    if opened.family.is_worklist and opened.group:
        raise BadArgument(f"GROUP requires an events queue; {opened.family.name} have no groups")
    if not opened.family.is_worklist and not opened.group:
        opened.group = subscription
    if 0 < opened.release_ms < opened.lease_ms:
        raise BadArgument(f"RELEASE {opened.release_ms} is less than LEASE {opened.lease_ms}")
    return opened


def parse_fill(argv: list[bytes], session: Session) -> Wait:
    """CLAIM.FILL queue subscription epoch number COUNT n [UNTIL place] [SEAL] [TIMEOUT ms]
    [SHARD n]

    Move up to COUNT more messages into the claim, which is started if it is the next one. SEAL
    fixes its contents. Returns the claim, or null if there is no claim and no message for it
    within TIMEOUT.
    """
    fill = FillClaim(*_held(argv), read_number("number", argv[4], least=1), count=-1)
    timeout_ms = 0
    options = Options("CLAIM.FILL", argv, 5)
    for word in options:
        match word:
            case b"COUNT":
                fill.count = options.number()
            case b"UNTIL":
                # The position of a queue that never had a message is 0, and no message has a
                # position before 1.
                fill.until_place = max(1, options.number())
            case b"SEAL":
                fill.seals = True
            case b"TIMEOUT":
                timeout_ms = options.span_ms(least=1)
            case b"SHARD":
                fill.shard = options.shard()
            case _:
                raise options.refused()
    if fill.count < 0 or not (fill.count or fill.seals):
        raise BadArgument("CLAIM.FILL requires COUNT: 1 or more, or 0 to SEAL the claim as it is")
    # Longer than the name of any group, so that it never blocks the readers of a group.
    group = b"%b %d %b" % (fill.subscription, fill.shard, bytes(NAME_MOST_BYTES))
    return Wait(fill, (fill.queue,), group, timeout_ms)


def parse_read(argv: list[bytes], session: Session) -> Wait:
    """CLAIM.READ queue subscription number [CHUNK first] [CHUNKS n] [PACKED] [SHARD n]

    Return the messages of a sealed claim, in the same order each time: its chunks from CHUNK
    on, as many as fit. With PACKED, each chunk is packed as one string. Nothing changes.
    """
    number = read_number("number", argv[3], least=1)
    read = ReadClaim(*_named(argv), number, chunk=0, count=EXACT_MOST)
    is_packed = False
    options = Options("CLAIM.READ", argv, 4)
    for word in options:
        match word:
            case b"CHUNK":
                read.chunk = options.number()
            case b"CHUNKS":
                read.count = options.number(least=1)
            case b"PACKED":
                is_packed = True
            case b"SHARD":
                read.shard = options.shard()
            case _:
                raise options.refused()
    return Wait(read, (), b"", timeout_ms=0, detail=is_packed)


def parse_play(argv: list[bytes]) -> PlayClaim:
    """CLAIM.PLAY queue subscription epoch number [KEEP n] [SHARD n]

    Count one more read attempt of the claim. With KEEP, only its first n messages stay in it,
    and the others return to the queue. Returns the claim.
    """
    play = PlayClaim(*_held(argv), read_number("number", argv[4], least=1))
    options = Options("CLAIM.PLAY", argv, 5)
    for word in options:
        match word:
            case b"KEEP":
                play.keep = options.number()
            case b"SHARD":
                play.shard = options.shard()
            case _:
                raise options.refused()
    return play


def parse_mark(argv: list[bytes]) -> MarkClaim:
    """CLAIM.MARK queue subscription number outcome [DELAY ms] [REASON text] [EPOCH n]
    [SHARD n] IDS id ...

    Set the outcome of these messages for when the claim is settled: ACK finishes them like all
    others, NACK returns them to the queue, after DELAY if given, and DEAD makes them dead.
    Returns the number of messages that the claim has.
    """
    number = read_number("number", argv[3], least=1)
    outcome = _OUTCOMES.get(argv[4].upper())
    if outcome is None:
        listed = ", ".join(name.decode() for name in _OUTCOMES)
        raise BadArgument(f"outcome '{printable(argv[4][:64])}' is not one of {listed}")
    mark = MarkClaim(*_named(argv), number, outcome, ())
    options = Options("CLAIM.MARK", argv, 5)
    for word in options:
        match word:
            case b"DELAY":
                mark.delay_ms = options.span_ms()
            case b"REASON":
                mark.reason = options.value()
            case b"EPOCH":
                mark.epoch = options.number(least=1)
            case b"SHARD":
                mark.shard = options.shard()
            case b"IDS":
                mark.message_ids = [read_name("id", id) for id in options.rest()]
            case _:
                raise options.refused()
    if not mark.message_ids:
        raise BadArgument("CLAIM.MARK requires IDS and at least one id")
    if mark.delay_ms and outcome is not Outcome.NACK:
        raise BadArgument(f"DELAY requires NACK, not {outcome.name}")
    if len(mark.reason) > NAME_MOST_BYTES:
        raise BadArgument(f"REASON has {len(mark.reason)} bytes; at most {NAME_MOST_BYTES}")
    return mark


def parse_settle(argv: list[bytes]) -> SettleClaims:
    """CLAIM.SETTLE queue subscription epoch number [SHARD n]

    Commit the claims up to this one: their messages are finished, except those that were
    marked. Returns the number of messages.
    """
    settle = SettleClaims(*_held(argv), read_number("number", argv[4]))
    settle.shard = _shard("CLAIM.SETTLE", argv, 5)
    return settle


def parse_release(argv: list[bytes]) -> ReleaseClaims:
    """CLAIM.RELEASE queue subscription epoch number [SHARD n]

    Release the open claims up to this one: their messages return to their old position. Returns
    the number of messages.
    """
    release = ReleaseClaims(*_held(argv), read_number("number", argv[4]))
    release.shard = _shard("CLAIM.RELEASE", argv, 5)
    return release


def parse_renew(argv: list[bytes]) -> RenewClaims:
    """CLAIM.RENEW queue subscription epoch [SHARD n]

    Extend the lease of the subscription for its reader. Returns the number of open claims.
    """
    renew = RenewClaims(*_held(argv))
    renew.shard = _shard("CLAIM.RENEW", argv, 4)
    return renew


def parse_purge(argv: list[bytes]) -> PurgeClaims:
    """CLAIM.PURGE queue subscription number [SHARD n]

    Remove settled and released claims up to this one, so that they cannot be read again.
    Returns the number of claims.
    """
    purge = PurgeClaims(*_named(argv), read_number("number", argv[3]))
    purge.shard = _shard("CLAIM.PURGE", argv, 4)
    return purge


def parse_drop(argv: list[bytes]) -> DropClaims:
    """CLAIM.DROP queue subscription [SHARD n]

    Delete the subscription. The messages of its open claims return to the queue first. Returns
    their number, or null if the subscription does not exist.
    """
    return DropClaims(*_named(argv), _shard("CLAIM.DROP", argv, 3))


def parse_info(argv: list[bytes]) -> LookAtClaims:
    """CLAIM.INFO queue subscription [SHARD n]

    Return the subscription and its claims, or null.
    """
    return LookAtClaims(*_named(argv), _shard("CLAIM.INFO", argv, 3))


def parse_list(argv: list[bytes], session: Session) -> FindClaims:
    """CLAIM.LIST [queue]

    Return all subscriptions, or those on the queue, each like CLAIM.INFO. They and their claims
    may be 10000.
    """
    if len(argv) > 2:
        raise WrongArity("CLAIM.LIST")
    queue = read_any_queue(argv[1]) if len(argv) > 1 else None
    return FindClaims(queue, COUNTS_MOST, seen_by(session))


def _named(argv: list[bytes]) -> tuple[bytes, bytes]:
    """Return the queue and the subscription."""
    return read_any_queue(argv[1]), read_name("subscription", argv[2])


def _held(argv: list[bytes]) -> tuple[bytes, bytes, int]:
    """Return the queue, the subscription, and the epoch of its reader."""
    return *_named(argv), read_number("epoch", argv[3], least=1)


def _shard(command: str, argv: list[bytes], at: int) -> int:
    """Return the value of SHARD, the only option of such a command."""
    shard = 0
    options = Options(command, argv, at)
    for word in options:
        if word != b"SHARD":
            raise options.refused()
        shard = options.shard()
    return shard


def _family_of_open(argv: list[bytes]) -> Family | None:
    """Return the family that parse_open will find, or None if the arguments are invalid."""
    try:
        return parse_open(argv).family
    except BadArgument:
        return None


def _family_of_claims(argv: list[bytes]) -> FindClaims:
    return FindClaims(argv[1])


def _on_subscription(
    name: str, right: Right, arity: int, parse: Callable[..., Any], reply: Callable[..., Value]
) -> Command:
    return Command(name, GROUP, right, arity, parse, reply, family=_family_of_claims)


COMMANDS: Final = [
    Command(
        "CLAIM.OPEN", GROUP, "write", -3, parse_open, reply_subscription, family=_family_of_open
    ),
    Command(
        "CLAIM.FILL",
        GROUP,
        "write",
        -7,
        parse_fill,
        reply_fill,
        with_session=True,
        family=_family_of_claims,
        is_blocking=True,
    ),
    Command(
        "CLAIM.READ",
        GROUP,
        "read",
        -4,
        parse_read,
        reply_read,
        with_session=True,
        family=_family_of_claims,
    ),
    _on_subscription("CLAIM.PLAY", "write", -5, parse_play, reply_claim),
    _on_subscription("CLAIM.MARK", "write", -7, parse_mark, plain_reply),
    _on_subscription("CLAIM.SETTLE", "write", -5, parse_settle, plain_reply),
    _on_subscription("CLAIM.RELEASE", "write", -5, parse_release, plain_reply),
    _on_subscription("CLAIM.RENEW", "write", -4, parse_renew, plain_reply),
    _on_subscription("CLAIM.PURGE", "write", -4, parse_purge, plain_reply),
    _on_subscription("CLAIM.DROP", "write", -3, parse_drop, plain_reply),
    _on_subscription("CLAIM.INFO", "read", -3, parse_info, reply_subscription),
    Command("CLAIM.LIST", GROUP, "read", -1, parse_list, reply_list, with_session=True),
]
