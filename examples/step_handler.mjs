// A handler of HTTP steps in Node: node examples/step_handler.mjs 9000
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secrets = (process.env.HANDLER_SECRETS ?? "").split(" ").filter(Boolean); // whsec_...; without any, all may call

function isSigned(headers, body) {
  if (secrets.length === 0) return true;
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures = "" } = headers;
  const tokens = `${headers["redrive-receipt-token"]} ${headers["redrive-delivery-token"]}`;
  if (!/^[^._ ]+\.[0-9]+ [^._ ]+$/.test(tokens)) return false; // only then does the id stand for no other tokens
  if (id !== tokens.replaceAll(/[. ]/g, "_")) return false; // the id is signed, and so are the tokens in it
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= 300)) return false;
  const callback = headers["redrive-callback"]; // only asynchronous steps have one
  const signed = headers["redrive-callback-signature"] ?? "";
  if (callback !== undefined && !hasSignature(signed, `callback\n${id}.${time}.`, callback)) return false;
  return hasSignature(signatures, `${id}.${time}.`, body);
}

function hasSignature(signatures, start, content) {
  const given = signatures.split(" ").map((one) => Buffer.from(one));
  return secrets.some((secret) => {
    const key = Buffer.from(secret.replace("whsec_", ""), "base64");
    const digest = createHmac("sha256", key).update(start).update(content).digest("base64");
    const wanted = Buffer.from(`v1,${digest}`);
    return given.some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
  });
}

const stock = new Map([
  ["book", 3],
  ["pen", 10],
]);
const done = new Map(); // by receipt token; a real handler stores it with its stock

function reserve(headers, { product }) {
  const receipt = headers["redrive-receipt-token"];
  if (!done.has(receipt)) {
    // otherwise an earlier attempt did the work, and its answer was lost
    if (product === "pen" && headers["redrive-attempt"] === "1") return [503, { error: "the pens are being counted" }]; // retried
    const left = stock.get(product) ?? 0;
    if (left === 0) return [200, { success: false, error: `${product}: sold out` }]; // not retried
    stock.set(product, left - 1);
    done.set(receipt, { reservation: `${product}-${left - 1}` });
  }
  return [200, { success: true, outputs: done.get(receipt) }];
}

function answerTo(headers, body) {
  if (!isSigned(headers, body)) return [401, { error: "the signature is missing, wrong or too old" }];
  let inputs;
  try {
    inputs = JSON.parse(body);
  } catch {
    return [400, { error: "the body is not JSON" }];
  }
  return reserve(headers, inputs ?? {});
}

const server = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  const [status, answer] = answerTo(request.headers, body);
  const headers = { "content-type": "application/json" };
  if (status === 503) headers["retry-after"] = "1";
  response.writeHead(status, headers).end(JSON.stringify(answer));
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
