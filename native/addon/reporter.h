// A rank that hangs cannot say so from JavaScript. A thread of its own does:
//
// - to nbcrun, which asks by a byte in the socket that NBC_REPORT_FD names, and gets a line of JSON for each;
// - at the signal whose number NBC_REPORT_SIGNAL has, on standard error (for tests);
// - by itself, where an operation makes no step for as long as the option `watchdog` says: to nbcrun, or else on
//   standard error.
//
// Without any of these there is no such thread.
#pragma once
#include <cstdint>

#include "engine/engine.h"

namespace nbc::addon::reporter {

// The engine to be reported from now on; null: none. Before an engine goes, it must be taken back. `watchdog`:
// milliseconds; 0: none.
void report(Engine* engine, int64_t watchdog);

}  // namespace nbc::addon::reporter
