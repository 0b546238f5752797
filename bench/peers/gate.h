/*
 * The start gate of ranks of one machine, for more of them than processors. Spinning would keep a rank from the
 * processor that it waits for. So everybody reports at one pipe and sleeps in read() of another; rank 0 closes that
 * one's writing end, and the kernel wakes all of them at once with an end of file. Two pipes take turns, since a closed
 * one can be opened again only when its readers have left. No library has a part in it, and its code is the same for
 * all: ranks of MPI include it, ranks of node-nbc load it as an addon (gate_addon.c). (A rank whose wait has returned
 * must not be needed for the progress of others; else the job hangs and nbcbench says so.)
 *
 * The directory has the FIFOs gate.in, gate.0 and gate.1.
 */
#ifndef NBCBENCH_GATE_H
#define NBCBENCH_GATE_H
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct gate {
  char directory[4000];
  int rank, size;
  int in, outs[2], next;
};

static int gate_fifo(const struct gate* gate, const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", gate->directory, name);
  return open(path, flags | O_CLOEXEC);
}

static int gate_out(const struct gate* gate, int which) {
  return gate_fifo(gate, which ? "gate.1" : "gate.0", gate->rank == 0 ? O_WRONLY : O_RDONLY);
}

/* Returns when all ranks have called it. False: a FIFO cannot be opened, and errno says why. */
static int gate_open(struct gate* gate, const char* directory, int rank, int size) {
  snprintf(gate->directory, sizeof gate->directory, "%s", directory);
  gate->rank = rank;
  gate->size = size;
  gate->next = 0;
  gate->outs[0] = gate->outs[1] = -1;
  gate->in = gate_fifo(gate, "gate.in", rank == 0 ? O_RDONLY : O_WRONLY);
  if (gate->in < 0) return 0;
  for (int i = 0; i < 2 && size > 1; i++) {
    gate->outs[i] = gate_out(gate, i);
    if (gate->outs[i] < 0) return 0;
  }
  return 1;
}

static double gate_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/*
 * The time at which this rank went through, in microseconds of CLOCK_MONOTONIC. Negative: the gate is broken, and errno
 * says why.
 */
static double gate_pass(struct gate* gate) {
  char bytes[1024] = {0};
  int which = gate->next;
  gate->next = !which;
  errno = 0;
  if (gate->rank == 0) {
    for (int missing = gate->size - 1; missing > 0;) {
      ssize_t got = read(gate->in, bytes, missing < (int)sizeof bytes ? (size_t)missing : sizeof bytes);
      if (got <= 0) return -1;
      missing -= (int)got;
    }
    if (gate->size == 1) return gate_clock();
    if (gate->outs[!which] < 0 && (gate->outs[!which] = gate_out(gate, !which)) < 0) return -1;
    double released = gate_clock(); /* waking all the others takes its time, and the clock runs */
    close(gate->outs[which]);
    gate->outs[which] = -1;
    return released;
  }
  if (write(gate->in, bytes, 1) != 1 || read(gate->outs[which], bytes, 1) != 0) return -1;
  return gate_clock();
}

#endif
