"""Errors of the SDKs of cloud, payment and model providers."""
