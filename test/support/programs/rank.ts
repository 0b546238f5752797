/** What the ranks do in the tests of nbcrun: the first argument says it, the rest belong to it. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { init, type NbcError } from 'node-nbc';
import { play, say } from '../../programs/scenario.js';
import { allowedHere } from '../allowed-here.js';

const rank = Number(process.env['NBC_RANK']);
const args = process.argv.slice(3);

const ready = (): void => say(`ready ${rank} ${process.pid}`);
const stay = (): void => void setInterval(() => {}, 1 << 30);
const chosen = (): boolean => rank === Number(args[0]);

await play({
  tell() {
    const { NBC_RANK, NBC_SIZE, NBC_JOB_FD } = process.env;
    const processors = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1];
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const [, , group, session] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const { pid, execArgv: node } = process;
    say(JSON.stringify({ NBC_RANK, NBC_SIZE, NBC_JOB_FD, args, node, processors, pid, group, session }));
  },

  /** The processors that this thread may use once it has joined. */
  async processors() {
    const world = await init();
    say(`${rank} ${allowedHere().join()}`);
    await world.ibarrier();
  },

  /** Rank and code; the others stay. */
  exit() {
    if (chosen()) process.exit(Number(args[1]));
    stay();
  },

  throw() {
    if (chosen()) throw new Error('thrown on purpose');
    stay();
  },

  async reject() {
    if (chosen()) await Promise.reject(new Error('rejected on purpose'));
    stay();
  },

  /** Rank and signal. */
  die() {
    if (chosen()) process.kill(process.pid, args[1]);
    stay();
  },

  /** The first ranks end in these ways, a signal or a code each, and the last ones with 0. */
  ends() {
    const end = args[rank] ?? '0';
    if (end.startsWith('SIG')) process.kill(process.pid, end);
    else process.exit(Number(end));
    stay();
  },

  /** One rank fails, the others notice at once and fail too, each in its own way. */
  cascade() {
    if (chosen()) process.kill(process.pid, 'SIGKILL');
    process.once('SIGTERM', () => process.exit(50 + rank));
    stay();
  },

  stay() {
    ready();
    stay();
  },

  /** In a wait() that nothing ends: JavaScript does not run, signals with handlers would not be seen. */
  async block() {
    const world = await init();
    ready();
    world.irecv(new Uint8Array(1), (world.rank + 1) % world.size).wait();
  },

  async blockButOne() {
    const world = await init();
    if (chosen()) throw new Error('thrown on purpose');
    world.irecv(new Uint8Array(1), world.size - 1).wait();
  },

  /** Tells every signal; ends on the named one with the code. */
  signals() {
    const [last, code] = args;
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const) {
      process.on(signal, () => {
        say(`${rank} got ${signal}`);
        if (signal === last) process.exit(Number(code));
      });
    }
    ready();
    stay();
  },

  /** Lines in two halves, with time for others between; the last one without an end. */
  async lines() {
    for (let line = 0; line < Number(args[0]); line++) {
      process.stdout.write(`this is line ${line} `);
      await new Promise((resolve) => setImmediate(resolve));
      process.stdout.write(`of rank ${rank}\n`);
    }
    process.stderr.write(`error of rank ${rank}\n`);
    process.stdout.write(`end of rank ${rank}`);
  },

  longLine() {
    process.stdout.write(`${`${rank}`.repeat(Number(args[0]))}\n`);
  },

  forever() {
    const more = (): void => void process.stdout.write('again and again\n', () => setImmediate(more));
    more();
  },

  /** Counts SIGINTs until nothing has been to do for a second: one that came twice would come at once. */
  interrupted() {
    let times = 0;
    process.on('SIGINT', () => {
      times++;
      setTimeout(() => (say(`interrupted ${times} times`), process.exit(0)), 1000);
    });
    ready();
    stay();
  },

  async read() {
    let text = '';
    if (args[0] === 'tell' && rank === 0) say('0 reads');
    for await (const data of process.stdin) text += String(data);
    say(`${rank} read ${JSON.stringify(text)}`);
  },

  /** Starts a program that would outlive the rank, and ends. */
  async parent() {
    const child = spawn('sleep', ['1000'], { stdio: 'inherit' });
    child.unref();
    say(`child ${child.pid}`);
    ready();
    if (args[0] === 'stay') stay();
  },

  /** The chosen rank ends without a word, before init(); the others need it. Says what they are told. */
  async needed() {
    if (chosen()) return;
    const failure = await init()
      .then((world) => world.irecv(new Uint8Array(1), Number(args[0])))
      .then(
        () => undefined,
        (error: unknown) => error as NbcError,
      );
    say(`${rank} is told ${failure?.code}: ${failure?.message}`);
  },

  /** The chosen rank ends without a word, before init(), and nobody needs it. */
  async notNeeded() {
    if (chosen()) return;
    const world = await init();
    const others = Array.from({ length: world.size }, (_, other) => other).filter((other) => other !== Number(args[0]));
    const at = others.indexOf(rank);
    const got = new Uint8Array(1);
    const receive = world.irecv(got, others[(at + 1) % others.length]);
    await world.isend(Uint8Array.of(rank), others[(at + others.length - 1) % others.length]);
    await receive;
    say(`${rank} has ${got[0]}`);
    await world.close();
  },

  /** Each rank runs with the transport that stands at its place, and needs rank 0, or 1. Says what they are told. */
  async transports() {
    const failure = await init({ transport: args[rank] as 'tcp' })
      .then((world) => world.irecv(new Uint8Array(1), rank === 0 ? 1 : 0))
      .then(
        () => undefined,
        (error: unknown) => error as NbcError,
      );
    say(`${rank} is told ${failure?.code}: ${failure?.message}`);
  },

  async exchange() {
    const world = await init();
    const send = new Int32Array(world.size).fill(world.rank);
    const recv = new Int32Array(world.size);
    await world.ialltoall(send, recv);
    say(`sum ${recv.reduce((sum, value) => sum + value, 0)}`);
    await world.close();
  },
});
