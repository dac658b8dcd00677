// disqueue-node and disque-eventemitter on two brokers: each is reached where HELLO says it is, and
// when the producer's is killed, the producer goes on with the other.
//
// Called by  test_following_hello.py, with the ports of both, the process id of the first, and a
//            queue's name.
"use strict";

const assert = require("assert");
const DisqueEventEmitter = require("disque-eventemitter");
const Disqueue = require("disqueue-node");

const [port, otherPort, pid, queue] = process.argv.slice(2);
const BODIES = ["before", "after"];
const seen = [];

Promise.all([address(port), address(otherPort)])
  .then(([first, second]) => {
    work(second);
    add(first, "before", () => {
      process.kill(Number(pid), "SIGKILL");
      const gone = new Disqueue({ ...first, retryMax: 1, retryDelay: 1 });
      gone.on("error", () => {}); // each try is one
      gone.once("error", () => add(second, "after", () => {}));
    });
  })
  .catch(fail);

// Where the broker at this port says that it is.
function address(port) {
  return new Promise((resolve, reject) => {
    const client = new Disqueue({ host: "127.0.0.1", port: Number(port) });
    client.on("error", () => {}); // one of them is killed later
    client.on("connected", () => {
      client.hello(null, (error, { nodeId, nodeIds }) => {
        if (error) return reject(error);
        const [id, host, port, priority] = nodeIds;
        assert.deepStrictEqual([id, priority], [nodeId, "1"]);
        resolve({ host, port: Number(port) });
      });
    });
  });
}

function add(address, job, next) {
  const producer = new Disqueue(address);
  producer.on("error", () => {}); // one of them is killed later
  producer.on("connected", () => producer.addJob({ queue, job }, checked(next)));
}

function work(address) {
  const emitter = new DisqueEventEmitter(address, queue);
  emitter.on("error", fail);
  emitter.on("job", (job, done) => {
    seen.push(job.body);
    emitter.ack(job, checked(() => (seen.length < BODIES.length ? done() : finish())));
  });
}

function checked(next) {
  return (error) => (error ? fail(error) : next());
}

function finish() {
  assert.deepStrictEqual(seen, BODIES);
  console.log("ok");
  process.exit(0);
}

function fail(error) {
  console.error(error);
  process.exit(1);
}
