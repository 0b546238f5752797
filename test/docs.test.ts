/** The documentation site: it builds, and its pages look right in a browser. Screenshots are in build/test-results. */
import assert from 'node:assert/strict';
import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { skip } from './helpers.js';
import { run } from './support/commands.js';
import { ROOT } from './support/launch.js';
import { LIMIT_S } from './support/limit.js';

const SITE = join(ROOT, 'build/site');
const RESULTS = join(ROOT, 'build/test-results');
const BROWSERS = ['chromium-headless-shell', 'chromium'].map((name) => `/usr/bin/${name}`);
const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
const PAGES = [
  'index.html',
  'documents/Tutorial__a_stencil_whose_communication_is_hidden.html',
  'documents/From_MPI_to_node-nbc.html',
  'documents/Algorithms.html',
  'documents/Benchmarks.html',
  'classes/node-nbc.Communicator.html',
];

describe('the documentation site', () => {
  let server: Server | undefined;
  let browser: Browser | undefined;

  after(async () => {
    await browser?.close();
    server?.close();
  });

  it('builds, and no link leads nowhere', async () => {
    const { code, stdout, stderr } = await run(
      process.execPath,
      ['scripts/docs.mjs'],
      {},
      { cwd: ROOT, limitS: LIMIT_S.long },
    );
    assert.equal(code, 0, stdout + stderr);
  });

  const screens = [
    ['wide', 1280],
    ['narrow', 360],
  ] as const;
  for (const [screen, width] of screens) {
    for (const colorScheme of ['light', 'dark'] as const) {
      it(`fits a ${screen} screen, ${colorScheme}, with all that its pages refer to, and they report no error`, async function () {
        const executablePath = BROWSERS.find(existsSync);
        if (executablePath === undefined) skip(this, 'chromium-headless-shell is not installed');
        server ??= await serve();
        browser ??= await chromium.launch({ executablePath, args: ['--no-sandbox'] });
        const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
        const page = await context.newPage();
        const complaints = complaintsOf(page);
        mkdirSync(RESULTS, { recursive: true });
        for (const path of PAGES) {
          await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`);
          await page.screenshot({
            path: join(RESULTS, `site-${screen}-${colorScheme}-${path.replaceAll('/', '-')}.png`),
          });
          assertFits(path, await page.evaluate<Look>(LOOK), width, colorScheme);
        }
        assert.deepEqual(complaints, []);
        await context.close();
      });
    }
  }

  /** The site on a port of this machine: a browser does not load a page's icons from a file. */
  async function serve(): Promise<Server> {
    const made = createServer((request, response) => {
      const path = join(SITE, new URL(request.url!, 'http://site').pathname);
      response.setHeader(
        'content-type',
        path.endsWith('.svg') ? 'image/svg+xml' : (TYPES[extname(path)] ?? 'text/plain'),
      );
      const file = createReadStream(path);
      file.once('error', () => response.writeHead(404).end());
      file.pipe(response);
    });
    await new Promise<void>((done) => made.listen(0, '127.0.0.1', done));
    return made;
  }
});

/** What a page looks like. */
interface Look {
  /** That its content needs. */
  width: number;
  /** Of the background, 0 to 255. */
  red: number;
  /** That are not shown. */
  images: string[];
  icon: boolean;
}

/** Runs in the page. */
const LOOK = `({
  width: document.documentElement.scrollWidth,
  red: Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0]),
  images: [...document.images].filter((image) => image.naturalWidth === 0).map((image) => image.src),
  icon: document.querySelector('link[rel=icon]') !== null,
})`;

function assertFits(path: string, look: Look, width: number, colorScheme: 'light' | 'dark'): void {
  assert(look.width <= width, `${path} is ${look.width} pixels wide`);
  assert.equal(look.red < 128, colorScheme === 'dark', `${path}: the background's red is ${look.red}`);
  assert.deepEqual(look.images, [], path);
  // Without, a browser asks for /favicon.ico, which no server of a folder has.
  assert(look.icon, `${path} has no icon`);
}

/** Fills with what goes wrong in a page. */
function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${page.url()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`));
  page.on('requestfailed', (request) => complaints.push(`${page.url()}: ${request.url()} failed`));
  page.on('response', (response) => {
    if (response.status() >= 400) complaints.push(`${page.url()}: ${response.url()} is ${response.status()}`);
  });
  return complaints;
}
