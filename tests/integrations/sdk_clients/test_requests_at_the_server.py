"""Three attempts are three requests, whichever SDK sends them: the SDK's own retries are off."""

import pytest

from .sdks import SDKS, Sdk, measure
from .table import HEADING, PAGE, row

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

sdks = pytest.mark.parametrize("sdk", SDKS, ids=repr)


@pytest.mark.promise("L4")
@pytest.mark.parametrize("sdk", [sdk for sdk in SDKS if sdk.integration], ids=repr)
def test_an_owned_client_makes_one_request_per_attempt(sdk: Sdk) -> None:
    """Without `owned` it makes more: else the test would prove nothing."""
    assert measure(sdk, owned=False).requests >= 9
    owned = measure(sdk, owned=True)
    assert (owned.requests, owned.warned) == (3, False)


@pytest.mark.promise("L4")
@sdks
def test_the_page_shows_what_is_measured(sdk: Sdk) -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert row(sdk) in page, "docs/sdk-clients.md is out of date: python -m tests.integrations.sdk_clients.table"


def test_the_page_has_no_other_rows() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    begin = page.index(HEADING[0]) + len(HEADING)
    assert page[begin + len(SDKS)] == ""
