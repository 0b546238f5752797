#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/connecting.h"

#include <cerrno>
#include <cstring>

namespace nbc::verbs {
namespace {

constexpr int64_t kPauseMilliseconds = 50;  // between two attempts of one queue pair, where they fail at once

bool may_pass(int error) { return error == ETIMEDOUT || error == EHOSTUNREACH || error == EAGAIN; }

}  // namespace

Connecting::Connecting(Modify modify, int64_t milliseconds)
    : Beside([this](PairToConnect& pair, PairConnected& result) { return attempt(pair, result); },
             "transport 'verbs': no descriptor to connect with"),
      modify_(std::move(modify)),
      milliseconds_(milliseconds) {}

int64_t Connecting::attempt(PairToConnect& pair, PairConnected& result) {
  Steps& steps = pair.steps;
  result.peer = pair.peer;
  int error = modify_(steps.pair, &steps.receive, steps.receive_mask);
  if (may_pass(error) && now_milliseconds() < pair.deadline) return kPauseMilliseconds;
  const char* what = "connecting a queue pair (is there a route to the peer?)";
  if (error == 0) {
    what = "starting a queue pair";
    error = modify_(steps.pair, &steps.send, steps.send_mask);
  }
  if (error != 0) result.why = std::string("transport 'verbs': ") + what + ": " + std::strerror(error);
  return 0;
}

}  // namespace nbc::verbs
#endif
