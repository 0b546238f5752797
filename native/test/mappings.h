// What the kernel tells about the memory of this process.
#pragma once
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <sys/prctl.h>

#include "test/check.h"

namespace nbc::check {

inline uintptr_t number_of(const void* at) { return reinterpret_cast<uintptr_t>(at); }

// A line of /proc/self/smaps about the mapping at this address; −1: it has none.
inline int64_t mapping_has(const void* at, const std::string& wanted) {
  std::ifstream lines("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(lines, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      here = begin <= number_of(at) && number_of(at) < end;
    } else if (here && line.rfind(wanted + ":", 0) == 0) {
      return std::stoll(line.substr(wanted.size() + 1));
    }
  }
  return -1;
}

// Calls with the first address of each mapping of this process, and the one behind it.
template <typename Action>
void for_each_mapping(Action&& action) {
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) action(begin, end);
  }
}

// Empty: huge pages of this size can be had, where the kernel allows them.
inline std::string why_they_do_not_fit(size_t wanted) {
  size_t bytes = 0;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> bytes;
  if (bytes == 0) return "this kernel has no transparent huge pages";
  if (bytes != wanted) return "a huge page has " + std::to_string(bytes) + " bytes here";
  if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) != 0) return "they are turned off for this process";
  return {};
}

}  // namespace nbc::check
