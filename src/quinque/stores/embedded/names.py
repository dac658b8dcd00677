"""Names and chance: the node's id, the ids of new messages, how much a lease's end is moved.

Called by   work_operations.py, work_taking.py.
Calls       books.py (random bytes, the journal), numbers.py (ids that are numbers).

Not here: ids in feeds, which are places (engine/feed/apply.py).
"""

from __future__ import annotations

from quinque.engine.work.worklist import Worklist
from quinque.model.events import NAMED, Named
from quinque.model.work_ops import Terms
from quinque.stores.chance import id_tail
from quinque.stores.embedded.books import Books
from quinque.stores.embedded.node import Node
from quinque.stores.id_slots import ID_RANDOM_BYTES, make_ids, slot_of


class Names:
    def __init__(self, books: Books) -> None:
        self._books = books

    def known_node(self) -> Node:
        """The node, which has an id from here on."""
        node = self._books.node
        if not node.id:
            id = self._books.chance.node_id()
            self._books.journal.append(Named(NAMED, id, node.is_leaving))
            node.id, node.segment = id, self._books.journal.segment
        return node

    def new_ids(self, queue: Worklist, count: int, terms: Terms, node_id: bytes) -> list[bytes]:
        """Make ids that no message has. In most families they contain the slot of the queue, as
        drawn in stores/id_slots.py.

        D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
          node id  slot, 130 random bits    life in minutes, odd if it may come back
        """
        if queue.family.numbers_ids:
            return self._books.numbers.new_ids(self._books.at_ms, count)
        random = self._books.chance.take(ID_RANDOM_BYTES * count)
        return make_ids(random, slot_of(queue.name), node_id, id_tail(terms.ttl_ms, terms.retry_ms))

    def jitter_ms(self) -> int:
        return self._books.chance.jitter_ms()

    def set_node(self, is_leaving: bool, *, is_renamed: bool) -> Node:
        """The node leaves or does not, under this name or a new one."""
        node = self.known_node()
        id = self._books.chance.node_id() if is_renamed else node.id
        self._books.journal.append(Named(NAMED, id, is_leaving))
        node.id, node.is_leaving, node.segment = id, is_leaving, self._books.journal.segment
        return node
