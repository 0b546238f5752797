/** A worker that is a rank of one run, or of one after another (rank-worker.ts), as its caller sees it. */
import { join } from 'node:path';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { Idle, Loaded, RankJob, Told, WorkerData } from './rank-job.js';

/** How a thread has ended. */
export interface Ended {
  readonly exitCode: number;
  /** An uncaught exception, if that was it. */
  uncaught?: { readonly value: unknown };
}

/** What a run hears of its thread. */
export interface RankListener {
  hear(told: Told | Loaded): void;
  /** The thread is out of the run: it has ended, or it is idle (undefined). Called once, as the last. */
  left(ended: Ended | undefined): void;
}

export class RankThread {
  private readonly port: MessagePort;
  private readonly worker: Worker;
  private uncaught: Ended['uncaught'];
  private listener: RankListener | undefined;
  private ended = false;

  /** Starts the thread with its first job. @throws {Error} DataCloneError, or what the system says */
  constructor(job: RankJob, listener: RankListener) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    this.listener = listener;
    try {
      port1.postMessage(job);
      const workerData: WorkerData = { port: port2 };
      const name = `rank ${job.rank}`;
      this.worker = new Worker(join(import.meta.dirname, 'rank-worker.cjs'), {
        workerData,
        transferList: [port2],
        name,
      });
    } catch (error) {
      port1.close();
      throw error;
    }
    port1.on('message', (told: Told | Loaded | Idle) => this.hear(told));
    this.worker.on('error', (value) => (this.uncaught = { value }));
    this.worker.on('exit', (exitCode) => this.end(exitCode));
  }

  /** It waits for another job. */
  get isIdle(): boolean {
    return this.listener === undefined && !this.ended;
  }

  /** The next job of an idle thread. @throws {Error} DataCloneError; the thread is still idle */
  begin(job: RankJob, listener: RankListener): void {
    this.port.postMessage(job);
    this.listener = listener;
    this.port.ref();
    this.worker.ref();
  }

  async terminate(): Promise<void> {
    await this.worker.terminate();
  }

  private hear(told: Told | Loaded | Idle): void {
    if (told !== 'idle') {
      this.listener?.hear(told);
      return;
    }
    // A program ends although it has idle threads.
    this.port.unref();
    this.worker.unref();
    this.leave(undefined);
  }

  private end(exitCode: number): void {
    // What it has told may not have come by an event yet.
    for (let last; (last = receiveMessageOnPort(this.port)) !== undefined;)
      this.hear(last.message as Told | Loaded | Idle);
    this.port.close();
    this.ended = true;
    this.leave({ exitCode, ...(this.uncaught && { uncaught: this.uncaught }) });
  }

  private leave(ended: Ended | undefined): void {
    const { listener } = this;
    this.listener = undefined;
    listener?.left(ended);
  }
}
