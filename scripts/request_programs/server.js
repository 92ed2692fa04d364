// A server in Node.js, with one event loop. Its log has a line a request: the client's port, offset, CPU time, time asleep.
//
// usage: node server.js PORT LOG
const fs = require('fs');
const net = require('net');

const REQUEST = 16;
const RESPONSE = Buffer.alloc(64);
const lines = [];

/** Returns the CPU time of the process since then, µs. Of a thread Node.js 20 does not say it. */
function cpuTime(since) {
  const { user, system } = process.cpuUsage(since);
  return user + system;
}

/** Uses that much CPU time; returns how much it was, ns. */
function compute(us) {
  const since = process.cpuUsage();
  while (cpuTime(since) < us);
  return cpuTime(since) * 1000;
}

net.createServer((socket) => {
  let data = Buffer.alloc(0);
  let offset = 0;
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (more) => {
    data = Buffer.concat([data, more]);
    if (data.length < REQUEST) return;
    const request = data.subarray(0, REQUEST).toString();
    data = data.subarray(REQUEST);
    if (request[0] === 'q') {
      fs.writeFileSync(process.argv[3], lines.join(''));
      process.exit(0);
    }
    const us = Number(request.slice(1));
    const answer = (cpu, asleep) => {
      lines.push(`${socket.remotePort} ${offset} ${cpu} ${asleep}\n`);
      offset += REQUEST;
      socket.write(RESPONSE);
    };
    if (request[0] === 's') {
      setTimeout(() => answer(0, us * 1000), us / 1000);
    } else {
      answer(compute(us), 0);
    }
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
