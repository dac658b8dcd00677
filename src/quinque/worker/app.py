"""The App of a worker: the handler functions of its queues, and its hooks.

Called by   programs; `quinque work` (process.py), which finds one by its name.
Calls       runtime.py, when a program runs it by itself.

    app = App("redis://localhost:4777")

    @app.handler("emails", codec="json", max_deliveries=5)
    def send(email): ...

    @app.handler("clicks", family="events", group="report")
    async def count(click, message): ...

    app.add("thumbnails", make_thumbnail)      any plain function

Not here: how it is run (runtime.py), what the settings mean in each family (sources.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack

from quinque.client.aio.broker import Broker
from quinque.client.codecs import Codec, Name, codec_of
from quinque.errors import BadSetting
from quinque.model.families import BY_NAME
from quinque.worker.backoff import Backoff
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
        timeout_s: float = 30.0,
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
        Broker(url, **broker)  # what is wrong is said here, where it was written
        self.url = url
        self.tracing = tracing
        self.handlers: list[Handler] = []
        self.before_hooks: list[Before] = []
        self.after_hooks: list[After] = []
        self.failed_hooks: list[Failed] = []
        self.progress_hooks: list[After] = []
        self._broker = broker
        self._stops: set[Callable[[], object]] = set()  # of the runs that go on

    def handler(self, queue: str, **settings: Unpack[Settings]) -> Callable[[F], F]:
        """Register the decorated function as the handler of the queue, like `add`."""

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
        lease: float = _LEASE_S,
        max_deliveries: int | None = None,
        backoff: Backoff | tuple[float, float] = Backoff(),  # noqa: B008  # it is frozen
        timeout: float | None = None,
        concurrency: int = 0,
        batch: int = BATCH,
        results: str | None = None,
        dead: str | None = None,
    ) -> None:
        """Register `function` as the handler of the queue. The worker calls it with the body of
        each message, and with the message if it takes two arguments. Times are in seconds.
        docs/worker.md describes the settings.

        Raises BadSetting.
        """
        if family not in BY_NAME:
            raise BadSetting(f"unknown family '{family}': use one of {', '.join(BY_NAME)}")
        if family == "events" and not group:
            raise BadSetting(f"the handler of events queue '{queue}' requires a group")
        rest = backoff if isinstance(backoff, Backoff) else Backoff(*backoff)
        if lease <= 0 or batch < 1 or concurrency < 0:
            raise BadSetting(
                "lease must be greater than 0, batch at least 1, and concurrency 0 or more"
            )
        if (max_deliveries or 0) < 0 or (timeout is not None and timeout <= 0):
            raise BadSetting("max_deliveries must be 0 or more, and timeout greater than 0")
        if not 0 <= rest.first <= rest.most:
            raise BadSetting(
                "backoff must be (first delay, longest delay) in seconds, with 0 <= "
                "first <= longest"
            )
        wants_message(function)
        handler = Handler(
            function,
            queue.encode(),
            BY_NAME[family],
            codec_of(codec),
            group.encode(),
            lease,
            max_deliveries,
            rest,
            timeout,
            concurrency,
            batch,
            None if results is None else results.encode(),
            (dead or f"{queue}.dead").encode(),
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
        """What its operations run on."""
        return Broker(self.url, **self._broker)

    def run(self, *, threads: int = 8, deadline: float = 30.0) -> bool:
        """Run the handlers in this process until SIGTERM, SIGINT or SIGHUP, until `stop` is called,
        or until too many hang.

        Then the messages in progress are finished. After `deadline` seconds, the rest returns to
        the queue. Return whether this succeeded for all messages. Afterwards the previous signal
        handlers are restored. In a thread that is not the main thread, no signal handlers are
        installed. This process has no supervisor: use `quinque work` for that.

        Raises BadSetting.
        """
        from quinque.worker.runtime import run_app

        return run_app(self, threads, deadline)

    async def run_async(self, *, threads: int = 8, deadline: float = 30.0) -> bool:
        """Run the handlers in the running event loop, like `run`, without signal handlers. If the
        task is cancelled, the messages in progress are finished as `run` does, and then
        CancelledError is raised. If it is cancelled again meanwhile, it ends at once.

        Raises BadSetting.
        """
        from quinque.worker.runtime import run_app_async

        return await run_app_async(self, threads, deadline)

    def stop(self) -> None:
        """Let `run` and `run_async` of this app finish the messages in progress and return. Any
        thread may call this."""
        for stop in list(self._stops):
            stop()

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Within, `App.stop` calls this function."""
        self._stops.add(stop)
        try:
            yield
        finally:
            self._stops.discard(stop)


def _plain(hook: H) -> H:
    """Raises BadSetting for one that would have to be awaited."""
    if inspect.iscoroutinefunction(hook):
        raise BadSetting(
            f"hook {hook.__name__} is a coroutine function: hooks must be plain functions"
        )
    return hook
