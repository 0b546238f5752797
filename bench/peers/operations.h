/*
 * The operations that nbcbench measures, on MPI: the table of bench/nbcbench/operations.ts in the same words, a row for
 * each. A row says how many blocks a rank sends and receives, what the received blocks are, and starts the operation.
 */
#ifndef NBCBENCH_OPERATIONS_H
#define NBCBENCH_OPERATIONS_H

#include <mpi.h>
#include <stdlib.h>

static int rank, size;

/* The buffers of the current operation; those that the rank does not have are NULL. Blocks lie one behind the other. */
static struct {
  const struct operation* operation;
  long bytes; /* of a block */
  int count;  /* elements of a block */
  char *send, *receive;
  /* Of operations with counts, for each block: elements, where it begins in elements and in bytes, and its type. */
  int *counts, *displacements, *offsets;
  MPI_Aint* addresses;
  MPI_Datatype* types;
} buffers = {.bytes = -1};

/* The same ranks, each with the ones before and after it as neighbours; once an operation needs them. */
static MPI_Comm ring = MPI_COMM_NULL;

/* What arrives as one block: block `block` of what the ranks from `first` to `last` send, added up. */
struct source {
  int first, last, block;
};

/* Bytes of an element: of MPI_BYTE, and of MPI_DOUBLE, which reductions add up. */
enum element { MOVED = 1, REDUCED = sizeof(double) };

struct operation {
  const char* name;
  enum element element;
  int neighbors;     /* whether it is one on the ring */
  int (*send)(void); /* blocks; 0: the rank passes NULL */
  int (*receive)(void);
  struct source (*source)(int index); /* what block `index` of the blocks received is */
  void (*begin)(MPI_Request* request);
};

static int none(void) { return 0; }
static int one(void) { return 1; }
static int all(void) { return size; }
static int two(void) { return 2; } /* one for each neighbour */
static int one_at_root(void) { return rank == 0 ? 1 : 0; }
static int all_at_root(void) { return rank == 0 ? size : 0; }
static int one_elsewhere(void) { return rank == 0 ? 0 : 1; }

static void make_ring(void) { MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring); }

#define UNUSED __attribute__((unused))

static struct source root(int index UNUSED) { return (struct source){0, 0, 0}; }
static struct source roots_for_me(int index UNUSED) { return (struct source){0, 0, rank}; }
static struct source each(int index) { return (struct source){index, index, 0}; }
static struct source each_for_me(int index) { return (struct source){index, index, rank}; }
static struct source sum(int index UNUSED) { return (struct source){0, size - 1, 0}; }
static struct source sum_for_me(int index UNUSED) { return (struct source){0, size - 1, rank}; }
static struct source sum_up_to_me(int index UNUSED) { return (struct source){0, rank, 0}; }
static struct source sum_before_me(int index UNUSED) { return (struct source){0, rank - 1, 0}; }
static struct source neighbor(int index) { return each((rank + (index ? 1 : size - 1)) % size); }

static void begin_ibarrier(MPI_Request* request) { MPI_Ibarrier(MPI_COMM_WORLD, request); }

static void begin_ibcast(MPI_Request* request) {
  MPI_Ibcast(rank == 0 ? buffers.send : buffers.receive, buffers.count, MPI_BYTE, 0, MPI_COMM_WORLD, request);
}

static void begin_iscatter(MPI_Request* request) {
  MPI_Iscatter(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, 0, MPI_COMM_WORLD,
               request);
}

static void begin_iscatterv(MPI_Request* request) {
  MPI_Iscatterv(buffers.send, buffers.counts, buffers.displacements, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE,
                0, MPI_COMM_WORLD, request);
}

static void begin_igather(MPI_Request* request) {
  MPI_Igather(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, 0, MPI_COMM_WORLD,
              request);
}

static void begin_igatherv(MPI_Request* request) {
  MPI_Igatherv(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.counts, buffers.displacements, MPI_BYTE,
               0, MPI_COMM_WORLD, request);
}

static void begin_iallgather(MPI_Request* request) {
  MPI_Iallgather(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, MPI_COMM_WORLD,
                 request);
}

static void begin_iallgatherv(MPI_Request* request) {
  MPI_Iallgatherv(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.counts, buffers.displacements,
                  MPI_BYTE, MPI_COMM_WORLD, request);
}

static void begin_ialltoall(MPI_Request* request) {
  MPI_Ialltoall(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, MPI_COMM_WORLD,
                request);
}

static void begin_ialltoallv(MPI_Request* request) {
  MPI_Ialltoallv(buffers.send, buffers.counts, buffers.displacements, MPI_BYTE, buffers.receive, buffers.counts,
                 buffers.displacements, MPI_BYTE, MPI_COMM_WORLD, request);
}

