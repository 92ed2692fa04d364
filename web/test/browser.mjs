// A browser for the tests: Debian's Chromium, driven without a network, that fails a test for any error on the console,
// any breach of the page's own security policy, and any request that leaves the file.
import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** Ends what hangs; a busy machine takes long, too. */
const MOST_MS = 300_000;

const EXECUTABLE = process.env.WHYLAT_CHROMIUM ?? "/usr/bin/chromium";

export async function launch() {
  if (!existsSync(EXECUTABLE)) {
    throw new Error(`${EXECUTABLE} is not there\nhint: apt-get install chromium, or set WHYLAT_CHROMIUM`);
  }
  return chromium.launch({
    executablePath: EXECUTABLE,
    // As root there is no sandbox; software rendering is what a machine without a graphics card does.
    args: ["--no-sandbox", "--disable-accelerated-2d-canvas", "--disable-gpu"],
  });
}

/** Opens a page of the viewer; `script`: what runs before its own. `faults` are collected until the test looks at them. */
export async function open(browser, file, { hash = "", width = 1280, height = 720, theme = "light", script } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(MOST_MS);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error.message}`));
  const url = pathToFileURL(file).href;
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:") && !request.url().startsWith("blob:")) {
      faults.push(`request: ${request.url()}`);
    }
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  if (script) await page.addInitScript(script);
  await page.goto(url + hash);
  await page.waitForSelector("main, [role=alert]");
  return { page, faults, close: () => context.close() };
}

/** Does what changes the fragment, as a link or Back does, and waits until the page has drawn what it then shows. */
export async function navigate(page, act) {
  await page.evaluate(() => {
    // after the page's own listener, which draws
    window.navigated = new Promise((done) => addEventListener("hashchange", () => done(), { once: true }));
  });
  await act();
  await page.evaluate(() => window.navigated);
}
