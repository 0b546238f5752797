// What all processes of one case share: a mapping that the parent makes before it forks.
//
//   parent      sets the phase: prepare → warm_up → measure → stop
//   all         meet: cards are written, connected, nothing is on its way any more
//   a client    its figures
//   responder   what its polling found
#pragma once
#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>
#include <unistd.h>

#include "case.h"
#include "fabric/verbs/reach.h"
#include "histogram.h"

namespace nbc::patterns {

enum class Phase : uint32_t { prepare, warm_up, measure, stop };
enum Meeting : uint32_t { cards_written, connected, all_quiet, kMeetings };

// How to reach one end of a queue pair, and the mailbox behind it.
struct Card {
  verbs::Port port;
  uint64_t mailbox;
  uint32_t mailbox_key;
  uint32_t queue_pair;
  uint32_t first_packet;
};

struct SendCounters {
  uint64_t work_requests = 0;
  uint64_t inlined = 0;
  uint64_t signalled = 0;
  void add(const SendCounters& other) {
    work_requests += other.work_requests;
    inlined += other.inlined;
    signalled += other.signalled;
  }
};

struct PollCounters {
  uint64_t looks = 0;  // at one mailbox, or into the completion queue
  uint64_t empty = 0;  // of them: found nothing new
  uint64_t torn = 0;   // messages whose end was there before their front
};

struct alignas(64) ClientFigures {
  std::atomic<uint32_t> requests{0};  // that count, so far
  Histogram latency;
  uint64_t begin_ns = 0;  // of the first request that counts
  uint64_t end_ns = 0;    // of the last
  SendCounters sends;
  PollCounters polls;
};

struct Control {
  std::atomic<Phase> phase{Phase::prepare};
  std::atomic<uint32_t> met[kMeetings] = {};
  std::atomic<uint32_t> clients_done{0};
  std::atomic<uint32_t> failed{0};
  char error[512] = {};  // of the first that failed
  Card clients[kMostClients] = {};
  Card responders[kMostClients] = {};  // the responder's end of each connection
  ClientFigures figures[kMostClients] = {};
  SendCounters responder_sends;
  PollCounters responder_polls;

  // Waits for all processes. A process that fails never comes; the parent then ends all.
  void meet(Meeting at, const Case& c) {
    met[at].fetch_add(1, std::memory_order_acq_rel);  // what we wrote before is seen by a thread that sees the count
    while (met[at].load(std::memory_order_acquire) < c.clients + 1) usleep(100);
  }
};

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace nbc::patterns
