#!/usr/bin/env node
/**
 * `npm run docs`: makes build/site, a folder of static files, from the documents and the docstrings. TypeDoc renders
 * both and rewrites the links between them; nothing is fetched. Warnings of TypeDoc fail the build, and so does a link
 * of the result that leads nowhere.
 */
import { existsSync, readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { Application, Converter } from 'typedoc';
import { ROOT } from './test/process.mjs';

const SITE = join(ROOT, 'build/site');

/** The documents, in the groups and the order of the site's navigation. */
const GROUPS = {
  'To begin with': ['docs/tutorial.md', 'docs/install.md', 'docs/api.md', 'docs/mpi.md', 'examples/README.md'],
  Guides: ['docs/*.md', 'docs/guides/*.md', 'docs/jobs/*.md'],
  'How it works': ['ARCHITECTURE.md', 'docs/architecture/*.md'],
  Figures: ['BENCHMARKS.md', 'docs/figures/README.md', 'examples/*/README.md'],
  Project: ['CONTRIBUTING.md', 'docs/testing.md', 'CHANGELOG.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'],
};
/** Each document with its group. A document that is named stands where it is named, not where a pattern matches it. */
const named = Object.values(GROUPS)
  .flat()
  .filter((path) => !path.includes('*'));
const groupOf = new Map();
for (const [group, patterns] of Object.entries(GROUPS))
  for (const pattern of patterns)
    for (const path of matching(pattern)) if (path === pattern || !named.includes(path)) groupOf.set(path, group);

const app = await Application.bootstrap({
  name: 'node-nbc',
  entryPoints: ['src/index.ts', 'src/schedules/index.ts'].map((file) => join(ROOT, file)),
  tsconfig: join(ROOT, 'tsconfig.json'),
  readme: join(ROOT, 'README.md'),
  projectDocuments: [...groupOf.keys()].map((path) => join(ROOT, path)),
  basePath: ROOT,
  out: SITE,
  customCss: join(ROOT, 'scripts/docs.css'),
  favicon: join(ROOT, 'scripts/docs-icon.svg'),
  cleanOutputDir: true,
  excludePrivate: true,
  excludeProtected: true,
  excludeInternal: true,
  disableSources: true,
  searchInDocuments: true,
  sort: ['source-order'],
  sortEntryPoints: false,
  groupOrder: [...Object.keys(GROUPS), '*'],
  navigation: { includeGroups: true },
  // The types of arguments that programs do not name themselves are left out of the reference.
  validation: { notExported: false },
  treatWarningsAsErrors: true,
});
app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_, document) => {
  const path = relative(ROOT, document.project.files.getReflectionPath(document));
  document.frontmatter.group = groupOf.get(path);
  document.name = /^# (.*)$/m.exec(readFileSync(join(ROOT, path), 'utf8'))[1].replaceAll('`', '');
  showOutputs(document.content);
});
const project = await app.convert();
showOutputs(project?.readme ?? []);
if (project !== undefined) await app.generateOutputs(project);
if (project === undefined || app.logger.hasErrors() || app.logger.hasWarnings()) process.exit(1);

showSources();
const dead = deadLinks();
for (const line of dead) console.error(line);
if (dead.length > 0) process.exit(1);

/** A block without a language is what a program prints. TypeDoc would colour it as TypeScript. */
function showOutputs(parts) {
  for (const part of parts) if (part.kind === 'code') part.text = part.text.replace(/^```\n/, '```text\n');
}

/** The files that a pattern means, sorted. A star stands for a part of one name. */
function matching(pattern) {
  if (!pattern.includes('*')) return [pattern];
  const [folder] = pattern.split('*');
  const expression = new RegExp(`^${pattern.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`);
  const files = readdirSync(join(ROOT, folder), { recursive: true }).map((file) => `${folder}${file}`);
  return files.filter((file) => expression.test(file)).sort();
}

/** Web servers take .ts for a video: sources that documents link to become .txt. */
function showSources() {
  const media = join(SITE, 'media');
  const sources = readdirSync(media).filter((name) => name.endsWith('.ts'));
  for (const name of sources) renameSync(join(media, name), join(media, `${name}.txt`));
  for (const page of pages()) {
    const text = readFileSync(page, 'utf8');
    const changed = text.replaceAll(/(href="[^":]*media\/[^"]*\.ts)"/g, '$1.txt"');
    if (changed !== text) writeFileSync(page, changed);
  }
}

function pages() {
  return readdirSync(SITE, { recursive: true })
    .filter((path) => path.endsWith('.html'))
    .map((path) => join(SITE, path));
}

/** "page: link" for every link to a file, or to a place in a page, that does not exist. */
function deadLinks() {
  const places = new Map(
    pages().map((page) => {
      const text = readFileSync(page, 'utf8');
      return [page, { text, ids: new Set([...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)) }];
    }),
  );
  const found = [];
  for (const [page, { text }] of places) {
    for (const [, link] of text.matchAll(/ (?:href|src)="([^"]*)"/g)) {
      if (/^(\w+:|#$)/.test(link) || link === '') continue;
      const [path, hash] = link.split('#').map(decodeURIComponent);
      const target = path === '' ? page : resolve(dirname(page), path);
      const ids = hash ? places.get(target)?.ids : undefined;
      const isThere = ids?.has(hash) ?? existsSync(target);
      if (!isThere) found.push(`${relative(SITE, page)}: ${link} leads nowhere`);
    }
  }
  return found;
}
