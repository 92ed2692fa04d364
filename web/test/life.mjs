// What is drawn of the life of a message: the canvas is asked, not the code that draws on it.

/** Before a page's own script: notes what is drawn on each canvas since it was last made. */
export function noted() {
  const context = CanvasRenderingContext2D.prototype;
  const notes = new WeakMap();
  window.drawnOn = (canvas) => notes.get(canvas) ?? [];
  const { setTransform } = context;
  context.setTransform = function (...given) {
    notes.set(this.canvas, []);
    return setTransform.apply(this, given);
  };
  for (const name of ["fillRect", "strokeRect", "moveTo"]) {
    const own = context[name];
    context[name] = function (...given) {
      notes.get(this.canvas)?.push({ name, given, isDashed: this.getLineDash().length > 0 });
      return own.apply(this, given);
    };
  }
}

/** Parts, as boxes with what the pointer says of each; steps, as lines and by name; and what is outlined. */
export async function lifeOf(page) {
  const panel = page.locator(".panel.life");
  const canvas = panel.locator("canvas[style*=height]").first();
  await canvas.waitFor();
  const drawn = await canvas.evaluate((it) => window.drawnOn(it));
  const area = await canvas.boundingBox();
  const boxes = [];
  for (const { name, given } of drawn) {
    const [left, top, width, height] = given;
    if (name !== "fillRect" || top !== 0 || height !== 16) continue;
    boxes.push({ left, width, tip: null });
    const [from, to] = [Math.max(left, 8), Math.min(left + width, area.width - 8)];
    // The pointer is on whole pixels.
    const middle = Math.round(area.x + (from + to) / 2) - area.x;
    if (middle - 1 < from || middle + 1 > to) continue;
    await page.mouse.move(area.x + middle, area.y + 6);
    boxes[boxes.length - 1].tip = (await page.locator(".tip").innerText()).split("\n")[0];
  }
  await panel.getByText("as a table").first().click();
  const table = panel.locator("details[open] table").first();
  await table.waitFor();
  const rows = await table.locator("tbody tr").all();
  const cells = await Promise.all(rows.map((row) => row.locator("td").allInnerTexts()));
  const outlines = drawn.filter(({ name }) => name === "strokeRect");
  const lines = drawn.filter(({ name, given, isDashed }) => name === "moveTo" && isDashed && given[1] === 0);
  return {
    boxes,
    lines: lines.map(({ given }) => given[0]),
    outlined: outlines.length,
    steps: cells.filter((row) => row[2] === "step").map(([after, , , name]) => ({ after, name })),
    parts: cells.filter((row) => row[2] === "part").map(([, length, , name]) => `${name} ${length}`),
    spans: cells.filter((row) => row[2] !== "step" && row[2] !== "part"),
  };
}
