import { MAX, type CartCommunicator, type PersistentRequest, type Request } from 'node-nbc';
import { relaxEdges, relaxInner } from './jacobi.js';
import { Plate, type Block } from './plate.js';

export type Variant = 'blocking' | 'nonblocking';

export interface Solution {
  plate: Plate;
  steps: number;
  /** The largest change of a cell in the last step whose residual was waited for. */
  residual: number;
  /** Milliseconds that this rank waited for its neighbours and for residuals. */
  waited: number;
  /** Milliseconds in all. */
  total: number;
}

/**
 * Jacobi's method on the block of this rank, until no cell changes by more than `tolerance` or `steps` are done.
 * Collective.
 *
 *     step n      edges of n leave, ghosts of n come   │ meanwhile: the inner cells of step n + 1
 *                 the edge cells of step n + 1
 *                 the residual of step n + 1 leaves    │ meanwhile: all of step n + 2
 *
 * So the ranks know one step later that they may stop. The blocking variant waits at once and does the same otherwise.
 */
export function solve(
  cart: CartCommunicator,
  { height, width }: Block,
  { steps, tolerance, variant }: { steps: number; tolerance: number; variant: Variant },
): Solution {
  const hot = cart.coords()[0] === 0;
  const plates = [new Plate(height, width, hot), new Plate(height, width, hot)];
  /** Of each plate, set up once. The plates take turns, and so do these. */
  const exchanges = plates.map(({ edges, ghosts }) => cart.neighborAlltoallwInit(edges, ghosts));
  let [now, next] = plates;
  let residual = Infinity;
  let waited = 0;
  const wait = (request: Request | PersistentRequest): void => {
    const before = performance.now();
    request.wait();
    waited += performance.now() - before;
  };

  const own = [new Float64Array(1), new Float64Array(1)];
  const largest = [new Float64Array(1), new Float64Array(1)];
  let reduction: Request | null = null;
  const begin = performance.now();
  let step = 0;
  while (step < steps && residual > tolerance) {
    const exchange = exchanges[step % 2];
    exchange.start();
    if (variant === 'blocking') wait(exchange);
    const inner = relaxInner(now, next);
    wait(exchange);
    const change = Math.max(inner, relaxEdges(now, next));
    [now, next] = [next, now];

    if (reduction !== null) {
      wait(reduction);
      residual = largest[(step - 1) % 2][0];
    }
    own[step % 2][0] = change;
    reduction = cart.iallreduce(own[step % 2], largest[step % 2], MAX);
    if (variant === 'blocking') wait(reduction);
    step++;
  }
  if (reduction !== null) {
    wait(reduction);
    residual = largest[(step - 1) % 2][0];
  }
  for (const exchange of exchanges) exchange.free();
  return { plate: now, steps: step, residual, waited, total: performance.now() - begin };
}
