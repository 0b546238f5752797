/** A wrapper that gives a program a /dev/shm of its own, of 64 KiB and full. For root. */
const FILL = 'mount -t tmpfs -o size=64k none /dev/shm && ! head -c 1M /dev/zero 2>&- >/dev/shm/full || exit';

export const FULL_SHM: readonly string[] = ['unshare', '--mount', 'sh', '-c', `${FILL}; exec "$@"`, 'sh'];
