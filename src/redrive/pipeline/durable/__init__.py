"""Pipelines on the durable engine: each pipeline is registered as a graph, each stage as an action."""

from redrive.pipeline.durable.registration import forgetting_pipelines, register_pipeline, registered_graph
from redrive.pipeline.durable.stage_actions import DATA, REQUEST_ID

__all__ = ["DATA", "REQUEST_ID", "forgetting_pipelines", "register_pipeline", "registered_graph"]
