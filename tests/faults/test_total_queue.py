"""The check of the kill loop finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.faults.total_queue import TAKEN, Operation, Verb, check

SECOND_NS = 10**9


class Clients:
    """A history, written down one operation after the other, a second each."""

    def __init__(self) -> None:
        self.history: list[Operation] = []

    def add(self, key: str, id: str = "", life_s: float = 0.0) -> None:
        self._write("add", key=key, id=id, span_s=life_s, is_answered=bool(id))

    def get(self, id: str = "", body: str = "", *, client: str = "c", lease_s: float = 1.0) -> None:
        self._write("get", id=id, body=body, span_s=lease_s, client=client)

    def lost_get(self, lease_s: float = 1.0) -> None:
        self._write("get", span_s=lease_s, is_answered=False)

    def ack(self, id: str) -> None:
        self._write("ack", key=id, was_done=True)

    def _write(
        self,
        verb: Verb,
        *,
        client: str = "c",
        key: str = "",
        span_s: float = 0.0,
        id: str = "",
        body: str = "",
        was_done: bool = False,
        is_answered: bool = True,
    ) -> None:
        sent_ns = len(self.history) * SECOND_NS + SECOND_NS
        op = Operation(client, verb, "q", "" if verb == "add" else "g", key, span_s, sent_ns)
        if is_answered:
            op.answered_ns = sent_ns + SECOND_NS // 2
            op.id, op.body, op.was_done = id, body, was_done
        self.history.append(op)

    def faults(self) -> dict[str, list[str]]:
        found = check(self.history, [("q", "g")]).violations
        return {what: lines for what, lines in found.items() if lines}


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_a_queue_that_works_has_no_faults(clients: Clients) -> None:
    clients.add("a", "1")
    clients.add("b", "2")
    clients.get("1", "a")
    clients.ack("1")
    clients.get("2", "b")
    clients.get("2", "b", client="d")
    clients.ack("2")

    assert clients.faults() == {}


def test_an_acknowledged_message_that_nobody_got_is_lost(clients: Clients) -> None:
    clients.add("a", "1")
    clients.add("b")

    assert list(clients.faults()) == ["acknowledged, then lost"]


def test_a_lost_answer_excuses_a_missing_message_only_if_no_ack_was_needed(
    clients: Clients,
) -> None:
    clients.add("a", "1")
    clients.lost_get(lease_s=1.0)
    assert list(clients.faults()) == ["acknowledged, then lost"]

    clients.lost_get(lease_s=0.0)
    assert clients.faults() == {}


def test_a_message_nobody_sent_is_found(clients: Clients) -> None:
    clients.get("1", "a")

    assert list(clients.faults()) == ["delivered, never sent"]


def test_a_message_under_another_id_than_was_answered_is_found(clients: Clients) -> None:
    clients.add("a", "1")
    clients.get("2", "a")

    assert list(clients.faults()) == ["delivered, never sent"]


def test_a_message_stored_twice_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("1", "a")
    clients.get("2", "a")

    assert list(clients.faults()) == ["sent once, stored twice"]


def test_an_acked_message_that_comes_back_is_found(clients: Clients) -> None:
    clients.add("a", "1")
    clients.get("1", "a")
    clients.ack("1")
    clients.get("1", "a")

    assert list(clients.faults()) == ["acked, then delivered again"]


def test_a_message_taken_without_ack_that_comes_back_is_found(clients: Clients) -> None:
    clients.add("a", "1")
    clients.get("1", "a", lease_s=0.0)
    clients.get("1", "a")

    assert list(clients.faults()) == ["acked, then delivered again"]


def test_a_message_in_two_hands_is_found(clients: Clients) -> None:
    clients.add("a", "1")
    clients.get("1", "a", lease_s=60.0)
    clients.get("1", "a", client="d")

    assert list(clients.faults()) == ["held by two at once"]


def test_a_message_that_outlives_its_expiry_is_found(clients: Clients) -> None:
    clients.add("a", "1", life_s=1.0)
    clients.add("b", "2")
    clients.get("2", "b", client="d")
    clients.get("1", "a")

    assert list(clients.faults()) == ["delivered after expiry"]


def test_an_id_that_goes_back_is_found(clients: Clients) -> None:
    clients.add("a", "2")
    clients.add("b", "1")
    clients.get("1", "b")
    clients.get("2", "a")

    assert list(clients.faults()) == ["ids that went back"]


def test_an_order_that_no_lost_answer_explains_is_found(clients: Clients) -> None:
    clients.add("a", "1")
    clients.add("b", "2")
    clients.get("2", "b")
    clients.get("1", "a")
    assert list(clients.faults()) == ["delivered out of order"]

    clients.lost_get()
    assert clients.faults() == {}


def test_who_asked_first_may_meet_it_second_when_the_other_lease_has_ended(
    clients: Clients,
) -> None:
    clients.add("a", "1")
    clients.add("b", "2")
    clients.get("1", "a", client="d")
    clients.get("2", "b")
    clients.get("1", "a")
    first, *asked_before_it = clients.history[2:]
    for get in asked_before_it:
        get.sent_ns = first.sent_ns - 1

    assert clients.faults() == {}


def test_an_addition_that_was_repeated_is_stored_as_often_as_it_was_sent_at_most(
    clients: Clients,
) -> None:
    clients.add("a")
    clients.add("a", "2")
    clients.get("1", "a")
    clients.get("2", "a")
    assert clients.faults() == {}

    clients.get("3", "a")
    assert list(clients.faults()) == ["sent once, stored twice"]


def test_an_id_that_is_taken_was_sent_before_without_an_answer(clients: Clients) -> None:
    clients.add("a")
    clients.add("a", "taken")
    clients.history[-1].error = f"{TAKEN}a"
    clients.get("a", "a")
    assert clients.faults() == {}

    clients.history[0].id, clients.history[0].answered_ns = "a", clients.history[0].sent_ns + 1
    assert list(clients.faults()) == ["answered with an error"]


def test_a_chosen_id_that_is_free_again_may_be_added_again(clients: Clients) -> None:
    clients.add("a")
    clients.get("a", "a")
    clients.ack("a")
    clients.add("a", "a")
    clients.get("a", "a")
    assert clients.faults() == {}

    clients.ack("a")
    clients.get("a", "a")
    assert list(clients.faults()) == ["acked, then delivered again"]


def test_ids_of_several_brokers_grow_within_a_queue_only(clients: Clients) -> None:
    clients.add("a", "2")
    clients.add("b", "1")
    clients.history[-1].queue = "other"

    assert check(clients.history, []).ids_went_back == ["1 after 2"]
    assert check(clients.history, [], brokers=2).ids_went_back == []
