// What a network card refuses, in words that help: nearly always it is the limit of locked memory.
#pragma once
#include <cerrno>
#include <cstddef>
#include <string>

#include "fabric/fabric.h"

namespace nbc::verbs {

// `error`: errno of the registration that failed.
std::string registration_failure(size_t bytes, int error);

// The device refused to make or to enlarge something. Queues lie in locked memory, too.
FabricError device_refusal(const std::string& what, int error = errno);

}  // namespace nbc::verbs
