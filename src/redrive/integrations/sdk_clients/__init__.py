"""The parts that the integrations of SDKs share."""
