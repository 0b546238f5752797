#!/usr/bin/env node
/**
 * `npm run docs:surface`: writes docs/surface.d.ts, what programs can import from node-nbc and node-nbc/schedules. It
 * has every declaration that the entry points export, and the types which these name, without comments and without what
 * is private. test/surface.test.ts compares it with dist/, so that a change of the public surface is seen in a diff.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import { build } from './build.mjs';
import { ROOT } from './test/process.mjs';

export const FILE = join(ROOT, 'docs/surface.d.ts');

/** The text of docs/surface.d.ts, from what was built in dist/. */
export async function surface() {
  const entries = Object.entries(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).exports)
    .filter(([, { types }]) => types !== undefined)
    .map(([path, { types }]) => [path.replace(/^\./, 'node-nbc'), join(ROOT, types)]);
  const program = ts.createProgram(
    entries.map(([, file]) => file),
    { module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022, types: ['node'], skipLibCheck: true },
  );
  const checker = program.getTypeChecker();
  const resolved = (symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);

  const printed = new Set();
  const text = [];
  for (const [name, file] of entries) {
    const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file)));
    text.push(`// ${name}\n`);
    for (const symbol of exported.toSorted(byName)) {
      const original = resolved(symbol);
      if (printed.has(original)) text.push(`export { ${symbol.name} };\n`);
      else if (original.name === symbol.name) text.push(print(original, 'export '));
      else text.push(`${print(original, '')}export { ${original.name} as ${symbol.name} };\n`);
    }
  }
  // A walk through a set also meets what is added on the way.
  const named = new Set(printed);
  for (const symbol of named) for (const next of typesOf(symbol)) named.add(next);
  const others = [...named].filter((symbol) => !printed.has(symbol));
  text.push(
    '// Not exported, and named by the types above.\n',
    ...others.toSorted(byName).map((one) => print(one, '')),
  );
  return await format(text.join('\n'), { ...(await resolveConfig(FILE)), filepath: FILE });

  /** All declarations of a symbol, each behind `prefix`. */
  function print(symbol, prefix) {
    printed.add(symbol);
    const printer = ts.createPrinter({ removeComments: true });
    return symbol.declarations
      .map((declaration) => {
        const { transformed } = ts.transform(statementOf(declaration), [withoutPrivate]);
        const code = printer.printNode(ts.EmitHint.Unspecified, transformed[0], declaration.getSourceFile());
        return `${prefix}${code.replace(/^(export |default |declare )*/, '')}\n`;
      })
      .join('');
  }

  /** The symbols of dist/ that the public part of a symbol's declarations names. */
  function typesOf(symbol) {
    const found = [];
    const visit = (node) => {
      if (isPrivate(node)) return;
      if (ts.isIdentifier(node)) {
        const target = checker.getSymbolAtLocation(node);
        const original = target && resolved(target);
        if (original !== symbol && original?.declarations?.some(isOfLibrary)) found.push(original);
      }
      ts.forEachChild(node, visit);
    };
    for (const declaration of symbol.declarations) visit(declaration);
    return found;
  }
}

const byName = (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name));

/** `const X: T` is a part of a statement; other declarations are statements. */
const statementOf = (node) => (ts.isVariableDeclaration(node) ? node.parent.parent : node);

/** A declaration at the top of a file of dist/: not a member, a parameter or a type parameter. */
function isOfLibrary(declaration) {
  const file = declaration.getSourceFile();
  return statementOf(declaration).parent === file && file.fileName.startsWith(join(ROOT, 'dist/'));
}

/** Members that programs cannot use. */
function isPrivate(node) {
  return (
    ts.canHaveModifiers(node) &&
    ts
      .getModifiers(node)
      ?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword || kind === ts.SyntaxKind.ProtectedKeyword)
  );
}

/** TypeScript writes its members in an order that depends on what it compiled before. */
const isUnionOfStrings = (node) =>
  ts.isUnionTypeNode(node) &&
  node.types.every((type) => ts.isLiteralTypeNode(type) && ts.isStringLiteral(type.literal));

const byText = (a, b) => (a.literal.text < b.literal.text ? -1 : 1);

/** Leaves out private members, and keeps that there is a constructor which programs cannot call. Sorts unions. */
const withoutPrivate = (context) => (root) => {
  const visit = (node) => {
    if (isUnionOfStrings(node)) return ts.factory.createUnionTypeNode(node.types.toSorted(byText));
    if (!isPrivate(node)) return ts.visitEachChild(node, visit, context);
    if (!ts.isConstructorDeclaration(node)) return undefined;
    return ts.factory.updateConstructorDeclaration(node, node.modifiers, [], undefined);
  };
  return ts.visitNode(root, visit);
};

if (process.argv[1] === import.meta.filename) {
  build();
  writeFileSync(FILE, await surface());
}
