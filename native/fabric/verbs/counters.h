// What a verbs fabric counts; world.stats() shows it.
#pragma once
#include <cstdint>

namespace nbc::verbs {

struct VerbsCounters {
  uint64_t work_requests = 0;  // posted, of every kind but receives
  uint64_t chains = 0;         // calls that posted them
  uint64_t inlined = 0;        // of the requests: data went with it
  uint64_t signalled = 0;      // of the requests: asked for a completion
  uint64_t sends = 0;          // of the requests: SENDs, credit messages among them
  uint64_t credit_messages = 0;
  uint64_t credits_returned = 0;  // to peers, by any SEND
  uint64_t credit_waits = 0;      // times that a connection had something to send and no credit for it
  uint64_t receives_refilled = 0;
  uint64_t parks = 0;
  uint64_t probes = 0;  // are you there?
};

}  // namespace nbc::verbs
