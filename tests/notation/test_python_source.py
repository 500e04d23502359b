"""Retry settings in Python source: found, read and converted without running the code."""

import builtins
import textwrap
from typing import Any, NamedTuple

import pytest

import redrive
from redrive.errors import NotationError
from redrive.notation.python_source.lint_source import lint_source
from redrive.notation.python_source.read_source import SourcePolicy, SourceReading, read_source
from redrive.policies.policy import Policy
from redrive.testing import no_waits

pytestmark = pytest.mark.promise("L8")


def read(text: str) -> SourceReading:
    return read_source(textwrap.dedent(text), "shop.py")


def only(text: str) -> SourcePolicy:
    found = read(text)
    assert not found.unread
    (policy,) = found.policies
    return policy


def built(one: SourcePolicy, **names: Any) -> Policy:
    """The policy that the Python code of a conversion makes, when it is pasted."""
    code = one.python.removeprefix("@")
    if "policy=" in code:
        code = code.partition("policy=")[2].removesuffix(")")
    made = eval(code, {"redrive": redrive, **names})  # noqa: S307 - the point is that the code works
    if isinstance(made, Policy):
        return made
    if hasattr(made, "policy"):
        policy: Policy = made.policy
        return policy
    return made.args[0].policy if hasattr(made, "args") else made._guard.policy  # type: ignore[no-any-return]


