// How much of the processors' time a container may take: the kernel stops all that runs in it, for the rest of a period
// of mostly 100 ms, when it has used as much. No mask of processors shows it.
#pragma once
#include <cstdint>
#include <string>

namespace nbc::job {

struct ProcessorQuota {
  // As many processors as may be busy all the time, at least one. UINT32_MAX: all.
  uint32_t processors = UINT32_MAX;
  // The control group that says so, by the number of its directory: equal for those that share the quota, also where a
  // container has other names for it. 0: none.
  uint64_t group = 0;
};

// Of this process, as it was at the first call.
const ProcessorQuota& processor_quota();

// Reads the limits of control groups, of version 1 and 2, those above included: the least counts. `root` stands before
// every path.
ProcessorQuota read_processor_quota(const std::string& root);

}  // namespace nbc::job
