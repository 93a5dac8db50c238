// Looks at pages in a real Chromium, as people do: wide and on a phone, light and dark, without scripts.
// Arguments: the folder for screenshots, then addresses. Prints what is wrong as JSON: an empty list where nothing is.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.env.NODE_MODULES, 'x.js'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// Words of pictures stay inside the picture, and inside the shape that they name; of the drawings for wide and for narrow
// windows one is to be seen.
function lookAtPictures() {
  const found = [];
  const seen = [...document.querySelectorAll('svg.picture')].filter((svg) => svg.getBoundingClientRect().width > 0);
  const titles = seen.map((svg) => svg.querySelector('title').textContent);
  if (new Set(titles).size < titles.length) found.push(`a picture is to be seen twice: ${titles}`);
  const reaches = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
  for (const svg of seen) {
    for (const text of svg.querySelectorAll('text')) {
      const area = text.parentElement.querySelector(':scope > .area') ?? svg;
      if (reaches(text.getBoundingClientRect(), area.getBoundingClientRect())) found.push(`"${text.textContent}" reaches beyond its ${area.tagName}`);
    }
  }
  return found;
}

const [folder, ...addresses] = process.argv.slice(2);
const wrong = [];
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
});
for (const [n, address] of addresses.entries()) {
  for (const colorScheme of ['light', 'dark']) {
    for (const [name, viewport] of [['wide', { width: 1200, height: 900 }], ['phone', { width: 390, height: 844 }]]) {
      const at = `${address} ${colorScheme} ${name}`;
      const page = await browser.newPage({ viewport, colorScheme });
      page.on('console', (message) => {
        if (message.type() === 'error') wrong.push(`${at}: ${message.text()}`);
      });
      page.on('requestfailed', (request) => wrong.push(`${at}: ${request.url()} failed`));
      const response = await page.goto(address, { waitUntil: 'load' });
      if (response.status() !== 200) wrong.push(`${at}: status ${response.status()}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) wrong.push(`${at}: it is ${wide} pixels wider than the window`);
      const styled = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      if (styled === 'rgba(0, 0, 0, 0)') wrong.push(`${at}: it has no style`);
      const pictures = await page.evaluate(lookAtPictures);
      for (const found of pictures) wrong.push(`${at}: ${found}`);
      await page.screenshot({ path: join(folder, `${n}-${colorScheme}-${name}.png`), fullPage: true });
      await page.close();
      // The policy of the pages lets no script in, so the judge comes with one of its own.
      const judged = await browser.newContext({ viewport, colorScheme, bypassCSP: true });
      const copy = await judged.newPage();
      await copy.goto(address, { waitUntil: 'load' });
      await copy.addScriptTag({ content: axe });
      const { violations } = await copy.evaluate(() => axe.run());
      for (const found of violations) wrong.push(`${at}: ${found.id}: ${found.help}: ${found.nodes[0].html}`);
      await judged.close();
    }
  }
}
await browser.close();
console.log(JSON.stringify(wrong));