SAME = {
    "plain import": "import tenacity\n@tenacity.retry(stop=tenacity.stop_after_attempt(4))\ndef f(): ...",
    "renamed module": "import tenacity as t\n@t.retry(stop=t.stop_after_attempt(4))\ndef f(): ...",
    "renamed names": "from tenacity import retry as r, stop_after_attempt as s\n@r(stop=s(4))\ndef f(): ...",
    "submodule": "from tenacity import retry\nfrom tenacity.stop import stop_after_attempt\n"
    "@retry(stop=stop_after_attempt(4))\ndef f(): ...",
    "star": "from tenacity import *\n@retry(stop=stop_after_attempt(4))\ndef f(): ...",
    "constant": "from tenacity import *\nN = 4\n@retry(stop=stop_after_attempt(N))\ndef f(): ...",
    "annotated": "from tenacity import *\nN: int = 4\n@retry(stop=stop_after_attempt(N))\ndef f(): ...",
    "arithmetic": "from tenacity import *\nN = 2\n@retry(stop=stop_after_attempt(N ** 2 + (6 - 3 * 2)))\ndef f(): ...",
    "class attribute": "from tenacity import *\nclass C:\n  N = 4\n@retry(stop=stop_after_attempt(C.N))\ndef f(): ...",
    "class body": "from tenacity import *\nclass C:\n  N = 4\n  @retry(stop=stop_after_attempt(N))\n  def f(self): ...",
    "constant of a constant": "from tenacity import *\nM = 4\nN = M\n@retry(stop=stop_after_attempt(N))\ndef f(): ...",
    "shared stop": "from tenacity import *\nSTOP = stop_after_attempt(4)\n@retry(stop=STOP)\ndef f(): ...",
    "unpacked": "from tenacity import *\nKW = {'stop': stop_after_attempt(4)}\n@retry(**KW)\ndef f(): ...",
    "unpacked dict()": "from tenacity import *\nKW = dict(stop=stop_after_attempt(4))\n@retry(**KW)\ndef f(): ...",
    "method": "from tenacity import *\nclass C:\n    @retry(stop=stop_after_attempt(4))\n    async def f(self): ...",
    "variable": "from tenacity import *\nf = retry(stop=stop_after_attempt(4))",
    "under if": "from tenacity import *\nif True:\n    N = 4\n@retry(stop=stop_after_attempt(N))\ndef f(): ...",
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_settings_are_found_however_they_are_written(text: str) -> None:
    one = only(text)
    assert (one.library, one.name, one.reading.policy.attempts) == ("tenacity", "f", 4)


NOT_KNOWN = {
    "environment": ("int(os.environ['N'])", "os.environ['N'] is not known"),
    "settings object": ("settings.N", "settings.N is not known"),
    "assigned twice": ("TWICE", "TWICE is not known"),
    "changed by a function": ("CHANGED", "CHANGED is not known"),
    "conditional": ("3 if DEBUG else 5", "3 if DEBUG else 5 is not known"),
    "huge power": ("10 ** 10 ** 10", "10 ** 10 ** 10 is not known"),
}


@pytest.mark.parametrize(("value", "says"), NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_what_only_running_the_code_would_show_is_said_and_not_guessed(value: str, says: str) -> None:
    found = read(
        f"""
        import os
        from tenacity import retry, stop_after_attempt
        TWICE = 3
        TWICE = 4
        CHANGED = 3
        def change():
            global CHANGED
            CHANGED = 5

        @retry(stop=stop_after_attempt({value}))
        def fetch(): ...
        """
    )
    assert not found.policies
    (unread,) = found.unread
    assert (unread.name, unread.line) == ("fetch", 11)
    assert says in unread.text


def test_settings_that_are_unpacked_from_elsewhere_are_said() -> None:
    found = read("from tenacity import retry\nimport conf\n@retry(**conf.RETRY)\ndef f(): ...")
    assert ["**conf.RETRY is not known from this file" in one.text for one in found.unread] == [True]


def test_messages_of_temporals_protocol_are_no_policies() -> None:
    assert not read("from temporalio.api.common.v1 import RetryPolicy\np = RetryPolicy(maximum_attempts=3)").policies


def test_an_argument_of_a_function_hides_a_constant_of_the_same_name() -> None:
    found = read(
        """
        from tenacity import Retrying, stop_after_attempt
        N = 3
        def work(N):
            for attempt in Retrying(stop=stop_after_attempt(N)): ...
        def other():
            for attempt in Retrying(stop=stop_after_attempt(N)): ...
        """
    )
    assert [(one.name, one.line) for one in found.unread] == [("work", 5)]
    assert [(one.name, one.reading.policy.attempts) for one in found.policies] == [("other", 3)]


def test_nothing_is_run_or_imported() -> None:
    text = "import no_such_module_anywhere\nraise SystemExit(1)\nfrom tenacity import retry\n@retry\ndef f(): ..."
    assert only(text).reading.policy.attempts is None


@pytest.mark.parametrize(
    "text", ["def (", "x = '\0'", "(" * 5000 + ")" * 5000, "x = " + "-" * 100_000 + "1", "a" * 2_000_000]
)
def test_what_is_not_python_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        read_source(text, "shop.py")
    assert str(caught.value).startswith("shop.py")
    assert "\n" not in str(caught.value)


def test_deep_and_strange_code_around_the_settings_does_no_harm() -> None:
    text = "from tenacity import retry, stop_after_attempt\n"
    text += "x = " + "+".join(["1"] * 900) + "\n"
    text += "@retry(stop=stop_after_attempt(" + "+".join(["1"] * 200) + "))\ndef f(): ...\n"
    found = read_source(text)
    assert len(found.policies) + len(found.unread) == 1


CONVERTED = [
    "from tenacity import *\n@retry(stop=stop_after_attempt(5) | stop_after_delay(9 * 2), wait=wait_exponential(max=9))"
    "\ndef f(): ...",
    "import stamina\n@stamina.retry(on=(OSError, ValueError), attempts=3, wait_jitter=0.5)\ndef f(): ...",
    "import stamina\nfor a in stamina.retry_context(on=OSError, attempts=3): ...",
    "import backoff\n@backoff.on_exception(backoff.expo, (OSError, KeyError), max_tries=8, base=3, factor=0.5)"
    "\ndef f(): ...",
    "from backoff import *\n@on_exception(constant, OSError, interval=4, jitter=random_jitter)\ndef f(): ...",
    "from celery import shared_task\n@shared_task(autoretry_for=(OSError,), retry_backoff=3)\ndef f(): ...",
    "from temporalio.common import RetryPolicy\nfrom datetime import timedelta\n"
    "f = RetryPolicy(timedelta(seconds=2), 3.0, timedelta(minutes=1), 4, ['Bad'])",
]


@pytest.mark.parametrize("text", CONVERTED)
def test_the_python_code_builds_the_same_policy(text: str) -> None:
    one = only(text)
    assert built(one) == Policy(**_by_class(one.reading.policy)), one.python


def _by_class(policy: Policy) -> dict[str, Any]:
    """The fields of a policy; builtin exceptions as classes, as Python code names them."""
    fields = {field: getattr(policy, field) for field in Policy.__struct_fields__}
    for field in ("retry_on", "never_on"):
        match = fields[field]
        classes = [getattr(builtins, name, name) for name in match.names]
        fields[field] = (*match.categories, *classes) if classes else match
    return fields


def test_classes_keep_the_name_that_the_file_gives_them() -> None:
    one = only(
        """
        import httpx as h
        from shop.errors import Busy as TooBusy
        from .own import Mine
        import stamina
        @stamina.retry(on=(h.HTTPError, TooBusy, Mine))
        def f(): ...
        """
    )
    assert "retry_on=(h.HTTPError, TooBusy, Mine)" in one.python
    assert one.reading.policy.retry_on.names == ("httpx.HTTPError", "shop.errors.Busy", "Mine")


def is_busy(error: Exception) -> bool:
    return "busy" in str(error)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("from tenacity import *\n@retry(retry=retry_if_exception(is_busy))\ndef f(): ...", "retry_on=is_busy"),
        (
            "from tenacity import *\n@retry(retry=retry_if_exception_type(OSError) | retry_if_exception(is_busy))\n"
            "def f(): ...",
            "retry_on=(OSError, is_busy)",
        ),
        ("from tenacity import *\n@retry(retry=retry_if_result(is_busy))\ndef f(): ...", "retry_result=is_busy"),
        ("import stamina\n@stamina.retry(on=is_busy)\ndef f(): ...", "retry_on=is_busy"),
        (
            "import backoff\n@backoff.on_exception(backoff.expo, OSError, giveup=is_busy)\ndef f(): ...",
            "never_on=is_busy",
        ),
        ("import backoff\n@backoff.on_predicate(backoff.expo, is_busy)\ndef f(): ...", "retry_result=is_busy"),
        ("import backoff\n@backoff.on_predicate(backoff.expo)\ndef f(): ...", "retry_result=lambda result: not result"),
    ],
)
def test_functions_stay_functions_in_python_and_are_said(text: str, setting: str) -> None:
    one = only(text)
    assert setting in one.python
    assert [note.id for note in one.notes].count("python-only") == 1
    assert built(one, is_busy=is_busy)


