"""Errors of clients of other protocols: gRPC, DNS, mail, SSH and Kafka."""
