"""Ids of events are divided among brokers, and those of a broker among slots: no two overlap."""

from __future__ import annotations

from quinque.stores.redis.event_lanes import BROKERS_MOST, EventLanes, shares_of

SLOTS_MOST = 60  # more than there are lanes
NOW_US = 1_700_000_000_000_000


def test_shares_have_no_number_in_common_and_leave_none_out() -> None:
    counts = (1, 2, 4, 16, 128)
    shares = list(shares_of(counts))

    period = max(share.step for share in shares)
    numbers = [it for share in shares for it in range(share.first, period, share.step)]

    assert len(shares) == sum(counts) == BROKERS_MOST
    assert sorted(numbers) == list(range(period))


def test_a_slot_has_a_lane_for_itself_until_there_are_none() -> None:
    lanes = divided(3)

    entered = [lanes.enter(slot, NOW_US, 1, 0) for slot in range(SLOTS_MOST)]

    own = [it.lane for it in entered if not it.lane.is_common]
    assert len(own) == len(set(own)) == 21
    assert len({it.lane for it in entered if it.lane.is_common}) == 1


def test_additions_under_way_in_one_slot_use_one_lane() -> None:
    lanes = divided(0)

    one, other, elsewhere = (lanes.enter(slot, NOW_US, 1, 0) for slot in (7, 7, 8))

    assert one.lane is other.lane
    assert elsewhere.lane is not one.lane


def test_a_lane_that_was_left_is_used_again() -> None:
    lanes = divided(0)
    first = lanes.enter(7, NOW_US, 1, 0)
    lanes.leave(first.lane)

    assert lanes.enter(8, NOW_US, 1, 0).lane is first.lane
    assert lanes.enter(7, NOW_US, 1, 0).lane is not first.lane


def test_a_lane_rests_after_an_addition_whose_outcome_is_unknown() -> None:
    lanes = divided(0)
    first = lanes.enter(7, NOW_US, 1, 0)
    lanes.leave_unknown(first.lane, 0)

    assert not lanes.is_idle(59_999)
    assert lanes.enter(8, NOW_US, 1, 59_999).lane is not first.lane
    assert lanes.enter(9, NOW_US, 1, 60_000).lane is first.lane


def test_many_events_get_the_lane_in_which_they_end_first() -> None:
    lanes = divided(0)

    many = lanes.enter(7, NOW_US + 5, 1000, 0)
    few = lanes.enter(8, NOW_US + 5, 1, 0)

    assert (many.first_us, many.lane.step) == (NOW_US + 8, 4)
    assert few.first_us == NOW_US + 6


def divided(number: int) -> EventLanes:
    lanes = EventLanes(b"token")
    lanes.divide(number)
    return lanes
