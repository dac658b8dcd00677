"""The options of the connector: one table, and what a reader or a writer is given of it.

Called by   source.py, when Spark asks for a reader or a writer; docs and tests read the table.
Calls       option_kinds.py, client/sync/broker.py.

An option that is wrong is refused here, on the driver, before anything is read or written. Spark
also hands over options that are meant for itself or for others; those are ignored, unless they look
like a misspelt option of this format.

Not here: what an option does (stream.py, batch.py, log.py, sink.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from quinque.client.sync.broker import Broker
from quinque.model.families import BY_NAME, FAMILIES, TUBES, Family
from quinque.model.limits import NAME_MOST_BYTES, SPAN_MOST_MS
from quinque.model.states import State
from quinque.model.urls import split_url
from quinque.spark.option_kinds import (
    BOOLEAN,
    NAMES,
    POSITION,
    STATES,
    Kind,
    choice,
    number,
    size,
    span,
    text_of_most,
)

CLAIM: Final = "claim"  # readStream: each message to this query alone
PEEK: Final = "peek"  # read: look, change nothing
LOG: Final = "log"  # read and readStream: the lifecycle
WRITE: Final = "write"

_ALL: Final = (CLAIM, PEEK, LOG, WRITE)
_READS: Final = (CLAIM, PEEK, LOG)
# A task of a tube belongs to a session, so it can be neither claimed nor staged.
_FAMILIES: Final = tuple(family.name for family in FAMILIES if family is not TUBES)
_HOUR_MS: Final = 3_600_000


class BadOption(ValueError):
    """An option that is missing, wrong, or not allowed here; the text is one sentence about it."""


class Option(NamedTuple):
    """`default` is written as a user would write it. None means that there is none."""

    name: str
    field: str
    kind: Kind
    default: str | None
    uses: tuple[str, ...]
    meaning: str


_TEXT: Final = text_of_most(4096)
_NAME: Final = text_of_most(NAME_MOST_BYTES)

OPTIONS: Final = (
    Option("url", "url", _TEXT, "redis://127.0.0.1:4777", _ALL,
           "URL of the broker, or of several: `redis://h1:4777,h2:4777`; `rediss://` for TLS, "
           "`unix://`"),
    Option("username", "username", _TEXT, None, _ALL, "user name, if not in `url`"),
    Option("password", "password", _TEXT, None, _ALL, "password, if not in `url`"),
    Option("tlsCa", "ca", _TEXT, None, _ALL, "CA certificate file to verify the broker"),
    Option("tlsCertificate", "certificate", _TEXT, None, _ALL, "client certificate file"),
    Option("tlsKey", "key", _TEXT, None, _ALL, "key file of the client certificate"),
    Option("timeout", "timeout_ms", span(100, _HOUR_MS), "30s", _ALL,
           "time limit for an answer of the broker"),
    Option("retries", "retries", number(0, 1000), "8", _ALL,
           "number of retries when the broker does not answer, each after a longer wait"),
    Option("queue", "queues", NAMES, None, (CLAIM, PEEK, WRITE),
           "queue; for reading also several, separated by commas; a name with a comma, or with a "
           "space at an end, is in a JSON list: `[\"a, b\"]`"),
    Option("queuePattern", "pattern", _NAME, None, (CLAIM, PEEK),
           "read all queues whose names match: `clicks.*`; a stream adds new queues"),
    Option("family", "family_name", choice(*_FAMILIES), None, (CLAIM, PEEK, WRITE),
           "family of the queues; default: `events` if `group` is set, else `jobs`"),
    Option("mode", "mode", choice(*_READS), None, _READS,
           "`claim`: each message goes only to this query (streams); `peek`: read without a "
           "change (batch); `log`: the lifecycle log of all messages (both)"),
    Option("subscription", "subscription", _NAME, None, (CLAIM,),
           "required: name under which the broker stores the position of this query"),
    Option("group", "group", _NAME, None, (CLAIM,),
           "consumer group in `events`; default: the name of the subscription"),
    Option("lease", "lease_ms", span(1_000, 24 * _HOUR_MS), "60s", (CLAIM,),
           "time without a sign of the query after which the broker shows it as stalled"),
    Option("releaseAfter", "release_ms", span(0, SPAN_MOST_MS), "0", (CLAIM,),
           "time without a sign of the query after which its messages return to the queue; 0: "
           "never"),
    Option("maxMessagesPerTrigger", "max_messages", number(1, 10_000_000), "100000", (CLAIM, LOG),
           "maximum number of messages (in `log`: rows) in a batch"),
    Option("maxBytesPerTrigger", "max_bytes", size(1, 1 << 40), "256mb", (CLAIM,),
           "maximum bytes of bodies in a batch, plus those of one request (4mb)"),
    Option("minPartitions", "min_partitions", number(1, 100_000), "1", _READS,
           "minimum number of tasks of a batch, if it has that many rows"),
    Option("maxRecordsPerPartition", "max_records", number(1, 10_000_000), "50000", _READS,
           "maximum number of rows in a task, approximately"),
    Option("pollWait", "poll_ms", span(0, 60_000), "200ms", (CLAIM,),
           "how long the broker waits for a message before it reports that there is none"),
    Option("failOnDataLoss", "fails_on_loss", BOOLEAN, "true", (CLAIM, LOG, WRITE),
           "whether the query fails when data that it has to read no longer exists"),
    Option("onPoison", "on_poison", choice("replay", "fail", "deadletter"), "replay", (CLAIM,),
           "what to do with a batch that was started more than `maxReplays` times: start it "
           "again; fail with its name; or halve it down to one message, which becomes dead"),
    Option("maxReplays", "max_replays", number(1, 1000), "3", (CLAIM,),
           "number of times a batch is started before `onPoison` applies"),
    Option("keepDir", "keep_dir", _TEXT, None, (CLAIM,),
           "directory, or URL of one, in which the rows of each batch are kept as Parquet before "
           "they are acked"),
    Option("keepFor", "keep_ms", span(0, SPAN_MOST_MS), "0", (CLAIM,),
           "age at which a file of `keepDir` is deleted; 0: never"),
    Option("states", "states", STATES, "ready,delayed,dead", (PEEK,),
           "states of the messages to read; `events` have no states, and all events are read"),
    Option("startingOffset", "starting", POSITION, "earliest", (LOG,),
           'where a new query starts: `earliest`, `latest`, or rows by shard: `{"0": 17}`'),
    Option("endingOffset", "ending", POSITION, "latest", (LOG,),
           "where a batch read ends, in the same form; that row is not read"),
    Option("sink", "sink", _NAME, None, (WRITE,),
           "name under which the broker stores which batches were published; default: the "
           "queue's name"),
    Option("runId", "run", _NAME, None, (WRITE,),
           "for `df.write` in foreachBatch: with `batchId`, these rows are published only once; a "
           "new one for each checkpoint"),
    Option("batchId", "batch", number(0, 1 << 53), None, (WRITE,),
           "number of the batch, which must increase from write to write of the run"),
    Option("maxMessagesPerSecond", "rate", number(0, 10_000_000), "0", (WRITE,),
           "maximum number of messages that a write adds to queues per second; 0: no limit"),
    Option("ttl", "ttl_ms", span(0, SPAN_MOST_MS), "0", (WRITE,),
           "time to live of a message, for rows without one; 0: the default of the family"),
    Option("delay", "delay_ms", span(0, SPAN_MOST_MS), "0", (WRITE,),
           "delay until a message is ready, for rows without one"),
    Option("retry", "retry_ms", span(0, SPAN_MOST_MS), None, (WRITE,),
           "duration of a lease, for rows without one; default: that of Disque; 0: the message is "
           "delivered at most once"),
    Option("maxDeliveries", "max_deliveries", number(0, 1 << 31), "0", (WRITE,),
           "maximum number of deliveries before a message is dead, for rows without one; 0: the "
           "limit of the queue"),
)  # fmt: skip

# Spark decides how often a stream writes, and where it ends.
_OF_BATCHES: Final = ("endingOffset", "runId", "batchId")
_OF_STREAMS: Final = ("maxMessagesPerTrigger",)

_NO_OPTIONS: Final = (
    "no option is set; Spark drops the options of CREATE TABLE … USING quinque: use "
    "CREATE TEMPORARY VIEW … USING quinque OPTIONS (…), or FROM table WITH (url = '…', queue = '…')"
)

BY_LOWER_NAME: Final = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True)
class Options:
    """The options of one reader or writer, given or by default. They are sent to the executors."""

    url: str
    username: str | None
    password: str | None
    ca: str | None
    certificate: str | None
    key: str | None
    timeout_ms: int
    retries: int
    queues: tuple[str, ...] | None
    pattern: str | None
    family_name: str | None
    mode: str | None
    subscription: str | None
    group: str | None
    lease_ms: int
    release_ms: int
    max_messages: int
    max_bytes: int
    min_partitions: int
    max_records: int
    poll_ms: int
    fails_on_loss: bool
    on_poison: str
    max_replays: int
    keep_dir: str | None
    keep_ms: int
    states: tuple[State, ...]
    starting: str | dict[int, int]
    ending: str | dict[int, int]
    sink: str | None
    run: str | None
    batch: int | None
    rate: int
    ttl_ms: int
    delay_ms: int
    retry_ms: int | None
    max_deliveries: int

    def __repr__(self) -> str:
        """Never with a secret in it: readers end up in Spark's error texts."""
        return f"Options(url={self.shown_url!r}, queues={self.queues}, mode={self.mode!r})"

    @property
    def shown_url(self) -> str:
        return redacted(self.url)

    @property
    def family(self) -> Family:
        return BY_NAME[self.family_name or ("events" if self.group else "jobs")]

    def broker(self) -> Broker:
        """A new client of the broker, which connects when it is first used."""
        return Broker(
            self.url,
            username=self.username,
            password=self.password,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            timeout_s=self.timeout_ms / 1000,
            retries=self.retries,
        )


