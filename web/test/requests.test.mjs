// The page of requests draws what `whylat report --requests` says: every number of the services, of the map of time and
// duration, of the list and of the steps.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { launch, navigate, open } from "./browser.mjs";
import { page as made, recording, whylat } from "./recordings.mjs";

let browser, path, file, report, format;
before(async () => {
  browser = await launch();
  path = recording("golden_requests/recording");
  file = made(path);
  report = JSON.parse(whylat("report", "--requests", "--format", "json", path));
  format = await written();
});
after(() => browser.close());

/** The page's own words for numbers, which its values are compared with. */
async function written() {
  const result = await build({
    entryPoints: [new URL("../src/format.ts", import.meta.url).pathname],
    bundle: true,
    write: false,
    format: "esm",
  });
  return import(`data:text/javascript,${encodeURIComponent(result.outputFiles[0].text)}`);
}

const title = (service) => `${service.name} ${service.role === "client" ? "→" : "at"} ${service.address}`;

const cells = (rows) => rows.evaluateAll((lines) => lines.map((line) => [...line.cells].map((cell) => cell.innerText)));

/** Shares of parts as bars are drawn: the width of each piece. */
const bars = (cell) =>
  cell.locator(".bar i").evaluateAll((pieces) => pieces.map((piece) => [piece.title, Number(piece.style.flexGrow)]));

test("the page opens on the requests, and names the service with the most time", async () => {
  const { page, faults, close } = await open(browser, file);
  const text = whylat("report", path).replaceAll(/\s+/g, " ");
  const headline = await page.locator("h1").innerText();
  assert.ok(text.includes(headline), headline);
  assert.equal(await page.locator("nav a").first().innerText(), "Requests");
  assert.deepEqual(faults, []);
  await close();
});

test("services have the report's numbers and parts", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests" });
  const rows = page.locator("table.services tbody tr");
  const drawn = await cells(rows);
  const { count, duration } = format;
  assert.deepEqual(
    drawn.map((line) => line.slice(0, 5)),
    report.services.map((service) => {
      const { p50, p99, max } = service.duration_ns;
      return [title(service), count(service.requests), ...[p50, p99, max].map(duration)];
    }),
  );
  const text = whylat("report", "--requests", path).replaceAll(/\s+/g, " ");
  for (const [at, service] of report.services.entries()) {
    for (const [column, parts] of [service.parts.all, service.parts.slowest].entries()) {
      const cell = rows.nth(at).locator("td.parts").nth(column);
      const shares = (await bars(cell)).map(([, share]) => share);
      const known = Object.values(parts).sort((a, b) => b - a);
      assert.equal(shares.length, known.length);
      shares.forEach((share, at) => assert.ok(Math.abs(share - known[at]) < 1e-6, `${share} is not ${known[at]}`));
      const words = (await cell.innerText()).trim();
      assert.ok(text.includes(words), words);
    }
  }
  assert.deepEqual(faults, []);
  await close();
});

test("the map counts every request by its start and duration", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests" });
  const panel = page.getByRole("region", { name: "Requests by time and duration" });
  assert.ok((await panel.locator("header").innerText()).includes(`${format.count(report.requests.length)} requests`));
  await panel.getByText("as a table").click();
  // the table is made when the browser says that it is open
  await panel.locator("tbody tr").first().waitFor();
  const drawn = await cells(panel.locator("tbody tr"));
  // Cells of 1 ms, and a quarter of a doubling.
  const expected = new Map();
  for (const request of report.requests) {
    const bin = Math.floor((request.begin_ns - report.host.started_ns) / 1e6);
    const row = Math.floor(Math.log2(request.duration_ns) * 4);
    const range = (from, to) => `${format.duration(from)} to ${format.duration(to)}`;
    const key = `${range(bin * 1e6, (bin + 1) * 1e6)}, ${range(2 ** (row / 4), 2 ** ((row + 1) / 4))}`;
    expected.set(key, (expected.get(key) ?? 0) + 1);
  }
  const binned = drawn.map(([begun, took, number]) => [`${begun}, ${took}`, Number(number)]);
  assert.deepEqual(new Map(binned), expected);
  assert.deepEqual(faults, []);
  await close();
});

