// ioredis logs in with the password it is given, and again after the connection was lost.
//
// Called by  test_ioredis.py, with the port and the password.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

const [port, password] = process.argv.slice(2);

async function main() {
  const client = new Redis(Number(port), "127.0.0.1", { password });
  const other = new Redis(Number(port), "127.0.0.1", { username: "default", password });
  const id = await client.client("ID");

  // A request that is on its way when the connection ends would be answered by a reset.
  const isLost = new Promise((resolve) => client.once("close", resolve));
  await other.client("KILL", "ID", id);
  await isLost;

  assert.notStrictEqual(await client.client("ID"), id);
  client.disconnect();
  other.disconnect();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
