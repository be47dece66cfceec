// Screenshots of pages: node test/shots.mjs FOLDER PAGE.html..., or of the top of one: node test/shots.mjs PICTURE.png PAGE.html
import { chromium } from "playwright-core";
const [folder, ...pages] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
if (folder.endsWith(".png")) {
  const tab = await browser.newPage({ viewport: { width: 1040, height: 1600 }, deviceScaleFactor: 0.8 });
  await tab.goto("file://" + pages[0]);
  await tab.waitForTimeout(300);
  const end = await tab.$eval("#better table", (table) => table.getBoundingClientRect().bottom);
  await tab.screenshot({ path: folder, clip: { x: 0, y: 0, width: 1040, height: Math.ceil(end) + 24 } });
  pages.length = 0;
}
for (const page of pages)
  for (const [width, scheme] of [[1280, "light"], [390, "light"], [1280, "dark"], [390, "dark"]]) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const tab = await context.newPage();
    tab.on("console", (m) => console.log(page, m.text()));
    tab.on("pageerror", (e) => console.log(page, e.message));
    await tab.goto("file://" + page);
    await tab.waitForTimeout(300);
    const side = await tab.evaluate(() => document.documentElement.scrollWidth);
    if (side > width) console.log(page, width, "scrolls to", side);
    await tab.screenshot({ path: `${folder}/${page.split("/").pop().replace(/\.html$/, "")}-${width}-${scheme}.png`, fullPage: true });
    await context.close();
  }
await browser.close();
