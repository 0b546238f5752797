// For tests: a process that hangs says what it waits for. Where NBC_REPORT_SIGNAL names the number of a signal, each
// such signal makes a thread of its own write the pending operations to standard error. Without the variable there is
// neither handler nor thread.
#pragma once
#include "engine/engine.h"

namespace nbc::addon {

// The engine to be reported from now on; null: none. Before an engine goes, it must be taken back.
void report_on_signal(Engine* engine);

}  // namespace nbc::addon
