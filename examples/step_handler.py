"""A handler of HTTP steps in plain Python: python examples/step_handler.py 9000"""

import base64
import hmac
import json
import os
import re
import sys
import threading
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

stock = {"book": 3, "pen": 10}
done: dict[str, dict[str, Any]] = {}  # by receipt token; a real handler stores it with its stock
lock = threading.Lock()


secrets = os.environ.get("HANDLER_SECRETS", "").split()  # whsec_...; without any, all may call


def is_signed(headers: Message, body: bytes) -> bool:
    if not secrets:
        return True
    id_, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    tokens = f"{headers.get('Redrive-Receipt-Token')} {headers.get('Redrive-Delivery-Token')}"
    if not re.fullmatch(r"[^._ ]+\.[0-9]+ [^._ ]+", tokens):  # only then does the id stand for no other tokens
        return False
    if id_ != re.sub("[. ]", "_", tokens):  # the id is signed, and so are the tokens in it
        return False
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    callback = headers.get("Redrive-Callback")  # only asynchronous steps have one
    if callback is not None and not has_signature(
        headers.get("Redrive-Callback-Signature", ""), f"callback\n{id_}.{timestamp}.{callback}".encode()
    ):
        return False
    return has_signature(headers.get("webhook-signature", ""), f"{id_}.{timestamp}.".encode() + body)


def has_signature(given: str, content: bytes) -> bool:
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
    wanted = ["v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in wanted for other in given.split())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        received = self.rfile.read(int(self.headers["Content-Length"]))
        if is_signed(self.headers, received):
            try:
                product = json.loads(received)["product"]
            except (ValueError, TypeError, KeyError):
                status, answer = 400, {"error": "the body is not a JSON object with a product"}
            else:
                with lock:
                    status, answer = self.reserve(self.headers["Redrive-Receipt-Token"], product)
        else:
            status, answer = 401, {"error": "the signature is missing, wrong or too old"}
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
