/*
 * The start gate of ranks of one machine, for more of them than processors. Spinning would keep a rank from the
 * processor that it waits for. So everybody sleeps in read() of a pipe; rank 0 closes its writing end, and the kernel
 * wakes all of them at once with an end of file. Two pipes take turns, since a closed one can be opened again only when
 * its readers have left. Rank 0 is told when the last of the others has come. Each of them takes a byte from a pipe
 * that has one less than there are others; who finds none is the last. So those who are through wake nobody while
 * others still work. No library has a part in it, and its code is the same for all: ranks of MPI include it, ranks of
 * node-nbc load it as an addon (gate_addon.c). (A rank whose wait has returned must not be needed for the progress of
 * others; else the job hangs and nbcbench says so.)
 *
 * The directory has the FIFOs gate.count, gate.in, gate.0 and gate.1.
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
  int count, in, outs[2], next;
};

static int gate_fifo(const struct gate* gate, const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", gate->directory, name);
  return open(path, flags | O_CLOEXEC);
}

static int gate_out(const struct gate* gate, int which) {
  return gate_fifo(gate, which ? "gate.1" : "gate.0", gate->rank == 0 ? O_WRONLY : O_RDONLY);
}

/* Puts in what all of the others but one will take. */
static int gate_reset(const struct gate* gate) {
  char bytes[1024] = {0};
  for (int missing = gate->size - 2; missing > 0;) {
    ssize_t put = write(gate->count, bytes, missing < (int)sizeof bytes ? (size_t)missing : sizeof bytes);
    if (put < 0) return 0;
    missing -= (int)put;
  }
  return 1;
}

/* Returns when all ranks have called it. False: a FIFO cannot be opened, and errno says why. */
static int gate_open(struct gate* gate, const char* directory, int rank, int size) {
  snprintf(gate->directory, sizeof gate->directory, "%s", directory);
  gate->rank = rank;
  gate->size = size;
  gate->next = 0;
  gate->count = gate->in = gate->outs[0] = gate->outs[1] = -1;
  if (size == 1) return 1;
  gate->count = gate_fifo(gate, "gate.count", O_RDWR | O_NONBLOCK);
  if (gate->count < 0 || (rank == 0 && !gate_reset(gate))) return 0;
  gate->in = gate_fifo(gate, "gate.in", rank == 0 ? O_RDONLY : O_WRONLY); /* the others: when rank 0 has counted */
  if (gate->in < 0) return 0;
  for (int i = 0; i < 2; i++) {
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
  char byte = 0;
  int which = gate->next;
  gate->next = !which;
  errno = 0;
  if (gate->size == 1) return gate_clock();
  if (gate->rank == 0) {
    if (read(gate->in, &byte, 1) != 1) return -1;
    if (gate->outs[!which] < 0 && (gate->outs[!which] = gate_out(gate, !which)) < 0) return -1;
    double released = gate_clock(); /* waking all the others takes its time, and the clock runs */
    close(gate->outs[which]);
    gate->outs[which] = -1;
    return released;
  }
  if (read(gate->count, &byte, 1) != 1) {
    if (errno != EAGAIN || !gate_reset(gate) || write(gate->in, &byte, 1) != 1) return -1;
  }
  return read(gate->outs[which], &byte, 1) == 0 ? gate_clock() : -1;
}

#endif
