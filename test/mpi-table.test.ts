/**
 * The tables of docs/mpi.md: all calls of MPI that have to do with what node-nbc does are in them, and what they name
 * of node-nbc is there, as docs/surface.d.ts shows it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { ROOT } from './support/launch.js';

const dist = (file: string): string => pathToFileURL(join(ROOT, 'dist', file)).href;
const { OPERATIONS } = (await import(dist('operations/index.js'))) as typeof import('../src/operations/index.js');
const { NEIGHBOR_OPERATIONS } = (await import(
  dist('operations/neighbor.js')
)) as typeof import('../src/operations/neighbor.js');

const PAGE = readFileSync(join(ROOT, 'docs/mpi.md'), 'utf8');
const ROWS = [...PAGE.matchAll(/^\| (.*) \|$/gm)].map(([, row]) => row.split(' | '));

/** Of MPI 4.1 and of ULFM. The collectives come from the table of operations. */
const CALLS = {
  environment: 'Init Init_thread Finalize Abort Wtime Alloc_mem Free_mem',
  communicators:
    'Comm_rank Comm_size Comm_dup Comm_idup Comm_split Comm_split_type Comm_create Comm_create_group Comm_free',
  topologies:
    'Cart_create Cart_coords Cart_rank Cart_shift Cart_sub Cart_get Cartdim_get Dims_create Graph_create ' +
    'Dist_graph_create Dist_graph_create_adjacent Dist_graph_neighbors Dist_graph_neighbors_count',
  requests:
    'Test Wait Testall Waitall Testany Waitany Testsome Waitsome Request_free Request_get_status Cancel Start Startall ' +
    'Get_count',
  messages:
    'Isend Irecv Isendrecv Isendrecv_replace Issend Ibsend Irsend Send_init Recv_init Probe Iprobe Mprobe PROC_NULL ' +
    'ANY_SOURCE ANY_TAG',
  operators:
    'SUM PROD MAX MIN LAND LOR LXOR BAND BOR BXOR MAXLOC MINLOC Op_create Op_commutative Op_free Reduce_local IN_PLACE',
  datatypes: 'DOUBLE INT32_T BYTE Type_vector Type_create_subarray Type_indexed Type_create_struct',
  errors: 'Comm_set_errhandler ERRORS_RETURN Error_class Error_string ERR_TRUNCATE ERR_ARG',
};
const ULFM = 'Comm_revoke Comm_agree Comm_shrink Comm_get_failed ERR_PROC_FAILED ERR_REVOKED';

/** What the words before a dot stand for. */
const OBJECTS: Record<string, readonly string[]> = {
  world: ['Communicator'],
  communicator: ['Communicator'],
  cart: ['CartCommunicator'],
  graph: ['GraphCommunicator'],
  request: ['Request', 'PersistentRequest'],
  error: ['NbcError'],
  values: ['Values'],
};
/** What a row may name that is neither node-nbc's nor JavaScript's. */
const OTHERS = ['undefined', 'null', 'nbcrun', 'node', 'signal', 'lost', 'dest', 'source', 'MPI_UNDEFINED'];

/** The exported names of docs/surface.d.ts; for each class, its members and those that it inherits. */
function readSurface(): { exported: Set<string>; membersOf: (name: string) => Set<string> } {
  const text = readFileSync(join(ROOT, 'docs/surface.d.ts'), 'utf8');
  const file = ts.createSourceFile('surface.d.ts', text, ts.ScriptTarget.ES2022, true);
  const exported = new Set<string>();
  const classes = new Map<string, { own: string[]; base: string | undefined }>();
  const visit = (node: ts.Node): void => {
    if (ts.isClassDeclaration(node)) {
      const own = node.members.flatMap(({ name }) => (name === undefined ? [] : [name.getText()]));
      const base = node.heritageClauses?.find(({ token }) => token === ts.SyntaxKind.ExtendsKeyword);
      classes.set(node.name!.text, { own, base: base?.types[0].expression.getText() });
    }
    if ((ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node)) && node.name) exported.add(node.name.text);
    if (ts.isVariableDeclaration(node)) exported.add(node.name.getText());
    ts.forEachChild(node, visit);
  };
  visit(file);
  const membersOf = (name: string): Set<string> => {
    const found = classes.get(name);
    return found === undefined ? new Set() : new Set([...found.own, ...membersOf(found.base ?? '')]);
  };
  return { exported, membersOf };
}

describe('the tables of docs/mpi.md', () => {
  const { exported, membersOf } = readSurface();
  const methods = new Set([...membersOf('NeighborCommunicator'), ...membersOf('CartCommunicator')]);

  it('name all collectives, with their arguments and their persistent forms', () => {
    const rows = ROWS.filter((cells) => cells.length === 3 && cells[0].startsWith('`MPI_I'));
    const expected = [...OPERATIONS, ...NEIGHBOR_OPERATIONS].map(({ mpi, name, parameters }) => {
      const persistent = `${name[1].toLowerCase()}${name.slice(2)}Init`;
      return [mpi, `${name}(${parameters.join(', ')})`, persistent].map((cell) => `\`${cell}\``);
    });
    assert.deepEqual(
      rows.map((cells) => cells.map((cell) => cell.trim())),
      expected,
    );
  });

  for (const [chapter, names] of Object.entries(CALLS)) {
    it(`name MPI's ${chapter}`, () => {
      const missing = names.split(' ').filter((name) => !PAGE.includes(`\`MPI_${name}\``));
      assert.deepEqual(missing, []);
    });
  }

  it("name ULFM's calls and errors", () => {
    assert.deepEqual(
      ULFM.split(' ').filter((name) => !PAGE.includes(`\`MPIX_${name}\``)),
      [],
    );
  });

  it('name nothing of node-nbc that is not there', () => {
    const strange = ROWS.flatMap(([mpi, ...cells]) =>
      [...cells.join().matchAll(/`([^`]+)`/g)].flatMap(([, code]) =>
        unknownNames(code).map((name) => `${name}, for ${mpi}`),
      ),
    );
    assert.deepEqual(strange, []);
    for (const wrong of ['cart.coordinates(rank)', 'waitSome(requests)', 'request.cancel()', 'bcastinit'])
      assert.equal(unknownNames(wrong).length, 1, wrong);
  });

  /** Names in a piece of code that are not known; what is in brackets is left out. */
  function unknownNames(code: string): string[] {
    if (/^(nbcrun|npx|node:)/.test(code)) return [];
    const inner = /\([^()]*\)|\{[^{}]*\}/;
    let outside = code;
    while (inner.test(outside)) outside = outside.replace(inner, '');
    const words = outside.replaceAll(/\b(const|await|using|new)\b/g, '').match(/[A-Za-z_][\w.]*/g) ?? [];
    return words.filter((word) => {
      const [object, member] = word.split('.') as [string, string | undefined];
      if (object in globalThis || OTHERS.includes(object)) return false;
      if (member !== undefined) return !(OBJECTS[object] ?? []).some((name) => membersOf(name).has(member));
      return !(object in OBJECTS || exported.has(object) || methods.has(object));
    });
  }
});
