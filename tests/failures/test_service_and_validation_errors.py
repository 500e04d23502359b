"""Errors of AWS, gRPC, Google and Redis clients, and of validation libraries."""

import json
from collections.abc import Callable

import jsonschema
import msgspec
import pydantic
import pytest
import yaml

from redrive.failures.failure import Category
from redrive.failures.known_errors.lookup import known_verdict

from .asking import error_of, look_alike, verdict_of


class TestServices:
    @staticmethod
    def aws(code: str, status: int, headers: dict[str, str] | None = None) -> Exception:
        response = {
            "Error": {"Code": code, "Message": "x"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}},
        }
        return look_alike("botocore.exceptions.ClientError", response=response)

    @pytest.mark.promise("P1")
    def test_aws_throttles_with_status_400(self) -> None:
        verdict = verdict_of(self.aws("ThrottlingException", 400, {"retry-after": "3"}))
        assert (verdict.category, verdict.status, verdict.retry_after) == ("transient", 400, "3")
        assert "ThrottlingException" in verdict.reason
        assert verdict_of(self.aws("InternalError", 500)).category == "transient"
        assert verdict_of(self.aws("SomethingElse", 503)).category == "transient"
        assert verdict_of(self.aws("AccessDenied", 403)).category == "permanent"

    def test_aws_answers_of_another_shape_are_not_known(self) -> None:
        for response in (None, "x", {}, {"Error": None}, {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": "x"}}):
            assert known_verdict(look_alike("botocore.exceptions.ClientError", response=response)) is None

    @pytest.mark.parametrize(
        ("name", "category"),
        [
            ("UNAVAILABLE", "transient"),
            ("DEADLINE_EXCEEDED", "transient"),
            ("RESOURCE_EXHAUSTED", "transient"),
            ("ABORTED", "transient"),
            ("INVALID_ARGUMENT", "permanent"),
            ("UNAUTHENTICATED", "permanent"),
            ("NOT_FOUND", "permanent"),
            ("CANCELLED", "permanent"),
            ("UNKNOWN", "unknown"),
        ],
    )
    def test_grpc_goes_by_code(self, name: str, category: Category) -> None:
        code = type("StatusCode", (), {"name": name})()
        base = look_alike("grpc.RpcError")
        error = look_alike("grpc.aio._call.AioRpcError", (type(base),), code=lambda self: code)
        assert verdict_of(error).category == category
        assert name in verdict_of(error).reason

    @pytest.mark.parametrize(
        ("name", "base", "category"),
        [
            ("ConnectionError", "RedisError", "transient"),
            ("TimeoutError", "RedisError", "transient"),
            ("BusyLoadingError", "ConnectionError", "transient"),
            ("ReadOnlyError", "ResponseError", "transient"),
            ("AuthenticationError", "ConnectionError", "permanent"),
            ("ResponseError", "RedisError", "permanent"),
        ],
    )
    def test_redis_goes_by_class(self, name: str, base: str, category: Category) -> None:
        parent = look_alike(f"redis.exceptions.{base}")
        assert verdict_of(look_alike(f"redis.exceptions.{name}", (type(parent),))).category == category

    def test_google_goes_by_status(self) -> None:
        assert verdict_of(look_alike("google.api_core.exceptions.GoogleAPICallError", code=503)).status == 503


class Person(msgspec.Struct):
    age: int


class Model(pydantic.BaseModel):
    age: int


class TestValidation:
    @pytest.mark.promise("P2")
    @pytest.mark.parametrize(
        "fails",
        [
            lambda: json.loads("{"),
            lambda: msgspec.json.decode(b"{", type=Person),
            lambda: msgspec.json.decode(b'{"age": "old"}', type=Person),
            lambda: Model.model_validate({"age": "old"}),
            lambda: jsonschema.validate("x", {"type": "integer"}),
            lambda: yaml.safe_load("a: [1"),
        ],
    )
    def test_data_that_does_not_fit_stays_so(self, fails: Callable[[], object]) -> None:
        verdict = verdict_of(error_of(fails))
        assert verdict.category == "permanent"
        assert verdict.reason.startswith("validation: ")