@pytest.mark.parametrize(
    ("text", "raised", "attempts"),
    [
        ("from tenacity import *\n@retry(retry=retry_if_result(is_busy), stop=stop_after_attempt(4))", OSError, 1),
        ("import backoff\n@backoff.on_predicate(backoff.expo, is_busy, max_tries=4)", OSError, 1),
        (
            "from tenacity import *\n"
            "@retry(retry=retry_if_result(is_busy) | retry_if_exception_type(OSError), stop=stop_after_attempt(4))",
            KeyError,
            1,
        ),
        (
            "from tenacity import *\n"
            "@retry(retry=retry_if_result(is_busy) | retry_if_exception_type(OSError), stop=stop_after_attempt(4))",
            OSError,
            4,
        ),
    ],
)
def test_the_code_for_rejected_results_retries_them_and_only_the_exceptions_named(
    text: str, raised: type[Exception], attempts: int
) -> None:
    code = only(f"{text}\ndef f(): ...").python
    scope: dict[str, Any] = {"redrive": redrive, "is_busy": lambda result: result == "busy", "calls": []}
    lines = ["", "def f(error):", "    calls.append(1)", "    if error: raise error", "    return 'busy'"]
    exec(code + "\n".join(lines), scope)  # noqa: S102 - our own output
    for error, made in ((raised(), attempts), (None, 4)):
        scope["calls"].clear()
        with no_waits(), pytest.raises(Exception):  # noqa: B017, PT011 - only the count matters
            scope["f"](error)
        assert len(scope["calls"]) == made


