"""The rules of tubes: worklists whose tasks have priorities, lanes, times, and sessions that take.

tube.py      one tube: what a worklist has, and the lanes
task.py      one task, and the session that has taken it
lanes.py     which tasks of which lanes may be taken
sessions.py  who takes: sessions, what each has taken, when they end
decide.py    operation + tube + now -> the events that make it true
apply.py     event -> indexes; the only writer
due.py       what time alone makes true
"""

from __future__ import annotations
