/**
 * Runs tasks side by side. A task is `{ name, alone, long, idle, run }`; `run` returns `{ passed, failed, leftOut,
 * failures, text }` (see result() below).
 *
 * alone   starts when no other runs, and no other starts before it has ended: it compares times
 * long    comes behind all others, and leaves processors idle
 * idle    cares for no time: where something is `long`, it runs beside that with the time that is left of processors.
 *         Then `run` is told `{ idle: true }`
 */
/** What a task has found. `text` is shown beside its name, `failures` at the end of everything. */
export const result = (counts = {}) => ({ passed: 0, failed: 0, leftOut: [], failures: [], text: '', ...counts });

/** They compete with each other only; one may wait for its emulator or its compiler. */
const IDLE_AT_A_TIME = 2;

/** @returns one result for each task, with its `name` and `seconds`, in the order in which they ended */
export async function runPool(tasks, width) {
  const results = [];
  const one = async (task, how = {}) => {
    const begin = performance.now();
    const found = await task.run(how);
    const seconds = (performance.now() - begin) / 1000;
    results.push({ ...found, name: task.name, seconds });
    console.log(`${task.name}: ${summary(found)} (${seconds.toFixed(1)} s)`);
  };
  const sideBySide = (list, workers, how) => {
    const worker = async () => {
      for (let task = list.shift(); task !== undefined; task = list.shift()) await one(task, how);
    };
    return Promise.all(Array.from({ length: workers }, worker));
  };
  const long = tasks.filter((task) => task.long);
  const idle = long.length > 0 ? tasks.filter((task) => task.idle) : [];
  const others = tasks.filter((task) => !long.includes(task) && !idle.includes(task));
  await sideBySide(
    others.filter(({ alone }) => !alone),
    width,
  );
  for (const task of others.filter(({ alone }) => alone)) await one(task);
  await Promise.all([sideBySide(long, 1), sideBySide(idle, IDLE_AT_A_TIME, { idle: true })]);
  return results;
}

function summary({ passed, failed, leftOut, text }) {
  if (text !== '') return text;
  const skipped = leftOut.length > 0 ? `, ${leftOut.length} skipped` : '';
  return `${passed} passed${failed > 0 ? `, ${failed} FAILED` : ''}${skipped}`;
}
