#include "fabric/ucx/parking.h"

#include <sys/epoll.h>

namespace nbc::ucx {
namespace {

enum Source : uint32_t { kWorker, kBootstrap };

}  // namespace

Parking::Parking(int descriptor, cards::Bootstrap& bootstrap)
    : Sleepers("ucx"), descriptor_(descriptor), bootstrap_(bootstrap) {
  for (const Sleeper who : {Sleeper::caller, Sleeper::progress}) {
    add(who, descriptor_, 0, kWorker);
    if (bootstrap_.descriptor() >= 0) add(who, bootstrap_.descriptor(), EPOLLIN, kBootstrap);
  }
}

// Once: it stays readable until the worker is armed again, and must not wake anybody a second time until then.
void Parking::arm(Sleeper who) {
  if (watcher_ != who && watcher_ != Sleeper::nobody) change(watcher_, descriptor_, 0, kWorker);
  change(who, descriptor_, EPOLLIN | EPOLLONESHOT, kWorker);
  watcher_ = who;
  mark_armed(who);
}

bool Parking::sleep(Sleeper who, int64_t nanoseconds) {
  uint32_t sources[kMost];
  const int count = Sleepers::sleep(who, nanoseconds, sources);
  for (int i = 0; i < count; ++i) {
    if (sources[i] == kWorker) {
      fired(who, 1);
    } else {
      bootstrap_.drain();
      note_call();
      if (who == Sleeper::progress && is_armed_for(Sleeper::caller)) ring(Sleeper::caller);
    }
  }
  return count >= 0;
}

}  // namespace nbc::ucx
