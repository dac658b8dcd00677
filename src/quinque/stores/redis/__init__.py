"""The Redis store: many brokers on one Redis. Each operation is one script or a few.

keys.py       which keys there are, and in which slot of a cluster a queue lies
scripts.py    the Lua files, and what their errors mean
calls.py      one call of a script; an operation as steps of such calls
edge.py       what an operation needs from outside Redis: time, chance, the node's name
feeds.py      the operations on feeds, as steps
worklists.py  the operations that change worklists, as steps
looks.py      the operations that look at worklists, as steps
store.py      the contract: carries the steps out

    run(op) ──► steps(op, edge) ── calls ──► store ── EVALSHA ──► scripts/<name>.lua
                                ◄─ results ─       ◄─ answer ──   lib/answer.lua
"""

from __future__ import annotations
