// Workers wait on connections of their own; the producer waits until all of its jobs are done.
//
// Called by  test_jobs_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);
const WORKERS = 5;

async function work(client, done) {
  for (;;) {
    const [[, id, body]] = await client.call("GETJOB", "FROM", queue);
    if (body === "stop") return client.call("ACKJOB", id);
    done.push(Number(body));
    await client.call("ACKJOB", id);
  }
}

async function main() {
  const producer = new Redis(Number(port), "127.0.0.1");
  const clients = Array.from({ length: WORKERS }, () => new Redis(Number(port), "127.0.0.1"));
  const numbers = Array.from({ length: 100 }, (_, number) => number);
  const done = [];
  const working = clients.map((client) => work(client, done));
  while (!new RegExp(`blocked_clients:${WORKERS}\r`).test(await producer.info("clients")));

  const ids = await Promise.all(numbers.map((n) => producer.call("ADDJOB", queue, n, 0)));

  assert.strictEqual(await producer.call("WAITJOB", 60000, ...ids), ids.length);
  assert.deepStrictEqual(done.sort((a, b) => a - b), numbers);
  await Promise.all(clients.map(() => producer.call("ADDJOB", queue, "stop", 0)));
  await Promise.all(working);
  for (const client of [producer, ...clients]) client.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
