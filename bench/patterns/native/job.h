// One case: its processes, its phases, its row.
#pragma once
#include <functional>
#include <string>

#include "case.h"

namespace nbc::patterns {

// Returns a row of JSON. Throws FabricError.
std::string measure(const Case& c);

// Runs this in a process of its own, so that what a library leaves behind goes with it. Returns what it returned;
// throws what it threw.
std::string apart(const std::function<std::string()>& function);

}  // namespace nbc::patterns
