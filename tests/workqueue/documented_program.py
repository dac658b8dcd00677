"""What the documentation of the published package shows, as one program; it does not know whose
package it runs on.

Called by   test_drop_in.py, which imports it once for each package.
Calls       redis_work_queue.
"""

from __future__ import annotations

from typing import Any

from redis_work_queue import Item, KeyPrefix, WorkQueue


def play(db: Any, prefix: str) -> list[object]:
    """What each line gave that says something."""
    seen: list[object] = []
    work_queue = WorkQueue(KeyPrefix(prefix))
    bytes_item, string_item = Item(b"[1,2,3]"), Item("[1,2,3]")
    json_item = Item.from_json_data([1, 2, 3])
    seen += [item.data() for item in (bytes_item, string_item, json_item)]
    seen.append(json_item.data_json())
    seen.append(Item.parse('{"data": "x", "id": "y"}'))

    work_queue.add_item(db, Item("first", id="1"))
    pipeline = db.pipeline()
    work_queue.add_item_to_pipeline(pipeline, Item("second", id="2"))
    work_queue.add_item_to_pipeline(pipeline, Item("third", id="3"))
    pipeline.execute()
    seen += [work_queue.queue_len(db), work_queue.processing(db)]

    job = work_queue.lease(db, 5)
    seen.append(job)
    seen += [job.id(), job.data(), isinstance(job, Item)]
    seen += [work_queue.complete(db, job), work_queue.complete(db, job)]

    dropped = work_queue.lease(db, 100, block=False)  # an error: another should try it later
    kept = work_queue.lease(db, 100, timeout=10)
    seen += [dropped, kept, work_queue.lease(db, 5, False), work_queue.lease(db, 5, timeout=0.01)]
    for lease in db.keys(f"{prefix}:lease*:{dropped.id()}"):
        db.delete(lease)
    work_queue.light_clean(db)
    seen += [work_queue.queue_len(db), work_queue.processing(db)]
    again = work_queue.lease(db, 100)
    seen += [again, work_queue.complete(db, kept), work_queue.complete(db, again)]
    seen.append(sorted(db.keys(f"{prefix}*")))
    return seen
