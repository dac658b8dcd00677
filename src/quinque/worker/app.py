"""The App of a worker: the handler functions of its queues, and its hooks.

Called by   programs; `quinque work` (process.py), which finds one by its name.
Calls       runtime.py, when a program runs without a supervisor.

    app = App("redis://localhost:4777")

    @app.handler("emails", codec="json", max_deliveries=5)
    def send(email): ...

    @app.handler("clicks", family="events", group="report")
    async def count(click, message): ...

    app.add("thumbnails", make_thumbnail)      any plain function

Not here: the run (runtime.py), the effect of the settings in each family (sources.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from quinque.client.aio.broker import Broker
from quinque.client.checks import as_name, as_whole_setting
from quinque.client.codecs import Codec, Name, codec_of
from quinque.client.spans import Seconds, as_setting_s
from quinque.errors import BadArgument, BadSetting
from quinque.model.families import BY_NAME, JOBS, RELIABLE
from quinque.model.limits import SPAN_MOST_S
from quinque.worker.backoff import REST_MOST_S, Backoff
from quinque.worker.handlers import BATCH, Function, Handler, Settings, wants_message
from quinque.worker.message import Message

F = TypeVar("F", bound=Function)

Before = Callable[[Message], object]
After = Callable[[Message, Any], object]
Failed = Callable[[Message, BaseException], object]

A = TypeVar("A", bound=After)
B = TypeVar("B", bound=Before)
E = TypeVar("E", bound=Failed)
H = TypeVar("H", bound=Callable[..., object])

_LEASE_S = 30.0
_PAIR = 2  # the first delay and the longest one


class App:
    """Handlers of the queues of a broker, or of several that share a store.

    Without `tracing`, no OpenTelemetry spans are created. The other arguments are those of
    quinque.aio.connect.
    """

    def __init__(
        self,
        url: str,
        *,
        tracing: bool = True,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        timeout_s: Seconds = 30.0,
        retries: int = 5,
        connections: int = 4,
    ) -> None:
        """Raises BadSetting."""
        broker: dict[str, Any] = {
            "username": username,
            "password": password,
            "ca": ca,
            "certificate": certificate,
            "key": key,
            "timeout_s": timeout_s,
            "retries": retries,
            "connections": connections,
        }
        Broker(url, **broker)  # a wrong setting raises here, where the program sets it
        self.url = url
        self.tracing = tracing
        self.handlers: list[Handler] = []
        self.before_hooks: list[Before] = []
        self.after_hooks: list[After] = []
        self.failed_hooks: list[Failed] = []
        self.progress_hooks: list[After] = []
        self._broker = broker
        self._stops: set[Callable[[], object]] = set()  # functions that stop the current runs

    def handler(self, queue: str, **settings: Unpack[Settings]) -> Callable[[F], F]:
        """Register the decorated function as the handler of the queue, like `add`.

        Raises BadSetting.
        """
        if callable(queue):  # @app.handler, as other libraries have it
            raise BadSetting('handler requires the name of a queue, such as @app.handler("emails")')

        def added(function: F) -> F:
            self.add(queue, function, **settings)
            return function

        return added

    def add(
        self,
        queue: str,
        function: Function,
        *,
        family: str = "jobs",
        codec: Name | Codec[Any] = "bytes",
        group: str = "",
        lease: Seconds = _LEASE_S,
        max_deliveries: int | None = None,
        backoff: Backoff | tuple[Seconds, Seconds] = Backoff(),  # noqa: B008  # it is frozen
        timeout: Seconds | None = None,
        concurrency: int = 0,
        batch: int = BATCH,
        results: str | None = None,
        dead: str | None = None,
    ) -> None:
        """Register `function` as the handler of the queue. The worker calls it with the body of
        each message, and with the message if it takes two arguments. Times are numbers of seconds
        or timedeltas. docs/worker.md describes the settings.

        Raises BadSetting.
        """
        if family not in BY_NAME:
            raise BadSetting(f"unknown family '{family}': use one of {', '.join(BY_NAME)}")
        if family == "events" and not group:
            raise BadSetting(f"the handler of events queue '{queue}' requires a group")
        rest = _as_backoff(backoff)
        may_be_empty = BY_NAME[family] in (JOBS, RELIABLE)
        raw_queue = _name("queue", queue, may_be_empty=may_be_empty)
        if max_deliveries is not None:
            max_deliveries = as_whole_setting("max_deliveries", max_deliveries, least=0)
        wants_message(function)
        handler = Handler(
            function,
            raw_queue,
            BY_NAME[family],
            _codec(codec),
            _name("group", group, may_be_empty=True),
            _some_s("lease", lease),
            max_deliveries,
            rest,
            None if timeout is None else _some_s("timeout", timeout),
            as_whole_setting("concurrency", concurrency, least=0),
            as_whole_setting("batch", batch, least=1),
            None if results is None else _name("results", results, may_be_empty=True),
            _name("dead", dead) if dead else raw_queue + b".dead",
        )
        same = (handler.queue, handler.family, handler.group)
        if any((it.queue, it.family, it.group) == same for it in self.handlers):
            raise BadSetting(f"queue '{queue}' already has a handler")
        self.handlers.append(handler)

    # -- hooks: plain functions, called where the handler runs -----------------------------------

    def before(self, hook: B) -> B:
        """Register a hook that is called with each message before its handler. An error of the hook
        counts as an error of the handler."""
        self.before_hooks.append(_plain(hook))
        return hook

    def after(self, hook: A) -> A:
        """Register a hook that is called with each message whose handler succeeded, and its
        result."""
        self.after_hooks.append(_plain(hook))
        return hook

    def failed(self, hook: E) -> E:
        """Register a hook that is called with each message whose handler raised, and the error."""
        self.failed_hooks.append(_plain(hook))
        return hook

    def progress(self, hook: A) -> A:
        """Register a hook that is called with a message and the progress that its handler
        reported."""
        self.progress_hooks.append(_plain(hook))
        return hook

    def connect(self) -> Broker:
        """Return the client that runs the operations of the app."""
        return Broker(self.url, **self._broker)

    def run(self, *, threads: int = 8, deadline: Seconds = 30.0) -> bool:
        """Run the handlers in this process until SIGTERM, SIGINT or SIGHUP, until `stop` is called,
        or until too many hang.

        Then the messages in progress are finished. After `deadline`, the rest returns to
        the queue. Return whether this succeeded for all messages. Afterwards the previous signal
        handlers are restored. In a thread that is not the main thread, no signal handlers are
        installed. This process has no supervisor: use `quinque work` for that.

        Raises BadSetting.
        """
        from quinque.worker.runtime import run_app

        threads = as_whole_setting("threads", threads)
        return run_app(self, threads, _as_deadline_s(deadline))

    async def run_async(self, *, threads: int = 8, deadline: Seconds = 30.0) -> bool:
        """Run the handlers in the running event loop, like `run`, without signal handlers. If the
        task is cancelled, the messages in progress are finished as `run` does, and then
        CancelledError is raised. If it is cancelled again meanwhile, it ends at once.

        Raises BadSetting.
        """
        from quinque.worker.runtime import run_app_async

        threads = as_whole_setting("threads", threads)
        return await run_app_async(self, threads, _as_deadline_s(deadline))

    def stop(self) -> None:
        """Let `run` and `run_async` of this app finish the messages in progress and return. Any
        thread may call this."""
        for stop in list(self._stops):
            stop()

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Within this block, `App.stop` calls this function."""
        self._stops.add(stop)
        try:
            yield
        finally:
            self._stops.discard(stop)


