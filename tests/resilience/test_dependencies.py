"""The registry of dependencies is bounded, and keeps open circuits for longest."""

from redrive.resilience.circuit import CircuitSettings, failed
from redrive.resilience.dependencies import Dependencies, Dependency


def open_circuit(dependency: Dependency) -> None:
    circuit = dependency.circuit
    assert circuit is not None
    for _ in range(5):
        permit, _ = circuit.admit(0)
        assert permit is not None
        circuit.report(failed, permit, 0)


def test_who_names_the_same_dependency_shares_it() -> None:
    dependencies = Dependencies()
    assert dependencies.get("api") is dependencies.get("api")
    assert dependencies.get("api") is not dependencies.get("db")


def test_the_registry_is_bounded_and_forgets_the_longest_unused() -> None:
    dependencies = Dependencies(limit=3)
    for name in ("a", "b", "c"):
        dependencies.get(name)
    dependencies.get("a")
    dependencies.get("d")
    assert [dependency.name for dependency in dependencies.all()] == ["c", "a", "d"]


def test_open_circuits_are_forgotten_last() -> None:
    dependencies = Dependencies(limit=2)
    open_circuit(dependencies.get("down"))
    dependencies.get("fine")
    dependencies.get("new")
    assert [dependency.name for dependency in dependencies.all()] == ["down", "new"]
    open_circuit(dependencies.get("new"))
    dependencies.get("another")
    assert len(dependencies.all()) == 2


def test_a_dependency_can_have_settings_of_its_own() -> None:
    dependencies = Dependencies()
    defined = dependencies.define("payments", circuit=CircuitSettings(failures=1))
    assert dependencies.get("payments") is defined
    assert defined.circuit is not None
    assert defined.circuit.settings.failures == 1
    assert dependencies.get("other").circuit.settings.failures == 5  # type: ignore[union-attr]  # it has a circuit


def test_settings_given_to_a_dependency_outlive_any_number_of_others() -> None:
    dependencies = Dependencies(limit=2)
    dependencies.define("payments", circuit=CircuitSettings(failures=1))
    for number in range(10):
        dependencies.get(f"host{number}")
    circuit = dependencies.get("payments").circuit
    assert circuit is not None
    assert circuit.settings.failures == 1
    assert [dependency.name for dependency in dependencies.all()] == ["payments", "host8", "host9"]


def test_a_dependency_in_use_is_found_again_and_not_made_anew() -> None:
    dependencies = Dependencies(limit=1)
    in_use = dependencies.get("payments")
    dependencies.get("other")
    assert dependencies.get("payments") is in_use
    dependencies.get("other")
    assert dependencies.define("payments", circuit=CircuitSettings(failures=1)) is in_use
    assert dependencies.get("payments") is in_use
