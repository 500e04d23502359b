"""A graph that uses everything, for tests."""

ORDER = """\
graph: order
description: an order, until it is shipped
goals: [ship]
inputs:
  order_id: string
  lines: array
  warehouse: {type: string, default: north}
steps:
  check:
    endpoint: http://127.0.0.1:9000/check
    inputs: {order_id: string}
    outputs: {total: number}
  reserve:
    endpoint: http://127.0.0.1:9000/reserve
    mode: async
    inputs:
      total: number
      warehouse: string
      channel: {value: web}
      line: {type: object, for_each: true, from: lines}
    outputs: {reservation: string}
    depends_on: [check]
    when: "total > 0"
    parallelism: 5
    work_config: {max_retries: 3, backoff: 1000, max_backoff: 60000, backoff_type: linear}
    timeout: 30s
    idempotent: true
    dependency: warehouse-api
    statuses: {404: transient}
    conflict: reread
    compensate: release
  release:
    endpoint: http://127.0.0.1:9000/release
    inputs: {reservation: string, order_id: string}
  ship:
    action: shop.ship
    inputs: {reservation: array}
    retry: {max_attempts: 5, backoff: constant, backoff_base_ms: 10, max_backoff_ms: 20}
environments:
  production:
    steps:
      reserve: {retry: {max_attempts: 10}}
      ship: {retry: {max_attempts: 7}}
"""
