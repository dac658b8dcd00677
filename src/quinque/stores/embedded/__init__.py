"""The store on one machine: indexes in memory, a journal on disk, one folder.

    store.py            the contract: opens, commits, ticks, closes
    books.py            what operations share: the queues, the journal, the time, chance
    feed_operations.py  one method per operation on feeds: settle, decide, append, apply
    worklists.py        worklists, kept: found, settled, changed together, watched
    work_operations.py  one method per operation that changes worklists
    work_taking.py      handing out of worklists
    own_operations.py   completing, recovering, inspecting, where ids are a worklist's own
    item_operations.py  adding, extending, cleaning, where producers choose the ids
    driver_operations.py  one function per operation on tubes of drivers
    driver_seat.py      a driver at work in its tube
    driver_events.py    what a driver did to its rows, as events
    queue_operations.py one method per operation on a queue as a whole
    work_looks.py       one method per operation that only looks at worklists
    claims.py           one method per operation on subscriptions and claims
    claim_filling.py    messages go into claims
    claim_changes.py    what events about claims say of messages, for the record
    stages.py           one method per operation on staged batches
    staged.py           batches that are staged, and what was published
    pages.py            queues in the order of places, page by page
    landmarks.py        where in a feed a place is
    names.py            the node's id, the ids of new messages
    numbers.py          ids that are numbers
    former_names.py     names that worklists had before
    node.py             what this broker is called
    journal.py          segments: append, group commit, room on the disk
    manifest.py         which segments there must be
    records.py          the bytes: batches of records, checksums, what damage looks like
    recover.py          a folder -> queues, segment by segment
    replay.py           a record -> queues
    record.py           what happened to every message: made of what was committed
    changes.py          what an event says of messages' states
    record_files.py     files of the record: written, read by row, the oldest dropped
    record_frames.py    their bytes
    recover_claims.py   records of subscriptions and claims, read back
    compact.py          live messages of the oldest segment are written again, then it goes
    kept.py             messages, groups, worklists, claims as they are now, each as one event
    copy_out.py         a folder is read for a copy
    copy_in.py          a copy is written into a folder
    copy_mark.py        the mark of a folder that something is copied into
    bodies.py           bodies beyond maxmemory live on disk only
    aside.py            messages whose body on the disk is damaged are set aside
    alarms.py           when each queue next has something due
    survey.py           a folder as it is: what is wrong with it, and where
    repair.py           sets damaged places aside, so that the rest can be opened

The folder holds `lock`, segments `0000000001.journal`, `0000000002.journal`, …, the manifest
`0000000001-0000000002.manifest`, and in `lifecycle` the files of the record.
"""

from __future__ import annotations
