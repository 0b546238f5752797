// How much of the processors' time a container may take: the kernel stops all that runs in it, for the rest of a period
// of mostly 100 ms, when it has used as much. No mask of processors shows it.
#pragma once
#include <cstdint>
#include <string>

namespace nbc::job {

// As many processors as may be busy all the time, at least one. UINT32_MAX: all. Of this process, as it was at the
// first call.
uint32_t processor_quota();

// Reads the limits of control groups, of version 1 and 2, those above included: the least counts. `root` stands before
// every path.
uint32_t read_processor_quota(const std::string& root);

}  // namespace nbc::job
