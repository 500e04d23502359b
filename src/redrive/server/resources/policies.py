"""Policies: what a retry policy, written in any notation, will do."""

import contextlib
from collections.abc import Iterable
from typing import Annotated, Any

from litestar import Request, Response, Router, post
from msgspec import Meta

from redrive.determinism.dice import seeded_dice
from redrive.determinism.off_loop import off_loop
from redrive.errors import NotationError
from redrive.failures.failure import Failure
from redrive.notation.catalogue import WRITABLE
from redrive.notation.errors import printable
from redrive.notation.linting.findings import Severity
from redrive.notation.linting.linter import lint
from redrive.notation.policy_words import policy_in_words
from redrive.notation.read import read_policy
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.write import write_lossy
from redrive.policies.preview import HORIZON, example_starts, preview, read_failure, usual_failure, usual_failures
from redrive.server.contract.models import RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import read_body

LONGEST_TEXT = 64 * 1024
MOST_ATTEMPTS = 200
MOST_CASES = 20
FEW_RULES = 10
CASE_HORIZON = 1000
"""The most attempts that are played through for one rule of a policy."""
ROWS = 50
SEED = "example"
"""A seed: the same policy shows the same example."""


class PolicyRequest(RequestModel, frozen=True):
    text: Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
    """The policy, or a document with one policy in it."""
    notation: Annotated[str, Meta(max_length=50)] = "auto"
    """auto, or the notation: native, work_config, brackets, temporal, tenacity, ..."""
    failure: Annotated[str, Meta(max_length=200)] = ""
    """For which failure: a class name, status:503, timeout, transient, ...; empty: the one that it mainly retries."""
    attempts: Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)] = ROWS
    """The most attempts to show."""


class WaitResponse(ResponseModel, frozen=True):
    """One attempt. Times are seconds since the first attempt began."""

    attempt: int
    """Counts from 1."""
    low: float | None
    """The shortest wait before it that jitter can draw; null for the first attempt."""
    high: float | None
    """The longest wait before it that jitter can draw."""
    earliest: float
    """When it begins if each wait is the shortest, and no attempt takes time."""
    latest: float | None
    """When it begins if each wait is the longest; null: the deadline comes first."""
    example: float | None
    """When it begins in one run, with waits drawn at random; null: in that run, it is not made."""
    timeout: float | None
    """How long it may take."""


class TotalResponse(ResponseModel, frozen=True):
    """Seconds from the beginning of the first attempt to giving up."""

    earliest: float | None
    """null: it never gives up."""
    latest: float | None
    """null: it never gives up, or its attempts may take any time."""


class CaseResponse(ResponseModel, frozen=True):
    """What the policy does about one kind of failure."""

    failure: str
    rule: str
    """The part of the policy that decides: rules[0], retry_on, never_on, none."""
    attempts: int | None
    """null: no limit."""
    waits: list[WaitResponse]
    more: bool
    """Whether there are more attempts than are shown."""
    total: TotalResponse
    ends: str
    """Why there is no further attempt: exhausted, deadline, permanent, ...; unlimited if there always is one."""
    because: str
    """The same as a sentence."""


class FindingResponse(ResponseModel, frozen=True):
    rule: str
    """RD001, ..."""
    severity: Severity
    message: str
    """What is wrong, and why it matters."""
    where: str
    """The key and the line."""
    line: int | None
    instead: str
    """What to write instead."""


class WarningResponse(ResponseModel, frozen=True):
    """A setting whose meaning changes."""

    id: str
    message: str
    key: str


class PolicyResponse(CaseResponse, frozen=True):
    """A policy, and what it does about the failure asked for."""

    notation: str
    policy: str
    """In words."""
    cases: list[CaseResponse]
    """What it does about each kind of failure that it retries, up to 20 of them."""
    findings: list[FindingResponse]
    warnings: list[WarningResponse]
    """What redrive understands otherwise than the notation means it."""
    conversions: dict[str, str]
    """Notation -> the same policy, or the nearest that the notation has."""
    lost: dict[str, list[WarningResponse]]
    """Notation -> what it cannot express; only those that lose something."""


