// Makes native/engine/encoding.h from src/schedules/encoding.ts, and native/counters.h from src/counters.ts:
// `npm run build`, then `node scripts/headers.mjs`. Tests compare what is in the repository with what this makes.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// `operator` is a word of C++.
const snake = (name) => (name === 'operator' ? 'op' : name.replace(/[A-Z]/g, (letter) => '_' + letter.toLowerCase()));

function enumeration(name, values, underlying = 'uint32_t') {
  const entries = Object.entries(values).map(([key, value]) => `  ${key.toLowerCase()} = ${value},`);
  return [`enum class ${name} : ${underlying} {`, ...entries, '};'].join('\n');
}

function structure(name, fields, words) {
  const members = Object.entries(fields).map(([field, type]) => {
    return `  ${words[type] === 2 ? 'uint64_t' : 'uint32_t'} ${snake(field)} = 0;`;
  });
  const visits = Object.entries(fields).map(([field, type]) => {
    return `    visit(${snake(field)}, FieldType::${type});`;
  });
  return [
    `struct ${name} {`,
    ...members,
    '',
    '  template <typename Visit>',
    '  void each(Visit&& visit) {',
    ...visits,
    '  }',
    '};',
  ].join('\n');
}

/** The text of native/engine/encoding.h. */
export function encodingHeader(encoding) {
  const { FIELD_WORDS, ELEMENTS, HEADER, DIMENSION } = encoding;
  const types = Object.fromEntries(Object.keys(FIELD_WORDS).map((type, index) => [type, index]));
  const pascal = (kind) => kind[0] + kind.slice(1).toLowerCase();
  return [
    `// The encoding of schedules. Made from src/schedules/encoding.ts by scripts/headers.mjs; a test compares the two.
// Every structure visits its fields in the order in which they are encoded: uint32_t is one word, uint64_t two, the low
// word first.
#pragma once
#include <cstdint>

namespace nbc {

constexpr uint32_t kScheduleMagic = 0x${encoding.SCHEDULE_MAGIC.toString(16)};
constexpr uint32_t kMaxDimensions = ${encoding.MAX_DIMENSIONS};
constexpr uint32_t kRoles = ${Object.keys(encoding.Role).length};
constexpr uint32_t kElementTypes = ${Object.keys(encoding.ElementType).length};
constexpr uint32_t kOperators = ${Object.keys(encoding.Operator).length};
constexpr uint32_t kOrders = ${Object.keys(encoding.Order).length};
constexpr uint8_t kTypeBytes[kElementTypes] = {${encoding.TYPE_BYTES.join(', ')}};`,
    enumeration('Role', encoding.Role).replace(' temp =', ' temporary ='),
    enumeration('ElementKind', encoding.ElementKind),
    enumeration('ElementType', encoding.ElementType),
    enumeration('Operator', encoding.Operator),
    enumeration('Order', encoding.Order),
    '// What a field holds.\n' + enumeration('FieldType', types, 'uint8_t'),
    'namespace words {',
    structure('Header', HEADER, FIELD_WORDS),
    ...Object.entries(ELEMENTS).map(([kind, fields]) => structure(pascal(kind), fields, FIELD_WORDS)),
    structure('Dimension', DIMENSION, FIELD_WORDS),
    '}  // namespace words',
    '}  // namespace nbc\n',
  ].join('\n\n');
}

/** The text of native/counters.h. */
export function countersHeader(counters) {
  const names = Object.keys(counters);
  return `// Every counter of stats(), with the name that JavaScript sees. Made from src/counters.ts, which describes them, by
// scripts/headers.mjs; a test compares the two.
#pragma once
#include <cstdint>
#include <functional>

namespace nbc {

enum class Counter : uint8_t {
${names.map((name) => `  ${snake(name)},`).join('\n')}
};

inline constexpr const char* kCounterNames[] = {
${names.map((name) => `    "${name}",`).join('\n')}
};

constexpr const char* name_of(Counter counter) { return kCounterNames[static_cast<size_t>(counter)]; }

using CounterVisitor = std::function<void(Counter, double)>;

}  // namespace nbc
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const load = (file) => import(new URL(`../dist/${file}`, import.meta.url));
  const write = (file, text) => writeFileSync(new URL(`../native/${file}`, import.meta.url), text);
  write('engine/encoding.h', encodingHeader(await load('schedules/encoding.js')));
  write('counters.h', countersHeader((await load('counters.js')).COUNTERS));
}
