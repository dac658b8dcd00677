"""The Redis store: many brokers on a Redis, or a cluster of them. Each operation is a few scripts.

An operation, as steps that ask for calls:
    feeds.py      on feeds
    worklists.py  that change worklists
    taking.py     that hand out what is in worklists
    looks.py      that look at worklists
    reliable.py   on worklists that number their messages
    whole_queues.py  on a queue as a whole: deleting, renaming, its expiry
    items.py      on queues of items, which clients of Redis Work Queue share
    cleaning.py, deep_cleaning.py   what workers of those abandoned comes back
    tubes.py      on tasks
    tube_looks.py  on tubes as a whole
    sessions.py, own_sessions.py   who takes those tasks, at which broker
    claims.py     on claims
    stages.py     that put many messages once
    pages.py      that show a queue in the order of places
    records.py    that look at what became of messages
    nodes.py      on the brokers that share the store: names, addresses, who lives
    ticks.py      what is done for no client: opening, what time made due
    slots.py      which slots are in use
    calls.py      what a call is, and steps
    edge.py       what steps need from outside Redis: time, chance, the node's name
    spread.py     worklists that lie in several slots

A call on its way:
    served.py     the contract: carries the steps out, for a broker
    runners.py    which steps an operation is
    store.py      the same for a program without an event loop
    routes.py     which server has which slot; errands are tried again
    courier.py    the errands for one server, all of a turn together
    replicas.py   those that replicas have to confirm
    link.py       one connection
    urls.py       where a Redis is
    scripts.py    the Lua files, and what their errors mean
    keys.py       which keys there are, and in which slot a queue lies

Events that no request causes:
    wakeups.py    wake-up notifications of other brokers
    foreign.py    items that clients of Redis Work Queue add, where a client waits
    alarms.py     alarms that are due
    clock.py      the time of Redis

Into another store:
    copy_out.py, copy_in.py, copy_claims.py, copy_items.py, copy_tubes.py, copy_mark.py

    run(op) ──► steps(op, edge) ── calls ──► served ──► routes ──► courier ── EVALSHA ──► scripts/
                                ◄─ results ─        ◄───────────────────── lib/answer.lua ──
"""

from __future__ import annotations
