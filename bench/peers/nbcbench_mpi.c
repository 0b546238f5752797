/*
 * One MPI rank of nbcbench: the method of bench/nbcbench/rank.ts, line for line, on MPI_Ibcast, MPI_Igather and
 * MPI_Ialltoall. nbcbench compiles it with each MPI it finds and drives it over FIFOs:
 *
 *     nbcbench_mpi DIRECTORY CPUS        CPUS: "-", or the processor of each rank, "0,1,…"
 *
 *     DIRECTORY/ctl.R      commands to rank R, one line each; blocking in read() is how a rank waits for its turn
 *     DIRECTORY/done       answers of all ranks: "R ok" or "R error TEXT"
 *     DIRECTORY/result.R   doubles, rewritten by every command that measures
 *     DIRECTORY/gate.in, gate.0, gate.1   the start gate for more ranks than processors (see start_gate)
 *
 * The commands are listed at `commands` below. All times are microseconds of CLOCK_MONOTONIC.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum op { IBCAST, IGATHER, IALLTOALL, OPS };
enum mode { BLOCKING, OVERLAP, COMPUTE, MODES };
enum start { INSTANT, GATE, BARRIER, STARTS };

static const char* const op_names[OPS] = {"ibcast", "igather", "ialltoall"};
static const char* const mode_names[MODES] = {"blocking", "overlap", "compute"};
static const char* const start_names[STARTS] = {"instant", "gate", "barrier"};

/*
 * One measured repetition, as it stands in the result file: when it began, how long its parts took, and how long it was
 * from the beginning to the end. NaN: this rank reached the agreed instant too late.
 */
struct sample {
  double start, init, test, wait, total;
};

static int rank, size;
static const char* directory;
static int control, done, gate_in, gates[2], next_gate;

/* The buffers of the current operation; roles that the rank does not have are NULL. */
static struct {
  enum op op;
  long bytes;
  char *send, *receive;
} buffers = {.op = OPS, .bytes = -1};

static double timer_cost; /* microseconds between two readings of the clock with nothing between them */
static double work_rate;  /* steps of work() per microsecond on an undisturbed processor */
static volatile uint32_t sink = 1;

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char* format, ...) {
  char text[400], line[480];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  int length = snprintf(line, sizeof line, "%d error %s\n", rank, text);
  if (done <= 0 || write(done, line, length) != length) fputs(line, stderr);
  exit(1);
}

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

/* ---- computation: a fixed amount of dependent integer work that no compiler shortens and no clock steers ---- */

