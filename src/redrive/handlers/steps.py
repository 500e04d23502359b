"""`redrive.serve_steps`: serve Python functions as the handlers of HTTP steps."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

try:
    from aiohttp import web
except ImportError as error:
    raise ImportError("serving steps needs aiohttp 3.12 or newer: pip install 'redrive[server]'") from error

from redrive.errors import ArgumentsError, SignatureError, TypeHintError
from redrive.failures.failure import Failure
from redrive.flows.action import Action, Executor
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.flows.values.json_limits import LONGEST_JSON
from redrive.flows.values.signature import NOT_READ
from redrive.handlers.answers import bad_inputs, check_inputs, failure_answer, outputs_answer, problem
from redrive.handlers.headers import CALLBACK, attempt_of
from redrive.handlers.verification import verify_request
from redrive.runners.attempt import Attempt
from redrive.runners.http import request as wire
from redrive.runners.http.signing import read_secret
from redrive.runners.runner import Runner

LOOPBACK = "127.0.0.1"


class StepServer:
    """Serves each function under its name: `async with StepServer(reserve) as server: server.url`."""

    def __init__(
        self,
        *steps: Callable[..., Any],
        host: str = LOOPBACK,
        port: int = 0,
        threads: int = 32,
        processes: int = 4,
        secrets: Sequence[str] = (),
    ) -> None:
        """secrets: refuse requests that are not signed with one of these."""
        self.steps = {one.name: one for one in map(_as_action, steps)}
        if isinstance(secrets, str):
            raise ValueError("secrets: pass a list of secrets")
        if not steps or len(self.steps) < len(steps):
            raise ValueError("pass at least one function, and each name once: serve_steps(reserve, release)")
        for secret in secrets:
            read_secret(secret)
        self._secrets = tuple(secrets)
        self._host = host
        self._port = port
        self._outcomes: dict[Attempt, asyncio.Future[web.Response]] = {}
        self._runner = Runner(self, threads, processes)
        self.app = web.Application(client_max_size=LONGEST_JSON)
        """The aiohttp application, to mount beside other routes or serve in another way."""
        self.app.add_routes([web.get("/", self._list), web.post("/{step}", self._serve)])
        self.app.on_cleanup.append(self._clean_up)
        self._site: web.AppRunner | None = None

    @property
    def url(self) -> str:
        assert self._site is not None  # noqa: S101 - narrows for mypy: only a running server has a URL
        host, port = self._site.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> "StepServer":
        self._site = web.AppRunner(self.app, access_log=None)
        await self._site.setup()
        await web.TCPSite(self._site, self._host, self._port).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._site is not None:
            await self._site.cleanup()

    async def _list(self, _request: web.Request) -> web.Response:
        return web.json_response({"steps": sorted(self.steps)})

    async def _serve(self, request: web.Request) -> web.Response:
        name = request.match_info["step"]
        if "Origin" in request.headers:
            # Only browsers send it: a page of any website could post to a server on its reader's machine.
            return problem(403, "browsers are refused", "a step is called by an engine, not by a page in a browser")
        action = self.steps.get(name)
        if action is None:
            return problem(
                404, "no such step", f"{name} is not served here; use one of {', '.join(sorted(self.steps))}"
            )
        try:
            body = await request.read()
            if self._secrets:
                verify_request(request.headers, body, self._secrets)
            inputs = check_inputs(action, body)
        except SignatureError as error:
            return problem(401, "the request is refused", str(error))
        except web.HTTPRequestEntityTooLarge:
            return problem(413, f"the inputs of step {name} are too large", f"send at most {LONGEST_JSON:,} bytes")
        except (ConnectionError, web.RequestPayloadError):
            return problem(
                400, f"the inputs of step {name} cannot be read", "the body is cut off or not properly encoded"
            )
        except ArgumentsError as error:
            return bad_inputs(name, error)
        except TypeHintError as error:
            return failure_answer(name, error, timed_out=False)
        attempt = attempt_of(request.headers, name)
        CALLBACK.set(request.headers.get(wire.CALLBACK))
        outcome: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        self._outcomes[attempt] = outcome
        try:
            self._runner.start(action, attempt, inputs)
            return await outcome
        except asyncio.CancelledError:
            self._runner.cancel(attempt)
            raise
        finally:
            del self._outcomes[attempt]

    def succeeded(self, attempt: Attempt, result: str, read: Any = NOT_READ) -> None:
        self._answer(attempt, outputs_answer(result))

    def accepted(self, attempt: Attempt) -> None:
        """Never called: only the runner of an HTTP step reports it."""

    def failed(
        self,
        attempt: Attempt,
        error: BaseException,
        *,
        timed_out: bool = False,
        poison: bool = False,
        failure: Failure | None = None,
    ) -> None:
        self._answer(attempt, failure_answer(attempt.step, error, timed_out))

    def _answer(self, attempt: Attempt, answer: web.Response) -> None:
        outcome = self._outcomes.get(attempt)
        if outcome is not None and not outcome.done():
            outcome.set_result(answer)

    async def _clean_up(self, _app: web.Application) -> None:
        await self._runner.close()


def serve_steps(
    *steps: Callable[..., Any],
    host: str = LOOPBACK,
    port: int = 9000,
    threads: int = 32,
    processes: int = 4,
    secrets: Sequence[str] = (),
) -> None:
    """Serve functions as the handlers of HTTP steps, each under its name, until the process is stopped.

    Inputs are converted to arguments by the type hints. Coroutines run in the event loop, plain functions in threads,
    and actions with `process=True` in processes. By default only this machine can call them; see `host`. With
    `secrets`, requests that are not signed with one of them are refused.
    """
    server = StepServer(*steps, threads=threads, processes=processes, secrets=secrets)
    web.run_app(server.app, host=host, port=port, access_log=None)


def _as_action(function: Callable[..., Any]) -> Action[Any, Any]:
    if isinstance(function, Action):
        return function
    if not callable(function) or isinstance(function, type) or not hasattr(function, "__name__"):
        raise TypeError(f"serve_steps takes functions and actions, not {function!r}")
    executor: Executor = "loop" if inspect.iscoroutinefunction(function) else "thread"
    return Action(function, function.__name__, DURABLE_DEFAULT, executor)
