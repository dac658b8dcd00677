// One worker of the published Node.js client; each line of standard input is a call, each line of
// standard output its answer.
//
// Called by  other_clients.py, with the path of a Redis's socket.
"use strict";

const readline = require("readline");
const Redis = require("ioredis");
// Its package.json names a file of TypeScript; this is what it was compiled to.
const { WorkQueue } = require("@mevitae/redis-work-queue/dist/WorkQueue.js");
const { KeyPrefix } = require("@mevitae/redis-work-queue/dist/KeyPrefix.js");
const { Item } = require("@mevitae/redis-work-queue/dist/Item.js");

const db = new Redis({ path: process.argv[2] });

async function call({ prefix, verb, id, data, lease_s }) {
  const queue = (queues[prefix] ||= new WorkQueue(new KeyPrefix(prefix)));
  if (verb === "add") {
    return queue.addItem(db, new Item(data, id));
  } else if (verb === "lease") {
    const item = await queue.lease(db, lease_s, false);
    return item && { id: item.id, data: item.data.toString() };
  } else if (verb === "complete") {
    return queue.complete(db, new Item(data, id));
  } else if (verb === "clean") {
    return queue.lightClean(db);
  } else if (verb === "lengths") {
    return [await queue.queueLen(db), await queue.processing(db)];
  }
  throw new Error(`no such call: ${verb}`);
}

const queues = {};
console.log = () => {}; // the client says what it cleans

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const answer = await call(JSON.parse(line));
    process.stdout.write(JSON.stringify(answer === undefined ? null : answer) + "\n");
  }
  db.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