def _as_backoff(backoff: Backoff | tuple[Seconds, Seconds]) -> Backoff:
    """Return the delays in seconds. Raises BadSetting."""
    pair: Any = (backoff.first, backoff.most) if isinstance(backoff, Backoff) else backoff
    if not isinstance(pair, list | tuple) or len(pair) != _PAIR:
        raise BadSetting(
            f"backoff must be a pair of times or a Backoff, not {type(backoff).__name__}"
        )
    first, most = (as_setting_s("backoff", delay) for delay in pair)
    if not 0 <= first <= most <= REST_MOST_S:
        raise BadSetting(
            "backoff must be (first delay, longest delay) in seconds, with 0 <= first <= longest"
            " <= 1 year"
        )
    # A class of the program that computes other delays is kept.
    return replace(backoff if isinstance(backoff, Backoff) else Backoff(), first=first, most=most)


def _some_s(what: str, span: Seconds) -> float:
    """Return a time of a handler in seconds. Raises BadSetting."""
    span_s = as_setting_s(what, span)
    if not 0 < span_s <= SPAN_MOST_S:
        raise BadSetting(f"{what} {span_s} must be more than 0 s, and at most {SPAN_MOST_S} s")
    return span_s


def _name(what: str, name: str, *, may_be_empty: bool = False) -> bytes:
    """Encode a name. Raises BadSetting."""
    try:
        return as_name(what, name, may_be_empty=may_be_empty)
    except BadArgument as error:
        raise BadSetting(str(error)) from None


def _codec(codec: Name | Codec[Any]) -> Codec[Any]:
    """Return the codec of that name, or the object. Raises BadSetting."""
    try:
        return codec_of(codec)
    except BadArgument as error:
        raise BadSetting(str(error)) from None


def _as_deadline_s(deadline: Seconds) -> float:
    deadline_s = as_setting_s("deadline", deadline)
    if not deadline_s >= 0:
        raise BadSetting(f"deadline {deadline_s} must be 0 or more")
    return deadline_s


def _plain(hook: H) -> H:
    """Raise BadSetting for a hook that would have to be awaited."""
    if inspect.iscoroutinefunction(hook):
        raise BadSetting(
            f"hook {hook.__name__} is a coroutine function: hooks must be plain functions"
        )
    return hook