def test_celery_tasks_are_found_with_their_base_class_and_their_own_retries() -> None:
    found = read(
        """
        from celery import Celery, Task, shared_task
        app = Celery("shop")
        DELAY = 30

        class Base(Task):
            autoretry_for = (OSError,)
            max_retries = 9

        @app.task(base=Base, retry_backoff=True)
        def from_base(): ...

        @app.task
        def never_retried(): ...

        @app.task(bind=True, max_retries=4)
        def manual(self):
            try: ...
            except (ConnectionError, KeyError) as exc:
                raise self.retry(exc=exc, countdown=DELAY * 2 ** self.request.retries)

        @shared_task(bind=True)
        def constant(self):
            try: ...
            except OSError as exc:
                self.retry(exc=exc, countdown=7, max_retries=2)

        @shared_task(bind=True)
        def default_limit(self):
            try: ...
            except OSError as exc:
                self.retry(exc=exc, countdown=7, max_retries=None)

        @shared_task(bind=True)
        def computed(self):
            try: ...
            except OSError as exc:
                self.retry(exc=exc, countdown=wait_for(self.request.retries))

        @app.task(bind=True)
        def polls(self):
            raise self.retry(countdown=5)

        @app.task(bind=True)
        def two_ways(self):
            try: ...
            except OSError: self.retry(countdown=1)
            except KeyError: self.retry(countdown=2)
        """
    )
    policies = {one.name: one.reading.policy for one in found.policies}
    assert [*policies] == ["Base", "from_base", "manual", "constant", "default_limit"]
    assert (policies["from_base"].attempts, policies["from_base"].jitter.kind) == (10, "full")
    manual = policies["manual"]
    assert (manual.attempts, manual.backoff, manual.max_wait) == (5, redrive.exponential(30), None)
    assert manual.retry_on.names == ("ConnectionError", "KeyError")
    assert (policies["constant"].attempts, policies["constant"].backoff) == (3, redrive.constant(7))
    assert policies["default_limit"].attempts == 4
    unread = {one.name: one.text for one in found.unread}
    assert [*unread] == ["computed", "polls", "two_ways"]
    assert unread["computed"] == "countdown=wait_for(self.request.retries) is not known from this file"
    assert "RetryAfter" in unread["polls"]
    assert "Rule" in unread["two_ways"]


def test_the_code_for_a_celery_task_keeps_its_other_options_and_says_what_else_to_change() -> None:
    found = read(
        """
        from celery import Celery, Task, shared_task
        shop = Celery("shop")
        SETTINGS = {"queue": "q", "max_retries": 5}

        class Base(Task):
            autoretry_for = (OSError,)

        @shared_task(bind=True, name="shop...g", acks_late=True, max_retries=5, default_retry_delay=30)
        def g(self, order):
            try: ...
            except OSError as exc:
                raise self.retry(exc=exc)

        @shop.task(base=Base, rate_limit=LIMIT, **SETTINGS)
        def h(order): ...
        """
    )
    base, g, h = found.policies
    said = [
        (note.id, note.line)
        for one in found.policies
        for note in one.notes
        if note.id in ("base-class", "remove-retry")
    ]
    assert said == [("base-class", 6), ("remove-retry", 13), ("base-class", 15)]
    assert base.python.startswith("policy = redrive.Policy(")
    assert "Base must inherit from RedriveTask" in base.notes[0].text
    decorator = '@shared_task(base=RedriveTask, bind=True, name="shop...g", acks_late=True, policy=redrive.Policy('
    assert g.python.startswith(decorator)
    assert "remove self.retry(...) at line 13; raise the error instead" in g.notes[0].text
    assert h.python.startswith("@shop.task(base=Base, rate_limit=LIMIT, queue='q', policy=redrive.Policy(")
    assert g.python.endswith("))")


def test_temporal_policies_have_the_timeouts_of_the_activity() -> None:
    found = read(
        """
        from datetime import timedelta
        from temporalio import workflow
        from temporalio.common import RetryPolicy
        TEN = timedelta(seconds=10)
        SHARED = RetryPolicy(maximum_attempts=3, non_retryable_error_types=[Refused.__name__, "Bad"])

        class Order:
            async def run(self, timeout):
                await workflow.execute_activity(charge, start_to_close_timeout=TEN, retry_policy=SHARED)
                await workflow.execute_activity_method(
                    Shop.ship, schedule_to_close_timeout=6 * TEN * 120, retry_policy=RetryPolicy(maximum_attempts=5)
                )
                await workflow.start_activity("mail", start_to_close_timeout=timeout)
                await workflow.execute_activity(charge, retry_policy=self.policy)
        """
    )
    shared, charge, ship, mail = found.policies
    assert [one.name for one in found.policies] == ["SHARED", "charge", "Shop.ship", "mail"]
    assert shared.reading.policy.never_on.names == ("Refused", "Bad")
    assert (charge.reading.policy.attempts, charge.reading.policy.attempt_timeout) == (3, 10.0)
    assert (ship.reading.policy.attempts, ship.reading.policy.deadline) == (5, 7200.0)
    assert mail.reading.policy.attempts is None
    assert {"default-policy", "not-known"} <= {note.id for note in mail.notes}
    assert ["self.policy is not known" in one.text for one in found.unread] == [True]


