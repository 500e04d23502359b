"""The table of docs/sdk-clients.md: `python -m tests.integrations.sdk_clients.table` writes it."""

from pathlib import Path

from .sdks import SDKS, Sdk, measure

PAGE = Path(__file__).parents[3] / "docs" / "sdk-clients.md"
BEGIN = "<!-- made by python -m tests.integrations.sdk_clients.table -->"
END = "<!-- end -->"
HEADING = ["| client | as it is | with `owned` | redrive warns |", "|---|---|---|---|"]


def row(sdk: Sdk) -> str:
    """Measure one SDK. Some retry for a time, not for a number of times: how often is then left out."""
    as_it_is = measure(sdk, owned=False)
    requests = "more than 9" if sdk.unlimited and as_it_is.requests > 9 else str(as_it_is.requests)
    if not sdk.integration:
        return f"| {sdk.name} | {requests} | not needed | |"
    owned = measure(sdk, owned=True)
    assert not owned.warned
    return f"| {sdk.name} | {requests} | {owned.requests} | {'yes' if as_it_is.warned else 'no'} |"


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join([*HEADING, *(row(sdk) for sdk in SDKS)])
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
