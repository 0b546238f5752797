/*
 * Overlap without a library: how much of a computation is left when a thread beside it, on the same processor, does
 * nothing but move data through a socket, by plain system calls. Two processes, each on a processor of its own,
 * exchange a message, as an ialltoall on two ranks does.
 *
 *     gcc -O2 -pthread bench/tcp/plain.c -o plain && scripts/slow-link -- ./plain 16384
 *
 * Arguments: KiB that each sends (16384), repetitions (11). Prints overlap as nbcbench defines it: 100 % if
 * communication and computation together take no longer than the computation alone, 0 % if they take as long as one
 * after the other; the median on the slower process.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMost = 1001 };

struct Shared {
  pthread_barrier_t both;
  double overlap[2];
};

static struct Shared* shared;
static size_t bytes;
static char *out, *in;
static int fd;
static sem_t begin, end;
static volatile double sink;

static void need(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static double milliseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* Sleeps until it is told to exchange a message, then exchanges it: writes and reads what the socket takes and has,
 * and calls poll() when it has neither. */
static void* exchange(void* nothing) {
  for (;;) {
    sem_wait(&begin);
    size_t sent = 0, received = 0;
    while (sent < bytes || received < bytes) {
      const ssize_t more = sent < bytes ? send(fd, out + sent, bytes - sent, 0) : 0;
      if (more > 0) sent += more;
      need(more >= 0 || errno == EAGAIN, "send");
      const ssize_t come = received < bytes ? recv(fd, in + received, bytes - received, 0) : 0;
      if (come > 0) received += come;
      need(come > 0 || received == bytes || (come < 0 && errno == EAGAIN), "recv");
      if (more <= 0 && come <= 0 && (sent < bytes || received < bytes)) {
        struct pollfd wait = {fd, (sent < bytes ? POLLOUT : 0) | (received < bytes ? POLLIN : 0), 0};
        poll(&wait, 1, -1);
      }
    }
    sem_post(&end);
  }
  return nothing;
}

static void compute(long steps) {
  double value = 1;
  for (long step = 0; step < steps; ++step) value = value * 1.0000001 + 1e-9;
  sink = value;
}

/* Both begin together, after a moment in which the link has nothing to do. */
static double timed(int communicate, long steps) {
  usleep(10000);
  pthread_barrier_wait(&shared->both);
  const double start = milliseconds();
  if (communicate) sem_post(&begin);
  if (steps > 0) compute(steps);
  if (communicate) sem_wait(&end);
  const double time = milliseconds() - start;
  pthread_barrier_wait(&shared->both);
  return time;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int count, char** arguments) {
  bytes = (count > 1 ? strtoul(arguments[1], NULL, 10) : 16384) << 10;
  const int repetitions = count > 2 ? atoi(arguments[2]) : 11;
  if (bytes == 0 || repetitions < 1 || repetitions > kMost) {
    fprintf(stderr, "usage: plain [KIB [REPETITIONS]]\n");
    return 64;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(shared != MAP_FAILED, "mmap");
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->both, &attributes, 2);

  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  need(bind(listener, (struct sockaddr*)&address, length) == 0 && listen(listener, 1) == 0, "bind");
  getsockname(listener, (struct sockaddr*)&address, &length);
  const pid_t child = fork();
  need(child >= 0, "fork");
  const int rank = child == 0;
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(rank, &processor);
  need(sched_setaffinity(0, sizeof processor, &processor) == 0, "two processors are needed");
  fd = rank == 1 ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, NULL, NULL);
  need(fd >= 0 && (rank == 0 || connect(fd, (struct sockaddr*)&address, length) == 0), "connect");
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  out = malloc(bytes);
  in = malloc(bytes);
  memset(out, 1, bytes);
  memset(in, 1, bytes);
  sem_init(&begin, 0, 0);
  sem_init(&end, 0, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, exchange, NULL);

  const long probe = 100000000;
  const double per_step = timed(0, probe) / probe;
  timed(1, 0); /* warm-up */
  static double overlap[kMost];
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double communication = timed(1, 0);
    const long steps = (long)(communication / per_step);
    const double computation = timed(0, steps);
    overlap[repetition] = 1 - (timed(1, steps) - computation) / communication;
  }
  qsort(overlap, repetitions, sizeof *overlap, ascending);
  shared->overlap[rank] = overlap[repetitions / 2];
  pthread_barrier_wait(&shared->both);
  if (rank == 1) return 0;
  const double slower = shared->overlap[0] < shared->overlap[1] ? shared->overlap[0] : shared->overlap[1];
  printf("%zu KiB each way: overlap %.1f %%\n", bytes >> 10, 100 * slower);
  return waitpid(child, NULL, 0) == child ? 0 : 1;
}