def read_options(given: Mapping[str, str], use: str, is_stream: bool | None = None) -> Options:
    """Return the options for that use, in a stream or in a batch. Raises BadOption."""
    known: dict[str, str] = {}
    is_stream = use == CLAIM if is_stream is None else is_stream
    others = _OF_BATCHES if is_stream else _OF_STREAMS
    for name, text in given.items():
        option = BY_LOWER_NAME.get(name.lower())
        if option is None:
            _refuse_if_misspelt(name)
        elif use not in option.uses:
            raise BadOption(f"option {option.name} has no effect here: it is for {_for(option)}")
        elif option.name in others:
            kind = "batch" if is_stream else "stream"
            raise BadOption(f"option {option.name} has no effect here: it is for a {kind}")
        else:
            known[option.field] = text
    if not known and use in (PEEK, WRITE):
        # Not the default broker: a table may have been created with the URL of another one.
        raise BadOption(_NO_OPTIONS)
    values = {option.field: _value(option, known.get(option.field)) for option in OPTIONS}
    options = Options(**values)
    _check(options, use)
    return options


def check_values(given: Mapping[str, str]) -> None:
    """Raise BadOption for a value that is wrong for every use, as soon as `load` is called: it is
    not yet known whether the use is a batch or a stream."""
    for name, text in given.items():
        option = BY_LOWER_NAME.get(name.lower())
        if option is None:
            _refuse_if_misspelt(name)
        else:
            _value(option, text)


