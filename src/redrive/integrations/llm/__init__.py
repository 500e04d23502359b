"""One guard for model calls: retries, streams, limits, fallback to other models, and a report of what happened.

guard = llm.Guard(llm.Model(openai.OpenAI(), "gpt-5"), llm.Model(anthropic.Anthropic(), "claude-sonnet-5"))
answer = guard.call(messages=[{"role": "user", "content": "Hello"}], max_tokens=500)
print(answer.text, answer.report)

The SDK's own retries are off, so the guard alone decides; the vendor's Retry-After and x-should-retry are obeyed. No
SDK is imported here: give a client of openai or anthropic, sync or async, or any function.
"""

from redrive.integrations.llm.guard import Answer, Guard
from redrive.integrations.llm.model import Model
from redrive.integrations.llm.model_report import ModelReport, ModelTry, report_of
from redrive.integrations.llm.response_shapes import text_of
from redrive.integrations.llm.streams import AsyncChunks, Chunks
from redrive.integrations.llm.usage import Price, Tokens, tokens_of

__all__ = [
    "Answer",
    "AsyncChunks",
    "Chunks",
    "Guard",
    "Model",
    "ModelReport",
    "ModelTry",
    "Price",
    "Tokens",
    "report_of",
    "text_of",
    "tokens_of",
]
