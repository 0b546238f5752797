// Connects queue pairs beside the engine. To move one to where it receives, the kernel resolves the peer's address, and
// the call blocks meanwhile, up to a second; it fails with ETIMEDOUT where the peer's machine did not answer in time,
// for example because a link is away for a moment. Such an attempt is repeated, until the peer's time has passed. The
// queue pairs take turns, so one that fails again and again delays another by one attempt at most.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "fabric/fabric.h"
#include "fabric/verbs/beside.h"
#include "fabric/verbs/ibverbs.h"

namespace nbc::verbs {

// Takes one queue pair from "initialised" to "ready to send".
struct Steps {
  ibv_qp* pair = nullptr;
  ibv_qp_attr receive{};
  int receive_mask = 0;
  ibv_qp_attr send{};
  int send_mask = 0;
};

struct PairToConnect {
  Rank peer;
  Steps steps;
  int64_t deadline;
};

struct PairConnected {
  Rank peer = 0;
  std::string why;  // empty: it is connected
};

class Connecting : public Beside<PairToConnect, PairConnected> {
 public:
  using Modify = std::function<int(ibv_qp*, ibv_qp_attr*, int)>;  // as ibv_modify_qp(3)
  using Result = PairConnected;

  // `milliseconds`: how long an attempt is repeated. Throws FabricError.
  Connecting(Modify modify, int64_t milliseconds);
  ~Connecting() { stop(); }

  // The queue pair must live until its result is there, or stop() has returned.
  void start(Rank peer, const Steps& steps) { Beside::start({peer, steps, now_milliseconds() + milliseconds_}); }

 private:
  int64_t attempt(PairToConnect& pair, PairConnected& result);

  Modify modify_;
  int64_t milliseconds_;
};

}  // namespace nbc::verbs
