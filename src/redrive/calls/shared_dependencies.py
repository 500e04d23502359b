"""The dependencies of this process: all guards that name the same one share its circuit and retry budget."""

from typing import Never

from redrive.failures.redaction import redact
from redrive.near_names import unknown_setting
from redrive.resilience.budget import BudgetSettings
from redrive.resilience.circuit import CircuitSettings
from redrive.resilience.dependencies import Dependencies, Dependency
from redrive.resilience.limits import LimitSettings

DEPENDENCIES = Dependencies()


def as_dependency(setting: str | Dependency | None) -> Dependency | None:
    """Read a `dependency` setting: a name, a Dependency, or None. Secrets are redacted, as a name may be an address."""
    if setting is None or isinstance(setting, Dependency):
        return setting
    if not isinstance(setting, str) or not setting:
        raise TypeError(f"dependency: {setting!r} is not allowed; use a name such as 'payments', or a Dependency")
    return DEPENDENCIES.get(redact(setting))


def define_dependency(
    name: str,
    *,
    circuit: CircuitSettings | None = None,
    budget: BudgetSettings | None = None,
    limits: LimitSettings | None = None,
    **unknown: Never,
) -> Dependency:
    """Configure a dependency. Guards that already name it use the new settings too, starting with a closed circuit.

    redrive.define_dependency("payments", circuit=CircuitSettings(failures=3, cooldown=10))
    """
    if unknown:
        raise unknown_setting("define_dependency", unknown, ("circuit", "budget", "limits"))
    if not isinstance(name, str) or not name:
        raise TypeError(f"define_dependency: {name!r} is not a name; use text such as 'payments'")
    return DEPENDENCIES.define(redact(name), circuit=circuit, budget=budget, limits=limits)
