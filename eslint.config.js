import { defineConfig } from 'eslint/config';
import js from '@eslint/js';
import tseslint from 'typescript-eslint';

/** What Node offers without an import, as far as the untyped scripts use it. */
const nodeGlobals = Object.fromEntries(
  [
    'Buffer',
    'clearInterval',
    'clearTimeout',
    'console',
    'performance',
    'process',
    'setImmediate',
    'setInterval',
    'setTimeout',
    'URL',
  ].map((name) => [name, 'readonly']),
);

export default defineConfig(
  { ignores: ['build/', 'dist/', 'out/', 'node_modules/', 'docs/surface.d.ts'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    files: ['**/*.ts', '**/*.cts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['tsconfig.json', 'tsconfig.bench.json', 'tsconfig.dev.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      // Numbers and booleans read well in messages; only objects and undefined are mistakes there.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // Typed arrays and tables are indexed all over; the compiler checks the rest (see tsconfig.json).
      '@typescript-eslint/no-non-null-assertion': 'off',
      // A loop over an index is often the textbook form of an algorithm.
      '@typescript-eslint/prefer-for-of': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // Environment variables are named by strings.
      '@typescript-eslint/dot-notation': ['error', { allowIndexSignaturePropertyAccess: true }],
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
    },
  },
  {
    // mocha's `function () { this.timeout() }`, chained assertions, and helpers that are awaited or not
    files: ['test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unused-expressions': 'off',
      '@typescript-eslint/require-await': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    languageOptions: { globals: nodeGlobals },
  },
  {
    files: ['**/*.cjs'],
    languageOptions: { sourceType: 'commonjs', globals: nodeGlobals },
  },
);
