/*
 * One MPI rank of nbcbench: the method of bench/nbcbench/duties.ts and prepared.ts, line for line, on the operations of
 * operations.h. nbcbench compiles it with each MPI it finds and drives it over FIFOs:
 *
 *     nbcbench_mpi DIRECTORY CPUS        CPUS: "-", or the processor of each rank, "0,1,…"
 *
 *     DIRECTORY/ctl.R      commands to rank R, one line each; blocking in read() is how a rank waits for its turn
 *     DIRECTORY/done       answers of all ranks: "R ok" or "R error TEXT"
 *     DIRECTORY/result.R   doubles, rewritten by every command that measures
 *     DIRECTORY/gate.count, gate.in, gate.0, gate.1   the start gate for more ranks than processors (gate.h)
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

#include "gate.h"
#include "operations.h"

enum mode { BLOCKING, OVERLAP, COMPUTE, MODES };
enum start { INSTANT, GATE, BARRIER, OSU, STARTS };
enum writes { FRESH, SAME, WRITES };

static const char* const mode_names[MODES] = {"blocking", "overlap", "compute"};
static const char* const start_names[STARTS] = {"instant", "gate", "barrier", "osu"};
static const char* const write_names[WRITES] = {"fresh", "same"};

/*
 * One measured repetition, as it stands in the result file: when it began, how long its parts took, and how long it was
 * from the beginning to the end. NaN: this rank reached the agreed instant too late.
 */
struct sample {
  double start, init, test, wait, total;
};

static const char* directory;
static int control, done;
static struct gate gate;

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

static const struct operation* operation_named(const char* name) {
  for (int i = 0; i < OPERATIONS; i++)
    if (!strcmp(name, operations[i].name)) return &operations[i];
  fail("unknown operation: %s", name);
}

static void release_buffers(void) {
  void* owned[] = {buffers.send,    buffers.receive,   buffers.counts, buffers.displacements,
                   buffers.offsets, buffers.addresses, buffers.types};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  memset(&buffers, 0, sizeof buffers);
}

static void* memory(size_t bytes) {
  void* found = malloc(bytes ? bytes : 1);
  if (!found) fail("no memory for a buffer of %zu bytes", bytes);
  return found;
}

/* Every page exists before the first repetition. */
static char* filled(size_t bytes) { return memset(memory(bytes), 1, bytes); }

static void prepare(const struct operation* operation, long bytes) {
  if (buffers.operation == operation && buffers.bytes == bytes) return;
  release_buffers();
  if (operation->neighbors && ring == MPI_COMM_NULL) make_ring();
  buffers.operation = operation;
  buffers.bytes = bytes;
  buffers.count = (int)(bytes / operation->element);
  if (operation->send()) buffers.send = filled((size_t)bytes * operation->send());
  if (operation->receive()) buffers.receive = filled((size_t)bytes * operation->receive());
  int blocks = operation->neighbors ? 2 : size;
  buffers.counts = memory(blocks * sizeof *buffers.counts);
  buffers.displacements = memory(blocks * sizeof *buffers.displacements);
  buffers.offsets = memory(blocks * sizeof *buffers.offsets);
  buffers.addresses = memory(blocks * sizeof *buffers.addresses);
  buffers.types = memory(blocks * sizeof *buffers.types);
  for (int i = 0; i < blocks; i++) {
    buffers.counts[i] = buffers.count;
    buffers.displacements[i] = i * buffers.count;
    buffers.offsets[i] = (int)(i * bytes);
    buffers.addresses[i] = (MPI_Aint)i * bytes;
    buffers.types[i] = MPI_BYTE;
  }
}

static inline double element(const char* memory, size_t i) {
  return buffers.operation->element == REDUCED ? ((const double*)memory)[i] : ((const unsigned char*)memory)[i];
}

