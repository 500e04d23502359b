"""What can go wrong with a store.

StoreError
├── StoreUnavailable   it cannot be reached or cannot write now; trying again later may help
│   └── CommitUnknown  the connection was lost during a commit: it may or may not have happened
├── StoreUnusable      it cannot be used as it is: a missing extra, a wrong address
│   └── StoreTooNew    a newer version has brought it up to date
└── LeaseLost          this worker no longer owns its flows: its lease ran out or was taken away
"""


class StoreError(Exception):
    """The base of all errors about stores."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write at the moment; nothing was changed."""


class CommitUnknown(StoreUnavailable):
    """The connection was lost during a commit, which may or may not have happened."""


class StoreUnusable(StoreError):
    """The store cannot be used as it is; the message says what to do."""


class StoreTooNew(StoreUnusable):
    """A newer redrive has brought the store up to date, so this one can never use it again."""


class LeaseLost(StoreError):
    """The worker's lease ran out or was taken away; nothing of the commit was written."""
