"""Errors of validation and decoding libraries."""

from redrive.failures.known_errors.entries import Table, permanent

_MISMATCH = permanent("validation: the data does not fit its schema")
_UNREADABLE = permanent("validation: the data cannot be decoded")

VALIDATION_ERRORS: Table = {
    "json.decoder.JSONDecodeError": _UNREADABLE,
    "msgspec.ValidationError": _MISMATCH,
    "msgspec.DecodeError": _UNREADABLE,
    "pydantic_core._pydantic_core.ValidationError": _MISMATCH,
    "pydantic.error_wrappers.ValidationError": _MISMATCH,
    "jsonschema.exceptions.ValidationError": _MISMATCH,
    "marshmallow.exceptions.ValidationError": _MISMATCH,
    "yaml.error.YAMLError": _UNREADABLE,
}
