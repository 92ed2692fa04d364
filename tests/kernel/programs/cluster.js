// Two workers of the `cluster` module, which ask another server for each answer.
const cluster = require("cluster");
const http = require("http");

function answer(_, response) {
  const asked = { host: "127.0.0.1", port: UPSTREAM, agent: false };
  http.get(asked, (upstream) => {
    const parts = [];
    upstream.on("data", (part) => parts.push(part));
    upstream.on("end", () => {
      const text = Buffer.concat(parts);
      response.writeHead(200, { "Content-Length": text.length });
      response.end(text);
    });
  });
}

if (cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  http.createServer(answer).listen(PORT, "127.0.0.1");
}
