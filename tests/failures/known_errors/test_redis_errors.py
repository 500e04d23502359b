"""Errors of redis-py, from a server that answers as a real one does."""

from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import LockNotOwnedError, SlotNotCoveredError
from redis.retry import Retry
from tests.failures.asking import error_of, verdict_of

from .conftest import ServeFault
from .fake_redis import fake_redis


def client_of(port: int) -> "redis.Redis":
    return redis.Redis("127.0.0.1", port, protocol=2, socket_timeout=5, retry=Retry(NoBackoff(), 0))


@pytest.mark.promise("L2")
@pytest.mark.parametrize(
    "answer",
    [
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOREPLICAS Not enough good replicas to write.",
        "BUSY Redis is busy running a script.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "ASK 3999 127.0.0.1:6381",
        "ERR max number of clients reached",
    ],
)
def test_answers_that_are_temporary(answer: str, serve: ServeFault) -> None:
    with client_of(serve(fake_redis({"GET": f"-{answer}\r\n".encode()}))) as client:
        assert verdict_of(error_of(lambda: client.get("key"))).category == "transient"


@pytest.mark.promise("P2")
@pytest.mark.parametrize(
    "answer",
    [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR unknown command 'GET'",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOAUTH Authentication required.",
        "NOPERM User bob has no permissions to run the 'get' command",
        "MOVED 3999 127.0.0.1:6381",
        "CROSSSLOT Keys in request don't hash to the same slot",
    ],
)
def test_answers_that_stay(answer: str, serve: ServeFault) -> None:
    with client_of(serve(fake_redis({"GET": f"-{answer}\r\n".encode()}))) as client:
        assert verdict_of(error_of(lambda: client.get("key"))).category == "permanent"


@pytest.mark.promise("L2")
def test_a_lock_that_another_client_holds(serve: ServeFault) -> None:
    with client_of(serve(fake_redis({"SET": b"$-1\r\n"}))) as client:
        error = error_of(client.lock("name", timeout=5, blocking_timeout=0.01).__enter__)
    assert isinstance(error, redis.exceptions.LockError)
    assert verdict_of(error).category == "transient"
    assert "another client holds the lock" in verdict_of(error).reason


@pytest.mark.promise("L2")
def test_a_lock_that_expired_while_it_was_held(serve: ServeFault) -> None:
    with client_of(serve(fake_redis({"EVALSHA": b":0\r\n"}))) as client:
        lock = client.lock("name", timeout=5)
        assert lock.acquire()
        error = error_of(lock.release)
    assert isinstance(error, LockNotOwnedError)
    assert verdict_of(error).category == "transient"
    assert "expired" in verdict_of(error).reason


@pytest.mark.promise("P2")
def test_a_lock_that_is_used_wrongly(serve: ServeFault) -> None:
    with client_of(serve(fake_redis({}))) as client:
        for misuse in (client.lock("name").release, client.lock("name").reacquire, lambda: client.lock("n").extend(1)):
            assert verdict_of(error_of(misuse)).category == "permanent"


@pytest.mark.promise("P1")
def test_a_watched_key_that_changed(serve: ServeFault) -> None:
    answers = {"MULTI": b"+OK\r\n", "GET": b"+QUEUED\r\n", "EXEC": b"*-1\r\n"}
    with client_of(serve(fake_redis(answers))) as client, client.pipeline() as pipeline:
        pipeline.watch("key")
        pipeline.multi()
        pipeline.get("key")
        error = error_of(pipeline.execute)
    assert isinstance(error, redis.WatchError)
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("L2")
def test_a_pool_without_a_free_connection(serve: ServeFault) -> None:
    pool_of: Any = redis.BlockingConnectionPool  # it has no annotations
    pool = pool_of(
        host="127.0.0.1", port=serve(fake_redis({})), max_connections=1, timeout=0.01, retry=Retry(NoBackoff(), 0)
    )
    taken = pool.get_connection()
    error = error_of(redis.Redis(connection_pool=pool).ping)
    pool.release(taken)
    pool.close()
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_a_cluster_that_refuses_the_password(serve: ServeFault) -> None:
    """The client says only that the cluster cannot be connected to; the cause says why."""
    port = serve(fake_redis({"*": b"-WRONGPASS invalid username-password pair\r\n"}))
    error = error_of(lambda: redis.RedisCluster("127.0.0.1", port, socket_timeout=5))
    assert verdict_of(error).category == "permanent"


@pytest.mark.promise("L2")
def test_a_cluster_with_slots_that_nobody_serves() -> None:
    """Built by hand: it takes a cluster."""
    assert verdict_of(SlotNotCoveredError('Slot "5" is not covered by the cluster.')).category == "transient"
    assert verdict_of(redis.exceptions.ClusterError("TTL exhausted.")).category == "transient"