def test_differences_in_meaning_are_noted_with_their_line() -> None:
    found = read(
        """
        from tenacity import *
        from celery import shared_task
        import backoff

        @retry(stop=stop_after_delay(30))
        def a(): ...

        @shared_task(autoretry_for=(Exception,), retry_backoff=True)
        def b(): ...

        @backoff.on_exception(backoff.expo, OSError, max_time=60, raise_on_giveup=False)
        def c(): ...
        """
    )
    notes = {one.name: {(note.id, note.line) for note in one.notes} for one in found.policies}
    assert notes["a"] == {("deadline-cuts", 6), ("zero-wait", 6), ("error-not-wrapped", 6), ("retries-everything", 6)}
    assert notes["b"] == {("retries-counted", 9), ("whole-seconds", 9), ("retries-everything", 9)}
    assert notes["c"] == {("deadline-cuts", 12), ("error-raised", 12)}


def test_lint_finds_problems_by_line_and_retries_that_multiply() -> None:
    findings, _ = lint_source(
        textwrap.dedent(
            """
            import backoff, stamina
            from tenacity import retry, stop_after_attempt, wait_fixed

            @retry(
                stop=stop_after_attempt(3),
                wait=wait_fixed(2),
            )
            def a(): ...

            @stamina.retry(on=OSError, attempts=3)
            @backoff.on_exception(backoff.expo, OSError, max_tries=4, max_value=60)
            def b(): ...
            """
        )
    )
    assert {(one.id, one.line) for one in findings} >= {("RD001", 7), ("RD004", 12)}
    (nested,) = [one for one in findings if one.id == "RD004"]
    assert "3 x 4 = 12 calls" in nested.text


def test_lint_advises_what_the_code_can_say_and_reports_shared_settings_once() -> None:
    findings, _ = lint_source(
        textwrap.dedent(
            """
            import backoff
            from celery import Celery, Task
            from temporalio import workflow
            app = Celery("shop")

            class Base(Task):
                autoretry_for = (OSError,)
                max_retries = None

            @app.task(base=Base)
            def a(): ...

            @app.task(bind=True)
            def b(self):
                try: ...
                except OSError as exc:
                    raise self.retry(exc=exc, countdown=2 ** self.request.retries)

            @backoff.on_exception(backoff.expo, OSError, max_time=60)
            def c(): ...

            async def d():
                await workflow.execute_activity(a)
            """
        )
    )
    shared = [one for one in findings if one.line == 9]
    assert [one.id for one in shared] == ["RD002"]
    of_retry = {one.id: (one.key, one.instead) for one in findings if one.line in range(14, 19)}
    assert of_retry["RD001"] == ("countdown", "write countdown=random.uniform(0, ...), with the wait as its upper end")
    # No wait is longer than what is left until the deadline.
    assert [one.id for one in findings if one.line in (20, 21)] == []
    of_activity = {one.id: (one.key, one.instead) for one in findings if one.line == 24}
    assert of_activity["RD002"][0] == "maximum_attempts"
    assert of_activity["RD014"][1].startswith("write non_retryable_error_types with")


class Problem(NamedTuple):
    line: int
    message: str
    advice: str


def test_rules_about_code_are_called_with_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    from redrive.notation.python_source import lint_source as module

    def rule(tree: Any) -> list[Problem]:
        return [Problem(tree.body[-1].lineno, "two owners", "write one")]

    monkeypatch.setattr(module, "SOURCE_RULES", {"RD004": rule})
    (finding,), _ = lint_source("a = 1\nb = 2")
    assert (finding.id, finding.line, finding.text, finding.instead) == ("RD004", 2, "two owners", "write one")
