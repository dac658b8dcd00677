"""celery, without results; a message is acked when it is done, which is not its default."""

from __future__ import annotations

import os

from celery import Celery

from bench.peers.noted import QUEUE, URL, note

app = Celery(QUEUE, broker=os.environ[URL])
app.conf.update(task_ignore_result=True, task_acks_late=True, task_default_queue=QUEUE)
add = app.task(name="note")(note).delay
