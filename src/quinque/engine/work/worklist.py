"""A queue whose messages are each worked by one consumer: they by state, and what is set for it.

Called by   apply.py (writes), decide.py and due.py (read), stores.
Calls       order.py, directory.py.

    ready, delayed, dead   in the order of their places: one that comes back goes to its old place
    leased                 only counted: a reminder in `dues` tells when each comes back
    turns                  where the family keeps them: of all leased ones, in the order in which
                           they were last delivered
    claimed                only counted: they are elsewhere (engine/claims/), but for their keys

All of them are also chained, so that they can be gone through.

Not here: the rules (decide.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from quinque.engine.calendar import Calendar
from quinque.engine.queue import Queue
from quinque.engine.work.directory import Directory
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from quinque.engine.work.rate import Rate
from quinque.engine.work.remains import WorkRemains
from quinque.model.families import Family
from quinque.model.limits import NEVER_MS, QUEUE_IDLE_MOST_MS
from quinque.model.states import State

READY = int(State.READY)
DELAYED = int(State.DELAYED)
LEASED = int(State.LEASED)
DEAD = int(State.DEAD)

# A turn is the millisecond of a delivery and its number in it, which goes on in the next one when
# there are more. With 11 bits a turn is an exact number in a double until 2108.
TURN_BITS = 11


class Worklist(Queue):
    __slots__ = (
        "active_ms",
        "came",
        "claimed",
        "claimed_keys",
        "dead",
        "delayed",
        "directory",
        "dues",
        "ends_ms",
        "first_number",
        "gone_turns",
        "is_paused_in",
        "is_paused_out",
        "keeps_expired",
        "keys",
        "last_turn",
        "leased",
        "max_deliveries",
        "rate",
        "ready",
        "segment",
        "since_ms",
        "size",
        "spared_ms",
        "turns",
        "went",
        "_newest",
    )

    def __init__(
        self,
        name: bytes,
        family: Family,
        directory: Directory,
        now_ms: int,
        in_order: bool = True,
    ) -> None:
        super().__init__(name, family, in_order)
        self.directory = Directory() if family.owns_ids else directory
        self.first_number = 0  # number in the directory; messages with a lower one were removed
        self.size = 0
        self._newest: WorkMessage | None = None  # of the chain
        self.ready = Order()
        self.delayed = Order()
        self.dead = Order()
        self.leased = 0
        self.turns: dict[bytes, int] | None = {} if family.keeps_deliveries else None
        self.gone_turns = 0  # since `turns` was last rebuilt
        self.last_turn = 0
        self.keys: dict[bytes, WorkMessage] = {}
        self.claimed = 0  # messages that are in claims, and so not here
        self.claimed_keys: dict[bytes, bytes] = {}  # and the ids of those that have a key, by key
        self.dues = Calendar()
        self.since_ms = now_ms
        self.active_ms = now_ms  # when something was last queued or taken
        self.spared_ms = 0  # when it was last found idle, and waited on
        self.came = 0
        self.went = 0
        self.is_paused_in = False
        self.is_paused_out = False
        self.max_deliveries = 0
        self.keeps_expired = False  # expired messages are dead, not removed
        self.rate: Rate | None = None
        self.ends_ms = NEVER_MS  # when the worklist itself goes, with all that is in it
        self.segment = 0  # the journal segment that last recorded the counts and settings

    def limit_of(self, message: WorkMessage) -> int:
        """Return how often the message may be delivered; 0: no limit."""
        return message.terms.max_deliveries or self.max_deliveries

    def keeps(self, message: WorkMessage) -> bool:
        """Whether the message is dead when it expires, and not gone. A message that is delivered
        at most once needs no ack, so it goes when it was delivered."""
        return self.keeps_expired and not is_given_away(message)

    # -- moving a message: it leaves one state and enters another --------------------------------

    def leave(self, message: WorkMessage) -> None:
        """Remove the message from the indexes of its state."""
        if self.turns is not None:
            self._drop_turn(message.id)
        if not self.in_order:
            return
        state = message.state
        if state == LEASED:
            self.leased -= 1
        elif state == READY:
            self.ready.remove(message)
        elif state == DELAYED:
            self.delayed.remove(message)
        else:
            self.dead.remove(message)

    def enter_ready(self, message: WorkMessage) -> None:
        message.state = READY
        message.due_ms = 0
        message.was_ready = True
        self.came += 1
        if self.in_order:
            self.ready.add(message)

    def enter_delayed(self, message: WorkMessage, due_ms: int) -> None:
        message.state = DELAYED
        if self.in_order:
            self.delayed.add(message)
        self._remind(message, due_ms)

    def enter_leased(self, message: WorkMessage, due_ms: int) -> None:
        message.state = LEASED
        self.leased += 1
        self._remind(message, due_ms)

    def enter_dead(self, message: WorkMessage, reason: bytes) -> None:
        message.state = DEAD
        message.due_ms = message.expires_ms = 0
        message.reason = reason
        if self.in_order:
            self.dead.add(message)
        self.free_key(message)

    def next_turn(self, now_ms: int) -> int:
        """The turn of a message that is delivered now."""
        return max(self.last_turn + 1, now_ms << TURN_BITS)

    def give_turns(self, ids: Sequence[bytes], turn: int) -> None:
        """The messages are the last that were delivered. Each id has its turn, also when a journal
        is read back in which some of them are gone."""
        turns = self.turns
        if turns is None:
            return
        in_order, by_id = self.in_order, self.directory.by_id
        for id in ids:
            if in_order or id in by_id:
                turns[id] = turn
            turn += 1
        self.last_turn = turn - 1

    def _drop_turn(self, id: bytes) -> None:
        """Remove the message from the order of deliveries."""
        turns = self.turns
        assert turns is not None
        if turns.pop(id, 0):
            # A look at the first entry passes over the room of all that were removed before it.
            self.gone_turns += 1
            if self.gone_turns > len(turns) + 4096:
                self.turns = dict(turns)
                self.gone_turns = 0

    def _remind(self, message: WorkMessage, due_ms: int) -> None:
        message.due_ms = due_ms
        if due_ms < NEVER_MS:
            self.dues.add(due_ms, message.id)
            if due_ms < self.soonest_ms:
                self.soonest_ms = due_ms

    def free_key(self, message: WorkMessage) -> None:
        """Another message may have the key, if this one has it."""
        key = message.key
        if key is not None and self.keys.get(key) is message:
            del self.keys[key]

    # -- coming and going ------------------------------------------------------------------------

    def find(self, id: bytes) -> WorkMessage | None:
        """The message, if it is in this worklist."""
        message = self.directory.by_id.get(id)
        if message is None or message.queue is not self or message.number < self.first_number:
            return None
        return message

    def put(self, message: WorkMessage) -> None:
        """The message can be found; its state is not looked at."""
        newest = self._newest
        if newest is not None:
            newest.after = message
            message.before = newest
        self._newest = message
        self.size += 1
        self.directory.add(message)

    def remove(self, message: WorkMessage) -> None:
        """Remove the message from all indexes."""
        if message.state == LEASED and self.in_order:  # as nearly always
            self.leased -= 1
            if self.turns is not None:
                self._drop_turn(message.id)
        else:
            self.leave(message)
        self._unchain(message)
        self.directory.remove(message)
        if message.key is not None:
            self.free_key(message)

    def _unchain(self, message: WorkMessage) -> None:
        before, after = message.before, message.after
        if before is not None:
            before.after = after
        if after is not None:
            after.before = before
        else:
            self._newest = before
        message.before = message.after = None
        self.size -= 1

    def take_away(self, ids: Sequence[bytes]) -> list[WorkMessage]:
        """Remove the messages from all indexes; return those that were here."""
        messages = self.ready.first(len(ids))
        if [message.id for message in messages] == ids:  # as nearly always
            self.ready.drop_first(len(ids))
        else:
            messages = [message for id in ids if (message := self.find(id)) is not None]
            for message in messages:
                self.leave(message)
        for message in messages:
            self._unchain(message)
            self.directory.remove(message)
            if message.key is not None:
                self.free_key(message)
        self.trim()
        return messages

    def all(self) -> list[WorkMessage]:
        """Every message, in no order."""
        found: list[WorkMessage] = []
        message = self._newest
        while message is not None:
            found.append(message)
            message = message.before
        return found

    def of_states(self, states: set[int]) -> list[WorkMessage]:
        """The messages in these states, the leased ones last, in no order. To find those, all are
        gone through, at about 0.1 µs each; the others are copied."""
        found: list[WorkMessage] = []
        for state, order in ((READY, self.ready), (DELAYED, self.delayed), (DEAD, self.dead)):
            if state in states:
                found += order.first(order.size)
        if LEASED in states and self.leased:
            found += [message for message in self.all() if message.state == LEASED]
        return found

    @property
    def newest_number(self) -> int:
        """In the directory, of the message that came last; 0 if there is none."""
        return self._newest.number if self._newest is not None else 0

    def trim(self) -> None:
        """Drop some reminders of what went early, if they outnumber what they remind of."""
        # While a journal is read back it is not counted how many are delayed.
        waiting = self.leased + self.delayed.size if self.in_order else self.size
        self.dues.trim(waiting, self._due_of)
        self.expiries.trim(self.size, self._end_of)

    def _due_of(self, id: bytes) -> int:
        message = self.find(id)
        return message.due_ms if message is not None else NEVER_MS

    def _end_of(self, id: bytes) -> int:
        message = self.find(id)
        return message.expires_ms if message is not None else NEVER_MS

    def clear(self) -> list[WorkMessage]:
        """Remove all messages, and return them."""
        gone = self.all()
        for message in gone:
            self._unchain(message)
            self.directory.remove(message)
        self._begin_empty()
        return gone

    def retire(self) -> WorkRemains:
        """No message is left, and none of those that were there is found. They are in what is
        returned, however many there are."""
        remains = self._remains(self._newest)
        self.first_number = self.directory.next
        if self.family.owns_ids:
            self.directory = Directory(self.directory.next)
        self._newest = None
        self.size = 0
        self._begin_empty()
        return remains

    def _remains(self, newest: WorkMessage | None) -> WorkRemains:
        return WorkRemains(self, newest, self.directory)

    def _begin_empty(self) -> None:
        self.ready = Order()
        self.delayed = Order()
        self.dead = Order()
        self.keys = {}
        self.leased = 0
        if self.turns is not None:
            self.turns = {}
            self.gone_turns = 0
        self.dues = Calendar()
        self.expiries = Calendar()

    def count_living(self, now_ms: int, most: int) -> int:
        """Count the messages that have not expired. Reminders of up to `most` expired messages are
        used up, because the work queue is about to be emptied. If more have expired, the others are
        counted too."""
        over = 0
        for id in dict.fromkeys(self.expiries.take(now_ms, most)):
            message = self.find(id)
            over += message is not None and self.has_ended(message, now_ms)
        return self.size - over

    def has_ended(self, message: WorkMessage, now_ms: int) -> bool:
        """Return whether the message's time to live is over. It may not have been removed yet."""
        return 0 < message.expires_ms <= now_ms and not self.keeps(message)

    def bring_into_order(self) -> None:
        """Sort messages that came in any order by their positions, and make them available."""
        by_state: list[list[WorkMessage]] = [[], [], [], []]
        for message in sorted(self.all(), key=lambda message: message.place):
            by_state[message.state].append(message)
        self.ready = Order(by_state[READY])
        self.delayed = Order(by_state[DELAYED])
        self.dead = Order(by_state[DEAD])
        self.leased = len(by_state[LEASED])
        if self.turns is not None:
            self.turns = dict(sorted(self.turns.items(), key=lambda item: item[1]))
            self.gone_turns = 0
            self.last_turn = next(reversed(self.turns.values()), 0)
        self.in_order = True
        self.trim()
        self.set_soonest()

    # -- time ------------------------------------------------------------------------------------

    def set_soonest(self) -> None:
        """Set `soonest_ms` to when something is next due: also that the queue has been idle for
        long, or that its rate allows the next message."""
        soonest_ms = min(self.expiries.next_ms, self.dues.next_ms, self.ends_ms)
        if self.is_vacant:
            idle_ms = max(self.active_ms, self.spared_ms) + QUEUE_IDLE_MOST_MS
            soonest_ms = min(soonest_ms, idle_ms)
        elif self.rate is not None and self.ready.size and not self.is_paused_out:
            soonest_ms = min(soonest_ms, self.rate.refused_until_ms)
        self.soonest_ms = soonest_ms

    def count_leases(self) -> int:
        return self.leased

    @property
    def has_settings(self) -> bool:
        return (
            self.is_paused_in
            or self.is_paused_out
            or self.max_deliveries > 0
            or self.keeps_expired
            or self.rate is not None
        )

    @property
    def is_vacant(self) -> bool:
        """Return whether it has nothing that a client wants to keep, so that another family can use
        the name."""
        return not self.size and self.is_unset

    @property
    def is_unset(self) -> bool:
        """Return whether it exists only while it has messages."""
        return not self.claimed and not self.has_settings and not self.family.is_lasting


def is_given_away(message: WorkMessage) -> bool:
    """Return whether the message was delivered and does not return: it needs no ack."""
    return message.state == LEASED and not message.terms.retry_ms
