// Events go round through ioredis as it connects by itself, and in RESP2.
//
// Called by  test_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);

async function goRound(options, name) {
  const client = new Redis(Number(port), "127.0.0.1", options);
  const body = Buffer.from([0, 13, 10, 255]);

  const id = await client.call("QADD", name, 60, body);
  const [gotId, gotBody] = await client.callBuffer("QGET", name, "g");
  assert.strictEqual(gotId.toString(), id);
  assert.deepStrictEqual(gotBody, body);
  assert.strictEqual(await client.call("QACK", name, "g", id), 1);
  assert.strictEqual(await client.call("QGET", name, "g"), null);

  await assert.rejects(client.call("QADD", name, "soon", "x"), /expireSeconds 'soon'/);
  await assert.rejects(client.call("NOSUCH"), /unknown command 'NOSUCH'/i);

  assert.strictEqual(await client.ping(), "PONG");
  assert.match(await client.info(), /redis_version:7\.0\.0/);
  assert.match(await client.client("INFO"), /lib-name=ioredis/);
  assert.match(await client.client("INFO"), new RegExp(`resp=${options.protocol || 3} `));
  assert.strictEqual(await client.quit(), "OK");
}

async function main() {
  await goRound({}, queue);
  await goRound({ protocol: 2 }, queue + "2");
  await goRound({ protocol: 3 }, queue + "3");
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
