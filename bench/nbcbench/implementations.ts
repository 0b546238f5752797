/** What can be measured: node-nbc in each of its settings, and C programs on other libraries. */
import type { Job } from './job.js';
import type { BufferKind, Form } from './wire.js';
import type { Placement } from './placement.js';
import type { Way } from './ways.js';

/** One library in one setting. Its ranks form one job for each number of ranks. */
export interface Implementation {
  /** As in the JSON rows: 'node-nbc', 'openmpi', 'mpich'. */
  name: string;
  /** With its version, for people. */
  title: string;
  transport: string;
  progress: string;
  /** The paper's mode, where one was asked for. */
  way?: Way;
  buffers: readonly BufferKind[];
  forms: readonly Form[];
  launch(ranks: number, placement: Placement): Promise<Job>;
}

/** Whether to compare with it (a peer), or to compare it with others. */
export const isPeer = (implementation: Implementation): boolean => implementation.name !== 'node-nbc';
