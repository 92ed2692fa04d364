// A server in Node.js, with one event loop. Its log has a line a request: the client's port, offset, CPU time and time asleep,
// each at least and at most.
//
// usage: node server.js PORT LOG
const fs = require('fs');
const net = require('net');

const REQUEST = 16;
const RESPONSE = Buffer.alloc(64);
const requests = [];
let lastCpu = process.cpuUsage();

/** Returns the CPU time of the process since then, µs. Of a thread Node.js 20 does not say it. */
function cpuTime(since) {
  const { user, system } = process.cpuUsage(since);
  return user + system;
}

/** Uses that much CPU time. */
function compute(us) {
  const since = process.cpuUsage();
  while (cpuTime(since) < us);
}

/** Returns the CPU time since then, and since this was called before, ns: what the loop used in between may be of either. */
function used(since) {
  const least = cpuTime(since) * 1000;
  const most = cpuTime(lastCpu) * 1000;
  lastCpu = process.cpuUsage();
  return [least, most];
}

/**
 * Returns a function that returns how long a timer slept at least and at most, ns. It is due whole milliseconds of the loop's
 * clock after its start. The loop reads that clock now and then: so a timer may be due sooner than it was asked.
 */
function sleeper(timer, ms) {
  const start = process.hrtime.bigint();
  const startMs = BigInt(timer._idleStart);
  const zero = start / 1_000_000n - startMs;
  if (loopZero === undefined || zero < loopZero) loopZero = zero;
  return () => {
    const passed = Number(process.hrtime.bigint() - start);
    const due = () => Number((startMs + BigInt(ms) + loopZero) * 1_000_000n - start);
    return () => [Math.max(0, Math.min(due(), passed)), passed];
  };
}

/** Zero of the loop's clock, ms: no timer starts before the loop has read it, so that it is the least of all differences. */
let loopZero;

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
      const line = ([port, at, cpu, asleep]) => [port, at, ...cpu, ...asleep()].join(' ') + '\n';
      fs.writeFileSync(process.argv[3], requests.map(line).join(''));
      process.exit(0);
    }
    const us = Number(request.slice(1));
    const begin = process.cpuUsage();
    const answer = (since, before, asleep) => {
      socket.write(RESPONSE);
      const cpu = used(since).map((ns, at) => ns + before[at]);
      requests.push([socket.remotePort, offset, cpu, asleep]);
      offset += REQUEST;
    };
    if (request[0] !== 's') {
      compute(us);
      answer(begin, [0, 0], () => [0, 0]);
      return;
    }
    const timer = setTimeout(() => answer(process.cpuUsage(), before, slept()), us / 1000);
    const slept = sleeper(timer, us / 1000);
    const before = used(begin);
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
