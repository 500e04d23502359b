// A handler of HTTP steps in Node: node examples/step_handler.mjs 9000
import { createServer } from "node:http";

const stock = new Map([["book", 3], ["pen", 10]]);
const done = new Map(); // by receipt token; a real handler stores it with its stock

function reserve(headers, { product }) {
  const receipt = headers["redrive-receipt-token"];
  if (!done.has(receipt)) { // otherwise an earlier attempt did the work, and its answer was lost
    if (product === "pen" && headers["redrive-attempt"] === "1")
      return [503, { error: "the pens are being counted" }]; // retried
    const left = stock.get(product) ?? 0;
    if (left === 0)
      return [200, { success: false, error: `${product}: sold out` }]; // not retried
    stock.set(product, left - 1);
    done.set(receipt, { reservation: `${product}-${left - 1}` });
  }
  return [200, { success: true, outputs: done.get(receipt) }];
}

const server = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const [status, answer] = reserve(request.headers, JSON.parse(Buffer.concat(pieces)));
  const headers = { "content-type": "application/json" };
  if (status === 503) headers["retry-after"] = "1";
  response.writeHead(status, headers).end(JSON.stringify(answer));
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
