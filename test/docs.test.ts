/** The documentation site: it builds, and its pages look right in a browser. Screenshots are in build/test-results. */
import assert from 'node:assert/strict';
import { createReadStream, existsSync, mkdirSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
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

  for (const [screen, width, colorScheme] of [
    ['wide', 1280, 'light'],
    ['narrow', 360, 'dark'],
  ] as const) {
    it(`fits a ${screen} screen, ${colorScheme}, and its pages report no error`, async function () {
      const executablePath = BROWSERS.find(existsSync);
      if (executablePath === undefined) skip(this, 'chromium-headless-shell is not installed');
      server ??= await serve();
      browser ??= await chromium.launch({ executablePath, args: ['--no-sandbox'] });
      const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
      const complaints: string[] = [];
      const page = await context.newPage();
      page.on('console', (message) => {
        if (message.type() === 'error') complaints.push(`${page.url()}: ${message.text()}`);
      });
      page.on('pageerror', (error) => complaints.push(`${page.url()}: ${error.message}`));
      page.on('requestfailed', (request) => complaints.push(`${page.url()}: ${request.url()} failed`));
      mkdirSync(RESULTS, { recursive: true });
      for (const path of PAGES) {
        await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`);
        // In the page: the width that its content needs, and whether its background is dark.
        const [needed, red] = await page.evaluate<[number, number]>(
          '[document.documentElement.scrollWidth, Number(/\\d+/.exec(getComputedStyle(document.body).backgroundColor)[0])]',
        );
        await page.screenshot({ path: join(RESULTS, `site-${screen}-${path.replaceAll('/', '-')}.png`) });
        assert(needed <= width, `${path} is ${needed} pixels wide`);
        assert.equal(red < 128, colorScheme === 'dark', `${path}: the background's red is ${red}`);
      }
      assert.deepEqual(complaints, []);
      await context.close();
    });
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
      file.once('error', () => response.writeHead(path.endsWith('favicon.ico') ? 204 : 404).end());
      file.pipe(response);
    });
    await new Promise<void>((done) => made.listen(0, '127.0.0.1', done));
    return made;
  }
});
