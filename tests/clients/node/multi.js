// Transactions: in one go, command by command, with an error, and given up.
//
// Called by  test_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);

async function main() {
  const client = new Redis(Number(port), "127.0.0.1");
  const replies = await client
    .multi()
    .call("ADDJOB", queue, "one", 0)
    .call("GETJOB", "FROM", queue)
    .call("QADD", queue, "soon", "x")
    .echo("done")
    .exec();
  const [, id] = replies[0];
  assert.deepStrictEqual(replies[1], [null, [[queue, id, "one"]]]);
  assert.match(replies[2][0].message, /expireSeconds 'soon'/);
  assert.deepStrictEqual(replies[3], [null, "done"]);

  await client.multi({ pipeline: false });
  assert.strictEqual(await client.call("ADDJOB", queue, "two", 0), "QUEUED");
  assert.strictEqual((await client.exec()).length, 1);

  await client.multi({ pipeline: false });
  await client.call("ADDJOB", queue, "three", 0);
  assert.strictEqual(await client.discard(), "OK");
  assert.strictEqual(await client.call("QLEN", queue), 1);

  await assert.rejects(client.multi().call("NOSUCH").exec(), /EXECABORT/);
  client.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
