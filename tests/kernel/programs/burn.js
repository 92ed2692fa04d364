// A server that computes in burn() for each byte that comes, some 60 ms.
const net = require("net");

function burn() {
  let sum = 0;
  for (let i = 0; i < 2_500_000; i++) sum = (sum + i * i) % 1_000_003;
  return sum;
}

const server = net.createServer((sock) => {
  sock.on("data", () => {
    burn();
    sock.write("!");
  });
  sock.on("close", () => server.close());
  sock.on("error", () => server.close());
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
