"""A worker that writes its spans to a file: python -m tests.telemetry.traced_worker ADDRESS SPANS BEGAN"""

import asyncio
import signal
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from redrive import Workflow, action, current_attempt, workflow
from redrive.assembly import open as open_app
from redrive.integrations.opentelemetry import export

BEGAN = Path(sys.argv[3]) if __name__ == "__main__" else Path()


@action(name="traced.charge")
async def charge(amount: int) -> int:
    with trace.get_tracer("shop").start_as_current_span("ask the bank"):
        pass
    if current_attempt().number == 1:
        BEGAN.touch()
        await asyncio.sleep(600)
    return amount


@workflow(name="traced.Order")
class Order(Workflow):
    async def run(self, amount: int) -> int:
        return await charge(amount)


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


async def main(address: str) -> None:
    async with open_app(address, worker=False, lease=1.0) as app:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.stop)
        await app.work()


if __name__ == "__main__":
    provider = TracerProvider()
    with Path(sys.argv[2]).open("a") as spans:
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans, formatter=_line)))
        trace.set_tracer_provider(provider)
        export()
        asyncio.run(main(sys.argv[1]))
