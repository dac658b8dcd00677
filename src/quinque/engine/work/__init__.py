"""The rules of worklists: each message is worked by one consumer, until it is finished.

worklist.py   one worklist: its messages by state, what is set for it
order.py      messages in the order of their places
directory.py  where each message is, in all worklists
decide.py     operation + worklist + now -> the events that make it true
apply.py      event -> indexes; the only writer
due.py        what time alone makes true
views.py      what is shown of messages and worklists
"""

from __future__ import annotations
