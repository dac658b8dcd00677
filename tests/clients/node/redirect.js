// Connections that a suite opens to Disque's own port reach the broker under test instead.
//
// Called by  programs.py, before mocha; BROKER_PORT is the broker's port.
"use strict";

const net = require("net");

const DISQUE_PORT = 7711;
const createConnection = net.createConnection;

net.createConnection = (options, ...rest) => {
  const port = options.port === DISQUE_PORT ? Number(process.env.BROKER_PORT) : options.port;
  return createConnection({ ...options, port }, ...rest);
};
