/**
 * Ends the ranks if nbcrun itself is killed, which no handler in nbcrun could do.
 *
 * The guardian is a small shell in a session of its own. It reads a pipe that only nbcrun holds open, and keeps a list
 * of the process groups that are alive. When the pipe ends without a word of goodbye, nbcrun is gone, and so are they a
 * moment later.
 */
import { spawn, type ChildProcess } from 'node:child_process';

/** "-123" adds process group 123, "+123" takes it away; the list is what kill(1) wants as arguments. */
const SCRIPT = `
trap '' HUP INT QUIT TERM PIPE
groups=
while read -r line; do
  case $line in
    done) exit 0 ;;
    -*) groups="$groups $line" ;;
    +*)
      left=
      for group in $groups; do
        [ "$group" = "-\${line#+}" ] || left="$left $group"
      done
      groups=$left
      ;;
  esac
done
[ -z "$groups" ] || kill -s KILL -- $groups
`;

export class Guardian {
  readonly #shell: ChildProcess;
  readonly #ended: Promise<void>;

  constructor() {
    this.#shell = spawn('/bin/sh', ['-c', SCRIPT, 'nbcrun-guardian'], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
      cwd: '/',
      env: {},
    });
    // A container may have no shell, and a guardian may be killed: the job runs all the same, only less well guarded.
    this.#ended = new Promise((resolve) => {
      this.#shell.once('error', () => resolve()).once('exit', () => resolve());
    });
    this.#shell.stdin?.on('error', () => undefined);
  }

  watch(group: number): void {
    this.#say(`-${group}`);
  }

  forget(group: number): void {
    this.#say(`+${group}`);
  }

  /** Resolves when the guardian has gone. */
  async dismiss(): Promise<void> {
    this.#say('done');
    this.#shell.stdin?.end();
    await this.#ended;
  }

  #say(line: string): void {
    if (this.#shell.stdin?.writable) this.#shell.stdin.write(`${line}\n`);
  }
}
