"""The settings of a worker are taken in every usual form, and refused when no worker could use them."""

import math
import re
from datetime import timedelta
from typing import Any

import pytest

import redrive


@pytest.mark.parametrize("field", ["lease", "poll", "grace", "keep_finished"])
@pytest.mark.parametrize("value", [2, 2.0, "2s", "2", timedelta(seconds=2)], ids=repr)
def test_times_are_written_as_everywhere(field: str, value: Any) -> None:
    app = redrive.open("memory://", **{field: value})
    assert getattr(app.settings, field) == 2.0


@pytest.mark.parametrize("queues", [["mail", "default"], ("mail", "default"), {"mail": 1, "default": 2}], ids=repr)
def test_queues_are_several_names(queues: Any) -> None:
    assert redrive.open("memory://", queues=queues).settings.queues == ("mail", "default")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"grace": None}, "grace: None is not a duration: write seconds"),
        ({"grace": -1}, "grace: -1 is not a duration"),
        ({"grace": "soon"}, "grace: 'soon' is not a duration"),
        ({"keep_finished": -3600}, "keep_finished: -3600 is not a duration"),
        ({"keep_finished": 1e12}, "keep_finished: 1000000000000.0 is not allowed; use 0s to 36500d"),
        ({"lease": 0.001}, "lease: 0.001 is not allowed; use 500ms to 36500d"),
        ({"lease": "1ms"}, "lease: '1ms' is not allowed; use 500ms to 36500d"),
        ({"lease": math.inf}, "lease: inf is not a duration"),
        ({"poll": 0}, "poll: 0 is not allowed; use 10ms to 36500d"),
        ({"poll": math.nan}, "poll: nan is not a duration"),
        ({"queues": "mail"}, "queues: 'mail' is not allowed; use a list of names, such as ['mail']"),
        ({"queues": []}, "queues: [] is not allowed; use a list of names, or None for all queues"),
        ({"queues": 3}, "queues: 3 is not allowed; use a list of names"),
        ({"queues": ["mail", ""]}, "queues: '' is not allowed; use a name of 1 to 200 characters"),
        ({"queues": [3]}, "queues: 3 is not allowed; use a name of 1 to 200 characters"),
        ({"threads": "3"}, "threads: '3' is not allowed; use a whole number from 1 to 10000"),
        ({"threads": 100_000}, "threads: 100000 is not allowed; use a whole number from 1 to 10000"),
        ({"concurrency": True}, "concurrency: True is not allowed; use a whole number from 1 to 1000000"),
        ({"processes": 0}, "processes: 0 is not allowed; use a whole number from 1 to 1000"),
        ({"http": None}, "http: None is not allowed; use redrive.HttpSettings(...)"),
    ],
    ids=str,
)
def test_what_no_worker_could_use_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
        redrive.open("memory://", **settings)
