"""Text that would run, turn around what follows it, or fill the page, if it were not shown as text."""

SCRIPT = '<script>window.hit=1</script><img src=x onerror="window.hit=1">\'"&lt;${7*7}{{7*7}}'
IMAGE = '<img src=x onerror="window.hit=1">\'"&lt;${7*7}{{7*7}}'
"""Without a slash, which no path of the API takes as a part of a name."""
RIGHT_TO_LEFT = "\u202etxt.exe\u202c \u05d0\u05d1\u05d2"
LONG = "x" * 1_000_000
