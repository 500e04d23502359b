"""The rule that finds clients which retry by themselves beside redrive, in Python source."""

import ast

import pytest

from redrive.notation.linting.second_owners import second_owners


def found(source: str) -> list[tuple[int, str]]:
    return [(one.line, one.advice) for one in second_owners(ast.parse(source))]


@pytest.mark.promise("L4")
@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("client = openai.OpenAI()", "write redrive.integrations.openai.owned(openai.OpenAI(...))"),
        ("client = AsyncOpenAI(timeout=5)", "write redrive.integrations.openai.owned(AsyncOpenAI(...))"),
        ("client: Any = Claude(max_retries=4)", "write redrive.integrations.anthropic.owned(Claude(...))"),
        ("s3 = boto3.client('s3')", "write redrive.integrations.botocore.owned(boto3.client(...))"),
        (
            "db = boto3.resource('dynamodb')",
            "write boto3.resource(..., config=redrive.integrations.botocore.owned_config())",
        ),
        ("stripe.max_network_retries = 2", "write redrive.integrations.stripe.owned(stripe)"),
        ("stripe.api_key = key", "write redrive.integrations.stripe.owned(stripe)"),
        ("StripeClient('k', max_network_retries=2)", "write redrive.integrations.stripe.owned(StripeClient(...))"),
        ("urllib3.PoolManager()", "write redrive.integrations.urllib3.owned(urllib3.PoolManager(...))"),
        ("HTTPAdapter(max_retries=Retry(3))", "write redrive.integrations.urllib3.owned(HTTPAdapter(...))"),
    ],
)
def test_a_client_that_retries_is_found(line: str, advice: str) -> None:
    imports = [
        "import redrive, openai, boto3, stripe, urllib3",
        "from openai import AsyncOpenAI",
        "from anthropic import Anthropic as Claude",
        "from stripe import StripeClient",
        "from requests.adapters import HTTPAdapter",
    ]
    assert found("\n".join([*imports, line])) == [(6, advice)]
    # Alone, the client may retry as it likes.
    imports[0] = "import openai, boto3, stripe, urllib3"
    assert found("\n".join([*imports, line])) == []


@pytest.mark.parametrize(
    "lines",
    [
        "client = openai.OpenAI(max_retries=0)",
        "client = openai.OpenAI(max_retries=settings.retries)",
        "client = openai.OpenAI(**settings)",
        "client = owned(openai.OpenAI())",
        "client = redrive.integrations.openai.owned(openai.OpenAI())",
        "client = openai.OpenAI()\nclient = owned(client)",
        "self.client = openai.OpenAI()\nself.owned = owned(self.client)",
        "client = openai.OpenAI().with_options(max_retries=0)",
        "client = openai.OpenAI()\nquick = client.with_options(max_retries=0)",
        "s3 = boto3.client('s3', config=config)",
        "db = boto3.resource('dynamodb', config=owned_config())",
        "stripe.max_network_retries = 0\nstripe.api_key = key",
        "stripe.max_network_retries = settings.retries",
        "stripe.api_key = key\nowned(stripe)",
        "stripe.Customer.create(name='A')",
        "StripeClient('k')",
        "StripeClient('k', max_network_retries=0)",
        "pool = urllib3.PoolManager(retries=False)",
        "pool = urllib3.PoolManager(retries=0)",
        "HTTPAdapter()",
        "OpenAI()",
        "other.OpenAI()",
        "[factory() for factory in factories][0]()",
    ],
)
def test_a_client_without_retries_or_with_unknown_ones_is_not(lines: str) -> None:
    imports = "import redrive, openai, boto3, stripe, urllib3\nfrom redrive.integrations.openai import owned\n"
    imports += "from stripe import StripeClient\nfrom requests.adapters import HTTPAdapter\n"
    assert found(imports + lines) == []


def test_several_are_listed_by_their_lines() -> None:
    source = "from redrive import retry\nimport openai as o\nb = [o.OpenAI(),\n o.AsyncAzureOpenAI()]\na = o.OpenAI()"
    assert [line for line, _ in found(source)] == [3, 4, 5]
    assert found("") == found("import redrive") == []
