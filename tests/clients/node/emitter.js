// disque-eventemitter: each job is an event; one that was given back is an event again.
//
// Called by  test_disqueue_node.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const DisqueEventEmitter = require("disque-eventemitter");
const Disqueue = require("disqueue-node");

const [port, queue] = process.argv.slice(2);
const address = { host: "127.0.0.1", port: Number(port) };
const BODIES = ["first", "second", "third"];

const seen = [];
const producer = new Disqueue(address);
const emitter = new DisqueEventEmitter(address, queue, { concurrency: 2, withCounters: true });

emitter.on("error", fail);
producer.on("error", fail);

emitter.on("job", (job, done) => {
  assert.strictEqual(job.queue, queue);
  seen.push([job.body, job.nacks]);
  if (job.body === "first" && job.nacks === 0) {
    emitter.nack(job, checked(done));
    return;
  }
  emitter.ack(job, checked(() => {
    done();
    if (seen.length > BODIES.length) finish();
  }));
});

producer.on("connected", () => {
  for (const job of BODIES) producer.addJob({ queue, job }, checked(() => {}));
});

function checked(next) {
  return (error) => (error ? fail(error) : next());
}

function finish() {
  const firsts = seen.filter(([body]) => body === "first");
  assert.deepStrictEqual(firsts, [["first", 0], ["first", 1]]);
  assert.deepStrictEqual([...new Set(seen.map(([body]) => body))].sort(), [...BODIES].sort());
  console.log("ok");
  process.exit(0);
}

function fail(error) {
  console.error(error);
  process.exit(1);
}
