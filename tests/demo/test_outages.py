"""The outages of `redrive demo --dashboard` come and go, and leave something to see at any time."""

import json
from collections.abc import Callable

import pytest

from redrive.demo.outages import OUTAGES, PERIOD, SERVICES, changes_between, outage_of
from redrive.demo.troubled_services import TroubledServices, answer
from redrive.testing import Reply
from redrive.testing.flaky_server import Seen


def seen(path: str, **body: object) -> Seen:
    return Seen(method="POST", path=path, headers={}, body=json.dumps(body).encode())


def test_an_outage_lasts_from_its_beginning_to_its_end() -> None:
    [payments, *_] = [one for one in OUTAGES if one.service == "payments"]
    assert outage_of("payments", payments.begins - 0.1) is None
    assert outage_of("payments", payments.begins) == payments
    assert outage_of("payments", payments.ends - 0.1) == payments
    assert outage_of("payments", payments.ends) is None


def test_the_outages_begin_again_after_ten_minutes() -> None:
    assert PERIOD == 600
    for service in SERVICES:
        for second in range(int(PERIOD)):
            assert outage_of(service, second) == outage_of(service, second + PERIOD)


def test_each_service_fails_and_works_within_ten_minutes_and_there_are_quiet_moments() -> None:
    for service in SERVICES:
        states = [outage_of(service, second) is None for second in range(int(PERIOD))]
        assert any(states)
        assert not all(states)
    quiet = [second for second in range(int(PERIOD)) if all(outage_of(one, second) is None for one in SERVICES)]
    assert 30 < len(quiet) < 300


def test_outages_of_one_service_do_not_overlap_and_end_within_the_period() -> None:
    for service in SERVICES:
        spans = sorted((one.begins, one.ends) for one in OUTAGES if one.service == service)
        times = [time for span in spans for time in span]
        assert times == sorted(times)
        assert times[-1] <= PERIOD


def test_changes_are_told_once_in_order_and_over_periods() -> None:
    whole = changes_between(0, PERIOD)
    assert len(whole) == 2 * len(OUTAGES)
    steps = [change for second in range(int(PERIOD)) for change in changes_between(second, second + 1)]
    assert steps == whole
    assert changes_between(PERIOD, 2 * PERIOD) == whole
    assert changes_between(5, 5) == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/carrier/parcels", {"country": "AQ"}, 422),
        ("/carrier/parcels", {"country": "PT"}, 200),
        ("/payments/charges", {"cents": 95_000}, 402),
        ("/payments/charges", {"cents": 1_000}, 200),
        ("/mail/messages", {"to": "a@b"}, 200),
    ],
)
def test_a_service_refuses_what_is_wrong_and_takes_the_rest(path: str, body: dict[str, object], status: int) -> None:
    assert answer(path, body).status == status


def reply_of(elapsed: float, dice: Callable[[], float], path: str = "/payments/charges") -> Reply:
    services = TroubledServices(lambda: elapsed, dice)
    return services._reply(seen(path, cents=5, country="PT"))


def test_calls_fail_as_the_outage_says_and_some_fail_at_any_time() -> None:
    [payments, *_] = [one for one in OUTAGES if one.service == "payments"]
    assert reply_of(payments.begins, lambda: 0.99) == payments.reply
    assert reply_of(payments.begins - 1, lambda: 0.99).status == 200
    assert reply_of(payments.begins - 1, lambda: 0.0).status == 500
    [half] = [one for one in OUTAGES if one.share == 0.5]
    assert reply_of(half.begins, lambda: 0.4, "/carrier/parcels") == half.reply
    assert reply_of(half.begins, lambda: 0.6, "/carrier/parcels").status == 200
