"""One retry owner for FastAPI: guarded code behind it makes one attempt if the caller retries.

app.add_middleware(RetryOwnerMiddleware)
"""

from redrive.integrations.asgi import RetryOwnerMiddleware

__all__ = ["RetryOwnerMiddleware"]
