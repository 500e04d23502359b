"""Texts that several tests use."""

BRACKETS = """\
# Catch all exceptions, retry up to 3 times with 60s exponential backoff
result = @risky_action() [retry: 3, backoff: 60]

# Catch specific exception type
result = @network_call() [NetworkError -> retry: 5, backoff: 2m]

# Multiple exception types
result = @api_call() [(ValueError, KeyError) -> retry: 3, backoff: 30s]

# Multiple policies for different exceptions
result = @api_call() [RateLimitError -> retry: 10, backoff: 1m] [NetworkError -> retry: 3, backoff: 30s]

# Timeout in separate bracket
result = @slow_action() [retry: 3, backoff: 60] [timeout: 2m]
"""
"""What a policy in brackets looks like, in all its forms."""

ORDER = """\
# Orders, as operations writes them.
fn main(order, lines=[]):
    receipt = @charge(order=order) [NetworkError -> retry: 5, backoff: 2m] [timeout: 30s]
    total = 0
    for line in lines:
        if line["price"] <= 0:
            continue
        total = total + line["price"]
    boxes = spread lines:line -> @pack(line=line) [retry: 3, backoff: 60]
    parallel:
        label = @label(order=order)
        @mail(order=order)
    try:
        @gift(order=order)
    except (NotFound, ValueError) as error:
        note = "no gift: " + str(error)
    else:
        note = "gift"
    finally:
        sleep 5m
    return {"receipt": receipt, "boxes": boxes, "total": total, "note": note}
"""
