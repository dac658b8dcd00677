"""Sizes, name rules and defaults, each with its unit and its reason.

Called by   dialects/args.py (checks), the engine and the stores (bounds of one slice of work).
Calls       nothing.

Not here: limits an operator may set (server/config.py).
"""

from __future__ import annotations

from typing import Final

# A name is written into every record of its queue, so a long one is paid for on each message.
NAME_MOST_BYTES: Final = 1024

# 100 years: far enough to mean "never" and small enough that now + span stays an exact 53-bit
# number in every client (Lua and JavaScript keep integers in doubles).
SPAN_MOST_S: Final = 100 * 365 * 86_400
SPAN_MOST_MS: Final = SPAN_MOST_S * 1000

# The lease time of QGET and QRPOP without one.
LEASE_DEFAULT_MS: Final = 30_000

# An instant no clock reaches; "has no deadline" compares like any other instant.
NEVER_MS: Final = 1 << 62

# How many messages that are due one operation settles before it uses the queue: 500 take about 0.3
# ms, so that a million due messages do not delay a client. The ticker settles the others.
SETTLE_MOST: Final = 500
# A look at the counts settles more first, to be exact in all but mass expiries.
SETTLE_MOST_COUNTING: Final = 10_000
# In a queue where that was not enough, operations leave it to the ticker, and settle these few in
# each millisecond: a fortieth of it.
SETTLE_MOST_FLOODED: Final = 32

# One operation delivers at most this size of bodies, plus one message: a client that requests many
# large messages gets them in several iterations.
RESERVE_MOST_BYTES: Final = 1 << 20
# And at most this number, whatever their size: about 10 ms of work.
RESERVE_MOST: Final = 10_000
# Requests that are alike travel together up to this many messages and bytes: enough to spread the
# cost of a record, little enough to read back whole when one body of it is wanted.
TOGETHER_MOST: Final = 256
TOGETHER_MOST_BYTES: Final = 64 << 10

# One look at many messages or queues goes through at most this many, and reads bodies up to
# RESERVE_MOST_BYTES: about 10 ms of work.
SCAN_MOST: Final = 10_000

# Rows and bytes of one reply that has counts for each queue and group: 10,000 rows take about 70
# ms.
COUNTS_MOST: Final = 10_000
COUNTS_MOST_BYTES: Final = 4 << 20

# Queues or groups in one request. Each costs a look, and each is remembered while a client waits:
# 1,000 take some milliseconds.
NAMES_MOST: Final = 1_000
# Words of one request, such as bodies or ids: 10,000 take 10 to 30 ms.
WORDS_MOST: Final = 10_000
# Patterns in one request: each is matched against every queue that has something ready. A pattern
# is as long as a name at most: 15 ms to read, and 0.3 ms to match against the longest name.
PATTERNS_MOST: Final = 100

# Dead messages of a queue that one operation redrives: some 20 ms in Redis.
REDRIVE_MOST: Final = 1_000

# A worklist with nothing in it and nothing set for it is forgotten after this long, as in Disque:
# until then its counts can be looked at.
QUEUE_IDLE_MOST_MS: Final = 300_000

# Clients of Redis Work Queue take leases by themselves. The broker looks for them in each queue of
# items this often: leases run for seconds or minutes, and a look costs some 50 µs.
ITEMS_CLEAN_MS: Final = 10_000

# Defaults of a message of a worklist, as in Disque: it lives for a day, and its leases run for five
# minutes at most.
WORK_TTL_MS: Final = 86_400_000
RETRY_DEFAULT_MOST_MS: Final = 300_000

# A lease is a little shorter or longer than requested, so that messages that were taken together
# are not delivered again at the same moment. As in Disque.
JITTER_MS: Final = 250

# A broker writes a heartbeat once a second. After two and a half missing ones it is suspected, so
# other brokers notice within three seconds that it is gone. Later it counts as failed, and in the
# end it is no longer listed.
NODE_DOUBTED_MS: Final = 2_500
NODE_FAILED_MS: Final = 10_000
NODE_FORGOTTEN_MS: Final = 60_000
# The id of a broker that does not run is kept for this time: a container that comes back under
# another name leaves one behind each time.
NODE_KEPT_MS: Final = 90 * 86_400_000
PARTITIONS_MOST: Final = 64  # of one worklist, in a store of many servers

# A queue of more messages cannot be renamed: each message is recorded, which takes some 100 ms.
RENAME_MOST: Final = 100_000
# One transaction renames at most this number of queues: the largest take 0.3 s, in which no client
# is served.
RENAMES_MOST: Final = 10

# A claim is filled in steps. One operation with FILL_MOST messages takes about 10 ms.
FILL_MOST: Final = 5_000
FILL_MOST_BYTES: Final = 4 << 20
# The last settled claim can be read for this time: a reader that goes back by one batch finds it.
CLAIM_KEPT_MS: Final = 3_600_000
# A staged batch that is not published is removed after this time, also if it is still growing.
STAGE_KEPT_MS: Final = 86_400_000
# A decided batch that its writer has not published for this time is published by the store.
STAGE_GOES_ON_MS: Final = 5_000
PUBLISH_MOST: Final = 5_000  # put into the queue by one operation