@post(
    "/",
    status_code=200,
    opt=operation(
        summary="Read a policy: its waits, its mistakes, and the same in other notations",
        tag="policies",
        role="read",
        within_limits=True,
        changes_nothing=True,
        description="As `redrive policy preview`, `lint` and `convert`. Nothing is stored.",
        body=PolicyRequest,
        example={"text": "[ConnectionError -> retry: 5, backoff: 30s]"},
        responses={200: ResponseSpec(PolicyResponse, "What the policy does.")},
        errors=(422,),
    ),
)
async def policies(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = await read_body(request, PolicyRequest)
    return json_response(await off_loop(True, _read, wanted))


def _read(wanted: PolicyRequest) -> PolicyResponse:
    try:
        reading = read_policy(wanted.text, wanted.notation, "policy")
    except NotationError as error:
        pointer = "/notation" if error.source == "notation" else "/text"
        raise ProblemError(422, str(error), pointer=pointer, line=error.line, column=error.column) from None
    policy = reading.policy
    conversions, lost = _conversions(reading)
    # With many rules, each attempt takes longer to decide about.
    horizon = HORIZON if len(policy.rules) <= FEW_RULES else CASE_HORIZON
    main = _case(reading, wanted, _failure(reading, wanted.failure), horizon)
    return PolicyResponse(
        **{name: getattr(main, name) for name in CaseResponse.__struct_fields__},
        notation=reading.notation,
        policy=policy_in_words(policy),
        cases=[_case(reading, wanted, one, CASE_HORIZON) for one in usual_failures(policy)[:MOST_CASES]],
        findings=_findings(reading),
        warnings=_warnings(reading.warnings),
        conversions=conversions,
        lost=lost,
    )


def _failure(reading: Reading, text: str) -> Failure:
    if not text:
        return usual_failure(reading.policy)
    try:
        return read_failure(text)
    except (ValueError, TypeError):
        detail = f"{printable(text)} is not a failure; use a class name, status:503, timeout or transient"
        raise ProblemError(422, detail, pointer="/failure") from None


def _case(reading: Reading, wanted: PolicyRequest, failure: Failure, horizon: int) -> CaseResponse:
    shown = preview(reading.policy, failure, wanted.attempts, horizon)
    example = example_starts(reading.policy, failure, seeded_dice(SEED), wanted.attempts)
    starts = dict(enumerate(example, 1))
    return CaseResponse(
        failure=shown.failure,
        rule=shown.answered_by,
        attempts=shown.attempts,
        waits=[
            WaitResponse(
                attempt=row.attempt,
                low=row.low,
                high=row.high,
                earliest=0.0 if row.earliest is None else row.earliest,
                latest=row.latest,
                example=starts.get(row.attempt),
                timeout=row.timeout,
            )
            for row in shown.rows
        ],
        more=shown.more_rows,
        total=TotalResponse(earliest=shown.least_total, latest=shown.worst_total),
        ends=shown.ends,
        because=shown.because,
    )


def _findings(reading: Reading) -> list[FindingResponse]:
    return [
        FindingResponse(
            rule=one.id,
            severity=one.severity,
            message=one.text,
            where=one.key if one.line is None else f"{one.key}, line {one.line}",
            line=one.line,
            instead=one.instead,
        )
        for one in lint(reading)
    ]


def _conversions(reading: Reading) -> tuple[dict[str, str], dict[str, list[WarningResponse]]]:
    texts: dict[str, str] = {}
    lost: dict[str, list[WarningResponse]] = {}
    for notation in WRITABLE:
        # What a notation has no words for at all, such as a function, it is left out for.
        with contextlib.suppress(NotationError):
            texts[notation], losses = write_lossy(reading.policy, notation)
            if losses:
                lost[notation] = _warnings(losses)
    return texts, lost


def _warnings(found: Iterable[NamedWarning]) -> list[WarningResponse]:
    return [WarningResponse(id=one.id, message=one.text, key=one.key) for one in found]


router = Router("/v1/policies", route_handlers=[policies])
