// Every counter of stats(), with the name that JavaScript sees. src/counters.ts has the unit, the transports and the
// description of each; a test compares the two lists.
#pragma once
#include <cstdint>
#include <functional>
#include <iterator>

namespace nbc {

#define NBC_COUNTERS(X)                          \
  /* the engine and LibOF: on all transports */  \
  X(started, "started")                          \
  X(rounds, "rounds")                            \
  X(eager_sent, "eagerSent")                     \
  X(eager_stalled, "eagerStalled")               \
  X(eager_unexpected, "eagerUnexpected")         \
  X(acks_piggybacked, "acksPiggybacked")         \
  X(acks_explicit, "acksExplicit")               \
  X(rtr_sent, "rtrSent")                         \
  X(rtr_stalled, "rtrStalled")                   \
  X(rtr_early, "rtrEarly")                       \
  X(rts_sent, "rtsSent")                         \
  X(data_sent, "dataSent")                       \
  X(connections, "connections")                  \
  X(progress_wakeups, "progressWakeups")         \
  X(progress_passes, "progressPasses")           \
  X(loop_wakeups, "loopWakeups")                 \
  X(moves, "moves")                              \
  X(allocated_bytes, "allocatedBytes")           \
  /* more than one fabric */                     \
  X(parks, "parks")                              \
  X(events, "events")                            \
  /* shared memory */                            \
  X(mapped_bytes, "mappedBytes")                 \
  X(cross_memory_bytes, "crossMemoryBytes")      \
  X(staged_bytes, "stagedBytes")                 \
  X(helped_pieces, "helpedPieces")               \
  X(doorbells, "doorbells")                      \
  /* TCP */                                      \
  X(frames_sent, "framesSent")                   \
  X(frames_received, "framesReceived")           \
  X(socket_writes, "socketWrites")               \
  X(socket_reads, "socketReads")                 \
  X(bytes_sent, "bytesSent")                     \
  X(bytes_received, "bytesReceived")             \
  X(bytes_copied, "bytesCopied")                 \
  X(connections_accepted, "connectionsAccepted") \
  X(connections_refused, "connectionsRefused")   \
  /* verbs */                                    \
  X(work_requests, "workRequests")               \
  X(chains, "chains")                            \
  X(inlined_writes, "inlinedWrites")             \
  X(signalled_writes, "signalledWrites")         \
  X(sends, "sends")                              \
  X(credit_messages, "creditMessages")           \
  X(credits_returned, "creditsReturned")         \
  X(credit_waits, "creditWaits")                 \
  X(receives_refilled, "receivesRefilled")       \
  X(probes, "probes")                            \
  X(cache_hits, "cacheHits")                     \
  X(cache_misses, "cacheMisses")                 \
  X(cache_evictions, "cacheEvictions")           \
  X(cache_expired, "cacheExpired")               \
  X(cache_stale, "cacheStale")

#define NBC_COUNTER_ENTRY(counter, name) counter,
enum class Counter : uint8_t { NBC_COUNTERS(NBC_COUNTER_ENTRY) };
#undef NBC_COUNTER_ENTRY

#define NBC_COUNTER_ENTRY(counter, name) name,
inline constexpr const char* kCounterNames[] = {NBC_COUNTERS(NBC_COUNTER_ENTRY)};
#undef NBC_COUNTER_ENTRY

constexpr const char* name_of(Counter counter) { return kCounterNames[static_cast<size_t>(counter)]; }

using CounterVisitor = std::function<void(Counter, double)>;

}  // namespace nbc
