"""Options for the retry policies of work that names none: of all of it, of a queue, or of a definition."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from redrive.cli.bad_input import BadInput
from redrive.near_names import near_name

DEFAULT, QUEUE, DEFINITION = "--default-policy", "--queue-policy", "--definition-policy"

DefaultPolicyOption = Annotated[
    str,
    typer.Option(DEFAULT, metavar="POLICY", help="The retry policy of work that names none; default: retry for a day."),
]
QueuePolicyOption = Annotated[
    list[str] | None,
    typer.Option(QUEUE, metavar="QUEUE=POLICY", help="The default policy of the flows of a queue; repeatable."),
]
DefinitionPolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        DEFINITION, metavar="NAME=POLICY", help="The default policy of the flows of a definition; repeatable."
    ),
]
_EXAMPLE = "'mail=[ConnectionError -> retry: 20, backoff: 1m]'"
_NAMES = "name one that its modules define, as redrive flows shows it"


class PolicyOptions:
    """The policies that the options give; BadInput if one cannot be used."""

    def __init__(self, default: str, queues: Sequence[str] | None, definitions: Sequence[str] | None) -> None:
        self._default = default
        self._by_queue = _by_name(QUEUE, queues or ())
        self._by_definition = _by_name(DEFINITION, definitions or ())
        self._check()

    @property
    def settings(self) -> dict[str, Any]:
        """What redrive.open() takes."""
        return {
            "default_policy": self._default or None,
            "queue_policies": self._by_queue,
            "definition_policies": self._by_definition,
        }

    @property
    def words(self) -> list[str]:
        """The options, for the command line of another process."""
        words = [DEFAULT, self._default] if self._default else []
        for option, policies in ((QUEUE, self._by_queue), (DEFINITION, self._by_definition)):
            words += [word for name, text in policies.items() for word in (option, f"{name}={text}")]
        return words

    def check_definitions(self) -> None:
        """Refuse policies of definitions that are not loaded."""
        from redrive.flows.registry import known_definitions

        known = known_definitions()
        names = [name.partition(":")[2] for name in known]
        for name in self._by_definition:
            if name not in known and name not in names:
                close = near_name(name, known if ":" in name else names)
                hint = f"did you mean {close}?" if close else _NAMES
                raise BadInput(f"{DEFINITION}: this worker has no definition {name!r}; {hint}")

    def warn_of_unread(self, queues: Sequence[str] | None) -> None:
        """Warn of policies for queues that the worker does not read; None: it reads all."""
        if not queues:
            return
        for name in self._by_queue:
            if name not in queues:
                read = ", ".join(queues)
                typer.echo(f"redrive: {QUEUE} {name} has no effect: this worker reads only {read} (--queue)", err=True)

    def refuse_without_worker(self) -> None:
        if words := self.words:
            raise BadInput(
                f"{words[0]} has no effect with --no-worker; give it to redrive worker, which runs the flows"
            )

    def _check(self) -> None:
        from redrive.errors import NotationError, PolicyError
        from redrive.flows.retry_policy import as_policy
        from redrive.flows.stored_policy import write_stored_policy
        from redrive.stores.queue_names import QUEUE_NAME, is_queue

        policies = [(DEFAULT, self._default)] if self._default else []
        for option, by_name in ((QUEUE, self._by_queue), (DEFINITION, self._by_definition)):
            policies += [(f"{option} {name}", text) for name, text in by_name.items()]
        for option, text in policies:
            try:
                write_stored_policy(as_policy(text))
            except (NotationError, PolicyError) as error:
                raise BadInput(f"{option}: {error}") from None
        for queue in self._by_queue:
            if not is_queue(queue):
                raise BadInput(f"{QUEUE}: {queue!r} is not allowed; {QUEUE_NAME}")


def _by_name(option: str, given: Sequence[str]) -> dict[str, str]:
    """Read NAME=POLICY."""
    policies: dict[str, str] = {}
    for one in given:
        name, equals, policy = one.partition("=")
        if not (equals and name and policy):
            raise BadInput(f"{option}: {one!r} is not allowed; write NAME=POLICY, such as {_EXAMPLE}")
        policies[name] = policy
    return policies