static void fill(char* memory, int blocks, double value) {
  size_t count = (size_t)blocks * buffers.count;
  if (!memory) return;
  if (buffers.operation->element == MOVED)
    memset(memory, (int)value, count);
  else
    for (size_t i = 0; i < count; i++) ((double*)memory)[i] = value;
}

/* What element `index` of block `block` of rank `from` is when data is checked. Added up, still exact. */
static double pattern(int from, int block, long index) { return (from * 31 + block * 17 + index * 7 + 3) & 255; }

/* What a rank writes into all it sends before a repetition. */
static int repetition_written;
static double written(int from, int block UNUSED, long index UNUSED) { return 1 + (repetition_written + from) % 100; }

/* Writes all buffers: new values into what is sent, 0 into what is received. */
static void write_buffers(int repetition) {
  repetition_written = repetition;
  fill(buffers.send, buffers.operation->send(), written(rank, 0, 0));
  fill(buffers.receive, buffers.operation->receive(), 0);
}

/* Compares elements of each block, `step` from one to the next. */
static void compare(double (*expected)(int from, int block, long index), int step) {
  for (int block = 0; buffers.receive && block < buffers.operation->receive(); block++) {
    struct source from = buffers.operation->source(block);
    for (int i = 0; i < buffers.count; i += step) {
      double found = element(buffers.receive, (size_t)block * buffers.count + i), right = 0;
      for (int r = from.first; r <= from.last; r++) right += expected(r, from.block, i);
      if (found != right)
        fail("wrong data: %s, block %d, element %d of %d: %g, not %g", buffers.operation->name, block, i, buffers.count,
             found, right);
    }
  }
}

/* Whether the ends of each block are what the ranks wrote before the last repetition. */
static void check_written(void) { compare(written, buffers.count > 2 ? buffers.count - 1 : 1); }

/*
 * Runs it once on a pattern, and compares each element. Neighbours all get the same: where two are the same rank, MPI
 * libraries disagree about the order of their blocks.
 */
static void check(void) {
  size_t count = (size_t)buffers.operation->send() * buffers.count;
  for (size_t i = 0; i < count; i++) {
    int block = buffers.operation->neighbors ? 0 : (int)(i / buffers.count);
    double value = pattern(rank, block, (long)(i % buffers.count));
    if (buffers.operation->element == REDUCED)
      ((double*)buffers.send)[i] = value;
    else
      buffers.send[i] = (char)value;
  }
  fill(buffers.receive, buffers.operation->receive(), 0);
  MPI_Request request;
  buffers.operation->begin(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  compare(pattern, 1);
}

/* ---- starting together ---- */

static int open_fifo(const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0) fail("cannot open %s: %s", path, strerror(errno));
  return fd;
}

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

/* More ranks than processors: see gate.h. */
static double start_gate(void) {
  double began = gate_pass(&gate);
  if (began < 0) fail("the start gate is broken: %s", strerror(errno));
  return began;
}

static double start_together(enum start start, double lead) {
  switch (start) {
    case INSTANT:
      return start_instant(lead);
    case GATE:
      return start_gate();
    case OSU:
      MPI_Barrier(MPI_COMM_WORLD);
      return now();
    default:
      barrier();
      return now();
  }
}

/* ---- one batch of repetitions ---- */

