// Many requests in one pipeline, one of them wrong; and requests that ioredis gathers by itself.
//
// Called by  test_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);

async function main() {
  const client = new Redis(Number(port), "127.0.0.1");
  const pipeline = client.pipeline();
  for (let number = 0; number < 500; number++) {
    pipeline.call("QADD", queue, 60, number);
    pipeline.call("QGET", queue, "g", "EX", 0);
  }
  pipeline.call("QADD", queue, "soon", "x");

  const replies = await pipeline.exec();

  assert.strictEqual(replies.length, 1001);
  for (let number = 0; number < 500; number++) {
    const [, id] = replies[2 * number];
    assert.deepStrictEqual(replies[2 * number + 1], [null, [id, String(number)]]);
  }
  assert.match(replies[1000][0].message, /expireSeconds 'soon'/);
  client.disconnect();

  const gathering = new Redis(Number(port), "127.0.0.1", { enableAutoPipelining: true });
  const echoes = await Promise.all([1, 2, 3].map((number) => gathering.echo(number)));
  assert.deepStrictEqual(echoes, ["1", "2", "3"]);
  gathering.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
