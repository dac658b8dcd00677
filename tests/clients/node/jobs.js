// Jobs through ioredis as it connects by itself (RESP3), and in RESP2: every command of the family.
//
// Called by  test_jobs_ioredis.py, with the port and a queue's name.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, queue] = process.argv.slice(2);
const UNKNOWN = "D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1";

function paired(reply) {
  assert(Array.isArray(reply), "names and values are a flat array in both protocols");
  return Object.fromEntries(
    Array.from({ length: reply.length / 2 }, (_, at) => [reply[2 * at], reply[2 * at + 1]]),
  );
}

async function addGetAck(client, name) {
  const body = Buffer.from([0, 13, 10, 255]);

  const id = await client.call("ADDJOB", name, body, 0);
  assert.match(id, /^D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-05a1$/);
  assert.strictEqual(await client.call("QLEN", name), 1);
  const [[, gotId, gotBody]] = await client.callBuffer("GETJOB", "FROM", name);
  assert.strictEqual(gotId.toString(), id);
  assert.deepStrictEqual(gotBody, body);
  assert.strictEqual(await client.call("WORKING", id), 300);
  assert.strictEqual(await client.call("ACKJOB", id), 1);
  assert.strictEqual(await client.call("SHOW", id), null);
  assert.strictEqual(await client.call("GETJOB", "NOHANG", "FROM", name), null);
}

async function comeBack(client, name) {
  const id = await client.call("ADDJOB", name, "x", 0);
  await client.call("GETJOB", "FROM", name);
  assert.strictEqual(await client.call("NACK", id), 1);
  assert.strictEqual(await client.call("DEQUEUE", id), 1);
  assert.strictEqual(await client.call("ENQUEUE", id), 1);
  assert.deepStrictEqual(await client.call("GETJOB", "WITHCOUNTERS", "FROM", name), [
    [name, id, "x", "nacks", 1, "additional-deliveries", 1],
  ]);
  assert.strictEqual(await client.call("NACK", id, "DELAY", 60, "REASON", "busy"), 1);
  const shown = paired(await client.call("SHOW", id, "DETAILS"));
  assert.strictEqual(shown.status, "delayed");
  assert.strictEqual(shown.reason, "busy");
  assert.deepStrictEqual(shown["nodes-confirmed"], []);
  assert.strictEqual(await client.call("FASTACK", id), 1);
}

async function lookAround(client, name) {
  const id = await client.call("ADDJOB", name, "x", 0, "ID", "key");
  assert.strictEqual(await client.call("FINDJOB", name, "key"), id);
  assert.deepStrictEqual(await client.call("QPEEK", name, 5), [[name, id, "x"]]);
  const counted = paired(await client.call("QSTAT", name, "DETAILS"));
  assert.strictEqual(counted.len, 1);
  assert.strictEqual(counted.dead, 0);
  assert.deepStrictEqual(counted["import-from"], []);
  const [cursor, names] = await client.call("QSCAN", "BUSYLOOP");
  assert.strictEqual(cursor, "0");
  assert(names.includes(name));
  assert.deepStrictEqual(await client.call("JSCAN", 0, "BUSYLOOP", "QUEUE", name), ["0", [id]]);
  assert.strictEqual(await client.call("PAUSE", name, "all"), "all");
  assert.strictEqual(await client.call("PAUSE", name, "none"), "none");
  assert.strictEqual(await client.call("DELJOB", id), 1);
}

async function dieAndLiveAgain(client, name) {
  await client.call("QSET", name, "MAXDELIVERIES", 1);
  const id = await client.call("ADDJOB", name, "x", 0);
  const pattern = name.replace(/\W/g, "?");
  assert.deepStrictEqual(await client.call("GETJOB", "MATCH", pattern), [[name, id, "x"]]);
  await client.call("NACK", id, "REASON", "broken");
  const [row] = await client.call("QPEEK", name, 1, "STATE", "dead");
  assert.deepStrictEqual(row.slice(-2), ["reason", "broken"]);
  assert.strictEqual(await client.call("WAITJOB", 0, id), 0);
  assert.strictEqual(await client.call("REDRIVE", id), 1);
  assert.strictEqual(await client.call("QREDRIVE", name), 0);
  assert.strictEqual(await client.call("WAITJOB", 1, id), null);
  assert.strictEqual(await client.call("QPURGE", name), 1);
  assert.strictEqual(await client.call("WAITJOB", 0, id), 1);
}

async function describeNode(client) {
  const [version, nodeId, node] = await client.call("HELLO");
  assert.strictEqual(version, 1);
  assert.deepStrictEqual([node[0], node[2], node[3]], [nodeId, port, "1"]);
  assert.strictEqual(await client.cluster("MYID"), nodeId);
  assert.match(await client.cluster("NODES"), /^\w{40} \S* myself \d+ \d+ connected\n$/);
  assert.match(await client.cluster("INFO"), /cluster_state:ok\r\n/);
}

async function refuse(client, name) {
  await client.call("ADDJOB", name, "x", 0);
  await assert.rejects(client.call("ADDJOB", name, "x", 0, "MAXLEN", 1), /^ReplyError: MAXLEN /);
  await assert.rejects(client.call("ADDJOB", name, "x", 0, "REPLICATE", 9), /NOREPL /);
  await assert.rejects(client.call("SHOW", "no-id"), /BADID /);
  await assert.rejects(client.call("WORKING", UNKNOWN), /NOJOB /);
}

async function main() {
  for (const protocol of [undefined, 2, 3]) {
    const client = new Redis(Number(port), "127.0.0.1", protocol ? { protocol } : {});
    const name = `${queue}-${protocol}`;
    await addGetAck(client, name);
    await comeBack(client, name);
    await lookAround(client, name);
    await dieAndLiveAgain(client, name);
    await describeNode(client);
    await refuse(client, name);
    assert.match(await client.client("INFO"), new RegExp(`resp=${protocol || 3} `));
    client.disconnect();
  }
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
