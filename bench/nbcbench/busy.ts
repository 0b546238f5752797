/** Programs that take processors away from what is measured. */
import { spawn, type ChildProcess } from 'node:child_process';

/** Processes that compute until they are stopped, or this process ends. */
export function startBusy(count: number): { stop: () => void } {
  const processes: ChildProcess[] = [];
  const stop = (): void => {
    for (const each of processes) each.kill('SIGKILL');
    process.off('exit', stop);
  };
  process.on('exit', stop);
  for (let i = 0; i < count; i++) processes.push(spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }));
  return { stop };
}
