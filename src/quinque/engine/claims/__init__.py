"""The rules of claims: messages that a subscription has taken from a queue, in numbered lots.

subscription.py   subscriptions, their claims, the chunks these consist of
rows.py           messages as rows, rows as messages, what a store keeps of a chunk beside it
decide.py         operation + subscription + now -> the events that make it true
returning.py      how claimed messages go back, as events
apply.py          event -> subscriptions; the only writer
apply_to_queue.py event -> the queue that messages were claimed from
due.py            what time alone makes true
views.py          what is shown of subscriptions

A worklist knows how many of its messages are claimed and which keys these have, and nothing else
of them. In a feed the group holds claimed messages as it holds leased ones, with no deadline.
"""

from __future__ import annotations