def read_mode(given: Mapping[str, str], default: str) -> str:
    """Return the mode of a reader. Raises BadOption."""
    texts = {name.lower(): text for name, text in given.items()}
    mode = _value(BY_LOWER_NAME["mode"], texts.get("mode"))
    return default if mode is None else str(mode)


def redacted(url: str) -> str:
    """The url with `***` for a user and a password."""
    parts = split_url(url)
    hosts = parts.netloc.rpartition("@")[2]
    shown = hosts if "@" not in parts.netloc else f"***@{hosts}"
    return f"{parts.scheme}://{shown}{parts.path}"


def _value(option: Option, given: str | None) -> Any:
    text = option.default if given is None else given
    if text is None:
        return None
    try:
        return option.kind.read(text)
    except (ValueError, KeyError):
        shown = "the value" if option.name in ("password", "url") else repr(text)
        raise BadOption(f"option {option.name}: {shown} is not {option.kind.shape}") from None


def _check(options: Options, use: str) -> None:
    if use == CLAIM and options.subscription is None:
        raise BadOption(
            "option subscription is required: the broker stores the position of the query under "
            "this name, and a query that continues from the same checkpoint must use the same "
            "name"
        )
    if use in (CLAIM, PEEK) and (options.queues is None) == (options.pattern is None):
        raise BadOption("set either the option queue or queuePattern")
    if use == CLAIM and options.group is not None and not _is_feed(options):
        raise BadOption(f"option group: the family {options.family.name} has no groups")
    if use == CLAIM and 0 < options.release_ms < options.lease_ms:
        raise BadOption("option releaseAfter must be 0 or at least lease")
    if use == CLAIM and options.keep_ms and options.keep_dir is None:
        raise BadOption("option keepFor requires keepDir")
    if use == WRITE and options.queues is not None and len(options.queues) > 1:
        raise BadOption(
            "option queue: a write has one queue; rows for other queues name them in a column"
        )
    if use == WRITE and (options.run is None) != (options.batch is None):
        raise BadOption("set both options runId and batchId, or neither")
    if split_url(options.url).scheme not in ("redis", "rediss", "unix"):
        raise BadOption("option url must begin with redis://, rediss:// or unix://")


def _is_feed(options: Options) -> bool:
    return not options.family.is_worklist


def _refuse_if_misspelt(name: str) -> None:
    close = difflib.get_close_matches(name.lower(), BY_LOWER_NAME, n=1, cutoff=0.85)
    if close:
        raise BadOption(f"unknown option {name}; did you mean {BY_LOWER_NAME[close[0]].name}?")


def _for(option: Option) -> str:
    words = {
        CLAIM: "streams that claim messages",
        PEEK: "mode=peek",
        LOG: "mode=log",
        WRITE: "writing",
    }
    return _listed(words[use] for use in option.uses)


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
