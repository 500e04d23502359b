"""The stores that these tests run on."""

from pathlib import Path

import pytest
from tests.postgres_server import shared_server


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return shared_server().fresh_database()
    return f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else "memory://"