static void begin_ialltoallw(MPI_Request* request) {
  MPI_Ialltoallw(buffers.send, buffers.counts, buffers.offsets, buffers.types, buffers.receive, buffers.counts,
                 buffers.offsets, buffers.types, MPI_COMM_WORLD, request);
}

static void begin_ireduce(MPI_Request* request) {
  MPI_Ireduce(buffers.send, buffers.receive, buffers.count, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD, request);
}

static void begin_iallreduce(MPI_Request* request) {
  MPI_Iallreduce(buffers.send, buffers.receive, buffers.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void begin_ireduce_scatter_block(MPI_Request* request) {
  MPI_Ireduce_scatter_block(buffers.send, buffers.receive, buffers.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void begin_ireduce_scatter(MPI_Request* request) {
  MPI_Ireduce_scatter(buffers.send, buffers.receive, buffers.counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void begin_iscan(MPI_Request* request) {
  MPI_Iscan(buffers.send, buffers.receive, buffers.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void begin_iexscan(MPI_Request* request) {
  MPI_Iexscan(buffers.send, buffers.receive, buffers.count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

static void begin_ineighbor_allgather(MPI_Request* request) {
  MPI_Ineighbor_allgather(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, ring,
                          request);
}

static void begin_ineighbor_allgatherv(MPI_Request* request) {
  MPI_Ineighbor_allgatherv(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.counts,
                           buffers.displacements, MPI_BYTE, ring, request);
}

static void begin_ineighbor_alltoall(MPI_Request* request) {
  MPI_Ineighbor_alltoall(buffers.send, buffers.count, MPI_BYTE, buffers.receive, buffers.count, MPI_BYTE, ring,
                         request);
}

static void begin_ineighbor_alltoallv(MPI_Request* request) {
  MPI_Ineighbor_alltoallv(buffers.send, buffers.counts, buffers.displacements, MPI_BYTE, buffers.receive,
                          buffers.counts, buffers.displacements, MPI_BYTE, ring, request);
}

static void begin_ineighbor_alltoallw(MPI_Request* request) {
  MPI_Ineighbor_alltoallw(buffers.send, buffers.counts, buffers.addresses, buffers.types, buffers.receive,
                          buffers.counts, buffers.addresses, buffers.types, ring, request);
}

/* In the order of src/operations/. */
static const struct operation operations[] = {
    {"ibarrier", MOVED, 0, none, none, root, begin_ibarrier},
    {"ibcast", MOVED, 0, one_at_root, one_elsewhere, root, begin_ibcast},
    {"iscatter", MOVED, 0, all_at_root, one, roots_for_me, begin_iscatter},
    {"iscatterv", MOVED, 0, all_at_root, one, roots_for_me, begin_iscatterv},
    {"igather", MOVED, 0, one, all_at_root, each, begin_igather},
    {"igatherv", MOVED, 0, one, all_at_root, each, begin_igatherv},
    {"iallgather", MOVED, 0, one, all, each, begin_iallgather},
    {"iallgatherv", MOVED, 0, one, all, each, begin_iallgatherv},
    {"ialltoall", MOVED, 0, all, all, each_for_me, begin_ialltoall},
    {"ialltoallv", MOVED, 0, all, all, each_for_me, begin_ialltoallv},
    {"ialltoallw", MOVED, 0, all, all, each_for_me, begin_ialltoallw},
    {"ireduce", REDUCED, 0, one, one_at_root, sum, begin_ireduce},
    {"iallreduce", REDUCED, 0, one, one, sum, begin_iallreduce},
    {"ireduceScatterBlock", REDUCED, 0, all, one, sum_for_me, begin_ireduce_scatter_block},
    {"ireduceScatter", REDUCED, 0, all, one, sum_for_me, begin_ireduce_scatter},
    {"iscan", REDUCED, 0, one, one, sum_up_to_me, begin_iscan},
    {"iexscan", REDUCED, 0, one, one, sum_before_me, begin_iexscan},
    {"ineighborAllgather", MOVED, 1, one, two, neighbor, begin_ineighbor_allgather},
    {"ineighborAllgatherv", MOVED, 1, one, two, neighbor, begin_ineighbor_allgatherv},
    {"ineighborAlltoall", MOVED, 1, two, two, neighbor, begin_ineighbor_alltoall},
    {"ineighborAlltoallv", MOVED, 1, two, two, neighbor, begin_ineighbor_alltoallv},
    {"ineighborAlltoallw", MOVED, 1, two, two, neighbor, begin_ineighbor_alltoallw},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

#endif
