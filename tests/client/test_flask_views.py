"""Flask views use an app without a loop of their own, served by threads."""

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flask
import pytest
import sqlalchemy
from sqlalchemy.orm import Session
from werkzeug.serving import make_server

import redrive


@redrive.action(name="flask.ship")
def ship(number: str) -> str:
    return f"shipped {number}"


def web_app(flows: redrive.SyncApp, engine: sqlalchemy.Engine) -> flask.Flask:
    web = flask.Flask(__name__)

    @web.post("/orders/<number>")
    def order(number: str) -> dict[str, Any]:
        app = flows.open()
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text("INSERT INTO orders VALUES (:number)"), {"number": number})
            handle = app.start(ship(number), key=number, connection=session)
            if number.startswith("declined"):
                flask.abort(409)
        return {"flow": handle.id}

    @web.get("/flows/<flow>")
    def result(flow: str) -> dict[str, Any]:
        return {"result": flows.open().handle(flow).result(timeout="30s")}

    return web


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, redrive.SyncApp]]:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (number TEXT PRIMARY KEY)")
    connection.close()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", poolclass=sqlalchemy.NullPool)
    # The first view that is called opens it, and creates its tables.
    flows = redrive.open_sync(f"sqlite:///{path}")
    server = make_server("127.0.0.1", 0, web_app(flows, engine), threaded=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}", flows
    server.shutdown()
    serving.join()
    server.server_close()
    flows.close()


def call(url: str, method: str = "GET") -> dict[str, Any]:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:  # noqa: S310 - our own server
        answered: dict[str, Any] = json.load(answer)
        return answered


@pytest.mark.promise("L6")
def test_views_start_flows_with_their_transactions_and_wait_for_results(served: tuple[str, redrive.SyncApp]) -> None:
    url, flows = served

    def order(number: str) -> str:
        result: str = call(f"{url}/flows/{call(f'{url}/orders/{number}', 'POST')['flow']}")["result"]
        return result

    with ThreadPoolExecutor(8) as clients:
        numbers = [f"o-{n}" for n in range(24)]
        assert list(clients.map(order, numbers)) == [f"shipped {number}" for number in numbers]
    with pytest.raises(urllib.error.HTTPError, match="409") as declined:
        call(f"{url}/orders/declined-1", "POST")
    declined.value.close()
    assert sorted(one.key or "" for one in flows.flows()) == sorted(numbers)
