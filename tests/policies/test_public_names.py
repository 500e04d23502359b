"""The packages export what users need of policies and failures."""

import importlib

import pytest

import redrive.failures
import redrive.policies


@pytest.mark.parametrize("package", ["redrive.failures", "redrive.policies"])
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_decide_and_preview_are_functions_whichever_module_was_imported_first() -> None:
    importlib.import_module("redrive.policies.preview")
    importlib.import_module("redrive.policies.decide")
    assert redrive.policies.preview(redrive.policies.Policy()).attempts == 3
    assert callable(redrive.policies.decide)
    assert redrive.failures.as_match(OSError) == redrive.failures.Match(types=(OSError,))
