/** Requests that fail, and a program that asks about them or does not. One rank. */
import { init, type NbcError, type Request, waitAll } from 'node-nbc';
import { play, report } from './scenario.js';

const world = await init();

/** It receives a message that is too long for it. */
function failing(): Request {
  const request = world.irecv(new Uint8Array(4), 0);
  world.isend(new Uint8Array(8), 0);
  return request;
}

function thrown(ask: () => unknown): string {
  try {
    ask();
    return 'nothing';
  } catch {
    return 'thrown';
  }
}

const rejection = async (request: Request): Promise<NbcError> => {
  try {
    await request;
  } catch (error) {
    return error as NbcError;
  }
  throw new Error('it did not fail');
};

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

await play({
  async ends() {
    failing();
    failing();
    await turn();
  },
  async exits() {
    const [first, second] = [failing(), failing()];
    while (!first.done || !second.done) await turn();
    process.exit(0);
  },
  async awaits() {
    report(await rejection(failing()).then(() => 'rejected'));
  },
  async awaitsLater() {
    const request = failing();
    while (!request.done) await turn();
    report(await rejection(request).then(() => 'rejected'));
  },
  waits() {
    report(thrown(() => failing().wait()));
  },
  tests() {
    const request = failing();
    report(thrown(() => request.test() || request.wait()));
  },
  waitsForAll() {
    report(thrown(() => waitAll([failing(), failing()])));
  },
  async lines() {
    const early = failing();
    while (!early.done) await turn();
    const errors = [await rejection(failing()), await rejection(early)];
    await Promise.all([failing()]).catch((error: unknown) => errors.push(error as NbcError));
    report(errors.map(({ calledAt, awaitedAt, message }) => ({ calledAt, awaitedAt, message })));
  },
});
await world.close();