__attribute__((noinline)) static uint32_t work(int64_t steps, uint32_t x) {
  for (; steps > 0; steps--) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  return x;
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void calibrate(void) {
  enum { readings = 2001, chunks = 400, steps = 20000 };
  static double costs[readings];
  for (int i = 0; i < readings; i++) {
    double t = now();
    costs[i] = now() - t;
  }
  qsort(costs, readings, sizeof *costs, by_value);
  timer_cost = costs[readings / 2];
  double best = INFINITY; /* chunks of some 30 us: far shorter than a time slice, so the fastest one ran undisturbed */
  for (int i = 0; i < chunks; i++) {
    double t = now();
    sink = work(steps, sink);
    t = now() - t - timer_cost;
    if (t < best) best = t;
  }
  work_rate = steps / best;
}

/* ---- the operations ---- */

static void release_buffers(void) {
  free(buffers.send);
  free(buffers.receive);
  buffers.send = buffers.receive = NULL;
  buffers.bytes = -1;
}

static char* filled(size_t bytes) {
  char* memory = malloc(bytes ? bytes : 1);
  if (!memory) fail("no memory for a buffer of %zu bytes", bytes);
  memset(memory, 1, bytes); /* every page exists before the first repetition */
  return memory;
}

static void prepare(enum op op, long bytes) {
  if (buffers.op == op && buffers.bytes == bytes) return;
  release_buffers();
  switch (op) {
    case IBCAST:
      buffers.send = filled(bytes);
      break;
    case IGATHER:
      buffers.send = filled(bytes);
      if (rank == 0) buffers.receive = filled((size_t)bytes * size);
      break;
    default:
      buffers.send = filled((size_t)bytes * size);
      buffers.receive = filled((size_t)bytes * size);
  }
  buffers.op = op;
  buffers.bytes = bytes;
}

static inline void begin(enum op op, int bytes, MPI_Request* request) {
  switch (op) {
    case IBCAST:
      MPI_Ibcast(buffers.send, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
      break;
    case IGATHER:
      MPI_Igather(buffers.send, bytes, MPI_BYTE, buffers.receive, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
      break;
    default:
      MPI_Ialltoall(buffers.send, bytes, MPI_BYTE, buffers.receive, bytes, MPI_BYTE, MPI_COMM_WORLD, request);
  }
}

/* Byte i of what rank `from` has for rank `to`. */
static inline unsigned char pattern(int from, int to, long i) {
  return (unsigned char)(from * 31 + to * 17 + i * 7 + 3);
}

static void check(enum op op, long bytes) {
  prepare(op, bytes);
  int blocks = op == IALLTOALL ? size : 1;
  for (int to = 0; to < blocks; to++)
    for (long i = 0; i < bytes; i++)
      buffers.send[to * bytes + i] = op == IBCAST && rank != 0 ? 0 : pattern(rank, to, i);
  if (buffers.receive) memset(buffers.receive, 0, (size_t)bytes * size);
  MPI_Request request;
  begin(op, (int)bytes, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (op == IBCAST) {
    for (long i = 0; i < bytes; i++)
      if ((unsigned char)buffers.send[i] != pattern(0, 0, i))
        fail("wrong data: ibcast of %ld bytes, byte %ld", bytes, i);
  } else if (buffers.receive) {
    int to = op == IALLTOALL ? rank : 0;
    for (int from = 0; from < size; from++)
      for (long i = 0; i < bytes; i++)
        if ((unsigned char)buffers.receive[from * bytes + i] != pattern(from, to, i))
          fail("wrong data: %s of %ld bytes, block %d, byte %ld", op_names[op], bytes, from, i);
  }
}

/* ---- starting together ---- */

static int open_fifo(const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) fail("cannot open %s: %s", path, strerror(errno));
  return fd;
}

static const char* const gate_names[2] = {"gate.0", "gate.1"};

/* A dissemination barrier of one-byte messages: the same exchanges as on the side of node-nbc. */
static void barrier(void) {
  char out = 0, in = 0;
  for (int distance = 1; distance < size; distance <<= 1) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(&in, 1, MPI_BYTE, (rank - distance + size) % size, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_BYTE, (rank + distance) % size, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
  }
}

/*
 * A processor for every rank: rank 0 names an instant of the common clock, everybody spins until then. Skew: one
 * reading of the clock. Returns the reading that ended the spin, or NaN where the instant had passed before it was
 * known here.
 */
static double start_instant(double lead) {
  barrier(); /* a rank that is late once must not stay late */
  double instant = now() + lead;
  MPI_Bcast(&instant, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  double t = now();
  if (t > instant) return NAN;
  while (t < instant) t = now();
  return t;
}

/*
 * More ranks than processors: spinning would keep a rank from the processor that it waits for. So everybody reports at
 * one pipe and sleeps in read() of another; rank 0 closes that one's writing end, and the kernel wakes all of them at
 * once with an end of file. Two pipes take turns, since a closed one can be opened again only when its readers have
 * left. No library has a part in it, so it is equal for all. (A rank whose wait has returned must not be needed for the
 * progress of others; else the job hangs and nbcbench says so.)
 */
static double start_gate(void) {
  char bytes[1024];
  int gate = next_gate;
  next_gate = !gate;
  if (rank == 0) {
    for (int missing = size - 1; missing > 0;) {
      ssize_t got = read(gate_in, bytes, missing < (int)sizeof bytes ? missing : (int)sizeof bytes);
      if (got <= 0) fail("the start gate is broken: %s", strerror(errno));
      missing -= (int)got;
    }
    if (gates[!gate] < 0) gates[!gate] = open_fifo(gate_names[!gate], O_WRONLY);
    double released = now(); /* waking all the others takes its time, and the clock runs */
    close(gates[gate]);
    gates[gate] = -1;
    return released;
  }
  if (write(gate_in, bytes, 1) != 1 || read(gates[gate], bytes, 1) != 0) {
    fail("the start gate is broken: %s", strerror(errno));
  }
  return now();
}

static double start_together(enum start start, double lead) {
  switch (start) {
    case INSTANT:
      return start_instant(lead);
    case GATE:
      return start_gate();
    default:
      barrier();
      return now();
  }
}

/* ---- one batch of repetitions ---- */

struct batch {
  enum mode mode;
  enum op op;
  long bytes;
  double compute; /* microseconds of work */
  int tests;      /* how many, equally spaced over the work; the first at its beginning, the last at its end */
  int repetitions;
  enum start start;
  double lead;
};

static struct sample repeat(const struct batch* b, int64_t steps, int64_t chunk) {
  MPI_Request request;
  int flag;
  double began = start_together(b->start, b->lead), t0 = b->start == GATE ? now() : began, t1, t2, t3;
  struct sample s = {.start =
                         b->start == INSTANT ? began - began : began}; /* an instant is the same for all: 0, or NaN */
  switch (b->mode) {
    case BLOCKING:
      begin(b->op, (int)b->bytes, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      s.total = now() - began - timer_cost;
      break;
    case OVERLAP:
      begin(b->op, (int)b->bytes, &request);
      t1 = now();
      if (b->tests < 2) {
        if (b->tests == 1) {
          MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
          s.test = now() - t1 - timer_cost;
        }
        sink = work(steps, sink);
      } else {
        for (int k = 0; k < b->tests; k++) {
          if (k > 0) sink = work(chunk, sink);
          double before = now();
          MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
          s.test += now() - before - timer_cost;
        }
      }
      t2 = now();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      t3 = now();
      s.init = t1 - t0 - timer_cost;
      s.wait = t3 - t2 - timer_cost;
      s.total = t3 - began - timer_cost;
      break;
    default:
      sink = work(steps, sink);
      s.total = now() - began - timer_cost;
  }
  return s;
}

static void write_result(const void* data, size_t bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/result.%d", directory, rank);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
    fail("cannot write %s: %s", path, strerror(errno));
}

static void run(const struct batch* b) {
  prepare(b->op, b->bytes);
  int64_t steps = (int64_t)llround(b->compute * work_rate);
  int64_t chunk = b->tests > 1 ? (int64_t)llround(b->compute * work_rate / (b->tests - 1)) : 0;
  struct sample* samples = malloc(sizeof *samples * b->repetitions);
  if (!samples) fail("no memory for %d samples", b->repetitions);
  memset(samples, 0, sizeof *samples * b->repetitions); /* every page exists */
  for (int i = 0; i < b->repetitions; i++) samples[i] = repeat(b, steps, chunk);
  write_result(samples, sizeof *samples * b->repetitions);
  free(samples);
}

/* ---- processor time of ranks that wait: everybody gathers, the root joins late ---- */

/* Beyond every eager limit: smaller blocks leave a rank at once, and it would not wait. */
enum { WAIT_BYTES = 256 * 1024 };

static double processor_time(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec * 1e6 + u.ru_utime.tv_usec + u.ru_stime.tv_sec * 1e6 + u.ru_stime.tv_usec;
}

static void wait_for_root(double seconds) {
  MPI_Request request;
  prepare(IGATHER, WAIT_BYTES);
  begin(IGATHER, WAIT_BYTES, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE); /* connected: what is measured is waiting alone */
  barrier();
  double cpu = processor_time(), t = now();
  if (rank == 0) {
    struct timespec pause = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&pause, &pause)) {
    }
  }
  begin(IGATHER, WAIT_BYTES, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  double result[2] = {processor_time() - cpu, now() - t};
  barrier();
  write_result(result, sizeof result);
}

/* ---- round trips ---- */

/* Of each, on rank 0, its time; rank 1 sends back what it has received. */
static void round_trips(long bytes, int repetitions) {
  char *outgoing = filled(bytes), *incoming = filled(bytes);
  int count = rank == 0 ? repetitions : 0;
  double* found = malloc(sizeof *found * (count + 1));
  if (!found) fail("no memory for %d samples", count);
  for (long i = 0; i < bytes; i++) outgoing[i] = pattern(0, 1, i);
  barrier();
  for (int i = 0; i < repetitions && rank < 2; i++) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    if (rank == 1) {
      MPI_Irecv(incoming, (int)bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[0]);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      MPI_Isend(incoming, (int)bytes, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &requests[1]);
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
      continue;
    }
    double t = now();
    MPI_Irecv(incoming, (int)bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(outgoing, (int)bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    found[i] = now() - t - timer_cost;
  }
  for (long i = 0; i < bytes && rank == 0; i++)
    if ((unsigned char)incoming[i] != pattern(0, 1, i)) fail("wrong data: round trip of %ld bytes, byte %ld", bytes, i);
  write_result(found, sizeof *found * count);
  free(found);
  free(outgoing);
  free(incoming);
}

/* ---- commands ---- */

static int named(const char* name, const char* const* names, int count) {
  for (int i = 0; i < count; i++)
    if (!strcmp(name, names[i])) return i;
  fail("unknown word in a command: %s", name);
}

/*
 * commands:
 *   calibrate                                                          measures the clock and work(); result: cost,
 *                                                                      rate
 *   check OP BYTES BUFFERS                                             runs OP once on a pattern and verifies the data
 *   run MODE OP BYTES BUFFERS COMPUTE TESTS REPETITIONS START LEAD     result: a struct sample for each repetition
 *   wait SECONDS HOW                                                   result: processor time, elapsed time
 *   pingpong BYTES REPETITIONS                                         result: on rank 0 the time of each round trip
 *   quit
 */
static int obey(const char* line) {
  char word[3][32];
  struct batch b;
  double seconds;
  if (!strcmp(line, "quit\n")) return 0;
  if (!strcmp(line, "calibrate\n")) {
    calibrate();
    write_result((double[]){timer_cost, work_rate}, 2 * sizeof(double));
  } else if (sscanf(line, "check %31s %ld", word[0], &b.bytes) == 2) {
    check(named(word[0], op_names, OPS), b.bytes);
    barrier();
  } else if (sscanf(line, "run %31s %31s %ld %*s %lf %d %d %31s %lf", word[0], word[1], &b.bytes, &b.compute, &b.tests,
                    &b.repetitions, word[2], &b.lead) == 8) {
    b.mode = named(word[0], mode_names, MODES);
    b.op = named(word[1], op_names, OPS);
    b.start = named(word[2], start_names, STARTS);
    run(&b);
  } else if (sscanf(line, "wait %lf", &seconds) == 1) {
    wait_for_root(seconds);
  } else if (sscanf(line, "pingpong %ld %d", &b.bytes, &b.repetitions) == 2) {
    round_trips(b.bytes, b.repetitions);
  } else {
    fail("unknown command: %s", line);
  }
  return 1;
}

/* Before MPI_Init, so that threads of the MPI inherit it; the launcher is told not to bind. */
static void bind_to(const char* cpus) {
  const char* name = getenv("OMPI_COMM_WORLD_RANK");
  if (!name) name = getenv("PMI_RANK");
  if (!strcmp(cpus, "-") || !name) return;
  for (int skip = atoi(name); skip > 0 && cpus; skip--) {
    cpus = strchr(cpus, ',');
    if (cpus) cpus++;
  }
  if (!cpus) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(atoi(cpus), &set);
  if (sched_setaffinity(0, sizeof set, &set)) fail("cannot bind to processor %s: %s", cpus, strerror(errno));
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: nbcbench_mpi DIRECTORY CPUS (started by nbcbench --peers)\n");
    return 2;
  }
  directory = argv[1];
  bind_to(argv[2]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  char name[32], line[512];
  snprintf(name, sizeof name, "ctl.%d", rank);
  done = open_fifo("done", O_WRONLY);
  control = open_fifo(name, O_RDONLY);
  gate_in = open_fifo("gate.in", rank == 0 ? O_RDONLY : O_WRONLY);
  for (int i = 0; i < 2 && size > 1; i++) gates[i] = open_fifo(gate_names[i], rank == 0 ? O_WRONLY : O_RDONLY);
  barrier();

  for (int go_on = 1; go_on;) {
    int length = snprintf(line, sizeof line, "%d ok\n", rank);
    if (write(done, line, length) != length) break;
    ssize_t got = 0; /* one command is outstanding at a time, so what read() returns ends with its end of line */
    do {
      ssize_t more = read(control, line + got, sizeof line - 1 - got);
      if (more <= 0) exit(1); /* nbcbench is gone */
      got += more;
    } while (line[got - 1] != '\n');
    line[got] = 0;
    go_on = obey(line);
  }
  release_buffers();
  MPI_Finalize();
  return 0;
}
