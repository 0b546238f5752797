/**
 * Runs tasks side by side. A task is `{ name, alone, run }`; `run` returns `{ passed, failed, leftOut, failures, text
 * }` (see result() below). A task that is `alone` starts when no other runs, and no other starts before it has ended:
 * it compares times.
 */
/** What a task has found. `text` is shown beside its name, `failures` at the end of everything. */
export const result = (counts = {}) => ({ passed: 0, failed: 0, leftOut: [], failures: [], text: '', ...counts });

/** @returns one result for each task, with its `name` and `seconds`, in the order in which they ended */
export async function runPool(tasks, width) {
  const results = [];
  const one = async (task) => {
    const begin = performance.now();
    const found = await task.run();
    const seconds = (performance.now() - begin) / 1000;
    results.push({ ...found, name: task.name, seconds });
    console.log(`${task.name}: ${summary(found)} (${seconds.toFixed(1)} s)`);
  };
  const together = tasks.filter(({ alone }) => !alone);
  const worker = async () => {
    for (let task = together.shift(); task !== undefined; task = together.shift()) await one(task);
  };
  await Promise.all(Array.from({ length: width }, worker));
  for (const task of tasks.filter(({ alone }) => alone)) await one(task);
  return results;
}

function summary({ passed, failed, leftOut, text }) {
  if (text !== '') return text;
  const skipped = leftOut.length > 0 ? `, ${leftOut.length} skipped` : '';
  return `${passed} passed${failed > 0 ? `, ${failed} FAILED` : ''}${skipped}`;
}
