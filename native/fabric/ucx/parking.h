// Sleeping until UCX has something, without lost wake-ups (fabric/sleepers.h).
//
// The descriptor of the worker is looked for in the set of one of the two that sleep: the one that the worker was armed
// for last. It stays readable until the worker is armed again, which only the owner does.
//
//   owner                                            network
//   armed = me; look for the descriptor in my set        something happens: the descriptor is readable
//   arm the worker; if that says that something has
//   happened: progress, and arm again
//   look once more; if there is something:
//     armed = nobody, and handle it
//   else sleep on my set
//
// The descriptor of the bootstrap is in both sets; it is a call.
#pragma once
#include "fabric/cards/bootstrap.h"
#include "fabric/sleepers.h"

namespace nbc::ucx {

class Parking : public Sleepers {
 public:
  // `descriptor`: of the worker. Throws FabricError.
  Parking(int descriptor, cards::Bootstrap& bootstrap);

  void arm(Sleeper who);
  // False: the time has passed.
  bool sleep(Sleeper who, int64_t nanoseconds);

 private:
  int descriptor_;
  cards::Bootstrap& bootstrap_;
  Sleeper watcher_ = Sleeper::nobody;  // in whose set the descriptor is; owner
};

}  // namespace nbc::ucx
