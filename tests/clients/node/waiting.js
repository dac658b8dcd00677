// A reader waits on one connection and is woken by another.
//
// Called by  test_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);

async function main() {
  const reader = new Redis(Number(port), "127.0.0.1");
  const writer = new Redis(Number(port), "127.0.0.1");

  assert.strictEqual(await reader.call("QNOTIFY", "g", "0.01", queue), null);
  const waiting = reader.call("QNOTIFY", "g", 60, queue);
  while (!/blocked_clients:1\r/.test(await writer.info("clients")));
  await writer.call("QADD", queue, 60, "hello");

  assert.strictEqual(await waiting, queue);
  assert.strictEqual((await reader.call("QGET", queue, "g"))[1], "hello");
  reader.disconnect();
  writer.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
