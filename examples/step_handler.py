"""A handler of HTTP steps in plain Python: python examples/step_handler.py 9000"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

stock = {"book": 3, "pen": 10}
done: dict[str, dict[str, Any]] = {}  # by receipt token; a real handler stores it with its stock
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        inputs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            status, answer = self.reserve(self.headers["Redrive-Receipt-Token"], inputs["product"])
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def reserve(self, receipt: str, product: str) -> tuple[int, dict[str, Any]]:
        if receipt not in done:  # otherwise an earlier attempt did the work, and its answer was lost
            if product == "pen" and self.headers["Redrive-Attempt"] == "1":
                return 503, {"error": "the pens are being counted"}  # retried
            if stock.get(product, 0) == 0:
                return 200, {"success": False, "error": f"{product}: sold out"}  # not retried
            stock[product] -= 1
            done[receipt] = {"reservation": f"{product}-{stock[product]}"}
        return 200, {"success": True, "outputs": done[receipt]}


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
