"""One call with each client library, with timeouts of tenths of a second and without retries of its own.

Each is imported when it is called: no other test should wait for the import of all of them.
"""

import asyncio
import smtplib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

HOST = "127.0.0.1"


def call_psycopg(port: int) -> None:
    import psycopg

    psycopg.connect(host=HOST, port=port, user="x", dbname="x", connect_timeout=2)


def call_psycopg2(port: int) -> None:
    import psycopg2

    psycopg2.connect(host=HOST, port=port, user="x", dbname="x", connect_timeout=2)


def call_asyncpg(port: int) -> None:
    import asyncpg  # type: ignore[import-untyped]  # it has no annotations

    asyncio.run(asyncpg.connect(host=HOST, port=port, user="x", database="x", timeout=0.3))


def call_sqlalchemy(port: int) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"postgresql+psycopg://x@{HOST}:{port}/x?connect_timeout=2")
    engine.connect()


def call_sqlalchemy_asyncio(port: int) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine

    async def call() -> None:
        engine = create_async_engine(f"postgresql+asyncpg://x@{HOST}:{port}/x", connect_args={"timeout": 0.3})
        await engine.connect()

    asyncio.run(call())


def call_pymongo(port: int) -> None:
    import pymongo

    limits: dict[str, Any] = {"serverSelectionTimeoutMS": 300, "connectTimeoutMS": 200, "socketTimeoutMS": 200}
    with pymongo.MongoClient[dict[str, object]](HOST, port, **limits) as client:
        client["database"]["collection"].find_one()


def call_redis(port: int) -> None:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    with redis.Redis(HOST, port, socket_timeout=0.3, retry=Retry(NoBackoff(), 0)) as client:
        client.get("key")


def call_redis_asyncio(port: int) -> None:
    import redis.asyncio
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    async def call() -> None:
        async with redis.asyncio.Redis(host=HOST, port=port, socket_timeout=0.3, retry=Retry(NoBackoff(), 0)) as client:
            await client.get("key")

    asyncio.run(call())


def call_redis_cluster(port: int) -> None:
    import redis.cluster

    redis.cluster.RedisCluster(HOST, port, socket_timeout=0.3)


def call_kafka(port: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its files in an old way
        import kafka  # type: ignore[import-untyped]  # it has no annotations

    kafka.KafkaAdminClient(bootstrap_servers=f"{HOST}:{port}", request_timeout_ms=300, bootstrap_timeout_ms=200)


def call_aiokafka(port: int) -> None:
    import aiokafka  # type: ignore[import-untyped]  # it has no annotations

    async def call() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=f"{HOST}:{port}", request_timeout_ms=300)
        try:
            await producer.start()
        finally:
            await producer.stop()

    asyncio.run(call())


def call_elasticsearch(port: int) -> None:
    import elasticsearch

    with elasticsearch.Elasticsearch(f"http://{HOST}:{port}", request_timeout=0.3, max_retries=0) as client:
        client.info()


def call_paramiko(port: int) -> None:
    import paramiko

    with paramiko.SSHClient() as client:
        client.connect(HOST, port, "x", "x", timeout=0.3, banner_timeout=0.3, look_for_keys=False, allow_agent=False)


def call_smtplib(port: int) -> None:
    smtplib.SMTP(HOST, port, timeout=0.3)


def call_aiosmtplib(port: int) -> None:
    import aiosmtplib

    async def call() -> None:
        async with aiosmtplib.SMTP(hostname=HOST, port=port, timeout=0.3):
            pass

    asyncio.run(call())


def call_dns_resolver(port: int) -> None:
    import dns.resolver

    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [HOST]
    resolver.port = port
    resolver.lifetime = 0.3
    resolver.resolve("example.com", tcp=True)


def call_dns_query(port: int) -> None:
    import dns.message
    import dns.query

    dns.query.tcp(dns.message.make_query("example.com", "A"), HOST, port=port, timeout=0.3)


CLIENTS: Mapping[str, Callable[[int], None]] = {
    name.removeprefix("call_"): call for name, call in sorted(globals().items()) if name.startswith("call_")
}
