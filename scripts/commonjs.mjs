/**
 * Makes CommonJS of chunks that esbuild has written as ES modules, whose form is always the same: imports first, one
 * list of exports last. What it finds in another form ends the build.
 */
import { Script } from 'node:vm';

const IMPORT = /^import (?:([^";]+) from )?"([^"]+)";\n/gm;
const EXPORTS = /^export \{\n([^}]*)\};\n/m;
/** What a file of CommonJS is given. The compiler refuses another `const` of that name, but no other `var`. */
const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];
const GIVEN = new RegExp(`^(?:async )?(?:var|let|const|class|function\\*?) (?:${PARAMETERS.join('|')})\\b`, 'm');

/**
 * What esbuild writes for `import.meta`'s properties: it knows code from text, which speaks of `import.meta.url`, too.
 * In ES modules {@link esModule} turns them back.
 */
const URL_OF_MODULE = '__urlOfModule';
const DIRNAME_OF_MODULE = '__dirnameOfModule';
export const DEFINE = { 'import.meta.url': URL_OF_MODULE, 'import.meta.dirname': DIRNAME_OF_MODULE };

/** The text of a file that stays an ES module. */
export function esModule(path, text) {
  // Node.js 20.3 has no such property.
  if (text.includes(DIRNAME_OF_MODULE)) throw new Error(`${path} needs import.meta.dirname, and is no CommonJS`);
  return text.replaceAll(URL_OF_MODULE, 'import.meta.url');
}

/** `{ a as b }` of imports and exports, as pairs. */
const pairs = (list) =>
  list
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .map((each) => each.split(' as '));

/**
 * @param text a chunk, or the file of an entry that exports nothing
 * @param chunks names of the other chunks that become CommonJS, without `.js`
 * @returns the text of the file, and what it exports
 */
export function commonJs(path, text, chunks) {
  const wrong = (what) => new Error(`${path}: ${what}, which scripts/commonjs.mjs does not know`);
  if (GIVEN.test(text)) throw wrong(`declares ${GIVEN.exec(text)[0]}`);
  const exported = pairs(EXPORTS.exec(text)?.[1] ?? '');
  const body = text
    .replace(EXPORTS, '')
    .replace(IMPORT, (_, what, from) => {
      const name = /^\.\/(.*)\.js$/.exec(from)?.[1];
      if (name !== undefined && !chunks.includes(name)) throw wrong(`imports ${from}`);
      // Nothing is left of its use below.
      if (/^\{ createRequire(?: as \w+)? \}$/.test(what)) return '';
      const required = name === undefined ? `require("${from}")` : `require("./code.cjs").load("./${name}.cjs")`;
      if (what === undefined) return `${required};\n`;
      if (/^\w+$/.test(what)) return `const ${what} = ${required};\n`;
      if (!/^\{[^}]*\}$/.test(what)) throw wrong(`imports ${what}`);
      const names = pairs(what.slice(1, -1)).map(([theirs, own]) => (own === undefined ? theirs : `${theirs}: ${own}`));
      return `const { ${names.join(', ')} } = ${required};\n`;
    })
    .replace(new RegExp(`\\bcreateRequire\\d*\\(${URL_OF_MODULE}\\)`, 'g'), 'require')
    .replaceAll(DIRNAME_OF_MODULE, '__dirname')
    .replace(/\bimport\("(\.\/[\w-]+\.js)"\)/g, 'require("./code.cjs").importFrom("$1")');
  if (body.includes(URL_OF_MODULE)) throw wrong('needs import.meta.url');
  for (const [own] of exported) {
    const later = new RegExp(`^(?!.*(?:var ${own}|\\(${own} = \\{\\}\\)))\\s*${own} (?:=|\\S+=) .*`, 'm').exec(body);
    // Whoever imports it would have what it was.
    if (later !== null) throw wrong(`exports what it assigns again, ${later[0].trim()}`);
  }
  const exports = exported.map(([own, name]) => (name === undefined ? own : `${name}: ${own}`));
  const script = `"use strict";\n${body}module.exports = { ${exports.join(', ')} };\n`;
  new Script(`(function (${PARAMETERS.join(', ')}) { ${script} })`, { filename: path });
  return { script, names: exported.map(([own, name]) => name ?? own) };
}

/** The chunk as ES modules import it. */
export function facade(name, names) {
  return `import { createRequire } from "node:module";
const { ${names.join(', ')} } = createRequire(import.meta.url)("./code.cjs").load("./${name}.cjs");
export { ${names.join(', ')} };
`;
}
