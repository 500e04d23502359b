"""One process of HTTP handlers for all tests; for each module and store a database of its own."""

from collections.abc import Iterator

import pytest
from tests.end_to_end.scene import Handlers
from tests.http_handlers import handlers_process
from tests.postgres_server import shared_server


@pytest.fixture(scope="session")
def handlers() -> Iterator[Handlers]:
    with handlers_process() as url:
        yield Handlers(url)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "postgres":
        return shared_server().fresh_database()
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/app.db"
