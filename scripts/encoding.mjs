// Makes native/engine/encoding.h from src/schedules/encoding.ts: `npm run build`, then `node scripts/encoding.mjs`.
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
export function header(encoding) {
  const { FIELD_WORDS, ELEMENTS, HEADER, DIMENSION } = encoding;
  const types = Object.fromEntries(Object.keys(FIELD_WORDS).map((type, index) => [type, index]));
  const pascal = (kind) => kind[0] + kind.slice(1).toLowerCase();
  return [
    `// The encoding of schedules. Made from src/schedules/encoding.ts by scripts/encoding.mjs; a test compares the two.
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const encoding = await import(new URL('../dist/schedules/encoding.js', import.meta.url));
  writeFileSync(new URL('../native/engine/encoding.h', import.meta.url), header(encoding));
}