struct batch {
  enum mode mode;
  const struct operation* operation;
  long bytes;
  int fresh;      /* all buffers are written before each repetition, not only before the first */
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
  /* An instant is the same for all: 0, or NaN. With OSU each rank's own time counts. */
  struct sample s = {.start = b->start == INSTANT || b->start == OSU ? began - began : began};
  switch (b->mode) {
    case BLOCKING:
      b->operation->begin(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      s.total = now() - began - timer_cost;
      break;
    case OVERLAP:
      b->operation->begin(&request);
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
  prepare(b->operation, b->bytes);
  int64_t steps = (int64_t)llround(b->compute * work_rate);
  int64_t chunk = b->tests > 1 ? (int64_t)llround(b->compute * work_rate / (b->tests - 1)) : 0;
  struct sample* samples = malloc(sizeof *samples * b->repetitions);
  if (!samples) fail("no memory for %d samples", b->repetitions);
  memset(samples, 0, sizeof *samples * b->repetitions); /* every page exists */
  for (int i = 0; i < b->repetitions; i++) {
    if (b->fresh || i == 0) write_buffers(i);
    samples[i] = repeat(b, steps, chunk);
  }
  if (b->mode != COMPUTE) check_written();
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
  const struct operation* igather = operation_named("igather");
  prepare(igather, WAIT_BYTES);
  igather->begin(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE); /* connected: what is measured is waiting alone */
  barrier();
  double cpu = processor_time(), t = now();
  if (rank == 0) {
    struct timespec pause = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&pause, &pause)) {
    }
  }
  igather->begin(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  double result[2] = {processor_time() - cpu, now() - t};
  barrier();
  write_result(result, sizeof result);
}

/* ---- round trips ---- */

/* Of each, on rank 0, its time; rank 1 sends back what it has received. */
static void round_trips(long bytes, int repetitions, int fresh) {
  char *outgoing = filled(bytes), *incoming = filled(bytes);
  int count = rank == 0 ? repetitions : 0;
  double* found = malloc(sizeof *found * (count + 1));
  if (!found) fail("no memory for %d samples", count);
  int value = 0;
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
    if (fresh || i == 0) {
      memset(outgoing, value = 1 + i % 100, bytes);
      memset(incoming, 0, bytes);
    }
    double t = now();
    MPI_Irecv(incoming, (int)bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(outgoing, (int)bytes, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    found[i] = now() - t - timer_cost;
  }
  for (long i = 0; i < bytes && count > 0; i++)
    if (incoming[i] != value) fail("wrong data: round trip of %ld bytes, byte %ld", bytes, i);
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
 * Commands, and what they leave as a result:
 *   calibrate                     measures the clock and work(); cost, rate
 *   check OP BYTES BUFFERS FORM   runs OP once on a pattern and verifies the data
 *   run MODE OP BYTES BUFFERS FORM WRITES COMPUTE TESTS REPETITIONS START LEAD
 *                                 a struct sample for each repetition; verifies what the last one received
 *   wait SECONDS HOW              processor time, elapsed time
 *   pingpong BYTES REPETITIONS WRITES
 *                                 on rank 0 the time of each round trip
 *   quit
 */
static int obey(const char* line) {
  char word[4][32];
  struct batch b;
  double seconds;
  if (!strcmp(line, "quit\n")) return 0;
  if (!strcmp(line, "calibrate\n")) {
    calibrate();
    write_result((double[]){timer_cost, work_rate}, 2 * sizeof(double));
  } else if (sscanf(line, "check %31s %ld", word[0], &b.bytes) == 2) {
    prepare(operation_named(word[0]), b.bytes);
    check();
    barrier();
  } else if (sscanf(line, "run %31s %31s %ld %*s %*s %31s %lf %d %d %31s %lf", word[0], word[1], &b.bytes, word[2],
                    &b.compute, &b.tests, &b.repetitions, word[3], &b.lead) == 9) {
    b.mode = named(word[0], mode_names, MODES);
    b.operation = operation_named(word[1]);
    b.fresh = named(word[2], write_names, WRITES) == FRESH;
    b.start = named(word[3], start_names, STARTS);
    run(&b);
  } else if (sscanf(line, "wait %lf", &seconds) == 1) {
    wait_for_root(seconds);
  } else if (sscanf(line, "pingpong %ld %d %31s", &b.bytes, &b.repetitions, word[0]) == 3) {
    round_trips(b.bytes, b.repetitions, named(word[0], write_names, WRITES) == FRESH);
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
  if (!gate_open(&gate, directory, rank, size)) fail("cannot open the start gate: %s", strerror(errno));
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