test("the list and each request's steps are the report's", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests" });
  const { bytes, count, duration, percent } = format;
  const list = page.getByRole("region", { name: "requests", exact: true }).locator("tbody tr");
  const start = report.host.started_ns;
  assert.deepEqual(
    (await cells(list)).map((line) => line.slice(0, 4)),
    report.requests.map((it) => [it.id, duration(it.duration_ns), duration(it.begin_ns - start), it.service]),
  );
  for (const { id } of report.requests) {
    const [one] = JSON.parse(whylat("report", "--request", id, "--format", "json", path)).requests;
    const text = whylat("report", "--request", id, path).replaceAll(/\s+/g, " ");
    await page.getByRole("button", { name: id, exact: true }).click();
    const panel = page.getByRole("region", { name: `Request ${id}`, exact: true });
    const header = await panel.locator("header").first().innerText();
    const sizes = `request ${bytes(one.request[1] - one.request[0])}, response ${bytes(one.response[1] - one.response[0])}`;
    for (const words of [duration(one.duration_ns), sizes, `${count(one.calls)} call`, one.service]) {
      assert.ok(header.includes(words), `${words} in ${header}`);
    }
    const steps = await cells(panel.locator("tbody tr"));
    assert.deepEqual(
      steps.map((step) => [step[0], step[2]]),
      one.path.map((step) => [duration(step.after_ns), duration(step.ns)]),
    );
    for (const step of steps) {
      assert.ok(text.includes(step[3]), `${step[3]} in ${text}`);
      const where = step[4].split("\n").join(", ");
      assert.ok(text.includes(where), `${where} in ${text}`);
    }
    const places = await panel
      .locator(".track i")
      .evaluateAll((pieces) => pieces.map((piece) => [piece.style.left, piece.style.width].map(Number.parseFloat)));
    one.path.forEach((step, at) => {
      const [left, width] = places[at];
      assert.ok(Math.abs(left - (100 * step.after_ns) / one.duration_ns) < 0.01);
      assert.ok(Math.abs(width - (100 * step.ns) / one.duration_ns) < 0.01);
    });
    const parts = await panel.getByRole("list", { name: "Parts of the request" }).locator("li").allInnerTexts();
    const known = Object.values(one.parts).sort((a, b) => b - a);
    assert.deepEqual(
      parts.map((part) => part.replace(/^[^\d<]* (?=\d)/, "")),
      known.map((ns) => `${duration(ns)} (${percent(ns / one.duration_ns)})`),
    );
  }
  assert.deepEqual(faults, []);
  await close();
});

test("a service and a part are selected, and filter the requests", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests" });
  const list = page.getByRole("region", { name: "requests", exact: true }).locator("tbody tr");
  const client = report.services.find((service) => service.role === "client");
  await page.getByRole("button", { name: title(client), exact: true }).click();
  await page.keyboard.press("f");
  await page.waitForFunction(() => location.hash.includes("in=service"));
  assert.equal(await list.count(), client.requests);
  // What the page counts itself is exact where it holds all requests.
  const drawn = await cells(page.locator("table.services tbody tr"));
  const own = report.requests.filter((request) => request.service === title(client));
  const longest = Math.max(...own.map((request) => request.duration_ns));
  assert.deepEqual(drawn[0].slice(0, 5), [title(client), "1", ...Array(3).fill(format.duration(longest))]);
  await navigate(page, () => page.keyboard.press("b"));
  const mostly = report.requests.filter((request) => {
    const [[first]] = Object.entries(request.parts).sort((a, b) => b[1] - a[1]);
    return first === "disk";
  });
  await page.getByRole("list", { name: "Parts", exact: true }).getByRole("button", { name: "disk" }).click();
  await page.keyboard.press("x");
  await page.waitForFunction(() => location.hash.includes("out=part"));
  assert.equal(await list.count(), report.requests.length - mostly.length);
  assert.deepEqual(faults, []);
  await close();
});

test("a step leads to the threads at that time", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests&request=101:q40" });
  const [one] = JSON.parse(whylat("report", "--request", "101:q40", "--format", "json", path)).requests;
  const step = one.path.at(-1);
  await page.getByRole("region", { name: "Request 101:q40", exact: true }).locator("tbody tr").last().click();
  await page.waitForFunction(() => location.hash.includes("page=waits"));
  const [, from, to] = (await page.evaluate(() => decodeURIComponent(location.hash))).match(/select=time:(\d+):(\d+)/);
  const begin = one.begin_ns - report.host.started_ns + step.after_ns;
  assert.deepEqual([Number(from), Number(to)], [begin, begin + step.ns]);
  assert.deepEqual(faults, []);
  await close();
});

test("a request that the page lacks says so", async () => {
  const { page, faults, close } = await open(browser, file, { hash: "#page=requests&request=9:q1" });
  assert.match(await page.locator("main").innerText(), /It is not in this page/);
  assert.deepEqual(faults, []);
  await close();
});

test("requests over UNIX sockets have services, too", async () => {
  const unix = recording("golden_unix/recording");
  const known = JSON.parse(whylat("report", "--requests", "--format", "json", unix));
  const { page, faults, close } = await open(browser, made(unix), { hash: "#page=requests" });
  const drawn = await cells(page.locator("table.services tbody tr"));
  assert.deepEqual(
    drawn.map(([name, number]) => [name, number]),
    known.services.map((service) => [title(service), String(service.requests)]),
  );
  assert.ok(drawn.some(([name]) => name === "nginx → unix:/run/shop.sock"));
  assert.deepEqual(faults, []);
  await close();
});
