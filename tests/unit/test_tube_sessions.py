"""Which session a client is of, and what the store is told of it, also when that fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from quinque.errors import NoSession, NotDone, StoreUnavailable
from quinque.model.ops import Op
from quinque.model.tube_ops import JoinSession, LeaveSession, LeaveSessions
from quinque.server.config import Config
from quinque.server.sessions import Sessions
from quinque.stores.pending import Pending


@dataclass
class Member:
    session: bytes = b""
    is_gone: bool = False


@dataclass
class Told:
    """What a store was told. It fails as long as it is down, and is late as long as it is slow."""

    ops: list[Op] = field(default_factory=list)
    failure: Exception | None = None
    is_late: bool = False
    late: list[Pending] = field(default_factory=list)

    def run(self, op: Op) -> Any:
        self.ops.append(op)
        if self.is_late:
            self.late.append(Pending())
            return self.late[-1]
        if self.failure is not None:
            raise self.failure
        return None


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def sessions(told: Told) -> Sessions:
    numbers = iter(range(1, 100))
    config = Config(session_ttr=2.5)
    return Sessions(told.run, config, lambda: None, lambda count: bytes([next(numbers)] * count))


ONE, TWO = bytes([1] * 16), bytes([2] * 16)


def test_a_client_has_a_session_from_when_it_needs_one(sessions: Sessions, told: Told) -> None:
    one, two = Member(), Member()

    assert sessions.of(one) == sessions.of(one) == one.session == ONE
    assert sessions.of(two) == TWO
    assert told.ops == [JoinSession(ONE, is_new=True), JoinSession(TWO, is_new=True)]


def test_who_is_gone_has_left_once(sessions: Sessions, told: Told) -> None:
    member = Member()
    sessions.leave(member)
    sessions.of(member)

    sessions.leave(member)
    sessions.leave(member)
    assert told.ops[1:] == [LeaveSession(ONE, 2500)]


def test_who_joins_another_leaves_its_own_when_it_has_joined(
    sessions: Sessions, told: Told
) -> None:
    member = Member()
    sessions.of(member)
    told.is_late = True

    joined = sessions.join(member, TWO)
    assert told.ops[1:] == [JoinSession(TWO)]
    assert member.session == ONE
    told.late[0].settle(None)
    assert joined.is_settled
    assert member.session == TWO
    assert told.ops[2:] == [LeaveSession(ONE, 2500)]


def test_who_joins_its_own_changes_nothing(sessions: Sessions, told: Told) -> None:
    member = Member()
    sessions.of(member)

    assert sessions.join(member, ONE) is None
    assert len(told.ops) == 1


def test_a_text_is_made_and_16_bytes_have_to_be_there(sessions: Sessions, told: Told) -> None:
    sessions.join(Member(), b"worker-7")
    sessions.join(Member(), ONE)

    assert told.ops == [JoinSession(b"worker-7", is_new=True), JoinSession(ONE, is_new=False)]


def test_who_may_not_join_stays_where_it_was(sessions: Sessions, told: Told) -> None:
    member = Member()
    sessions.of(member)
    told.failure = NoSession(TWO)

    with pytest.raises(NoSession):
        sessions.join(member, TWO)
    assert member.session == ONE
    assert told.ops[1:] == [JoinSession(TWO)]


def test_who_is_gone_by_the_time_it_has_joined_leaves_at_once(
    sessions: Sessions, told: Told
) -> None:
    member = Member()
    told.is_late = True
    sessions.join(member, TWO)
    sessions.leave(member)
    member.is_gone = True

    told.late[0].settle(None)
    assert told.ops[1:] == [LeaveSession(TWO, 2500)]
    assert member.session == b""


@pytest.mark.parametrize("failure", [NotDone("down"), StoreUnavailable("down")])
def test_a_store_that_was_down_is_told_again(
    sessions: Sessions, told: Told, failure: Exception
) -> None:
    member = Member()
    told.failure = failure
    assert sessions.of(member) == ONE
    assert sessions.of(member) == ONE
    assert told.ops == [JoinSession(ONE, is_new=True)] * 2

    told.failure = None
    assert sessions.of(member) == sessions.of(member) == ONE
    assert len(told.ops) == 3
    told.failure = failure
    sessions.leave(member)
    sessions.each_second()
    told.failure = None
    sessions.each_second()
    sessions.each_second()
    assert told.ops[3:] == [LeaveSession(ONE, 2500)] * 3


def test_a_store_that_fails_later_is_told_again_too(sessions: Sessions, told: Told) -> None:
    member, other = Member(), Member()
    told.is_late = True
    sessions.of(member)
    sessions.of(other)

    told.late[0].fail(NotDone("down"))
    told.late[1].settle(None)
    assert (sessions.of(other), sessions.of(member)) == (TWO, ONE)
    assert told.ops[2:] == [JoinSession(ONE, is_new=True)]


def test_of_sessions_from_before_nobody_is(sessions: Sessions, told: Told) -> None:
    sessions.leave_earlier_ones()

    assert told.ops == [LeaveSessions(2500)]
